//! A line chat over TCP: people connect with `nc`, give a name, and talk to the agent alone
//! or in a room (`#tea hello`).

#![forbid(unsafe_code)]

mod people;

use hermes_adapter_sdk::prelude::*;
use hermes_adapter_sdk::tokio::net::TcpListener;
use hermes_adapter_sdk::tokio::sync::Mutex;
use people::{Delivery, Line, TEXT_BYTES_MAX};

#[derive(AdapterConfig)]
struct Config {
    /// The address and port on which people connect.
    #[serde(default = "Config::listen")]
    listen: String,
}

impl Config {
    fn listen() -> String {
        "127.0.0.1:4000".to_owned()
    }
}

struct LineChatAdapter {
    config: Config,
    host: Host,
    people: people::People,
    /// The listener, from `connect` to the following `run`.
    door: Mutex<Option<TcpListener>>,
}

impl Adapter for LineChatAdapter {
    const MANIFEST: Manifest = manifest! {
        id: "line_chat",
        label: "Line chat",
        transport: "tcp",
        listens: ["127.0.0.1:4000"],
        text: { limit: TEXT_BYTES_MAX, unit: bytes, dialect: plain },
        group_default: all,
    };
    type Config = Config;

    fn new(config: Config, host: Host) -> Self {
        Self { config, host, people: people::People::default(), door: Mutex::default() }
    }

    async fn connect(&self) -> Result<(), ConnectError> {
        let listen = &self.config.listen;
        let cannot = |error| ConnectError::retry(format!("cannot listen on {listen}: {error}"));
        let door = TcpListener::bind(listen).await.map_err(cannot)?;
        self.host.announce("people connect to", door.local_addr().map_err(cannot)?.to_string());
        *self.door.lock().await = Some(door);
        Ok(())
    }

    async fn run(&self) -> Result<(), ConnectError> {
        let door = self.door.lock().await.take().ok_or_else(|| ConnectError::retry("nobody connected"))?;
        loop {
            let (stream, _) = door.accept().await.map_err(|error| ConnectError::retry(error.to_string()))?;
            let (host, people) = (self.host.clone(), self.people.clone());
            self.host.spawn(async move {
                let Some(mut person) = people.enter(stream, host.now_ms()).await else { return };
                while let Some(line) = person.says().await {
                    // `emit` returns after the event is stored; the next line is read after that.
                    if let Err(error) = host.emit(&event(line, host.now_ms())).await {
                        return tracing::warn!("the host rejected a line: {}", error.message);
                    }
                }
            });
        }
    }

    async fn send(&self, message: Outgoing) -> SendOutcome {
        let room = (message.chat.kind != ChatType::Dm).then_some(message.chat.id.as_str());
        match self.people.tell(room, &message.chat.id, &message.text).await {
            Delivery::Somebody => SendOutcome::delivered(message.key, self.host.now_ms()),
            Delivery::Nobody => SendOutcome::not_sent(None, WaitScope::Chat, "the recipient is not connected"),
            Delivery::Perhaps(error) => SendOutcome::unknown(error.to_string()),
        }
    }
}

/// Returns the event for a line.
fn event(line: Line, at_ms: i64) -> Event {
    let chat = line.room.as_deref().map_or_else(|| Chat::dm(&line.who), room);
    let sender = Sender::new(&line.who).named(&line.who);
    Event::message(format!("m:{}", line.id), chat, sender, line.text).with_message_id(line.id).at_ms(at_ms)
}

/// Returns the chat of a room. Every path uses this function, so the value is always the same.
fn room(name: &str) -> Chat {
    Chat::new(ChatType::Group, name).named(format!("#{name}"))
}

export_adapter!(LineChatAdapter);

#[cfg(test)]
mod tests;
