//! The measurements of the rows.

mod handoff;
mod lives;
mod memory;
mod seam;
mod store;
mod way;

use std::time::Duration;

use hermes_tests::Isolation;

pub use self::{handoff::*, lives::*, memory::*, seam::*, store::*, way::*};

/// Configuration with adapters only: no status page, no log. Each message gets its own turn, at any rate of
/// arrival.
const HEAD: &str = "[host]\nstatus = \"\"\nplugins_dir = \"plugins\"\nlog = \"error\"\n\n\
                    [session]\nbusy = \"queue\"\nmerge_ms = 0\n\n";
/// Section of the cheapest runtime.
const ECHO: &str = "[agent]\nruntime = \"echo\"\n\n";

fn scripted(name: &str, isolation: Isolation, more: &str) -> String {
    format!("[adapter.{name}]\nplugin = \"scripted\"\nisolation = \"{}\"\n{more}\n", isolation.word())
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn percentile(values: &mut [f64], percent: usize) -> f64 {
    values.sort_by(f64::total_cmp);
    values[(values.len() * percent / 100).min(values.len() - 1)]
}

fn ms(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1000.0
}

fn mib(kib: u64) -> f64 {
    kib as f64 / 1024.0
}

/// Prints the progress of a long row.
fn progress(what: impl std::fmt::Display) {
    eprintln!("    {what}");
}
