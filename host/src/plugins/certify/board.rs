//! What an instance under test asks of its host: answered from memory, and told to the cases.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use hermes_adapter_abi::status;
use hermes_conformance::{HostCall, LOG};
use hermes_protocol::{CallError, host_method};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::refused;
use crate::ffi::{HostPort, Reply};

/// Calls that may wait until a case looks at them; what comes beyond is answered BUSY.
const CALLS_MAX: usize = 65_536;

/// The most talkative level that is listened to: debug.
const LEVEL_MAX: u8 = 4;

pub(super) struct Board {
    calls: mpsc::Sender<HostCall>,
    state: Mutex<State>,
    media: PathBuf,
}

#[derive(Default)]
struct State {
    inbox: BTreeMap<String, i64>,
    kv: BTreeMap<String, String>,
    media: BTreeMap<String, PathBuf>,
}

impl Board {
    pub(super) fn new(media: PathBuf) -> (Self, mpsc::Receiver<HostCall>) {
        let (calls, told) = mpsc::channel(CALLS_MAX);
        (Self { calls, state: Mutex::default(), media }, told)
    }

    fn answer(&self, method: &str, payload: &[u8]) -> Result<Value, CallError> {
        let payload: Value = serde_json::from_slice(payload).unwrap_or(Value::Null);
        let text = |key: &str| {
            let value = payload.get(key).and_then(Value::as_str).map(str::to_owned);
            value.ok_or_else(|| CallError::new("invalid", format!("`{method}` needs `{key}`")))
        };
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        match method {
            host_method::EMIT => {
                let id = text("event_id")?;
                if let Some(inbox_id) = state.inbox.get(&id) {
                    return Ok(json!({ "duplicate_of": inbox_id }));
                }
                let inbox_id = i64::try_from(state.inbox.len()).unwrap_or(i64::MAX).saturating_add(1);
                state.inbox.insert(id, inbox_id);
                Ok(json!({ "inbox_id": inbox_id }))
            }
            host_method::KV_GET => Ok(json!({ "value": state.kv.get(&text("key")?) })),
            host_method::KV_SET => {
                state.kv.insert(text("key")?, text("value")?);
                Ok(json!({}))
            }
            host_method::KV_DELETE => {
                state.kv.remove(&text("key")?);
                Ok(json!({}))
            }
            host_method::MEDIA_CREATE => {
                let id = format!("media-{}", state.media.len() + 1);
                let path = self.media.join(&id);
                state.media.insert(id.clone(), path.clone());
                Ok(json!({ "id": id, "path": path }))
            }
            host_method::MEDIA_COMMIT => {
                let id = text("id")?;
                let file = state.media.get(&id).and_then(|path| std::fs::metadata(path).ok());
                file.map(|file| json!({ "size": file.len() }))
                    .ok_or_else(|| CallError::new("not_found", format!("media `{id}` has no file")))
            }
            host_method::LINK
            | host_method::PROVED
            | host_method::ANNOUNCE
            | host_method::METRIC
            | host_method::LOCK_CREDENTIAL => Ok(json!({})),
            other => Err(CallError::new("not_granted", format!("nobody answers `{other}` here"))),
        }
    }
}

impl HostPort for Board {
    fn call(&self, method: &str, payload: Vec<u8>, reply: Reply) {
        let answer = self.answer(method, &payload);
        if self.calls.try_send(HostCall { method: method.to_owned(), payload }).is_err() {
            reply.send(status::BUSY, Vec::new());
            return;
        }
        match answer {
            Ok(answer) => reply.send(status::OK, answer.to_string().into_bytes()),
            Err(error) => {
                let (status, payload) = refused(&error);
                reply.send(status, payload);
            }
        }
    }

    fn log(&self, level: u8, target: &str, fields: &str) {
        let fields: Value = serde_json::from_str(fields).unwrap_or_default();
        let record = json!({ "level": level, "target": target, "fields": fields });
        // A flood of records is cut off; it holds up no call.
        let _ = self.calls.try_send(HostCall { method: LOG.to_owned(), payload: record.to_string().into_bytes() });
    }

    fn max_level(&self) -> u8 {
        LEVEL_MAX
    }
}
