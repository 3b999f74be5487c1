//! The targets of one ring, and the arguments of its program.

use std::{path::PathBuf, process::ExitCode, time::Duration};

use crate::drive::{self, Run, drive, replay};

/// Tries one input; panics where something does not hold.
pub type Try = Box<dyn Fn(&[u8])>;

/// One door through which bytes come in.
pub struct Target {
    /// A word without dashes.
    pub name: &'static str,
    /// Inputs to begin with; never empty.
    pub seeds: Vec<Vec<u8>>,
    /// Words that the grammar knows.
    pub words: &'static [&'static str],
    /// Opens the door, which may take its time.
    pub open: Box<dyn Fn() -> Try>,
}

impl Target {
    /// A door that is always open.
    pub fn new(name: &'static str, seeds: Vec<Vec<u8>>, words: &'static [&'static str], run: fn(&[u8])) -> Self {
        Self::opened(name, seeds, words, move || Box::new(run))
    }

    /// A door that has to be opened first. It keeps nothing of one input for the next.
    pub fn opened(
        name: &'static str,
        seeds: Vec<Vec<u8>>,
        words: &'static [&'static str],
        open: impl Fn() -> Try + 'static,
    ) -> Self {
        assert!(!seeds.is_empty() && !name.contains('-'), "{name}");
        Self { name, seeds, words, open: Box::new(open) }
    }
}

/// The seed of a run without `--seed`, so that a run of `cargo test` or of CI judges the change and not its luck.
const FIXED_SEED: u64 = 1;

/// Runs a ring as its arguments say; `seconds`: how long `cargo test` stays in it.
pub fn run(targets: Vec<Target>, seconds: u64) -> ExitCode {
    let mut run = Run { seconds: Duration::from_secs(seconds), seed: FIXED_SEED, only: None };
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().unwrap_or_default();
        match argument.as_str() {
            "--seconds" => run.seconds = Duration::from_secs(number(&value())),
            "--seed" => {
                run.seed = match value().as_str() {
                    "any" => drive::any_seed(),
                    seed => number(seed),
                }
            }
            "--only" => run.only = Some(value()),
            "--replay" => return replay(&PathBuf::from(value()), &targets),
            "--list" => {
                targets.iter().for_each(|target| println!("{}", target.name));
                return ExitCode::SUCCESS;
            }
            // What a test harness is told (a filter, `--nocapture`) means nothing here.
            _ => {}
        }
    }
    drive(&run, targets)
}

/// The seeds of a target that reads text.
pub fn texts(seeds: &[&str]) -> Vec<Vec<u8>> {
    seeds.iter().map(|seed| seed.as_bytes().to_vec()).collect()
}

fn number(text: &str) -> u64 {
    text.parse().unwrap_or_else(|_| panic!("{text:?} is no number"))
}
