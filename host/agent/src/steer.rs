//! The line between the host and a running turn in addition to its events: steering messages, questions, and
//! reasons not to interrupt it.
//!
//! The messages stay with the host until the runtime requests them between two steps. The host first records
//! that they belong to this turn and then hands them over. A turn that ends without a request leaves them to
//! the next turn.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::{mpsc, oneshot, watch};

use crate::Message;
use crate::questions::{self, Answer, PendingQuestion, TurnQuestion};

/// Reason for which a turn must not be interrupted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hold {
    /// Helpers of the turn are running and their work would be lost.
    Children,
    /// The history of the conversation is being compressed.
    Compacting,
}

impl Hold {
    const ALL: [Self; 2] = [Self::Children, Self::Compacting];
}

/// Request of a running turn.
#[derive(Debug)]
pub enum LineRequest {
    /// Request for steering messages.
    Steer(SteeringRequest),
    /// Question to people.
    People(PendingQuestion),
}

/// Request for steering messages; answered once they are recorded as part of the turn.
pub type SteeringRequest = oneshot::Sender<Vec<Message>>;

/// The host's end of the line.
#[derive(Debug)]
pub struct TurnLine {
    waiting: watch::Sender<bool>,
    asks: mpsc::Receiver<SteeringRequest>,
    questions: mpsc::Receiver<PendingQuestion>,
    holds: Arc<[AtomicUsize; Hold::ALL.len()]>,
    left_out: Arc<AtomicUsize>,
}

/// The runtime's end of the line, part of its [`crate::EventSink`].
#[derive(Clone, Debug)]
pub(crate) struct HostLine {
    waiting: watch::Receiver<bool>,
    asks: mpsc::Sender<SteeringRequest>,
    questions: mpsc::Sender<PendingQuestion>,
    holds: Arc<[AtomicUsize; Hold::ALL.len()]>,
    left_out: Arc<AtomicUsize>,
}

/// A guard that protects a turn from interruptions until it is dropped.
#[derive(Debug)]
pub struct HoldGuard {
    holds: Arc<[AtomicUsize; Hold::ALL.len()]>,
    why: Hold,
}

/// Creates the two ends of a line.
pub(crate) fn line() -> (TurnLine, HostLine) {
    let (tell, waiting) = watch::channel(false);
    // A runtime sends one request at a time.
    let (ask, asks) = mpsc::channel(1);
    let (question, questions) = questions::channel();
    let holds: Arc<[AtomicUsize; Hold::ALL.len()]> = Arc::default();
    let left_out: Arc<AtomicUsize> = Arc::default();
    let host = TurnLine { waiting: tell, asks, questions, holds: Arc::clone(&holds), left_out: Arc::clone(&left_out) };
    (host, HostLine { waiting, asks: ask, questions: question, holds, left_out })
}

impl TurnLine {
    /// Notifies the runtime that steering messages wait, or that none do.
    pub fn set_waiting(&self, waiting: bool) {
        self.waiting.send_replace(waiting);
    }

    /// Waits until the runtime requests steering messages. Never returns after the runtime's end is closed.
    /// Cancel-safe.
    pub async fn steering_request(&mut self) -> SteeringRequest {
        next(&mut self.asks).await
    }

    /// Waits until the turn asks people a question. Never returns after the runtime's end is closed.
    /// Cancel-safe.
    pub async fn pending_question(&mut self) -> PendingQuestion {
        next(&mut self.questions).await
    }

    /// Waits for the next request of the turn. Questions are left waiting while `taken` is false. Cancel-safe.
    pub async fn next_request(&mut self, taken: bool) -> LineRequest {
        tokio::select! {
            ask = next(&mut self.asks) => LineRequest::Steer(ask),
            asked = next(&mut self.questions), if taken => LineRequest::People(asked),
        }
    }

    /// Stops taking questions. Later questions are answered with [`Answer::Gone`].
    pub fn close_questions(&mut self) {
        self.questions.close();
        while self.questions.try_recv().is_ok() {}
    }

    /// Returns the number of history messages omitted from the turn's last request.
    pub fn left_out(&self) -> usize {
        self.left_out.load(Ordering::Relaxed)
    }

    /// Returns the reason for which the turn must not be interrupted, if there is one.
    pub fn hold(&self) -> Option<Hold> {
        Hold::ALL.into_iter().find(|why| self.holds[*why as usize].load(Ordering::Relaxed) > 0)
    }
}

/// Returns the next value of a channel. Never returns after all senders are dropped.
async fn next<T>(channel: &mut mpsc::Receiver<T>) -> T {
    match channel.recv().await {
        Some(next) => next,
        None => std::future::pending().await,
    }
}

impl HostLine {
    pub(crate) async fn take_steering(&self) -> Vec<Message> {
        if !*self.waiting.borrow() {
            return Vec::new();
        }
        let (ask, words) = oneshot::channel();
        // A closed line has no messages.
        match self.asks.send(ask).await {
            Ok(()) => words.await.unwrap_or_default(),
            Err(_) => Vec::new(),
        }
    }

    pub(crate) async fn ask(&self, question: TurnQuestion) -> Answer {
        questions::ask(&self.questions, question).await
    }

    pub(crate) async fn wait_for_steering(&self) {
        if self.waiting.clone().wait_for(|waiting| *waiting).await.is_err() {
            std::future::pending().await
        }
    }

    pub(crate) fn left_out(&self, messages: usize) {
        self.left_out.store(messages, Ordering::Relaxed);
    }

    pub(crate) fn hold(&self, why: Hold) -> HoldGuard {
        self.holds[why as usize].fetch_add(1, Ordering::Relaxed);
        HoldGuard { holds: Arc::clone(&self.holds), why }
    }
}

impl Drop for HoldGuard {
    fn drop(&mut self) {
        self.holds[self.why as usize].fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::EventSink;

    #[tokio::test]
    async fn what_waits_is_handed_over_when_the_runtime_asks_and_not_before() {
        let (sink, _events, mut line) = EventSink::with_line();
        assert!(sink.take_steering().await.is_empty(), "nothing waits, so nothing is requested");
        line.set_waiting(true);
        let host = async {
            let ask = line.steering_request().await;
            line.set_waiting(false);
            ask.send(vec![Message::user("turn left")]).unwrap();
        };
        let ((), words) = tokio::join!(host, async {
            sink.wait_for_steering().await;
            sink.take_steering().await
        });
        assert_eq!(words, [Message::user("turn left")]);
        assert!(sink.take_steering().await.is_empty());
    }

    #[tokio::test]
    async fn a_host_that_is_gone_steers_nobody() {
        let (sink, _events, line) = EventSink::with_line();
        line.set_waiting(true);
        drop(line);
        assert!(sink.take_steering().await.is_empty());
        let (sink, _events) = EventSink::channel();
        assert!(sink.take_steering().await.is_empty(), "nor does one that has no line");
    }

    #[test]
    fn a_turn_is_held_until_the_last_reason_is_gone() {
        let (sink, _events, line) = EventSink::with_line();
        assert_eq!(line.hold(), None);
        let first = sink.hold(Hold::Compacting);
        let second = sink.hold(Hold::Compacting);
        drop(first);
        assert_eq!(line.hold(), Some(Hold::Compacting));
        drop(second);
        assert_eq!(line.hold(), None);
    }
}
