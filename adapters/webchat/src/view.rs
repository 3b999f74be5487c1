//! Conversations and entries as the page shows them.

use hermes_adapter_sdk::markup::html;
use hermes_adapter_sdk::prelude::*;
use serde_json::{Value, json};

use crate::connection::Connection;
use crate::entry::{Author, Conversation, Entry};

/// The text with which the host ends an interrupted answer.
const INTERRUPTED: &str = "(interrupted)";

/// Sends a conversation's list entry to every page.
pub(crate) fn publish_conversation(connection: &Connection, conversation: &Conversation) {
    connection
        .live
        .publish(&json!({ "type": "conversation", "conversation": conversation_json(connection, conversation) }));
}

/// Returns the title of the session, or else the title of the conversation.
pub(crate) fn title(connection: &Connection, conversation: &Conversation) -> String {
    let named = connection.sessions.of_conversation(&conversation.id).and_then(|session| session.title);
    named.unwrap_or_else(|| conversation.title.clone())
}

/// Returns the conversation as JSON for the page.
pub(crate) fn conversation_json(connection: &Connection, conversation: &Conversation) -> Value {
    json!({
        "id": conversation.id,
        "title": title(connection, conversation),
        "session": conversation.session,
        "created_ms": conversation.created_ms,
        "updated_ms": conversation.updated_ms,
        "unread": conversation.unread,
    })
}

/// Returns the entry as JSON for the page: with its text as HTML, and with addresses instead of paths of files.
pub(crate) fn entry_json(conversation: &str, entry: &Entry) -> Value {
    let files: Vec<Value> = entry
        .files
        .iter()
        .map(|file| {
            json!({
                "url": format!("/files/{conversation}/{}", file.id),
                "name": file.name,
                "mime": file.mime,
                "size": file.size,
            })
        })
        .collect();
    let cut_text = entry.text.trim_end().strip_suffix(INTERRUPTED).filter(|_| entry.from == Author::Agent);
    json!({
        "id": entry.id,
        "from": entry.from,
        "text": entry.text,
        "html": entry.markdown.then(|| html(cut_text.unwrap_or(&entry.text))),
        "at_ms": entry.at_ms,
        "markdown": entry.markdown,
        "inbox_id": entry.inbox_id,
        "in_reply_to": entry.in_reply_to,
        "files": files,
        "choices": entry.choices,
        "chosen": entry.chosen,
        "interrupted": cut_text.is_some(),
    })
}

/// Returns the chat of a conversation.
pub(crate) fn chat(connection: &Connection, conversation: &Conversation) -> Chat {
    Chat::dm(conversation.id.as_str()).named(title(connection, conversation))
}
