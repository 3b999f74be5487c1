//! Reactions that show the state of a turn on the message that it answers: in progress, done, failed.
//!
//! A reaction is a hint: it is never owed, nothing waits for it, and a refused one changes nothing. Each turn has at
//! most one task that reacts, with one call in flight; the task may outlive the turn by the duration of its last call.
//! Of messages that are answered together, only the last one gets reactions.

use std::sync::Arc;
use std::time::Duration;

use hermes_core::access::{HostCause, Origin};
use hermes_protocol::{CallError, ReactCall, SentMessage, TurnEvent, method};
use tokio::sync::{OwnedSemaphorePermit, oneshot};
use tokio::time::Instant;

use super::hint_line::HintLine;
use crate::engine::background::tasks;
use crate::engine::context::Heard;
use crate::engine::outbox::HintKind;
use crate::engine::runtime::Host;
use crate::engine::timer::Timer;

/// Turns that may react at once; further ones do not react.
pub const REACTING_MAX: usize = 256;

/// The delay of the first reaction: a quicker answer makes it unnecessary.
const SEEN_AFTER: Duration = Duration::from_millis(150);

/// In progress. An adapter with other emoji takes the nearest.
const SEEN: &str = "👀";
/// Answered, or no answer is necessary.
const DONE: &str = "✅";
/// Failed.
const FAILED: &str = "❌";
/// The error code of a reaction that was not sent because its chat has to wait.
const HELD: &str = "held";
/// Stopped: the reaction is removed.
const STOPPED: &str = "";

/// The reactions of one turn. If this is dropped before the end they stay as they are, and the resumed turn ends them.
pub struct Reacting {
    end: oneshot::Sender<&'static str>,
}

/// The reaction to one message.
struct Sign {
    hints: HintLine,
    message: SentMessage,
    clock: Arc<dyn Timer>,
    seen_at: Instant,
    /// True if an earlier run of the host may have set it.
    begun: bool,
    _room: OwnedSemaphorePermit,
}

impl Reacting {
    /// Starts the reactions to the message of a turn, if its platform supports them and the operator enabled them.
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

    /// Shows the end of the turn.
    pub fn ends(self, last: &TurnEvent) {
        let sign = match last {
            TurnEvent::Error { .. } => FAILED,
            TurnEvent::Done { finish_reason, .. } if finish_reason == "stopped" => STOPPED,
            _ => DONE,
        };
        // A refused reaction has ended its task already.
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
                    // While its chat has to wait, no reaction is shown, so none is removed.
                    Err(error) if error.code == HELD => {}
                    _ => before = Some(SEEN),
                }
                ended.await
            }
        };
        if let (Ok(end), Some(before)) = (end, before) {
            // The call logs its own failure, and nothing else follows from it.
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
            tracing::debug!(instance = %adapter.instance(), emoji, %error, "reaction rejected");
        })
    }
}

/// Returns whether the platform takes no reaction to this message at all.
fn is_final(error: &CallError) -> bool {
    matches!(error.code.as_str(), "refused" | "invalid" | "unsupported")
}
