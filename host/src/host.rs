//! What every part of the pipeline holds: the store, the adapters, the runtime,
//! the configuration of the moment, and the way to the dispatcher.
//!
//! No state of a chat, a session or a delivery lives here; that belongs to the
//! dispatcher and to the lanes.

use std::collections::BTreeSet;
use std::future::Future;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use arc_swap::{ArcSwap, ArcSwapOption};
use hermes_agent::AgentRuntime;
use hermes_core::access::Grants;
use hermes_core::delivery::Homes;
use hermes_core::ids::{DeliveryId, Epoch, SessionId};
use hermes_protocol::Chat;
use tokio::sync::{Semaphore, mpsc};
use tokio_util::sync::CancellationToken;

use crate::accounts::Accounts;
use crate::app::NextRun;
use crate::app::plan::Planner;
use crate::chance::Chance;
use crate::clock::{Clock, PlatformClocks};
use crate::codes::Codes;
use crate::control::RunTokens;
use crate::events::{DeliveryNews, HostEvent};
use crate::handoff::Handoffs;
use crate::health::AgentHealth;
use crate::lane::reacting::REACTING_MAX;
use crate::live::Live;
use crate::losses::Losses;
use crate::media::Media;
use crate::observing::Observing;
use crate::outbox::AllHolds;
use crate::plugins::{AdapterHandle, Adapters};
use crate::store::{NewDelivery, OwedDelivery, Store, StoreError};
use crate::tasks::Bell;
use crate::tasks::helpers::Helpers;
use crate::working::Working;

/// First wait after a commit failed.
const WRITE_AGAIN_AFTER: Duration = Duration::from_millis(500);

/// Longest wait after a commit failed.
const WRITE_AGAIN_AFTER_MAX: Duration = Duration::from_secs(30);

/// The bundle that is handed around. One per process, behind an `Arc`.
pub struct Host {
    /// The memory that survives.
    pub store: Store,
    /// This life of the host.
    pub epoch: Epoch,
    /// When it began.
    started_ms: i64,
    /// Where *now* comes from.
    pub clock: Arc<dyn Clock>,
    /// Where randomness comes from.
    pub chance: Arc<dyn Chance>,
    /// Who answers.
    pub runtime: Arc<dyn AgentRuntime>,
    /// Wakes the dispatcher; full means that whoever has news waits.
    pub events: mpsc::Sender<HostEvent>,
    /// Files that come in and go out.
    pub media: Media,
    /// Whose names each instance uses.
    pub(crate) accounts: Accounts,
    /// How many turns run side by side.
    pub turns: Arc<Semaphore>,
    /// How many turns react to the message that they answer.
    pub reacting: Arc<Semaphore>,
    /// Cancelled once everything that an earlier life of the host left is on its way.
    pub recovered: CancellationToken,
    /// Cancelled when no new event is taken any more.
    pub draining: CancellationToken,
    /// Whether no new event is taken for now, until the operator says otherwise.
    pub rests: AtomicBool,
    /// Cancelled when running turns are parked for the next life of the host.
    pub parking: CancellationToken,
    /// Cancelled when somebody in a chat wants the host to restart.
    pub restarting: CancellationToken,
    /// Cancelled when a task that must not end has ended: the host restarts.
    pub broken: CancellationToken,
    /// What the agent is doing.
    pub working: Working,
    /// Numbers for status.
    pub counts: Counts,
    /// Answers and failures of the agent.
    pub health: Arc<AgentHealth>,
    /// Pairing codes that may still have to be told.
    pub codes: Codes,
    /// Conversations on their way to a chat.
    pub handoffs: Handoffs,
    /// Rings when something happened to a task.
    pub tasks: Bell,
    /// What is known of the clocks of platforms.
    pub clocks: PlatformClocks,
    /// Answers that did not arrive and that their agents have not heard of.
    pub(crate) losses: Losses,
    /// Messages of groups on their way to the store.
    pub(crate) observing: Observing,
    /// The waits that platforms asked for.
    pub holds: AllHolds,
    /// Who works on tasks beside the turns that handed them on.
    pub helpers: Helpers,
    /// The tokens by which the processes of running turns may use the control socket.
    pub runs: Arc<RunTokens>,
    live: ArcSwap<Live>,
    grants: ArcSwap<Grants>,
    model: ArcSwapOption<String>,
    approved: ArcSwap<BTreeSet<String>>,
    /// What the host would read if it were restarted; unset where it cannot be.
    restartable: OnceLock<NextRun>,
    planner: OnceLock<Planner>,
    homes: ArcSwap<Homes>,
    adapters: OnceLock<Adapters>,
}

/// Numbers that status reads; nothing is decided by them.
#[derive(Debug, Default)]
pub struct Counts {
    /// Turns that run.
    pub turns_running: AtomicI64,
    /// Events taken in since start.
    pub events: AtomicU64,
    /// Edits since start that may have changed what waits.
    pub edits: AtomicU64,
    /// Events refused for what they say since start.
    pub events_refused: AtomicU64,
    /// Parts delivered since start.
    pub delivered: AtomicU64,
    /// Messages that were too many since start.
    pub limited: AtomicU64,
    /// Chats in which bots talk to each other and are not answered.
    pub silent_bots: AtomicU64,
}

impl Host {
    /// Bundles the parts. The adapters come with [`Host::set_adapters`], since they need the bundle.
    pub fn new(
        store: Store,
        epoch: Epoch,
        clock: Arc<dyn Clock>,
        chance: Arc<dyn Chance>,
        runtime: Arc<dyn AgentRuntime>,
        events: mpsc::Sender<HostEvent>,
        live: Live,
    ) -> Self {
        store.set_keep(live.keep());
        let media = Media::new(live.config.home.join("media"), Arc::clone(&chance), Arc::clone(&clock));
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
            planner: OnceLock::new(),
            restarting: CancellationToken::new(),
            homes: ArcSwap::default(),
            adapters: OnceLock::new(),
        }
    }

    /// Says, once, that the host can be restarted, and what it would read then.
    pub fn set_restartable(&self, next: NextRun) {
        // As for the adapters.
        let _ = self.restartable.set(next);
    }

    /// Whether the host is started again when it ends to be restarted.
    pub fn is_restartable(&self) -> bool {
        self.restartable.get().is_some()
    }

    /// Whether the host would start again if it ended.
    pub async fn would_start(&self) -> bool {
        match self.restartable.get() {
            Some(next) => match next.would_start().await {
                Ok(()) => true,
                Err(problems) => {
                    tracing::error!("the host keeps running, because it would not start again:\n{problems}");
                    false
                }
            },
            None => false,
        }
    }

    /// Hands over, once, who remembers what is switched off.
    pub fn set_planner(&self, planner: Planner) {
        // As for the adapters.
        let _ = self.planner.set(planner);
    }

    /// Starts or ends an instance, and remembers it for this life of the host. `false`: there is none of this name.
    pub fn switch_adapter(&self, instance: &str, on: bool) -> bool {
        let Some(adapters) = self.adapters() else { return false };
        if let Some(planner) = self.planner.get() {
            planner.switch(instance, on);
        }
        if on { adapters.enable(instance) } else { adapters.disable(instance) }
    }

    /// Hands the adapters over, once.
    pub fn set_adapters(&self, adapters: Adapters) {
        // A second call changes nothing: there is one set of adapters per life of the host.
        let _ = self.adapters.set(adapters);
    }

    /// All adapters; `None` only before start-up has come that far.
    pub fn adapters(&self) -> Option<&Adapters> {
        self.adapters.get()
    }

    /// The handle of an instance, where the configuration has it.
    pub fn adapter(&self, instance: &str) -> Option<AdapterHandle> {
        self.adapters.get()?.get(instance)
    }

    /// What the configuration says at this moment.
    pub fn live(&self) -> arc_swap::Guard<Arc<Live>> {
        self.live.load()
    }

    /// What the configuration says at this moment, to be held over an await.
    pub fn live_now(&self) -> Arc<Live> {
        self.live.load_full()
    }

    /// Replaces the configuration.
    pub fn set_live(&self, live: Live) {
        self.store.set_keep(live.keep());
        self.live.store(Arc::new(live));
    }

    /// Who was let in by pairing, as the dispatcher last said.
    pub fn grants(&self) -> arc_swap::Guard<Arc<Grants>> {
        self.grants.load()
    }

    /// Shows the grants to those who only read them. The dispatcher alone changes any.
    pub fn show_grants(&self, grants: Grants) {
        self.grants.store(Arc::new(grants));
    }

    /// The model that an admin chose for every conversation, over the configuration.
    pub fn chosen_model(&self) -> Option<String> {
        self.model.load().as_deref().cloned()
    }

    /// Chooses the model of every conversation that has none of its own. The dispatcher alone does.
    pub fn choose_model(&self, model: Option<String>) {
        self.model.store(model.map(Arc::new));
    }

    /// Kinds of action that an admin approved for always, as the dispatcher last said.
    pub fn approved(&self) -> arc_swap::Guard<Arc<BTreeSet<String>>> {
        self.approved.load()
    }

    /// Shows those to those who only read them. The dispatcher alone changes any.
    pub fn show_approved(&self, approved: BTreeSet<String>) {
        self.approved.store(Arc::new(approved));
    }

    /// The model that answers where a conversation chose none.
    pub fn model(&self) -> String {
        self.chosen_model().or_else(|| self.runtime.models().into_iter().next()).unwrap_or_default()
    }

    /// Where each instance may write unasked, as the dispatcher last said.
    pub fn homes(&self) -> arc_swap::Guard<Arc<Homes>> {
        self.homes.load()
    }

    /// Shows the home channels to those who only read them. The dispatcher alone changes any.
    pub fn show_homes(&self, homes: Homes) {
        self.homes.store(Arc::new(homes));
    }

    /// Now, in milliseconds since the Unix epoch.
    pub fn now_ms(&self) -> i64 {
        self.clock.now_ms()
    }

    /// Since when the host has been running without a longer sleep: what fell due before has had no chance since.
    pub fn awake_since_ms(&self) -> i64 {
        self.clock.awake_since_ms().max(self.started_ms)
    }

    /// Makes the id of a new session: when it began, and enough chance to be its own.
    pub fn new_session_id(&self) -> SessionId {
        let began = jiff::Timestamp::from_millisecond(self.now_ms()).unwrap_or_default();
        let suffix = crate::chance::number(&*self.chance) as u32;
        SessionId(format!("{}_{suffix:08x}", began.strftime("%Y%m%d_%H%M%S")))
    }

    /// Tells the dispatcher something. It never waits for anything but its queue, so this ends soon.
    pub async fn tell(&self, event: HostEvent) {
        // A closed dispatcher means that the host is ending; what is durable is found at the next start.
        let _ = self.events.send(event).await;
    }

    /// Hands committed deliveries to their outbox lanes, in order.
    pub async fn carry(&self, ids: Vec<DeliveryId>, deliveries: Vec<NewDelivery>) {
        for (id, delivery) in ids.into_iter().zip(deliveries) {
            if delivery.draft.is_some() {
                self.tell_grown(delivery.instance, delivery.chat, id).await;
                continue;
            }
            let owed = Box::new(crate::outbox::owed(id, delivery, |n| self.store.part_key(id, n)));
            self.tell(HostEvent::Delivery(DeliveryNews::Owed(owed))).await;
        }
    }

    /// Tells the outbox that a growing message has ended.
    pub async fn tell_grown(&self, instance: String, chat: Chat, id: DeliveryId) {
        self.tell(HostEvent::Delivery(DeliveryNews::Grown { instance, chat, id })).await;
    }

    /// Takes the pairing request of a delivery back that is given up before anybody was told its code: here in
    /// memory, its row goes with the delivery. Before it, so that nobody is reminded of a code that they do not have.
    pub async fn tell_untold(&self, given_up: Option<&OwedDelivery>) {
        if let Some(hash) = given_up.and_then(OwedDelivery::untold) {
            self.tell(HostEvent::Delivery(DeliveryNews::Untold { hash: hash.to_owned() })).await;
        }
    }

    /// Repeats a commit that the disk refused until it is written.
    ///
    /// Waiting holds up one lane only. `None` means that it was not written: the host
    /// ends and recovery goes on from the last commit, or the store says that the
    /// change makes no sense, which is logged.
    pub async fn until_written<T, F>(&self, what: &str, commit: impl Fn() -> F) -> Option<T>
    where
        F: Future<Output = Result<T, StoreError>>,
    {
        let mut wait = WRITE_AGAIN_AFTER;
        loop {
            match commit().await {
                Ok(value) => return Some(value),
                Err(error @ (StoreError::DiskFull { .. } | StoreError::Disk { .. } | StoreError::Busy { .. })) => {
                    tracing::error!(what, %error, "not written, trying again");
                    self.parking.run_until_cancelled(tokio::time::sleep(wait)).await?;
                    wait = (wait * 2).min(WRITE_AGAIN_AFTER_MAX);
                }
                Err(StoreError::Closed) => return None,
                // Something else was quicker: a late word about a handoff, or about a turn, that is over.
                Err(error @ StoreError::Conflict { .. }) => {
                    tracing::warn!(what, %error, "not written, since it is over");
                    return None;
                }
                Err(error) => {
                    tracing::error!(what, %error, "not written");
                    return None;
                }
            }
        }
    }

    /// Why no new event is taken, where none is.
    pub fn takes_nothing(&self) -> Option<&'static str> {
        match (self.draining.is_cancelled(), self.rests.load(Ordering::Relaxed)) {
            (true, _) => Some("the host is stopping and begins nothing new"),
            (false, true) => {
                Some("the host is draining and begins nothing new; `hermes-host drain --undo` lets it go on")
            }
            (false, false) => None,
        }
    }

    /// Counts an event that was taken in.
    pub fn count_event(&self) {
        self.counts.events.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts an event that was refused for what it says.
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
