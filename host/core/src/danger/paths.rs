//! Which paths of a command lie where it must not go unasked: in the host's own folder, in
//! what the system tells of other processes, and where the machine keeps what starts.

use std::cell::Cell;

use super::shell::UNKNOWN;

/// What may be looked at for one command, in bytes of paths and of what is compared.
pub const STEPS_MAX: usize = 2 << 20;

/// Folders that a command may be in at once.
const FOLDERS_MAX: usize = 32;

/// Slashes of one word behind which a path may begin.
const SLASHES_MAX: usize = 32;

/// Where a command may be, and what it must not touch there.
#[derive(Debug)]
pub struct Places<'r> {
    home_text: &'r str,
    home: Vec<&'r str>,
    /// The folder of the work itself, where that lies below the host's.
    own: Vec<String>,
    readable: Vec<&'r str>,
    folders: Vec<String>,
    lost: bool,
    /// What may still be looked at; at zero nothing more is known.
    steps: Cell<usize>,
}

/// What the system tells of a process that holds what the process knows.
const OF_PROCESSES: [&str; 8] = ["environ", "mem", "fd", "cwd", "root", "maps", "smaps", "map_files"];

/// Folders at the root in which nothing is written unasked.
const SYSTEM: [&str; 12] =
    ["etc", "boot", "usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32", "proc", "sys", "dev"];

/// Devices that take what nobody keeps.
const HARMLESS_DEVICES: [&str; 5] = ["null", "stdout", "stderr", "tty", "fd"];

/// Files and folders by which code is started later, wherever they lie.
const STARTED_LATER: [&[&str]; 22] = [
    &[".ssh"],
    &[".bashrc"],
    &[".bash_profile"],
    &[".bash_login"],
    &[".bash_logout"],
    &[".bash_aliases"],
    &[".profile"],
    &[".zshrc"],
    &[".zshenv"],
    &[".zprofile"],
    &[".zlogin"],
    &[".gitconfig"],
    &[".pam_environment"],
    &[".config", "systemd"],
    &[".config", "autostart"],
    &[".config", "environment.d"],
    &[".config", "fish"],
    &[".config", "git"],
    &[".git", "hooks"],
    &[".git", "config"],
    &["spool", "cron"],
    &["cron", "crontabs"],
];

impl<'r> Places<'r> {
    /// A command begins in `cwd`; `work` is the folder that the operator gave the work.
    pub fn new(cwd: &str, work: &str, home: &'r str, readable: &'r str) -> Self {
        let parts = |path: &'r str| path.split('/').filter(|part| !part.is_empty()).collect::<Vec<&'r str>>();
        let home_parts = parts(home);
        let own = resolved(work);
        let is_below = own.len() > home_parts.len() && home_parts.iter().zip(&own).all(|(home, own)| home == own);
        Self {
            home_text: home,
            home: home_parts,
            own: if is_below { own } else { Vec::new() },
            readable: parts(readable),
            folders: vec![cwd.to_owned()],
            lost: cwd.is_empty(),
            steps: Cell::new(STEPS_MAX),
        }
    }

    /// Takes steps, and tells whether there were enough.
    pub fn spend(&self, steps: usize) -> bool {
        self.steps.set(self.steps.get().saturating_sub(steps));
        !self.is_spent()
    }

    /// Whether too much was looked at for anything to be known.
    pub fn is_spent(&self) -> bool {
        self.steps.get() == 0
    }

    /// It goes to another folder, unless that fails.
    pub fn enter(&mut self, path: &str) {
        let entered: Vec<String> = self.folders.iter().map(|from| joined(from, path)).collect();
        for folder in entered {
            if !self.folders.contains(&folder) {
                self.folders.push(folder);
            }
        }
        self.lost |= self.folders.len() > FOLDERS_MAX;
    }

    /// It goes where nobody knows.
    pub fn lose(&mut self) {
        self.lost = true;
    }

    /// Whether it is not known which file this is.
    pub fn is_lost(&self, path: &str) -> bool {
        self.lost && !path.starts_with('/')
    }

    /// Whether a path, or with `glob` a pattern of paths, lies in the host's folder.
    pub fn in_home(&self, path: &str, glob: bool) -> bool {
        self.within(path, &self.home, glob)
    }

    /// Whether a path lies where reading is fine.
    pub fn is_readable(&self, path: &str) -> bool {
        !self.readable.is_empty()
            && !path.contains("..")
            && path.starts_with('/')
            && self.within(path, &self.readable, false)
    }

    /// Whether a word names something in the host's folder, also within an option.
    pub fn names_home(&self, word: &str, glob: bool) -> bool {
        if self.home.is_empty() {
            return false;
        }
        // An option may have its path right behind it.
        let begins = word.match_indices('/').take(SLASHES_MAX).map(|(at, _)| &word[at..]);
        let value = word.split_once('=').map(|(_, value)| value);
        // In the middle of a word of another kind it may be meant as well.
        let goes_on = |c: char| c.is_alphanumeric() || "-_.".contains(c);
        let mut places = word.match_indices(self.home_text).map(|(at, home)| &word[at + home.len()..]);
        self.own.is_empty() && places.any(|rest| !rest.starts_with(goes_on))
            || begins.chain(value).chain([word]).any(|piece| self.in_home(piece, glob) || self.may_end_in_home(piece))
    }

    /// Whether a path that begins with what is not known goes on as the host's folder does.
    fn may_end_in_home(&self, path: &str) -> bool {
        let Some((begin, rest)) = path.split_once('/') else { return false };
        let rest: Vec<&str> = rest.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
        begin.contains(UNKNOWN)
            && !rest.is_empty()
            && self.own.is_empty()
            && (1..self.home.len()).any(|from| rest.starts_with(&self.home[from..]))
    }

    /// Whether a word names what the system tells of the memory, files or environment of processes.
    pub fn names_process(&self, word: &str, glob: bool) -> bool {
        let begins = word.match_indices('/').take(SLASHES_MAX).map(|(at, _)| &word[at..]);
        begins.chain([word]).any(|piece| {
            self.every(piece).any(|parts| {
                parts.len() > 2
                    && fits(&parts[0], "proc", glob)
                    && parts[2..].iter().any(|part| OF_PROCESSES.iter().any(|name| fits(part, name, glob)))
            })
        })
    }

    /// Whether a path leads to a device, or to what the system tells of processes.
    pub fn is_device(&self, path: &str) -> bool {
        self.every(path).any(|parts| parts.first().is_some_and(|first| first == "dev" || first == "proc"))
    }

    /// Whether a path is opened over the network.
    pub fn is_network(&self, path: &str) -> bool {
        self.every(path).any(|parts| parts.len() > 2 && parts[0] == "dev" && (parts[1] == "tcp" || parts[1] == "udp"))
    }

    /// Whether something is kept there by which the machine, or a person's shell, starts.
    pub fn is_guarded(&self, path: &str, glob: bool) -> bool {
        !path.is_empty()
            && self.every(path).any(|parts| {
                let first = parts.first().is_some_and(|first| SYSTEM.iter().any(|name| fits(first, name, glob)));
                let device = parts.len() > 1 && parts[0] == "dev" && HARMLESS_DEVICES.contains(&parts[1].as_str());
                let later = STARTED_LATER.iter().any(|names| {
                    let fit = |at: &[String]| at.iter().zip(*names).all(|(part, name)| fits(part, name, glob));
                    parts.windows(names.len()).any(fit)
                });
                first && !device || later
            })
    }

    /// Whether the host's folder lies below this path, or below where the command may be.
    pub fn is_above_home(&self, path: &str, glob: bool) -> bool {
        !self.home.is_empty()
            && self.every(path).any(|parts| {
                parts.len() < self.home.len() && self.home.iter().zip(&parts).all(|(home, part)| fits(part, home, glob))
            })
    }

    /// What a path may be, in every folder in which the command may be.
    fn every<'p>(&'p self, path: &'p str) -> impl Iterator<Item = Vec<String>> + 'p {
        let folders = if path.starts_with('/') { &self.folders[..1] } else { &self.folders[..] };
        folders
            .iter()
            .take_while(move |from| self.spend(from.len() + path.len() + 8))
            .map(move |from| resolved(&joined(from, path)))
    }

    fn within(&self, path: &str, folder: &[&str], glob: bool) -> bool {
        if folder.is_empty() || path.is_empty() {
            return false;
        }
        self.every(path).any(|parts| {
            let is_own = !self.own.is_empty() && parts.starts_with(&self.own);
            !is_own
                && parts.len() >= folder.len()
                && folder.iter().zip(&parts).all(|(home, part)| fits(part, home, glob))
        })
    }
}

fn joined(folder: &str, path: &str) -> String {
    if path.starts_with('/') { path.to_owned() } else { format!("{folder}/{path}") }
}

fn resolved(path: &str) -> Vec<String> {
    let mut parts: Vec<String> = Vec::new();
    for part in path.split('/') {
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

/// Whether a part of a path, perhaps a pattern, can be this name.
fn fits(part: &str, name: &str, glob: bool) -> bool {
    if !glob && !part.contains(UNKNOWN) {
        return part == name;
    }
    // Of something that is not known at all nothing is assumed.
    if part.chars().all(|c| c == UNKNOWN) {
        return false;
    }
    if part.contains('[') {
        return true;
    }
    let (part, name): (Vec<char>, Vec<char>) = (part.chars().collect(), name.chars().collect());
    // Where a star was seen, and what it has swallowed since.
    let (mut p, mut n, mut star) = (0, 0, None);
    while n < name.len() {
        match part.get(p) {
            Some('*') | Some(&UNKNOWN) => {
                star = Some((p, n));
                p += 1;
            }
            Some(c) if *c == '?' || *c == name[n] => {
                p += 1;
                n += 1;
            }
            _ => match star {
                Some((at, from)) => {
                    p = at + 1;
                    n = from + 1;
                    star = Some((at, from + 1));
                }
                None => return false,
            },
        }
    }
    part[p..].iter().all(|c| matches!(c, '*' | &UNKNOWN))
}
