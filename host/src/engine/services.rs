//! The requests of adapters to the host: events, small values, files, and the sessions of their senders.
//!
//! An adapter is trusted only for its own instance: values are kept per instance, turns are found by events of that
//! instance, and a session is shown only to a sender who is admitted there and owns it.

mod value_writes;

use std::collections::BTreeMap;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use hermes_core::access::{Tier, Trust};
use hermes_core::commands::{self, Place};
use hermes_core::ids::{InboxId, SessionId};
use hermes_core::limits::KV_VALUE_BYTES_MAX;
use hermes_core::session::{MAIN_PROFILE, SessionKey, participant};
use hermes_protocol::{CallError, Chat, Sender, host_method};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};

use crate::engine::ingress::Ingress;
use crate::engine::messages::{Control, HostEvent, TurnWish};
use crate::engine::runtime::Host;
use crate::engine::services::value_writes::ValueWrites;
use hermes_core::text::one_line;
use hermes_loader::{AdapterHandle, HostServices};
use hermes_store::{Change, CommandTx, NewFork, NewSession, RouteRow, SessionFilter, SessionRow, StoreError};

/// The owner of the operator's sessions, on every instance.
pub const OPERATOR: &str = "operator";

/// The longest name of a kept value, in bytes.
const KV_KEY_BYTES_MAX: usize = 256;

/// The longest name of a chat in an answer, in characters.
const CHAT_NAME_CHARS_MAX: usize = 64;

/// Rows of one listing.
const ROWS_MAX: u32 = 200;

/// The handler of the calls of all adapters.
pub struct Services {
    shared: Arc<Shared>,
}

struct Shared {
    host: Arc<Host>,
    ingress: Ingress,
    value_writes: ValueWrites,
}

type Answer = Result<Vec<u8>, CallError>;

impl Services {
    /// Creates the services of `host`. Must be called inside its runtime.
    pub fn new(host: Arc<Host>) -> Self {
        let ingress = Ingress::new(Arc::clone(&host));
        let value_writes = ValueWrites::new(host.clock.clone());
        Self { shared: Arc::new(Shared { host, ingress, value_writes }) }
    }
}

impl HostServices for Services {
    fn call(&self, from: &AdapterHandle, method: &str, payload: Vec<u8>) -> BoxFuture<'static, Answer> {
        if method == host_method::EMIT {
            // Queued in this call, so that events keep the order of the calls.
            let taken = self.shared.ingress.give(from.instance(), payload);
            return Box::pin(async move {
                let gone = || CallError::new("unavailable", "the host is stopping");
                write(&taken.await.unwrap_or_else(|_| Err(gone()))?)
            });
        }
        let (shared, from, method) = (Arc::clone(&self.shared), from.clone(), method.to_owned());
        Box::pin(async move { shared.answer(&from, &method, payload).await })
    }

    fn locked(
        &self,
        from: &AdapterHandle,
        identity: String,
        is_first: bool,
    ) -> BoxFuture<'static, Result<(), CallError>> {
        let (host, instance) = (Arc::clone(&self.shared.host), Arc::clone(from.instance()));
        Box::pin(
            async move { host.accounts.locked(&host.store, &instance, &identity, is_first).await.map_err(unavailable) },
        )
    }
}

impl Shared {
    async fn answer(&self, from: &AdapterHandle, method: &str, payload: Vec<u8>) -> Answer {
        let instance = from.instance();
        match method {
            host_method::KV_GET => self.kv_get(instance, read(&payload)?).await,
            host_method::KV_SET => self.kv_set(instance, read(&payload)?).await,
            host_method::KV_DELETE => self.kv_delete(instance, read(&payload)?).await,
            host_method::MEDIA_CREATE => write(&self.host.media.create(instance, read(&payload)?).await?),
            host_method::MEDIA_COMMIT => write(&self.host.media.commit(instance, &read::<Named>(&payload)?.id).await?),
            host_method::TURNS_STOP => self.turn_stop(instance, read(&payload)?).await,
            host_method::TURNS_STATUS => self.turn_status(instance, read(&payload)?).await,
            host_method::CHOICES_ANSWER => self.choices_answer(from, read(&payload)?).await,
            host_method::MODELS_LIST => {
                let models = self.host.runtime.models();
                write(&models.into_iter().map(|id| json!({ "id": id })).collect::<Vec<_>>())
            }
            host_method::COMMANDS_LIST => self.commands_list(from, read(&payload)?),
            host_method::SESSIONS_LIST => self.sessions_list(from, read(&payload)?).await,
            host_method::SESSIONS_GET => self.sessions_get(from, read(&payload)?).await,
            host_method::SESSIONS_HISTORY => self.sessions_history(from, read(&payload)?).await,
            host_method::SESSIONS_CREATE => self.sessions_create(from, read(&payload)?).await,
            host_method::SESSIONS_RENAME => self.sessions_rename(from, read(&payload)?).await,
            host_method::SESSIONS_DELETE => self.sessions_delete(from, read(&payload)?).await,
            host_method::SESSIONS_FORK => self.sessions_fork(from, read(&payload)?).await,
            host_method::SESSIONS_SEARCH => self.sessions_search(from, read(&payload)?).await,
            _ => Err(CallError::new("unsupported", format!("the host has no method {method}"))),
        }
    }

    async fn kv_get(&self, instance: &str, key: Key) -> Answer {
        let scope = self.host.accounts.own(instance, instance);
        let value = self.host.store.kv_get(&scope, key.checked()?).await.map_err(unavailable)?;
        write(&json!({ "value": value }))
    }

    async fn kv_set(&self, instance: &Arc<str>, pair: KeyValue) -> Answer {
        let key = pair.key.checked()?;
        if pair.value.len() > KV_VALUE_BYTES_MAX {
            return Err(CallError::new(
                "too_large",
                format!("a stored value may have at most {KV_VALUE_BYTES_MAX} bytes"),
            ));
        }
        let _turn = self.value_writes.turn(instance, key.len() + pair.value.len()).await;
        let scope = self.host.accounts.own(instance, instance);
        self.host.store.kv_set(&scope, key, &pair.value).await.map_err(refused)?;
        nothing()
    }

    async fn kv_delete(&self, instance: &Arc<str>, key: Key) -> Answer {
        let key = key.checked()?;
        let _turn = self.value_writes.turn(instance, key.len()).await;
        let scope = self.host.accounts.own(instance, instance);
        self.host.store.kv_delete(&scope, key).await.map_err(unavailable)?;
        nothing()
    }

    async fn turn_stop(&self, instance: &Arc<str>, of: OfEvent) -> Answer {
        let state = self.ask_lanes(instance, of.inbox_id, TurnWish::Stop).await;
        write(&json!({ "stopped": state.is_some() }))
    }

    async fn turn_status(&self, instance: &Arc<str>, of: OfEvent) -> Answer {
        let state = self.ask_lanes(instance, of.inbox_id, TurnWish::Tell).await;
        write(&json!({ "state": state.unwrap_or("over") }))
    }

    async fn choices_answer(&self, from: &AdapterHandle, call: AnswerChoice) -> Answer {
        let AnswerChoice { ask, option, sender } = call;
        let tier = self.tier(from, &Chat::dm(sender.id.clone()), &sender).ok_or_else(not_admitted)?;
        let (reply, taken) = oneshot::channel();
        let instance = Arc::clone(from.instance());
        let answer = Control::Answer { instance, ask, option, sender: Box::new(sender), tier, reply };
        self.host.tell(HostEvent::control(answer)).await;
        match taken.await {
            Ok(Ok(())) => nothing(),
            Ok(Err((code, words))) => Err(CallError::new(code, words)),
            Err(_) => Err(CallError::new("unavailable", "the host is stopping")),
        }
    }

    /// Asks every lane for the turn of an event; the lane of the turn answers.
    async fn ask_lanes(&self, instance: &Arc<str>, inbox: i64, wish: TurnWish) -> Option<&'static str> {
        let (reply, mut answer) = mpsc::channel(1);
        let instance = Arc::clone(instance);
        let inbox = InboxId(inbox);
        self.host.tell(HostEvent::control(Control::Turn { instance, inbox, wish, reply })).await;
        answer.recv().await
    }

    async fn sessions_list(&self, from: &AdapterHandle, call: ListSessions) -> Answer {
        let owner = self.owner(from, &call.sender)?;
        let limit = call.limit.unwrap_or(ROWS_MAX).min(ROWS_MAX);
        let filter =
            SessionFilter { owner: Some(owner), with_ended: true, limit: ROWS_MAX, ..SessionFilter::default() };
        let rows = self.host.store.sessions(filter).await.map_err(unavailable)?;
        let before = call.before_ms.unwrap_or(i64::MAX);
        let led = self.led(from).await;
        let rows = rows.iter().filter(|row| row.active_ms < before).take(limit as usize);
        write(&rows.map(|row| session_json(row, &led)).collect::<Vec<_>>())
    }

    async fn sessions_get(&self, from: &AdapterHandle, call: OneSession) -> Answer {
        let row = self.owned(from, &call).await?;
        write(&session_json(&row, &self.led(from).await))
    }

    /// Returns the chats of the asking instance, by the session that continues in them.
    async fn led(&self, from: &AdapterHandle) -> Led {
        let (reply, led) = oneshot::channel();
        let instance = Arc::clone(from.instance());
        self.host.tell(HostEvent::control(Control::Led { instance, reply })).await;
        let mut chats = Led::new();
        // Without the dispatcher the host ends, and no session has a chat.
        for (session, chat) in led.await.unwrap_or_default() {
            chats.entry(session).or_default().push(chat);
        }
        chats
    }

    /// Writes a new session as JSON.
    async fn write_session(&self, from: &AdapterHandle, id: &SessionId) -> Answer {
        let row = self.host.store.session(id).await.map_err(unavailable)?;
        let led = self.led(from).await;
        write(&row.map_or(Value::Null, |row| session_json(&row, &led)))
    }

    /// Lists the commands of the common menu, or those that one sender may run in a direct message.
    fn commands_list(&self, from: &AdapterHandle, call: ListCommands) -> Answer {
        let live = self.host.live();
        let Some(sender) = call.sender else { return write(&commands::menu(&live.gates)) };
        let (chat, instance) = (Chat::dm(sender.id.clone()), from.instance());
        let tier = self.tier(from, &chat, &sender).ok_or_else(not_admitted)?;
        write(&commands::menu_for(Place::Dm, &live.gates, |command| {
            live.access.may_run(instance, &chat, tier, command)
        }))
    }

    async fn sessions_history(&self, from: &AdapterHandle, call: OneSession) -> Answer {
        let session = self.owned(from, &call).await?;
        let limit = call.limit.unwrap_or(ROWS_MAX).min(ROWS_MAX);
        let rows = self.host.store.history(&session.id, limit).await.map_err(unavailable)?;
        let rows = rows.into_iter().map(
            |row| json!({ "id": row.id, "role": row.message.role, "content": row.message.content, "at_ms": row.at_ms }),
        );
        write(&rows.collect::<Vec<_>>())
    }

    async fn sessions_create(&self, from: &AdapterHandle, call: CreateSession) -> Answer {
        let owner = self.owner(from, &call.sender)?;
        let now_ms = self.host.now_ms();
        let id = self.host.new_session_id();
        let route = self.route_of(from, &call.sender, call.chat, &id)?;
        let session = NewSession {
            id: id.clone(),
            profile: MAIN_PROFILE.to_owned(),
            source: from.instance().to_string(),
            owner: Some(owner),
            settings: Default::default(),
            parent: None,
            title: call.title,
            started_ms: now_ms,
        };
        let changes = vec![Change::NewSession(session), Change::BindRoute(route.clone())];
        let order = CommandTx { inbox: None, changes, reply: Vec::new(), now_ms };
        self.host.store.command(order).await.map_err(refused)?;
        self.host.tell(HostEvent::control(Control::Bind { route: Box::new(route) })).await;
        self.write_session(from, &id).await
    }

    async fn sessions_fork(&self, from: &AdapterHandle, call: ForkSession) -> Answer {
        let parent = self.owned(from, &call.of).await?;
        let now_ms = self.host.now_ms();
        let id = self.host.new_session_id();
        let fork = NewFork {
            from: parent.id,
            id: id.clone(),
            source: from.instance().to_string(),
            owner: parent.owner,
            title: call.title,
            started_ms: now_ms,
        };
        let route = call.chat.map(|chat| self.route_of(from, &call.of.sender, chat, &id)).transpose()?;
        let bind = route.clone().map(Change::BindRoute);
        let changes = [Change::Fork(fork)].into_iter().chain(bind).collect();
        let order = CommandTx { inbox: None, changes, reply: Vec::new(), now_ms };
        self.host.store.command(order).await.map_err(refused)?;
        if let Some(route) = route {
            self.host.tell(HostEvent::control(Control::Bind { route: Box::new(route) })).await;
        }
        self.write_session(from, &id).await
    }

    /// Returns the route from a sender's messages in a chat to a session.
    fn route_of(&self, from: &AdapterHandle, who: &Sender, chat: Chat, to: &SessionId) -> Result<RouteRow, CallError> {
        let policy = self.host.live().key_policy(from.instance());
        let key = SessionKey::for_chat(MAIN_PROFILE, from.instance(), &chat, who, policy)
            .map_err(|error| CallError::new("invalid", error.to_string()))?;
        let now_ms = self.host.now_ms();
        Ok(RouteRow::new(key.stored(), MAIN_PROFILE, &**from.instance(), to.clone(), chat, now_ms))
    }

    async fn sessions_rename(&self, from: &AdapterHandle, call: RenameSession) -> Answer {
        let session = self.owned(from, &call.of).await?;
        let title = Some(call.title.trim()).filter(|title| !title.is_empty());
        let kept = match (title, call.numbered) {
            (Some(title), true) => {
                Some(self.host.store.session_rename_numbered(&session.id, title).await.map_err(refused)?)
            }
            _ => {
                self.host.store.session_rename(&session.id, title).await.map_err(refused)?;
                title.map(str::to_owned)
            }
        };
        write(&json!({ "title": kept }))
    }

    async fn sessions_delete(&self, from: &AdapterHandle, call: OneSession) -> Answer {
        let session = self.owned(from, &call).await?;
        if let Some(why) = self.goes_on_elsewhere(from, &session.id).await {
            return Err(CallError::new("in_use", why));
        }
        let files = self.host.store.session_delete(&session.id).await.map_err(refused)?;
        self.host.media.discard(files).await;
        let (reply, forgotten) = oneshot::channel();
        self.host.tell(HostEvent::control(Control::Forget { session: session.id, reply })).await;
        // Without the dispatcher the host ends, and nothing is left to forget.
        let _ = forgotten.await;
        nothing()
    }

    /// Returns the reason for which an adapter must not delete a session: another chat uses it.
    async fn goes_on_elsewhere(&self, from: &AdapterHandle, session: &SessionId) -> Option<String> {
        let (reply, places) = oneshot::channel();
        self.host.tell(HostEvent::control(Control::Places { session: session.clone(), reply })).await;
        // Without the dispatcher the host ends, and no session has a chat.
        let mut places = places.await.unwrap_or_default();
        if let Some(own) = places.iter().position(|(instance, _)| **instance == **from.instance()) {
            places.swap_remove(own);
        }
        let (instance, chat) = places.first()?;
        let chat = chat.name.as_deref().filter(|name| !name.is_empty()).unwrap_or(&chat.id);
        Some(format!(
            "{instance} ({}) also uses this conversation and would lose it; send /new there first, \
             or delete it everywhere with `hermes-host session delete {session}`",
            one_line(chat, CHAT_NAME_CHARS_MAX)
        ))
    }

    async fn sessions_search(&self, from: &AdapterHandle, call: SearchSessions) -> Answer {
        let owner = self.owner(from, &call.sender)?;
        let limit = call.limit.unwrap_or(20).min(ROWS_MAX);
        write(&self.host.store.search_owned(&call.query, Some(&owner), limit).await.map_err(refused)?)
    }

    /// Returns the owner name of a sender who is admitted on this instance.
    fn owner(&self, from: &AdapterHandle, sender: &Sender) -> Result<String, CallError> {
        match (self.tier(from, &Chat::dm(sender.id.clone()), sender), participant(sender)) {
            (Some(Tier::Operator), _) => Ok(OPERATOR.to_owned()),
            (Some(_), Some(id)) => Ok(format!("{}:{id}", from.instance())),
            _ => Err(not_admitted()),
        }
    }

    /// Returns the tier of a sender; `None`: the sender is not admitted on this instance.
    fn tier(&self, from: &AdapterHandle, chat: &Chat, sender: &Sender) -> Option<Tier> {
        let trust = Trust::of(from.trusted(), &from.capabilities());
        self.host.live().access.tier_of(from.instance(), chat, sender, &self.host.grants(), trust)
    }

    /// Returns a session that a sender owns. A session of another owner counts as missing.
    async fn owned(&self, from: &AdapterHandle, call: &OneSession) -> Result<SessionRow, CallError> {
        let owner = self.owner(from, &call.sender)?;
        let id = SessionId(call.session_id.clone());
        let row = self.host.store.session(&id).await.map_err(unavailable)?;
        row.filter(|row| row.owner.as_ref() == Some(&owner))
            .ok_or_else(|| CallError::new("not_found", "this sender has no such session"))
    }
}

#[derive(Deserialize)]
struct Key {
    key: String,
}

impl Key {
    fn checked(&self) -> Result<&str, CallError> {
        match self.key.len() {
            1..=KV_KEY_BYTES_MAX => Ok(&self.key),
            _ => Err(CallError::new("invalid", format!("a key must have 1 to {KV_KEY_BYTES_MAX} bytes"))),
        }
    }
}

#[derive(Deserialize)]
struct KeyValue {
    #[serde(flatten)]
    key: Key,
    value: String,
}

#[derive(Deserialize)]
struct Named {
    id: String,
}

#[derive(Deserialize)]
struct OfEvent {
    inbox_id: i64,
}

#[derive(Deserialize)]
struct AnswerChoice {
    ask: String,
    option: String,
    sender: Sender,
}

#[derive(Deserialize)]
struct ListSessions {
    sender: Sender,
    limit: Option<u32>,
    before_ms: Option<i64>,
}

#[derive(Deserialize)]
struct OneSession {
    sender: Sender,
    session_id: String,
    limit: Option<u32>,
}

#[derive(Deserialize)]
struct RenameSession {
    #[serde(flatten)]
    of: OneSession,
    title: String,
    /// True if a duplicate title gets a number; otherwise it is refused.
    #[serde(default)]
    numbered: bool,
}

#[derive(Deserialize)]
struct ListCommands {
    sender: Option<Sender>,
}

/// Chats by the session that continues in them.
type Led = BTreeMap<SessionId, Vec<Chat>>;

#[derive(Deserialize)]
struct CreateSession {
    sender: Sender,
    chat: Chat,
    title: Option<String>,
}

#[derive(Deserialize)]
struct ForkSession {
    #[serde(flatten)]
    of: OneSession,
    chat: Option<Chat>,
    title: Option<String>,
}

#[derive(Deserialize)]
struct SearchSessions {
    sender: Sender,
    query: String,
    limit: Option<u32>,
}

fn session_json(row: &SessionRow, led: &Led) -> Value {
    json!({
        "chats": led.get(&row.id).map(Vec::as_slice).unwrap_or_default(),
        "id": row.id, "title": row.title, "source": row.source, "messages": row.messages,
        "started_ms": row.started_ms, "active_ms": row.active_ms, "ended_ms": row.ended_ms, "end_reason": row.end_reason,
    })
}

fn read<T: DeserializeOwned>(payload: &[u8]) -> Result<T, CallError> {
    serde_json::from_slice(payload)
        .map_err(|error| CallError::new("invalid", format!("the call cannot be read: {error}")))
}

fn write(value: &impl Serialize) -> Answer {
    serde_json::to_vec(value).map_err(|error| CallError::new("failed", error.to_string()))
}

fn nothing() -> Answer {
    Ok(b"{}".to_vec())
}

fn not_admitted() -> CallError {
    CallError::new("refused", "this sender is not admitted")
}

fn unavailable(error: StoreError) -> CallError {
    CallError::new("unavailable", error.to_string())
}

fn refused(error: StoreError) -> CallError {
    let code = match error {
        StoreError::Missing { .. } => "not_found",
        StoreError::TitleTaken { .. }
        | StoreError::Conflict { .. }
        | StoreError::TooMany { .. }
        | StoreError::TooLarge { .. } => "refused",
        _ => "unavailable",
    };
    CallError::new(code, error.to_string())
}
