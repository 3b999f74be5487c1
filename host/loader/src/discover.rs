//! The search for library files, which opens none of them as a library.

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

/// Files of one folder that are examined.
const FILES_MAX: usize = 512;

/// The folders that are searched for libraries.
#[derive(Clone, Debug, Default)]
pub struct SearchPath {
    /// The folder of the running binary. Only libraries that ship with the binary are used from it.
    pub beside: Option<PathBuf>,
    /// The plugins folders of the operator.
    pub folders: Vec<PathBuf>,
}

impl SearchPath {
    /// Returns the folder of the running binary together with `folders`.
    pub fn beside_this_binary(folders: Vec<PathBuf>) -> Self {
        let exe = std::env::current_exe().and_then(fs::canonicalize).ok();
        Self { beside: exe.and_then(|exe| exe.parent().map(Path::to_owned)), folders }
    }

    /// Returns the refusal of the file that is named like `plugin`, if there is one.
    pub fn refused(&self, plugin: &str) -> Option<LoadError> {
        let mut files = discover(self).into_iter().filter(|found| is_named(&found.path, plugin));
        files.find_map(|found| found.manifest.err())
    }

    /// Returns a value that changes when a file is added, removed or written. Cheaper than [`discover`], which reads
    /// every file.
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
        if all.is_empty() { "the plugins folders (none exists)".to_owned() } else { all.join(", ") }
    }
}

/// The place of a library, which decides how far it is trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// The folder of the binary: installed with it and trusted like it.
    Beside,
    /// A plugins folder: the hash is pinned, and the library runs in a process of its own by default.
    Folder,
}

/// One library that was found.
#[derive(Clone, Debug)]
pub struct Found {
    /// The path of the file.
    pub path: PathBuf,
    /// The kind of folder.
    pub place: Place,
    /// Its manifest, or the refusal.
    pub manifest: Result<Manifest, LoadError>,
    /// A warning if the plugin is newer than this host but allows it.
    pub warning: Option<String>,
}

/// Lists the libraries of these folders in a stable order. A missing folder counts as empty.
///
/// A file that is found through both kinds of folder counts as beside the binary.
pub fn discover(search: &SearchPath) -> Vec<Found> {
    let mut places: BTreeMap<PathBuf, (PathBuf, Place)> = BTreeMap::new();
    if let Some(beside) = &search.beside {
        // The running binary, also after an upgrade replaced its file.
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
    // Proc macros and other build products lie next to the binary, also if that folder is configured as a plugins
    // folder.
    let beside = search.beside.as_deref().map(real);
    let is_of_the_build = |found: &Found| {
        matches!(found.manifest, Err(LoadError::NoSection { .. })) && found.path.parent().map(real) == beside
    };
    found.retain(|found| !is_of_the_build(found));
    found.sort_by(|a, b| (a.place, &a.path).cmp(&(b.place, &b.path)));
    found
}

/// Returns the libraries that may start, by the rules of [`admit`]: identical copies of a library count once; two
/// different files with one id are both refused.
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
/// The file is not an adapter for this machine; the error names the reason.
pub fn inspect(path: &Path) -> Result<Manifest, LoadError> {
    elf::read(path).map(|library| library.manifest)
}

/// The treatment of an id without an accepted hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pin {
    /// A section names it: the hash is recorded as accepted.
    AcceptNew,
    /// A query: nothing is written, and no code runs.
    Compare,
    /// The code is about to run without a section: only accepted bytes may.
    Accepted,
    /// The caller inspects the bytes directly, so hashes are ignored.
    Ignore,
}

/// Returns `true` if the code of a library may run without a section: it ships with the host, or its bytes were
/// accepted.
pub fn is_accepted(found: &Found, settings: &AdapterSettings) -> bool {
    let Ok(manifest) = &found.manifest else { return false };
    if found.place == Place::Beside {
        return true;
    }
    let lock = PluginsLock::read(&settings.home).ok();
    let accepted = lock.as_ref().and_then(|lock| lock.get(&manifest.id));
    accepted.is_some_and(|accepted| files::sha256(&found.path).is_ok_and(|sha256| sha256 == accepted.sha256))
}

/// Accepts the libraries of these plugins, which sections name, if none was accepted before. No code runs. A library
/// that may not be accepted is refused again, with the reason, when its instance starts.
pub fn accept_named(plugins: &[String], settings: &AdapterSettings) {
    for plugin in plugins {
        if let Err(error) = admit(plugin, settings) {
            tracing::debug!(target: "plugins", %plugin, "not accepted: {error}");
        }
    }
}

/// Returns the place of a file: beside the binary only if a search would find it there.
pub(super) fn place_of(path: &Path, search: &SearchPath) -> Place {
    let beside = SearchPath { beside: search.beside.clone(), folders: Vec::new() };
    let path = real(path);
    if discover(&beside).iter().any(|found| real(&found.path) == path) { Place::Beside } else { Place::Folder }
}

/// A library that passed every check of its bytes.
#[derive(Clone, Debug)]
pub(super) struct Admitted {
    /// The path of the original.
    pub(super) path: PathBuf,
    /// The path of the private copy.
    pub(super) copy: PathBuf,
    /// SHA-256 of the copy, in hex.
    pub(super) sha256: String,
    /// The open file that protects the copy from being collected.
    pub(super) _held: Arc<File>,
    /// The place of the original.
    pub(super) place: Place,
    /// The parsed manifest.
    pub(super) manifest: Manifest,
    /// The JSON bytes of the manifest in the section.
    pub(super) manifest_json: String,
}

/// Returns the refusal of a start of `plugin` with the current files, without accepting anything. Refusals that may
/// pass by themselves are left out.
pub fn refusal(plugin: &str, settings: &AdapterSettings) -> Option<LoadError> {
    admit_as(plugin, Pin::Compare, settings).err().filter(|error| !error.may_pass())
}

/// Finds the library of `plugin` and decides if its bytes may run.
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
            // The refusal of a file that is named like the plugin is the best explanation.
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

/// Decides if the bytes of `path` may run, and makes the private copy.
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
        // A refused copy is removed; no other code has opened it.
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

/// Accepts the current bytes of `path` and replaces the hash that was accepted for its id before.
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
