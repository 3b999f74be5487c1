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
use crate::route_files::{Stamp, file_stamps, parse_entry, read_file};
use crate::validate::{self, ROUTES_MAX, RouteDefaults};

/// The minimum interval between two checks of the folder.
const CHECK_PAUSE_MIN: Duration = Duration::from_millis(250);

/// The maximum number of faults in one report.
const REPORTED_FAULTS_MAX: usize = 3;

/// All routes.
pub(crate) struct Routes {
    fixed: BTreeMap<String, Arc<Route>>,
    defaults: RouteDefaults,
    folder: Option<RoutesFolder>,
}

struct RoutesFolder {
    path: PathBuf,
    state: Mutex<FolderState>,
}

impl RoutesFolder {
    fn lock(&self) -> MutexGuard<'_, FolderState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The folder at the last check.
#[derive(Default)]
struct FolderState {
    files: BTreeMap<OsString, RoutesFile>,
    fault: Option<String>,
    checked_at: Option<Instant>,
}

/// The content of a file at the last read.
#[derive(Default)]
struct RoutesFile {
    stamp: Stamp,
    routes: BTreeMap<String, Arc<Route>>,
    faults: Vec<String>,
}

impl Routes {
    /// Creates the routes of a checked section; an invalid section has no fixed routes.
    pub(crate) fn new(config: &Config) -> Self {
        let fixed = validate::check(config).unwrap_or_default();
        let fixed = fixed.into_iter().map(|(name, route)| (name, Arc::new(route))).collect();
        let folder = config.routes_dir.clone().map(|path| RoutesFolder { path, state: Mutex::default() });
        Self { fixed, defaults: RouteDefaults::of(config), folder }
    }

    /// Returns the route of this name, as of the last check of the folder. A call for an unknown route waits for the
    /// next check, which serves all waiting calls, because such calls are unsigned and must not cause file accesses.
    pub(crate) async fn find(&self, name: &str) -> Option<Arc<Route>> {
        let (start, checked) = (Instant::now(), self.checked_at());
        if let Some(next) = checked.map(|at| at + CHECK_PAUSE_MIN).filter(|next| *next > start) {
            let cached = self.cached(name);
            if cached.is_some() {
                return cached;
            }
            sleep_until(next).await;
            if self.checked_at().is_some_and(|at| at > start) {
                return self.cached(name);
            }
        }
        self.find_now(name)
    }

    /// Returns the route of this name after a check of the folder.
    fn find_now(&self, name: &str) -> Option<Arc<Route>> {
        if !self.fixed.contains_key(name) {
            drop(self.refresh());
        }
        self.cached(name)
    }

    /// Returns the route of this name without a check of the folder.
    fn cached(&self, name: &str) -> Option<Arc<Route>> {
        let added = || self.folder.as_ref()?.lock().files.values().find_map(|file| file.routes.get(name).cloned());
        self.fixed.get(name).cloned().or_else(added)
    }

    fn checked_at(&self) -> Option<Instant> {
        self.folder.as_ref()?.lock().checked_at
    }

    /// Returns whether the route is known, without a check of the folder.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.cached(name).is_some()
    }

    /// Returns the number of routes.
    pub(crate) fn count(&self) -> usize {
        let added = self.refresh().map_or(0, |folder| folder.files.values().map(|file| file.routes.len()).sum());
        self.fixed.len() + added
    }

    /// Returns the path of a configured folder that does not exist.
    pub(crate) fn missing(&self) -> Option<&Path> {
        self.folder.as_ref().map(|folder| folder.path.as_path()).filter(|path| !path.is_dir())
    }

    /// Describes the faults in the folder.
    pub(crate) fn faults(&self) -> Option<String> {
        let folder = self.refresh()?;
        let all: Vec<String> = folder.fault.iter().cloned().chain(folder.files.iter().flat_map(descriptions)).collect();
        let (first, more) = all.split_at(all.len().min(REPORTED_FAULTS_MAX));
        let more = if more.is_empty() { String::new() } else { format!("; and {} more", more.len()) };
        (!first.is_empty()).then(|| format!("`routes_dir`: {}{more}", first.join("; ")))
    }

    /// Checks the folder and returns its state.
    fn refresh(&self) -> Option<MutexGuard<'_, FolderState>> {
        let watched = self.folder.as_ref()?;
        let mut folder = watched.lock();
        folder.checked_at = Some(Instant::now());
        match file_stamps(&watched.path) {
            Ok(stamps) => {
                folder.fault = None;
                folder.files.retain(|name, _| stamps.contains_key(name));
                for (name, stamp) in stamps {
                    if folder.files.get(&name).is_none_or(|file| file.stamp != stamp) {
                        self.reload(&watched.path, &name, stamp, &mut folder);
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

    fn reload(&self, path: &Path, name: &OsString, stamp: Stamp, folder: &mut FolderState) {
        let mut file = folder.files.remove(name).unwrap_or_default();
        file.stamp = stamp;
        let entries = read_file(path, name).and_then(|text| {
            let what = |error| format!("it cannot be parsed ({error}); its previous routes stay active");
            serde_json::from_str::<Map<String, Value>>(&text).map_err(what)
        });
        match entries {
            Ok(entries) => (file.routes, file.faults) = self.check_entries(entries, folder),
            Err(why) => file.faults = vec![why],
        }
        for fault in &file.faults {
            tracing::warn!(file = ?name, "{fault}");
        }
        folder.files.insert(name.clone(), file);
    }

    fn check_entries(
        &self,
        entries: Map<String, Value>,
        others: &FolderState,
    ) -> (BTreeMap<String, Arc<Route>>, Vec<String>) {
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
                _ => parse_entry(entry)
                    .map_err(|why| format!("route `{name}` {why}"))
                    .and_then(|entry| self.defaults.route(&name, &entry))
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

fn descriptions<'f>((name, file): (&'f OsString, &'f RoutesFile)) -> impl Iterator<Item = String> + 'f {
    file.faults.iter().map(|fault| format!("{}: {fault}", name.to_string_lossy()))
}

#[cfg(test)]
mod tests;
