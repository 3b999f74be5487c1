//! One delivery in progress: its next part, the attempts at it, and the earliest time of the next attempt.

use std::sync::Arc;

use hermes_core::delivery::{PartFacts, RetryScope, Step};
use hermes_core::ids::DeliveryId;
use hermes_protocol::{Outgoing, SentMessage};

use super::Holds;
use hermes_loader::Trips;
use hermes_store::{DeliveryState, OwedDelivery, OwedPart, PartState};

/// The mark before a text whose thread is gone.
const THREAD_GONE_MARK: &str = "(the thread no longer exists)";

/// A delivery of a lane. Counts as held until it is dropped.
pub struct Job {
    /// The delivery as the store has it.
    pub delivery: OwedDelivery,
    /// The earliest time of the next attempt, in milliseconds since the Unix epoch.
    pub due_ms: i64,
    /// The action that the next part needs.
    pub next: Next,
    /// The counters of the adapter when the outcome of the next part became unknown: its repeat waits for further
    /// traffic. `None`: not checked since the job was loaded.
    pub doubted: Option<Trips>,
    /// The same counters at the first time that the next part was not sent because of its whole instance.
    pub blamed: Option<Trips>,
    /// True if the last attempt at the next part did not reach the platform.
    pub unreachable: bool,
    at: usize,
    holds: Arc<Holds>,
}

/// The action that a part needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Send it.
    Send,
    /// Decide about an unknown outcome first.
    Judge,
    /// Ask the adapter whether the part arrived.
    Lookup,
}

impl Job {
    /// Creates the job of a delivery; `None`: no part of it is open.
    pub fn new(delivery: OwedDelivery, holds: &Arc<Holds>) -> Option<Self> {
        if !delivery.state.is_live() {
            return None;
        }
        holds.add();
        let mut job = Self {
            delivery,
            due_ms: 0,
            next: Next::Send,
            doubted: None,
            blamed: None,
            unreachable: false,
            at: 0,
            holds: Arc::clone(holds),
        };
        job.carry_doubt();
        job.turn_to(0).then_some(job)
    }

    pub fn id(&self) -> DeliveryId {
        self.delivery.id
    }

    /// Returns the next part.
    pub fn part(&self) -> &OwedPart {
        &self.delivery.parts[self.at]
    }

    /// Returns the next part for a change.
    pub fn part_mut(&mut self) -> &mut OwedPart {
        &mut self.delivery.parts[self.at]
    }

    /// Returns the facts about earlier attempts at the next part.
    pub fn facts(&self) -> &PartFacts {
        &self.part().facts
    }

    /// Turns to the next open part; `false`: there is none.
    pub fn advance(&mut self) -> bool {
        self.turn_to(self.at + 1)
    }

    /// Returns the open parts, the next one first.
    pub fn open_parts(&self) -> impl Iterator<Item = &OwedPart> {
        self.delivery.parts[self.at..].iter().filter(|part| !part.state.is_settled())
    }

    /// Replaces the next part and all parts after it.
    pub fn replace(&mut self, parts: impl IntoIterator<Item = OwedPart>) {
        self.delivery.parts.truncate(self.at);
        self.delivery.parts.extend(parts);
    }

    /// Returns whether sending the next part is a repeat.
    pub fn is_repeat(&self) -> bool {
        self.next == Next::Send && self.facts().doubts > 0 && self.edits().is_none()
    }

    /// Returns whether the job is retried alone, out of order.
    pub fn is_aside(&self) -> bool {
        self.facts().deferred
    }

    /// Builds the next part for the adapter.
    pub fn outgoing(&self) -> Outgoing {
        let (delivery, part) = (&self.delivery, self.part());
        // An edit to the same text repeats nothing.
        let mut marks = if self.edits().is_some() { Vec::new() } else { self.facts().marks() };
        if self.facts().thread_dropped {
            marks.push(THREAD_GONE_MARK);
        }
        let mark = |text: &str| match marks.as_slice() {
            [] => text.to_owned(),
            marks => format!("{} {text}", marks.join(" ")),
        };
        let last = self.at + 1 == delivery.parts.len();
        let mut outgoing = Outgoing::text(delivery.chat.clone(), mark(&part.text));
        outgoing.delivery = delivery.id.0;
        outgoing.part = part.n.max(1);
        outgoing.of = delivery.parts.last().map_or(1, |last| last.n.max(1));
        outgoing.key.clone_from(&part.key);
        outgoing.purpose = delivery.purpose.clone();
        // The adapter chooses the parts that show the reply: it knows its `reply_mode`.
        outgoing.reply_to.clone_from(&delivery.reply_to);
        outgoing.in_reply_to = delivery.in_reply_to.map(|inbox| inbox.0);
        outgoing.format = part.format.clone();
        outgoing.source = mark(&part.source);
        outgoing.media.clone_from(&part.media);
        outgoing.choices = delivery.choices.clone().filter(|_| last);
        outgoing.silent = delivery.silent;
        outgoing.ephemeral_to.clone_from(&delivery.ephemeral_to);
        outgoing
    }

    /// Returns the message that the next part replaces as its final text.
    pub fn edits(&self) -> Option<SentMessage> {
        let id = self.delivery.draft_message.as_ref().filter(|_| self.part().n == 1)?;
        Some(SentMessage::new(self.delivery.chat.clone(), id.clone()))
    }

    /// Notes the outcome of the first piece of a growing message, which decides between an edit and a new message for
    /// the final text.
    pub fn first_piece_settled(&mut self, state: &PartState) {
        if let PartState::Delivered { receipt } = state {
            self.delivery.draft_message = receipt.message_ids.last().cloned();
        }
        self.carry_doubt();
    }

    /// Adapts a step to a first piece: it is neither repeated nor rendered in another form, because the final text
    /// follows.
    pub fn tempered(&self, step: Step) -> Step {
        let why = match step {
            Step::RepeatMarked { .. } => "it is unknown whether its first part arrived",
            Step::ResendPlain | Step::Resplit => "its first part was rejected",
            step => return step,
        };
        if self.part().n > 0 {
            return step;
        }
        Step::Settle(PartState::Abandoned { why: why.to_owned() })
    }

    /// Marks the final text as a repeat if the outcome of the first piece is unknown.
    fn carry_doubt(&mut self) {
        let [first, rest @ ..] = self.delivery.parts.as_mut_slice() else { return };
        if first.n == 0
            && first.facts.doubts > 0
            && let Some(part) = rest.iter_mut().find(|part| part.n == 1)
        {
            part.facts.inherit_doubts(&first.facts);
        }
    }

    /// Returns whether the final text replaces this first piece, which certainly never arrived.
    fn is_superseded(&self, part: &OwedPart) -> bool {
        part.n == 0
            && self.delivery.state == DeliveryState::Owed
            && matches!(part.state, PartState::Owed | PartState::Deferred)
            && part.facts.failing_since_ms.is_none()
    }

    fn turn_to(&mut self, from: usize) -> bool {
        let parts = self.delivery.parts.iter().enumerate().skip(from);
        let open = parts.into_iter().find(|(_, part)| !part.state.is_settled() && !self.is_superseded(part));
        let Some((at, part)) = open else { return false };
        self.due_ms = part.not_before_ms;
        (self.doubted, self.blamed, self.unreachable) = (None, None, false);
        self.next = match part.state {
            PartState::Unknown { .. } | PartState::InFlight { .. } => Next::Judge,
            _ => Next::Send,
        };
        self.at = at;
        true
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        self.holds.sub();
    }
}

/// Returns whether a wait belongs to one part, so that later deliveries may overtake it.
pub fn is_own(scope: RetryScope) -> bool {
    scope == RetryScope::Part
}
