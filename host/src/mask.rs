//! Takes secrets out of what leaves the host.

use std::borrow::Cow;

/// The shortest secret that is looked for; anything shorter would mask ordinary words.
const SECRET_BYTES_MIN: usize = 8;

/// What stands in place of a secret.
const MASK: &str = "[secret]";

/// Replaces the values of secrets wherever they stand.
#[derive(Clone, Default)]
pub struct Masker {
    secrets: Vec<String>,
}

impl Masker {
    /// A masker for these values, the longest first so that a part never uncovers the whole.
    pub fn new(secrets: impl IntoIterator<Item = String>) -> Self {
        let mut secrets: Vec<String> = secrets.into_iter().filter(|s| s.len() >= SECRET_BYTES_MIN).collect();
        secrets.sort_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
        secrets.dedup();
        Self { secrets }
    }

    /// Returns `text` without any secret.
    pub fn mask<'t>(&self, text: impl Into<Cow<'t, str>>) -> Cow<'t, str> {
        let mut text = text.into();
        for secret in &self.secrets {
            if text.contains(secret.as_str()) {
                text = Cow::Owned(text.replace(secret.as_str(), MASK));
            }
        }
        text
    }
}

impl std::fmt::Debug for Masker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Masker({} secrets)", self.secrets.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_masked_even_when_another_is_its_prefix() {
        let masker = Masker::new(["tok-12345678".to_owned(), "tok-12345678-long".to_owned(), "x".to_owned()]);
        assert_eq!(masker.mask("a tok-12345678-long x tok-12345678"), "a [secret] x [secret]");
        assert_eq!(format!("{masker:?}"), "Masker(2 secrets)");
    }

    #[test]
    fn text_without_secrets_is_not_copied() {
        let masker = Masker::new(["tok-12345678".to_owned()]);
        assert!(matches!(masker.mask("nothing to hide"), Cow::Borrowed(_)));
    }
}
