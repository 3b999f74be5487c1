//! Conflicts: another process that polls this bot's messages or receives them by webhook.
//!
//! Two polling processes alternate: each is online for seconds, and every successful poll looks like a working link.
//! Therefore conflicts are counted separately from failures, and repeated conflicts are reported.
//! <https://core.telegram.org/bots/api#getupdates>

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hermes_adapter_sdk::prelude::*;
use tokio::time::Instant;

use crate::api::Rejection;

/// The number of conflicts from which a handover between two processes is excluded as the cause.
pub(crate) const REPORT_AFTER: u32 = 3;
/// The time without a conflict after which the conflicts are over.
const FORGET_AFTER: Duration = Duration::from_secs(600);
/// The first wait after a conflict, in milliseconds. Each further conflict doubles it, up to [`WAIT_MS_MAX`].
const WAIT_MS: u64 = 10_000;
/// The longest wait after a conflict, in milliseconds.
const WAIT_MS_MAX: u64 = 300_000;

const OTHER_POLL: &str = "another process receives the messages of this bot (Telegram allows one); stop it, or use a separate bot for this instance";
const OTHER_WEBHOOK: &str = "the messages of this bot go to a webhook of another program; stop that program and restart the host, which removes the webhook, or use a separate bot for this instance";

/// The conflicts of one instance.
#[derive(Default)]
pub(crate) struct Conflicts(Mutex<State>);

#[derive(Default)]
struct State {
    /// The number of conflicts.
    count: u32,
    /// The time of the last conflict.
    last: Option<Instant>,
    /// True if the last poll ended in a conflict.
    is_active: bool,
    /// True if the conflicts were reported.
    is_reported: bool,
}

impl Conflicts {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a refusal that is a conflict, and returns its effect on the link.
    pub(crate) fn record(&self, refused: &Rejection) -> ConnectError {
        let mut state = self.state();
        if state.is_past() {
            state.count = 0;
        }
        state.count = state.count.saturating_add(1);
        (state.last, state.is_active) = (Some(Instant::now()), true);
        let doublings = state.count.saturating_sub(1).min(16);
        ConnectError::retry_after_ms(reason(refused), (WAIT_MS << doublings).min(WAIT_MS_MAX))
    }

    /// Returns whether the last call was a conflict. In that case the webhook belongs to
    /// another process and must not be removed.
    pub(crate) fn is_active(&self) -> bool {
        self.state().is_active
    }

    /// Returns the report for `status`, if it was not reported yet.
    pub(crate) fn take_report(&self) -> Option<String> {
        let mut state = self.state();
        if state.count < REPORT_AFTER || state.is_reported {
            return None;
        }
        state.is_reported = true;
        Some(format!("{} conflicts: {OTHER_POLL}", state.count))
    }

    /// Resets the report, because a lost link also resets `status`.
    pub(crate) fn reset_report(&self) {
        self.state().is_reported = false;
    }

    /// Records a successful poll; returns whether the end of a reported conflict must be reported.
    pub(crate) fn record_success(&self) -> bool {
        let mut state = self.state();
        state.is_active = false;
        if !state.is_past() {
            return false;
        }
        let was_reported = state.is_reported;
        *state = State::default();
        was_reported
    }
}

impl State {
    fn is_past(&self) -> bool {
        self.last.is_some_and(|at| at.elapsed() >= FORGET_AFTER)
    }
}

/// Returns the description of a conflict, with its fix.
pub(crate) fn reason(refused: &Rejection) -> &'static str {
    if refused.description.to_ascii_lowercase().contains("webhook is active") { OTHER_WEBHOOK } else { OTHER_POLL }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn conflict(description: &str) -> Rejection {
        Rejection { code: 409, description: description.into(), retry_after_ms: None, migrate_to_chat_id: None }
    }

    #[tokio::test(start_paused = true)]
    async fn many_conflicts_are_told_once_a_link_though_polls_end_well_between_them_and_are_over_after_a_while() {
        let (conflicts, other) = (Conflicts::default(), conflict("Conflict: terminated by other getUpdates request"));
        for n in 1..REPORT_AFTER {
            conflicts.record(&other);
            assert_eq!((n, conflicts.take_report()), (n, None));
            assert!(conflicts.is_active() && !conflicts.record_success() && !conflicts.is_active());
        }
        conflicts.record(&other);
        assert!(conflicts.take_report().is_some_and(|words| words.starts_with("3 conflicts: another process")));
        assert_eq!(conflicts.take_report(), None, "once");
        assert!(!conflicts.record_success(), "it may come again");
        conflicts.reset_report();
        assert!(conflicts.take_report().is_some(), "the link is another one");
        tokio::time::advance(FORGET_AFTER).await;
        assert!(conflicts.record_success());
        assert!(!conflicts.record_success() && conflicts.take_report().is_none());
        conflicts.record(&other);
        assert_eq!(conflicts.take_report(), None, "they are counted from one again");
    }

    #[tokio::test(start_paused = true)]
    async fn the_waits_of_conflicts_that_go_on_grow_up_to_five_minutes_and_begin_again_once_they_are_over() {
        let (conflicts, other) = (Conflicts::default(), conflict("Conflict: terminated by other getUpdates request"));
        let record = || match conflicts.record(&other) {
            ConnectError::Retry { after_ms, .. } => after_ms.unwrap_or_default(),
            error => panic!("it may end: {error}"),
        };
        assert_eq!([record(), record(), record()], [10_000, 20_000, 40_000]);
        let waits: Vec<u64> = (0..100).map(|_| record()).collect();
        assert!(waits.is_sorted() && waits.ends_with(&[WAIT_MS_MAX]));
        tokio::time::advance(FORGET_AFTER).await;
        assert_eq!(record(), WAIT_MS);
    }

    #[test]
    fn a_webhook_of_somebody_else_is_reported_as_one() {
        let active = conflict("Conflict: can't use getUpdates method while webhook is active; use deleteWebhook first");
        let ConnectError::Retry { reason, after_ms, .. } = Conflicts::default().record(&active) else {
            panic!("it may end")
        };
        assert!(reason.contains("a webhook of another program") && after_ms == Some(WAIT_MS), "{reason}");
    }
}
