//! The start after a `restart`: by the service manager, or by the host itself.
//!
//! A host without a service manager ends cleanly and executes its own program with the same arguments and process id,
//! so that a restart from a chat brings it back. A host of a service manager ends with 75 and is started by it. If this
//! cannot be determined, the host starts itself: that is correct in both cases, while an end without a new start is
//! not. A container is therefore no evidence of a service manager, because many are not restarted.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use hermes_system::children;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::{Child, Command};

use super::stop::End;
use crate::engine::runtime::NextStart;
use futures_util::future::BoxFuture;
use hermes_config::{Problems, Sources};
use hermes_core::text::one_line;

/// The first word of the program's answer to `--version`.
const NAME: &str = "hermes-host ";

/// Exit code of a program that refuses its configuration.
const CONFIG: u8 = 78;

/// The shortest run after which a broken host starts itself again. A host that breaks at its start would otherwise
/// restart forever.
const BROKEN_LIFE_MIN: Duration = Duration::from_secs(60);

/// The way in which a host ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// For good, or for another host.
    Over,
    /// The service manager is asked to start it again.
    Elsewhere,
    /// No service manager starts it again, so this process does.
    Here,
}

impl Ended {
    /// Returns the consequence of this end after a run of `lived`.
    pub(super) fn after(end: End, supervised: bool, lived: Duration) -> Self {
        match end {
            End::Stop | End::HandOver => Self::Over,
            End::Restart if supervised => Self::Elsewhere,
            End::Broken if supervised || lived < BROKEN_LIFE_MIN => Self::Elsewhere,
            End::Restart | End::Broken => Self::Here,
        }
    }
}

/// Returns `true` if a service manager runs process `pid` and restarts it when it ends with 75. Variables that a
/// desktop or a shell inherited from its own unit do not count: systemd names the process that it means.
pub(super) fn is_supervised(env: &BTreeMap<String, String>, pid: u32) -> bool {
    let said = |name: &str| env.get(name).map(String::as_str).filter(|value| !value.is_empty() && *value != "0");
    let meant = said("SYSTEMD_EXEC_PID").is_none_or(|of| of == pid.to_string());
    let by_systemd = ["INVOCATION_ID", "NOTIFY_SOCKET"].into_iter().any(|name| said(name).is_some()) && meant;
    by_systemd || said("XPC_SERVICE_NAME").is_some() || said("HERMES_GATEWAY_EXTERNAL_SUPERVISOR").is_some()
}

/// Deadline of the new program's own check.
const TRIAL: Duration = Duration::from_secs(60);

/// Bytes of the new program's output that are read.
const TRIAL_BYTES_MAX: u64 = 16 << 10;

/// The argument by which a program checks that it would start. Older releases do not know it.
pub const WOULD_START: &str = "would-start";

/// Exit code of a program for an unknown argument.
const USAGE: i32 = 2;

/// The inputs of the next run: the sources of its configuration, and its program.
#[derive(Clone, Debug, Default)]
pub struct NextRun {
    /// The sources of the configuration.
    pub sources: Sources,
    /// The program by the name that started this one; `None`: unknown, so it is not tried.
    pub program: Option<PathBuf>,
}

/// The reason against a restart.
#[derive(Clone, Debug, thiserror::Error)]
pub enum WouldNotStart {
    /// The configuration has errors.
    #[error(transparent)]
    Config(#[from] Problems),
    /// The program cannot run.
    #[error("{}: {why}; install a working program there", program.display())]
    Program {
        /// The program.
        program: PathBuf,
        /// The reason.
        why: String,
    },
    /// The new program refuses the configuration.
    #[error("{said}")]
    Refused {
        /// The error message.
        said: String,
    },
}

impl NextStart for NextRun {
    fn would_start(&self) -> BoxFuture<'_, Result<(), String>> {
        Box::pin(async { Self::would_start(self).await.map_err(|why| why.to_string()) })
    }
}

impl NextRun {
    /// Checks that the next run would start: the program executes, names its version, and accepts the configuration.
    ///
    /// # Errors
    ///
    /// The reason why not.
    pub async fn would_start(&self) -> Result<(), WouldNotStart> {
        match &self.program {
            Some(program) if self.tries(program).await? => Ok(()),
            _ => Ok(would_start(self.sources.clone()).await?),
        }
    }

    /// Runs the check of the program in a child. `false`: the program runs, but does not know the check.
    async fn tries(&self, program: &Path) -> Result<bool, WouldNotStart> {
        let failed = |why: String| WouldNotStart::Program { program: program.to_owned(), why };
        let (ended, said, error) = self.ask(program, &[WOULD_START]).await.map_err(failed)?;
        match ended.code() {
            Some(0) if said.starts_with(NAME) => Ok(true),
            Some(0) => Err(failed(format!("it is not the program {}", NAME.trim_end()))),
            Some(USAGE) => {
                let (ended, said, _) = self.ask(program, &["--version"]).await.map_err(failed)?;
                if ended.success() && said.starts_with(NAME) {
                    Ok(false)
                } else {
                    Err(failed(format!("it is not the program {}", NAME.trim_end())))
                }
            }
            Some(code) if code == i32::from(CONFIG) => {
                Err(WouldNotStart::Refused { said: error.trim().trim_start_matches("error: ").to_owned() })
            }
            _ => {
                let last = error.trim().lines().last().map(|line| format!(" ({})", one_line(line, 200)));
                Err(failed(format!("its startup check ended with {ended}{}", last.unwrap_or_default())))
            }
        }
    }

    /// Runs the program with these arguments in addition to the host's own. Returns its exit status and its two
    /// outputs.
    async fn ask(&self, program: &Path, words: &[&str]) -> Result<(ExitStatus, String, String), String> {
        let mut command = Command::new(program);
        for (flag, path) in [("--config", &self.sources.config), ("--home", &self.sources.home)] {
            if let Some(path) = path {
                command.arg(flag).arg(path);
            }
        }
        command.args(words).current_dir(&self.sources.cwd).env_remove("NOTIFY_SOCKET").env_remove("WATCHDOG_USEC");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        let started = children::spawn(|| command.spawn(), Child::id);
        let mut child = started.map_err(|error| format!("it cannot be executed ({error})"))?;
        let (said, error) = (child.stdout.take(), child.stderr.take());
        let all = async { tokio::join!(child.wait(), read(said), read(error)) };
        match tokio::time::timeout(TRIAL, all).await {
            Ok((Ok(ended), said, error)) => Ok((ended, said, error)),
            Ok((Err(error), ..)) => Err(format!("its startup check failed ({error})")),
            Err(_) => Err(format!("its startup check did not end within {} s", TRIAL.as_secs())),
        }
    }
}

/// Reads the beginning of an output.
async fn read(output: Option<impl AsyncRead + Unpin>) -> String {
    let mut bytes = Vec::new();
    if let Some(mut output) = output {
        // The part before an error is used.
        let _ = (&mut output).take(TRIAL_BYTES_MAX).read_to_end(&mut bytes).await;
        // The rest is read and dropped, so that the program is not blocked by a full pipe.
        let _ = tokio::io::copy(&mut output, &mut tokio::io::sink()).await;
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Checks that a host would start with the current configuration.
///
/// # Errors
///
/// The problems that prevent the start.
pub async fn would_start(sources: Sources) -> Result<(), Problems> {
    let reading = tokio::task::spawn_blocking(move || {
        let config = hermes_config::load(sources)?;
        match config.without_runtime(Problems::default()) {
            problems if problems.0.is_empty() => Ok(config),
            problems => Err(problems),
        }
    });
    let config = reading.await.expect("reading a configuration does not panic")?;
    let beside = std::env::current_exe().ok().and_then(|exe| Some(exe.parent()?.to_owned()));
    let limits = config.prepare(beside.as_deref()).await?.limits;
    if limits.0.is_empty() { Ok(()) } else { Err(limits) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn supervised(env: &[(&str, &str)]) -> bool {
        let env = env.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        is_supervised(&env.collect(), 7)
    }

    #[test]
    fn a_host_that_nobody_starts_again_starts_itself() {
        let long = BROKEN_LIFE_MIN;
        assert_eq!(Ended::after(End::Restart, false, Duration::ZERO), Ended::Here);
        assert_eq!(Ended::after(End::Restart, true, long), Ended::Elsewhere);
        for end in [End::Stop, End::HandOver] {
            assert_eq!(Ended::after(end, false, long), Ended::Over);
        }
    }

    #[test]
    fn who_wants_a_stop_while_it_restarts_gets_one() {
        assert_eq!(End::Restart.overruled(true), End::Stop);
        assert_eq!(End::Broken.overruled(true), End::Stop);
        assert_eq!(End::HandOver.overruled(true), End::HandOver);
        assert_eq!(End::Restart.overruled(false), End::Restart);
    }

    #[test]
    fn a_host_that_breaks_as_it_begins_does_not_begin_for_ever() {
        assert_eq!(Ended::after(End::Broken, false, Duration::from_secs(1)), Ended::Elsewhere);
        assert_eq!(Ended::after(End::Broken, false, BROKEN_LIFE_MIN), Ended::Here);
        assert_eq!(Ended::after(End::Broken, true, BROKEN_LIFE_MIN), Ended::Elsewhere);
    }

    #[test]
    fn a_service_manager_is_told_from_what_a_terminal_inherited_of_one() {
        assert!(supervised(&[("INVOCATION_ID", "a1")]));
        assert!(supervised(&[("INVOCATION_ID", "a1"), ("SYSTEMD_EXEC_PID", "7")]));
        assert!(supervised(&[("NOTIFY_SOCKET", "/run/notify")]));
        assert!(supervised(&[("XPC_SERVICE_NAME", "org.example.host")]));
        assert!(supervised(&[("HERMES_GATEWAY_EXTERNAL_SUPERVISOR", "1")]));

        assert!(!supervised(&[]));
        assert!(!supervised(&[("INVOCATION_ID", "a1"), ("SYSTEMD_EXEC_PID", "6")]), "the desktop's");
        assert!(!supervised(&[("XPC_SERVICE_NAME", "0")]), "a terminal's");
        assert!(!supervised(&[("container", "podman"), ("KUBERNETES_SERVICE_HOST", "10.0.0.1")]));
    }
}
