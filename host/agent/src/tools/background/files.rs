//! What a process in the background keeps on the disk.
//!
//! `ID.json` says whose it is and how it is found again; `ID.out.N` is the Nth piece of what
//! it printed, of which the last few are kept; `ID.exit` is its exit code once it has one;
//! `ID.in` is the pipe by which it can be written to.

use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{CWD, FileType, Mode};
use serde::{Deserialize, Serialize};

/// One piece of what a process printed, in bytes.
pub const PIECE_BYTES: u64 = 256 << 10;

/// Pieces that are kept, the one that grows among them: the last mebibyte, or a little less.
pub const PIECES_KEPT: u64 = 4;

/// The longest record, in bytes.
const RECORD_BYTES_MAX: u64 = 256 << 10;

/// What the next life of the host has to know of a process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// Its name.
    pub id: String,
    /// The process that leads its group; 0 while it is not known.
    pub pid: u32,
    /// What everything of it carries in its environment.
    pub mark: String,
    /// The session key under which it was started.
    pub key: String,
    /// The session in which it was started.
    pub session: Option<String>,
    /// The command.
    pub command: String,
    /// Whether its end is told.
    pub notify: bool,
    /// What is told when it is printed.
    pub patterns: Vec<String>,
}

/// A part of what was printed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Printed {
    /// The bytes.
    pub bytes: Vec<u8>,
    /// Where they end, counted from the first byte ever printed.
    pub upto: u64,
    /// Bytes before them that were asked for and are gone.
    pub dropped: u64,
}

/// The files of one process.
#[derive(Clone, Debug)]
pub struct Files {
    record: PathBuf,
    /// What it prints goes to this name, a dot and a number.
    pub output: PathBuf,
    /// Its exit code.
    pub exit: PathBuf,
    /// Its input.
    pub input: PathBuf,
}

impl Files {
    /// Of the process with this name.
    pub fn of(folder: &Path, id: &str) -> Self {
        let file = |end: &str| folder.join(format!("{id}.{end}"));
        Self { record: file("json"), output: file("out"), exit: file("exit"), input: file("in") }
    }

    /// Makes the folder, the pipe and the record: what starts can be found again.
    ///
    /// # Errors
    ///
    /// What the system says.
    pub fn make(&self, folder: &Path, record: &Record) -> std::io::Result<()> {
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        rustix::fs::mknodat(CWD, &self.input, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0)?;
        self.write(record)
    }

    /// Writes the record.
    ///
    /// # Errors
    ///
    /// What the system says.
    pub fn write(&self, record: &Record) -> std::io::Result<()> {
        let new = self.record.with_extension("new");
        let mut file = std::fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&new)?;
        file.write_all(&serde_json::to_vec(record)?)?;
        file.sync_all()?;
        std::fs::rename(new, &self.record)
    }

    /// Removes all of them.
    pub fn remove(&self) {
        let pieces = self.pieces().into_iter().map(|piece| self.piece(piece));
        let others = [&self.exit, &self.input, &self.record].map(Clone::clone);
        for path in pieces.chain(others) {
            // What is gone is what was wanted.
            let _ = std::fs::remove_file(path);
        }
    }

    /// Its exit code, once it has said one.
    pub fn exit_code(&self) -> Option<i32> {
        std::fs::read_to_string(&self.exit).ok()?.trim().parse().ok()
    }

    /// How long ago it was started.
    pub fn age(&self) -> Duration {
        age(&self.record)
    }

    /// How long ago it said its exit code; where it has said none, how long ago it was started.
    pub fn over_for(&self) -> Duration {
        if self.exit.exists() { age(&self.exit) } else { self.age() }
    }

    /// What it printed from a place on, at most so many bytes. Where that is gone, what is left behind it.
    pub fn read(&self, from: u64, bytes_max: u64) -> Printed {
        let pieces = self.pieces();
        let Some(oldest) = pieces.first() else { return Printed { upto: from, ..Printed::default() } };
        let start = from.max(oldest * PIECE_BYTES);
        let mut printed = Printed { upto: start, dropped: start - from, bytes: Vec::new() };
        while (printed.bytes.len() as u64) < bytes_max {
            let (piece, at) = (printed.upto / PIECE_BYTES, printed.upto % PIECE_BYTES);
            let room = bytes_max - printed.bytes.len() as u64;
            // A piece that is not there yet, or is gone this moment, has nothing to say.
            let count = read_piece(&self.piece(piece), at, room, &mut printed.bytes).unwrap_or(0);
            if count == 0 {
                break;
            }
            printed.upto += count;
        }
        printed
    }

    /// The end of what it printed.
    pub fn end(&self, bytes_max: u64) -> Vec<u8> {
        let sizes = self.pieces().into_iter().rev().map(|piece| {
            let size = std::fs::metadata(self.piece(piece)).map_or(0, |file| file.len());
            (piece, size)
        });
        // Behind the last one stands an empty one for a moment.
        let Some((last, size)) = sizes.into_iter().find(|(_, size)| *size > 0) else { return Vec::new() };
        self.read((last * PIECE_BYTES + size).saturating_sub(bytes_max), bytes_max).bytes
    }

    fn piece(&self, number: u64) -> PathBuf {
        self.output.with_extension(format!("out.{number}"))
    }

    /// The numbers of the pieces that are there, in order.
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
    // A clock that was set back makes nothing older.
    changed.ok().and_then(|changed| changed.elapsed().ok()).unwrap_or_default()
}

fn names(folder: Option<&Path>) -> impl Iterator<Item = String> {
    let entries = folder.and_then(|folder| std::fs::read_dir(folder).ok()).into_iter().flatten();
    entries.flatten().filter_map(|entry| entry.file_name().into_string().ok())
}

/// Every process that the folder tells of.
pub fn records(folder: &Path) -> Vec<Record> {
    let read = |name: &str| -> Option<Record> {
        let file = std::fs::File::open(folder.join(name)).ok()?;
        let mut bytes = Vec::new();
        file.take(RECORD_BYTES_MAX).read_to_end(&mut bytes).ok()?;
        let record: Record = serde_json::from_slice(&bytes).ok()?;
        // Its name says where its files are.
        (name.strip_suffix(".json") == Some(record.id.as_str())).then_some(record)
    };
    names(Some(folder)).filter(|name| name.ends_with(".json")).filter_map(|name| read(&name)).collect()
}

/// Removes files that belong to no process any more and are older than this.
pub fn sweep(folder: &Path, known: impl Fn(&str) -> bool, older_than: Duration) {
    for name in names(Some(folder)) {
        let id = name.split('.').next().unwrap_or_default();
        let path = folder.join(&name);
        if !known(id) && age(&path) >= older_than {
            // What is gone is what was wanted.
            let _ = std::fs::remove_file(path);
        }
    }
}
