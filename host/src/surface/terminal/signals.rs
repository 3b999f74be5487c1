//! Signals of the system to a terminal.

use tokio::signal::unix::{Signal, SignalKind, signal};

/// The signals that a terminal handles. While a line is edited, Ctrl-C sends none.
pub struct Signals {
    term: Signal,
    int: Signal,
    hup: Signal,
}

impl Signals {
    /// Starts to handle signals.
    ///
    /// # Errors
    ///
    /// The process may not handle signals.
    pub fn listen() -> std::io::Result<Self> {
        Ok(Self {
            term: signal(SignalKind::terminate())?,
            int: signal(SignalKind::interrupt())?,
            hup: signal(SignalKind::hangup())?,
        })
    }

    /// Waits for a signal. Cancel-safe.
    pub async fn next(&mut self) {
        tokio::select! {
            _ = self.term.recv() => {}
            _ = self.int.recv() => {}
            _ = self.hup.recv() => {}
        }
    }
}
