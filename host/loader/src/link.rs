//! The interface to an adapter instance, independent of the place where it runs.
//!
//! Three implementations exist: a vtable in this process ([`super::in_process`]), frames to a child
//! ([`super::process`]), and frames to the attached terminals ([`super::terminal`]). All return the same statuses, so
//! code above this trait treats them alike.

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

/// The result of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// One of [`hermes_adapter_abi::status`]; an unknown number counts as ERR.
    pub status: i32,
    /// The reply, or a JSON `CallError`.
    pub payload: Vec<u8>,
}

impl Answer {
    /// Creates an answer without a payload.
    pub fn bare(status: i32) -> Self {
        Self { status, payload: Vec::new() }
    }

    /// Returns `true` if the payload is the reply.
    pub fn is_ok(&self) -> bool {
        self.status == status::OK
    }
}

/// The place where an instance runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Isolation {
    /// Inside the host.
    InProcess,
    /// In a child process of its own.
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

/// The operator's choice of the place where an instance runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum IsolationChoice {
    /// Libraries beside the binary run inside the host, all others in a process.
    #[default]
    Auto,
    /// Inside the host.
    InProcess,
    /// In a child process of its own.
    Process,
}

/// The end of an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Destroyed {
    /// Its thread or process has ended.
    Joined,
    /// Its thread still runs and cannot be ended.
    Stuck,
}

/// The link to one created instance.
pub trait AdapterLink: Send + Sync {
    /// Calls a method. Never blocks. Answers BUSY if too many calls are open.
    fn call(&self, method: &str, payload: Vec<u8>) -> PendingCall;
    /// Asks the instance to end: open calls are dropped and tasks cancelled.
    fn shutdown(&self, deadline: Duration) -> BoxFuture<'static, Answer>;
    /// Ends the instance. Calls after it are answered DROPPED.
    fn destroy(self: Arc<Self>, deadline: Duration) -> BoxFuture<'static, Destroyed>;
    /// Resolves with a reason when the instance ends by itself.
    fn closed(&self) -> BoxFuture<'static, String>;
    /// Checks that the thread or process that runs the instance responds; the instance itself is not called.
    fn heartbeat(&self) -> BoxFuture<'static, bool>;
    /// Returns the place where it runs.
    fn isolation(&self) -> Isolation;
    /// Returns the sandbox restrictions of its process in words; `None` inside the host, or if they were not reported.
    fn confined(&self) -> Option<&str> {
        None
    }
    /// Returns `true` if deliveries to this chat can be received at the moment. Otherwise they wait.
    fn reaches(&self, _chat: &str) -> bool {
        true
    }
    /// Waits until deliveries to this chat can be received.
    fn reached(&self, _chat: &str) -> BoxFuture<'static, ()> {
        Box::pin(std::future::ready(()))
    }
    /// Returns `true` if deliveries to this chat may wait. Otherwise they end with the request that they answer. A
    /// capability that the whole instance lacks is missing in each of its chats.
    fn delivers_later(&self, _chat: &str) -> bool {
        true
    }
}

/// A call in flight. Dropping it cancels the call.
pub struct PendingCall {
    id: u64,
    answer: oneshot::Receiver<Answer>,
    cancel: Option<Box<dyn FnOnce(u64) + Send>>,
}

impl PendingCall {
    /// Creates a call `id` whose answer arrives through `answer`. `cancel` runs when the caller stops waiting.
    pub fn new(id: u64, answer: oneshot::Receiver<Answer>, cancel: impl FnOnce(u64) + Send + 'static) -> Self {
        Self { id, answer, cancel: Some(Box::new(cancel)) }
    }

    /// Creates a call that is already answered.
    pub fn answered(answer: Answer) -> Self {
        let (tell, receiver) = oneshot::channel();
        // The receiver exists, so this cannot fail.
        let _ = tell.send(answer);
        Self { id: 0, answer: receiver, cancel: None }
    }

    /// Cancels the call and waits for its end.
    pub async fn cancelled(mut self) -> Answer {
        if let Some(cancel) = self.cancel.take() {
            cancel(self.id);
        }
        self.await
    }

    /// Returns the number of the call within its instance.
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
