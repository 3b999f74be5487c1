//! `run`: the host in the foreground.

use std::env;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use super::args::RunArgs;
use super::{Context, Failure, Given, RESTART, Started, log};
use crate::app::{self, Ended, RunError, RunOptions};

/// Reads the configuration, starts logging, and runs the host until it is asked to stop. If a restart is requested and
/// no service manager restarts the process, it executes the program again.
pub fn run(context: &Context, args: &RunArgs) -> Result<ExitCode, Failure> {
    let config = context.config()?;
    let log_mask = log::start(&config)?;
    for warning in &config.warnings {
        tracing::warn!("{warning}");
    }
    let options = RunOptions {
        sources: context.sources.clone(),
        program: context.started.program.clone(),
        replace: args.replace,
        log_mask,
        ..RunOptions::default()
    };
    match app::run(config, options).map_err(failure)? {
        Ended::Over => Ok(ExitCode::SUCCESS),
        Ended::Elsewhere => Ok(ExitCode::from(RESTART)),
        Ended::Here => Err(start_again(&context.started)),
    }
}

/// Checks that the host would start. A running host calls this with the program of its next run.
pub async fn would_start(context: &Context) -> Result<(), Failure> {
    app::would_start(context.sources.clone()).await?;
    super::ask::say(concat!("hermes-host ", env!("CARGO_PKG_VERSION")))
}

/// Returns the running program by the name that it was called by, because a link may point to another version later.
pub fn called(given: &Given) -> Option<PathBuf> {
    let program = given.program.as_ref()?;
    let name = given.args.first().map(Path::new)?;
    let folders = match name.parent().is_some_and(|folder| !folder.as_os_str().is_empty()) {
        true => vec![given.cwd.clone()],
        false => given.env.get("PATH").map(|path| env::split_paths(path).collect()).unwrap_or_default(),
    };
    let is_it = |path: &PathBuf| path.canonicalize().is_ok_and(|path| path == *program);
    folders.into_iter().map(|folder| folder.join(name)).find(is_it).or_else(|| Some(program.clone()))
}

/// Replaces this process by the program with the same arguments; the file may be a new version. Returns only if that
/// fails.
fn start_again(started: &Started) -> Failure {
    tracing::info!("restarting the host");
    let why = match &started.program {
        Some(program) => Command::new(program).args(&started.args).exec().to_string(),
        None => "the path of the program is unknown".to_owned(),
    };
    Failure::to_start_again(format!("the host cannot restart itself ({why}); start it with `hermes-host run`"))
}

/// A configuration error ends with 78, so that no service manager restarts the host.
pub fn failure(error: RunError) -> Failure {
    match error {
        RunError::Config(problems) => problems.into(),
        RunError::Agent(error) => Failure::config(chain(&error)),
        error => Failure::failed(chain(&error)),
    }
}

/// Formats an error and its causes in one line.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let next = error.to_string();
        // A transparent wrapper repeats the text of its cause.
        if !text.ends_with(&next) {
            text.push_str(&format!(": {next}"));
        }
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn the_next_life_is_what_the_link_leads_to_by_then() {
        let folder = tempfile::tempdir().unwrap();
        let home = folder.path().canonicalize().unwrap();
        let (program, link) = (home.join("1.4"), home.join("hermes-host"));
        fs::write(&program, "").unwrap();
        symlink(&program, &link).unwrap();
        let given = |name: &str, path: &str| Given {
            args: vec![name.into()],
            env: [("PATH".to_owned(), path.to_owned())].into(),
            cwd: home.clone(),
            program: Some(program.clone()),
        };
        let path = home.display().to_string();
        assert_eq!(called(&given(link.to_str().unwrap(), "")), Some(link.clone()));
        assert_eq!(called(&given("./hermes-host", "")), Some(home.join("./hermes-host")));
        assert_eq!(called(&given("hermes-host", &path)), Some(link));
        assert_eq!(
            called(&given("something-else", &path)),
            Some(program.clone()),
            "nothing of that name is this program"
        );
    }
}
