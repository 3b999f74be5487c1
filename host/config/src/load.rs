//! Finding and reading the file, which returns a [`Config`] or all of its problems.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use hermes_adapter_net::address::is_loopback_ip;

use super::build::{self, Get};
use super::environment::{Environment, read_bounded};
use super::keys::{ENVIRONMENT, KEYS, Key, find};
use super::log_filter;
use super::model::Config;
use super::problem::{Problem, Problems, Source, Warning};
use super::proxies;
use super::read::{Reader, Values, from_variable};
use super::resets;
use super::section::{self, Section};
use super::tree::{self, Value};
use hermes_core::nearest::nearest;

/// The name of the file.
pub const FILE_NAME: &str = "plugins.toml";

/// The configuration of a host without a file: the `plugins.toml` of the repository.
const BUILT_IN: &str = include_str!("../../../plugins.toml");

/// The sources of the configuration.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    /// `--config`.
    pub config: Option<PathBuf>,
    /// `--home`.
    pub home: Option<PathBuf>,
    /// The process environment, read once in `main`.
    pub env: BTreeMap<String, String>,
    /// The working folder.
    pub cwd: PathBuf,
    /// `true` if `plugins.toml` of the working folder is used. Only `run` sets it: the file may be part of a checkout,
    /// and it names the addresses that get the operator's keys.
    pub here: bool,
}

/// The written values with their sources, for `config show` and later steps.
#[derive(Clone, Debug)]
pub struct Origin {
    pub(super) values: Values,
    pub(super) env: Environment,
    pub(super) literal_secrets: bool,
    /// Files from which secrets were read.
    pub(super) secret_files: Vec<PathBuf>,
    /// Variables that the file names.
    pub(super) named: BTreeSet<String>,
    pub(super) home: Source,
    /// The file, or the missing file to which relative paths refer.
    pub(super) file: PathBuf,
}

/// Reads the configuration.
///
/// The home folder may be missing and is not created here.
///
/// # Errors
///
/// Every problem of the file, of `.env` and of the variables at once.
pub fn load(sources: Sources) -> Result<Config, Problems> {
    let (config, problems) = read(sources)?;
    problems.of(&config).or(config)
}

/// Reads the valid parts and returns every problem with them. The check uses it to continue with the libraries.
///
/// # Errors
///
/// The file cannot be found or read.
pub fn read(sources: Sources) -> Result<(Config, Problems), Problems> {
    let mut problems = Problems::default();
    let mut warnings = Vec::new();
    let (home, home_source) = home_of(&sources)?;
    let env = Environment::new(sources.env.clone(), &home, &mut problems, &mut warnings);
    let file = file(&sources, &home, &env)?;
    let path = file.clone().unwrap_or_else(|| home.join("plugins.toml"));

    let mut reader = Reader::new(&path, &env);
    let mut values = Values::default();
    let mut sections = BTreeMap::new();
    if file.is_some() {
        let text =
            read_bounded(&path).map_err(|why| Problems::one(Source::File { path: path.clone(), at: None }, "", why))?;
        if std::fs::metadata(&path).is_ok_and(|meta| meta.permissions().mode() & 0o002 != 0) {
            let source = Source::File { path: path.clone(), at: None };
            reader.problems.push(source, "", format!("every user can write to it; run `chmod o-w {}`", path.display()));
        }
        read_document(&mut reader, &text, &mut values, &mut sections);
    } else {
        sections = built_in();
    }
    apply_environment(&mut reader, &mut values);
    check_together(&mut reader, &values);
    let proxy = proxies::of_host(&mut reader, &Get::host(&values, &path));

    problems.0.append(&mut reader.problems.0);
    warnings.append(&mut reader.warnings);
    let literal_secrets = reader.literal_secrets;
    let secret_files = std::mem::take(&mut reader.secret_files);
    let mut named = std::mem::take(&mut reader.named);
    let get = Get::host(&values, &path);
    let mut agent = build::agent(&get);
    agent.home.clone_from(&home);
    agent.proxy = proxy.settings.clone();
    agent.environment = hermes_agent::tools::environment::allowed(&sources.env);
    if build::is_hosted(&agent) && agent.api_key.is_none() {
        warnings.push(Warning {
            source: values.get("agent.runtime").map_or(Source::Default, |found| found.source.clone()),
            key: "agent.api_key".to_owned(),
            sentence: "is not set, and this endpoint requires an API key; set OPENAI_API_KEY".to_owned(),
        });
    }
    for name in get.list("agent.env_pass") {
        named.insert(name.clone());
        match env.get(&name) {
            Some((value, _)) => drop(agent.environment.insert(name, value.to_owned())),
            None => warnings.push(Warning {
                source: values.get("agent.env_pass").map_or(Source::Default, |found| found.source.clone()),
                key: "agent.env_pass".to_owned(),
                sentence: format!("the variable {name} is not set, so commands do not receive it"),
            }),
        }
    }
    let config = Config {
        host: build::host(&get, proxy),
        agent,
        session: build::session(&get),
        access: build::access(&get),
        gates: build::gates(&get),
        delivery: build::delivery(&get),
        limits: build::limits(&get),
        adapters: sections
            .into_iter()
            .map(|(instance, section)| {
                let adapter = adapter(&instance, section, &values, &path);
                (instance, adapter)
            })
            .collect(),
        warnings,
        home,
        file,
        origin: Origin { values, env, literal_secrets, secret_files, named, home: home_source, file: path },
    };
    Ok((config, problems))
}

/// Builds the typed section of one adapter: its host keys override those of `[session]`.
pub fn adapter(instance: &str, section: Section, values: &Values, file: &Path) -> super::model::AdapterConfig {
    let merged = resets::under(values, &section.host).overridden(&section.host);
    let session = build::session(&Get::adapter(&merged, file));
    let host = section.host.clone();
    build::adapter(instance, &Get::adapter(&host, file), session, section)
}

/// Returns the home folder, for commands that do not need the rest of the configuration.
///
/// # Errors
///
/// Neither a variable nor an argument names one.
pub fn home(sources: &Sources) -> Result<PathBuf, Problems> {
    home_of(sources).map(|(home, _)| home)
}

fn home_of(sources: &Sources) -> Result<(PathBuf, Source), Problems> {
    let variable = |name: &str| sources.env.get(name).filter(|value| !value.is_empty());
    let (home, source) = if let Some(home) = &sources.home {
        (home.clone(), Source::CommandLine)
    } else if let Some(home) = variable("HERMES_HOST_HOME") {
        (PathBuf::from(home), Source::Env("HERMES_HOST_HOME".to_owned()))
    } else if let Some(home) = variable("HOME") {
        (Path::new(home).join(".hermes-host"), Source::Default)
    } else {
        let sentence = "the home folder is unknown; set HERMES_HOST_HOME or pass --home";
        return Err(Problems::one(Source::Env("HOME".to_owned()), "", sentence));
    };
    Ok((sources.cwd.join(home), source))
}

/// Returns the file to read: the requested one, otherwise the first that exists.
fn file(sources: &Sources, home: &Path, env: &Environment) -> Result<Option<PathBuf>, Problems> {
    let asked = match (&sources.config, env.get("HERMES_HOST_CONFIG")) {
        (Some(path), _) => Some((sources.cwd.join(path), Source::CommandLine)),
        (None, Some((path, source))) => Some((sources.cwd.join(path), source)),
        (None, None) => None,
    };
    if let Some((path, source)) = asked {
        let is_folder = path.is_dir();
        let path: PathBuf = if is_folder { path.join(FILE_NAME).components().collect() } else { path };
        return match path.is_file() {
            true if is_folder => ours(path).map(Some),
            true => Ok(Some(path)),
            false => Err(Problems::one(source, "", format!("{} is not a file", path.display()))),
        };
    }
    let here = sources.cwd.join(FILE_NAME);
    match home.join(FILE_NAME) {
        _ if sources.here && here.is_file() => ours(here).map(Some),
        path if path.is_file() => Ok(Some(path)),
        _ => Ok(None),
    }
}

/// Accepts an unnamed file only if it belongs to the user or to root.
fn ours(path: PathBuf) -> Result<PathBuf, Problems> {
    let owner = std::fs::metadata(&path).map(|meta| meta.uid());
    if owner.is_ok_and(|owner| is_ours(owner, rustix::process::geteuid().as_raw())) {
        return Ok(path);
    }
    let words = "it belongs to another user and is ignored; copy it, or pass it with --config FILE if you trust it";
    Err(Problems::one(Source::File { path, at: None }, "", words.to_owned()))
}

fn is_ours(owner: u32, user: u32) -> bool {
    owner == user || owner == 0
}

/// Returns the sections of a host without a file. Its other values are the defaults.
pub(super) fn built_in() -> BTreeMap<String, Section> {
    let env = Environment::default();
    let mut reader = Reader::new(Path::new(FILE_NAME), &env);
    let mut sections = BTreeMap::new();
    read_document(&mut reader, BUILT_IN, &mut Values::default(), &mut sections);
    sections.values_mut().for_each(|section| section.source = Source::Default);
    sections
}

fn read_document(reader: &mut Reader<'_>, text: &str, values: &mut Values, sections: &mut BTreeMap<String, Section>) {
    let (tree, errors) = tree::parse(text);
    reader.secret_files = super::private::secret_files(&tree, reader.file);
    let whole = errors.is_empty();
    for error in errors {
        reader.problem(error.at, "", error.message);
    }
    let keys: Vec<&'static Key> = KEYS.iter().collect();
    for (name, node) in &tree {
        let is_section = super::keys::SECTIONS.iter().any(|(section, _)| section == name);
        match &node.value {
            _ if name == "adapter" => *sections = section::read_all(reader, node),
            Value::Table(table) if is_section => reader.table(table, name, name, &keys, values),
            other if is_section => {
                reader.problem(node.at, name, format!("must be a table [{name}], not {}", other.type_name()));
            }
            // A broken heading makes its keys look like sections.
            _ if !whole => {}
            _ => {
                let names = super::keys::SECTIONS.iter().map(|(section, _)| *section).chain(["adapter"]);
                let source = reader.at(node.at);
                reader.problems.0.push(Problem {
                    source,
                    key: name.clone(),
                    sentence: "unknown section".to_owned(),
                    nearest: nearest(name, names).map(str::to_owned),
                });
            }
        }
    }
}

fn apply_environment(reader: &mut Reader<'_>, values: &mut Values) {
    for (variable, path) in ENVIRONMENT {
        let Some((text, source)) = reader.env.get(variable) else { continue };
        let key = find(KEYS, path).expect("a test looks every variable's key up");
        match from_variable(key.kind, text) {
            Ok(value) => match values.get(path) {
                None => values.set(key, value, source),
                Some(found) if found.value != value => {
                    let at = found.source.clone();
                    reader.warnings.push(Warning {
                        source: at,
                        key: (*path).to_owned(),
                        sentence: format!("overrides the different value of {source}"),
                    });
                }
                Some(_) => {}
            },
            Err(why) => reader.problems.push(source, *path, why),
        }
    }
}

/// Checks rules beyond the type of a key.
fn check_together(reader: &mut Reader<'_>, values: &Values) {
    if let Some(found) = values.get("host.log")
        && let Value::String(filter) = &found.value
        && let Err(sentence) = log_filter::check(filter)
    {
        reader.problems.push(found.source.clone(), "host.log", sentence);
    }
    check_status(reader, values);
    if let Some(found) = values.get("agent.env_pass")
        && let Value::Array(names) = &found.value
    {
        for name in names.iter().filter_map(|node| match &node.value {
            Value::String(name) if !hermes_agent::tools::environment::may_pass(name) => Some(name),
            _ => None,
        }) {
            let sentence = format!(
                "{name:?} cannot be passed to commands: it is not a valid variable name, or the host sets it for each \
                 turn"
            );
            reader.problems.push(found.source.clone(), "agent.env_pass", sentence);
        }
    }
    resets::check(reader, values, "session.");
    let number = |path: &str| match find(KEYS, path).and_then(|key| values.value(key)) {
        Some(Value::Integer(n)) => n,
        _ => 0,
    };
    let pairs = [
        ("session.inactivity_warning_s", 1, "session.inactivity_s", 1),
        ("delivery.backoff_ms", 1, "delivery.backoff_s_max", 1000),
        ("host.adapter_backoff_ms", 1, "host.adapter_backoff_s_max", 1000),
    ];
    for (small, small_unit, large, large_unit) in pairs {
        if number(small) * small_unit > number(large) * large_unit
            && let Some(found) = values.get(small).or_else(|| values.get(large))
        {
            let source = found.source.clone();
            reader.problems.push(source, small, format!("must not be longer than {large}"));
        }
    }
}

/// Refuses a status address that other machines can reach, unless `host.status_public` permits it.
fn check_status(reader: &mut Reader<'_>, values: &Values) {
    let permits = values.get("host.status_public").is_some_and(|found| found.value == Value::Boolean(true));
    if let Some(found) = values.get("host.status").filter(|_| !permits)
        && let Value::String(text) = &found.value
        && let Ok(address) = text.parse::<SocketAddr>()
        && !is_loopback_ip(address.ip())
    {
        let sentence = format!(
            "other machines can reach {address}, and the page shows adapters, paths and errors without a key; write \
             \"127.0.0.1:{}\", or allow it with `status_public = true`",
            address.port()
        );
        reader.problems.push(found.source.clone(), "host.status", sentence);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_file_has_no_problem_and_says_nothing_but_defaults_and_sections() {
        let env = Environment::default();
        let mut reader = Reader::new(Path::new(FILE_NAME), &env);
        let (mut values, mut sections) = (Values::default(), BTreeMap::new());
        read_document(&mut reader, BUILT_IN, &mut values, &mut sections);
        assert_eq!(reader.problems, Problems::default());
        for key in KEYS {
            if let Some(found) = values.get(key.path) {
                assert_eq!(Some(&found.value), super::super::read::default_of(key).as_ref(), "{}", key.path);
            }
        }
        assert_eq!(built_in().keys().collect::<Vec<_>>(), ["api_server", "webchat"]);
    }

    #[test]
    fn a_file_of_the_working_folder_belongs_to_the_user_or_to_root() {
        assert!(is_ours(1000, 1000) && is_ours(0, 1000) && is_ours(0, 0));
        assert!(!is_ours(1001, 1000) && !is_ours(1000, 0));
    }
}
