//! All instances of the host, and the library files that no section uses.

use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, SystemTime},
};

use tokio::{
    sync::{mpsc, watch},
    task::JoinHandle,
};

use super::{
    AdapterEvent, AdapterHandle, AdapterPlan, AdapterSettings, AdapterState, AdapterStatus, Begun, Found, HostServices,
    Place,
    crashes::Crashes,
    discover, files,
    handle::Shared,
    said, startable,
    supervisor::{Maker, Supervisor, Wanted},
    terminal::Terminals,
};

/// Announcements of one instance that may wait for the task that forwards them.
const ANNOUNCEMENTS_MAX: usize = 16;
/// Steps of an end that share the deadline: drain, disconnect, shutdown, destroy.
const END_STEPS: u32 = 4;

/// The number of an instance's first start. Starts count from 1, so 0 means that none was judged.
const FIRST_START: u64 = 1;

/// All instances. Cheap to clone.
#[derive(Clone)]
pub struct Adapters {
    inner: Arc<Inner>,
}

struct Inner {
    settings: Arc<AdapterSettings>,
    services: Arc<dyn HostServices>,
    events: mpsc::Sender<AdapterEvent>,
    instances: Mutex<BTreeMap<String, Entry>>,
    /// The built-in instance of the terminals, which is neither planned nor listed.
    built_in: OnceLock<AdapterHandle>,
    /// Crashes that libraries inside the host caused in earlier runs.
    crashes: Arc<Crashes>,
    /// The result of the last scan of the folders.
    found: Mutex<Seen>,
}

#[derive(Default)]
struct Seen {
    stamp: Vec<(PathBuf, u64, Option<SystemTime>)>,
    found: Vec<Found>,
    /// The files of `found` that may start, and the refusals of the rest.
    startable: Vec<Found>,
}

struct Entry {
    handle: AdapterHandle,
    wanted: watch::Sender<Wanted>,
    task: JoinHandle<()>,
}

impl Adapters {
    /// Starts all instances concurrently and returns at once. Needs a tokio runtime.
    pub fn start(
        plan: Vec<AdapterPlan>,
        services: Arc<dyn HostServices>,
        events: mpsc::Sender<AdapterEvent>,
        settings: AdapterSettings,
    ) -> Self {
        files::sweep(&settings.home);
        let crashes = Crashes::judge(&settings.home);
        if settings.last_words {
            crashes.keep_last_words();
        }
        let inner = Inner {
            crashes: Arc::new(crashes),
            settings: Arc::new(settings),
            services,
            events,
            instances: Mutex::default(),
            built_in: OnceLock::new(),
            found: Mutex::default(),
        };
        let adapters = Self { inner: Arc::new(inner) };
        adapters.apply(plan);
        adapters.collect_copies();
        adapters
    }

    /// Removes the private copies that no instance uses, once the first start of every enabled instance was judged.
    fn collect_copies(&self) {
        let instances = self.instances();
        let enabled = instances.values().filter(|entry| entry.wanted.borrow().enabled);
        let mut judged: Vec<_> = enabled.map(|entry| entry.handle.shared.judged.subscribe()).collect();
        let home = self.inner.settings.home.clone();
        tokio::spawn(async move {
            for judged in &mut judged {
                // An instance that ended in the meantime uses no copy.
                let _ = judged.changed().await;
            }
            let collecting = tokio::task::spawn_blocking(move || files::collect(&home));
            collecting.await.expect("collecting copies does not panic");
        });
    }

    /// Instances over links that a test made. No supervisor runs.
    #[cfg(any(test, feature = "testing"))]
    pub fn of(handles: Vec<AdapterHandle>, services: Arc<dyn HostServices>) -> Self {
        let entries = handles.into_iter().map(|handle| {
            let plan = AdapterPlan::new(handle.instance().to_string(), handle.plugin(), serde_json::Value::Null);
            let (wanted, _) = watch::channel(Wanted { enabled: true, plan: Arc::new(plan), start: 0, end: None });
            (handle.instance().to_string(), Entry { handle, wanted, task: tokio::spawn(async {}) })
        });
        let inner = Inner {
            crashes: Arc::new(Crashes::of(std::path::Path::new("/nowhere"))),
            settings: Arc::new(AdapterSettings::new("/nowhere", super::SearchPath::default())),
            services,
            events: mpsc::channel(1).0,
            instances: Mutex::new(entries.collect()),
            built_in: OnceLock::new(),
            found: Mutex::default(),
        };
        Self { inner: Arc::new(inner) }
    }

    /// Adds the terminals as a built-in instance, once.
    pub fn build_in(&self, terminals: &Terminals) {
        let handle = terminals.handle(Arc::clone(&self.inner.services), Arc::clone(&self.inner.settings));
        // A second call changes nothing.
        let _ = self.inner.built_in.set(handle);
    }

    /// Returns the handle of an instance, or of the terminals.
    pub fn get(&self, instance: &str) -> Option<AdapterHandle> {
        let built_in = self.inner.built_in.get().filter(|handle| **handle.instance() == *instance);
        built_in.cloned().or_else(|| self.instances().get(instance).map(|entry| entry.handle.clone()))
    }

    /// Returns the handles of all configured instances, by name.
    pub fn all(&self) -> Vec<AdapterHandle> {
        self.instances().values().map(|entry| entry.handle.clone()).collect()
    }

    /// Returns the adapters for `status`: instances first, then files without a section.
    pub fn statuses(&self) -> Vec<AdapterStatus> {
        let instances = self.instances();
        let mut statuses: Vec<AdapterStatus> = instances.values().map(|entry| status(&entry.handle)).collect();
        let used: Vec<&str> = instances.values().map(|entry| entry.handle.plugin()).collect();
        let seen = self.inner.seen();
        statuses.extend(seen.startable.iter().filter_map(|found| available(found, &used)));
        statuses
    }

    /// Starts an instance again; also the way out of `failed`. Returns `false` if no instance has this name.
    pub fn enable(&self, instance: &str) -> bool {
        self.want(instance, |wanted, handle| {
            // A running instance is left alone. An instance that waits or failed is tried at once.
            let idle = !handle.is_online() && !matches!(handle.state(), AdapterState::Starting { .. });
            if idle || !wanted.enabled {
                wanted.enabled = true;
                wanted.start += 1;
            }
        })
    }

    /// Ends an instance until it is enabled. Returns `false` if no instance has this name.
    pub fn disable(&self, instance: &str) -> bool {
        self.want(instance, |wanted, _| wanted.enabled = false)
    }

    /// Ends an instance and starts it again from the current file. If the file may not be loaded, only `status`
    /// changes: the running copy stays. Returns `false` if no instance has this name.
    pub fn reload(&self, instance: &str) -> bool {
        self.look();
        self.want(instance, |wanted, _| wanted.start += 1)
    }

    /// Does the same as [`reload`](Self::reload) and returns the start, so that a caller can wait for its outcome.
    /// Returns `None` if the instance is disabled or no instance has this name.
    pub fn replace(&self, instance: &str) -> Option<Begun> {
        self.look();
        let mut begun = None;
        self.want(instance, |wanted, handle| {
            wanted.start += 1;
            begun = wanted.enabled.then(|| Begun { handle: handle.clone(), start: wanted.start });
        });
        begun
    }

    /// Applies a new plan: restarts changed instances, ends removed ones and starts new ones. Instances that failed or
    /// kept their previous version are tried again, because the cause may lie outside their section. Returns the starts
    /// that this began.
    pub fn apply(&self, plan: Vec<AdapterPlan>) -> Vec<Begun> {
        self.look();
        let mut begun = Vec::new();
        let mut plan: BTreeMap<String, AdapterPlan> =
            plan.into_iter().map(|plan| (plan.instance.clone(), plan)).collect();
        let mut instances = self.instances();
        instances.retain(|name, entry| {
            let stays = plan.get(name).is_some_and(|plan| plan.plugin == entry.handle.plugin());
            if !stays {
                let deadline = self.inner.settings.end;
                entry.wanted.send_modify(|wanted| wanted.end = Some(deadline));
            }
            stays
        });
        for (name, entry) in instances.iter() {
            let Some(plan) = plan.remove(name) else { continue };
            entry.wanted.send_if_modified(|wanted| {
                let changed = *wanted.plan != plan;
                let starts = changed || (wanted.enabled && entry.handle.waits_for_a_person());
                if changed {
                    wanted.enabled = plan.enabled;
                    wanted.plan = Arc::new(plan);
                }
                if starts {
                    wanted.start += 1;
                    begun.extend(wanted.enabled.then(|| Begun { handle: entry.handle.clone(), start: wanted.start }));
                }
                starts
            });
        }
        for plan in plan.into_values() {
            let (name, enabled, entry) = (plan.instance.clone(), plan.enabled, self.begin(plan));
            begun.extend(enabled.then(|| Begun { handle: entry.handle.clone(), start: FIRST_START }));
            instances.insert(name, entry);
        }
        begun
    }

    /// Ends all instances concurrently: disconnect, shutdown, destroy. Nothing is sent after it returns.
    pub async fn shutdown(&self, deadline: Duration) {
        let entries = std::mem::take(&mut *self.instances());
        let step = (deadline / END_STEPS).min(self.inner.settings.end);
        let mut tasks = Vec::new();
        for entry in entries.into_values() {
            entry.wanted.send_modify(|wanted| wanted.end = Some(step));
            tasks.push((entry.handle, entry.task));
        }
        let until = tokio::time::Instant::now() + deadline;
        if let Some(life) = self.inner.built_in.get().and_then(|handle| handle.shared.life.swap(None)) {
            life.give_up();
            // `destroy` ends by its deadline and leaves no resource behind.
            let _ = Arc::clone(&life.link).destroy(step).await;
        }
        for (handle, mut task) in tasks {
            if tokio::time::timeout_at(until, &mut task).await.is_err() {
                tracing::error!(target: "plugins", instance = %handle.instance(), "the adapter did not stop by the \
                                                                                   deadline");
                task.abort();
            }
            // Even if the instance did not end, the host stops using it.
            if let Some(life) = handle.shared.life.swap(None) {
                life.give_up();
            }
        }
        // This run ended in order. A crash that a library causes from here on is not held against it.
        self.inner.crashes.forget();
    }

    fn begin(&self, plan: AdapterPlan) -> Entry {
        let inner = &self.inner;
        let (announcements, announced) = mpsc::channel(ANNOUNCEMENTS_MAX);
        let shared = Arc::new(Shared::new(&plan, Arc::clone(&inner.settings), announcements));
        let found = inner.seen().found.iter().find_map(|found| {
            let manifest = found.manifest.as_ref().ok().filter(|manifest| manifest.id == plan.plugin)?;
            Some((manifest.clone(), found.place))
        });
        if let Some((manifest, place)) = found {
            // The manifest is set before the first start. Recovery asks the handle about deliveries of the previous run
            // before the library is loaded.
            shared.describe(Arc::new(manifest), &plan.config);
            shared.trusted.fetch_or(place == Place::Beside, Ordering::Relaxed);
        }
        let handle = AdapterHandle { shared };
        // In a separate process, a message that crashes its adapter ends only that process.
        let isolated = Arc::new(AtomicBool::new(inner.settings.isolated.contains(&plan.instance)));
        if isolated.load(Ordering::Relaxed) {
            tracing::warn!(
                target: "plugins", instance = %plan.instance,
                "the previous run of the host ended during a send of this instance; running it in a process until the \
                 next restart"
            );
        }
        let wanted = Wanted { enabled: plan.enabled, plan: Arc::new(plan), start: FIRST_START, end: None };
        let (wanted, watching) = watch::channel(wanted);
        tokio::spawn(tell(handle.clone(), inner.events.clone(), announced));
        let (services, crashes) = (Arc::clone(&inner.services), Arc::clone(&inner.crashes));
        let maker = Maker { handle: handle.clone(), services, stuck: isolated, crashes };
        Entry { handle, wanted, task: tokio::spawn(Supervisor::new(maker, watching).run()) }
    }

    fn want(&self, instance: &str, change: impl FnOnce(&mut Wanted, &AdapterHandle)) -> bool {
        let instances = self.instances();
        let Some(entry) = instances.get(instance) else { return false };
        entry.wanted.send_modify(|wanted| change(wanted, &entry.handle));
        true
    }

    /// Scans the folders again.
    fn look(&self) {
        self.inner.look();
    }

    /// Scans the folders again if a file was added, removed or written, so that the next query sees a new file. Disk
    /// access runs on a blocking thread.
    pub async fn look_again(&self) {
        let inner = Arc::clone(&self.inner);
        let looking = tokio::task::spawn_blocking(move || {
            let stamp = inner.settings.search.stamp();
            if inner.seen().stamp != stamp {
                inner.look();
            }
        });
        looking.await.expect("looking into a folder does not panic");
    }

    fn instances(&self) -> MutexGuard<'_, BTreeMap<String, Entry>> {
        self.inner.instances.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn look(&self) {
        // The stamp is taken first, so a file that is written during the scan is read again by the next scan.
        let stamp = self.settings.search.stamp();
        let found = discover(&self.settings.search);
        let startable = startable(found.clone());
        *self.seen() = Seen { stamp, found, startable };
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.found.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Forwards the events of one instance to the dispatcher until its handle is dropped.
async fn tell(
    handle: AdapterHandle,
    events: mpsc::Sender<AdapterEvent>,
    mut announced: mpsc::Receiver<(String, String)>,
) {
    let mut state = handle.shared.state.subscribe();
    let instance = Arc::clone(handle.instance());
    let mut links = 0;
    let weak = Arc::downgrade(&handle.shared);
    drop(handle);
    loop {
        let event = tokio::select! {
            changed = state.changed() => match changed {
                Ok(()) => AdapterEvent::State { instance: Arc::clone(&instance), state: state.borrow_and_update().state.clone() },
                Err(_) => return,
            },
            announcement = announced.recv() => match announcement {
                Some((label, url)) => AdapterEvent::Announced { instance: Arc::clone(&instance), label, url },
                None => return,
            },
        };
        let is_state = matches!(event, AdapterEvent::State { .. });
        if events.send(event).await.is_err() {
            return;
        }
        // Links are counted because the watch channel merges states: a link that was lost and replaced is seen once
        // here.
        let Some(up) = weak.upgrade().map(|shared| shared.links.load(Ordering::Relaxed)) else { return };
        if is_state && up != links {
            links = up;
            if events.send(AdapterEvent::Ready { instance: Arc::clone(&instance) }).await.is_err() {
                return;
            }
        }
    }
}

fn status(handle: &AdapterHandle) -> AdapterStatus {
    let shared = &handle.shared;
    let life = shared.state.borrow().clone();
    let manifest = handle.manifest();
    let told = shared.told();
    let reason = life.state.reason().map(|reason| said::with_mend(reason, life.state.mend().unwrap_or_default()));
    let reason = reason.or_else(|| told.kept.clone()).or_else(|| told.crashed.clone());
    AdapterStatus {
        name: handle.instance().to_string(),
        plugin: handle.plugin().to_owned(),
        version: manifest.version.clone(),
        isolation: handle.isolation().map_or("", |isolation| isolation.as_str()),
        confined: handle.confined(),
        state: life.state.word().to_owned(),
        since: life.since_ms,
        reason,
        code: told.code,
        next_try: life.state.next_try_ms(),
        last_proven: shared.last_proven_ms(),
        held: 0,
        guarantee: manifest.capabilities.delivery.to_string(),
        announced: told.announced.iter().map(|(label, url)| (label.clone(), url.clone())).collect(),
        restarts: shared.restarts.load(Ordering::Relaxed),
        upstream_ignored: manifest.capabilities.authorizes_upstream && !handle.trusted(),
    }
}

/// Returns the word for the state of a file that cannot run. A library without a manifest section is `ignored`, not
/// `failed`.
pub fn word_of(error: &super::LoadError) -> &'static str {
    match error {
        super::LoadError::NoSection { .. } => "ignored",
        _ => "failed",
    }
}

/// The status of a file without a section: available, or the reason why it is not.
fn available(found: &Found, used: &[&str]) -> Option<AdapterStatus> {
    let file = found.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let (name, plugin, version, state, reason, code, guarantee) = match &found.manifest {
        Ok(manifest) if used.contains(&manifest.id.as_str()) => return None,
        Ok(manifest) => (
            manifest.id.clone(),
            manifest.id.clone(),
            manifest.version.clone(),
            "available",
            found.warning.clone(),
            None,
            manifest.capabilities.delivery.to_string(),
        ),
        Err(error) => (
            file,
            String::new(),
            String::new(),
            word_of(error),
            Some(error.to_string()),
            Some(error.code()),
            String::new(),
        ),
    };
    Some(AdapterStatus {
        name,
        plugin,
        version,
        isolation: "",
        confined: None,
        state: state.to_owned(),
        since: 0,
        reason,
        code,
        next_try: None,
        last_proven: None,
        held: 0,
        guarantee,
        announced: Vec::new(),
        restarts: 0,
        upstream_ignored: false,
    })
}
