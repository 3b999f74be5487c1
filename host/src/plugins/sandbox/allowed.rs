//! What one child may touch: decided by the host, told to the child as arguments.
//!
//! A library reads its private copy, a program the folder it works in, its own
//! files and its interpreter. Both write their media folder and what their own
//! section names. What is private to the host (its database, keys, pins, the media
//! of others) is left out of every folder that is allowed.

use std::{
    collections::BTreeSet,
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
};

use serde_json::Value;

use crate::plugins::files;

/// What of a home no child may read, whatever folder of it is allowed.
const PRIVATE: &[&str] = &[
    "state.db",
    "state.db-wal",
    "state.db-shm",
    "plugins.lock",
    "plugins.toml",
    "host.lock",
    "host.sock",
    ".env",
    "media",
    "data",
    "run",
];
/// Where most of a system's configuration lies; what others may not read there is closed by its modes.
const ETC: &str = "/etc";
/// Where bare names of programs are looked for when no `PATH` is passed on.
const PATH_DEFAULT: &str = "/usr/local/bin:/usr/bin:/bin";
/// What belongs to an interpreter beside its `bin`.
const PREFIX_FOLDERS: &[&str] = &["lib", "lib64", "libexec", "include", "pyvenv.cfg"];
/// Folders that are opened entry by entry, one within the other, because something private lies in them.
const DEPTH_MAX: usize = 32;
/// Ports that one range of a manifest may name.
const RANGE_PORTS_MAX: u16 = 1_024;
/// Strings and numbers of a section that are looked at.
const VALUES_MAX: usize = 10_000;

/// What one child may touch besides the system's own files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::plugins) struct Allowed {
    /// Files and folders it may read and run.
    pub(super) reads: BTreeSet<PathBuf>,
    /// Folders whose names it may list.
    pub(super) lists: BTreeSet<PathBuf>,
    /// Files and folders it may read and write.
    pub(super) writes: BTreeSet<PathBuf>,
    /// Ports it may bind. `None`: any.
    pub(super) ports: Option<BTreeSet<u16>>,
}

impl Allowed {
    /// The arguments by which a child learns it: `--confined`, then what [`take`](Self::take) reads.
    pub(in crate::plugins) fn arguments(&self) -> Vec<OsString> {
        let paths = |flag: &'static str, paths: &BTreeSet<PathBuf>| {
            paths.iter().flat_map(move |path| [flag.into(), path.clone().into()]).collect::<Vec<OsString>>()
        };
        let mut arguments = vec!["--confined".into()];
        arguments.extend(paths("--read", &self.reads));
        arguments.extend(paths("--list", &self.lists));
        arguments.extend(paths("--write", &self.writes));
        if let Some(ports) = &self.ports {
            let ports: Vec<String> = ports.iter().map(ToString::to_string).collect();
            arguments.extend(["--ports".into(), ports.join(",").into()]);
        }
        arguments
    }

    /// Takes one argument, and its value from `rest`. False: it is none of these.
    pub(in crate::plugins) fn take(&mut self, flag: &str, rest: &mut impl Iterator<Item = OsString>) -> bool {
        let paths = match flag {
            "--read" => &mut self.reads,
            "--list" => &mut self.lists,
            "--write" => &mut self.writes,
            "--ports" => {
                let ports = rest.next().unwrap_or_default();
                let ports = ports.to_string_lossy();
                self.ports = Some(ports.split(',').filter_map(|port| port.parse().ok()).collect());
                return true;
            }
            _ => return false,
        };
        paths.extend(rest.next().map(PathBuf::from));
        true
    }
}

/// What the host knows when it decides.
pub(in crate::plugins) struct Ground<'a> {
    /// The home folder.
    pub(in crate::plugins) home: &'a Path,
    /// Files outside of the home that hold secrets: the configuration, a `.env`.
    pub(in crate::plugins) private: &'a [PathBuf],
    /// The child's environment.
    pub(in crate::plugins) env: &'a [(OsString, OsString)],
}

impl Ground<'_> {
    /// For a library that is only asked something.
    pub(in crate::plugins) fn asking(&self, copy: &Path) -> Allowed {
        let mut allowed = Allowed { ports: Some(BTreeSet::new()), ..Allowed::default() };
        self.open_system(&mut allowed);
        allowed.reads.insert(copy.to_owned());
        allowed
    }

    /// For an instance that runs a library.
    pub(in crate::plugins) fn library(
        &self,
        copy: &Path,
        instance: &str,
        listens: &[String],
        config: &Value,
    ) -> std::io::Result<Allowed> {
        let mut allowed = self.asking(copy);
        self.open_own(&mut allowed, instance, config)?;
        allowed.ports = ports(listens, config);
        Ok(allowed)
    }

    /// For an instance that is a program. Where it listens is not known before it runs, so ports stay open.
    pub(in crate::plugins) fn program(
        &self,
        command: &[String],
        folder: Option<&Path>,
        instance: &str,
        config: &Value,
    ) -> std::io::Result<Allowed> {
        let mut allowed = Allowed::default();
        self.open_system(&mut allowed);
        self.open_own(&mut allowed, instance, config)?;
        let at = |word: &str| folder.map_or_else(|| PathBuf::from(word), |folder| folder.join(word));
        let mut words = command.iter();
        let program = words.next().and_then(|program| match program.contains('/') {
            true => Some(at(program)),
            false => self.on_path(program),
        });
        for program in program.iter().chain(program.as_deref().and_then(|path| fs::canonicalize(path).ok()).as_ref()) {
            self.open_interpreter(program, &mut allowed);
        }
        if let Some(folder) = folder {
            self.open(folder, &mut allowed, DEPTH_MAX);
        }
        for path in words.map(|word| at(word)) {
            match fs::metadata(&path) {
                Ok(meta) if meta.is_dir() => self.open(&path, &mut allowed, DEPTH_MAX),
                Ok(_) => {
                    self.open(path.parent().unwrap_or(&path), &mut allowed, DEPTH_MAX);
                }
                // Not every word is a path.
                Err(_) => {}
            }
        }
        Ok(allowed)
    }

    /// What a program's interpreter consists of: its folder, and the libraries beside that where it is a `bin`.
    fn open_interpreter(&self, program: &Path, allowed: &mut Allowed) {
        let Some(folder) = program.parent() else { return };
        if folder.ends_with("bin")
            && let Some(prefix) = folder.parent()
        {
            for name in PREFIX_FOLDERS {
                self.open(&prefix.join(name), allowed, DEPTH_MAX);
            }
        }
        self.open(folder, allowed, DEPTH_MAX);
    }

    fn on_path(&self, program: &str) -> Option<PathBuf> {
        let path = self.env.iter().find(|(name, _)| name == "PATH").map(|(_, value)| value.clone());
        let path = path.unwrap_or_else(|| PATH_DEFAULT.into());
        std::env::split_paths(&path).map(|folder| folder.join(program)).find(|file| file.is_file())
    }

    fn open_system(&self, allowed: &mut Allowed) {
        self.open(Path::new(ETC), allowed, DEPTH_MAX);
        for (_, value) in self.env.iter().filter(|(name, _)| name == "SSL_CERT_FILE" || name == "SSL_CERT_DIR") {
            for path in std::env::split_paths(value) {
                self.open(&path, allowed, DEPTH_MAX);
            }
        }
    }

    /// Its media and data folders, which are made here, and the absolute paths that the operator wrote into its section.
    fn open_own(&self, allowed: &mut Allowed, instance: &str, config: &Value) -> std::io::Result<()> {
        let media = self.home.join("media").join(instance);
        files::private_folder(&media)?;
        allowed.writes.insert(media);
        allowed.writes.insert(files::data_folder(self.home, instance)?);
        for path in leaves(config).filter_map(|(_, value)| value.as_str()).map(Path::new) {
            let named = path.is_absolute() && path.exists();
            if named && !self.holds_private(path) && !self.is_private(path) {
                allowed.writes.insert(path.to_owned());
            }
        }
        Ok(())
    }

    /// Allows reading `path`, less what is private beneath it.
    fn open(&self, path: &Path, allowed: &mut Allowed, depth: usize) {
        if self.is_private(path) || depth == 0 {
            return;
        }
        if !self.holds_private(path) {
            allowed.reads.insert(path.to_owned());
            return;
        }
        // Interpreters look for modules by listing; the names are no secret.
        allowed.lists.insert(path.to_owned());
        let Ok(entries) = fs::read_dir(path) else { return };
        for entry in entries.flatten() {
            self.open(&entry.path(), allowed, depth - 1);
        }
    }

    fn private_paths(&self) -> impl Iterator<Item = PathBuf> {
        PRIVATE.iter().map(|name| self.home.join(name)).chain(self.private.iter().cloned())
    }

    /// Whether something private is reached through `path`.
    fn holds_private(&self, path: &Path) -> bool {
        let real = real(path);
        self.private_paths().any(|private| self::real(&private).starts_with(&real) && self::real(&private) != real)
    }

    /// Whether `path` is private, or lies in something that is.
    fn is_private(&self, path: &Path) -> bool {
        let real = real(path);
        self.private_paths().any(|private| real.starts_with(self::real(&private)))
    }
}

/// The path with its links resolved, as far as it exists.
fn real(path: &Path) -> PathBuf {
    if let Ok(real) = fs::canonicalize(path) {
        return real;
    }
    match (path.parent(), path.file_name()) {
        (Some(folder), Some(name)) => fs::canonicalize(folder).unwrap_or_else(|_| folder.to_owned()).join(name),
        _ => path.to_owned(),
    }
}

/// The ports that a manifest and a section name. `None`: something is listened on that names no port.
fn ports(listens: &[String], config: &Value) -> Option<BTreeSet<u16>> {
    let mut ports = BTreeSet::new();
    for listen in listens.iter().filter(|listen| !listen.starts_with('/')) {
        ports.extend(range_of(listen)?);
    }
    for (key, value) in leaves(config) {
        match value {
            Value::Number(number) if key == "port" || key.ends_with("_port") => {
                ports.extend(number.as_u64().and_then(|port| u16::try_from(port).ok()));
            }
            // An address, not a URL: that is where something is fetched.
            Value::String(address) if !address.contains('/') => ports.extend(range_of(address).into_iter().flatten()),
            _ => {}
        }
    }
    Some(ports)
}

/// `host:port`, `host:from-to` or a bare port.
fn range_of(listen: &str) -> Option<std::ops::RangeInclusive<u16>> {
    let listen = listen.split('/').next().unwrap_or_default();
    let ports = listen.rsplit_once(':').map_or(listen, |(_, ports)| ports);
    let (from, to) = ports.split_once('-').unwrap_or((ports, ports));
    let (from, to) = (from.parse::<u16>().ok()?, to.parse::<u16>().ok()?);
    Some(from..=to.min(from.saturating_add(RANGE_PORTS_MAX)))
}

/// Every string and number of a section, with the key it stands under.
fn leaves(config: &Value) -> impl Iterator<Item = (&str, &Value)> {
    let mut open = vec![("", config)];
    let mut found = Vec::new();
    while let Some((key, value)) = open.pop() {
        match value {
            Value::Object(object) => open.extend(object.iter().map(|(key, value)| (key.as_str(), value))),
            Value::Array(list) => open.extend(list.iter().map(|value| (key, value))),
            leaf => found.push((key, leaf)),
        }
        if found.len() >= VALUES_MAX {
            break;
        }
    }
    found.into_iter()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn set(paths: &[&Path]) -> BTreeSet<PathBuf> {
        paths.iter().map(|path| path.to_path_buf()).collect()
    }

    #[test]
    fn what_is_allowed_survives_the_way_to_the_child() {
        let allowed = Allowed {
            reads: set(&[Path::new("/a b"), Path::new("/c")]),
            lists: set(&[Path::new("/d")]),
            writes: set(&[Path::new("/e")]),
            ports: Some([0, 8640].into()),
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

    #[test]
    fn a_folder_is_opened_without_what_is_private_in_it() {
        let folder = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(folder.path()).unwrap();
        let home = root.join("home");
        fs::create_dir_all(home.join("media/other")).unwrap();
        fs::create_dir_all(home.join("tools")).unwrap();
        for file in ["home/state.db", "home/.env", "home/script.py", "plugins.toml", "chat.py"] {
            fs::write(root.join(file), "x").unwrap();
        }
        std::os::unix::fs::symlink(home.join("state.db"), root.join("link")).unwrap();
        let private = [root.join("plugins.toml")];
        let ground = Ground { home: &home, private: &private, env: &[] };
        let command = ["/bin/sh".to_owned(), "./chat.py".to_owned()];
        let allowed = ground.program(&command, Some(&root), "one", &json!({})).unwrap();
        let below: BTreeSet<PathBuf> = allowed.reads.iter().filter(|path| path.starts_with(&root)).cloned().collect();
        assert_eq!(below, set(&[&root.join("chat.py"), &home.join("script.py"), &home.join("tools")]));
        assert_eq!(allowed.lists, set(&[&root, &home]));
        assert_eq!(allowed.writes, set(&[&home.join("media/one"), &home.join("data/one")]));
        assert_eq!(allowed.ports, None);
    }

    #[test]
    fn a_path_of_the_section_is_allowed_unless_it_leads_to_the_hosts_own() {
        let folder = tempfile::tempdir().unwrap();
        let home = folder.path().join("home");
        let store = folder.path().join("store");
        fs::create_dir_all(&home).unwrap();
        fs::create_dir_all(&store).unwrap();
        fs::write(home.join("state.db"), "x").unwrap();
        let config = json!({
            "deep": [{"store": store}], "all": "/", "home": home, "db": home.join("state.db"), "word": "store",
        });
        let ground = Ground { home: &home, private: &[], env: &[] };
        let copy = home.join("run/plugins/x.so");
        let allowed = ground.library(&copy, "one", &[], &config).unwrap();
        assert_eq!(allowed.writes, set(&[&home.join("media/one"), &home.join("data/one"), &store]));
        assert!(allowed.reads.contains(&copy));
        assert_eq!(allowed.ports, Some(BTreeSet::new()));
    }

    #[test]
    fn ports_come_from_the_manifest_and_from_the_section() {
        let listens = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        let config = json!({"port": 7071, "listen": "127.0.0.1:0", "base_url": "http://127.0.0.1:81", "count": 9});
        assert_eq!(
            ports(&listens(&["127.0.0.1:8640-8642", "/hook"]), &config),
            Some([0, 7071, 8640, 8641, 8642].into())
        );
        assert_eq!(ports(&listens(&["[::1]:90/path"]), &Value::Null), Some([90].into()));
        assert_eq!(ports(&listens(&["wherever"]), &config), None, "what cannot be read is not limited");
    }
}
