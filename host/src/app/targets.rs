//! Where `send` goes: `<instance>` (its home channel) or `<instance>:<chat>[:<thread>]`.

use hermes_protocol::{Chat, method};
use serde_json::json;
use tokio::sync::oneshot;

use crate::config::nearest;
use crate::events::{Control, HostEvent};
use crate::host::Host;
use crate::plugins::AdapterHandle;

/// A place that can be written to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// The instance.
    pub instance: String,
    /// The chat.
    pub chat: Chat,
}

/// Reads a target as a person wrote it.
///
/// # Errors
///
/// One sentence with the nearest name, or what to configure.
pub async fn resolve(host: &Host, target: &str) -> Result<Address, String> {
    let (instance, place) = target.split_once(':').unwrap_or((target, ""));
    let Some(adapter) = host.adapter(instance) else { return Err(no_instance(host, instance)) };
    let chat = match place {
        "" => home_channel(host, &adapter).await?,
        place => find(host, &adapter, place).await,
    };
    Ok(Address { instance: instance.to_owned(), chat })
}

fn no_instance(host: &Host, instance: &str) -> String {
    let names: Vec<String> = host
        .adapters()
        .map(|adapters| adapters.all())
        .unwrap_or_default()
        .iter()
        .map(|a| a.instance().to_string())
        .collect();
    match (nearest(instance, names.iter().map(String::as_str)), names.is_empty()) {
        (Some(near), _) => format!("there is no instance {instance:?}; did you mean {near:?}?"),
        (None, false) => format!("there is no instance {instance:?}; there are {}", names.join(", ")),
        (None, true) => format!("there is no instance {instance:?}, because no adapter is configured"),
    }
}

async fn home_channel(host: &Host, adapter: &AdapterHandle) -> Result<Chat, String> {
    let instance = adapter.instance();
    let configured = host.live().config.adapters.get(&**instance).and_then(|section| section.home_channel.clone());
    let Some(home) = configured else {
        return Err(format!(
            "{instance} has no home channel; write home_channel into [adapter.{instance}], or name a chat: {instance}:CHAT"
        ));
    };
    let mut chat = find(host, adapter, &home.chat).await;
    if home.thread.is_some() {
        chat.thread = home.thread;
    }
    Ok(chat)
}

/// The chat that a person means: the adapter's own reading of it, else a chat that has
/// spoken here, else a direct message.
async fn find(host: &Host, adapter: &AdapterHandle, place: &str) -> Chat {
    if let Some(chat) = ask(adapter, place).await {
        return chat;
    }
    let (id, thread) = match place.rsplit_once(':') {
        Some((id, thread)) if !id.is_empty() && !thread.is_empty() => (id, Some(thread)),
        _ => (place, None),
    };
    let known = known(host, adapter.instance()).await;
    let spoken = |id: &str| known.iter().find(|chat| chat.id == id).cloned();
    // An id may contain colons itself, so the whole is tried first.
    if let Some(mut chat) = spoken(place) {
        chat.thread = None;
        return chat;
    }
    let mut chat = spoken(id).unwrap_or_else(|| Chat::dm(id));
    chat.thread = thread.map(str::to_owned);
    chat
}

async fn ask(adapter: &AdapterHandle, place: &str) -> Option<Chat> {
    if !adapter.capabilities().resolve_target {
        return None;
    }
    let call = serde_json::to_vec(&json!({ "target": place })).expect("a target is always JSON");
    match adapter.hint(method::RESOLVE_TARGET, call).await {
        Ok(answer) => serde_json::from_slice(&answer).ok().flatten(),
        Err(error) => {
            tracing::debug!(instance = %adapter.instance(), %error, "a target was not resolved");
            None
        }
    }
}

async fn known(host: &Host, instance: &str) -> Vec<Chat> {
    let (reply, chats) = oneshot::channel();
    host.tell(HostEvent::control(Control::Chats { instance: instance.to_owned(), reply })).await;
    chats.await.unwrap_or_default()
}
