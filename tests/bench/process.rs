//! Kernel figures of a process and its descendants.

use std::{fs, time::Duration};

/// Ticks per second in `/proc/<pid>/stat`; fixed at 100 for user space on Linux.
const TICKS_PER_SECOND: u64 = 100;

/// Returns the process ids of a process and its descendants.
pub fn family(pid: u32) -> Vec<u32> {
    let mut found = vec![pid];
    let mut at = 0;
    while let Some(parent) = found.get(at).copied() {
        let children = fs::read_dir(format!("/proc/{parent}/task")).into_iter().flatten().filter_map(Result::ok);
        for task in children {
            let list = fs::read_to_string(task.path().join("children")).unwrap_or_default();
            found.extend(list.split_whitespace().filter_map(|child| child.parse::<u32>().ok()));
        }
        at += 1;
    }
    found
}

/// Returns the proportional memory of a process and its descendants, in KiB.
pub fn pss_kib(pid: u32) -> u64 {
    family(pid)
        .into_iter()
        .filter_map(|pid| fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok())
        .filter_map(|rollup| {
            rollup
                .lines()
                .find_map(|line| line.strip_prefix("Pss:")?.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok())
        })
        .sum()
}

/// Returns the processor time of a process and its descendants so far, in nanoseconds if the kernel counts
/// them, otherwise in ticks.
pub fn cpu(pid: u32) -> Duration {
    family(pid).into_iter().map(one_cpu).sum()
}

fn one_cpu(pid: u32) -> Duration {
    let exact: u64 = fs::read_dir(format!("/proc/{pid}/task"))
        .into_iter()
        .flatten()
        .filter_map(Result::ok)
        .filter_map(|task| fs::read_to_string(task.path().join("schedstat")).ok())
        .filter_map(|stat| stat.split(' ').next()?.parse::<u64>().ok())
        .sum();
    if exact > 0 {
        return Duration::from_nanos(exact);
    }
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let after_name = stat.rsplit(')').next().unwrap_or_default();
    let fields: Vec<u64> =
        after_name.split_whitespace().skip(11).take(2).filter_map(|ticks| ticks.parse().ok()).collect();
    Duration::from_millis(fields.iter().sum::<u64>() * 1000 / TICKS_PER_SECOND)
}

/// Returns the number of open file descriptors of a process and its descendants.
pub fn descriptors(pid: u32) -> usize {
    family(pid).into_iter().map(|pid| fs::read_dir(format!("/proc/{pid}/fd")).map_or(0, Iterator::count)).sum()
}
