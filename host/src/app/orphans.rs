//! Orphans: processes that a tool or an adapter left behind, which the host adopts and collects.
//!
//! The host is a child subreaper, so that everything that it started keeps the host among its ancestors. The control
//! socket recognises such processes by that.

use std::io;
use std::time::Duration;

use hermes_agent::tools::children;
use tokio::signal::unix::{SignalKind, signal};

/// Pause before orphans are collected, so that a burst of ends costs one look.
const PAUSE: Duration = Duration::from_millis(100);

/// Interval of a look without a signal.
const INTERVAL: Duration = Duration::from_secs(60);

/// Makes this process adopt orphans, and collects those that end, until the process ends.
///
/// # Errors
///
/// When the system refuses either.
pub fn adopt() -> io::Result<()> {
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
    let mut ended = signal(SignalKind::child())?;
    tokio::spawn(async move {
        loop {
            // A signal that comes meanwhile is kept for the next round.
            let _ = tokio::time::timeout(INTERVAL, ended.recv()).await;
            tokio::time::sleep(PAUSE).await;
            if tokio::task::spawn_blocking(children::reap_orphans).await.is_err() {
                tracing::error!("orphans can no longer be collected");
            }
        }
    });
    Ok(())
}
