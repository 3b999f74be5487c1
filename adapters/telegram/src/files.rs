//! Incoming files, requested by the host: streamed from the server to the path that the host provides.
//!
//! A local server with `--local` returns paths on its disk instead of serving the files. Each path is opened relative
//! to the folder that the operator configures, component by component, so neither `..` nor a symbolic link leads
//! outside. <https://core.telegram.org/bots/api#using-a-local-bot-api-server>

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use hermes_adapter_sdk::prelude::*;
use rustix::fs::{CWD, Mode, OFlags};
use serde_json::json;
use tokio::time::{Instant, timeout_at};

use crate::api::ApiError;
use crate::connection::Connection;
use crate::objects::FilePath;

impl Connection {
    /// Downloads a file for the host. If it fails, the returned attachment contains the reason.
    pub(crate) async fn fetch(&self, file: Attachment, within: Duration) -> Attachment {
        let until = Instant::now() + within;
        let fetched = timeout_at(until, self.try_fetch(&file, until)).await;
        match fetched.unwrap_or_else(|_| Err("it did not arrive in time".to_owned())) {
            Ok((media, size)) => file.fetched(media, size),
            Err(note) => file.not_fetched(note),
        }
    }

    async fn try_fetch(&self, file: &Attachment, until: Instant) -> Result<(String, u64), String> {
        if file.size > self.media_bytes_max {
            return Err(too_large(file.size, self.media_bytes_max));
        }
        let file_id = file.fetch.as_deref().unwrap_or_default();
        let info = self.file_info(file_id, until).await.map_err(|error| error.to_string())?;
        let path = info.file_path.ok_or("the server does not offer the file for download")?;
        let size = Some(file.size).filter(|size| *size > 0).or(info.file_size);
        let slot = self.host.media().create(MediaCreate::new(&file.name, &file.mime, size)).await;
        let slot = slot.map_err(|error| error.to_string())?;
        let size = match self.save(&path, Path::new(&slot.path)).await {
            Ok(size) => size,
            Err(why) => {
                // Otherwise the host deletes the file later.
                let _ = tokio::fs::remove_file(&slot.path).await;
                return Err(why);
            }
        };
        self.host.media().commit(&slot.id).await.map_err(|error| error.to_string())?;
        Ok((slot.id, size))
    }

    /// Returns the server's path of a file. A local server downloads the whole file before it answers, so this
    /// call may take all the remaining time. An interrupted call is repeated once.
    async fn file_info(&self, file_id: &str, until: Instant) -> Result<FilePath, ApiError> {
        let parameters = json!({ "file_id": file_id });
        let request = || self.api.call_within("getFile", &parameters, until.saturating_duration_since(Instant::now()));
        match request().await {
            Err(ApiError::NotSent(_) | ApiError::Unknown(_)) => request().await,
            result => result,
        }
    }

    async fn save(&self, path: &str, to: &Path) -> Result<u64, String> {
        let bytes_max = self.media_bytes_max;
        if !path.starts_with('/') {
            let fetched = match self.api.download(path, to, bytes_max).await {
                Err(ApiError::NotSent(_) | ApiError::Unknown(_)) => self.api.download(path, to, bytes_max).await,
                fetched => fetched,
            };
            return fetched.map_err(|error| error.to_string());
        }
        let folder = self.local_files.clone();
        let folder = folder.ok_or("the server stores files on its own disk; set `local_files` to their folder")?;
        let (path, to) = (PathBuf::from(path), to.to_owned());
        let copied = tokio::task::spawn_blocking(move || copy_beneath(&folder, &path, &to, bytes_max));
        copied.await.map_err(|error| error.to_string())?
    }
}

/// Returns the reason for not fetching a file that is too large.
fn too_large(size: u64, bytes_max: u64) -> String {
    let megabytes = |bytes: u64| bytes.div_ceil(1 << 20);
    if size < 1 << 20 {
        return format!("the file has {size} bytes; the limit is {bytes_max}");
    }
    format!("the file has {} MB; the limit is {} MB", megabytes(size), megabytes(bytes_max))
}

fn copy_beneath(folder: &Path, path: &Path, to: &Path, bytes_max: u64) -> Result<u64, String> {
    let unreadable = |error: io::Error| format!("the file cannot be read in `local_files`: {error}");
    let outside = || unreadable(io::Error::other("it is outside this folder"));
    let rest = path.strip_prefix(folder).map_err(|_| outside())?;
    let file = open_beneath(folder, rest).map_err(unreadable)?;
    let meta = file.metadata().map_err(unreadable)?;
    if !meta.is_file() {
        return Err(unreadable(io::Error::other("it is not a regular file")));
    }
    if meta.len() > bytes_max {
        return Err(too_large(meta.len(), bytes_max));
    }
    let write_error = |error: io::Error| format!("the file cannot be saved: {error}");
    let mut copy = OpenOptions::new().write(true).create(true).truncate(true).open(to).map_err(write_error)?;
    io::copy(&mut file.take(bytes_max), &mut copy).map_err(write_error)
}

/// Opens a file component by component, so that neither `..` nor a symbolic link leads outside.
fn open_beneath(folder: &Path, rest: &Path) -> io::Result<File> {
    let mut current = open_at(CWD, folder, OFlags::DIRECTORY)?;
    let mut steps = rest.components().peekable();
    while let Some(step) = steps.next() {
        let Component::Normal(name) = step else { return Err(io::Error::other("its path contains `..`")) };
        let kind = if steps.peek().is_some() { OFlags::DIRECTORY } else { OFlags::empty() };
        current = open_at(&current, Path::new(name), OFlags::NOFOLLOW | kind)?;
    }
    Ok(current)
}

fn open_at(folder: impl AsFd, path: &Path, flags: OFlags) -> io::Result<File> {
    // NONBLOCK: opening a named pipe must not wait for its other end.
    let flags = flags | OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    Ok(File::from(rustix::fs::openat(folder, path, flags, Mode::empty())?))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    /// Returns an empty folder for this test.
    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("hermes-telegram-{}-{name}", std::process::id()));
        if folder.exists() {
            std::fs::remove_dir_all(&folder).unwrap();
        }
        std::fs::create_dir_all(folder.join("files/bot/documents")).unwrap();
        std::fs::write(folder.join("files/bot/documents/file_1"), b"abc").unwrap();
        std::fs::write(folder.join("secret"), b"secret").unwrap();
        folder
    }

    #[test]
    fn a_file_of_the_server_is_read_beneath_its_folder_and_nowhere_else() {
        let home = folder("beneath");
        let files = home.join("files");
        symlink(home.join("secret"), files.join("bot/documents/link")).unwrap();
        symlink(&home, files.join("bot/up")).unwrap();
        rustix::fs::mkfifoat(CWD, files.join("pipe"), Mode::RWXU).unwrap();
        let to = home.join("copy");
        let read = |path: &str| copy_beneath(&files, &home.join(path), &to, 10);
        assert_eq!(read("files/bot/documents/file_1"), Ok(3));
        assert_eq!(std::fs::read(&to).unwrap(), b"abc");
        for elsewhere in [
            "secret",
            "files/../secret",
            "files/bot/documents/link",
            "files/bot/up/secret",
            "files/bot/documents",
            "files/pipe",
            "files/nothing",
        ] {
            let why = read(elsewhere).expect_err(elsewhere);
            assert!(why.contains("`local_files`"), "{elsewhere}: {why}");
        }
        assert_eq!(std::fs::read(&to).unwrap(), b"abc", "nothing of them was read");
        std::fs::remove_dir_all(home).unwrap();
    }

    #[test]
    fn a_file_that_is_too_large_is_told_with_both_sizes() {
        let home = folder("large");
        let path = home.join("files/bot/documents/file_1");
        let why = copy_beneath(&home.join("files"), &path, &home.join("copy"), 2).unwrap_err();
        assert_eq!(why, "the file has 3 bytes; the limit is 2");
        assert_eq!(too_large(73 << 20, 20 << 20), "the file has 73 MB; the limit is 20 MB");
        std::fs::remove_dir_all(home).unwrap();
    }
}
