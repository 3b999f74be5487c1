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
use crate::emit::{command, emit, known};
use crate::entry::{Entry, File, From};
use crate::live::Ends;
use crate::requests::{Pressed, Said};
use crate::uploads::Upload;
use crate::view::{chat, shown};

/// The pauses before the two checks for a command that has become a waiting message.
const COMMAND_LOOKS: [Duration; 2] = [Duration::from_millis(150), Duration::from_millis(600)];

/// Emits a message and returns its entry after both the host and the log have stored it.
pub(crate) async fn say(link: &Arc<Connection>, conversation: &str, said: Said) -> Result<Entry, CallError> {
    said.check()?;
    let line = known(link, conversation).await?;
    let uploads = link
        .uploads
        .find(conversation, &said.files)
        .ok_or_else(|| CallError::new("not_found", "a file of this message is no longer available; attach it again"))?;
    let now_ms = link.host.now_ms();
    let mut event = said.event(conversation, chat(link, &line), now_ms);
    let command = event.addressed.command;
    event.attachments = uploads.iter().map(|upload| upload.attachment.clone()).collect();
    let inbox_id = emit(link, &event).await?;

    let mut entry = Entry::new(said.id, From::Me, said.text, now_ms);
    entry.inbox_id = Some(inbox_id);
    entry.files = uploads.into_iter().filter_map(file).collect();
    let entry = link.log.append(conversation, entry).await?;
    link.live.entry(conversation, Ends::Nothing, &shown(conversation, &entry));
    if command {
        link.host.spawn(look_after(Arc::clone(link), conversation.to_owned(), inbox_id));
    } else {
        link.live.expect(conversation, inbox_id);
    }
    title_from(link, conversation, &entry.text).await?;
    Ok(entry)
}

/// Checks whether a command became a waiting message for the agent (`/queue …`), which only
/// the host knows. Its turn shows by itself when it starts.
async fn look_after(link: Arc<Connection>, conversation: String, inbox_id: i64) {
    for pause in COMMAND_LOOKS {
        tokio::time::sleep(pause).await;
        match link.host.call::<Value>(host_method::TURNS_STATUS, &json!({ "inbox_id": inbox_id })).await {
            Ok(answer) if answer["state"] == "queued" => return link.live.expect(&conversation, inbox_id),
            Ok(_) => {}
            Err(_) => return,
        }
    }
}

/// Emits a pressed button.
pub(crate) async fn press(link: &Arc<Connection>, conversation: &str, pressed: Pressed) -> Result<(), CallError> {
    let line = known(link, conversation).await?;
    let event = pressed.event(conversation, chat(link, &line), link.host.now_ms())?;
    emit(link, &event).await?;
    let Pressed { entry, option, .. } = pressed;
    if let Some(entry) = link.log.edit(conversation, &entry, |entry| entry.chosen = Some(option)).await? {
        link.live.entry(conversation, Ends::Nothing, &shown(conversation, &entry));
    }
    Ok(())
}

/// The response to a stop request.
#[derive(Debug, Serialize)]
pub(crate) struct Stopped {
    stopped: bool,
}

/// Stops the running turn of a conversation.
pub(crate) async fn stop(link: &Arc<Connection>, conversation: &str) -> Result<Stopped, CallError> {
    let line = known(link, conversation).await?;
    let Some(inbox_id) = link.live.running(conversation).or_else(|| line.inbox.last().copied()) else {
        return Ok(Stopped { stopped: false });
    };
    match link.host.call::<Value>(host_method::TURNS_STOP, &json!({ "inbox_id": inbox_id })).await {
        Ok(answer) => Ok(Stopped { stopped: answer.get("stopped").and_then(Value::as_bool).unwrap_or(false) }),
        Err(error) if matches!(error.code.as_str(), "not_granted" | "unsupported") => {
            // The command does the same for every authorized person.
            emit(link, &command(link, &line, "/stop")).await?;
            Ok(Stopped { stopped: true })
        }
        Err(error) => Err(error),
    }
}

fn file(upload: Upload) -> Option<File> {
    let Attachment { media, mime, name, size, .. } = upload.attachment;
    Some(File { id: media?, name, mime, size, path: upload.path })
}
