//! Retention.

use super::{Result, Store, Swept};

impl Store {
    /// Removes what has outlived its time, a bounded number of rows; called once a minute.
    pub async fn sweep(&self, now_ms: i64) -> Result<Swept> {
        todo!()
    }
}
