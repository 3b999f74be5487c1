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
pub(crate) struct SessionCache {
    /// `None` before the first reply, and if the host does not list sessions.
    list: Mutex<Option<Vec<Session>>>,
    pub(crate) refresh_request: Notify,
    /// A lock that allows one request at a time.
    pub(crate) refresh_lock: tokio::sync::Mutex<()>,
    /// A lock that allows one resume at a time, so that a session continues in only one
    /// conversation, even if it is requested repeatedly.
    pub(crate) resume_lock: tokio::sync::Mutex<()>,
}

impl SessionCache {
    pub(crate) fn list(&self) -> MutexGuard<'_, Option<Vec<Session>>> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Requests an update, after an event that may have changed the host's reply.
    pub(crate) fn request_refresh(&self) {
        self.refresh_request.notify_one();
    }

    /// Removes a deleted session. Until the next request it would be shown as one without a conversation.
    pub(crate) fn remove(&self, id: &str) {
        if let Some(list) = self.list().as_mut() {
            list.retain(|session| session.id != id);
        }
    }

    /// Returns the session of a conversation.
    pub(crate) fn of_conversation(&self, conversation: &str) -> Option<Session> {
        let list = self.list();
        let continues_here = |session: &&Session| session.chats.iter().any(|chat| chat.id == conversation);
        list.iter().flatten().find(continues_here).cloned()
    }

    /// Returns a session by its id.
    pub(crate) fn by_id(&self, id: &str) -> Option<Session> {
        self.list().iter().flatten().find(|session| session.id == id).cloned()
    }
}
