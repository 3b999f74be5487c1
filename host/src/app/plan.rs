//! From the configuration to what is run: manifests are read, variables applied,
//! schemas asked, and what the operator switched off stays off.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use hermes_protocol::Manifest;

use crate::config::{Config, Isolation, Problems};
use crate::plugins::{AdapterPlan, AdapterSettings, Found, IsolationChoice, Place, SearchPath, discover, schema};
use crate::store::Loaded;

/// Makes plans; remembers what `adapter disable` switched off.
#[derive(Clone, Debug, Default)]
pub struct Planner {
    disabled: BTreeSet<String>,
}

/// What follows from one reading of the configuration.
pub struct Planned {
    /// The configuration with what the environment says about adapters.
    pub config: Config,
    /// One plan per instance.
    pub plans: Vec<AdapterPlan>,
    /// Bounds and places for the adapters.
    pub settings: AdapterSettings,
    /// Values that no text may show.
    pub secrets: Vec<String>,
}

impl Planner {
    /// A planner that knows what is switched off.
    pub fn new(loaded: &Loaded) -> Self {
        Self { disabled: loaded.disabled_adapters.iter().cloned().collect() }
    }

    /// Notes that an instance was switched on or off.
    pub fn switch(&mut self, instance: &str, on: bool) {
        if on {
            self.disabled.remove(instance);
        } else {
            self.disabled.insert(instance.to_owned());
        }
    }

    /// Plans what is run.
    ///
    /// # Errors
    ///
    /// What manifests and schemas find wrong with the configuration, all at once.
    pub async fn plan(&self, mut config: Config, env: &BTreeMap<String, String>) -> Result<Planned, Problems> {
        let settings = settings(&config, env);
        let search = settings.search.clone();
        let found = tokio::task::spawn_blocking(move || discover(&search)).await.unwrap_or_default();
        let manifests = manifests(&found);
        config.resolve(&manifests)?;
        let wanted: BTreeSet<&str> = config.adapters.values().map(|adapter| adapter.plugin.as_str()).collect();
        let mut schemas = BTreeMap::new();
        for found in &found {
            let Some(manifest) = found.manifest.as_ref().ok().filter(|manifest| wanted.contains(manifest.id.as_str()))
            else {
                continue;
            };
            match schema(&found.path, &settings).await {
                Ok(schema) => drop(schemas.insert(manifest.id.clone(), schema)),
                // Its supervisor says the same, where status shows it.
                Err(error) => tracing::debug!(plugin = manifest.id, %error, "no schema"),
            }
        }
        let mut plans = config.plans(&manifests, &schemas)?;
        for plan in &mut plans {
            let decided = config.adapters.get(&plan.instance).and_then(|section| section.enabled).is_some();
            if !decided && self.disabled.contains(&plan.instance) {
                plan.enabled = false;
            }
        }
        let secrets = config.secrets().iter().map(|secret| secret.expose().to_owned()).collect();
        Ok(Planned { config, plans, settings, secrets })
    }
}

/// Manifests by plugin id; a library beside the binary comes before one in a folder.
fn manifests(found: &[Found]) -> BTreeMap<String, Manifest> {
    let mut manifests = BTreeMap::new();
    for place in [Place::Beside, Place::Folder] {
        for found in found.iter().filter(|found| found.place == place) {
            if let Ok(manifest) = &found.manifest {
                manifests.entry(manifest.id.clone()).or_insert_with(|| manifest.clone());
            }
        }
    }
    manifests
}

/// Where libraries lie: beside the binary, in the home, and where the configuration says.
pub fn search_path(config: &Config) -> SearchPath {
    let beside = std::env::current_exe().ok().and_then(|exe| Some(exe.parent()?.to_owned()));
    let mut folders = vec![config.host.plugins_dir.clone()];
    let own = config.home.join("plugins");
    if !folders.contains(&own) {
        folders.push(own);
    }
    SearchPath { beside, folders }
}

/// Bounds and places for the adapters, as the configuration has them.
pub fn settings(config: &Config, env: &BTreeMap<String, String>) -> AdapterSettings {
    let host = &config.host;
    let mut settings = AdapterSettings::new(&config.home, search_path(config));
    settings.isolation = match host.isolation {
        Isolation::Auto => IsolationChoice::Auto,
        Isolation::InProcess => IsolationChoice::InProcess,
        Isolation::Process => IsolationChoice::Process,
    };
    settings.pin = host.pin;
    settings.connect = host.adapter_connect;
    settings.send = host.adapter_send;
    settings.hint = host.adapter_call;
    settings.end = host.adapter_stop;
    settings.backoff_first = host.adapter_backoff;
    settings.backoff_max = host.adapter_backoff_max;
    settings.runtime_dir = env.get("XDG_RUNTIME_DIR").filter(|dir| !dir.is_empty()).map(PathBuf::from);
    settings
}
