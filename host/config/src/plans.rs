//! The conversion of sections into plans for `plugins` and the policy for `access`.

use std::collections::BTreeMap;
use std::path::Path;

use hermes_core::access::{self, AccessPolicy, InstanceAccess};
use hermes_protocol::Manifest;
use serde_json::{Map, Value as Json};

use super::model::{AdapterConfig, Config, InstanceAccessConfig, Isolation, QualifiedId, SessionConfig, Strangers};
use super::problem::{Problem, Problems, Warning};
use hermes_loader::config_schema;
use hermes_loader::config_schema::RESERVED;
use hermes_loader::{AdapterPlan, IsolationChoice};

impl Config {
    /// Returns one plan per instance. Call [`Config::resolve`] first.
    ///
    /// `schemas` are the config schemas by plugin id. Keys of a plugin without a schema are not checked here; its
    /// adapter checks them when it is created.
    ///
    /// # Errors
    ///
    /// Keys of adapters that violate their schemas.
    pub fn plans(
        &self,
        manifests: &BTreeMap<String, Manifest>,
        schemas: &BTreeMap<String, Json>,
    ) -> Result<Vec<AdapterPlan>, Problems> {
        let (plans, problems) = self.judged_plans(manifests, schemas);
        problems.or(plans)
    }

    /// Returns the plans together with the schema violations. A wrong key of one adapter only keeps that adapter from
    /// starting; its supervisor reports it.
    pub(super) fn judged_plans(
        &self,
        manifests: &BTreeMap<String, Manifest>,
        schemas: &BTreeMap<String, Json>,
    ) -> (Vec<AdapterPlan>, Problems) {
        let mut problems = Problems::default();
        let mut plans = Vec::new();
        for (instance, adapter) in &self.adapters {
            let schema = schemas.get(&adapter.plugin);
            let config = own_config(adapter, schema);
            if let Some(schema) = schema {
                check(instance, adapter, manifests.get(&adapter.plugin), schema, &config, &mut problems);
            }
            let mut plan = AdapterPlan::new(instance.clone(), adapter.plugin.clone(), config);
            plan.secrets = adapter.section.own.values().flat_map(|own| own.secrets.iter().cloned()).collect();
            plan.proxy = self.proxy_for(instance);
            plan.secrets.extend(super::proxies::credentials(&plan.proxy));
            plan.isolation = isolation(adapter.isolation.unwrap_or(self.host.isolation));
            plan.enabled = adapter.enabled.unwrap_or(true);
            plan.trust_upstream = adapter.trust_upstream;
            plan.command = adapter.command.clone();
            // The command is relative to the configuration file, like every path in it.
            let folder = self.file.as_deref().and_then(Path::parent).unwrap_or(&self.home);
            plan.folder = plan.command.is_some().then(|| folder.to_owned());
            let uses = manifests.get(&adapter.plugin).map_or(&[][..], |manifest| &manifest.uses);
            plan.granted = adapter.access.grants.iter().filter(|name| uses.contains(name)).cloned().collect();
            plans.push(plan);
        }
        (plans, problems)
    }

    /// Returns the session rules of `instance`: those of its section, otherwise `[session]`.
    pub fn session_for(&self, instance: &str) -> &SessionConfig {
        self.adapters.get(instance).map_or(&self.session, |adapter| &adapter.session)
    }
}

impl Config {
    /// Returns the access policy. Call [`Config::resolve`] first.
    pub fn access_policy(&self) -> AccessPolicy {
        let qualified = |ids: &[QualifiedId]| ids.iter().map(|id| format!("{}:{}", id.instance, id.id)).collect();
        AccessPolicy {
            allow_all: self.access.allow_all,
            allowed_users: qualified(&self.access.allowed_users),
            operators: qualified(&self.access.operators),
            admins: qualified(&self.access.admins),
            strangers: strangers(self.access.strangers),
            instances: self.adapters.iter().map(|(name, adapter)| (name.clone(), instance(&adapter.access))).collect(),
        }
    }
}

impl Config {
    /// Returns a warning for each adapter whose list of several ids makes none of them the operator.
    pub fn missing_operators(&self) -> Vec<Warning> {
        let policy = self.access_policy();
        let enabled = self.adapters.iter().filter(|(_, adapter)| adapter.enabled != Some(false));
        let found = enabled.filter_map(|(instance, adapter)| {
            let listed = policy.without_operator(instance)?;
            let sentence = format!(
                "`allowed_users` has {listed} ids, so all of them are users and none is the operator; add `operators \
                 = [\"ID\"]` with the id of the operator"
            );
            let key = format!("adapter.{instance}.access");
            Some(Warning { source: adapter.section.source.clone(), key, sentence })
        });
        found.collect()
    }
}

fn instance(access: &InstanceAccessConfig) -> InstanceAccess {
    let set = |list: &[String]| list.iter().cloned().collect();
    InstanceAccess {
        allow_all: access.allow_all,
        allowed_users: set(&access.allowed_users),
        allowed_groups: set(&access.allowed_groups),
        allowed_roles: set(&access.allowed_roles),
        operators: set(&access.operators),
        admins: set(&access.admins),
        strangers: access.strangers.map(strangers),
        user_commands: set(&access.user_commands),
        group_user_commands: set(&access.group_user_commands),
    }
}

fn strangers(strangers: Strangers) -> access::UnknownSenders {
    match strangers {
        Strangers::Pair => access::UnknownSenders::Pair,
        Strangers::Ignore => access::UnknownSenders::Ignore,
    }
}

/// Converts `[host] isolation` into the type of `plugins`.
pub fn isolation(isolation: Isolation) -> IsolationChoice {
    match isolation {
        Isolation::Auto => IsolationChoice::Auto,
        Isolation::InProcess => IsolationChoice::InProcess,
        Isolation::Process => IsolationChoice::Process,
    }
}

/// Returns the adapter's own keys as JSON. Text of variables is converted to the type of the schema.
pub fn own_config(adapter: &AdapterConfig, schema: Option<&Json>) -> Json {
    let mut config = Map::new();
    for (key, own) in &adapter.section.own {
        let value = match (&own.value, schema) {
            (Json::String(text), Some(root)) if own.from_variable => match config_schema::property(root, key) {
                Some(property) => config_schema::from_text(root, property, text),
                None => own.value.clone(),
            },
            (value, _) => value.clone(),
        };
        config.insert(key.clone(), value);
    }
    // An adapter that defines this key itself gets the value, too.
    if let Some(proxy) =
        adapter.proxy.as_ref().filter(|_| schema.is_some_and(|root| config_schema::property(root, "proxy").is_some()))
    {
        config.insert("proxy".to_owned(), Json::from(proxy.expose()));
    }
    Json::Object(config)
}

fn check(
    instance: &str,
    adapter: &AdapterConfig,
    manifest: Option<&Manifest>,
    schema: &Json,
    own: &Json,
    problems: &mut Problems,
) {
    for finding in config_schema::check(schema, own, RESERVED) {
        let (key, rest) = finding.path.split_once('.').unwrap_or((&finding.path, ""));
        let source = match adapter.section.own.get(key) {
            Some(own) => own.place(rest),
            None => adapter.section.source.clone(),
        };
        let dot = if finding.path.is_empty() { "" } else { "." };
        let nearest = finding.nearest.map(|nearest| {
            let parent = finding.path.rsplit_once('.').map_or(String::new(), |(parent, _)| format!("{parent}."));
            format!("adapter.{instance}.{parent}{nearest}")
        });
        let sentence = with_variable(finding.sentence, manifest);
        problems.0.push(Problem { source, key: format!("adapter.{instance}{dot}{}", finding.path), sentence, nearest });
    }
}

/// Adds the name of a suitable variable to the message about a missing key.
fn with_variable(sentence: String, manifest: Option<&Manifest>) -> String {
    let variable = manifest
        .into_iter()
        .flat_map(|manifest| &manifest.env)
        .find(|name| name.retired_for.is_empty() && sentence == config_schema::needs(&name.key));
    match variable {
        Some(name) => format!("{sentence}; add it to the section, or set {}", name.name),
        None => sentence,
    }
}
