//! The plans to run: those of the configuration, without the instances that the operator switched off.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use crate::engine::runtime::AdapterSwitches;
use hermes_config::mask::LogMask;
use hermes_config::{Config, Prepared, Problems};
use hermes_store::Loaded;

/// The source of plans, which remembers the instances that `adapter disable` switched off.
#[derive(Clone, Debug, Default)]
pub struct Planner {
    /// Shared by all copies, so that a switch in a chat and one on the command line have the same effect.
    disabled: Arc<Mutex<BTreeSet<String>>>,
    runs: Runs,
}

/// The adapters that may run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Runs {
    /// All adapters of the configuration.
    #[default]
    Adapters,
    /// Only adapters whose libraries are in the folders of the configuration; libraries beside the binary are ignored.
    OnlyThoseInFolders,
    /// None: the host runs for terminals.
    Nothing,
}

impl AdapterSwitches for Planner {
    fn switch(&self, instance: &str, on: bool) {
        Self::switch(self, instance, on);
    }
}

impl Planner {
    /// Creates a planner with the stored switches.
    pub fn new(loaded: &Loaded, runs: Runs) -> Self {
        Self { disabled: Arc::new(Mutex::new(loaded.disabled_adapters.iter().cloned().collect())), runs }
    }

    /// Records that an instance was switched on or off.
    pub fn switch(&self, instance: &str, on: bool) {
        let mut disabled = self.disabled.lock().unwrap_or_else(PoisonError::into_inner);
        if on {
            disabled.remove(instance);
        } else {
            disabled.insert(instance.to_owned());
        }
    }

    /// Creates the plans. The log mask learns the secrets that only manifests name.
    ///
    /// # Errors
    ///
    /// All problems that manifests and schemas find in the configuration.
    pub async fn plan(&self, config: Config, log_mask: &LogMask) -> Result<Prepared, Problems> {
        let exe = std::env::current_exe().ok().filter(|_| self.runs != Runs::OnlyThoseInFolders);
        let beside = exe.and_then(|exe| Some(exe.parent()?.to_owned()));
        let mut prepared = config.prepare_to_run(beside.as_deref()).await?;
        log_mask.learn(&prepared.config.secrets());
        if self.runs != Runs::Nothing && !prepared.limits.0.is_empty() {
            return Err(prepared.limits);
        }
        if !prepared.problems.0.is_empty() {
            // Only the adapter with the problem does not start.
            tracing::error!("plugins.toml has problems:\n{}", prepared.problems);
        }
        let disabled = self.disabled.lock().unwrap_or_else(PoisonError::into_inner);
        for plan in &mut prepared.plans {
            // The section overrides the switch.
            let decided = prepared.config.adapters.get(&plan.instance).and_then(|section| section.enabled).is_some();
            if self.runs == Runs::Nothing || (!decided && disabled.contains(&plan.instance)) {
                plan.enabled = false;
            }
        }
        drop(disabled);
        Ok(prepared)
    }
}
