//! The last list of sessions that the host reported.

use std::sync::{Mutex, MutexGuard, PoisonError};

use hermes_adapter_sdk::prelude::*;
use serde::Deserialize;
use tokio::sync::Notify;

/// One session of the person at the page.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub(crate) struct Session {
    pub(crate) id: String,
    #[serde(default)]
    pub(crate) title: Option<String>,
    #[serde(default)]
    pub(crate) source: String,
    #[serde(default)]
    pub(crate) messages: u64,
    #[serde(default)]
    pub(crate) active_ms: i64,
    #[serde(default)]
    pub(crate) end_reason: Option<String>,
    /// The chats of this page in which the session continues.
    #[serde(default)]
    pub(crate) chats: Vec<Chat>,
}

/// The last reply of the host.
#[derive(Default)]
pub(crate) struct Sessions {
    /// `None` before the first reply, and if the host does not list sessions.
    known: Mutex<Option<Vec<Session>>>,
    pub(crate) wanted: Notify,
    /// A lock that allows one request at a time.
    pub(crate) asking: tokio::sync::Mutex<()>,
    /// A lock that allows one resume at a time, so that a session continues in only one
    /// conversation, even if it is requested repeatedly.
    pub(crate) going_on: tokio::sync::Mutex<()>,
}

impl Sessions {
    pub(crate) fn known(&self) -> MutexGuard<'_, Option<Vec<Session>>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Requests an update, after an event that may have changed the host's reply.
    pub(crate) fn stir(&self) {
        self.wanted.notify_one();
    }

    /// Removes a deleted session. Until the next request it would be shown as one without a conversation.
    pub(crate) fn forget(&self, id: &str) {
        if let Some(known) = self.known().as_mut() {
            known.retain(|session| session.id != id);
        }
    }

    /// Returns the session of a conversation.
    pub(crate) fn of(&self, conversation: &str) -> Option<Session> {
        let known = self.known();
        let goes_on = |session: &&Session| session.chats.iter().any(|chat| chat.id == conversation);
        known.iter().flatten().find(goes_on).cloned()
    }

    /// Returns a session by its id.
    pub(crate) fn one(&self, id: &str) -> Option<Session> {
        self.known().iter().flatten().find(|session| session.id == id).cloned()
    }
}
