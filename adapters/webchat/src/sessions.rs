//! The host's view of the conversations: their sessions and titles, and the person's
//! sessions that are in no conversation of this page.
//!
//! The host is authoritative. Its last reply is cached for display. The host is asked again
//! after every event that may have changed it, and every [`SWEEP`] while a page is open,
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
use crate::entry::{Conversation, Entry, From};
use crate::listeners::is_looked_at;
use crate::requests::operator;
use crate::session_cache::Session;
use crate::view;

/// The interval of requests to the host while a page is open and idle.
const SWEEP: Duration = Duration::from_secs(10);

/// The time in which further changes are collected; the host names a session shortly after its first answer.
const SETTLE: Duration = Duration::from_millis(250);

/// The number of requested sessions, which is the host's maximum.
const SESSIONS_MAX: u32 = 200;

/// The maximum number of other sessions in the page's list; the search finds the rest.
const ELSEWHERE_MAX: usize = 50;

/// The maximum number of messages shown of a session without a log here.
const HISTORY_MAX: u32 = 200;

/// The maximum number of search hits.
const HITS_MAX: u32 = 20;

/// The time in which a session to be deleted must end its turn.
const ENDS_WITHIN: Duration = Duration::from_secs(4);

/// The interval of the checks during that time.
const ENDS_LOOK: Duration = Duration::from_millis(100);

/// Returns the conversations and the other sessions, for the page's list.
pub(crate) async fn list(link: &Connection) -> (Vec<Value>, Vec<Value>) {
    let conversations = link.log.conversations().await;
    let lines = conversations.iter().map(|line| view::line(link, line)).collect();
    (lines, elsewhere(link, &conversations))
}

/// Returns the person's sessions that continue in none of these conversations.
fn elsewhere(link: &Connection, conversations: &[Conversation]) -> Vec<Value> {
    let here = |chat: &Chat| conversations.iter().any(|line| line.id == chat.id);
    let known = link.sessions.known();
    let others = known.iter().flatten().filter(|session| {
        // A compressed session continues in the session with its summary.
        session.messages > 0 && session.end_reason.as_deref() != Some("compression") && !session.chats.iter().any(here)
    });
    others.take(ELSEWHERE_MAX).map(shown).collect()
}

fn shown(session: &Session) -> Value {
    json!({
        "id": session.id,
        "title": session.title,
        "source": session.source,
        "messages": session.messages,
        "updated_ms": session.active_ms,
    })
}

/// Updates the cache for as long as the page is served.
pub(crate) async fn keep_true(link: &Arc<Connection>) {
    loop {
        if tokio::time::timeout(SWEEP, link.sessions.wanted.notified()).await.is_err() && !is_looked_at() {
            continue;
        }
        tokio::time::sleep(SETTLE).await;
        refresh(link).await;
    }
}

/// Requests the sessions from the host and publishes the differences.
pub(crate) async fn refresh(link: &Arc<Connection>) {
    let _asking = link.sessions.asking.lock().await;
    let mut told = match ask::<Vec<Session>>(link, host_method::SESSIONS_LIST, json!({ "limit": SESSIONS_MAX })).await {
        Ok(told) => told,
        Err(error) => {
            // The cache stays valid until the host replies again.
            tracing::debug!(code = error.code, "list of sessions is not available: {error}");
            return;
        }
    };
    let conversations = link.log.conversations().await;
    let before = elsewhere(link, &conversations);
    let former: Vec<Option<Session>> = conversations.iter().map(|line| link.sessions.of(&line.id)).collect();
    let unsure = beyond(link, &conversations, &former, &mut told).await;
    *link.sessions.known() = Some(told);
    for (line, former) in conversations.iter().zip(former).filter(|(line, _)| !unsure.contains(&line.id.as_str())) {
        let session = link.sessions.of(&line.id);
        let id = session.as_ref().map(|session| session.id.clone());
        let moved = line.session != id;
        if moved && let Err(error) = keep_session(link, line, id).await {
            tracing::warn!(conversation = line.id, "the session of a conversation cannot be saved: {error}");
        }
        let title = |session: &Option<Session>| session.as_ref().and_then(|session| session.title.clone());
        if (moved || title(&session) != title(&former))
            && let Some(line) = link.log.conversation(&line.id).await
        {
            view::tell_conversation(link, &line);
        }
    }
    let now = elsewhere(link, &conversations);
    if now != before {
        link.live.publish(&json!({ "type": "sessions", "sessions": now }));
    }
}

/// Completes a truncated list: adds the sessions of conversations that it does not mention. Returns the
/// conversations without a reply of the host, which stay unchanged.
async fn beyond<'a>(
    link: &Connection,
    conversations: &'a [Conversation],
    former: &[Option<Session>],
    told: &mut Vec<Session>,
) -> Vec<&'a str> {
    let mut unsure = Vec::new();
    if told.len() < SESSIONS_MAX as usize {
        return unsure;
    }
    for (line, former) in conversations.iter().zip(former) {
        let Some(id) = &line.session else { continue };
        let is_told = |session: &Session| session.id == *id || session.chats.iter().any(|chat| chat.id == line.id);
        if told.iter().any(is_told) {
            continue;
        }
        match ask(link, host_method::SESSIONS_GET, json!({ "session_id": id })).await {
            Ok(session) => told.push(session),
            Err(error) if error.code == "not_found" => {}
            Err(error) => {
                tracing::debug!(code = error.code, session = id, "session is not available: {error}");
                told.extend(former.clone());
                unsure.push(line.id.as_str());
            }
        }
    }
    unsure
}

/// Stores the session of a conversation. A conversation that left its session has another
/// subject, so its generated title is removed.
async fn keep_session(link: &Connection, line: &Conversation, session: Option<String>) -> Result<(), CallError> {
    let left = line.session.is_some();
    link.log
        .change(&line.id, |line| {
            line.session = session;
            if left {
                line.title.clear();
            }
        })
        .await
        .map(drop)
}

/// Calls a method of the host on behalf of the person at the page.
async fn ask<T: DeserializeOwned>(link: &Connection, method: &str, mut payload: Value) -> Result<T, CallError> {
    payload["sender"] = json!(operator());
    link.host.call(method, &payload).await
}

/// Returns whether the host does not permit or support the call.
fn is_withheld(error: &CallError) -> bool {
    matches!(error.code.as_str(), "not_granted" | "unsupported")
}

/// Renames a session; the host numbers a title that is taken. Returns the stored title;
/// `None` if renaming is not permitted.
pub(crate) async fn rename(link: &Connection, session: &str, title: &str) -> Result<Option<String>, CallError> {
    #[derive(Deserialize)]
    struct Renamed {
        #[serde(default)]
        title: Option<String>,
    }
    let wish = json!({ "session_id": session, "title": title, "numbered": true });
    match ask::<Renamed>(link, host_method::SESSIONS_RENAME, wish).await {
        Ok(renamed) => Ok(Some(renamed.title.unwrap_or_else(|| title.to_owned()))),
        Err(error) if is_withheld(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Deletes a session. Waits for the end of a turn that is being stopped.
pub(crate) async fn delete(link: &Connection, session: &str) -> Result<(), CallError> {
    let wish = json!({ "session_id": session });
    let mut looks = ENDS_WITHIN.as_millis() / ENDS_LOOK.as_millis();
    loop {
        match ask::<Value>(link, host_method::SESSIONS_DELETE, wish.clone()).await {
            Err(error) if error.code == "refused" && looks > 0 => looks -= 1,
            // The session is gone, or this page has no permission.
            Err(error) if error.code == "not_found" || is_withheld(&error) => return Ok(()),
            Err(error) if error.code == "refused" => {
                return Err(CallError::new("refused", "it is still answering; stop it and try again"));
            }
            other => return other.map(drop),
        }
        tokio::time::sleep(ENDS_LOOK).await;
    }
}

/// The content of a session without a log here.
#[derive(Serialize)]
pub(crate) struct Past {
    session: Value,
    entries: Vec<Value>,
}

/// Returns the messages of a session.
pub(crate) async fn past(link: &Arc<Connection>, id: &str) -> Result<Past, CallError> {
    let session: Session = ask(link, host_method::SESSIONS_GET, json!({ "session_id": id })).await?;
    let entries = entries(link, id).await?;
    Ok(Past { session: shown(&session), entries: entries.iter().map(|entry| view::shown("", entry)).collect() })
}

#[derive(Deserialize)]
struct Told {
    id: i64,
    role: String,
    content: String,
    at_ms: i64,
}

pub(crate) async fn entries(link: &Connection, id: &str) -> Result<Vec<Entry>, CallError> {
    let wish = json!({ "session_id": id, "limit": HISTORY_MAX });
    let told: Vec<Told> = ask(link, host_method::SESSIONS_HISTORY, wish).await?;
    let entry = |told: Told| {
        let from = match told.role.as_str() {
            "user" => From::Me,
            "assistant" => From::Agent,
            _ => return None,
        };
        // A tool call has no text of its own.
        let mut entry = (!told.content.trim().is_empty())
            .then(|| Entry::new(format!("h-{}", told.id), from, told.content, told.at_ms))?;
        entry.markdown = from == From::Agent;
        Some(entry)
    };
    Ok(told.into_iter().filter_map(entry).collect())
}

/// Searches all sessions of the person for words.
pub(crate) async fn search(link: &Connection, query: &str) -> Result<Vec<Value>, CallError> {
    #[derive(Deserialize)]
    struct Hit {
        session: String,
        #[serde(default)]
        title: Option<String>,
        at_ms: i64,
        snippet: String,
    }
    let hits: Vec<Hit> = ask(link, host_method::SESSIONS_SEARCH, json!({ "query": query, "limit": HITS_MAX })).await?;
    let conversations = link.log.conversations().await;
    let place = |hit: Hit| {
        let chats = link.sessions.one(&hit.session).map(|session| session.chats).unwrap_or_default();
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
pub(crate) async fn commands(link: &Connection) -> Option<Vec<CommandInfo>> {
    #[derive(Deserialize)]
    struct Model {
        id: String,
    }
    let mut commands: Vec<CommandInfo> = match ask(link, host_method::COMMANDS_LIST, json!({})).await {
        Ok(commands) => commands,
        Err(error) => {
            tracing::debug!(code = error.code, "list of commands is not available: {error}");
            return None;
        }
    };
    if let Some(model) = commands.iter_mut().find(|command| command.name == "model")
        && let Ok(models) = link.host.call::<Vec<Model>>(host_method::MODELS_LIST, &json!({})).await
    {
        let known = models.into_iter().map(|model| model.id);
        model.values = known.chain(std::mem::take(&mut model.values)).collect();
    }
    Some(commands)
}

/// Requests the slash commands. Commands that the host reports by itself are accepted, too.
pub(crate) async fn refresh_commands(link: &Connection) {
    if let Some(commands) = commands(link).await {
        link.live.set_commands(commands);
    }
}
