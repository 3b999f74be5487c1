//! Which libraries lie where, read without opening any of them.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::Arc,
    time::SystemTime,
};

use hermes_protocol::Manifest;

use super::{AdapterSettings, LoadError, elf, files, lock::Accepted, lock::PluginsLock};

/// Prefix of a library that ships with the binary.
const BESIDE_PREFIX: &str = "libhermes_adapter_";

/// Files of one folder that are looked at.
const FILES_MAX: usize = 512;

/// Folders in which libraries are looked for.
#[derive(Clone, Debug, Default)]
pub struct SearchPath {
    /// The folder of the running binary; only libraries that ship with it count there.
    pub beside: Option<PathBuf>,
    /// Folders an operator drops libraries into.
    pub folders: Vec<PathBuf>,
}

impl SearchPath {
    /// The folder of the running binary, and these folders.
    pub fn beside_this_binary(folders: Vec<PathBuf>) -> Self {
        let exe = std::env::current_exe().and_then(fs::canonicalize).ok();
        Self { beside: exe.and_then(|exe| exe.parent().map(Path::to_owned)), folders }
    }

    /// Why the file that is named like `plugin` is not its library, where there is such a file.
    pub fn refused(&self, plugin: &str) -> Option<LoadError> {
        let mut files = discover(self).into_iter().filter(|found| is_named(&found.path, plugin));
        files.find_map(|found| found.manifest.err())
    }

    /// What changes when a file comes, goes or is written: cheaper than [`discover`], which reads every file.
    pub(super) fn stamp(&self) -> Vec<(PathBuf, u64, Option<SystemTime>)> {
        let folders = self.beside.iter().chain(&self.folders);
        let files = folders.flat_map(|folder| libraries(folder)).filter_map(|path| {
            let meta = fs::metadata(&path).ok()?;
            Some((path, meta.len(), meta.modified().ok()))
        });
        files.collect()
    }

    fn named(&self) -> String {
        let all: Vec<String> = self.beside.iter().chain(&self.folders).map(|path| path.display().to_string()).collect();
        if all.is_empty() { "no folder at all".to_owned() } else { all.join(", ") }
    }
}

/// Where a library was found, which decides how far it is trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// Beside the binary: installed with it, trusted like it.
    Beside,
    /// In a folder for plugins: pinned, in a process of its own by default.
    Folder,
}

/// One library that was found.
#[derive(Clone, Debug)]
pub struct Found {
    /// The file.
    pub path: PathBuf,
    /// Where it lies.
    pub place: Place,
    /// Its manifest, or why it is none.
    pub manifest: Result<Manifest, LoadError>,
    /// Set when it is newer than this host, which it allows.
    pub warning: Option<String>,
}

/// Lists the libraries of these folders in a stable order. A folder that does not exist holds none.
///
/// A file that is reached through both kinds of folder counts as beside the binary.
pub fn discover(search: &SearchPath) -> Vec<Found> {
    let mut places: BTreeMap<PathBuf, (PathBuf, Place)> = BTreeMap::new();
    if let Some(beside) = &search.beside {
        // The file that runs, also after an upgrade has put another one in its place.
        let running = fs::metadata("/proc/self/exe").or_else(|_| std::env::current_exe().and_then(fs::metadata));
        let owner = running.map(|meta| meta.uid()).ok();
        for path in libraries(beside) {
            let ships = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(BESIDE_PREFIX));
            if ships && fs::metadata(&path).is_ok_and(|meta| Some(meta.uid()) == owner) {
                places.insert(real(&path), (path, Place::Beside));
            }
        }
    }
    for path in search.folders.iter().flat_map(|folder| libraries(folder)) {
        places.entry(real(&path)).or_insert((path, Place::Folder));
    }
    let mut found: Vec<Found> = places
        .into_values()
        .map(|(path, place)| {
            let read = files::judge(&path).and_then(|_| elf::read(&path));
            let warning = read.as_ref().ok().and_then(|library| library.warning.clone());
            Found { path, place, manifest: read.map(|library| library.manifest), warning }
        })
        .collect();
    // Macros and other libraries of its build lie beside the binary, also where that folder is named as one for plugins.
    let beside = search.beside.as_deref().map(real);
    let is_of_the_build = |found: &Found| {
        matches!(found.manifest, Err(LoadError::NoSection { .. })) && found.path.parent().map(real) == beside
    };
    found.retain(|found| !is_of_the_build(found));
    found.sort_by(|a, b| (a.place, &a.path).cmp(&(b.place, &b.path)));
    found
}

/// What of these may start, as [`admit`] decides: a library that lies in several places is one, two that differ and
/// carry one id keep each other from starting.
pub fn startable(found: Vec<Found>) -> Vec<Found> {
    let mut kept: Vec<Found> = Vec::new();
    for mut one in found {
        let Ok(manifest) = &one.manifest else {
            kept.push(one);
            continue;
        };
        let same = |kept: &&mut Found| kept.manifest.as_ref().is_ok_and(|other| other.id == manifest.id);
        match kept.iter_mut().find(same) {
            Some(first) if same_bytes(&first.path, &one.path) => {
                let also = format!("{} is the same library as {}", one.path.display(), first.path.display());
                first.warning = Some(first.warning.take().map_or(also.clone(), |warning| format!("{warning}; {also}")));
            }
            Some(first) => {
                let (id, first, second) = (manifest.id.clone(), first.path.clone(), one.path.clone());
                one.manifest = Err(LoadError::SameId { id, first, second });
                kept.push(one);
            }
            None => kept.push(one),
        }
    }
    kept
}

fn same_bytes(one: &Path, two: &Path) -> bool {
    let hash = files::sha256(one).ok();
    hash.is_some() && hash == files::sha256(two).ok()
}

fn real(path: &Path) -> PathBuf {
    fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
}

fn libraries(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let mut paths: Vec<PathBuf> = entries
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "so"))
        .take(FILES_MAX)
        .collect();
    paths.sort();
    paths
}

/// Reads the manifest of one file without opening it as a library.
///
/// # Errors
///
/// Says what the file is instead of an adapter for this machine.
pub fn inspect(path: &Path) -> Result<Manifest, LoadError> {
    elf::read(path).map(|library| library.manifest)
}

/// What an id without an accepted hash means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pin {
    /// Its section accepts it: the hash is written down.
    AcceptNew,
    /// Somebody only asks: nothing is written, and nothing is run.
    Compare,
    /// Its code is about to run although no section starts it: only accepted bytes may.
    Accepted,
    /// Somebody looks at the bytes themselves.
    Ignore,
}

/// Whether the code of a library may run although no section names it: it ships with the host, or its bytes were accepted.
pub fn is_accepted(found: &Found, settings: &AdapterSettings) -> bool {
    let Ok(manifest) = &found.manifest else { return false };
    if found.place == Place::Beside {
        return true;
    }
    let lock = PluginsLock::read(&settings.home).ok();
    let accepted = lock.as_ref().and_then(|lock| lock.get(&manifest.id));
    accepted.is_some_and(|accepted| files::sha256(&found.path).is_ok_and(|sha256| sha256 == accepted.sha256))
}

/// Accepts what sections name and nobody has accepted before: the libraries of these plugins. Nothing is run. A library
/// that may not be accepted is refused again, with its reason, when its instance starts.
pub fn accept_named(plugins: &[String], settings: &AdapterSettings) {
    for plugin in plugins {
        if let Err(error) = admit(plugin, settings) {
            tracing::debug!(target: "plugins", %plugin, "not accepted: {error}");
        }
    }
}

/// Where a file counts as lying: beside the binary only if it would be found there.
pub(super) fn place_of(path: &Path, search: &SearchPath) -> Place {
    let beside = SearchPath { beside: search.beside.clone(), folders: Vec::new() };
    let path = real(path);
    if discover(&beside).iter().any(|found| real(&found.path) == path) { Place::Beside } else { Place::Folder }
}

/// A library whose bytes may run.
#[derive(Clone, Debug)]
pub(super) struct Admitted {
    /// The original.
    pub(super) path: PathBuf,
    /// The private copy.
    pub(super) copy: PathBuf,
    /// Hash of the copy.
    pub(super) sha256: String,
    /// Holds the copy for as long as somebody runs it, or may run it again.
    pub(super) _held: Arc<File>,
    /// Where the original lies.
    pub(super) place: Place,
    /// The manifest.
    pub(super) manifest: Manifest,
    /// Its bytes in the section.
    pub(super) manifest_json: String,
}

/// Why an instance of `plugin` would not start with the files as they lie; nothing is accepted by asking. What may pass by
/// itself is no reason.
pub fn refusal(plugin: &str, settings: &AdapterSettings) -> Option<LoadError> {
    admit_as(plugin, Pin::Compare, settings).err().filter(|error| !error.may_pass())
}

/// Finds the library of `plugin` and decides whether its bytes may run.
pub(super) fn admit(plugin: &str, settings: &AdapterSettings) -> Result<Admitted, LoadError> {
    admit_as(plugin, Pin::AcceptNew, settings)
}

fn admit_as(plugin: &str, pin: Pin, settings: &AdapterSettings) -> Result<Admitted, LoadError> {
    let mut candidates: Vec<Found> = Vec::new();
    let mut broken = None;
    for found in discover(&settings.search) {
        match &found.manifest {
            Ok(manifest) if manifest.id == plugin => candidates.push(found),
            Ok(_) => {}
            // A file named like the plugin explains best why it is missing.
            Err(error) if is_named(&found.path, plugin) => broken = broken.or(Some(error.clone())),
            Err(_) => {}
        }
    }
    let Some(first) = candidates.first() else {
        return Err(
            broken.unwrap_or_else(|| LoadError::NoFile { plugin: plugin.to_owned(), folders: settings.search.named() })
        );
    };
    for other in &candidates[1..] {
        if !same_bytes(&first.path, &other.path) {
            return Err(LoadError::SameId {
                id: plugin.to_owned(),
                first: first.path.clone(),
                second: other.path.clone(),
            });
        }
    }
    admit_file(&first.path, first.place, pin, settings)
}

fn is_named(path: &Path, plugin: &str) -> bool {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let stem = stem.strip_prefix("lib").unwrap_or(&stem);
    stem == plugin || stem.strip_prefix("hermes_adapter_") == Some(plugin) || stem.ends_with(&format!("_{plugin}"))
}

/// Decides whether the bytes of `path` may run, and makes the copy that will.
pub(super) fn admit_file(
    path: &Path,
    place: Place,
    pin: Pin,
    settings: &AdapterSettings,
) -> Result<Admitted, LoadError> {
    let mut judged = files::judge(path)?;
    let copy = files::private_copy(&mut judged, &settings.home)?;
    let library = judge_copy(path, place, pin, &copy, settings);
    if library.is_err() && copy.fresh {
        // Bytes that may not run need not stay; nothing has opened the copy.
        let _ = fs::remove_file(&copy.path);
    }
    let library = library?;
    if let Some(warning) = &library.warning {
        tracing::warn!(target: "plugins", "{warning}");
    }
    Ok(Admitted {
        path: path.to_owned(),
        copy: copy.path,
        sha256: copy.sha256,
        _held: copy.held,
        place,
        manifest: library.manifest,
        manifest_json: library.manifest_json,
    })
}

fn judge_copy(
    path: &Path,
    place: Place,
    pin: Pin,
    copy: &files::PrivateCopy,
    settings: &AdapterSettings,
) -> Result<elf::ElfLibrary, LoadError> {
    let library = elf::read_copy(path, &copy.path);
    if place == Place::Beside || pin == Pin::Ignore || !settings.pin {
        return library;
    }
    let library = library?;
    let id = &library.manifest.id;
    PluginsLock::update(&settings.home, |lock| match lock.get(id) {
        Some(accepted) if accepted.sha256 == copy.sha256 => Ok(()),
        Some(accepted) => Err(LoadError::Changed {
            path: path.to_owned(),
            accepted: accepted.sha256.clone(),
            found: copy.sha256.clone(),
        }),
        None if pin == Pin::Compare => Ok(()),
        None if pin == Pin::Accepted => Err(LoadError::NotAccepted { path: path.to_owned() }),
        None => {
            let now_ms = settings.clock.now_ms();
            lock.put(Accepted::new(&library.manifest, &copy.sha256, "configuration", now_ms));
            tracing::info!(target: "plugins", plugin = %id, sha256 = %copy.sha256, "accepted {} at its first load", path.display());
            Ok(())
        }
    })?;
    Ok(library)
}

/// Accepts the bytes of `path` as they are, whatever was accepted under its id before.
///
/// # Errors
///
/// The file may not be loaded at all, or the lock cannot be written.
pub fn accept(path: &Path, by: &str, settings: &AdapterSettings) -> Result<Accepted, LoadError> {
    let judged = files::judge(path)?;
    let library = elf::read(&judged.path)?;
    let sha256 = files::sha256(&judged.path)
        .map_err(|error| LoadError::Unreadable { path: path.to_owned(), why: error.to_string() })?;
    let entry = Accepted::new(&library.manifest, &sha256, by, settings.clock.now_ms());
    PluginsLock::update(&settings.home, |lock| {
        lock.put(entry.clone());
        Ok(())
    })?;
    Ok(entry)
}
