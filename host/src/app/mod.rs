//! Wires the host together, keeps it running, and takes it apart in order.
//!
//! Up: home → lock → status address → store → dispatcher → adapters → what an earlier
//! life left → control socket → ready. Down, within `[host] drain_s`: no new events → turns end,
//! or are parked for the next life → what can be sent is sent → adapters disconnect →
//! the store closes. A host without adapters keeps running: one can be added.
//!
//! A terminal without a host runs one in its own process, without adapters, signals and
//! status address ([`run_alone`]); `run` asks it to hand over. `adapter try` does the same with one adapter and a home
//! of its own ([`run_trial`]).

mod again;
mod control;
mod home;
mod link;
mod lock;
mod notify;
mod orphans;
pub(crate) mod plan;
mod ready;
mod reload;
mod run_requests;
mod seats;
mod signals;
mod status;
mod stop;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot, watch};

use crate::chance::{Chance, SystemChance};
use crate::clock::{Clock, ClockWatch, SystemClock};
use crate::config::{Config, Sources};
use crate::control as socket;
use crate::dispatcher::Dispatcher;
use crate::events::{Due, HostEvent};
use crate::handoff;
use crate::host::Host;
use crate::live::Live;
use crate::mask::LogMask;
use crate::plugins::terminal::Terminals;
use crate::plugins::{AdapterEvent, Adapters, HostServices, Watch};
use crate::recovery;
use crate::services::Services;
use crate::store::Store;
use crate::tasks;
use crate::tools;
use crate::wakes;
pub use again::{Ended, NextRun, WOULD_START, WouldNotStart, would_start};
pub use home::HomeError;
pub use lock::{HostLock, LockError, held_by};
use notify::Notify;
use plan::Runs;
use signals::{Signals, Wish};

/// Exit code that asks the service manager for another start.
pub const EXIT_RESTART: u8 = 75;

/// Requests of the control socket that wait for their answer.
const CONTROL_QUEUE_MAX: usize = 64;

/// News of adapters that wait for the dispatcher.
const ADAPTER_QUEUE_MAX: usize = 256;

/// How often what has expired is forgotten.
const SWEEP_EVERY: Duration = Duration::from_secs(60);

/// How often the clock of the machine is compared with the time that has passed.
const LOOK_AT_THE_CLOCK: Duration = Duration::from_secs(5);

/// How long tasks that do not end are waited for after everything is written.
const LEFT_BEHIND: Duration = Duration::from_secs(1);

/// A host that runs inside the process of one terminal, without adapters, until another one wants its place.
pub struct OwnHost {
    /// Ends it.
    end: mpsc::Sender<stop::End>,
}

impl OwnHost {
    /// Asks it to end: what cannot end at once is parked for the next one.
    pub fn end(&self) {
        // A second wish finds it ending already.
        let _ = self.end.try_send(stop::End::Stop);
    }
}

/// What `run` was told besides the configuration.
#[derive(Clone, Debug, Default)]
pub struct RunOptions {
    /// Where the configuration came from; a reload reads it again.
    pub sources: Sources,
    /// The program of the next run, which a restart tries first.
    pub program: Option<PathBuf>,
    /// Whether a host that holds the home is asked to stop first.
    pub replace: bool,
    /// What the log masks.
    pub log_mask: LogMask,
    /// Who watches what passes between the host and its adapters.
    pub watch: Watcher,
}

/// Who watches a trial, if anybody does.
#[derive(Clone, Default)]
pub struct Watcher(pub Option<Watch>);

impl std::fmt::Debug for Watcher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Watcher").field(&self.0.is_some()).finish()
    }
}

/// Why the host did not start, or did not end well.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// The operator: the home folder cannot be used.
    #[error(transparent)]
    Home(#[from] home::HomeError),
    /// The operator: another host works here.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// The operator: the state cannot be used.
    #[error(transparent)]
    Store(#[from] crate::store::StoreError),
    /// The operator: `[agent]` is wrong.
    #[error(transparent)]
    Agent(#[from] hermes_agent::config::BuildError),
    /// The operator: `plugins.toml` is wrong.
    #[error(transparent)]
    Config(#[from] crate::config::Problems),
    /// The operator: the status address cannot be used.
    #[error(transparent)]
    Status(#[from] crate::status::BindError),
    /// The operator: the control socket cannot be used.
    #[error("cannot open the control socket in {path:?}")]
    Control {
        /// The home folder.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
    /// The operator: the system refuses threads, timers or signals.
    #[error("the system does not let the host run")]
    System(#[source] std::io::Error),
}

/// What the running host knows about itself besides the pipeline.
pub struct App {
    pub(crate) host: Arc<Host>,
    pub(crate) adapters: Adapters,
    pub(crate) terminals: Terminals,
    /// Held while a terminal takes its seat: finding where a session is open and leading it there is one step.
    pub(crate) sitting: tokio::sync::Mutex<()>,
    /// Whether it runs for a terminal only.
    pub(crate) alone: bool,
    pub(crate) options: RunOptions,
    pub(crate) plans: plan::Planner,
    /// `starting`, `online`, `draining`, `stopping`.
    pub(crate) state: watch::Sender<&'static str>,
    pub(crate) since_ms: i64,
    /// How what lies there stands to what runs.
    pub(crate) standing: Mutex<reload::Standing>,
    /// The values that are read at the start only, as they were then.
    pub(crate) started_with: BTreeMap<&'static str, String>,
    pub(crate) end: mpsc::Sender<stop::End>,
    /// The view of the host that the tools of its agent have.
    pub(crate) lent: Arc<tools::Lent>,
}

/// Runs the host until it is told to stop. Makes the threads it needs.
///
/// # Errors
///
/// When it cannot start; a host that has started says how it ended.
pub fn run(config: Config, options: RunOptions) -> Result<Ended, RunError> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(RunError::System)?;
    let ended = runtime.block_on(serve(config, options, None, Runs::Adapters));
    // A turn that was left behind may hang in a call that nobody can end.
    runtime.shutdown_timeout(LEFT_BEHIND);
    ended
}

/// Runs a host for a terminal of this process, without adapters; `ready` hears when it can be attached to. It holds
/// the home as any host does.
///
/// # Errors
///
/// When it cannot start; [`LockError::Held`] where another one holds the home.
pub async fn run_alone(
    config: Config,
    options: RunOptions,
    ready: oneshot::Sender<OwnHost>,
) -> Result<ExitCode, RunError> {
    serve(config, options, Some(ready), Runs::Nothing).await.map(|_| ExitCode::SUCCESS)
}

/// Runs a host for a terminal of this process that tries adapters out: those of the configuration run, and libraries
/// beside the binary do not count.
///
/// # Errors
///
/// When it cannot start.
pub async fn run_trial(
    config: Config,
    options: RunOptions,
    ready: oneshot::Sender<OwnHost>,
) -> Result<ExitCode, RunError> {
    serve(config, options, Some(ready), Runs::OnlyThoseInFolders).await.map(|_| ExitCode::SUCCESS)
}

async fn serve(
    config: Config,
    options: RunOptions,
    ready: Option<oneshot::Sender<OwnHost>>,
    runs: Runs,
) -> Result<Ended, RunError> {
    let alone = ready.is_some();
    // The signals of a process with a terminal are the terminal's.
    let mut signals = if alone { Signals::none() } else { Signals::listen().map_err(RunError::System)? };
    let service = |name: &str| options.sources.env.get(name).filter(|_| !alone);
    let notify = Arc::new(Notify::new(service("NOTIFY_SOCKET").map(PathBuf::from)));
    let watchdog = notify::watchdog_every(service("WATCHDOG_USEC"));
    home::make(&config.home)?;
    let wish = match (alone, options.replace) {
        (true, _) => lock::Wish::Free,
        (false, true) => lock::Wish::Replace,
        (false, false) => lock::Wish::TakeOver,
    };
    let lock = lock::take(&config.home, wish, config.host.drain).await?;
    let left = orphans::left(&config.home);
    let adopting = orphans::adopt(&config.home, left.clone()).map_err(RunError::System)?;
    // A host that cannot have its address does not begin anything.
    let status_listener = if alone { None } else { status::bind(&config).await? };

    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let chance: Arc<dyn Chance> = Arc::new(SystemChance);
    let path = config.home.join("state.db");
    let opened = {
        let clock = Arc::clone(&clock);
        tokio::task::spawn_blocking(move || Store::open(&path, clock)).await
    };
    let opened = opened.map_err(|error| RunError::System(error.into()))??;
    let lent = Arc::new(tools::Lent::default());
    let runtime = hermes_agent::build_with(&config.agent, tools::ports(&lent))?;
    let planner = plan::Planner::new(&opened.loaded, runs);
    let warned = config.warnings.len();
    let mut planned = planner.plan(config, &options.log_mask).await?;
    planned.settings.watch.clone_from(&options.watch.0);
    planned.settings.isolated = opened.store.instances_in_flight(opened.epoch).await?;

    let problems = std::mem::take(&mut planned.problems);
    let standing = Mutex::new(reload::Standing::with(problems));

    let (events, inbox) = mpsc::channel(planned.config.limits.ingress_queue_max.max(1));
    let live = Live::new(planned.config);
    let host = Arc::new(Host::new(opened.store, opened.epoch, clock, chance, runtime, events, live));
    lent.serve(&host);
    host.runs.set_left(left.clone());
    let dispatcher = tokio::spawn(Dispatcher::new(Arc::clone(&host), opened.loaded).run(inbox));

    let services: Arc<dyn HostServices> = Arc::new(Services::new(Arc::clone(&host)));
    let (adapter_events, adapter_news) = mpsc::channel(ADAPTER_QUEUE_MAX);
    tokio::spawn(pass_on(Arc::clone(&host), adapter_news));
    let adapters = Adapters::start(planned.plans, services, adapter_events, planned.settings);
    let terminals = Terminals::new();
    adapters.build_in(&terminals);
    host.set_planner(planner.clone());
    host.set_adapters(adapters.clone());
    if !alone {
        host.set_restartable(NextRun { sources: options.sources.clone(), program: options.program.clone() });
    }
    let unfinished = recovery::recover(&host).await?;
    wakes::take_up(&host).await;
    tokio::spawn(handoff::watch(Arc::clone(&host)));
    tokio::spawn(tasks::tell::tell_for_ever(Arc::clone(&host)));

    let (end, mut ends) = mpsc::channel(4);
    let app = Arc::new(App {
        since_ms: host.now_ms(),
        standing,
        started_with: host.live().config.for_the_start(),
        host,
        adapters,
        terminals,
        sitting: tokio::sync::Mutex::default(),
        alone,
        options,
        plans: planner,
        state: watch::Sender::new("starting"),
        end,
        lent,
    });
    let (requests, asked) = mpsc::channel(CONTROL_QUEUE_MAX);
    let (home, limits) = {
        let live = app.host.live();
        (live.config.home.clone(), live.config.limits.clone())
    };
    let listener = socket::bind(&home).map_err(|source| RunError::Control { path: home.clone(), source })?;
    let seats: Arc<dyn socket::Seats> = Arc::clone(&app) as Arc<dyn socket::Seats>;
    let answers = socket::Answers::default();
    let runs = Arc::clone(&app.host.runs);
    let serving = socket::serve(listener, requests, Some(seats), runs, limits.control_clients_max, answers.clone());
    let control = tokio::spawn(serving);
    let answering = tokio::spawn(control::answer_all(Arc::clone(&app), asked));
    let shown = status::serve(&app, status_listener);
    tokio::spawn(sweep_for_ever(Arc::clone(&app.host)));
    tokio::spawn(look_after_the_store(Arc::clone(&app.host)));
    tokio::spawn(watch_the_clock(Arc::clone(&app.host)));
    app.state.send_replace("online");
    match ready {
        // A terminal that is gone by now ends it as soon as it is asked.
        Some(ready) => drop(ready.send(OwnHost { end: app.end.clone() })),
        None => ready::say(&app, &unfinished, warned),
    }
    notify.ready();
    if let Some(every) = watchdog {
        tokio::spawn(notify::feed_watchdog(Arc::clone(&app), Arc::clone(&notify), every));
    }

    let end = wait_for_the_end(&app, &mut signals, &mut ends, dispatcher).await;
    notify.stopping();
    let hurry = stop::hurry(signals, alone && end == stop::End::Stop);
    stop::drain(&app, end, hurry.clone()).await;
    let end = end.overruled(hurry.is_cancelled() || matches!(ends.try_recv(), Ok(stop::End::Stop)));
    // Whoever asked for the end hears that it was asked for.
    answers.until_written().await;
    control.abort();
    answering.abort();
    shown.abort();
    socket::remove(&home);
    adopting.abort();
    orphans::keep(&home, &left);
    drop(lock);
    let lived_ms = u64::try_from(app.host.now_ms() - app.since_ms).unwrap_or_default();
    let supervised = again::is_supervised(&app.options.sources.env, std::process::id());
    Ok(Ended::after(end, supervised, Duration::from_millis(lived_ms)))
}

/// Waits until somebody wants the host to end, or until it cannot go on.
async fn wait_for_the_end(
    app: &Arc<App>,
    signals: &mut Signals,
    ends: &mut mpsc::Receiver<stop::End>,
    mut dispatcher: tokio::task::JoinHandle<()>,
) -> stop::End {
    loop {
        tokio::select! {
            wish = signals.next() => match wish {
                Wish::Stop => return stop::End::Stop,
                Wish::Restart => match app.would_start().await {
                    Ok(()) => return stop::End::Restart,
                    Err(problems) => tracing::error!("the host keeps running, because it would not start again:\n{problems}"),
                },
                Wish::Reload => {
                    if let Err(problems) = app.reload().await {
                        tracing::error!("the configuration was not reloaded:\n{problems}");
                    }
                }
            },
            Some(end) = ends.recv() => return end,
            () = app.host.broken.cancelled() => return stop::End::Broken,
            () = app.host.restarting.cancelled() => return stop::End::Restart,
            ended = &mut dispatcher => {
                // A dispatcher that broke decides nothing any more. What is durable survives this process.
                tracing::error!(?ended, "the dispatcher ended; so does the host, with 75, to be started again");
                std::process::exit(i32::from(EXIT_RESTART));
            }
        }
    }
}

/// Passes news of the adapters on to the dispatcher, and what they announce to the terminal.
async fn pass_on(host: Arc<Host>, mut news: mpsc::Receiver<AdapterEvent>) {
    while let Some(event) = news.recv().await {
        match event {
            AdapterEvent::Announced { instance, label, url } => ready::announced(&host, &instance, &label, &url).await,
            event => host.tell(HostEvent::Adapter(event)).await,
        }
    }
}

/// Checks once a second that the database is where it was.
async fn look_after_the_store(host: Arc<Host>) {
    let mut second = tokio::time::interval(Duration::from_secs(1));
    second.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        second.tick().await;
        host.store.look_after().await;
    }
}

/// Forgets once a minute what has expired, in memory and in the store.
async fn sweep_for_ever(host: Arc<Host>) {
    let mut minute = tokio::time::interval(SWEEP_EVERY);
    loop {
        minute.tick().await;
        host.tell(HostEvent::Due(Due::Sweep)).await;
        let retention = host.live().config.limits.media_retention;
        match host.media.sweep(&host.store, host.now_ms(), retention).await {
            Ok(0) => {}
            Ok(files) => tracing::debug!(files, "swept from the media folder"),
            Err(error) => tracing::warn!(%error, "the media folder is not swept"),
        }
        loop {
            match host.store.sweep(host.now_ms()).await {
                Ok(swept) if swept.more => tokio::task::yield_now().await,
                Ok(_) => break,
                Err(error) => {
                    tracing::warn!(%error, "what has expired is not swept");
                    break;
                }
            }
        }
    }
}

/// Says in the log when the clock of the machine is set.
async fn watch_the_clock(host: Arc<Host>) {
    let mut watch = ClockWatch::default();
    let mut ticks = tokio::time::interval(LOOK_AT_THE_CLOCK);
    loop {
        ticks.tick().await;
        if let Some(set_by_ms) = watch.look(host.clock.wall_ms(), host.now_ms()) {
            tracing::warn!(
                set_by_s = set_by_ms / 1_000,
                "the clock of this machine was set; deadlines are not affected, and the host keeps its own time until \
                 it is restarted"
            );
        }
    }
}

impl App {
    /// Whether the host would start again if it ended.
    pub(crate) async fn would_start(&self) -> Result<(), WouldNotStart> {
        let next = NextRun { sources: self.options.sources.clone(), program: self.options.program.clone() };
        next.would_start().await
    }

    pub(crate) fn standing(&self) -> MutexGuard<'_, reload::Standing> {
        self.standing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
