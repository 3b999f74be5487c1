//! The home folder, which is private to its owner.

use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// The mode of a home, because it contains messages, grants and keys.
const MODE: u32 = 0o700;

/// The files that identify a folder as a home.
const SIGNS: &[&str] = &["state.db", super::lock::FILE_NAME, "plugins.toml", ".env"];

/// The reason why the home folder cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HomeError {
    /// The folder cannot be created. The operator chooses another one.
    #[error("cannot create the home folder {path:?}; choose another one with --home")]
    Make {
        /// The folder.
        path: PathBuf,
        /// The error of the system.
        #[source]
        source: io::Error,
    },
    /// Others can open the folder, and it is not a home yet. The operator names another one or changes its mode.
    #[error(
        "other users can open {path:?} (mode {mode:04o}), which is not a home folder yet; choose another folder with \
         --home, or run `chmod 700` on it if nobody else needs it"
    )]
    Foreign {
        /// The folder.
        path: PathBuf,
        /// Its mode.
        mode: u32,
    },
    /// Others can open the folder, and only its owner can change that. The operator asks the owner or names a folder
    /// below it.
    #[error(
        "other users can open the home folder {path:?} (mode {mode:04o}), and it belongs to another user, who has to \
         run `chmod 700` on it; or choose a folder below it with --home"
    )]
    Open {
        /// The folder.
        path: PathBuf,
        /// Its mode.
        mode: u32,
    },
}

/// Creates the home folder, or makes an existing one private.
///
/// A looser mode is tightened if the folder is a home or empty. A folder with other content (`/tmp`, a checkout) is
/// refused, because closing it could break its users.
///
/// # Errors
///
/// The folder cannot be created, or it stays open to others.
pub fn make(path: &Path) -> Result<(), HomeError> {
    let failed = |source| HomeError::Make { path: path.to_owned(), source };
    DirBuilder::new().recursive(true).mode(MODE).create(path).map_err(failed)?;
    let meta = fs::metadata(path).map_err(failed)?;
    let mode = meta.permissions().mode() & 0o7777;
    if mode & 0o077 == 0 {
        return Ok(());
    }
    if !is_home(path) {
        return Err(HomeError::Foreign { path: path.to_owned(), mode });
    }
    if fs::set_permissions(path, Permissions::from_mode(MODE)).is_err() {
        return Err(HomeError::Open { path: path.to_owned(), mode });
    }
    tracing::warn!("home folder {path:?} was accessible to other users (mode {mode:04o}); permissions changed to 0700");
    Ok(())
}

fn is_home(path: &Path) -> bool {
    let empty = fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_none());
    empty || SIGNS.iter().any(|name| path.join(name).exists())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(mode: u32, holds: &[&str]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for name in holds {
            fs::write(folder.path().join(name), "").unwrap();
        }
        fs::set_permissions(folder.path(), Permissions::from_mode(mode)).unwrap();
        folder
    }

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o7777
    }

    #[test]
    fn a_home_is_made_for_its_owner_alone() {
        let folder = folder(0o755, &[]);
        let home = folder.path().join("a/b");
        make(&home).unwrap();
        make(&home).unwrap();
        assert_eq!(mode(&home), 0o700);
    }

    #[test]
    fn a_home_that_others_can_open_is_closed_to_them() {
        for holds in [&[][..], &["state.db"], &["plugins.toml", "plugins"]] {
            let folder = folder(0o755, holds);
            make(folder.path()).unwrap();
            assert_eq!(mode(folder.path()), 0o700, "{holds:?}");
        }
    }

    #[test]
    fn an_open_folder_of_something_else_is_refused_and_left_as_it_is() {
        let folder = folder(0o755, &["thesis.txt"]);
        let error = make(folder.path()).unwrap_err();
        assert!(matches!(error, HomeError::Foreign { mode: 0o755, .. }), "{error}");
        assert!(error.to_string().contains("(mode 0755), which is not a home folder yet"), "{error}");
        assert_eq!(mode(folder.path()), 0o755);
    }
}
