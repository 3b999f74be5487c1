//! The routes of the section, and those of a folder that is checked when calls arrive.
//!
//! A route of the section takes precedence over one in the folder. A fault in a file disables only its own route
//! and is reported in `status`; an unreadable file leaves its routes unchanged. The setting is a folder instead
//! of a file, because a sandboxed adapter has no access to a new file that replaces an old one.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::{Map, Value};
use tokio::time::{Instant, sleep_until};

use crate::config::Config;
use crate::route::Route;
use crate::route_files::{Stamp, entry_of, stamps, text_of};
use crate::validate::{self, ROUTES_MAX, Shared};

/// The minimum interval between two checks of the folder.
const LOOK_PAUSE: Duration = Duration::from_millis(250);

/// The maximum number of faults in one report.
const FAULTS_SAID_MAX: usize = 3;

/// All routes.
pub struct Routes {
    fixed: BTreeMap<String, Arc<Route>>,
    shared: Shared,
    folder: Option<Watched>,
}

struct Watched {
    path: PathBuf,
    read: Mutex<Folder>,
}

impl Watched {
    fn lock(&self) -> MutexGuard<'_, Folder> {
        self.read.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The folder at the last check.
#[derive(Default)]
struct Folder {
    files: BTreeMap<OsString, LastRead>,
    fault: Option<String>,
    looked_at: Option<Instant>,
}

/// The content of a file at the last read.
#[derive(Default)]
struct LastRead {
    stamp: Stamp,
    routes: BTreeMap<String, Arc<Route>>,
    faults: Vec<String>,
}

impl Routes {
    /// Creates the routes of a checked section; an invalid section has no fixed routes.
    pub fn new(config: &Config) -> Self {
        let fixed = validate::check(config).unwrap_or_default();
        let fixed = fixed.into_iter().map(|(name, route)| (name, Arc::new(route))).collect();
        let folder = config.routes_dir.clone().map(|path| Watched { path, read: Mutex::default() });
        Self { fixed, shared: Shared::of(config), folder }
    }

    /// Returns the route of this name, as of the last check of the folder. A call for an unknown route waits for the
    /// next check, which serves all waiting calls, because such calls are unsigned and must not cause file accesses.
    pub async fn find(&self, name: &str) -> Option<Arc<Route>> {
        let (came, looked) = (Instant::now(), self.looked_at());
        if let Some(next) = looked.map(|at| at + LOOK_PAUSE).filter(|next| *next > came) {
            let held = self.held(name);
            if held.is_some() {
                return held;
            }
            sleep_until(next).await;
            if self.looked_at().is_some_and(|at| at > came) {
                return self.held(name);
            }
        }
        self.find_now(name)
    }

    /// Returns the route of this name after a check of the folder.
    fn find_now(&self, name: &str) -> Option<Arc<Route>> {
        if !self.fixed.contains_key(name) {
            drop(self.looked());
        }
        self.held(name)
    }

    /// Returns the route of this name without a check of the folder.
    fn held(&self, name: &str) -> Option<Arc<Route>> {
        let added = || self.folder.as_ref()?.lock().files.values().find_map(|file| file.routes.get(name).cloned());
        self.fixed.get(name).cloned().or_else(added)
    }

    fn looked_at(&self) -> Option<Instant> {
        self.folder.as_ref()?.lock().looked_at
    }

    /// Returns whether the route is known, without a check of the folder.
    pub fn has(&self, name: &str) -> bool {
        self.held(name).is_some()
    }

    /// Returns the number of routes.
    pub fn count(&self) -> usize {
        let added = self.looked().map_or(0, |folder| folder.files.values().map(|file| file.routes.len()).sum());
        self.fixed.len() + added
    }

    /// Returns the path of a configured folder that does not exist.
    pub fn missing(&self) -> Option<&Path> {
        self.folder.as_ref().map(|folder| folder.path.as_path()).filter(|path| !path.is_dir())
    }

    /// Describes the faults in the folder.
    pub fn faults(&self) -> Option<String> {
        let folder = self.looked()?;
        let all: Vec<String> = folder.fault.iter().cloned().chain(folder.files.iter().flat_map(said)).collect();
        let (first, more) = all.split_at(all.len().min(FAULTS_SAID_MAX));
        let more = if more.is_empty() { String::new() } else { format!("; and {} more", more.len()) };
        (!first.is_empty()).then(|| format!("`routes_dir`: {}{more}", first.join("; ")))
    }

    /// Checks the folder and returns its state.
    fn looked(&self) -> Option<MutexGuard<'_, Folder>> {
        let watched = self.folder.as_ref()?;
        let mut folder = watched.lock();
        folder.looked_at = Some(Instant::now());
        match stamps(&watched.path) {
            Ok(stamps) => {
                folder.fault = None;
                folder.files.retain(|name, _| stamps.contains_key(name));
                for (name, stamp) in stamps {
                    if folder.files.get(&name).is_none_or(|file| file.stamp != stamp) {
                        self.read_anew(&watched.path, &name, stamp, &mut folder);
                    }
                }
            }
            Err(why) => {
                // A removed file disables its routes even if the listing fails, as long as the folder exists.
                let is_there = watched.path.is_dir();
                let is_gone = |name: &OsString| {
                    std::fs::symlink_metadata(watched.path.join(name))
                        .is_err_and(|error| error.kind() == ErrorKind::NotFound)
                };
                folder.files.retain(|name, _| !(is_there && is_gone(name)));
                folder.fault = Some(format!("{why}; the previous routes stay active"));
            }
        }
        Some(folder)
    }

    fn read_anew(&self, path: &Path, name: &OsString, stamp: Stamp, folder: &mut Folder) {
        let mut file = folder.files.remove(name).unwrap_or_default();
        file.stamp = stamp;
        let read = text_of(path, name).and_then(|text| {
            let what = |error| format!("it cannot be parsed ({error}); its previous routes stay active");
            serde_json::from_str::<Map<String, Value>>(&text).map_err(what)
        });
        match read {
            Ok(entries) => (file.routes, file.faults) = self.take(entries, folder),
            Err(why) => file.faults = vec![why],
        }
        for fault in &file.faults {
            tracing::warn!(file = ?name, "{fault}");
        }
        folder.files.insert(name.clone(), file);
    }

    fn take(&self, entries: Map<String, Value>, others: &Folder) -> (BTreeMap<String, Arc<Route>>, Vec<String>) {
        let (mut routes, mut faults) = (BTreeMap::new(), Vec::new());
        let mut room = ROUTES_MAX.saturating_sub(others.files.values().map(|file| file.routes.len()).sum());
        for (name, entry) in entries {
            let elsewhere = || others.files.iter().find(|(_, file)| file.routes.contains_key(&name));
            let route = match (self.fixed.contains_key(&name), elsewhere(), room) {
                (true, _, _) => Err(format!("route `{name}` is also defined in plugins.toml, which takes precedence")),
                (_, Some((file, _)), _) => {
                    Err(format!("route `{name}` is also defined in {file:?}, which takes precedence"))
                }
                (_, _, 0) => Err(format!("route `{name}` exceeds the limit of {ROUTES_MAX} routes and is not served")),
                _ => entry_of(entry)
                    .map_err(|why| format!("route `{name}` {why}"))
                    .and_then(|entry| self.shared.route(&name, &entry))
                    .map_err(|why| format!("{why}; it is not served")),
            };
            match route {
                Ok(route) => {
                    routes.insert(name, Arc::new(route));
                    room -= 1;
                }
                Err(why) => faults.push(why),
            }
        }
        (routes, faults)
    }
}

fn said<'f>((name, file): (&'f OsString, &'f LastRead)) -> impl Iterator<Item = String> + 'f {
    file.faults.iter().map(|fault| format!("{}: {fault}", name.to_string_lossy()))
}

#[cfg(test)]
mod tests;
