//! Messages whose files are still with their platform.
//!
//! Such a message waits here until its files have arrived ([`crate::engine::attachments::incoming`]). Later messages of the same sender wait
//! with it, so that the order stays. Other events pass: orders, buttons, messages of other senders, the running turn.
//! Parts of an album are released together.
//!
//! A waiting message is `accepted` in the inbox, with its references, and the guard does not know it yet.

use std::collections::VecDeque;
use std::future;
use std::sync::Arc;

use hermes_core::file_refs;
use hermes_core::ids::InboxId;
use tokio::sync::Semaphore;
use tokio::task::{AbortHandle, Id, JoinError, JoinSet};

use super::{Lane, LaneMessage, Waiting};
use crate::engine::attachments::incoming;
use crate::engine::attachments::incoming::Fetched;
use crate::engine::context::Heard;
use crate::engine::crash_points;
use crate::engine::runtime::Host;
use hermes_store::{Change, CommandTx};

/// Messages of one session whose files are requested at once; others wait for them, in order.
const FETCHING_MAX: usize = 2;

/// The messages that wait for files. Most lanes never have any.
#[derive(Default)]
pub(super) struct Door(Option<Box<Inside>>);

struct Inside {
    entries: VecDeque<Entry>,
    fetches: JoinSet<Fetched>,
    room: Arc<Semaphore>,
}

struct Entry {
    heard: Box<Heard>,
    files: Files,
}

/// The state of the files of a message.
enum Files {
    /// No file is missing.
    None,
    /// The files are being fetched.
    Coming(Task),
    /// The files have arrived, as far as they can be fetched.
    Here(Fetched),
}

/// A fetch that ends when this is dropped.
struct Task(AbortHandle);

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Entry {
    fn is_coming(&self) -> bool {
        matches!(self.files, Files::Coming(_))
    }

    /// Returns whether both are parts of one album.
    fn is_with(&self, other: &Self) -> bool {
        let album = self.heard.event.get().album.as_deref();
        album.is_some() && album == other.heard.event.get().album.as_deref()
    }
}

/// A released message, with its fetched files.
pub(super) type Ready = (Box<Heard>, Option<Fetched>);

impl Door {
    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(super) fn len(&self) -> usize {
        self.0.as_ref().map_or(0, |inside| inside.entries.len())
    }

    fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.0.iter().flat_map(|inside| &inside.entries)
    }

    pub(super) fn get(&self, inbox: InboxId) -> Option<&Heard> {
        self.entries().map(|entry| &*entry.heard).find(|heard| heard.inbox == inbox)
    }

    pub(super) fn heard_mut(&mut self) -> impl Iterator<Item = &mut Box<Heard>> {
        self.0.iter_mut().flat_map(|inside| &mut inside.entries).map(|entry| &mut entry.heard)
    }

    /// Returns whether a message has to wait here: for its files, or after another one of the same sender.
    fn holds_up(&self, heard: &Heard) -> bool {
        // An event of the host has its text already.
        heard.input.is_none()
            && (file_refs::has_away(heard.event.get())
                || !self.is_empty() && self.entries().any(|entry| entry.heard.by() == heard.by()))
    }

    fn push(&mut self, host: &Arc<Host>, heard: Box<Heard>) {
        let inside = self.0.get_or_insert_with(|| {
            let room = Arc::new(Semaphore::new(FETCHING_MAX));
            Box::new(Inside { entries: VecDeque::new(), fetches: JoinSet::new(), room })
        });
        let files = match file_refs::has_away(heard.event.get()) {
            true => {
                let (instance, adapter) = (Arc::clone(&heard.place.instance), heard.place.adapter.clone());
                let fetch = incoming::fetch(Arc::clone(host), instance, adapter, heard.event.get().clone());
                let task = inside.fetches.spawn(in_line(Arc::clone(&inside.room), fetch));
                Files::Coming(Task(task))
            }
            false => Files::None,
        };
        inside.entries.push_back(Entry { heard, files });
    }

    /// Takes matching messages out and ends their fetches.
    pub(super) fn take_where(&mut self, is_one: impl Fn(&Heard) -> bool) -> Vec<Heard> {
        let Some(inside) = &mut self.0 else { return Vec::new() };
        let (taken, left) = inside.entries.drain(..).partition::<VecDeque<_>, _>(|entry| is_one(&entry.heard));
        inside.entries = left;
        taken.into_iter().map(|entry| *entry.heard).collect()
    }

    pub(super) fn remove(&mut self, inbox: InboxId) {
        drop(self.take_where(|heard| heard.inbox == inbox));
    }

    /// Removes all messages; returns their ids.
    pub(super) fn clear(&mut self) -> Vec<InboxId> {
        self.take_where(|_| true).into_iter().map(|heard| heard.inbox).collect()
    }

    /// Waits until messages are released, and takes them out; forever if none waits for files. Cancel-safe.
    pub(super) async fn next(&mut self) -> Vec<Ready> {
        let Some(inside) = &mut self.0 else { return future::pending().await };
        if inside.entries.iter().any(|entry| !entry.is_coming()) && !inside.ready().is_empty() {
            return inside.take_ready();
        }
        match inside.fetches.join_next_with_id().await {
            Some(fetched) => inside.is_here(fetched),
            None => future::pending().await,
        }
        inside.take_ready()
    }
}

impl Inside {
    /// Notes the result of a fetch whose message still waits.
    fn is_here(&mut self, fetched: Result<(Id, Fetched), JoinError>) {
        let (id, fetched) = match fetched {
            Ok((id, fetched)) => (id, Some(fetched)),
            Err(error) => {
                if error.is_panic() {
                    tracing::error!(%error, "fetching the files of a message failed; they are missing");
                }
                (error.id(), None)
            }
        };
        let entry =
            self.entries.iter_mut().find(|entry| matches!(&entry.files, Files::Coming(task) if task.0.id() == id));
        if let Some(entry) = entry {
            entry.files = fetched.map_or(Files::None, Files::Here);
        }
    }

    /// Returns the indexes of the messages that need not wait any more: their files have arrived, and so have those of
    /// earlier messages of the same sender and of the same album.
    fn ready(&self) -> Vec<usize> {
        let mut blocked: Vec<String> = Vec::new();
        let mut ready = Vec::new();
        for (at, entry) in self.entries.iter().enumerate() {
            let by = entry.heard.by();
            let is_coming = |other: &Entry| other.is_coming() && other.is_with(entry) && other.heard.by() == by;
            if blocked.contains(&by) || entry.is_coming() || self.entries.iter().any(is_coming) {
                blocked.push(by);
            } else {
                ready.push(at);
            }
        }
        ready
    }

    fn take_ready(&mut self) -> Vec<Ready> {
        let ready = self.ready();
        let mut taken = Vec::new();
        let mut left = VecDeque::new();
        for (at, entry) in self.entries.drain(..).enumerate() {
            if ready.contains(&at) {
                taken.push((entry.heard, entry.files.here()));
            } else {
                left.push_back(entry);
            }
        }
        self.entries = left;
        taken
    }
}

impl Files {
    fn here(self) -> Option<Fetched> {
        match self {
            Self::Here(fetched) => Some(fetched),
            Self::None | Self::Coming(_) => None,
        }
    }
}

/// Runs a fetch once there is a slot for it.
async fn in_line(room: Arc<Semaphore>, fetch: impl Future<Output = Fetched>) -> Fetched {
    // Nobody closes the semaphore.
    let _room = room.acquire().await.ok();
    fetch.await
}

impl Lane {
    /// Takes a message, or lets it wait until its files have arrived; returns it if there is no room.
    pub(super) async fn come(&mut self, heard: Box<Heard>) -> Option<Box<Heard>> {
        let id = heard.inbox;
        let is_here =
            self.door.get(id).is_some() || self.waiting.contains_key(&id) || self.guard.running().contains(&id);
        if is_here && heard.input.is_none() {
            // An ended drain reads the events of the inbox again.
            return None;
        }
        if !self.door.holds_up(&heard) {
            return self.hear_now(heard).await;
        }
        if self.draining {
            // The event stays in the inbox.
            return None;
        }
        if self.door.len() >= self.limits.queue_max {
            return Some(heard);
        }
        self.door.push(&self.host, heard);
        None
    }

    /// Takes a message whose files have arrived; returns it if there is no room.
    pub(super) async fn hear_now(&mut self, heard: Box<Heard>) -> Option<Box<Heard>> {
        if let Some(words) = self.leased(heard.inbox).await {
            self.turn_away(vec![*heard], words).await;
            return None;
        }
        self.compress_no_more(heard.inbox).await;
        self.hear(heard).await
    }

    /// Writes the fetched files of messages, which are taken next.
    pub(super) async fn let_in(&mut self, ready: Vec<Ready>) {
        for (mut heard, fetched) in ready {
            if let Some(fetched) = fetched {
                let (inbox, files) = (heard.inbox, fetched.files().to_vec());
                crash_points::point("files_fetched");
                let write = || self.host.store.fetched(inbox, files.clone());
                if self.host.until_written("the files of a message", write).await.is_none() {
                    // The row stays as it is in the inbox, and the next run of the host fetches the files.
                    continue;
                }
                heard.event = heard.event.map(|event| file_refs::put(event, &files));
                fetched.keep();
                crash_points::point("files_kept");
            }
            self.batch.push_back(LaneMessage::Fetched(heard));
        }
    }

    /// Returns whether parts of a waiting album are still being fetched: an album is one message.
    pub(super) fn is_collecting(&self) -> bool {
        let waits = |entry: &Entry| {
            let album = entry.heard.event.get().album.as_deref();
            let is_part = |waiting: &Waiting| match waiting {
                Waiting::Heard(heard) => heard.event.get().album.as_deref() == album && heard.by() == entry.heard.by(),
                Waiting::CutOff(..) => false,
            };
            album.is_some() && self.waiting.values().any(is_part)
        };
        self.door.entries().any(waits)
    }

    /// Drops the messages whose files are being fetched; returns whether there were any.
    pub(super) async fn stop_fetching(&mut self) -> bool {
        let stopped = self.door.take_where(|heard| file_refs::has_away(heard.event.get()));
        if stopped.is_empty() {
            return false;
        }
        let ids = stopped.iter().map(|heard| heard.inbox).collect();
        self.look_away(stopped.iter());
        let changes = vec![Change::DropInbox { ids, why: "stopped".to_owned() }];
        self.write_order(CommandTx { inbox: None, changes, reply: Vec::new(), now_ms: self.host.now_ms() }).await;
        true
    }
}
