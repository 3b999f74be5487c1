//! Small values of adapters, and the opaque state of runtimes.

use hermes_core::ids::SessionId;
use rusqlite::{Connection, params};
use serde_json::Value;

use super::sql::{change, collect, first, parsed};
use super::writer::Outcome;
use super::{Result, Store, StoreError};

/// Keys per scope.
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
    /// The commit failed, or the scope has reached its limit of keys.
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

pub(super) fn set(db: &Connection, scope: &str, key: &str, value: &str) -> Outcome<()> {
    let written = change(
        db,
        "INSERT INTO kv (scope, key, value) SELECT ?1, ?2, ?3
         WHERE EXISTS (SELECT 1 FROM kv WHERE scope = ?1 AND key = ?2)
            OR (SELECT count(*) FROM kv WHERE scope = ?1) < ?4
         ON CONFLICT DO UPDATE SET value = excluded.value",
        params![scope, key, value, KEYS_MAX],
    )?;
    if written == 0 {
        return Err(StoreError::TooMany { what: format!("values of {scope}"), max: KEYS_MAX }.into());
    }
    Ok(())
}

pub(super) fn delete(db: &Connection, scope: &str, key: &str) -> Outcome<()> {
    change(db, "DELETE FROM kv WHERE scope = ?1 AND key = ?2", [scope, key])?;
    Ok(())
}
