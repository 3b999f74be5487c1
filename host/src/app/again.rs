//! Who starts the host again after `restart`: the service manager that runs it, or the host itself.
//!
//! A host that nobody watches ends cleanly and puts its own program in its place, with the same arguments and under the
//! same process number, so that whoever restarts it from a chat finds it again. One that a service manager runs ends
//! with 75 and is started by that. Where nobody can tell, the host starts itself: that is right in either case, and
//! an end that nobody answers is not. So a container is no sign: many are not started again.

use std::collections::BTreeMap;
use std::time::Duration;

use super::stop::End;
use crate::config::{self, Problems, Sources};

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
