//! Paths of a command: paths that it may read, write or run, and paths with secrets.

use std::path::{Path, PathBuf};

use super::Rules;
use super::word::{UNKNOWN, Word};

/// Possible working folders of a command at one time.
const FOLDERS_MAX: usize = 16;

/// Top-level folders that need approval for writing.
const SYSTEM: &[&str] = &[
    "etc", "boot", "usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32", "proc", "sys", "dev", "run", "root", "var",
];

/// Devices that discard or display their input.
const HARMLESS_DEVICES: &[&str] = &["null", "stdout", "stderr", "tty"];

/// Devices that may be read.
const READABLE_DEVICES: &[&str] = &["null", "random", "urandom", "stdin", "tty"];

/// Files below `/proc` that may be read.
const READABLE_PROC: &[&str] = &[
    "cpuinfo",
    "meminfo",
    "version",
    "loadavg",
    "uptime",
    "mounts",
    "stat",
    "filesystems",
    "partitions",
    "swaps",
    "diskstats",
    "interrupts",
    "modules",
    "devices",
];

/// Names of files and folders with code that runs later, in any folder.
const STARTED_LATER: &[&str] = &[
    ".git",
    ".ssh",
    ".bashrc",
    ".bash_profile",
    ".bash_login",
    ".bash_logout",
    ".bash_aliases",
    ".profile",
    ".zshrc",
    ".zshenv",
    ".zprofile",
    ".zlogin",
    ".gitconfig",
    ".pam_environment",
    ".envrc",
    ".inputrc",
    ".vimrc",
    ".tmux.conf",
    ".xinitrc",
    ".xprofile",
    "authorized_keys",
    "crontab",
    "crontabs",
    "sudoers",
];

/// Folders inside of `.config` from which programs start or read their settings.
const CONFIGURED: &[&str] = &["systemd", "autostart", "environment.d", "fish", "git", "pip", "nvim", "gh"];

/// Names of files and folders with secrets, in any folder.
const SECRET: &[&str] = &[
    ".ssh",
    ".aws",
    ".gnupg",
    ".kube",
    ".azure",
    ".gcloud",
    ".docker",
    ".netrc",
    ".npmrc",
    ".pypirc",
    ".pgpass",
    ".my.cnf",
    ".htpasswd",
    ".git-credentials",
    ".dockercfg",
    ".vault-token",
    ".password-store",
    ".hermes-host",
    ".mozilla",
    ".thunderbird",
    ".bash_history",
    ".zsh_history",
    ".psql_history",
    ".mysql_history",
    ".python_history",
    ".authinfo",
    ".terraform.d",
    "keyrings",
    ".boto",
    ".s3cfg",
];

/// Names of files with secrets, without their extension.
const SECRET_STEMS: &[&str] =
    &["credentials", "credential", "secrets", "secret", "service-account", "service_account", "token", "tokens"];

/// Extensions of settings files.
const SETTINGS: &[&str] = &["json", "toml", "yaml", "yml", "ini", "env", "txt", "xml", "cfg", "conf"];

/// Extensions of key files.
const KEYS: &[&str] = &["pem", "key", "p12", "pfx", "kdbx", "keystore", "jks", "ppk"];

/// Names of SSH keys.
const SSH_KEYS: &[&str] = &["id_rsa", "id_dsa", "id_ecdsa", "id_ed25519"];

/// System files that contain secrets or give access to them.
const SECRET_PATHS: &[&str] = &[
    "/etc/shadow",
    "/etc/shadow-",
    "/etc/gshadow",
    "/etc/sudoers",
    "/etc/sudoers.d",
    "/etc/ssl/private",
    "/root",
    "/run/secrets",
    "/run/docker.sock",
    "/var/run/docker.sock",
    "/var/run/secrets",
    "/etc/security/opasswd",
];

/// Hidden entries of a home folder that are not secrets.
const OPEN_IN_HOME: &[&str] =
    &[".bashrc", ".profile", ".bash_profile", ".zshrc", ".vimrc", ".cache", ".rustup", ".local"];

/// Folders of system programs.
const PROGRAMS: &[&str] = &["/bin", "/sbin", "/usr/bin", "/usr/sbin", "/usr/local/bin", "/usr/local/sbin"];

/// Reason for which a path needs approval.
pub(super) type Reason = &'static str;

/// Possible working folders of a command.
pub(super) type Folders = Vec<String>;

/// The folders that decide about paths.
#[derive(Debug)]
pub(super) struct PathRules<'r> {
    rules: &'r Rules,
    /// Working folder of the turn.
    root: Vec<String>,
    home: Vec<String>,
}

impl<'r> PathRules<'r> {
    /// Creates the rules for a turn with the working folder `root`.
    pub(super) fn new(root: &str, rules: &'r Rules) -> Self {
        Self { rules, root: parts(root), home: parts(&rules.host_home) }
    }

    /// Returns the home folder of the user.
    pub(super) fn user_home(&self) -> &'r str {
        self.rules.user_home.as_deref().unwrap_or("/home/user")
    }

    /// Returns the reason for which reading needs approval. `deep` is true if folders are read with all their
    /// contents.
    pub(super) fn read(&self, folders: &Folders, word: &Word, deep: bool) -> Option<Reason> {
        if !word.known {
            return Some("it reads a file that is known only when it runs");
        }
        let path = word.text.as_str();
        // The path may follow a revision or a machine.
        let path = path.rsplit_once(':').map_or(path, |(_, path)| path);
        folders.iter().find_map(|folder| {
            let parts = resolved(folder, path);
            self.secret(&parts, word.glob)
                .or_else(|| self.host(&parts, word.glob, true))
                .or_else(|| deep.then(|| self.above(&parts, word.glob)).flatten())
                .or_else(|| self.real(folder, path).and_then(|real| self.read_real(&real)))
        })
    }

    /// Returns the reason for which writing needs approval.
    pub(super) fn write(&self, folders: &Folders, word: &Word) -> Option<Reason> {
        if !word.known {
            return Some("it writes a file that is known only when it runs");
        }
        if word.text.contains("://") {
            return Some("it writes to an address");
        }
        folders.iter().find_map(|folder| {
            let parts = resolved(folder, &word.text);
            if parts.len() == 2 && parts[0] == "dev" && HARMLESS_DEVICES.contains(&parts[1].as_str()) {
                return None;
            }
            if word.glob && word.text.starts_with('/') {
                return Some("it writes files that are known only when it runs");
            }
            self.written(&parts, word.glob)
                .or_else(|| self.real(folder, &word.text).and_then(|real| self.write_real(&real)))
        })
    }

    /// Returns the reason for which running a program by its path needs approval, or `None` for a program of
    /// the working folder.
    pub(super) fn run(&self, folders: &Folders, word: &Word) -> Option<Reason> {
        if !word.known || word.glob {
            return Some("the program is known only when it runs");
        }
        if word.text.contains("://") {
            return Some("it runs a program from an address");
        }
        folders.iter().find_map(|folder| {
            let parts = resolved(folder, &word.text);
            let outside = "it runs a program outside the working folder";
            if !self.inside(&parts) || parts.len() == self.root.len() {
                return Some(outside);
            }
            // Programs of a virtual environment in the working folder may be links to outside of it.
            let is_environment = parts.iter().rev().nth(1).is_some_and(|folder| folder == "bin");
            self.host(&parts, false, false).or_else(|| {
                let real = self.real(folder, &word.text)?;
                if is_host(&real) {
                    return Some("it controls the host that runs this agent");
                }
                (!self.is_really_inside(&real) && !is_environment).then_some(outside)
            })
        })
    }

    /// Returns true if a path is inside of the working folder, relative to every possible folder of the
    /// command.
    pub(super) fn is_inside(&self, folders: &Folders, word: &Word) -> bool {
        word.known && folders.iter().all(|folder| self.inside(&resolved(folder, &word.text)))
    }

    /// Returns true if a file is known to exist.
    pub(super) fn exists(&self, folders: &Folders, path: &str) -> bool {
        folders.iter().any(|folder| joined(folder, path).symlink_metadata().is_ok())
    }

    /// Returns true if a file exists relative to every possible folder of the command.
    pub(super) fn is_there(&self, folders: &Folders, path: &str) -> bool {
        folders.iter().all(|folder| joined(folder, path).is_file())
    }

    /// Returns the current branch of the repository in the working folder.
    pub(super) fn branch(&self, folders: &Folders) -> Option<String> {
        let head = std::fs::read_to_string(joined(folders.first()?, ".git/HEAD")).ok()?;
        head.trim().strip_prefix("ref: refs/heads/").map(str::to_owned)
    }

    /// Returns the possible folders after entering one, or the reason for which that needs approval.
    pub(super) fn enter(&self, folders: &Folders, word: &Word) -> Result<Folders, Reason> {
        if !word.known || word.glob {
            return Err("it enters a folder that is known only when it runs");
        }
        let mut entered = Folders::new();
        for folder in folders {
            let parts = resolved(folder, &word.text);
            if !self.inside(&parts) {
                return Err("it leaves the working folder");
            }
            if let Some(why) = self.secret(&parts, false).or_else(|| self.host(&parts, false, false)) {
                return Err(why);
            }
            if self.real(folder, &word.text).is_some_and(|real| !self.is_really_inside(&real)) {
                return Err("it leaves the working folder");
            }
            let folder = format!("/{}", parts.join("/"));
            if !entered.contains(&folder) {
                entered.push(folder);
            }
        }
        if entered.len() > FOLDERS_MAX { Err("it changes the folder too often") } else { Ok(entered) }
    }

    /// Returns the reason for which a command in a folder needs approval.
    pub(super) fn begins(&self, folder: &str) -> Option<Reason> {
        let parts = parts(folder);
        self.host(&parts, false, true).or_else(|| self.secret(&parts, false))
    }

    fn inside(&self, parts: &[String]) -> bool {
        !self.root.is_empty() && parts.starts_with(&self.root)
    }

    fn written(&self, parts: &[String], glob: bool) -> Option<Reason> {
        if !self.inside(parts) {
            return Some("it writes outside the working folder");
        }
        if parts.first().is_some_and(|first| SYSTEM.contains(&first.as_str())) && !self.given() {
            return Some("it writes to a system folder");
        }
        let below = &parts[self.root.len().min(parts.len())..];
        let later = below.iter().any(|part| STARTED_LATER.iter().any(|name| fits(part, name, glob)));
        let configured = below
            .windows(2)
            .any(|pair| fits(&pair[0], ".config", glob) && CONFIGURED.iter().any(|name| fits(&pair[1], name, glob)));
        if later || configured {
            return Some("it writes a file that starts or configures programs");
        }
        self.secret(parts, glob).or_else(|| self.host(parts, glob, false))
    }

    /// Returns true if the operator set the working folder.
    fn given(&self) -> bool {
        !self.rules.work.is_empty() && self.root.starts_with(&parts(&self.rules.work))
    }

    fn secret(&self, path: &[String], glob: bool) -> Option<Reason> {
        let inside = self.inside(path);
        let own = inside && self.given();
        let readable = parts(&self.rules.readable);
        let open = !glob && !readable.is_empty() && path.starts_with(&readable);
        let from = if own {
            self.root.len()
        } else if open {
            readable.len()
        } else {
            0
        };
        let named = path[from..].iter().any(|part| is_secret(part, glob));
        let system = SECRET_PATHS.iter().any(|secret| below(&parts(secret), path, glob));
        let first = |name: &str| path.len() > 1 && fits(&path[0], name, glob);
        let status = path.len() == 3 && path[1] == "self" && path[2] == "status";
        let process = first("proc") && !READABLE_PROC.contains(&path[1].as_str()) && !status;
        let device = first("dev") && !READABLE_DEVICES.contains(&path[1].as_str());
        let home = parts(self.user_home());
        let hidden = !inside
            && !open
            && path.len() > home.len()
            && path.starts_with(&home)
            && path[home.len()].starts_with('.')
            && !OPEN_IN_HOME.contains(&path[home.len()].as_str());
        if named || hidden || system && !own {
            Some("it names a file that may hold secrets")
        } else {
            (process || device).then_some("it reads a device or process data of the system")
        }
    }

    /// Returns the reason for a path inside of the host's folder.
    fn host(&self, path: &[String], glob: bool, reads: bool) -> Option<Reason> {
        let (work, readable) = (parts(&self.rules.work), parts(&self.rules.readable));
        let own = work.len() > self.home.len() && work.starts_with(&self.home) && path.starts_with(&work);
        let open = reads && !readable.is_empty() && !glob && path.starts_with(&readable);
        let inside = !self.home.is_empty() && below(&self.home, path, glob);
        (inside && !own && !open).then_some("it reads or changes the host's own folder")
    }

    /// Returns the reason for a folder that contains secrets: a parent of the host's folder or of a home
    /// folder.
    fn above(&self, path: &[String], glob: bool) -> Option<Reason> {
        let is_above = |folder: &[String]| {
            !folder.is_empty() && path.len() <= folder.len() && path.iter().zip(folder).all(|(p, f)| fits(p, f, glob))
        };
        let home = is_above(&parts(self.user_home())) && !(self.inside(path) && self.given());
        let system = SECRET_PATHS.iter().any(|secret| is_above(&parts(secret)));
        (is_above(&self.home) || home || system)
            .then_some("it traverses a folder that contains secrets or the host's data")
    }

    /// Returns the path with all links resolved, if the working folder exists.
    fn real(&self, folder: &str, path: &str) -> Option<PathBuf> {
        self.real_root()?;
        let mut path = joined(folder, path);
        let mut rest = Vec::new();
        loop {
            if let Ok(real) = path.canonicalize() {
                return Some(rest.iter().rev().fold(real, |real, name| real.join(name)));
            }
            // A dangling link is followed to its target.
            if let Ok(target) = std::fs::read_link(&path) {
                let target = path.parent()?.join(target);
                return Some(PathBuf::from(format!("/{}", parts(&target.to_string_lossy()).join("/"))));
            }
            rest.push(path.file_name()?.to_owned());
            path = path.parent()?.to_owned();
        }
    }

    fn real_root(&self) -> Option<PathBuf> {
        Path::new(&format!("/{}", self.root.join("/"))).canonicalize().ok()
    }

    fn is_really_inside(&self, real: &Path) -> bool {
        self.real_root().is_some_and(|root| real.starts_with(root))
    }

    /// Returns a real path in the notation of the rules.
    fn said(&self, real: &Path) -> Vec<String> {
        let root = format!("/{}", self.root.join("/"));
        for known in [root.as_str(), &self.rules.work, &self.rules.host_home] {
            let folder = Path::new(known).canonicalize().ok().filter(|_| !known.is_empty());
            if let Some(below) = folder.and_then(|folder| real.strip_prefix(folder).ok().map(Path::to_owned)) {
                return parts(&format!("{known}/{}", below.display()));
            }
        }
        parts(&real.to_string_lossy())
    }

    fn read_real(&self, real: &Path) -> Option<Reason> {
        let parts = self.said(real);
        self.secret(&parts, false).or_else(|| self.host(&parts, false, true))
    }

    fn write_real(&self, real: &Path) -> Option<Reason> {
        self.written(&self.said(real), false)
    }
}

/// Returns true if a program is the host, by its name, its file or its size.
fn is_host(path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    if path.file_name().is_some_and(|name| name.to_string_lossy().to_ascii_lowercase().contains("hermes-host")) {
        return true;
    }
    let own = std::env::current_exe().ok().and_then(|own| own.metadata().ok());
    let this = path.metadata().ok().filter(std::fs::Metadata::is_file);
    own.zip(this)
        .is_some_and(|(own, this)| (own.dev(), own.ino()) == (this.dev(), this.ino()) || own.len() == this.len())
}

/// Returns the name of a system program if the path belongs to one.
pub(super) fn system_program(path: &str) -> Option<&str> {
    let (folder, name) = path.rsplit_once('/')?;
    PROGRAMS.contains(&folder).then_some(name)
}

/// Returns true if a name is that of a secret.
fn is_secret(name: &str, glob: bool) -> bool {
    let begins = !glob || !name.starts_with(['*', '?', '[']);
    if begins && SECRET.iter().any(|secret| fits(name, secret, glob)) || fits(name, ".env", glob) {
        return true;
    }
    if glob && name.contains(['*', '?', '[']) {
        // A pattern counts as a secret if it can match one.
        return begins && SSH_KEYS.iter().any(|key| fits(name, key, true))
            || begins && name.starts_with("cred") && fits(name, "credentials", true)
            || name.starts_with(".env.") && !name.contains("ex")
            || KEYS.iter().any(|ending| name.ends_with(&format!(".{ending}")));
    }
    let name = name.to_ascii_lowercase();
    if let Some(kind) = name.strip_prefix(".env.") {
        return !["example", "sample", "template", "dist", "defaults", "test"].contains(&kind);
    }
    let (stem, ending) = name.rsplit_once('.').unwrap_or((&name, ""));
    let is_key = SSH_KEYS.contains(&name.as_str()) || KEYS.contains(&ending);
    let is_stem = ending.is_empty() && stem.starts_with("cred") || SETTINGS.contains(&ending);
    is_key || SECRET_STEMS.contains(&stem) && is_stem
}

fn joined(folder: &str, path: &str) -> PathBuf {
    Path::new(folder).join(path)
}

fn parts(path: &str) -> Vec<String> {
    if path.is_empty() { Vec::new() } else { resolved("/", path) }
}

/// Resolves `.` and `..` lexically.
fn resolved(folder: &str, path: &str) -> Vec<String> {
    let path = joined(folder, path);
    let text = path.to_string_lossy();
    let mut parts: Vec<String> = Vec::new();
    for part in text.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part.to_owned()),
        }
    }
    parts
}

/// Returns true if a path is equal to, or inside of, a folder.
fn below(folder: &[String], parts: &[String], glob: bool) -> bool {
    parts.len() >= folder.len() && folder.iter().zip(parts).all(|(folder, part)| fits(part, folder, glob))
}

/// Returns true if a part of a path, which may be a pattern, can match this name.
fn fits(part: &str, name: &str, glob: bool) -> bool {
    if !glob || !part.contains(['*', '?', '[', UNKNOWN]) {
        return part.eq_ignore_ascii_case(name);
    }
    // A pattern does not match a leading dot.
    if name.starts_with('.') && part.starts_with(['*', '?', '[']) {
        return false;
    }
    if part.contains('[') {
        let begin = part.split(['*', '?', '[']).next().unwrap_or_default();
        return name.starts_with(begin);
    }
    super::patterns::matches(part, name)
}
