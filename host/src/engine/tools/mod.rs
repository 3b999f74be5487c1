//! The host services for the tools of its agent: the ledger, the masker, search, other chats, tasks. The agent crate
//! knows only the ports.

pub mod log;
mod messages;
mod reach;
mod search;
mod tasks;
pub(crate) mod wakes;

use std::sync::{Arc, OnceLock, Weak};

use futures_util::future::BoxFuture;
use hermes_agent::tools::ports::Mask;
use hermes_agent::tools::{Ledger, Ports, StartedCall};
use hermes_core::ids::TurnId;

use crate::engine::runtime::Host;

/// The error of a tool while the host starts or ends.
const NO_HOST: &str = "the host is not running";

/// The host, once it exists: its runtime is created before it.
#[derive(Default)]
pub struct Lent {
    host: OnceLock<Weak<Host>>,
}

impl Lent {
    /// Connects the tools to this host.
    pub fn serve(&self, host: &Arc<Host>) {
        // A process has one host; a second call changes nothing.
        let _ = self.host.set(Arc::downgrade(host));
    }

    fn host(&self) -> Result<Arc<Host>, String> {
        self.host.get().and_then(Weak::upgrade).ok_or_else(|| NO_HOST.to_owned())
    }
}

/// Returns all ports of the tools.
pub fn ports(lent: &Arc<Lent>) -> Ports {
    Ports {
        ledger: lent.clone(),
        mask: lent.clone(),
        search: lent.clone(),
        messenger: lent.clone(),
        tasks: lent.clone(),
        wakeups: lent.clone(),
    }
}

impl Ledger for Lent {
    fn started(&self, turn: TurnId, calls: Vec<StartedCall>) -> BoxFuture<'_, Result<(), String>> {
        Box::pin(async move { self.host()?.store.start_calls(turn, calls).await.map_err(|error| error.to_string()) })
    }

    fn ended(&self, turn: TurnId, n: u32, result: String) -> BoxFuture<'_, Result<(), String>> {
        Box::pin(async move { self.host()?.store.end_call(turn, n, result).await.map_err(|error| error.to_string()) })
    }
}

impl Mask for Lent {
    fn mask(&self, text: String) -> String {
        match self.host() {
            Ok(host) => host.runs.mask(host.live().masker.mask(text).into_owned()),
            // Without a host there is no masker, so none of the text is returned.
            Err(_) => String::new(),
        }
    }
}
