//! The handle of one instance for the rest of the host.
//!
//! A handle survives restarts of its instance. A call goes to the current incarnation, or is answered at once if none
//! runs. This module converts a status into an outcome; no module above it uses statuses.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering},
    },
    time::Duration,
};

use arc_swap::{ArcSwap, ArcSwapOption};
use hermes_adapter_abi::{CALLS_MAX, status};
use hermes_protocol::{
    Attachment, CallError, Capabilities, EditCall, FetchCall, LookupCall, LookupReply, Manifest, Outgoing, RefusalKind,
    SendOutcome, SentMessage, WaitScope, method,
};
use serde_json::Value;
use tokio::sync::{Semaphore, SemaphorePermit, mpsc, watch};

use super::{
    AdapterChange, AdapterPlan, AdapterSettings, AdapterState, Answer, Isolation, Seen, TimedAdapterState,
    alive::Alive,
    life::{Life, Sending},
    logs::Mask,
    said,
};

/// Detail of an unknown outcome if the instance died during the call.
pub const INSTANCE_DIED: &str = "instance died";

/// Detail of an unknown outcome if the host ended the instance during the call.
pub(super) const CUT_OFF: &str = "the host ended the instance";

/// The assumed rate of a slow upload, in bytes per second. A file extends the deadline of a text by its size divided by
/// this rate.
const UPLOAD_BYTES_PER_S: u64 = 256_000 / 8;

/// The most that files add to the deadline of a part.
const UPLOAD_MAX: Duration = Duration::from_secs(60 * 60);

/// Concurrent deliveries of one instance. A quarter of its calls remains for other methods.
pub const SENDS_MAX: usize = CALLS_MAX / 4 * 3;

/// Concurrent reactions of one instance. Other calls keep room beside them.
const SIGNS_MAX: usize = CALLS_MAX / 8;

/// Concurrent file requests of one instance. The limit exceeds that of one session, so no session blocks another. Other
/// calls keep room beside them.
const FETCHES_MAX: usize = CALLS_MAX / 16 + 2;

/// Additional wait for a file beyond the deadline that the adapter gets, so that its error message still arrives.
pub const FETCH_GRACE: Duration = Duration::from_secs(5);

/// The longest platform message that `status` repeats, in characters.
const DETAIL_CHARS_MAX: usize = 200;

/// Losses of a link for one reason are counted together within this time, in milliseconds.
const LOSSES_BELONG_MS: i64 = 15 * 60 * 1_000;

/// Reasons of losses that are counted at the same time.
const LOSSES_KEPT: usize = 8;

/// Fewer losses for one reason than this get a log line each.
const LOSSES_LOGGED: u32 = 5;

/// Limit of the announcements and of the counters of one instance.
const TOLD_MAX: usize = 64;

/// One instance. Cheap to clone; survives restarts of the instance.
#[derive(Clone)]
pub struct AdapterHandle {
    pub(super) shared: Arc<Shared>,
}

/// The state that handle, supervisor and host calls of one instance share.
pub(super) struct Shared {
    pub(super) instance: Arc<str>,
    pub(super) plugin: String,
    pub(super) settings: Arc<AdapterSettings>,
    pub(super) manifest: ArcSwap<Manifest>,
    pub(super) capabilities: ArcSwap<Capabilities>,
    pub(super) trusted: AtomicBool,
    pub(super) state: watch::Sender<TimedAdapterState>,
    pub(super) life: ArcSwapOption<Life>,
    /// Permits for deliveries: fewer than the calls that an adapter accepts, so that other calls find room.
    pub(super) sends: Semaphore,
    /// Permits for reactions.
    signs: Semaphore,
    /// Permits for file requests.
    fetches: Semaphore,
    /// Count of the links that came up.
    pub(super) links: AtomicU64,
    /// Count of the round trips that carried data.
    pub(super) proofs: AtomicU64,
    /// Count of the unintended ends of the instance.
    pub(super) restarts: AtomicU64,
    /// The completed round trips, and the tasks that wait for one.
    pub(super) alive: Alive,
    /// Time of the last round trip that carried data, in milliseconds since the Unix epoch; 0 means never.
    last_proven: AtomicI64,
    /// `true` while the host refuses the events of this instance: then a working link does not reset the backoff.
    refused: AtomicBool,
    pub(super) told: Mutex<Told>,
    pub(super) announcements: mpsc::Sender<(String, String)>,
    /// The number of the start that was judged last, and the reason if it was refused.
    pub(super) judged: watch::Sender<(u64, Option<String>)>,
}

/// The instance's reports about itself, and the reason of the last refusal.
#[derive(Default)]
pub(super) struct Told {
    pub(super) announced: BTreeMap<String, String>,
    pub(super) metrics: BTreeMap<String, f64>,
    pub(super) code: Option<&'static str>,
    /// The reason why the running instance was not replaced.
    pub(super) kept: Option<String>,
    /// The reason why its library does not run inside the host, if it crashed the host before.
    pub(super) crashed: Option<String>,
    /// The duty that is shown while the platform rejects the credential.
    pub(super) unauthorized: Option<String>,
    /// The recent reasons of lost links: reason, count, and time of the last loss in milliseconds since the Unix epoch.
    lost: Vec<(String, u32, i64)>,
}

impl Told {
    /// Counts the loss of a link and returns `true` if it is to be logged: each of the first losses for one reason,
    /// then loss 8, 16, 32, ….
    pub(super) fn is_worth_a_line(&mut self, reason: &str, now_ms: i64) -> bool {
        self.lost.retain(|(_, _, last_ms)| now_ms.saturating_sub(*last_ms) < LOSSES_BELONG_MS);
        let count = match self.lost.iter_mut().find(|(known, ..)| known == reason) {
            Some((_, count, last_ms)) => {
                (*count, *last_ms) = (count.saturating_add(1), now_ms);
                *count
            }
            None => {
                if self.lost.len() == LOSSES_KEPT {
                    self.lost.remove(0);
                }
                self.lost.push((reason.to_owned(), 1, now_ms));
                1
            }
        };
        count < LOSSES_LOGGED || count.is_power_of_two()
    }

    /// Removes the refusal of a file.
    pub(super) fn forget_refusal(&mut self) {
        self.code = None;
        self.kept = None;
    }
}

impl Shared {
    /// Creates the state of an instance of which only the plan is known.
    pub(super) fn new(
        plan: &AdapterPlan,
        settings: Arc<AdapterSettings>,
        announcements: mpsc::Sender<(String, String)>,
    ) -> Self {
        let now_ms = settings.clock.now_ms();
        let unknown = serde_json::json!({
            "schema": 1, "id": plan.plugin, "label": plan.plugin, "version": "", "sdk": "", "abi": 1,
        });
        let manifest: Manifest = serde_json::from_value(unknown).expect("these are a manifest's required fields");
        Self {
            instance: plan.instance.as_str().into(),
            plugin: plan.plugin.clone(),
            settings,
            capabilities: ArcSwap::from_pointee(manifest.capabilities.clone()),
            manifest: ArcSwap::from_pointee(manifest),
            trusted: AtomicBool::new(plan.trust_upstream),
            state: watch::Sender::new(TimedAdapterState::loaded(now_ms)),
            life: ArcSwapOption::empty(),
            sends: Semaphore::new(SENDS_MAX),
            signs: Semaphore::new(SIGNS_MAX),
            fetches: Semaphore::new(FETCHES_MAX),
            links: AtomicU64::new(0),
            proofs: AtomicU64::new(0),
            restarts: AtomicU64::new(0),
            alive: Alive::new(),
            last_proven: AtomicI64::new(0),
            refused: AtomicBool::new(false),
            told: Mutex::default(),
            announcements,
            judged: watch::Sender::new((0, None)),
        }
    }

    /// Records the manifest and the capabilities. `out_bytes_max` of the section replaces the media limit, because a
    /// private server may accept larger files than the public platform.
    pub(super) fn describe(&self, manifest: Arc<Manifest>, config: &Value) {
        let mut capabilities = manifest.capabilities.clone();
        if let Some(chosen) = config["out_bytes_max"].as_u64() {
            capabilities.media.out_bytes_max = chosen;
        }
        self.capabilities.store(Arc::new(capabilities));
        self.manifest.store(manifest);
    }

    /// Returns the incarnation for a delivery, and a guard: its end waits for the delivery. `None`: none runs.
    fn life_to_send(&self) -> Option<(Arc<Life>, Sending)> {
        loop {
            let life = self.life.load_full()?;
            let sending = life.sending();
            // If the incarnation was replaced before the guard existed, its drain may have missed this delivery.
            if self.life.load().as_ref().is_some_and(|present| Arc::ptr_eq(present, &life)) {
                return Some((life, sending));
            }
        }
    }

    /// Applies a change of state. An impossible transition is a fault of the host; it is logged and changes nothing.
    pub(super) fn apply(&self, change: AdapterChange) {
        let now_ms = self.settings.clock.now_ms();
        let change = said::change(change);
        let connected = change == AdapterChange::Connected;
        let changed = self.state.send_if_modified(|life| {
            let before = life.state.clone();
            if let Err(impossible) = life.apply(change, now_ms) {
                tracing::error!(target: "plugins", instance = %self.instance, "{impossible}");
            }
            if connected && life.state.is_online() && !before.is_online() {
                self.links.fetch_add(1, Ordering::Relaxed);
                self.alive.came_back();
            }
            life.state != before
        });
        if let Some(tell) = self.settings.watch.as_ref().filter(|_| changed) {
            let state = self.state.borrow().state.clone();
            tell(&self.instance, Seen::State(&state));
        }
    }

    /// Reports that another incarnation has taken over the link, so that the dispatcher is notified again.
    pub(super) fn came_anew(&self) {
        self.links.fetch_add(1, Ordering::Relaxed);
        self.alive.came_back();
        self.state.send_modify(|_| {});
    }

    /// Records that the host accepted or refused an event. While it refuses, a proof of the link does not reset the
    /// backoff: otherwise an instance that restarts because of the refusals would always do so after the shortest wait.
    pub(super) fn took(&self, is_taken: bool) {
        self.refused.store(!is_taken, Ordering::Relaxed);
    }

    /// Records a round trip that carried data.
    pub(super) fn proved(&self) {
        let now_ms = self.settings.clock.now_ms();
        self.last_proven.store(now_ms, Ordering::Relaxed);
        self.proofs.fetch_add(1, Ordering::Relaxed);
        self.alive.came_back();
        self.state.send_if_modified(|life| {
            // Most proofs change nothing: only an online instance with counted failures is updated.
            let counts = life.state.is_online() && life.state.failures() > 0 && !self.refused.load(Ordering::Relaxed);
            counts && life.apply(AdapterChange::Proved, now_ms).is_ok()
        });
    }

    /// Records that the link is up but the platform rejects the credential.
    fn unauthorized(&self, detail: &str) {
        let instance = &self.instance;
        let detail: String = detail.chars().filter(|c| !c.is_control()).take(DETAIL_CHARS_MAX).collect();
        let said = if detail.is_empty() { String::new() } else { format!(" ({detail})") };
        let duty = format!(
            "the platform rejects the credential{said}, and deliveries wait; replace the credential of \
             [adapter.{instance}], then run `hermes-host reload`"
        );
        self.told().unauthorized = Some(duty.clone());
        // Without a link the state shows another reason.
        if self.state.borrow().state.is_online() {
            self.apply(AdapterChange::Degrade { duty });
        }
    }

    /// Removes the duty set by [`Shared::unauthorized`], but no duty that the adapter reported itself.
    fn authorized(&self) {
        let Some(said) = self.told().unauthorized.take() else { return };
        let is_said = matches!(&self.state.borrow().state, AdapterState::Degraded { duty, .. } if *duty == said);
        if is_said {
            self.apply(AdapterChange::Recovered);
        }
    }

    /// Returns the time of the last round trip that carried data, in milliseconds since the Unix epoch.
    pub(super) fn last_proven_ms(&self) -> Option<i64> {
        Some(self.last_proven.load(Ordering::Relaxed)).filter(|at| *at != 0)
    }

    /// Stores a line for start-up and `status`.
    pub(super) fn announce(&self, label: String, url: String) {
        if !said::is_name(&label) || !said::is_name(&url) {
            tracing::warn!(target: "plugins", instance = %self.instance, "announced address rejected, because it is \
                                                                          too long");
            return;
        }
        {
            let announced = &mut self.told().announced;
            if announced.len() >= TOLD_MAX && !announced.contains_key(&label) {
                return;
            }
            // Each URL keeps its newest label only, because the label may contain a count.
            announced.retain(|_, before| url.is_empty() || *before != url);
            announced.insert(label.clone(), url.clone());
        }
        // If the queue is full, only the line at start-up is lost; `status` shows the announcement anyway.
        let _ = self.announcements.try_send((label, url));
    }

    /// Adds to a counter.
    pub(super) fn count(&self, name: String, value: f64) {
        let metrics = &mut self.told().metrics;
        let has_room = metrics.len() < TOLD_MAX && said::is_name(&name);
        if has_room || metrics.contains_key(&name) {
            *metrics.entry(name).or_default() += value;
        }
    }

    pub(super) fn told(&self) -> MutexGuard<'_, Told> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl AdapterHandle {
    /// Returns `true` if the instance failed or was not replaced and needs the operator.
    pub(super) fn waits_for_a_person(&self) -> bool {
        matches!(self.state(), AdapterState::Failed { .. }) || self.shared.told().kept.is_some()
    }
}

/// Identifies an incarnation: two marks are equal if the instance was not recreated in between.
#[derive(Clone, Debug)]
pub struct LifeMark(Option<Weak<Life>>);

impl PartialEq for LifeMark {
    fn eq(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (Some(one), Some(other)) => Weak::ptr_eq(one, other),
            (None, None) => true,
            _ => false,
        }
    }
}

impl AdapterHandle {
    /// Creates a built-in instance: online from the start over `link`, without a supervisor.
    pub(super) fn built_in(
        link: Arc<dyn super::AdapterLink>,
        plan: &AdapterPlan,
        settings: Arc<AdapterSettings>,
        manifest: Arc<Manifest>,
    ) -> Self {
        // No task reads its announcements.
        let (announcements, _) = mpsc::channel(1);
        let shared = Shared::new(plan, settings, announcements);
        shared.describe(manifest, &plan.config);
        shared.alive.is_part_of_the_host();
        shared.life.store(Some(Arc::new(Life::new(link, Arc::new(AtomicBool::new(true)), Mask::default()))));
        shared.apply(AdapterChange::Start);
        shared.apply(AdapterChange::Connected);
        Self { shared: Arc::new(shared) }
    }
}

#[cfg(any(test, feature = "testing"))]
impl AdapterHandle {
    /// Creates an online instance over a link that a test made.
    pub fn over(link: Arc<dyn super::AdapterLink>, plan: &AdapterPlan, manifest: Manifest) -> Self {
        let settings = AdapterSettings::new("/nowhere", super::SearchPath::default());
        Self::built_in(link, plan, Arc::new(settings), Arc::new(manifest))
    }

    /// Recreates the instance over the same link.
    pub fn is_made_anew(&self) {
        let life = self.shared.life.load_full().expect("it runs");
        let anew = Life::new(Arc::clone(&life.link), Arc::new(AtomicBool::new(true)), Mask::default());
        self.shared.life.store(Some(Arc::new(anew)));
    }

    /// Loses or regains the link.
    pub fn set_online(&self, online: bool) {
        if online {
            self.shared.apply(AdapterChange::Connected);
        } else {
            self.shared.apply(AdapterChange::Lost { reason: "a test cut it".to_owned(), next_try_ms: 0 });
        }
    }
}

impl AdapterHandle {
    /// Returns the mark of the running incarnation.
    pub fn life_mark(&self) -> LifeMark {
        LifeMark(self.shared.life.load().as_ref().map(Arc::downgrade))
    }

    /// Returns the name of the instance.
    pub fn instance(&self) -> &Arc<str> {
        &self.shared.instance
    }

    /// Returns the id of its plugin.
    pub fn plugin(&self) -> &str {
        &self.shared.plugin
    }

    /// Returns its capabilities; empty until its library was read.
    pub fn capabilities(&self) -> Arc<Capabilities> {
        self.shared.capabilities.load_full()
    }

    /// Returns its manifest; empty until its library was read.
    pub fn manifest(&self) -> Arc<Manifest> {
        self.shared.manifest.load_full()
    }

    /// Returns its state.
    pub fn state(&self) -> AdapterState {
        self.shared.state.borrow().state.clone()
    }

    /// Returns `true` if it has a link.
    pub fn is_online(&self) -> bool {
        self.shared.state.borrow().state.is_online()
    }

    /// Returns `true` if it has a link on which a user of this chat can be reached.
    pub fn reaches(&self, chat: &str) -> bool {
        self.is_online() && self.shared.life.load().as_ref().is_none_or(|life| life.link.reaches(chat))
    }

    /// Waits until [`reaches`](Self::reaches) may have become true.
    pub async fn reached(&self, chat: &str) {
        self.online().await;
        let reached = self.shared.life.load().as_ref().map(|life| life.link.reached(chat));
        if let Some(reached) = reached {
            reached.await;
        }
    }

    /// Returns `true` if a delivery to this chat is possible without an open request.
    pub fn delivers_later(&self, chat: &str) -> bool {
        let chat_does = |life: &Arc<Life>| life.link.delivers_later(chat);
        self.capabilities().supports_async_delivery && self.shared.life.load().as_ref().is_none_or(chat_does)
    }

    /// Returns `true` if the adapter's proofs about its senders count: it lies beside the binary, or the operator
    /// trusts it.
    pub fn trusted(&self) -> bool {
        self.shared.trusted.load(Ordering::Relaxed)
    }

    /// Waits for a link; never returns if its supervisor has ended for good.
    pub async fn online(&self) {
        let mut state = self.shared.state.subscribe();
        if state.wait_for(|life| life.state.is_online()).await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// Returns the isolation of the running instance, or `None` if none runs.
    pub fn isolation(&self) -> Option<Isolation> {
        self.shared.life.load().as_ref().map(|life| life.link.isolation())
    }

    /// Returns the sandbox restrictions of its process in words; `None` if none runs or it runs inside the host.
    pub fn confined(&self) -> Option<String> {
        self.shared.life.load().as_ref().and_then(|life| life.link.confined().map(str::to_owned))
    }

    /// Returns its counters.
    pub fn metrics(&self) -> BTreeMap<String, f64> {
        self.shared.told().metrics.clone()
    }

    /// Records that the platform rejects the credential: the instance is degraded until a delivery succeeds or it
    /// connects again.
    pub fn unauthorized(&self, detail: &str) {
        self.shared.unauthorized(detail);
    }

    /// Sends one part.
    pub async fn send(&self, message: &Outgoing) -> SendOutcome {
        self.try_send(message).await.outcome
    }

    /// Edits a sent message.
    pub async fn edit(&self, message: &SentMessage, outgoing: &Outgoing) -> SendOutcome {
        self.try_edit(message, outgoing).await.outcome
    }

    /// Sends one part, and reports if its instance ended during the attempt.
    pub async fn try_send(&self, message: &Outgoing) -> Attempted {
        let mut message = message.clone();
        let within = self.time_to_send(&mut message);
        self.deliver(method::SEND, to_json(&message), within).await
    }

    /// Edits a sent message, and reports if the instance ended during the attempt.
    pub async fn try_edit(&self, message: &SentMessage, outgoing: &Outgoing) -> Attempted {
        let mut outgoing = outgoing.clone();
        let within = self.time_to_send(&mut outgoing);
        self.deliver(method::EDIT, to_json(&EditCall::new(message.clone(), outgoing)), within).await
    }

    /// Returns the time limit of a part, which grows with its files, and writes it into the message.
    fn time_to_send(&self, message: &mut Outgoing) -> Duration {
        let bytes = message.media.iter().map(|file| file.size).fold(0, u64::saturating_add);
        let within = self.shared.settings.send + Duration::from_secs(bytes / UPLOAD_BYTES_PER_S).min(UPLOAD_MAX);
        message.within_ms = u64::try_from(within.as_millis()).ok();
        within
    }

    /// Waits in turn for a permit to deliver. Without permits, many chats would be answered [`status::BUSY`], and each
    /// answer would delay the whole instance. Cancel-safe.
    pub async fn room_to_deliver(&self) -> SemaphorePermit<'_> {
        self.shared.sends.acquire().await.expect("nobody closes it")
    }

    /// Returns a permit to deliver if one is free.
    pub fn try_room_to_deliver(&self) -> Option<SemaphorePermit<'_>> {
        self.shared.sends.try_acquire().ok()
    }

    /// Waits until no other delivery runs, and blocks all others while the returned permit is held. Cancel-safe.
    pub async fn room_to_deliver_alone(&self) -> SemaphorePermit<'_> {
        let all = u32::try_from(SENDS_MAX).unwrap_or(u32::MAX);
        self.shared.sends.acquire_many(all).await.expect("the semaphore is never closed")
    }

    /// Waits in turn for a permit to react. Cancel-safe.
    pub async fn room_for_a_sign(&self) -> SemaphorePermit<'_> {
        self.shared.signs.acquire().await.expect("nobody closes it")
    }

    /// Waits in turn for a permit to request a file. Cancel-safe.
    pub async fn room_to_fetch(&self) -> SemaphorePermit<'_> {
        self.shared.fetches.acquire().await.expect("nobody closes it")
    }

    /// Requests a file that an event named.
    ///
    /// # Errors
    ///
    /// The same as [`AdapterHandle::hint`].
    pub async fn fetch(&self, file: &Attachment, within: Duration) -> Result<Attachment, CallError> {
        let within_ms = u64::try_from(within.as_millis()).unwrap_or(u64::MAX);
        let call = to_json(&FetchCall::new(file.clone(), within_ms));
        let answer = self.call_within(method::FETCH, call, within + FETCH_GRACE).await?;
        serde_json::from_slice(&answer)
            .map_err(|error| CallError::new("failed", format!("the answer of the adapter cannot be read: {error}")))
    }

    /// Asks if a part with an unknown outcome arrived. Anything but a valid answer counts as unclear.
    pub async fn lookup(&self, call: &LookupCall) -> LookupReply {
        match self.ask(method::LOOKUP, to_json(call), self.shared.settings.send).await {
            Asked::Answered(answer) if answer.is_ok() => {
                serde_json::from_slice(&answer.payload).unwrap_or(LookupReply::Unclear)
            }
            _ => LookupReply::Unclear,
        }
    }

    /// Calls a method whose loss has no consequence, or whose answer can be requested again.
    ///
    /// # Errors
    ///
    /// The adapter's own error, or `unsupported`, `busy`, `unavailable`, `timeout`.
    pub async fn hint(&self, method: &'static str, payload: Vec<u8>) -> Result<Vec<u8>, CallError> {
        self.call_within(method, payload, self.shared.settings.hint).await
    }

    /// Calls a method that may take longer than a hint.
    ///
    /// # Errors
    ///
    /// The same as [`AdapterHandle::hint`]. After `timeout` the effect of the call is unknown.
    pub async fn call_within(
        &self,
        method: &'static str,
        payload: Vec<u8>,
        within: Duration,
    ) -> Result<Vec<u8>, CallError> {
        let instance = &self.shared.instance;
        match self.ask(method, payload, within).await {
            Asked::Answered(answer) => answer.into_result(instance, method),
            Asked::Offline => Err(CallError::new("unavailable", format!("{instance} is not online"))),
            Asked::Late => Err(CallError::new("timeout", format!("{instance} did not answer {method} in time"))),
        }
    }

    async fn deliver(&self, method: &'static str, payload: Vec<u8>, within: Duration) -> Attempted {
        // A drain of the instance waits until this guard is dropped.
        let sending = self.shared.life_to_send();
        let life = sending.as_ref().map(|(life, _)| life).filter(|_| self.is_online());
        let watched = self.shared.settings.watch.as_ref().map(|tell| (tell, payload.clone()));
        let mut ended = None;
        let outcome = match ask(life, method, payload, within).await {
            Asked::Answered(answer) => {
                let leaving = life.is_some_and(|life| life.is_leaving());
                if matches!(answer.status, status::PANIC | status::DROPPED) {
                    let alone = sending.as_ref().is_some_and(|(_, sending)| sending.is_alone());
                    ended = Some(if leaving { Ended::ByTheHost } else { Ended::ByItself { alone } });
                }
                self.outcome(method, answer, if leaving { CUT_OFF } else { INSTANCE_DIED })
            }
            Asked::Offline => {
                SendOutcome::not_sent(None, WaitScope::Instance, format!("{} is not online", self.shared.instance))
            }
            Asked::Late => SendOutcome::unknown(format!("no answer within {} s", within.as_secs_f32())),
        };
        if let Some((tell, call)) = watched {
            tell(&self.shared.instance, Seen::Sent { method, call: &call, outcome: &outcome });
        }
        if matches!(outcome, SendOutcome::Delivered { .. }) {
            self.shared.proved();
            self.shared.alive.carried_a_message();
            self.shared.authorized();
        }
        Attempted { outcome, ended }
    }

    /// Maps an answer by the table of 8-contracts. An unreadable answer is logged for the adapter's author and counts
    /// as unknown.
    fn outcome(&self, method: &'static str, answer: Answer, ended: &str) -> SendOutcome {
        outcome(answer, ended).unwrap_or_else(|error| {
            let instance = &self.shared.instance;
            // The error may quote a long part of the answer.
            let error: String = error.to_string().chars().take(DETAIL_CHARS_MAX).collect();
            tracing::error!(
                target: "plugins", %instance, method, error,
                "the answer of the adapter is not a `SendOutcome`, so the outcome is unknown (adapter bug)"
            );
            SendOutcome::unknown(format!("the answer to `{method}` cannot be read: {error}"))
        })
    }

    async fn ask(&self, name: &'static str, payload: Vec<u8>, deadline: Duration) -> Asked {
        // Rendering is a pure function: it needs an instance, not a link.
        let ready = name == method::RENDER || self.is_online();
        ask(self.shared.life.load_full().filter(|_| ready).as_ref(), name, payload, deadline).await
    }
}

/// Calls an incarnation. Dropping the call at the deadline cancels it on the other side.
async fn ask(life: Option<&Arc<Life>>, name: &'static str, payload: Vec<u8>, deadline: Duration) -> Asked {
    let Some(life) = life else { return Asked::Offline };
    match tokio::time::timeout(deadline, life.call(name, payload)).await {
        Ok(answer) => Asked::Answered(answer),
        Err(_) => Asked::Late,
    }
}

impl std::fmt::Debug for AdapterHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AdapterHandle")
            .field("instance", &self.shared.instance)
            .field("plugin", &self.shared.plugin)
            .finish_non_exhaustive()
    }
}

/// The result of one attempt to deliver.
#[derive(Debug)]
pub struct Attempted {
    /// The outcome.
    pub outcome: SendOutcome,
    /// `Some` if the instance ended during the attempt.
    pub ended: Option<Ended>,
}

/// The end of an instance during an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The instance died.
    ByItself {
        /// `true` if no other delivery was in flight.
        alone: bool,
    },
    /// The host ended the instance.
    ByTheHost,
}

/// The result of a call.
enum Asked {
    Answered(Answer),
    Offline,
    Late,
}

impl Answer {
    /// Returns the reply, or an error with a stable code.
    pub(super) fn into_result(self, instance: &str, method: &str) -> Result<Vec<u8>, CallError> {
        match self.status {
            status::OK => Ok(self.payload),
            status::UNSUPPORTED => Err(CallError::new("unsupported", format!("{instance} has no method {method}"))),
            status::BUSY => Err(CallError::new("busy", format!("{instance} has too many open calls"))),
            status::PANIC | status::DROPPED | status::POISONED => {
                Err(CallError::new("unavailable", format!("{instance} ended during {method}")))
            }
            _ => Err(serde_json::from_slice(&self.payload).unwrap_or_else(|_| {
                CallError::new("failed", format!("{instance} answered {method} with an unreadable error"))
            })),
        }
    }
}

/// Maps a status to the outcome of a delivery, by the table of 8-contracts. Fails if the answer cannot be read.
fn outcome(answer: Answer, ended: &str) -> Result<SendOutcome, serde_json::Error> {
    Ok(match answer.status {
        status::OK => match serde_json::from_slice(&answer.payload)? {
            SendOutcome::Unrecognised => SendOutcome::unknown("an answer of a later version"),
            outcome => said::outcome(outcome),
        },
        status::BUSY => SendOutcome::not_sent(None, WaitScope::Instance, "too many open calls"),
        status::POISONED => SendOutcome::not_sent(None, WaitScope::Instance, "the instance is restarting"),
        status::UNSUPPORTED => SendOutcome::refused(RefusalKind::Invalid, "the adapter has no such method"),
        status::PANIC | status::DROPPED => SendOutcome::unknown(ended),
        _ => SendOutcome::unknown(said::words(&serde_json::from_slice::<CallError>(&answer.payload)?.message)),
    })
}

/// Payload types always serialize: they hold strings, numbers and maps with string keys.
fn to_json(value: &impl serde::Serialize) -> Vec<u8> {
    serde_json::to_vec(value).expect("payload types have string keys only")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_that_is_announced_anew_has_its_newest_label_only() {
        let plan = AdapterPlan::new("one", "p", Value::Null);
        let settings = AdapterSettings::new("/nowhere", crate::SearchPath::default());
        let shared = Shared::new(&plan, Arc::new(settings), mpsc::channel(1).0);
        for label in ["Hooks (1 route)", "Hooks (2 routes)"] {
            shared.announce(label.to_owned(), "http://127.0.0.1:1/".to_owned());
        }
        shared.announce("Page".to_owned(), "http://127.0.0.1:2/".to_owned());
        shared.announce("@hermes".to_owned(), String::new());
        shared.announce("ready".to_owned(), String::new());
        let told = shared.told().announced.keys().cloned().collect::<Vec<_>>();
        assert_eq!(told, ["@hermes", "Hooks (2 routes)", "Page", "ready"]);
    }

    #[test]
    fn a_loss_that_repeats_for_a_day_costs_a_bounded_number_of_lines() {
        let mut told = Told::default();
        let lines = |told: &mut Told, reasons: &[&str], every_ms: i64, count: i64| {
            let losses = (0..count).flat_map(|n| reasons.iter().map(move |reason| (*reason, n * every_ms)));
            losses.filter(|(reason, at_ms)| told.is_worth_a_line(reason, *at_ms)).count()
        };
        assert!(lines(&mut told, &["409", "refused"], 10_000, 8_640) < 40);
        let mut told = Told::default();
        assert_eq!(lines(&mut told, &["refused"], LOSSES_BELONG_MS, 100), 100, "each outage has its line");
        assert!(told.lost.len() == 1);
    }

    #[test]
    fn an_answer_that_is_no_outcome_says_what_is_wrong_with_it() {
        let answer = |status, payload: &str| Answer { status, payload: payload.as_bytes().to_vec() };
        let error = outcome(answer(status::OK, r#"{"type":"delivered"}"#), INSTANCE_DIED).unwrap_err();
        assert!(error.to_string().contains("missing field `receipt`"), "{error}");
        assert!(outcome(answer(status::ERR, "oops"), INSTANCE_DIED).is_err());
        let refused = outcome(answer(status::ERR, r#"{"code":"failed","message":"no"}"#), INSTANCE_DIED).unwrap();
        assert_eq!(refused, SendOutcome::unknown("no"));
    }
}
