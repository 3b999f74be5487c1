//! Runs the targets for a while, watches for hangs, and keeps what went wrong.

use std::{
    collections::BTreeMap,
    fs,
    hash::{DefaultHasher, Hash, Hasher},
    panic::{self, AssertUnwindSafe},
    path::{Path, PathBuf},
    process::ExitCode,
    sync::{Arc, Mutex, PoisonError},
    thread,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use rustix::time::{ClockId, clock_gettime};

use crate::{
    mutate::{self, Random},
    ring::{Target, Try},
};

/// Processor time that one input may take, in a build without optimization.
const WORK_MAX: Duration = Duration::from_secs(2);
/// Time that one input may take, also on a busy machine.
const HANG: Duration = Duration::from_secs(60);
/// Inputs between two looks at the clock.
const BATCH: u32 = 16;

/// The options of a run.
pub struct Run {
    /// Duration over all targets.
    pub seconds: Duration,
    /// Seed of the random numbers.
    pub seed: u64,
    /// One target instead of all.
    pub only: Option<String>,
}

/// The input in progress, for the watchdog.
#[derive(Default)]
struct Trying {
    target: &'static str,
    input: Vec<u8>,
    since: Option<(Instant, Duration)>,
}

/// A seed that no run had before.
pub fn any_seed() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_nanos() % u128::from(u64::MAX)).unwrap_or_default()
}

/// Runs the targets one after the other.
pub fn drive(run: &Run, targets: Vec<Target>) -> ExitCode {
    println!("fuzz: seed {}, {} s", run.seed, run.seconds.as_secs());
    let targets: Vec<Target> =
        targets.into_iter().filter(|target| run.only.as_ref().is_none_or(|only| target.name == only)).collect();
    assert!(!targets.is_empty(), "there is no target {:?}", run.only);
    let trying = Arc::new(Mutex::new(Trying::default()));
    watch(Arc::clone(&trying));
    // What panics is told once, below.
    let loud = panic::take_hook();
    panic::set_hook(Box::new(|_| {}));
    let mut found: BTreeMap<String, PathBuf> = BTreeMap::new();
    let share = run.seconds / u32::try_from(targets.len()).expect("there are few targets");
    for target in &targets {
        let run_one = (target.open)();
        let mut random = Random::new(run.seed ^ hash(target.name.as_bytes()));
        let until = Instant::now() + share;
        let mut tried = 0_u64;
        let mut seeds = target.seeds.iter().cloned();
        while Instant::now() < until || seeds.len() > 0 {
            for _ in 0..BATCH {
                let input = seeds.next().unwrap_or_else(|| mutate::input(&mut random, &target.seeds, target.words));
                tried += 1;
                if let Err(why) = attempt(target, &run_one, &input, &trying) {
                    let what = format!("{}: {why}", target.name);
                    found.entry(what).or_insert_with(|| keep(target.name, &input));
                }
            }
        }
        println!("fuzz: {:<12} {tried:>8} inputs", target.name);
    }
    panic::set_hook(loud);
    for (what, input) in &found {
        println!("fuzz: FOUND {what}\n      again: tests/fuzz/run --replay {}", input.display());
    }
    if found.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Tries one kept input again, loudly.
pub fn replay(path: &Path, targets: &[Target]) -> ExitCode {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let name = name.split('-').next().unwrap_or_default();
    let target = targets.iter().find(|target| target.name == name);
    let target = target.unwrap_or_else(|| panic!("{name:?} is no target; a kept input is called <target>-<hash>"));
    let input = fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let run_one = (target.open)();
    let began = Instant::now();
    run_one(&input);
    println!("fuzz: {} took {:?} and found nothing", target.name, began.elapsed());
    ExitCode::SUCCESS
}

fn attempt(target: &Target, run: &Try, input: &[u8], trying: &Mutex<Trying>) -> Result<(), String> {
    {
        let mut trying = trying.lock().unwrap_or_else(PoisonError::into_inner);
        trying.target = target.name;
        input.clone_into(&mut trying.input);
        trying.since = Some((Instant::now(), worked()));
    }
    let ended = panic::catch_unwind(AssertUnwindSafe(|| run(input)));
    trying.lock().unwrap_or_else(PoisonError::into_inner).since = None;
    ended.map_err(|payload| {
        let text = payload.downcast_ref::<String>().cloned();
        let text = text.or_else(|| payload.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        // The first line, without what differs from input to input.
        let text = text.unwrap_or_else(|| "a panic without words".to_owned());
        text.lines().next().unwrap_or_default().chars().filter(|c| !c.is_ascii_digit()).take(120).collect()
    })
}

/// Ends the program when one input takes too long: nobody can stop a thread that hangs.
fn watch(trying: Arc<Mutex<Trying>>) {
    thread::spawn(move || {
        loop {
            thread::sleep(WORK_MAX / 10); // poll
            let trying = trying.lock().unwrap_or_else(PoisonError::into_inner);
            let too_long =
                |(since, before): (Instant, Duration)| since.elapsed() > HANG || worked() - before > WORK_MAX;
            if trying.since.is_some_and(too_long) {
                let input = keep(trying.target, &trying.input);
                println!(
                    "fuzz: FOUND {}: it takes longer than {WORK_MAX:?} of work or {HANG:?}\n      again: tests/fuzz/run --replay {}",
                    trying.target,
                    input.display()
                );
                std::process::exit(1);
            }
        }
    });
}

/// Processor time of this program so far.
fn worked() -> Duration {
    let spent = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(spent.tv_sec.unsigned_abs(), u32::try_from(spent.tv_nsec).unwrap_or_default())
}

fn keep(target: &str, input: &[u8]) -> PathBuf {
    let program = std::env::current_exe().expect("the program knows its path");
    let folder = program.ancestors().nth(3).expect("it lies in target/<profile>/deps").join("fuzz");
    fs::create_dir_all(&folder).expect("target/ is writable");
    let path = folder.join(format!("{target}-{:016x}", hash(input)));
    fs::write(&path, input).expect("target/ is writable");
    path
}

fn hash(bytes: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    bytes.hash(&mut hasher);
    hasher.finish()
}
