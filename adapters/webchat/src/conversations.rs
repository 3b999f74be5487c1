//! Creation, renaming, deletion and resumption of conversations.

use std::sync::Arc;
use std::time::Duration;

use hermes_adapter_sdk::prelude::*;
use hermes_adapter_sdk::protocol::host_method;
use serde_json::{Value, json};

use crate::connection::Connection;
use crate::emit::{command, emit, known};
use crate::entry::{Conversation, TITLE_CHARS_MAX};
use crate::ids::random_word;
use crate::sessions;
use crate::view;

/// The time in which the host must resume a session here.
const RESUMED_WITHIN: Duration = Duration::from_secs(8);

/// Creates a conversation.
pub(crate) async fn begin(link: &Arc<Connection>, title: &str) -> Result<Conversation, CallError> {
    let id = format!("c_{}", &random_word()[..20]);
    let line = link.log.open(&id, title, link.host.now_ms()).await?;
    view::tell_conversation(link, &line);
    Ok(line)
}

/// Renames a conversation. The title belongs to its session; the host numbers a title that is taken.
pub(crate) async fn rename(link: &Arc<Connection>, conversation: &str, title: &str) -> Result<Conversation, CallError> {
    let title = clean_title(title)?;
    known(link, conversation).await?;
    sessions::refresh(link).await;
    let named = match link.sessions.of(conversation) {
        Some(session) => sessions::rename(link, &session.id, &title).await?,
        None => None,
    };
    // Without a session, or if the host does not rename, the page stores the title.
    let kept = named.unwrap_or(title);
    let changed = link.log.change(conversation, |line| line.title = kept).await?;
    let changed = changed.ok_or_else(|| CallError::new("not_found", "this conversation does not exist"))?;
    sessions::refresh(link).await;
    view::tell_conversation(link, &changed);
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
pub(crate) async fn title_from(link: &Arc<Connection>, conversation: &str, text: &str) -> Result<(), CallError> {
    let line = known(link, conversation).await?;
    if !view::title(link, &line).is_empty() {
        view::tell_conversation(link, &line);
        return Ok(());
    }
    let first = text.lines().map(str::trim).find(|line| !line.is_empty() && !line.starts_with('/')).unwrap_or("");
    let title: String = first.chars().take(60).collect();
    if let Some(changed) = link.log.change(conversation, |line| line.title = title).await? {
        view::tell_conversation(link, &changed);
    }
    Ok(())
}

/// Deletes a conversation and its session. Running turns are stopped and waiting messages are withdrawn.
pub(crate) async fn delete(link: &Arc<Connection>, conversation: &str) -> Result<(), CallError> {
    let line = known(link, conversation).await?;
    sessions::refresh(link).await;
    for inbox_id in link.live.unanswered(conversation) {
        // A turn that does not stop blocks the deletion of the session, which reports the error.
        link.host.call::<Value>(host_method::TURNS_STOP, &json!({ "inbox_id": inbox_id })).await.ok();
    }
    if let Some(session) = link.sessions.of(conversation).map(|session| session.id).or(line.session) {
        sessions::delete(link, &session).await?;
        link.sessions.forget(&session);
    }
    link.log.delete(conversation).await?;
    link.live.forget(conversation);
    link.sessions.stir();
    Ok(())
}

/// Resumes a session in a conversation and returns the host's reply.
pub(crate) async fn resume(
    link: &Arc<Connection>,
    line: &Conversation,
    session: &str,
) -> Result<Option<String>, CallError> {
    let event = command(link, line, &format!("/resume {session}"));
    let mut news = link.live.news();
    let inbox_id = emit(link, &event).await?;
    let answer = async {
        loop {
            if let Some(answer) = link.log.answer_to(&line.id, inbox_id).await? {
                return Ok(answer);
            }
            // The channel closes only when the adapter ends.
            news.changed().await.map_err(|_| CallError::new("unavailable", "the page is shutting down"))?;
        }
    };
    match tokio::time::timeout(RESUMED_WITHIN, answer).await {
        Ok(answer) => answer.map(Some),
        Err(_) => Ok(None),
    }
}

/// Resumes a session in a conversation of this page: in its current one, or in a new one
/// that starts with the earlier messages. The request is `/resume`, so that a refusal is
/// explained in the host's words.
pub(crate) async fn go_on(link: &Arc<Connection>, id: &str) -> Result<Conversation, CallError> {
    let _going_on = link.sessions.going_on.lock().await;
    sessions::refresh(link).await;
    let missing = || CallError::new("not_found", "this conversation no longer exists");
    let session = link.sessions.one(id).ok_or_else(missing)?;
    for chat in &session.chats {
        if let Some(line) = link.log.conversation(&chat.id).await {
            return Ok(line);
        }
    }
    let past = sessions::entries(link, id).await?;
    let line = begin(link, session.title.as_deref().unwrap_or_default()).await?;
    let led = match link.log.copy(&line.id, past).await {
        Ok(()) => resume(link, &line, id).await,
        Err(error) => Err(error),
    };
    sessions::refresh(link).await;
    if let Err(error) = led.and_then(|refused| match link.sessions.of(&line.id) {
        Some(_) => Ok(()),
        None => Err(CallError::new("refused", refused.unwrap_or_else(|| "the host did not continue it".to_owned()))),
    }) {
        link.log.delete(&line.id).await?;
        link.live.forget(&line.id);
        return Err(error);
    }
    Ok(link.log.conversation(&line.id).await.unwrap_or(line))
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
