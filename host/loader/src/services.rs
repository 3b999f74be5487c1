//! The host calls of an instance: answered here or forwarded.
//!
//! Answered here are the calls that concern the instance alone: logs, link, proofs, announcements, metrics, secrets,
//! credentials. All others go to [`HostServices`], with a limit on concurrent calls. An incarnation that the host gave
//! up is refused every call.

use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicBool, Ordering},
};

use arc_swap::ArcSwapOption;
use hermes_adapter_abi::status;
use hermes_protocol::{Announce, CallError, LinkState, Manifest, host_method};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Value, json};
use tokio::{
    runtime::Handle,
    sync::{Semaphore, watch},
};

use super::{
    AdapterHandle, AdapterPlan, HostServices, Seen,
    credential::{self, Credentials, Owner},
    logs::LogGate,
};
use crate::ffi::{HostPort, Reply};

/// Prefixes of methods that a manifest has to list in `uses`.
const GRANTED_PREFIXES: [&str; 7] = ["turns.", "choices.", "sessions.", "models.", "commands.", "cron.", "tasks."];

/// The host port of one incarnation of an instance.
pub(super) struct InstancePort {
    pub(super) handle: AdapterHandle,
    pub(super) plan: Arc<AdapterPlan>,
    pub(super) services: Arc<dyn HostServices>,
    pub(super) runtime: Handle,
    /// Cleared when the host gave this incarnation up.
    pub(super) counts: Arc<AtomicBool>,
    pub(super) link: watch::Sender<Option<LinkState>>,
    pub(super) log: Arc<LogGate>,
    pub(super) credentials: Arc<Mutex<Credentials>>,
    /// The manifest and trust of this incarnation, which may differ from those of the one that runs at the same time.
    pub(super) known: Arc<Known>,
    in_flight: Arc<Semaphore>,
}

/// The permissions of an incarnation, from its manifest.
#[derive(Default)]
pub(super) struct Known {
    manifest: ArcSwapOption<Manifest>,
    trusted: AtomicBool,
}

impl Known {
    /// Records the manifest and the trust.
    pub(super) fn learn(&self, manifest: Option<Arc<Manifest>>, trusted: bool) {
        self.manifest.store(manifest);
        self.trusted.store(trusted, Ordering::Relaxed);
    }

    fn has(&self, is: impl FnOnce(&Manifest) -> bool) -> bool {
        self.manifest.load().as_ref().is_some_and(|manifest| is(manifest))
    }
}

/// `{"name"}`
#[derive(Deserialize)]
struct Named {
    name: String,
}

/// `{"identity"}`
#[derive(Deserialize)]
struct Identity {
    identity: String,
}

/// `{"name", "value"}`
#[derive(Deserialize)]
struct Metric {
    name: String,
    value: f64,
}

impl InstancePort {
    pub(super) fn new(
        handle: AdapterHandle,
        plan: Arc<AdapterPlan>,
        services: Arc<dyn HostServices>,
        log: Arc<LogGate>,
    ) -> Self {
        let calls_max = handle.shared.settings.host_calls_max.max(1);
        Self {
            handle,
            plan,
            services,
            runtime: Handle::current(),
            counts: Arc::new(AtomicBool::new(true)),
            link: watch::Sender::new(None),
            log,
            credentials: Arc::default(),
            known: Arc::default(),
            in_flight: Arc::new(Semaphore::new(calls_max)),
        }
    }

    /// Answers the calls that concern this instance alone. `None`: the call is for the rest of the host.
    fn own(&self, method: &str, payload: &[u8]) -> Option<Result<Value, CallError>> {
        let shared = &self.handle.shared;
        Some(match method {
            host_method::LINK => read(&self.log.masked_json(payload.to_vec())).map(|state: LinkState| {
                self.link.send_replace(Some(state));
                json!({})
            }),
            host_method::PROVED => {
                shared.proved();
                Ok(json!({}))
            }
            host_method::ANNOUNCE => read(payload).map(|announce: Announce| {
                shared.announce(self.log.masked(&announce.label), self.log.masked(&announce.url));
                json!({})
            }),
            host_method::METRIC => read(payload).map(|metric: Metric| {
                shared.count(self.log.masked(&metric.name), metric.value);
                json!({})
            }),
            host_method::SECRET => read(payload).and_then(|named: Named| self.secret(&named.name)),
            _ => return None,
        })
    }

    fn secret(&self, name: &str) -> Result<Value, CallError> {
        let known = self.known.has(|manifest| manifest.secrets.iter().any(|secret| secret == name));
        let value = name.split('.').try_fold(&self.plan.config, |value, key| value.get(key));
        match value.and_then(Value::as_str).filter(|_| known) {
            Some(value) => Ok(json!({ "value": value })),
            None => Err(CallError::new("not_found", format!("this instance has no secret \"{name}\""))),
        }
    }

    /// Checks that this instance may use a method of the rest of the host.
    fn may_use(&self, method: &str) -> Result<(), CallError> {
        if !GRANTED_PREFIXES.iter().any(|prefix| method.starts_with(prefix)) {
            return Ok(());
        }
        let named = self.known.has(|manifest| manifest.uses.iter().any(|used| used == method));
        if named && (self.known.trusted.load(Ordering::Relaxed) || self.plan.granted.contains(method)) {
            return Ok(());
        }
        let why = if named { "the operator has not granted it" } else { "the manifest does not name it in `uses`" };
        Err(CallError::new("not_granted", format!("{method} is not allowed for {}: {why}", self.plan.instance)))
    }

    fn lock_credential(&self, payload: &[u8], reply: Reply) {
        let identity = match read(payload) {
            Ok(Identity { identity }) => identity,
            Err(error) => return answer(reply, Err(error)),
        };
        let settings = Arc::clone(&self.handle.shared.settings);
        let owner = Owner { home: settings.home.clone(), instance: self.plan.instance.clone() };
        let plugin = self.plan.plugin.clone();
        let credentials = Arc::clone(&self.credentials);
        let (services, handle, runtime) = (Arc::clone(&self.services), self.handle.clone(), self.runtime.clone());
        self.runtime.spawn_blocking(move || {
            let folder = credential::folder(settings.runtime_dir.as_deref(), settings.user_home.as_deref());
            let taken = folder.and_then(|folder| credential::lock(&folder, &plugin, &identity, &owner));
            let mut held = credentials.lock().unwrap_or_else(PoisonError::into_inner);
            let in_use = |error: &CallError| error.code == credential::IN_USE;
            held.in_use = taken.as_ref().err().filter(|error| in_use(error)).map(ToString::to_string);
            let kept = taken.and_then(|lock| {
                credential::keep(&mut held.locks, lock)?;
                Ok(held.locks.len() == 1)
            });
            drop(held);
            match kept {
                Ok(is_first) => drop(runtime.spawn(async move {
                    let noted = services.locked(&handle, identity, is_first).await;
                    answer(reply, noted.map(|()| json!({})));
                })),
                Err(error) => answer(reply, Err(error)),
            }
        });
    }

    fn hand_on(&self, method: &str, payload: Vec<u8>, reply: Reply) {
        let Ok(permit) = Arc::clone(&self.in_flight).try_acquire_owned() else {
            return reply.send(status::BUSY, Vec::new());
        };
        let carried_data = method == host_method::EMIT;
        let watched =
            self.handle.shared.settings.watch.clone().filter(|_| carried_data).map(|tell| (tell, payload.clone()));
        let answering = self.services.call(&self.handle, method, payload);
        let is_handed_over = carried_data || method == host_method::KV_SET;
        let handle = self.handle.clone();
        self.runtime.spawn(async move {
            let answered = answering.await;
            drop(permit);
            if let Some((tell, event)) = watched {
                tell(handle.instance(), Seen::Emitted { event: &event, answer: answered.as_deref() });
            }
            if is_handed_over {
                // Only temporary refusals count: the adapter drops an event that the host can never accept.
                let again = |error: &CallError| matches!(error.code.as_str(), "unavailable" | "busy");
                handle.shared.took(!answered.as_ref().is_err_and(again));
            }
            match answered {
                Ok(payload) => {
                    if carried_data {
                        handle.shared.proved();
                    }
                    reply.send(status::OK, payload);
                }
                Err(error) if error.code == "unsupported" => reply.send(status::UNSUPPORTED, error_json(&error)),
                Err(error) => reply.send(status::ERR, error_json(&error)),
            }
        });
    }
}

impl HostPort for InstancePort {
    fn call(&self, method: &str, payload: Vec<u8>, reply: Reply) {
        if !self.counts.load(Ordering::Acquire) {
            let error = CallError::new("refused", format!("{} was ended by the host", self.plan.instance));
            return reply.send(status::ERR, error_json(&error));
        }
        if method == host_method::LOCK_CREDENTIAL {
            return self.lock_credential(&payload, reply);
        }
        if let Some(own) = self.own(method, &payload) {
            return answer(reply, own);
        }
        match self.may_use(method) {
            Ok(()) => self.hand_on(method, payload, reply),
            Err(error) => answer(reply, Err(error)),
        }
    }

    fn log(&self, level: u8, target: &str, fields: &str) {
        self.log.tell(level, target, fields);
    }

    fn max_level(&self) -> u8 {
        super::logs::max_level()
    }
}

fn read<T: DeserializeOwned>(payload: &[u8]) -> Result<T, CallError> {
    serde_json::from_slice(payload)
        .map_err(|error| CallError::new("invalid", format!("the call cannot be read: {error}")))
}

fn answer(reply: Reply, result: Result<Value, CallError>) {
    match result {
        Ok(value) => reply.send(status::OK, value.to_string().into_bytes()),
        Err(error) => reply.send(status::ERR, error_json(&error)),
    }
}

pub(super) fn error_json(error: &CallError) -> Vec<u8> {
    serde_json::to_vec(error).expect("two strings always serialize")
}
