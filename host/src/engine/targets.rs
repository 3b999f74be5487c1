//! The targets of unrequested messages: from the text of a person to a chat.
//!
//! The grammar is [`hermes_core::delivery::Target`]. The adapter resolves the text after the instance if it can read
//! its own ids (`ResolveTarget`); otherwise the known chats are searched. An unknown target is an error that suggests
//! similar ones, and never another chat.

use std::fmt::Write as _;

use hermes_core::delivery::{Named, OFFERED_MAX, Target, by_name, readings};
use hermes_protocol::{CallError, Chat, method};
use serde_json::json;
use tokio::sync::oneshot;

use crate::engine::messages::{Control, HostEvent};
use crate::engine::runtime::Host;
use hermes_config::HomeChannel;
use hermes_core::nearest::nearest;
use hermes_loader::AdapterHandle;
use hermes_store::{Change, CommandTx, KnownChat};

/// Chats that an adapter may list at once; further ones are ignored.
const LISTED_MAX: usize = 2_000;

/// A chat that can be written to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// The instance.
    pub instance: String,
    /// The chat.
    pub chat: Chat,
}

/// The destination of a target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Destination {
    /// The text stays on this machine.
    Local,
    /// A chat.
    Chat(Address),
}

/// Resolves a target as a person wrote it; `origin` is the chat in which it was written, if any.
///
/// # Errors
///
/// One sentence with similar targets, or with the setting to change.
pub async fn resolve(host: &Host, target: &str, origin: Option<&Address>) -> Result<Destination, String> {
    let target: Target = target.parse().map_err(|error: hermes_core::delivery::TargetError| error.to_string())?;
    let (instance, chat) = match target {
        Target::Local => return Ok(Destination::Local),
        Target::Origin => {
            let origin = origin.cloned().map(Destination::Chat);
            return origin
                .ok_or_else(|| "`origin` is not available, because no chat made this request; name a chat".to_owned());
        }
        Target::Home { instance } => {
            let adapter = adapter(host, &instance)?;
            let chat = home(host, &adapter).await?;
            (instance, chat)
        }
        Target::Name { instance, name } => {
            let adapter = adapter(host, &instance)?;
            let chat = named(host, &adapter, &name).await?;
            (instance, chat)
        }
        Target::Place { instance, place } => {
            let adapter = adapter(host, &instance)?;
            let chat = placed(host, &adapter, &place).await?;
            (instance, chat)
        }
    };
    let address = Address { instance, chat };
    can_be_told(host, &address)?;
    Ok(Destination::Chat(address))
}

/// Returns an error if an unrequested message has no recipient there.
fn can_be_told(host: &Host, Address { instance, chat }: &Address) -> Result<(), String> {
    let only_answers = host.adapter(instance).is_some_and(|adapter| !adapter.delivers_later(&chat.id));
    match only_answers {
        true => Err(format!(
            "{instance} can't send messages on its own, so nobody would receive this; name a chat of another instance"
        )),
        false => Ok(()),
    }
}

/// Resolves the home channel of the configuration with its adapter.
///
/// # Errors
///
/// As [`resolve`].
pub async fn configured_home(host: &Host, adapter: &AdapterHandle, home: &HomeChannel) -> Result<Chat, String> {
    let mut chat = match home.chat.strip_prefix('@') {
        Some(name) => named(host, adapter, name).await?,
        None => placed(host, adapter, &home.chat).await?,
    };
    if home.thread.is_some() {
        chat.thread.clone_from(&home.thread);
    }
    Ok(chat)
}

/// Asks an adapter for the chats that it knows and stores them, so that they can be named.
pub async fn learn(host: &Host, adapter: &AdapterHandle) {
    if !adapter.capabilities().chat_info {
        return;
    }
    let listed = adapter.hint(method::CHAT_LIST, b"{}".to_vec()).await;
    let chats = listed.and_then(|answer| {
        serde_json::from_slice::<Vec<Chat>>(&answer).map_err(|error| CallError::new("invalid", error.to_string()))
    });
    let chats = match chats {
        Ok(chats) => chats,
        Err(error) => {
            tracing::debug!(instance = %adapter.instance(), %error, "chats of an adapter could not be listed");
            return;
        }
    };
    // A listed chat counts as never seen, so it never displaces a chat that sent events.
    let saw = |chat| Change::SawChat { instance: adapter.instance().to_string(), chat, seen_ms: 0 };
    let changes = chats.into_iter().filter(|chat| !chat.id.is_empty()).take(LISTED_MAX).map(saw).collect();
    let order = CommandTx { inbox: None, changes, reply: Vec::new(), now_ms: host.now_ms() };
    if let Err(error) = host.store.command(order).await {
        tracing::warn!(instance = %adapter.instance(), %error, "chats of an adapter could not be saved");
    }
}

fn adapter(host: &Host, instance: &str) -> Result<AdapterHandle, String> {
    host.adapter(instance).ok_or_else(|| no_instance(host, instance))
}

/// Describes an unknown instance, with a similar one or with all of them.
pub(crate) fn no_instance(host: &Host, instance: &str) -> String {
    let names: Vec<String> = host
        .adapters()
        .map(|adapters| adapters.all())
        .unwrap_or_default()
        .iter()
        .map(|a| a.instance().to_string())
        .collect();
    match (nearest(instance, names.iter().map(String::as_str)), names.is_empty()) {
        (Some(near), _) => format!("there is no instance {instance:?}; did you mean {near:?}?"),
        (None, false) => format!("there is no instance {instance:?}; the instances are {}", names.join(", ")),
        (None, true) => format!("there is no instance {instance:?}, because no adapter is configured"),
    }
}

/// Returns the home channel of an instance.
///
/// # Errors
///
/// As [`resolve`].
pub(crate) async fn home(host: &Host, adapter: &AdapterHandle) -> Result<Chat, String> {
    let instance = adapter.instance();
    if let Some(chat) = host.homes().get(instance) {
        return Ok(chat.clone());
    }
    let configured = host.live().config.adapters.get(&**instance).and_then(|section| section.home_channel.clone());
    match configured {
        Some(home) => configured_home(host, adapter, &home).await,
        None => Err(no_home(adapter)),
    }
}

/// Describes the setting of a missing home channel.
pub fn no_home(adapter: &AdapterHandle) -> String {
    let instance = adapter.instance();
    let manifest = adapter.manifest();
    let help = match manifest.home_channel_help.trim() {
        "" => String::new(),
        help => format!(" ({help})"),
    };
    format!(
        "{instance} has no home channel; send /sethome in the chat that should be it, set home_channel in \
         [adapter.{instance}]{help}, or name a chat: {instance}:CHAT"
    )
}

/// Finds the chat of a name.
async fn named(host: &Host, adapter: &AdapterHandle, name: &str) -> Result<Chat, String> {
    let instance = adapter.instance();
    let mut found = among(host, adapter, name).await;
    if matches!(found, Named::None(_)) && adapter.capabilities().chat_info {
        learn(host, adapter).await;
        found = among(host, adapter, name).await;
    }
    match found {
        Named::One(chat) => Ok(chat),
        Named::Several(several) => {
            let shown: Vec<String> = several
                .iter()
                .take(OFFERED_MAX)
                .map(|(name, chat)| format!("{} ({name})", id(instance, chat)))
                .collect();
            Err(format!("several chats of {instance} are called {name:?}; name one by its id: {}", shown.join(", ")))
        }
        Named::None(near) => match ask(adapter, &format!("@{name}")).await {
            Some(Ok(Some(chat))) => Ok(chat),
            answer => {
                let near = near.iter().map(|near| format!("{instance}:@{near}")).collect::<Vec<_>>().join(", ");
                Err(unknown(host, adapter, &format!("@{name}"), &near, answer).await)
            }
        },
    }
}

async fn among(host: &Host, adapter: &AdapterHandle, name: &str) -> Named<Chat> {
    let known = known(host, adapter.instance()).await;
    by_name(
        name,
        known.iter().filter(|known| !known.name.is_empty()).map(|known| (known.name.as_str(), known.chat.clone())),
    )
}

/// Finds the chat that a person names after the colon of a target, if it is known to exist. A conversation will be
/// bound to it, so its id must equal the id in its messages.
///
/// # Errors
///
/// As [`resolve`].
pub(crate) async fn known_place(host: &Host, adapter: &AdapterHandle, place: &str) -> Result<Chat, String> {
    let instance = adapter.instance();
    match place.strip_prefix('@') {
        _ if place.is_empty() => Err(format!("{instance}: has no chat after the colon; use {instance}:CHAT")),
        Some(name) => named(host, adapter, name).await,
        None => match read(host, adapter, place).await {
            Read::Chat(chat) => Ok(*chat),
            Read::Unread => {
                let words = unknown(host, adapter, place, "", None).await;
                Err(format!("{words}; send a message or `/sethome` there once to make it known"))
            }
            Read::Unknown(words) => Err(words),
        },
    }
}

/// The result of resolving an id.
enum Read {
    /// The chat of the id.
    Chat(Box<Chat>),
    /// The adapter resolves no ids, and no known chat has this one.
    Unread,
    /// The chat does not exist.
    Unknown(String),
}

/// Returns the chat of an id: resolved by the adapter, or a known chat, or the id as written.
async fn placed(host: &Host, adapter: &AdapterHandle, place: &str) -> Result<Chat, String> {
    match read(host, adapter, place).await {
        Read::Chat(chat) => Ok(*chat),
        Read::Unknown(words) => Err(words),
        // The platform finds out whether the chat exists.
        Read::Unread => Ok(literal(Some(adapter), place)),
    }
}

/// Returns the chat of an unresolved id: the id as written, and a thread if one may follow.
pub(crate) fn literal(adapter: Option<&AdapterHandle>, place: &str) -> Chat {
    let has_threads = adapter.is_some_and(|adapter| adapter.capabilities().threads);
    let cut = place.rsplit_once(':').filter(|(id, thread)| has_threads && !id.is_empty() && !thread.is_empty());
    let (id, thread) = cut.map_or((place, None), |(id, thread)| (id, Some(thread)));
    let mut chat = Chat::dm(id);
    chat.thread = thread.map(str::to_owned);
    chat
}

async fn read(host: &Host, adapter: &AdapterHandle, place: &str) -> Read {
    let answer = ask(adapter, place).await;
    if let Some(Ok(Some(chat))) = answer {
        return Read::Chat(Box::new(chat));
    }
    let known = known(host, adapter.instance()).await;
    for (chat, thread) in readings(place) {
        if let Some(chat) = spoken(&known, chat, thread) {
            return Read::Chat(Box::new(chat));
        }
    }
    if answer.is_none() {
        return Read::Unread;
    }
    let near = nearest(place, known.iter().map(|known| known.chat.id.as_str()));
    let near = near.map(|near| format!("{}:{near}", adapter.instance())).unwrap_or_default();
    Read::Unknown(unknown(host, adapter, place, &near, answer).await)
}

/// Returns a known chat of this id, in this thread.
fn spoken(known: &[KnownChat], id: &str, thread: Option<&str>) -> Option<Chat> {
    let of_id = || known.iter().map(|known| &known.chat).filter(|chat| chat.id == id);
    let mut chat = of_id().find(|chat| chat.thread.as_deref() == thread).or_else(|| of_id().next())?.clone();
    if chat.thread.as_deref() != thread {
        chat.thread = thread.map(str::to_owned);
        chat.thread_name = None;
    }
    Some(chat)
}

/// An answer of `ResolveTarget`; `None`: the adapter does not support it.
type Asked = Option<Result<Option<Chat>, CallError>>;

async fn ask(adapter: &AdapterHandle, place: &str) -> Asked {
    if !adapter.capabilities().resolve_target {
        return None;
    }
    let call = serde_json::to_vec(&json!({ "target": place })).expect("a target is always JSON");
    let answer = adapter.hint(method::RESOLVE_TARGET, call).await;
    Some(answer.and_then(|answer| {
        serde_json::from_slice(&answer).map_err(|error| CallError::new("invalid", error.to_string()))
    }))
}

/// Describes an unknown chat, with similar ones or with all of them.
async fn unknown(host: &Host, adapter: &AdapterHandle, place: &str, near: &str, answer: Asked) -> String {
    let instance = adapter.instance();
    let mut words = format!("{instance} knows no chat {place:?}");
    if let Some(Err(error)) = answer {
        let _ = write!(words, ", and the platform could not look it up ({error})");
    }
    if !near.is_empty() {
        let _ = write!(words, "; did you mean {near}?");
        return words;
    }
    let known = known(host, instance).await;
    let shown: Vec<String> = known.iter().take(OFFERED_MAX).map(|known| shown(instance, known)).collect();
    match shown.is_empty() {
        true => words.push_str("; no chat has sent a message yet"),
        false => {
            let _ = write!(words, "; known chats: {}", shown.join(", "));
        }
    }
    words
}

fn shown(instance: &str, known: &KnownChat) -> String {
    match known.name.as_str() {
        "" => id(instance, &known.chat),
        name => format!("{} ({name})", id(instance, &known.chat)),
    }
}

/// Returns a chat as a target of its instance.
pub(crate) fn shown_as(address: &Address) -> String {
    id(&address.instance, &address.chat)
}

fn id(instance: &str, chat: &Chat) -> String {
    match &chat.thread {
        Some(thread) => format!("{instance}:{}:{thread}", chat.id),
        None => format!("{instance}:{}", chat.id),
    }
}

/// Returns every known chat of an instance: first those that sent events, then those that were listed.
async fn known(host: &Host, instance: &str) -> Vec<KnownChat> {
    let mut known = host.store.known_chats(instance).await.unwrap_or_else(|error| {
        tracing::warn!(instance, %error, "known chats could not be read");
        Vec::new()
    });
    let (reply, chats) = oneshot::channel();
    host.tell(HostEvent::control(Control::Chats { instance: instance.to_owned(), reply })).await;
    for chat in chats.await.unwrap_or_default() {
        if !known.iter().any(|known| known.chat == chat) {
            known.push(KnownChat { name: chat.name.clone().unwrap_or_default(), chat, seen_ms: 0 });
        }
    }
    known
}
