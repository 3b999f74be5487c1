//! The shards of one account: opened one after the other, followed in parallel.
//!
//! The gateway allows a few new sessions per five seconds, so `connect` opens as many as its time allows, and the
//! others are opened while the first are followed. A shard that loses its connection is reopened in place. The link is
//! lost when no shard is left, or when a person has to act. Events of a session that has ended are never repeated by
//! the gateway: they are processed to the end, even if the other shards end.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use futures_util::future::{BoxFuture, FutureExt, TryFutureExt};
use futures_util::stream::{FuturesUnordered, StreamExt};
use hermes_adapter_net::backoff::Backoff;
use hermes_adapter_net::reqwest::Url;
use hermes_adapter_sdk::prelude::*;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until, timeout_at};

use crate::api::{GatewayBot, StartLimit};
use crate::connection::Connection;
use crate::gateway::{Dispatch, Entry, Lost, Said, Session, Shard};

/// The maximum number of waiting events. At this limit the connection is not read.
const WAITING_MAX: usize = 512;
/// The maximum number of interactions per shard being acknowledged. At this limit the connection is not read.
const ACKNOWLEDGING_MAX: usize = 64;
/// The number of events without a host event after which the sequence number is stored.
/// After a host event it is always stored.
const UNKEPT_MAX: u64 = 64;
/// The time in which `connect` opens further shards; the host waits thirty seconds for it.
const OPENING_MAX: Duration = Duration::from_secs(15);
/// The pause between two groups of new sessions.
/// <https://docs.discord.com/developers/events/gateway#rate-limiting>
const IDENTIFY_PAUSE: Duration = Duration::from_secs(5);
/// The number of consecutive failed resumes after which a session is abandoned, because it may be permanently broken.
const RESUMES_MAX: u32 = 8;
/// The same for resumes that end with a normal close: the gateway does not restart twice in a row.
const GOODBYES_MAX: u32 = 2;
/// The time limit for processing the events of an ended session, during which the gateway is not read.
const REST_TIMEOUT: Duration = Duration::from_secs(60);
/// The connection time after which a lost shard is reopened immediately.
const STEADY_AFTER: Duration = Duration::from_secs(60);
/// The maximum number of shards per instance.
const SHARDS_MAX: u32 = 256;
/// The first and the longest wait before a shard is reopened.
const AGAIN_AFTER: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));

/// The shards that `connect` opened, and those still to open.
pub struct Opened {
    shards: Vec<(u32, Shard)>,
    missing: VecDeque<u32>,
    pace: Pace,
}

/// The address and the rate limit of new sessions.
struct Pace {
    url: Url,
    /// The number of shards.
    count: u32,
    /// The number of sessions that may be started at the same time.
    at_once: u32,
    limit: Option<StartLimit>,
    begun: u32,
    /// The time from which a further session may be started.
    next_at: Instant,
}

impl Pace {
    fn new(url: Url, gateway: GatewayBot) -> Self {
        let limit = gateway.session_start_limit;
        let at_once = limit.as_ref().map_or(1, |limit| limit.max_concurrency.max(1));
        Self { url, count: gateway.shards.clamp(1, SHARDS_MAX), at_once, limit, begun: 0, next_at: Instant::now() }
    }

    /// Returns the wait in milliseconds if the limit of new sessions is exhausted.
    fn is_used_up(&self) -> Option<u64> {
        let limit = self.limit.as_ref()?;
        (limit.remaining <= self.begun && limit.reset_after > 0).then_some(limit.reset_after)
    }

    /// Waits until a session may be started.
    async fn wait(&self) {
        sleep_until(self.next_at).await;
    }

    /// Records the start of a session.
    fn note(&mut self) {
        self.begun = self.begun.saturating_add(1);
        if self.begun % self.at_once == 0 {
            self.next_at = Instant::now() + IDENTIFY_PAUSE;
        }
    }
}

impl Connection {
    /// Requests the identity of the bot, and opens the first shard and further ones without a long wait.
    pub async fn open(&self) -> Result<(), ConnectError> {
        *self.shards.lock().await = None;
        self.identify().await?;
        self.recall().await?;
        let (url, gateway) = self.gateway().await?;
        let mut pace = Pace::new(url, gateway);
        let mut missing: VecDeque<u32> = (0..pace.count).collect();
        let until = Instant::now() + OPENING_MAX;
        let mut shards = Vec::new();
        while let Some(number) = missing.pop_front() {
            if shards.is_empty() {
                shards.push((number, self.open_shard(number, &mut pace).await?));
                continue;
            }
            match timeout_at(until, self.open_shard(number, &mut pace)).await {
                Ok(Ok(shard)) => shards.push((number, shard)),
                Ok(Err(error @ ConnectError::Fatal { .. })) => return Err(error),
                Ok(Err(error)) => {
                    tracing::info!(shard = number, %error, "shard cannot be opened yet");
                    missing.push_back(number);
                    break;
                }
                Err(_) => {
                    missing.push_front(number);
                    break;
                }
            }
        }
        if !missing.is_empty() {
            tracing::info!(up = shards.len(), of = pace.count, "opening the remaining shards one by one");
        }
        *self.shards.lock().await = Some(Opened { shards, missing, pace });
        self.host.proved();
        Ok(())
    }

    /// Opens one shard: resumes its session, or starts a new one when that is allowed.
    async fn open_shard(&self, number: u32, pace: &mut Pace) -> Result<Shard, ConnectError> {
        let mut session = self.kept_session(number, pace.count).await?;
        if session.is_none() {
            self.may_begin(pace).await?;
        }
        let mut opened = self.open_with(number, pace, session.clone()).await;
        if let Err(Lost::Over(reason)) = &opened
            && session.take().is_some()
        {
            // A new session needs a new connection to the gateway's address.
            // <https://docs.discord.com/developers/events/gateway#preparing-to-resume>
            tracing::info!(shard = number, reason, "session cannot be resumed; starting a new one");
            self.forget_session(number).await;
            self.may_begin(pace).await?;
            opened = self.open_with(number, pace, None).await;
        }
        match opened {
            Ok(shard) => {
                self.keep_session(number, &shard.session).await?;
                Ok(shard)
            }
            Err(lost) => Err(self.not_opened(number, session, lost).await),
        }
    }

    /// Waits until a new session may be started, and counts it.
    async fn may_begin(&self, pace: &mut Pace) -> Result<(), ConnectError> {
        if let Some(wait_ms) = pace.is_used_up() {
            return Err(ConnectError::retry_after_ms(
                "the limit of new Discord sessions is reached; find out what reconnects so often",
                wait_ms,
            ));
        }
        pace.wait().await;
        pace.note();
        Ok(())
    }

    async fn open_with(&self, number: u32, pace: &Pace, session: Option<Session>) -> Result<Shard, Lost> {
        let me = self.me.get().ok_or_else(|| Lost::Resumable("the account of the bot is not known yet".to_owned()))?;
        let entry = Entry {
            client: &self.sockets,
            url: &pace.url,
            only_there: self.gateway_url.is_some(),
            version: self.version,
            token: &self.token,
            bot: &me.id,
            shard: (number, pace.count),
            message_content: self.choice.message_content,
        };
        Shard::open(&entry, session).await
    }

    /// Receives events until no shard is connected; the next `connect` resumes the sessions.
    pub async fn receive(&self) -> Result<(), ConnectError> {
        let Some(Opened { shards, mut missing, pace }) = self.shards.lock().await.take() else {
            return Err(ConnectError::retry("the instance is not connected"));
        };
        let (end, ending) = watch::channel(false);
        let mut followed: FuturesUnordered<BoxFuture<'_, Gone>> = FuturesUnordered::new();
        for (number, shard) in shards {
            followed.push(self.follow(number, shard, ending.clone()).boxed());
        }
        let mut pace = Some(pace);
        let mut backoff = Backoff::new(AGAIN_AFTER.0, AGAIN_AFTER.1);
        let mut opening: Option<BoxFuture<'_, Reopened>> = None;
        let mut wait = Duration::ZERO;
        loop {
            if opening.is_none()
                && let Some(number) = missing.pop_front()
                && let Some(pace) = pace.take()
            {
                opening = Some(self.open_again(number, pace, wait).boxed());
            }
            let is_opening = opening.is_some();
            let gone = tokio::select! {
                Some(gone) = followed.next() => gone,
                reopened = until_done(&mut opening), if is_opening => {
                    opening = None;
                    let (number, kept_pace, opened) = reopened;
                    pace = Some(kept_pace);
                    match opened {
                        Ok(shard) => {
                            wait = Duration::ZERO;
                            followed.push(self.follow(number, shard, ending.clone()).boxed());
                            continue;
                        }
                        Err(error) => Gone::alone(number, error),
                    }
                }
            };
            if gone.with_all || followed.is_empty() {
                // A shard with events of an ended session processes them to the end.
                end.send_replace(true);
                while followed.next().await.is_some() {}
                return Err(gone.error);
            }
            tracing::info!(shard = gone.number, error = %gone.error, "shard is not connected; the others continue");
            missing.push_back(gone.number);
            if gone.lived >= STEADY_AFTER {
                backoff.reset();
            }
            wait = told(&gone.error).unwrap_or_else(|| backoff.next_delay());
        }
    }

    async fn open_again(&self, number: u32, mut pace: Pace, wait: Duration) -> Reopened {
        sleep(wait).await;
        // The limit of new sessions dates from the opening of the link, which may be long ago.
        if let Ok((_, told)) = self.gateway().await {
            (pace.limit, pace.begun) = (told.session_start_limit, 0);
        }
        let opened = self.open_shard(number, &mut pace).await;
        (number, pace, opened)
    }

    /// Follows a shard until its connection is lost, or all shards must end.
    async fn follow(&self, number: u32, shard: Shard, ending: watch::Receiver<bool>) -> Gone {
        let since = Instant::now();
        let gone = match self.follow_on(number, shard, ending).await {
            Ok(lost) => {
                let with_all = matches!(lost, Lost::AllOver(_));
                let gone = Gone::alone(number, self.lost(number, lost).await);
                Gone { with_all: gone.with_all || with_all, ..gone }
            }
            Err(error) => Gone::alone(number, error),
        };
        Gone { lived: since.elapsed(), ..gone }
    }

    async fn follow_on(
        &self,
        number: u32,
        mut shard: Shard,
        mut ending: watch::Receiver<bool>,
    ) -> Result<Lost, ConnectError> {
        let mut waiting: VecDeque<Dispatch> = VecDeque::new();
        let mut work: Option<BoxFuture<'_, Result<(u64, bool), ConnectError>>> = None;
        let mut acknowledging: FuturesUnordered<BoxFuture<'_, ()>> = FuturesUnordered::new();
        let mut kept = shard.session.seq;
        let lost = loop {
            if work.is_none()
                && let Some(dispatch) = waiting.pop_front()
            {
                let session = Session { seq: dispatch.seq, ..shard.session.clone() };
                work = Some(self.take_in_and_keep(number, session, dispatch, kept).boxed());
            }
            let busy = work.is_some();
            let reads = waiting.len() < WAITING_MAX && acknowledging.len() < ACKNOWLEDGING_MAX;
            tokio::select! {
                said = shard.next(reads) => match said {
                    Ok(Said::Event(dispatch)) => {
                        acknowledging.extend(self.hear_ahead(&dispatch));
                        waiting.push_back(dispatch);
                    }
                    Ok(Said::Alive) => self.host.proved(),
                    Err(lost) => break lost,
                },
                done = until_done(&mut work), if busy => {
                    work = None;
                    let (seq, is_kept) = done?;
                    shard.session.seq = seq;
                    if is_kept {
                        kept = seq;
                    }
                }
                Some(()) = acknowledging.next() => {}
                _ = ending.changed() => break Lost::Resumable("another shard closed the connection".to_owned()),
            }
        };
        drop(shard);
        // Users who wait for an acknowledgement must not wait for the next connection.
        let acknowledged = async { while acknowledging.next().await.is_some() {} };
        if matches!(lost, Lost::Over(_) | Lost::AllOver(_)) {
            // The gateway never repeats these events.
            let rest = waiting.into_iter().map(|dispatch| self.take_in(dispatch).map_ok(drop).boxed());
            let rest = work.take().map(|work| work.map_ok(drop).boxed()).into_iter().chain(rest);
            let (left, _) = tokio::join!(all_within(REST_TIMEOUT, rest), acknowledged);
            let left = left?;
            if left > 0 {
                tracing::warn!(shard = number, left, "events of an ended session were not stored in time and are lost");
            }
        } else {
            acknowledged.await;
        }
        Ok(lost)
    }

    /// Processes one event; returns its sequence number, and whether that is stored.
    async fn take_in_and_keep(
        &self,
        number: u32,
        session: Session,
        dispatch: Dispatch,
        kept: u64,
    ) -> Result<(u64, bool), ConnectError> {
        let is_event = self.take_in(dispatch).await?;
        let keeps = is_event || session.seq.saturating_sub(kept) >= UNKEPT_MAX;
        if keeps {
            self.keep_session(number, &session).await?;
        }
        Ok((session.seq, keeps))
    }

    /// Returns the stored session of a shard, if it belongs to this bot and this number of shards.
    async fn kept_session(&self, shard: u32, of: u32) -> Result<Option<Session>, ConnectError> {
        let kept = self.host.kv().get(&session_key(shard)).await;
        let kept = kept.map_err(|error| ConnectError::retry(error.to_string()))?;
        let session: Option<Session> = kept.and_then(|text| serde_json::from_str(&text).ok());
        let me = self.me.get().map(|me| me.id.as_str());
        Ok(session.filter(|session| Some(session.bot.as_str()) == me && session.of == of))
    }

    async fn keep_session(&self, shard: u32, session: &Session) -> Result<(), ConnectError> {
        let text = serde_json::to_string(session).expect("texts and numbers are always JSON");
        let kept = self.host.kv().set(&session_key(shard), &text).await;
        kept.map_err(|error| ConnectError::retry(format!("the session cannot be saved: {error}")))
    }

    /// Returns the effect of a failed opening. A session whose own address fails is resumed at the gateway's address
    /// next; one that fails repeatedly while the HTTP API works is abandoned.
    async fn not_opened(&self, shard: u32, session: Option<Session>, lost: Lost) -> ConnectError {
        if let (Some(mut session), Lost::Resumable(reason) | Lost::Goodbye(reason)) = (session, &lost) {
            session.failures = session.failures.saturating_add(1);
            let failures_max = if matches!(lost, Lost::Goodbye(_)) { GOODBYES_MAX } else { RESUMES_MAX };
            if session.failures >= failures_max {
                return self.lost(shard, Lost::Over(reason.clone())).await;
            }
            if let Err(error) = self.keep_session(shard, &session).await {
                return error;
            }
        }
        self.lost(shard, lost).await
    }

    /// Returns the effect of a lost connection on the link; an ended session is removed.
    async fn lost(&self, shard: u32, lost: Lost) -> ConnectError {
        match lost {
            Lost::Fatal { reason, mend } => ConnectError::fatal(reason, mend),
            Lost::Resumable(reason) | Lost::Goodbye(reason) => ConnectError::retry(reason),
            Lost::Over(reason) | Lost::AllOver(reason) => {
                self.forget_session(shard).await;
                ConnectError::retry(reason)
            }
        }
    }

    async fn forget_session(&self, shard: u32) {
        if let Err(error) = self.host.kv().delete(&session_key(shard)).await {
            tracing::warn!(%error, "ended session cannot be removed; the gateway will reject it again");
        }
    }
}

/// A shard without a connection.
struct Gone {
    number: u32,
    error: ConnectError,
    /// True if the others must end, too.
    with_all: bool,
    /// The time for which it was connected.
    lived: Duration,
}

impl Gone {
    /// Creates the loss of a single shard. The others continue unless a person has to act.
    fn alone(number: u32, error: ConnectError) -> Self {
        Self { number, with_all: matches!(error, ConnectError::Fatal { .. }), error, lived: Duration::ZERO }
    }
}

/// The result of reopening a shard.
type Reopened = (u32, Pace, Result<Shard, ConnectError>);

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
async fn until_done<F: Future + Unpin>(work: &mut Option<F>) -> F::Output {
    match work {
        Some(work) => Pin::new(work).await,
        None => std::future::pending().await,
    }
}

/// Returns the wait that an error requests.
fn told(error: &ConnectError) -> Option<Duration> {
    match error {
        ConnectError::Retry { after_ms, .. } => after_ms.map(Duration::from_millis),
        _ => None,
    }
}

fn session_key(shard: u32) -> String {
    format!("session:{shard}")
}

#[cfg(test)]
mod tests {
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
        assert_eq!(all_within(REST_TIMEOUT, steps(&[1, 2, 3])).await, Ok(0));
        assert_eq!(all_within(REST_TIMEOUT, steps(&[50, 600, 4, 5])).await, Ok(3));
        assert_eq!(*done.borrow(), [1, 2, 3, 50]);
        assert_eq!(all_within(REST_TIMEOUT, [async { Err("no") }].into_iter()).await, Err("no"));
    }
}
