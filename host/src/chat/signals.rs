//! What the system and whoever closes the window want of a terminal.

use tokio::signal::unix::{Signal, SignalKind, signal};

/// The signals a terminal listens to. Ctrl-C is none of them while a line is edited.
pub struct Signals {
    term: Signal,
    int: Signal,
    hup: Signal,
}

impl Signals {
    /// Starts to listen.
    ///
    /// # Errors
    ///
    /// When the process may not handle signals.
    pub fn listen() -> std::io::Result<Self> {
        Ok(Self {
            term: signal(SignalKind::terminate())?,
            int: signal(SignalKind::interrupt())?,
            hup: signal(SignalKind::hangup())?,
        })
    }

    /// Returns when one came. Cancel-safe.
    pub async fn next(&mut self) {
        tokio::select! {
            _ = self.term.recv() => {}
            _ = self.int.recv() => {}
            _ = self.hup.recv() => {}
        }
    }
}
