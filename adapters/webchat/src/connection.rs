//! One instance: its configuration, its port and its conversations.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hermes_adapter_sdk::prelude::*;
use tokio::net::TcpListener;

use crate::Config;
use crate::http_auth::HttpAuth;
use crate::ids::random_word;
use crate::live::Live;
use crate::log::Log;
use crate::session_cache::SessionCache;
use crate::uploads::Uploads;

/// The shared state of an instance.
pub(crate) struct Connection {
    pub(crate) config: Config,
    pub(crate) host: Host,
    pub(crate) log: Log,
    pub(crate) live: Live,
    pub(crate) sessions: SessionCache,
    /// A random id of this run of the adapter, by which the self-check recognizes its own process.
    pub(crate) incarnation: String,
    state: Mutex<PortState>,
    /// The number of calls of `serve` and `close`. Streams of an earlier call end.
    pub(crate) generation: AtomicU64,
    pub(crate) uploads: Uploads,
}

#[derive(Default)]
pub(crate) struct PortState {
    pub(crate) listener: Option<TcpListener>,
    pub(crate) address: Option<SocketAddr>,
    pub(crate) auth: Option<Arc<HttpAuth>>,
}

impl Connection {
    pub(crate) fn new(config: Config, host: Host) -> Self {
        let incarnation = random_word();
        Self {
            config,
            log: Log::new(host.clone()),
            host,
            live: Live::new(incarnation.clone()),
            sessions: SessionCache::default(),
            incarnation,
            state: Mutex::default(),
            generation: AtomicU64::new(0),
            uploads: Uploads::default(),
        }
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, PortState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn auth(&self) -> Option<Arc<HttpAuth>> {
        self.state().auth.clone()
    }

    pub(crate) fn upload_bytes_max(&self) -> u64 {
        self.config.upload_bytes_max
    }

    pub(crate) fn generation(&self) -> u64 {
        self.generation.load(Ordering::SeqCst)
    }
}
