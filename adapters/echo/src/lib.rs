//! The reference adapter: the smallest complete one. `README.md` describes its behaviour.

#![forbid(unsafe_code)]

use hermes_adapter_sdk::prelude::*;

#[derive(AdapterConfig)]
struct Config {
    /// The prefix of every answer.
    #[serde(default)]
    prefix: String,
    /// The sender of the lines.
    #[serde(default)]
    user: Option<String>,
    /// Lines to send after the adapter is connected.
    #[serde(default)]
    say: Vec<String>,
}

struct Echo {
    config: Config,
    host: Host,
}

impl Adapter for Echo {
    const MANIFEST: Manifest = manifest! { id: "echo", label: "Echo", transport: none };
    type Config = Config;

    fn new(config: Config, host: Host) -> Self {
        Self { config, host }
    }

    async fn connect(&self) -> Result<(), ConnectError> {
        Ok(())
    }

    async fn run(&self) -> Result<(), ConnectError> {
        let user = self.config.user.as_deref().unwrap_or("echo-user");
        for (n, line) in self.config.say.iter().enumerate() {
            // The id depends on the line only, so the host recognizes the line after a restart.
            let event = Event::message(format!("m:{user}:{n}"), Chat::dm(user), Sender::new(user), line);
            let event = event.at_ms(self.host.now_ms());
            self.host.emit(&event).await.map_err(|error| ConnectError::retry(error.message))?;
        }
        std::future::pending().await
    }

    async fn send(&self, message: Outgoing) -> SendOutcome {
        let text = format!("{}{}", self.config.prefix, message.text);
        tracing::info!(chat = message.chat.id, %text, "sent");
        self.host.announce(text, "");
        SendOutcome::delivered(message.key, self.host.now_ms())
    }
}

export_adapter!(Echo);

#[cfg(test)]
mod tests;
