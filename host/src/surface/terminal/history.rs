//! The history of typed lines, in the home: one JSON string per line, readable by its owner only.

use std::fs::{self, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Name of the file in the home folder.
const FILE_NAME: &str = "chat_history";

/// Entries that are kept.
pub const ENTRIES_MAX: usize = 1_000;

/// The longest entry that is kept, in bytes.
const ENTRY_BYTES_MAX: usize = 16 << 10;

/// The part of the file that is read, in bytes. A longer file was not written by this program.
const FILE_BYTES_MAX: u64 = 32 << 20;

/// The history file.
pub struct History {
    path: PathBuf,
    last: Option<String>,
}

impl History {
    /// Opens the history of `home`. Returns it with its entries, oldest first.
    pub fn open(home: &Path) -> (Self, Vec<String>) {
        let path = home.join(FILE_NAME);
        let mut entries = read(&path).unwrap_or_default();
        if entries.len() > ENTRIES_MAX {
            entries.drain(..entries.len() - ENTRIES_MAX);
            // A file that cannot be shortened now is shortened the next time.
            let _ = write_anew(&path, &entries);
        }
        let last = entries.last().cloned();
        (Self { path, last }, entries)
    }

    /// Adds an entry unless it equals the last one. Returns `true` if it was added.
    pub fn add(&mut self, entry: &str) -> bool {
        if entry.trim().is_empty() || entry.len() > ENTRY_BYTES_MAX || self.last.as_deref() == Some(entry) {
            return false;
        }
        self.last = Some(entry.to_owned());
        // A line that cannot be stored is only missing in the history.
        let _ = append(&self.path, entry);
        true
    }
}

fn read(path: &Path) -> io::Result<Vec<String>> {
    let file = BufReader::new(fs::File::open(path)?.take(FILE_BYTES_MAX));
    let mut entries = Vec::new();
    for line in file.lines() {
        // Lines of another version and incomplete lines are left out.
        entries.extend(serde_json::from_str::<String>(&line?));
    }
    Ok(entries)
}

fn append(path: &Path, entry: &str) -> io::Result<()> {
    let mut file = OpenOptions::new().create(true).append(true).mode(0o600).open(path)?;
    // A single write, because several terminals may append to the file.
    file.write_all(line(entry).as_bytes())
}

fn write_anew(path: &Path, entries: &[String]) -> io::Result<()> {
    let new = path.with_extension("new");
    let mut file = OpenOptions::new().create(true).truncate(true).write(true).mode(0o600).open(&new)?;
    file.write_all(entries.iter().map(|entry| line(entry)).collect::<String>().as_bytes())?;
    fs::rename(new, path)
}

fn line(entry: &str) -> String {
    format!("{}\n", serde_json::Value::from(entry))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn what_was_typed_is_there_again_for_its_owner_only() {
        let home = tempfile::tempdir().unwrap();
        let (mut history, entries) = History::open(home.path());
        assert!(entries.is_empty());
        assert!(history.add("one\ntwo") && history.add("three"));
        assert!(!history.add("three") && !history.add("  "), "neither twice in a row nor nothing");
        let (_, entries) = History::open(home.path());
        assert_eq!(entries, ["one\ntwo", "three"]);
        let mode = fs::metadata(home.path().join(FILE_NAME)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn it_does_not_grow_for_ever_and_survives_lines_it_cannot_read() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join(FILE_NAME);
        let lines: String = (0..ENTRIES_MAX + 5).map(|n| line(&n.to_string())).collect();
        fs::write(&path, format!("not json\n{lines}\"cut")).unwrap();
        let (_, entries) = History::open(home.path());
        assert_eq!((entries.len(), entries[0].as_str()), (ENTRIES_MAX, "5"));
        assert_eq!(fs::read_to_string(&path).unwrap().lines().count(), ENTRIES_MAX);
    }
}
