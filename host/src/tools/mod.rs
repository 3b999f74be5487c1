//! What the host lends to the tools of its agent: the ledger, the masker, search, other
//! chats, tasks. The agent's room knows only the ports.

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

use crate::host::Host;

/// What a tool hears while the host begins or ends.
const NO_HOST: &str = "the host is not running";

/// The host, once there is one: its runtime is made before it.
#[derive(Default)]
pub struct Lent {
    host: OnceLock<Weak<Host>>,
}

impl Lent {
    /// From here on the tools reach this host.
    pub fn serve(&self, host: &Arc<Host>) {
        // There is one host in a life of the process; a second call changes nothing.
        let _ = self.host.set(Arc::downgrade(host));
    }

    fn host(&self) -> Result<Arc<Host>, String> {
        self.host.get().and_then(Weak::upgrade).ok_or_else(|| NO_HOST.to_owned())
    }
}

/// Everything that tools are lent.
pub fn ports(lent: &Arc<Lent>) -> Ports {
    Ports {
        ledger: lent.clone(),
        mask: lent.clone(),
        search: lent.clone(),
        messenger: lent.clone(),
        tasks: lent.clone(),
        wakes: lent.clone(),
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
            // Without a host nobody is told anything.
            Err(_) => String::new(),
        }
    }
}
