//! The persistent state of the host: one SQLite file, one writer, a few readers.
//!
//! Each write method is one transaction of the durable path and returns after its commit. Requests that are
//! queued during a commit share the next one (see [`writer`]). Reads run on separate threads with read-only
//! connections. Every change of a state names the expected current state; if the row is in another one, the
//! request fails with [`StoreError::Conflict`] and changes nothing.
//!
//! All SQL is inside of this folder, and only SQLite opens the file. The caller that opens a `Store` must hold
//! `host.lock`; this module does not take that lock.
//!
//! See [`rows`] for the values, `writer` for commits, `recovery` for the state after a crash, and `migrate` for
//! the schema.

#![forbid(unsafe_code)]

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
mod observed;
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

pub use asks::Posed;
pub use drafts::interrupted;
pub use error::StoreError;
use hermes_core::clock::Clock;
use readers::Readers;
pub use rows::*;
pub use tasks::{
    FoundTask, Made, NewTask, SAID_CHARS_MAX, Seat, Stepped, TaskEventRow, TaskKind, TaskRow, TaskStep, Telling,
    Untold, Viewer, run_event,
};
use writer::{Outcome, Writer};

/// Rows of one listing, unless the caller requests fewer.
pub const LISTING_ROWS_MAX: u32 = 1_000;

type Result<T, E = StoreError> = std::result::Result<T, E>;

/// Durability of a commit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Synchronous {
    /// Written to the disk before the request returns.
    #[default]
    Full,
    /// Survives the end of the process, but not a power failure; for benchmarks.
    Normal,
}

/// Settings of the database connection.
#[derive(Clone, Copy, Debug, Default)]
pub struct Settings {
    /// Durability of a commit.
    pub synchronous: Synchronous,
}

/// The result of opening a database.
pub struct Opened {
    /// The store.
    pub store: Store,
    /// Epoch of this run of the host.
    pub epoch: Epoch,
    /// State that the dispatcher keeps in memory.
    pub loaded: Loaded,
    /// True if the previous run did not end with [`Store::close`].
    pub unclean: bool,
}

/// The persistent state of the host. Cheap to clone.
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
    /// Time at which the file was opened and time of its newest row at that moment, in Unix milliseconds.
    opened_ms: i64,
    newest_ms: i64,
}

impl Store {
    /// Opens the database at `path`, creates or migrates it, and begins a new epoch.
    ///
    /// Blocks: a migration copies the file first. After an unclean end, a file below [`CHECKED_BYTES_MAX`] is
    /// checked; a larger one never delays the start.
    ///
    /// # Errors
    ///
    /// The file cannot be opened, is damaged, is newer than this program, or belongs to another program.
    pub fn open(path: &Path, clock: Arc<dyn Clock>) -> Result<Opened> {
        Self::open_with(path, clock, Settings::default())
    }

    /// Opens the database like [`Store::open`], with settings.
    ///
    /// # Errors
    ///
    /// As for [`Store::open`].
    pub fn open_with(path: &Path, clock: Arc<dyn Clock>, settings: Settings) -> Result<Opened> {
        open::open(path, clock, settings)
    }

    /// Returns the idempotency key for an empty [`NewPart::key`]: at most 25 characters of `[a-z0-9-]`, unique
    /// across databases.
    pub fn part_key(&self, delivery: DeliveryId, n: u32) -> String {
        outbox::part_key(&self.inner.nonce, delivery, n)
    }

    /// Returns the number of requests and commits of the writer.
    pub fn stats(&self) -> WriterStats {
        self.inner.writer.stats()
    }

    /// Sets the retention.
    pub fn set_keep(&self, keep: Keep) {
        self.inner.keep.store(Arc::new(keep));
    }

    /// Copies the write-ahead log into the database without waiting for readers.
    ///
    /// # Errors
    ///
    /// The error of the disk.
    pub async fn checkpoint(&self) -> Result<()> {
        self.inner.writer.alone(|db| Ok(db.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()))?)).await
    }

    /// Ends this epoch cleanly: waits for the last commit, optimizes and closes. Later requests fail with
    /// [`StoreError::Closed`].
    ///
    /// # Errors
    ///
    /// The last commit failed; the next start recovers the database.
    pub async fn close(&self) -> Result<()> {
        self.inner.writer.last(open::finish).await
    }

    /// Runs `work` in the next group of the writer.
    async fn write<T, W>(&self, work: W) -> Result<T>
    where
        T: Send + 'static,
        W: FnOnce(&Connection) -> Outcome<T> + Send + 'static,
    {
        self.inner.writer.grouped(work).await
    }

    /// Runs `work` like [`Store::write`]. The work may change data with at most one statement.
    async fn write_single<T, W>(&self, work: W) -> Result<T>
    where
        T: Send + 'static,
        W: FnOnce(&Connection) -> Outcome<T> + Send + 'static,
    {
        self.inner.writer.grouped_single(work).await
    }

    /// Runs `question` on a reader thread.
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

    /// Bounds the file to its present size and `more` pages, as a full disk does. For tests.
    #[doc(hidden)]
    pub async fn bound_pages(&self, more: i64) {
        let bound = self.inner.writer.alone(move |db| {
            let pages: i64 = db.query_row("PRAGMA page_count", [], |row| row.get(0))?;
            Ok(db.pragma_update_and_check(None, "max_page_count", pages + more, |_| Ok(()))?)
        });
        bound.await.expect("the bound is set");
    }

    fn now_ms(&self) -> i64 {
        self.inner.clock.now_ms()
    }
}

/// Size below which a database is checked after an unclean end, in bytes.
pub const CHECKED_BYTES_MAX: u64 = 64 << 20;

/// The counters of the writer since the store was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WriterStats {
    /// Completed requests.
    pub requests: u64,
    /// Committed transactions, one fsync each.
    pub commits: u64,
    /// Requests and transactions that failed because of the disk.
    pub failures: u64,
}

#[cfg(test)]
mod tests;
