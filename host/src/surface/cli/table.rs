//! Aligned tables for people.

use hermes_core::text::{one_line, span};

/// The widest cell, in characters.
const CELL_CHARS_MAX: usize = 60;

/// A table with a heading. Every row has as many cells as the heading.
pub struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    /// Creates a table with this heading.
    pub fn new(heading: &[&str]) -> Self {
        Self { rows: vec![heading.iter().map(|cell| (*cell).to_owned()).collect()] }
    }

    /// Adds a row. Each cell becomes one line.
    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().map(|cell| one_line(&cell, CELL_CHARS_MAX)).collect());
    }

    /// Formats the table, or returns `nothing` if it has no rows. Empty columns are left out.
    pub fn render(&self, nothing: &str) -> String {
        if self.rows.len() == 1 {
            return format!("{nothing}\n");
        }
        let columns: Vec<(usize, usize)> = (0..self.rows[0].len())
            .filter(|column| self.rows[1..].iter().any(|row| row.get(*column).is_some_and(|cell| !cell.is_empty())))
            .map(|column| {
                (column, self.rows.iter().filter_map(|row| row.get(column)).map(|cell| width(cell)).max().unwrap_or(0))
            })
            .collect();
        let mut out = String::new();
        for row in &self.rows {
            let mut line = String::new();
            for (column, wide) in &columns {
                let cell = row.get(*column).map_or("", String::as_str);
                line.push_str(cell);
                line.push_str(&" ".repeat(wide - width(cell) + 2));
            }
            out.push_str(line.trim_end());
            out.push('\n');
        }
        out
    }
}

fn width(cell: &str) -> usize {
    cell.chars().count()
}

/// Returns the time since `at_ms` in words; empty for never.
pub fn ago(now_ms: i64, at_ms: i64) -> String {
    if at_ms > 0 { format!("{} ago", span(now_ms - at_ms)) } else { String::new() }
}
