//! Exit codes and failures of commands.

use std::fmt;

use crate::engine::operator::ErrorKind;
use crate::surface::control::ClientError;
use hermes_config::Problems;

/// The command failed.
pub const FAILED: u8 = 1;
/// The arguments were wrong.
pub const USAGE: u8 = 2;
/// The operation is not finished yet and continues.
pub const STILL_RUNNING: u8 = 3;
/// No host runs.
pub const NO_HOST: u8 = 69;
/// The host is to be started again.
pub const RESTART: u8 = 75;
/// The configuration has errors, so the host does not start.
pub const CONFIG: u8 = 78;
/// The user pressed Ctrl-C.
pub const INTERRUPTED: u8 = 130;

/// A failure: one sentence with the fix, and the exit code for scripts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The exit code.
    pub code: u8,
    message: String,
}

impl Failure {
    /// Creates a failure with code 1.
    pub fn failed(message: impl Into<String>) -> Self {
        Self { code: FAILED, message: message.into() }
    }

    /// Creates a failure for wrong arguments.
    pub fn usage(message: impl Into<String>) -> Self {
        Self { code: USAGE, message: message.into() }
    }

    /// Creates a failure for a host that does not run.
    pub fn no_host(message: impl Into<String>) -> Self {
        Self { code: NO_HOST, message: message.into() }
    }

    /// Creates a failure for a host that has to be started again and could not do that itself.
    pub fn to_start_again(message: impl Into<String>) -> Self {
        Self { code: RESTART, message: message.into() }
    }

    /// Creates a failure for a wrong configuration.
    pub fn config(message: impl Into<String>) -> Self {
        Self { code: CONFIG, message: message.into() }
    }

    /// Creates a failure that was already reported.
    pub fn silent(code: u8) -> Self {
        Self { code, message: String::new() }
    }

    /// Returns `true` if the failure was already reported.
    pub fn is_silent(&self) -> bool {
        self.message.is_empty()
    }

    /// Converts an error of the host into a failure.
    pub fn answered(kind: ErrorKind, message: String) -> Self {
        let code = match kind {
            ErrorKind::Config => CONFIG,
            ErrorKind::Invalid => USAGE,
            _ => FAILED,
        };
        Self { code, message }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Self {
        let code = if matches!(error, ClientError::NotRunning { .. }) { NO_HOST } else { FAILED };
        Self { code, message: error.to_string() }
    }
}

impl From<Problems> for Failure {
    fn from(problems: Problems) -> Self {
        let message = match problems.0.as_slice() {
            [one] => one.to_string(),
            several => {
                let lines: String = several.iter().map(|problem| format!("\n  {problem}")).collect();
                format!("the configuration has {} problems{lines}", several.len())
            }
        };
        Self { code: CONFIG, message }
    }
}
