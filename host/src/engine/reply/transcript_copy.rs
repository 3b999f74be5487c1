//! Host messages in transcripts. A message that the host sends by itself is not part of the conversation in its chat
//! unless the caller asks for that. Then the transcript of the chat's only session contains it, in the same transaction
//! as the delivery.

use hermes_agent::Message;
use hermes_core::ids::{DeliveryId, SessionId};
use tokio::sync::oneshot;

use crate::engine::messages::{Control, HostEvent};
use crate::engine::runtime::Host;
use hermes_store::{Change, CommandTx, NewDelivery, NewMessage, StoreError};

/// The reason for which no transcript contains a message.
pub const NOT_MIRRORED: &str =
    "not added to a transcript: that chat has no conversation, or several people have one each";

/// Owes a delivery and adds its text to the transcript of the session in its chat. Returns the delivery, and the reason
/// if no transcript contains its text.
///
/// # Errors
///
/// Fails if the delivery cannot be owed.
pub async fn owe(host: &Host, delivery: NewDelivery) -> Result<(DeliveryId, Option<&'static str>), StoreError> {
    if let Some(session) = session_of(host, &delivery).await {
        let now_ms = host.now_ms();
        let said = NewMessage::new(Message::assistant(delivery.markdown.clone()), now_ms);
        let changes = vec![Change::Mirror { session: session.clone(), said }];
        let order = CommandTx { inbox: None, changes, reply: vec![delivery.clone()], now_ms };
        match host.store.command(order).await {
            Ok(ids) => {
                host.tell(HostEvent::control(Control::Reread { session })).await;
                let id = ids.first().copied().expect("one reply has one id");
                return Ok((id, None));
            }
            // The session has just ended, or its first turn is not stored yet.
            Err(StoreError::Conflict { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Ok((host.store.owe(delivery).await?, Some(NOT_MIRRORED)))
}

async fn session_of(host: &Host, delivery: &NewDelivery) -> Option<SessionId> {
    let (reply, session) = oneshot::channel();
    let (instance, chat) = (delivery.instance.clone(), delivery.chat.clone());
    host.tell(HostEvent::control(Control::SessionOf { instance, chat, reply })).await;
    session.await.ok().flatten()
}
