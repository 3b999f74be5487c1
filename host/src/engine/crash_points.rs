//! Named points of the durable path at which a test may kill the process.
//!
//! A point has no cost without the feature `crash-points`. With it, the environment variable `HERMES_CRASH_AT=name[:n]`
//! names one of [`POINTS`], and the process aborts when it passes that point for the n-th time (1 is the first). An
//! abort flushes nothing and runs no destructor, like a power failure.

/// Every point: first the points on the path of one message, in order, then those of a handoff.
pub const POINTS: [&str; 13] = [
    "after_receive",
    "after_inbox_commit",
    "files_fetched",
    "files_kept",
    "mid_turn",
    "after_draft",
    "after_owe",
    "mid_send",
    "after_send_before_settle",
    "handoff_pending",
    "handoff_claimed",
    "handoff_bound",
    "handoff_owed",
];

/// Passes the point `name`, or does not return.
#[cfg(not(feature = "crash-points"))]
#[inline(always)]
pub fn point(name: &str) {
    debug_assert!(POINTS.contains(&name), "{name} is not a crash point");
}

/// Passes the point `name`, or does not return.
#[cfg(feature = "crash-points")]
pub fn point(name: &str) {
    debug_assert!(POINTS.contains(&name), "{name} is not a crash point");
    armed::pass(name);
}

#[cfg(feature = "crash-points")]
mod armed {
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicU32, Ordering};

    struct Armed {
        name: String,
        left: AtomicU32,
    }

    static ARMED: OnceLock<Option<Armed>> = OnceLock::new();

    pub(super) fn pass(name: &str) {
        let Some(armed) = ARMED.get_or_init(read) else { return };
        if armed.name == name && armed.left.fetch_sub(1, Ordering::SeqCst) == 1 {
            std::process::abort();
        }
    }

    #[expect(clippy::disallowed_methods, reason = "test builds only, and the configuration must not know about it")]
    fn read() -> Option<Armed> {
        let wanted = std::env::var("HERMES_CRASH_AT").ok()?;
        let (name, count) = wanted.split_once(':').unwrap_or((&wanted, "1"));
        let left = count.parse().ok().filter(|count| *count > 0).unwrap_or(1);
        Some(Armed { name: name.to_owned(), left: AtomicU32::new(left) })
    }
}
