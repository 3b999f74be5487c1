//! The host calls of an instance under test: answered from memory and reported to the cases.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use hermes_adapter_abi::status;
use hermes_conformance::{HostCall, LOG, Memory};
use hermes_protocol::CallError;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::refused;
use crate::ffi::{HostPort, Reply};

/// Calls that may wait until a case reads them. Calls beyond are answered BUSY.
const CALLS_MAX: usize = 65_536;

/// The most verbose level that is recorded: debug.
const LEVEL_MAX: u8 = 4;

pub(super) struct Board {
    calls: mpsc::Sender<HostCall>,
    memory: Mutex<Memory>,
}

impl Board {
    pub(super) fn new(media: PathBuf) -> (Self, mpsc::Receiver<HostCall>) {
        let (calls, told) = mpsc::channel(CALLS_MAX);
        let mut memory = Memory::default();
        memory.set_media_dir(media);
        (Self { calls, memory: Mutex::new(memory) }, told)
    }

    fn answer(&self, method: &str, payload: &[u8]) -> Result<Value, CallError> {
        let payload: Value = serde_json::from_slice(payload).unwrap_or(Value::Null);
        self.memory.lock().unwrap_or_else(PoisonError::into_inner).answer(method, &payload)
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
        // Records beyond the limit are dropped, so that a flood of them delays no call.
        let _ = self.calls.try_send(HostCall { method: LOG.to_owned(), payload: record.to_string().into_bytes() });
    }

    fn max_level(&self) -> u8 {
        LEVEL_MAX
    }
}
