//! The emit of events to the host.

use hermes_adapter_sdk::prelude::*;

use crate::connection::Connection;
use crate::entry::Conversation;
use crate::ids::random_word;
use crate::requests::operator;
use crate::view::chat;

pub(crate) async fn emit(connection: &Connection, event: &Event) -> Result<i64, CallError> {
    match connection.host.emit(event).await? {
        Emitted::New { inbox_id } => Ok(inbox_id),
        Emitted::Duplicate { duplicate_of } => Ok(duplicate_of),
        _ => Err(CallError::new("unavailable", "the host sent an unknown answer of a later version")),
    }
}

/// Returns a command as if it was written in this conversation.
pub(crate) fn command_event(connection: &Connection, line: &Conversation, text: &str) -> Event {
    let id = random_word();
    Event::message(format!("m:{}:{id}", line.id), chat(connection, line), operator(), text)
        .at_ms(connection.host.now_ms())
        .with_message_id(id)
        .addressed(Addressed::new(false, false, true))
}

pub(crate) async fn find_conversation(connection: &Connection, conversation: &str) -> Result<Conversation, CallError> {
    connection
        .log
        .conversation(conversation)
        .await
        .ok_or_else(|| CallError::new("not_found", "this conversation does not exist"))
}
