//! Conversion of parts and turn events to entries on the page. This module alone classifies the result of a delivery.

use std::sync::Arc;
use std::time::Duration;

use hermes_adapter_sdk::prelude::*;

use crate::connection::Connection;
use crate::entry::{Author, Entry, File};
use crate::ids::{is_id, random_word};
use crate::live::TurnEffect;
use crate::view::{entry_json, publish_conversation};

/// The time that a turn's first event waits for the response of `emit`, which may arrive later.
const REGISTRATION_TIMEOUT: Duration = Duration::from_secs(2);

/// Appends one part to the log, which is its delivery.
pub(crate) async fn send(connection: &Arc<Connection>, message: Outgoing) -> SendOutcome {
    let conversation = message.chat.id.clone();
    if message.chat.kind != ChatType::Dm || !is_id(&conversation) {
        return SendOutcome::refused(RefusalKind::Invalid, "the chat does not belong to this page");
    }
    let Some(markdown) = is_markdown(&message.format) else {
        return SendOutcome::refused(RefusalKind::BadFormat, "this page supports only markdown and plain text");
    };
    let at_ms = connection.host.now_ms();
    let title = message
        .chat
        .name
        .clone()
        .unwrap_or_else(|| if conversation == "inbox" { "Inbox".into() } else { String::new() });
    if let Err(error) = connection.log.open(&conversation, &title, at_ms).await {
        return store_failure(&error);
    }
    let id = if message.key.is_empty() { random_word() } else { format!("d-{}", message.key) };
    let from = match message.purpose {
        Purpose::Notice => Author::Notice,
        _ => Author::Agent,
    };
    let mut entry = Entry::new(id, from, message.text, at_ms);
    entry.markdown = markdown;
    entry.in_reply_to = message.in_reply_to;
    entry.key = message.key;
    entry.choices = message.choices;
    entry.files = message.media.into_iter().map(file).collect();
    match connection.log.append(&conversation, entry).await {
        Ok(entry) => {
            let ends = match entry.in_reply_to {
                Some(inbox_id) if entry.from == Author::Agent && message.part >= message.of => {
                    TurnEffect::EndsTurn(inbox_id)
                }
                Some(inbox_id) if entry.from == Author::Notice => TurnEffect::EndsWait(inbox_id),
                _ => TurnEffect::None,
            };
            connection.sessions.request_refresh();
            connection.live.entry(&conversation, ends, &entry_json(&conversation, &entry));
            if let Some(line) = connection.log.conversation(&conversation).await {
                publish_conversation(connection, &line);
            }
            SendOutcome::delivered(entry.id, entry.at_ms)
        }
        Err(error) => store_failure(&error),
    }
}

/// Edits a message. A message without choices loses its buttons.
pub(crate) async fn edit(connection: &Arc<Connection>, message: SentMessage, outgoing: Outgoing) -> SendOutcome {
    let Some(markdown) = is_markdown(&outgoing.format) else {
        return SendOutcome::refused(RefusalKind::BadFormat, "this page supports only markdown and plain text");
    };
    let conversation = message.chat.id;
    if connection.log.conversation(&conversation).await.is_none() {
        return SendOutcome::refused(RefusalKind::ChatGone, "the conversation was deleted");
    }
    let changed = connection
        .log
        .edit(&conversation, &message.id, |entry| {
            entry.text = outgoing.text;
            entry.markdown = markdown;
            entry.choices = outgoing.choices;
            if !outgoing.media.is_empty() {
                entry.files = outgoing.media.into_iter().map(file).collect();
            }
        })
        .await;
    match changed {
        Ok(Some(entry)) => {
            connection.live.entry(&conversation, TurnEffect::None, &entry_json(&conversation, &entry));
            SendOutcome::delivered(entry.id, connection.host.now_ms())
        }
        Ok(None) => SendOutcome::refused(RefusalKind::TooLong, "the message is too old or too long to be edited"),
        Err(error) => store_failure(&error),
    }
}

/// Publishes one event of a running turn.
pub(crate) async fn turn_event(
    connection: &Arc<Connection>,
    inbox_id: i64,
    seq: u64,
    event: TurnEvent,
) -> Result<(), CallError> {
    let conversation = conversation_of(connection, inbox_id).await.ok_or_else(|| {
        CallError::new("not_found", format!("event {inbox_id} does not belong to a conversation of this page"))
    })?;
    if matches!(event, TurnEvent::Metadata { .. } | TurnEvent::Done { .. } | TurnEvent::Error { .. }) {
        connection.sessions.request_refresh();
    }
    connection.live.turn_event(&conversation, inbox_id, seq, &event);
    Ok(())
}

/// Returns the conversation of an event. A turn may start before the response of `emit` has put its event into the log.
async fn conversation_of(connection: &Connection, inbox_id: i64) -> Option<String> {
    let mut changes = connection.live.changes();
    let wait = async {
        loop {
            if let Some(found) = connection.log.conversation_of(inbox_id).await {
                return Some(found);
            }
            changes.changed().await.ok()?;
        }
    };
    tokio::time::timeout(REGISTRATION_TIMEOUT, wait).await.ok().flatten()
}

fn is_markdown(format: &Format) -> Option<bool> {
    match format {
        Format::Markdown => Some(true),
        Format::Plain => Some(false),
        _ => None,
    }
}

fn file(media: OutMedia) -> File {
    File { id: media.id, name: media.name, mime: media.mime, size: media.size, path: media.path }
}

/// Returns the result of a failed write. The host stores the log, so the write may be retried under the same key.
fn store_failure(error: &CallError) -> SendOutcome {
    if error.code == "not_found" {
        return SendOutcome::refused(RefusalKind::ChatGone, "the conversation was deleted");
    }
    SendOutcome::not_sent(None, WaitScope::Instance, format!("the conversation cannot be saved: {error}"))
}
