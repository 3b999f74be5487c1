//! The API key.

use axum::http::header::{AUTHORIZATION, HeaderMap, HeaderValue};
use sha2::{Digest, Sha256};

/// The minimum length of a configured key, in characters.
const KEY_CHARS_MIN: usize = 16;

/// The hash of the key, which is sufficient for the comparison.
pub(crate) struct Key {
    digest: [u8; 32],
}

impl Key {
    /// Stores the hash of `key`.
    pub(crate) fn new(key: &str) -> Self {
        Self { digest: Sha256::digest(key.as_bytes()).into() }
    }

    /// Returns whether `headers` contain the key. The comparison takes constant time.
    pub(crate) fn is_in(&self, headers: &HeaderMap) -> bool {
        let value = headers.get(AUTHORIZATION).map(HeaderValue::as_bytes).unwrap_or_default();
        let (scheme, key) = value.split_at(value.len().min(7));
        let digest: [u8; 32] = Sha256::digest(key).into();
        let differs = digest.iter().zip(&self.digest).fold(0, |differs, (left, right)| differs | (left ^ right));
        std::hint::black_box(differs) == 0 && scheme.eq_ignore_ascii_case(b"bearer ")
    }
}

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Key(…)")
    }
}

/// Returns the weakness of a configured key, if it has one.
pub(crate) fn weakness(key: &str) -> Option<&'static str> {
    let lower = key.to_ascii_lowercase();
    let first = key.chars().next();
    if key.chars().count() < KEY_CHARS_MIN {
        Some("it is shorter than 16 characters")
    } else if !key.bytes().all(|byte| byte.is_ascii_graphic()) {
        Some("it contains characters that are not allowed in a header")
    } else if key.chars().all(|char| Some(char) == first) {
        Some("it repeats a single character")
    } else if ["changeme", "change-me", "change_me", "placeholder", "your-api-key", "your_api_key"]
        .iter()
        .any(|word| lower.contains(word))
    {
        Some("it is a placeholder")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bearer(value: &str) -> HeaderMap {
        HeaderMap::from_iter([(AUTHORIZATION, value.parse().unwrap())])
    }

    #[test]
    fn only_the_key_itself_opens() {
        let key = Key::new("sixteen-letters!");
        assert!(key.is_in(&bearer("Bearer sixteen-letters!")));
        assert!(key.is_in(&bearer("bearer sixteen-letters!")));
        for wrong in ["sixteen-letters!", "Bearer sixteen-letters", "Bearer ", "", "Basic sixteen-letters!", "Bear"] {
            assert!(!key.is_in(&bearer(wrong)), "{wrong:?}");
        }
        assert!(!key.is_in(&HeaderMap::new()));
        assert!(!format!("{key:?}").contains("sixteen"));
    }

    #[test]
    fn weak_keys_are_told_why() {
        for weak in [
            "",
            "short",
            "aaaaaaaaaaaaaaaaaaaa",
            "please-CHANGEME-now",
            "with a space in the middle",
            "ümläute-ümläute-ü",
        ] {
            assert!(weakness(weak).is_some(), "{weak:?}");
        }
        assert_eq!(weakness("3f9c2b7a11e84d05"), None);
    }
}
