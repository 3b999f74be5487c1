//! What a session follows, and what wakes it.

use hermes_agent::Message;
use hermes_core::ids::{Epoch, SessionId};
use hermes_protocol::{Chat, Sender};

use super::NewInbox;

/// Something that a session wants to hear of after its turn.
#[derive(Clone, Debug)]
pub struct NewWatch {
    /// What is followed, unique for ever.
    pub id: String,
    /// The session.
    pub session: SessionId,
    /// The instance over which it asked.
    pub instance: String,
    /// The chat in which it asked.
    pub chat_id: String,
    /// Who asked, where no turn runs that says it better.
    pub sender: Option<Sender>,
    /// What it is, in words.
    pub what: String,
    /// This life of the host.
    pub epoch: Epoch,
}

/// Something that a session follows.
#[derive(Clone, Debug, PartialEq)]
pub struct WatchRow {
    /// What is followed.
    pub id: String,
    /// The session.
    pub session: SessionId,
    /// The instance over which it asked.
    pub instance: String,
    /// The chat in which it asked.
    pub chat: Chat,
    /// Who asked.
    pub sender: Option<Sender>,
    /// What it is, in words.
    pub what: String,
    /// How often the session was woken.
    pub told: u32,
    /// How far that went.
    pub upto: u64,
}

/// News of something that is followed.
#[derive(Clone, Debug)]
pub struct WatchTold {
    /// What is followed.
    pub id: String,
    /// How often it was told before.
    pub before: u32,
    /// How far this goes.
    pub upto: u64,
    /// Whether nothing follows.
    pub last: bool,
    /// What wakes the session.
    pub wake: NewWake,
}

/// What the host itself says to a session that something has news for.
#[derive(Clone, Debug)]
pub struct NewWake {
    /// The session that asked.
    pub session: SessionId,
    /// The event; its id makes it happen once.
    pub event: NewInbox,
    /// What its turn hears.
    pub input: Vec<Message>,
}
