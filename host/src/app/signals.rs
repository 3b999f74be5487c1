//! The signals of the operating system.

use tokio::signal::unix::{Signal, SignalKind, signal};

/// A request of the operating system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    /// SIGTERM or SIGINT: a planned stop; a second one shortens it.
    Stop,
    /// SIGHUP: read the configuration again.
    Reload,
    /// SIGUSR1: a planned stop with a new start.
    Restart,
}

/// The signals that the host handles.
pub struct Signals {
    heard: Option<Heard>,
}

struct Heard {
    term: Signal,
    int: Signal,
    hup: Signal,
    usr1: Signal,
}

impl Signals {
    /// Starts to handle signals.
    ///
    /// # Errors
    ///
    /// The process may not handle signals.
    pub fn listen() -> std::io::Result<Self> {
        let heard = Heard {
            term: signal(SignalKind::terminate())?,
            int: signal(SignalKind::interrupt())?,
            hup: signal(SignalKind::hangup())?,
            usr1: signal(SignalKind::user_defined1())?,
        };
        Ok(Self { heard: Some(heard) })
    }

    /// Handles no signals, because the terminal in this process does.
    pub fn none() -> Self {
        Self { heard: None }
    }

    /// Waits for the next request. Cancel-safe.
    pub async fn next(&mut self) -> Wish {
        let Some(heard) = &mut self.heard else { return std::future::pending().await };
        tokio::select! {
            _ = heard.term.recv() => Wish::Stop,
            _ = heard.int.recv() => Wish::Stop,
            _ = heard.hup.recv() => Wish::Reload,
            _ = heard.usr1.recv() => Wish::Restart,
        }
    }
}
