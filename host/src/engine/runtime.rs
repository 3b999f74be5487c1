//! The shared context of the message path: the store, the adapters, the runtime, the current configuration, and the
//! channel to the dispatcher.
//!
//! The state of chats, sessions and deliveries belongs to the dispatcher and to the lanes.

use std::collections::BTreeSet;
use std::future::Future;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use arc_swap::{ArcSwap, ArcSwapOption};
use futures_util::future::BoxFuture;
use hermes_agent::AgentRuntime;
use hermes_core::access::Grants;
use hermes_core::delivery::Homes;
use hermes_core::ids::{DeliveryId, Epoch, SessionId};
use hermes_protocol::Chat;
use tokio::sync::{Semaphore, mpsc};
use tokio_util::sync::CancellationToken;

use crate::engine::accounts::Accounts;
use crate::engine::active_turns::Working;
use crate::engine::agent_health::AgentHealth;
use crate::engine::attachments::Media;
use crate::engine::background::tasks::Bell;
use crate::engine::background::tasks::helpers::Helpers;
use crate::engine::config_snapshot::Live;
use crate::engine::group_context::Observing;
use crate::engine::handoff::Handoffs;
use crate::engine::messages::{DeliveryNews, HostEvent};
use crate::engine::outbox::AllHolds;
use crate::engine::pairing_codes::Codes;
use crate::engine::run_tokens::RunTokens;
use crate::engine::session::reactions::REACTING_MAX;
use crate::engine::timer::Timer;
use crate::engine::undelivered::Losses;
use hermes_core::clock::PlatformClocks;
use hermes_loader::{AdapterHandle, Adapters};
use hermes_store::{NewDelivery, OwedDelivery, Store, StoreError};
use hermes_system::rng::Chance;

/// First wait after a commit failed.
const WRITE_AGAIN_AFTER: Duration = Duration::from_millis(500);

/// Longest wait after a commit failed.
const WRITE_AGAIN_AFTER_MAX: Duration = Duration::from_secs(30);

/// The shared context. One per process, behind an `Arc`.
pub struct Host {
    /// The database.
    pub store: Store,
    /// The current run of the host.
    pub epoch: Epoch,
    /// Start of this run, in milliseconds since the Unix epoch.
    started_ms: i64,
    /// The clock.
    pub clock: Arc<dyn Timer>,
    /// The source of randomness.
    pub chance: Arc<dyn Chance>,
    /// The agent runtime.
    pub runtime: Arc<dyn AgentRuntime>,
    /// The channel to the dispatcher; a sender waits while it is full.
    pub events: mpsc::Sender<HostEvent>,
    /// Incoming and outgoing files.
    pub media: Media,
    /// The account of each instance.
    pub(crate) accounts: Accounts,
    /// Permits of concurrent turns.
    pub turns: Arc<Semaphore>,
    /// Permits of turns that react to the message that they answer.
    pub reacting: Arc<Semaphore>,
    /// Cancelled once all work of an earlier run was handed to its lanes.
    pub recovered: CancellationToken,
    /// Cancelled when the host takes no new events any more.
    pub draining: CancellationToken,
    /// True if the host takes no new events until the operator ends the drain.
    pub rests: AtomicBool,
    /// Cancelled when running turns are parked for the next run of the host.
    pub parking: CancellationToken,
    /// Cancelled when a chat command requests a restart.
    pub restarting: CancellationToken,
    /// Cancelled when a task that must not end has ended: the host restarts.
    pub broken: CancellationToken,
    /// The running turns of the agent.
    pub working: Working,
    /// Figures for status.
    pub counts: Counts,
    /// Answers and failures of the agent.
    pub health: Arc<AgentHealth>,
    /// Pairing codes that may still have to be sent.
    pub codes: Codes,
    /// Handoffs in progress.
    pub handoffs: Handoffs,
    /// The signal that a task has changed.
    pub tasks: Bell,
    /// The offsets of the platforms' clocks.
    pub clocks: PlatformClocks,
    /// Answers that did not arrive and whose agents were not notified yet.
    pub(crate) losses: Losses,
    /// Group messages on their way to the store.
    pub(crate) observing: Observing,
    /// The waits that platforms demanded.
    pub holds: AllHolds,
    /// Background helpers that work on tasks.
    pub helpers: Helpers,
    /// The tokens by which the processes of running turns may use the control socket.
    pub runs: Arc<RunTokens>,
    live: ArcSwap<Live>,
    grants: ArcSwap<Grants>,
    model: ArcSwapOption<String>,
    approved: ArcSwap<BTreeSet<String>>,
    /// The configuration of a restarted host; unset if the host cannot be restarted.
    restartable: OnceLock<Box<dyn NextStart>>,
    switches: OnceLock<Box<dyn AdapterSwitches>>,
    homes: ArcSwap<Homes>,
    adapters: OnceLock<Adapters>,
}

/// The check that precedes a restart.
pub trait NextStart: Send + Sync {
    /// Returns the reason if the host would not start again.
    fn would_start(&self) -> BoxFuture<'_, Result<(), String>>;
}

/// The record of the instances that are switched off for this run of the host.
pub trait AdapterSwitches: Send + Sync {
    /// Records that an instance was switched on or off.
    fn switch(&self, instance: &str, on: bool);
}

/// Figures for status; no decision depends on them.
#[derive(Debug, Default)]
pub struct Counts {
    /// Turns that run.
    pub turns_running: AtomicI64,
    /// Events taken in since start.
    pub events: AtomicU64,
    /// Edits since start that may have changed a waiting message.
    pub edits: AtomicU64,
    /// Events refused for their content since start.
    pub events_refused: AtomicU64,
    /// Parts delivered since start.
    pub delivered: AtomicU64,
    /// Messages beyond a rate limit since start.
    pub limited: AtomicU64,
    /// Chats in which a conversation between bots is not answered.
    pub silent_bots: AtomicU64,
}

impl Host {
    /// Creates the context. [`Host::set_adapters`] adds the adapters, which need the context.
    pub fn new(
        store: Store,
        epoch: Epoch,
        clock: Arc<dyn Timer>,
        chance: Arc<dyn Chance>,
        runtime: Arc<dyn AgentRuntime>,
        events: mpsc::Sender<HostEvent>,
        live: Live,
    ) -> Self {
        store.set_keep(live.keep());
        let media = Media::new(live.config.home.join("media"), Arc::clone(&chance), clock.clone());
        let media = media.up_to(live.config.limits.file_bytes_max);
        let turns = Arc::new(Semaphore::new(live.config.limits.turns_max.max(1)));
        Self {
            store,
            epoch,
            started_ms: clock.now_ms(),
            clock,
            chance,
            runtime,
            events,
            media,
            accounts: Accounts::default(),
            turns,
            reacting: Arc::new(Semaphore::new(REACTING_MAX)),
            recovered: CancellationToken::new(),
            draining: CancellationToken::new(),
            rests: AtomicBool::new(false),
            parking: CancellationToken::new(),
            broken: CancellationToken::new(),
            working: Working::default(),
            health: Arc::default(),
            counts: Counts::default(),
            codes: Codes::default(),
            handoffs: Handoffs::default(),
            tasks: Bell::default(),
            losses: Losses::default(),
            observing: Observing::default(),
            holds: AllHolds::default(),
            helpers: Helpers::default(),
            runs: Arc::default(),
            clocks: PlatformClocks::default(),
            live: ArcSwap::from_pointee(live),
            grants: ArcSwap::default(),
            model: ArcSwapOption::empty(),
            approved: ArcSwap::default(),
            restartable: OnceLock::new(),
            switches: OnceLock::new(),
            restarting: CancellationToken::new(),
            homes: ArcSwap::default(),
            adapters: OnceLock::new(),
        }
    }

    /// Sets, once, the configuration of a restarted host, which makes the host restartable.
    pub fn set_restartable(&self, next: impl NextStart + 'static) {
        // As for the adapters.
        let _ = self.restartable.set(Box::new(next));
    }

    /// Returns whether the host is started again after it ends for a restart.
    pub fn is_restartable(&self) -> bool {
        self.restartable.get().is_some()
    }

    /// Returns whether the host would start again if it ended.
    pub async fn would_start(&self) -> bool {
        match self.restartable.get() {
            Some(next) => match next.would_start().await {
                Ok(()) => true,
                Err(problems) => {
                    tracing::error!("not restarted: the host would not start again:\n{problems}");
                    false
                }
            },
            None => false,
        }
    }

    /// Sets, once, the record of switched-off instances.
    pub fn set_switches(&self, switches: impl AdapterSwitches + 'static) {
        // As for the adapters.
        let _ = self.switches.set(Box::new(switches));
    }

    /// Starts or stops an instance, and records that for this run of the host. `false`: there is no instance of this
    /// name.
    pub fn switch_adapter(&self, instance: &str, on: bool) -> bool {
        let Some(adapters) = self.adapters() else { return false };
        if let Some(switches) = self.switches.get() {
            switches.switch(instance, on);
        }
        if on { adapters.enable(instance) } else { adapters.disable(instance) }
    }

    /// Sets the adapters, once.
    pub fn set_adapters(&self, adapters: Adapters) {
        // A second call changes nothing: a run of the host has one set of adapters.
        let _ = self.adapters.set(adapters);
    }

    /// Returns all adapters; `None` only early during start-up.
    pub fn adapters(&self) -> Option<&Adapters> {
        self.adapters.get()
    }

    /// Returns the handle of an instance, if the configuration has it.
    pub fn adapter(&self, instance: &str) -> Option<AdapterHandle> {
        self.adapters.get()?.get(instance)
    }

    /// Returns the current configuration.
    pub fn live(&self) -> arc_swap::Guard<Arc<Live>> {
        self.live.load()
    }

    /// Returns the current configuration in a form that can be held over an await.
    pub fn live_now(&self) -> Arc<Live> {
        self.live.load_full()
    }

    /// Replaces the configuration.
    pub fn set_live(&self, live: Live) {
        self.store.set_keep(live.keep());
        self.live.store(Arc::new(live));
    }

    /// Returns the grants by pairing, as the dispatcher last published them.
    pub fn grants(&self) -> arc_swap::Guard<Arc<Grants>> {
        self.grants.load()
    }

    /// Publishes the grants to their readers. Only the dispatcher changes them.
    pub fn show_grants(&self, grants: Grants) {
        self.grants.store(Arc::new(grants));
    }

    /// Returns the model that an admin chose for every conversation, over the configuration.
    pub fn chosen_model(&self) -> Option<String> {
        self.model.load().as_deref().cloned()
    }

    /// Sets the model of every conversation that has none of its own. Only the dispatcher calls this.
    pub fn choose_model(&self, model: Option<String>) {
        self.model.store(model.map(Arc::new));
    }

    /// Returns the kinds of action that an admin approved permanently, as the dispatcher last published them.
    pub fn approved(&self) -> arc_swap::Guard<Arc<BTreeSet<String>>> {
        self.approved.load()
    }

    /// Publishes the permanent approvals to their readers. Only the dispatcher changes them.
    pub fn show_approved(&self, approved: BTreeSet<String>) {
        self.approved.store(Arc::new(approved));
    }

    /// Returns the model of a conversation that chose none.
    pub fn model(&self) -> String {
        self.chosen_model().or_else(|| self.runtime.models().into_iter().next()).unwrap_or_default()
    }

    /// Returns the home channel of each instance, as the dispatcher last published it.
    pub fn homes(&self) -> arc_swap::Guard<Arc<Homes>> {
        self.homes.load()
    }

    /// Publishes the home channels to their readers. Only the dispatcher changes them.
    pub fn show_homes(&self, homes: Homes) {
        self.homes.store(Arc::new(homes));
    }

    /// Returns the current time in milliseconds since the Unix epoch.
    pub fn now_ms(&self) -> i64 {
        self.clock.now_ms()
    }

    /// Returns the time since which the host has been running without a longer sleep: work that was due before could
    /// not run.
    pub fn awake_since_ms(&self) -> i64 {
        self.clock.awake_since_ms().max(self.started_ms)
    }

    /// Returns the id of a new session: its start time and a random suffix.
    pub fn new_session_id(&self) -> SessionId {
        let began = jiff::Timestamp::from_millisecond(self.now_ms()).unwrap_or_default();
        let suffix = hermes_system::rng::number(&*self.chance) as u32;
        SessionId(format!("{}_{suffix:08x}", began.strftime("%Y%m%d_%H%M%S")))
    }

    /// Sends an event to the dispatcher. The dispatcher waits only for its queue, so this call ends soon.
    pub async fn tell(&self, event: HostEvent) {
        // A closed channel means that the host is ending; the next start finds the stored state.
        let _ = self.events.send(event).await;
    }

    /// Hands committed deliveries to their outbox lanes, in order.
    pub async fn carry(&self, ids: Vec<DeliveryId>, deliveries: Vec<NewDelivery>) {
        for (id, delivery) in ids.into_iter().zip(deliveries) {
            if delivery.draft.is_some() {
                self.tell_grown(delivery.instance, delivery.chat, id).await;
                continue;
            }
            let owed = Box::new(crate::engine::outbox::owed(id, delivery, |n| self.store.part_key(id, n)));
            self.tell(HostEvent::Delivery(DeliveryNews::Owed(owed))).await;
        }
    }

    /// Reports the end of a growing message to the outbox.
    pub async fn tell_grown(&self, instance: String, chat: Chat, id: DeliveryId) {
        self.tell(HostEvent::Delivery(DeliveryNews::Grown { instance, chat, id })).await;
    }

    /// Withdraws the pairing request of an abandoned delivery whose code was not delivered, in memory; the row changes
    /// with the delivery. This comes first, so that no sender is reminded of a code that never arrived.
    pub async fn tell_untold(&self, given_up: Option<&OwedDelivery>) {
        if let Some(hash) = given_up.and_then(OwedDelivery::untold) {
            self.tell(HostEvent::Delivery(DeliveryNews::Untold { hash: hash.to_owned() })).await;
        }
    }

    /// Repeats a failed commit until it is written.
    ///
    /// A wait delays one lane only. `None` means that the commit was not written: the host ends and recovery continues
    /// from the last commit, or the store rejects the change as impossible, which is logged.
    pub async fn until_written<T, F>(&self, what: &str, commit: impl Fn() -> F) -> Option<T>
    where
        F: Future<Output = Result<T, StoreError>>,
    {
        let mut wait = WRITE_AGAIN_AFTER;
        loop {
            match commit().await {
                Ok(value) => return Some(value),
                Err(error @ (StoreError::DiskFull { .. } | StoreError::Disk { .. } | StoreError::Busy { .. })) => {
                    tracing::error!(what, %error, "commit failed, retrying");
                    self.parking.run_until_cancelled(tokio::time::sleep(wait)).await?;
                    wait = (wait * 2).min(WRITE_AGAIN_AFTER_MAX);
                }
                Err(StoreError::Closed) => return None,
                // Another change came first: a late report about a handoff or a turn that is over.
                Err(error @ StoreError::Conflict { .. }) => {
                    tracing::warn!(what, %error, "commit skipped: already finished");
                    return None;
                }
                Err(error) => {
                    tracing::error!(what, %error, "commit failed");
                    return None;
                }
            }
        }
    }

    /// Returns the reason for which the host takes no new events, if it takes none.
    pub fn takes_nothing(&self) -> Option<&'static str> {
        match (self.draining.is_cancelled(), self.rests.load(Ordering::Relaxed)) {
            (true, _) => Some("the host is stopping and starts nothing new"),
            (false, true) => Some("the host is draining and starts nothing new; `hermes-host drain --undo` ends that"),
            (false, false) => None,
        }
    }

    /// Counts an event that was accepted.
    pub fn count_event(&self) {
        self.counts.events.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts an event that was refused for its content.
    pub fn count_refused_event(&self) {
        self.counts.events_refused.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a turn as running until the guard is dropped.
    pub fn count_turn(self: &Arc<Self>) -> CountedTurn {
        self.counts.turns_running.fetch_add(1, Ordering::Relaxed);
        CountedTurn(Arc::clone(self))
    }
}

/// A turn that counts as running.
pub struct CountedTurn(Arc<Host>);

impl Drop for CountedTurn {
    fn drop(&mut self) {
        self.0.counts.turns_running.fetch_sub(1, Ordering::Relaxed);
    }
}
