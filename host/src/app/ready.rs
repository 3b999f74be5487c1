//! What the host says when it is up: where it is, what runs, and what is missing.

use std::io::{self, Write as _};

use hermes_agent::RuntimeKind;

use super::App;
use crate::recovery::Found;
use crate::status::human::one_line;

/// The longest label or address that is printed.
const ANNOUNCED_CHARS_MAX: usize = 2_048;

/// Prints a line on the terminal, whatever the log shows. One that nobody can read is no reason to stop.
macro_rules! tell {
    ($($words:tt)*) => { _ = writeln!(io::stdout(), $($words)*) };
}

/// Prints an address that an adapter announced, which may be the one that the operator has to open.
pub fn announced(label: &str, url: &str) {
    tell!("{}", announcement(label, url));
}

/// One line, which commands no terminal.
fn announcement(label: &str, url: &str) -> String {
    let (label, url) = (one_line(label, ANNOUNCED_CHARS_MAX), one_line(url, ANNOUNCED_CHARS_MAX));
    if url.is_empty() { label } else { format!("{label}: {url}") }
}

/// Prints the start-up lines. Addresses follow as adapters announce them. The first `warned`
/// warnings were shown before.
pub fn say(app: &App, left: &Found, warned: usize) {
    let live = app.host.live();
    let config = &live.config;
    tell!("hermes-host {} is up (process {}).", env!("CARGO_PKG_VERSION"), std::process::id());
    tell!("State: {}", config.home.display());
    match &config.file {
        Some(file) => tell!("Configuration: {}", file.display()),
        None => tell!("Configuration: none; `hermes-host config sample` prints one to begin with."),
    }
    let names: Vec<String> = app.adapters.all().iter().map(|adapter| adapter.instance().to_string()).collect();
    if names.is_empty() {
        tell!("Adapters: none. Put a library into {} and add its section.", config.host.plugins_dir.display());
    } else {
        tell!("Adapters: {}.", names.join(", "));
    }
    if let Some(address) = config.host.status {
        tell!("Status: http://{address}/");
    }
    if config.agent.runtime == RuntimeKind::Echo {
        tell!("Agent: echo, which only repeats. Set OPENAI_API_KEY, or write [agent], to get a real one.");
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
            "an earlier life of the host left work, which goes on"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_announcement_is_one_line_whatever_the_adapter_says() {
        assert_eq!(announcement("chat", "http://127.0.0.1:8643/?token=x"), "chat: http://127.0.0.1:8643/?token=x");
        assert_eq!(announcement("@hermes\n\u{1b}[2Jbot", ""), "@hermes [2Jbot");
        assert_eq!(announcement("x", &"y".repeat(9_999)).chars().count(), "x: ".len() + ANNOUNCED_CHARS_MAX);
    }
}
