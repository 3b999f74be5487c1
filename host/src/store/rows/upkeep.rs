//! What is read at the start, counted, and swept.

use std::collections::BTreeMap;

use hermes_core::ids::DeliveryId;
use hermes_core::limits::{PAIRING_CODE_S, PAIRING_INTERVAL_S, RETENTION_DAYS, STRANGER_EVENTS_MAX};
use serde::Serialize;

use super::{DeadTargetRow, GrantRow, HandoffRow, HomeChannelRow, LockoutRow, OfferedRow, PairingRequestRow, RouteRow};

/// What the dispatcher keeps in memory, read once at start.
#[derive(Clone, Debug, Default)]
pub struct Loaded {
    /// Every route.
    pub routes: Vec<RouteRow>,
    /// Access granted by the operator.
    pub grants: Vec<GrantRow>,
    /// Open requests of strangers and codes handed out by admins.
    pub pairing: Vec<PairingRequestRow>,
    /// Instances where too many wrong codes were tried.
    pub lockouts: Vec<LockoutRow>,
    /// Conversations that the terminal offers.
    pub offers: Vec<OfferedRow>,
    /// Chats that cannot be written to.
    pub dead_targets: Vec<DeadTargetRow>,
    /// The chat an instance may address unasked, set by `/sethome`.
    pub home_channels: Vec<HomeChannelRow>,
    /// Instances that `adapter disable` switched off.
    pub disabled_adapters: Vec<String>,
    /// Small facts of the host (kv scope `host`).
    pub flags: BTreeMap<String, String>,
}

/// How far what an earlier life left behind goes. What this life adds has larger ids, so it is
/// never read as something that was left.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Left {
    /// The last event.
    pub event: i64,
    /// The last turn.
    pub turn: i64,
    /// The last delivery.
    pub delivery: i64,
    /// Growing messages whose turn will be resumed: at most one for each turn that ran. They are named
    /// here since a turn that ends while the rest is read makes its own an owed delivery like others.
    pub drafts: Vec<DeliveryId>,
    /// Handoffs that failed for good with the life before: their chats lead where they led before.
    pub failed_handoffs: Vec<HandoffRow>,
}

/// How much is waiting where.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct QueueCounts {
    /// Events accepted and not yet in a turn.
    pub inbox: u64,
    /// Turns queued or running.
    pub turns: u64,
    /// Deliveries owed or drafted.
    pub outbox: u64,
    /// Handoffs pending or running.
    pub handoffs: u64,
    /// Deliveries of which a part was refused or abandoned.
    pub dead: u64,
    /// Sessions that have not ended.
    pub sessions_open: u64,
    /// All sessions.
    pub sessions: u64,
}

/// How much of the past is kept; the sweep removes the rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keep {
    /// How long settled rows are kept.
    pub settled_ms: i64,
    /// Events of strangers that one instance may leave behind.
    pub stray_events_max: i64,
    /// How long a pairing request counts, by its code or by the wait for the next one.
    pub pairing_ms: i64,
}

impl Default for Keep {
    fn default() -> Self {
        Self {
            settled_ms: RETENTION_DAYS as i64 * 86_400_000,
            stray_events_max: STRANGER_EVENTS_MAX as i64,
            pairing_ms: PAIRING_CODE_S.max(PAIRING_INTERVAL_S) as i64 * 1_000,
        }
    }
}

/// What one sweep did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Swept {
    /// Inbox rows removed.
    pub inbox: u64,
    /// Turns removed.
    pub turns: u64,
    /// Deliveries removed.
    pub deliveries: u64,
    /// Pairing requests removed.
    pub pairing: u64,
    /// Messages made searchable.
    pub indexed: u64,
    /// Whether a bound was met, so that another sweep finds more.
    pub more: bool,
}
