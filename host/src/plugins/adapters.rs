//! All instances of the host.

use std::{sync::Arc, time::Duration};

use tokio::sync::mpsc;

use super::{AdapterEvent, AdapterHandle, AdapterPlan, AdapterSettings, AdapterStatus, HostServices};

/// All instances. Cheap to clone.
#[derive(Clone)]
pub struct Adapters {
    settings: Arc<AdapterSettings>,
}

impl Adapters {
    /// Starts all instances side by side and returns at once.
    pub fn start(
        plan: Vec<AdapterPlan>,
        services: Arc<dyn HostServices>,
        events: mpsc::Sender<AdapterEvent>,
        settings: AdapterSettings,
    ) -> Self {
        let _ = (plan, services, events);
        Self { settings: Arc::new(settings) }
    }

    /// The handle of an instance.
    pub fn get(&self, instance: &str) -> Option<AdapterHandle> {
        let _ = (instance, &self.settings);
        None
    }

    /// All handles, by name.
    pub fn all(&self) -> Vec<AdapterHandle> {
        Vec::new()
    }

    /// What `status` says about adapters: instances first, then files without a section.
    pub fn statuses(&self) -> Vec<AdapterStatus> {
        Vec::new()
    }

    /// Runs an instance again; also the way out of `failed`. False: there is none of this name.
    pub fn enable(&self, instance: &str) -> bool {
        let _ = instance;
        false
    }

    /// Ends an instance until it is enabled. False: there is none of this name.
    pub fn disable(&self, instance: &str) -> bool {
        let _ = instance;
        false
    }

    /// Ends an instance and starts it anew from the file that lies there. False: there is none of this name.
    pub fn reload(&self, instance: &str) -> bool {
        let _ = instance;
        false
    }

    /// Takes over a new plan: what changed is restarted, what is gone is ended, what is new is started.
    pub fn apply(&self, plan: Vec<AdapterPlan>) {
        let _ = plan;
    }

    /// Ends all instances side by side: disconnect, shutdown, destroy. Nothing is sent after it returned.
    pub async fn shutdown(&self, deadline: Duration) {
        let _ = deadline;
    }
}
