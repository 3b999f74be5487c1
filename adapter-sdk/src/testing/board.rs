//! The state and the answers of the mock host.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hermes_conformance::Memory;
use hermes_protocol::{CallError, Event, host_method};
use serde_json::{Map, Value, json};

use crate::answer::{Answer, Reply};
use crate::export::MockPort;

/// A call of the adapter to its host.
#[derive(Clone, Debug, PartialEq)]
pub struct HostCall {
    /// The method.
    pub method: String,
    /// The payload.
    pub payload: Value,
}

/// A log record of the adapter.
#[derive(Clone, Debug, PartialEq)]
pub struct LogLine {
    /// The level, 1 (error) to 5 (trace).
    pub level: u8,
    /// The target.
    pub target: String,
    /// The fields; `message` contains the text.
    pub fields: Map<String, Value>,
}

impl LogLine {
    /// Returns the text.
    pub fn message(&self) -> &str {
        self.fields.get("message").and_then(Value::as_str).unwrap_or_default()
    }
}

type AnswerFn = Box<dyn Fn(&Value) -> Result<Value, CallError> + Send + Sync>;

pub(super) struct Board {
    state: Mutex<Records>,
    changed: Condvar,
    max_level: AtomicU8,
    released: AtomicBool,
}

#[derive(Default)]
struct Records {
    calls: Vec<HostCall>,
    /// The indexes in `calls` that a test has taken.
    taken: BTreeSet<usize>,
    logs: Vec<LogLine>,
    memory: Memory,
    secrets: BTreeMap<String, String>,
    answers: BTreeMap<String, std::sync::Arc<AnswerFn>>,
    held_methods: BTreeSet<String>,
    held: Vec<Answer>,
}

impl Default for Board {
    fn default() -> Self {
        Self {
            state: Mutex::default(),
            changed: Condvar::new(),
            max_level: AtomicU8::new(5),
            released: AtomicBool::new(false),
        }
    }
}

impl Board {
    fn lock(&self) -> MutexGuard<'_, Records> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn set_max_level(&mut self, level: u8) {
        *self.max_level.get_mut() = level;
    }

    pub(super) fn set_secret(&self, name: &str, value: &str) {
        self.lock().secrets.insert(name.to_owned(), value.to_owned());
    }

    pub(super) fn set_answer(&self, method: &str, with: AnswerFn) {
        self.lock().answers.insert(method.to_owned(), std::sync::Arc::new(with));
    }

    pub(super) fn set_held(&self, method: &str) {
        self.lock().held_methods.insert(method.to_owned());
    }

    pub(super) fn set_media_dir(&self, dir: PathBuf) {
        self.lock().memory.set_media_dir(dir);
    }

    pub(super) fn emitted(&self) -> Vec<Event> {
        let state = self.lock();
        let emits = state.calls.iter().filter(|call| call.method == host_method::EMIT);
        emits.filter_map(|call| serde_json::from_value(call.payload.clone()).ok()).collect()
    }

    pub(super) fn calls(&self) -> Vec<HostCall> {
        self.lock().calls.clone()
    }

    pub(super) fn logs(&self) -> Vec<LogLine> {
        self.lock().logs.clone()
    }

    pub(super) fn kv(&self, key: &str) -> Option<String> {
        self.lock().memory.kv(key).map(str::to_owned)
    }

    pub(super) fn is_released(&self) -> bool {
        self.released.load(Ordering::SeqCst)
    }

    /// Takes the oldest call (of `method`) that was not taken yet.
    pub(super) fn take_call(&self, method: Option<&str>, deadline: Duration) -> Option<HostCall> {
        let find = |state: &Records| {
            (0..state.calls.len())
                .filter(|at| !state.taken.contains(at))
                .find(|at| method.is_none_or(|method| state.calls[*at].method == method))
        };
        let (mut state, _) = self
            .changed
            .wait_timeout_while(self.lock(), deadline, |state| find(state).is_none())
            .unwrap_or_else(PoisonError::into_inner);
        let at = find(&state)?;
        state.taken.insert(at);
        Some(state.calls[at].clone())
    }

    pub(super) fn wait_log(&self, text: &str, deadline: Duration) -> Option<LogLine> {
        let find = |state: &Records| state.logs.iter().find(|line| line.message().contains(text)).cloned();
        let (state, _) = self
            .changed
            .wait_timeout_while(self.lock(), deadline, |state| find(state).is_none())
            .unwrap_or_else(PoisonError::into_inner);
        find(&state)
    }
}

impl Records {
    /// Returns the mock's own answer to a call.
    fn answer(&mut self, method: &str, payload: &Value) -> Result<Value, CallError> {
        if method != host_method::SECRET {
            return self.memory.answer(method, payload);
        }
        let name = payload.get("name").and_then(Value::as_str);
        let name = name.ok_or_else(|| CallError::new("invalid", format!("`{method}` needs `name`")))?;
        let value = self.secrets.get(name).map(|value| json!({ "value": value }));
        value.ok_or_else(|| CallError::new("not_found", format!("unknown secret `{name}`")))
    }
}

impl MockPort for Board {
    fn call(&self, method: &str, payload: &[u8], answer: Answer) {
        let payload: Value = serde_json::from_slice(payload).unwrap_or(Value::Null);
        let mut state = self.lock();
        state.calls.push(HostCall { method: method.to_owned(), payload: payload.clone() });
        if state.held_methods.contains(method) {
            state.held.push(answer);
            drop(state);
            self.changed.notify_all();
            return;
        }
        let scripted = state.answers.get(method).cloned();
        let own = scripted.is_none().then(|| state.answer(method, &payload));
        // The test's callback may access the board.
        drop(state);
        self.changed.notify_all();
        let result = match (own, scripted) {
            (Some(own), _) => own,
            (None, Some(scripted)) => scripted(&payload),
            (None, None) => Err(CallError::new("unavailable", "the test defines no answer for this call")),
        };
        answer.fire(Reply::of(result));
    }

    fn log(&self, level: u8, target: &str, fields: &str) {
        let fields = serde_json::from_str(fields).unwrap_or_default();
        self.lock().logs.push(LogLine { level, target: target.to_owned(), fields });
        self.changed.notify_all();
    }

    fn max_level(&self) -> u8 {
        self.max_level.load(Ordering::Relaxed)
    }

    fn released(&self) {
        self.released.store(true, Ordering::SeqCst);
    }
}
