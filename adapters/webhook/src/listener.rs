//! The listener.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use hermes_adapter_net::serve::{self, Bounds};
use hermes_adapter_sdk::prelude::*;
use tokio::net::TcpListener;
use tokio::time::{Instant, interval};

use crate::server::Server;
use crate::{handler, replay};

/// The limits for callers. The grace period lets the last requests finish their body and their call of the host.
const BOUNDS: Bounds = Bounds {
    connections: 64,
    head: Duration::from_secs(15),
    lifetime: Duration::from_secs(300),
    grace: Duration::from_secs(45),
};

/// The interval of checks of the routes folder without calls, so that `status` reports its faults.
const CHECK_INTERVAL: Duration = Duration::from_secs(5);

/// The interval at which the stored marks of removed routes are checked.
const SWEEP_INTERVAL: Duration = Duration::from_secs(3_600);

/// Binds the listener.
pub(crate) async fn open(server: &Server) -> Result<TcpListener, ConnectError> {
    let address =
        server.address.clone().map_err(|why| ConnectError::fatal(why, "correct the section of the instance"))?;
    if let Some(path) = server.routes.missing() {
        return Err(ConnectError::fatal(
            format!("`routes_dir` is {}, which does not exist", path.display()),
            format!("create it with `mkdir -m 700 {}`, or remove the key", path.display()),
        ));
    }
    let listener = serve::bind("listen", &[address]).await?;
    let address = listener
        .local_addr()
        .map_err(|error| ConnectError::retry(format!("the port is not available any more: {error}")))?;
    let label = match server.routes.count() {
        1 => "Webhooks (1 route)".to_owned(),
        count => format!("Webhooks ({count} routes)"),
    };
    server.host.announce(label, format!("http://{address}/webhooks/"));
    server.host.proved();
    Ok(listener)
}

/// Serves until the host ends the call.
pub(crate) async fn serve(server: &Arc<Server>, listener: TcpListener) -> Result<(), ConnectError> {
    tokio::select! {
        error = serve::serve(listener, handler::router(Arc::clone(server)), BOUNDS) => Err(error),
        never = watch(server) => match never {},
    }
}

/// Checks the routes folder periodically, and deletes the stored marks of removed routes.
async fn watch(server: &Server) -> Infallible {
    let mut ticks = interval(CHECK_INTERVAL);
    let (mut reported, mut swept): (_, Option<Instant>) = (None, None);
    loop {
        ticks.tick().await;
        report_faults(server, &mut reported);
        if swept.is_none_or(|at| at.elapsed() >= SWEEP_INTERVAL) {
            swept = Some(Instant::now());
            if let Err(error) = replay::sweep_removed(&server.host, |name| server.routes.has(name)).await {
                tracing::warn!(%error, "stored data of removed routes cannot be deleted");
            }
        }
    }
}

/// Reports a fault of the routes folder once, and its end.
fn report_faults(server: &Server, reported: &mut Option<String>) {
    let faults = server.routes.faults();
    if faults != *reported {
        match &faults {
            Some(why) => server.host.link(LinkWord::Degraded, why.as_str()),
            None => server.host.link(LinkWord::Online, ""),
        }
        *reported = faults;
    }
}
