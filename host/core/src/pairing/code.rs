//! Pairing codes: eight characters that cannot be confused with each other.

use std::fmt;

use sha2::{Digest, Sha256};

/// Letters and digits without I, O, 0 and 1.
const ALPHABET: &[u8; 32] = b"ABCDEFGHJKLMNPQRSTUVWXYZ23456789";

/// Characters of a code.
const CODE_CHARS: usize = 8;

/// Bytes of the salt of a hash.
const SALT_BYTES: usize = 16;

/// A code in clear text. One person sees it; it is not stored.
#[derive(Clone, PartialEq, Eq)]
pub struct Code(String);

impl Code {
    /// Creates a code and a salt (in hex) from random bytes.
    pub(super) fn draw(random: [u8; 32]) -> (Self, String) {
        // 256 is a multiple of 32, so the remainder is unbiased.
        let code = random[..CODE_CHARS].iter().map(|byte| char::from(ALPHABET[usize::from(byte % 32)])).collect();
        (Self(code), hex(&random[CODE_CHARS..CODE_CHARS + SALT_BYTES]))
    }

    /// Normalizes typed text: case, spaces and hyphens are ignored.
    pub(super) fn entered(text: &str) -> Self {
        let bounded = text.chars().take(4 * CODE_CHARS);
        Self(bounded.filter(|c| !c.is_whitespace() && *c != '-').map(|c| c.to_ascii_uppercase()).collect())
    }

    /// Returns the clear text for the person.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Returns SHA-256 of salt and code, in hex.
    pub(super) fn hash(&self, salt: &str) -> String {
        let mut hasher = Sha256::new();
        hasher.update(salt.as_bytes());
        hasher.update(self.0.as_bytes());
        hex(&hasher.finalize())
    }

    /// Returns true if a stored hash belongs to this code. Compares every byte, without an early exit.
    pub(super) fn matches(&self, salt: &str, hash: &str) -> bool {
        let own = self.hash(salt);
        let differing = own.bytes().zip(hash.bytes()).fold(0, |sum, (a, b)| sum | (a ^ b));
        own.len() == hash.len() && differing == 0
    }
}

impl fmt::Debug for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Code(…)")
    }
}

/// Returns true if a text has the form of a code.
pub fn is_code(text: &str) -> bool {
    let code = Code::entered(text);
    text.len() <= 4 * CODE_CHARS && code.0.len() == CODE_CHARS && code.0.bytes().all(|c| ALPHABET.contains(&c))
}

fn hex(bytes: &[u8]) -> String {
    use fmt::Write as _;
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        write!(text, "{byte:02x}").expect("writing to a String does not fail");
        text
    })
}
