//! Deliveries at a terminal that belong to another conversation than the current one.
//!
//! A terminal slot is used by one conversation after another. Deliveries of an earlier one, such as an answer that a
//! restart interrupted or a result of a background job, arrive at the terminal that uses the slot next. A note names
//! their conversation.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use super::{wire::Asking, wire::Wire};
use crate::engine::operator::{ControlReply, ControlRequest};
use crate::surface::control::Client;
use hermes_protocol::Outgoing;
use serde::Deserialize;
use serde_json::json;

/// Events of this terminal that are remembered. For the answer to an older one, the host is asked for its session.
const SAID_MAX: usize = 256;

/// The inbox ids of the events from this terminal. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct SaidHere(Arc<Mutex<BTreeSet<i64>>>);

impl SaidHere {
    /// Records that the host accepted an event from here.
    pub fn taken(&self, inbox: i64) {
        let mut said = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        said.insert(inbox);
        if said.len() > SAID_MAX {
            said.pop_first();
        }
    }

    /// Returns `true` if a delivery answers an event from here.
    pub fn is_answered_by(&self, message: &Outgoing) -> bool {
        let said = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        message.in_reply_to.is_some_and(|inbox| said.contains(&inbox))
    }
}

/// The title of a conversation.
#[derive(Debug, Deserialize)]
struct Called {
    #[serde(default)]
    title: Option<String>,
}

/// Returns a note with the conversation of a delivery if it differs from the current one.
pub async fn mark(home: &Path, wire: &Wire, message: &Outgoing, here: Option<&str>) -> Option<String> {
    let session = session_of(home, message.delivery).await?;
    if here == Some(session.as_str()) {
        return None;
    }
    Some(words(&session, title_of(wire.asking(), &session).await.as_deref()))
}

/// Returns the session of a delivery.
async fn session_of(home: &Path, delivery: i64) -> Option<String> {
    let asked = ControlRequest::OutboxShow { delivery };
    match Client::connect(home).await.ok()?.ask(&asked).await.ok()? {
        ControlReply::Delivery { delivery, .. } => delivery.session,
        _ => None,
    }
}

async fn title_of(asking: &Asking, session: &str) -> Option<String> {
    let called = asking.ask("sessions.get", &json!({ "session_id": session })).await.ok()?;
    serde_json::from_value::<Called>(called).ok()?.title
}

fn words(session: &str, title: Option<&str>) -> String {
    let called = title.map(|title| format!(" {:?}", hermes_core::text::one_line(title, 80))).unwrap_or_default();
    format!("From another conversation,{called} ({session}); `hermes-host chat --resume {session}` resumes it:")
}

#[cfg(test)]
mod tests {
    use hermes_protocol::Chat;

    use super::*;

    #[test]
    fn what_is_no_answer_to_anything_said_here_is_marked_with_its_conversation() {
        let said = SaidHere::default();
        let mut message = Outgoing::text(Chat::dm("1"), "an answer");
        message.in_reply_to = Some(7);
        assert!(!said.is_answered_by(&message), "an earlier sitting asked for it");
        said.taken(7);
        assert!(said.is_answered_by(&message));
        message.in_reply_to = None;
        assert!(!said.is_answered_by(&message), "a word of the host may be about anything");
        let marked = words("20260101_1", Some("of boats"));
        assert!(marked.contains("\"of boats\" (20260101_1)") && marked.contains("--resume 20260101_1"), "{marked}");
    }

    #[test]
    fn only_so_many_events_are_remembered() {
        let said = SaidHere::default();
        (0..10_000).for_each(|inbox| said.taken(inbox));
        assert_eq!(said.0.lock().unwrap().len(), SAID_MAX);
    }
}
