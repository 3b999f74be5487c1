//! The listener.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hermes_adapter_net::port;
use hermes_adapter_sdk::prelude::*;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{interval, sleep, timeout};

use crate::door::{self, Door};

/// Connections that are open at once; more wait to be accepted.
const CONNECTIONS_MAX: usize = 64;

/// How long a client may take for the head of a request, and be idle between two.
const HEAD_TIMEOUT: Duration = Duration::from_secs(15);

/// After this time a connection takes no further request.
const CONNECTION_LIFETIME: Duration = Duration::from_secs(300);

/// How long its last request may take then: its body, and the host.
const GRACE: Duration = Duration::from_secs(45);

/// How often the folder of routes is looked at while nobody calls, so that `status` says what is wrong with it.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// Listens.
pub async fn open(door: &Door) -> Result<TcpListener, ConnectError> {
    let wanted = door.address.clone().map_err(|why| ConnectError::fatal(why, "mend the section"))?;
    if let Some(path) = door.routes.missing() {
        return Err(ConnectError::fatal(
            format!("`routes_dir` is {}, and there is no such folder", path.display()),
            format!("make it with `mkdir -m 700 {}`, or leave the key out", path.display()),
        ));
    }
    let refused = |error| port::refused("listen", wanted, &error);
    let listener = TcpListener::bind(wanted).await.map_err(refused)?;
    let address = listener.local_addr().map_err(refused)?;
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
    let router = door::router(Arc::clone(door));
    let room = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    // Dropped with this future: no connection outlives the link.
    let mut connections = JoinSet::new();
    let mut look = interval(LOOK_EVERY);
    let mut told = None;
    loop {
        while connections.try_join_next().is_some() {}
        let accepted = tokio::select! {
            accepted = accept(&listener, &room) => accepted,
            _ = look.tick() => {
                tell_faults(door, &mut told);
                continue;
            }
        };
        match accepted {
            Ok((place, stream)) => {
                let router = router.clone();
                connections.spawn(async move {
                    let _place = place;
                    talk(stream, router).await;
                });
            }
            // No descriptors left, or a client that is gone already: the next one may do better.
            Err(error) => {
                tracing::warn!(%error, "a connection was not accepted");
                sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

async fn accept(
    listener: &TcpListener,
    room: &Arc<Semaphore>,
) -> std::io::Result<(tokio::sync::OwnedSemaphorePermit, TcpStream)> {
    let place = Arc::clone(room).acquire_owned().await.map_err(std::io::Error::other)?;
    let (stream, _) = listener.accept().await?;
    Ok((place, stream))
}

/// Says what is wrong in the folder of routes, once, and that it is mended.
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

async fn talk(stream: TcpStream, router: Router) {
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(HEAD_TIMEOUT);
    let connection = builder.serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    let mut connection = std::pin::pin!(connection);
    tokio::select! {
        _ = connection.as_mut() => return,
        () = sleep(CONNECTION_LIFETIME) => connection.as_mut().graceful_shutdown(),
    }
    // The last request is answered, unless nobody reads the answer.
    let _ = timeout(GRACE, connection).await;
}
