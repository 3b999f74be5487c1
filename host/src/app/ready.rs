//! The start-up message: paths, running adapters, and warnings.

use std::io::{self, IsTerminal, Write as _};

use hermes_agent::RuntimeKind;

use super::{App, link};
use crate::engine::recovery::Found;
use crate::engine::runtime::Host;
use hermes_config::write_sample;
use hermes_loader::AdapterState;

/// Prints a line to standard output, independent of the log level. A closed output is ignored.
macro_rules! tell {
    ($($words:tt)*) => { _ = writeln!(io::stdout(), $($words)*) };
}

/// Prints a URL that an adapter announced. A secret in it is printed on a terminal only, because other outputs may be
/// stored.
pub async fn announced(host: &Host, instance: &str, label: &str, url: &str) {
    let line = link::line(label, url);
    if io::stdout().is_terminal() {
        tell!("{line}");
        return;
    }
    match host.store.kv_within(instance, &format!("{label}\n{url}")).await {
        Ok(secrets) => tell!("{}", link::without_secrets(instance, line, &secrets)),
        Err(error) => tracing::warn!(instance, %error, "address not shown, because it may contain a secret"),
    }
}

/// Lists the adapters, with the failed ones apart. `None`: there are none.
fn adapters(states: impl Iterator<Item = (String, AdapterState)>) -> Option<String> {
    let (failed, well): (Vec<_>, Vec<_>) = states.partition(|(_, state)| matches!(state, AdapterState::Failed { .. }));
    let names =
        |some: Vec<(String, AdapterState)>| some.into_iter().map(|(name, _)| name).collect::<Vec<_>>().join(", ");
    match (names(well), names(failed)) {
        (well, failed) if well.is_empty() && failed.is_empty() => None,
        (well, failed) if failed.is_empty() => Some(format!("{well}.")),
        (well, failed) => {
            let well = if well.is_empty() { "none running".to_owned() } else { well };
            Some(format!("{well}; failed: {failed} (`hermes-host status` shows the reasons)."))
        }
    }
}

/// Prints the start-up lines. URLs follow as adapters announce them. The first `warned` warnings were shown before.
pub fn say(app: &App, left: &Found, warned: usize) {
    let live = app.host.live();
    let config = &live.config;
    tell!("hermes-host {} is up (process {}).", env!("CARGO_PKG_VERSION"), std::process::id());
    tell!("State: {}", config.home.display());
    match &config.file {
        Some(file) => tell!("Configuration: {}", file.display()),
        None => {
            let write = write_sample(&config.home.display().to_string());
            tell!("Configuration: built-in, because there is no plugins.toml. `{write}` creates one to edit.");
        }
    }
    let states = app.adapters.all().into_iter().map(|adapter| (adapter.instance().to_string(), adapter.state()));
    match adapters(states) {
        Some(words) => tell!("Adapters: {words}"),
        None => {
            let folder = config.host.plugins_dir.display();
            tell!(
                "Adapters: none. Copy a library (libhermes_adapter_*.so) next to hermes-host or into {folder}, and \
                 add its section: `hermes-host config sample` prints one for each library."
            );
        }
    }
    if let Some(address) = config.host.status {
        tell!("Status: http://{address}/");
    }
    if config.agent.runtime == RuntimeKind::Echo {
        tell!(
            "Agent: echo, which repeats your messages. To use a model, set OPENAI_API_KEY, or base_url and model in \
             [agent], and restart the host."
        );
    } else {
        tell!("Agent: {}.", app.host.runtime.name());
    }
    for warning in config.warnings.iter().skip(warned) {
        tracing::warn!("{warning}");
    }
    if *left != Found::default() {
        tracing::info!(
            turns = left.cut_off,
            events = left.pending,
            deliveries = left.owed,
            "resuming work left by the previous run"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_adapter_that_failed_is_not_told_among_those_that_run() {
        let failed = || AdapterState::Failed { reason: "no".into(), mend: String::new() };
        let told = |states: Vec<(&str, AdapterState)>| adapters(states.into_iter().map(|(n, s)| (n.to_owned(), s)));
        let starting = || AdapterState::Starting { failures: 0, reason: None };
        assert_eq!(told(vec![("a", starting()), ("b", AdapterState::Paused)]).unwrap(), "a, b.");
        let both = told(vec![("a", starting()), ("b", failed())]).unwrap();
        assert_eq!(both, "a; failed: b (`hermes-host status` shows the reasons).");
        assert!(told(vec![("b", failed())]).unwrap().starts_with("none running; failed: b"));
        assert_eq!(told(Vec::new()), None);
    }
}
