//! Pairing codes in clear, for as long as they may have to be told: in memory only.
//!
//! The rows of a delivery that tells a code hold [`STAND_IN`] in its place and the hash of its request; the code
//! is put in when a part is handed to its adapter. So no copy of the database holds a code that works. A code that
//! was not told before the host ended is gone: the next life takes its request back, and the person's next message
//! gets another one.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use hermes_core::pairing::Code;
use hermes_protocol::Outgoing;

/// What stands in rows for a code: as long as one, and none, since no code has an O or a 0.
pub const STAND_IN: &str = "O0O0O0O0";

/// Codes that are kept at once; beyond it the oldest is forgotten.
const CODES_MAX: usize = 256;

/// Open codes, each with the hash of its request, oldest first.
#[derive(Debug, Default)]
pub struct Codes(Mutex<VecDeque<(String, Code)>>);

impl Codes {
    /// Keeps the code of a request until it worked, or until there are too many.
    pub fn keep(&self, hash: &str, code: Code) {
        let mut codes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if codes.len() >= CODES_MAX {
            codes.pop_front();
        }
        codes.push_back((hash.to_owned(), code));
    }

    /// Forgets the code of a request.
    pub fn forget(&self, hash: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).retain(|(kept, _)| kept != hash);
    }

    /// Whether the code of a request is known.
    pub fn knows(&self, hash: &str) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).iter().any(|(kept, _)| kept == hash)
    }

    /// Puts the code of a request where its stand-in is.
    pub fn tell(&self, hash: &str, outgoing: &mut Outgoing) {
        let codes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, code)) = codes.iter().find(|(kept, _)| kept == hash) {
            outgoing.text = outgoing.text.replace(STAND_IN, code.expose());
            outgoing.source = outgoing.source.replace(STAND_IN, code.expose());
        }
    }
}
