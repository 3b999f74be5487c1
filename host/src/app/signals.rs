//! What the operating system asks of the process.

use tokio::signal::unix::{Signal, SignalKind, signal};

/// A wish of the operating system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    /// SIGTERM or SIGINT: a planned stop; a second one shortens it.
    Stop,
    /// SIGHUP: read the configuration again.
    Reload,
    /// SIGUSR1: a planned stop that asks to be started again.
    Restart,
}

/// The signals the host listens to.
pub struct Signals {
    term: Signal,
    int: Signal,
    hup: Signal,
    usr1: Signal,
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
            usr1: signal(SignalKind::user_defined1())?,
        })
    }

    /// Waits for the next wish. Cancel-safe.
    pub async fn next(&mut self) -> Wish {
        tokio::select! {
            _ = self.term.recv() => Wish::Stop,
            _ = self.int.recv() => Wish::Stop,
            _ = self.hup.recv() => Wish::Reload,
            _ = self.usr1.recv() => Wish::Restart,
        }
    }
}
