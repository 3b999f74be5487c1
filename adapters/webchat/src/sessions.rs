//! The host's view of the conversations: their sessions and titles, and the person's
//! sessions that are in no conversation of this page.
//!
//! The host is authoritative. Its last reply is cached for display. The host is asked again
//! after every event that may have changed it, and every [`REFRESH_INTERVAL`] while a page is open,
//! for a title given elsewhere, a branch, or a session started in the terminal. Without the
//! grant `sessions.list` the page shows only its own conversations, with titles given on
//! it.

use std::sync::Arc;
use std::time::Duration;

use hermes_adapter_sdk::prelude::*;
use hermes_adapter_sdk::protocol::host_method;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::connection::Connection;
use crate::entry::{Author, Conversation, Entry};
use crate::listeners::has_listeners;
use crate::requests::operator;
use crate::session_cache::Session;
use crate::view;

/// The interval of requests to the host while a page is open and idle.
const REFRESH_INTERVAL: Duration = Duration::from_secs(10);

/// The time in which further changes are collected; the host names a session shortly after its first answer.
const SETTLE_PAUSE: Duration = Duration::from_millis(250);

/// The number of requested sessions, which is the host's maximum.
const SESSIONS_MAX: u32 = 200;

/// The maximum number of other sessions in the page's list; the search finds the rest.
const OTHER_SESSIONS_MAX: usize = 50;

/// The maximum number of messages shown of a session without a log here.
const HISTORY_MAX: u32 = 200;

/// The maximum number of search hits.
const HITS_MAX: u32 = 20;

/// The time in which a session to be deleted must end its turn.
const TURN_END_TIMEOUT: Duration = Duration::from_secs(4);

/// The interval of the checks during that time.
const TURN_END_CHECK_PAUSE: Duration = Duration::from_millis(100);

/// Returns the conversations and the other sessions, for the page's list.
pub(crate) async fn list(connection: &Connection) -> (Vec<Value>, Vec<Value>) {
    let conversations = connection.log.conversations().await;
    let lines = conversations.iter().map(|line| view::conversation_json(connection, line)).collect();
    (lines, other_sessions(connection, &conversations))
}

/// Returns the person's sessions that continue in none of these conversations.
fn other_sessions(connection: &Connection, conversations: &[Conversation]) -> Vec<Value> {
    let here = |chat: &Chat| conversations.iter().any(|line| line.id == chat.id);
    let known = connection.sessions.list();
    let others = known.iter().flatten().filter(|session| {
        // A compressed session continues in the session with its summary.
        session.messages > 0 && session.end_reason.as_deref() != Some("compression") && !session.chats.iter().any(here)
    });
    others.take(OTHER_SESSIONS_MAX).map(session_json).collect()
}

fn session_json(session: &Session) -> Value {
    json!({
        "id": session.id,
        "title": session.title,
        "source": session.source,
        "messages": session.messages,
        "updated_ms": session.active_ms,
    })
}

/// Updates the cache for as long as the page is served.
pub(crate) async fn watch(connection: &Arc<Connection>) {
    loop {
        if tokio::time::timeout(REFRESH_INTERVAL, connection.sessions.refresh_request.notified()).await.is_err()
            && !has_listeners()
        {
            continue;
        }
        tokio::time::sleep(SETTLE_PAUSE).await;
        refresh(connection).await;
    }
}

/// Requests the sessions from the host and publishes the differences.
pub(crate) async fn refresh(connection: &Arc<Connection>) {
    let _lock = connection.sessions.refresh_lock.lock().await;
    let mut listed =
        match call::<Vec<Session>>(connection, host_method::SESSIONS_LIST, json!({ "limit": SESSIONS_MAX })).await {
            Ok(listed) => listed,
            Err(error) => {
                // The cache stays valid until the host replies again.
                tracing::debug!(code = error.code, "list of sessions is not available: {error}");
                return;
            }
        };
    let conversations = connection.log.conversations().await;
    let before = other_sessions(connection, &conversations);
    let previous: Vec<Option<Session>> =
        conversations.iter().map(|line| connection.sessions.of_conversation(&line.id)).collect();
    let unresolved = complete_list(connection, &conversations, &previous, &mut listed).await;
    *connection.sessions.list() = Some(listed);
    for (line, previous) in
        conversations.iter().zip(previous).filter(|(line, _)| !unresolved.contains(&line.id.as_str()))
    {
        let session = connection.sessions.of_conversation(&line.id);
        let id = session.as_ref().map(|session| session.id.clone());
        let changed = line.session != id;
        if changed {
            if let Err(error) = store_session(connection, line, id).await {
                tracing::warn!(conversation = line.id, "the session of a conversation cannot be saved: {error}");
            }
        }
        let title = |session: &Option<Session>| session.as_ref().and_then(|session| session.title.clone());
        if changed || title(&session) != title(&previous) {
            if let Some(line) = connection.log.conversation(&line.id).await {
                view::publish_conversation(connection, &line);
            }
        }
    }
    let now = other_sessions(connection, &conversations);
    if now != before {
        connection.live.publish(&json!({ "type": "sessions", "sessions": now }));
    }
}

/// Completes a truncated list: adds the sessions of conversations that it does not mention. Returns the
/// conversations without a reply of the host, which stay unchanged.
async fn complete_list<'a>(
    connection: &Connection,
    conversations: &'a [Conversation],
    previous: &[Option<Session>],
    listed: &mut Vec<Session>,
) -> Vec<&'a str> {
    let mut unresolved = Vec::new();
    if listed.len() < SESSIONS_MAX as usize {
        return unresolved;
    }
    for (line, previous) in conversations.iter().zip(previous) {
        let Some(id) = &line.session else { continue };
        let is_listed = |session: &Session| session.id == *id || session.chats.iter().any(|chat| chat.id == line.id);
        if listed.iter().any(is_listed) {
            continue;
        }
        match call(connection, host_method::SESSIONS_GET, json!({ "session_id": id })).await {
            Ok(session) => listed.push(session),
            Err(error) if error.code == "not_found" => {}
            Err(error) => {
                tracing::debug!(code = error.code, session = id, "session is not available: {error}");
                listed.extend(previous.clone());
                unresolved.push(line.id.as_str());
            }
        }
    }
    unresolved
}

/// Stores the session of a conversation. A conversation that left its session has another
/// subject, so its generated title is removed.
async fn store_session(connection: &Connection, line: &Conversation, session: Option<String>) -> Result<(), CallError> {
    let has_left = line.session.is_some();
    connection
        .log
        .change(&line.id, |line| {
            line.session = session;
            if has_left {
                line.title.clear();
            }
        })
        .await
        .map(drop)
}

/// Calls a method of the host on behalf of the person at the page.
async fn call<T: DeserializeOwned>(connection: &Connection, method: &str, mut payload: Value) -> Result<T, CallError> {
    payload["sender"] = json!(operator());
    connection.host.call(method, &payload).await
}

/// Returns whether the host does not permit or support the call.
fn is_withheld(error: &CallError) -> bool {
    matches!(error.code.as_str(), "not_granted" | "unsupported")
}

/// Renames a session; the host numbers a title that is taken. Returns the stored title;
/// `None` if renaming is not permitted.
pub(crate) async fn rename(connection: &Connection, session: &str, title: &str) -> Result<Option<String>, CallError> {
    #[derive(Deserialize)]
    struct Renamed {
        #[serde(default)]
        title: Option<String>,
    }
    let params = json!({ "session_id": session, "title": title, "numbered": true });
    match call::<Renamed>(connection, host_method::SESSIONS_RENAME, params).await {
        Ok(renamed) => Ok(Some(renamed.title.unwrap_or_else(|| title.to_owned()))),
        Err(error) if is_withheld(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Deletes a session. Waits for the end of a turn that is being stopped.
pub(crate) async fn delete(connection: &Connection, session: &str) -> Result<(), CallError> {
    let params = json!({ "session_id": session });
    let mut checks = TURN_END_TIMEOUT.as_millis() / TURN_END_CHECK_PAUSE.as_millis();
    loop {
        match call::<Value>(connection, host_method::SESSIONS_DELETE, params.clone()).await {
            Err(error) if error.code == "refused" && checks > 0 => checks -= 1,
            // The session is gone, or this page has no permission.
            Err(error) if error.code == "not_found" || is_withheld(&error) => return Ok(()),
            Err(error) if error.code == "refused" => {
                return Err(CallError::new("refused", "it is still answering; stop it and try again"));
            }
            other => return other.map(drop),
        }
        tokio::time::sleep(TURN_END_CHECK_PAUSE).await;
    }
}

/// The content of a session without a log here.
#[derive(Serialize)]
pub(crate) struct SessionHistory {
    session: Value,
    entries: Vec<Value>,
}

/// Returns the messages of a session.
pub(crate) async fn history(connection: &Arc<Connection>, id: &str) -> Result<SessionHistory, CallError> {
    let session: Session = call(connection, host_method::SESSIONS_GET, json!({ "session_id": id })).await?;
    let entries = entries(connection, id).await?;
    Ok(SessionHistory {
        session: session_json(&session),
        entries: entries.iter().map(|entry| view::entry_json("", entry)).collect(),
    })
}

#[derive(Deserialize)]
struct HistoryMessage {
    id: i64,
    role: String,
    content: String,
    at_ms: i64,
}

pub(crate) async fn entries(connection: &Connection, id: &str) -> Result<Vec<Entry>, CallError> {
    let params = json!({ "session_id": id, "limit": HISTORY_MAX });
    let listed: Vec<HistoryMessage> = call(connection, host_method::SESSIONS_HISTORY, params).await?;
    let entry = |listed: HistoryMessage| {
        let from = match listed.role.as_str() {
            "user" => Author::Me,
            "assistant" => Author::Agent,
            _ => return None,
        };
        // A tool call has no text of its own.
        let mut entry = (!listed.content.trim().is_empty())
            .then(|| Entry::new(format!("h-{}", listed.id), from, listed.content, listed.at_ms))?;
        entry.markdown = from == Author::Agent;
        Some(entry)
    };
    Ok(listed.into_iter().filter_map(entry).collect())
}

/// Searches all sessions of the person for words.
pub(crate) async fn search(connection: &Connection, query: &str) -> Result<Vec<Value>, CallError> {
    #[derive(Deserialize)]
    struct Hit {
        session: String,
        #[serde(default)]
        title: Option<String>,
        at_ms: i64,
        snippet: String,
    }
    let hits: Vec<Hit> =
        call(connection, host_method::SESSIONS_SEARCH, json!({ "query": query, "limit": HITS_MAX })).await?;
    let conversations = connection.log.conversations().await;
    let place = |hit: Hit| {
        let chats = connection.sessions.by_id(&hit.session).map(|session| session.chats).unwrap_or_default();
        let here = chats.iter().find(|chat| conversations.iter().any(|line| line.id == chat.id));
        json!({
            "session": hit.session,
            "conversation": here.map(|chat| chat.id.as_str()),
            "title": hit.title,
            "at_ms": hit.at_ms,
            "snippet": hit.snippet,
        })
    };
    Ok(hits.into_iter().map(place).collect())
}

/// Returns the commands of this person, with the available models; `None` if the host does not list them.
pub(crate) async fn commands(connection: &Connection) -> Option<Vec<CommandInfo>> {
    #[derive(Deserialize)]
    struct Model {
        id: String,
    }
    let mut commands: Vec<CommandInfo> = match call(connection, host_method::COMMANDS_LIST, json!({})).await {
        Ok(commands) => commands,
        Err(error) => {
            tracing::debug!(code = error.code, "list of commands is not available: {error}");
            return None;
        }
    };
    if let Some(model) = commands.iter_mut().find(|command| command.name == "model") {
        if let Ok(models) = connection.host.call::<Vec<Model>>(host_method::MODELS_LIST, &json!({})).await {
            let known = models.into_iter().map(|model| model.id);
            model.values = known.chain(std::mem::take(&mut model.values)).collect();
        }
    }
    Some(commands)
}

/// Requests the slash commands. Commands that the host reports by itself are accepted, too.
pub(crate) async fn refresh_commands(connection: &Connection) {
    if let Some(commands) = commands(connection).await {
        connection.live.set_commands(commands);
    }
}
