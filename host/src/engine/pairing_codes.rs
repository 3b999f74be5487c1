//! Pairing codes in plain text, in memory only, for as long as they may have to be sent.
//!
//! The rows of a delivery with a code hold [`STAND_IN`] in its place, and the hash of its request; the code is inserted
//! when a part is handed to its adapter. No copy of the database therefore holds a valid code. A code is lost if it was
//! not known to be delivered before the host ended, if its offer is refused, or if too many newer codes displace it.
//! Its request is then withdrawn, and the sender's next message gets another code.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use hermes_core::pairing::Code;
use hermes_protocol::Outgoing;

/// The placeholder of a code in rows: as long as a code and never a code, because no code has an O or a 0.
pub const STAND_IN: &str = "O0O0O0O0";

/// Codes that are kept at once; further ones displace the oldest.
const CODES_MAX: usize = 256;

/// Open codes, each with the hash of its request, oldest first.
#[derive(Debug, Default)]
pub struct Codes(Mutex<VecDeque<(String, Code)>>);

impl Codes {
    /// Keeps the code of a request until it was used, or until newer codes displace it.
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

    /// Returns whether the code of a request is known.
    pub fn knows(&self, hash: &str) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).iter().any(|(kept, _)| kept == hash)
    }

    /// Replaces the placeholder by the code of a request; `false`: the code is unknown, and nothing may be sent.
    #[must_use]
    pub fn tell(&self, hash: &str, outgoing: &mut Outgoing) -> bool {
        let codes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some((_, code)) = codes.iter().find(|(kept, _)| kept == hash) else { return false };
        outgoing.text = outgoing.text.replace(STAND_IN, code.expose());
        outgoing.source = outgoing.source.replace(STAND_IN, code.expose());
        true
    }
}

#[cfg(test)]
mod tests {
    use hermes_core::pairing::PairingBook;
    use hermes_protocol::Chat;

    use super::*;

    #[test]
    fn a_code_that_newer_ones_have_pushed_out_is_not_told_and_neither_is_its_stand_in_taken_for_one() {
        let codes = Codes::default();
        for n in 0..=CODES_MAX {
            let invited = PairingBook::default().invite("one", 0, [u8::try_from(n % 200).unwrap(); 32]);
            codes.keep(&n.to_string(), invited.unwrap().0);
        }
        let offer = || Outgoing::text(Chat::dm("1"), format!("enter {STAND_IN}"));
        let (mut lost, mut kept) = (offer(), offer());
        assert!(!codes.tell("0", &mut lost));
        assert_eq!(lost.text, offer().text);
        assert!(codes.tell("1", &mut kept));
        assert!(!kept.text.contains(STAND_IN), "{}", kept.text);
    }
}
