//! Conversions between rows and values.

use rusqlite::{CachedStatement, Connection, Params, Row};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::error::Fault;
use super::writer::Outcome;

/// Converts a value to JSON.
pub(super) fn json<T: Serialize>(value: &T) -> Outcome<String> {
    Ok(serde_json::to_string(value)?)
}

/// Converts a list to JSON, or to `None` if it is empty.
pub(super) fn json_list<T: Serialize>(values: &[T]) -> Outcome<Option<String>> {
    if values.is_empty() { Ok(None) } else { Ok(Some(serde_json::to_string(values)?)) }
}

/// Parses JSON.
pub(super) fn parsed<T: DeserializeOwned>(row: &Row<'_>, column: usize) -> Outcome<T> {
    Ok(serde_json::from_str(text(row, column)?)?)
}

/// Parses JSON that may be missing.
pub(super) fn parsed_or_none<T: DeserializeOwned>(row: &Row<'_>, column: usize) -> Outcome<Option<T>> {
    match row.get_ref(column)?.as_str_or_null().map_err(rusqlite::Error::from)? {
        Some(text) => Ok(Some(serde_json::from_str(text)?)),
        None => Ok(None),
    }
}

/// Parses a JSON list that may be missing; a missing one is empty.
pub(super) fn parsed_list<T: DeserializeOwned>(row: &Row<'_>, column: usize) -> Outcome<Vec<T>> {
    Ok(parsed_or_none(row, column)?.unwrap_or_default())
}

/// Borrows a text.
pub(super) fn text<'row>(row: &'row Row<'_>, column: usize) -> Outcome<&'row str> {
    Ok(row.get_ref(column)?.as_str().map_err(rusqlite::Error::from)?)
}

/// Runs a change and returns the number of affected rows.
pub(super) fn change(db: &Connection, sql: &str, values: impl Params) -> Outcome<usize> {
    Ok(db.prepare_cached(sql)?.execute(values)?)
}

/// Runs a change that must affect exactly one row; otherwise `what` is not in the expected state.
pub(super) fn change_one<W: std::fmt::Display>(
    db: &Connection,
    sql: &str,
    values: impl Params,
    what: impl FnOnce() -> W,
) -> Outcome<()> {
    if change(db, sql, values)? == 1 { Ok(()) } else { Err(Fault::conflict(what())) }
}

/// Collects all rows of a query.
pub(super) fn collect<T>(
    mut statement: CachedStatement<'_>,
    values: impl Params,
    mut read: impl FnMut(&Row<'_>) -> Outcome<T>,
) -> Outcome<Vec<T>> {
    let mut rows = statement.query(values)?;
    let mut all = Vec::new();
    while let Some(row) = rows.next()? {
        all.push(read(row)?);
    }
    Ok(all)
}

/// Collects the readable rows of a query. A row with a damaged value is skipped and logged with its number,
/// which is the column `id`.
pub(super) fn collect_readable<T>(
    mut statement: CachedStatement<'_>,
    values: impl Params,
    (what, id): (&str, usize),
    mut read: impl FnMut(&Row<'_>) -> Outcome<T>,
) -> Outcome<Vec<T>> {
    let mut rows = statement.query(values)?;
    let mut all = Vec::new();
    while let Some(row) = rows.next()? {
        all.extend(readable(row, (what, id), &mut read)?);
    }
    Ok(all)
}

/// Reads a row. Returns `None` if one of its values is damaged, after logging it.
pub(super) fn readable<T>(
    row: &Row<'_>,
    (what, id): (&str, usize),
    read: impl FnOnce(&Row<'_>) -> Outcome<T>,
) -> Outcome<Option<T>> {
    match read(row) {
        Ok(value) => Ok(Some(value)),
        Err(fault) if fault.is_of_one_row() => {
            let row = row.get::<_, i64>(id).unwrap_or_default();
            tracing::warn!(row, ?fault, "store: damaged {what} skipped");
            Ok(None)
        }
        Err(fault) => Err(fault),
    }
}

/// Returns the first row of a query, if there is one.
pub(super) fn first<T>(
    mut statement: CachedStatement<'_>,
    values: impl Params,
    read: impl FnOnce(&Row<'_>) -> Outcome<T>,
) -> Outcome<Option<T>> {
    let mut rows = statement.query(values)?;
    match rows.next()? {
        Some(row) => Ok(Some(read(row)?)),
        None => Ok(None),
    }
}

/// Converts a count for SQLite.
pub(super) fn counted(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// Converts a count from SQLite; a negative one becomes 0.
pub(super) fn count(row: &Row<'_>, column: usize) -> Outcome<u64> {
    Ok(u64::try_from(row.get::<_, i64>(column)?).unwrap_or(0))
}
