//! A host and a platform in memory. Dropping the runtime is the crash.

use std::collections::{BTreeMap, VecDeque};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::BoxFuture;
use hermes_adapter_abi::status;
use hermes_agent::{AgentRuntime, EventSink, TurnOutcome, TurnRequest};
use hermes_core::ids::InboxId;
use hermes_protocol::{
    CallError, Chat, EditCall, Emitted, Event, LookupReply, Manifest, Outgoing, RefusalKind, SendOutcome, Sender,
    TurnEvent, TurnEventCall, method,
};
use serde_json::{Value, json};
use tokio::runtime::Runtime;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::engine::config_snapshot::Live;
use crate::engine::dispatcher::Dispatcher;
use crate::engine::messages::{Control, Due, HostEvent};
use crate::engine::recovery;
use crate::engine::runtime::Host;
use crate::engine::services::Services;
use crate::engine::timer::Timer;
use hermes_config::{Sources, load};
use hermes_core::clock::Clock;
use hermes_loader::terminal::Terminals;
use hermes_loader::{
    AdapterEvent, AdapterHandle, AdapterLink, AdapterPlan, Adapters, Answer, Destroyed, HostServices, Isolation,
    PendingCall,
};
use hermes_store::{Accepted, NewInbox, Store};
use hermes_system::clock::SystemClock;
use hermes_system::rng::SystemChance;

/// Timeout of every wait of a test.
const PATIENCE: Duration = Duration::from_secs(60);

/// Longest wait for the commits of receipts; a test that holds a part in another way waits for all of it.
const RECEIPTS_WAIT: Duration = Duration::from_millis(500);

/// The interval between two checks of a test.
const POLL: Duration = Duration::from_millis(2);

/// The configuration of a world.
pub struct Setting {
    /// Lines of `[adapter.fake]`.
    pub section: String,
    /// Lines of `[delivery]`.
    pub delivery: String,
    /// Further sections.
    pub more: String,
    /// Capabilities of the platform.
    pub capabilities: Value,
    /// The runtime, if it is not echo with its test words.
    pub runtime: Option<Arc<dyn AgentRuntime>>,
    /// True if only the test advances the time.
    pub clock_stands: bool,
}

impl Default for Setting {
    fn default() -> Self {
        Self {
            section: "access = { allowed_users = [\"7\", \"8\"], operators = [\"7\", \"8\"] }".to_owned(),
            delivery: "backoff_ms = 10".to_owned(),
            more: String::new(),
            capabilities: json!({ "text": { "limit": 4096, "unit": "scalars", "dialect": "commonmark" } }),
            runtime: None,
            clock_stands: false,
        }
    }
}

/// One host with one home folder and one platform.
pub struct World {
    home: tempfile::TempDir,
    setting: Setting,
    /// The platform outlives a run of the host.
    pub platform: Arc<Platform>,
    life: Option<Life>,
    events: AtomicU64,
    clock: Arc<Ahead>,
}

/// The system's clock plus the time by which a test has advanced it; or a clock that only a test moves.
struct Ahead {
    by: watch::Sender<Duration>,
    stands_at: Option<(Instant, i64)>,
}

impl Ahead {
    fn new(stands: bool) -> Self {
        let stands_at = stands.then(|| (Instant::now(), SystemClock.now_ms()));
        Self { by: watch::Sender::new(Duration::ZERO), stands_at }
    }
}

impl Clock for Ahead {
    fn now_ms(&self) -> i64 {
        let base = self.stands_at.map_or_else(|| SystemClock.now_ms(), |(_, ms)| ms);
        base + i64::try_from(self.by.borrow().as_millis()).unwrap()
    }
}

impl Timer for Ahead {
    fn moment(&self) -> Instant {
        self.stands_at.map_or_else(Instant::now, |(moment, _)| moment) + *self.by.borrow()
    }

    fn until(&self, moment: Instant) -> BoxFuture<'static, ()> {
        let (mut by, stands_at) = (self.by.subscribe(), self.stands_at);
        Box::pin(async move {
            loop {
                let ahead = *by.borrow_and_update();
                let now = stands_at.map_or_else(Instant::now, |(moment, _)| moment) + ahead;
                let Some(left) = moment.checked_duration_since(now).filter(|left| !left.is_zero()) else { return };
                let moved = async {
                    if by.changed().await.is_err() {
                        std::future::pending().await
                    }
                };
                match stands_at {
                    Some(_) => moved.await,
                    None => tokio::select! { () = moved => {} () = tokio::time::sleep(left) => {} },
                }
            }
        })
    }
}

struct Life {
    runtime: Runtime,
    host: Arc<Host>,
    services: Arc<dyn HostServices>,
    handle: AdapterHandle,
    terminals: Terminals,
}

impl World {
    /// Creates a world without faults.
    pub fn new() -> Self {
        Self::with(Setting::default())
    }

    /// Creates a world with this setting.
    pub fn with(setting: Setting) -> Self {
        let clock = Arc::new(Ahead::new(setting.clock_stands));
        let mut world = Self {
            home: tempfile::tempdir().unwrap(),
            setting,
            platform: Arc::default(),
            life: None,
            events: AtomicU64::new(1),
            clock,
        };
        world.start();
        world
    }

    /// Starts a host on the state of the last one.
    pub fn start(&mut self) {
        self.start_with(true);
    }

    /// Starts a host whose platform may be offline.
    pub fn start_with(&mut self, online: bool) {
        assert!(self.life.is_none());
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let life = runtime.block_on(begin(self.home.path(), &self.setting, &self.platform, &self.clock, online));
        let (host, services, handle, terminals) = life;
        self.life = Some(Life { runtime, host, services, handle, terminals });
    }

    /// Sets the section of the platform for the next host.
    pub fn set_section(&mut self, section: &str) {
        section.clone_into(&mut self.setting.section);
    }

    /// Crashes the host.
    pub fn crash(&mut self) {
        self.wait_for_receipts();
        let life = self.life.take().unwrap();
        life.runtime.shutdown_background();
    }

    /// Waits until the receipts that the platform gave are committed, so that a crash repeats only what it is meant to.
    fn wait_for_receipts(&self) {
        const IN_FLIGHT: &str = "SELECT count(*) FROM outbox_parts WHERE state = 'in_flight'";
        let database = rusqlite::Connection::open(self.home.path().join("state.db")).unwrap();
        let deadline = Instant::now() + RECEIPTS_WAIT;
        loop {
            // A database that is being written to is read again.
            let in_flight = database.query_row(IN_FLIGHT, [], |row| row.get::<_, i64>(0)).unwrap_or(i64::MAX);
            if in_flight <= i64::try_from(self.platform.held.lock().unwrap().len()).unwrap()
                || Instant::now() > deadline
            {
                return;
            }
            std::thread::sleep(Duration::from_millis(2)); // poll
        }
    }

    /// Ends the host as requested.
    pub fn stop(&mut self) {
        let life = self.life.take().unwrap();
        life.runtime.block_on(async {
            life.host.draining.cancel();
            for drain in [Control::DrainLanes, Control::DrainOutbox] {
                let (done, drained) = oneshot::channel();
                life.host.tell(HostEvent::control(drain(done))).await;
                tokio::time::timeout(PATIENCE, drained).await.unwrap().unwrap();
            }
            life.host.store.close().await.unwrap();
        });
        life.runtime.shutdown_background();
    }

    /// Ends the host as requested while turns run, which are left to its next run.
    pub fn parks(&mut self) {
        let life = self.life.take().unwrap();
        life.runtime.block_on(async {
            life.host.draining.cancel();
            // Nothing waits for this reply: the running turn keeps its lane open.
            let (done, _) = oneshot::channel();
            life.host.tell(HostEvent::control(Control::DrainLanes(done))).await;
            let (done, drained) = oneshot::channel();
            life.host.tell(HostEvent::control(Control::DrainOutbox(done))).await;
            tokio::time::timeout(PATIENCE, drained).await.unwrap().unwrap();
            life.host.parking.cancel();
            let (done, drained) = oneshot::channel();
            life.host.tell(HostEvent::control(Control::DrainLanes(done))).await;
            tokio::time::timeout(PATIENCE, drained).await.unwrap().unwrap();
            life.host.store.close().await.unwrap();
        });
        life.runtime.shutdown_background();
    }

    /// Advances the time without a wait.
    pub fn passes(&self, time: Duration) {
        self.clock.by.send_modify(|by| *by += time);
    }

    /// Triggers the sweep of every minute.
    pub fn sweeps(&self) {
        self.block_on(self.host().tell(HostEvent::Due(Due::Sweep)));
    }

    /// Cuts or restores the platform's link.
    pub fn set_online(&self, online: bool) {
        self.life().handle.set_online(online);
    }

    /// Returns the home folder.
    pub fn home(&self) -> &Path {
        self.home.path()
    }

    pub fn host(&self) -> &Arc<Host> {
        &self.life().host
    }

    pub fn terminals(&self) -> &Terminals {
        &self.life().terminals
    }

    /// Runs a future in the background, as long as the host runs.
    pub fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.life().runtime.spawn(work);
    }

    /// Runs a call in the background; returns its handle.
    pub fn beside<T: Send + 'static>(&self, work: impl Future<Output = T> + Send + 'static) -> JoinHandle<T> {
        self.life().runtime.spawn(work)
    }

    /// Runs a future on the host's runtime.
    pub fn block_on<T>(&self, work: impl Future<Output = T>) -> T {
        self.life().runtime.block_on(async { tokio::time::timeout(PATIENCE, work).await.expect("in time") })
    }

    /// Returns the direct chat of `who`.
    pub fn chat<'w>(&'w self, who: &str) -> Talk<'w> {
        Talk { world: self, chat: Chat::dm(who), sender: Sender::new(who) }
    }

    /// Returns a chat of any kind in which `who` writes.
    pub fn talk<'w>(&'w self, chat: Chat, who: &str) -> Talk<'w> {
        Talk { world: self, chat, sender: Sender::new(who) }
    }

    /// Reports a link of the adapter, as its supervisor would.
    pub fn is_ready(&self) {
        let ready = AdapterEvent::Ready { instance: Arc::from("fake") };
        self.block_on(self.host().tell(HostEvent::Adapter(ready)));
    }

    /// Returns the texts of a direct chat, also while no host runs.
    pub fn chat_heard(&self, who: &str) -> Vec<String> {
        let chat = Chat::dm(who);
        self.platform.sent().into_iter().filter(|sent| sent.chat == chat).map(|sent| sent.text).collect()
    }

    /// Returns the number of the next event.
    fn number(&self) -> u64 {
        self.events.fetch_add(1, Ordering::Relaxed)
    }

    /// Calls a host method as the adapter would.
    pub fn call(&self, method: &str, payload: Value) -> Result<Value, CallError> {
        let life = self.life();
        let call = life.services.call(&life.handle, method, payload.to_string().into_bytes());
        self.block_on(call).map(|answer| serde_json::from_slice(&answer).unwrap())
    }

    /// Calls a host method as the adapter would, without waiting for the answer.
    pub fn services_call(&self, method: &str, payload: Value) -> BoxFuture<'static, Result<Vec<u8>, CallError>> {
        let life = self.life();
        life.services.call(&life.handle, method, payload.to_string().into_bytes())
    }

    /// Hands an event over without waiting for the acknowledgement.
    pub fn give(&self, event: &Event) -> BoxFuture<'static, Result<Vec<u8>, CallError>> {
        let life = self.life();
        life.services.call(&life.handle, "emit", serde_json::to_vec(event).unwrap())
    }

    /// Waits until all work is settled.
    pub fn settled(&self) {
        self.until("everything is settled", || {
            let counts = self.block_on(self.host().store.counts()).unwrap();
            (counts.inbox + counts.turns + counts.outbox == 0).then_some(())
        });
    }

    /// Waits for a condition that has no signal of its own.
    pub fn until<T>(&self, what: &str, mut check: impl FnMut() -> Option<T>) -> T {
        let until = tokio::time::Instant::now() + PATIENCE;
        loop {
            if let Some(found) = check() {
                return found;
            }
            assert!(tokio::time::Instant::now() < until, "not in time: {what}");
            std::thread::sleep(POLL); // poll: the host is not kept from its work by being watched
        }
    }

    fn life(&self) -> &Life {
        self.life.as_ref().expect("a host runs")
    }
}

async fn begin(
    home: &Path,
    setting: &Setting,
    platform: &Arc<Platform>,
    clock: &Arc<Ahead>,
    online: bool,
) -> (Arc<Host>, Arc<dyn HostServices>, AdapterHandle, Terminals) {
    let file = home.join("plugins.toml");
    let text = format!(
        "[agent]\nruntime = \"echo\"\ntest_words = true\n\n[delivery]\n{}\n\n[adapter.fake]\n{}\n\n{}\n",
        setting.delivery, setting.section, setting.more
    );
    std::fs::write(&file, text).unwrap();
    let sources = Sources {
        config: Some(file),
        home: Some(home.to_owned()),
        env: Default::default(),
        cwd: home.to_owned(),
        here: false,
    };
    let config = load(sources).unwrap();
    let agent = setting.runtime.clone().unwrap_or_else(|| hermes_agent::build(&config.agent).unwrap());
    let path = home.join("state.db");
    let opened = Store::open(&path, clock.clone()).unwrap();
    let (events, inbox) = mpsc::channel(1_024);
    let chance = Arc::new(SystemChance);
    let host = Host::new(opened.store, opened.epoch, clock.clone(), chance, agent, events, Live::new(config));
    let host = Arc::new(host);
    tokio::spawn(Dispatcher::new(Arc::clone(&host), opened.loaded).run(inbox));
    let services: Arc<dyn HostServices> = Arc::new(Services::new(Arc::clone(&host)));
    let manifest = json!({
        "schema": 1, "id": "fake", "label": "Fake", "version": "1", "sdk": "1.0.0", "abi": 1,
        "capabilities": setting.capabilities,
    });
    let manifest: Manifest = serde_json::from_value(manifest).unwrap();
    let link: Arc<dyn AdapterLink> = Arc::new(Link(Arc::clone(platform)));
    let mut plan = AdapterPlan::new("fake", "fake", Value::Null);
    plan.trust_upstream = setting.section.contains("trust_upstream = true");
    let handle = AdapterHandle::over(link, &plan, manifest);
    handle.set_online(online);
    let adapters = Adapters::of(vec![handle.clone()], Arc::clone(&services));
    let terminals = Terminals::new();
    adapters.build_in(&terminals);
    host.set_adapters(adapters);
    recovery::recover(&host).await.unwrap();
    crate::engine::background::wakeups::take_up(&host).await;
    tokio::spawn(crate::engine::handoff::watch(Arc::clone(&host)));
    tokio::spawn(crate::engine::background::tasks::tell::tell_for_ever(Arc::clone(&host)));
    (host, services, handle, terminals)
}

/// One person in one chat.
pub struct Talk<'w> {
    world: &'w World,
    chat: Chat,
    sender: Sender,
}

impl Talk<'_> {
    /// Returns the event of a message, not yet sent.
    pub fn event(&self, text: &str) -> Event {
        let number = self.world.number();
        Event::message(format!("m:{}:{number}", self.chat.id), self.chat.clone(), self.sender.clone(), text)
            .at_ms(self.world.clock.now_ms())
            .with_message_id(number.to_string())
    }

    /// Sends a message; returns once the host has committed it.
    pub fn says(&self, text: &str) -> Emitted {
        self.gives(&self.event(text))
    }

    /// Sends an event that was created before.
    pub fn gives(&self, event: &Event) -> Emitted {
        serde_json::from_slice(&self.world.block_on(self.world.give(event)).unwrap()).unwrap()
    }

    /// Commits a message that the host does not process before it crashes.
    pub fn is_cut_off_saying(&self, text: &str) -> InboxId {
        self.is_cut_off_giving(&self.event(text))
    }

    /// Commits such an event that was created before.
    pub fn is_cut_off_giving(&self, event: &Event) -> InboxId {
        let new = NewInbox {
            instance: "fake".to_owned(),
            event_id: event.event_id.clone(),
            at_ms: 1,
            received_ms: 1,
            event: serde_json::to_string(event).unwrap(),
        };
        match self.world.block_on(self.world.host().store.accept(new)).unwrap() {
            Accepted::New(inbox) => inbox,
            other => panic!("{other:?} is not new"),
        }
    }

    /// Returns the texts that arrived here so far.
    pub fn heard(&self) -> Vec<String> {
        self.world.platform.sent().into_iter().filter(|sent| sent.chat == self.chat).map(|sent| sent.text).collect()
    }

    /// Waits until `count` texts arrived.
    pub fn hears(&self, count: usize) -> Vec<String> {
        let mut news = self.world.platform.news.subscribe();
        loop {
            let heard = self.heard();
            if heard.len() >= count {
                return heard;
            }
            let next = self.world.block_on(async { tokio::time::timeout(PATIENCE / 2, news.changed()).await });
            next.unwrap_or_else(|_| panic!("{count} texts are expected, the last ones: {:?}", heard.last())).unwrap();
        }
    }
}

/// A platform that acts as the test requires and records every call.
pub struct Platform {
    sent: Mutex<Vec<Outgoing>>,
    stream: Mutex<Vec<TurnEvent>>,
    typing: Mutex<Vec<bool>>,
    edits: Mutex<Vec<EditCall>>,
    drafts: Mutex<Vec<String>>,
    /// The text of each message, in the order of the sends.
    screen: Mutex<Vec<(String, String)>>,
    outcomes: Mutex<VecDeque<Option<SendOutcome>>>,
    edit_outcomes: Mutex<VecDeque<Option<SendOutcome>>>,
    takes_no_drafts: AtomicBool,
    takes_no_reactions: AtomicBool,
    /// The wait in the answer to typing signs, in milliseconds.
    limits_hints: AtomicU64,
    /// The number of next sends whose receipt is held, and the held ones.
    holds: AtomicU64,
    held: Mutex<Vec<oneshot::Sender<Answer>>>,
    /// The methods whose next call is held, and the held calls, in order.
    holds_other: Mutex<Vec<String>>,
    held_other: Mutex<VecDeque<oneshot::Sender<Answer>>>,
    lookup: Mutex<Option<LookupReply>>,
    /// The answers of other methods, by their name; `{}` otherwise.
    others: Mutex<BTreeMap<String, Value>>,
    /// Every call of another method, with its payload.
    asked: Mutex<Vec<(String, Value)>>,
    /// Changes with every call.
    news: watch::Sender<u64>,
}

impl Default for Platform {
    fn default() -> Self {
        Self {
            sent: Mutex::default(),
            stream: Mutex::default(),
            typing: Mutex::default(),
            edits: Mutex::default(),
            drafts: Mutex::default(),
            screen: Mutex::default(),
            outcomes: Mutex::default(),
            edit_outcomes: Mutex::default(),
            takes_no_drafts: AtomicBool::new(false),
            takes_no_reactions: AtomicBool::new(false),
            limits_hints: AtomicU64::new(0),
            holds: AtomicU64::new(0),
            held: Mutex::default(),
            holds_other: Mutex::default(),
            held_other: Mutex::default(),
            lookup: Mutex::default(),
            others: Mutex::default(),
            asked: Mutex::default(),
            news: watch::Sender::new(0),
        }
    }
}

impl Platform {
    /// Sets the outcome of the next send.
    pub fn answers(&self, outcome: SendOutcome) {
        self.outcomes.lock().unwrap().push_back(Some(outcome));
    }

    /// Lets the next send be refused.
    pub fn refuses(&self, kind: RefusalKind) {
        self.answers(SendOutcome::refused(kind, "no"));
    }

    /// Sets the outcome of the next edit.
    pub fn answers_edit(&self, outcome: SendOutcome) {
        self.edit_outcomes.lock().unwrap().push_back(Some(outcome));
    }

    /// Lets the next edit hang.
    pub fn hangs_in_edit(&self) {
        self.edit_outcomes.lock().unwrap().push_back(None);
    }

    /// Refuses drafts from here on.
    pub fn takes_no_drafts(&self) {
        self.takes_no_drafts.store(true, Ordering::Relaxed);
    }

    /// Refuses reactions from here on.
    pub fn takes_no_reactions(&self) {
        self.takes_no_reactions.store(true, Ordering::Relaxed);
    }

    /// Limits typing signs from here on.
    pub fn limits_hints(&self, wait_ms: u64) {
        self.limits_hints.store(wait_ms, Ordering::Relaxed);
    }

    /// Shows a message that arrived without a receipt.
    pub fn shows(&self, id: &str, text: &str) {
        self.screen.lock().unwrap().push((id.to_owned(), text.to_owned()));
    }

    /// Returns every requested edit.
    pub fn edits(&self) -> Vec<EditCall> {
        self.edits.lock().unwrap().clone()
    }

    /// Returns every draft that was shown.
    pub fn drafts(&self) -> Vec<String> {
        self.drafts.lock().unwrap().clone()
    }

    /// Returns the visible texts: each message with its edits.
    pub fn screen(&self) -> Vec<String> {
        self.screen.lock().unwrap().iter().map(|(_, text)| text.clone()).collect()
    }

    /// Lets the next send hang.
    pub fn hangs(&self) {
        self.outcomes.lock().unwrap().push_back(None);
    }

    /// Lets the next send arrive at once, with a receipt that the test releases.
    pub fn holds_receipt(&self) {
        self.holds.store(1, Ordering::Relaxed);
    }

    /// Releases the held receipts.
    pub fn gives_receipts(&self) {
        for held in self.held.lock().unwrap().drain(..) {
            // A host that has ended does not wait for it.
            let number = self.screen.lock().unwrap().last().map(|(id, _)| id.clone()).unwrap();
            let receipt = json!(SendOutcome::delivered(number, 1)).to_string().into_bytes();
            let _ = held.send(Answer { status: status::OK, payload: receipt });
        }
    }

    /// Holds the next call of another method until [`Platform::gives_held`].
    pub fn holds_next(&self, method: &str) {
        self.holds_other.lock().unwrap().push(method.to_owned());
    }

    /// Answers the call that was held for the longest.
    pub fn gives_held(&self, answer: &Value) {
        let held = self.held_other.lock().unwrap().pop_front().expect("a call is held");
        // A host that has ended does not wait for it.
        let _ = held.send(Answer { status: status::OK, payload: answer.to_string().into_bytes() });
    }

    fn is_held(&self, method: &str) -> Option<oneshot::Receiver<Answer>> {
        let mut holds = self.holds_other.lock().unwrap();
        let at = holds.iter().position(|one| one == method)?;
        holds.remove(at);
        let (held, answer) = oneshot::channel();
        self.held_other.lock().unwrap().push_back(held);
        Some(answer)
    }

    /// Sets the answer of look-ups.
    pub fn knows(&self, reply: LookupReply) {
        *self.lookup.lock().unwrap() = Some(reply);
    }

    /// Sets the answer of another method from now on.
    pub fn answers_to(&self, method: &str, answer: Value) {
        self.others.lock().unwrap().insert(method.to_owned(), answer);
    }

    /// Returns the payloads of every call of another method.
    pub fn asked(&self, method: &str) -> Vec<Value> {
        self.asked.lock().unwrap().iter().filter(|(one, _)| one == method).map(|(_, payload)| payload.clone()).collect()
    }

    /// Returns every part that was sent.
    pub fn sent(&self) -> Vec<Outgoing> {
        self.sent.lock().unwrap().clone()
    }

    /// Returns every event of native streams.
    pub fn stream(&self) -> Vec<TurnEvent> {
        self.stream.lock().unwrap().clone()
    }

    /// Returns every typing sign, on and off.
    pub fn typing(&self) -> Vec<bool> {
        self.typing.lock().unwrap().clone()
    }

    fn happened(&self) {
        self.news.send_modify(|count| *count += 1);
    }

    fn answer(&self, method: &str, payload: &[u8]) -> Option<Result<Value, CallError>> {
        let answer = match method {
            method::SEND => {
                let outgoing: Outgoing = serde_json::from_slice(payload).unwrap();
                let text = outgoing.text.clone();
                self.sent.lock().unwrap().push(outgoing);
                let outcome = self.outcomes.lock().unwrap().pop_front();
                let number = self.sent.lock().unwrap().len();
                let outcome = outcome.unwrap_or_else(|| Some(SendOutcome::delivered(format!("p{number}"), 1)))?;
                if matches!(outcome, SendOutcome::Delivered { .. }) {
                    self.screen.lock().unwrap().push((format!("p{number}"), text));
                }
                json!(outcome)
            }
            method::EDIT => {
                let call: EditCall = serde_json::from_slice(payload).unwrap();
                self.edits.lock().unwrap().push(call.clone());
                let outcome = self.edit_outcomes.lock().unwrap().pop_front();
                let outcome = outcome.unwrap_or_else(|| Some(SendOutcome::delivered(call.message.id.clone(), 1)))?;
                if matches!(outcome, SendOutcome::Delivered { .. }) {
                    let mut screen = self.screen.lock().unwrap();
                    let message = screen.iter_mut().find(|(id, _)| *id == call.message.id).unwrap();
                    message.1 = call.outgoing.text;
                }
                json!(outcome)
            }
            method::DRAFT => {
                let call: Value = serde_json::from_slice(payload).unwrap();
                if self.takes_no_drafts.load(Ordering::Relaxed) {
                    return Some(Err(CallError::new("refused", "no drafts here")));
                }
                self.drafts.lock().unwrap().push(call["text"].as_str().unwrap().to_owned());
                json!({})
            }
            method::TURN_EVENT => {
                let call: TurnEventCall = serde_json::from_slice(payload).unwrap();
                self.stream.lock().unwrap().push(call.event);
                json!({})
            }
            method::TYPING => {
                let call: Value = serde_json::from_slice(payload).unwrap();
                self.typing.lock().unwrap().push(call["on"] == true);
                let wait_ms = self.limits_hints.load(Ordering::Relaxed);
                if wait_ms > 0 {
                    return Some(Err(CallError::new("refused", "slow down").retry_after_ms(Some(wait_ms))));
                }
                json!({})
            }
            method::LOOKUP => json!(self.lookup.lock().unwrap().clone().unwrap_or(LookupReply::Unclear)),
            other => {
                let payload = serde_json::from_slice(payload).unwrap_or_default();
                self.asked.lock().unwrap().push((other.to_owned(), payload));
                if other == method::REACT && self.takes_no_reactions.load(Ordering::Relaxed) {
                    return Some(Err(CallError::new("refused", "no reactions here")));
                }
                self.others.lock().unwrap().get(other).cloned().unwrap_or_else(|| json!({}))
            }
        };
        Some(Ok(answer))
    }
}

/// The link of one run of the host to the platform.
struct Link(Arc<Platform>);

impl AdapterLink for Link {
    fn call(&self, method: &str, payload: Vec<u8>) -> PendingCall {
        // The call is held before the test can see it.
        let held = self.0.is_held(method);
        let answer = self.0.answer(method, &payload);
        self.0.happened();
        if let Some(answer) = held {
            return PendingCall::new(1, answer, |_| {});
        }
        match answer {
            Some(Ok(_)) if method == method::SEND && self.0.holds.swap(0, Ordering::Relaxed) == 1 => {
                let (held, receipt) = oneshot::channel();
                self.0.held.lock().unwrap().push(held);
                PendingCall::new(1, receipt, |_| {})
            }
            Some(Ok(value)) => {
                PendingCall::answered(Answer { status: status::OK, payload: value.to_string().into_bytes() })
            }
            Some(Err(error)) => {
                PendingCall::answered(Answer { status: status::ERR, payload: serde_json::to_vec(&error).unwrap() })
            }
            None => {
                // The call stays open as long as the host waits for it.
                let (keep, never) = oneshot::channel();
                PendingCall::new(1, never, move |_| drop(keep))
            }
        }
    }

    fn shutdown(&self, _: Duration) -> BoxFuture<'static, Answer> {
        Box::pin(async { Answer::bare(status::OK) })
    }

    fn destroy(self: Arc<Self>, _: Duration) -> BoxFuture<'static, Destroyed> {
        Box::pin(async { Destroyed::Joined })
    }

    fn closed(&self) -> BoxFuture<'static, String> {
        Box::pin(std::future::pending())
    }

    fn heartbeat(&self) -> BoxFuture<'static, bool> {
        Box::pin(async { true })
    }

    fn isolation(&self) -> Isolation {
        Isolation::InProcess
    }
}

/// A runtime that ignores everything, also a stop.
pub struct Deaf;

impl AgentRuntime for Deaf {
    fn name(&self) -> &'static str {
        "deaf"
    }

    fn models(&self) -> Vec<String> {
        vec!["deaf".to_owned()]
    }

    fn run(&self, request: TurnRequest, events: EventSink, _: CancellationToken) -> BoxFuture<'_, TurnOutcome> {
        Box::pin(async move {
            let said = request.input[0].content.clone();
            events.chunk(said.clone()).await;
            if said.contains("hang") {
                std::future::pending::<()>().await;
            }
            TurnOutcome::Finished {
                text: said,
                messages: Vec::new(),
                usage: Default::default(),
                finish_reason: "stop".to_owned(),
                model: "deaf".to_owned(),
                state: None,
            }
        })
    }
}
