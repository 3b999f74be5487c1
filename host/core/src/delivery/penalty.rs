//! Waiting times that platforms demand for chats and instances.

use std::collections::BTreeMap;

use crate::limits::PENALTIES_MAX;

/// The clock of demanded waits. All requests for a chat, including hints, wait until the waits of the chat and
/// of its instance are over.
#[derive(Clone, Debug, Default)]
pub struct RateLimitHolds {
    instances: BTreeMap<String, i64>,
    chats: BTreeMap<(String, String), i64>,
}

impl RateLimitHolds {
    /// Creates a clock without waits.
    pub fn new() -> Self {
        Self::default()
    }

    /// Delays all requests of an instance until this time. A shorter wait never ends a longer one.
    pub fn hold_instance(&mut self, instance: &str, until_ms: i64) {
        let held = self.instances.entry(instance.to_owned()).or_insert(until_ms);
        *held = (*held).max(until_ms);
    }

    /// Delays all requests for a chat, including its threads, until this time.
    pub fn hold_chat(&mut self, instance: &str, chat: &str, until_ms: i64, now_ms: i64) {
        let key = (instance.to_owned(), chat.to_owned());
        if self.chats.len() >= PENALTIES_MAX && !self.chats.contains_key(&key) {
            self.sweep(now_ms);
            if self.chats.len() >= PENALTIES_MAX {
                // So many penalties at once concern the whole account.
                return self.hold_instance(instance, until_ms);
            }
        }
        let held = self.chats.entry(key).or_insert(until_ms);
        *held = (*held).max(until_ms);
    }

    /// Ends the waits of a chat and of its instance.
    pub fn lift(&mut self, instance: &str, chat: &str) {
        self.instances.remove(instance);
        self.chats.remove(&(instance.to_owned(), chat.to_owned()));
    }

    /// Ends every wait.
    pub fn lift_all(&mut self) {
        self.instances.clear();
        self.chats.clear();
    }

    /// Returns the end of the wait of a chat in Unix milliseconds, or `None` if it need not wait.
    pub fn held_until(&self, instance: &str, chat: &str, now_ms: i64) -> Option<i64> {
        let of_instance = self.instances.get(instance).copied();
        let of_chat = self.chats.get(&(instance.to_owned(), chat.to_owned())).copied();
        of_instance.max(of_chat).filter(|&until| until > now_ms)
    }

    /// Removes expired waits.
    pub fn sweep(&mut self, now_ms: i64) {
        self.instances.retain(|_, until| *until > now_ms);
        self.chats.retain(|_, until| *until > now_ms);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_chat_waits_for_itself_and_for_its_instance() {
        let mut clock = RateLimitHolds::new();
        clock.hold_chat("here", "1", 500, 0);
        assert_eq!(clock.held_until("here", "1", 100), Some(500));
        assert_eq!(clock.held_until("here", "2", 100), None);
        assert_eq!(clock.held_until("elsewhere", "1", 100), None);
        clock.hold_instance("here", 900);
        assert_eq!(clock.held_until("here", "1", 100), Some(900));
        assert_eq!(clock.held_until("here", "2", 899), Some(900));
        assert_eq!(clock.held_until("here", "2", 900), None);
    }

    #[test]
    fn a_shorter_wait_does_not_end_a_longer_one() {
        let mut clock = RateLimitHolds::new();
        clock.hold_chat("t", "1", 500, 0);
        clock.hold_chat("t", "1", 300, 0);
        assert_eq!(clock.held_until("t", "1", 0), Some(500));
    }

    #[test]
    fn a_wait_can_be_lifted_for_one_chat_and_for_all() {
        let mut clock = RateLimitHolds::new();
        clock.hold_instance("t", 900);
        clock.hold_chat("t", "1", 500, 0);
        clock.hold_chat("t", "2", 500, 0);
        clock.lift("t", "1");
        assert_eq!((clock.held_until("t", "1", 0), clock.held_until("t", "2", 0)), (None, Some(500)));
        clock.lift_all();
        assert_eq!(clock.held_until("t", "2", 0), None);
    }

    #[test]
    fn it_is_bounded_and_forgets_no_wait_for_that() {
        let mut clock = RateLimitHolds::new();
        for chat in 0..=PENALTIES_MAX {
            clock.hold_chat("t", &chat.to_string(), 500, 0);
        }
        assert_eq!(clock.chats.len(), PENALTIES_MAX);
        assert_eq!(clock.held_until("t", &PENALTIES_MAX.to_string(), 0), Some(500));
        clock.hold_chat("t", "late", 900, 600);
        assert_eq!(clock.chats.len(), 1);
    }

    proptest! {
        #[test]
        fn the_longest_wait_counts(holds in proptest::collection::vec((0u8..3, any::<bool>(), 0i64..100), 0..30), now in 0i64..100) {
            let mut clock = RateLimitHolds::new();
            for &(chat, whole, until) in &holds {
                if whole { clock.hold_instance("t", until) } else { clock.hold_chat("t", &chat.to_string(), until, 0) }
            }
            for chat in 0..3u8 {
                let expected = holds.iter().filter(|(c, whole, _)| *whole || *c == chat).map(|h| h.2).max().filter(|u| *u > now);
                prop_assert_eq!(clock.held_until("t", &chat.to_string(), now), expected);
            }
        }
    }
}
