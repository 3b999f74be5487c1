//! The requests of the page: their checks, and their events.

use hermes_adapter_sdk::prelude::*;
use serde::Deserialize;

use crate::ids::is_id;

/// The maximum size of one message, in bytes; a longer text is sent as a file.
const MESSAGE_BYTES_MAX: usize = 256 * 1024;

/// The maximum number of files per message.
const FILES_MAX: usize = 10;

/// The sender id of the person at the page.
const OPERATOR: &str = "operator";

/// A message from the page.
#[derive(Debug, Deserialize)]
pub(crate) struct MessageRequest {
    /// The message id chosen by the page.
    pub(crate) id: String,
    pub(crate) text: String,
    #[serde(default)]
    pub(crate) files: Vec<String>,
}

impl MessageRequest {
    /// Refuses a message that no event can be.
    pub(crate) fn check(&self) -> Result<(), CallError> {
        let refuse = |why: &str| Err(CallError::new("invalid", why));
        if !is_id(&self.id) {
            return refuse("the id of the message is invalid");
        }
        if self.text.len() > MESSAGE_BYTES_MAX {
            return refuse("the message exceeds 256 KiB; send it as a file");
        }
        if self.files.len() > FILES_MAX {
            return refuse("a message can have at most 10 files");
        }
        if self.text.trim().is_empty() && self.files.is_empty() {
            return refuse("the message is empty");
        }
        Ok(())
    }

    /// Returns its event, without its files.
    pub(crate) fn event(&self, conversation: &str, chat: Chat, now_ms: i64) -> Event {
        let command = self.text.trim_start().starts_with('/');
        Event::message(format!("m:{conversation}:{}", self.id), chat, operator(), self.text.as_str())
            .at_ms(now_ms)
            .with_message_id(self.id.as_str())
            .addressed(Addressed::new(false, false, command))
    }
}

/// A pressed button from the page.
#[derive(Debug, Deserialize)]
pub(crate) struct ChoiceRequest {
    pub(crate) entry: String,
    ask: String,
    pub(crate) option: String,
}

impl ChoiceRequest {
    /// Returns its event.
    pub(crate) fn event(&self, conversation: &str, chat: Chat, now_ms: i64) -> Result<Event, CallError> {
        let Self { entry, ask, option } = self;
        if [ask, option, entry].iter().any(|word| word.is_empty() || word.len() > 64) {
            return Err(CallError::new("invalid", "the choice has no question"));
        }
        // A colon within a word is written otherwise, so that two presses never have one name.
        let words = [entry, ask, option].map(|word| word.replace('%', "%25").replace(':', "%3A")).join(":");
        let mut event = Event::message(format!("c:{conversation}:{words}"), chat, operator(), "")
            .of_kind(EventKind::Choice)
            .at_ms(now_ms)
            .with_message_id(entry.as_str());
        event.choice = Some(ChoiceMade::new(ask.as_str(), option.as_str()));
        Ok(event)
    }
}

/// Reads the body of a request in the conversation `c`: the reader as the fuzz ring reaches it.
pub(crate) fn read(is_press: bool, body: &[u8]) -> Option<Event> {
    let chat = Chat::dm("c");
    if is_press {
        return serde_json::from_slice::<ChoiceRequest>(body).ok()?.event("c", chat, 1).ok();
    }
    let message: MessageRequest = serde_json::from_slice(body).ok()?;
    message.check().ok()?;
    Some(message.event("c", chat, 1))
}

/// Returns the person at the page. The link belongs to the operator, so the adapter assigns the role.
pub(crate) fn operator() -> Sender {
    Sender::new(OPERATOR).named("Operator").with_role("operator")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn two_presses_never_have_one_name() {
        let press = |entry: &str, ask: &str, option: &str| {
            let body = json!({ "entry": entry, "ask": ask, "option": option }).to_string();
            read(true, body.as_bytes()).unwrap().event_id
        };
        assert_eq!(press("e1", "a1", "yes"), "c:c:e1:a1:yes");
        assert_ne!(press("e:a", "b", "c"), press("e", "a:b", "c"));
        assert_ne!(press("e%3Aa", "b", "c"), press("e:a", "b", "c"));
    }
}
