//! Lengths as platforms count them.

use unicode_segmentation::UnicodeSegmentation;

/// The unit in which a platform counts a text's length.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Unit {
    /// UTF-16 code units.
    Utf16,
    /// Unicode scalar values.
    Scalars,
    /// Bytes of UTF-8.
    Bytes,
    /// Grapheme clusters.
    Graphemes,
}

/// The maximum length of one message's text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// The maximum, in `unit`; `0` means no limit.
    pub max: u32,
    /// The unit of `max`.
    pub unit: Unit,
}

impl Limit {
    /// No limit.
    pub const NONE: Self = Self { max: 0, unit: Unit::Scalars };

    /// Creates a limit of `max` units of `unit`.
    pub const fn new(max: u32, unit: Unit) -> Self {
        Self { max, unit }
    }
}

/// Returns the length of `text` in `unit`.
pub fn measure(text: &str, unit: Unit) -> usize {
    match unit {
        Unit::Bytes => text.len(),
        // Most texts are ASCII, whose length is the same in every unit except graphemes (CR LF is one).
        Unit::Utf16 | Unit::Scalars if text.is_ascii() => text.len(),
        Unit::Utf16 => text.chars().map(char::len_utf16).sum(),
        Unit::Scalars => text.chars().count(),
        Unit::Graphemes => text.graphemes(true).count(),
    }
}
