//! The idempotency keys of the bot's messages that have arrived.
//!
//! Discord enforces a key for a few minutes only. The gateway repeats every message with its key to the sender, also
//! after an interruption. So a message whose response was lost is recognized by its key, however late it is retried.
//! <https://docs.discord.com/developers/resources/message#create-message>

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

/// The maximum number of remembered keys.
const ECHOES_MAX: usize = 1024;
/// The maximum length of a remembered key, in bytes.
const KEY_BYTES_MAX: usize = 32;

/// The keys and their messages, the oldest first.
#[derive(Debug, Default)]
pub struct Echoes(Mutex<VecDeque<(String, String)>>);

impl Echoes {
    /// Records that a message with this key has arrived.
    pub fn note(&self, key: &str, message: &str) {
        if key.len() > KEY_BYTES_MAX || crate::channels::number(message).is_none() || self.of(key).is_some() {
            return;
        }
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.push_back((key.to_owned(), message.to_owned()));
        while known.len() > ECHOES_MAX {
            known.pop_front();
        }
    }

    /// Returns the message that has arrived with this key.
    pub fn of(&self, key: &str) -> Option<String> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.iter().find(|(echo, _)| echo == key).map(|(_, message)| message.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_message_of_a_key_is_known_and_there_is_a_bound() {
        let echoes = Echoes::default();
        echoes.note("k", "1");
        echoes.note("k", "2");
        echoes.note("odd", "no number");
        echoes.note(&"k".repeat(KEY_BYTES_MAX + 1), "3");
        assert_eq!((echoes.of("k").as_deref(), echoes.of("odd"), echoes.of("")), (Some("1"), None, None));
        for n in 0..ECHOES_MAX {
            echoes.note(&n.to_string(), "4");
        }
        assert_eq!((echoes.of("k"), echoes.of("7").as_deref()), (None, Some("4")));
    }
}
