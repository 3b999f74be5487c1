//! What becomes of a part that is owed.
//!
//! ```text
//! owed → in_flight → delivered | refused | unknown
//!   ↑        │                              │
//!   └────────┴── not sent, or repeated ─────┘        deferred: owed, but out of line
//!                                                    abandoned: given up, visibly
//! ```
//!
//! [`PartState`] holds the arrows; [`next_step`] reads one [`SendOutcome`] and says
//! what to do, from the [`PartFacts`] that the store keeps with the part. Three
//! promises live here: a part is retried until its deadline and not for a number of
//! tries; an at-least-once part is repeated at most once after a doubt of the platform,
//! marked, and not before its adapter has carried something since (a doubt that our own
//! side caused is repeated up to [`MARKED_REPEATS_MAX`] times, with growing waits); and
//! nothing ends without a receipt, a refusal or an abandonment that says why.
//!
//! Lanes, timers and the rows themselves are the shell's.
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

pub use homes::{Homes, SaidBy};
pub use media::{Enclosed, FileSource, take_media};
pub use pace::{Pace, PaceRule};
pub use part::{Impossible, PartChange, PartFacts, PartState};
pub use penalty::PenaltyClock;
pub use step::{
    AWAKE_TRY_MS, LAST_TRY_MS, RetryPolicy, RetryScope, Step, after_lookup, contradicted, deadline_in_this_run,
    kills_target, next_step,
};
pub use target::{Named, OFFERED_MAX, Target, TargetError, by_name, readings};
pub use text::{preview, silence, strip_control};

/// What is put before the text of a part that may already have arrived.
pub const REPEATED_MARK: &str = "(possibly repeated)";

/// What is put before the text of a part that comes after its successors.
pub const DELAYED_MARK: &str = "(delayed)";

/// Why a part is given up: its deadline passed.
pub const DEADLINE_PASSED: &str = "deadline passed";

/// Why a part is given up: nobody knows whether it arrived, twice.
pub const DOUBTFUL_TWICE: &str = "doubtful twice";

/// The reason of an abandonment: the host or the process of the adapter ended during each of its attempts.
pub const INTERRUPTED_TOO_OFTEN: &str = "interrupted too often";

/// Why a part is given up: its instance died of it twice.
pub const BREAKS_THE_ADAPTER: &str = "breaks the adapter";

/// Why a part is given up: the request that it answers is no longer open.
pub const REQUESTER_GONE: &str = "requester gone";
