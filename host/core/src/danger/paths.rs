//! Which paths of a command lie in the host's own folder.

use super::shell::UNKNOWN;

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
}

impl<'r> Places<'r> {
    /// A command begins in `cwd`.
    pub fn new(cwd: &str, home: &'r str, readable: &'r str) -> Self {
        let parts = |path: &'r str| path.split('/').filter(|part| !part.is_empty()).collect::<Vec<&'r str>>();
        let home_parts = parts(home);
        let own = resolved(cwd);
        let is_below = own.len() > home_parts.len() && home_parts.iter().zip(&own).all(|(home, own)| home == own);
        Self {
            home_text: home,
            home: home_parts,
            own: if is_below { own } else { Vec::new() },
            readable: parts(readable),
            folders: vec![cwd.to_owned()],
            lost: cwd.is_empty(),
        }
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
        self.own.is_empty() && word.contains(self.home_text)
            || begins.chain(value).chain([word]).any(|piece| self.in_home(piece, glob))
    }

    fn within(&self, path: &str, folder: &[&str], glob: bool) -> bool {
        if folder.is_empty() || path.is_empty() {
            return false;
        }
        self.folders.iter().any(|from| {
            let parts = resolved(&joined(from, path));
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
