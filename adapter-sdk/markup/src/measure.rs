//! Lengths as platforms count them.

use unicode_segmentation::UnicodeSegmentation;

/// What a platform counts.
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

/// The longest text one message holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// How many units; `0` means no limit.
    pub max: u32,
    /// What is counted.
    pub unit: Unit,
}

impl Limit {
    /// No limit.
    pub const NONE: Self = Self { max: 0, unit: Unit::Scalars };

    /// `max` units of `unit`.
    pub const fn new(max: u32, unit: Unit) -> Self {
        Self { max, unit }
    }
}

/// Returns how long `text` is in `unit`.
pub fn measure(text: &str, unit: Unit) -> usize {
    match unit {
        Unit::Bytes => text.len(),
        // ASCII is the common case and the same length in every unit but graphemes (CR LF is one).
        Unit::Utf16 | Unit::Scalars if text.is_ascii() => text.len(),
        Unit::Utf16 => text.chars().map(char::len_utf16).sum(),
        Unit::Scalars => text.chars().count(),
        Unit::Graphemes => text.graphemes(true).count(),
    }
}
