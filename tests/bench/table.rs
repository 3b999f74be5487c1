//! The table in Markdown.

use std::fmt;

use crate::{Measured, Row};

/// Text below the measured table in `RESULTS.md`.
pub const NOTES: &str = include_str!("notes.md");

/// The measured rows and the machine.
pub struct Table {
    machine: String,
    lines: Vec<String>,
}

impl Table {
    /// Creates an empty table for this machine.
    pub fn new(machine: String) -> Self {
        Self { machine, lines: Vec::new() }
    }

    /// Adds the measurements of a row.
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
