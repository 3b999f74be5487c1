//! Measurement of the performance budgets: `cargo bench -p hermes-tests`.
//!
//! Each row of the table is one function in [`ROWS`] that returns its measurements. The whole process is
//! measured from outside: CPU and memory as reported by the kernel, time as seen by the platform. `-- --write`
//! also writes `tests/bench/RESULTS.md`. An argument selects the rows that contain it.

#![forbid(unsafe_code)]

mod bot_api;
mod frames;
mod in_process;
mod machine;
mod process;
mod rows;
mod table;

use std::env;

/// A row of the table.
pub struct Row {
    /// Subject of the measurement.
    pub what: &'static str,
    /// Budget, in words.
    pub budget: &'static str,
    /// Measurement.
    pub measure: fn() -> Vec<Measured>,
}

/// A measured figure.
pub struct Measured {
    /// Condition of the measurement.
    pub condition: String,
    /// Figure with its unit.
    pub figure: String,
    /// True if the figure is within the budget; `None` if the budget has no limit for it.
    pub within: Option<bool>,
}

impl Measured {
    /// Creates a figure with its verdict.
    pub fn new(condition: impl Into<String>, figure: impl Into<String>, within: impl Into<Option<bool>>) -> Self {
        Self { condition: condition.into(), figure: figure.into(), within: within.into() }
    }
}

/// All rows, in order.
const ROWS: &[Row] = &[
    Row {
        what: "start to online, adapters side by side",
        budget: "≤ 30 ms with 1, ≤ 120 ms with 12",
        measure: rows::start,
    },
    Row {
        what: "memory (PSS)",
        budget: "telegram in-process ≤ 10 MB idle, ≤ 12 MB after 60 messages",
        measure: rows::memory,
    },
    Row {
        what: "memory (PSS) of each further adapter",
        budget: "in-process ≤ 2 MB, isolated ≤ 5 MB (without TLS)",
        measure: rows::further_adapters,
    },
    Row {
        what: "CPU per message, Telegram → model → Telegram", budget: "≤ 0.6 ms", measure: rows::cpu_per_message
    },
    Row {
        what: "event → runtime called, 100 events/s",
        budget: "p50 ≤ 2 ms, p99 ≤ 10 ms",
        measure: rows::latency_to_the_runtime,
    },
    Row { what: "event → answer at the platform, 100 events/s", budget: "–", measure: rows::latency },
    Row { what: "handoff asked → claimed", budget: "≤ 20 ms", measure: rows::handoff },
    Row { what: "handoff asked → first text", budget: "–", measure: rows::handoff_to_text },
    Row { what: "durable events/s through the ABI, 64 chats", budget: "≥ 10,000", measure: rows::throughput },
    Row { what: "the disk itself", budget: "–", measure: rows::disk },
    Row { what: "the machine itself: a word to another thread and back", budget: "–", measure: rows::thread_hop },
    Row {
        what: "a round trip across the ABI, 512 bytes, p50",
        budget: "in-process ≤ 8 µs, isolated ≤ 60 µs",
        measure: rows::round_trip,
    },
    Row { what: "10,000 sessions idle", budget: "≤ 20 MB more", measure: rows::idle_sessions },
    Row {
        what: "one million messages",
        budget: "open a session ≤ 5 ms, search p99 ≤ 50 ms, start ≤ 100 ms",
        measure: rows::million,
    },
    Row { what: "kill -9 to serving again, 100 turns in flight", budget: "≤ 1 s", measure: rows::recovery },
    Row { what: "memory and descriptors after 100,000 messages", budget: "flat", measure: rows::flat },
    Row { what: "libraries: size and load time", budget: "–", measure: rows::libraries },
];

fn main() {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let write = arguments.iter().any(|argument| argument == "--write");
    let word = arguments.iter().find(|argument| !argument.starts_with("--"));
    let mut table = table::Table::new(machine::describe());
    for row in ROWS.iter().filter(|row| word.is_none_or(|word| row.what.contains(word.as_str()))) {
        eprintln!("… {}", row.what);
        table.add(row, (row.measure)());
    }
    print!("{table}");
    if write {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/bench/RESULTS.md");
        std::fs::write(path, format!("{table}{}", table::NOTES)).expect("the results are written");
    }
}
