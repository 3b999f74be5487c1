//! Construction of the HTTP client.

use std::path::{Path, PathBuf};
use std::time::Duration;

use reqwest::{Client, ClientBuilder, Url, redirect};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

use crate::address::is_loopback_host;
pub use crate::error::ClientError;
use crate::proxy::{self, ProxySettings, Rules};
use crate::tls::{install_provider, trusting};

/// The settings of a client.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ClientOptions {
    /// The value of the `User-Agent` header.
    pub user_agent: String,
    /// The time limit for the connection, including TLS.
    pub connect_timeout: Duration,
    /// The time limit for the whole response; `None` leaves it to the caller.
    pub total_timeout: Option<Duration>,
    /// The time limit between two reads of a response; `None` leaves it to the caller.
    pub read_timeout: Option<Duration>,
    /// A PEM file with certificates to trust in addition to the system's: those of authorities, and those of servers.
    pub ca_file: Option<PathBuf>,
    /// The maximum number of redirects. An API needs none, and following one may send a credential to another server.
    pub redirects_max: usize,
    /// True if the client connects to `http://` addresses only, so that no certificates are loaded.
    pub plain_http: bool,
    /// The proxies for connections to other machines. Default: none.
    pub proxy: ProxySettings,
}

impl Default for ClientOptions {
    fn default() -> Self {
        Self {
            user_agent: concat!("hermes-host/", env!("CARGO_PKG_VERSION")).to_owned(),
            connect_timeout: Duration::from_secs(10),
            total_timeout: Some(Duration::from_secs(60)),
            read_timeout: None,
            ca_file: None,
            redirects_max: 0,
            plain_http: false,
            proxy: ProxySettings::default(),
        }
    }
}

impl ClientOptions {
    /// Returns the defaults for a client of `base_url` only.
    pub fn for_base_url(base_url: &Url) -> Self {
        Self { plain_http: base_url.scheme() == "http", ..Self::default() }
    }
}

/// Builds a client. The environment is ignored: the proxies are those of the options.
///
/// # Errors
///
/// The file that is unusable, or the error of the client library.
pub fn http_client(options: &ClientOptions) -> Result<Client, ClientError> {
    http_client_with(options, |builder| builder)
}

/// Builds the same client with an additional setting, which `change` makes.
pub(crate) fn http_client_with(
    options: &ClientOptions,
    change: impl Fn(ClientBuilder) -> ClientBuilder,
) -> Result<Client, ClientError> {
    install_provider();
    let rules = Rules::new(&options.proxy)?;
    let needs_certificates = rules.needs_certificates();
    let fresh = || change(builder(options, &rules));
    let extra = options.ca_file.as_deref().map(certificates).transpose()?.unwrap_or_default();
    if options.plain_http && !needs_certificates {
        return fresh().tls_certs_only([]).build().map_err(refused);
    }
    if !extra.is_empty() {
        let config = trusting(extra).map_err(|error| ClientError::Build(error.to_string()))?;
        return fresh().tls_backend_preconfigured(config).build().map_err(refused);
    }
    fresh().build().or_else(|error| {
        // A system without certificates must still reach plain addresses; https then fails with an error of its own.
        tracing::warn!(%error, "no system certificates found, so https connections will fail; install ca-certificates or set ca_file");
        fresh().tls_certs_only([]).build().map_err(refused)
    })
}

/// Parses an `http` or `https` base address, without a slash at the end.
///
/// # Errors
///
/// The fault in the address. User names and passwords in addresses are rejected.
pub fn base_url(text: &str) -> Result<Url, ClientError> {
    let trimmed = text.trim().trim_end_matches('/');
    let url = Url::parse(trimmed).map_err(|error| ClientError::Url(format!("it is not a valid URL: {error}")))?;
    let why = if !matches!(url.scheme(), "http" | "https") {
        "it does not begin with http:// or https://"
    } else if url.host_str().is_none_or(str::is_empty) {
        "it has no host"
    } else if !url.username().is_empty() || url.password().is_some() {
        "it contains a user name or password, which must not be part of the URL"
    } else if url.query().is_some() || url.fragment().is_some() {
        "it contains a query or a fragment"
    } else {
        return Ok(url);
    };
    Err(ClientError::Url(why.to_owned()))
}

/// Returns whether `url` points to this machine.
pub fn is_loopback(url: &Url) -> bool {
    url.host_str().is_some_and(is_loopback_host)
}

fn builder(options: &ClientOptions, rules: &Rules) -> ClientBuilder {
    let redirects = match options.redirects_max {
        0 => redirect::Policy::none(),
        max => redirect::Policy::limited(max),
    };
    let mut builder = Client::builder()
        .user_agent(&options.user_agent)
        .connect_timeout(options.connect_timeout)
        .redirect(redirects)
        .no_proxy();
    if !rules.is_direct() {
        let rules = rules.clone();
        let through = move |url: &Url| rules.proxy_for(url).inspect(|proxy| proxy::note(proxy)).cloned();
        builder = builder.proxy(reqwest::Proxy::custom(through)).connector_layer(proxy::ProxyNameLayer);
    }
    if let Some(timeout) = options.total_timeout {
        builder = builder.timeout(timeout);
    }
    if let Some(timeout) = options.read_timeout {
        builder = builder.read_timeout(timeout);
    }
    builder
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, ClientError> {
    let shown = path.display().to_string();
    let pem = std::fs::read(path).map_err(|source| ClientError::CaFile { path: shown.clone(), source })?;
    match CertificateDer::pem_slice_iter(&pem).collect::<Result<Vec<_>, _>>() {
        Ok(found) if !found.is_empty() => Ok(found),
        _ => Err(ClientError::CaContent { path: shown }),
    }
}

fn refused(error: reqwest::Error) -> ClientError {
    ClientError::Build(crate::error::sentence(&error.without_url()))
}
