//! Small values of adapters, and the runtimes' own continuity data.

use hermes_core::ids::SessionId;
use rusqlite::{Connection, params};
use serde_json::Value;

use super::sql::{change, collect, first, parsed};
use super::writer::Outcome;
use super::{Result, Store, StoreError};

/// Keys that one scope may have.
const KEYS_MAX: u32 = 10_000;

/// The scope of the host's own facts.
pub(super) const HOST_SCOPE: &str = "host";

impl Store {
    /// Returns a value of `scope` (an instance's name).
    ///
    /// # Errors
    ///
    /// When the disk fails.
    pub async fn kv_get(&self, scope: &str, key: &str) -> Result<Option<String>> {
        let (scope, key) = (scope.to_owned(), key.to_owned());
        self.read(move |db| {
            let statement = db.prepare_cached("SELECT value FROM kv WHERE scope = ?1 AND key = ?2")?;
            first(statement, [scope, key], |row| Ok(row.get(0)?))
        })
        .await
    }

    /// Writes a value of `scope`.
    ///
    /// # Errors
    ///
    /// When it could not be committed, or the scope has no room for another key.
    pub async fn kv_set(&self, scope: &str, key: &str, value: &str) -> Result<()> {
        let (scope, key, value) = (scope.to_owned(), key.to_owned(), value.to_owned());
        self.write(move |db| set(db, &scope, &key, &value)).await
    }

    /// Forgets a value of `scope`; one that is not there is no error.
    ///
    /// # Errors
    ///
    /// When it could not be committed.
    pub async fn kv_delete(&self, scope: &str, key: &str) -> Result<()> {
        let (scope, key) = (scope.to_owned(), key.to_owned());
        self.write(move |db| delete(db, &scope, &key)).await
    }

    /// Returns the keys and values of `scope` whose value stands in `text`: the secrets that an adapter made for itself and
    /// announced. A value of fewer than 16 characters is no secret.
    ///
    /// # Errors
    ///
    /// When the disk fails.
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

    /// Returns a fact of the host's own.
    ///
    /// # Errors
    ///
    /// When the disk fails.
    pub async fn host_value(&self, key: &str) -> Result<Option<String>> {
        self.kv_get(HOST_SCOPE, key).await
    }

    /// Writes a fact of the host's own.
    ///
    /// # Errors
    ///
    /// When it could not be committed.
    pub async fn set_host_value(&self, key: &str, value: &str) -> Result<()> {
        self.kv_set(HOST_SCOPE, key, value).await
    }

    /// Returns what `runtime` remembers of a session; never another runtime's.
    ///
    /// # Errors
    ///
    /// When the disk fails.
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
