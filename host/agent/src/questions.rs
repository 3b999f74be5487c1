//! Questions that a running turn asks people: approvals and choices between options.
//!
//! The host decides who is asked, in which chat and until when; the turn waits for one [`Answer`]. The turn may
//! stop waiting at any time by dropping the future, which withdraws the question.

use tokio::sync::{mpsc, oneshot};

pub use hermes_core::approvals::{Answer, Verdict};

/// A question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TurnQuestion {
    /// Approval of an action.
    Approval(ApprovalRequest),
    /// Choice between several options.
    Choice {
        /// Question, as house markdown.
        question: String,
        /// Options, in order. None may be empty, and their number is limited by what the host can show;
        /// otherwise the question is denied with a reason.
        options: Vec<String>,
        /// Accepts free text as an answer.
        free: bool,
    },
}

/// An action that needs approval.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ApprovalRequest {
    /// Key under which a longer approval is remembered, such as `shell: rm`. If empty, the approval is never
    /// remembered.
    pub kind: String,
    /// The exact action.
    pub action: String,
    /// Purpose of the action, in the words of the agent. May be empty.
    pub why: String,
    /// Description of the danger, if a pattern matched. Only admins may approve such an action.
    pub danger: Option<String>,
}

/// A question on its way to the host, with the channel for its answer.
#[derive(Debug)]
pub struct PendingQuestion {
    /// The question.
    pub question: TurnQuestion,
    /// Receives the answer; closed once the turn stops waiting.
    pub reply: oneshot::Sender<Answer>,
}

/// Creates the channel for the questions of a turn. One question waits for the host, which limits how many it
/// opens.
pub(crate) fn channel() -> (mpsc::Sender<PendingQuestion>, mpsc::Receiver<PendingQuestion>) {
    mpsc::channel(1)
}

/// Asks a question and waits for the answer. Without a host the answer is [`Answer::Gone`].
pub(crate) async fn ask(questions: &mpsc::Sender<PendingQuestion>, question: TurnQuestion) -> Answer {
    let (reply, answer) = oneshot::channel();
    if questions.send(PendingQuestion { question, reply }).await.is_err() {
        return Answer::Gone;
    }
    answer.await.unwrap_or(Answer::Gone)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::EventSink;

    fn tea() -> TurnQuestion {
        TurnQuestion::Choice { question: "Tea?".to_owned(), options: vec!["yes".to_owned()], free: false }
    }

    #[tokio::test]
    async fn a_turn_waits_for_its_answer_and_takes_the_question_back_by_not_waiting() {
        let (sink, _events, mut line) = EventSink::with_line();
        let host = async {
            let asked = line.pending_question().await;
            assert_eq!(asked.question, tea());
            asked.reply.send(Answer::Chosen(0)).unwrap();
        };
        let ((), answer) = tokio::join!(host, sink.ask(tea()));
        assert_eq!(answer, Answer::Chosen(0));
        let mut asked = tokio::select! {
            biased;
            _ = sink.ask(tea()) => panic!("nobody answered"),
            asked = line.pending_question() => asked,
        };
        asked.reply.closed().await;
    }

    #[tokio::test]
    async fn a_host_that_is_gone_answers_nothing() {
        let (sink, _events, line) = EventSink::with_line();
        drop(line);
        assert_eq!(sink.ask(tea()).await, Answer::Gone);
    }
}
