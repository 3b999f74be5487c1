//! The events of one shard: received in advance, processed one after the other.
//!
//! Events of a session that has ended are never repeated by the gateway: they are processed to the end, even if the
//! other shards end.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use futures_util::future::{BoxFuture, FutureExt, TryFutureExt};
use futures_util::stream::{FuturesUnordered, StreamExt};
use hermes_adapter_sdk::prelude::*;
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

use crate::connection::Connection;
use crate::gateway::{Disconnect, Dispatch, Session, Shard, ShardEvent};
use crate::gateway_sessions;

/// The maximum number of waiting events. At this limit the connection is not read.
const WAITING_MAX: usize = 512;
/// The maximum number of interactions per shard being acknowledged. At this limit the connection is not read.
const ACKNOWLEDGING_MAX: usize = 64;
/// The number of events without a host event after which the sequence number is stored.
/// After a host event it is always stored.
const UNSAVED_MAX: u64 = 64;
/// The time limit for processing the events of an ended session, during which the gateway is not read.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(60);

/// A shard without a connection.
pub(crate) struct LostShard {
    pub number: u32,
    pub error: ConnectError,
    /// True if the other shards must end, too.
    pub ends_all: bool,
    /// The time for which it was connected.
    pub uptime: Duration,
}

impl LostShard {
    /// Creates the loss of a single shard. The others continue unless a person has to act.
    pub(crate) fn new(number: u32, error: ConnectError) -> Self {
        Self { number, ends_all: matches!(error, ConnectError::Fatal { .. }), error, uptime: Duration::ZERO }
    }
}

/// Processes the events of a shard until its connection is lost, or all shards must end.
pub(crate) async fn follow(
    connection: &Connection,
    number: u32,
    shard: Shard,
    ending: watch::Receiver<bool>,
) -> LostShard {
    let since = Instant::now();
    let lost = match follow_until_lost(connection, number, shard, ending).await {
        Ok(disconnect) => {
            let ends_all = matches!(disconnect, Disconnect::Reshard(_));
            let error = gateway_sessions::after_disconnect(&connection.host, number, disconnect).await;
            let lost = LostShard::new(number, error);
            LostShard { ends_all: lost.ends_all || ends_all, ..lost }
        }
        Err(error) => LostShard::new(number, error),
    };
    LostShard { uptime: since.elapsed(), ..lost }
}

async fn follow_until_lost(
    connection: &Connection,
    number: u32,
    mut shard: Shard,
    mut ending: watch::Receiver<bool>,
) -> Result<Disconnect, ConnectError> {
    let mut waiting: VecDeque<Dispatch> = VecDeque::new();
    let mut current: Option<BoxFuture<'_, Result<Progress, ConnectError>>> = None;
    let mut acknowledging: FuturesUnordered<BoxFuture<'_, ()>> = FuturesUnordered::new();
    let mut saved_seq = shard.session.seq;
    let disconnect = loop {
        if current.is_none() {
            if let Some(dispatch) = waiting.pop_front() {
                let session = Session { seq: dispatch.seq, ..shard.session.clone() };
                current = Some(process(connection, number, session, dispatch, saved_seq).boxed());
            }
        }
        let is_busy = current.is_some();
        let reads = waiting.len() < WAITING_MAX && acknowledging.len() < ACKNOWLEDGING_MAX;
        tokio::select! {
            event = shard.next(reads) => match event {
                Ok(ShardEvent::Dispatch(dispatch)) => {
                    acknowledging.extend(connection.preprocess(&dispatch));
                    waiting.push_back(dispatch);
                }
                Ok(ShardEvent::Alive) => connection.host.proved(),
                Err(disconnect) => break disconnect,
            },
            done = until_done(&mut current), if is_busy => {
                current = None;
                let progress = done?;
                shard.session.seq = progress.seq;
                if progress.is_saved {
                    saved_seq = progress.seq;
                }
            }
            Some(()) = acknowledging.next() => {}
            _ = ending.changed() => break Disconnect::Resumable("another shard closed the connection".to_owned()),
        }
    };
    drop(shard);
    // Users who wait for an acknowledgement must not wait for the next connection.
    let acknowledged = async { while acknowledging.next().await.is_some() {} };
    if matches!(disconnect, Disconnect::SessionEnded(_) | Disconnect::Reshard(_)) {
        // The gateway never repeats these events.
        let rest = waiting.into_iter().map(|dispatch| connection.process(dispatch).map_ok(drop).boxed());
        let rest = current.take().map(|current| current.map_ok(drop).boxed()).into_iter().chain(rest);
        let (left, _) = tokio::join!(all_within(DRAIN_TIMEOUT, rest), acknowledged);
        let left = left?;
        if left > 0 {
            tracing::warn!(shard = number, left, "events of an ended session were not stored in time and are lost");
        }
    } else {
        acknowledged.await;
    }
    Ok(disconnect)
}

/// The position in a session after an event was processed.
struct Progress {
    seq: u64,
    is_saved: bool,
}

/// Processes one event, and saves the session if the host got an event or the last save is long ago.
async fn process(
    connection: &Connection,
    number: u32,
    session: Session,
    dispatch: Dispatch,
    saved_seq: u64,
) -> Result<Progress, ConnectError> {
    let is_event = connection.process(dispatch).await?;
    let is_saved = is_event || session.seq.saturating_sub(saved_seq) >= UNSAVED_MAX;
    if is_saved {
        gateway_sessions::save(&connection.host, number, &session).await?;
    }
    Ok(Progress { seq: session.seq, is_saved })
}

/// Runs steps one after the other within a time limit; returns the number of remaining steps.
async fn all_within<E>(
    time: Duration,
    steps: impl Iterator<Item = impl Future<Output = Result<(), E>>>,
) -> Result<usize, E> {
    let until = Instant::now() + time;
    let mut steps = steps;
    while let Some(step) = steps.next() {
        match timeout_at(until, step).await {
            Ok(done) => done?,
            Err(_) => return Ok(1 + steps.count()),
        }
    }
    Ok(0)
}

/// Waits for the current work; without work forever.
pub(crate) async fn until_done<F: Future + Unpin>(work: &mut Option<F>) -> F::Output {
    match work {
        Some(work) => Pin::new(work).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::sleep;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_is_left_of_a_session_has_its_time_and_no_more() {
        let done = std::cell::RefCell::new(Vec::new());
        let steps = |secs: &'static [u64]| {
            secs.iter().map(|secs| async {
                sleep(Duration::from_secs(*secs)).await;
                done.borrow_mut().push(*secs);
                Ok::<_, ()>(())
            })
        };
        assert_eq!(all_within(DRAIN_TIMEOUT, steps(&[1, 2, 3])).await, Ok(0));
        assert_eq!(all_within(DRAIN_TIMEOUT, steps(&[50, 600, 4, 5])).await, Ok(3));
        assert_eq!(*done.borrow(), [1, 2, 3, 50]);
        assert_eq!(all_within(DRAIN_TIMEOUT, [async { Err("no") }].into_iter()).await, Err("no"));
    }
}
