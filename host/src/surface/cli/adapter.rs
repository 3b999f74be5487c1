//! `adapter`: libraries in the plugins folder, and the instances that run them.

use std::fs;
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use hermes_protocol::Manifest;
use serde_json::Value as Json;

use super::args::AdapterCommand;
use super::ask::{self, print, print_json, say, unexpected};
use super::scratch::Scratch;
use super::{Context, Failure, certify, new, offline, try_out};
use crate::engine::operator::AdapterStatus;
use crate::engine::operator::{ControlReply, ControlRequest};
use crate::surface::control::{Client, ClientError};
use hermes_core::clock::Clock;
use hermes_loader::{AdapterSettings, Found, Place, PluginsLock};
use hermes_system::clock::SystemClock;

/// The largest library that is copied, in bytes.
const LIBRARY_BYTES_MAX: u64 = 512 * 1024 * 1024;

pub async fn adapter(context: &Context, command: AdapterCommand) -> Result<(), Failure> {
    match command {
        AdapterCommand::List { json } => list(context, json).await,
        AdapterCommand::Inspect { file, json } => inspect(&context.sources.cwd.join(file), json),
        AdapterCommand::Check { file, json } => check(context, &file, json).await,
        AdapterCommand::Certify { file, sample, isolation, cases, here, json } => {
            certify::certify(context, certify::Trial { file, sample, isolation, cases, json }, here).await
        }
        AdapterCommand::New(args) => new::new(context, &args.name, args.path.as_deref(), args.sdk.as_deref()),
        AdapterCommand::Try(args) => try_out::try_out(context, args).await,
        AdapterCommand::Add { file } => add(context, &file).await,
        AdapterCommand::Remove { id } => remove(context, &id).await,
        AdapterCommand::Enable { instance } => {
            offline::done(context, &ControlRequest::AdapterEnable { instance }).await
        }
        AdapterCommand::Disable { instance } => {
            offline::done(context, &ControlRequest::AdapterDisable { instance }).await
        }
        AdapterCommand::Link { instance, rotate } => {
            ask::done(context, &ControlRequest::AdapterLink { instance, rotate }).await
        }
        AdapterCommand::Reload { instance } => ask::done(context, &ControlRequest::AdapterReload { instance }).await,
    }
}

/// Lists the adapters of the running host, or the libraries in the folders if none runs.
async fn list(context: &Context, json: bool) -> Result<(), Failure> {
    let home = context.home()?;
    match Client::connect(&home).await {
        Ok(mut client) => match client.ask(&ControlRequest::AdapterList {}).await? {
            ControlReply::Status(status) if json => print_json(&status.adapters),
            ControlReply::Status(status) => print(&super::status::adapters(&status.adapters, SystemClock.now_ms())),
            ControlReply::Error { kind, message } => Err(Failure::answered(kind, message)),
            other => Err(unexpected(&other)),
        },
        Err(ClientError::NotRunning { .. }) => {
            let settings = settings(context)?;
            let lines: Vec<AdapterStatus> =
                hermes_loader::startable(hermes_loader::discover(&settings.search)).iter().map(available).collect();
            if json { print_json(&lines) } else { print(&super::status::adapters(&lines, 0)) }
        }
        Err(error) => Err(error.into()),
    }
}

/// Converts a library without an instance into a line of `status`.
fn available(found: &Found) -> AdapterStatus {
    let file = found.path.file_stem().unwrap_or_default().to_string_lossy();
    let (id, version, state, reason) = match &found.manifest {
        Ok(manifest) => (manifest.id.clone(), manifest.version.clone(), "available", found.warning.clone()),
        Err(error) => (file.into_owned(), String::new(), hermes_loader::word_of(error), Some(error.to_string())),
    };
    AdapterStatus {
        proxy: None,
        name: id.clone(),
        plugin: id,
        version,
        isolation: String::new(),
        confined: None,
        state: state.to_owned(),
        since: 0,
        reason,
        next_try: None,
        last_proven: None,
        held: 0,
        guarantee: found.manifest.as_ref().map_or_else(|_| String::new(), class),
        announced: Vec::new(),
        code: found.manifest.as_ref().err().map(|error| error.code().to_owned()),
        restarts: 0,
        upstream_ignored: false,
    }
}

fn class(manifest: &Manifest) -> String {
    manifest.capabilities.delivery.as_str().replace('_', "-")
}

fn inspect(file: &Path, json: bool) -> Result<(), Failure> {
    let manifest = hermes_loader::inspect(file).map_err(|error| Failure::failed(error.to_string()))?;
    if json { print_json(&manifest) } else { print(&describe(&manifest)) }
}

/// Formats the manifest of an adapter for people.
fn describe(manifest: &Manifest) -> String {
    let mut out = format!(
        "{} ({} {}), built with SDK {} for {}\n",
        manifest.label, manifest.id, manifest.version, manifest.sdk, manifest.target
    );
    let mut line = |name: &str, words: Vec<String>| {
        if !words.is_empty() {
            out.push_str(&format!("{name:<12}{}\n", words.join(", ")));
        }
    };
    let capabilities = serde_json::to_value(&manifest.capabilities).unwrap_or_default();
    let yes = capabilities.as_object().into_iter().flatten().filter(|(_, value)| **value == Json::Bool(true));
    line("transport", vec![manifest.transport.clone()].into_iter().filter(|word| !word.is_empty()).collect());
    line("can", yes.map(|(name, _)| name.clone()).collect());
    line("guarantee", vec![class(manifest)]);
    line("secrets", manifest.secrets.clone());
    line("variables", manifest.env.iter().map(|name| format!("{} ({})", name.name, name.key)).collect());
    line("uses", manifest.uses.clone());
    line("listens", manifest.listens.clone());
    line("connects", manifest.connects.clone());
    line("licence", vec![manifest.license.clone()].into_iter().filter(|word| !word.is_empty()).collect());
    out
}

async fn check(context: &Context, file: &Path, json: bool) -> Result<(), Failure> {
    let settings = settings(context)?;
    let lines = hermes_loader::check(&context.sources.cwd.join(file), &settings).await;
    if json {
        print_json(&lines)?;
    } else {
        let width = lines.iter().map(|line| line.name.len()).max().unwrap_or(0);
        let text: String = lines
            .iter()
            .map(|line| format!("{:width$}  {}  {}\n", line.name, if line.ok { "ok" } else { "no" }, line.sentence))
            .collect();
        print(&text)?;
    }
    if lines.iter().all(|line| line.ok) { Ok(()) } else { Err(Failure::silent(super::FAILED)) }
}

/// Copies the library into the plugins folder, then accepts its bytes.
async fn add(context: &Context, file: &Path) -> Result<(), Failure> {
    let file = context.sources.cwd.join(file);
    let settings = settings(context)?;
    let manifest = hermes_loader::inspect(&file).map_err(|error| Failure::failed(error.to_string()))?;
    judged(&file, &manifest.id, &settings).await?;
    let folder = settings.search.folders.last().cloned().unwrap_or_else(|| settings.home.join("plugins"));
    let target = folder.join(format!("{}.so", manifest.id));
    // Two files with the same id would keep each other from starting.
    let old = in_folders(&settings, &manifest.id);
    let target = old.first().cloned().unwrap_or(target);
    if fs::canonicalize(&file).ok() != fs::canonicalize(&target).ok() || !target.exists() {
        copy(&file, &target).map_err(|error| {
            Failure::failed(format!("{} cannot be copied to {} ({error})", file.display(), target.display()))
        })?;
    }
    let accepted =
        hermes_loader::accept(&target, "adapter add", &settings).map_err(|error| Failure::failed(error.to_string()))?;
    say(&format!(
        "{} {} is accepted (sha256 {}) and installed as {}",
        accepted.id,
        accepted.version,
        accepted.sha256.get(..12).unwrap_or(&accepted.sha256),
        target.display()
    ))?;
    say(&match context.of_the_running_host().await.config() {
        Ok(config) if config.adapters.values().any(|adapter| adapter.plugin == accepted.id) => {
            format!("`hermes-host adapter reload {}` starts it in a running host", accepted.id)
        }
        _ => format!(
            "add [adapter.{}] to plugins.toml to start it; `hermes-host config sample` shows its keys",
            accepted.id
        ),
    })
}

/// Accepts a library that passes every step of `adapter check`. The checks use a copy with the owner and mode that it
/// will have in the folder; those of the original do not matter.
async fn judged(file: &Path, id: &str, settings: &AdapterSettings) -> Result<(), Failure> {
    let cannot = |error: std::io::Error| Failure::failed(format!("{} cannot be checked ({error})", file.display()));
    let folder = Scratch::make("add").map_err(cannot)?;
    let copied = folder.path.join(format!("{id}.so"));
    copy(file, &copied).map_err(cannot)?;
    match hermes_loader::check_refusal(&copied, settings).await {
        None => Ok(()),
        Some(why) => {
            let named = why.replace(&*copied.to_string_lossy(), &file.to_string_lossy());
            Err(Failure::failed(format!("{named}; the library was not accepted")))
        }
    }
}

async fn remove(context: &Context, id: &str) -> Result<(), Failure> {
    let settings = settings(context)?;
    let files = in_folders(&settings, id);
    let forgotten = PluginsLock::update(&settings.home, |lock| Ok(lock.forget(id)))
        .map_err(|error| Failure::failed(error.to_string()))?;
    if files.is_empty() && !forgotten {
        return Err(Failure::failed(format!(
            "no library in the plugins folder has the id {id:?}; `hermes-host adapter list` shows the libraries"
        )));
    }
    for file in &files {
        fs::remove_file(file)
            .map_err(|error| Failure::failed(format!("{} cannot be removed ({error})", file.display())))?;
    }
    let names: Vec<String> = files.iter().map(|file| file.display().to_string()).collect();
    say(&format!("{id} was removed ({})", if names.is_empty() { "only its hash".to_owned() } else { names.join(", ") }))
}

/// Returns the settings that concern files. A wrong or missing key of an adapter or of the agent is ignored.
pub(super) fn settings(context: &Context) -> Result<AdapterSettings, Failure> {
    let (config, mut problems) = hermes_config::read(context.sources.clone())?;
    problems.0.retain(|problem| problem.key.is_empty() || problem.key.split('.').next() == Some("host"));
    if !problems.0.is_empty() {
        return Err(problems.and(hermes_config::Problems::default()).into());
    }
    Ok(config.adapter_settings(context.beside.as_deref()))
}

/// Returns the files of an id in the plugins folders. Files beside the binary belong to the installation.
fn in_folders(settings: &AdapterSettings, id: &str) -> Vec<PathBuf> {
    hermes_loader::discover(&settings.search)
        .into_iter()
        .filter(|found| found.place == Place::Folder)
        .filter(|found| found.manifest.as_ref().is_ok_and(|manifest| manifest.id == id))
        .map(|found| found.path)
        .collect()
}

/// Copies a file atomically: the target is either the old file or the complete new one.
pub(super) fn copy(from: &Path, to: &Path) -> std::io::Result<()> {
    if fs::metadata(from)?.len() > LIBRARY_BYTES_MAX {
        return Err(std::io::Error::other(format!("the file is larger than {LIBRARY_BYTES_MAX} bytes")));
    }
    let folder = to.parent().unwrap_or(Path::new("."));
    // The home may be created here, with access for its owner only.
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    let temporary = to.with_extension("so.tmp");
    // A temporary file is a leftover of an interrupted copy.
    let _ = fs::remove_file(&temporary);
    let mut out = fs::OpenOptions::new().write(true).create_new(true).mode(0o644).open(&temporary)?;
    std::io::copy(&mut fs::File::open(from)?, &mut out)?;
    out.flush()?;
    out.sync_all()?;
    fs::rename(&temporary, to)?;
    fs::File::open(folder)?.sync_all()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_copy_replaces_the_old_file_whole_in_a_folder_for_its_owner() {
        let world = tempfile::tempdir().unwrap();
        let (from, to) = (world.path().join("new.so"), world.path().join("home/plugins/a.so"));
        fs::write(&from, "first").unwrap();
        copy(&from, &to).unwrap();
        fs::write(to.with_extension("so.tmp"), "cut off").unwrap();
        fs::write(&from, "second").unwrap();
        copy(&from, &to).unwrap();
        assert_eq!(fs::read_to_string(&to).unwrap(), "second");
        assert_eq!(fs::read_dir(to.parent().unwrap()).unwrap().count(), 1);
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&world.path().join("home")), mode(&to)), (0o700, 0o644));
    }
}
