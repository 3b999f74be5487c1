//! A start with a caller that waits for its first outcome.

use std::time::Duration;

use super::{AdapterHandle, AdapterState, said};

/// A requested start.
#[derive(Clone, Debug)]
pub struct Begun {
    pub(super) handle: AdapterHandle,
    /// The number of this start, counted per instance.
    pub(super) start: u64,
}

/// The first outcome of a start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The instance is online.
    Online,
    /// The instance runs without a link, for this reason, and retries by itself.
    NoLink(String),
    /// The previous version stays in use, for this reason.
    Kept(String),
    /// The instance failed for this reason and waits for the operator.
    Failed(String),
    /// No outcome yet, or the instance was ended in the meantime.
    Pending,
}

impl Begun {
    /// Returns the name of the instance.
    pub fn instance(&self) -> &str {
        self.handle.instance()
    }

    /// Waits at most `patience` for the first outcome.
    pub async fn outcome(&self, patience: Duration) -> Outcome {
        tokio::time::timeout(patience, self.first()).await.unwrap_or(Outcome::Pending)
    }

    async fn first(&self) -> Outcome {
        let shared = &self.handle.shared;
        let mut judged = shared.judged.subscribe();
        let Ok(verdict) = judged.wait_for(|(of, _)| *of >= self.start).await.map(|verdict| verdict.1.clone()) else {
            return Outcome::Pending;
        };
        if let Some(why) = verdict {
            return if shared.told().kept.is_some() { Outcome::Kept(why) } else { Outcome::Failed(why) };
        }
        // Once the start was judged, the state belongs to this start.
        let mut state = shared.state.subscribe();
        match state.wait_for(|life| !is_on_its_way(&life.state)).await {
            Ok(life) => became(&life.state),
            Err(_) => Outcome::Pending,
        }
    }
}

fn is_on_its_way(state: &AdapterState) -> bool {
    matches!(state, AdapterState::Loaded | AdapterState::Starting { .. } | AdapterState::Draining)
}

fn became(state: &AdapterState) -> Outcome {
    match state {
        state if state.is_online() => Outcome::Online,
        AdapterState::Reconnecting { reason, .. } => Outcome::NoLink(reason.clone()),
        AdapterState::Failed { reason, mend } => Outcome::Failed(said::with_mend(reason, mend)),
        _ => Outcome::Pending,
    }
}
