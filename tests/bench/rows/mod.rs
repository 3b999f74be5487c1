//! What each row of the table measures.

mod handoff;
mod lives;
mod memory;
mod seam;
mod store;
mod way;

use std::time::Duration;

use hermes_tests::Isolation;

pub use self::{handoff::*, lives::*, memory::*, seam::*, store::*, way::*};

/// Nothing but the adapters: no status page, no log. Every message is a turn of its own, however fast they come.
const HEAD: &str = "[host]\nstatus = \"\"\nplugins_dir = \"plugins\"\nlog = \"error\"\n\n\
                    [session]\nbusy = \"queue\"\nmerge_ms = 0\n\n";
/// The runtime that costs nothing.
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

/// Says how far a long row is.
fn progress(what: impl std::fmt::Display) {
    eprintln!("    {what}");
}
