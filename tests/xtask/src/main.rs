//! The commands of a contributor: `cargo xtask COMMAND`. `.github/CONTRIBUTING.md` lists them.

#![forbid(unsafe_code)]

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

const USAGE: &str = "\
usage: cargo xtask COMMAND

  test CRATE [FILTER]       test one crate
  adapter ID                test one adapter, and certify its library
  certify [ID]              certify the libraries of the release build
  scenario [FILTER]         run the scenarios with the real binary
  crash [FILTER]            kill the host at every point, and look at the result
  sim [SECONDS|--seed N]    simulate random stories
  fuzz [TARGET] [SECONDS]   fuzz one target, or all of them
  museum                    run old adapters in the current host
  bench [ROW]               measure the budgets
  e2e [PYTEST ARGUMENTS]    test with real servers and clients
  ci                        run everything that CI runs";

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let mut words = arguments.iter().map(String::as_str);
    let (command, rest) = (words.next().unwrap_or_default(), words.collect::<Vec<_>>());
    let steps = match (command, rest.as_slice()) {
        ("test", [package, filter @ ..]) => vec![cargo(&["test", "--package", package]).more(filter)],
        ("adapter", [id]) => {
            let package = format!("hermes-adapter-{}", id.replace('_', "-"));
            let mut steps = vec![cargo(&["test", "--package", &package]), build()];
            steps.push(certify(id));
            steps
        }
        ("certify", []) => std::iter::once(build()).chain(libraries().iter().map(|id| certify(id))).collect(),
        ("certify", [id]) => vec![build(), certify(id)],
        ("scenario", filter) => vec![ring("scenarios").more(filter)],
        ("crash", filter) => vec![ring("crash").more(filter)],
        ("sim", []) => vec![ring("simulation")],
        ("sim", ["--seed", seed]) => vec![ring("simulation").with("HERMES_SIM_SEED", seed)],
        ("sim", [seconds]) => vec![ring("simulation").with("HERMES_SIM_SECONDS", seconds)],
        ("fuzz", []) => vec![Step::new("tests/fuzz/run")],
        ("fuzz", [seconds]) if seconds.parse::<u32>().is_ok() => vec![Step::new("tests/fuzz/run").more(&[seconds])],
        ("fuzz", [target]) => vec![Step::new("tests/fuzz/run").more(&["60", "--only", target])],
        ("fuzz", [target, seconds]) => vec![Step::new("tests/fuzz/run").more(&[seconds, "--only", target])],
        ("museum", []) => vec![Step::new("tests/museum/run")],
        ("bench", rows) => vec![cargo(&["bench", "--package", "hermes-tests", "--"]).more(rows)],
        ("e2e", arguments) => vec![Step::new("tests/e2e/run").more(arguments)],
        ("ci", []) => vec![Step::new(".ci/run")],
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    for step in steps {
        if !step.run() {
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

/// One program with its arguments, run from the top folder of the repository.
struct Step {
    program: String,
    arguments: Vec<String>,
    variables: Vec<(String, String)>,
}

impl Step {
    fn new(program: &str) -> Self {
        Self { program: program.to_owned(), arguments: Vec::new(), variables: Vec::new() }
    }

    fn more(mut self, arguments: &[&str]) -> Self {
        self.arguments.extend(arguments.iter().map(ToString::to_string));
        self
    }

    fn with(mut self, name: &str, value: &str) -> Self {
        self.variables.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Prints and runs the step. Returns true on exit code 0.
    fn run(self) -> bool {
        eprintln!("==> {} {}", self.program, self.arguments.join(" "));
        let program = match self.program.contains('/') {
            true => top().join(&self.program),
            false => PathBuf::from(&self.program),
        };
        let status = Command::new(program).args(&self.arguments).envs(self.variables).current_dir(top()).status();
        match status {
            Ok(status) => status.success(),
            Err(error) => {
                eprintln!("xtask: {} does not start: {error}", self.program);
                false
            }
        }
    }
}

fn cargo(arguments: &[&str]) -> Step {
    Step::new(&env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned())).more(arguments)
}

fn ring(name: &str) -> Step {
    cargo(&["test", "--package", "hermes-tests", "--test", name, "--"])
}

fn build() -> Step {
    cargo(&["build", "--release", "--workspace"])
}

/// The ids of the adapters in this repository.
fn libraries() -> Vec<String> {
    let folders = top().join("adapters").read_dir().into_iter().flatten().flatten();
    let mut ids: Vec<String> = folders
        .filter(|entry| entry.path().join("Cargo.toml").exists())
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    ids.sort();
    ids
}

fn certify(id: &str) -> Step {
    let step = Step::new("target/release/hermes-host");
    let library = format!("target/release/libhermes_adapter_{id}.so");
    let step = step.more(&["--home", "target/xtask-home", "adapter", "certify", &library]);
    let sample = format!("adapters/{id}/testdata/certify.toml");
    match top().join(&sample).exists() {
        true => step.more(&["--sample", &sample]),
        false => step,
    }
}

fn top() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).expect("the crate is in tests/xtask").to_path_buf()
}
