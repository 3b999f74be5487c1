//! The checks of library files, and the private copies that are loaded in their place.
//!
//! A copy is named by the hash of the copied bytes, so a file that changes during the read is either refused or loaded
//! as it was read. A copy is never written again: overwriting a mapped library crashes the process.

use std::{
    fs::{self, File, OpenOptions},
    io::{Read, Seek, Write},
    os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use rustix::fs::{FlockOperation, Mode, OFlags};
use sha2::{Digest, Sha256};

use super::{LoadError, elf::FILE_BYTES_MAX};

/// Mode bit: others may write.
const WRITE_OTHERS: u32 = 0o002;
/// Mode bit: the group may write.
const WRITE_GROUP: u32 = 0o020;
/// Mode bit: only owners may remove files of this folder.
const STICKY: u32 = 0o1000;
/// Attempts to make a copy that another process collects at once.
const COPIES_MAX: usize = 3;
/// Bytes copied at a time.
const CHUNK_BYTES: usize = 128 * 1024;

/// An open file that passed the checks of type, owner and mode.
#[derive(Debug)]
pub(super) struct Judged {
    /// The path with links resolved.
    pub(super) path: PathBuf,
    /// The file, open for reading. Copies read from it.
    pub(super) file: File,
}

/// Opens `path` if it is a regular file, stays in its folder and cannot be written by others.
pub(super) fn judge(path: &Path) -> Result<Judged, LoadError> {
    let unreadable = |error: std::io::Error| LoadError::Unreadable { path: path.to_owned(), why: error.to_string() };
    let folder = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let folder = fs::canonicalize(folder).map_err(unreadable)?;
    let real = match fs::canonicalize(path) {
        Ok(real) => real,
        Err(_) if fs::symlink_metadata(path).is_ok() => {
            return Err(LoadError::NotRegular { path: path.to_owned() });
        }
        Err(error) => return Err(unreadable(error)),
    };
    if !real.starts_with(&folder) {
        return Err(LoadError::OutsideFolder { path: path.to_owned(), target: real });
    }
    if !fs::metadata(&real).map_err(unreadable)?.is_file() {
        return Err(LoadError::NotRegular { path: path.to_owned() });
    }
    // NOFOLLOW and NONBLOCK: since the checks above, the path may have been replaced by a link or a pipe.
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::open(&real, flags, Mode::empty()).map_err(|error| unreadable(error.into()))?);
    let meta = file.metadata().map_err(unreadable)?;
    if !meta.is_file() {
        return Err(LoadError::NotRegular { path: path.to_owned() });
    }
    judge_mode(&real, meta.uid(), meta.gid(), meta.mode())?;
    let inside = fs::metadata(&folder).map_err(unreadable)?;
    // In a sticky folder others can add files, which the owner check detects, but cannot replace ours.
    if inside.mode() & STICKY == 0 {
        judge_mode(&folder, inside.uid(), inside.gid(), inside.mode())?;
    }
    Ok(Judged { path: real, file })
}

fn judge_mode(path: &Path, uid: u32, gid: u32, mode: u32) -> Result<(), LoadError> {
    let path = path.to_owned();
    if uid != 0 && uid != rustix::process::geteuid().as_raw() {
        return Err(LoadError::ForeignOwner { path, uid });
    }
    if mode & WRITE_OTHERS != 0 {
        return Err(LoadError::WorldWritable { path });
    }
    if mode & WRITE_GROUP != 0 {
        let passwd = fs::read_to_string("/etc/passwd").unwrap_or_default();
        let group = fs::read_to_string("/etc/group").unwrap_or_default();
        if !is_private_group(&passwd, &group, uid, gid) {
            return Err(LoadError::GroupWritable { path });
        }
    }
    Ok(())
}

/// Returns `true` if `gid` is the private group of the user `uid`: named like the user, without other members.
fn is_private_group(passwd: &str, group: &str, uid: u32, gid: u32) -> bool {
    let mut owner = None;
    for line in passwd.lines() {
        let fields: Vec<&str> = line.split(':').collect();
        let [name, _, user, primary, ..] = fields[..] else { continue };
        if user.parse() == Ok(uid) {
            owner = owner.or(Some(name));
        } else if primary.parse() == Ok(gid) {
            return false;
        }
    }
    let Some(owner) = owner else { return false };
    group.lines().any(|line| {
        let fields: Vec<&str> = line.split(':').collect();
        let [name, _, number, members] = fields[..] else { return false };
        number.parse() == Ok(gid)
            && name == owner
            && members.split(',').all(|member| member.is_empty() || member == owner)
    })
}

/// A private copy, named by the hash of its bytes.
#[derive(Clone, Debug)]
pub(super) struct PrivateCopy {
    /// The path of the copy.
    pub(super) path: PathBuf,
    /// The hash, in hex.
    pub(super) sha256: String,
    /// `true` if this call created it.
    pub(super) fresh: bool,
    /// The open file that holds the shared lock. A held copy is not collected.
    pub(super) held: Arc<File>,
}

/// Returns the folder of private copies below a home.
pub(super) fn copies(home: &Path) -> PathBuf {
    home.join("run").join("plugins")
}

/// Copies a checked file to `<home>/run/plugins/<sha256>.so`.
pub(super) fn private_copy(judged: &mut Judged, home: &Path) -> Result<PrivateCopy, LoadError> {
    let folder = copies(home);
    for _ in 0..COPIES_MAX {
        let copied = copy(&mut judged.file, &folder).map_err(|failed| match failed {
            Failed::Reading(error) => LoadError::Unreadable { path: judged.path.clone(), why: error.to_string() },
            Failed::Writing(error) => LoadError::Unwritable {
                what: format!("the private copy of {}", judged.path.display()),
                path: folder.clone(),
                why: error.to_string(),
            },
        })?;
        if let Some(copy) = copied {
            return Ok(copy);
        }
    }
    let why = "each new copy was removed before it could be used".to_owned();
    Err(LoadError::Unwritable { what: "a private copy".to_owned(), path: folder, why })
}

/// The side of a copy that failed.
enum Failed {
    Reading(std::io::Error),
    Writing(std::io::Error),
}

/// Makes one copy. `None`: another process collected the copy before it could be held.
fn copy(from: &mut File, folder: &Path) -> Result<Option<PrivateCopy>, Failed> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    from.rewind().map_err(Failed::Reading)?;
    private_folder(folder).map_err(Failed::Writing)?;
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let temporary = folder.join(format!(".{}-{number}.tmp", std::process::id()));
    let copied = copy_to(from, &temporary).and_then(|sha256| {
        let path = folder.join(format!("{sha256}.so"));
        place(&temporary, &path, folder, sha256).map_err(Failed::Writing)
    });
    if copied.is_err() {
        // The first error is reported. The next start removes a temporary file that stays.
        let _ = fs::remove_file(&temporary);
    }
    copied
}

fn place(temporary: &Path, path: &Path, folder: &Path, sha256: String) -> std::io::Result<Option<PrivateCopy>> {
    // An existing copy was complete when it was renamed into place, and may be mapped, so it is never written to.
    if let Some(held) = hold(path)? {
        if sha256_of(&held)? == sha256 {
            fs::remove_file(temporary)?;
            return Ok(Some(PrivateCopy { path: path.to_owned(), sha256, fresh: false, held: Arc::new(held) }));
        }
        tracing::warn!(target: "plugins", "replacing the private copy {}, whose bytes do not match its \
                                           hash", path.display());
    }
    fs::rename(temporary, path)?;
    File::open(folder)?.sync_all()?;
    let copy = |held| PrivateCopy { path: path.to_owned(), sha256, fresh: true, held: Arc::new(held) };
    Ok(hold(path)?.map(copy))
}

/// Protects a copy from being collected. `None`: there is no copy, or it is being collected.
fn hold(path: &Path) -> std::io::Result<Option<File>> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    match rustix::fs::flock(&file, FlockOperation::NonBlockingLockShared) {
        // The copy may have been removed between the open and the lock.
        Ok(()) if file.metadata()?.nlink() > 0 => Ok(Some(file)),
        Ok(()) | Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn copy_to(from: &mut File, temporary: &Path) -> Result<String, Failed> {
    let to = OpenOptions::new().write(true).create_new(true).mode(0o600).open(temporary);
    let mut to = to.map_err(Failed::Writing)?;
    let mut hash = Sha256::new();
    let mut chunk = vec![0; CHUNK_BYTES];
    let mut total = 0_u64;
    loop {
        let read = from.read(&mut chunk).map_err(Failed::Reading)?;
        if read == 0 {
            break;
        }
        total += read as u64;
        if total > FILE_BYTES_MAX {
            let why = format!("the file is larger than {FILE_BYTES_MAX} bytes");
            return Err(Failed::Reading(std::io::Error::other(why)));
        }
        hash.update(&chunk[..read]);
        to.write_all(&chunk[..read]).map_err(Failed::Writing)?;
    }
    to.set_permissions(fs::Permissions::from_mode(0o400)).map_err(Failed::Writing)?;
    to.sync_all().map_err(Failed::Writing)?;
    Ok(hex(&hash.finalize()))
}

/// Creates a folder and its missing parents with mode 0700.
pub(super) fn private_folder(folder: &Path) -> std::io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

/// Creates and returns the folder for an instance's own files. The host never removes it.
pub(super) fn data_folder(home: &Path, instance: &str) -> std::io::Result<PathBuf> {
    let folder = home.join("data").join(instance);
    private_folder(&folder)?;
    // The mode may differ after a restore from a backup.
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o700))?;
    Ok(folder)
}

/// Removes the temporary files of incomplete copies.
pub(super) fn sweep(home: &Path) {
    let Ok(entries) = fs::read_dir(copies(home)) else { return };
    let own = format!(".{}-", std::process::id());
    for entry in entries.flatten() {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if name.ends_with(".tmp") && !name.starts_with(&own) {
            // A temporary file that stays only uses disk space.
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// Removes the copies that neither this process nor another one holds.
pub(super) fn collect(home: &Path) {
    let Ok(entries) = fs::read_dir(copies(home)) else { return };
    for path in entries.flatten().map(|entry| entry.path()) {
        if path.extension().is_none_or(|extension| extension != "so") {
            continue;
        }
        let Ok(file) = File::open(&path) else { continue };
        if rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok() {
            // A copy that stays only uses disk space.
            let _ = fs::remove_file(&path);
        }
    }
}

/// Returns the SHA-256 of a file, in hex.
pub(super) fn sha256(path: &Path) -> std::io::Result<String> {
    sha256_of(&File::open(path)?)
}

/// Returns the SHA-256 of an open file, in hex.
fn sha256_of(mut file: &File) -> std::io::Result<String> {
    file.rewind()?;
    let mut hash = Sha256::new();
    let mut chunk = vec![0; CHUNK_BYTES];
    loop {
        let read = file.read(&mut chunk)?;
        if read == 0 {
            return Ok(hex(&hash.finalize()));
        }
        hash.update(&chunk[..read]);
    }
}

/// Encodes bytes as lower-case hex.
pub(super) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        write!(text, "{byte:02x}").expect("writing into a String cannot fail");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const PASSWD: &str = "root:x:0:0:root:/:/bin/sh\nann:x:1000:1000::/:/bin/sh\nbob:x:1001:100::/:/bin/sh\n";
    const GROUP: &str = "root:x:0:\nann:x:1000:\nusers:x:100:ann\nshared:x:1002:ann,bob\n";

    #[test]
    fn a_group_named_like_its_only_member_is_private() {
        assert!(is_private_group(PASSWD, GROUP, 1000, 1000));
        assert!(is_private_group(PASSWD, GROUP, 0, 0));
    }

    #[test]
    fn a_group_with_another_member_is_shared() {
        assert!(!is_private_group(PASSWD, GROUP, 1000, 1002));
        assert!(!is_private_group(PASSWD, GROUP, 1000, 100));
        assert!(!is_private_group(PASSWD, "ann:x:1000:bob\n", 1000, 1000));
    }

    #[test]
    fn a_group_that_is_somebody_elses_primary_group_is_shared() {
        let passwd = format!("{PASSWD}eve:x:1003:1000::/:/bin/sh\n");
        assert!(!is_private_group(&passwd, GROUP, 1000, 1000));
    }

    #[test]
    fn an_unknown_owner_has_no_private_group() {
        assert!(!is_private_group(PASSWD, GROUP, 4242, 4242));
    }

    #[test]
    fn the_same_bytes_are_copied_once() {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join("x.so");
        fs::write(&file, b"bytes").unwrap();
        let first = private_copy(&mut judge(&file).unwrap(), home.path()).unwrap();
        let second = private_copy(&mut judge(&file).unwrap(), home.path()).unwrap();
        assert_eq!(first.path, second.path);
        assert!(first.fresh && !second.fresh);
        assert_eq!(first.sha256, sha256(&file).unwrap());
        assert_eq!(fs::read_dir(copies(home.path())).unwrap().count(), 1);
    }

    #[test]
    fn a_copy_with_other_bytes_than_its_name_says_is_replaced() {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join("x.so");
        fs::write(&file, b"bytes").unwrap();
        let first = private_copy(&mut judge(&file).unwrap(), home.path()).unwrap();
        fs::set_permissions(&first.path, fs::Permissions::from_mode(0o600)).unwrap();
        fs::write(&first.path, b"others").unwrap();
        let second = private_copy(&mut judge(&file).unwrap(), home.path()).unwrap();
        assert!(second.fresh);
        assert_eq!(sha256(&second.path).unwrap(), second.sha256);
        let mut held = String::new();
        (&*first.held).rewind().unwrap();
        (&*first.held).read_to_string(&mut held).unwrap();
        assert_eq!(held, "others", "whoever has the old file mapped keeps it");
    }

    #[test]
    fn a_copy_is_collected_when_nobody_holds_it() {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join("x.so");
        let copied = |bytes: &[u8]| {
            fs::write(&file, bytes).unwrap();
            private_copy(&mut judge(&file).unwrap(), home.path()).unwrap()
        };
        let (old, held) = (copied(b"old"), copied(b"held"));
        let again = held.clone();
        drop((old.held, held));
        collect(home.path());
        assert!(!old.path.exists() && again.path.exists());
        drop(again.held);
        collect(home.path());
        assert!(!again.path.exists());
        assert!(copied(b"old").fresh, "it is made again when it is needed");
    }

    #[test]
    fn a_copy_that_cannot_be_written_does_not_blame_the_library() {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join("x.so");
        fs::write(&file, b"bytes").unwrap();
        // A file at the place of the folder stops also a user who may write everywhere.
        fs::write(home.path().join("run"), b"").unwrap();
        let refused = private_copy(&mut judge(&file).unwrap(), home.path()).unwrap_err();
        assert_eq!((refused.code(), refused.may_pass()), ("unwritable", true));
        let said = refused.to_string();
        assert!(said.starts_with("the private copy of") && said.contains("run/plugins: "), "{said}");
    }

    #[test]
    fn a_link_out_of_the_folder_is_refused_and_one_inside_is_not() {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join("plugins");
        private_folder(&folder).unwrap();
        fs::write(home.path().join("out.so"), b"x").unwrap();
        fs::write(folder.join("in.so"), b"x").unwrap();
        std::os::unix::fs::symlink("../out.so", folder.join("a.so")).unwrap();
        std::os::unix::fs::symlink("in.so", folder.join("b.so")).unwrap();
        std::os::unix::fs::symlink("nowhere.so", folder.join("c.so")).unwrap();
        assert_eq!(judge(&folder.join("a.so")).unwrap_err().code(), "outside_folder");
        assert!(judge(&folder.join("b.so")).is_ok());
        assert_eq!(judge(&folder.join("c.so")).unwrap_err().code(), "not_regular");
        assert_eq!(judge(&folder).unwrap_err().code(), "not_regular");
        assert_eq!(judge(&folder.join("d.so")).unwrap_err().code(), "unreadable");
    }

    #[test]
    fn what_everybody_can_write_is_refused_with_its_chmod() {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join("x.so");
        fs::write(&file, b"x").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o646)).unwrap();
        let refused = judge(&file).unwrap_err();
        assert_eq!(refused.code(), "world_writable");
        assert!(refused.to_string().contains("chmod o-w"), "{refused}");
        fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
        fs::set_permissions(home.path(), fs::Permissions::from_mode(0o707)).unwrap();
        assert_eq!(judge(&file).unwrap_err().code(), "world_writable");
    }
}
