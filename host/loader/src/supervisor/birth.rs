//! The creation of an instance from its plan, in this process or in a child.
//!
//! This module does not change the handle's description of the running instance, because a replacement that is starting
//! in parallel becomes visible only when it takes over.

use std::{
    path::Path,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use futures_util::future::BoxFuture;
use hermes_adapter_abi::SDK_VERSION;
use hermes_protocol::{Envelope, HostInfo, LinkState, Manifest};
use tokio::sync::watch;

use super::{Lost, Step};
use crate::proxy_env;

use crate::crashes::{Crashes, Inside, Phase};
use crate::credential::Credentials;
use crate::discover::Admitted;
use crate::ffi::HostPort;
use crate::frame::PROTOCOL;
use crate::in_process::InProcess;
use crate::life::Life;
use crate::logs::{LogGate, Mask};
use crate::process::{ChildSpec, HostHello};
use crate::services::InstancePort;
use crate::{
    AdapterHandle, AdapterLink, AdapterPlan, AdapterSettings, Answer, HostServices, Isolation, IsolationChoice,
    LoadError, Place, discover, files, in_process, negotiate, process, schema,
};

/// Time for a child to start and open its library, in addition to the deadline of `create`.
const CHILD_START: Duration = Duration::from_secs(10);
/// Features of this host beyond its SDK version.
const FEATURES: [&str; 3] = ["emit.ack", "kv", "media"];

/// The inputs of an instance: its plan, and its library with the admitted bytes.
#[derive(Clone)]
pub(super) struct Make {
    pub(super) plan: Arc<AdapterPlan>,
    /// `None` for a program.
    pub(super) admitted: Option<Arc<Admitted>>,
}

impl Make {
    /// Returns `true` if its proofs about its senders count.
    pub(super) fn trusted(&self) -> bool {
        self.beside() || self.plan.trust_upstream
    }

    fn beside(&self) -> bool {
        self.admitted.as_ref().is_some_and(|admitted| admitted.place == Place::Beside)
    }
}

/// A created instance with its resources. Dropping it ends the instance if it was not ended before.
pub(super) struct Born {
    pub(super) life: Arc<Life>,
    pub(super) link: watch::Receiver<Option<LinkState>>,
    pub(super) credentials: Arc<Mutex<Credentials>>,
    pub(super) make: Make,
    pub(super) manifest: Arc<Manifest>,
    /// Its receive loop while it runs.
    pub(super) running: Option<BoxFuture<'static, Answer>>,
    /// The note for crash attribution; `Some` inside the host.
    inside: Option<Inside>,
    /// Deadline of the end when it is dropped.
    end: Duration,
    ended: bool,
}

impl Born {
    /// Records that it has answered: from here on only a crash of its own threads is blamed on it.
    pub(super) fn has_answered(&mut self) {
        if let Some(inside) = &mut self.inside {
            inside.reached(Phase::Running);
        }
    }

    /// Turns a fatal error into a retry if another instance holds the credential, because that instance may end.
    pub(super) fn retry_if_in_use(&self, step: Step) -> Step {
        let in_use = self.credentials.lock().unwrap_or_else(PoisonError::into_inner).in_use.clone();
        match (step, in_use) {
            (Step::Fatal { .. }, Some(reason)) => Step::Again(Lost::because(reason)),
            (step, _) => step,
        }
    }

    /// Marks the instance as ended by the caller, so that the drop does nothing.
    pub(super) fn end_here(&mut self) {
        self.ended = true;
    }
}

impl Drop for Born {
    fn drop(&mut self) {
        if self.ended {
            return;
        }
        // Even if it does not end, the host stops using it.
        self.life.give_up();
        let destroying = Arc::clone(&self.life.link).destroy(self.end);
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(destroying);
        }
    }
}

/// Creates the instances of one name.
#[derive(Clone)]
pub(crate) struct Maker {
    pub(crate) handle: AdapterHandle,
    pub(crate) services: Arc<dyn HostServices>,
    /// `true` if it has to run in a process from now on: a thread of this instance could not be ended, or the previous
    /// run of the host ended while it was delivering.
    pub(crate) stuck: Arc<AtomicBool>,
    /// Crash records of libraries inside the host.
    pub(crate) crashes: Arc<Crashes>,
}

impl Maker {
    /// Finds the library of a plan and decides if its bytes may run.
    pub(super) async fn judge(&self, plan: &Arc<AdapterPlan>) -> Result<Make, LoadError> {
        let admitted = match &plan.command {
            Some(_) => None,
            None => {
                let (plugin, settings) = (plan.plugin.clone(), Arc::clone(self.settings()));
                let judging = tokio::task::spawn_blocking(move || discover::admit(&plugin, &settings));
                Some(Arc::new(judging.await.expect("judging files does not panic")?))
            }
        };
        Ok(Make { plan: Arc::clone(plan), admitted })
    }

    /// Creates a new instance.
    pub(super) async fn create(&self, make: Make) -> Result<Born, LoadError> {
        let (settings, plan) = (self.settings(), Arc::clone(&make.plan));
        if let Some(admitted) = &make.admitted {
            self.fits_schema(&plan, admitted).await?;
        }
        let log = Arc::new(LogGate::new(&plan.instance, Mask::new(&plan.secrets)));
        let manifest = make.admitted.as_ref().map(|admitted| Arc::new(admitted.manifest.clone()));
        let port = InstancePort::new(self.handle.clone(), Arc::clone(&plan), Arc::clone(&self.services), log);
        let (counts, link_state) = (Arc::clone(&port.counts), port.link.subscribe());
        let (credentials, known) = (Arc::clone(&port.credentials), Arc::clone(&port.known));
        known.learn(manifest.clone(), make.trusted());
        let port: Arc<dyn HostPort> = Arc::new(port);
        let envelope = self.envelope(&plan)?;
        let inside = self.runs_inside(&make);
        let note = |admitted: &Arc<Admitted>| self.crashes.enter(&plan.instance, &admitted.sha256);
        let mut inside_note = make.admitted.as_ref().filter(|_| inside).map(note);
        let (link, manifest): (Arc<dyn AdapterLink>, _) = match (&make.admitted, manifest) {
            (Some(admitted), Some(manifest)) if inside => {
                let created = create_inside(&plan, Arc::clone(admitted), port, &envelope, settings.create).await;
                if matches!(created, Err(LoadError::CreateTimedOut { .. })) {
                    self.stuck.store(true, Ordering::Relaxed);
                }
                let created = created?;
                if let Some(note) = &mut inside_note {
                    note.reached(Phase::Connecting);
                }
                (Arc::new(created), manifest)
            }
            (admitted, manifest) => {
                let (link, said) = self.create_outside(&plan, admitted.as_deref(), port, &envelope).await?;
                (link, manifest.unwrap_or_else(|| Arc::new(said)))
            }
        };
        known.learn(Some(Arc::clone(&manifest)), make.trusted());
        let (life, end) = (Arc::new(Life::new(link, counts, Mask::new(&plan.secrets))), settings.end);
        let inside = inside_note;
        Ok(Born { life, link: link_state, credentials, make, manifest, running: None, inside, end, ended: false })
    }

    /// Creates the link to an instance of a library. Its host calls go to `port`.
    pub(crate) async fn create_link(
        &self,
        plan: &AdapterPlan,
        admitted: &Arc<Admitted>,
        port: Arc<dyn HostPort>,
        isolation: Isolation,
    ) -> Result<Arc<dyn AdapterLink>, LoadError> {
        self.fits_schema(plan, admitted).await?;
        let envelope = self.envelope(plan)?;
        if isolation == Isolation::Process {
            return Ok(self.create_outside(plan, Some(admitted), port, &envelope).await?.0);
        }
        let deadline = self.settings().create;
        Ok(Arc::new(create_inside(plan, Arc::clone(admitted), port, &envelope, deadline).await?))
    }

    /// Returns the argument of `create`, and creates the data folder that it names.
    fn envelope(&self, plan: &AdapterPlan) -> Result<Envelope, LoadError> {
        let home = &self.settings().home;
        let data = files::data_folder(home, &plan.instance).map_err(|error| LoadError::Unwritable {
            what: format!("the data folder of {}", plan.instance),
            path: home.join("data"),
            why: error.to_string(),
        })?;
        let mut host = HostInfo::new(SDK_VERSION, FEATURES.map(str::to_owned).to_vec());
        host.proxy = plan.proxy.clone();
        let mut envelope = Envelope::new(host, plan.instance.clone(), plan.config.clone());
        // JSON cannot hold a path that is not UTF-8, so such a home has no data folder.
        envelope.data_dir = data.to_str().map(str::to_owned);
        Ok(envelope)
    }

    async fn create_outside(
        &self,
        plan: &AdapterPlan,
        admitted: Option<&Admitted>,
        port: Arc<dyn HostPort>,
        envelope: &Envelope,
    ) -> Result<(Arc<dyn AdapterLink>, Manifest), LoadError> {
        let settings = self.settings();
        let origin = match (admitted, &plan.command) {
            (Some(admitted), _) => admitted.path.clone(),
            (None, command) => command.iter().flatten().next().map(Into::into).unwrap_or_default(),
        };
        let spec = self.child(plan, admitted, &origin)?;
        let hello = HostHello {
            protocol: PROTOCOL,
            envelope: serde_json::to_value(envelope).expect("an envelope has string keys only"),
            create_ms: u64::try_from(settings.create.as_millis()).unwrap_or(u64::MAX),
            log_level: port.max_level(),
            origin: origin.display().to_string(),
        };
        let child = process::start(&spec).await.map_err(|error| process_failed(plan, &error))?;
        let deadline = settings.create.saturating_add(CHILD_START);
        let (link, manifest) = child.link(&plan.instance, &hello, port, deadline).await?;
        if admitted.is_none() {
            negotiate::judge(&origin, &manifest)?;
            if manifest.id != plan.plugin {
                return Err(LoadError::OtherPlugin {
                    instance: plan.instance.clone(),
                    program: origin.display().to_string(),
                    found: manifest.id,
                    expected: plan.plugin.clone(),
                });
            }
        }
        Ok((Arc::new(link), manifest))
    }

    /// Returns the command of the child: this program with the arguments of its sandbox.
    fn child(&self, plan: &AdapterPlan, admitted: Option<&Admitted>, origin: &Path) -> Result<ChildSpec, LoadError> {
        let settings = self.settings();
        let ground = settings.ground();
        let program = plan.command.as_deref().unwrap_or_default();
        let allowed = match admitted {
            Some(Admitted { copy, manifest, .. }) => {
                ground.library(copy, &plan.instance, &manifest.listens, &plan.config)
            }
            None => ground.program(program, plan.folder.as_deref(), &plan.instance, &plan.config),
        };
        let allowed = allowed.map_err(|error| LoadError::Unwritable {
            what: format!("the media folder of {}", plan.instance),
            path: settings.home.join("media"),
            why: error.to_string(),
        })?;
        let mut command = settings.runner.clone();
        if settings.confine {
            command.extend(allowed.arguments());
        }
        let folder = match admitted {
            Some(admitted) => {
                command.extend(schema::runner_arguments(origin, &admitted.copy));
                None
            }
            None => {
                command.extend(schema::parent());
                command.extend(["--instance".into(), plan.instance.clone().into(), "--exec".into()]);
                command.extend(program.iter().map(Into::into));
                plan.folder.clone()
            }
        };
        let mut env = settings.child_env.clone();
        // For programs and libraries of the adapter that do not use the SDK's client.
        let proxies = proxy_env::child_variables(&plan.proxy);
        env.extend(proxies.into_iter().map(|(name, value)| (name.into(), value.into())));
        Ok(ChildSpec { command, env, folder })
    }

    /// Refuses a section or a manifest that does not fit the adapter's schema. A library that crashes the child which
    /// asks for its schema is refused, too: the host does not load it.
    async fn fits_schema(&self, plan: &AdapterPlan, admitted: &Admitted) -> Result<(), LoadError> {
        let schema = schema::schema_of(admitted, self.settings()).await?;
        let problems = schema::problems(&schema, &plan.config);
        if problems.is_empty() {
            return Ok(());
        }
        Err(LoadError::ConfigRefused { instance: plan.instance.clone(), problems: problems.join("; ") })
    }

    /// Returns `true` if a library runs inside the host: its isolation says so, it has not crashed the host before, and
    /// the instance has no stuck thread.
    fn runs_inside(&self, make: &Make) -> bool {
        let meant = self.isolation(&make.plan, make.beside()) == Isolation::InProcess;
        let library = make.admitted.as_ref().filter(|_| meant);
        let crashed = library.and_then(|library| self.crashes.why_not_inside(&library.sha256));
        if let Some(why) = &crashed {
            tracing::warn!(target: "plugins", instance = %make.plan.instance, "{why}");
        }
        let is_harmless = crashed.is_none();
        self.handle.shared.told().crashed = crashed;
        library.is_some() && is_harmless && !self.stuck.load(Ordering::Relaxed)
    }

    fn isolation(&self, plan: &AdapterPlan, beside: bool) -> Isolation {
        let choice = match plan.isolation {
            IsolationChoice::Auto => self.settings().isolation,
            chosen => chosen,
        };
        match choice {
            IsolationChoice::InProcess => Isolation::InProcess,
            IsolationChoice::Auto if beside => Isolation::InProcess,
            IsolationChoice::Auto | IsolationChoice::Process => Isolation::Process,
        }
    }

    fn settings(&self) -> &Arc<AdapterSettings> {
        &self.handle.shared.settings
    }
}

async fn create_inside(
    plan: &AdapterPlan,
    admitted: Arc<Admitted>,
    port: Arc<dyn HostPort>,
    envelope: &Envelope,
    deadline: Duration,
) -> Result<InProcess, LoadError> {
    let instance = plan.instance.clone();
    let envelope = serde_json::to_vec(envelope).expect("an envelope has string keys only");
    let creating = tokio::task::spawn_blocking(move || {
        let sdk = admitted.manifest.sdk.clone();
        let load = move || {
            let Admitted { path, copy, manifest, manifest_json, .. } = &*admitted;
            in_process::open(path, copy, &manifest.sdk, manifest_json)
        };
        in_process::create(&sdk, load, &instance, port, envelope, deadline)
    });
    creating.await.expect("creating an instance does not panic").map(InProcess::new)
}

fn process_failed(plan: &AdapterPlan, error: &std::io::Error) -> LoadError {
    LoadError::ProcessFailed { instance: plan.instance.clone(), why: error.to_string() }
}
