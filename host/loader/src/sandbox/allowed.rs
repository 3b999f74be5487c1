//! The files, ports and sockets of one child: decided by the host, passed to the child as arguments.

use std::{collections::BTreeSet, ffi::OsString, path::PathBuf};

/// The access of one child beyond the files of the system.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Allowed {
    /// Files and folders that it may read and execute.
    pub(super) reads: BTreeSet<PathBuf>,
    /// Files of `/etc` that stay closed although they are world-readable.
    pub(super) hidden: BTreeSet<PathBuf>,
    /// Folders whose entries it may list.
    pub(super) lists: BTreeSet<PathBuf>,
    /// Files and folders that it may read and write.
    pub(super) writes: BTreeSet<PathBuf>,
    /// Ports that it may bind. `None`: all.
    pub(super) ports: Option<BTreeSet<u16>>,
    /// `true` if it may open Unix sockets.
    pub(super) unix_sockets: bool,
}

impl Allowed {
    /// Returns the arguments that pass the access to a child: `--confined`, then the flags of [`take`](Self::take).
    pub(crate) fn arguments(&self) -> Vec<OsString> {
        let paths = |flag: &'static str, paths: &BTreeSet<PathBuf>| {
            paths.iter().flat_map(move |path| [flag.into(), path.clone().into()]).collect::<Vec<OsString>>()
        };
        let mut arguments = vec!["--confined".into()];
        arguments.extend(paths("--read", &self.reads));
        arguments.extend(paths("--hide", &self.hidden));
        arguments.extend(paths("--list", &self.lists));
        arguments.extend(paths("--write", &self.writes));
        if let Some(ports) = &self.ports {
            let ports: Vec<String> = ports.iter().map(ToString::to_string).collect();
            arguments.extend(["--ports".into(), ports.join(",").into()]);
        }
        arguments.extend(self.unix_sockets.then(|| "--unix-sockets".into()));
        arguments
    }

    /// Parses one flag, with its value from `rest`. Returns `false` for an unknown flag.
    pub(crate) fn take(&mut self, flag: &str, rest: &mut impl Iterator<Item = OsString>) -> bool {
        let paths = match flag {
            "--read" => &mut self.reads,
            "--hide" => &mut self.hidden,
            "--list" => &mut self.lists,
            "--write" => &mut self.writes,
            "--ports" => {
                let ports = rest.next().unwrap_or_default();
                let ports = ports.to_string_lossy();
                self.ports = Some(ports.split(',').filter_map(|port| port.parse().ok()).collect());
                return true;
            }
            "--unix-sockets" => {
                self.unix_sockets = true;
                return true;
            }
            _ => return false,
        };
        paths.extend(rest.next().map(PathBuf::from));
        true
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn set(paths: &[&Path]) -> BTreeSet<PathBuf> {
        paths.iter().map(|path| path.to_path_buf()).collect()
    }

    #[test]
    fn what_is_allowed_survives_the_way_to_the_child() {
        let allowed = Allowed {
            reads: set(&[Path::new("/a b"), Path::new("/c")]),
            hidden: set(&[Path::new("/etc/f")]),
            lists: set(&[Path::new("/d")]),
            writes: set(&[Path::new("/e")]),
            ports: Some([0, 8640].into()),
            unix_sockets: true,
        };
        let none = Allowed { ports: Some(BTreeSet::new()), ..Allowed::default() };
        for sent in [allowed, none, Allowed::default()] {
            let mut taken = Allowed::default();
            let mut arguments = sent.arguments().into_iter().skip(1);
            while let Some(argument) = arguments.next() {
                assert!(taken.take(argument.to_str().unwrap(), &mut arguments));
            }
            assert_eq!(taken, sent);
        }
        assert!(!Allowed::default().take("--origin", &mut std::iter::empty()));
    }
}
