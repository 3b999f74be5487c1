//! Outgoing files. The host opens the file and lends a copy, so an adapter needs no right to read any other file.
//!
//! A file that an agent names must be in the media folder or in `outbound_dirs`. The path is opened step by step below
//! these folders, and no step may be a link. A file that the operator names may be anywhere, because the operator can
//! read it anyway.

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Component, Path, PathBuf};

use hermes_protocol::OutMedia;
use rustix::fs::{Mode, OFlags};

use super::{Media, kind, private_folder};

/// The longest name of a file, in characters.
const NAME_CHARS_MAX: usize = 128;

/// The allowed origin of a file.
#[derive(Clone, Debug)]
pub enum From {
    /// Every path that the host's user can read; for the operator.
    Anywhere,
    /// Paths below the media folder and these folders.
    Folders(Vec<PathBuf>),
}

/// The reason for which a file is not sent.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OutError {
    /// The file cannot be opened.
    #[error("{path:?} cannot be read ({source})")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        #[source]
        source: io::Error,
    },
    /// The path is a folder, a device or a pipe.
    #[error("{path:?} is not a regular file; name a regular file")]
    NotPlain {
        /// The path.
        path: PathBuf,
    },
    /// The file is outside the allowed folders.
    #[error(
        "{path:?} is outside the folders from which files may be sent; move it into {media:?}, or add its folder to \
         `outbound_dirs` in [session]"
    )]
    Outside {
        /// The file.
        path: PathBuf,
        /// The media folder.
        media: PathBuf,
    },
    /// The file is larger than the platform or the host allows.
    #[error("{name:?} exceeds the limit of {bytes_max} bytes; send a smaller file or a link")]
    TooLarge {
        /// The file's name.
        name: String,
        /// The size in bytes, if known.
        size: Option<u64>,
        /// The limit in bytes.
        bytes_max: u64,
    },
    /// The file cannot be fetched.
    #[error("{name:?} could not be fetched: {source}")]
    NotFetched {
        /// The file's name.
        name: String,
        /// The error of the server or of the rules.
        #[source]
        source: hermes_adapter_net::fetch::FetchError,
    },
    /// The inline data is malformed.
    #[error("an inline file cannot be read ({why}); use data:<mime>;base64,<content>")]
    NotData {
        /// The fault in the data.
        why: String,
    },
    /// The copy cannot be written.
    #[error("the file cannot be copied into {folder:?} ({source}); check its free space and permissions")]
    NoCopy {
        /// The folder of the copy.
        folder: PathBuf,
        /// The error of the system.
        #[source]
        source: io::Error,
    },
}

impl Media {
    /// Lends `instance` a copy of a file; `bytes_max` is the platform's limit, 0 for none.
    ///
    /// # Errors
    ///
    /// Fails if the file is outside the allowed folders, cannot be read, or is too large.
    pub async fn lend(&self, instance: &str, path: &Path, from: From, bytes_max: u64) -> Result<OutMedia, OutError> {
        let (media, path, id) = (self.clone(), path.to_owned(), self.new_id());
        let folder = self.outgoing(instance);
        let bytes_max = self.bound(bytes_max);
        let unreadable = path.clone();
        let lent = tokio::task::spawn_blocking(move || {
            let file = media.open(&path, &from)?;
            let to = folder.join(&id);
            let size = copy(file, &path, &folder, &to, bytes_max)?;
            let name = shown_name(&path);
            Ok(OutMedia::new(id, to.to_string_lossy(), kind::of_name(&name), name, size))
        });
        let ended = |error| OutError::Unreadable { path: unreadable, source: io::Error::other(error) };
        lent.await.map_err(ended)?
    }

    fn open(&self, path: &Path, from: &From) -> Result<File, OutError> {
        let opened = match from {
            From::Anywhere => open_at(rustix::fs::CWD, path, OFlags::empty()),
            From::Folders(folders) => {
                let beneath = std::iter::once(&self.folder).chain(folders);
                let found = beneath.filter_map(|folder| Some((folder, path.strip_prefix(folder).ok()?))).next();
                let Some((folder, rest)) = found else {
                    return Err(OutError::Outside { path: path.to_owned(), media: self.folder.clone() });
                };
                open_beneath(folder, rest)
            }
        };
        let file = opened.map_err(|source| OutError::Unreadable { path: path.to_owned(), source })?;
        match file.metadata() {
            Ok(meta) if meta.is_file() => Ok(file),
            Ok(_) => Err(OutError::NotPlain { path: path.to_owned() }),
            Err(source) => Err(OutError::Unreadable { path: path.to_owned(), source }),
        }
    }

    pub(super) fn outgoing(&self, instance: &str) -> PathBuf {
        self.folder.join(instance).join("out")
    }
}

/// Opens a path step by step: neither `..` nor a link leads out of the folder.
fn open_beneath(folder: &Path, rest: &Path) -> io::Result<File> {
    let mut at = open_at(rustix::fs::CWD, folder, OFlags::DIRECTORY)?;
    let mut steps = rest.components().peekable();
    while let Some(step) = steps.next() {
        let Component::Normal(name) = step else {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "its path contains `..`"));
        };
        let folder = if steps.peek().is_some() { OFlags::DIRECTORY } else { OFlags::empty() };
        at = open_at(&at, Path::new(name), OFlags::NOFOLLOW | folder)?;
    }
    Ok(at)
}

fn open_at(folder: impl std::os::fd::AsFd, path: &Path, flags: OFlags) -> io::Result<File> {
    // NONBLOCK: opening a pipe must not wait for its other end.
    let flags = flags | OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    Ok(File::from(rustix::fs::openat(folder, path, flags, Mode::empty())?))
}

fn copy(from: File, path: &Path, folder: &Path, to: &Path, bytes_max: u64) -> Result<u64, OutError> {
    let told = from.metadata().map(|meta| meta.len()).ok();
    let too_large = |size| OutError::TooLarge { name: shown_name(path), size, bytes_max };
    if told.is_some_and(|size| size > bytes_max) {
        return Err(too_large(told));
    }
    let no_copy = |source| OutError::NoCopy { folder: folder.to_owned(), source };
    private_folder(folder).map_err(no_copy)?;
    let mut copy = OpenOptions::new().write(true).create_new(true).mode(0o600).open(to).map_err(no_copy)?;
    let size = io::copy(&mut from.take(bytes_max + 1), &mut copy);
    let refused = match size {
        Ok(size) if size <= bytes_max => return Ok(size),
        Ok(_) => too_large(None),
        Err(source) => no_copy(source),
    };
    // If the removal fails, the sweep removes the rest.
    let _ = std::fs::remove_file(to);
    Err(refused)
}

/// Renames a lent file, and sets the type that belongs to the new name.
pub fn renamed(mut file: OutMedia, name: &str) -> OutMedia {
    file.name = shown_name(Path::new(name));
    kind::of_name(&file.name).clone_into(&mut file.mime);
    file
}

/// Returns the displayed name: one line without invisible characters, cut at its beginning because the type is at its
/// end.
pub fn shown_name(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let clean: Vec<char> = name.chars().filter(|c| !c.is_control()).collect();
    let name: String = clean[clean.len().saturating_sub(NAME_CHARS_MAX)..].iter().collect();
    if name.is_empty() { "file".to_owned() } else { name }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::sync::Arc;

    use super::*;
    use hermes_system::clock::SystemClock;
    use hermes_system::rng::SystemChance;

    struct Room {
        home: tempfile::TempDir,
        media: Media,
    }

    fn room() -> Room {
        let home = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(home.path().join("media/deep")).unwrap();
        std::fs::write(home.path().join("media/deep/x.txt"), b"abc").unwrap();
        std::fs::write(home.path().join("secret.txt"), b"secret").unwrap();
        let media = Media::new(home.path().join("media"), Arc::new(SystemChance), Arc::new(SystemClock));
        Room { home, media }
    }

    impl Room {
        async fn lend(&self, path: &str, from: From, bytes_max: u64) -> Result<OutMedia, OutError> {
            self.media.lend("chat", &self.home.path().join(path), from, bytes_max).await
        }
    }

    #[tokio::test]
    async fn a_file_of_an_allowed_folder_is_lent_as_a_copy() {
        let room = room();
        let lent = room.lend("media/deep/x.txt", From::Folders(Vec::new()), 3).await.unwrap();
        assert_eq!((lent.name.as_str(), lent.mime.as_str(), lent.size), ("x.txt", "text/plain", 3));
        assert!(Path::new(&lent.path).starts_with(room.home.path().join("media/chat/out")), "{}", lent.path);
        assert_eq!(std::fs::read(&lent.path).unwrap(), b"abc");
        let also = From::Folders(vec![room.home.path().to_owned()]);
        assert!(room.lend("secret.txt", also, 0).await.is_ok(), "the operator opened that folder");
    }

    #[tokio::test]
    async fn what_lies_elsewhere_leaves_only_for_the_operator() {
        let room = room();
        let inside = || From::Folders(Vec::new());
        assert!(matches!(room.lend("secret.txt", inside(), 0).await, Err(OutError::Outside { .. })));
        let upwards = room.lend("media/deep/../../secret.txt", inside(), 0).await;
        assert!(matches!(upwards, Err(OutError::Unreadable { .. })), "{upwards:?}");
        assert_eq!(room.lend("secret.txt", From::Anywhere, 0).await.unwrap().size, 6);
    }

    #[tokio::test]
    async fn no_link_leads_out_of_a_folder() {
        let room = room();
        symlink(room.home.path().join("secret.txt"), room.home.path().join("media/link.txt")).unwrap();
        symlink(room.home.path(), room.home.path().join("media/up")).unwrap();
        for path in ["media/link.txt", "media/up/secret.txt"] {
            let refused = room.lend(path, From::Folders(Vec::new()), 0).await;
            assert!(matches!(refused, Err(OutError::Unreadable { .. })), "{path}: {refused:?}");
        }
    }

    #[tokio::test]
    async fn a_file_that_is_too_large_or_none_leaves_no_copy_behind() {
        let room = room();
        let large = room.lend("media/deep/x.txt", From::Anywhere, 2).await;
        assert!(matches!(large, Err(OutError::TooLarge { bytes_max: 2, .. })), "{large:?}");
        assert_eq!(std::fs::read_dir(room.home.path().join("media/chat/out")).map_or(0, Iterator::count), 0);
        assert!(matches!(room.lend("media/deep", From::Anywhere, 0).await, Err(OutError::NotPlain { .. })));
        assert!(matches!(room.lend("nothing", From::Anywhere, 0).await, Err(OutError::Unreadable { .. })));
    }
}
