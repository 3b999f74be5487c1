//! The user as described by the password database. Environment variables are ignored.

use std::path::PathBuf;

use nix::unistd::{Uid, User};

/// Returns the home directory of the user who runs this process.
pub(super) fn home() -> Option<PathBuf> {
    let user = User::from_uid(Uid::effective()).ok()??;
    Some(user.dir).filter(|home| home.is_absolute())
}
