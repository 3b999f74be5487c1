//! Which place in the world leads where.

use hermes_core::ids::SessionId;
use hermes_protocol::Chat;
use serde_json::Value;

use super::{NewDelivery, PairingRequestRow};

/// Which session a place in the world leads to.
#[derive(Clone, Debug, PartialEq)]
pub struct RouteRow {
    /// `SessionKey::stored()`.
    pub key: String,
    /// Profile of the key.
    pub profile: String,
    /// Instance of the key.
    pub instance: String,
    /// The session it leads to.
    pub session: SessionId,
    /// Full descriptor of the chat.
    pub origin: Chat,
    /// When it was first bound.
    pub created_ms: i64,
    /// When it was last used; read back it is not older than its session's last turn.
    pub updated_ms: i64,
    /// Bound without participant: everyone in this chat and thread shares it.
    pub shared: bool,
    /// Whether the agent has spoken in this thread and need not be addressed again.
    pub participates: bool,
    /// Nothing more comes from there: its session ends with the turn that it began with.
    pub completes: bool,
    /// The next event opens a new session.
    pub suspended: bool,
    /// A turn was cut off and is to be resumed.
    pub resume_pending: bool,
    /// Why it is to be resumed.
    pub resume_reason: Option<String>,
    /// How often that was tried.
    pub resume_count: u32,
    /// Settings of this conversation (`busy`, `model`, …), an object or null.
    pub overrides: Value,
    /// Why its session has ended, where it has. Only read.
    pub ended: Option<String>,
}

impl RouteRow {
    /// A plain route from `key` to `session`, made at `now_ms`.
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

/// What a stranger is offered: the second half of transaction (f).
#[derive(Clone, Debug)]
pub struct PairingOffer {
    /// The request as it is now.
    pub request: PairingRequestRow,
    /// What the stranger is told.
    pub reply: Option<NewDelivery>,
}

/// A chat that cannot be written to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadTargetRow {
    /// Instance.
    pub instance: String,
    /// The chat.
    pub chat: Chat,
    /// What the platform said.
    pub why: String,
    /// Since when.
    pub since_ms: i64,
}

/// The chat an instance may address unasked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HomeChannelRow {
    /// Instance.
    pub instance: String,
    /// The chat.
    pub chat: Chat,
    /// Who set it.
    pub set_by: String,
    /// When.
    pub set_ms: i64,
}

/// A chat that people can name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownChat {
    /// The name it goes by; empty while none was told.
    pub name: String,
    /// The chat.
    pub chat: Chat,
    /// When it was last seen.
    pub seen_ms: i64,
}
