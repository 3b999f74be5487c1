//! Files. For an incoming file the host names the path, the adapter writes, and the host checks. For an outgoing file
//! the host opens it and lends a copy ([`lend`]). Files that nothing names any more are removed ([`sweep`]).
//!
//! An adapter receives a path below its own folder and nothing else. The displayed name never becomes part of the path.

pub mod described;
pub mod fetch;
pub mod incoming;
mod kind;
pub mod lend;
pub mod outgoing;
pub mod pdf;
mod sweep;
pub mod text;
mod waiting;

use std::io::Read;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::sync::Arc;

use hermes_core::limits::FILE_BYTES_MAX;
use hermes_protocol::{Attachment, CallError, MediaCreate, MediaSlot};
use serde::Serialize;
use sha2::{Digest, Sha256};
use tokio::sync::Semaphore;

use hermes_core::clock::Clock;
use hermes_store::MediaFile;
use hermes_system::rng::Chance;
use waiting::Waiting;

/// The keeper of the media folder.
#[derive(Clone)]
pub struct Media {
    folder: PathBuf,
    chance: Arc<dyn Chance>,
    clock: Arc<dyn Clock>,
    waiting: Arc<Waiting>,
    /// Slots for the extraction of texts.
    extractions: Arc<Semaphore>,
    /// The largest incoming or outgoing file, in bytes.
    bytes_max: u64,
}

/// The size and hash of a committed file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Committed {
    /// Its size in bytes.
    pub size: u64,
    /// SHA-256 of its content, in hex.
    pub sha256: String,
}

impl Media {
    /// Creates the keeper of `folder`, which need not exist yet.
    pub fn new(folder: PathBuf, chance: Arc<dyn Chance>, clock: Arc<dyn Clock>) -> Self {
        let extractions = Arc::new(Semaphore::new(pdf::AT_ONCE_MAX));
        Self { folder, chance, clock, waiting: Arc::default(), extractions, bytes_max: FILE_BYTES_MAX }
    }

    /// Returns the same keeper with this limit on the size of a file, in bytes.
    pub fn up_to(self, bytes_max: u64) -> Self {
        Self { bytes_max, ..self }
    }

    /// Returns the size of the largest incoming or outgoing file, in bytes.
    pub fn bytes_max(&self) -> u64 {
        self.bytes_max
    }

    /// Returns the limit of a platform, but at most that of the host; 0: the platform has none.
    fn bound(&self, bytes_max: u64) -> u64 {
        if bytes_max == 0 { self.bytes_max } else { bytes_max.min(self.bytes_max) }
    }

    /// Creates the path of one incoming file of `instance`.
    ///
    /// # Errors
    ///
    /// Fails if the announced size is too large, the folder cannot be created, or too many files wait whose senders
    /// were not checked yet.
    pub async fn create(&self, instance: &str, wanted: MediaCreate) -> Result<MediaSlot, CallError> {
        if wanted.size.is_some_and(|size| size > self.bytes_max) {
            return Err(too_large(self.bytes_max));
        }
        let id = self.new_id();
        let folder = self.incoming(instance);
        private_folder(&folder)
            .map_err(|error| CallError::new("unavailable", format!("the media folder cannot be created: {error}")))?;
        let begun = self.waiting.begins(instance, &id, wanted.size.unwrap_or(0), self.clock.now_ms());
        // Nothing waits for the removal; the sweep removes what remains.
        drop(unlink(begun.gone.into_iter().map(|gone| folder.join(gone))));
        if !begun.has_room {
            let why = "too many files of this instance wait for the access check of their senders; try again later";
            return Err(CallError::new("busy", why));
        }
        let path = folder.join(&id);
        Ok(MediaSlot::new(id, path.to_string_lossy()))
    }

    /// Checks a written file. A refused file is removed, and no event can name it.
    ///
    /// # Errors
    ///
    /// Fails if the file is missing, is no regular file, or is too large.
    pub async fn commit(&self, instance: &str, id: &str) -> Result<Committed, CallError> {
        if !is_id(id) {
            return Err(CallError::new("invalid", "the id was not issued by media.create"));
        }
        let path = self.incoming(instance).join(id);
        let (bytes_max, written) = (self.bytes_max, path.clone());
        let checked = tokio::task::spawn_blocking(move || check(written, bytes_max)).await;
        let checked = checked.unwrap_or_else(|_| Err(CallError::new("failed", "the file could not be checked")));
        match &checked {
            Ok(committed) => self.waiting.measured(instance, id, committed.size),
            Err(_) => {
                self.waiting.ends(instance, id);
                unlink([path]).await;
            }
        }
        checked
    }

    /// Releases files whose sender was admitted.
    pub fn admitted<'f>(&self, instance: &str, files: impl IntoIterator<Item = &'f Attachment>) {
        for id in files.into_iter().filter_map(|file| file.media.as_deref()) {
            self.waiting.ends(instance, id);
        }
    }

    /// Notes the files that a stored event names.
    pub fn named<'f>(&self, instance: &str, files: impl IntoIterator<Item = &'f Attachment>) {
        for id in files.into_iter().filter_map(|file| file.media.as_deref()) {
            self.waiting.is_named(instance, id);
        }
    }

    /// Removes the files of a dropped event. Only files without an admitted sender can be removed this way, whatever an
    /// event names.
    pub fn let_go<'f>(&self, instance: &str, files: impl IntoIterator<Item = &'f Attachment>) {
        self.remove(instance, files, |id| self.waiting.ends(instance, id));
    }

    /// Removes the new files of an event that is stored already.
    pub fn let_go_again<'f>(&self, instance: &str, files: impl IntoIterator<Item = &'f Attachment>) {
        self.remove(instance, files, |id| self.waiting.ends_unnamed(instance, id));
    }

    fn remove<'f>(&self, instance: &str, files: impl IntoIterator<Item = &'f Attachment>, goes: impl Fn(&str) -> bool) {
        let folder = self.incoming(instance);
        let ids = files.into_iter().filter_map(|file| file.media.as_deref());
        let gone: Vec<PathBuf> = ids.filter(|id| is_id(id) && goes(id)).map(|id| folder.join(id)).collect();
        // As above.
        drop(unlink(gone));
    }

    /// Removes the files of a deleted conversation.
    pub async fn discard(&self, files: Vec<MediaFile>) {
        let files = files.into_iter().filter(|file| is_id(&file.id) && !file.instance.contains('/'));
        unlink(files.flat_map(|file| match file.incoming {
            true => {
                let path = self.incoming(&file.instance).join(file.id);
                vec![text::extracted(&path), path]
            }
            false => vec![self.outgoing(&file.instance).join(file.id)],
        }))
        .await;
    }

    /// Removes files that waited too long for an event.
    async fn forget(&self, now_ms: i64) {
        let gone = self.waiting.forget(now_ms);
        unlink(gone.into_iter().map(|(instance, id)| self.incoming(&instance).join(id))).await;
    }

    fn new_id(&self) -> String {
        let mut random = [0; 12];
        self.chance.fill(&mut random);
        hex(&random)
    }

    /// Returns the folder of the incoming files of an instance.
    pub fn incoming(&self, instance: &str) -> PathBuf {
        self.folder.join(instance).join("in")
    }
}

/// Removes files in the background, starting at once; the returned future ends with the removal.
fn unlink(gone: impl IntoIterator<Item = PathBuf>) -> impl Future<Output = ()> {
    let gone: Vec<PathBuf> = gone.into_iter().collect();
    // Without a runtime the process ends; the next run sweeps the rest.
    let runtime = tokio::runtime::Handle::try_current().ok().filter(|_| !gone.is_empty());
    let removal = runtime
        .map(|runtime| runtime.spawn_blocking(move || gone.iter().for_each(|path| drop(std::fs::remove_file(path)))));
    async {
        if let Some(removal) = removal {
            // The sweep removes what remains.
            drop(removal.await);
        }
    }
}

/// Returns whether `id` has the form of an id that `create` returns.
pub fn is_id(id: &str) -> bool {
    id.len() == 24 && id.bytes().all(|c| c.is_ascii_hexdigit())
}

fn too_large(bytes_max: u64) -> CallError {
    let why = format!("the host takes files of at most {bytes_max} bytes (`file_bytes_max` in [limits])");
    CallError::new("too_large", why)
}

fn check(path: PathBuf, bytes_max: u64) -> Result<Committed, CallError> {
    let missing = |error: std::io::Error| CallError::new("not_found", format!("the file does not exist: {error}"));
    // A link would let an adapter name any file of the host's user.
    let meta = std::fs::symlink_metadata(&path).map_err(missing)?;
    if !meta.is_file() {
        return Err(CallError::new("invalid", "the path is not a regular file"));
    }
    let file = open_plain(&path).map_err(missing)?;
    // The check applies to the open file, because the name may lead elsewhere by now.
    let meta = file.metadata().map_err(missing)?;
    if !meta.is_file() {
        return Err(CallError::new("invalid", "the path is not a regular file"));
    }
    // A second hard link may lead to a file from outside, which can still be changed there.
    if meta.nlink() > 1 {
        return Err(CallError::new(
            "invalid",
            format!("the file has {} hard links; write a separate file or a copy", meta.nlink()),
        ));
    }
    let mut file = file.take(bytes_max.saturating_add(1));
    let mut hasher = Sha256::new();
    let mut size = 0;
    let mut buffer = vec![0; 64 << 10];
    loop {
        let n = file.read(&mut buffer).map_err(missing)?;
        if n == 0 {
            break;
        }
        size += n as u64;
        hasher.update(&buffer[..n]);
    }
    if size > bytes_max {
        return Err(too_large(bytes_max));
    }
    Ok(Committed { size, sha256: hex(&hasher.finalize()) })
}

/// Opens a file for reading. Does not follow a link and does not wait for the other end of a pipe.
fn open_plain(path: &std::path::Path) -> std::io::Result<std::fs::File> {
    use rustix::fs::{Mode, OFlags};
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    Ok(rustix::fs::open(path, flags, Mode::empty())?.into())
}

/// Creates a folder and its parents, which only this user can enter.
fn private_folder(folder: &std::path::Path) -> std::io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        // Writing to a String does not fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use hermes_system::clock::SystemClock;
    use hermes_system::rng::SystemChance;

    #[tokio::test]
    async fn a_written_file_is_measured_and_a_link_is_refused() {
        let home = tempfile::tempdir().unwrap();
        let media = Media::new(home.path().join("media"), Arc::new(SystemChance), Arc::new(SystemClock));
        let slot = media.create("chat", MediaCreate::new("../../x.png", "image/png", Some(3))).await.unwrap();
        assert!(slot.path.starts_with(&*home.path().join("media/chat/in").to_string_lossy()), "{}", slot.path);
        assert_eq!(media.commit("chat", &slot.id).await.unwrap_err().code, "not_found");
        std::fs::write(&slot.path, b"abc").unwrap();
        let committed = media.commit("chat", &slot.id).await.unwrap();
        assert_eq!(committed.size, 3);
        assert!(committed.sha256.starts_with("ba7816bf"));
        std::fs::remove_file(&slot.path).unwrap();
        std::os::unix::fs::symlink("/etc/passwd", &slot.path).unwrap();
        assert_eq!(media.commit("chat", &slot.id).await.unwrap_err().code, "invalid");
    }

    #[tokio::test]
    async fn a_file_with_a_second_name_is_refused_and_what_it_names_stays() {
        let home = tempfile::tempdir().unwrap();
        let media = Media::new(home.path().join("media"), Arc::new(SystemChance), Arc::new(SystemClock));
        let slot = media.create("chat", MediaCreate::new("x", "text/plain", None)).await.unwrap();
        let outside = home.path().join("outside");
        std::fs::write(&outside, b"not the adapter's").unwrap();
        std::fs::hard_link(&outside, &slot.path).unwrap();
        let refused = media.commit("chat", &slot.id).await.unwrap_err();
        assert_eq!(refused.code, "invalid");
        assert!(refused.message.contains("2 hard links"), "{refused}");
        assert!(outside.exists());
    }

    #[tokio::test]
    async fn what_is_refused_or_never_arrives_leaves_no_file_behind() {
        let home = tempfile::tempdir().unwrap();
        let clock = Arc::new(SystemClock);
        let media = Media::new(home.path().join("media"), Arc::new(SystemChance), clock.clone()).up_to(2);
        let create = async || media.create("chat", MediaCreate::new("x", "text/plain", None)).await.unwrap();
        let (large, cut, whole) = (create().await, create().await, create().await);
        for slot in [&large, &cut, &whole] {
            std::fs::write(&slot.path, b"ab").unwrap();
        }
        std::fs::write(&large.path, b"abc").unwrap();
        assert_eq!(media.commit("chat", &large.id).await.unwrap_err().code, "too_large");
        media.commit("chat", &whole.id).await.unwrap();
        media.forget(clock.now_ms() + 20 * 60 * 1000).await;
        let there = |slot: &MediaSlot| std::path::Path::new(&slot.path).exists();
        assert_eq!([&large, &cut, &whole].map(there), [false, false, true], "an event may still name the last");
    }

    #[tokio::test]
    async fn the_extracted_text_of_a_file_goes_with_it() {
        let home = tempfile::tempdir().unwrap();
        let media = Media::new(home.path().join("media"), Arc::new(SystemChance), Arc::new(SystemClock));
        let create = async || media.create("chat", MediaCreate::new("x", "application/pdf", None)).await.unwrap();
        let (gone, stays) = (create().await, create().await);
        for slot in [&gone, &stays] {
            std::fs::write(&slot.path, b"file").unwrap();
            std::fs::write(text::extracted(slot.path.as_ref()), b"text").unwrap();
        }
        media.discard(vec![MediaFile { instance: "chat".to_owned(), incoming: true, id: gone.id.clone() }]).await;
        let entries = std::fs::read_dir(media.incoming("chat")).unwrap();
        let mut left: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        left.sort();
        assert_eq!(left, [stays.id.clone(), format!("{}.txt", stays.id)]);
    }

    #[tokio::test]
    async fn an_id_that_leaves_the_folder_is_refused() {
        let media = Media::new(PathBuf::from("/nowhere"), Arc::new(SystemChance), Arc::new(SystemClock));
        assert_eq!(media.commit("chat", "../../../../etc/passwd").await.unwrap_err().code, "invalid");
    }
}
