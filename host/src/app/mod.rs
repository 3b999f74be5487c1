//! The wiring of the host: start, operation and ordered end.
//!
//! Start: home → lock → status address → store → dispatcher → adapters → recovery → control socket → ready. End, within
//! `[host] drain_s`: no new events → turns end, or are parked for the next run → deliveries are sent → adapters
//! disconnect → the store closes. A host without adapters keeps running, because one can be added.
//!
//! A terminal without a host runs one in its own process, without adapters, signals and status address ([`run_alone`]);
//! `run` asks it to hand over. `adapter try` does the same with one adapter and its own home ([`run_trial`]).

mod control;
mod home;
mod link;
mod lock;
mod notify;
mod orphans;
pub(crate) mod plan;
mod ready;
mod reexec;
mod reload;
mod run_requests;
mod signals;
mod status;
mod stop;
mod terminals;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot, watch};

use crate::engine::background::tasks;
use crate::engine::background::wakeups;
use crate::engine::config_snapshot::Live;
use crate::engine::dispatcher::Dispatcher;
use crate::engine::handoff;
use crate::engine::messages::{Due, HostEvent};
use crate::engine::recovery;
use crate::engine::runtime::Host;
use crate::engine::services::Services;
use crate::engine::timer::Timer;
use crate::engine::tools;
use crate::surface::control as socket;
use hermes_config::mask::LogMask;
use hermes_config::{Config, Sources};
use hermes_loader::terminal::Terminals;
use hermes_loader::{AdapterEvent, Adapters, HostServices, Watch};
use hermes_store::Store;
use hermes_system::clock::{ClockWatch, SystemClock};
use hermes_system::rng::{Chance, SystemChance};
pub use home::HomeError;
pub use lock::{HostLock, LockError, held_by};
use notify::Notify;
use plan::Runs;
pub use reexec::{Ended, NextRun, WOULD_START, WouldNotStart, would_start};
use signals::{Signals, Wish};

/// Exit code that asks the service manager for another start.
pub const EXIT_RESTART: u8 = 75;

/// Requests of the control socket that may wait for their answer.
const CONTROL_QUEUE_MAX: usize = 64;

/// Events of adapters that may wait for the dispatcher.
const ADAPTER_QUEUE_MAX: usize = 256;

/// Interval of the removal of expired data.
const SWEEP_EVERY: Duration = Duration::from_secs(60);

/// Interval of the comparison of the wall clock with the elapsed time.
const LOOK_AT_THE_CLOCK: Duration = Duration::from_secs(5);

/// Wait for tasks that do not end, after the store is closed.
const LEFT_BEHIND: Duration = Duration::from_secs(1);

/// A host in the process of one terminal, without adapters, until another host takes over.
pub struct OwnHost {
    /// Requests its end.
    end: mpsc::Sender<stop::End>,
}

impl OwnHost {
    /// Requests the end. Work that cannot end at once is parked for the next run.
    pub fn end(&self) {
        // A full channel means that it is already ending.
        let _ = self.end.try_send(stop::End::Stop);
    }
}

/// The options of `run` besides the configuration.
#[derive(Clone, Debug, Default)]
pub struct RunOptions {
    /// The sources of the configuration, for a reload.
    pub sources: Sources,
    /// The program of the next run, which is tested before a restart.
    pub program: Option<PathBuf>,
    /// `true` if a host that holds the home is asked to stop first.
    pub replace: bool,
    /// The mask of the log.
    pub log_mask: LogMask,
    /// The observer of the calls between the host and its adapters.
    pub watch: Watcher,
}

/// The observer of a trial; `None` for other hosts.
#[derive(Clone, Default)]
pub struct Watcher(pub Option<Watch>);

impl std::fmt::Debug for Watcher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Watcher").field(&self.0.is_some()).finish()
    }
}

/// The reason why the host did not start or ended with an error.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// The home folder cannot be used. The operator fixes it.
    #[error(transparent)]
    Home(#[from] home::HomeError),
    /// Another host uses the home. The operator stops it.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// The store cannot be used. The operator fixes it.
    #[error(transparent)]
    Store(#[from] hermes_store::StoreError),
    /// `[agent]` is wrong. The operator corrects it.
    #[error(transparent)]
    Agent(#[from] hermes_agent::config::BuildError),
    /// `plugins.toml` is wrong. The operator corrects it.
    #[error(transparent)]
    Config(#[from] hermes_config::Problems),
    /// The status address cannot be used. The operator corrects it.
    #[error(transparent)]
    Status(#[from] crate::surface::status::BindError),
    /// The control socket cannot be used. The operator fixes the home folder.
    #[error("cannot open the control socket in {path:?}; check the permissions of the folder")]
    Control {
        /// The home folder.
        path: PathBuf,
        /// The error of the system.
        #[source]
        source: std::io::Error,
    },
    /// The system refuses threads, timers or signals. The operator checks the machine.
    #[error("the system refused threads, timers or signals to the host")]
    System(#[source] std::io::Error),
}

/// The parts of the running host outside of the pipeline.
pub struct App {
    pub(crate) host: Arc<Host>,
    pub(crate) adapters: Adapters,
    pub(crate) terminals: Terminals,
    /// Held while a terminal takes its slot: finding the chats of a session and binding the slot to it is one step.
    pub(crate) sitting: tokio::sync::Mutex<()>,
    /// `true` if it runs for a terminal only.
    pub(crate) alone: bool,
    pub(crate) options: RunOptions,
    pub(crate) plans: plan::Planner,
    /// `starting`, `online`, `draining`, `stopping`.
    pub(crate) state: watch::Sender<&'static str>,
    pub(crate) since_ms: i64,
    /// The relation of the configuration file to the running configuration.
    pub(crate) standing: Mutex<reload::Standing>,
    /// The values that are read only at the start, as they were then.
    pub(crate) started_with: BTreeMap<&'static str, String>,
    pub(crate) end: mpsc::Sender<stop::End>,
    /// The host's services for the tools of its agent.
    pub(crate) lent: Arc<tools::Lent>,
}

/// Runs the host until it is asked to stop, on a new multi-threaded runtime.
///
/// # Errors
///
/// The host cannot start. A started host returns the way in which it ended.
pub fn run(config: Config, options: RunOptions) -> Result<Ended, RunError> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(RunError::System)?;
    let ended = runtime.block_on(serve(config, options, None, Runs::Adapters));
    // A turn that was left behind may block in a call that cannot be cancelled.
    runtime.shutdown_timeout(LEFT_BEHIND);
    ended
}

/// Runs a host for a terminal of this process, without adapters. `ready` is notified when terminals can attach. The
/// host holds the home like any other.
///
/// # Errors
///
/// The host cannot start; [`LockError::Held`] if another one holds the home.
pub async fn run_alone(
    config: Config,
    options: RunOptions,
    ready: oneshot::Sender<OwnHost>,
) -> Result<ExitCode, RunError> {
    serve(config, options, Some(ready), Runs::Nothing).await.map(|_| ExitCode::SUCCESS)
}

/// Runs a host for the trial of an adapter in this process: the configured adapters run, and libraries beside the
/// binary are ignored.
///
/// # Errors
///
/// The host cannot start.
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
    // In a process with a terminal, the terminal handles the signals.
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
    // The address is bound first, so that a host without it starts nothing.
    let status_listener = if alone { None } else { status::bind(&config).await? };

    let clock: Arc<dyn Timer> = Arc::new(SystemClock);
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
    host.set_switches(planner.clone());
    host.set_adapters(adapters.clone());
    if !alone {
        host.set_restartable(NextRun { sources: options.sources.clone(), program: options.program.clone() });
    }
    let unfinished = recovery::recover(&host).await?;
    wakeups::take_up(&host).await;
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
        // If the receiver is gone, the host runs until another request to end, or until its process ends.
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
    // The client that requested the end gets its answer.
    answers.until_written().await;
    control.abort();
    answering.abort();
    shown.abort();
    socket::remove(&home);
    adopting.abort();
    orphans::keep(&home, &left);
    drop(lock);
    let lived_ms = u64::try_from(app.host.now_ms() - app.since_ms).unwrap_or_default();
    let supervised = reexec::is_supervised(&app.options.sources.env, std::process::id());
    Ok(Ended::after(end, supervised, Duration::from_millis(lived_ms)))
}

/// Waits for a request to end, or for a failure of the dispatcher.
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
                    Err(problems) => tracing::error!("not restarted: the host would not start again:\n{problems}"),
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
                // Without a dispatcher the host cannot continue. Stored state survives the end of the process.
                tracing::error!(?ended, "the dispatcher ended unexpectedly; exiting with code 75 for a restart");
                std::process::exit(i32::from(EXIT_RESTART));
            }
        }
    }
}

/// Forwards events of the adapters to the dispatcher, and their announcements to the terminal.
async fn pass_on(host: Arc<Host>, mut news: mpsc::Receiver<AdapterEvent>) {
    while let Some(event) = news.recv().await {
        match event {
            AdapterEvent::Announced { instance, label, url } => ready::announced(&host, &instance, &label, &url).await,
            event => host.tell(HostEvent::Adapter(event)).await,
        }
    }
}

/// Checks once per second that the database file is still in place.
async fn look_after_the_store(host: Arc<Host>) {
    let mut second = tokio::time::interval(Duration::from_secs(1));
    second.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        second.tick().await;
        host.store.look_after().await;
    }
}

/// Removes expired data once per minute, in memory and in the store.
async fn sweep_for_ever(host: Arc<Host>) {
    let mut minute = tokio::time::interval(SWEEP_EVERY);
    loop {
        minute.tick().await;
        host.tell(HostEvent::Due(Due::Sweep)).await;
        let retention = host.live().config.limits.media_retention;
        match host.media.sweep(&host.store, host.now_ms(), retention).await {
            Ok(0) => {}
            Ok(files) => tracing::debug!(files, "expired media files deleted"),
            Err(error) => tracing::warn!(%error, "expired media files cannot be deleted"),
        }
        loop {
            match host.store.sweep(host.now_ms()).await {
                Ok(swept) if swept.more => tokio::task::yield_now().await,
                Ok(_) => break,
                Err(error) => {
                    tracing::warn!(%error, "expired rows cannot be deleted");
                    break;
                }
            }
        }
    }
}

/// Logs changes of the machine's clock.
async fn watch_the_clock(host: Arc<Host>) {
    let mut watch = ClockWatch::default();
    let mut ticks = tokio::time::interval(LOOK_AT_THE_CLOCK);
    loop {
        ticks.tick().await;
        if let Some(set_by_ms) = watch.look(host.clock.wall_ms(), host.now_ms()) {
            tracing::warn!(
                set_by_s = set_by_ms / 1_000,
                "the system clock was changed; deadlines are not affected, and the host keeps its own time until it \
                 is restarted"
            );
        }
    }
}

impl App {
    /// Checks that the host would start again.
    pub(crate) async fn would_start(&self) -> Result<(), WouldNotStart> {
        let next = NextRun { sources: self.options.sources.clone(), program: self.options.program.clone() };
        next.would_start().await
    }

    pub(crate) fn standing(&self) -> MutexGuard<'_, reload::Standing> {
        self.standing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
