//! The listener.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use hermes_adapter_net::serve::{self, Bounds};
use hermes_adapter_sdk::prelude::*;
use tokio::net::TcpListener;
use tokio::time::{Instant, interval};

use crate::server::Door;
use crate::{handler, replay};

/// The limits for callers. The grace period lets the last requests finish their body and their call of the host.
const BOUNDS: Bounds = Bounds {
    connections: 64,
    head: Duration::from_secs(15),
    lifetime: Duration::from_secs(300),
    grace: Duration::from_secs(45),
};

/// The interval of checks of the routes folder without calls, so that `status` reports its faults.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// The interval at which the stored marks of removed routes are checked.
const FORGET_EVERY: Duration = Duration::from_secs(3_600);

/// Binds the listener.
pub async fn open(door: &Door) -> Result<TcpListener, ConnectError> {
    let wanted = door.address.clone().map_err(|why| ConnectError::fatal(why, "correct the section of the instance"))?;
    if let Some(path) = door.routes.missing() {
        return Err(ConnectError::fatal(
            format!("`routes_dir` is {}, which does not exist", path.display()),
            format!("create it with `mkdir -m 700 {}`, or remove the key", path.display()),
        ));
    }
    let listener = serve::bind("listen", &[wanted]).await?;
    let address = listener
        .local_addr()
        .map_err(|error| ConnectError::retry(format!("the port is not available any more: {error}")))?;
    let label = match door.routes.count() {
        1 => "Webhooks (1 route)".to_owned(),
        count => format!("Webhooks ({count} routes)"),
    };
    door.host.announce(label, format!("http://{address}/webhooks/"));
    door.host.proved();
    Ok(listener)
}

/// Serves until the host ends the call.
pub async fn serve(door: &Arc<Door>, listener: TcpListener) -> Result<(), ConnectError> {
    tokio::select! {
        error = serve::serve(listener, handler::router(Arc::clone(door)), BOUNDS) => Err(error),
        never = look(door) => match never {},
    }
}

/// Checks the routes folder periodically, and deletes the stored marks of removed routes.
async fn look(door: &Door) -> Infallible {
    let mut look = interval(LOOK_EVERY);
    let (mut told, mut swept): (_, Option<Instant>) = (None, None);
    loop {
        look.tick().await;
        tell_faults(door, &mut told);
        if swept.is_none_or(|at| at.elapsed() >= FORGET_EVERY) {
            swept = Some(Instant::now());
            if let Err(error) = replay::forget_gone(&door.host, |name| door.routes.has(name)).await {
                tracing::warn!(%error, "stored data of removed routes cannot be deleted");
            }
        }
    }
}

/// Reports a fault of the routes folder once, and its end.
fn tell_faults(door: &Door, told: &mut Option<String>) {
    let faults = door.routes.faults();
    if faults != *told {
        match &faults {
            Some(why) => door.host.link(LinkWord::Degraded, why.as_str()),
            None => door.host.link(LinkWord::Online, ""),
        }
        *told = faults;
    }
}
