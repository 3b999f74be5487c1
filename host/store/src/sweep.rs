//! Retention: removes expired rows in bounded batches.
//!
//! The sweep reads each table from its oldest row and stops at the first row within the retention. The newest
//! row of a table is never removed, so that no id is used twice.

use rusqlite::{Connection, params};

use super::sql::{change, collect, text};
use super::writer::Outcome;
use super::{Result, Store, Swept, directory, inbox, observed, pairing, search, tasks, watches};

/// Longest time that is assumed to have passed before the file was opened, in milliseconds.
const UNSEEN_MS_MAX: i64 = 24 * 3_600 * 1_000;
/// Rows of a table that one sweep reads.
const WALKED_ROWS_MAX: u32 = 1_000;
/// Stray events of an instance that one sweep removes.
const STRAY_ROWS_MAX: u32 = 2_000;
/// Messages that one sweep indexes.
const INDEXED_ROWS_MAX: u32 = 500;

impl Store {
    /// Removes expired rows and indexes new messages, both in bounded numbers. Called once per minute, and
    /// again at once while the result has `more`.
    ///
    /// # Errors
    ///
    /// The commit failed.
    pub async fn sweep(&self, now_ms: i64) -> Result<Swept> {
        // The separate requests let other requests of the host run in between.
        let keep = self.keep();
        let before_ms = self.believed_ms(now_ms).saturating_sub(keep.settled_ms);
        let inbox = self.write(move |db| walk(db, &INBOX, before_ms)).await?;
        let turns = self.write(move |db| walk(db, &TURNS, before_ms)).await?;
        let deliveries = self.write(move |db| walk(db, &OUTBOX, before_ms)).await?;
        let strays = self.write(move |db| strays(db, keep.stray_events_max)).await?;
        let pairing = self.write(move |db| pairing::expire(db, now_ms.saturating_sub(keep.pairing_ms))).await?;
        self.write(directory::trim).await?;
        self.write(move |db| tasks::sweep(db, before_ms)).await?;
        self.write(move |db| watches::sweep(db, before_ms)).await?;
        self.write(move |db| observed::sweep(db, before_ms)).await?;
        self.write(move |db| inbox::sweep_edits(db, now_ms)).await?;
        let indexed = self.write(|db| search::index(db, INDEXED_ROWS_MAX)).await?;
        Ok(Swept {
            inbox: inbox.removed + strays.removed,
            turns: turns.removed,
            deliveries: deliveries.removed,
            pairing: pairing as u64,
            indexed: indexed.rows,
            more: inbox.more || turns.more || deliveries.more || strays.more || indexed.more,
        })
    }
}

impl Store {
    /// Returns the time with which rows are compared, in Unix milliseconds. A clock that is far ahead of all
    /// rows at the start may be wrong, and the sweep would then remove all earlier messages. Therefore at most
    /// one day is assumed to have passed before the opening.
    fn believed_ms(&self, now_ms: i64) -> i64 {
        let passed_ms = now_ms.saturating_sub(self.inner.opened_ms).max(0);
        now_ms.min(self.inner.newest_ms.saturating_add(UNSEEN_MS_MAX).saturating_add(passed_ms))
    }
}

/// The retention of one table.
struct Table {
    /// Query for id, expiry by time, and final state, oldest first.
    walk: &'static str,
    /// Statements that remove one row and its dependents.
    remove: &'static [&'static str],
}

const INBOX: Table = Table {
    walk: "SELECT id, received_ms < ?1, state IN ('answered', 'dropped') FROM inbox
           WHERE id < (SELECT max(id) FROM inbox) ORDER BY id LIMIT ?2",
    remove: &["DELETE FROM inbox WHERE id = ?1"],
};
const TURNS: Table = Table {
    walk: "SELECT id, started_ms < ?1, state IN ('finished', 'interrupted', 'failed') FROM turns
           WHERE id < (SELECT max(id) FROM turns) ORDER BY id LIMIT ?2",
    remove: &["DELETE FROM tool_calls WHERE turn_id = ?1", "DELETE FROM turns WHERE id = ?1"],
};
const OUTBOX: Table = Table {
    walk: "SELECT id, created_ms < ?1, state IN ('settled', 'abandoned') AND COALESCE(settled_ms, 0) < ?1 FROM outbox
           WHERE id < (SELECT max(id) FROM outbox) ORDER BY id LIMIT ?2",
    remove: &["DELETE FROM outbox_parts WHERE delivery = ?1", "DELETE FROM outbox WHERE id = ?1"],
};

#[derive(Default)]
struct Walked {
    removed: u64,
    more: bool,
}

fn walk(db: &Connection, table: &Table, before_ms: i64) -> Outcome<Walked> {
    let rows = collect(db.prepare_cached(table.walk)?, params![before_ms, WALKED_ROWS_MAX], |row| {
        Ok((row.get::<_, i64>(0)?, row.get::<_, bool>(1)?, row.get::<_, bool>(2)?))
    })?;
    let full = rows.len() as u32 == WALKED_ROWS_MAX;
    let mut walked = Walked::default();
    for (id, old, over) in rows {
        if !old {
            return Ok(walked);
        }
        if over {
            for sql in table.remove {
                change(db, sql, [id])?;
            }
            walked.removed += 1;
        }
    }
    // If no row could be removed, another sweep would read the same rows.
    walked.more = full && walked.removed > 0;
    Ok(walked)
}

fn strays(db: &Connection, max: i64) -> Outcome<Walked> {
    let instances = db.prepare_cached("SELECT DISTINCT instance FROM inbox INDEXED BY inbox_stray WHERE stray = 1")?;
    let instances = collect(instances, [], |row| Ok(text(row, 0)?.to_owned()))?;
    let mut walked = Walked::default();
    for instance in instances {
        let removed = inbox::trim_strays(db, &instance, max, STRAY_ROWS_MAX)?;
        walked.removed += removed as u64;
        walked.more |= removed as u32 == STRAY_ROWS_MAX;
    }
    Ok(walked)
}
