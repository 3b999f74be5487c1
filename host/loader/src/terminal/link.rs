//! The link to the terminals: each call goes to the terminal whose chat it names.

use std::{sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use hermes_adapter_abi::status;
use hermes_protocol::{CallError, Chat, RefusalKind, SendOutcome, WaitScope, method};
use serde::Deserialize;
use tokio::sync::oneshot;

use super::{Inner, is_for_one_answer, seat::Wire};
use crate::services::error_json;
use crate::{AdapterLink, Answer, Destroyed, Isolation, PendingCall};

/// Time for which the first event of a turn waits for the answer of `emit`, which may come later.
const KNOWN_WITHIN: Duration = Duration::from_secs(2);

/// The link of the instance that represents all terminals.
pub struct TerminalLink {
    inner: Arc<Inner>,
}

/// The fields of a delivery that routing needs.
#[derive(Deserialize)]
struct To {
    chat: Chat,
}

/// The fields of a turn event that routing needs.
#[derive(Deserialize)]
struct Of {
    inbox_id: i64,
}

impl TerminalLink {
    pub(super) fn new(inner: Arc<Inner>) -> Self {
        Self { inner }
    }

    fn send(&self, payload: Vec<u8>) -> PendingCall {
        let to: To = match serde_json::from_slice(&payload) {
            Ok(to) => to,
            Err(error) => {
                return refused(&CallError::new("invalid", format!("the delivery cannot be read: {error}")));
            }
        };
        // A terminal that reads too slowly does not delay others.
        match self.inner.wire(&to.chat.id).and_then(|wire| wire.call(method::SEND, payload)) {
            Some(sending) => sending,
            None if is_for_one_answer(&to.chat.id) => {
                outcome(&SendOutcome::refused(RefusalKind::ChatGone, "the terminal that asked has exited"))
            }
            None => outcome(&SendOutcome::not_sent(None, WaitScope::Chat, "no terminal is attached")),
        }
    }

    /// Shows a turn event in the terminal of its chat. Without a terminal the event is dropped.
    fn turn_event(&self, payload: Vec<u8>) -> PendingCall {
        let of: Of = match serde_json::from_slice(&payload) {
            Ok(of) => of,
            Err(error) => return refused(&CallError::new("invalid", format!("the event cannot be read: {error}"))),
        };
        if let Some(chat) = self.inner.chat_of(of.inbox_id) {
            let showing = self.inner.wire(&chat).and_then(|wire| wire.call(method::TURN_EVENT, payload));
            return showing.unwrap_or_else(nothing);
        }
        if self.inner.is_unknown(of.inbox_id) {
            return nothing();
        }
        // A turn may begin before the answer of `emit` has reported the chat of its event.
        let (tell, answer) = oneshot::channel();
        let inner = Arc::clone(&self.inner);
        let waiting = tokio::spawn(async move {
            let known = tokio::time::timeout(KNOWN_WITHIN, known(&inner, of.inbox_id));
            let known = known.await;
            if known.is_err() {
                inner.stays_unknown(of.inbox_id);
            }
            let wire = known.ok().flatten();
            let showing = wire.and_then(|wire| wire.call(method::TURN_EVENT, payload));
            // The caller may be gone.
            let _ = tell.send(showing.unwrap_or_else(nothing).await);
        });
        PendingCall::new(0, answer, move |_| waiting.abort())
    }
}

/// Waits for the chat of an event, and returns the terminal in it.
async fn known(inner: &Inner, inbox: i64) -> Option<Arc<Wire>> {
    let mut changed = inner.changed.subscribe();
    loop {
        if let Some(chat) = inner.chat_of(inbox) {
            return inner.wire(&chat);
        }
        changed.changed().await.ok()?;
    }
}

impl AdapterLink for TerminalLink {
    fn call(&self, method: &str, payload: Vec<u8>) -> PendingCall {
        match method {
            method::SEND => self.send(payload),
            method::TURN_EVENT => self.turn_event(payload),
            method::CONNECT | method::HEALTH => nothing(),
            _ => PendingCall::answered(Answer::bare(status::UNSUPPORTED)),
        }
    }

    fn shutdown(&self, _: Duration) -> BoxFuture<'static, Answer> {
        Box::pin(std::future::ready(Answer { status: status::OK, payload: b"{}".to_vec() }))
    }

    fn destroy(self: Arc<Self>, deadline: Duration) -> BoxFuture<'static, Destroyed> {
        self.inner.over.send_replace(true);
        let inner = Arc::clone(&self.inner);
        Box::pin(async move {
            let mut changed = inner.changed.subscribe();
            let empty = async {
                while !inner.seats().taken.is_empty() {
                    // `inner` owns the sender, so waiting cannot fail.
                    let _ = changed.changed().await;
                }
            };
            // A terminal that does not read the farewell is cut off with the socket.
            let _ = tokio::time::timeout(deadline, empty).await;
            Destroyed::Joined
        })
    }

    fn closed(&self) -> BoxFuture<'static, String> {
        Box::pin(std::future::pending())
    }

    fn heartbeat(&self) -> BoxFuture<'static, bool> {
        Box::pin(std::future::ready(true))
    }

    fn isolation(&self) -> Isolation {
        Isolation::InProcess
    }

    fn reaches(&self, chat: &str) -> bool {
        is_for_one_answer(chat) || self.inner.wire(chat).is_some()
    }

    fn reached(&self, chat: &str) -> BoxFuture<'static, ()> {
        let (inner, chat) = (Arc::clone(&self.inner), chat.to_owned());
        Box::pin(async move {
            let mut changed = inner.changed.subscribe();
            while !is_for_one_answer(&chat) && inner.wire(&chat).is_none() {
                // `inner` owns the sender, so waiting cannot fail.
                let _ = changed.changed().await;
            }
        })
    }

    fn delivers_later(&self, chat: &str) -> bool {
        !is_for_one_answer(chat)
    }
}

fn nothing() -> PendingCall {
    PendingCall::answered(Answer { status: status::OK, payload: b"{}".to_vec() })
}

fn outcome(outcome: &SendOutcome) -> PendingCall {
    let payload = serde_json::to_vec(outcome).expect("an outcome is always JSON");
    PendingCall::answered(Answer { status: status::OK, payload })
}

fn refused(error: &CallError) -> PendingCall {
    PendingCall::answered(Answer { status: status::ERR, payload: error_json(error) })
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;
    use serde_json::json;

    use super::*;
    use crate::terminal::Terminals;

    fn shows(link: &TerminalLink) -> PendingCall {
        link.call(method::TURN_EVENT, json!({ "inbox_id": 7 }).to_string().into_bytes())
    }

    #[tokio::test(start_paused = true)]
    async fn an_event_that_an_earlier_life_took_in_is_waited_for_once() {
        let link = TerminalLink::new(Arc::clone(&Terminals::new().inner));
        assert!(shows(&link).now_or_never().is_none(), "the answer of `emit` may still come");
        assert_eq!(shows(&link).await.status, status::OK);
        let again = shows(&link).now_or_never().map(|answer| answer.status);
        assert_eq!(again, Some(status::OK), "nothing became known of it");
        link.inner.said(7, "1");
        assert!(!link.inner.is_unknown(7));
    }
}
