//! Values of the right type that never have an effect: names where only ids match, missing commands, host methods,
//! instances and folders, a credential of two instances. A host runs with them; `config check` refuses them.

use std::collections::BTreeMap;

use hermes_core::commands::{Gates, REGISTRY};
use hermes_protocol::Manifest;
use serde_json::Value as Json;

use super::model::{AdapterConfig, Config};
use super::problem::{Problem, Problems, Source};
use super::section::Own;
use hermes_core::nearest::nearest;

/// Lists of user ids.
const PEOPLE: [&str; 3] = ["access.allowed_users", "access.operators", "access.admins"];

/// The key of the folder in which commands run.
pub(super) const FOLDER: &str = "agent.cwd";

impl Config {
    /// Returns a problem for each value without an effect.
    pub(super) fn without_effect(&self, manifests: &BTreeMap<String, Manifest>) -> Problems {
        let mut problems = Problems::default();
        let global = [&self.access.allowed_users, &self.access.operators, &self.access.admins];
        for (path, ids) in PEOPLE.into_iter().zip(global) {
            let source = self.origin.values.get(path).map(|found| &found.source);
            names(path, source, ids.iter().map(|id| id.id.as_str()), &mut problems);
            for id in ids {
                self.instance_of(path, source, &id.instance, manifests, &mut problems);
            }
        }
        self.one_credential_twice(&mut problems);
        if let Some(folder) = self.agent.cwd.as_deref().filter(|folder| !folder.is_dir()) {
            let source = self.origin.values.get(FOLDER).map(|found| &found.source);
            let sentence = format!("the folder {} does not exist; create it, or set another one", folder.display());
            push(FOLDER, source, sentence, None, &mut problems);
        }
        self.request_as_address(&mut problems);
        for (instance, adapter) in &self.adapters {
            let uses = manifests.get(&adapter.plugin).map(|manifest| manifest.uses.as_slice());
            of_section(&format!("adapter.{instance}"), adapter, uses, &mut problems);
        }
        problems
    }

    /// Reports a base address that is the address of a request.
    fn request_as_address(&self, problems: &mut Problems) {
        const REQUESTS: [&str; 5] = ["/chat/completions", "/completions", "/responses", "/embeddings", "/models"];
        let key = "agent.base_url";
        let Some(url) = &self.agent.base_url else { return };
        let written = url.trim_end_matches('/');
        if let Some(base) = REQUESTS.iter().find_map(|request| written.strip_suffix(request)) {
            let source = self.origin.values.get(key).map(|found| &found.source);
            let sentence = format!("{url:?} is the URL of a request, not a base URL; write {base:?}");
            push(key, source, sentence, None, problems);
        }
    }

    /// Reports an id of a missing instance, which admits nobody. An instance with a library may get its section from a
    /// variable.
    fn instance_of(
        &self,
        key: &str,
        source: Option<&Source>,
        instance: &str,
        manifests: &BTreeMap<String, Manifest>,
        problems: &mut Problems,
    ) {
        let known = || self.adapters.keys().chain(manifests.keys()).map(String::as_str);
        if instance != hermes_loader::terminal::INSTANCE && !known().any(|one| one == instance) {
            let sentence = format!(
                "no instance is named {instance:?}, so this id admits nobody; write the name of an [adapter] \
                         section"
            );
            push(key, source, sentence, nearest(instance, known()), problems);
        }
    }

    /// Reports a credential that two instances use. The second instance does not start.
    fn one_credential_twice(&self, problems: &mut Problems) {
        let mut seen: Vec<(&str, &str, &Json, String)> = Vec::new();
        let on = self.adapters.iter().filter(|(_, adapter)| adapter.enabled != Some(false));
        for (instance, adapter) in on {
            let is_one = |(key, own): &(&String, &Own)| {
                let is_set = own.value.as_str() != Some("");
                is_set && (!own.secrets.is_empty() || *key == "token")
            };
            for (key, own) in adapter.section.own.iter().filter(is_one) {
                let shown = format!("adapter.{instance}.{key}");
                let is_it = |(plugin, name, value, _): &&(&str, &str, &Json, String)| {
                    *plugin == adapter.plugin && *name == key && **value == own.value
                };
                match seen.iter().find(is_it) {
                    Some((.., first)) => {
                        let sentence = format!(
                            "is the same as {first}, and a platform serves only one instance per credential; use \
                             another credential, or remove one of the sections"
                        );
                        push(&shown, Some(&own.place("")), sentence, None, problems);
                    }
                    None => seen.push((&adapter.plugin, key, &own.value, shown)),
                }
            }
        }
    }
}

fn of_section(shown: &str, adapter: &AdapterConfig, uses: Option<&[String]>, problems: &mut Problems) {
    let access = &adapter.access;
    let source = |path: &str| adapter.section.host.get(path).map(|found| &found.source);
    for (path, ids) in PEOPLE.into_iter().zip([&access.allowed_users, &access.operators, &access.admins]) {
        names(&format!("{shown}.{path}"), source(path), ids.iter().map(String::as_str), problems);
    }
    let lists =
        [("access.user_commands", &access.user_commands), ("access.group_user_commands", &access.group_user_commands)];
    for (path, listed) in lists {
        commands(&format!("{shown}.{path}"), source(path), listed, problems);
    }
    // Without a manifest, grants cannot be checked.
    for grant in access.grants.iter().filter(|grant| uses.is_some_and(|uses| !uses.contains(grant))) {
        let path = "access.grants";
        let near = nearest(grant, uses.unwrap_or_default().iter().map(String::as_str));
        let sentence = format!("{grant:?} is not a host method of this adapter's manifest; remove it");
        push(&format!("{shown}.{path}"), source(path), sentence, near, problems);
    }
}

/// Reports ids that begin with `@` and are only names. (`@ann:example.org` is an id.)
fn names<'a>(key: &str, source: Option<&Source>, ids: impl Iterator<Item = &'a str>, problems: &mut Problems) {
    let is_name = |id: &&str| id.strip_prefix('@').is_some_and(|name| !name.contains([':', '.', '@']));
    for id in ids.filter(is_name) {
        let sentence = format!(
            "{id:?} is a name, which can pass to another account, and only permanent ids match; write the id of the \
             account, as shown by the platform or /whoami"
        );
        push(key, source, sentence, None, problems);
    }
}

fn commands(key: &str, source: Option<&Source>, listed: &[String], problems: &mut Problems) {
    for name in listed.iter().filter(|name| !REGISTRY.iter().any(|command| command.name == name.as_str())) {
        let meant = name.trim().trim_start_matches('/').to_lowercase();
        let near = hermes_core::commands::nearest(&meant, &Gates::default());
        let sentence = format!("{name:?} is not a command; write names as `/commands` lists them, without the slash");
        push(key, source, sentence, near, problems);
    }
}

fn push(key: &str, source: Option<&Source>, sentence: String, near: Option<&str>, problems: &mut Problems) {
    let source = source.cloned().unwrap_or(Source::Default);
    problems.0.push(Problem { source, key: key.to_owned(), sentence, nearest: near.map(str::to_owned) });
}
