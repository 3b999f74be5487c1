//! The proof that the link of an instance works since a point in time.
//!
//! A delivery with an unknown outcome is repeated once. The repeat is useless over a link that loses everything, so it
//! waits for a round trip that completed after the doubt: a delivered message, a new link, or an answer to `health`,
//! which the supervisor requests as soon as a delivery waits.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tokio::sync::{Notify, watch};

use super::AdapterHandle;

/// The completed round trips of one instance.
pub(super) struct Alive {
    trips: watch::Sender<u64>,
    /// Count of delivered messages.
    delivered: AtomicU64,
    asked: Notify,
    /// `true` if a supervisor calls its `health`. The terminals have no link that could be lost, so for them it is
    /// `false`.
    is_watched: AtomicBool,
}

/// The counts of completed round trips, links and deliveries at one moment.
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

    /// Marks the instance as built in: no supervisor calls its `health`.
    pub(super) fn is_part_of_the_host(&self) {
        self.is_watched.store(false, Ordering::Relaxed);
    }

    /// Records a completed round trip.
    pub(super) fn came_back(&self) {
        self.trips.send_modify(|trips| *trips = trips.wrapping_add(1));
    }

    /// Records a delivered message.
    pub(super) fn carried_a_message(&self) {
        self.delivered.fetch_add(1, Ordering::Relaxed);
    }

    /// Waits until a delivery requests a proof of the link.
    pub(super) async fn asked(&self) {
        self.asked.notified().await;
    }
}

impl AdapterHandle {
    /// Returns the current counts.
    pub fn trips(&self) -> Trips {
        Trips {
            trips: *self.shared.alive.trips.borrow(),
            links: self.shared.links.load(Ordering::Relaxed),
            delivered: self.shared.alive.delivered.load(Ordering::Relaxed),
        }
    }

    /// Returns `true` if a round trip completed after `before`.
    pub fn is_proven_since(&self, before: Trips) -> bool {
        self.trips().trips != before.trips
    }

    /// Returns `true` if a round trip completed after `before` over the same link, or `None` if the link was replaced.
    pub fn is_proven_over_the_same_link(&self, before: Trips) -> Option<bool> {
        let now = self.trips();
        (now.links == before.links).then_some(now.trips != before.trips)
    }

    /// Returns `true` if a message was delivered after `before`.
    pub fn has_delivered_since(&self, before: Trips) -> bool {
        self.trips().delivered != before.delivered
    }

    /// Waits for a round trip that completes after `before`, and requests a `health` call for it.
    pub async fn proven_since(&self, before: Trips) {
        let alive = &self.shared.alive;
        if alive.is_watched.load(Ordering::Relaxed) {
            alive.asked.notify_one();
        } else {
            alive.came_back();
        }
        let mut trips = alive.trips.subscribe();
        // The handle owns the sender, so waiting cannot fail.
        let _ = trips.wait_for(|trips| *trips != before.trips).await;
    }
}

#[cfg(any(test, feature = "testing"))]
impl AdapterHandle {
    /// Lets a test decide when a round trip completes.
    pub fn is_silent(&self) {
        self.shared.alive.is_watched.store(true, Ordering::Relaxed);
    }

    /// Waits until a round trip is requested.
    pub async fn is_asked_for_life(&self) {
        self.shared.alive.asked().await;
    }

    /// Records a completed round trip.
    pub fn shows_life(&self) {
        self.shared.alive.came_back();
    }
}
