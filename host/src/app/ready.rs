//! What the host says when it is up: where it is, what runs, and what is missing.

use hermes_agent::RuntimeKind;

use super::App;
use crate::recovery::Found;

/// Prints the start-up lines. Addresses follow as adapters announce them. The first `warned`
/// warnings were shown before.
pub fn say(app: &App, left: &Found, warned: usize) {
    let live = app.host.live();
    let config = &live.config;
    println!("hermes-host {} is up (process {}).", env!("CARGO_PKG_VERSION"), std::process::id());
    println!("State: {}", config.home.display());
    match &config.file {
        Some(file) => println!("Configuration: {}", file.display()),
        None => println!("Configuration: none; `hermes-host config sample` prints one to begin with."),
    }
    let names: Vec<String> = app.adapters.all().iter().map(|adapter| adapter.instance().to_string()).collect();
    if names.is_empty() {
        println!("Adapters: none. Put a library into {} and add its section.", config.host.plugins_dir.display());
    } else {
        println!("Adapters: {}.", names.join(", "));
    }
    if let Some(address) = config.host.status {
        println!("Status: http://{address}/");
    }
    if config.agent.runtime == RuntimeKind::Echo {
        println!("Agent: echo, which only repeats. Set OPENAI_API_KEY, or write [agent], to get a real one.");
    } else {
        println!("Agent: {}.", app.host.runtime.name());
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
