//! The shared state of all calls.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hermes_adapter_sdk::prelude::*;
use tokio::sync::Semaphore;

use crate::call_log::Refused;
use crate::config::Config;
use crate::rate::Rate;
use crate::replay::Marks;
use crate::routes::Routes;

/// The maximum number of calls in transit to the host, including those whose sender has disconnected.
const HANDING_MAX: usize = 256;

/// The maximum total size of bodies being read, in KiB; larger than the maximum body of a route.
const READING_KIB_MAX: usize = 64 * 1024;

/// The shared state of all calls.
pub struct Door {
    pub host: Host,
    /// The listen address, or the reason why it is invalid.
    pub address: Result<std::net::SocketAddr, String>,
    pub routes: Routes,
    memory: Mutex<BTreeMap<String, Arc<Memory>>>,
    /// Permits for calls in transit to the host.
    pub handing: Arc<Semaphore>,
    /// Permits for bodies, one per KiB.
    pub reading: Arc<Semaphore>,
    /// Refusals of calls to unknown routes.
    pub astray: Mutex<Refused>,
}

impl Door {
    /// Creates a handler that emits to `host`.
    pub fn new(config: &Config, host: Host) -> Self {
        let handing = Arc::new(Semaphore::new(HANDING_MAX));
        let (address, routes) = (crate::validate::address(config), Routes::new(config));
        let (reading, astray) = (Arc::new(Semaphore::new(READING_KIB_MAX)), Mutex::default());
        Self { host, address, routes, memory: Mutex::default(), handing, reading, astray }
    }

    pub fn memory(&self, route: &str) -> Arc<Memory> {
        let mut all = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(all.entry(route.to_owned()).or_default())
    }
}

/// The state of one route. Only existing routes have one.
#[derive(Default)]
pub struct Memory {
    rate: Mutex<Rate>,
    /// `None` until the marks are loaded. The lock is held while a call is handed over, so
    /// that two calls with the same bytes are serialized.
    pub marks: tokio::sync::Mutex<Option<Marks>>,
    pub refused: Mutex<Refused>,
    /// The signature headers of valid calls that are logged already.
    pub recognised: Mutex<BTreeSet<String>>,
}

impl Memory {
    pub fn rate(&self) -> MutexGuard<'_, Rate> {
        self.rate.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
