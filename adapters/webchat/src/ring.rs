//! A ring of the latest events for pages.

use std::collections::VecDeque;
use std::sync::Arc;

/// The maximum number of events in the ring.
pub(crate) const RING_EVENTS_MAX: usize = 2_000;

/// The maximum size of the events in the ring, in bytes.
pub(crate) const RING_BYTES_MAX: usize = 4 * 1024 * 1024;

/// A position in the stream: the run of the adapter, and the number of the event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cursor {
    pub(crate) incarnation: String,
    pub(crate) seq: u64,
}

impl Cursor {
    /// Parses `incarnation.seq`.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (incarnation, seq) = text.trim().split_once('.')?;
        Some(Self { incarnation: incarnation.to_owned(), seq: seq.parse().ok()? })
    }
}

impl std::fmt::Display for Cursor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.incarnation, self.seq)
    }
}

/// The events after a page's cursor.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Backlog {
    /// These events, in order.
    Events(Vec<(u64, Arc<str>)>),
    /// The ring lacks some of the missed events: reload everything.
    Reset(u64),
}

/// The latest events, numbered, and limited in number and size.
#[derive(Default)]
pub(crate) struct Ring {
    /// The number of the last event.
    pub(crate) seq: u64,
    events: VecDeque<(u64, Arc<str>)>,
    pub(crate) bytes: usize,
}

impl Ring {
    /// Adds an event. The oldest ones make room.
    pub(crate) fn push(&mut self, text: Arc<str>) {
        self.seq += 1;
        self.bytes += text.len();
        self.events.push_back((self.seq, text));
        while self.events.len() > RING_EVENTS_MAX || self.bytes > RING_BYTES_MAX {
            let Some((_, text)) = self.events.pop_front() else { break };
            self.bytes -= text.len();
        }
    }

    /// Returns the events after the one with this number.
    pub(crate) fn after(&self, seq: u64) -> Backlog {
        let oldest = self.events.front().map_or(self.seq + 1, |(seq, _)| *seq);
        if seq > self.seq || seq + 1 < oldest {
            return Backlog::Reset(self.seq);
        }
        let skip = usize::try_from(seq + 1 - oldest).unwrap_or(usize::MAX);
        Backlog::Events(self.events.iter().skip(skip).cloned().collect())
    }
}
