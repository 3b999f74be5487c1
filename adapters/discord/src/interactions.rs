//! Interactions that can still be answered: for a quarter of an hour, by a token of their own.
//!
//! They are kept with the host too, so that a restart in between answers where it was asked.

use std::collections::VecDeque;

use hermes_adapter_sdk::serde::{Deserialize, Serialize};
use hermes_adapter_sdk::serde_json;

/// The name under which the host keeps them.
pub const KEPT_AS: &str = "interactions";
/// How long one can be answered, in milliseconds; a little less than the platform's fifteen minutes.
/// <https://docs.discord.com/developers/interactions/receiving-and-responding#followup-messages>
const ANSWERABLE_MS: i64 = 14 * 60 * 1000;
/// Interactions that are remembered.
const OPEN_MAX: usize = 64;
/// Commands of which it is remembered who used them.
const ASKERS_MAX: usize = 1024;
/// Messages of one interaction that are remembered.
const MESSAGES_MAX: usize = 32;

/// The interactions that can still be answered, the oldest first.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(crate = "hermes_adapter_sdk::serde")]
pub struct Interactions {
    open: VecDeque<Open>,
    /// The events that commands in a server became, and who used them: longer than they can be answered.
    askers: VecDeque<(i64, String)>,
}

/// One of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(crate = "hermes_adapter_sdk::serde")]
pub struct Open {
    /// The event it became.
    pub inbox: i64,
    /// Answers it.
    pub token: String,
    until_ms: i64,
    /// Whether its first answer is given: until then the person sees that somebody thinks.
    pub answered: bool,
    messages: Vec<String>,
    /// The key of the last part that was answered with, and its messages so far.
    part: (String, Vec<String>),
}

impl Open {
    /// The messages that the part of this key has already.
    pub fn sent_of(&self, key: &str) -> Vec<String> {
        if !key.is_empty() && self.part.0 == key { self.part.1.clone() } else { Vec::new() }
    }
}

impl Interactions {
    /// Reads what the host kept; what cannot be read is forgotten.
    pub fn read(kept: Option<&str>) -> Self {
        kept.and_then(|kept| serde_json::from_str(kept).ok()).unwrap_or_default()
    }

    /// What the host is to keep.
    pub fn written(&self) -> String {
        serde_json::to_string(self).expect("numbers and texts are always JSON")
    }

    /// An interaction became the event `inbox`.
    pub fn note(&mut self, inbox: i64, token: String, now_ms: i64) {
        self.open.retain(|open| open.until_ms > now_ms && open.inbox != inbox);
        self.open.push_back(Open {
            inbox,
            token,
            until_ms: now_ms.saturating_add(ANSWERABLE_MS),
            answered: false,
            messages: Vec::new(),
            part: Default::default(),
        });
        while self.open.len() > OPEN_MAX {
            self.open.pop_front();
        }
    }

    /// The command that became the event `inbox` was used by `who`, where others read along.
    pub fn asked_by(&mut self, inbox: i64, who: &str) {
        if self.asker(inbox).is_none() {
            self.askers.push_back((inbox, who.to_owned()));
        }
        while self.askers.len() > ASKERS_MAX {
            self.askers.pop_front();
        }
    }

    /// Who used the command that became the event `inbox` where others read along.
    pub fn asker(&self, inbox: i64) -> Option<&str> {
        self.askers.iter().find(|(asked, _)| *asked == inbox).map(|(_, who)| who.as_str())
    }

    /// The interaction that an answer to the event `inbox` goes to.
    pub fn of_event(&self, inbox: i64, now_ms: i64) -> Option<Open> {
        self.open.iter().find(|open| open.inbox == inbox && open.until_ms > now_ms).cloned()
    }

    /// The interaction that a message answered.
    pub fn of_message(&self, message: &str, now_ms: i64) -> Option<Open> {
        let is_one = |open: &&Open| open.until_ms > now_ms && open.messages.iter().any(|id| id == message);
        self.open.iter().find(is_one).cloned()
    }

    /// The part of this key answers the interaction of the event `inbox`, so far with the messages `sent`.
    pub fn answered(&mut self, inbox: i64, key: &str, sent: &[String]) {
        if let Some(open) = self.open.iter_mut().find(|open| open.inbox == inbox) {
            open.answered = true;
            if let Some(message) = sent.last().filter(|_| open.messages.len() < MESSAGES_MAX) {
                open.messages.push(message.clone());
            }
            open.part = (key.to_owned(), sent.to_vec());
        }
    }

    /// It takes no answers any more.
    pub fn forget(&mut self, inbox: i64) {
        self.open.retain(|open| open.inbox != inbox);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interaction_is_known_by_its_event_and_its_messages_until_it_is_over() {
        let mut open = Interactions::default();
        open.note(7, "T".into(), 1000);
        assert!(!open.of_event(7, 1000).unwrap().answered);
        open.answered(7, "k1", &["99".into()]);
        let read = Interactions::read(Some(&open.written()));
        assert_eq!(read, open);
        assert_eq!(read.of_message("99", 1000).map(|open| (open.token, open.answered)), Some(("T".into(), true)));
        let part = read.of_event(7, 1000).unwrap();
        assert_eq!((part.sent_of("k1"), part.sent_of("k2"), part.sent_of("")), (vec!["99".into()], vec![], vec![]));
        let over = 1000 + ANSWERABLE_MS;
        assert_eq!((open.of_event(7, over), open.of_message("99", over), open.of_event(8, 0)), (None, None, None));
        open.asked_by(7, "5");
        open.forget(7);
        assert_eq!(open.of_event(7, 1000), None);
        assert_eq!(Interactions::read(Some(&open.written())).asker(7), Some("5"), "its answer is still for one only");
        assert_eq!(Interactions::read(Some("{")), Interactions::default());
    }

    #[test]
    fn what_is_remembered_has_a_bound_and_what_is_over_goes_first() {
        let mut open = Interactions::default();
        for inbox in 0..200 {
            open.note(inbox, "T".into(), 0);
        }
        assert_eq!((open.open.len(), open.of_event(199, 0).is_some()), (OPEN_MAX, true));
        open.note(200, "T".into(), ANSWERABLE_MS);
        assert_eq!(open.open.len(), 1);
    }
}
