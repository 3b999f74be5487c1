//! The files of a background process.
//!
//! `ID.json` is the record with which the process is found again; `ID.out.N` is the Nth piece of its output, of
//! which the last few are kept; `ID.exit` is its exit code after its end; `ID.in` is the pipe for its input.

use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{CWD, FileType, Mode};
use serde::{Deserialize, Serialize};

/// Size of one piece of output, in bytes.
pub(super) const PIECE_BYTES: u64 = 256 << 10;

/// Number of pieces that are kept, including the growing one: the last mebibyte or slightly less.
pub(super) const PIECES_KEPT: u64 = 4;

/// Longest record, in bytes.
const RECORD_BYTES_MAX: u64 = 256 << 10;

/// The record of a process for the next run of the host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ProcessRecord {
    /// Id of the process.
    pub id: String,
    /// Process id of the group leader; 0 while unknown.
    pub pid: u32,
    /// Mark in the environment of the whole process group.
    pub mark: String,
    /// Session key of the conversation that started it.
    pub key: String,
    /// Session that started it.
    pub session: Option<String>,
    /// The command.
    pub command: String,
    /// Notifies the session of the end.
    pub notify: bool,
    /// Output patterns that the session is notified of.
    pub patterns: Vec<String>,
}

/// A part of the output.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct OutputPart {
    /// Bytes of the part.
    pub bytes: Vec<u8>,
    /// End of the part, as an offset in bytes from the start of all output.
    pub upto: u64,
    /// Requested bytes before the part that no longer exist.
    pub dropped: u64,
}

/// The paths of the files of one process.
#[derive(Clone, Debug)]
pub(super) struct ProcessFiles {
    record: PathBuf,
    /// Common prefix of the output files, followed by a dot and a number.
    pub output: PathBuf,
    /// File with the exit code.
    pub exit: PathBuf,
    /// Pipe for the input.
    pub input: PathBuf,
}

impl ProcessFiles {
    /// Returns the paths for a process id.
    pub(super) fn of(folder: &Path, id: &str) -> Self {
        let file = |end: &str| folder.join(format!("{id}.{end}"));
        Self { record: file("json"), output: file("out"), exit: file("exit"), input: file("in") }
    }

    /// Creates the folder, the pipe and the record, so that the process can be found again before it starts.
    ///
    /// # Errors
    ///
    /// The error of the operating system.
    pub(super) fn make(&self, folder: &Path, record: &ProcessRecord) -> std::io::Result<()> {
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        rustix::fs::mknodat(CWD, &self.input, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0)?;
        self.write(record)
    }

    /// Writes the record.
    ///
    /// # Errors
    ///
    /// The error of the operating system.
    pub(super) fn write(&self, record: &ProcessRecord) -> std::io::Result<()> {
        let new = self.record.with_extension("new");
        let mut file = std::fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&new)?;
        file.write_all(&serde_json::to_vec(record)?)?;
        file.sync_all()?;
        std::fs::rename(new, &self.record)
    }

    /// Removes all files.
    pub(super) fn remove(&self) {
        let pieces = self.pieces().into_iter().map(|piece| self.piece(piece));
        let others = [&self.exit, &self.input, &self.record].map(Clone::clone);
        for path in pieces.chain(others) {
            // A file that does not exist needs no removal.
            let _ = std::fs::remove_file(path);
        }
    }

    /// Returns the exit code, if there is one.
    pub(super) fn exit_code(&self) -> Option<i32> {
        std::fs::read_to_string(&self.exit).ok()?.trim().parse().ok()
    }

    /// Returns the time since the start.
    pub(super) fn age(&self) -> Duration {
        age(&self.record)
    }

    /// Returns the time since the end, or since the start if there is no exit code.
    pub(super) fn over_for(&self) -> Duration {
        if self.exit.exists() { age(&self.exit) } else { self.age() }
    }

    /// Reads at most `bytes_max` bytes of output from an offset. If that part no longer exists, the reading
    /// begins with the oldest part that does.
    pub(super) fn read(&self, from: u64, bytes_max: u64) -> OutputPart {
        let pieces = self.pieces();
        let Some(oldest) = pieces.first() else { return OutputPart { upto: from, ..OutputPart::default() } };
        let start = from.max(oldest * PIECE_BYTES);
        let mut printed = OutputPart { upto: start, dropped: start - from, bytes: Vec::new() };
        while (printed.bytes.len() as u64) < bytes_max {
            let (piece, at) = (printed.upto / PIECE_BYTES, printed.upto % PIECE_BYTES);
            let room = bytes_max - printed.bytes.len() as u64;
            // A piece that does not exist yet, or was just removed, is empty.
            let count = read_piece(&self.piece(piece), at, room, &mut printed.bytes).unwrap_or(0);
            if count == 0 {
                break;
            }
            printed.upto += count;
        }
        printed
    }

    /// Returns the last bytes of the output.
    pub(super) fn end(&self, bytes_max: u64) -> Vec<u8> {
        let sizes = self.pieces().into_iter().rev().map(|piece| {
            let size = std::fs::metadata(self.piece(piece)).map_or(0, |file| file.len());
            (piece, size)
        });
        // The last piece may be empty for a moment.
        let Some((last, size)) = sizes.into_iter().find(|(_, size)| *size > 0) else { return Vec::new() };
        self.read((last * PIECE_BYTES + size).saturating_sub(bytes_max), bytes_max).bytes
    }

    fn piece(&self, number: u64) -> PathBuf {
        self.output.with_extension(format!("out.{number}"))
    }

    /// Returns the numbers of the existing pieces, in order.
    fn pieces(&self) -> Vec<u64> {
        let Some(stem) = self.output.file_name().and_then(|name| name.to_str()) else { return Vec::new() };
        let number = |name: &str| name.strip_prefix(stem)?.strip_prefix('.')?.parse().ok();
        let mut pieces: Vec<u64> = names(self.output.parent()).filter_map(|name| number(&name)).collect();
        pieces.sort_unstable();
        pieces
    }
}

fn read_piece(path: &Path, at: u64, room: u64, bytes: &mut Vec<u8>) -> std::io::Result<u64> {
    let mut file = std::fs::File::open(path)?;
    file.seek(SeekFrom::Start(at))?;
    Ok(file.take(room.min(PIECE_BYTES)).read_to_end(bytes)? as u64)
}

fn age(path: &Path) -> Duration {
    let changed = std::fs::metadata(path).and_then(|file| file.modified());
    // A clock that was set back does not make a file older.
    changed.ok().and_then(|changed| changed.elapsed().ok()).unwrap_or_default()
}

fn names(folder: Option<&Path>) -> impl Iterator<Item = String> {
    let entries = folder.and_then(|folder| std::fs::read_dir(folder).ok()).into_iter().flatten();
    entries.flatten().filter_map(|entry| entry.file_name().into_string().ok())
}

/// Returns all records in the folder.
pub(super) fn records(folder: &Path) -> Vec<ProcessRecord> {
    let read = |name: &str| -> Option<ProcessRecord> {
        let file = std::fs::File::open(folder.join(name)).ok()?;
        let mut bytes = Vec::new();
        file.take(RECORD_BYTES_MAX).read_to_end(&mut bytes).ok()?;
        let record: ProcessRecord = serde_json::from_slice(&bytes).ok()?;
        // The file name must match the id, which determines the paths of the other files.
        (name.strip_suffix(".json") == Some(record.id.as_str())).then_some(record)
    };
    names(Some(folder)).filter(|name| name.ends_with(".json")).filter_map(|name| read(&name)).collect()
}

/// Removes files that belong to no known process and are older than `older_than`.
pub(super) fn sweep(folder: &Path, known: impl Fn(&str) -> bool, older_than: Duration) {
    for name in names(Some(folder)) {
        let id = name.split('.').next().unwrap_or_default();
        let path = folder.join(&name);
        if !known(id) && age(&path) >= older_than {
            // A file that does not exist needs no removal.
            let _ = std::fs::remove_file(path);
        }
    }
}
