//! The turn guard of a session, which runs one turn at a time: it decides whether an event starts a turn,
//! waits, or is passed to the running turn.
//!
//! The queue is bounded and first in, first out. It holds ids of inbox rows; the events themselves are durable,
//! so a lost guard loses nothing. Entries are never replaced. Messages of one person within a short time, while
//! a turn runs, become one message of several events ([`Group`]); messages of different people are never
//! joined.
//!
//! Time is a [`Duration`] since any fixed moment; the caller owns the clock. After each call the caller reads
//! [`Guard::due_at`] and calls [`Guard::due`] by that time.
//!
//! The caller decides who may interrupt and whether the runtime can be steered. The result is part of the
//! [`Arrival`].

use std::collections::VecDeque;
use std::time::Duration;

use crate::ids::InboxId;
use crate::settings::BusyMode;

#[cfg(test)]
mod tests;

/// Rule for joining an event with others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Join {
    /// The event gets a separate turn, even if other events wait.
    OwnTurn,
    /// The event is a separate message.
    Alone,
    /// The event belongs to the messages that the same person sends within a short time.
    Burst,
    /// Like [`Join::Burst`], but the text is so long that the platform may have cut it; the guard waits for the
    /// continuation.
    Cut,
    /// The event is part of an album, identified by `by`. The guard waits for the other parts and joins them
    /// while the event waits.
    Album,
}

/// The description of an event that requests a turn.
#[derive(Clone, Debug)]
pub struct Arrival {
    /// Row of the event.
    pub inbox: InboxId,
    /// Sender and place. Only compared.
    pub by: String,
    /// Permitted effect on a running turn.
    pub wish: BusyMode,
    /// Rule for joining.
    pub join: Join,
}

/// Decision about one event. `waiting` counts the waiting events, including this one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Admission {
    /// The turn starts now.
    Run,
    /// No turn runs, and the event may be continued; its turn starts when [`Guard::due`] reports it.
    Held,
    /// The event waits for its turn.
    Queued {
        /// Number of waiting events.
        waiting: usize,
    },
    /// The event was joined to a waiting message.
    Joined {
        /// Number of waiting events.
        waiting: usize,
    },
    /// The event waits, and the running turn is interrupted when [`Guard::due`] reports it.
    Interrupts {
        /// Number of waiting events.
        waiting: usize,
    },
    /// The event waits until the running turn takes it.
    Steers {
        /// Number of waiting events.
        waiting: usize,
    },
    /// The event is already in the guard and keeps its place.
    Known,
    /// The queue is full. The sender gets a notice.
    Refused {
        /// Capacity of the queue.
        max: usize,
    },
}

/// Action that is due at some time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    /// No turn runs and one may start: call [`Guard::start`].
    Start,
    /// The running turn is to be interrupted at its next safe point.
    Interrupt,
}

/// The events of one message, in order.
pub type Group = Vec<InboxId>;

/// Time windows for joining messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Windows {
    /// Time after a text within which the next one of the same person is joined.
    pub merge: Duration,
    /// Longest time for which a message may grow this way.
    pub merge_max: Duration,
    /// Wait for the continuation of a text that may have been cut.
    pub continuation: Duration,
    /// Longest time for which such a text may grow.
    pub continuation_max: Duration,
}

/// The running turn of a session and the queue behind it.
#[derive(Clone, Debug)]
pub struct Guard {
    running: Option<Vec<InboxId>>,
    queue: VecDeque<WaitingMessage>,
    /// True once the running turn was asked to end for a waiting message.
    interrupting: bool,
    /// True if the next turn takes all waiting messages.
    all_next: bool,
    queue_max: usize,
    windows: Windows,
}

/// A waiting message.
#[derive(Clone, Debug)]
struct WaitingMessage {
    events: Group,
    by: String,
    wish: BusyMode,
    join: Join,
    first: Duration,
    last: Duration,
    /// Earliest start.
    held_until: Duration,
    /// Earliest interruption of the running turn.
    acts_at: Duration,
}

impl Guard {
    /// Creates an idle guard with room for `queue_max` waiting events.
    pub fn new(queue_max: usize, windows: Windows) -> Self {
        Self { running: None, queue: VecDeque::new(), interrupting: false, all_next: false, queue_max, windows }
    }

    /// Decides about an event.
    pub fn arrive(&mut self, arrival: Arrival, now: Duration) -> Admission {
        if self.has(arrival.inbox) {
            return Admission::Known;
        }
        let waiting = self.depth() + 1;
        let may_grow = matches!(arrival.join, Join::Cut | Join::Album);
        if self.running.is_none() && self.queue.is_empty() && !may_grow {
            self.running = Some(vec![arrival.inbox]);
            return Admission::Run;
        }
        if waiting > self.queue_max {
            return Admission::Refused { max: self.queue_max };
        }
        // A message that only waits for its continuation arrived while no turn ran, so it must not interrupt a
        // later turn.
        let wish = if self.running.is_some() { arrival.wish } else { BusyMode::Queue };
        let arrival = Arrival { wish, ..arrival };
        let windows = self.windows;
        let is_last = self.queue.back().is_some_and(|entry| entry.by == arrival.by);
        let own = self.queue.iter_mut().rev().find(|entry| entry.by == arrival.by);
        let joined = own.is_some_and(|entry| entry.take(&arrival, is_last, &windows, now));
        if !joined {
            self.queue.push_back(WaitingMessage::new(arrival, &windows, now));
        }
        match wish {
            _ if self.running.is_none() => Admission::Held,
            _ if joined => Admission::Joined { waiting },
            BusyMode::Interrupt => Admission::Interrupts { waiting },
            BusyMode::Queue => Admission::Queued { waiting },
            BusyMode::Steer => Admission::Steers { waiting },
        }
    }

    /// Ends the running turn. Returns the events that were meant to steer it but came too late; they wait like
    /// all others.
    pub fn finished(&mut self) -> Vec<InboxId> {
        self.all_next |= std::mem::take(&mut self.interrupting);
        self.running = None;
        let late = self.queue.iter_mut().filter(|entry| entry.wish == BusyMode::Steer);
        late.flat_map(|entry| {
            entry.wish = BusyMode::Queue;
            entry.events.iter().copied()
        })
        .collect()
    }

    /// Starts the next turn if none runs: one message, or all waiting messages after an interruption. The list
    /// ends before a message that is still held or needs a separate turn.
    pub fn start(&mut self, now: Duration) -> Option<Vec<Group>> {
        if self.running.is_some() || self.queue.front()?.held_until > now {
            return None;
        }
        let all = std::mem::take(&mut self.all_next);
        let first = self.queue.pop_front()?;
        let alone = first.join == Join::OwnTurn;
        let mut groups = vec![first.events];
        while let Some(next) = self.queue.front()
            && all
            && !alone
            && next.held_until <= now
            && next.join != Join::OwnTurn
        {
            groups.extend(self.queue.pop_front().map(|entry| entry.events));
        }
        self.running = Some(groups.concat());
        Some(groups)
    }

    /// Returns the action that is due. An interruption is reported once.
    pub fn due(&mut self, now: Duration) -> Option<Due> {
        if self.running.is_none() {
            return self.queue.front().filter(|entry| entry.held_until <= now).map(|_| Due::Start);
        }
        if self.interrupting || !self.queue.iter().any(|entry| entry.interrupts() && entry.acts_at <= now) {
            return None;
        }
        self.interrupting = true;
        Some(Due::Interrupt)
    }

    /// Returns the time at which [`Self::due`] reports the next action.
    pub fn due_at(&self) -> Option<Duration> {
        if self.running.is_none() {
            return self.queue.front().map(|entry| entry.held_until);
        }
        if self.interrupting {
            return None;
        }
        self.queue.iter().filter(|entry| entry.interrupts()).map(|entry| entry.acts_at).min()
    }

    /// Turns pending interruptions into waiting messages, because the running turn must not be interrupted.
    /// Returns their events.
    pub fn demote(&mut self) -> Vec<InboxId> {
        self.interrupting = false;
        let demoted = self.queue.iter_mut().filter(|entry| entry.interrupts());
        demoted
            .flat_map(|entry| {
                entry.wish = BusyMode::Queue;
                entry.events.iter().copied()
            })
            .collect()
    }

    /// Moves the complete steering messages to the running turn. Later messages of a person whose text still
    /// waits for its continuation stay behind it.
    pub fn steer(&mut self, now: Duration) -> Vec<Group> {
        let Some(running) = &mut self.running else { return Vec::new() };
        let mut taken = Vec::new();
        let mut unfinished: Vec<String> = Vec::new();
        self.queue.retain_mut(|entry| {
            let steers = entry.wish == BusyMode::Steer;
            let goes = steers && entry.held_until <= now && !unfinished.contains(&entry.by);
            if steers && !goes {
                unfinished.push(entry.by.clone());
            }
            if goes {
                running.extend(&entry.events);
                taken.push(std::mem::take(&mut entry.events));
            }
            !goes
        });
        taken
    }

    /// Returns true if a message waits to steer the running turn.
    pub fn steers(&self) -> bool {
        self.queue.iter().any(|entry| entry.wish == BusyMode::Steer)
    }

    /// Returns true if a turn runs.
    pub fn runs(&self) -> bool {
        self.running.is_some()
    }

    /// Returns the events of the running turn.
    pub fn running(&self) -> &[InboxId] {
        self.running.as_deref().unwrap_or_default()
    }

    /// Returns the number of waiting events.
    pub fn depth(&self) -> usize {
        self.queue.iter().map(|entry| entry.events.len()).sum()
    }

    /// Returns the waiting events, in order.
    pub fn queued(&self) -> impl Iterator<Item = InboxId> + '_ {
        self.queue.iter().flat_map(|entry| entry.events.iter().copied())
    }

    /// Removes one waiting event; running events stay. Returns true if it was waiting.
    pub fn withdraw(&mut self, inbox: InboxId) -> bool {
        let before = self.depth();
        for entry in &mut self.queue {
            entry.events.retain(|&waiting| waiting != inbox);
        }
        self.queue.retain(|entry| !entry.events.is_empty());
        self.depth() < before
    }

    /// Empties the queue and returns its events; the running turn stays.
    pub fn clear(&mut self) -> Vec<InboxId> {
        (self.interrupting, self.all_next) = (false, false);
        self.queue.drain(..).flat_map(|entry| entry.events).collect()
    }

    /// Returns true if no turn runs and the queue is empty, so that the session task may end.
    pub fn is_idle(&self) -> bool {
        self.running.is_none() && self.queue.is_empty()
    }

    fn has(&self, inbox: InboxId) -> bool {
        self.running().contains(&inbox) || self.queued().any(|waiting| waiting == inbox)
    }
}

impl WaitingMessage {
    fn new(arrival: Arrival, windows: &Windows, now: Duration) -> Self {
        let Arrival { inbox, by, wish, join } = arrival;
        let held_until = match join {
            Join::Cut => now + windows.continuation,
            Join::Album => now + windows.merge,
            _ => now,
        };
        let acts_at = if join == Join::Burst { now + windows.merge } else { held_until };
        Self { events: vec![inbox], by, wish, join, first: now, last: now, held_until, acts_at }
    }

    fn interrupts(&self) -> bool {
        self.wish == BusyMode::Interrupt
    }

    /// Joins an event to this message, if it belongs there. Once others have written in between, only a
    /// continuation is joined.
    fn take(&mut self, arrival: &Arrival, is_last: bool, windows: &Windows, now: Duration) -> bool {
        if self.join == Join::Album && arrival.join == Join::Album {
            // Parts of an album belong together even if others wrote in between, and the album keeps its effect
            // on the running turn.
            self.events.push(arrival.inbox);
            self.last = now;
            self.held_until = (now + windows.merge).min(self.first + windows.merge_max).max(now);
            self.acts_at = self.held_until;
            return true;
        }
        let joins = |join| matches!(join, Join::Burst | Join::Cut);
        let alike = joins(self.join) && joins(arrival.join) && self.wish == arrival.wish;
        let in_burst = is_last
            && !windows.merge.is_zero()
            && now.saturating_sub(self.last) <= windows.merge
            && now.saturating_sub(self.first) <= windows.merge_max;
        let is_continued = self.join == Join::Cut && now <= self.held_until;
        if !alike || !(in_burst || is_continued) {
            return false;
        }
        self.events.push(arrival.inbox);
        self.last = now;
        self.join = arrival.join;
        self.held_until = match arrival.join {
            Join::Cut => (now + windows.continuation).min(self.first + windows.continuation_max).max(now),
            _ => now,
        };
        self.acts_at = (now + windows.merge).min(self.first + windows.merge_max).max(self.held_until);
        true
    }
}
