//! Small values of adapters, and the runtimes' own continuity data.

use hermes_core::ids::SessionId;
use serde_json::Value;

use super::{Result, Store};

impl Store {
    /// Returns a value of `scope` (an instance's name).
    pub async fn kv_get(&self, scope: &str, key: &str) -> Result<Option<String>> {
        todo!()
    }

    /// Writes a value of `scope`.
    pub async fn kv_set(&self, scope: &str, key: &str, value: &str) -> Result<()> {
        todo!()
    }

    /// Forgets a value of `scope`; one that is not there is no error.
    pub async fn kv_delete(&self, scope: &str, key: &str) -> Result<()> {
        todo!()
    }

    /// Returns what `runtime` remembers of a session; never another runtime's.
    pub async fn agent_state(&self, session: &SessionId, runtime: &str) -> Result<Option<Value>> {
        todo!()
    }
}
