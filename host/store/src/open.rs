//! Opening of the database.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use hermes_core::ids::Epoch;
use rusqlite::{Connection, OpenFlags};

use super::error::{Fault, StoreError};
use super::migrate::{self, MIGRATIONS};
use super::readers::Readers;
use super::writer::{Outcome, Writer};
use super::{CHECKED_BYTES_MAX, Inner, Opened, Result, Settings, Store, Synchronous, pairing, recovery, sessions};
use hermes_core::clock::Clock;

/// Wait for another process that has locked the file, in milliseconds. There should be none.
const BUSY_WAIT_MS: u64 = 5_000;
/// Prepared statements cached per connection; more than the transactions use.
const STATEMENTS_MAX: usize = 128;
/// Page cache of the writer, in KiB.
const CACHE_KIB: i64 = 16 << 10;
/// Pages of write-ahead log after which a commit copies them into the database.
const CHECKPOINT_PAGES: i64 = 4_000;
/// Size to which an empty write-ahead log is truncated, in bytes.
const LOG_BYTES_MAX: i64 = 64 << 20;

pub(super) fn open(path: &Path, clock: Arc<dyn Clock>, settings: Settings) -> Result<Opened> {
    // SQLite treats an empty file as a new database. This program never leaves one behind.
    if std::fs::metadata(path).is_ok_and(|file| file.is_file() && file.len() == 0) {
        return Err(StoreError::Empty { path: path.to_owned(), copy: migrate::newest_copy(path) });
    }
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let db = connect(path, flags)?;
    let explained = |fault: Fault| fault.explain(path);
    // The check precedes all changes, so that the file of another program is not touched.
    let found = migrate::recognise(&db, path, MIGRATIONS)?;
    migrate::private(path)?;
    configure(&db, settings).map_err(explained)?;
    let unclean = found > 0 && !ended_cleanly(&db).map_err(explained)?;
    if unclean {
        check(&db, path)?;
    }
    migrate::migrate(&db, path, MIGRATIONS)?;
    let (epoch, nonce) = begin_epoch(&db, clock.now_ms()).map_err(explained)?;
    let opened_ms = clock.now_ms();
    let newest_ms = newest(&db).map_err(explained)?.unwrap_or(opened_ms);
    pairing::forget_untold(&db).map_err(explained)?;
    sessions::complete(&db, clock.now_ms()).map_err(explained)?;
    let loaded = recovery::load(&db).map_err(explained)?;
    let readers = Readers::start(path.to_owned(), || {
        let db = connect(path, OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
        db.pragma_update(None, "query_only", true).map_err(|error| Fault::from(error).explain(path))?;
        Ok(db)
    })?;
    let writer = Writer::start(db, path.to_owned()).map_err(|error| StoreError::Open {
        path: path.to_owned(),
        detail: format!("the writer thread cannot be started: {error}"),
    })?;
    let store = Store {
        inner: Arc::new(Inner {
            writer,
            readers,
            clock,
            nonce: nonce.into(),
            keep: ArcSwap::default(),
            opened_ms,
            newest_ms,
        }),
    };
    Ok(Opened { store, epoch, loaded, unclean })
}

fn connect(path: &Path, flags: OpenFlags) -> Result<Connection> {
    let failed = |error: rusqlite::Error| StoreError::Open { path: path.to_owned(), detail: error.to_string() };
    let db = Connection::open_with_flags(path, flags).map_err(failed)?;
    db.busy_timeout(Duration::from_millis(BUSY_WAIT_MS)).map_err(failed)?;
    db.set_prepared_statement_cache_capacity(STATEMENTS_MAX);
    Ok(db)
}

fn configure(db: &Connection, settings: Settings) -> Outcome<()> {
    // Some network file systems cannot share the memory that a write-ahead log needs; a rollback journal is
    // slower but works there.
    let mode: String =
        db.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0)).unwrap_or_else(|error| error.to_string());
    if mode != "wal" {
        tracing::warn!(mode, "store: no write-ahead log on this file system, using a rollback journal");
        db.query_row("PRAGMA journal_mode = DELETE", [], |row| row.get::<_, String>(0))?;
    }
    let synchronous = match settings.synchronous {
        Synchronous::Full => "FULL",
        Synchronous::Normal => "NORMAL",
    };
    db.pragma_update(None, "synchronous", synchronous)?;
    // The rollback data of savepoints is kept in memory instead of a file.
    db.pragma_update(None, "temp_store", "MEMORY")?;
    db.pragma_update(None, "cache_size", -CACHE_KIB)?;
    db.pragma_update(None, "foreign_keys", false)?;
    db.pragma_update_and_check(None, "wal_autocheckpoint", CHECKPOINT_PAGES, |_| Ok(()))?;
    db.pragma_update_and_check(None, "journal_size_limit", LOG_BYTES_MAX, |_| Ok(()))?;
    Ok(())
}

/// Returns true if the previous run ended with [`finish`]. The column exists since the first schema.
fn ended_cleanly(db: &Connection) -> Outcome<bool> {
    Ok(db.query_row("SELECT clean_shutdown FROM host", [], |row| row.get(0))?)
}

/// Returns the time of the newest event, turn or delivery, in Unix milliseconds.
fn newest(db: &Connection) -> Outcome<Option<i64>> {
    let newest = db.query_row(
        "SELECT max(at_ms) FROM (
             SELECT * FROM (SELECT received_ms AS at_ms FROM inbox ORDER BY id DESC LIMIT 1)
             UNION ALL SELECT * FROM (SELECT started_ms FROM turns ORDER BY id DESC LIMIT 1)
             UNION ALL SELECT * FROM (SELECT created_ms FROM outbox ORDER BY id DESC LIMIT 1))",
        [],
        |row| row.get(0),
    )?;
    Ok(newest)
}

/// Begins a new epoch. Returns it and the nonce of the file.
fn begin_epoch(db: &Connection, now_ms: i64) -> Outcome<(Epoch, String)> {
    Ok(db.query_row(
        "UPDATE host SET epoch = epoch + 1, clean_shutdown = 0, opened_ms = ?1 RETURNING epoch, nonce",
        [now_ms],
        |row| Ok((Epoch(row.get(0)?), row.get(1)?)),
    )?)
}

/// Checks the file for damage if its size permits.
fn check(db: &Connection, path: &Path) -> Result<()> {
    let bytes = std::fs::metadata(path).map(|file| file.len()).unwrap_or(u64::MAX);
    if bytes >= CHECKED_BYTES_MAX {
        tracing::info!(bytes, "store: database too large for the integrity check at startup");
        return Ok(());
    }
    match migrate::damage(db) {
        Ok(None) => Ok(()),
        Ok(Some(detail)) => {
            Err(StoreError::Corrupt { path: path.to_owned(), detail, copy: migrate::newest_copy(path) })
        }
        Err(fault) => Err(fault.explain(path)),
    }
}

/// Marks the end of this run as clean and optimizes the file; the connection is closed afterwards.
pub(super) fn finish(db: &Connection) -> Outcome<()> {
    db.execute("UPDATE host SET clean_shutdown = 1", [])?;
    // A failure of the rest is harmless: the data is safe, and the next start works without it.
    if let Err(error) = db.execute_batch("PRAGMA optimize; PRAGMA wal_checkpoint(TRUNCATE);") {
        tracing::warn!(%error, "store: final optimization of the database failed");
    }
    Ok(())
}
