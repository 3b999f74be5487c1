//! A start that somebody waits for: what becomes of it first.

use std::time::Duration;

use super::{AdapterHandle, AdapterState, said};

/// A start that was asked for.
#[derive(Clone, Debug)]
pub struct Begun {
    pub(super) handle: AdapterHandle,
    /// Which start of its instance it is.
    pub(super) start: u64,
}

/// What became of a start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is online.
    Online,
    /// It runs, has no link for this reason, and tries again by itself.
    NoLink(String),
    /// What ran before goes on, for this reason.
    Kept(String),
    /// It does not run, for this reason, until a person does something.
    Failed(String),
    /// Nothing yet, or somebody ended it meanwhile.
    Pending,
}

impl Begun {
    /// The instance.
    pub fn instance(&self) -> &str {
        self.handle.instance()
    }

    /// Waits for the first that becomes of it, for so long.
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
        // From its verdict on its state is that of this start.
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
