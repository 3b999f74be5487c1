//! The host's memory: one SQLite file, one writer, a few readers.
//!
//! Each write method is one transaction of the durable path and returns after its
//! commit; whatever is queued while one commit runs shares the next (see
//! [`writer`]). Reads run on threads of their own with connections that cannot
//! write. Every change of a state names the state it starts from; a row that is
//! elsewhere is a [`StoreError::Conflict`] and nothing of that request is kept.
//!
//! No SQL stands outside this folder, and nothing but SQLite opens the file. Who
//! opens a `Store` holds `host.lock`; taking that lock is not done here.
//!
//! Read on: [`rows`] for the values, `writer` for the commit, `recovery` for
//! what a crash leaves behind, `migrate` for the schema.

mod asks;
mod commands;
mod deletion;
mod directory;
mod drafts;
mod effects;
pub mod error;
mod handoff;
mod inbox;
mod kv;
mod lineage;
mod migrate;
mod mirror;
mod open;
mod outbox;
mod pairing;
mod place;
mod readers;
mod recovery;
pub mod rows;
mod search;
mod sessions;
mod sql;
mod sweep;
mod tasks;
mod titles;
mod tool_calls;
mod transcript;
mod trouble;
mod turns;
mod watches;
pub mod words;
mod writer;

use std::path::Path;
use std::sync::Arc;

use arc_swap::ArcSwap;
use hermes_core::ids::{DeliveryId, Epoch};

use rusqlite::Connection;

use crate::clock::Clock;
pub use asks::Posed;
pub use drafts::interrupted;
pub use error::StoreError;
use readers::Readers;
pub use rows::*;
pub use tasks::{
    FoundTask, Made, NewTask, SAID_CHARS_MAX, Seat, Stepped, TaskEventRow, TaskKind, TaskRow, TaskStep, Telling,
    Untold, Viewer, run_event,
};
use writer::{Outcome, Writer};

/// Rows of one listing, unless the caller asks for fewer.
pub const LISTING_ROWS_MAX: u32 = 1_000;

type Result<T, E = StoreError> = std::result::Result<T, E>;

/// How safe a commit is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Synchronous {
    /// On disk before it is answered.
    #[default]
    Full,
    /// Survives the process, not the power; for the bench.
    Normal,
}

/// How the file is opened.
#[derive(Clone, Copy, Debug, Default)]
pub struct Settings {
    /// How safe a commit is.
    pub synchronous: Synchronous,
}

/// An open database.
pub struct Opened {
    /// The store.
    pub store: Store,
    /// This life of the host.
    pub epoch: Epoch,
    /// What the dispatcher keeps in memory.
    pub loaded: Loaded,
    /// Whether the life before did not end by [`Store::close`].
    pub unclean: bool,
}

/// The host's memory. Cheap to clone.
#[derive(Clone)]
pub struct Store {
    inner: Arc<Inner>,
}

struct Inner {
    writer: Writer,
    readers: Readers,
    clock: Arc<dyn Clock>,
    nonce: Arc<str>,
    keep: ArcSwap<Keep>,
    /// When the file was opened, and the time of the newest row that was found in it.
    opened_ms: i64,
    newest_ms: i64,
}

impl Store {
    /// Opens the database at `path`, makes or migrates it, and begins a new epoch.
    ///
    /// Blocks: a migration copies the file first. After an unclean end a file below
    /// [`CHECKED_BYTES_MAX`] is checked; a larger one never holds up the start.
    ///
    /// # Errors
    ///
    /// When the file cannot be opened, is damaged, newer than this program, or of another program.
    pub fn open(path: &Path, clock: Arc<dyn Clock>) -> Result<Opened> {
        Self::open_with(path, clock, Settings::default())
    }

    /// [`Store::open`] with settings.
    ///
    /// # Errors
    ///
    /// As [`Store::open`].
    pub fn open_with(path: &Path, clock: Arc<dyn Clock>, settings: Settings) -> Result<Opened> {
        open::open(path, clock, settings)
    }

    /// Returns the idempotency key that an empty [`NewPart::key`] gets: at most 25 characters of
    /// `[a-z0-9-]`, unique across databases.
    pub fn part_key(&self, delivery: DeliveryId, n: u32) -> String {
        outbox::part_key(&self.inner.nonce, delivery, n)
    }

    /// Returns how many requests and commits the writer has done.
    pub fn stats(&self) -> WriterStats {
        self.inner.writer.stats()
    }

    /// Says how much of the past is kept from now on.
    pub fn set_keep(&self, keep: Keep) {
        self.inner.keep.store(Arc::new(keep));
    }

    /// Moves what the write-ahead log holds into the database, without waiting for readers.
    ///
    /// # Errors
    ///
    /// When the disk fails.
    pub async fn checkpoint(&self) -> Result<()> {
        self.inner.writer.alone(|db| Ok(db.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()))?)).await
    }

    /// Ends this epoch cleanly: waits for the last commit, optimizes, closes. Later requests fail with
    /// [`StoreError::Closed`].
    ///
    /// # Errors
    ///
    /// When the last commit fails; the database is then open to recovery at the next start.
    pub async fn close(&self) -> Result<()> {
        self.inner.writer.last(open::finish).await
    }

    /// Carries out `work` in the next group of the writer.
    async fn write<T, W>(&self, work: W) -> Result<T>
    where
        T: Send + 'static,
        W: FnOnce(&Connection) -> Outcome<T> + Send + 'static,
    {
        self.inner.writer.grouped(work).await
    }

    /// As [`Store::write`] for work that changes something with one statement at most.
    async fn write_single<T, W>(&self, work: W) -> Result<T>
    where
        T: Send + 'static,
        W: FnOnce(&Connection) -> Outcome<T> + Send + 'static,
    {
        self.inner.writer.grouped_single(work).await
    }

    /// Answers `question` on a reading thread.
    async fn read<T, Q>(&self, question: Q) -> Result<T>
    where
        T: Send + 'static,
        Q: FnOnce(&Connection) -> Outcome<T> + Send + 'static,
    {
        self.inner.readers.ask(question).await
    }

    fn keep(&self) -> Keep {
        **self.inner.keep.load()
    }

    fn nonce(&self) -> Arc<str> {
        Arc::clone(&self.inner.nonce)
    }

    fn now_ms(&self) -> i64 {
        self.inner.clock.now_ms()
    }
}

/// After an unclean end a database below this size is checked before use.
pub const CHECKED_BYTES_MAX: u64 = 64 << 20;

/// What the writer has done since the store was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WriterStats {
    /// Requests answered.
    pub requests: u64,
    /// Transactions committed, one fsync each.
    pub commits: u64,
    /// Requests and transactions that the disk failed.
    pub failures: u64,
}

#[cfg(test)]
pub(crate) mod tests;
