//! Input and output values of the store.
//!
//! Callers create `New…` values and read `…Row` values. Times are milliseconds since the Unix epoch. This
//! module contains no SQL.

mod commands;
mod deliveries;
mod handoff;
mod inbox;
mod observed;
mod routes;
mod sessions;
mod turns;
mod upkeep;
mod watches;

pub use hermes_core::access::Grant as GrantRow;
pub use hermes_core::delivery::{PartFacts, PartState};
pub use hermes_core::pairing::{Lockout as LockoutRow, Offered as OfferedRow, PairingRequest as PairingRequestRow};

pub use super::words::{DeliveryState, InboxState, Lineage, TurnEnd};
pub use commands::{Change, CommandTx};
pub use deliveries::{DeliveryFilter, Effect, NewDelivery, NewPart, OwedDelivery, OwedPart, Settle, Settled};
pub use handoff::{HandoffAsked, HandoffBind, HandoffClaim, HandoffRoutes, HandoffRow, KeptRoute, WhichHandoff};
pub use inbox::{Accepted, InboxRow, NewInbox};
pub use observed::{Observed, ObservedUpTo};
pub use routes::{DeadTargetRow, HomeChannelRow, KnownChat, NewcomerRow, PairingOffer, RouteRow, Welcome};
pub use sessions::{
    Costs, InUse, MediaFile, NewFork, NewSession, NewSummary, Page, Parent, Resolved, SaidTurn, SearchHit,
    SessionFilter, SessionRow, Taken,
};
pub use turns::{Admit, CutOffTurn, EndTurn, MessageRow, NewMessage};
pub use upkeep::{Keep, Left, Loaded, QueueCounts, Swept};
pub use watches::{NewWake, NewWatch, WatchRow, WatchTold};
