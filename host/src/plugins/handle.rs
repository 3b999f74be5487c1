//! One instance as the rest of the host sees it.
//!
//! A handle survives restarts of its instance: what it asks goes to the life that
//! is running, or is answered at once when none is. Here a status becomes an
//! outcome; nothing above this file knows statuses.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering},
    },
    time::Duration,
};

use arc_swap::{ArcSwap, ArcSwapOption};
use hermes_adapter_abi::status;
use hermes_protocol::{
    CallError, Capabilities, EditCall, LookupCall, LookupReply, Manifest, Outgoing, RefusalKind, SendOutcome,
    SentMessage, WaitScope, method,
};
use tokio::sync::watch;

use super::{AdapterSettings, AdapterState, Answer, life::Life};

/// Detail of an unknown outcome whose instance died under it. Two of these on one part mean that the part breaks the adapter.
pub const INSTANCE_DIED: &str = "instance died";

/// One instance. Cheap to clone; survives restarts of the instance.
#[derive(Clone)]
pub struct AdapterHandle {
    pub(super) shared: Arc<Shared>,
}

/// What handle, supervisor and host calls of one instance have in common.
pub(super) struct Shared {
    pub(super) instance: Arc<str>,
    pub(super) plugin: String,
    pub(super) settings: Arc<AdapterSettings>,
    pub(super) manifest: ArcSwap<Manifest>,
    pub(super) capabilities: ArcSwap<Capabilities>,
    pub(super) trusted: AtomicBool,
    pub(super) state: watch::Sender<AdapterState>,
    pub(super) life: ArcSwapOption<Life>,
    /// When data was last carried; 0 means never.
    pub(super) last_proven: AtomicI64,
    /// Grows with every proof; the supervisor resets its backoff when it sees it grow.
    pub(super) proofs: AtomicU64,
    pub(super) announced: std::sync::Mutex<std::collections::BTreeMap<String, String>>,
}

impl Shared {
    /// Notes that a round trip carried data.
    pub(super) fn proved(&self) {
        self.last_proven.store(self.settings.clock.now_ms(), Ordering::Relaxed);
        self.proofs.fetch_add(1, Ordering::Relaxed);
    }
}

impl AdapterHandle {
    /// Name of the instance.
    pub fn instance(&self) -> &Arc<str> {
        &self.shared.instance
    }

    /// Id of its plugin.
    pub fn plugin(&self) -> &str {
        &self.shared.plugin
    }

    /// What it can do; nothing while its library was never read.
    pub fn capabilities(&self) -> Arc<Capabilities> {
        self.shared.capabilities.load_full()
    }

    /// Its manifest; an empty one while its library was never read.
    pub fn manifest(&self) -> Arc<Manifest> {
        self.shared.manifest.load_full()
    }

    /// Its state.
    pub fn state(&self) -> AdapterState {
        self.shared.state.borrow().clone()
    }

    /// Whether it has a link.
    pub fn is_online(&self) -> bool {
        self.shared.state.borrow().is_online()
    }

    /// Whether what it proves about its senders counts: it lies beside the binary, or the operator said so.
    pub fn trusted(&self) -> bool {
        self.shared.trusted.load(Ordering::Relaxed)
    }

    /// Returns once it has a link; never, when its supervisor has ended for good.
    pub async fn online(&self) {
        let mut state = self.shared.state.subscribe();
        if state.wait_for(AdapterState::is_online).await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// Sends one part.
    pub async fn send(&self, message: &Outgoing) -> SendOutcome {
        self.deliver(method::SEND, to_json(message)).await
    }

    /// Changes a sent message.
    pub async fn edit(&self, message: &SentMessage, outgoing: &Outgoing) -> SendOutcome {
        self.deliver(method::EDIT, to_json(&EditCall::new(message.clone(), outgoing.clone()))).await
    }

    /// Asks whether a doubtful part arrived; whatever is not an answer is unclear.
    pub async fn lookup(&self, call: &LookupCall) -> LookupReply {
        match self.ask(method::LOOKUP, to_json(call), self.shared.settings.send).await {
            Asked::Answered(answer) if answer.is_ok() => {
                serde_json::from_slice(&answer.payload).unwrap_or(LookupReply::Unclear)
            }
            _ => LookupReply::Unclear,
        }
    }

    /// Calls a method whose loss has no consequence, or whose answer can be asked for again.
    ///
    /// # Errors
    ///
    /// The adapter's own error, or `unsupported`, `busy`, `unavailable`, `timeout`.
    pub async fn hint(&self, method: &'static str, payload: Vec<u8>) -> Result<Vec<u8>, CallError> {
        let instance = &self.shared.instance;
        match self.ask(method, payload, self.shared.settings.hint).await {
            Asked::Answered(answer) => answer.into_result(instance, method),
            Asked::Offline => Err(CallError::new("unavailable", format!("{instance} is not online"))),
            Asked::Late => Err(CallError::new("timeout", format!("{instance} did not answer {method} in time"))),
        }
    }

    async fn deliver(&self, method: &'static str, payload: Vec<u8>) -> SendOutcome {
        let outcome = match self.ask(method, payload, self.shared.settings.send).await {
            Asked::Answered(answer) => outcome(answer),
            Asked::Offline => {
                SendOutcome::not_sent(None, WaitScope::Instance, format!("{} is not online", self.shared.instance))
            }
            Asked::Late => {
                SendOutcome::unknown(format!("no answer within {} s", self.shared.settings.send.as_secs_f32()))
            }
        };
        if matches!(outcome, SendOutcome::Delivered { .. }) {
            self.shared.proved();
        }
        outcome
    }

    async fn ask(&self, method: &'static str, payload: Vec<u8>, deadline: Duration) -> Asked {
        let Some(life) = self.shared.life.load_full().filter(|_| self.is_online()) else {
            return Asked::Offline;
        };
        // Dropping the call at the deadline cancels it on the other side.
        match tokio::time::timeout(deadline, life.call(method, payload)).await {
            Ok(answer) => Asked::Answered(answer),
            Err(_) => Asked::Late,
        }
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

/// What became of a question.
enum Asked {
    Answered(Answer),
    Offline,
    Late,
}

impl Answer {
    /// The reply, or an error with a stable word.
    pub(super) fn into_result(self, instance: &str, method: &str) -> Result<Vec<u8>, CallError> {
        match self.status {
            status::OK => Ok(self.payload),
            status::UNSUPPORTED => Err(CallError::new("unsupported", format!("{instance} has no method {method}"))),
            status::BUSY => Err(CallError::new("busy", format!("{instance} has too many open calls"))),
            status::PANIC | status::DROPPED | status::POISONED => {
                Err(CallError::new("unavailable", format!("{instance} ended during {method}")))
            }
            _ => Err(serde_json::from_slice(&self.payload).unwrap_or_else(|_| {
                CallError::new("failed", format!("{instance} answered {method} with an error that cannot be read"))
            })),
        }
    }
}

/// The table of 8-contracts: what a status means for a delivery.
fn outcome(answer: Answer) -> SendOutcome {
    match answer.status {
        status::OK => match serde_json::from_slice(&answer.payload) {
            Ok(SendOutcome::Unrecognised) => SendOutcome::unknown("an answer of a later version"),
            Ok(outcome) => outcome,
            Err(_) => SendOutcome::unknown("the answer cannot be read"),
        },
        status::BUSY => SendOutcome::not_sent(None, WaitScope::Instance, "too many open calls"),
        status::POISONED => SendOutcome::not_sent(None, WaitScope::Instance, "the instance is being rebuilt"),
        status::UNSUPPORTED => SendOutcome::refused(RefusalKind::Invalid, "the adapter has no such method"),
        status::PANIC | status::DROPPED => SendOutcome::unknown(INSTANCE_DIED),
        _ => {
            let error = serde_json::from_slice::<CallError>(&answer.payload);
            SendOutcome::unknown(
                error.map_or_else(|_| "an error that cannot be read".to_owned(), |error| error.message),
            )
        }
    }
}

/// Payload types always serialize: they hold strings, numbers and maps with string keys.
fn to_json(value: &impl serde::Serialize) -> Vec<u8> {
    serde_json::to_vec(value).expect("payload types have string keys only")
}
