//! What a running turn asks of people: whether it may do something, or which of several
//! options they mean.
//!
//! The host decides who is asked, where, and until when; the turn waits for one
//! [`Answer`]. It may stop waiting at any time by dropping the future, and the question
//! is taken back.

use tokio::sync::{mpsc, oneshot};

pub use hermes_core::asks::{Answer, Verdict};

/// A question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ask {
    /// Whether something may be done.
    Approval(Approval),
    /// Which of several options.
    Choice {
        /// The question, as house markdown.
        question: String,
        /// The options, in order: none empty, and no more than the host shows; others are denied, with the reason.
        options: Vec<String>,
        /// Whether other words than the options count as an answer.
        free: bool,
    },
}

/// An action that needs somebody's approval.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Approval {
    /// What it is remembered by where it is approved for longer, such as `shell: rm`. Empty: it never is.
    pub kind: String,
    /// What would be done, word for word.
    pub action: String,
    /// Why the agent wants to do it. May be empty.
    pub why: String,
    /// What makes it dangerous, where a pattern caught it. Only admins approve that.
    pub danger: Option<String>,
}

/// A question on its way to the host, and who waits for the answer.
#[derive(Debug)]
pub struct Asked {
    /// The question.
    pub ask: Ask,
    /// Takes the answer; closed once the turn does not wait any more.
    pub reply: oneshot::Sender<Answer>,
}

/// The two ends of a turn's questions. One waits for the host; its bound is how many the host has open.
pub(crate) fn questions() -> (mpsc::Sender<Asked>, mpsc::Receiver<Asked>) {
    mpsc::channel(1)
}

/// Asks, and waits for what becomes of it. Without a host nobody is asked.
pub(crate) async fn ask(questions: &mpsc::Sender<Asked>, ask: Ask) -> Answer {
    let (reply, answer) = oneshot::channel();
    if questions.send(Asked { ask, reply }).await.is_err() {
        return Answer::Gone;
    }
    answer.await.unwrap_or(Answer::Gone)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::EventSink;

    fn tea() -> Ask {
        Ask::Choice { question: "Tea?".to_owned(), options: vec!["yes".to_owned()], free: false }
    }

    #[tokio::test]
    async fn a_turn_waits_for_its_answer_and_takes_the_question_back_by_not_waiting() {
        let (sink, _events, mut line) = EventSink::with_line();
        let host = async {
            let asked = line.asked_people().await;
            assert_eq!(asked.ask, tea());
            asked.reply.send(Answer::Chosen(0)).unwrap();
        };
        let ((), answer) = tokio::join!(host, sink.ask(tea()));
        assert_eq!(answer, Answer::Chosen(0));
        let mut asked = tokio::select! {
            biased;
            _ = sink.ask(tea()) => panic!("nobody answered"),
            asked = line.asked_people() => asked,
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
