//! One instance, kept alive.
//!
//! A supervisor is a task. It creates the instance, connects it, lets it run, and
//! begins again with a growing wait when it ends: on the same instance where only
//! the link was lost, with a new one where the instance panicked, died or gave no
//! sign of life. What an operator wants is a value it watches; a change of it ends
//! the present life politely.

use std::{
    sync::{Arc, Mutex, PoisonError, atomic::Ordering},
    time::Duration,
};

use futures_util::FutureExt;
use hermes_adapter_abi::{SDK_VERSION, status};
use hermes_core::backoff::Backoff;
use hermes_protocol::{CallError, ConnectError, Envelope, HostInfo, LinkState, LinkWord, Manifest, method};
use tokio::{sync::watch, time};

use super::{
    AdapterChange, AdapterHandle, AdapterLink, AdapterPlan, AdapterState, Answer, Destroyed, HostServices, Isolation,
    IsolationChoice, LoadError, Place,
    credential::CredentialLock,
    discover::{self, Admitted},
    frame::PROTOCOL,
    handle::Shared,
    in_process::{self, InProcess},
    life::{Life, panicked},
    logs::{self, LogGate, Mask},
    negotiate,
    process::{self, ChildSpec, HostHello},
    said, schema,
    services::InstancePort,
};
use crate::ffi::HostPort;

/// What a child may take to start and open its library, besides the deadline of `create`.
const CHILD_START: Duration = Duration::from_secs(10);
/// How long a busy instance is left before it is asked again.
const BUSY_WAIT: Duration = Duration::from_millis(500);
/// The longest wait that an adapter may ask for: who asks for more would never be seen again.
const WAIT_MS_MAX: u64 = 24 * 3_600 * 1_000;
/// Features of this host beyond its SDK version.
const FEATURES: [&str; 3] = ["emit.ack", "kv", "media"];

/// What the operator wants of an instance.
#[derive(Clone)]
pub(super) struct Wanted {
    /// Its plan.
    pub(super) plan: Arc<AdapterPlan>,
    /// Whether it shall run.
    pub(super) enabled: bool,
    /// Grows when it shall begin anew.
    pub(super) start: u64,
    /// Set when it shall end for good: how long each step of it may take.
    pub(super) end: Option<Duration>,
}

/// The task of one instance.
pub(super) struct Supervisor {
    pub(super) handle: AdapterHandle,
    pub(super) services: Arc<dyn HostServices>,
    pub(super) wanted: watch::Receiver<Wanted>,
    /// A thread of this instance could not be ended: from then on it runs in a process.
    pub(super) stuck: bool,
}

/// How a phase of a life ended.
enum Step {
    /// It is up, or stays up.
    Up,
    /// The link is lost; the instance can connect again.
    Again { reason: String, after_ms: Option<u64> },
    /// The instance is of no use any more.
    Broken { reason: String },
    /// A person has to do something first.
    Fatal { reason: String, mend: String },
    /// Something else is wanted.
    Changed,
}

/// A created instance with what belongs to it.
struct Born {
    life: Arc<Life>,
    link: watch::Receiver<Option<LinkState>>,
    credentials: Arc<Mutex<Vec<CredentialLock>>>,
}

impl Supervisor {
    /// Keeps the instance alive until it shall end for good.
    pub(super) async fn run(mut self) {
        let mut start = None;
        loop {
            let mut wanted = self.wanted.borrow_and_update().clone();
            if wanted.end.is_some() {
                if !self.is_stuck() {
                    self.apply(AdapterChange::Drain);
                    self.apply(AdapterChange::Ended);
                }
                return;
            }
            if !wanted.enabled {
                self.pause();
                if self.wanted.changed().await.is_err() {
                    return;
                }
                continue;
            }
            if start.replace(wanted.start) != Some(wanted.start) {
                // What was said of the file before does not count for this one.
                self.shared().told().forget_refusal();
            }
            self.apply(AdapterChange::Start);
            match self.live(&mut wanted).await {
                Step::Fatal { reason, mend } => {
                    let (reason, mend) = (said::words(&reason), said::words(&mend));
                    let said = format!("{reason} {mend}");
                    tracing::error!(target: "plugins", instance = %self.shared().instance, "failed: {}", said.trim_end());
                    self.apply(AdapterChange::Fatal { reason, mend });
                    if self.wanted.changed().await.is_err() {
                        return;
                    }
                }
                // Its state says already that it is lost, and until when.
                Step::Again { .. } | Step::Broken { .. } => self.wait(&wanted).await,
                Step::Up | Step::Changed => {}
            }
        }
    }

    /// One life, from `create` to `destroy`.
    async fn live(&mut self, wanted: &mut Wanted) -> Step {
        let born = match self.create(&wanted.plan).await {
            Ok(born) => born,
            Err(error) => {
                self.shared().told().code = Some(error.code());
                self.shared().judged.send_replace((wanted.start, Some(error.to_string())));
                let in_process = matches!(error, LoadError::CreateTimedOut { .. });
                self.stuck |= in_process;
                if error.may_pass() {
                    self.lost(error.to_string(), None);
                    return Step::Broken { reason: error.to_string() };
                }
                // Its sentence ends in what mends it.
                return Step::Fatal { reason: error.to_string(), mend: String::new() };
            }
        };
        self.shared().told().forget_refusal();
        self.shared().judged.send_replace((wanted.start, None));
        self.shared().life.store(Some(Arc::clone(&born.life)));
        let step = self.drive(&born, wanted).await;
        let polite = match &step {
            Step::Changed | Step::Up => {
                self.apply(AdapterChange::Drain);
                true
            }
            Step::Broken { reason } | Step::Again { reason, .. } => {
                self.shared().restarts.fetch_add(1, Ordering::Relaxed);
                self.lost(reason.clone(), None);
                false
            }
            Step::Fatal { .. } => false,
        };
        let deadline = self.wanted.borrow().end.unwrap_or(self.shared().settings.end);
        let ended = self.end(&born, polite, deadline).await;
        match (ended, &step) {
            (Destroyed::Stuck, _) => {
                self.stuck = true;
                tracing::error!(
                    target: "plugins", instance = %self.shared().instance,
                    "it did not end by its deadline; its next start is in a process of its own"
                );
                if !matches!(step, Step::Fatal { .. }) {
                    self.apply(AdapterChange::Overdue);
                }
            }
            (Destroyed::Joined, Step::Changed | Step::Up) => self.apply(AdapterChange::Ended),
            (Destroyed::Joined, _) => {}
        }
        step
    }

    /// Connects and runs until something other than the link ends it.
    async fn drive(&mut self, born: &Born, wanted: &mut Wanted) -> Step {
        loop {
            let step = match self.connect(born, wanted).await {
                Step::Up => {
                    self.apply(AdapterChange::Connected);
                    self.run_link(born, wanted).await
                }
                other => other,
            };
            let Step::Again { reason, after_ms } = step else { return step };
            let wait = self.lost(reason, after_ms);
            let closed = born.life.link.closed();
            tokio::select! {
                () = time::sleep(wait) => {}
                reason = born.life.broken() => return Step::Broken { reason },
                reason = closed => return Step::Broken { reason },
                () = must_end(&mut self.wanted, wanted, &self.handle) => return Step::Changed,
            }
        }
    }

    async fn connect(&mut self, born: &Born, wanted: &mut Wanted) -> Step {
        let deadline = self.shared().settings.connect;
        let closed = born.life.link.closed();
        tokio::select! {
            biased;
            reason = closed => Step::Broken { reason },
            () = must_end(&mut self.wanted, wanted, &self.handle) => Step::Changed,
            answer = time::timeout(deadline, born.life.call(method::CONNECT, b"{}".to_vec())) => match answer {
                Ok(answer) => connected(&born.life, method::CONNECT, answer),
                // The instance is rebuilt: whether its thread still runs, nobody can tell.
                Err(_) => Step::Broken { reason: format!("it did not connect within {} s", deadline.as_secs_f32()) },
            },
        }
    }

    async fn run_link(&mut self, born: &Born, wanted: &mut Wanted) -> Step {
        let shared = Arc::clone(self.shared());
        let mut link = born.link.clone();
        let running = born.life.call(method::RUN, b"{}".to_vec());
        let pulse = pulse(&born.life, &shared);
        let closed = born.life.link.closed();
        tokio::pin!(running, pulse, closed);
        let mut runs = true;
        loop {
            tokio::select! {
                biased;
                reason = &mut closed => return Step::Broken { reason },
                reason = born.life.broken() => return Step::Broken { reason },
                () = must_end(&mut self.wanted, wanted, &self.handle) => return Step::Changed,
                answer = &mut running, if runs => match answer.status {
                    // It has no receive loop of its own.
                    status::UNSUPPORTED => runs = false,
                    _ => return match connected(&born.life, method::RUN, answer) {
                        Step::Up => Step::Again { reason: "its receive loop ended".to_owned(), after_ms: None },
                        other => other,
                    },
                },
                changed = link.changed() => match changed {
                    Ok(()) => {
                        let state = link.borrow_and_update().clone();
                        self.report(state);
                    }
                    Err(_) => return Step::Broken { reason: "its port is gone".to_owned() },
                },
                step = &mut pulse => return step,
            }
        }
    }

    /// Takes what a library that reconnects itself says about its link.
    fn report(&self, state: Option<LinkState>) {
        let Some(LinkState { state, reason, .. }) = state else { return };
        let online = self.handle.is_online();
        match state {
            LinkWord::Online if online => self.apply(AdapterChange::Recovered),
            LinkWord::Online => self.apply(AdapterChange::Connected),
            LinkWord::Degraded if online => self.apply(AdapterChange::Degrade { duty: reason }),
            LinkWord::Lost if online => {
                // It tries by itself, at once.
                let next_try_ms = self.shared().settings.clock.now_ms();
                self.apply(AdapterChange::Lost { reason, next_try_ms });
            }
            _ => {}
        }
    }

    /// Notes that there is no link; returns how long to wait.
    fn lost(&self, reason: String, after_ms: Option<u64>) -> Duration {
        let reason = said::words(&reason);
        let shared = self.shared();
        let settings = &shared.settings;
        let failures = shared.state.borrow().state.failures().saturating_add(1);
        let millis = |duration: Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        let backoff = Backoff::new(millis(settings.backoff_first).max(1), millis(settings.backoff_max).max(1));
        // Without randomness the waits are those without jitter.
        let jitter = getrandom::u64().unwrap_or(0);
        let wait_ms = backoff.delay_ms(failures, jitter).max(after_ms.unwrap_or(0).min(WAIT_MS_MAX));
        tracing::warn!(target: "plugins", instance = %shared.instance, wait_ms, "no link: {reason}");
        let next_try_ms = settings.clock.now_ms().saturating_add_unsigned(wait_ms);
        self.apply(AdapterChange::Lost { reason, next_try_ms });
        Duration::from_millis(wait_ms)
    }

    /// Waits for the next try, or until something else is wanted.
    async fn wait(&mut self, wanted: &Wanted) {
        let backoff = self.shared().settings.backoff_first;
        let next_try_ms = self.shared().state.borrow().state.next_try_ms();
        let now_ms = self.shared().settings.clock.now_ms();
        let left = next_try_ms.map(|at| Duration::from_millis(u64::try_from(at.saturating_sub(now_ms)).unwrap_or(0)));
        tokio::select! {
            // A stuck instance has no time of its own.
            () = time::sleep(left.unwrap_or(backoff)) => {}
            () = other_wanted(&mut self.wanted, wanted) => {}
        }
    }

    /// Ends a life. Polite: the platform is told, and what is being sent may finish.
    async fn end(&self, born: &Born, polite: bool, deadline: Duration) -> Destroyed {
        let life = &born.life;
        if polite {
            life.leave();
            // Late or not, the life ends.
            let _ = time::timeout(deadline, life.idle()).await;
            let _ = time::timeout(deadline, life.call(method::DISCONNECT, b"{}".to_vec())).await;
        } else {
            life.give_up();
        }
        self.shared().life.store(None);
        life.link.shutdown(deadline).await;
        life.give_up();
        let destroyed = Arc::clone(&life.link).destroy(deadline).await;
        if destroyed == Destroyed::Joined {
            born.credentials.lock().unwrap_or_else(PoisonError::into_inner).clear();
        }
        destroyed
    }

    /// Makes a new instance.
    async fn create(&self, plan: &Arc<AdapterPlan>) -> Result<Born, LoadError> {
        let shared = self.shared();
        let settings = Arc::clone(&shared.settings);
        let admitted = match &plan.command {
            Some(_) => None,
            None => Some(admitted(plan, shared).await?),
        };
        let beside = admitted.as_ref().is_some_and(|admitted| admitted.place == Place::Beside);
        shared.trusted.store(beside || plan.trust_upstream, Ordering::Relaxed);
        if let Some(admitted) = &admitted {
            self.describe(&admitted.manifest);
            self.fits_schema(plan, admitted).await?;
        }
        let log = Arc::new(LogGate::new(&plan.instance, Mask::new(&plan.secrets)));
        let port = InstancePort::new(self.handle.clone(), Arc::clone(plan), Arc::clone(&self.services), log);
        let (counts, link_state) = (Arc::clone(&port.counts), port.link.subscribe());
        let credentials = Arc::clone(&port.credentials);
        let port: Arc<dyn HostPort> = Arc::new(port);
        let host = HostInfo::new(SDK_VERSION, FEATURES.map(str::to_owned).to_vec());
        let envelope = Envelope::new(host, plan.instance.clone(), plan.config.clone());
        let link: Arc<dyn AdapterLink> = match (self.isolation(plan, beside), admitted) {
            (Isolation::InProcess, Some(admitted)) => {
                Arc::new(create_inside(plan, admitted, port, &envelope, settings.create).await?)
            }
            (_, admitted) => self.create_outside(plan, admitted, port, &envelope).await?,
        };
        Ok(Born { life: Arc::new(Life::new(link, counts)), link: link_state, credentials })
    }

    async fn create_outside(
        &self,
        plan: &AdapterPlan,
        admitted: Option<Admitted>,
        port: Arc<dyn HostPort>,
        envelope: &Envelope,
    ) -> Result<Arc<dyn AdapterLink>, LoadError> {
        let settings = &self.shared().settings;
        let origin = match (&admitted, &plan.command) {
            (Some(admitted), _) => admitted.path.clone(),
            (None, command) => command.iter().flatten().next().map(Into::into).unwrap_or_default(),
        };
        let spec = match (&admitted, &plan.command) {
            (Some(admitted), _) => {
                let mut command = settings.runner.clone();
                command.extend(schema::runner_arguments(&origin, &admitted.copy));
                ChildSpec { command, env: settings.child_env.clone(), stdout: false, folder: None }
            }
            (None, command) => ChildSpec {
                command: command.iter().flatten().map(Into::into).collect(),
                env: settings.child_env.clone(),
                stdout: true,
                folder: plan.folder.clone(),
            },
        };
        let hello = HostHello {
            protocol: PROTOCOL,
            envelope: serde_json::to_value(envelope).expect("an envelope has string keys only"),
            create_ms: u64::try_from(settings.create.as_millis()).unwrap_or(u64::MAX),
            log_level: logs::max_level(),
            origin: origin.display().to_string(),
        };
        let failed = |error: std::io::Error| LoadError::ProcessFailed {
            instance: plan.instance.clone(),
            why: match plan.command.iter().flatten().next() {
                Some(program) => {
                    format!("`{program}` cannot be started ({error}); correct `command` in [adapter.{}]", plan.instance)
                }
                None => error.to_string(),
            },
        };
        let child = process::start(&spec).await.map_err(failed)?;
        let deadline = settings.create.saturating_add(CHILD_START);
        let (link, manifest) = child.link(&plan.instance, &hello, port, deadline).await?;
        if admitted.is_none() {
            negotiate::judge(&origin, &manifest)?;
            self.describe(&manifest);
        }
        Ok(Arc::new(link))
    }

    fn describe(&self, manifest: &Manifest) {
        self.shared().capabilities.store(Arc::new(manifest.capabilities.clone()));
        self.shared().manifest.store(Arc::new(manifest.clone()));
    }

    /// Refuses a section that does not fit the adapter's schema, where the schema can be had.
    async fn fits_schema(&self, plan: &AdapterPlan, admitted: &Admitted) -> Result<(), LoadError> {
        let schema = match schema::schema_of(admitted, &self.shared().settings).await {
            Ok(schema) => schema,
            Err(error) => {
                tracing::debug!(target: "plugins", instance = %plan.instance, "its schema cannot be had: {error}");
                return Ok(());
            }
        };
        let problems = schema::problems(&schema, &plan.config);
        if problems.is_empty() {
            return Ok(());
        }
        Err(LoadError::ConfigRefused { instance: plan.instance.clone(), problems: problems.join("; ") })
    }

    fn isolation(&self, plan: &AdapterPlan, beside: bool) -> Isolation {
        if self.stuck {
            return Isolation::Process;
        }
        let choice = match plan.isolation {
            IsolationChoice::Auto => self.shared().settings.isolation,
            chosen => chosen,
        };
        match choice {
            IsolationChoice::InProcess => Isolation::InProcess,
            IsolationChoice::Auto if beside => Isolation::InProcess,
            IsolationChoice::Auto | IsolationChoice::Process => Isolation::Process,
        }
    }

    fn pause(&self) {
        if !self.is_stuck() {
            self.apply(AdapterChange::Pause);
        }
    }

    /// Whether it could not be ended; it stays visible as that.
    fn is_stuck(&self) -> bool {
        matches!(self.handle.state(), AdapterState::Stuck)
    }

    fn apply(&self, change: AdapterChange) {
        self.shared().apply(change);
    }

    fn shared(&self) -> &Arc<Shared> {
        &self.handle.shared
    }
}

/// Returns once something else is wanted than `present`.
async fn other_wanted(wanted: &mut watch::Receiver<Wanted>, present: &Wanted) {
    let other = wanted
        .wait_for(|wanted| wanted.end.is_some() || wanted.start != present.start || wanted.enabled != present.enabled);
    // Without anybody who wants something, nobody is left to serve either.
    let _ = other.await;
}

/// Returns once the running instance has to end. One that would only be replaced stays if there is nothing to
/// replace it with: a file that was changed or broken does not take down what runs from the old copy.
async fn must_end(wanted: &mut watch::Receiver<Wanted>, present: &mut Wanted, handle: &AdapterHandle) {
    loop {
        other_wanted(wanted, present).await;
        let next = wanted.borrow().clone();
        if next.end.is_some() || !next.enabled || next.start == present.start || next.plan.command.is_some() {
            return;
        }
        let Err(error) = admitted(&next.plan, &handle.shared).await else {
            handle.shared.told().forget_refusal();
            return;
        };
        tracing::error!(target: "plugins", instance = %handle.instance(), "not replaced, the running copy goes on: {error}");
        {
            let mut told = handle.shared.told();
            told.code = Some(error.code());
            told.kept = Some(format!("not replaced, the running copy goes on: {error}"));
        }
        handle.shared.judged.send_replace((next.start, Some(format!("{error}; the running copy goes on"))));
        present.start = next.start;
    }
}

/// Finds the library of a plan and decides whether its bytes may run.
async fn admitted(plan: &AdapterPlan, shared: &Shared) -> Result<Admitted, LoadError> {
    let (plugin, settings) = (plan.plugin.clone(), Arc::clone(&shared.settings));
    let judging = tokio::task::spawn_blocking(move || discover::admit(&plugin, &settings));
    judging.await.expect("judging files does not panic")
}

async fn create_inside(
    plan: &AdapterPlan,
    admitted: Admitted,
    port: Arc<dyn HostPort>,
    envelope: &Envelope,
    deadline: Duration,
) -> Result<InProcess, LoadError> {
    let instance = plan.instance.clone();
    let envelope = serde_json::to_vec(envelope).expect("an envelope has string keys only");
    let creating = tokio::task::spawn_blocking(move || {
        let Admitted { path, copy, manifest, manifest_json, .. } = &admitted;
        let library = in_process::open(path, copy, &manifest.sdk, manifest_json)?;
        in_process::create(library, &instance, port, envelope, deadline)
    });
    creating.await.expect("creating an instance does not panic").map(InProcess::new)
}

/// What the answer to `connect`, `run` or `health` means.
fn connected(life: &Life, method: &str, answer: Answer) -> Step {
    match answer.status {
        status::OK => Step::Up,
        status::PANIC | status::POISONED => Step::Broken { reason: panicked(method, &answer) },
        // A process has said by then how it ended.
        status::DROPPED => Step::Broken {
            reason: life.link.closed().now_or_never().unwrap_or_else(|| "the instance ended".to_owned()),
        },
        status::BUSY => Step::Again { reason: "the instance is busy".to_owned(), after_ms: None },
        status::UNSUPPORTED => Step::Fatal {
            reason: "the adapter cannot connect".to_owned(),
            mend: "its author has to implement `connect`".to_owned(),
        },
        _ => match serde_json::from_slice(&answer.payload) {
            Ok(ConnectError::Fatal { reason, mend }) => Step::Fatal { reason, mend },
            Ok(ConnectError::Retry { reason, after_ms }) => Step::Again { reason, after_ms },
            _ => {
                let error = serde_json::from_slice::<CallError>(&answer.payload);
                let reason = error.map_or_else(|_| "the link was lost".to_owned(), |error| error.message);
                Step::Again { reason, after_ms: None }
            }
        },
    }
}

/// Asks for signs of life for as long as there are some.
async fn pulse(life: &Life, shared: &Shared) -> Step {
    let settings = &shared.settings;
    let heart = async {
        loop {
            time::sleep(settings.heartbeat).await;
            let beat = time::timeout(settings.health, life.link.heartbeat()).await;
            if beat != Ok(true) {
                return Step::Broken { reason: "its process gives no sign of life".to_owned() };
            }
        }
    };
    let promised = shared.capabilities.load().liveness.interval_s;
    let silence = if promised > 0 { Duration::from_secs(promised.into()) } else { settings.ask_after };
    let health = async {
        let mut seen = shared.proofs.load(Ordering::Relaxed);
        loop {
            time::sleep(silence).await;
            let proofs = shared.proofs.load(Ordering::Relaxed);
            if proofs == seen {
                match ask_health(life, settings.health).await {
                    Step::Up => {}
                    silent => return silent,
                }
            }
            seen = proofs;
        }
    };
    tokio::select! {
        step = heart, if life.link.isolation() == Isolation::Process => step,
        step = health => step,
    }
}

async fn ask_health(life: &Life, deadline: Duration) -> Step {
    let asking = async {
        loop {
            let answer = life.call(method::HEALTH, b"{}".to_vec()).await;
            if answer.status != status::BUSY {
                return answer;
            }
            time::sleep(BUSY_WAIT).await;
        }
    };
    match time::timeout(deadline, asking).await {
        Err(_) => Step::Broken { reason: format!("it did not answer `health` within {} s", deadline.as_secs_f32()) },
        Ok(answer) => match connected(life, method::HEALTH, answer) {
            // An adapter without the method is alive: it answered.
            Step::Fatal { .. } => Step::Up,
            other => other,
        },
    }
}
