//! Messages to other chats, for an agent: owed in the outbox like everything else.

use futures_util::future::BoxFuture;
use hermes_agent::tools::ports::Messenger;
use hermes_core::context::TurnContext;
use hermes_protocol::Purpose;

use super::Lent;
use crate::context::compose;
use crate::targets::{self, Destination};

impl Messenger for Lent {
    fn send<'m>(
        &'m self,
        context: &'m TurnContext,
        target: &'m str,
        text: &'m str,
    ) -> BoxFuture<'m, Result<String, String>> {
        Box::pin(async move {
            let host = self.host()?;
            let Destination::Chat(address) = targets::resolve(&host, target, None).await? else {
                return Err("`local` is no chat; name an instance".to_owned());
            };
            let thread = address.chat.thread.as_deref().unwrap_or_default();
            if address.instance == context.source && address.chat.id == context.chat_id && thread == context.thread_id {
                return Err("this is the chat you are in: what you answer goes there by itself".to_owned());
            }
            let told = match &address.chat.thread {
                Some(thread) => format!("{}:{}:{thread}", address.instance, address.chat.id),
                None => format!("{}:{}", address.instance, address.chat.id),
            };
            let text = host.live().masker.mask(text).into_owned();
            let delivery = compose(&host, &address.instance, address.chat, Purpose::Reply, text).await;
            let id = host.store.owe(delivery.clone()).await.map_err(|error| format!("it is not written ({error})"))?;
            host.carry(vec![id], vec![delivery]).await;
            Ok(told)
        })
    }
}
