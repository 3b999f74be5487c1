//! The word after a restart: whoever asked for it in a chat hears when the host is back.
//!
//! Whom to tell is a flag of the store, written in one transaction with the word before
//! the restart; the notice and the end of the flag are one transaction again. A host that
//! dies on the way tells it at its next start.

use std::sync::Arc;

use hermes_protocol::{Chat, Purpose};
use serde::{Deserialize, Serialize};

use crate::context::compose;
use crate::host::Host;
use crate::plugins::AdapterHandle;
use crate::store::{Change, CommandTx};

/// The flag of the store that says whom to tell.
const FLAG: &str = "restart_asked";

/// Whom to tell.
#[derive(Debug, Serialize, Deserialize)]
struct Asked {
    instance: String,
    chat: Chat,
}

/// What has to be written so that the next life of the host tells this chat.
pub fn remember(instance: &str, chat: &Chat) -> Change {
    let asked = Asked { instance: instance.to_owned(), chat: chat.clone() };
    let value = serde_json::to_string(&asked).expect("a chat is always JSON");
    Change::Flag { key: FLAG.to_owned(), value: Some(value) }
}

/// What the last life of the host left to be told.
pub fn flag(flags: &std::collections::BTreeMap<String, String>) -> Option<&String> {
    flags.get(FLAG)
}

/// Tells whoever asked for the restart, as soon as their adapter is there.
pub async fn tell(host: Arc<Host>, flag: String) {
    host.recovered.cancelled().await;
    let mut reply = Vec::new();
    // What an earlier version wrote differently is not worth more than forgetting it.
    if let Ok(Asked { instance, chat }) = serde_json::from_str(&flag) {
        let Some(adapter) = host.draining.run_until_cancelled(online(&host, &instance)).await else { return };
        if adapter.is_some() {
            reply.push(compose(&host, &instance, chat, Purpose::Notice, "The host is back.".to_owned()).await);
        }
    }
    let changes = vec![Change::Flag { key: FLAG.to_owned(), value: None }];
    let order = CommandTx { inbox: None, changes, reply, now_ms: host.now_ms() };
    if let Some(ids) = host.until_written("the word after a restart", || host.store.command(order.clone())).await {
        host.carry(ids, order.reply).await;
    }
}

/// Waits for the link of an instance; at once `None` where there is no such instance any more.
async fn online(host: &Host, instance: &str) -> Option<AdapterHandle> {
    let adapter = host.adapter(instance)?;
    adapter.online().await;
    Some(adapter)
}
