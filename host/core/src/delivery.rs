//! The state machine of a message part.
//!
//! ```text
//! owed → in_flight → delivered | refused | unknown
//!   ↑        │                              │
//!   └────────┴── not sent, or repeated ─────┘        deferred: owed, but out of order
//!                                                    abandoned: given up, with a reason
//! ```
//!
//! [`PartState`] defines the transitions. [`next_step`] reads one [`SendOutcome`] and decides the next step
//! from the [`PartFacts`] that the store keeps with the part. Three guarantees are implemented here:
//!
//! * A part is retried until its deadline, not for a fixed number of attempts.
//! * After an uncertain outcome of the platform, an at-least-once part is repeated at most once, with a mark,
//!   and not before its adapter has delivered something since. After an uncertain outcome caused by the host or
//!   the adapter process, it is repeated up to [`MARKED_REPEATS_MAX`] times, with growing waits.
//! * Every part ends with a receipt, a refusal or an abandonment with a reason.
//!
//! Sessions, timers and rows belong to the host crate.
//!
//! [`SendOutcome`]: hermes_protocol::SendOutcome
//! [`MARKED_REPEATS_MAX`]: crate::limits::MARKED_REPEATS_MAX

mod homes;
mod media;
mod pace;
mod part;
mod penalty;
mod step;
mod target;
mod text;

pub use hermes_protocol::DeliveryClass as Class;

pub use homes::{HomeSource, Homes};
pub use media::{FileSource, ReplyMedia, take_media};
pub use pace::{PreviewPace, PreviewRule};
pub use part::{InvalidPartChange, PartChange, PartFacts, PartState};
pub use penalty::RateLimitHolds;
pub use step::{
    AWAKE_TRY_MS, LAST_TRY_MS, RetryPolicy, RetryScope, Step, after_lookup, contradicted, deadline_in_this_run,
    kills_target, next_step,
};
pub use target::{Named, OFFERED_MAX, Target, TargetError, by_name, readings};
pub use text::{preview, silence, strip_control};

/// Prefix of a part that may already have arrived.
pub const REPEATED_MARK: &str = "(possibly repeated)";

/// Prefix of a part that arrives after its successors.
pub const DELAYED_MARK: &str = "(delayed)";

/// Reason of an abandonment: the deadline passed.
pub const DEADLINE_PASSED: &str = "deadline passed";

/// Reason of an abandonment: two outcomes were uncertain.
pub const DOUBTFUL_TWICE: &str = "doubtful twice";

/// Reason of an abandonment: the host or the adapter process ended during each attempt.
pub const INTERRUPTED_TOO_OFTEN: &str = "interrupted too often";

/// Reason of an abandonment: the instance crashed twice during an attempt.
pub const BREAKS_THE_ADAPTER: &str = "breaks the adapter";

/// Reason of an abandonment: the request that the part answers is no longer open.
pub const REQUESTER_GONE: &str = "requester gone";
