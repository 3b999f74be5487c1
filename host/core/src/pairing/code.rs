//! The code itself: eight characters that nobody mistakes for one another.

use std::fmt;

use sha2::{Digest, Sha256};

/// Letters and digits without I, O, 0 and 1.
const ALPHABET: &[u8; 32] = b"ABCDEFGHJKLMNPQRSTUVWXYZ23456789";

/// How many characters a code has.
const CODE_CHARS: usize = 8;

/// How many bytes of salt a hash has.
const SALT_BYTES: usize = 16;

/// A code in clear. It is told to one person and kept nowhere.
#[derive(Clone, PartialEq, Eq)]
pub struct Code(String);

impl Code {
    /// Makes a code and a salt (in hex) from random bytes.
    pub(super) fn draw(random: [u8; 32]) -> (Self, String) {
        // 256 is a multiple of 32, so the remainder is unbiased.
        let code = random[..CODE_CHARS].iter().map(|byte| char::from(ALPHABET[usize::from(byte % 32)])).collect();
        (Self(code), hex(&random[CODE_CHARS..CODE_CHARS + SALT_BYTES]))
    }

    /// Reads what somebody typed: case, spaces and hyphens do not matter.
    pub(super) fn entered(text: &str) -> Self {
        let bounded = text.chars().take(4 * CODE_CHARS);
        Self(bounded.filter(|c| !c.is_whitespace() && *c != '-').map(|c| c.to_ascii_uppercase()).collect())
    }

    /// Returns what the person is told.
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

    /// Whether a stored hash is this code's. Looks at every byte, whatever differs.
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

/// Whether a text looks like a code.
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
