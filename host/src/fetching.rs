//! Files of a message that are still with its platform.
//!
//! An adapter may emit an event at once and name its files by a reference. They are
//! asked for here, once the sender is admitted and the message leads to a turn: a
//! stranger makes nobody work. What cannot be had is missing, with its reason, and
//! the turn goes on without it.
//!
//! The row of the event keeps the references until the files are there, so after a
//! crash they are asked for again. What was fetched for a message that is given up
//! goes with it.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream;
use hermes_protocol::{Attachment, Event, FETCH_BYTES_MAX};
use tokio::time::{Instant, timeout_at};

use crate::host::Host;
use crate::media::is_id;
use crate::plugins::{AdapterHandle, FETCH_GRACE};

/// Files of one message that are asked for; those beyond are missing.
const FILES_MAX: usize = 32;

/// Files of one message that are on their way at once: another chat of the instance finds room beside them.
const AT_ONCE_MAX: usize = 2;

/// How long the files of one message may take.
const FILES_TIMEOUT: Duration = Duration::from_secs(30);

/// And how fast they have to come at least, besides.
const BYTES_PER_S_MIN: u64 = 1 << 20;

/// How often a file is asked for whose adapter was not there.
const TRIES_MAX: usize = 2;

/// What was fetched for a message: each reference, and what stands in its place. Unless it is kept, its files go.
pub struct Fetched {
    host: Arc<Host>,
    instance: Arc<str>,
    files: Vec<(String, Attachment)>,
    is_kept: bool,
}

impl Fetched {
    /// Nothing yet.
    fn new(host: &Arc<Host>, instance: &Arc<str>) -> Self {
        Self { host: Arc::clone(host), instance: Arc::clone(instance), files: Vec::new(), is_kept: false }
    }

    /// That nothing can be had, and why.
    pub fn nothing(host: &Arc<Host>, instance: &Arc<str>, event: &Event, why: &str) -> Self {
        let mut nothing = Self::new(host, instance);
        nothing.files.extend(away(event).map(|(reference, file)| (reference, file.not_fetched(why))));
        nothing
    }

    /// What stands in place of each reference.
    pub fn files(&self) -> &[(String, Attachment)] {
        &self.files
    }

    /// A row names them: they stay.
    pub fn keep(mut self) {
        self.is_kept = true;
        self.host.media.admitted(&self.instance, &self.attachments());
    }

    fn attachments(&self) -> Vec<Attachment> {
        self.files.iter().map(|(_, file)| file.clone()).collect()
    }
}

impl Drop for Fetched {
    fn drop(&mut self) {
        if !self.is_kept {
            self.host.media.let_go(&self.instance, &self.attachments());
        }
    }
}

/// Whether a file of this event is still with its platform.
pub fn has_away(event: &Event) -> bool {
    event.attachments.iter().any(is_away)
}

/// Puts what was fetched in place of its references.
pub fn put(mut event: Event, fetched: &[(String, Attachment)]) -> Event {
    for file in event.attachments.iter_mut().filter(|file| is_away(file)) {
        let found = fetched.iter().find(|(reference, _)| file.fetch.as_ref() == Some(reference));
        if let Some((_, found)) = found {
            file.clone_from(found);
        }
    }
    event
}

/// Asks the platform for the files of an event, within one deadline that begins once the adapter has a link.
pub async fn fetch(host: Arc<Host>, instance: Arc<str>, adapter: Option<AdapterHandle>, event: Event) -> Fetched {
    let Some(adapter) = adapter else {
        return Fetched::nothing(&host, &instance, &event, "the instance it came through is not there any more");
    };
    if !adapter.capabilities().fetch {
        tracing::warn!(%instance, "the adapter names a file that it cannot bring; its author has to declare `fetch`");
        return Fetched::nothing(&host, &instance, &event, "its adapter cannot bring it");
    }
    adapter.online().await;
    let bytes: u64 = away(&event).map(|(_, file)| file.size.min(host.media.bytes_max())).sum();
    let until = Instant::now() + FILES_TIMEOUT + Duration::from_secs(bytes / BYTES_PER_S_MIN);
    let mut fetched = Fetched::new(&host, &instance);
    let one = |(at, (reference, file)): (usize, (String, Attachment))| {
        let adapter = &adapter;
        async move { (reference, if at < FILES_MAX { bring(adapter, file, until).await } else { beyond(file) }) }
    };
    let mut coming = stream::iter(away(&event).enumerate().map(one)).buffered(AT_ONCE_MAX);
    while let Some(one) = coming.next().await {
        fetched.files.push(one);
    }
    drop(coming);
    fetched
}

async fn bring(adapter: &AdapterHandle, file: Attachment, until: Instant) -> Attachment {
    let reference = file.fetch.as_deref().unwrap_or_default();
    if reference.len() > FETCH_BYTES_MAX {
        return file.not_fetched(format!("its adapter says in more than {FETCH_BYTES_MAX} bytes where it is"));
    }
    // The adapter's own reason may come a little later.
    let brought = timeout_at(until + FETCH_GRACE, ask(adapter, &file, until)).await;
    let brought = brought.unwrap_or_else(|_| file.clone().not_fetched("it did not arrive in time"));
    if let Some(note) = &brought.note {
        tracing::info!(instance = %adapter.instance(), size = file.size, note, "a file was not fetched");
    }
    brought
}

async fn ask(adapter: &AdapterHandle, file: &Attachment, until: Instant) -> Attachment {
    let mut why = String::new();
    for _ in 0..TRIES_MAX {
        adapter.online().await;
        let _room = adapter.room_to_fetch().await;
        match adapter.fetch(file, until.saturating_duration_since(Instant::now())).await {
            Ok(brought) => return checked(file, brought),
            // Its link or its life was lost over it.
            Err(error) if error.code == "unavailable" => why = error.message,
            Err(error) => return file.clone().not_fetched(error.message),
        }
    }
    file.clone().not_fetched(why)
}

/// What an adapter answered, as the agent may hear of it.
fn checked(file: &Attachment, brought: Attachment) -> Attachment {
    match brought.media {
        Some(id) if is_id(&id) => {
            let known = |new: String, old: &String| if new.is_empty() { old.clone() } else { new };
            let (mime, name) = (known(brought.mime, &file.mime), known(brought.name, &file.name));
            Attachment::new(id, file.kind.clone(), mime, name, brought.size)
        }
        Some(_) => file.clone().not_fetched("its adapter wrote it to no place of the host's"),
        None => file.clone().not_fetched(brought.note.unwrap_or_else(|| "its adapter did not bring it".to_owned())),
    }
}

fn beyond(file: Attachment) -> Attachment {
    file.not_fetched(format!("of one message {FILES_MAX} files are fetched"))
}

fn is_away(file: &Attachment) -> bool {
    file.media.is_none() && file.fetch.is_some()
}

/// The files of an event that are still with its platform, each with its reference.
fn away(event: &Event) -> impl Iterator<Item = (String, Attachment)> {
    let files = event.attachments.iter().filter(|file| is_away(file));
    files.filter_map(|file| Some((file.fetch.clone()?, file.clone())))
}
