//! Credential locks: one credential is used by one instance on the whole machine.
//!
//! A lock is a file named by a hash and held by `flock`, so it is released when its process ends. Each lock belongs to
//! (home, instance). The same instance may hold a lock twice, because during a replacement the old and the new
//! incarnation hold it together.

use std::{
    collections::BTreeMap,
    fs::{File, OpenOptions},
    io::{Read, Seek, Write},
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

use hermes_protocol::CallError;
use rustix::fs::FlockOperation;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::files;

/// The longest identity, in bytes.
const IDENTITY_BYTES_MAX: usize = 1024;
/// The error code if another instance holds the credential.
pub(super) const IN_USE: &str = "credential_in_use";
/// Credentials that one instance may hold at once.
const CREDENTIALS_MAX: usize = 16;

/// The holder of a lock, as written into its file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Owner {
    /// The home folder of the host.
    pub(super) home: PathBuf,
    /// The name of the instance.
    pub(super) instance: String,
}

/// The credentials of one running instance.
#[derive(Debug, Default)]
pub(super) struct Credentials {
    /// The locks that the instance holds.
    pub(super) locks: Vec<CredentialLock>,
    /// The message of the last refusal, if another instance holds that credential.
    pub(super) in_use: Option<String>,
}

/// Locks held by this process, by file. `flock` does not exclude holders within one process, so this map does.
static HELD: Mutex<BTreeMap<PathBuf, Held>> = Mutex::new(BTreeMap::new());

struct Held {
    owner: Owner,
    holders: usize,
    /// The open file that holds the lock.
    file: File,
}

impl Held {
    /// Returns `true` if another process would find this lock. Its file may have been removed together with its folder.
    fn is_found_at(&self, path: &Path) -> bool {
        let same =
            |ours: &std::fs::Metadata, found: std::fs::Metadata| (ours.dev(), ours.ino()) == (found.dev(), found.ino());
        let found = std::fs::symlink_metadata(path);
        self.file.metadata().is_ok_and(|ours| found.is_ok_and(|found| same(&ours, found)))
    }
}

/// A credential lock. Dropping it releases the lock.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct CredentialLock {
    path: PathBuf,
}

impl Drop for CredentialLock {
    fn drop(&mut self) {
        let mut held = HELD.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(entry) = held.get_mut(&self.path) {
            entry.holders -= 1;
            if entry.holders == 0 {
                held.remove(&self.path);
            }
        }
    }
}

/// Adds a lock to those of one incarnation. A lock that it already holds is not added twice, because an adapter
/// requests it at every connect.
pub(super) fn keep(held: &mut Vec<CredentialLock>, lock: CredentialLock) -> Result<(), CallError> {
    if held.contains(&lock) {
        return Ok(());
    }
    if held.len() >= CREDENTIALS_MAX {
        return Err(CallError::new("refused", format!("an instance can lock at most {CREDENTIALS_MAX} credentials")));
    }
    held.push(lock);
    Ok(())
}

/// Returns the folder of locks, which no other user can create or enter: in the user's runtime folder if that is
/// private, otherwise in the state folder of the user's home directory.
///
/// # Errors
///
/// The user has neither folder.
pub(super) fn folder(runtime_dir: Option<&Path>, user_home: Option<&Path>) -> Result<PathBuf, CallError> {
    if let Some(runtime) = runtime_dir.filter(|runtime| is_private(runtime)) {
        return Ok(runtime.join("hermes-host"));
    }
    user_home.map(|home| home.join(".local/state/hermes-host/locks")).ok_or_else(|| {
        let why = "no folder for credential locks, because this user has no home directory in the password database: \
                   set XDG_RUNTIME_DIR to a folder of this user with mode 0700";
        CallError::new("failed", why)
    })
}

/// Returns `true` if a folder belongs to this user and is closed to all others.
fn is_private(folder: &Path) -> bool {
    std::fs::symlink_metadata(folder).is_ok_and(|meta| {
        meta.is_dir() && meta.uid() == rustix::process::geteuid().as_raw() && meta.mode() & 0o077 == 0
    })
}

/// Claims the credential `identity` of the platform `plugin` for `owner`.
pub(super) fn lock(folder: &Path, plugin: &str, identity: &str, owner: &Owner) -> Result<CredentialLock, CallError> {
    if identity.is_empty() || identity.len() > IDENTITY_BYTES_MAX {
        return Err(CallError::new("invalid", format!("an identity must have 1 to {IDENTITY_BYTES_MAX} bytes")));
    }
    let failed = |error: std::io::Error| {
        let folder = folder.display();
        let why = format!(
            "the credential lock in {folder} cannot be taken ({error}): make that folder writable for this user, or \
             set XDG_RUNTIME_DIR to a folder of this user with mode 0700"
        );
        CallError::new("failed", why)
    };
    prepare(folder).map_err(failed)?;
    let mut hash = Sha256::new();
    hash.update(plugin.as_bytes());
    hash.update([0]);
    hash.update(identity.as_bytes());
    let path = folder.join(format!("{}.lock", &files::hex(&hash.finalize())[..32]));

    let mut held = HELD.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(entry) = held.get_mut(&path) {
        if entry.owner != *owner {
            return Err(in_use(&entry.owner));
        }
        if !entry.is_found_at(&path) {
            entry.file = open(&path, owner)?;
        }
        entry.holders += 1;
        return Ok(CredentialLock { path });
    }
    let file = open(&path, owner)?;
    held.insert(path.clone(), Held { owner: owner.clone(), holders: 1, file });
    Ok(CredentialLock { path })
}

/// Opens the file of a lock and locks it.
fn open(path: &Path, owner: &Owner) -> Result<File, CallError> {
    let failed = |error: std::io::Error| {
        CallError::new("failed", format!("the credential lock {} cannot be taken: {error}", path.display()))
    };
    let mut file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .custom_flags(rustix::fs::OFlags::NOFOLLOW.bits().cast_signed())
        .open(path)
        .map_err(failed)?;
    match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(rustix::io::Errno::WOULDBLOCK) => return Err(in_use_elsewhere(&mut file)),
        Err(error) => return Err(failed(error.into())),
    }
    write_owner(&mut file, owner).map_err(failed)?;
    Ok(file)
}

fn in_use(owner: &Owner) -> CallError {
    CallError::new(
        IN_USE,
        format!(
            "this credential is in use by the instance {} of the host in {}: stop it there, or use another credential",
            owner.instance,
            owner.home.display()
        ),
    )
}

fn in_use_elsewhere(file: &mut File) -> CallError {
    let mut text = String::new();
    let read = file.take(4096).read_to_string(&mut text);
    match read.ok().and_then(|_| serde_json::from_str(&text).ok()) {
        Some(owner) => in_use(&owner),
        None => CallError::new(IN_USE, "this credential is in use by another host of this machine"),
    }
}

fn write_owner(file: &mut File, owner: &Owner) -> std::io::Result<()> {
    file.set_len(0)?;
    file.rewind()?;
    file.write_all(&serde_json::to_vec(owner)?)
}

/// Creates the folder, or refuses a folder that is not private.
fn prepare(folder: &Path) -> std::io::Result<()> {
    files::private_folder(folder)?;
    if is_private(folder) {
        return Ok(());
    }
    Err(std::io::Error::other("the path is not a private folder of this user; remove it"))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn owner(home: &str, instance: &str) -> Owner {
        Owner { home: home.into(), instance: instance.to_owned() }
    }

    #[test]
    fn a_second_instance_is_refused_and_told_who_holds_it() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().join("locks");
        let first = lock(&folder, "telegram", "42", &owner("/srv/a", "one")).unwrap();
        let refused = lock(&folder, "telegram", "42", &owner("/srv/b", "two")).unwrap_err();
        assert_eq!(refused.code, "credential_in_use");
        assert!(refused.message.contains("instance one of the host in /srv/a"), "{refused}");
        assert!(lock(&folder, "telegram", "43", &owner("/srv/b", "two")).is_ok(), "another credential is free");
        assert!(lock(&folder, "discord", "42", &owner("/srv/b", "two")).is_ok(), "another platform is free");
        drop(first);
        assert!(lock(&folder, "telegram", "42", &owner("/srv/b", "two")).is_ok());
    }

    #[test]
    fn the_same_instance_holds_a_credential_twice_while_it_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().join("locks");
        let old = lock(&folder, "x", "1", &owner("/a", "one")).unwrap();
        let new = lock(&folder, "x", "1", &owner("/a", "one")).unwrap();
        drop(old);
        assert!(lock(&folder, "x", "1", &owner("/a", "two")).is_err(), "the new life still holds it");
        drop(new);
        assert!(lock(&folder, "x", "1", &owner("/a", "two")).is_ok());
    }

    #[test]
    fn a_life_that_reconnects_for_years_holds_its_credential_once() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().join("locks");
        let take = |identity: &str| lock(&folder, "x", identity, &owner("/a", "one")).unwrap();
        let mut held = Vec::new();
        for _ in 0..1_000 {
            keep(&mut held, take("1")).unwrap();
        }
        assert_eq!(held.len(), 1);
        for other in 2..=CREDENTIALS_MAX {
            keep(&mut held, take(&other.to_string())).unwrap();
        }
        assert_eq!(keep(&mut held, take("one more")).unwrap_err().code, "refused");
        drop(held);
        assert!(lock(&folder, "x", "1", &owner("/a", "two")).is_ok(), "nothing is held any more");
    }

    #[test]
    fn a_lock_of_another_process_is_read_from_its_file() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().join("locks");
        let mine = lock(&folder, "x", "1", &owner("/a", "one")).unwrap();
        // A second open file plays the role of another process.
        let other = File::open(&mine.path).unwrap();
        assert!(rustix::fs::flock(&other, FlockOperation::NonBlockingLockExclusive).is_err());
        let told = in_use_elsewhere(&mut File::open(&mine.path).unwrap());
        assert!(told.message.contains("instance one"), "{told}");
    }

    #[test]
    fn a_folder_that_others_can_enter_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!(lock(folder.path(), "x", "1", &owner("/a", "one")).unwrap_err().code, "failed");
    }

    #[test]
    fn locks_lie_in_a_private_runtime_folder_or_in_the_home_directory_of_the_user() {
        let root = tempfile::tempdir().unwrap();
        let (runtime, home) = (root.path().join("runtime"), root.path().join("user"));
        let below_home = home.join(".local/state/hermes-host/locks");
        let folder = |runtime: &Path| folder(Some(runtime), Some(&home)).unwrap();
        std::fs::create_dir(&runtime).unwrap();
        for (mode, found) in
            [(0o700, runtime.join("hermes-host")), (0o701, below_home.clone()), (0o770, below_home.clone())]
        {
            std::fs::set_permissions(&runtime, std::fs::Permissions::from_mode(mode)).unwrap();
            assert_eq!(folder(&runtime), found, "{mode:o}");
        }
        assert_eq!(folder(&root.path().join("missing")), below_home);
        std::fs::set_permissions(&runtime, std::fs::Permissions::from_mode(0o700)).unwrap();
        std::os::unix::fs::symlink(&runtime, root.path().join("link")).unwrap();
        assert_eq!(folder(&root.path().join("link")), below_home);
        if rustix::process::geteuid().is_root() {
            std::os::unix::fs::chown(&runtime, Some(65_534), None).unwrap();
            assert_eq!(folder(&runtime), below_home, "it belongs to another user");
        }
        lock(&below_home, "x", "1", &owner("/a", "one")).unwrap();
        assert_eq!(std::fs::metadata(&below_home).unwrap().mode() & 0o777, 0o700);
        assert!(super::folder(None, None).unwrap_err().message.contains("XDG_RUNTIME_DIR"));
    }

    #[test]
    fn a_lock_whose_file_was_removed_is_taken_again() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("locks");
        let first = lock(&folder, "x", "1", &owner("/a", "one")).unwrap();
        std::fs::remove_dir_all(&folder).unwrap();
        let again = lock(&folder, "x", "1", &owner("/a", "one")).unwrap();
        let other = File::open(&again.path).unwrap();
        assert!(rustix::fs::flock(&other, FlockOperation::NonBlockingLockExclusive).is_err());
        // Another process locks a new file at the same path.
        std::fs::remove_file(&again.path).unwrap();
        let stranger = File::create(&again.path).unwrap();
        rustix::fs::flock(&stranger, FlockOperation::NonBlockingLockExclusive).unwrap();
        assert_eq!(lock(&folder, "x", "1", &owner("/a", "one")).unwrap_err().code, "credential_in_use");
        drop((first, again));
    }
}
