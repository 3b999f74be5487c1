//! The payloads of the gateway.

use hermes_adapter_net::lenient;
use hermes_adapter_net::ws::{Received, Socket};
use hermes_adapter_sdk::prelude::*;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::disconnect::Disconnect;

/// One event of the gateway.
#[derive(Clone, Debug)]
pub(crate) struct Dispatch {
    /// The sequence number in the session.
    pub seq: u64,
    /// The name, such as `MESSAGE_CREATE`.
    pub name: String,
    /// The payload.
    pub data: Value,
}

/// <https://docs.discord.com/developers/events/gateway-events#payload-structure>
#[derive(Debug, Deserialize)]
pub(super) struct Payload {
    pub(super) op: u8,
    #[serde(default)]
    pub(super) d: Value,
    #[serde(default)]
    pub(super) s: Option<u64>,
    #[serde(default)]
    pub(super) t: Option<String>,
}

/// Opcodes. <https://docs.discord.com/developers/topics/opcodes-and-status-codes#gateway-gateway-opcodes>
pub(super) mod op {
    pub(crate) const DISPATCH: u8 = 0;
    pub(crate) const HEARTBEAT: u8 = 1;
    pub(crate) const IDENTIFY: u8 = 2;
    pub(crate) const RESUME: u8 = 6;
    pub(crate) const RECONNECT: u8 = 7;
    pub(crate) const INVALID_SESSION: u8 = 9;
    pub(crate) const HELLO: u8 = 10;
    pub(crate) const HEARTBEAT_ACK: u8 = 11;
}

impl Payload {
    /// Returns the event; `None` if the payload contains none.
    pub(super) fn into_dispatch(self) -> Option<Dispatch> {
        Some(Dispatch { seq: self.s?, name: self.t?, data: self.d })
    }
}

impl Dispatch {
    /// Reads one event of the gateway from its text.
    pub(crate) fn from_text(text: &[u8]) -> Option<Self> {
        lenient::from_slice::<Payload>(text).ok()?.into_dispatch()
    }

    /// Parses the data of the event; an invalid event does not block the others.
    pub(crate) fn parse<T: DeserializeOwned>(&self) -> Option<T> {
        serde_json::from_value(self.data.clone())
            .inspect_err(|error| tracing::warn!(name = self.name, %error, "event cannot be parsed"))
            .ok()
    }
}

/// Receives the next payload.
pub(super) async fn read_payload(socket: &mut Socket) -> Result<Payload, Disconnect> {
    loop {
        match socket.next().await {
            Ok(Received::Text(text)) => match lenient::from_slice(text.as_bytes()) {
                Ok(payload) => return Ok(payload),
                Err(error) => {
                    return Err(Disconnect::Resumable(format!("the gateway sent an invalid payload ({error})")));
                }
            },
            Ok(Received::Binary(_)) => {}
            Ok(Received::Closed(closed)) => return Err(Disconnect::from_close(&closed)),
            Err(error) => return Err(Disconnect::interrupted(&error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::objects::Message;

    #[test]
    fn an_event_that_is_not_understood_is_left_out() {
        let dispatch = Dispatch { seq: 1, name: "MESSAGE_CREATE".into(), data: json!({ "id": 7 }) };
        assert!(dispatch.parse::<Message>().is_none());
    }
}
