//! Whether an instance has shown that its link works since something happened.
//!
//! A delivery of which nobody knows whether it arrived is repeated once. The repeat is
//! worth nothing over a link that swallows everything, so it waits for a round trip
//! that came back after the doubt: something that was carried, a new link, or an answer
//! to `health`, which is asked for as soon as somebody waits.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tokio::sync::{Notify, watch};

use super::AdapterHandle;

/// The round trips of one instance that came back.
pub(super) struct Alive {
    trips: watch::Sender<u64>,
    /// Messages that were delivered.
    delivered: AtomicU64,
    asked: Notify,
    /// Whether somebody sees to its `health`. What is part of the host has no link that could be lost.
    is_watched: AtomicBool,
}

/// How many round trips had come back at some time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trips {
    trips: u64,
    links: u64,
    delivered: u64,
}

impl Alive {
    pub(super) fn new() -> Self {
        Self {
            trips: watch::Sender::new(0),
            delivered: AtomicU64::new(0),
            asked: Notify::new(),
            is_watched: AtomicBool::new(true),
        }
    }

    /// Notes that nobody watches it, and nobody has to.
    pub(super) fn is_part_of_the_host(&self) {
        self.is_watched.store(false, Ordering::Relaxed);
    }

    /// Notes that a round trip came back.
    pub(super) fn came_back(&self) {
        self.trips.send_modify(|trips| *trips = trips.wrapping_add(1));
    }

    /// Notes that a message was delivered.
    pub(super) fn carried_a_message(&self) {
        self.delivered.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns once somebody wants to know whether it is alive.
    pub(super) async fn asked(&self) {
        self.asked.notified().await;
    }
}

impl AdapterHandle {
    /// How many round trips have come back so far.
    pub fn trips(&self) -> Trips {
        Trips {
            trips: *self.shared.alive.trips.borrow(),
            links: self.shared.links.load(Ordering::Relaxed),
            delivered: self.shared.alive.delivered.load(Ordering::Relaxed),
        }
    }

    /// Whether a round trip came back after `before`.
    pub fn is_proven_since(&self, before: Trips) -> bool {
        self.trips().trips != before.trips
    }

    /// Whether a round trip came back after `before` over the link that there was; `None`: it is another link.
    pub fn is_proven_over_the_same_link(&self, before: Trips) -> Option<bool> {
        let now = self.trips();
        (now.links == before.links).then_some(now.trips != before.trips)
    }

    /// Whether a message was delivered after `before`.
    pub fn has_delivered_since(&self, before: Trips) -> bool {
        self.trips().delivered != before.delivered
    }

    /// Returns once a round trip came back after `before`; makes sure that there is one, as long as the link holds.
    pub async fn proven_since(&self, before: Trips) {
        let alive = &self.shared.alive;
        if alive.is_watched.load(Ordering::Relaxed) {
            alive.asked.notify_one();
        } else {
            alive.came_back();
        }
        let mut trips = alive.trips.subscribe();
        // The sender lives in the handle, so waiting cannot fail.
        let _ = trips.wait_for(|trips| *trips != before.trips).await;
    }
}

#[cfg(test)]
impl AdapterHandle {
    /// Lets a test say when a round trip comes back.
    pub(crate) fn is_silent(&self) {
        self.shared.alive.is_watched.store(true, Ordering::Relaxed);
    }

    /// Returns once somebody waits for a round trip.
    pub(crate) async fn is_asked_for_life(&self) {
        self.shared.alive.asked().await;
    }

    /// A round trip came back.
    pub(crate) fn shows_life(&self) {
        self.shared.alive.came_back();
    }
}
