//! The decision which access one child gets.
//!
//! The home is closed. A child gets its own media and data folders in it, and the paths that the operator named: the
//! files of its command and the paths in its section. Outside of the home, a program may read its working folder,
//! except for the files that hold secrets of the host.

use std::{
    collections::BTreeSet,
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
};

use serde_json::Value;

use super::{Allowed, files::ETC};
use crate::files;

/// Folders of the home that belong to the host. No section and no command opens them.
const FOLDERS_OF_THE_HOST: &[&str] = &["media", "data", "run", "logs", "processes", "memory"];
/// Files of the home that belong to the host, by the prefix of their names.
const FILES_OF_THE_HOST: &[&str] = &["state.db", "plugins.lock", "plugins.toml", "host.lock", "host.sock", ".env"];
/// Folders that are searched for the names of programs if no `PATH` is passed on.
const PATH_DEFAULT: &str = "/usr/local/bin:/usr/bin:/bin";
/// Parts of an interpreter next to its `bin`.
const PREFIX_FOLDERS: &[&str] = &["lib", "lib64", "libexec", "include", "pyvenv.cfg"];
/// Nested folders that are opened entry by entry because they contain private files.
const DEPTH_MAX: usize = 32;
/// Files next to a script in the home that are opened with it.
const SIBLINGS_MAX: usize = 1_000;
/// Ports that one range of a manifest may contain.
const RANGE_PORTS_MAX: u16 = 1_024;
/// Strings and numbers of a section that are examined.
const VALUES_MAX: usize = 10_000;

/// The inputs of the decision.
pub(crate) struct Ground<'a> {
    /// The home folder.
    pub(crate) home: &'a Path,
    /// The home directory of the user, by the password database.
    pub(crate) user_home: Option<&'a Path>,
    /// Files outside of the home that hold secrets: the configuration, a `.env`.
    pub(crate) private: &'a [PathBuf],
    /// The child's environment.
    pub(crate) env: &'a [(OsString, OsString)],
    /// Instances that may open Unix sockets.
    pub(crate) unix_sockets: &'a BTreeSet<String>,
}

/// The part of a folder that may be opened because a program works in it.
#[derive(Debug, PartialEq, Eq)]
enum Reach {
    /// The whole folder.
    Whole,
    /// The folder without the private files in it.
    Parts,
    /// Only the files that the operator named: the folder is the home or in it, or contains the home directory of the
    /// user.
    Named,
    /// Nothing: it is private.
    Nothing,
}

impl Ground<'_> {
    /// Returns the access of a library that only answers questions.
    pub(crate) fn asking(&self, copy: &Path) -> Allowed {
        let mut allowed = Allowed { ports: Some(BTreeSet::new()), ..Allowed::default() };
        self.open_system(&mut allowed);
        allowed.reads.insert(copy.to_owned());
        allowed
    }

    /// Returns the access of an instance that runs a library.
    pub(crate) fn library(
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

    /// Returns the access of an instance that is a program. Its ports are unknown before it runs, so all are allowed.
    pub(crate) fn program(
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
        let mut has_script = false;
        // Not every argument is a path.
        for path in words.map(|word| at(word)).filter(|path| path.exists()) {
            self.open_named(&path, &mut allowed);
            if path.is_file() && !std::mem::replace(&mut has_script, true) {
                self.open_beside(&path, &mut allowed);
            }
        }
        Ok(allowed)
    }

    /// Opens an interpreter: its folder, and the libraries next to it if that folder is a `bin`.
    fn open_interpreter(&self, program: &Path, allowed: &mut Allowed) {
        let Some(folder) = program.parent() else { return };
        if folder.ends_with("bin")
            && let Some(prefix) = folder.parent()
        {
            for name in PREFIX_FOLDERS {
                self.open_named(&prefix.join(name), allowed);
            }
        }
        self.open_named(program, allowed);
        self.open_beside(program, allowed);
    }

    fn on_path(&self, program: &str) -> Option<PathBuf> {
        let path = self.env.iter().find(|(name, _)| name == "PATH").map(|(_, value)| value.clone());
        let path = path.unwrap_or_else(|| PATH_DEFAULT.into());
        std::env::split_paths(&path).map(|folder| folder.join(program)).find(|file| file.is_file())
    }

    fn open_system(&self, allowed: &mut Allowed) {
        // The child opens the public files of `/etc`, except for these.
        let homes = [self.home.to_owned()];
        allowed.hidden.extend(self.private.iter().chain(&homes).filter(|path| path.starts_with(ETC)).cloned());
        for (_, value) in self.env.iter().filter(|(name, _)| name == "SSL_CERT_FILE" || name == "SSL_CERT_DIR") {
            for path in std::env::split_paths(value) {
                self.open(&path, allowed, DEPTH_MAX);
            }
        }
    }

    /// Opens its media and data folders, which are created here, and the absolute paths that the operator wrote into
    /// its section.
    fn open_own(&self, allowed: &mut Allowed, instance: &str, config: &Value) -> std::io::Result<()> {
        let media = self.home.join("media").join(instance);
        files::private_folder(&media)?;
        allowed.writes.insert(media);
        allowed.writes.insert(files::data_folder(self.home, instance)?);
        allowed.unix_sockets = self.unix_sockets.contains(instance);
        for path in leaves(config).filter_map(|(_, value)| value.as_str()).map(Path::new) {
            if path.is_absolute() && path.exists() && !self.holds_private(path) && self.may_be_named(path) {
                allowed.writes.insert(path.to_owned());
            }
        }
        Ok(())
    }

    /// Opens a folder because a program works in it, except for its private parts.
    fn open(&self, path: &Path, allowed: &mut Allowed, depth: usize) {
        match self.reach(path) {
            Reach::Whole => {
                allowed.reads.insert(path.to_owned());
            }
            Reach::Parts if depth > 0 => {
                // Interpreters list folders to find modules.
                allowed.lists.insert(path.to_owned());
                let Ok(entries) = fs::read_dir(path) else { return };
                for entry in entries.flatten() {
                    self.open(&entry.path(), allowed, depth - 1);
                }
            }
            Reach::Parts | Reach::Named | Reach::Nothing => {}
        }
    }

    /// Opens a file or folder that the operator named in a command.
    fn open_named(&self, path: &Path, allowed: &mut Allowed) {
        if self.holds_private(path) {
            self.open(path, allowed, DEPTH_MAX);
        } else if path.exists() && self.may_be_named(path) {
            allowed.reads.insert(path.to_owned());
        }
    }

    /// Opens the folder of a script. In the home, and in a folder that contains the home directory of the user, only
    /// files with the same extension as the script are opened.
    fn open_beside(&self, script: &Path, allowed: &mut Allowed) {
        let Some(folder) = script.parent() else { return };
        if real(folder).starts_with(ETC) {
            return;
        }
        let is_root_of_home = real(folder) == real(self.home);
        let is_named = self.reach(folder) == Reach::Named;
        if !is_named {
            return self.open(folder, allowed, DEPTH_MAX);
        }
        if !is_root_of_home && real(folder).starts_with(real(self.home)) {
            return self.open_named(folder, allowed);
        }
        let (Some(ending), Ok(entries)) = (script.extension(), fs::read_dir(folder)) else { return };
        let is_beside = |path: &PathBuf| {
            path.extension() == Some(ending)
                && fs::symlink_metadata(path).is_ok_and(|meta| meta.is_file())
                && self.may_be_named(path)
        };
        let files: Vec<_> = entries.flatten().map(|entry| entry.path()).filter(is_beside).take(SIBLINGS_MAX).collect();
        if files.len() > 1 {
            allowed.lists.insert(folder.to_owned());
        }
        allowed.reads.extend(files);
    }

    fn reach(&self, path: &Path) -> Reach {
        let real = real(path);
        if self.private.iter().any(|private| real.starts_with(self::real(private))) {
            return Reach::Nothing;
        }
        let holds_user = self.user_home.is_some_and(|home| self::real(home).starts_with(&real));
        if holds_user || real.starts_with(self::real(self.home)) {
            return Reach::Named;
        }
        if self.holds_private(path) { Reach::Parts } else { Reach::Whole }
    }

    /// Returns `true` if a private path can be reached through `path`.
    fn holds_private(&self, path: &Path) -> bool {
        let real = real(path);
        let mut private = self.private.iter().map(PathBuf::as_path).chain([self.home]).map(self::real);
        private.any(|private| private.starts_with(&real) && (private != real || private == self::real(self.home)))
    }

    /// Returns `true` if the operator may name `path`: it is not a file of the host and not in one of its folders.
    fn may_be_named(&self, path: &Path) -> bool {
        let real = real(path);
        if self.private.iter().any(|private| real.starts_with(self::real(private))) {
            return false;
        }
        let Ok(below) = real.strip_prefix(self::real(self.home)) else { return true };
        let Some(first) = below.components().next() else { return false };
        let name = first.as_os_str().to_string_lossy();
        !FOLDERS_OF_THE_HOST.contains(&&*name) && !FILES_OF_THE_HOST.iter().any(|own| name.starts_with(own))
    }
}

/// Resolves the links of a path as far as it exists.
fn real(path: &Path) -> PathBuf {
    if let Ok(real) = fs::canonicalize(path) {
        return real;
    }
    match (path.parent(), path.file_name()) {
        (Some(folder), Some(name)) => fs::canonicalize(folder).unwrap_or_else(|_| folder.to_owned()).join(name),
        _ => path.to_owned(),
    }
}

/// Returns the ports that a manifest and a section name. `None`: a listener of the manifest names no port.
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
            // Only addresses are read. A URL names a server to connect to.
            Value::String(address) if !address.contains('/') => ports.extend(range_of(address).into_iter().flatten()),
            _ => {}
        }
    }
    Some(ports)
}

/// Parses `host:port`, `host:from-to` or a bare port.
fn range_of(listen: &str) -> Option<std::ops::RangeInclusive<u16>> {
    let listen = listen.split('/').next().unwrap_or_default();
    let ports = listen.rsplit_once(':').map_or(listen, |(_, ports)| ports);
    let (from, to) = ports.split_once('-').unwrap_or((ports, ports));
    let (from, to) = (from.parse::<u16>().ok()?, to.parse::<u16>().ok()?);
    Some(from..=to.min(from.saturating_add(RANGE_PORTS_MAX)))
}

/// Returns every string and number of a section with its key.
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

    /// Creates a home with files of the host and of the operator.
    fn home(root: &Path) -> PathBuf {
        let home = root.join("home");
        for name in ["media/other", "logs", "processes/p1", "memory", "tools", "venv/bin", "package"] {
            fs::create_dir_all(home.join(name)).unwrap();
        }
        for name in [
            "state.db",
            "state.db-wal",
            "state.db.v3",
            ".env",
            "plugins.toml",
            "plugins.lock",
            "logs/host.log",
            "processes/p1/out",
            "memory/user.md",
            "script.py",
            "module.py",
            "notes",
            "tools/own.py",
            "package/x.py",
            "venv/bin/python3",
        ] {
            fs::write(home.join(name), "x").unwrap();
        }
        home
    }

    fn program(ground: &Ground<'_>, command: &[&str], folder: &Path) -> Allowed {
        let command: Vec<String> = command.iter().map(|word| (*word).to_owned()).collect();
        ground.program(&command, Some(folder), "one", &json!({})).unwrap()
    }

    /// Returns the allowed paths below a folder.
    fn below(paths: &BTreeSet<PathBuf>, root: &Path) -> BTreeSet<PathBuf> {
        paths.iter().filter(|path| path.starts_with(root)).cloned().collect()
    }

    #[test]
    fn a_folder_with_the_home_in_it_is_opened_without_the_home_and_other_private_files() {
        let folder = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(folder.path()).unwrap();
        let home = home(&root);
        for name in ["plugins.toml", "chat.py", "other"] {
            fs::write(root.join(name), "x").unwrap();
        }
        std::os::unix::fs::symlink(home.join("state.db"), root.join("link")).unwrap();
        let private = [root.join("plugins.toml")];
        let none = BTreeSet::new();
        let ground = Ground { home: &home, user_home: None, private: &private, env: &[], unix_sockets: &none };
        let allowed = program(&ground, &["/bin/sh", "./chat.py"], &root);
        assert_eq!(below(&allowed.reads, &root), set(&[&root.join("chat.py"), &root.join("other")]));
        assert_eq!(allowed.lists, set(&[&root]));
        assert_eq!(allowed.writes, set(&[&home.join("media/one"), &home.join("data/one")]));
        assert_eq!((allowed.ports, allowed.unix_sockets), (None, false));
    }

    #[test]
    fn of_the_home_a_program_reads_only_what_its_command_names() {
        let folder = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(folder.path()).unwrap();
        let home = home(&root);
        let none = BTreeSet::new();
        let private = [home.join("plugins.toml"), home.join(".env")];
        let ground = Ground { home: &home, user_home: None, private: &private, env: &[], unix_sockets: &none };
        let reads = |command: &[&str]| {
            let allowed = program(&ground, command, &home);
            (below(&allowed.reads, &root), allowed.lists)
        };
        let at = |names: &[&str]| names.iter().map(|name| home.join(name)).collect::<BTreeSet<_>>();
        assert_eq!(reads(&["/bin/sh", "./script.py"]), (at(&["script.py", "module.py"]), at(&[""])));
        assert_eq!(reads(&["/bin/sh", "notes"]), (at(&["notes"]), none.iter().map(PathBuf::from).collect()));
        assert_eq!(reads(&["/bin/sh", "tools/own.py"]).0, at(&["tools", "tools/own.py"]));
        assert_eq!(reads(&["/bin/sh", "-m", "package"]).0, at(&["package"]));
        assert_eq!(reads(&["./venv/bin/python3"]).0, at(&["venv/bin", "venv/bin/python3"]));
        for own in [
            ".",
            "state.db",
            "state.db-wal",
            "state.db.v3",
            ".env",
            "plugins.toml",
            "plugins.lock",
            "logs",
            "logs/host.log",
            "processes/p1/out",
            "memory/user.md",
            "media/other",
            "tools/../state.db",
        ] {
            assert_eq!(reads(&["/bin/sh", own]).0, BTreeSet::new(), "{own}");
        }
    }

    #[test]
    fn the_home_of_the_user_is_no_folder_of_a_program() {
        let folder = tempfile::tempdir().unwrap();
        let user = fs::canonicalize(folder.path()).unwrap();
        fs::create_dir_all(user.join(".ssh")).unwrap();
        fs::create_dir_all(user.join("bot")).unwrap();
        for name in ["chat.py", "beside.py", ".ssh/key", "bot/chat.py", "letter"] {
            fs::write(user.join(name), "x").unwrap();
        }
        let elsewhere = tempfile::tempdir().unwrap();
        for home in [elsewhere.path().join("home"), user.join(".hermes-host")] {
            fs::create_dir_all(&home).unwrap();
            let none = BTreeSet::new();
            let ground = Ground { home: &home, user_home: Some(&user), private: &[], env: &[], unix_sockets: &none };
            let reads = |command: &[&str], folder: &Path| below(&program(&ground, command, folder).reads, &user);
            let scripts = set(&[&user.join("chat.py"), &user.join("beside.py")]);
            assert_eq!(reads(&["/bin/sh", "chat.py"], &user), scripts);
            let bot = user.join("bot");
            assert_eq!(reads(&["/bin/sh", "chat.py"], &bot), set(&[&bot, &bot.join("chat.py")]));
        }
    }

    #[test]
    fn a_path_of_the_section_is_allowed_unless_it_leads_to_the_hosts_own() {
        let folder = tempfile::tempdir().unwrap();
        let home = folder.path().join("home");
        let store = folder.path().join("store");
        fs::create_dir_all(&home).unwrap();
        fs::create_dir_all(&store).unwrap();
        fs::write(home.join("state.db"), "x").unwrap();
        fs::create_dir_all(home.join("own")).unwrap();
        fs::create_dir_all(home.join("media/two")).unwrap();
        let config = json!({
            "deep": [{"store": store}], "all": "/", "home": home, "db": home.join("state.db"), "word": "store",
            "own": home.join("own"), "other": home.join("media/two"), "others": home.join("media"),
        });
        let ground =
            Ground { home: &home, user_home: None, private: &[], env: &[], unix_sockets: &["one".to_owned()].into() };
        let copy = home.join("run/plugins/x.so");
        let allowed = ground.library(&copy, "one", &[], &config).unwrap();
        assert_eq!(allowed.writes, set(&[&home.join("media/one"), &home.join("data/one"), &home.join("own"), &store]));
        assert!(allowed.reads.contains(&copy));
        assert_eq!(allowed.ports, Some(BTreeSet::new()));
        assert!(allowed.unix_sockets && !ground.library(&copy, "two", &[], &config).unwrap().unix_sockets);
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
