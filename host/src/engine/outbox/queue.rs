//! The lane of one target: the order of its deliveries, and their waits.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use hermes_core::delivery::{LAST_TRY_MS, deadline_in_this_run};
use hermes_core::ids::DeliveryId;
use hermes_core::limits::WAIT_TOLD_MS_MAX;
use hermes_protocol::Purpose;
use tokio::sync::mpsc;

use super::growing::GrowingMessages;
use super::job::{Job, Next};
use super::report::Reports;
use super::{Holds, OutboxMessage, Target};
use crate::engine::messages::{DeliveryNews, HostEvent};
use crate::engine::runtime::Host;
use hermes_loader::AdapterHandle;
use hermes_store::OwedDelivery;

/// Deliveries that a lane holds in memory; of later ones it holds the ids.
pub const HELD_MAX: usize = 32;

/// Time after which an idle lane ends.
const IDLE: Duration = Duration::from_secs(30);

/// Longest wait for a free slot of the adapter before the lane checks for other work.
const ROOM: Duration = Duration::from_secs(5);

/// Longest wait of a part that must be alone in flight before the lane checks for other work: other sends may take this
/// long.
const ROOM_ALONE: Duration = Duration::from_secs(90);

/// Longest time between two checks of a waiting lane.
const LOOK_AGAIN: Duration = Duration::from_secs(60);

/// One lane of the outbox.
pub struct OutboxLane {
    pub(super) host: Arc<Host>,
    pub(super) target: Target,
    pub(super) holds: Arc<Holds>,
    pub(super) queue: VecDeque<Item>,
    /// Deferred jobs; each is retried alone.
    pub(super) aside: Vec<Job>,
    pub(super) growing: GrowingMessages,
    pub(super) reports: Reports,
    draining: bool,
}

/// A queued delivery.
pub(super) enum Item {
    /// The delivery is in memory and ready to be sent.
    Here(Box<Job>),
    /// The delivery is in the store.
    Stored(DeliveryId),
}

/// A reference to a job of the lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Which {
    /// The first job of the queue.
    Front,
    /// A deferred job, by its index.
    Aside(usize),
}

/// The next action of the lane.
#[derive(Debug, PartialEq, Eq)]
enum Plan {
    /// Read the first delivery of the queue from the store.
    Load,
    /// Abandon a job whose deadline has passed.
    Expire(Which),
    /// Try a job.
    Try(Which),
    /// Show the current text of a growing message.
    Show(DeliveryId),
    /// Wait for the adapter, or until a time.
    Wait { until_ms: i64, adapter: bool },
    /// Nothing is owed.
    Idle,
}

impl OutboxLane {
    /// Creates the lane of a target.
    pub fn new(host: Arc<Host>, target: Target, holds: Arc<Holds>) -> Self {
        Self {
            host,
            target,
            holds,
            queue: VecDeque::new(),
            aside: Vec::new(),
            growing: BTreeMap::new(),
            reports: Reports::default(),
            draining: false,
        }
    }

    /// Runs until the dispatcher closes the mailbox, or until the host ends.
    pub async fn run(mut self, mut mailbox: mpsc::UnboundedReceiver<OutboxMessage>) {
        let host = Arc::clone(&self.host);
        let mut taken = 0;
        let mut told_idle = false;
        loop {
            while let Ok(message) = mailbox.try_recv() {
                taken += 1;
                told_idle = false;
                Box::pin(self.take(message)).await;
            }
            if host.parking.is_cancelled() {
                return;
            }
            let plan = self.plan(host.now_ms());
            let (wait, online) = match plan {
                Plan::Load => {
                    Box::pin(self.load()).await;
                    continue;
                }
                Plan::Expire(which) => {
                    Box::pin(self.expire(which)).await;
                    continue;
                }
                Plan::Try(which) => {
                    Box::pin(self.attempt_in_line(which)).await;
                    continue;
                }
                Plan::Show(id) => {
                    Box::pin(self.show_piece(id)).await;
                    continue;
                }
                Plan::Wait { .. } | Plan::Idle if self.draining => return,
                Plan::Wait { until_ms, adapter } => (self.until(until_ms), adapter),
                Plan::Idle if told_idle => (LOOK_AGAIN, false),
                Plan::Idle => (IDLE, false),
            };
            tokio::select! {
                message = mailbox.recv() => match message {
                    Some(message) => {
                        taken += 1;
                        told_idle = false;
                        Box::pin(self.take(message)).await;
                    }
                    None => return,
                },
                () = self.adapter_online(), if online => {}
                () = tokio::time::sleep(wait) => {
                    if plan == Plan::Idle && !told_idle {
                        told_idle = true;
                        let target = self.target.clone();
                        host.tell(HostEvent::Delivery(DeliveryNews::Idle { target, taken })).await;
                    }
                }
                () = host.parking.cancelled() => return,
            }
        }
    }

    async fn take(&mut self, message: OutboxMessage) {
        match message {
            OutboxMessage::Owed(delivery) => self.line_up(*delivery),
            OutboxMessage::Draft(delivery, text) => {
                self.grow_from(text);
                self.line_up(*delivery);
            }
            OutboxMessage::Grows(text) => self.look_at(text),
            OutboxMessage::Grown(id) => {
                self.stop_growing(id);
                self.forget(id);
                // The first piece may have been settled meanwhile; the store has its state.
                let at = self.place_of(id);
                self.queue.insert(at, Item::Stored(id));
            }
            OutboxMessage::Refresh(id, delivery) => {
                self.forget(id);
                if let Some(delivery) = delivery {
                    self.line_up(*delivery);
                }
            }
            OutboxMessage::Dead(why) => self.give_up_all(&why).await,
            OutboxMessage::Moved(to) => {
                for job in self.jobs() {
                    job.delivery.chat.id.clone_from(&to.id);
                    job.delivery.chat.kind = to.kind.clone();
                    job.delivery.draft_message = None;
                }
                self.move_growing(&to);
            }
            OutboxMessage::Look => {}
            OutboxMessage::Linked => {
                self.jobs().filter(|job| job.unreachable).for_each(|job| job.due_ms = 0);
            }
            OutboxMessage::Now => self.jobs().for_each(|job| job.due_ms = 0),
            OutboxMessage::Drain => self.draining = true,
        }
    }

    pub(super) fn line_up(&mut self, delivery: OwedDelivery) {
        if self.queue.len() >= HELD_MAX {
            self.queue.push_back(Item::Stored(delivery.id));
        } else if let Some(job) = Job::new(delivery, &self.holds) {
            self.place(job);
        }
    }

    fn place(&mut self, job: Job) {
        if job.is_aside() { self.aside.push(job) } else { self.queue.push_back(Item::Here(Box::new(job))) }
    }

    /// Returns the queue index for a message whose first piece came before everything owed later. A delivery that was
    /// attempted keeps its place.
    fn place_of(&self, id: DeliveryId) -> usize {
        let is_later = |item: &Item| match item {
            Item::Here(job) => job.id() > id && job.delivery.parts.iter().all(|part| part.facts.attempts == 0),
            Item::Stored(stored) => *stored > id,
        };
        self.queue.iter().position(is_later).unwrap_or(self.queue.len())
    }

    fn forget(&mut self, id: DeliveryId) {
        self.aside.retain(|job| job.id() != id);
        self.queue.retain(|item| match item {
            Item::Here(job) => job.id() != id,
            Item::Stored(stored) => *stored != id,
        });
    }

    /// Returns whether a delivery is in this lane.
    pub(super) fn has(&self, id: DeliveryId) -> bool {
        let in_line = self.queue.iter().any(|item| match item {
            Item::Here(job) => job.id() == id,
            Item::Stored(stored) => *stored == id,
        });
        in_line || self.aside.iter().any(|job| job.id() == id)
    }

    /// Returns every job in memory.
    pub(super) fn jobs(&mut self) -> impl Iterator<Item = &mut Job> {
        let in_line = self.queue.iter_mut().filter_map(|item| match item {
            Item::Here(job) => Some(&mut **job),
            Item::Stored(_) => None,
        });
        in_line.chain(self.aside.iter_mut())
    }

    /// Tries a job once the adapter has a free slot, if it is still the next one by then.
    async fn attempt_in_line(&mut self, which: Which) {
        let host = Arc::clone(&self.host);
        let Some(adapter) = host.adapter(&self.target.instance) else { return self.attempt(which).await };
        // Before a slot is taken: a job that waits for proof of the link must not block other jobs.
        if !self.is_sure_of_the_link(which, &adapter).await {
            return;
        }
        let alone = self.job(which).is_some_and(|job| job.facts().alone && job.next == Next::Send);
        let patience = if alone { ROOM_ALONE } else { ROOM };
        let room =
            async { if alone { adapter.room_to_deliver_alone().await } else { adapter.room_to_deliver().await } };
        let room = tokio::select! {
            room = room => room,
            // Orders and deadlines are checked before the next wait.
            () = tokio::time::sleep(patience) => return,
            () = host.parking.cancelled() => return,
        };
        if matches!(self.plan(host.now_ms()), Plan::Try(next) if next == which) {
            self.attempt(which).await;
        }
        drop(room);
    }

    /// Returns whether a repeat may be sent: the adapter has carried other traffic since the outcome became unknown.
    /// Waits a while for that; orders and deadlines are checked before the next wait.
    async fn is_sure_of_the_link(&mut self, which: Which, adapter: &AdapterHandle) -> bool {
        let Some(job) = self.job(which).filter(|job| job.is_repeat()) else { return true };
        let doubted = *job.doubted.get_or_insert_with(|| adapter.trips());
        if adapter.is_proven_since(doubted) {
            return true;
        }
        tokio::select! {
            () = adapter.proven_since(doubted) => true,
            () = tokio::time::sleep(ROOM) => false,
            () = self.host.parking.cancelled() => false,
        }
    }

    pub(super) fn job(&mut self, which: Which) -> Option<&mut Job> {
        match which {
            Which::Front => match self.queue.front_mut() {
                Some(Item::Here(job)) => Some(job),
                _ => None,
            },
            Which::Aside(at) => self.aside.get_mut(at),
        }
    }

    /// Returns a job for reading.
    pub(super) fn seen(&self, which: Which) -> Option<&Job> {
        match which {
            Which::Front => match self.queue.front() {
                Some(Item::Here(job)) => Some(job),
                _ => None,
            },
            Which::Aside(at) => self.aside.get(at),
        }
    }

    pub(super) fn remove(&mut self, which: Which) -> Option<Job> {
        match which {
            Which::Front => match self.queue.pop_front() {
                Some(Item::Here(job)) => Some(*job),
                _ => None,
            },
            Which::Aside(at) if at < self.aside.len() => Some(self.aside.remove(at)),
            Which::Aside(_) => None,
        }
    }

    /// Decides on the next action. Pure: the result depends only on the lane and the time.
    fn plan(&self, now_ms: i64) -> Plan {
        let front = match self.queue.front() {
            Some(Item::Stored(_)) => return Plan::Load,
            Some(Item::Here(job)) => Some((Which::Front, &**job)),
            None => None,
        };
        let candidates =
            front.into_iter().chain(self.aside.iter().enumerate().map(|(at, job)| (Which::Aside(at), job)));
        let online = self.is_online();
        let backoff_ms_max =
            i64::try_from(self.host.live().config.delivery.backoff_max.as_millis()).unwrap_or(i64::MAX);
        // No wait is longer than this; a longer one means that the clock was set back.
        let farthest_ms = now_ms.saturating_add(backoff_ms_max.max(WAIT_TOLD_MS_MAX));
        let mut wait: Option<i64> = None;
        for (which, job) in candidates {
            let deadline_ms = self.deadline_ms(job, now_ms);
            if now_ms > deadline_ms {
                return Plan::Expire(which);
            }
            let held = self.holds.until_ms(&self.target.instance, &job.delivery.chat.id, now_ms);
            let due_ms = if job.due_ms > farthest_ms { now_ms } else { job.due_ms };
            let due_ms = due(due_ms, deadline_ms, &job.delivery.purpose, held);
            if online && due_ms <= now_ms && !self.is_left_to_the_next_life(job) {
                return Plan::Try(which);
            }
            // The deadline has passed one millisecond after it.
            let look_ms = if online { due_ms.min(deadline_ms + 1) } else { deadline_ms + 1 };
            wait = Some(wait.map_or(look_ms, |earliest| earliest.min(look_ms)));
        }
        if online && !self.draining {
            match self.next_piece(now_ms) {
                Some((due_ms, id)) if due_ms <= now_ms => return Plan::Show(id),
                Some((due_ms, _)) => wait = Some(wait.map_or(due_ms, |earliest| earliest.min(due_ms))),
                None => {}
            }
        }
        wait.map_or(Plan::Idle, |until_ms| Plan::Wait { until_ms, adapter: !online })
    }

    /// Returns the deadline of a job in this run of the host.
    pub(super) fn deadline_ms(&self, job: &Job, now_ms: i64) -> i64 {
        let delivery = &job.delivery;
        let times = (delivery.created_ms, delivery.deadline_ms);
        deadline_in_this_run(&delivery.purpose, times, self.host.awake_since_ms(), now_ms)
    }

    /// Returns whether a repeat waits for proof of the link while the host drains. The wait has no known end, so the
    /// job is left to the next run.
    fn is_left_to_the_next_life(&self, job: &Job) -> bool {
        let adapter = self.host.adapter(&self.target.instance).filter(|_| self.draining && job.is_repeat());
        adapter.is_some_and(|adapter| !job.doubted.is_some_and(|doubted| adapter.is_proven_since(doubted)))
    }

    fn until(&self, at_ms: i64) -> Duration {
        let ms = at_ms.saturating_sub(self.host.now_ms()).max(1);
        Duration::from_millis(u64::try_from(ms).unwrap_or(1)).min(LOOK_AGAIN)
    }

    fn is_online(&self) -> bool {
        self.host.adapter(&self.target.instance).is_some_and(|adapter| adapter.reaches(&self.target.chat))
    }

    async fn adapter_online(&self) {
        match self.host.adapter(&self.target.instance) {
            Some(adapter) => adapter.reached(&self.target.chat).await,
            // An instance without a section: the dispatcher sends `Look` when that changes.
            None => std::future::pending().await,
        }
    }

    /// Reads the first delivery of the queue from the store.
    async fn load(&mut self) {
        let Some(Item::Stored(id)) = self.queue.front() else { return };
        let id = *id;
        match self.host.store.delivery(id).await {
            Ok(delivery) => {
                self.queue.pop_front();
                match delivery.and_then(|delivery| Job::new(delivery, &self.holds)) {
                    Some(job) if job.is_aside() => self.aside.push(job),
                    Some(job) => self.queue.push_front(Item::Here(Box::new(job))),
                    None => {
                        self.growing.remove(&id);
                    }
                }
            }
            Err(error) => {
                tracing::error!(delivery = %id, %error, "owed delivery could not be read; it waits for the next start");
                self.queue.pop_front();
            }
        }
    }
}

/// Returns the time at which a job that is due at `due_ms` may be sent while its chat is held. A wait beyond the
/// deadline of an answer still leaves one attempt shortly before the deadline, because platforms often demand longer
/// waits than necessary. Notices and questions of the host get no such attempt.
fn due(due_ms: i64, deadline_ms: i64, purpose: &Purpose, held: Option<i64>) -> i64 {
    let is_notice = matches!(purpose, Purpose::Notice | Purpose::Ask);
    let held = held.map(|until| if until > deadline_ms && !is_notice { deadline_ms - LAST_TRY_MS } else { until });
    due_ms.max(held.unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hold_that_outlasts_an_answer_leaves_it_one_last_try() {
        let reply = |due_ms, held| due(due_ms, 100_000, &Purpose::Reply, held);
        assert_eq!(reply(5, None), 5);
        assert_eq!(reply(5, Some(100_000)), 100_000, "a wait that ends in time is kept");
        assert_eq!(reply(5, Some(i64::MAX)), 100_000 - LAST_TRY_MS);
        assert_eq!(reply(99_000, Some(i64::MAX)), 99_000);
        assert_eq!(due(5, 100_000, &Purpose::Notice, Some(i64::MAX)), i64::MAX);
    }
}
