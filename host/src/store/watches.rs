//! What wakes a session.

use hermes_core::ids::InboxId;

use super::recovery::BATCH_ROWS_MAX;
use super::{InboxRow, NewWake, Result, Store, inbox};

impl Store {
    /// Keeps what wakes a session; `None`: the same was kept before.
    ///
    /// # Errors
    ///
    /// When it could not be committed.
    pub async fn wake(&self, wake: NewWake) -> Result<Option<InboxId>> {
        self.write(move |db| inbox::woken(db, &wake)).await
    }

    /// Returns what woke a session and has no turn yet, in id order: at most [`BATCH_ROWS_MAX`] behind `after`.
    ///
    /// # Errors
    ///
    /// When the disk fails.
    pub async fn waiting_wakes(&self, after: InboxId) -> Result<Vec<InboxRow>> {
        self.read(move |db| inbox::wakes(db, after, BATCH_ROWS_MAX)).await
    }
}
