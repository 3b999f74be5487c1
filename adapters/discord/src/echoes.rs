//! The idempotency keys of the bot's messages that have arrived.
//!
//! Discord enforces a key for a few minutes only. The gateway repeats every message with its key to the sender, also
//! after an interruption. So a message whose response was lost is recognized by its key, however late it is retried.
//! <https://docs.discord.com/developers/resources/message#create-message>

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use crate::snowflake;

/// The maximum number of remembered keys.
const ECHOES_MAX: usize = 1024;
/// The maximum length of a remembered key, in bytes.
const KEY_BYTES_MAX: usize = 32;

/// The keys and their messages, the oldest first.
#[derive(Debug, Default)]
pub(crate) struct Echoes(Mutex<VecDeque<(String, String)>>);

impl Echoes {
    /// Records that a message with this key has arrived.
    pub(crate) fn record(&self, key: &str, message: &str) {
        if key.len() > KEY_BYTES_MAX || snowflake::parse(message).is_none() || self.message_id(key).is_some() {
            return;
        }
        let mut echoes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        echoes.push_back((key.to_owned(), message.to_owned()));
        while echoes.len() > ECHOES_MAX {
            echoes.pop_front();
        }
    }

    /// Returns the message that has arrived with this key.
    pub(crate) fn message_id(&self, key: &str) -> Option<String> {
        let echoes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        echoes.iter().find(|(echo, _)| echo == key).map(|(_, message)| message.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_message_of_a_key_is_known_and_there_is_a_bound() {
        let echoes = Echoes::default();
        echoes.record("k", "1");
        echoes.record("k", "2");
        echoes.record("odd", "no number");
        echoes.record(&"k".repeat(KEY_BYTES_MAX + 1), "3");
        assert_eq!(
            (echoes.message_id("k").as_deref(), echoes.message_id("odd"), echoes.message_id("")),
            (Some("1"), None, None)
        );
        for n in 0..ECHOES_MAX {
            echoes.record(&n.to_string(), "4");
        }
        assert_eq!((echoes.message_id("k"), echoes.message_id("7").as_deref()), (None, Some("4")));
    }
}
