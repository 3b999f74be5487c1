//! Which libraries lie where, read without opening any of them.

use std::path::{Path, PathBuf};

use hermes_protocol::Manifest;

use super::{LoadError, elf};

/// Prefix of a library that ships with the binary.
pub const BESIDE_PREFIX: &str = "libhermes_adapter_";

/// Folders in which libraries are looked for.
#[derive(Clone, Debug, Default)]
pub struct SearchPath {
    /// The folder of the running binary; only libraries that ship with it count there.
    pub beside: Option<PathBuf>,
    /// Folders an operator drops libraries into.
    pub folders: Vec<PathBuf>,
}

/// Where a library was found, which decides how far it is trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// Beside the binary: installed with it, trusted like it.
    Beside,
    /// In a folder for plugins: pinned, in a process of its own by default.
    Folder,
}

/// One library that was found.
#[derive(Clone, Debug)]
pub struct Found {
    /// The file.
    pub path: PathBuf,
    /// Where it lies.
    pub place: Place,
    /// Its manifest, or why it is none.
    pub manifest: Result<Manifest, LoadError>,
}

/// Lists the libraries of these folders in a stable order. A folder that does not exist holds none.
pub fn discover(search: &SearchPath) -> Vec<Found> {
    let _ = search;
    Vec::new()
}

/// Reads the manifest of one file without opening it as a library.
///
/// # Errors
///
/// Says what the file is instead of an adapter for this machine.
pub fn inspect(path: &Path) -> Result<Manifest, LoadError> {
    elf::read(path).map(|library| library.manifest)
}
