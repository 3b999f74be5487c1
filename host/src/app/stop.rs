//! A planned end, in order and within its time.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::App;
use super::signals::{Signals, Wish};
use crate::events::{Control, HostEvent};
use crate::plugins::terminal::Leaving;

/// How the host ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// For good.
    Stop,
    /// To be started again.
    Restart,
    /// Because a task that must not end has ended; to be started again.
    Broken,
    /// Because another host takes over.
    HandOver,
}

impl End {
    /// What it is after all; `by_stop`: somebody wanted the host to stop meanwhile, and is not answered with another
    /// life of it.
    pub fn overruled(self, by_stop: bool) -> Self {
        match self {
            Self::Restart | Self::Broken if by_stop => Self::Stop,
            end => end,
        }
    }

    /// What terminals are told.
    fn leaving(self) -> Leaving {
        match self {
            Self::Stop => Leaving::Stop,
            Self::Restart | Self::Broken => Leaving::Restart,
            Self::HandOver => Leaving::HandOver,
        }
    }
}

/// How long is left for each step once somebody hurries.
const HURRY: Duration = Duration::from_secs(2);

/// How long lanes may take to let go after turns were parked.
const PARKED: Duration = Duration::from_secs(2);

/// Listens for a second wish to stop, which shortens the drain; `at_once`: it is short already.
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

/// Takes the host apart.
pub async fn drain(app: &Arc<App>, end: End, hurried: CancellationToken) {
    let host = &app.host;
    let drain = host.live().config.host.drain;
    let until = Instant::now() + drain;
    app.state.send_replace("draining");
    app.terminals.leave(end.leaving());
    tracing::info!(seconds = drain.as_secs(), "draining");
    host.draining.cancel();

    if !step(app, Control::DrainLanes, until, &hurried).await {
        tracing::info!("turns that still run are parked for the next start");
    }
    let sent = step(app, Control::DrainOutbox, until, &hurried).await;
    app.state.send_replace("stopping");
    host.parking.cancel();
    if !sent {
        // A part in flight gets its moment to be settled; what is not settled is found at the next start.
        step(app, Control::DrainOutbox, Instant::now() + PARKED, &CancellationToken::new()).await;
    }
    step(app, Control::DrainLanes, Instant::now() + PARKED, &CancellationToken::new()).await;
    let stop = host.live().config.host.adapter_stop;
    app.adapters.shutdown(stop * 4).await;
    match host.store.close().await {
        Ok(()) => tracing::info!("ended"),
        Err(error) => tracing::error!(%error, "the state was not closed cleanly; the next start looks after it"),
    }
}

/// One step of the end; `false` when its time was over first.
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
