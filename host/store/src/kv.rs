//! Small values of adapters, and the opaque state of runtimes.

use hermes_core::ids::SessionId;
use hermes_core::limits::KV_BYTES_MAX;
use rusqlite::Connection;
use serde_json::Value;

use super::sql::{change, collect, first, parsed};
use super::writer::Outcome;
use super::{Result, Store, StoreError};

/// Keys per instance.
const KEYS_MAX: u32 = 10_000;

/// Scope of the host's own values.
pub(super) const HOST_SCOPE: &str = "host";

impl Store {
    /// Returns a value of `scope` (the name of an instance).
    ///
    /// # Errors
    ///
    /// The error of the disk.
    pub async fn kv_get(&self, scope: &str, key: &str) -> Result<Option<String>> {
        let (scope, key) = (scope.to_owned(), key.to_owned());
        self.read(move |db| {
            let statement = db.prepare_cached("SELECT value FROM kv WHERE scope = ?1 AND key = ?2")?;
            first(statement, [scope, key], |row| Ok(row.get(0)?))
        })
        .await
    }

    /// Stores a value of `scope`.
    ///
    /// # Errors
    ///
    /// The commit failed, or the instance of the scope has reached its limit of keys or bytes.
    pub async fn kv_set(&self, scope: &str, key: &str, value: &str) -> Result<()> {
        let (scope, key, value) = (scope.to_owned(), key.to_owned(), value.to_owned());
        self.write(move |db| set(db, &scope, &key, &value)).await
    }

    /// Removes a value of `scope`. A missing value is not an error.
    ///
    /// # Errors
    ///
    /// The commit failed.
    pub async fn kv_delete(&self, scope: &str, key: &str) -> Result<()> {
        let (scope, key) = (scope.to_owned(), key.to_owned());
        self.write(move |db| delete(db, &scope, &key)).await
    }

    /// Returns the keys and values of `scope` whose value occurs in `text`: the secrets that an adapter
    /// generated and announced. A value of fewer than 16 characters does not count as a secret.
    ///
    /// # Errors
    ///
    /// The error of the disk.
    pub async fn kv_within(&self, scope: &str, text: &str) -> Result<Vec<(String, String)>> {
        let (scope, text) = (scope.to_owned(), text.to_owned());
        self.read(move |db| {
            let statement = db.prepare_cached(
                "SELECT key, value FROM kv
                 WHERE scope = ?1 AND length(value) BETWEEN 16 AND 512 AND instr(?2, value) > 0 ORDER BY key",
            )?;
            collect(statement, [scope, text], |row| Ok((row.get(0)?, row.get(1)?)))
        })
        .await
    }

    /// Returns a value of the host itself.
    ///
    /// # Errors
    ///
    /// The error of the disk.
    pub async fn host_value(&self, key: &str) -> Result<Option<String>> {
        self.kv_get(HOST_SCOPE, key).await
    }

    /// Stores a value of the host itself.
    ///
    /// # Errors
    ///
    /// The commit failed.
    pub async fn set_host_value(&self, key: &str, value: &str) -> Result<()> {
        self.kv_set(HOST_SCOPE, key, value).await
    }

    /// Returns the state that `runtime` keeps for a session. The states of other runtimes are separate.
    ///
    /// # Errors
    ///
    /// The error of the disk.
    pub async fn agent_state(&self, session: &SessionId, runtime: &str) -> Result<Option<Value>> {
        let (session, runtime) = (session.0.clone(), runtime.to_owned());
        self.read(move |db| {
            let statement =
                db.prepare_cached("SELECT state FROM agent_state WHERE session_id = ?1 AND runtime = ?2")?;
            first(statement, [session, runtime], |row| parsed(row, 0))
        })
        .await
    }
}

/// Keys and bytes of one or several scopes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Usage {
    keys: i64,
    bytes: i64,
}

/// Writes a value. Triggers count it in `kv_usage`.
pub(super) fn set(db: &Connection, scope: &str, key: &str, value: &str) -> Outcome<()> {
    let bytes = "SELECT octet_length(key) + octet_length(value) FROM kv WHERE scope = ?1 AND key = ?2";
    let before = first(db.prepare_cached(bytes)?, [scope, key], |row| Ok(row.get::<_, i64>(0)?))?;
    let more = Usage { keys: i64::from(before.is_none()), bytes: bytes_of(key, value) - before.unwrap_or(0) };
    check_room(db, scope, more)?;
    // `SELECT` gives the statement a journal of its own: on a full disk only it is taken back, not the group.
    change(
        db,
        "INSERT INTO kv (scope, key, value) SELECT ?1, ?2, ?3 WHERE true
         ON CONFLICT DO UPDATE SET value = excluded.value",
        [scope, key, value],
    )?;
    Ok(())
}

pub(super) fn delete(db: &Connection, scope: &str, key: &str) -> Outcome<()> {
    change(db, "DELETE FROM kv WHERE scope = ?1 AND key = ?2", [scope, key])?;
    Ok(())
}

fn bytes_of(key: &str, value: &str) -> i64 {
    i64::try_from(key.len().saturating_add(value.len())).unwrap_or(i64::MAX)
}

/// Refuses a write that needs more than an instance may keep. A write that needs nothing more is never refused.
fn check_room(db: &Connection, scope: &str, more: Usage) -> Outcome<()> {
    if more.keys <= 0 && more.bytes <= 0 {
        return Ok(());
    }
    // The accounts of an instance share its room; `accounts` names their scopes.
    let instance = scope.split_once('@').map_or(scope, |(instance, _)| instance);
    let usage = db.prepare_cached(
        "SELECT coalesce(sum(keys), 0), coalesce(sum(bytes), 0) FROM kv_usage
         WHERE scope = ?1 OR (scope > ?1 || '@' AND scope < ?1 || 'A')",
    )?;
    let usage =
        first(usage, [instance], |row| Ok(Usage { keys: row.get(0)?, bytes: row.get(1)? }))?.unwrap_or_default();
    if more.keys > 0 && usage.keys >= i64::from(KEYS_MAX) {
        return Err(StoreError::TooMany { what: format!("values of {instance}"), max: KEYS_MAX }.into());
    }
    let bytes_max = i64::try_from(KV_BYTES_MAX).unwrap_or(i64::MAX);
    // The host's own values have bounds of their own; no instance has a name with a colon.
    let is_of_instance = scope != HOST_SCOPE && !scope.contains(':');
    if is_of_instance && more.bytes > 0 && usage.bytes.saturating_add(more.bytes) > bytes_max {
        return Err(StoreError::TooLarge { what: format!("values of {instance}"), bytes_max: KV_BYTES_MAX }.into());
    }
    Ok(())
}
