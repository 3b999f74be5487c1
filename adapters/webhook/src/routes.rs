//! Where calls arrive: the routes of the section, and those of a folder that is looked at when calls come.
//!
//! A route of the section wins over one of the folder. What is wrong in a file costs that route and no other, and
//! is said in `status`; a file that cannot be read leaves its routes as they were. It is a folder and not a file
//! because a file that is replaced is another one, which an adapter in a process of its own would not be let at.

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

/// Files in the folder.
const FILES_MAX: usize = 200;

/// The largest file of routes, in bytes.
const FILE_BYTES_MAX: u64 = 1024 * 1024;

/// The folder is looked at no more often than this, whoever calls.
const LOOK_PAUSE: Duration = Duration::from_millis(250);

/// Faults that are said at once.
const FAULTS_SAID_MAX: usize = 3;

/// One route.
pub struct Route {
    /// Its name.
    pub name: String,
    /// Its secrets; at least one.
    pub secrets: Vec<String>,
    /// How its calls are signed.
    pub scheme: Scheme,
    /// The form of their signatures, where the scheme is [`Scheme::Form`].
    pub form: Option<Form>,
    /// The events that count; empty: all.
    pub events: Vec<String>,
    /// What else has to hold.
    pub filter: Option<Filter>,
    /// What the agent is told.
    pub prompt: Option<String>,
    /// Where its answers go.
    pub deliver: Deliver,
    /// How many calls are taken in a minute.
    pub rate_per_minute: u32,
    /// The largest body.
    pub body_bytes_max: usize,
    /// How far the time of a signature may be from ours.
    pub age_s_max: u64,
    /// How long the same signed bytes count only once.
    pub replay_s: u64,
    /// Whether it is served.
    pub enabled: bool,
}

/// How calls are signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// As the headers of the call say.
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
    /// That of a service, or of the route's keys.
    Form,
}

impl Scheme {
    /// The scheme of a word.
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

/// Every route there is.
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

/// The folder as it was last looked at.
#[derive(Default)]
struct Folder {
    files: BTreeMap<OsString, LastRead>,
    fault: Option<String>,
    looked_at: Option<Instant>,
}

/// What was last read of a file.
#[derive(Default)]
struct LastRead {
    stamp: Stamp,
    routes: BTreeMap<String, Arc<Route>>,
    faults: Vec<String>,
}

/// What tells one state of a file from another: inode, size, rights, and the time of the last change.
type Stamp = (u64, u64, u32, i64, i64);

impl Routes {
    /// The routes of a section that was checked; of one that was not, those that can be served: none.
    pub fn new(config: &Config) -> Self {
        let fixed = config::check(config).unwrap_or_default();
        let fixed = fixed.into_iter().map(|(name, route)| (name, Arc::new(route))).collect();
        let folder = config.routes_dir.clone().map(|path| Watched { path, read: Mutex::default() });
        Self { fixed, shared: Shared::of(config), folder }
    }

    /// The route of this name, as the folder is now or was a moment ago. One that is not known waits for the next look,
    /// which serves all that wait for it: nobody has signed anything yet.
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

    /// The route of this name, after a look at the folder.
    fn find_now(&self, name: &str) -> Option<Arc<Route>> {
        if !self.fixed.contains_key(name) {
            drop(self.looked());
        }
        self.held(name)
    }

    /// The route of this name, without a look at the folder.
    fn held(&self, name: &str) -> Option<Arc<Route>> {
        let added = || self.folder.as_ref()?.lock().files.values().find_map(|file| file.routes.get(name).cloned());
        self.fixed.get(name).cloned().or_else(added)
    }

    fn looked_at(&self) -> Option<Instant> {
        self.folder.as_ref()?.lock().looked_at
    }

    /// Whether there is a route of this name, as far as is known.
    pub fn has(&self, name: &str) -> bool {
        self.held(name).is_some()
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        let added = self.looked().map_or(0, |folder| folder.files.values().map(|file| file.routes.len()).sum());
        self.fixed.len() + added
    }

    /// Why routes cannot be added: the folder is not there.
    pub fn missing(&self) -> Option<&Path> {
        self.folder.as_ref().map(|folder| folder.path.as_path()).filter(|path| !path.is_dir())
    }

    /// What is wrong in the folder.
    pub fn faults(&self) -> Option<String> {
        let folder = self.looked()?;
        let all: Vec<String> = folder.fault.iter().cloned().chain(folder.files.iter().flat_map(said)).collect();
        let (first, more) = all.split_at(all.len().min(FAULTS_SAID_MAX));
        let more = if more.is_empty() { String::new() } else { format!("; and {} more", more.len()) };
        (!first.is_empty()).then(|| format!("`routes_dir`: {}{more}", first.join("; ")))
    }

    /// The folder as it is now.
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
                // Whoever was shut out stays out: a file that is gone from a folder that is there counts no more.
                let is_there = watched.path.is_dir();
                let is_gone = |name: &OsString| {
                    std::fs::symlink_metadata(watched.path.join(name))
                        .is_err_and(|error| error.kind() == ErrorKind::NotFound)
                };
                folder.files.retain(|name, _| !(is_there && is_gone(name)));
                folder.fault = Some(format!("{why}; the routes it had go on"));
            }
        }
        Some(folder)
    }

    fn read_anew(&self, path: &Path, name: &OsString, stamp: Stamp, folder: &mut Folder) {
        let mut file = folder.files.remove(name).unwrap_or_default();
        file.stamp = stamp;
        let read = text_of(path, name).and_then(|text| {
            let what = |error| format!("it cannot be read ({error}); what it said before goes on");
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
                (true, _, _) => Err(format!("route `{name}` stands in the section, too, and that one counts")),
                (_, Some((file, _)), _) => Err(format!("route `{name}` stands in {file:?}, too, and that one counts")),
                (_, _, 0) => Err(format!("route `{name}` is one too many (at most {ROUTES_MAX}) and is not served")),
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

/// The files of routes in a folder, and the state of each.
fn stamps(path: &Path) -> Result<BTreeMap<OsString, Stamp>, String> {
    let cannot = |error| format!("it cannot be listed ({error})");
    let mut stamps = BTreeMap::new();
    for entry in std::fs::read_dir(path).map_err(cannot)?.flatten() {
        let is_ours = entry.path().extension().is_some_and(|extension| extension == "json");
        // One that is gone already is none.
        let Some(of) = std::fs::metadata(entry.path()).ok().filter(|of| is_ours && of.is_file()) else { continue };
        if stamps.len() == FILES_MAX {
            return Err(format!("it holds more than {FILES_MAX} files of routes"));
        }
        stamps.insert(entry.file_name(), (of.ino(), of.size(), of.mode(), of.mtime(), of.mtime_nsec()));
    }
    Ok(stamps)
}

/// What stands in a file. It holds secrets, so others must not be able to read it.
fn text_of(folder: &Path, name: &OsString) -> Result<String, String> {
    let path = folder.join(name);
    let cannot = |error| format!("it cannot be read ({error})");
    let file = File::open(&path).map_err(cannot)?;
    let is_private = |of: &Metadata| of.mode() & 0o077 == 0;
    let (about, around) = (file.metadata().map_err(cannot)?, std::fs::metadata(folder).map_err(cannot)?);
    if around.mode() & 0o022 != 0 {
        return Err(format!(
            "others may write to the folder, so nothing new of it counts; run `chmod 700 {}`",
            folder.display()
        ));
    }
    if !is_private(&about) && !is_private(&around) {
        return Err(format!(
            "others may read it, and it holds secrets, so nothing new of it counts; run `chmod 600 {}`",
            path.display()
        ));
    }
    let mut text = String::new();
    file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text).map_err(cannot)?;
    match text.len() as u64 > FILE_BYTES_MAX {
        true => Err(format!("it is larger than {FILE_BYTES_MAX} bytes")),
        false => Ok(text),
    }
}

/// An entry of a file. Files of the Python gateway say the place of a target beside it, and two things that
/// change nothing here.
fn entry_of(entry: Value) -> Result<RouteConfig, String> {
    let Value::Object(mut entry) = entry else { return Err("is no object".to_owned()) };
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
    // What is wrong with a secret is said without it.
    if entry.get("secret").is_some_and(|secret| !secret.is_string()) {
        return Err("has a `secret` that is no text".to_owned());
    }
    let is_texts = |list: &Value| list.as_array().is_some_and(|list| list.iter().all(Value::is_string));
    if entry.get("secrets").is_some_and(|secrets| !is_texts(secrets)) {
        return Err("has `secrets` that are no list of texts".to_owned());
    }
    serde_json::from_value(Value::Object(entry)).map_err(|error| format!("cannot be read ({error})"))
}

#[cfg(test)]
mod tests;
