//! One turn per session: may a turn start now, does its event wait, or does it reach
//! the turn that runs?
//!
//! The queue is first in, first out, bounded, and holds ids of inbox rows: the events
//! themselves are durable, so a lost guard loses nothing. Nothing in it is ever
//! replaced. What one person says within a moment while a turn runs becomes one
//! message of several events ([`Group`]); what two people say never does.
//!
//! Time is a [`Duration`] since any fixed moment; the caller has the clock. After each
//! call it looks at [`Guard::due_at`] and comes back with [`Guard::due`] by then.
//!
//! Who may interrupt, and whether the runtime can be steered, is decided before an
//! event arrives here: its [`Arrival`] says what it may do.

use std::collections::VecDeque;
use std::time::Duration;

use crate::ids::InboxId;
use crate::settings::BusyMode;

#[cfg(test)]
mod tests;

/// How an event may be joined with others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Join {
    /// It gets a turn of its own, whatever else waits.
    OwnTurn,
    /// It is a message of its own.
    Alone,
    /// It is part of what the same person says in a moment.
    Burst,
    /// The same, and so long that its platform may have cut it: its continuation is waited for.
    Cut,
    /// It is part of an album, which `by` names: the others are waited for, and join while it waits.
    Album,
}

/// What the guard has to know of an event that wants a turn.
#[derive(Clone, Debug)]
pub struct Arrival {
    /// Its row.
    pub inbox: InboxId,
    /// Who said it, and where. Compared only.
    pub by: String,
    /// What it may do to a turn that runs.
    pub wish: BusyMode,
    /// How it may be joined.
    pub join: Join,
}

/// What the guard says about one event. `waiting` counts the events that wait, this one included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Admission {
    /// Its turn starts now.
    Run,
    /// Nothing runs, and it may be continued: its turn starts when [`Guard::due`] says so.
    Held,
    /// It waits for its turn.
    Queued {
        /// Events that wait.
        waiting: usize,
    },
    /// It became part of the message that waits already.
    Joined {
        /// Events that wait.
        waiting: usize,
    },
    /// It waits, and the running turn ends for it when [`Guard::due`] says so.
    Interrupts {
        /// Events that wait.
        waiting: usize,
    },
    /// It waits for the running turn to take it.
    Steers {
        /// Events that wait.
        waiting: usize,
    },
    /// It is here already and keeps its place.
    Known,
    /// It does not wait, because `max` others do. The sender is told.
    Refused {
        /// The bound.
        max: usize,
    },
}

/// What time asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    /// Nothing runs and something may: take it with [`Guard::start`].
    Start,
    /// The running turn is to be ended at its next safe point.
    Interrupt,
}

/// Events that make up one message, in order.
pub type Group = Vec<InboxId>;

/// How long what is said may be joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Windows {
    /// How long after one text the next one of the same person still belongs to it.
    pub merge: Duration,
    /// How long one message may grow that way.
    pub merge_max: Duration,
    /// How long the continuation of a text that may have been cut is waited for.
    pub continuation: Duration,
    /// How long such a text may grow that way.
    pub continuation_max: Duration,
}

/// The one turn of a session, and who waits for it.
#[derive(Clone, Debug)]
pub struct Guard {
    running: Option<Vec<InboxId>>,
    queue: VecDeque<Entry>,
    /// The running turn was told to end for what waits.
    interrupting: bool,
    /// The next turn takes everything that waits.
    all_next: bool,
    queue_max: usize,
    windows: Windows,
}

/// One message that waits.
#[derive(Clone, Debug)]
struct Entry {
    events: Group,
    by: String,
    wish: BusyMode,
    join: Join,
    first: Duration,
    last: Duration,
    /// It does not start before.
    held_until: Duration,
    /// It does not end the running turn before.
    acts_at: Duration,
}

impl Guard {
    /// A free guard that lets `queue_max` events wait.
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
        // What waits for nothing but its own continuation was said while nothing ran, and ends nothing later.
        let wish = if self.running.is_some() { arrival.wish } else { BusyMode::Queue };
        let arrival = Arrival { wish, ..arrival };
        let windows = self.windows;
        let is_last = self.queue.back().is_some_and(|entry| entry.by == arrival.by);
        let own = self.queue.iter_mut().rev().find(|entry| entry.by == arrival.by);
        let joined = own.is_some_and(|entry| entry.take(&arrival, is_last, &windows, now));
        if !joined {
            self.queue.push_back(Entry::new(arrival, &windows, now));
        }
        match wish {
            _ if self.running.is_none() => Admission::Held,
            _ if joined => Admission::Joined { waiting },
            BusyMode::Interrupt => Admission::Interrupts { waiting },
            BusyMode::Queue => Admission::Queued { waiting },
            BusyMode::Steer => Admission::Steers { waiting },
        }
    }

    /// The running turn is over. Returns what was to steer it and came too late; it waits like everything else.
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

    /// Starts the next turn when nothing runs: one message, or all that wait after an interruption. Whatever is
    /// still held, or wants a turn of its own, ends the list.
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

    /// Says what time asks for. An interruption is said once.
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

    /// Returns when [`Self::due`] has something to say.
    pub fn due_at(&self) -> Option<Duration> {
        if self.running.is_none() {
            return self.queue.front().map(|entry| entry.held_until);
        }
        if self.interrupting {
            return None;
        }
        self.queue.iter().filter(|entry| entry.interrupts()).map(|entry| entry.acts_at).min()
    }

    /// The running turn must not be ended after all: what was to end it waits. Returns those events.
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

    /// The running turn takes what was to steer it, as far as it is complete: what somebody said behind a text
    /// whose continuation is waited for stays behind it.
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

    /// Whether something waits to steer the running turn.
    pub fn steers(&self) -> bool {
        self.queue.iter().any(|entry| entry.wish == BusyMode::Steer)
    }

    /// Whether a turn runs.
    pub fn runs(&self) -> bool {
        self.running.is_some()
    }

    /// Returns the events whose turn runs.
    pub fn running(&self) -> &[InboxId] {
        self.running.as_deref().unwrap_or_default()
    }

    /// Returns how many events wait.
    pub fn depth(&self) -> usize {
        self.queue.iter().map(|entry| entry.events.len()).sum()
    }

    /// Returns the events that wait, in order.
    pub fn queued(&self) -> impl Iterator<Item = InboxId> + '_ {
        self.queue.iter().flat_map(|entry| entry.events.iter().copied())
    }

    /// Takes one waiting event out; the running ones stay.
    pub fn withdraw(&mut self, inbox: InboxId) -> bool {
        let before = self.depth();
        for entry in &mut self.queue {
            entry.events.retain(|&waiting| waiting != inbox);
        }
        self.queue.retain(|entry| !entry.events.is_empty());
        self.depth() < before
    }

    /// Empties the queue and returns what waited; the running turn stays.
    pub fn clear(&mut self) -> Vec<InboxId> {
        (self.interrupting, self.all_next) = (false, false);
        self.queue.drain(..).flat_map(|entry| entry.events).collect()
    }

    /// Whether no turn runs and nobody waits, so that the lane may end.
    pub fn is_idle(&self) -> bool {
        self.running.is_none() && self.queue.is_empty()
    }

    fn has(&self, inbox: InboxId) -> bool {
        self.running().contains(&inbox) || self.queued().any(|waiting| waiting == inbox)
    }
}

impl Entry {
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

    /// Takes an event in, if it belongs to this message. Where others spoke since, only a continuation does.
    fn take(&mut self, arrival: &Arrival, is_last: bool, windows: &Windows, now: Duration) -> bool {
        if self.join == Join::Album && arrival.join == Join::Album {
            // Its parts belong together whoever spoke in between, and it keeps what it was to do.
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
