//! A planned end, in order and within its deadline.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::App;
use super::signals::{Signals, Wish};
use crate::engine::messages::{Control, HostEvent};
use hermes_loader::terminal::Leaving;

/// The kind of an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// For good.
    Stop,
    /// With a new start.
    Restart,
    /// A task that must not end has ended; with a new start.
    Broken,
    /// Another host takes over.
    HandOver,
}

impl End {
    /// Returns the final kind. `by_stop`: a stop was requested in the meantime, so the host is not started again.
    pub fn overruled(self, by_stop: bool) -> Self {
        match self {
            Self::Restart | Self::Broken if by_stop => Self::Stop,
            end => end,
        }
    }

    /// Returns the reason for terminals.
    fn leaving(self) -> Leaving {
        match self {
            Self::Stop => Leaving::Stop,
            Self::Restart | Self::Broken => Leaving::Restart,
            Self::HandOver => Leaving::HandOver,
        }
    }
}

/// Deadline of each step after a second stop request.
const HURRY: Duration = Duration::from_secs(2);

/// Deadline for lanes to end after turns were parked.
const PARKED: Duration = Duration::from_secs(2);

/// Waits for a second stop request, which shortens the drain. `at_once`: the drain is short from the start.
pub fn hurry(mut signals: Signals, at_once: bool) -> CancellationToken {
    let hurried = CancellationToken::new();
    if at_once {
        hurried.cancel();
        return hurried;
    }
    let told = hurried.clone();
    tokio::spawn(async move {
        while signals.next().await != Wish::Stop {}
        told.cancel();
    });
    hurried
}

/// Ends the host in order.
pub async fn drain(app: &Arc<App>, end: End, hurried: CancellationToken) {
    let host = &app.host;
    let drain = host.live().config.host.drain;
    let until = Instant::now() + drain;
    app.state.send_replace("draining");
    app.terminals.leave(end.leaving());
    tracing::info!(seconds = drain.as_secs(), "draining");
    host.draining.cancel();

    if !step(app, Control::DrainLanes, until, &hurried).await {
        tracing::info!("running turns are parked for the next start");
    }
    let sent = step(app, Control::DrainOutbox, until, &hurried).await;
    app.state.send_replace("stopping");
    host.parking.cancel();
    if !sent {
        // A part in flight gets a moment to be settled. The next start recovers the others.
        step(app, Control::DrainOutbox, Instant::now() + PARKED, &CancellationToken::new()).await;
    }
    step(app, Control::DrainLanes, Instant::now() + PARKED, &CancellationToken::new()).await;
    let stop = host.live().config.host.adapter_stop;
    app.adapters.shutdown(stop * 4).await;
    match host.store.close().await {
        Ok(()) => tracing::info!("ended"),
        Err(error) => tracing::error!(%error, "the database was not closed cleanly; the next start recovers it"),
    }
}

/// Runs one step of the end. Returns `false` if its deadline passed first.
async fn step(
    app: &Arc<App>,
    control: impl FnOnce(oneshot::Sender<()>) -> Control,
    until: Instant,
    hurried: &CancellationToken,
) -> bool {
    let (done, drained) = oneshot::channel();
    app.host.tell(HostEvent::control(control(done))).await;
    let in_time = async {
        tokio::select! {
            () = tokio::time::sleep_until(until) => {}
            () = async { hurried.cancelled().await; tokio::time::sleep(HURRY).await } => {}
        }
    };
    tokio::select! {
        ended = drained => ended.is_ok(),
        () = in_time => false,
    }
}
