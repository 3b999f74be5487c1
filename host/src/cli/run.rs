//! `run`: the host in the foreground.

use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

use super::args::RunArgs;
use super::{Context, Failure, RESTART, Started, log};
use crate::app::{self, Ended, RunError, RunOptions};

/// Reads the configuration, starts logging, and runs the host until it is told to stop. One that is to be started again
/// and that nobody else starts becomes the next one.
pub fn run(context: &Context, args: &RunArgs) -> Result<ExitCode, Failure> {
    let config = context.config()?;
    let log_mask = log::start(&config)?;
    for warning in &config.warnings {
        tracing::warn!("{warning}");
    }
    let options =
        RunOptions { sources: context.sources.clone(), replace: args.replace, log_mask, ..RunOptions::default() };
    match app::run(config, options).map_err(failure)? {
        Ended::Over => Ok(ExitCode::SUCCESS),
        Ended::Elsewhere => Ok(ExitCode::from(RESTART)),
        Ended::Here => Err(start_again(&context.started)),
    }
}

/// Puts the program in the place of this process, as it was started: one of a new version, where the file was replaced.
/// Returns only why that is not possible.
fn start_again(started: &Started) -> Failure {
    tracing::info!("the host starts itself again");
    let why = match &started.program {
        Some(program) => Command::new(program).args(&started.args).exec().to_string(),
        None => "the system does not say where its program lies".to_owned(),
    };
    Failure::to_start_again(format!("the host cannot start itself again ({why}); start it with `hermes-host run`"))
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
