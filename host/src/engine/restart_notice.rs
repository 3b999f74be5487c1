//! The notice after a restart, to the chat in which the restart was requested.
//!
//! A flag of the store holds the chat. One transaction writes it together with the reply before the restart; another
//! one owes the notice and clears the flag. If the host dies in between, its next start sends the notice.

use std::sync::Arc;

use hermes_protocol::{Chat, Purpose};
use serde::{Deserialize, Serialize};

use crate::engine::context::compose;
use crate::engine::runtime::Host;
use hermes_loader::AdapterHandle;
use hermes_store::{Change, CommandTx};

/// The flag of the store that holds the chat to notify.
const FLAG: &str = "restart_asked";

/// The chat to notify.
#[derive(Debug, Serialize, Deserialize)]
struct Asked {
    instance: String,
    chat: Chat,
}

/// Returns the change by which the next run of the host notifies this chat.
pub fn remember(instance: &str, chat: &Chat) -> Change {
    let asked = Asked { instance: instance.to_owned(), chat: chat.clone() };
    let value = serde_json::to_string(&asked).expect("a chat is always JSON");
    Change::Flag { key: FLAG.to_owned(), value: Some(value) }
}

/// Returns the flag of the previous run.
pub fn flag(flags: &std::collections::BTreeMap<String, String>) -> Option<&String> {
    flags.get(FLAG)
}

/// Notifies the chat in which the restart was requested, once its adapter has a link.
pub async fn tell(host: Arc<Host>, flag: String) {
    host.recovered.cancelled().await;
    let mut reply = Vec::new();
    // A flag in an earlier format is dropped.
    if let Ok(Asked { instance, chat }) = serde_json::from_str(&flag) {
        let Some(adapter) = host.draining.run_until_cancelled(online(&host, &instance)).await else { return };
        if adapter.is_some() {
            reply.push(compose(&host, &instance, chat, Purpose::Notice, "The host is back.".to_owned()).await);
        }
    }
    let changes = vec![Change::Flag { key: FLAG.to_owned(), value: None }];
    let order = CommandTx { inbox: None, changes, reply, now_ms: host.now_ms() };
    if let Some(ids) = host.until_written("the notice after a restart", || host.store.command(order.clone())).await {
        host.carry(ids, order.reply).await;
    }
}

/// Waits for the link of an instance; returns `None` at once if the instance no longer exists.
async fn online(host: &Host, instance: &str) -> Option<AdapterHandle> {
    let adapter = host.adapter(instance)?;
    adapter.online().await;
    Some(adapter)
}
