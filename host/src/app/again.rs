//! Who starts the host again after `restart`: the service manager that runs it, or the host itself.
//!
//! A host that nobody watches ends cleanly and puts its own program in its place, with the same arguments and under the
//! same process number, so that whoever restarts it from a chat finds it again. One that a service manager runs ends
//! with 75 and is started by that. Where nobody can tell, the host starts itself: that is right in either case, and
//! an end that nobody answers is not. So a container is no sign: many are not started again.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use hermes_agent::tools::children;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::{Child, Command};

use super::stop::End;
use crate::config::{self, Problems, Sources};
use crate::status::human::one_line;

/// The first word of the program's answer to `--version`.
const NAME: &str = "hermes-host ";

/// Exit code of a program whose configuration refuses to start.
const CONFIG: u8 = 78;

/// How long a life of a host that broke has to be, for the host to start itself again: one that breaks as it begins
/// would do so for ever.
const BROKEN_LIFE_MIN: Duration = Duration::from_secs(60);

/// How a host ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// For good, or for another host.
    Over,
    /// A service manager is asked to start it again.
    Elsewhere,
    /// Nothing starts it again, so this process does.
    Here,
}

impl Ended {
    /// After this end of a life that was so long.
    pub(super) fn after(end: End, supervised: bool, lived: Duration) -> Self {
        match end {
            End::Stop | End::HandOver => Self::Over,
            End::Restart if supervised => Self::Elsewhere,
            End::Broken if supervised || lived < BROKEN_LIFE_MIN => Self::Elsewhere,
            End::Restart | End::Broken => Self::Here,
        }
    }
}

/// Whether a service manager runs the process of this number and starts it again when it ends with 75. What a desktop
/// or a shell inherited from its own unit is none: systemd names the process that it means.
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

/// The argument that makes a program check whether it would start. A release before it does not know the word.
pub const WOULD_START: &str = "would-start";

/// Exit code of a program that does not know a word of its command line.
const USAGE: i32 = 2;

/// The material of the next run: the sources of its configuration, and its program.
#[derive(Clone, Debug, Default)]
pub struct NextRun {
    /// The sources of the configuration.
    pub sources: Sources,
    /// The program, by the name by which this one was started; `None`: it is not known and not tried.
    pub program: Option<PathBuf>,
}

/// The reason against a restart.
#[derive(Clone, Debug, thiserror::Error)]
pub enum WouldNotStart {
    /// The configuration refuses.
    #[error(transparent)]
    Config(#[from] Problems),
    /// The program cannot run.
    #[error("{}: {why}; put a working program there", program.display())]
    Program {
        /// The program.
        program: PathBuf,
        /// The reason.
        why: String,
    },
    /// The new program refuses the configuration.
    #[error("{said}")]
    Refused {
        /// Its words.
        said: String,
    },
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

    /// Lets the program check itself in a child; `false`: it runs, and does not know how to.
    async fn tries(&self, program: &Path) -> Result<bool, WouldNotStart> {
        let failed = |why: String| WouldNotStart::Program { program: program.to_owned(), why };
        let (ended, said, error) = self.ask(program, &[WOULD_START]).await.map_err(failed)?;
        match ended.code() {
            Some(0) if said.starts_with(NAME) => Ok(true),
            Some(0) => Err(failed(format!("it is not {NAME}"))),
            Some(USAGE) => {
                let (ended, said, _) = self.ask(program, &["--version"]).await.map_err(failed)?;
                if ended.success() && said.starts_with(NAME) {
                    Ok(false)
                } else {
                    Err(failed(format!("it is not {NAME}")))
                }
            }
            Some(code) if code == i32::from(CONFIG) => {
                Err(WouldNotStart::Refused { said: error.trim().trim_start_matches("error: ").to_owned() })
            }
            _ => {
                let last = error.trim().lines().last().map(|line| format!(" ({})", one_line(line, 200)));
                Err(failed(format!("its check ended with {ended}{}", last.unwrap_or_default())))
            }
        }
    }

    /// Runs the program with these arguments besides the host's own; returns its end and its two outputs.
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
            Ok((Err(error), ..)) => Err(format!("its check was lost ({error})")),
            Err(_) => Err(format!("its check did not end within {} s", TRIAL.as_secs())),
        }
    }
}

/// Reads the beginning of an output.
async fn read(output: Option<impl AsyncRead + Unpin>) -> String {
    let mut bytes = Vec::new();
    if let Some(mut output) = output {
        // What was read before an error counts.
        let _ = (&mut output).take(TRIAL_BYTES_MAX).read_to_end(&mut bytes).await;
        // The rest is read away: a program that cannot write does not end.
        let _ = tokio::io::copy(&mut output, &mut tokio::io::sink()).await;
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Whether a host starts with what the configuration says by now.
///
/// # Errors
///
/// What refuses to start.
pub async fn would_start(sources: Sources) -> Result<(), Problems> {
    let reading = tokio::task::spawn_blocking(move || {
        let config = config::load(sources)?;
        match config.without_runtime(Problems::default()) {
            problems if problems.0.is_empty() => Ok(config),
            problems => Err(problems),
        }
    });
    let config = reading.await.expect("reading a configuration does not panic")?;
    let beside = std::env::current_exe().ok().and_then(|exe| Some(exe.parent()?.to_owned()));
    config.prepare(beside.as_deref()).await.map(drop)
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
