//! The parts of an instance with a valid configuration.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{FutureExt, select};
use hermes_adapter_net::client::base_url;
use hermes_adapter_net::fetch::{FetchOptions, Fetcher};
use hermes_adapter_net::{ClientError, ClientOptions};
use hermes_adapter_sdk::prelude::*;

use crate::account::Account;
use crate::api::Api;
use crate::config::Config;
use crate::events_api::EventsApi;
use crate::files::FileDownloader;
use crate::receiver::Receiver;
use crate::socket_mode::SocketMode;

/// The parts of an instance.
pub(crate) struct Link {
    pub account: Arc<Account>,
    pub files: FileDownloader,
    receiver: Receiver,
    transport: Transport,
}

/// The transport of deliveries.
enum Transport {
    Sockets(Box<SocketMode>),
    Requests(EventsApi),
}

impl Link {
    /// Creates the parts of the configured instance, without a connection.
    pub(crate) fn new(config: Config, host: &Host) -> Result<Self, ConnectError> {
        let invalid = |error: ClientError| {
            ConnectError::fatal(
                format!("an address cannot be used: {error}"),
                "correct `base_url`, `gateway_url`, `file_url` or `ca_file`",
            )
        };
        let base = base_url(&config.base_url).map_err(invalid)?;
        let proxy = &host.info().proxy;
        let api = Api::new(&config.base_url, config.file_url.as_deref(), config.ca_file.as_deref(), proxy);
        let account = Arc::new(Account::new(api.map_err(invalid)?, config.tokens()));
        let mut origins = vec![base.clone()];
        if let Some(files) = &config.file_url {
            origins.push(base_url(files).map_err(invalid)?);
        }
        let mut options = FetchOptions::with_origins(origins.clone());
        options.ca_file.clone_from(&config.ca_file);
        options.proxy.clone_from(proxy);
        options.bytes_max = config.media_bytes_max;
        let fetcher = Fetcher::new(options).map_err(invalid)?;
        let files = FileDownloader::new(fetcher, origins, config.media_bytes_max);
        let receiver = Receiver::new(Arc::clone(&account), host.clone(), &config);
        let transport = match (config.app_token, config.signing_secret) {
            (Some(token), _) => {
                let mut options = ClientOptions::for_base_url(&base);
                options.plain_http &= config.gateway_url.as_deref().is_none_or(|url| !url.starts_with("wss"));
                options.ca_file.clone_from(&config.ca_file);
                options.proxy.clone_from(proxy);
                let (gateway, ping) = (config.gateway_url.as_deref(), Duration::from_secs(config.ping_s));
                let account = Arc::clone(&account);
                let sockets =
                    SocketMode::new(account, host.clone(), token, gateway, config.connections, ping, &options);
                Transport::Sockets(Box::new(sockets.map_err(invalid)?))
            }
            (None, secret) => {
                let address = config.listen.parse().map_err(|_| {
                    ConnectError::fatal(
                        format!("`listen` is {:?}, which is not an address", config.listen),
                        "correct `listen`",
                    )
                })?;
                let secret = secret.unwrap_or_default();
                Transport::Requests(EventsApi::new(Arc::clone(&account), host.clone(), address, secret))
            }
        };
        Ok(Self { account, files, receiver, transport })
    }

    /// Authenticates the app, and opens the transport.
    pub(crate) async fn connect(&self, host: &Host) -> Result<(), ConnectError> {
        self.account.authenticate(host).await?;
        match &self.transport {
            Transport::Sockets(sockets) => sockets.connect().await,
            Transport::Requests(requests) => requests.connect().await,
        }
    }

    /// Receives deliveries until the link is lost.
    pub(crate) async fn run(&self) -> Result<(), ConnectError> {
        let (queues, processing) = self.receiver.open();
        let transport = match &self.transport {
            Transport::Sockets(sockets) => sockets.run(&queues).boxed(),
            Transport::Requests(requests) => requests.run(&queues).boxed(),
        };
        select(processing, transport).await.factor_first().0
    }
}
