//! One message and its answer, for scripts: only the answer is written to standard output.

use std::time::Duration;

use hermes_protocol::{CallError, Emitted, Outgoing, Purpose, TurnEvent};
use serde_json::json;

use super::wire::{News, Wire};
use super::{ChatError, Speaker};

/// The wait for the end of a turn after its answer. The end shows if the turn failed.
const END_WAIT: Duration = Duration::from_secs(2);

/// The outcome of a message.
#[derive(Debug, PartialEq, Eq)]
pub enum Answered {
    /// An answer arrived.
    With {
        /// The texts in order.
        text: String,
        /// The notices in order.
        notices: Vec<String>,
    },
    /// There is no answer, for this reason.
    Failed(String),
}

/// The parts of the answer that have arrived.
#[derive(Debug, Default)]
struct Progress {
    texts: Vec<String>,
    /// Notices of the host. Without an answer they contain the reason.
    notices: Vec<String>,
    delivered: bool,
    began: bool,
    ended: bool,
    silent: bool,
    /// The turn ended without text, and the delivery only states that.
    empty: bool,
    failed: Option<String>,
    session: Option<String>,
}

/// Sends `text` and waits for the answer.
pub async fn ask(wire: &mut Wire, speaker: &mut Speaker, text: String) -> Result<Answered, ChatError> {
    let event = speaker.says(&wire.info.chat, text);
    let emitted = wire.asking().emit(&event).await.map_err(not_taken)?;
    let inbox = match emitted {
        Emitted::New { inbox_id } => inbox_id,
        Emitted::Duplicate { duplicate_of } => duplicate_of,
        _ => {
            return Err(ChatError::NotTaken(
                "the host sent an answer of a later version; update this program".to_owned(),
            ));
        }
    };
    let mut progress = Progress::default();
    while !progress.is_over() {
        let news = if progress.delivered {
            match tokio::time::timeout(END_WAIT, wire.next()).await {
                Ok(news) => news,
                Err(_) => break,
            }
        } else {
            tokio::select! {
                news = wire.next() => news,
                () = speaker.interrupted() => {
                    stop(wire, inbox).await;
                    return Err(ChatError::Interrupted);
                }
            }
        };
        match news {
            News::Delivery(number, message) => {
                progress.delivered(inbox, &message);
                wire.shown(number, speaker.now_ms());
                if progress.may_be_refused(inbox, &message) {
                    progress.delivered = is_over(wire, inbox).await;
                }
            }
            News::Turn(number, call) => {
                if call.inbox_id == inbox {
                    progress.event(&call.event);
                }
                wire.seen(number);
            }
            News::Over(_) if progress.delivered => break,
            News::Over(_) => return Err(ChatError::HostGone(progress.left_behind())),
        }
    }
    Ok(progress.answer())
}

async fn stop(wire: &Wire, inbox: i64) {
    // Without a host no turn runs.
    let _ = wire.asking().ask("turns.stop", &json!({ "inbox_id": inbox })).await;
}

/// Returns `true` if the host has finished with a message.
async fn is_over(wire: &Wire, inbox: i64) -> bool {
    let state = wire.asking().ask("turns.status", &json!({ "inbox_id": inbox })).await;
    state.is_ok_and(|state| state["state"] == "over")
}

fn not_taken(error: CallError) -> ChatError {
    ChatError::NotTaken(error.message)
}

impl Progress {
    fn delivered(&mut self, inbox: i64, message: &Outgoing) {
        let text = message.text.trim_end().to_owned();
        if message.in_reply_to != Some(inbox) || message.purpose != Purpose::Reply {
            self.notices.push(text);
            return;
        }
        self.texts.push(text);
        self.delivered |= message.part >= message.of;
    }

    /// Returns `true` if a notice about the message may be the last delivery: the message waits, or it was refused.
    fn may_be_refused(&self, inbox: i64, message: &Outgoing) -> bool {
        message.in_reply_to == Some(inbox) && message.purpose != Purpose::Reply && !self.began && !self.delivered
    }

    fn event(&mut self, event: &TurnEvent) {
        self.began = true;
        match event {
            TurnEvent::Metadata { session_id, .. } => self.session = Some(session_id.clone()),
            TurnEvent::Error { message, .. } => (self.ended, self.failed) = (true, Some(message.clone())),
            TurnEvent::Done { finish_reason, .. } => {
                (self.ended, self.silent) = (true, matches!(finish_reason.as_str(), "silent" | "stopped"));
                self.empty = finish_reason == "empty";
            }
            _ => {}
        }
    }

    /// Returns the state of a message whose host ended, in words.
    fn left_behind(&self) -> String {
        match &self.session {
            Some(session) => {
                format!("the next host resumes the turn, and `hermes-host chat --resume {session}` shows the answer")
            }
            None => "there is no answer; send the message again".to_owned(),
        }
    }

    /// Returns `true` if the answer is complete. A delivery without a turn is the answer of a command.
    fn is_over(&self) -> bool {
        match (self.began, self.ended) {
            (true, true) => self.delivered || self.silent,
            (true, false) => false,
            (false, _) => self.delivered,
        }
    }

    fn answer(self) -> Answered {
        match self.failed {
            Some(sentence) => Answered::Failed(sentence),
            None if self.texts.is_empty() && !self.notices.is_empty() && !self.silent => {
                Answered::Failed(self.notices.join("\n"))
            }
            None if self.empty => Answered::Failed(self.texts.join("\n\n")),
            None => Answered::With { text: self.texts.join("\n\n"), notices: self.notices },
        }
    }
}

#[cfg(test)]
mod tests {
    use hermes_protocol::Chat;

    use super::*;

    fn answer(text: &str, purpose: Purpose) -> Outgoing {
        let mut message = Outgoing::text(Chat::dm("once-1"), text);
        (message.purpose, message.in_reply_to) = (purpose, Some(7));
        message
    }

    fn with(text: &str) -> Answered {
        Answered::With { text: text.to_owned(), notices: Vec::new() }
    }

    fn event(event: serde_json::Value) -> TurnEvent {
        serde_json::from_value(event).unwrap()
    }

    fn began() -> TurnEvent {
        event(json!({ "type": "metadata", "session_id": "s", "turn_id": 1 }))
    }

    #[test]
    fn an_answer_is_whole_when_it_is_delivered_and_its_turn_has_ended() {
        let mut progress = Progress::default();
        progress.event(&began());
        progress.delivered(7, &answer("hello\n", Purpose::Reply));
        assert!(!progress.is_over(), "whether the turn failed is not known yet");
        progress.event(&event(json!({ "type": "done", "finish_reason": "stop" })));
        assert!(progress.is_over());
        assert_eq!(progress.answer(), with("hello"));
    }

    #[test]
    fn a_turn_that_failed_is_no_answer() {
        let mut progress = Progress::default();
        progress.event(&began());
        progress.event(&event(json!({ "type": "error", "code": "runtime_failed", "message": "It failed." })));
        assert!(!progress.is_over(), "its sentence is still to be delivered");
        progress.delivered(7, &answer("It failed.", Purpose::Reply));
        assert!(progress.is_over());
        assert_eq!(progress.answer(), Answered::Failed("It failed.".to_owned()));
    }

    #[test]
    fn what_is_refused_and_what_is_empty_is_no_answer() {
        let mut progress = Progress::default();
        let refusal = answer("There is no command /bogus.", Purpose::Notice);
        progress.delivered(7, &refusal);
        assert!(progress.may_be_refused(7, &refusal));
        assert_eq!(progress.answer(), Answered::Failed("There is no command /bogus.".to_owned()));
        let mut progress = Progress::default();
        progress.event(&began());
        progress.delivered(7, &answer("The agent finished without an answer.", Purpose::Reply));
        progress.event(&event(json!({ "type": "done", "finish_reason": "empty" })));
        assert_eq!(progress.answer(), Answered::Failed("The agent finished without an answer.".to_owned()));
    }

    #[test]
    fn what_is_said_besides_an_answer_is_no_part_of_it() {
        let mut progress = Progress::default();
        progress.delivered(7, &answer("Queued (1 waiting).", Purpose::Notice));
        progress.delivered(7, &answer("an answer", Purpose::Reply));
        let answered = Answered::With { text: "an answer".to_owned(), notices: vec!["Queued (1 waiting).".to_owned()] };
        assert_eq!(progress.answer(), answered);
    }

    #[test]
    fn a_command_is_answered_without_a_turn_and_silence_is_an_empty_answer() {
        let mut progress = Progress::default();
        progress.delivered(8, &answer("for another message", Purpose::Notice));
        progress.notices.clear();
        progress.delivered(7, &answer("an answer", Purpose::Reply));
        assert!(progress.is_over());
        assert_eq!(progress.answer(), with("an answer"));
        let mut progress = Progress::default();
        progress.event(&began());
        progress.event(&event(json!({ "type": "done", "finish_reason": "silent" })));
        assert!(progress.is_over());
        assert_eq!(progress.answer(), with(""));
    }
}
