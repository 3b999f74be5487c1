//! `config`: check, show, schema, sample.

use std::collections::BTreeMap;
use std::io::Write;

use super::args::ConfigCommand;
use super::ask::{print, print_json, say};
use super::table::Table;
use super::{Context, Failure};
use hermes_config::{Prepared, Problems, manifests_of};
use hermes_loader::LoadError;

pub async fn config(context: &Context, command: ConfigCommand) -> Result<(), Failure> {
    let context = &context.of_the_running_host().await;
    match command {
        ConfigCommand::Check => check(context).await,
        ConfigCommand::Show { json } => show(context, json).await,
        ConfigCommand::Schema => {
            let (_, schemas) = libraries(context).await;
            print_json(&hermes_config::json_schema(&schemas))
        }
        ConfigCommand::Sample => {
            let (manifests, schemas) = libraries(context).await;
            print(&hermes_config::sample(&manifests, &schemas))
        }
    }
}

/// Reads the configuration as far as possible, with every problem found so far.
async fn examined(context: &Context) -> Result<(Prepared, Problems), Failure> {
    let (config, problems) = hermes_config::read(context.sources.clone())?;
    if problems.hide_others() {
        return Err(problems.of(&config).into());
    }
    let (prepared, more) = config.examine(context.beside.as_deref()).await;
    let all = problems.and(more).and(prepared.wrong()).of(&prepared.config);
    Ok((prepared, all))
}

fn warn(warnings: &[impl std::fmt::Display]) {
    for warning in warnings {
        // A closed standard error is ignored.
        let _ = writeln!(std::io::stderr(), "warning: {warning}");
    }
}

/// Warns if the working folder contains a configuration file that was not read.
fn warn_of_another(context: &Context, config: &hermes_config::Config) {
    let here = context.sources.cwd.join(hermes_config::FILE_NAME);
    let read = config.file.as_ref().and_then(|file| file.canonicalize().ok());
    if here.canonicalize().is_ok_and(|here| Some(here) != read) {
        let file = config
            .file
            .as_ref()
            .map_or_else(|| "the built-in configuration".to_owned(), |file| file.display().to_string());
        warn(&[format!(
            "./plugins.toml was not read, because {file} was; pass `--config .` to read the file of this \
             folder"
        )]);
    }
}

async fn check(context: &Context) -> Result<(), Failure> {
    let (mut prepared, problems) = examined(context).await?;
    warn_of_another(context, &prepared.config);
    let said = prepared.judged(&problems).await;
    // A host refuses to start without a runtime, so the check fails, too.
    let problems = prepared.config.without_runtime(problems.and(said));
    warn(&prepared.warned(&problems));
    if !problems.0.is_empty() {
        return Err(problems.into());
    }
    let file = match &prepared.config.file {
        Some(file) => file.display().to_string(),
        None => "no plugins.toml found, using the built-in configuration".to_owned(),
    };
    if let Some(proxy) = prepared.config.proxy_line() {
        say(&format!("proxy: {proxy}; connections to this machine are direct"))?;
    }
    for plan in &prepared.plans {
        if let Some(proxy) = prepared.config.own_proxy_line(&plan.instance) {
            say(&format!("proxy of {}: {proxy}", plan.instance))?;
        }
    }
    let names: Vec<&str> = prepared.plans.iter().map(|plan| plan.instance.as_str()).collect();
    let adapters = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
    say(&format!("{file}: no problems; adapters: {adapters}"))
}

async fn show(context: &Context, json: bool) -> Result<(), Failure> {
    let (prepared, problems) = examined(context).await?;
    warn_of_another(context, &prepared.config);
    warn(&prepared.config.warnings);
    if !problems.0.is_empty() {
        return Err(problems.into());
    }
    let shown = prepared.config.show(&prepared.manifests);
    if json {
        return print_json(&shown);
    }
    let mut table = Table::new(&["KEY", "VALUE", "SOURCE"]);
    for line in shown {
        table.row([line.key, line.value, line.source]);
    }
    print(&table.render("nothing"))
}

/// Returns the libraries in the folders, independent of the configuration. Broken ones are left out.
async fn libraries(
    context: &Context,
) -> (BTreeMap<String, hermes_protocol::Manifest>, BTreeMap<String, serde_json::Value>) {
    // `config sample` has to work without a valid configuration, because that is when it is needed.
    let config = context.config().or_else(|_| {
        let sources = hermes_config::Sources { config: None, cwd: "/nonexistent".into(), ..context.sources.clone() };
        hermes_config::load(sources).map_err(Failure::from)
    });
    let Ok(config) = config else { return (BTreeMap::new(), BTreeMap::new()) };
    let settings = config.adapter_settings(context.beside.as_deref());
    let found = hermes_loader::discover(&settings.search);
    let manifests = manifests_of(&found);
    let mut schemas = BTreeMap::new();
    for found in &found {
        let Ok(manifest) = &found.manifest else { continue };
        // Without pins, only a section shows that a library is wanted.
        let is_named = !settings.pin && config.adapters.values().any(|adapter| adapter.plugin == manifest.id);
        let schema = match is_named || hermes_loader::is_accepted(found, &settings) {
            true => hermes_loader::schema(&found.path, &settings).await,
            false => Err(LoadError::NotAccepted { path: found.path.clone() }),
        };
        match schema {
            Ok(schema) => drop(schemas.insert(manifest.id.clone(), schema)),
            Err(error) => warn(&[format!("the keys of {} cannot be shown: {error}", manifest.id)]),
        }
    }
    (manifests, schemas)
}
