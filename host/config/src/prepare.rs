//! The preparation of a configuration: the libraries that exist, their manifests and schemas, and one plan per
//! instance.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use hermes_protocol::Manifest;
use serde_json::Value as Json;

use super::idle;
use super::model::{AdapterConfig, Config, HomeChannel};
use super::plans::isolation;
use super::problem::{Problem, Problems, Source, Warning};
use hermes_core::nearest::nearest;
use hermes_loader::{AdapterPlan, AdapterSettings, Found, Judgement, LoadError, Place, SearchPath};

/// Adapters that check their values at the same time.
const ASKED_AT_ONCE: usize = 8;

/// The beginning of the message about a library that the host would refuse.
const LIBRARY_REFUSED: &str = "its library is rejected: ";

/// A part of the message about a library that could not be asked.
const NOT_CHECKED: &str = "are not checked: ";

/// The message about values that could not be checked.
const CANNOT_BE_ASKED: &str = "its settings cannot be checked before it starts (it is a program, or a library of an \
                               older SDK)";

/// Variables that the process of an adapter inherits. All others are removed.
const CHILD_VARIABLES: &[&str] = &["PATH", "LANG", "LC_ALL", "TZ", "SSL_CERT_FILE", "SSL_CERT_DIR"];

/// A configuration with the manifests and schemas of its libraries.
pub struct Prepared {
    /// The configuration after the variables of the manifests were applied.
    pub config: Config,
    /// The manifests by plugin id.
    pub manifests: BTreeMap<String, Manifest>,
    /// The config schemas of the plugins in use, by plugin id.
    pub schemas: BTreeMap<String, Json>,
    /// One plan per instance.
    pub plans: Vec<AdapterPlan>,
    /// The limits and folders for `plugins`.
    pub settings: AdapterSettings,
    /// The schema violations. A host still runs its other adapters; see [`Prepared::wrong`].
    pub problems: Problems,
    /// Variables of the Python gateway that set a limit there and have no effect here. A host with adapters refuses
    /// them.
    pub limits: Problems,
}

impl Prepared {
    /// Returns the problems with which a host would still run: schema violations, sections without a library, values
    /// without an effect.
    pub fn wrong(&self) -> Problems {
        let mut problems = self.problems.clone().and(self.limits.clone());
        for (instance, adapter) in &self.config.adapters {
            let plugin = adapter.plugin.as_str();
            if adapter.command.is_some() {
                continue;
            }
            if self.manifests.contains_key(plugin) {
                problems.0.extend(hermes_loader::refusal(plugin, &self.settings).map(|error| Problem {
                    source: adapter.section.source.clone(),
                    key: format!("adapter.{instance}"),
                    sentence: format!("{LIBRARY_REFUSED}{error}"),
                    nearest: None,
                }));
            } else {
                problems.0.push(Problem {
                    source: adapter.section.source.clone(),
                    key: format!("adapter.{instance}"),
                    sentence: match self.settings.search.refused(plugin) {
                        Some(error) => format!("{LIBRARY_REFUSED}{error}"),
                        None => format!(
                            "no readable library has the id {plugin:?}; `hermes-host adapter list` shows the libraries"
                        ),
                    },
                    nearest: nearest(plugin, self.manifests.keys().map(String::as_str)).map(str::to_owned),
                });
            }
        }
        let nobody = self.config.targets_of_nobody(&self.manifests, &self.schemas);
        let ports = self.config.ports_twice(&self.manifests, &self.schemas);
        problems.and(self.config.without_effect(&self.manifests)).and(nobody).and(ports)
    }

    /// Returns the warnings for a reader of `problems`, and the files that are not libraries for this host. Warnings
    /// that a refused library was not asked are left out.
    pub fn warned(&self, problems: &Problems) -> Vec<String> {
        let refused = |(instance, _): &(&String, &AdapterConfig)| {
            let key = format!("adapter.{instance}");
            problems.0.iter().any(|problem| problem.key == key && problem.sentence.starts_with(LIBRARY_REFUSED))
        };
        let refused = self.config.adapters.iter().filter(refused);
        let refused: BTreeSet<String> = refused
            .flat_map(|(instance, adapter)| [format!("adapter.{instance}"), format!("adapter {}", adapter.plugin)])
            .collect();
        let unasked = |warning: &&Warning| refused.contains(&warning.key) && warning.sentence.contains(NOT_CHECKED);
        let told = |error: &String| problems.0.iter().any(|problem| problem.sentence.contains(error.as_str()));
        let files = hermes_loader::startable(hermes_loader::discover(&self.settings.search));
        let files = files.into_iter().filter_map(|found| found.manifest.err().map(|error| error.to_string()));
        let warnings = self.config.warnings.iter().filter(|warning| !unasked(warning)).map(ToString::to_string);
        warnings.chain(files.filter(|error| !told(error))).collect()
    }

    /// Asks every adapter to check the values of its sections, each in a short-lived child. `config check` uses it; a
    /// running host gets the same result when it creates the adapter. Keys that are wrong by `known` are left out of
    /// the question.
    ///
    /// Returns the problems that adapters report. A question that is not possible becomes a warning.
    pub async fn judged(&mut self, known: &Problems) -> Problems {
        let found = hermes_loader::discover(&self.settings.search);
        let mut problems = Problems::default();
        let asked: Vec<(&AdapterPlan, BTreeSet<&str>)> =
            self.plans.iter().map(|plan| (plan, known.of_own(&plan.instance))).collect();
        for some in asked.chunks(ASKED_AT_ONCE) {
            let asking = some.iter().map(|(plan, without)| {
                let home = self.config.adapters.get(&plan.instance).and_then(|adapter| adapter.home_channel.as_ref());
                ask(plan, without, home, &found, &self.settings)
            });
            let answers = futures_util::future::join_all(asking).await;
            for ((plan, without), answer) in some.iter().zip(answers) {
                let Some(adapter) = self.config.adapters.get(&plan.instance) else { continue };
                let (source, key) = (adapter.section.source.clone(), format!("adapter.{}", plan.instance));
                match answer {
                    Ok(Judgement::Right) => {}
                    // Already reported, or about a key that was left out.
                    Ok(Judgement::Wrong(sentence)) if is_about(&sentence, without) => {}
                    _ if !without.is_empty() && !matches!(answer, Ok(Judgement::Wrong(_))) => {}
                    Ok(Judgement::Wrong(sentence)) => {
                        problems.0.push(Problem { source, key, sentence, nearest: None });
                    }
                    Ok(Judgement::CannotBeAsked) => {
                        let sentence = CANNOT_BE_ASKED.to_owned();
                        self.config.warnings.push(Warning { source, key, sentence });
                    }
                    Err(error @ LoadError::BadManifest { .. }) => {
                        problems.0.push(Problem { source, key, sentence: error.to_string(), nearest: None });
                    }
                    // A warning about its keys exists already.
                    Err(LoadError::NotAccepted { .. }) => {}
                    Err(error) => {
                        let sentence = not_checked("values", &error);
                        self.config.warnings.push(Warning { source, key, sentence });
                    }
                }
            }
        }
        problems.of(&self.config)
    }
}

/// Returns `true` if the message of an adapter is about keys that were left out.
fn is_about(sentence: &str, without: &BTreeSet<&str>) -> bool {
    let is_unread = sentence.starts_with("configuration:") || sentence.starts_with("configuration key");
    !without.is_empty()
        && (is_unread || without.iter().any(|key| !key.is_empty() && sentence.contains(&format!("`{key}`"))))
}

/// Asks the adapter of one plan about its keys except `without`. A program is not started for this.
async fn ask(
    plan: &AdapterPlan,
    without: &BTreeSet<&str>,
    home: Option<&HomeChannel>,
    found: &[Found],
    settings: &AdapterSettings,
) -> Result<Judgement, LoadError> {
    let is_its = |found: &&Found| found.manifest.as_ref().is_ok_and(|manifest| manifest.id == plan.plugin);
    let library = found.iter().filter(is_its).min_by_key(|found| found.place != Place::Beside);
    let mut question = plan.config.clone();
    if let Some(keys) = question.as_object_mut() {
        keys.retain(|key, _| !without.contains(key.as_str()));
    }
    if let (Some(keys), Some(home)) = (question.as_object_mut(), home) {
        keys.insert("home_channel".to_owned(), Json::from(home.chat.as_str()));
    }
    match library.filter(|_| plan.command.is_none()) {
        Some(library) => hermes_loader::judge(&library.path, &question, &plan.secrets, settings).await,
        None => Ok(Judgement::CannotBeAsked),
    }
}

impl Config {
    /// Reads the libraries, applies their manifests and creates the plans.
    ///
    /// `beside` is the folder of the running binary. A library that cannot be read is not a problem here: its instance
    /// reports it at its start.
    ///
    /// # Errors
    ///
    /// The same as [`Config::resolve`], and literal secrets that the schemas mark.
    pub async fn prepare(self, beside: Option<&Path>) -> Result<Prepared, Problems> {
        let (prepared, problems) = self.examine(beside).await;
        problems.or(prepared)
    }

    /// Does the same as [`Config::prepare`] for a host that starts: sections accept the libraries that they name.
    ///
    /// # Errors
    ///
    /// The same as [`Config::prepare`].
    pub async fn prepare_to_run(self, beside: Option<&Path>) -> Result<Prepared, Problems> {
        let (prepared, problems) = self.look(beside, true).await;
        problems.or(prepared)
    }

    /// Does the same as [`Config::prepare`] for the check: problems that would stop a host are returned with the
    /// prepared rest, so that all are reported at once. The messages contain no secrets.
    pub async fn examine(self, beside: Option<&Path>) -> (Prepared, Problems) {
        self.look(beside, false).await
    }

    /// Only accepted libraries are asked. `accepts`: a section accepts the library that it names.
    async fn look(mut self, beside: Option<&Path>, accepts: bool) -> (Prepared, Problems) {
        let settings = self.adapter_settings(beside);
        let found = hermes_loader::discover(&settings.search);
        let manifests = manifests_of(&found);
        self.keep_built_in(&found);
        let mut refused = self.resolve(&without_a_say(&manifests, &found, &settings)).err().unwrap_or_default();
        if accepts && settings.pin {
            let named = |plugin: &str| {
                let mut sections = self.adapters.values();
                sections.any(|adapter| {
                    adapter.plugin == plugin && adapter.command.is_none() && adapter.enabled != Some(false)
                })
            };
            let new = found.iter().filter(|found| !hermes_loader::is_accepted(found, &settings));
            let new = new.filter_map(|found| found.manifest.as_ref().ok().map(|manifest| manifest.id.clone()));
            hermes_loader::accept_named(&new.filter(|id| named(id)).collect::<Vec<_>>(), &settings);
        }
        let schemas = self.schemas(&found, &settings).await;
        self.check_literals(&manifests, &schemas, &mut refused);
        let (plans, problems) = self.judged_plans(&manifests, &schemas);
        let without = self.missing_operators();
        self.warnings.extend(without);
        let secrets = self.short_secrets().into_iter().chain(self.passed_secrets()).collect::<Vec<_>>();
        self.warnings.extend(secrets);
        let (limits, foreign) = self.foreign_variables(&manifests);
        self.warnings.extend(foreign);
        let (problems, refused) = (problems.of(&self), refused.of(&self));
        (Prepared { config: self, manifests, schemas, plans, settings, problems, limits }, refused)
    }

    /// Removes the built-in sections whose library does not lie next to the binary: a section must not accept a library
    /// that no operator named.
    fn keep_built_in(&mut self, found: &[Found]) {
        let is_beside = |plugin: &str| {
            let mut beside = found.iter().filter(|found| found.place == Place::Beside);
            beside.any(|found| found.manifest.as_ref().is_ok_and(|manifest| manifest.id == plugin))
        };
        if self.file.is_none() {
            self.adapters.retain(|_, adapter| adapter.section.source != Source::Default || is_beside(&adapter.plugin));
        }
    }

    /// Adds the reason why the runtime of `[agent]` cannot be created, unless `problems` contain it already.
    pub fn without_runtime(&self, problems: Problems) -> Problems {
        let said = problems.0.iter().any(|problem| problem.key.starts_with("agent.") && problem.key != idle::FOLDER);
        match hermes_agent::build(&self.agent).err().filter(|_| !said) {
            Some(error) => {
                let source = Source::File { path: self.origin.file.clone(), at: None };
                let words = error.to_string();
                let sentence = words.strip_prefix("[agent] ").unwrap_or(&words);
                problems.and(Problems::one(source, "agent", sentence).of(self))
            }
            None => problems,
        }
    }

    /// Returns the folders that are searched for libraries.
    pub fn search_path(&self, beside: Option<&Path>) -> SearchPath {
        let mut folders = vec![self.home.join("plugins")];
        if self.host.plugins_dir != folders[0] {
            folders.push(self.host.plugins_dir.clone());
        }
        SearchPath { beside: beside.map(Path::to_owned), folders }
    }

    /// Returns the limits and folders for `plugins`.
    pub fn adapter_settings(&self, beside: Option<&Path>) -> AdapterSettings {
        let host = &self.host;
        let mut settings = AdapterSettings::new(&self.home, self.search_path(beside));
        settings.isolation = isolation(host.isolation);
        settings.pin = host.pin;
        settings.confine = host.confine;
        settings.unix_sockets = host.unix_sockets.iter().cloned().collect();
        settings.last_words = true;
        settings.private = self.origin.secret_files.iter().chain(&self.file).cloned().collect();
        settings.connect = host.adapter_connect;
        settings.send = host.adapter_send;
        settings.hint = host.adapter_call;
        settings.end = host.adapter_stop;
        settings.host_calls_max = self.limits.host_calls_max;
        settings.backoff_first = host.adapter_backoff;
        settings.backoff_max = host.adapter_backoff_max;
        settings.runtime_dir = self.variable("XDG_RUNTIME_DIR").map(PathBuf::from);
        settings.child_env = CHILD_VARIABLES
            .iter()
            .filter_map(|name| Some((OsString::from(name), OsString::from(self.variable(name)?))))
            .collect();
        settings
    }

    /// Returns a variable of the process environment or of `.env`, for values outside of the configuration.
    pub fn variable(&self, name: &str) -> Option<&str> {
        self.origin.env.get(name).map(|(value, _)| value)
    }

    /// Returns the schemas of the plugins that instances use, asked concurrently.
    async fn schemas(&mut self, found: &[Found], settings: &AdapterSettings) -> BTreeMap<String, Json> {
        let used = |id: &str| self.adapters.values().any(|adapter| adapter.plugin == id && adapter.command.is_none());
        let asked = found.iter().filter_map(|found| {
            let id = found.manifest.as_ref().ok().map(|manifest| manifest.id.clone()).filter(|id| used(id))?;
            let section = self.adapters.values().find(|adapter| adapter.plugin == id)?.section.source.clone();
            Some(async move { (id, section, hermes_loader::schema(&found.path, settings).await) })
        });
        let answers = futures_util::future::join_all(asked.collect::<Vec<_>>()).await;
        let mut schemas = BTreeMap::new();
        for (id, source, answer) in answers {
            match answer {
                Ok(schema) => {
                    schemas.insert(id, schema);
                }
                Err(error) => self.warnings.push(Warning {
                    source,
                    key: format!("adapter {id}"),
                    sentence: not_checked("keys", &error),
                }),
            }
        }
        schemas
    }
}

/// Returns the message about keys or values that an adapter could not check. A running host repeats it until a reload,
/// so it does not state that the disk is full: there may be room by then.
fn not_checked(what: &str, error: &LoadError) -> String {
    match error {
        LoadError::Unwritable { what: copy, path, .. } => {
            tracing::warn!(%error, "the {what} of an adapter are not checked");
            format!(
                "its {what} were not checked, since {copy} could not be written to {}; `hermes-host reload` \
                 checks them again",
                path.display()
            )
        }
        error => format!("its {what} {NOT_CHECKED}{error}"),
    }
}

/// Returns the manifests for the decision which instances exist: a variable creates an instance only of an accepted
/// library.
fn without_a_say(
    manifests: &BTreeMap<String, Manifest>,
    found: &[Found],
    settings: &AdapterSettings,
) -> BTreeMap<String, Manifest> {
    let mut manifests = manifests.clone();
    for (id, manifest) in &mut manifests {
        let is_its = |found: &&Found| found.manifest.as_ref().is_ok_and(|manifest| manifest.id == *id);
        let enables = manifest.env.iter().any(|name| name.enables);
        if enables && !found.iter().filter(is_its).any(|found| hermes_loader::is_accepted(found, settings)) {
            manifest.env.iter_mut().for_each(|name| name.enables = false);
        }
    }
    manifests
}

/// Returns the readable manifests by id. Libraries beside the binary have priority.
pub fn manifests_of(found: &[Found]) -> BTreeMap<String, Manifest> {
    let mut manifests = BTreeMap::new();
    let (beside, folders): (Vec<&Found>, Vec<&Found>) = found.iter().partition(|found| found.place == Place::Beside);
    for manifest in beside.into_iter().chain(folders).filter_map(|found| found.manifest.as_ref().ok()) {
        manifests.entry(manifest.id.clone()).or_insert_with(|| manifest.clone());
    }
    manifests
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_told_for_as_long_as_a_host_runs_says_nothing_of_a_disk_that_may_have_room_by_then() {
        let full = LoadError::Unwritable {
            what: "a private copy".to_owned(),
            path: "/srv/plugins".into(),
            why: "No space left on device (os error 28)".to_owned(),
        };
        let said = not_checked("keys", &full);
        assert!(said.starts_with("its keys were not checked") && said.contains("/srv/plugins"), "{said}");
        assert!(said.contains("`hermes-host reload`") && !said.contains("No space left"), "{said}");
    }
}
