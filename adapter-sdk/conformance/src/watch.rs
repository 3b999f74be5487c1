//! The selection of cases, and the receiver of their outcomes.

use crate::Outcome;

/// The cases that require an earlier case, as `(dependent, required)`.
const NEEDS: &[(&str, &str)] = &[
    ("handoff-thread-is-shared", "handoff-thread-is-its-messages-chat"),
    ("handoff-key-opens-one-thread", "handoff-thread-is-its-messages-chat"),
    ("connects-again", "expired-credential-is-fatal"),
];

/// The case that all other staged cases require.
pub(crate) const CONNECTS: &str = "connects";

/// The selection of cases, and the receiver of their outcomes. By default all cases run, without a receiver.
#[derive(Default)]
pub struct Watch<'w> {
    only: Vec<String>,
    on_outcome: Option<OnOutcome<'w>>,
}

type OnOutcome<'w> = Box<dyn FnMut(&Outcome) + Send + 'w>;

impl<'w> Watch<'w> {
    /// Selects the cases with these ids and the cases that they require. An empty list selects all cases.
    pub fn of(only: Vec<String>) -> Self {
        Self { only, on_outcome: None }
    }

    /// Sets the receiver of outcomes.
    pub fn telling(mut self, on_outcome: impl FnMut(&Outcome) + Send + 'w) -> Self {
        self.on_outcome = Some(Box::new(on_outcome));
        self
    }

    /// Returns whether a case is selected.
    pub(crate) fn asks(&self, id: &str) -> bool {
        let needs = |wanted: &String| NEEDS.contains(&(wanted.as_str(), id));
        self.only.is_empty() || self.only.iter().any(|wanted| wanted == id || needs(wanted))
    }

    /// Reports an outcome that did not result from running a case.
    pub fn tell(&mut self, outcome: &Outcome) {
        if let Some(on_outcome) = &mut self.on_outcome {
            on_outcome(outcome);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CASES, STAGED_CASES};

    #[test]
    fn a_case_is_asked_with_what_it_needs() {
        let some = Watch::of(vec!["handoff-thread-is-shared".to_owned()]);
        let asked: Vec<&str> =
            CASES.iter().chain(STAGED_CASES).map(|case| case.id).filter(|id| some.asks(id)).collect();
        assert_eq!(asked, ["handoff-thread-is-its-messages-chat", "handoff-thread-is-shared"]);
        assert!(CASES.iter().all(|case| Watch::default().asks(case.id)));
        for (case, needed) in NEEDS {
            let known = |id: &str| STAGED_CASES.iter().any(|case| case.id == id);
            assert!(known(case) && known(needed), "{case} and {needed}");
        }
    }
}
