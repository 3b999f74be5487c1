//! Conflicts: another process that polls this bot's messages or receives them by webhook.
//!
//! Two polling processes alternate: each is online for seconds, and every successful poll looks like a working link.
//! Therefore conflicts are counted separately from failures, and repeated conflicts are reported.
//! <https://core.telegram.org/bots/api#getupdates>

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hermes_adapter_sdk::prelude::*;
use tokio::time::Instant;

use crate::api::Refused;

/// The number of conflicts from which a handover between two processes is excluded as the cause.
pub const MANY: u32 = 3;
/// The time without a conflict after which the conflicts are over.
const OVER_AFTER: Duration = Duration::from_secs(600);
/// The first wait after a conflict, in milliseconds. Each further conflict doubles it, up to [`WAIT_MS_MAX`].
const WAIT_MS: u64 = 10_000;
/// The longest wait after a conflict, in milliseconds.
const WAIT_MS_MAX: u64 = 300_000;

const POLLED: &str = "another process receives the messages of this bot (Telegram allows one); stop it, or use a separate bot for this instance";
const BROUGHT: &str = "the messages of this bot go to a webhook of another program; stop that program and restart the host, which removes the webhook, or use a separate bot for this instance";

/// The conflicts of one instance.
#[derive(Default)]
pub struct Conflicts(Mutex<State>);

#[derive(Default)]
struct State {
    met: u32,
    last: Option<Instant>,
    /// True if the last poll ended in a conflict.
    is_open: bool,
    is_told: bool,
}

impl Conflicts {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a refusal that is a conflict, and returns its effect on the link.
    pub fn meet(&self, refused: &Refused) -> ConnectError {
        let mut state = self.state();
        if state.is_over() {
            state.met = 0;
        }
        state.met = state.met.saturating_add(1);
        (state.last, state.is_open) = (Some(Instant::now()), true);
        let doublings = state.met.saturating_sub(1).min(16);
        ConnectError::retry_after_ms(reason(refused), (WAIT_MS << doublings).min(WAIT_MS_MAX))
    }

    /// Returns whether the last call was a conflict. In that case the webhook belongs to
    /// another process and must not be removed.
    pub fn is_open(&self) -> bool {
        self.state().is_open
    }

    /// Returns the report for `status`, if it was not reported yet.
    pub fn to_tell(&self) -> Option<String> {
        let mut state = self.state();
        if state.met < MANY || state.is_told {
            return None;
        }
        state.is_told = true;
        Some(format!("{} conflicts: {POLLED}", state.met))
    }

    /// Resets the report, because a lost link also resets `status`.
    pub fn begin(&self) {
        self.state().is_told = false;
    }

    /// Records a successful poll; returns whether the end of a reported conflict must be reported.
    pub fn pass(&self) -> bool {
        let mut state = self.state();
        state.is_open = false;
        if !state.is_over() {
            return false;
        }
        let was_told = state.is_told;
        *state = State::default();
        was_told
    }
}

impl State {
    fn is_over(&self) -> bool {
        self.last.is_some_and(|at| at.elapsed() >= OVER_AFTER)
    }
}

/// Returns the description of a conflict, with its fix.
pub fn reason(refused: &Refused) -> &'static str {
    if refused.description.to_ascii_lowercase().contains("webhook is active") { BROUGHT } else { POLLED }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn conflict(description: &str) -> Refused {
        Refused { code: 409, description: description.into(), retry_after_ms: None, migrate_to_chat_id: None }
    }

    #[tokio::test(start_paused = true)]
    async fn many_conflicts_are_told_once_a_link_though_polls_end_well_between_them_and_are_over_after_a_while() {
        let (conflicts, other) = (Conflicts::default(), conflict("Conflict: terminated by other getUpdates request"));
        for n in 1..MANY {
            conflicts.meet(&other);
            assert_eq!((n, conflicts.to_tell()), (n, None));
            assert!(conflicts.is_open() && !conflicts.pass() && !conflicts.is_open());
        }
        conflicts.meet(&other);
        assert!(conflicts.to_tell().is_some_and(|words| words.starts_with("3 conflicts: another process")));
        assert_eq!(conflicts.to_tell(), None, "once");
        assert!(!conflicts.pass(), "it may come again");
        conflicts.begin();
        assert!(conflicts.to_tell().is_some(), "the link is another one");
        tokio::time::advance(OVER_AFTER).await;
        assert!(conflicts.pass());
        assert!(!conflicts.pass() && conflicts.to_tell().is_none());
        conflicts.meet(&other);
        assert_eq!(conflicts.to_tell(), None, "they are counted anew");
    }

    #[tokio::test(start_paused = true)]
    async fn the_waits_of_conflicts_that_go_on_grow_up_to_five_minutes_and_begin_again_once_they_are_over() {
        let (conflicts, other) = (Conflicts::default(), conflict("Conflict: terminated by other getUpdates request"));
        let meet = || match conflicts.meet(&other) {
            ConnectError::Retry { after_ms, .. } => after_ms.unwrap_or_default(),
            error => panic!("it may end: {error}"),
        };
        assert_eq!([meet(), meet(), meet()], [10_000, 20_000, 40_000]);
        let waits: Vec<u64> = (0..100).map(|_| meet()).collect();
        assert!(waits.is_sorted() && waits.ends_with(&[WAIT_MS_MAX]));
        tokio::time::advance(OVER_AFTER).await;
        assert_eq!(meet(), WAIT_MS);
    }

    #[test]
    fn a_webhook_of_somebody_else_is_told_as_one() {
        let active = conflict("Conflict: can't use getUpdates method while webhook is active; use deleteWebhook first");
        let ConnectError::Retry { reason, after_ms, .. } = Conflicts::default().meet(&active) else {
            panic!("it may end")
        };
        assert!(reason.contains("a webhook of another program") && after_ms == Some(WAIT_MS), "{reason}");
    }
}
