//! The world-readable files below a folder.
//!
//! The superuser may read more, and so may members of a group. An adapter gets neither right: of `/etc` it reads the
//! files that any user of the machine may read.

use std::{
    collections::BTreeSet,
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

/// Entries that are examined; further ones stay closed.
const ENTRIES_MAX: usize = 100_000;
/// Levels of nested folders that are examined.
const DEPTH_MAX: usize = 32;
/// Mode bits: others may read a file, or list and enter a folder.
const READ: u32 = 0o004;
const LIST: u32 = 0o005;

/// The public part of a folder.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Public {
    /// Public files, and folders with only public content.
    pub(super) whole: Vec<PathBuf>,
    /// Folders with other content, too. Their entries may be listed.
    pub(super) lists: Vec<PathBuf>,
}

/// Returns the public part of `folder`, without the paths that are `hidden`.
pub(super) fn below(folder: &Path, hidden: &BTreeSet<PathBuf>) -> Public {
    let mut public = Public::default();
    let mut left = ENTRIES_MAX;
    if is_public(folder, hidden, &mut left, DEPTH_MAX, &mut public) {
        public.whole.push(folder.to_owned());
    }
    public
}

/// Returns `true` if everything at and below `path` is public. If not, its public parts are added to `public`.
fn is_public(path: &Path, hidden: &BTreeSet<PathBuf>, left: &mut usize, depth: usize, public: &mut Public) -> bool {
    if hidden.contains(path) || *left == 0 || depth == 0 {
        return false;
    }
    *left -= 1;
    let Ok(meta) = fs::symlink_metadata(path) else { return false };
    if meta.is_symlink() {
        // The target of the link is checked by its own path.
        return true;
    }
    if !meta.is_dir() {
        return meta.is_file() && meta.mode() & READ == READ;
    }
    if meta.mode() & LIST != LIST {
        return false;
    }
    let Ok(entries) = fs::read_dir(path) else { return false };
    let (mut all, mut whole) = (true, Vec::new());
    for entry in entries.flatten() {
        let path = entry.path();
        match is_public(&path, hidden, left, depth - 1, public) {
            true if !path.is_symlink() => whole.push(path),
            true => {}
            false => all = false,
        }
    }
    if !all {
        public.whole.extend(whole);
        public.lists.push(path.to_owned());
    }
    all
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn only_files_that_everybody_may_read_are_public() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        for name in ["open/deep", "mixed", "closed"] {
            fs::create_dir_all(root.join(name)).unwrap();
        }
        for (name, mode) in [
            ("hosts", 0o644),
            ("shadow", 0o640),
            ("open/deep/a", 0o444),
            ("mixed/key", 0o600),
            ("mixed/cert", 0o644),
            ("closed/b", 0o644),
            ("hidden", 0o644),
        ] {
            fs::write(root.join(name), "x").unwrap();
            fs::set_permissions(root.join(name), fs::Permissions::from_mode(mode)).unwrap();
        }
        for (name, mode) in [("", 0o755), ("open", 0o755), ("open/deep", 0o755), ("mixed", 0o755), ("closed", 0o711)] {
            fs::set_permissions(root.join(name), fs::Permissions::from_mode(mode)).unwrap();
        }
        symlink("shadow", root.join("link")).unwrap();
        let mut found = below(root, &[root.join("hidden")].into());
        found.whole.sort();
        found.lists.sort();
        let at = |names: &[&str]| names.iter().map(|name| root.join(name)).collect::<Vec<_>>();
        assert_eq!(found.whole, at(&["hosts", "mixed/cert", "open"]));
        assert_eq!(
            found.lists,
            at(&["", "mixed"]).iter().map(|path| path.components().collect()).collect::<Vec<PathBuf>>()
        );
        assert_eq!(below(&root.join("open"), &BTreeSet::new()).whole, at(&["open"]));
    }
}
