//! Temporary folders, removed when they are dropped.

use std::fs;
use std::io::Write;
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;

/// A folder with access for its owner only.
pub(super) struct Scratch {
    pub(super) path: PathBuf,
}

impl Scratch {
    /// Creates a folder with `purpose` in its name.
    pub(super) fn make(purpose: &str) -> std::io::Result<Self> {
        let word = getrandom::u64().map_err(std::io::Error::other)?;
        let path = std::env::temp_dir().join(format!("hermes-{purpose}-{word:016x}"));
        fs::DirBuilder::new().mode(0o700).create(&path)?;
        Ok(Self { path })
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // A folder that cannot be removed is reported, because it may contain a key.
        if let Err(error) = fs::remove_dir_all(&self.path) {
            let _ =
                writeln!(std::io::stderr(), "the temporary folder {} cannot be removed ({error})", self.path.display());
        }
    }
}
