//! The masker of secrets in the output of the host.

use std::borrow::Cow;
use std::sync::{Arc, PoisonError, RwLock};

use hermes_core::secret::{Secret, mask};

/// The shortest secret that is masked, in bytes; a shorter one would mask ordinary words.
const SECRET_BYTES_MIN: usize = 8;

/// A masker that replaces the values of secrets.
#[derive(Clone, Default)]
pub struct Masker {
    secrets: Vec<Secret>,
}

impl Masker {
    /// Creates a masker for these values.
    pub fn new(secrets: impl IntoIterator<Item = String>) -> Self {
        let secrets = secrets.into_iter().filter(|secret| secret.len() >= SECRET_BYTES_MIN).map(Secret::new);
        Self { secrets: secrets.collect() }
    }

    /// Returns `text` without any secret, and without the rest of a secret that overlaps another one.
    pub fn mask<'t>(&self, text: impl Into<Cow<'t, str>>) -> Cow<'t, str> {
        let text = text.into();
        if self.secrets.iter().any(|secret| text.contains(secret.expose())) {
            return Cow::Owned(mask(&text, &self.secrets));
        }
        text
    }
}

impl std::fmt::Debug for Masker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Masker({} secrets)", self.secrets.len())
    }
}

/// The masker of the log. Logging starts before the libraries have declared their secret keys, so this masker learns.
/// It never forgets, because a line may still contain a secret that a reload has replaced.
#[derive(Clone, Debug, Default)]
pub struct LogMask(Arc<RwLock<Arc<Masker>>>);

impl LogMask {
    /// Adds these values.
    pub fn learn<'s>(&self, secrets: impl IntoIterator<Item = &'s Secret>) {
        let mut masker = self.0.write().unwrap_or_else(PoisonError::into_inner);
        for secret in secrets {
            if secret.expose().len() >= SECRET_BYTES_MIN && !masker.secrets.contains(secret) {
                Arc::make_mut(&mut masker).secrets.push(secret.clone());
            }
        }
    }

    /// Returns the current masker.
    pub fn now(&self) -> Arc<Masker> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_learns_secrets_while_it_runs_and_forgets_none() {
        let log = LogMask::default();
        let writer = log.clone();
        assert_eq!(writer.now().mask("tok-12345678"), "tok-12345678");
        log.learn(&[Secret::new("tok-12345678"), Secret::new("short")]);
        log.learn(&[Secret::new("tok-12345678"), Secret::new("tok-of-tomorrow")]);
        assert_eq!(writer.now().mask("tok-12345678 short tok-of-tomorrow"), "[hidden] short [hidden]");
        assert_eq!(format!("{:?}", writer.now()), "Masker(2 secrets)");
    }

    #[test]
    fn a_secret_is_masked_even_when_another_is_its_prefix() {
        let masker = Masker::new(["tok-12345678".to_owned(), "tok-12345678-long".to_owned(), "x".to_owned()]);
        assert_eq!(masker.mask("a tok-12345678-long x tok-12345678"), "a [hidden] x [hidden]");
        assert_eq!(format!("{masker:?}"), "Masker(2 secrets)");
    }

    #[test]
    fn secrets_that_overlap_leave_no_rest() {
        let masker = Masker::new(["tok-12345678".to_owned(), "5678-and-more".to_owned()]);
        assert_eq!(masker.mask("a tok-12345678-and-more"), "a [hidden]");
    }

    #[test]
    fn text_without_secrets_is_not_copied() {
        let masker = Masker::new(["tok-12345678".to_owned()]);
        assert!(matches!(masker.mask("nothing to hide"), Cow::Borrowed(_)));
    }
}
