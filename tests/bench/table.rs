//! The table as Markdown.

use std::fmt;

use crate::{Measured, Row};

/// What stands below the measured table in `RESULTS.md`.
pub const NOTES: &str = include_str!("notes.md");

/// Measured rows, and where they were measured.
pub struct Table {
    machine: String,
    lines: Vec<String>,
}

impl Table {
    /// An empty table of this machine.
    pub fn new(machine: String) -> Self {
        Self { machine, lines: Vec::new() }
    }

    /// Adds what a row measured.
    pub fn add(&mut self, row: &Row, measured: Vec<Measured>) {
        for one in measured {
            let verdict = match one.within {
                Some(true) => "within",
                Some(false) => "**missed**",
                None => "",
            };
            let line = format!("| {} | {} | {} | {} | {verdict} |", row.what, one.condition, one.figure, row.budget);
            eprintln!("  {line}");
            self.lines.push(line);
        }
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "# Measured\n\n{}\n", self.machine)?;
        writeln!(f, "| what | condition | measured | budget | |\n|---|---|---|---|---|")?;
        for line in &self.lines {
            writeln!(f, "{line}")?;
        }
        writeln!(f)
    }
}
