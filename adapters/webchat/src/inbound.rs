//! Conversion of the page's requests to events of the host.
//!
//! The page chooses the id of each message, so a request that is repeated after a lost
//! response becomes the same event. Both the host and the log recognize it.

use std::sync::Arc;
use std::time::Duration;

use hermes_adapter_sdk::prelude::*;
use hermes_adapter_sdk::protocol::host_method;
use serde::Serialize;
use serde_json::{Value, json};

use crate::connection::Connection;
use crate::conversations::title_from;
use crate::emit::{command_event, emit, find_conversation};
use crate::entry::{Author, Entry, File};
use crate::live::TurnEffect;
use crate::requests::{ChoiceRequest, MessageRequest};
use crate::uploads::Upload;
use crate::view::{chat, entry_json};

/// The pauses before the two checks for a command that has become a waiting message.
const COMMAND_CHECK_PAUSES: [Duration; 2] = [Duration::from_millis(150), Duration::from_millis(600)];

/// Emits a message and returns its entry after both the host and the log have stored it.
pub(crate) async fn submit_message(
    connection: &Arc<Connection>,
    conversation: &str,
    message: MessageRequest,
) -> Result<Entry, CallError> {
    message.check()?;
    let line = find_conversation(connection, conversation).await?;
    let uploads = connection
        .uploads
        .find(conversation, &message.files)
        .ok_or_else(|| CallError::new("not_found", "a file of this message is no longer available; attach it again"))?;
    let now_ms = connection.host.now_ms();
    let mut event = message.event(conversation, chat(connection, &line), now_ms);
    let is_command = event.addressed.command;
    event.attachments = uploads.iter().map(|upload| upload.attachment.clone()).collect();
    let inbox_id = emit(connection, &event).await?;

    let mut entry = Entry::new(message.id, Author::Me, message.text, now_ms);
    entry.inbox_id = Some(inbox_id);
    entry.files = uploads.into_iter().filter_map(file).collect();
    let entry = connection.log.append(conversation, entry).await?;
    connection.live.entry(conversation, TurnEffect::None, &entry_json(conversation, &entry));
    if is_command {
        connection.host.spawn(watch_command(Arc::clone(connection), conversation.to_owned(), inbox_id));
    } else {
        connection.live.expect_turn(conversation, inbox_id);
    }
    title_from(connection, conversation, &entry.text).await?;
    Ok(entry)
}

/// Checks whether a command became a waiting message for the agent (`/queue …`), which only
/// the host knows. Its turn shows by itself when it starts.
async fn watch_command(connection: Arc<Connection>, conversation: String, inbox_id: i64) {
    for pause in COMMAND_CHECK_PAUSES {
        tokio::time::sleep(pause).await;
        match connection.host.call::<Value>(host_method::TURNS_STATUS, &json!({ "inbox_id": inbox_id })).await {
            Ok(answer) if answer["state"] == "queued" => return connection.live.expect_turn(&conversation, inbox_id),
            Ok(_) => {}
            Err(_) => return,
        }
    }
}

/// Emits a pressed button.
pub(crate) async fn submit_choice(
    connection: &Arc<Connection>,
    conversation: &str,
    choice: ChoiceRequest,
) -> Result<(), CallError> {
    let line = find_conversation(connection, conversation).await?;
    let event = choice.event(conversation, chat(connection, &line), connection.host.now_ms())?;
    emit(connection, &event).await?;
    let ChoiceRequest { entry, option, .. } = choice;
    if let Some(entry) = connection.log.edit(conversation, &entry, |entry| entry.chosen = Some(option)).await? {
        connection.live.entry(conversation, TurnEffect::None, &entry_json(conversation, &entry));
    }
    Ok(())
}

/// The response to a stop request.
#[derive(Debug, Serialize)]
pub(crate) struct StopResponse {
    stopped: bool,
}

/// Stops the running turn of a conversation.
pub(crate) async fn stop(connection: &Arc<Connection>, conversation: &str) -> Result<StopResponse, CallError> {
    let line = find_conversation(connection, conversation).await?;
    let Some(inbox_id) = connection.live.running(conversation).or_else(|| line.inbox.last().copied()) else {
        return Ok(StopResponse { stopped: false });
    };
    match connection.host.call::<Value>(host_method::TURNS_STOP, &json!({ "inbox_id": inbox_id })).await {
        Ok(answer) => Ok(StopResponse { stopped: answer.get("stopped").and_then(Value::as_bool).unwrap_or(false) }),
        Err(error) if matches!(error.code.as_str(), "not_granted" | "unsupported") => {
            // The command does the same for every authorized person.
            emit(connection, &command_event(connection, &line, "/stop")).await?;
            Ok(StopResponse { stopped: true })
        }
        Err(error) => Err(error),
    }
}

fn file(upload: Upload) -> Option<File> {
    let Attachment { media, mime, name, size, .. } = upload.attachment;
    Some(File { id: media?, name, mime, size, path: upload.path })
}
