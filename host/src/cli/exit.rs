//! How a command ends when it does not end well.

use std::fmt;

use crate::config::Problems;
use crate::control::{ClientError, ErrorKind};

/// It failed.
pub const FAILED: u8 = 1;
/// The words were wrong.
pub const USAGE: u8 = 2;
/// It is not over yet, and goes on.
pub const STILL_RUNNING: u8 = 3;
/// No host runs.
pub const NO_HOST: u8 = 69;
/// The host wants to be started again.
pub const RESTART: u8 = 75;
/// The configuration refuses to start.
pub const CONFIG: u8 = 78;
/// Somebody pressed Ctrl-C.
pub const INTERRUPTED: u8 = 130;

/// One sentence with the mend, and the code that scripts see.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The exit code.
    pub code: u8,
    message: String,
}

impl Failure {
    /// It failed, with the sentence that says why.
    pub fn failed(message: impl Into<String>) -> Self {
        Self { code: FAILED, message: message.into() }
    }

    /// The words were wrong.
    pub fn usage(message: impl Into<String>) -> Self {
        Self { code: USAGE, message: message.into() }
    }

    /// No host runs any more.
    pub fn no_host(message: impl Into<String>) -> Self {
        Self { code: NO_HOST, message: message.into() }
    }

    /// It ended to be started again, and could not do that itself.
    pub fn to_start_again(message: impl Into<String>) -> Self {
        Self { code: RESTART, message: message.into() }
    }

    /// The configuration refuses to start.
    pub fn config(message: impl Into<String>) -> Self {
        Self { code: CONFIG, message: message.into() }
    }

    /// It failed, and what was printed already says how.
    pub fn silent(code: u8) -> Self {
        Self { code, message: String::new() }
    }

    /// Whether everything was said already.
    pub fn is_silent(&self) -> bool {
        self.message.is_empty()
    }

    /// What the host answered instead.
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
