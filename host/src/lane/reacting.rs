//! What the message that a turn answers shows of it, as a reaction: that it is being worked on, that
//! it is done, that it failed.
//!
//! A reaction is a hint: it is never owed, nothing waits for it, and one that a platform does not
//! take changes nothing. Each turn has at most one task that reacts, with one call in flight; it may
//! outlive the turn by the time that its last call takes. Of messages that are answered together only
//! the last one reacts.

use std::sync::Arc;
use std::time::Duration;

use hermes_core::access::{HostCause, Origin};
use hermes_protocol::{CallError, ReactCall, SentMessage, TurnEvent, method};
use tokio::sync::{OwnedSemaphorePermit, oneshot};
use tokio::time::Instant;

use super::hint_line::HintLine;
use crate::clock::Clock;
use crate::context::Heard;
use crate::host::Host;
use crate::outbox::HintKind;
use crate::tasks;

/// Turns that react at once; more do not.
pub const REACTING_MAX: usize = 256;

/// An answer that comes sooner is itself the sign that the message was seen.
const SEEN_AFTER: Duration = Duration::from_millis(150);

/// The message is being worked on. An adapter whose platform has other emoji takes the nearest.
const SEEN: &str = "👀";
/// It was answered, or needs no answer.
const DONE: &str = "✅";
/// It could not be answered.
const FAILED: &str = "❌";
/// The code of a reaction that was not asked for, because its chat has to wait.
const HELD: &str = "held";
/// Nobody works on it any more: the reaction is taken back.
const STOPPED: &str = "";

/// The reactions of one turn. Dropped before its end they stay as they are: whoever goes on with the turn ends them.
pub struct Reacting {
    end: oneshot::Sender<&'static str>,
}

/// Who reacts to what.
struct Sign {
    hints: HintLine,
    message: SentMessage,
    clock: Arc<dyn Clock>,
    seen_at: Instant,
    /// Whether an earlier life of the host may have begun it.
    begun: bool,
    _room: OwnedSemaphorePermit,
}

impl Reacting {
    /// Begins to react to the message of a turn, where its platform can and the operator wants it.
    pub fn start(host: &Arc<Host>, heard: &Heard) -> Option<Self> {
        let place = &heard.place;
        let adapter = place.adapter.as_ref().filter(|adapter| adapter.capabilities().reactions)?;
        let wanted = host.live().session_of(&place.instance).reactions;
        let begun = match heard.event.origin() {
            Origin::Sender => false,
            Origin::Host(HostCause::Resume) => true,
            Origin::Host(_) => return None,
        };
        if !wanted || tasks::runs(heard) {
            return None;
        }
        let message = SentMessage::new(place.chat.clone(), place.reply_to.clone()?);
        let room = Arc::clone(&host.reacting).try_acquire_owned().ok()?;
        let (end, ended) = oneshot::channel();
        let sign = Sign {
            hints: HintLine::to(host, adapter.clone()),
            message,
            clock: Arc::clone(&host.clock),
            seen_at: host.clock.moment() + SEEN_AFTER,
            begun,
            _room: room,
        };
        tokio::spawn(sign.show(ended));
        Some(Self { end })
    }

    /// The turn is over, and ended like this for whoever looks on.
    pub fn ends(self, last: &TurnEvent) {
        let sign = match last {
            TurnEvent::Error { .. } => FAILED,
            TurnEvent::Done { finish_reason, .. } if finish_reason == "stopped" => STOPPED,
            _ => DONE,
        };
        // One that was refused before has ended already.
        let _ = self.end.send(sign);
    }
}

impl Sign {
    async fn show(self, mut ended: oneshot::Receiver<&'static str>) {
        let mut before = self.begun.then_some(SEEN);
        let end = tokio::select! {
            biased;
            end = &mut ended => end,
            () = self.clock.until(self.seen_at) => {
                match self.react(SEEN, None).await {
                    Err(error) if is_final(&error) => return,
                    // While its chat has to wait, nothing is shown, so there is nothing to take back.
                    Err(error) if error.code == HELD => {}
                    _ => before = Some(SEEN),
                }
                ended.await
            }
        };
        if let (Ok(end), Some(before)) = (end, before) {
            // It is logged where it is asked for, and nothing else follows from it.
            let _ = self.react(end, Some(before)).await;
        }
    }

    async fn react(&self, emoji: &str, instead_of: Option<&str>) -> Result<(), CallError> {
        let (adapter, chat) = (self.hints.adapter(), &self.message.chat.id);
        if !self.hints.ready(HintKind::Reaction, chat).await {
            return Err(CallError::new(HELD, "the chat has to wait"));
        }
        let _room = adapter.room_for_a_sign().await;
        let call = ReactCall::new(self.message.clone(), emoji).instead_of(instead_of);
        let payload = serde_json::to_vec(&call).expect("a reaction is always JSON");
        let answer = self.hints.call(chat, method::REACT, payload).await;
        answer.map(drop).inspect_err(|error| {
            tracing::debug!(instance = %adapter.instance(), emoji, %error, "a reaction was not taken");
        })
    }
}

/// Whether the platform takes no reaction to this message, whichever it is.
fn is_final(error: &CallError) -> bool {
    matches!(error.code.as_str(), "refused" | "invalid" | "unsupported")
}
