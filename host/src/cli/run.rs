//! `run`: the host in the foreground.

use std::process::ExitCode;

use super::args::RunArgs;
use super::{Context, Failure, log};
use crate::app::{self, RunError, RunOptions};

/// Reads the configuration, starts logging, and runs the host until it is told to stop.
pub fn run(context: &Context, args: &RunArgs) -> Result<ExitCode, Failure> {
    let config = context.config()?;
    let log_mask = log::start(&config)?;
    for warning in &config.warnings {
        tracing::warn!("{warning}");
    }
    let options =
        RunOptions { sources: context.sources.clone(), replace: args.replace, log_mask, ..RunOptions::default() };
    app::run(config, options).map_err(failure)
}

/// What the operator must mend in the configuration ends with 78, so that no service manager tries it again.
pub fn failure(error: RunError) -> Failure {
    match error {
        RunError::Config(problems) => problems.into(),
        RunError::Agent(error) => Failure::config(chain(&error)),
        error => Failure::failed(chain(&error)),
    }
}

/// An error and its causes in one line.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let next = error.to_string();
        // A transparent wrapper says what its cause says.
        if !text.ends_with(&next) {
            text.push_str(&format!(": {next}"));
        }
        cause = error.source();
    }
    text
}
