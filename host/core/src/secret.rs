//! Values that must not be printed, and a mask for texts that may contain them.

use std::fmt;

use serde::{Deserialize, Deserializer};

/// Replacement of a secret in a text.
pub const MASK: &str = "[hidden]";

/// Shortest secret that is masked in texts, in bytes. A shorter one would hide ordinary words.
pub const MASKED_BYTES_MIN: usize = 4;

/// Shortest secret that is masked inside a longer word, in characters. A shorter one is masked only as a separate word.
pub const WHOLE_CHARS_MIN: usize = 8;

/// A value that cannot be printed. [`Secret::expose`] is the only access to its text, so that all uses can be
/// found by that name.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Wraps a value.
    pub fn new(value: impl Into<String>) -> Self {
        Self(value.into())
    }

    /// Returns the value itself. Never pass it to a log, an error or a status page.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Returns true if the value is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(MASK)
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(MASK)
    }
}

impl From<String> for Secret {
    fn from(value: String) -> Self {
        Self(value)
    }
}

impl From<&str> for Secret {
    fn from(value: &str) -> Self {
        Self(value.to_owned())
    }
}

impl<'de> Deserialize<'de> for Secret {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(Self)
    }
}

/// Returns `text` with the secrets replaced by [`MASK`]. A secret of fewer than [`WHOLE_CHARS_MIN`] characters is
/// replaced only where it is a separate word.
///
/// Overlapping occurrences are masked as one piece, so that no remainder of the second one is visible.
pub fn mask(text: &str, secrets: &[Secret]) -> String {
    let mut hits: Vec<(usize, usize)> = secrets
        .iter()
        .filter(|secret| secret.0.len() >= MASKED_BYTES_MIN)
        .flat_map(|secret| {
            let is_short = secret.0.chars().count() < WHOLE_CHARS_MIN;
            occurrences(text, &secret.0).into_iter().filter(move |hit| !is_short || is_alone(text, *hit))
        })
        .collect();
    if hits.is_empty() {
        return text.to_owned();
    }
    hits.sort_unstable();

    let mut masked = String::with_capacity(text.len());
    let mut shown = 0;
    for (start, end) in hits {
        if start >= shown {
            masked.push_str(&text[shown..start]);
            masked.push_str(MASK);
        }
        shown = shown.max(end);
    }
    masked.push_str(&text[shown..]);
    masked
}

/// Returns true if no letter or digit is next to a range of `text`.
fn is_alone(text: &str, (start, end): (usize, usize)) -> bool {
    let is_word = |next: Option<char>| next.is_some_and(char::is_alphanumeric);
    !is_word(text[..start].chars().next_back()) && !is_word(text[end..].chars().next())
}

/// Returns every occurrence of `needle` in `text`, including overlapping ones, as byte ranges.
fn occurrences(text: &str, needle: &str) -> Vec<(usize, usize)> {
    let step = needle.chars().next().map_or(1, char::len_utf8);
    let mut found = Vec::new();
    let mut from = 0;
    while let Some(at) = text[from..].find(needle) {
        let start = from + at;
        found.push((start, start + needle.len()));
        from = start + step;
    }
    found
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_secret_prints_as_a_mask_and_reads_from_json() {
        let secret: Secret = serde_json::from_str("\"hunter22\"").unwrap();
        assert_eq!(secret.expose(), "hunter22");
        assert_eq!(format!("{secret} {secret:?} {:?}", Some(&secret)), "[hidden] [hidden] Some([hidden])");
    }

    #[test]
    fn overlapping_secrets_leave_no_rest() {
        let secrets = [Secret::new("abcd0123"), Secret::new("0123efgh"), Secret::new("")];
        assert_eq!(mask("x abcd0123efgh y abcd0123", &secrets), "x [hidden] y [hidden]");
    }

    #[test]
    fn a_secret_inside_another_does_not_uncover_its_end() {
        let secrets = [Secret::new("bcdefghi"), Secret::new("abcdefghij")];
        assert_eq!(mask("-abcdefghij-bcdefghi-", &secrets), "-[hidden]-[hidden]-");
    }

    #[test]
    fn a_short_secret_is_masked_only_as_a_whole_word() {
        let secrets = [Secret::new("chat"), Secret::new("日本語")];
        assert_eq!(mask("webchat chats chat, \"chat\" chat2", &secrets), "webchat chats [hidden], \"[hidden]\" chat2");
        assert_eq!(mask("chat", &secrets), "[hidden]");
        assert_eq!(mask("日本語 日本語で", &secrets), "[hidden] 日本語で");
    }

    #[test]
    fn a_secret_that_overlaps_itself_is_masked_whole() {
        assert_eq!(mask("-abababababababa-", &[Secret::new("ababababa")]), "-[hidden]-");
    }

    #[test]
    fn a_very_short_secret_does_not_blot_out_words() {
        assert_eq!(mask("an apple", &[Secret::new("a")]), "an apple");
    }

    proptest! {
        #[test]
        fn no_masked_text_contains_a_secret(
            pieces in proptest::collection::vec("[a-c ä]{0,10}", 0..8),
            secrets in proptest::collection::vec("[a-cä]{8,10}", 1..4),
            order in proptest::collection::vec(any::<proptest::sample::Index>(), 0..6),
        ) {
            let mut text = pieces.concat();
            for index in order {
                text.push_str(&secrets[index.index(secrets.len())]);
            }
            let wrapped: Vec<Secret> = secrets.iter().map(Secret::new).collect();
            let masked = mask(&text, &wrapped);
            for secret in &secrets {
                prop_assert!(!masked.contains(secret.as_str()));
            }
        }
    }
}
