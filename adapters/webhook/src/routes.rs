//! The routes of the section, and those of a folder that is checked when calls arrive.
//!
//! A route of the section takes precedence over one in the folder. A fault in a file disables only its own route
//! and is reported in `status`; an unreadable file leaves its routes unchanged. The setting is a folder instead
//! of a file, because a sandboxed adapter has no access to a new file that replaces an old one.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{File, Metadata};
use std::io::{ErrorKind, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hermes_adapter_sdk::prelude::*;
use serde_json::{Map, Value};
use tokio::time::{Instant, sleep_until};

use crate::config::{self, Config, ROUTES_MAX, RouteConfig, Shared};
use crate::filter::Filter;
use crate::signature::forms::Form;

/// The maximum number of files in the folder.
const FILES_MAX: usize = 200;

/// The maximum size of a file of routes, in bytes.
const FILE_BYTES_MAX: u64 = 1024 * 1024;

/// The minimum interval between two checks of the folder.
const LOOK_PAUSE: Duration = Duration::from_millis(250);

/// The maximum number of faults in one report.
const FAULTS_SAID_MAX: usize = 3;

/// One checked route.
pub struct Route {
    pub name: String,
    /// The secrets; at least one.
    pub secrets: Vec<String>,
    /// The signature scheme.
    pub scheme: Scheme,
    /// The form of the signatures if the scheme is [`Scheme::Form`].
    pub form: Option<Form>,
    /// The accepted events; empty: all.
    pub events: Vec<String>,
    /// The condition on the payload.
    pub filter: Option<Filter>,
    /// The template of the prompt.
    pub prompt: Option<String>,
    /// The destination of the answers.
    pub deliver: Deliver,
    /// The maximum number of accepted calls per minute.
    pub rate_per_minute: u32,
    /// The maximum size of a body, in bytes.
    pub body_bytes_max: usize,
    /// The maximum difference between a signature's time and the local time, in seconds.
    pub age_s_max: u64,
    /// The time in which the same signed bytes count only once, in seconds.
    pub replay_s: u64,
    /// False if calls are rejected.
    pub enabled: bool,
}

/// The signature scheme of calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// Chosen by the headers of each call.
    Auto,
    /// `X-Hub-Signature-256`.
    GitHub,
    /// `X-Gitlab-Token`.
    GitLab,
    /// `webhook-signature` or `svix-signature`.
    Standard,
    /// `X-Webhook-Signature-V2`.
    V2,
    /// `X-Webhook-Signature`.
    V1,
    /// The form of a service, or of the route's keys.
    Form,
}

impl Scheme {
    /// Returns the scheme of a configuration word.
    pub fn read(word: &str) -> Option<Self> {
        Some(match word {
            "auto" => Self::Auto,
            "github" => Self::GitHub,
            "gitlab" => Self::GitLab,
            "standard" | "svix" => Self::Standard,
            "v2" => Self::V2,
            "v1" => Self::V1,
            _ => return None,
        })
    }
}

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

/// The identity of a file's state: inode, size, mode, and the time of the last change.
type Stamp = (u64, u64, u32, i64, i64);

impl Routes {
    /// Creates the routes of a checked section; an invalid section has no fixed routes.
    pub fn new(config: &Config) -> Self {
        let fixed = config::check(config).unwrap_or_default();
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

/// Returns the files of routes in a folder, with the state of each.
fn stamps(path: &Path) -> Result<BTreeMap<OsString, Stamp>, String> {
    let cannot = |error| format!("it cannot be listed ({error})");
    let mut stamps = BTreeMap::new();
    for entry in std::fs::read_dir(path).map_err(cannot)?.flatten() {
        let is_ours = entry.path().extension().is_some_and(|extension| extension == "json");
        // The file was removed in the meantime.
        let Some(of) = std::fs::metadata(entry.path()).ok().filter(|of| is_ours && of.is_file()) else { continue };
        if stamps.len() == FILES_MAX {
            return Err(format!("it contains more than {FILES_MAX} route files"));
        }
        stamps.insert(entry.file_name(), (of.ino(), of.size(), of.mode(), of.mtime(), of.mtime_nsec()));
    }
    Ok(stamps)
}

/// Reads a file. The file contains secrets, so it must not be accessible to other users.
fn text_of(folder: &Path, name: &OsString) -> Result<String, String> {
    let path = folder.join(name);
    let cannot = |error| format!("it cannot be read ({error})");
    let file = File::open(&path).map_err(cannot)?;
    let is_private = |of: &Metadata| of.mode() & 0o077 == 0;
    let (about, around) = (file.metadata().map_err(cannot)?, std::fs::metadata(folder).map_err(cannot)?);
    if around.mode() & 0o022 != 0 {
        return Err(format!(
            "other users can write to the folder, so its changes are ignored; run `chmod 700 {}`",
            folder.display()
        ));
    }
    if !is_private(&about) && !is_private(&around) {
        return Err(format!(
            "other users can read its secrets, so its changes are ignored; run `chmod 600 {}`",
            path.display()
        ));
    }
    let mut text = String::new();
    file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text).map_err(cannot)?;
    match text.len() as u64 > FILE_BYTES_MAX {
        true => Err(format!("it exceeds {FILE_BYTES_MAX} bytes")),
        false => Ok(text),
    }
}

/// Parses an entry of a file. Files of the Python gateway contain the chat of a target in an extra key, and
/// two keys without an effect here.
fn entry_of(entry: Value) -> Result<RouteConfig, String> {
    let Value::Object(mut entry) = entry else { return Err("is not an object".to_owned()) };
    entry.remove("created_at");
    if entry.get("skills").is_some_and(|skills| skills.as_array().is_some_and(Vec::is_empty) || skills.is_null()) {
        entry.remove("skills");
    }
    if let Some(extra) = entry.remove("deliver_extra") {
        let word = |key: &str| match &extra[key] {
            Value::String(text) => Some(text.clone()),
            Value::Number(number) => Some(number.to_string()),
            _ => None,
        };
        let thread = word("thread_id").or_else(|| word("message_thread_id"));
        let place = word("chat_id").into_iter().chain(thread).collect::<Vec<_>>().join(":");
        if let (Some(Value::String(deliver)), false) = (entry.get_mut("deliver"), place.is_empty()) {
            deliver.push(':');
            deliver.push_str(&place);
        }
    }
    // An error about a secret does not contain the secret.
    if entry.get("secret").is_some_and(|secret| !secret.is_string()) {
        return Err("has a `secret` that is not a string".to_owned());
    }
    let is_texts = |list: &Value| list.as_array().is_some_and(|list| list.iter().all(Value::is_string));
    if entry.get("secrets").is_some_and(|secrets| !is_texts(secrets)) {
        return Err("has `secrets` that are not a list of strings".to_owned());
    }
    serde_json::from_value(Value::Object(entry)).map_err(|error| format!("cannot be parsed ({error})"))
}

#[cfg(test)]
mod tests;
