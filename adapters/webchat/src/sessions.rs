//! The conversations as the host knows them: which session each goes on in, what it is
//! called, and the person's sessions that go on nowhere on this page.
//!
//! The host is the one who knows. What it said last is kept here for as long as the page
//! needs to be drawn, and asked for anew whenever something happened that may have
//! changed it, and every [`SWEEP`] while somebody looks: a title given elsewhere, a
//! branch, a session begun in the terminal. Where `sessions.list` is not granted the
//! page has its own conversations, under the titles that were given on it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hermes_adapter_sdk::prelude::*;
use hermes_adapter_sdk::protocol::host_method;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::connection::Connection;
use crate::inbound::operator;
use crate::log::{Conversation, Entry, From};
use crate::outbound;

/// How often the host is asked while a page is open and nothing happens on it.
const SWEEP: Duration = Duration::from_secs(10);
/// How long what comes close together is waited for; the host names a session a moment after its first answer.
const SETTLE: Duration = Duration::from_millis(250);
/// Sessions that are asked for; the host gives no more at once.
const SESSIONS_MAX: u32 = 200;
/// Sessions from elsewhere on the page's list; the search finds the others.
const ELSEWHERE_MAX: usize = 50;
/// Messages that are shown of a session that has no log here.
const HISTORY_MAX: u32 = 200;
/// Places that a search names.
const HITS_MAX: u32 = 20;
/// How long a session that is to be deleted may take to end its turn.
const ENDS_WITHIN: Duration = Duration::from_secs(4);
/// How often it is looked at meanwhile.
const ENDS_LOOK: Duration = Duration::from_millis(100);

/// One session of the person at the page.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub(crate) struct Session {
    pub(crate) id: String,
    #[serde(default)]
    pub(crate) title: Option<String>,
    #[serde(default)]
    source: String,
    #[serde(default)]
    messages: u64,
    #[serde(default)]
    active_ms: i64,
    #[serde(default)]
    end_reason: Option<String>,
    /// The chats of this page in which it goes on.
    #[serde(default)]
    chats: Vec<Chat>,
}

/// What the host said last.
#[derive(Default)]
pub(crate) struct Sessions {
    /// `None` until it said something, and where it does not.
    known: Mutex<Option<Vec<Session>>>,
    wanted: Notify,
    /// One question at a time.
    asking: tokio::sync::Mutex<()>,
    /// One session is gone on with at a time, so that it goes on in one conversation however often that is asked for.
    going_on: tokio::sync::Mutex<()>,
}

impl Sessions {
    fn known(&self) -> MutexGuard<'_, Option<Vec<Session>>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Something happened after which the host may say something else.
    pub(crate) fn stir(&self) {
        self.wanted.notify_one();
    }

    /// A session is gone; until the host is asked again it would be shown as one that goes on nowhere.
    pub(crate) fn forget(&self, id: &str) {
        if let Some(known) = self.known().as_mut() {
            known.retain(|session| session.id != id);
        }
    }

    /// The session in which a conversation goes on.
    pub(crate) fn of(&self, conversation: &str) -> Option<Session> {
        let known = self.known();
        let goes_on = |session: &&Session| session.chats.iter().any(|chat| chat.id == conversation);
        known.iter().flatten().find(goes_on).cloned()
    }

    /// A session by its id.
    fn one(&self, id: &str) -> Option<Session> {
        self.known().iter().flatten().find(|session| session.id == id).cloned()
    }
}

/// The conversations and the other sessions, as the page's list has them.
pub(crate) async fn list(link: &Connection) -> (Vec<Value>, Vec<Value>) {
    let conversations = link.log.conversations().await;
    let lines = conversations.iter().map(|line| outbound::line(link, line)).collect();
    (lines, elsewhere(link, &conversations))
}

/// The person's sessions that go on in none of these conversations.
fn elsewhere(link: &Connection, conversations: &[Conversation]) -> Vec<Value> {
    let here = |chat: &Chat| conversations.iter().any(|line| line.id == chat.id);
    let known = link.sessions.known();
    let others = known.iter().flatten().filter(|session| {
        // A session that was compressed goes on in its summary.
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

/// Keeps what is known true, for as long as the page is served.
pub(crate) async fn keep_true(link: &Arc<Connection>) {
    loop {
        if tokio::time::timeout(SWEEP, link.sessions.wanted.notified()).await.is_err() && !crate::api::is_looked_at() {
            continue;
        }
        tokio::time::sleep(SETTLE).await;
        refresh(link).await;
    }
}

/// Asks the host, and tells the page what is different.
pub(crate) async fn refresh(link: &Arc<Connection>) {
    let _asking = link.sessions.asking.lock().await;
    let mut told = match ask::<Vec<Session>>(link, host_method::SESSIONS_LIST, json!({ "limit": SESSIONS_MAX })).await {
        Ok(told) => told,
        Err(error) => {
            // What was known stays until the host says something else.
            tracing::debug!(code = error.code, "the host tells of no sessions: {error}");
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
            tracing::warn!(conversation = line.id, "where a conversation goes on cannot be kept: {error}");
        }
        let title = |session: &Option<Session>| session.as_ref().and_then(|session| session.title.clone());
        if (moved || title(&session) != title(&former))
            && let Some(line) = link.log.conversation(&line.id).await
        {
            outbound::tell_conversation(link, &line);
        }
    }
    let now = elsewhere(link, &conversations);
    if now != before {
        link.live.publish(&json!({ "type": "sessions", "sessions": now }));
    }
}

/// A full list leaves sessions out: adds those of the conversations that it says nothing about. Returns the
/// conversations of which the host does not tell, about which everything stays as it was.
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
                tracing::debug!(code = error.code, session = id, "the host does not tell of a session: {error}");
                told.extend(former.clone());
                unsure.push(line.id.as_str());
            }
        }
    }
    unsure
}

/// Remembers in which session a conversation goes on. One that left its session has
/// another subject, so the title that was made up for it goes.
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

/// Calls a method of the host for the person at the page.
async fn ask<T: DeserializeOwned>(link: &Connection, method: &str, mut payload: Value) -> Result<T, CallError> {
    payload["sender"] = json!(operator());
    link.host.call(method, &payload).await
}

/// Whether the host does not do such a thing for this page.
fn is_withheld(error: &CallError) -> bool {
    matches!(error.code.as_str(), "not_granted" | "unsupported")
}

/// Names a session; a title that is taken gets a number. Returns the title as the host
/// keeps it; `None` where it lets nobody rename.
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

/// Deletes a session. One whose turn is being stopped is waited for.
pub(crate) async fn delete(link: &Connection, session: &str) -> Result<(), CallError> {
    let wish = json!({ "session_id": session });
    let mut looks = ENDS_WITHIN.as_millis() / ENDS_LOOK.as_millis();
    loop {
        match ask::<Value>(link, host_method::SESSIONS_DELETE, wish.clone()).await {
            Err(error) if error.code == "refused" && looks > 0 => looks -= 1,
            // Gone, or nothing that this page may do.
            Err(error) if error.code == "not_found" || is_withheld(&error) => return Ok(()),
            Err(error) if error.code == "refused" => {
                return Err(CallError::new("refused", "it is still answering; stop it and try again"));
            }
            other => return other.map(drop),
        }
        tokio::time::sleep(ENDS_LOOK).await;
    }
}

/// A session that has no log here, as far as the page shows it.
#[derive(Serialize)]
pub(crate) struct Past {
    session: Value,
    entries: Vec<Value>,
}

/// Reads what was said in a session.
pub(crate) async fn past(link: &Arc<Connection>, id: &str) -> Result<Past, CallError> {
    let session: Session = ask(link, host_method::SESSIONS_GET, json!({ "session_id": id })).await?;
    let entries = entries(link, id).await?;
    Ok(Past { session: shown(&session), entries: entries.iter().map(|entry| outbound::shown("", entry)).collect() })
}

#[derive(Deserialize)]
struct Told {
    id: i64,
    role: String,
    content: String,
    at_ms: i64,
}

async fn entries(link: &Connection, id: &str) -> Result<Vec<Entry>, CallError> {
    let wish = json!({ "session_id": id, "limit": HISTORY_MAX });
    let told: Vec<Told> = ask(link, host_method::SESSIONS_HISTORY, wish).await?;
    let entry = |told: Told| {
        let from = match told.role.as_str() {
            "user" => From::Me,
            "assistant" => From::Agent,
            _ => return None,
        };
        // A call of a tool says nothing by itself.
        let mut entry = (!told.content.trim().is_empty())
            .then(|| Entry::new(format!("h-{}", told.id), from, told.content, told.at_ms))?;
        entry.markdown = from == From::Agent;
        Some(entry)
    };
    Ok(told.into_iter().filter_map(entry).collect())
}

/// Goes on with a session in a conversation of this page: with the one where it goes on
/// already, or in a new one that begins with what was said so far. `/resume` does it, so
/// that whatever speaks against it is said in the host's words.
pub(crate) async fn go_on(link: &Arc<Connection>, id: &str) -> Result<Conversation, CallError> {
    let _going_on = link.sessions.going_on.lock().await;
    refresh(link).await;
    let missing = || CallError::new("not_found", "there is no such conversation any more");
    let session = link.sessions.one(id).ok_or_else(missing)?;
    for chat in &session.chats {
        if let Some(line) = link.log.conversation(&chat.id).await {
            return Ok(line);
        }
    }
    let past = entries(link, id).await?;
    let line = crate::inbound::begin(link, session.title.as_deref().unwrap_or_default()).await?;
    let led = match link.log.copy(&line.id, past).await {
        Ok(()) => crate::inbound::resume(link, &line, id).await,
        Err(error) => Err(error),
    };
    refresh(link).await;
    if let Err(error) = led.and_then(|refused| match link.sessions.of(&line.id) {
        Some(_) => Ok(()),
        None => Err(CallError::new("refused", refused.unwrap_or_else(|| "the host did not go on with it".to_owned()))),
    }) {
        link.log.delete(&line.id).await?;
        link.live.forget(&line.id);
        return Err(error);
    }
    Ok(link.log.conversation(&line.id).await.unwrap_or(line))
}

/// Finds where words were said, in any of the person's sessions.
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

/// The commands of this person, with the models that there are; `None` where the host does not tell.
pub(crate) async fn commands(link: &Connection) -> Option<Vec<CommandInfo>> {
    #[derive(Deserialize)]
    struct Model {
        id: String,
    }
    let mut commands: Vec<CommandInfo> = match ask(link, host_method::COMMANDS_LIST, json!({})).await {
        Ok(commands) => commands,
        Err(error) => {
            tracing::debug!(code = error.code, "the host does not say who may run what: {error}");
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
