//! The one way to an adapter instance, whatever runs it.
//!
//! Three implementations: a vtable in this process ([`super::in_process`]), frames
//! to a child ([`super::process`]), and frames to the terminals that are attached
//! ([`super::terminal`]). All answer the same statuses, so everything above this
//! trait drives them alike.

use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use futures_util::future::BoxFuture;
use hermes_adapter_abi::status;
use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;

/// How a call ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// One of [`hermes_adapter_abi::status`]; an unknown number counts as ERR.
    pub status: i32,
    /// The reply, or a JSON `CallError`.
    pub payload: Vec<u8>,
}

impl Answer {
    /// An answer without a payload.
    pub fn bare(status: i32) -> Self {
        Self { status, payload: Vec::new() }
    }

    /// Whether the payload is the reply.
    pub fn is_ok(&self) -> bool {
        self.status == status::OK
    }
}

/// Where an instance runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Isolation {
    /// Inside the host.
    InProcess,
    /// In a child of its own.
    Process,
}

impl Isolation {
    /// Returns the stable word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::InProcess => "in-process",
            Self::Process => "process",
        }
    }
}

/// Where the operator wants an instance to run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum IsolationChoice {
    /// Libraries beside the binary inside, everything else in a process.
    #[default]
    Auto,
    /// Inside the host.
    InProcess,
    /// In a child of its own.
    Process,
}

/// How an instance ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Destroyed {
    /// Its thread or process is gone.
    Joined,
    /// Its thread still runs and cannot be ended.
    Stuck,
}

/// One created instance.
pub trait AdapterLink: Send + Sync {
    /// Calls a method. Never blocks; BUSY beyond the bound.
    fn call(&self, method: &str, payload: Vec<u8>) -> PendingCall;
    /// Asks the instance to end: open calls are dropped, tasks cancelled.
    fn shutdown(&self, deadline: Duration) -> BoxFuture<'static, Answer>;
    /// Ends the instance. Calls after it are answered DROPPED.
    fn destroy(self: Arc<Self>, deadline: Duration) -> BoxFuture<'static, Destroyed>;
    /// Resolves with a reason when the instance ends of its own accord.
    fn closed(&self) -> BoxFuture<'static, String>;
    /// Asks whoever carries the instance, not the instance, for a sign of life.
    fn heartbeat(&self) -> BoxFuture<'static, bool>;
    /// Where it runs.
    fn isolation(&self) -> Isolation;
    /// What a process of its own has given up, in words; `None` inside the host, or where nobody said.
    fn confined(&self) -> Option<&str> {
        None
    }
    /// Whether somebody takes what is sent to this chat at the moment; while nobody does, what is owed waits.
    fn reaches(&self, _chat: &str) -> bool {
        true
    }
    /// Returns once somebody takes what is sent to this chat.
    fn reached(&self, _chat: &str) -> BoxFuture<'static, ()> {
        Box::pin(std::future::ready(()))
    }
    /// Whether what is owed to this chat may wait; else it lives as long as the request that it answers. What the
    /// capabilities deny for the whole instance is denied for each of its chats.
    fn delivers_later(&self, _chat: &str) -> bool {
        true
    }
}

/// A call under way. Dropping it cancels the call.
pub struct PendingCall {
    id: u64,
    answer: oneshot::Receiver<Answer>,
    cancel: Option<Box<dyn FnOnce(u64) + Send>>,
}

impl PendingCall {
    /// A call `id` whose answer comes through `answer`; `cancel` runs when nobody waits any more.
    pub fn new(id: u64, answer: oneshot::Receiver<Answer>, cancel: impl FnOnce(u64) + Send + 'static) -> Self {
        Self { id, answer, cancel: Some(Box::new(cancel)) }
    }

    /// A call that was answered on the spot.
    pub fn answered(answer: Answer) -> Self {
        let (tell, receiver) = oneshot::channel();
        // The receiver stands one line above, so this cannot fail.
        let _ = tell.send(answer);
        Self { id: 0, answer: receiver, cancel: None }
    }

    /// Cancels the call and waits how it ends.
    pub async fn cancelled(mut self) -> Answer {
        if let Some(cancel) = self.cancel.take() {
            cancel(self.id);
        }
        self.await
    }

    /// Number of the call within its instance.
    pub fn id(&self) -> u64 {
        self.id
    }
}

impl Future for PendingCall {
    type Output = Answer;

    fn poll(mut self: Pin<&mut Self>, ctx: &mut Context<'_>) -> Poll<Answer> {
        let answer = Pin::new(&mut self.answer).poll(ctx);
        answer.map(|answer| {
            self.cancel = None;
            answer.unwrap_or_else(|_| Answer::bare(status::DROPPED))
        })
    }
}

impl Drop for PendingCall {
    fn drop(&mut self) {
        if let Some(cancel) = self.cancel.take() {
            cancel(self.id);
        }
    }
}
