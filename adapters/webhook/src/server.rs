//! The shared state of all calls.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hermes_adapter_sdk::prelude::*;
use tokio::sync::Semaphore;

use crate::call_log::RefusalLog;
use crate::config::Config;
use crate::rate::Rate;
use crate::replay::Marks;
use crate::routes::Routes;

/// The maximum number of calls in transit to the host, including those whose sender has disconnected.
const EMITS_MAX: usize = 256;

/// The maximum total size of bodies being read, in KiB; larger than the maximum body of a route.
const BODIES_KIB_MAX: usize = 64 * 1024;

/// The shared state of all calls.
pub(crate) struct Server {
    pub(crate) host: Host,
    /// The listen address, or the reason why it is invalid.
    pub(crate) address: Result<std::net::SocketAddr, String>,
    pub(crate) routes: Routes,
    states: Mutex<BTreeMap<String, Arc<RouteState>>>,
    /// Permits for calls in transit to the host.
    pub(crate) emit_permits: Arc<Semaphore>,
    /// Permits for bodies, one per KiB.
    pub(crate) body_permits: Arc<Semaphore>,
    /// Refusals of calls to unknown routes.
    pub(crate) unknown_routes: Mutex<RefusalLog>,
}

impl Server {
    /// Creates a handler that emits to `host`.
    pub(crate) fn new(config: &Config, host: Host) -> Self {
        let emit_permits = Arc::new(Semaphore::new(EMITS_MAX));
        let (address, routes) = (crate::validate::address(config), Routes::new(config));
        let (body_permits, unknown_routes) = (Arc::new(Semaphore::new(BODIES_KIB_MAX)), Mutex::default());
        Self { host, address, routes, states: Mutex::default(), emit_permits, body_permits, unknown_routes }
    }

    pub(crate) fn state_of(&self, route: &str) -> Arc<RouteState> {
        let mut all = self.states.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(all.entry(route.to_owned()).or_default())
    }
}

/// The state of one route. Only existing routes have one.
#[derive(Default)]
pub(crate) struct RouteState {
    rate: Mutex<Rate>,
    /// `None` until the marks are loaded. The lock is held while a call is handed over, so
    /// that two calls with the same bytes are serialized.
    pub(crate) marks: tokio::sync::Mutex<Option<Marks>>,
    pub(crate) refused: Mutex<RefusalLog>,
    /// The signature headers of valid calls that are logged already.
    pub(crate) known_headers: Mutex<BTreeSet<String>>,
}

impl RouteState {
    pub(crate) fn rate(&self) -> MutexGuard<'_, Rate> {
        self.rate.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
