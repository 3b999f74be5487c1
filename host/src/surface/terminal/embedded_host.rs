//! The host of a terminal: the running one, or one in this process.
//!
//! A host in this process holds the lock of the home like any host, so there is never a second writer. The end of the
//! terminal ends it, and so does a takeover by `hermes-host run`. Other terminals that were attached to it continue:
//! one of them runs the next host.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::wire::Wire;
use super::{ChatError, Options, StartLog};
use crate::app::{self, LockError, OwnHost, RunError, RunOptions};
use crate::engine::operator::ErrorKind;
use crate::surface::control::ClientError;
use hermes_config::Sources;
use hermes_config::mask::LogMask;
use hermes_loader::terminal::Leaving;

/// The wait for a host that starts or stops.
const PATIENCE: Duration = Duration::from_secs(60);

/// The wait for the next host after one ended without a reason, before this process runs one.
const GONE_WAIT: Duration = Duration::from_secs(10);

/// Interval of the attempts to find the next host.
const LOOK_AGAIN: Duration = Duration::from_millis(200);

/// Deadline for a host in this process to end. Its turns are parked long before.
const END_WAIT: Duration = Duration::from_secs(20);

/// The hosts of one home from the view of a terminal.
pub struct Hosts {
    sources: Sources,
    home: PathBuf,
    start_log: StartLog,
    log: Option<LogMask>,
    own: Option<Own>,
}

/// A host in this process.
struct Own {
    host: OwnHost,
    task: JoinHandle<Result<ExitCode, RunError>>,
}

impl Hosts {
    /// Creates the state without a host.
    pub fn new(options: &Options) -> Self {
        Self {
            sources: options.sources.clone(),
            home: options.home.clone(),
            start_log: options.start_log,
            log: None,
            own: None,
        }
    }

    /// Returns the home folder, which terminal and host share.
    pub fn home(&self) -> &std::path::Path {
        &self.home
    }

    /// Takes a slot of the running host, or starts one.
    pub async fn seat(&mut self, resume: Option<String>, once: bool) -> Result<Wire, ChatError> {
        let until = Instant::now() + PATIENCE;
        loop {
            match Wire::take(&self.home, resume.clone(), once).await {
                Err(ClientError::NotRunning { .. }) => match self.start().await {
                    Ok(()) => continue,
                    // The host is starting or stopping.
                    Err(ChatError::Run(RunError::Lock(LockError::Held { .. }))) if Instant::now() < until => {}
                    Err(error) => return Err(error),
                },
                Err(error) if may_pass(&error) && Instant::now() < until => {}
                taken => return Ok(taken?),
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }

    /// Returns `true` if this process runs the host.
    pub fn runs_one(&self) -> bool {
        self.own.is_some()
    }

    /// Takes a slot of the next host after one ended. Waits as long as another process is likely to start it. After
    /// that, or if the former host ran for terminals only, this process runs the next host.
    pub async fn seat_again(&mut self, next: Next, resume: Option<String>) -> Result<Wire, ChatError> {
        if let Some(own) = self.own.take() {
            // Its error is not needed: the next host reports a lasting problem.
            let _ = tokio::time::timeout(END_WAIT, own.task).await;
        }
        let (until, passes_until) = (Instant::now() + next.waits(), Instant::now() + PATIENCE);
        loop {
            match Wire::take(&self.home, resume.clone(), false).await {
                Err(ClientError::NotRunning { .. }) if Instant::now() >= until => {
                    return self.seat(resume, false).await;
                }
                Err(ClientError::NotRunning { .. }) => {}
                Err(error) if may_pass(&error) && Instant::now() < passes_until => {}
                taken => return Ok(taken?),
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }

    /// Starts a host in this process and waits until terminals can attach.
    async fn start(&mut self) -> Result<(), ChatError> {
        let config = hermes_config::load(self.sources.clone())?;
        let log_mask = match &self.log {
            Some(mask) => mask.clone(),
            None => self.log.insert((self.start_log)(&config).map_err(ChatError::System)?).clone(),
        };
        let options = RunOptions { sources: self.sources.clone(), replace: false, log_mask, ..RunOptions::default() };
        let (ready, is_ready) = oneshot::channel();
        let mut task = tokio::spawn(app::run_alone(config, options, ready));
        tokio::select! {
            biased;
            Ok(host) = is_ready => {
                self.own = Some(Own { host, task });
                Ok(())
            }
            ended = &mut task => match ended {
                Ok(Err(error)) => Err(error.into()),
                Ok(Ok(_)) => Err(ChatError::System("the host ended during startup; see its log".to_owned())),
                Err(error) => Err(ChatError::System(format!("the host failed unexpectedly ({error})"))),
            },
        }
    }

    /// Ends the host of this process. Running turns are parked for the next host.
    pub async fn end(&mut self) {
        if let Some(own) = self.own.take() {
            own.host.end();
            // A host that takes longer ends with the process; the next start recovers its work.
            let _ = tokio::time::timeout(END_WAIT, own.task).await;
        }
    }
}

/// The process that is expected to run the next host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Another process, very likely.
    Theirs,
    /// Another process, if it starts soon.
    TheirsIfSoon,
    /// One of the attached terminals.
    OneOfUs,
    /// None: the operator stopped the host.
    Nobody,
}

impl Next {
    /// Returns the expectation after a host ended for this reason. `alone`: it ran for terminals only.
    pub fn after(why: Option<Leaving>, alone: bool) -> Self {
        match why {
            Some(Leaving::HandOver) => Self::Theirs,
            _ if alone => Self::OneOfUs,
            Some(Leaving::Restart) => Self::Theirs,
            Some(Leaving::Stop) => Self::Nobody,
            None => Self::TheirsIfSoon,
        }
    }

    fn waits(self) -> Duration {
        match self {
            Self::Theirs => PATIENCE,
            Self::TheirsIfSoon => GONE_WAIT,
            Self::OneOfUs | Self::Nobody => Duration::ZERO,
        }
    }
}

/// Returns `true` if the host may give a slot soon.
fn may_pass(error: &ClientError) -> bool {
    matches!(error, ClientError::Line(_) | ClientError::NoSeat { kind: ErrorKind::Busy, .. })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_goes_on_by_itself_when_the_host_of_another_terminal_goes() {
        for why in [Some(Leaving::Stop), None, Some(Leaving::Restart)] {
            assert_eq!(Next::after(why, true), Next::OneOfUs);
        }
        assert_eq!(Next::OneOfUs.waits(), Duration::ZERO);
        assert_eq!(Next::after(Some(Leaving::HandOver), true), Next::Theirs, "a host of its own takes the place");
    }

    #[test]
    fn a_host_that_was_stopped_has_no_next_one_and_one_that_died_may_have() {
        assert_eq!(Next::after(Some(Leaving::Stop), false), Next::Nobody);
        assert_eq!(Next::after(None, false), Next::TheirsIfSoon);
        assert_eq!(Next::after(Some(Leaving::Restart), false), Next::Theirs);
        assert!(Next::TheirsIfSoon.waits() < Next::Theirs.waits());
    }
}
