//! The command line: one file per command group, one sentence per error.
//!
//! Commands send requests to the running host over its socket. If none runs, read-only commands, access commands and
//! those that switch adapters open the store under `host.lock`. Listings print aligned tables, or JSON with `--json`.
//! No output is coloured, so a pipe gets the same text as a terminal.
//!
//! Exit codes: 0 done, 1 failed, 2 wrong usage, 3 still running, 69 no host runs,
//! 75 restart wanted, 78 the configuration refuses to start, 130 stopped by Ctrl-C.

mod adapter;
mod alias;
mod args;
mod ask;
mod certify;
mod chat;
mod config;
mod exit;
mod handoff;
mod log;
mod new;
mod offline;
mod outbox;
mod pairing;
mod run;
mod scratch;
mod session;
mod status;
mod table;
mod task;
mod tool;
mod try_out;

use std::collections::BTreeMap;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{CommandFactory, Parser};

pub use args::Cli;
use args::Command;
pub use exit::{CONFIG, FAILED, Failure, INTERRUPTED, NO_HOST, RESTART, STILL_RUNNING, USAGE};

use hermes_config::Sources;

/// The inputs of the process, read once in `main`.
#[derive(Clone, Debug, Default)]
pub struct Given {
    /// The arguments; the first one is the name of the program.
    pub args: Vec<std::ffi::OsString>,
    /// The environment.
    pub env: BTreeMap<String, String>,
    /// The working folder.
    pub cwd: PathBuf,
    /// The running binary.
    pub program: Option<PathBuf>,
}

/// Runs one command and returns the exit code of the process.
pub fn main(given: Given) -> ExitCode {
    let cli = match Cli::try_parse_from(alias::spelled_out(&given.args).iter()) {
        Ok(cli) => cli,
        Err(error) => {
            // A closed standard error is ignored.
            let _ = error.print();
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(USAGE));
        }
    };
    match dispatch(cli, &given) {
        Ok(code) => code,
        Err(failure) => {
            if !failure.is_silent() {
                // A closed standard error is ignored.
                let _ = writeln!(std::io::stderr(), "error: {}", ask::plain(&failure.to_string()));
            }
            ExitCode::from(failure.code)
        }
    }
}

/// Runtime threads for a terminal.
const WORKERS: usize = 2;

/// The context of a command.
#[derive(Clone)]
struct Context {
    sources: Sources,
    /// The folder of the running binary.
    beside: Option<PathBuf>,
    /// The way in which this process was started.
    started: Started,
}

/// The program and arguments of this process, for a restart.
#[derive(Clone, Debug, Default)]
struct Started {
    /// The path of the binary as it was called.
    program: Option<PathBuf>,
    /// The arguments without the name of the program.
    args: Vec<std::ffi::OsString>,
}

impl Context {
    /// Returns the home folder without reading the configuration.
    fn home(&self) -> Result<PathBuf, Failure> {
        Ok(hermes_config::home(&self.sources)?)
    }

    /// Returns the context with the configuration file and the environment of the running host, unless the operator
    /// named a file.
    async fn of_the_running_host(&self) -> Self {
        let mut context = self.clone();
        let names_one = context.sources.config.is_some() || context.sources.env.contains_key("HERMES_HOST_CONFIG");
        if !names_one && let Some((file, env)) = ask::running(self).await {
            context.sources.home = self.home().ok();
            context.sources.config = file;
            if let Some(env) = env {
                context.sources.env = env;
            }
        }
        context
    }

    /// Reads the whole configuration.
    fn config(&self) -> Result<hermes_config::Config, Failure> {
        Ok(hermes_config::load(self.sources.clone())?)
    }
}

fn dispatch(cli: Cli, given: &Given) -> Result<ExitCode, Failure> {
    let here = matches!(cli.command, Command::Run(_) | Command::WouldStart);
    let sources = Sources { config: cli.config, home: cli.home, env: given.env.clone(), cwd: given.cwd.clone(), here };
    // A tool of a running turn may send requests with the rights of that turn.
    crate::surface::control::use_token(given.env.get(hermes_core::context::CONTROL_TOKEN));
    let args = given.args.iter().skip(1).cloned().collect();
    let started = Started { program: run::called(given), args };
    let beside = given.program.as_ref().and_then(|program| Some(program.parent()?.to_owned()));
    let context = Context { sources, beside, started };
    match cli.command {
        Command::Run(args) => return run::run(&context, &args),
        // The child of an adapter parses its arguments itself and does not use the rest of this program.
        Command::AdapterRunner { .. } => return Ok(hermes_loader::runner_main()),
        // Untrusted files are processed without the rest of this program.
        Command::TextRunner { .. } => return Ok(crate::engine::attachments::pdf::runner_main()),
        Command::Chat(args) => block_on_host(chat::chat(&context, args))??,
        // Waiting for the platform simulator blocks a thread while the instance runs, and a trial runs a host. Both
        // need several threads.
        Command::Adapter(command @ (args::AdapterCommand::Certify { .. } | args::AdapterCommand::Try(_))) => {
            block_on_host(adapter::adapter(&context, command))??;
        }
        Command::Tool(command) => tool::tool(&command)?,
        Command::Completions { shell } => {
            ask::print(&completions(shell))?;
        }
        command => block_on(async {
            match command {
                Command::WouldStart => run::would_start(&context).await,
                Command::Status { json } => status::status(&context, json).await,
                Command::Stop => status::stop(&context).await,
                Command::Restart => status::restart(&context).await,
                Command::Drain { undo } => status::drain(&context, undo).await,
                Command::Reload => status::reload(&context).await,
                Command::Send(args) => outbox::send(&context, args).await,
                Command::Adapter(command) => adapter::adapter(&context, command).await,
                Command::Pairing(command) => pairing::pairing(&context, command).await,
                Command::Config(command) => config::config(&context, command).await,
                Command::Session(command) => session::session(&context, command).await,
                Command::Outbox(command) => outbox::outbox(&context, command).await,
                Command::Task(command) => task::task(&context, command).await,
                Command::Handoff(args) => handoff::handoff(&context, args).await,
                Command::Run(_)
                | Command::Chat(_)
                | Command::AdapterRunner { .. }
                | Command::TextRunner { .. }
                | Command::Tool(_)
                | Command::Completions { .. } => Ok(()),
            }
        })??,
    }
    Ok(ExitCode::SUCCESS)
}

/// Generates the completion script of a shell.
fn completions(shell: clap_complete::Shell) -> String {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "hermes-host", &mut script);
    String::from_utf8_lossy(&script).into_owned()
}

/// Runs one command on a single-threaded runtime.
fn block_on<T>(work: impl Future<Output = T>) -> Result<T, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    Ok(runtime.map_err(no_runtime)?.block_on(work))
}

/// Runs a command on a multi-threaded runtime; a terminal may have to run a host.
fn block_on_host<T>(work: impl Future<Output = T>) -> Result<T, Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(WORKERS).enable_all().build();
    let runtime = runtime.map_err(no_runtime)?;
    let done = runtime.block_on(work);
    // Blocked threads must not delay the end.
    runtime.shutdown_background();
    Ok(done)
}

#[expect(clippy::needless_pass_by_value, reason = "it is passed to `map_err`")]
fn no_runtime(error: std::io::Error) -> Failure {
    Failure::failed(format!("the async runtime cannot be started ({error})"))
}

#[cfg(test)]
mod tests;
