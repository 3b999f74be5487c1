//! What a library file says about itself, read with bounds checks before any of its code can run.

use std::path::Path;

use hermes_protocol::Manifest;

use super::LoadError;

/// What was read from a file.
pub(super) struct ElfLibrary {
    pub(super) manifest: Manifest,
}

/// Reads `path`.
pub(super) fn read(path: &Path) -> Result<ElfLibrary, LoadError> {
    Err(LoadError::NoSection { path: path.to_owned() })
}
