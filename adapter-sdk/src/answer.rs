//! The answer of a call, which is given exactly once.

use hermes_adapter_abi::{Status, status};
use hermes_protocol::CallError;
use serde::Serialize;

/// The result of a call: a status and its payload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reply {
    pub status: Status,
    pub payload: Vec<u8>,
}

impl Reply {
    pub(crate) fn new(status: Status, payload: Vec<u8>) -> Self {
        Self { status, payload }
    }

    /// Creates a reply with a status and a JSON `CallError`.
    pub(crate) fn error(status: Status, code: &str, message: impl Into<String>) -> Self {
        Self::new(status, json(&CallError::new(code, message)))
    }

    pub(crate) fn ok<T: Serialize>(value: &T) -> Self {
        match serde_json::to_vec(value) {
            Ok(payload) => Self::new(status::OK, payload),
            Err(error) => {
                Self::error(status::ERR, "invalid", format!("the answer cannot be serialized as JSON: {error}"))
            }
        }
    }

    /// Creates the reply `{}`, or the error with status ERR.
    pub(crate) fn empty<E: Serialize>(result: Result<(), E>) -> Self {
        match result {
            Ok(()) => Self::new(status::OK, b"{}".to_vec()),
            Err(error) => Self::new(status::ERR, json(&error)),
        }
    }

    pub(crate) fn of<T: Serialize>(result: Result<T, CallError>) -> Self {
        match result {
            Ok(value) => Self::ok(&value),
            Err(error) => Self::new(status::ERR, json(&error)),
        }
    }
}

fn json<T: Serialize>(value: &T) -> Vec<u8> {
    serde_json::to_vec(value).unwrap_or_else(|_| b"{}".to_vec())
}

/// The destination of one call's answer. Dropping it answers DROPPED.
pub(crate) struct Answer {
    give: Option<Box<dyn FnOnce(Reply) + Send>>,
}

impl Answer {
    /// Creates the destination of one answer; `give` runs exactly once.
    pub(crate) fn new(give: impl FnOnce(Reply) + Send + 'static) -> Self {
        Self { give: Some(Box::new(give)) }
    }

    pub(crate) fn fire(mut self, reply: Reply) {
        if let Some(give) = self.give.take() {
            give(reply);
        }
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        if let Some(give) = self.give.take() {
            give(Reply::error(status::DROPPED, "dropped", "the call ended without an answer"));
        }
    }
}
