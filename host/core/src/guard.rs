//! One turn per session: may a turn start now, or does its event wait?
//!
//! The queue is strictly first in, first out, bounded, and holds ids of inbox
//! rows: the events themselves are durable, so a lost guard loses nothing.
//! Nothing in it is ever replaced or merged.

use std::collections::VecDeque;

use crate::ids::InboxId;

/// What the guard says about one event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Admission {
    /// Its turn starts now.
    Run,
    /// It waits; `depth` events are in the queue, itself included.
    Queued {
        /// Place in the queue, from 1.
        depth: usize,
    },
    /// It does not wait, because `max` others do. The sender is told.
    Refused {
        /// The bound.
        max: usize,
    },
}

/// The one turn of a session, and who waits for it.
#[derive(Clone, Debug)]
pub struct Guard {
    running: Option<InboxId>,
    queue: VecDeque<InboxId>,
    queue_max: usize,
}

impl Guard {
    /// A free guard that lets `queue_max` events wait.
    pub fn new(queue_max: usize) -> Self {
        Self { running: None, queue: VecDeque::new(), queue_max }
    }

    /// Decides about an event. One that is here already keeps its place.
    pub fn admit(&mut self, inbox: InboxId) -> Admission {
        if self.running == Some(inbox) {
            return Admission::Queued { depth: 0 };
        }
        if let Some(place) = self.queue.iter().position(|&waiting| waiting == inbox) {
            return Admission::Queued { depth: place + 1 };
        }
        // Whoever waits is taken by `finished`, so a free guard has no queue.
        if self.running.is_none() {
            self.running = Some(inbox);
            return Admission::Run;
        }
        if self.queue.len() >= self.queue_max {
            return Admission::Refused { max: self.queue_max };
        }
        self.queue.push_back(inbox);
        Admission::Queued { depth: self.queue.len() }
    }

    /// The running turn is over; returns the event whose turn starts now.
    pub fn finished(&mut self) -> Option<InboxId> {
        self.running = self.queue.pop_front();
        self.running
    }

    /// Returns the event whose turn runs.
    pub fn running(&self) -> Option<InboxId> {
        self.running
    }

    /// Returns how many events wait.
    pub fn depth(&self) -> usize {
        self.queue.len()
    }

    /// Returns the events that wait, in order.
    pub fn queued(&self) -> impl Iterator<Item = InboxId> + '_ {
        self.queue.iter().copied()
    }

    /// Takes one waiting event out; the running one stays.
    pub fn withdraw(&mut self, inbox: InboxId) -> bool {
        let before = self.queue.len();
        self.queue.retain(|&waiting| waiting != inbox);
        self.queue.len() < before
    }

    /// Empties the queue and returns what waited; the running turn stays.
    pub fn clear(&mut self) -> Vec<InboxId> {
        self.queue.drain(..).collect()
    }

    /// Whether no turn runs and nobody waits, so that the lane may end.
    pub fn is_idle(&self) -> bool {
        self.running.is_none() && self.queue.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_second_message_waits_for_the_first_turn() {
        let mut guard = Guard::new(2);
        assert_eq!(guard.admit(InboxId(1)), Admission::Run);
        assert_eq!(guard.admit(InboxId(2)), Admission::Queued { depth: 1 });
        assert_eq!(guard.admit(InboxId(3)), Admission::Queued { depth: 2 });
        assert_eq!(guard.admit(InboxId(4)), Admission::Refused { max: 2 });
        assert_eq!(guard.finished(), Some(InboxId(2)));
        assert_eq!(guard.running(), Some(InboxId(2)));
        assert_eq!(guard.finished(), Some(InboxId(3)));
        assert_eq!(guard.finished(), None);
        assert!(guard.is_idle());
    }

    #[test]
    fn an_event_that_is_there_already_starts_nothing_and_keeps_its_place() {
        let mut guard = Guard::new(4);
        let _ = guard.admit(InboxId(1));
        let _ = guard.admit(InboxId(2));
        assert_eq!(guard.admit(InboxId(1)), Admission::Queued { depth: 0 });
        assert_eq!(guard.admit(InboxId(2)), Admission::Queued { depth: 1 });
        assert_eq!(guard.depth(), 1);
    }

    #[test]
    fn clearing_the_queue_leaves_the_running_turn() {
        let mut guard = Guard::new(4);
        for id in 1..=4 {
            let _ = guard.admit(InboxId(id));
        }
        assert!(guard.withdraw(InboxId(3)));
        assert!(!guard.withdraw(InboxId(1)), "the running event is not withdrawn");
        assert_eq!(guard.clear(), [InboxId(2), InboxId(4)]);
        assert_eq!(guard.running(), Some(InboxId(1)));
    }

    proptest! {
        #[test]
        fn events_run_once_each_in_the_order_they_were_taken(
            steps in proptest::collection::vec(any::<bool>(), 0..200), max in 0usize..5,
        ) {
            let mut guard = Guard::new(max);
            let (mut taken, mut ran, mut next) = (Vec::new(), Vec::new(), 0);
            for arrives in steps {
                if arrives {
                    next += 1;
                    match guard.admit(InboxId(next)) {
                        Admission::Run => { taken.push(next); ran.push(next); }
                        Admission::Queued { depth } => { prop_assert!(depth <= max); taken.push(next); }
                        Admission::Refused { .. } => prop_assert_eq!(guard.depth(), max),
                    }
                } else if let Some(id) = guard.finished() {
                    ran.push(id.0);
                }
                prop_assert!(guard.depth() <= max);
                prop_assert!(guard.running().is_some() || guard.depth() == 0);
            }
            while let Some(id) = guard.finished() {
                ran.push(id.0);
            }
            prop_assert_eq!(taken, ran);
        }
    }
}
