//! Creation, renaming, deletion and resumption of conversations.

use std::sync::Arc;
use std::time::Duration;

use hermes_adapter_sdk::prelude::*;
use hermes_adapter_sdk::protocol::host_method;
use serde_json::{Value, json};

use crate::connection::Connection;
use crate::emit::{command_event, emit, find_conversation};
use crate::entry::{Conversation, TITLE_CHARS_MAX};
use crate::ids::random_word;
use crate::sessions;
use crate::view;

/// The time in which the host must resume a session here.
const RESUME_TIMEOUT: Duration = Duration::from_secs(8);

/// Creates a conversation.
pub(crate) async fn create(connection: &Arc<Connection>, title: &str) -> Result<Conversation, CallError> {
    let id = format!("c_{}", &random_word()[..20]);
    let line = connection.log.open(&id, title, connection.host.now_ms()).await?;
    view::publish_conversation(connection, &line);
    Ok(line)
}

/// Renames a conversation. The title belongs to its session; the host numbers a title that is taken.
pub(crate) async fn rename(
    connection: &Arc<Connection>,
    conversation: &str,
    title: &str,
) -> Result<Conversation, CallError> {
    let title = clean_title(title)?;
    find_conversation(connection, conversation).await?;
    sessions::refresh(connection).await;
    let named = match connection.sessions.of_conversation(conversation) {
        Some(session) => sessions::rename(connection, &session.id, &title).await?,
        None => None,
    };
    // Without a session, or if the host does not rename, the page stores the title.
    let stored_title = named.unwrap_or(title);
    let changed = connection.log.change(conversation, |line| line.title = stored_title).await?;
    let changed = changed.ok_or_else(|| CallError::new("not_found", "this conversation does not exist"))?;
    sessions::refresh(connection).await;
    view::publish_conversation(connection, &changed);
    Ok(changed)
}

/// Returns a title with normalized white space and limited length.
pub(crate) fn clean_title(title: &str) -> Result<String, CallError> {
    let title: String = title.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut title: String = title.chars().take(TITLE_CHARS_MAX).collect();
    title.truncate(title.trim_end().len());
    if title.is_empty() {
        return Err(CallError::new("invalid", "a title needs at least one visible character"));
    }
    Ok(title)
}

/// Names a conversation after its first message.
pub(crate) async fn title_from(connection: &Arc<Connection>, conversation: &str, text: &str) -> Result<(), CallError> {
    let line = find_conversation(connection, conversation).await?;
    if !view::title(connection, &line).is_empty() {
        view::publish_conversation(connection, &line);
        return Ok(());
    }
    let first = text.lines().map(str::trim).find(|line| !line.is_empty() && !line.starts_with('/')).unwrap_or("");
    let title: String = first.chars().take(60).collect();
    if let Some(changed) = connection.log.change(conversation, |line| line.title = title).await? {
        view::publish_conversation(connection, &changed);
    }
    Ok(())
}

/// Deletes a conversation and its session. Running turns are stopped and waiting messages are withdrawn.
pub(crate) async fn delete(connection: &Arc<Connection>, conversation: &str) -> Result<(), CallError> {
    let line = find_conversation(connection, conversation).await?;
    sessions::refresh(connection).await;
    for inbox_id in connection.live.unanswered(conversation) {
        // A turn that does not stop blocks the deletion of the session, which reports the error.
        connection.host.call::<Value>(host_method::TURNS_STOP, &json!({ "inbox_id": inbox_id })).await.ok();
    }
    if let Some(session) = connection.sessions.of_conversation(conversation).map(|session| session.id).or(line.session)
    {
        sessions::delete(connection, &session).await?;
        connection.sessions.remove(&session);
    }
    connection.log.delete(conversation).await?;
    connection.live.remove(conversation);
    connection.sessions.request_refresh();
    Ok(())
}

/// Resumes a session in a conversation and returns the host's reply.
async fn resume(connection: &Arc<Connection>, line: &Conversation, session: &str) -> Result<Option<String>, CallError> {
    let event = command_event(connection, line, &format!("/resume {session}"));
    let mut changes = connection.live.changes();
    let inbox_id = emit(connection, &event).await?;
    let answer = async {
        loop {
            if let Some(answer) = connection.log.answer_to(&line.id, inbox_id).await? {
                return Ok(answer);
            }
            // The channel closes only when the adapter ends.
            changes.changed().await.map_err(|_| CallError::new("unavailable", "the page is shutting down"))?;
        }
    };
    match tokio::time::timeout(RESUME_TIMEOUT, answer).await {
        Ok(answer) => answer.map(Some),
        Err(_) => Ok(None),
    }
}

/// Resumes a session in a conversation of this page: in its current one, or in a new one
/// that starts with the earlier messages. The request is `/resume`, so that a refusal is
/// explained in the host's words.
pub(crate) async fn continue_session(connection: &Arc<Connection>, id: &str) -> Result<Conversation, CallError> {
    let _lock = connection.sessions.resume_lock.lock().await;
    sessions::refresh(connection).await;
    let missing = || CallError::new("not_found", "this conversation no longer exists");
    let session = connection.sessions.by_id(id).ok_or_else(missing)?;
    for chat in &session.chats {
        if let Some(line) = connection.log.conversation(&chat.id).await {
            return Ok(line);
        }
    }
    let history = sessions::entries(connection, id).await?;
    let line = create(connection, session.title.as_deref().unwrap_or_default()).await?;
    let resumed = match connection.log.copy(&line.id, history).await {
        Ok(()) => resume(connection, &line, id).await,
        Err(error) => Err(error),
    };
    sessions::refresh(connection).await;
    if let Err(error) = resumed.and_then(|refusal| match connection.sessions.of_conversation(&line.id) {
        Some(_) => Ok(()),
        None => Err(CallError::new("refused", refusal.unwrap_or_else(|| "the host did not continue it".to_owned()))),
    }) {
        connection.log.delete(&line.id).await?;
        connection.live.remove(&line.id);
        return Err(error);
    }
    Ok(connection.log.conversation(&line.id).await.unwrap_or(line))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_title_that_was_cut_is_the_same_when_it_is_given_again() {
        let cut = clean_title(&format!("{} b", "a".repeat(TITLE_CHARS_MAX - 1))).unwrap();
        assert_eq!(clean_title(&cut).unwrap(), cut);
        assert!(!cut.ends_with(' '), "{cut:?}");
    }
}
