//! Routes, home channels and other facts about chats.

use hermes_core::ids::SessionId;
use hermes_protocol::{Chat, Event};
use serde_json::Value;

use super::{NewDelivery, NewInbox, PairingRequestRow};

/// The session of a place.
#[derive(Clone, Debug, PartialEq)]
pub struct RouteRow {
    /// Key, as written by `SessionKey::stored()`.
    pub key: String,
    /// Profile of the key.
    pub profile: String,
    /// Instance of the key.
    pub instance: String,
    /// Session of the place.
    pub session: SessionId,
    /// Full descriptor of the chat.
    pub origin: Chat,
    /// Time of the first binding, in Unix milliseconds.
    pub created_ms: i64,
    /// Time of the last use, in Unix milliseconds. A loaded value is not older than the session's last turn.
    pub updated_ms: i64,
    /// Bound without a participant: all members of the chat and thread share the route.
    pub shared: bool,
    /// True if the agent has written in this thread and need not be addressed again.
    pub participates: bool,
    /// True if no further message comes from the place: its session ends with its first turn.
    pub completes: bool,
    /// The next event opens a new session.
    pub suspended: bool,
    /// An interrupted turn is to be resumed.
    pub resume_pending: bool,
    /// Reason for the resumption.
    pub resume_reason: Option<String>,
    /// Number of attempts to resume.
    pub resume_count: u32,
    /// Settings of this conversation (`busy`, `model`, …), an object or null.
    pub overrides: Value,
    /// Reason for the end of the session, if it has ended. Read-only.
    pub ended: Option<String>,
}

impl RouteRow {
    /// Creates a route from `key` to `session`.
    pub fn new(
        key: impl Into<String>,
        profile: impl Into<String>,
        instance: impl Into<String>,
        session: SessionId,
        origin: Chat,
        now_ms: i64,
    ) -> Self {
        Self {
            key: key.into(),
            profile: profile.into(),
            instance: instance.into(),
            session,
            origin,
            created_ms: now_ms,
            updated_ms: now_ms,
            shared: false,
            participates: false,
            completes: false,
            suspended: false,
            resume_pending: false,
            resume_reason: None,
            resume_count: 0,
            overrides: Value::Null,
            ended: None,
        }
    }
}

/// The pairing offer for an unknown sender: the second part of transaction (f).
#[derive(Clone, Debug)]
pub struct PairingOffer {
    /// Current state of the request.
    pub request: PairingRequestRow,
    /// Reply to the sender.
    pub reply: Option<NewDelivery>,
}

/// A sender whose pairing code worked and who is still to be notified.
#[derive(Clone, Debug)]
pub struct NewcomerRow {
    /// Instance.
    pub instance: String,
    /// Hash of the pairing request.
    pub hash: String,
    /// Chat in which the sender is notified.
    pub chat: Chat,
    /// Key of the message for which the code was given, and the message, where it is kept.
    pub first: Option<(String, Event)>,
    /// True if the sender wrote again meanwhile.
    pub wrote_again: bool,
    /// Author of the grant; `None` if the grant was revoked since.
    pub granted_by: Option<String>,
}

/// The end of a pairing: one transaction.
#[derive(Clone, Debug)]
pub struct Welcome {
    /// Instance.
    pub instance: String,
    /// Hash of the pairing request.
    pub hash: String,
    /// Notice to the sender.
    pub notice: Option<NewDelivery>,
    /// Message for which the code was given.
    pub first: Option<NewInbox>,
}

/// An unreachable chat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadTargetRow {
    /// Name of the instance.
    pub instance: String,
    /// The chat.
    pub chat: Chat,
    /// Message of the platform.
    pub why: String,
    /// Time of the first refusal, in Unix milliseconds.
    pub since_ms: i64,
}

/// The home channel of an instance, to which the host may send unsolicited messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HomeChannelRow {
    /// Name of the instance.
    pub instance: String,
    /// The chat.
    pub chat: Chat,
    /// Person who set it.
    pub set_by: String,
    /// Time at which it was set, in Unix milliseconds.
    pub set_ms: i64,
}

/// A chat in the directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownChat {
    /// Display name; empty if unknown.
    pub name: String,
    /// The chat.
    pub chat: Chat,
    /// Time of the last message or listing, in Unix milliseconds.
    pub seen_ms: i64,
}
