//! Log lines about the states of adapters.

use std::collections::BTreeMap;
use std::sync::Arc;

use hermes_core::adapter::AdapterState;
use hermes_core::rate::TokenBucket;

/// Lines that one instance may cause at once. An adapter may report its link at any rate.
const LINES_BURST: u32 = 32;
/// Lines that one instance may cause per second after that.
const LINES_PER_S: u32 = 1;

/// The logged state of each instance.
#[derive(Default)]
pub(super) struct StateLog {
    instances: BTreeMap<Arc<str>, Logged>,
}

struct Logged {
    word: &'static str,
    reason: Option<String>,
    lines: TokenBucket,
}

impl StateLog {
    /// Records a state and returns true if it is worth a line.
    ///
    /// A repeated state and a further attempt to connect have no line. The supervisor logs the reason of a missing link.
    pub fn is_worth_a_line(&mut self, instance: &Arc<str>, state: &AdapterState, now_ms: i64) -> bool {
        let (word, reason) = (state.word(), state.reason());
        let known = self.instances.entry(Arc::clone(instance)).or_insert_with(|| Logged {
            word: "",
            reason: None,
            lines: TokenBucket::new(LINES_BURST, LINES_PER_S, now_ms),
        });
        if known.word == word && known.reason.as_deref() == reason {
            return false;
        }
        (known.word, known.reason) = (word, reason.map(str::to_owned));
        let is_attempt = matches!(state, AdapterState::Starting { failures: 1.., .. });
        let is_logged = matches!(state, AdapterState::Failed { .. } | AdapterState::Reconnecting { .. });
        !is_attempt && !is_logged && known.lines.take(1, now_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_that_flaps_costs_a_bounded_number_of_lines() {
        let (one, other): (Arc<str>, Arc<str>) = ("one".into(), "other".into());
        let online = AdapterState::Online { failures: 0 };
        let lost = AdapterState::Reconnecting { attempt: 1, next_try_ms: 0, reason: "cut".to_owned() };
        let (mut log, mut lines) = (StateLog::default(), 0);
        for now_ms in 0..10_000 {
            lines += [&lost, &online].iter().filter(|state| log.is_worth_a_line(&one, state, now_ms)).count();
        }
        assert!((32..=64).contains(&lines), "{lines} lines in ten seconds");
        assert!(log.is_worth_a_line(&other, &online, 10_000), "another instance has its own lines");
        assert!(!log.is_worth_a_line(&other, &online, 10_000), "a repeated state has no line");
    }
}
