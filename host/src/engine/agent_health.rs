//! The health of the agent: answers and failures of its turns since the host started.
//!
//! Only figures for the operator; no decision depends on them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use hermes_agent::CONTEXT_TOO_LONG;
use hermes_core::ids::TurnId;

/// Kinds of failures that concern one message only: the next message may be answered.
const OF_ONE_MESSAGE: [&str; 4] = [CONTEXT_TOO_LONG, "filtered", "length_used_up", "only_tool_calls"];

/// Counts and times, shared by reference.
#[derive(Debug, Default)]
pub struct AgentHealth(Mutex<State>);

/// A snapshot of [`AgentHealth`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// Turns that were answered.
    pub answered: u64,
    /// The time of the last answer, in Unix ms.
    pub last_answer_ms: Option<i64>,
    /// Failed turns by kind.
    pub failures: BTreeMap<&'static str, u64>,
    /// Failed turns since the last answer, without those that concern one message only.
    pub consecutive: u64,
    /// The time of the first of them, in Unix ms.
    pub failing_since_ms: Option<i64>,
    /// The last failure: its time in Unix ms, its kind, and the detail for the operator.
    pub last: Option<(i64, &'static str, String)>,
    /// Turns without any output of the agent yet, with their start time in Unix ms.
    waiting: BTreeMap<TurnId, i64>,
}

impl State {
    /// Returns the start time of the oldest turn that waits for the first output of the agent, in Unix ms.
    pub fn waiting_since_ms(&self) -> Option<i64> {
        self.waiting.values().min().copied()
    }
}

impl AgentHealth {
    /// Counts a turn that was answered.
    pub fn answered(&self, now_ms: i64) {
        let mut state = self.lock();
        state.answered += 1;
        state.last_answer_ms = Some(now_ms);
        state.consecutive = 0;
        state.failing_since_ms = None;
    }

    /// Counts a turn that failed. `detail` holds no secret.
    pub fn failed(&self, kind: &'static str, detail: &str, now_ms: i64) {
        let mut state = self.lock();
        *state.failures.entry(kind).or_default() += 1;
        state.last = Some((now_ms, kind, detail.to_owned()));
        if !OF_ONE_MESSAGE.contains(&kind) {
            state.consecutive += 1;
            state.failing_since_ms.get_or_insert(now_ms);
        }
    }

    /// Notes that a turn waits for the agent, until the returned value is dropped.
    pub fn waits(self: &Arc<Self>, turn: TurnId, now_ms: i64) -> Waits {
        self.lock().waiting.insert(turn, now_ms);
        Waits { health: Arc::clone(self), turn }
    }

    /// Returns the numbers of this moment.
    pub fn snapshot(&self) -> State {
        self.lock().clone()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A turn that waits for the first output of the agent.
#[derive(Debug)]
pub struct Waits {
    health: Arc<AgentHealth>,
    turn: TurnId,
}

impl Drop for Waits {
    fn drop(&mut self) {
        self.health.lock().waiting.remove(&self.turn);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_counted_until_an_answer_comes() {
        let health = AgentHealth::default();
        health.answered(1);
        health.failed("unreachable", "a", 2);
        health.failed(CONTEXT_TOO_LONG, "b", 3);
        health.failed("unreachable", "c", 4);
        let state = health.snapshot();
        assert_eq!((state.consecutive, state.failing_since_ms, state.last_answer_ms), (2, Some(2), Some(1)));
        assert_eq!(state.failures, BTreeMap::from([("unreachable", 2), (CONTEXT_TOO_LONG, 1)]));
        assert_eq!(state.last, Some((4, "unreachable", "c".to_owned())));
        health.answered(5);
        let state = health.snapshot();
        assert_eq!((state.consecutive, state.failing_since_ms, state.answered), (0, None, 2));
        assert!(state.last.is_some(), "the last failure stays known");
    }

    #[test]
    fn a_turn_waits_until_it_hears_something() {
        let health = Arc::new(AgentHealth::default());
        let first = health.waits(TurnId(1), 10);
        let second = health.waits(TurnId(2), 20);
        assert_eq!(health.snapshot().waiting_since_ms(), Some(10));
        drop(first);
        assert_eq!(health.snapshot().waiting_since_ms(), Some(20));
        drop(second);
        assert_eq!(health.snapshot().waiting_since_ms(), None);
    }
}
