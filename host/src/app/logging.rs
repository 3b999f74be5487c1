//! Where log lines go: to standard error, as the configuration asks.

use tracing_subscriber::EnvFilter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use crate::config::{HostConfig, LogFormat};

/// Starts to log. A second call in one process changes nothing.
pub fn start(config: &HostConfig) {
    let filter = EnvFilter::try_new(&config.log).unwrap_or_else(|_| EnvFilter::new("info"));
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    let registry = tracing_subscriber::registry().with(filter);
    let started = match config.log_format {
        LogFormat::Text => registry.with(lines.with_target(false)).try_init(),
        LogFormat::Json => registry.with(lines.json()).try_init(),
    };
    // Somebody logs already, which is what was asked for.
    drop(started);
}
