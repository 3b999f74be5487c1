//! The parts of an instance with a valid configuration.

use std::time::Duration;

use hermes_adapter_sdk::prelude::*;

use crate::api::Api;
use crate::config::Config;
use crate::connection::Connection;
use crate::polling::Polling;
use crate::webhook::Webhook;

/// The link of one bot, with its transport.
pub(crate) struct Link {
    pub connection: Connection,
    transport: Transport,
}

/// The transport of updates.
enum Transport {
    Polling(Polling),
    Webhook(Webhook),
}

impl Link {
    /// Creates the link of the configured bot, without a connection.
    pub(crate) fn new(config: Config, host: Host) -> Result<Self, ConnectError> {
        let (files, ca_file) = (config.file_url.as_deref(), config.ca_file.as_deref());
        let api = Api::new(&config.token, &config.base_url, files, ca_file, &host.info().proxy);
        let api = api.map_err(|error| {
            ConnectError::fatal(
                format!("the address of the server cannot be used: {error}"),
                "correct `base_url`, `file_url` or `ca_file`",
            )
        })?;
        let address = config.webhook_address();
        let address = address.map_err(|error| ConnectError::fatal(error, "correct the webhook keys"))?;
        let transport = match (address, config.webhook_url, config.webhook_secret) {
            (Some(address), Some(url), Some(secret)) => Transport::Webhook(Webhook::new(url, secret, address)),
            _ => Transport::Polling(Polling::new(Duration::from_secs(config.poll_timeout_s))),
        };
        let connection = Connection::new(api, host, config.media_bytes_max, config.local_files);
        Ok(Self { connection, transport })
    }

    /// Authenticates the bot, and opens the transport.
    pub(crate) async fn open(&self) -> Result<(), ConnectError> {
        let me = self.connection.authenticate().await?;
        match &self.transport {
            Transport::Polling(polling) => polling.open(&self.connection).await?,
            Transport::Webhook(webhook) => webhook.open(&self.connection).await?,
        }
        self.connection.set_online(me);
        Ok(())
    }

    /// Receives updates until the link is lost.
    pub(crate) async fn receive(&self) -> Result<(), ConnectError> {
        match &self.transport {
            Transport::Polling(polling) => polling.receive(&self.connection).await,
            Transport::Webhook(webhook) => webhook.receive(&self.connection).await,
        }
    }
}

#[cfg(test)]
mod tests;
