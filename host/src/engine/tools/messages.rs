//! Messages to other chats, for an agent: owed in the outbox like every delivery.

use futures_util::future::BoxFuture;
use hermes_agent::tools::ports::Messenger;
use hermes_core::context::TurnContext;
use hermes_core::delivery::strip_control;
use hermes_protocol::Purpose;

use super::{Lent, reach};
use crate::engine::context::compose;
use crate::engine::targets;
use crate::engine::targets::Destination;

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
                return Err("`local` is not a chat; use the name of an instance".to_owned());
            };
            let thread = address.chat.thread.as_deref().unwrap_or_default();
            if address.instance == context.source && address.chat.id == context.chat_id && thread == context.thread_id {
                return Err("this is the current chat; your answer is delivered here automatically".to_owned());
            }
            let told = targets::shown_as(&address);
            let signature = reach::signature(&host, context, &address).await?;
            let text = host.live().masker.mask(strip_control(text)).into_owned();
            let text = signature.as_deref().map_or_else(|| text.clone(), |line| reach::below(line, &text));
            let delivery = compose(&host, &address.instance, address.chat, Purpose::Reply, text).await;
            if signature.is_some() && delivery.parts.len() > 1 {
                return Err(format!(
                    "the message is too long: with the name of its sender it must fit into one message of {told}; \
                     nothing was sent, so send it in shorter messages"
                ));
            }
            let id =
                host.store.owe(delivery.clone()).await.map_err(|error| format!("it could not be saved ({error})"))?;
            host.carry(vec![id], vec![delivery]).await;
            Ok(told)
        })
    }
}
