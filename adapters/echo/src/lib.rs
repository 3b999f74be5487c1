//! The reference adapter: the smallest one that is complete. `README.md` says what it does.

#![forbid(unsafe_code)]

use hermes_adapter_sdk::prelude::*;

#[derive(AdapterConfig)]
struct Config {
    /// What precedes every answer.
    #[serde(default)]
    prefix: String,
    /// Who says the lines.
    #[serde(default)]
    user: Option<String>,
    /// Lines that are said once the adapter is connected.
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
            // The id names the line, so the host knows it again after a restart.
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
