//! Messages that the host sends to a chat on its own, stored in the transcript of the chat's session.

use hermes_core::ids::SessionId;
use rusqlite::Connection;

use super::sql::change_one;
use super::writer::Outcome;
use super::{NewMessage, turns};

/// Adds a message outside of any turn to the transcript of an open session.
pub(super) fn say(db: &Connection, session: &SessionId, said: &NewMessage) -> Outcome<()> {
    change_one(
        db,
        "UPDATE sessions SET messages = messages + 1 WHERE id = ?1 AND ended_ms IS NULL",
        [&session.0],
        || format!("session {session}"),
    )?;
    turns::write_message(db, session, None, said)
}
