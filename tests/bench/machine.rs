//! Description of the measuring machine.

use std::{fs, process::Command};

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Returns processor, cores, memory, kernel, compiler and load in one sentence.
pub fn describe() -> String {
    let cpu = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpu
        .lines()
        .find_map(|line| line.strip_prefix("model name"))
        .map_or("unknown", |rest| rest.trim_start_matches(['\t', ' ', ':']));
    let cores = cpu.lines().filter(|line| line.starts_with("processor")).count();
    let memory = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let gib = memory
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:")?.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok())
        .unwrap_or_default()
        / (1024 * 1024);
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load = load.split(' ').next().unwrap_or("?");
    format!(
        "{model}, {cores} cores, {gib} GiB; {}; {}; load before {load}; release build.",
        said("uname", &["-sr"]),
        said("rustc", &["--version"]),
    )
}

/// Runs `what` on one core, with this thread and all threads and processes that it starts. The figures
/// therefore exclude the wake-up of a sleeping core.
pub fn on_one_core<T>(what: impl FnOnce() -> T) -> T {
    let all = sched_getaffinity(None).expect("the kernel tells the cores");
    let core = (0..CpuSet::MAX_CPU).find(|core| all.is_set(*core)).expect("we run on one");
    let mut one = CpuSet::new();
    one.set(core);
    sched_setaffinity(None, &one).expect("one of our own cores");
    let result = what();
    sched_setaffinity(None, &all).expect("the cores of before");
    result
}

fn said(program: &str, arguments: &[&str]) -> String {
    Command::new(program)
        .args(arguments)
        .output()
        .map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned())
        .unwrap_or_default()
}
