//! `plugins.lock`: the library files that an operator accepted.
//!
//! The file has one entry per id. Every change reads, modifies and writes it under a lock of the home folder, because a
//! running host and `adapter add` may change it at the same time.

use std::{
    fs::{self, File},
    io::Write,
    os::unix::fs::OpenOptionsExt,
    path::Path,
};

use hermes_protocol::Manifest;
use rustix::fs::FlockOperation;
use serde::{Deserialize, Serialize};

use super::{LoadError, files};

const FILE_NAME: &str = "plugins.lock";
const HEADER: &str = "# The accepted adapter libraries. Written by hermes-host; `adapter add FILE` accepts one.\n\n";

/// An accepted library file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Accepted {
    /// Id of the plugin.
    pub id: String,
    /// SHA-256 of the file, in hex.
    pub sha256: String,
    /// Version of the plugin.
    pub version: String,
    /// SDK it was built with.
    pub sdk: String,
    /// `configuration` if a section named it first, otherwise the user who ran `adapter add`.
    pub accepted_by: String,
    /// The time as RFC 3339.
    pub accepted_at: String,
}

impl Accepted {
    /// Creates an entry for this manifest and hash.
    pub fn new(manifest: &Manifest, sha256: &str, by: &str, now_ms: i64) -> Self {
        Self {
            id: manifest.id.clone(),
            sha256: sha256.to_owned(),
            version: manifest.version.clone(),
            sdk: manifest.sdk.clone(),
            accepted_by: by.to_owned(),
            accepted_at: jiff::Timestamp::from_millisecond(now_ms).unwrap_or_default().to_string(),
        }
    }
}

/// The content of the file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PluginsLock {
    /// The entries, by id.
    #[serde(default, rename = "plugin")]
    pub plugins: Vec<Accepted>,
}

impl PluginsLock {
    /// Reads the file of this home. A missing file means that nothing is accepted.
    ///
    /// # Errors
    ///
    /// The file exists and cannot be read. An unreadable file accepts nothing.
    pub fn read(home: &Path) -> Result<Self, LoadError> {
        let path = home.join(FILE_NAME);
        let unreadable = |why: String| LoadError::Unreadable { path: path.clone(), why };
        match fs::read_to_string(&path) {
            Ok(text) => toml::from_str(&text).map_err(|error| unreadable(error.message().to_owned())),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(unreadable(error.to_string())),
        }
    }

    /// Returns the entry of `id`.
    pub fn get(&self, id: &str) -> Option<&Accepted> {
        self.plugins.iter().find(|entry| entry.id == id)
    }

    /// Reads the file of this home, applies `change`, and writes the whole file.
    ///
    /// # Errors
    ///
    /// The file cannot be read or written, or `change` returned an error.
    pub fn update<T>(home: &Path, change: impl FnOnce(&mut Self) -> Result<T, LoadError>) -> Result<T, LoadError> {
        let path = home.join(FILE_NAME);
        let failed = |error: std::io::Error| LoadError::Unwritable {
            what: "the list of accepted libraries".to_owned(),
            path: path.clone(),
            why: error.to_string(),
        };
        files::private_folder(home).map_err(failed)?;
        let guard = File::open(home).map_err(failed)?;
        rustix::fs::flock(&guard, FlockOperation::LockExclusive).map_err(|error| failed(error.into()))?;
        let before = Self::read(home)?;
        let mut lock = before.clone();
        let changed = change(&mut lock)?;
        if lock != before {
            lock.plugins.sort_by(|a, b| a.id.cmp(&b.id));
            lock.write(home).map_err(failed)?;
        }
        Ok(changed)
    }

    /// Adds `entry` or replaces the one with its id.
    pub fn put(&mut self, entry: Accepted) {
        self.plugins.retain(|other| other.id != entry.id);
        self.plugins.push(entry);
    }

    /// Removes the entry of `id`. Returns `false` if there was none.
    pub fn forget(&mut self, id: &str) -> bool {
        let before = self.plugins.len();
        self.plugins.retain(|entry| entry.id != id);
        self.plugins.len() != before
    }

    fn write(&self, home: &Path) -> std::io::Result<()> {
        let text = toml::to_string(self).map_err(std::io::Error::other)?;
        let temporary = home.join(format!("{FILE_NAME}.tmp"));
        let mut file = fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&temporary)?;
        file.write_all(HEADER.as_bytes())?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&temporary, home.join(FILE_NAME))?;
        File::open(home)?.sync_all()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(id: &str, sha256: &str) -> Accepted {
        Accepted {
            id: id.to_owned(),
            sha256: sha256.to_owned(),
            version: "1.0.0".to_owned(),
            sdk: "1.0.0".to_owned(),
            accepted_by: "operator".to_owned(),
            accepted_at: "2026-01-01T00:00:00Z".to_owned(),
        }
    }

    fn put(home: &Path, entry: Accepted) {
        let put = |lock: &mut PluginsLock| {
            lock.put(entry);
            Ok(())
        };
        PluginsLock::update(home, put).unwrap();
    }

    #[test]
    fn an_entry_is_read_back_and_replaced_by_id() {
        let home = tempfile::tempdir().unwrap();
        assert_eq!(PluginsLock::read(home.path()).unwrap(), PluginsLock::default());
        put(home.path(), entry("b", "1"));
        put(home.path(), entry("a", "2"));
        put(home.path(), entry("b", "3"));
        let lock = PluginsLock::read(home.path()).unwrap();
        assert_eq!(lock.plugins, [entry("a", "2"), entry("b", "3")]);
        assert!(PluginsLock::update(home.path(), |lock| Ok(lock.forget("a"))).unwrap());
        assert_eq!(PluginsLock::read(home.path()).unwrap().get("a"), None);
    }

    #[test]
    fn a_broken_lock_accepts_nothing() {
        let home = tempfile::tempdir().unwrap();
        fs::write(home.path().join(FILE_NAME), "[[plugin]]\nid = 3\n").unwrap();
        assert_eq!(PluginsLock::read(home.path()).unwrap_err().code(), "unreadable");
    }
}
