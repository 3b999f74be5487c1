//! The schema and its migrations: forward only, one transaction per step.
//!
//! `PRAGMA user_version` identifies the schema, `PRAGMA application_id` the owner of the file. Before an
//! existing file is changed, it is copied with `VACUUM INTO` to `state.db.v<N>`, where N is its schema version;
//! the last two copies are kept. A file with a newer schema is refused with the name of that copy.

use std::path::{Path, PathBuf};

use rusqlite::{Connection, OptionalExtension};

use super::Result;
use super::error::{Fault, StoreError};

/// Migration steps from an empty file, numbered without gaps.
pub(super) const MIGRATIONS: &[&str] = &[
    include_str!("../migrations/0001_initial.sql"),
    include_str!("../migrations/0002_kept_messages.sql"),
    include_str!("../migrations/0003_kv_usage.sql"),
    include_str!("../migrations/0004_last_edits.sql"),
];
/// `HRMS`: identifies the files of this program.
const APPLICATION_ID: i64 = 0x4852_4d53;
/// Copies that are kept.
const COPIES_MAX: usize = 2;

/// Migrates the file to the newest of `steps`.
pub(super) fn migrate(db: &Connection, path: &Path, steps: &[&str]) -> Result<()> {
    let found = recognise(db, path, steps)?;
    let known = steps.len() as u32;
    if found > 0 && found < known {
        copy(db, path, found).map_err(|fault| failed(path, known, &fault))?;
    }
    for (step, sql) in steps.iter().enumerate().skip(found as usize) {
        let to = step as u32 + 1;
        apply(db, sql, to).map_err(|fault| failed(path, to, &fault))?;
    }
    Ok(())
}

/// Returns the schema version of the file, 0 for an empty one. Refuses a newer one and the file of another
/// program.
pub(super) fn recognise(db: &Connection, path: &Path, steps: &[&str]) -> Result<u32> {
    let read = || -> Result<(i64, i64, i64), rusqlite::Error> {
        Ok((
            db.query_row("PRAGMA application_id", [], |row| row.get(0))?,
            db.query_row("PRAGMA user_version", [], |row| row.get(0))?,
            db.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?,
        ))
    };
    let (owner, version, tables) = read().map_err(|error| Fault::from(error).explain(path))?;
    let found = match (owner, u32::try_from(version), tables) {
        (0, Ok(0), 0) => 0,
        (APPLICATION_ID, Ok(found), _) => found,
        _ => return Err(StoreError::Foreign { path: path.to_owned() }),
    };
    let known = steps.len() as u32;
    if found > known {
        return Err(StoreError::NewerSchema { path: path.to_owned(), found, known, copy: copy_of(path, known) });
    }
    Ok(found)
}

fn apply(db: &Connection, sql: &str, to: u32) -> std::result::Result<(), Fault> {
    let step = db.unchecked_transaction()?;
    step.execute_batch(sql)?;
    step.pragma_update(None, "application_id", APPLICATION_ID)?;
    step.pragma_update(None, "user_version", to)?;
    Ok(step.commit()?)
}

fn failed(path: &Path, to: u32, fault: &Fault) -> StoreError {
    let detail = match fault {
        Fault::Sql(error) => error.to_string(),
        Fault::Json(error) => error.to_string(),
        Fault::Rule(error) => error.to_string(),
    };
    StoreError::Migration { path: path.to_owned(), to, detail }
}

/// Copies the database to `<path>.v<version>` and removes all but the newest two copies.
fn copy(db: &Connection, path: &Path, version: u32) -> std::result::Result<(), Fault> {
    let target = numbered(path, version);
    let part = with_suffix(path, ".copying");
    // SQLite refuses to overwrite a file; the rest of a failed attempt is useless.
    remove(&part)?;
    let name = part.to_str().ok_or_else(|| Fault::unreadable("path of the database: it is not UTF-8"))?;
    db.execute("VACUUM INTO ?1", [name])?;
    private(&part)?;
    std::fs::rename(&part, &target).map_err(|error| disk(&target, &error))?;
    let mut copies = copies(path);
    while copies.len() > COPIES_MAX {
        remove(&numbered(path, copies.remove(0)))?;
    }
    Ok(())
}

/// Makes a file readable for its owner only, without opening it.
pub(super) fn private(path: &Path) -> std::result::Result<(), StoreError> {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))
        .map_err(|error| StoreError::Open { path: path.to_owned(), detail: error.to_string() })
}

fn remove(path: &Path) -> std::result::Result<(), StoreError> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(disk(path, &error)),
        _ => Ok(()),
    }
}

fn disk(path: &Path, error: &std::io::Error) -> StoreError {
    StoreError::Disk { path: path.to_owned(), detail: error.to_string() }
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

fn numbered(path: &Path, version: u32) -> PathBuf {
    with_suffix(path, &format!(".v{version}"))
}

/// Returns the versions of the copies next to `path`, ascending.
fn copies(path: &Path) -> Vec<u32> {
    let (Some(folder), Some(name)) = (path.parent(), path.file_name().and_then(|name| name.to_str())) else {
        return Vec::new();
    };
    let prefix = format!("{name}.v");
    let Ok(entries) = std::fs::read_dir(if folder.as_os_str().is_empty() { Path::new(".") } else { folder }) else {
        return Vec::new();
    };
    let mut found: Vec<u32> =
        entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.strip_prefix(&prefix)?.parse().ok()).collect();
    found.sort_unstable();
    found
}

/// Returns the name of the newest copy that a program with schema version `known` can read.
fn copy_of(path: &Path, known: u32) -> String {
    match copies(path).into_iter().rfind(|version| *version <= known) {
        Some(version) => numbered(path, version).display().to_string(),
        None => "(there is none)".to_owned(),
    }
}

/// Returns the name of the newest copy, for the error about a damaged file.
pub(super) fn newest_copy(path: &Path) -> String {
    copy_of(path, u32::MAX)
}

/// Checks the whole file and returns the first damage.
pub(super) fn damage(db: &Connection) -> std::result::Result<Option<String>, Fault> {
    let first: Option<String> = db.query_row("PRAGMA quick_check(1)", [], |row| row.get(0)).optional()?;
    Ok(first.filter(|found| found != "ok"))
}
