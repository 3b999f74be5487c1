//! `adapter try`: an adapter in a temporary home, with the echo agent.

use std::fs;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use hermes_conformance::Sample;

use super::args::TryArgs;
use super::ask::say;
use super::scratch::Scratch;
use super::{Context, Failure, adapter, chat, log};
use crate::surface::terminal::{Speaker, Trial, trial};
use hermes_config::Sources;

/// The log filter: records of adapters, and warnings.
const LOG: &str = "warn,adapter=info";

/// Runs the adapter until the user ends it.
pub async fn try_out(context: &Context, args: TryArgs) -> Result<(), Failure> {
    let file = context.sources.cwd.join(&args.file);
    let manifest = hermes_loader::inspect(&file).map_err(|error| Failure::failed(error.to_string()))?;
    let plugins_toml = document(&manifest.id, keys(context, &args)?)?;
    // From here on an interrupt still removes the temporary home.
    let speaker = Speaker::new().map_err(chat::failure)?;
    let home = Scratch::make("try")
        .map_err(|error| Failure::failed(format!("the temporary folder cannot be created ({error})")))?;
    let library = home.path.join("plugins").join(format!("{}.so", manifest.id));
    let failed =
        |path: &Path, error: std::io::Error| Failure::failed(format!("{} cannot be written ({error})", path.display()));
    adapter::copy(&file, &library).map_err(|error| failed(&library, error))?;
    let path = home.path.join("plugins.toml");
    write_private(&path, &plugins_toml).map_err(|error| failed(&path, error))?;

    let sources = Sources { config: Some(path), home: Some(home.path.clone()), ..context.sources.clone() };
    let config = hermes_config::load(sources.clone())?;
    hermes_loader::accept(&library, "adapter try", &config.adapter_settings(None))
        .map_err(|error| Failure::failed(error.to_string()))?;
    let prepared = config.clone().prepare(None).await?;
    if !prepared.problems.0.is_empty() {
        return Err(Failure::config(format!(
            "{}\nset the keys of the adapter with --set KEY=VALUE, or with --sample FILE, which has them in [config]",
            prepared.problems
        )));
    }
    let log_mask = log::start(&config)?;
    say(&format!(
        "{} {} runs in a temporary home folder.\nWARNING: everyone who can write to it gets an answer from an agent \
         that repeats the message.\nThis terminal is a chat, too. Ctrl-C or Ctrl-D ends the trial.\n",
        manifest.id, manifest.version
    ))?;
    let instance = manifest.id.clone();
    trial(Trial { speaker, instance, sources, config, home: home.path.clone(), log_mask }).await.map_err(chat::failure)
}

/// Returns the adapter's own keys: those of the sample, overridden by those of the command line.
fn keys(context: &Context, args: &TryArgs) -> Result<toml::Table, Failure> {
    let mut keys = match &args.sample {
        None => toml::Table::new(),
        Some(path) => {
            let sample = Sample::read(&context.sources.cwd.join(path)).map_err(Failure::failed)?;
            toml::Table::try_from(sample.config)
                .map_err(|error| Failure::failed(format!("[config] of {}: {error}", path.display())))?
        }
    };
    for set in &args.set {
        put(&mut keys, set).map_err(Failure::usage)?;
    }
    Ok(keys)
}

/// Adds `KEY=VALUE` to a table. A value that is not TOML becomes a string.
fn put(table: &mut toml::Table, set: &str) -> Result<(), String> {
    let (key, value) = set.split_once('=').ok_or_else(|| format!("{set:?} has no `=`; write --set KEY=VALUE"))?;
    let written = toml::from_str::<toml::Table>(&format!("value = {value}")).ok();
    // A line break in the value could begin another key.
    let written = written.filter(|table| table.len() == 1).and_then(|mut table| table.remove("value"));
    let value = written.unwrap_or_else(|| value.into());
    let mut parts: Vec<&str> = key.trim().split('.').collect();
    if parts.iter().any(|part| part.is_empty()) {
        return Err(format!("{key:?} is not a key; write --set KEY=VALUE"));
    }
    let last = parts.pop().unwrap_or_default();
    let mut at = table;
    for part in parts {
        let inner = at.entry(part).or_insert_with(|| toml::Table::new().into());
        at = inner.as_table_mut().ok_or_else(|| format!("{part:?} in {key:?} is not a table"))?;
    }
    at.insert(last.to_owned(), value);
    Ok(())
}

/// Returns the complete `plugins.toml`.
fn document(id: &str, mut section: toml::Table) -> Result<String, Failure> {
    if !section.contains_key("access") {
        let everybody = toml::Table::from_iter([("allow_all".to_owned(), true.into())]);
        section.insert("access".to_owned(), everybody.into());
    }
    let table = |pairs: [(&str, toml::Value); 2]| {
        toml::Value::Table(pairs.into_iter().map(|(key, value)| (key.to_owned(), value)).collect())
    };
    let document = toml::Table::from_iter([
        ("host".to_owned(), table([("status", "".into()), ("log", LOG.into())])),
        ("agent".to_owned(), toml::Table::from_iter([("runtime".to_owned(), "echo".into())]).into()),
        ("adapter".to_owned(), toml::Table::from_iter([(id.to_owned(), section.into())]).into()),
    ]);
    toml::to_string(&document).map_err(|error| Failure::failed(format!("the keys cannot be written as TOML ({error})")))
}

fn write_private(path: &Path, text: &str) -> std::io::Result<()> {
    fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?.write_all(text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(words: &[&str]) -> Result<toml::Table, String> {
        let mut table = toml::Table::new();
        words.iter().try_for_each(|set| put(&mut table, set)).map(|()| table)
    }

    #[test]
    fn a_value_is_toml_where_it_can_be_and_a_text_else() {
        let table = set(&["port=4000", "name=ann", "say=[\"a\", \"b\"]", "token={ env = \"T\" }", "a.b.c=true", "e="]);
        let expected =
            "port = 4000\nname = \"ann\"\nsay = [\"a\", \"b\"]\ntoken = { env = \"T\" }\na.b.c = true\ne = \"\"";
        assert_eq!(table.unwrap(), toml::from_str(expected).unwrap());
        let two_keys = set(&["a=1\nb=2"]).unwrap();
        assert_eq!(two_keys.len(), 1, "{two_keys:?}");
        assert!(set(&["port"]).unwrap_err().contains("KEY=VALUE"));
        assert!(set(&["a=1", "a.b=2"]).unwrap_err().contains("not a table"));
        assert!(set(&[".a=1"]).is_err());
    }

    #[test]
    fn everybody_may_speak_unless_it_is_said_who() {
        let text = document("x", set(&["listen=127.0.0.1:1"]).unwrap()).unwrap();
        assert!(text.contains("allow_all = true") && text.contains("runtime = \"echo\""), "{text}");
        let text = document("x", set(&["access.allowed_users=[\"7\"]"]).unwrap()).unwrap();
        assert!(!text.contains("allow_all"), "{text}");
    }

    #[test]
    fn a_home_is_for_its_owner_and_gone_afterwards() {
        use std::os::unix::fs::PermissionsExt;
        let home = Scratch::make("try").unwrap();
        let path = home.path.clone();
        write_private(&path.join("plugins.toml"), "x").unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&path), mode(&path.join("plugins.toml"))), (0o700, 0o600));
        drop(home);
        assert!(!path.exists());
    }
}
