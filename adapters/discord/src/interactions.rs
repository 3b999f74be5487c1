//! Interactions that can still be answered, for fifteen minutes and with a token of their own.
//!
//! The interactions are also stored at the host, so that after a restart the answer goes to the right place. A command
//! is stored before its event is emitted: after a crash between the two steps the next run learns its event id, and
//! until then sends no answer that others could read.

use std::collections::VecDeque;

use hermes_adapter_sdk::prelude::{Chat, Event};
use hermes_adapter_sdk::serde::{Deserialize, Serialize};
use hermes_adapter_sdk::serde_json;

/// The key of the stored interactions.
pub const KEPT_AS: &str = "interactions";
/// The time in which an interaction can be answered, in milliseconds; slightly less than the
/// platform's fifteen minutes.
/// <https://docs.discord.com/developers/interactions/receiving-and-responding#followup-messages>
const ANSWERABLE_MS: i64 = 14 * 60 * 1000;
/// The maximum number of remembered interactions.
const OPEN_MAX: usize = 64;
/// The maximum number of commands with a remembered user.
const ASKERS_MAX: usize = 1024;
/// The maximum number of remembered messages per interaction.
const MESSAGES_MAX: usize = 32;
/// The maximum number of commands in transit to the host; each shard emits one at a time.
const COMING_MAX: usize = 64;
/// The maximum size of the stored value, in bytes; the host's limit is 64 KiB.
const KEPT_BYTES_MAX: usize = 60 * 1024;

/// The interactions that can still be answered, the oldest first.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(crate = "hermes_adapter_sdk::serde", default)]
pub struct Interactions {
    open: VecDeque<Open>,
    /// The event ids of commands in a server, with their users; remembered longer than the commands can be answered.
    askers: VecDeque<(i64, String)>,
    /// The commands without a known event id.
    coming: VecDeque<Coming>,
}

/// A command in transit to the host.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(crate = "hermes_adapter_sdk::serde")]
pub struct Coming {
    /// The id of the interaction.
    pub id: String,
    /// The token for answering it.
    pub token: String,
    /// The user, if others can read the channel.
    pub asker: Option<String>,
    /// The event to emit.
    pub event: Event,
}

/// An interaction that can be answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(crate = "hermes_adapter_sdk::serde")]
pub struct Open {
    /// The `inbox_id` of its event.
    pub inbox: i64,
    /// The id of the interaction.
    #[serde(default)]
    pub id: String,
    /// The token for answering it.
    pub token: String,
    until_ms: i64,
    /// True after the first answer; until then the user sees a "thinking" indicator.
    pub answered: bool,
    messages: Vec<String>,
    /// The key of the last part sent as an answer, and its messages so far.
    part: (String, Vec<String>),
    /// The key of the part being sent without protection from duplicates.
    #[serde(default)]
    pub saying: String,
}

impl Open {
    /// Returns the messages that the part of this key has sent already.
    pub fn sent_of(&self, key: &str) -> Vec<String> {
        if !key.is_empty() && self.part.0 == key { self.part.1.clone() } else { Vec::new() }
    }
}

impl Interactions {
    /// Parses the stored interactions; an invalid value counts as empty.
    pub fn read(kept: Option<&str>) -> Self {
        kept.and_then(|kept| serde_json::from_str(kept).ok()).unwrap_or_default()
    }

    /// Returns the value to store. If it is too large, the oldest entries are dropped.
    pub fn written(&mut self) -> String {
        loop {
            let text = serde_json::to_string(self).expect("numbers and texts are always JSON");
            if text.len() <= KEPT_BYTES_MAX {
                return text;
            }
            // Drops by halves, because this is rare: the oldest users first, and the commands in transit last.
            let (open, askers, coming) = (self.open.len(), self.askers.len(), self.coming.len());
            match (askers > ASKERS_MAX / 8, open > 1, coming > 1) {
                (true, ..) => drop(self.askers.drain(..askers / 2)),
                (_, true, _) => drop(self.open.drain(..open / 2)),
                (.., true) => drop(self.coming.drain(..coming / 2)),
                _ => return text,
            }
        }
    }

    /// Records a command before it is emitted.
    pub fn expect(&mut self, coming: Coming) {
        self.coming.retain(|known| known.id != coming.id);
        self.coming.push_back(coming);
        while self.coming.len() > COMING_MAX {
            self.coming.pop_front();
        }
    }

    /// Returns the commands without a known event id.
    pub fn coming(&self) -> Vec<Coming> {
        self.coming.iter().cloned().collect()
    }

    /// Returns whether an answer in `chat` to the event `inbox` may belong to a command without a known event id.
    pub fn may_be_coming(&self, inbox: i64, chat: &Chat) -> bool {
        let is_known = self.asker(inbox).is_some() || self.open.iter().any(|open| open.inbox == inbox);
        !is_known && self.coming.iter().any(|coming| coming.event.chat == *chat)
    }

    /// Records the event id of a command; `None` if it became no event.
    pub fn arrived(&mut self, id: &str, inbox: Option<i64>, now_ms: i64) {
        let found = self.coming.iter().position(|coming| coming.id == id);
        let Some(coming) = found.and_then(|at| self.coming.remove(at)) else { return };
        let Some(inbox) = inbox else { return };
        if self.of_event(inbox, now_ms).is_none() {
            self.note(inbox, coming.id, coming.token, now_ms);
        }
        if let Some(asker) = coming.asker {
            self.asked_by(inbox, &asker);
        }
    }

    /// Records the event id of an interaction.
    fn note(&mut self, inbox: i64, id: String, token: String, now_ms: i64) {
        self.open.retain(|open| open.until_ms > now_ms && open.inbox != inbox);
        self.open.push_back(Open {
            inbox,
            id,
            token,
            until_ms: now_ms.saturating_add(ANSWERABLE_MS),
            answered: false,
            messages: Vec::new(),
            part: Default::default(),
            saying: String::new(),
        });
        while self.open.len() > OPEN_MAX {
            self.open.pop_front();
        }
    }

    /// Records the user of a command in a channel that others can read.
    fn asked_by(&mut self, inbox: i64, who: &str) {
        if self.asker(inbox).is_none() {
            self.askers.push_back((inbox, who.to_owned()));
        }
        while self.askers.len() > ASKERS_MAX {
            self.askers.pop_front();
        }
    }

    /// Returns the user of the command of the event `inbox`, in a channel that others can read.
    pub fn asker(&self, inbox: i64) -> Option<&str> {
        self.askers.iter().find(|(asked, _)| *asked == inbox).map(|(_, who)| who.as_str())
    }

    /// Returns the interaction for an answer to the event `inbox`.
    pub fn of_event(&self, inbox: i64, now_ms: i64) -> Option<Open> {
        self.open.iter().find(|open| open.inbox == inbox && open.until_ms > now_ms).cloned()
    }

    /// Returns the interaction that a message answered.
    pub fn of_message(&self, message: &str, now_ms: i64) -> Option<Open> {
        let is_one = |open: &&Open| open.until_ms > now_ms && open.messages.iter().any(|id| id == message);
        self.open.iter().find(is_one).cloned()
    }

    /// Records the key of a part before it is sent without protection from duplicates; an
    /// empty key after its result is known.
    pub fn says(&mut self, inbox: i64, key: &str) {
        if let Some(open) = self.open.iter_mut().find(|open| open.inbox == inbox) {
            key.clone_into(&mut open.saying);
        }
    }

    /// Records that the part of this key answers the interaction of the event `inbox`, so far with the messages `sent`.
    pub fn answered(&mut self, inbox: i64, key: &str, sent: &[String]) {
        if let Some(open) = self.open.iter_mut().find(|open| open.inbox == inbox) {
            open.answered = true;
            if let Some(message) = sent.last().filter(|_| open.messages.len() < MESSAGES_MAX) {
                open.messages.push(message.clone());
            }
            open.part = (key.to_owned(), sent.to_vec());
            open.saying.clear();
        }
    }

    /// Removes an interaction that accepts no answers.
    pub fn forget(&mut self, inbox: i64) {
        self.open.retain(|open| open.inbox != inbox);
    }
}

#[cfg(test)]
mod tests {
    use hermes_adapter_sdk::prelude::Sender;

    use super::*;

    fn coming(id: &str, text: &str) -> Coming {
        let event = Event::message(format!("i:{id}"), Chat::dm("10"), Sender::new("5"), text);
        Coming { id: id.to_owned(), token: "T".to_owned(), asker: Some("5".to_owned()), event }
    }

    fn read(open: &mut Interactions) -> Interactions {
        let text = open.written();
        assert!(text.len() <= KEPT_BYTES_MAX);
        Interactions::read(Some(&text))
    }

    fn arrive(open: &mut Interactions, inbox: i64, now_ms: i64) {
        let id = inbox.to_string();
        open.expect(coming(&id, "/help"));
        open.arrived(&id, Some(inbox), now_ms);
    }

    #[test]
    fn an_interaction_is_known_by_its_event_and_its_messages_until_it_is_over() {
        let mut open = Interactions::default();
        arrive(&mut open, 7, 1000);
        assert!(!open.of_event(7, 1000).unwrap().answered);
        open.answered(7, "k1", &["99".into()]);
        let kept = read(&mut open);
        assert_eq!(kept.of_message("99", 1000).map(|open| (open.token, open.answered)), Some(("T".into(), true)));
        let part = kept.of_event(7, 1000).unwrap();
        assert_eq!((part.sent_of("k1"), part.sent_of("k2"), part.sent_of("")), (vec!["99".into()], vec![], vec![]));
        let over = 1000 + ANSWERABLE_MS;
        assert_eq!((open.of_event(7, over), open.of_message("99", over), open.of_event(8, 0)), (None, None, None));
        open.forget(7);
        assert_eq!(open.of_event(7, 1000), None);
        assert_eq!(read(&mut open).asker(7), Some("5"), "its answer is still for one only");
        assert!(Interactions::read(Some("{")).coming().is_empty());
    }

    #[test]
    fn a_command_is_kept_before_its_event_is_known_and_holds_up_what_may_answer_it() {
        let mut open = Interactions::default();
        open.expect(coming("900", "/secret"));
        open.expect(coming("900", "/secret"));
        let mut open = read(&mut open);
        assert_eq!(open.coming().len(), 1);
        assert!(open.may_be_coming(3, &Chat::dm("10")) && !open.may_be_coming(3, &Chat::dm("11")));
        open.arrived("900", Some(3), 0);
        assert_eq!((open.asker(3), open.of_event(3, 0).map(|open| open.id)), (Some("5"), Some("900".to_owned())));
        assert!(!open.may_be_coming(4, &Chat::dm("10")) && open.coming().is_empty());
        open.expect(coming("901", "/secret"));
        open.arrived("901", None, 0);
        assert!(open.coming().is_empty(), "the host never takes it");
    }

    #[test]
    fn what_is_remembered_has_a_bound_and_what_is_over_goes_first() {
        let mut open = Interactions::default();
        for inbox in 0..200 {
            arrive(&mut open, inbox, 0);
        }
        assert_eq!((open.open.len(), open.of_event(199, 0).is_some()), (OPEN_MAX, true));
        arrive(&mut open, 200, ANSWERABLE_MS);
        assert_eq!(open.open.len(), 1);
    }

    #[test]
    fn what_is_kept_fits_the_hosts_store_and_the_newest_stays() {
        let mut open = Interactions::default();
        for inbox in 0..2000 {
            arrive(&mut open, 1_000_000_000 + inbox, 0);
            open.answered(1_000_000_000 + inbox, "k", &["175928847299117063".to_owned(), "T".repeat(600)]);
        }
        let newest = 1_000_001_999;
        let kept = read(&mut open);
        assert!(kept.asker(newest).is_some() && kept.of_event(newest, 0).is_some());
        for n in 0..COMING_MAX {
            open.expect(coming(&n.to_string(), &"x".repeat(6000)));
        }
        assert!(read(&mut open).coming().last().is_some_and(|coming| coming.id == (COMING_MAX - 1).to_string()));
    }
}
