//! State loaded at the start, counters, and the sweep.

use std::collections::BTreeMap;

use hermes_core::ids::DeliveryId;
use hermes_core::limits::{PAIRING_CODE_S, PAIRING_INTERVAL_S, RETENTION_DAYS, STRANGER_EVENTS_MAX};
use serde::Serialize;

use super::{DeadTargetRow, GrantRow, HandoffRow, HomeChannelRow, LockoutRow, OfferedRow, PairingRequestRow, RouteRow};

/// State that the dispatcher keeps in memory, read once at start.
#[derive(Clone, Debug, Default)]
pub struct Loaded {
    /// Every route.
    pub routes: Vec<RouteRow>,
    /// Access granted by the operator.
    pub grants: Vec<GrantRow>,
    /// Open requests of unknown senders and invitation codes of admins.
    pub pairing: Vec<PairingRequestRow>,
    /// Wrong codes and locks of instances.
    pub lockouts: Vec<LockoutRow>,
    /// Conversations offered by the terminal.
    pub offers: Vec<OfferedRow>,
    /// Unreachable chats.
    pub dead_targets: Vec<DeadTargetRow>,
    /// Home channels set by `/sethome`.
    pub home_channels: Vec<HomeChannelRow>,
    /// Instances disabled by `adapter disable`.
    pub disabled_adapters: Vec<String>,
    /// Values of the host (kv scope `host`).
    pub flags: BTreeMap<String, String>,
}

/// The last ids of the work that earlier runs left behind. Work of this run has larger ids, so it is never
/// mistaken for recovered work.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Left {
    /// The last event.
    pub event: i64,
    /// The last turn.
    pub turn: i64,
    /// The last delivery.
    pub delivery: i64,
    /// Growing messages whose turn will be resumed: at most one for each interrupted turn. They are listed
    /// here, because a turn that ends during the recovery turns its growing message into an ordinary delivery.
    pub drafts: Vec<DeliveryId>,
    /// Handoffs that failed with the previous run; their chats lead to the former sessions again.
    pub failed_handoffs: Vec<HandoffRow>,
}

/// The sizes of the queues.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct QueueCounts {
    /// Accepted events without a turn.
    pub inbox: u64,
    /// Queued and running turns.
    pub turns: u64,
    /// Pending and growing deliveries.
    pub outbox: u64,
    /// Pending and running handoffs.
    pub handoffs: u64,
    /// Deliveries with a refused or abandoned part.
    pub dead: u64,
    /// Open sessions.
    pub sessions_open: u64,
    /// All sessions.
    pub sessions: u64,
}

/// The retention of old rows; the sweep removes the rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keep {
    /// Retention of settled rows, in milliseconds.
    pub settled_ms: i64,
    /// Highest number of kept events of unknown senders per instance.
    pub stray_events_max: i64,
    /// Retention of pairing requests, in milliseconds: the longer of the validity of a code and the wait for
    /// the next one.
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

/// The result of one sweep.
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
    /// Messages added to the search index.
    pub indexed: u64,
    /// True if a limit was reached, so that another sweep finds more.
    pub more: bool,
}
