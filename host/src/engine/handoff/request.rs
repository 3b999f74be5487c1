//! Requests for handoffs, checked before anything is stored: a request that cannot succeed is refused at once.

use std::sync::Arc;

use hermes_core::handoff::{HandoffChange, HandoffState, TERMINAL};
use hermes_core::ids::SessionId;
use hermes_core::pairing::code_ms;
use hermes_protocol::Chat;
use tokio::sync::oneshot;

use super::Lease;
use crate::engine::messages::{Control, HostEvent};
use crate::engine::operator::records::find_own_session;
use crate::engine::operator::{ControlReply, ErrorKind, HandoffInfo};
use crate::engine::runtime::Host;
use crate::engine::targets;
use hermes_core::nearest::nearest;
use hermes_core::text::one_line;
use hermes_loader::AdapterHandle;
use hermes_store::{Change, CommandTx, HandoffAsked, HandoffRow, StoreError};

/// The reason of a handoff that the operator cancelled.
const CANCELLED: &str = "cancelled by the operator";

/// The longest title in a sentence, in characters.
const TITLE_CHARS_MAX: usize = 80;

/// The refusal to start or to cancel a handoff.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// The kind of the error.
    pub kind: ErrorKind,
    /// The sentence for the requester.
    pub words: String,
}

impl Refused {
    fn new(kind: ErrorKind, words: impl Into<String>) -> Self {
        Self { kind, words: words.into() }
    }

    fn state(words: impl Into<String>) -> Self {
        Self::new(ErrorKind::Refused, words)
    }

    /// Creates the refusal for a handoff that a later request of the session has replaced.
    pub(super) fn overtaken(row: &HandoffRow) -> Self {
        Self::state(format!(
            "that handoff has ended and a newer one was requested; `hermes-host handoff show {}` shows its state",
            row.session
        ))
    }
}

impl From<StoreError> for Refused {
    fn from(error: StoreError) -> Self {
        let kind = match error {
            StoreError::Busy { .. } | StoreError::Closed => ErrorKind::Busy,
            _ => ErrorKind::Failed,
        };
        Self::new(kind, error.to_string())
    }
}

impl From<Refused> for ControlReply {
    fn from(refused: Refused) -> Self {
        Self::error(refused.kind, refused.words)
    }
}

/// The reference to one handoff of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// The session.
    pub session: SessionId,
    /// Time of the request, in milliseconds since the Unix epoch; unique within the session.
    pub asked_ms: i64,
}

/// Requests the handoff of a session and wakes the watcher. `target` is an instance, or a chat of one.
///
/// # Errors
///
/// The refusal; nothing has changed then.
pub async fn request(host: &Arc<Host>, session: &str, target: &str) -> Result<Asked, Refused> {
    let id = find(host, session).await?;
    let (instance, chat) = wanted(host, target).await?;
    if let Some(row) = host.store.handoff(&id).await?.filter(|row| row.state.is_live()) {
        return Err(Refused::state(under_way(&row)));
    }
    check(host, &id, &instance, chat.as_ref()).await?;
    if let Some(words) = has_chat(host, &id).await {
        return Err(Refused::state(words));
    }
    if let Some(why) = host.takes_nothing() {
        return Err(Refused::new(ErrorKind::Busy, why));
    }
    // From here on every sender to the session is notified; the store rejects a turn that started before.
    let granted =
        host.handoffs.grant(&id, &Lease { instance: Arc::clone(&instance), inbox: None, owner: None, is_left: false });
    let asked = host.store.handoff_request_to(&id, &instance, chat, host.now_ms()).await;
    let refused = match asked {
        Ok(HandoffAsked::Made { asked_ms }) => {
            crate::engine::crash_points::point("handoff_pending");
            host.handoffs.look();
            return Ok(Asked { session: id, asked_ms });
        }
        // The lease belongs to the handoff that is in progress.
        Ok(HandoffAsked::UnderWay(row)) => {
            host.handoffs.look();
            return Err(Refused::state(under_way(&row)));
        }
        Ok(HandoffAsked::MidTurn) => Refused::state(format!(
            "{} is answering a message right now; try again when it has finished, or stop it there",
            one_line(session, TITLE_CHARS_MAX)
        )),
        Ok(HandoffAsked::Unknown) => Refused::new(ErrorKind::NotFound, format!("session {id} has been deleted")),
        Err(error) => error.into(),
    };
    if granted {
        host.handoffs.let_go(&id);
    }
    Err(refused)
}

/// Cancels the current handoff of a session, and none that begins later. Returns its row.
///
/// # Errors
///
/// Fails if no handoff is in progress.
pub async fn cancel(host: &Arc<Host>, session: &str) -> Result<HandoffRow, Refused> {
    let id = find(host, session).await?;
    let none = || {
        Refused::state(format!(
            "no handoff of session {id} is in progress; `hermes-host handoff show {id}` shows its state"
        ))
    };
    let row = host.store.handoff(&id).await?.filter(|row| row.state.is_live()).ok_or_else(none)?;
    let asked = Asked { session: id.clone(), asked_ms: row.asked_ms };
    let why = HandoffChange::Refused { why: CANCELLED.to_owned() };
    super::watcher::give_up(host, &asked, why).await?.ok_or_else(none)
}

/// Offers a session to the sender who sends its code in a chat.
///
/// # Errors
///
/// The refusal.
pub async fn offer(host: &Arc<Host>, session: &str) -> Result<ControlReply, Refused> {
    let id = find(host, session).await?;
    if let Some(row) = host.store.handoff(&id).await?.filter(|row| row.state.is_live()) {
        return Err(Refused::state(under_way(&row)));
    }
    if let Some(words) = has_chat(host, &id).await {
        return Err(Refused::state(words));
    }
    let (reply, put_up) = oneshot::channel();
    host.tell(HostEvent::control(Control::PutUp { session: id.clone(), reply })).await;
    let put_up = put_up.await.map_err(|_| Refused::new(ErrorKind::Busy, "the host is stopping"))?;
    let Some((code, offered)) = put_up else {
        let words =
            "too many conversations are offered at once; try again in ten minutes, when older codes have expired";
        return Err(Refused::state(words));
    };
    let expires_ms = offered.made_ms.saturating_add(code_ms());
    let changes = vec![Change::Offered(offered)];
    let order = CommandTx { inbox: None, changes, reply: Vec::new(), now_ms: host.now_ms() };
    host.store.command(order).await?;
    let code = code.expose().to_owned();
    let message = format!(
        "send `/claim {code}` in the chat that should continue the conversation; the code works once, for ten minutes"
    );
    Ok(ControlReply::HandoffCode { session: id.0, code, expires_ms, message })
}

/// Describes a handoff for users and for scripts.
pub fn info(row: &HandoffRow) -> HandoffInfo {
    let chat = row.chat.as_ref().map(|chat| shown(&row.instance, chat));
    let resume_here = format!("hermes-host chat --resume {}", row.session);
    let called = row.title.clone().unwrap_or_else(|| row.session.to_string());
    let resume_in_chat = format!("/resume {}", one_line(&called, TITLE_CHARS_MAX));
    let there = chat.clone().unwrap_or_else(|| row.instance.clone());
    let (message, why) = match &row.state {
        HandoffState::None => (format!("session {} was never handed off", row.session), None),
        HandoffState::Pending { .. } => (format!("the handoff to {} has not started yet", row.instance), None),
        HandoffState::Running { .. } => (format!("the handoff to {there} is still in progress"), None),
        HandoffState::Completed if !row.is_there => (
            format!("handed off to {there}, later moved elsewhere; `{resume_here}` continues it in the terminal"),
            None,
        ),
        HandoffState::Completed => {
            (format!("the conversation continues in {there}; `{resume_here}` continues it in the terminal"), None)
        }
        HandoffState::Failed { why } => {
            (format!("not handed off to {}: {why}; the conversation is unchanged", row.instance), Some(why.clone()))
        }
    };
    HandoffInfo {
        session: row.session.to_string(),
        title: row.title.clone(),
        instance: row.instance.clone(),
        state: row.state.word().to_owned(),
        why,
        chat,
        asked_ms: row.asked_ms,
        since_ms: row.at_ms,
        message,
        resume_here,
        resume_in_chat,
    }
}

/// Repeats the checks before the watcher claims a handoff, and returns the destination: `here` if that chat was
/// requested or found by an earlier claim, which may have bound it to the session already; otherwise the home channel.
///
/// # Errors
///
/// The refusal.
pub(super) async fn check(
    host: &Arc<Host>,
    session: &SessionId,
    instance: &Arc<str>,
    here: Option<&Chat>,
) -> Result<(AdapterHandle, Chat), Refused> {
    let Some(adapter) = host.adapter(instance) else {
        return Err(Refused::new(ErrorKind::NotFound, targets::no_instance(host, instance)));
    };
    if !adapter.capabilities().supports_async_delivery {
        return Err(Refused::state(format!(
            "{instance} can't send messages on its own; choose an instance with async delivery"
        )));
    }
    if !adapter.is_online() {
        let state = adapter.state();
        let reason = state.reason().map(|reason| format!(" ({})", one_line(reason, 200))).unwrap_or_default();
        return Err(Refused::state(format!(
            "{instance} is {}{reason} and cannot accept a handoff; `hermes-host adapter list` shows its state",
            state.word()
        )));
    }
    let home = match here {
        Some(chat) => chat.clone(),
        None => targets::home(host, &adapter).await.map_err(Refused::state)?,
    };
    let is_here = |(at, chat): &(String, Chat)| **at == **instance && Some(chat) == here;
    if let Some(words) = is_owned(host, session, is_here).await {
        return Err(Refused::state(words));
    }
    Ok((adapter, home))
}

/// Returns a sentence about the chat that has a session; `None`: no chat has it.
pub(crate) async fn has_chat(host: &Arc<Host>, session: &SessionId) -> Option<String> {
    is_owned(host, session, |_| false).await
}

/// Returns a sentence about a chat that has a session and does not count as free; `None`: there is none.
async fn is_owned(host: &Arc<Host>, session: &SessionId, is_free: impl Fn(&(String, Chat)) -> bool) -> Option<String> {
    let (reply, owned) = oneshot::channel();
    let control = Control::LedTo { session: session.clone(), reply };
    host.tell(HostEvent::control(control)).await;
    // Without the dispatcher the host ends; nothing is stored then.
    let chats = owned.await.unwrap_or_default();
    let (instance, chat) = chats.into_iter().find(|led| led.0 != TERMINAL && !is_free(led))?;
    Some(format!("the conversation continues in {}; `/new` there releases it", shown(&instance, &chat)))
}

/// Finds the operator's session of this name. Sessions of other owners cannot be moved.
async fn find(host: &Arc<Host>, name: &str) -> Result<SessionId, Refused> {
    match find_own_session(&host.store, name).await {
        Ok(row) => Ok(row.id),
        Err(ControlReply::Error { kind, message }) => Err(Refused::new(kind, message)),
        Err(_) => Err(Refused::new(ErrorKind::Failed, "the session could not be looked up")),
    }
}

/// Reads the target of a handoff: an instance, or an instance, a colon and one of its chats.
async fn wanted(host: &Arc<Host>, target: &str) -> Result<(Arc<str>, Option<Chat>), Refused> {
    let Some((instance, place)) = target.split_once(':') else { return Ok((instance_of(host, target)?, None)) };
    let instance = instance_of(host, instance.trim())?;
    let adapter = host
        .adapter(&instance)
        .ok_or_else(|| Refused::new(ErrorKind::NotFound, targets::no_instance(host, &instance)))?;
    let chat = targets::known_place(host, &adapter, place.trim()).await;
    Ok((instance, Some(chat.map_err(|words| Refused::new(ErrorKind::NotFound, words))?)))
}

/// Finds the instance of this name, or the only instance of the plugin of this name.
fn instance_of(host: &Host, wanted: &str) -> Result<Arc<str>, Refused> {
    let all = host.adapters().map(hermes_loader::Adapters::all).unwrap_or_default();
    if wanted == TERMINAL {
        let words = "the terminal needs no handoff; `hermes-host chat --resume` continues a conversation there";
        return Err(Refused::new(ErrorKind::Invalid, words));
    }
    if let Some(adapter) = all.iter().find(|adapter| **adapter.instance() == *wanted) {
        return Ok(Arc::clone(adapter.instance()));
    }
    let same: Vec<&AdapterHandle> = all.iter().filter(|adapter| adapter.plugin() == wanted).collect();
    match same.as_slice() {
        [] => Err(Refused::new(ErrorKind::NotFound, unknown(host, wanted, &all))),
        [only] => Ok(Arc::clone(only.instance())),
        several => {
            let names: Vec<&str> = several.iter().map(|adapter| &**adapter.instance()).collect();
            let words = format!("{wanted} has several instances; name one: {}", names.join(", "));
            Err(Refused::new(ErrorKind::Invalid, words))
        }
    }
}

/// Describes an unknown name and suggests the nearest plugin or instance.
fn unknown(host: &Host, wanted: &str, all: &[AdapterHandle]) -> String {
    let plugins = all.iter().map(AdapterHandle::plugin);
    match nearest(wanted, plugins) {
        Some(near) => format!("there is no instance {wanted:?}; did you mean {near:?}?"),
        None => targets::no_instance(host, wanted),
    }
}

fn under_way(row: &HandoffRow) -> String {
    format!(
        "a handoff of the conversation to {} is already in progress; `hermes-host handoff show {}` shows its state",
        row.instance, row.session
    )
}

/// Describes a chat for users.
pub(crate) fn shown(instance: &str, chat: &Chat) -> String {
    let name = |name: &Option<String>, id: &str| match name.as_deref() {
        Some(name) if !name.is_empty() => one_line(name, TITLE_CHARS_MAX),
        _ => id.to_owned(),
    };
    let place = format!("{instance}:{}", name(&chat.name, &chat.id));
    match &chat.thread {
        Some(thread) => format!("{place}, {}", name(&chat.thread_name, thread)),
        None => place,
    }
}
