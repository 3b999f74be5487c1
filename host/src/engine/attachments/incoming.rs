//! Files of a message that are still with its platform.
//!
//! An adapter may emit an event at once and name its files by references. This module requests them once the sender is
//! admitted and the message leads to a turn, so an unknown sender causes no work. A file that cannot be fetched is
//! missing, with its reason, and the turn continues without it.
//!
//! The row of the event keeps the references until the files are stored, so after a crash they are requested again. The
//! files of an abandoned message are removed with it.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream;
use hermes_core::file_refs::away;
use hermes_protocol::{Attachment, Event, FETCH_BYTES_MAX};
use tokio::time::timeout;

use crate::engine::attachments::is_id;
use crate::engine::runtime::Host;
use hermes_loader::AdapterHandle;

/// Files of one message that are requested; further ones are missing.
const FILES_MAX: usize = 32;

/// Files of one message that are transferred at once; other chats of the instance need slots, too.
const AT_ONCE_MAX: usize = 2;

/// Timeout of one file, from the start of its transfer.
const FILE_TIMEOUT: Duration = Duration::from_secs(30);

/// The lowest rate of a transfer, in bytes per second: a large file gets more time.
const BYTES_PER_S_MIN: u64 = 1 << 20;

/// Attempts to request a file whose adapter was unavailable.
const TRIES_MAX: usize = 2;

/// Longest wait for a link before another adapter of the instance is looked up.
const LOOK_AGAIN: Duration = Duration::from_secs(30);

/// The fetched files of a message: each reference with its replacement. Dropping it removes the files unless they are
/// kept.
pub struct Fetched {
    host: Arc<Host>,
    instance: Arc<str>,
    files: Vec<(String, Attachment)>,
    is_kept: bool,
}

impl Fetched {
    /// Creates an empty result.
    fn new(host: &Arc<Host>, instance: &Arc<str>) -> Self {
        Self { host: Arc::clone(host), instance: Arc::clone(instance), files: Vec::new(), is_kept: false }
    }

    /// Creates a result in which every file is missing for this reason.
    pub fn nothing(host: &Arc<Host>, instance: &Arc<str>, event: &Event, why: &str) -> Self {
        let mut nothing = Self::new(host, instance);
        nothing.files.extend(away(event).map(|(reference, file)| (reference, file.not_fetched(why))));
        nothing
    }

    /// Returns the replacement of each reference.
    pub fn files(&self) -> &[(String, Attachment)] {
        &self.files
    }

    /// Keeps the files, which a row names.
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

/// Requests the files of an event from the platform, each within its own deadline.
pub async fn fetch(host: Arc<Host>, instance: Arc<str>, adapter: Option<AdapterHandle>, event: Event) -> Fetched {
    let Some(adapter) = linked(&host, &instance, adapter).await else {
        return Fetched::nothing(&host, &instance, &event, "its instance no longer exists");
    };
    // A program declares its capabilities only once it has started.
    if !adapter.capabilities().fetch {
        tracing::warn!(%instance, "file without a declared capability `fetch` (adapter bug)");
        return Fetched::nothing(&host, &instance, &event, "its adapter cannot fetch files");
    }
    let bytes_max = host.media.bytes_max();
    let mut fetched = Fetched::new(&host, &instance);
    let one = |(at, (reference, file)): (usize, (String, Attachment))| {
        let adapter = &adapter;
        async move { (reference, if at < FILES_MAX { bring(adapter, file, bytes_max).await } else { beyond(file) }) }
    };
    let mut coming = stream::iter(away(&event).enumerate().map(one)).buffered(AT_ONCE_MAX);
    while let Some((reference, file)) = coming.next().await {
        // A named file may wait longer here than one that no event names.
        host.media.named(&instance, std::slice::from_ref(&file));
        fetched.files.push((reference, file));
    }
    drop(coming);
    fetched
}

/// Returns the adapter of an instance once it has a link, or the adapter that has replaced it meanwhile.
async fn linked(host: &Host, instance: &str, mut adapter: Option<AdapterHandle>) -> Option<AdapterHandle> {
    loop {
        let waiting = adapter?;
        if timeout(LOOK_AGAIN, waiting.online()).await.is_ok() {
            return Some(waiting);
        }
        adapter = host.adapter(instance);
    }
}

async fn bring(adapter: &AdapterHandle, file: Attachment, bytes_max: u64) -> Attachment {
    let reference = file.fetch.as_deref().unwrap_or_default();
    if reference.len() > FETCH_BYTES_MAX {
        return file.not_fetched(format!("the reference of its adapter is longer than {FETCH_BYTES_MAX} bytes"));
    }
    let within = FILE_TIMEOUT + Duration::from_secs(file.size.min(bytes_max) / BYTES_PER_S_MIN);
    let brought = ask(adapter, &file, within).await;
    if let Some(note) = &brought.note {
        tracing::info!(instance = %adapter.instance(), size = file.size, note, "file not fetched");
    }
    brought
}

async fn ask(adapter: &AdapterHandle, file: &Attachment, within: Duration) -> Attachment {
    let mut why = String::new();
    for _ in 0..TRIES_MAX {
        if timeout(within, adapter.online()).await.is_err() {
            break;
        }
        // The timeout starts once there is a slot.
        let _room = adapter.room_to_fetch().await;
        match adapter.fetch(file, within).await {
            Ok(brought) => return checked(file, brought),
            // The link or the adapter was lost during the transfer.
            Err(error) if error.code == "unavailable" => why = error.message,
            Err(error) if error.code == "timeout" => return file.clone().not_fetched("the transfer timed out"),
            Err(error) => return file.clone().not_fetched(error.message),
        }
    }
    file.clone().not_fetched(why)
}

/// Returns the answer of an adapter in the form that the agent may see.
fn checked(file: &Attachment, brought: Attachment) -> Attachment {
    match brought.media {
        Some(id) if is_id(&id) => {
            let known = |new: String, old: &String| if new.is_empty() { old.clone() } else { new };
            let (mime, name) = (known(brought.mime, &file.mime), known(brought.name, &file.name));
            Attachment::new(id, file.kind.clone(), mime, name, brought.size)
        }
        Some(_) => file.clone().not_fetched("its adapter wrote it outside the media folder"),
        None => file.clone().not_fetched(brought.note.unwrap_or_else(|| "its adapter did not fetch it".to_owned())),
    }
}

fn beyond(file: Attachment) -> Attachment {
    file.not_fetched(format!("only {FILES_MAX} files of a message are fetched"))
}
