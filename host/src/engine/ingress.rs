//! The intake of events: no event is acknowledged before it is committed.
//!
//! The path of an event: read and bounded → a slot in its instance's queue (the wait for one is the back-pressure) →
//! inbox row committed → handed to the dispatcher → acknowledged. An event that is stored already is acknowledged as a
//! duplicate.
//!
//! One task per instance accepts its events in the order of the calls, commits many of them at once, and forwards them
//! in that order. A caller that disconnects changes nothing: a committed event is forwarded.
//!
//! Events of unknown senders cost no commit beyond a bound. Above it the dispatcher judges such an event before it is
//! written, in its order; the event is written only if it changes something or is answered. The others are acknowledged
//! under [`NOT_KEPT`].
//!
//! An adapter does not lose its link because the host cannot process an event at present. While the host drains, events
//! are committed and wait in the inbox. While the database cannot be written, the acknowledgement waits. While the
//! shared capacity is full, each instance may have a few events that wait for it. An event is refused only if its
//! sender needs an answer at once or never, or if its instance has used up these few.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesOrdered;
use hermes_core::file_refs;
use hermes_core::limits::{STRANGER_BURST_EVENTS, STRANGER_EVENTS_PER_S};
use hermes_core::rate::TokenBucket;
use hermes_protocol::{CallError, Emitted, Event, EventKind};
use serde_json::Value;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};

use crate::engine::crash_points;
use crate::engine::dispatcher::trust_in;
use crate::engine::messages::{HostEvent, Inbound, Permit, Place, Stray};
use crate::engine::reply::forward;
use crate::engine::runtime::Host;
use hermes_core::message_edit;
use hermes_core::text::one_line;
use hermes_loader::{AdapterHandle, terminal};
use hermes_store::{Accepted, NewInbox, StoreError};

/// Events of one instance that are committed at once; further ones wait in order.
const ACCEPTING_MAX: usize = 64;

/// Bytes of the events of all instances that wait for the commit or for their lane.
const WAITING_BYTES_MAX: usize = 64 << 20;
/// Bytes of the events of one instance that may wait while the shared capacity is full, see [`Ingress::give`]: an
/// instance that floods the host costs the others only time.
const LEFT_BYTES_MAX: usize = 4 << 20;
/// The unit of these counts, in bytes; a smaller event counts as one unit.
const ROOM_UNIT_BYTES: usize = 1 << 10;

/// Bytes of events of one instance that are committed at once, so that the large events of one instance do not delay
/// other instances; a larger event is committed alone.
const ACCEPTING_BYTES_MAX: usize = 1 << 20;

/// Bytes up to which an event of an unknown sender counts as one.
const STRANGER_EVENT_BYTES: usize = 16 << 10;

/// The `inbox_id` of an event that the inbox does not hold; no row has it.
pub const NOT_KEPT: i64 = 0;

/// Shortest time between two log lines about one kind of loss of an instance.
const TOLD_EVERY_MS: i64 = 60_000;

/// The longest logged reason of a refused event, in characters.
const REFUSED_CHARS_MAX: usize = 300;

/// First wait before a failed write is retried.
const AGAIN_AFTER: Duration = Duration::from_millis(100);
/// Longest wait before a failed write is retried.
const AGAIN_AFTER_MAX: Duration = Duration::from_secs(5);

/// The queues between the adapters and the dispatcher.
pub struct Ingress {
    host: Arc<Host>,
    runtime: tokio::runtime::Handle,
    /// Unbounded channels with bounded content: the calls of one instance are bounded at their entry.
    queues: Mutex<BTreeMap<Arc<str>, Queue>>,
    /// The capacity for the events of all instances, in [`ROOM_UNIT_BYTES`].
    room: Arc<Semaphore>,
}

/// The queue of one instance.
struct Queue {
    given: mpsc::UnboundedSender<Given>,
    /// The capacity for waiting events while the shared capacity is full, in [`ROOM_UNIT_BYTES`].
    left: Arc<Semaphore>,
}

impl Queue {
    fn new(given: mpsc::UnboundedSender<Given>) -> Self {
        Self { given, left: Arc::new(Semaphore::new(LEFT_BYTES_MAX / ROOM_UNIT_BYTES)) }
    }

    /// Reserves capacity for one event, now or later; otherwise returns the error for its adapter.
    fn room(&self, shared: &Arc<Semaphore>, bytes: usize, can_wait: impl FnOnce() -> bool) -> Result<Room, CallError> {
        // A later event waits behind a waiting one, which keeps the order.
        let is_behind = self.left.available_permits() < LEFT_BYTES_MAX / ROOM_UNIT_BYTES;
        let busy = match room_for(shared, bytes) {
            Ok(room) if !is_behind => return Ok(Room::Here(room)),
            Ok(_) => busy(),
            Err(busy) => busy,
        };
        if !can_wait() {
            return Err(busy);
        }
        let left = Arc::clone(&self.left).try_acquire_many_owned(units(bytes));
        left.map(|left| Room::Awaited { _left: left }).map_err(|_| busy)
    }
}

/// An event of an adapter, with the caller that waits for the acknowledgement.
struct Given {
    payload: Vec<u8>,
    room: Room,
    reply: oneshot::Sender<Reply>,
}

type Reply = Result<Emitted, CallError>;

/// The capacity of an event.
enum Room {
    /// The event has its capacity.
    Here(OwnedSemaphorePermit),
    /// The event waits for capacity, in this slot.
    Awaited { _left: OwnedSemaphorePermit },
}

/// An event that was read.
enum Taken {
    /// A committed event.
    Written(Written),
    /// An event of an unknown sender beyond the bound, which the dispatcher judges first.
    Stray(Box<Unwritten>),
}

/// An event after its commit.
struct Written {
    emitted: Emitted,
    inbound: Option<Inbound>,
}

/// An event before its commit.
struct Unwritten {
    new: NewInbox,
    event: Box<Event>,
    /// True if the commit is repeated until the disk takes it.
    waits: bool,
    permit: Permit,
}

impl Ingress {
    /// Creates the intake of `host`. Must be called inside its runtime.
    pub fn new(host: Arc<Host>) -> Self {
        Self {
            host,
            runtime: tokio::runtime::Handle::current(),
            queues: Mutex::default(),
            room: Arc::new(Semaphore::new(WAITING_BYTES_MAX / ROOM_UNIT_BYTES)),
        }
    }

    /// Queues an event. Never blocks; the order of the calls is the order of the events. If too many events of this or
    /// other instances wait already, the event is refused, and its adapter still has it.
    pub fn give(&self, instance: &Arc<str>, payload: Vec<u8>) -> oneshot::Receiver<Reply> {
        let (reply, taken) = oneshot::channel();
        let mut queues = self.queues.lock().unwrap_or_else(PoisonError::into_inner);
        let queue = queues.entry(Arc::clone(instance)).or_insert_with(|| {
            let (queue, given) = mpsc::unbounded_channel();
            let (host, room) = (Arc::clone(&self.host), Arc::clone(&self.room));
            self.runtime.spawn(take_all(host, Arc::clone(instance), room, given));
            Queue::new(queue)
        });
        let room = queue.room(&self.room, payload.len(), || can_wait(&self.host, instance));
        match room {
            // The task ends with the process; a closed queue answers by the dropped reply.
            Ok(room) => drop(queue.given.send(Given { payload, room, reply })),
            // A caller that has stopped waiting needs no answer.
            Err(error) => drop(reply.send(Err(error))),
        }
        taken
    }
}

/// Reserves capacity for one event, or returns the error for its adapter.
fn room_for(room: &Arc<Semaphore>, bytes: usize) -> Result<OwnedSemaphorePermit, CallError> {
    Arc::clone(room).try_acquire_many_owned(units(bytes)).map_err(|_| busy())
}

fn busy() -> CallError {
    let mib = WAITING_BYTES_MAX >> 20;
    let why = format!("the event buffer of the host is full ({mib} MiB); emit this event again later");
    CallError::new("busy", why)
}

fn units(bytes: usize) -> u32 {
    u32::try_from(bytes.div_ceil(ROOM_UNIT_BYTES)).unwrap_or(u32::MAX)
}

/// Accepts the events of one instance, in order.
async fn take_all(
    host: Arc<Host>,
    instance: Arc<str>,
    shared: Arc<Semaphore>,
    mut given: mpsc::UnboundedReceiver<Given>,
) {
    // The events of an earlier run come first.
    host.recovered.cancelled().await;
    let desk = Desk {
        places: Arc::new(Semaphore::new(host.live().config.limits.ingress_queue_max.max(1))),
        strangers: Mutex::new(TokenBucket::new(STRANGER_BURST_EVENTS, STRANGER_EVENTS_PER_S, host.now_ms())),
        host,
        instance,
        shared,
    };
    let mut accepting = FuturesOrdered::new();
    let mut accepting_bytes = 0;
    let mut tallies = Tallies::default();
    loop {
        tokio::select! {
            Some(next) = given.recv(), if accepting.len() < ACCEPTING_MAX && accepting_bytes < ACCEPTING_BYTES_MAX => {
                let bytes = next.payload.len();
                accepting_bytes += bytes;
                let accepted = desk.accept(next.payload, next.room);
                accepting.push_back(async move { (accepted.await, next.reply, bytes) });
            }
            Some((accepted, reply, bytes)) = accepting.next() => {
                accepting_bytes -= bytes;
                let answer = desk.pass_on(accepted).await;
                tallies.note(&desk, &answer);
                // A caller that has gone gets the event again as a duplicate.
                let _ = reply.send(answer);
            }
            else => return,
        }
    }
}

/// The intake of one instance.
struct Desk {
    host: Arc<Host>,
    instance: Arc<str>,
    /// The slots between the instance and the lanes, in events.
    places: Arc<Semaphore>,
    /// The capacity for the events of all instances.
    shared: Arc<Semaphore>,
    /// The events of unknown senders that are written without a judgement.
    strangers: Mutex<TokenBucket>,
}

/// Events of one instance that were not stored, for the log.
#[derive(Default)]
struct Tallies {
    refused: Tally,
    strangers: Tally,
}

impl Tallies {
    fn note(&mut self, desk: &Desk, answer: &Reply) {
        let (instance, now_ms) = (&desk.instance, desk.host.now_ms());
        match answer {
            // An adapter that does not report them seems deaf. Other refusals are temporary, and the adapter retries.
            Err(error) if matches!(error.code.as_str(), "invalid" | "too_large") => {
                desk.host.count_refused_event();
                let Some(count) = self.refused.due(now_ms) else { return };
                let why = one_line(&error.message, REFUSED_CHARS_MAX);
                tracing::warn!(%instance, count, "rejected an invalid event: {why} (adapter bug)");
            }
            Ok(Emitted::New { inbox_id: NOT_KEPT }) => {
                let Some(count) = self.strangers.due(now_ms) else { return };
                tracing::info!(
                    %instance, count,
                    "unknown senders exceed their rate limit; these messages were acknowledged and not stored"
                );
            }
            _ => {}
        }
    }
}

/// A number of events that the log names once a minute.
#[derive(Default)]
struct Tally {
    /// Events since the last log line.
    untold: u64,
    /// Time of the last log line, in milliseconds since the Unix epoch.
    told_ms: Option<i64>,
}

impl Tally {
    /// Counts an event; returns the number since the last line if another line is due.
    fn due(&mut self, now_ms: i64) -> Option<u64> {
        self.untold += 1;
        if self.told_ms.is_some_and(|told| now_ms.abs_diff(told) < TOLD_EVERY_MS.unsigned_abs()) {
            return None;
        }
        self.told_ms = Some(now_ms);
        Some(std::mem::take(&mut self.untold))
    }
}

impl Desk {
    /// Commits one event, unless the dispatcher has to judge it first.
    async fn accept(&self, payload: Vec<u8>, room: Room) -> Result<Taken, CallError> {
        let (host, instance) = (&self.host, &self.instance);
        let (event, text) = read(payload, host.live().config.limits.event_bytes_max)?;
        let is_call = forward::wanted(host.adapter(instance).as_ref(), &event).is_some();
        let is_late = can_wait(host, instance);
        let waits = is_call || is_late;
        if let Some(why) = host.takes_nothing().filter(|_| !waits && !is_for_what_runs(&event)) {
            // An adapter retries in both cases; a draining host keeps running.
            let code = if host.draining.is_cancelled() { "unavailable" } else { "busy" };
            return Err(CallError::new(code, why));
        }
        let room = match room {
            Room::Here(room) => Some(room),
            // In order of arrival; nobody closes the semaphore.
            Room::Awaited { _left } => Arc::clone(&self.shared).acquire_many_owned(units(text.len())).await.ok(),
        };
        crash_points::point("after_receive");
        // Nobody closes the semaphore; an event without a slot would still be kept.
        let place = Arc::clone(&self.places).acquire_owned().await.ok();
        let permit: Permit = place.zip(room).map(|(place, room)| Place { _place: place, _room: room });
        let received_ms = host.now_ms();
        // A caller of another kind than a chat platform waits for the result, so its event gets a row.
        let is_judged = is_late && !is_call && self.is_strangers(&event) && !self.has_room_for_strangers(text.len());
        let new = NewInbox {
            instance: instance.to_string(),
            event_id: host.accounts.own(instance, &event.event_id),
            at_ms: if event.at_ms > 0 { event.at_ms } else { received_ms },
            received_ms,
            event: text,
        };
        let unwritten = Unwritten { new, event, waits, permit };
        match is_judged {
            true => Ok(Taken::Stray(Box::new(unwritten))),
            false => self.write(unwritten).await.map(Taken::Written),
        }
    }

    /// Returns true if nothing admits the sender of an event, by the grants that the dispatcher published.
    fn is_strangers(&self, event: &Event) -> bool {
        let trust = trust_in(self.host.adapter(&self.instance).as_ref());
        let (live, grants) = (self.host.live(), self.host.grants());
        live.access.tier_of(&self.instance, &event.chat, &event.sender, &grants, trust).is_none()
    }

    fn has_room_for_strangers(&self, bytes: usize) -> bool {
        let events = u32::try_from(bytes.div_ceil(STRANGER_EVENT_BYTES)).unwrap_or(u32::MAX);
        let mut allowance = self.strangers.lock().unwrap_or_else(PoisonError::into_inner);
        allowance.take(events, self.host.now_ms())
    }

    /// Commits one event.
    async fn write(&self, unwritten: Unwritten) -> Result<Written, CallError> {
        let (host, instance) = (&self.host, &self.instance);
        let Unwritten { new, mut event, waits, permit } = unwritten;
        let (dated_ms, received_ms) = (event.at_ms, new.received_ms);
        match written(host, new, &mut event, waits).await {
            Ok(Accepted::New(id)) => {
                host.media.named(instance, file_refs::files(&event));
                if dated_ms > 0 {
                    host.clocks.learn(instance, dated_ms, received_ms);
                }
                // The row has it, and no later step reads it.
                event.raw = Value::Null;
                let inbound = Inbound { id, instance: Arc::clone(instance), event, input: None, permit };
                Ok(Written { emitted: Emitted::New { inbox_id: id.0 }, inbound: Some(inbound) })
            }
            Ok(Accepted::Duplicate(id)) => {
                host.media.let_go_again(instance, file_refs::files(&event));
                Ok(Written { emitted: Emitted::Duplicate { duplicate_of: id.0 }, inbound: None })
            }
            Err(error) => Err(CallError::new("unavailable", error.to_string())),
        }
    }

    /// Hands an event to the dispatcher; returns the answer to its adapter.
    async fn pass_on(&self, accepted: Result<Taken, CallError>) -> Reply {
        let Written { emitted, inbound } = match accepted? {
            Taken::Written(written) => written,
            Taken::Stray(unwritten) => match self.judged(*unwritten).await? {
                Some(unwritten) => self.write(unwritten).await?,
                None => {
                    self.host.count_event();
                    return Ok(Emitted::New { inbox_id: NOT_KEPT });
                }
            },
        };
        if let Some(inbound) = inbound {
            crash_points::point("after_inbox_commit");
            self.host.count_event();
            self.host.tell(HostEvent::Inbound(inbound)).await;
        }
        Ok(emitted)
    }

    /// Asks the dispatcher, which has processed the earlier events, whether an event has to be kept.
    async fn judged(&self, unwritten: Unwritten) -> Result<Option<Unwritten>, CallError> {
        let Unwritten { new, event, waits, permit } = unwritten;
        let (verdict, judged) = oneshot::channel();
        self.host.tell(HostEvent::Stray(Stray { instance: Arc::clone(&self.instance), event, verdict })).await;
        match judged.await {
            Ok(event) => Ok(event.map(|event| Unwritten { new, event, waits, permit })),
            Err(_) => Err(CallError::new("unavailable", "the host is stopping")),
        }
    }
}

/// Returns whether events of this instance may be answered later, because no caller waits for the answer.
fn can_wait(host: &Host, instance: &str) -> bool {
    let later = |adapter: &AdapterHandle| adapter.capabilities().supports_async_delivery;
    instance != terminal::INSTANCE && host.adapter(instance).as_ref().is_none_or(later)
}

/// Returns whether an event concerns running work, so that it cannot wait.
fn is_for_what_runs(event: &Event) -> bool {
    let order = event.text.split_whitespace().next();
    event.kind == EventKind::Choice
        || event.deliver.is_none()
            && event.forwarded.is_none()
            && matches!(order, Some("/stop" | "/approve" | "/deny" | "/status"))
}

/// Commits an event. If it `waits`, the commit is retried until the host ends. An edit that arrived before its message
/// changes the message.
async fn written(host: &Host, new: NewInbox, event: &mut Event, waits: bool) -> Result<Accepted, StoreError> {
    let edit = event.kind == EventKind::Edited && message_edit::says_something(event);
    if edit {
        // Before the write, so that a reader that takes the edited message checks for edits from here on.
        host.counts.edits.fetch_add(1, Ordering::Relaxed);
    }
    let mut wait = AGAIN_AFTER;
    loop {
        let accepted = match &event.message_id {
            _ if edit => host.store.accept_edit(new.clone(), event.clone()).await,
            Some(message_id) if event.kind == EventKind::Message => {
                let accepted = host.store.accept_message(new.clone(), message_id.clone()).await;
                accepted.map(|(accepted, changed)| {
                    if let Some(changed) = changed {
                        *event = changed;
                    }
                    accepted
                })
            }
            _ => host.store.accept(new.clone()).await,
        };
        match accepted {
            Err(error @ (StoreError::DiskFull { .. } | StoreError::Disk { .. } | StoreError::Busy { .. })) if waits => {
                if wait == AGAIN_AFTER {
                    tracing::warn!(instance = new.instance, %error, "event could not be committed; retrying");
                    // The files are kept for as long.
                    host.media.named(&new.instance, file_refs::files(event));
                }
                if host.draining.run_until_cancelled(tokio::time::sleep(wait)).await.is_none() {
                    return Err(error);
                }
                wait = (wait * 2).min(AGAIN_AFTER_MAX);
            }
            answer => return answer,
        }
    }
}

/// Reads an event; refuses a payload that cannot be an event of a platform.
fn read(payload: Vec<u8>, bytes_max: usize) -> Result<(Box<Event>, String), CallError> {
    if payload.len() > bytes_max {
        return Err(CallError::new(
            "too_large",
            format!("an event may have at most {bytes_max} bytes, but this one has {}", payload.len()),
        ));
    }
    let text = String::from_utf8(payload).map_err(|_| CallError::new("invalid", "the event is not UTF-8"))?;
    let event: Box<Event> = serde_json::from_str(&text)
        .map_err(|error| CallError::new("invalid", format!("the event cannot be read: {error}")))?;
    event.judge()?;
    Ok((event, text))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(payload: &[u8]) -> String {
        read(payload.to_vec(), 200).unwrap_err().code
    }

    #[test]
    fn what_is_no_event_is_refused_with_a_word() {
        assert_eq!(code(b"{"), "invalid");
        assert_eq!(code(b"\xff"), "invalid");
        assert_eq!(code(&[b' '; 201]), "too_large");
        let nameless =
            br#"{"type":"message","event_id":"","at_ms":1,"chat":{"type":"dm","id":"1"},"sender":{"id":"1"}}"#;
        assert_eq!(code(nameless), "invalid");
        let unanswered =
            br#"{"type":"choice","event_id":"c:1","at_ms":1,"chat":{"type":"dm","id":"1"},"sender":{"id":"1"}}"#;
        assert_eq!(code(unanswered), "invalid");
    }

    #[test]
    fn refused_events_are_told_once_a_minute_with_their_number() {
        let mut tally = Tally::default();
        assert_eq!(tally.due(1_000), Some(1));
        assert_eq!(tally.due(1_001), None);
        assert_eq!(tally.due(60_999), None);
        assert_eq!(tally.due(61_000), Some(3));
        assert_eq!(tally.due(500), Some(1), "a clock that was set back keeps nothing silent");
    }

    #[test]
    fn events_of_all_instances_share_one_room_and_give_it_back() {
        let room = Arc::new(Semaphore::new(WAITING_BYTES_MAX / ROOM_UNIT_BYTES));
        let large: Vec<_> = (0..8).map(|_| room_for(&room, WAITING_BYTES_MAX / 8).unwrap()).collect();
        let refused = room_for(&room, 1).unwrap_err();
        assert_eq!(refused.code, "busy");
        assert!(refused.message.contains("(64 MiB)") && refused.message.contains("again later"), "{refused}");
        drop(large);
        drop(room_for(&room, WAITING_BYTES_MAX).unwrap());
        room_for(&room, usize::MAX).unwrap_err();
    }

    #[tokio::test]
    async fn an_instance_leaves_a_few_events_while_another_fills_the_room() {
        let shared = Arc::new(Semaphore::new(WAITING_BYTES_MAX / ROOM_UNIT_BYTES));
        let (given, _events) = mpsc::unbounded_channel();
        let queue = Queue::new(given);
        let flood = room_for(&shared, WAITING_BYTES_MAX).unwrap();
        let first = queue.room(&shared, 10_000, || true).unwrap();
        assert!(matches!(first, Room::Awaited { .. }), "no link is lost for it");
        assert_eq!(queue.room(&shared, 10_000, || false).err().unwrap().code, "busy", "who is answered now or never");
        let rest = queue.room(&shared, LEFT_BYTES_MAX - 2 * 10_240, || true).unwrap();
        assert_eq!(queue.room(&shared, 20_000, || true).err().unwrap().code, "busy", "a few, and no more");
        drop(flood);
        assert!(matches!(queue.room(&shared, 100, || true), Ok(Room::Awaited { .. })), "the order stays");
        drop((first, rest));
        assert!(matches!(queue.room(&shared, 100, || true), Ok(Room::Here(_))));
    }

    #[test]
    fn the_text_of_an_event_is_kept_byte_for_byte() {
        let text = r#"{"type":"message","event_id":"m:1:1","at_ms":1,"chat":{"type":"dm","id":"1"},"sender":{"id":"1"}, "x":1}"#;
        let (event, kept) = read(text.as_bytes().to_vec(), 200).unwrap();
        assert_eq!((event.event_id.as_str(), kept.as_str()), ("m:1:1", text));
    }
}
