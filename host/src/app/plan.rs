//! What is run: what the configuration asks for, less what the operator switched off.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use crate::config::{Config, Prepared, Problems};
use crate::mask::LogMask;
use crate::store::Loaded;

/// Makes plans; remembers what `adapter disable` switched off.
#[derive(Clone, Debug, Default)]
pub struct Planner {
    /// Shared by all copies: a switch in a chat and one on the command line are the same.
    disabled: Arc<Mutex<BTreeSet<String>>>,
    runs: Runs,
}

/// Which adapters run at all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Runs {
    /// Those that the configuration asks for.
    #[default]
    Adapters,
    /// Those whose libraries lie in the folders of the configuration; none beside the binary.
    OnlyThoseInFolders,
    /// None: the host runs for terminals.
    Nothing,
}

impl Planner {
    /// A planner that knows what is switched off.
    pub fn new(loaded: &Loaded, runs: Runs) -> Self {
        Self { disabled: Arc::new(Mutex::new(loaded.disabled_adapters.iter().cloned().collect())), runs }
    }

    /// Notes that an instance was switched on or off.
    pub fn switch(&self, instance: &str, on: bool) {
        let mut disabled = self.disabled.lock().unwrap_or_else(PoisonError::into_inner);
        if on {
            disabled.remove(instance);
        } else {
            disabled.insert(instance.to_owned());
        }
    }

    /// Plans what is run. The log learns the secrets that only manifests make known.
    ///
    /// # Errors
    ///
    /// What manifests and schemas find wrong with the configuration, all at once.
    pub async fn plan(&self, config: Config, log_mask: &LogMask) -> Result<Prepared, Problems> {
        let exe = std::env::current_exe().ok().filter(|_| self.runs != Runs::OnlyThoseInFolders);
        let beside = exe.and_then(|exe| Some(exe.parent()?.to_owned()));
        let mut prepared = config.prepare_to_run(beside.as_deref()).await?;
        log_mask.learn(&prepared.config.secrets());
        if self.runs != Runs::Nothing && !prepared.limits.0.is_empty() {
            return Err(prepared.limits);
        }
        if !prepared.problems.0.is_empty() {
            // Only the adapter that a problem belongs to stays away.
            tracing::error!("plugins.toml has problems:\n{}", prepared.problems);
        }
        let disabled = self.disabled.lock().unwrap_or_else(PoisonError::into_inner);
        for plan in &mut prepared.plans {
            // What the section says wins over the switch.
            let decided = prepared.config.adapters.get(&plan.instance).and_then(|section| section.enabled).is_some();
            if self.runs == Runs::Nothing || (!decided && disabled.contains(&plan.instance)) {
                plan.enabled = false;
            }
        }
        drop(disabled);
        Ok(prepared)
    }
}
