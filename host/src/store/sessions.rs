//! Sessions, their routes and transcripts.

use hermes_core::ids::{DeliveryId, SessionId};

use super::{CommandTx, MessageRow, QueueCounts, Resolved, Result, SessionFilter, SessionRow, Store};

impl Store {
    /// (g) What an order changes, its event `answered`, and what is said about it.
    pub async fn command(&self, command: CommandTx) -> Result<Vec<DeliveryId>> {
        todo!()
    }

    /// Returns the last `limit` active messages of a session, oldest first.
    pub async fn history(&self, session: &SessionId, limit: u32) -> Result<Vec<MessageRow>> {
        todo!()
    }

    /// Lists sessions, newest activity first.
    pub async fn sessions(&self, filter: SessionFilter) -> Result<Vec<SessionRow>> {
        todo!()
    }

    /// Returns one session.
    pub async fn session(&self, id: &SessionId) -> Result<Option<SessionRow>> {
        todo!()
    }

    /// Finds a session by its id, its title, or an unambiguous beginning of its id.
    pub async fn resolve_session(&self, name: &str) -> Result<Resolved> {
        todo!()
    }

    /// Ends a session; one that has ended keeps its first reason.
    pub async fn session_end(&self, id: &SessionId, reason: &str) -> Result<()> {
        todo!()
    }

    /// Names a session; `None` takes the name away.
    pub async fn session_rename(&self, id: &SessionId, title: Option<&str>) -> Result<()> {
        todo!()
    }

    /// Deletes a session with its transcript and routes. Refused while a turn of it is queued or running.
    pub async fn session_delete(&self, id: &SessionId) -> Result<()> {
        todo!()
    }

    /// Returns how much is waiting where.
    pub async fn counts(&self) -> Result<QueueCounts> {
        todo!()
    }
}
