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
pub(crate) const STORE_KEY: &str = "interactions";
/// The time in which an interaction can be answered, in milliseconds; slightly less than the
/// platform's fifteen minutes.
/// <https://docs.discord.com/developers/interactions/receiving-and-responding#followup-messages>
const ANSWERABLE_MS: i64 = 14 * 60 * 1000;
/// The maximum number of remembered interactions.
const OPEN_MAX: usize = 64;
/// The maximum number of commands with a remembered user.
const REQUESTERS_MAX: usize = 1024;
/// The maximum number of remembered messages per interaction.
const MESSAGES_MAX: usize = 32;
/// The maximum number of commands in transit to the host; each shard emits one at a time.
const PENDING_MAX: usize = 64;
/// The maximum size of the stored value, in bytes; the host's limit is 64 KiB.
const STORED_BYTES_MAX: usize = 60 * 1024;

/// The interactions that can still be answered, the oldest first.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(crate = "hermes_adapter_sdk::serde", default)]
pub(crate) struct Interactions {
    open: VecDeque<OpenInteraction>,
    /// The event ids of commands in a server, with their users; remembered longer than the commands can be answered.
    #[serde(rename = "askers")]
    requesters: VecDeque<(i64, String)>,
    /// The commands without a known event id.
    #[serde(rename = "coming")]
    pending: VecDeque<PendingCommand>,
}

/// A command in transit to the host.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(crate = "hermes_adapter_sdk::serde")]
pub(crate) struct PendingCommand {
    /// The id of the interaction.
    pub id: String,
    /// The token for answering it.
    pub token: String,
    /// The user, if others can read the channel.
    #[serde(rename = "asker")]
    pub requester: Option<String>,
    /// The event to emit.
    pub event: Event,
}

/// An interaction that can be answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(crate = "hermes_adapter_sdk::serde")]
pub(crate) struct OpenInteraction {
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
    #[serde(rename = "part")]
    last_part: (String, Vec<String>),
    /// The key of the part being sent without protection from duplicates.
    #[serde(default, rename = "saying")]
    pub sending_key: String,
}

impl OpenInteraction {
    /// Returns the messages that the part of this key has sent already.
    pub(crate) fn sent_of(&self, key: &str) -> Vec<String> {
        if !key.is_empty() && self.last_part.0 == key { self.last_part.1.clone() } else { Vec::new() }
    }
}

impl Interactions {
    /// Parses the stored interactions; an invalid value counts as empty.
    pub(crate) fn parse(stored: Option<&str>) -> Self {
        stored.and_then(|stored| serde_json::from_str(stored).ok()).unwrap_or_default()
    }

    /// Returns the value to store. If it is too large, the oldest entries are dropped.
    pub(crate) fn stored_value(&mut self) -> String {
        loop {
            let text = serde_json::to_string(self).expect("numbers and texts are always JSON");
            if text.len() <= STORED_BYTES_MAX {
                return text;
            }
            // Drops by halves, because this is rare: the oldest users first, and the commands in transit last.
            let (open, requesters, pending) = (self.open.len(), self.requesters.len(), self.pending.len());
            match (requesters > REQUESTERS_MAX / 8, open > 1, pending > 1) {
                (true, ..) => drop(self.requesters.drain(..requesters / 2)),
                (_, true, _) => drop(self.open.drain(..open / 2)),
                (.., true) => drop(self.pending.drain(..pending / 2)),
                _ => return text,
            }
        }
    }

    /// Records a command before it is emitted.
    pub(crate) fn add_pending(&mut self, command: PendingCommand) {
        self.pending.retain(|pending| pending.id != command.id);
        self.pending.push_back(command);
        while self.pending.len() > PENDING_MAX {
            self.pending.pop_front();
        }
    }

    /// Returns the commands without a known event id.
    pub(crate) fn pending(&self) -> Vec<PendingCommand> {
        self.pending.iter().cloned().collect()
    }

    /// Returns whether an answer in `chat` to the event `inbox` may belong to a command without a known event id.
    pub(crate) fn may_be_pending(&self, inbox: i64, chat: &Chat) -> bool {
        let is_known = self.requester(inbox).is_some() || self.open.iter().any(|open| open.inbox == inbox);
        !is_known && self.pending.iter().any(|pending| pending.event.chat == *chat)
    }

    /// Records the event id of a command; `None` if it became no event.
    pub(crate) fn set_event_id(&mut self, id: &str, inbox: Option<i64>, now_ms: i64) {
        let found = self.pending.iter().position(|pending| pending.id == id);
        let Some(command) = found.and_then(|at| self.pending.remove(at)) else { return };
        let Some(inbox) = inbox else { return };
        if self.by_event(inbox, now_ms).is_none() {
            self.add_open(inbox, command.id, command.token, now_ms);
        }
        if let Some(requester) = command.requester {
            self.add_requester(inbox, &requester);
        }
    }

    /// Records the event id of an interaction.
    fn add_open(&mut self, inbox: i64, id: String, token: String, now_ms: i64) {
        self.open.retain(|open| open.until_ms > now_ms && open.inbox != inbox);
        self.open.push_back(OpenInteraction {
            inbox,
            id,
            token,
            until_ms: now_ms.saturating_add(ANSWERABLE_MS),
            answered: false,
            messages: Vec::new(),
            last_part: Default::default(),
            sending_key: String::new(),
        });
        while self.open.len() > OPEN_MAX {
            self.open.pop_front();
        }
    }

    /// Records the user of a command in a channel that others can read.
    fn add_requester(&mut self, inbox: i64, requester: &str) {
        if self.requester(inbox).is_none() {
            self.requesters.push_back((inbox, requester.to_owned()));
        }
        while self.requesters.len() > REQUESTERS_MAX {
            self.requesters.pop_front();
        }
    }

    /// Returns the user of the command of the event `inbox`, in a channel that others can read.
    pub(crate) fn requester(&self, inbox: i64) -> Option<&str> {
        self.requesters.iter().find(|(event, _)| *event == inbox).map(|(_, requester)| requester.as_str())
    }

    /// Returns the interaction for an answer to the event `inbox`.
    pub(crate) fn by_event(&self, inbox: i64, now_ms: i64) -> Option<OpenInteraction> {
        self.open.iter().find(|open| open.inbox == inbox && open.until_ms > now_ms).cloned()
    }

    /// Returns the interaction that a message answered.
    pub(crate) fn by_message(&self, message: &str, now_ms: i64) -> Option<OpenInteraction> {
        let is_one = |open: &&OpenInteraction| open.until_ms > now_ms && open.messages.iter().any(|id| id == message);
        self.open.iter().find(is_one).cloned()
    }

    /// Records the key of a part before it is sent without protection from duplicates; an
    /// empty key after its result is known.
    pub(crate) fn set_sending(&mut self, inbox: i64, key: &str) {
        if let Some(open) = self.open.iter_mut().find(|open| open.inbox == inbox) {
            key.clone_into(&mut open.sending_key);
        }
    }

    /// Records that the part of this key answers the interaction of the event `inbox`, so far with the messages `sent`.
    pub(crate) fn record_answer(&mut self, inbox: i64, key: &str, sent: &[String]) {
        if let Some(open) = self.open.iter_mut().find(|open| open.inbox == inbox) {
            open.answered = true;
            if let Some(message) = sent.last().filter(|_| open.messages.len() < MESSAGES_MAX) {
                open.messages.push(message.clone());
            }
            open.last_part = (key.to_owned(), sent.to_vec());
            open.sending_key.clear();
        }
    }

    /// Removes an interaction that accepts no answers.
    pub(crate) fn remove(&mut self, inbox: i64) {
        self.open.retain(|open| open.inbox != inbox);
    }
}

#[cfg(test)]
mod tests {
    use hermes_adapter_sdk::prelude::Sender;

    use super::*;

    fn coming(id: &str, text: &str) -> PendingCommand {
        let event = Event::message(format!("i:{id}"), Chat::dm("10"), Sender::new("5"), text);
        PendingCommand { id: id.to_owned(), token: "T".to_owned(), requester: Some("5".to_owned()), event }
    }

    fn read(open: &mut Interactions) -> Interactions {
        let text = open.stored_value();
        assert!(text.len() <= STORED_BYTES_MAX);
        Interactions::parse(Some(&text))
    }

    fn arrive(open: &mut Interactions, inbox: i64, now_ms: i64) {
        let id = inbox.to_string();
        open.add_pending(coming(&id, "/help"));
        open.set_event_id(&id, Some(inbox), now_ms);
    }

    #[test]
    fn an_interaction_is_known_by_its_event_and_its_messages_until_it_is_over() {
        let mut open = Interactions::default();
        arrive(&mut open, 7, 1000);
        assert!(!open.by_event(7, 1000).unwrap().answered);
        open.record_answer(7, "k1", &["99".into()]);
        let stored = read(&mut open);
        assert_eq!(stored.by_message("99", 1000).map(|open| (open.token, open.answered)), Some(("T".into(), true)));
        let part = stored.by_event(7, 1000).unwrap();
        assert_eq!((part.sent_of("k1"), part.sent_of("k2"), part.sent_of("")), (vec!["99".into()], vec![], vec![]));
        let over = 1000 + ANSWERABLE_MS;
        assert_eq!((open.by_event(7, over), open.by_message("99", over), open.by_event(8, 0)), (None, None, None));
        open.remove(7);
        assert_eq!(open.by_event(7, 1000), None);
        assert_eq!(read(&mut open).requester(7), Some("5"), "its answer is still for one only");
        assert!(Interactions::parse(Some("{")).pending().is_empty());
    }

    #[test]
    fn a_command_is_kept_before_its_event_is_known_and_holds_up_what_may_answer_it() {
        let mut open = Interactions::default();
        open.add_pending(coming("900", "/secret"));
        open.add_pending(coming("900", "/secret"));
        let mut open = read(&mut open);
        assert_eq!(open.pending().len(), 1);
        assert!(open.may_be_pending(3, &Chat::dm("10")) && !open.may_be_pending(3, &Chat::dm("11")));
        open.set_event_id("900", Some(3), 0);
        assert_eq!((open.requester(3), open.by_event(3, 0).map(|open| open.id)), (Some("5"), Some("900".to_owned())));
        assert!(!open.may_be_pending(4, &Chat::dm("10")) && open.pending().is_empty());
        open.add_pending(coming("901", "/secret"));
        open.set_event_id("901", None, 0);
        assert!(open.pending().is_empty(), "the host never takes it");
    }

    #[test]
    fn the_stored_form_of_earlier_versions_stays() {
        let stored = r#"{"open":[{"inbox":7,"id":"900","token":"T","until_ms":100,"answered":true,"messages":["99"],"part":["k1",["99"]],"saying":"k2"}],"askers":[[7,"5"]],"coming":[]}"#;
        let mut interactions = Interactions::parse(Some(stored));
        let open = interactions.by_event(7, 0).unwrap();
        assert_eq!((open.sending_key.as_str(), open.sent_of("k1")), ("k2", vec!["99".to_owned()]));
        assert_eq!(interactions.stored_value(), stored);
        let event = Event::message("i:1", Chat::dm("10"), Sender::new("5"), "/help");
        let event = serde_json::to_value(event).unwrap();
        let coming = serde_json::json!({ "coming": [{ "id": "1", "token": "T", "asker": "5", "event": event }] });
        assert_eq!(Interactions::parse(Some(&coming.to_string())).pending()[0].requester.as_deref(), Some("5"));
    }

    #[test]
    fn what_is_remembered_has_a_bound_and_what_is_over_goes_first() {
        let mut open = Interactions::default();
        for inbox in 0..200 {
            arrive(&mut open, inbox, 0);
        }
        assert_eq!((open.open.len(), open.by_event(199, 0).is_some()), (OPEN_MAX, true));
        arrive(&mut open, 200, ANSWERABLE_MS);
        assert_eq!(open.open.len(), 1);
    }

    #[test]
    fn what_is_kept_fits_the_hosts_store_and_the_newest_stays() {
        let mut open = Interactions::default();
        for inbox in 0..2000 {
            arrive(&mut open, 1_000_000_000 + inbox, 0);
            open.record_answer(1_000_000_000 + inbox, "k", &["175928847299117063".to_owned(), "T".repeat(600)]);
        }
        let newest = 1_000_001_999;
        let stored = read(&mut open);
        assert!(stored.requester(newest).is_some() && stored.by_event(newest, 0).is_some());
        for n in 0..PENDING_MAX {
            open.add_pending(coming(&n.to_string(), &"x".repeat(6000)));
        }
        assert!(read(&mut open).pending().last().is_some_and(|pending| pending.id == (PENDING_MAX - 1).to_string()));
    }
}
