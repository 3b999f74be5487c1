//! Downloads from untrusted addresses, protected against server-side request forgery.
//!
//! An address from a chat, a feed or a platform's response must not reach this machine or
//! its network. Therefore every hop, including redirects, must belong to an origin that the
//! operator configured, or end at an address of the public network. Names are resolved by
//! the resolver of the connection, so the checked address is the connected one. Headers are
//! sent to the first origin only.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::header::{CONTENT_TYPE, HeaderMap, LOCATION};
use reqwest::{Client, Response, Url};
use tokio::time::{Instant, timeout_at};

use crate::NetError;
use crate::address::is_public;
use crate::client::{ClientError, ClientOptions, http_client, http_client_with};
use crate::proxy::{self, ProxySettings, Rules};

/// The rules for downloads.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct FetchOptions {
    /// The origins (scheme, host, port) that the operator configured; they may be in any network.
    pub origins: Vec<Url>,
    /// A PEM file with certificates to trust in addition to the system's.
    pub ca_file: Option<PathBuf>,
    /// The maximum size of a body, in bytes.
    pub bytes_max: u64,
    /// The time limit for the whole download, including all redirects.
    pub deadline: Duration,
    /// The maximum number of redirects.
    pub redirects_max: usize,
    /// The allowed hosts in addition to the origins: names, domains (`.example.org`), `*`. `None`: any.
    pub hosts: Option<Vec<String>>,
    /// The proxies for connections to other machines. Default: none.
    pub proxy: ProxySettings,
}

impl Default for FetchOptions {
    fn default() -> Self {
        Self {
            origins: Vec::new(),
            ca_file: None,
            bytes_max: 20 * 1024 * 1024,
            deadline: Duration::from_secs(60),
            redirects_max: 3,
            hosts: None,
            proxy: ProxySettings::default(),
        }
    }
}

impl FetchOptions {
    /// Returns the defaults with these origins, which may be in any network.
    pub fn with_origins(origins: Vec<Url>) -> Self {
        Self { origins, ..Self::default() }
    }
}

/// The reason for a failed download. Messages never contain the path or query of an address, which may be secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FetchError {
    /// The rules do not allow the address.
    #[error("fetching from {origin} is not allowed: {why}")]
    Forbidden {
        /// The origin of the address.
        origin: String,
        /// The violated rule.
        why: &'static str,
    },
    /// The file is longer than allowed.
    #[error("the file exceeds {bytes_max} bytes")]
    TooLarge {
        /// The limit, in bytes.
        bytes_max: u64,
    },
    /// The server responded with another status than success.
    #[error("the server responded with status {0}")]
    Status(u16),
    /// The download exceeded its deadline.
    #[error("the file did not arrive within {0:?}")]
    Deadline(Duration),
    /// The network failed.
    #[error(transparent)]
    Net(#[from] NetError),
}

/// A downloader of files with one set of rules.
#[derive(Clone, Debug)]
pub struct Fetcher {
    configured: Client,
    public: Client,
    origins: Vec<String>,
    options: FetchOptions,
    rules: Rules,
}

impl Fetcher {
    /// Creates a downloader with these rules.
    ///
    /// # Errors
    ///
    /// If `ca_file` or a proxy is unusable.
    pub fn new(options: FetchOptions) -> Result<Self, ClientError> {
        let client = ClientOptions {
            ca_file: options.ca_file.clone(),
            total_timeout: None,
            proxy: options.proxy.clone(),
            ..ClientOptions::default()
        };
        let rules = Rules::new(&options.proxy)?;
        let resolver = Arc::new(PublicResolver { proxies: rules.hosts() });
        Ok(Self {
            configured: http_client(&client)?,
            public: http_client_with(&client, |builder| builder.dns_resolver(Arc::clone(&resolver)))?,
            origins: options.origins.iter().map(origin).collect(),
            rules,
            options,
        })
    }

    /// Requests `url`, with `headers` for its own origin.
    ///
    /// # Errors
    ///
    /// If the address leads to this machine or its network, or the server or the network
    /// fails.
    pub async fn fetch(&self, url: &str, headers: HeaderMap) -> Result<Fetched, FetchError> {
        let deadline = Instant::now() + self.options.deadline;
        timeout_at(deadline, self.follow(url, headers, deadline))
            .await
            .unwrap_or(Err(FetchError::Deadline(self.options.deadline)))
    }

    async fn follow(&self, url: &str, headers: HeaderMap, deadline: Instant) -> Result<Fetched, FetchError> {
        let mut url = Url::parse(url).map_err(|_| forbidden("the address", "it is not a valid URL"))?;
        let first = origin(&url);
        for _ in 0..=self.options.redirects_max {
            let here = origin(&url);
            let client = self.client_for(&url)?;
            self.judge_behind_proxy(&url, &here).await?;
            let mut request = client.get(url.clone());
            if here == first {
                request = request.headers(headers.clone());
            }
            let response = request.send().await.map_err(|error| classify(error, &here))?;
            if response.status().is_redirection() {
                url = redirected(&url, &response)?;
                continue;
            }
            if !response.status().is_success() {
                return Err(FetchError::Status(response.status().as_u16()));
            }
            let bytes_max = self.options.bytes_max;
            if response.content_length().is_some_and(|length| length > bytes_max) {
                return Err(FetchError::TooLarge { bytes_max });
            }
            return Ok(Fetched { response, left: bytes_max, options: self.options.clone(), deadline });
        }
        Err(forbidden(&origin(&url), "too many redirects"))
    }

    /// Rejects a host name that resolves to this network, although a proxy would resolve it. A name that is
    /// unknown here is left to the proxy.
    async fn judge_behind_proxy(&self, url: &Url, here: &str) -> Result<(), FetchError> {
        let Some(name) = url.domain().filter(|_| self.rules.proxy_for(url).is_some()) else { return Ok(()) };
        if self.origins.iter().any(|origin| origin == here) {
            return Ok(());
        }
        match tokio::net::lookup_host((name, 0)).await {
            Ok(mut found) => {
                let is_outside = found.any(|address| is_public(address.ip()));
                if is_outside { Ok(()) } else { Err(forbidden(here, NOT_PUBLIC)) }
            }
            Err(_) => Ok(()),
        }
    }

    fn client_for(&self, url: &Url) -> Result<&Client, FetchError> {
        let here = origin(url);
        if !matches!(url.scheme(), "http" | "https") {
            return Err(forbidden(&here, "only http and https are allowed"));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(forbidden(&here, "the URL contains a user name or password"));
        }
        if self.origins.contains(&here) {
            return Ok(&self.configured);
        }
        let host = url.host_str().unwrap_or_default();
        let is_listed = |hosts: &Vec<String>| proxy::is_listed(hosts, url);
        if !self.options.hosts.as_ref().is_none_or(is_listed) {
            return Err(forbidden(&here, NOT_LISTED));
        }
        let bare = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(host);
        match bare.parse::<IpAddr>() {
            Ok(ip) if !is_public(ip) => Err(forbidden(&here, NOT_PUBLIC)),
            _ => Ok(&self.public),
        }
    }
}

/// A response whose body is being read.
#[derive(Debug)]
pub struct Fetched {
    response: Response,
    left: u64,
    options: FetchOptions,
    deadline: Instant,
}

impl Fetched {
    /// Returns the content type, without parameters.
    pub fn content_type(&self) -> Option<&str> {
        let value = self.response.headers().get(CONTENT_TYPE)?.to_str().ok()?;
        value.split(';').next().map(str::trim)
    }

    /// Returns the length in bytes, if the server reports it.
    pub fn content_length(&self) -> Option<u64> {
        self.response.content_length()
    }

    /// Returns the next chunk, `None` at the end.
    ///
    /// # Errors
    ///
    /// If the size limit or the deadline is exceeded, or the network fails.
    pub async fn chunk(&mut self) -> Result<Option<Vec<u8>>, FetchError> {
        let next = timeout_at(self.deadline, self.response.chunk())
            .await
            .map_err(|_| FetchError::Deadline(self.options.deadline))?
            .map_err(NetError::from)?;
        let Some(bytes) = next else { return Ok(None) };
        let too_large = FetchError::TooLarge { bytes_max: self.options.bytes_max };
        self.left = self.left.checked_sub(bytes.len() as u64).ok_or(too_large)?;
        Ok(Some(bytes.into()))
    }

    /// Reads the whole body.
    ///
    /// # Errors
    ///
    /// As [`Fetched::chunk`].
    pub async fn bytes(mut self) -> Result<Vec<u8>, FetchError> {
        let mut all = Vec::new();
        while let Some(piece) = self.chunk().await? {
            all.extend_from_slice(&piece);
        }
        Ok(all)
    }
}

/// The reason for rejecting a host that is not on the list.
const NOT_LISTED: &str = "its host is not on the list of allowed hosts";
const NOT_PUBLIC: &str = "it is on this machine or its network, and its origin is not configured";

/// A resolver for names in the public network, and for the operator's proxies.
#[derive(Debug)]
struct PublicResolver {
    proxies: Vec<String>,
}

impl Resolve for PublicResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let is_proxy = self.proxies.iter().any(|proxy| proxy.eq_ignore_ascii_case(name.as_str()));
        Box::pin(async move {
            let found = tokio::net::lookup_host((name.as_str(), 0)).await?;
            let public: Vec<SocketAddr> = found.filter(|address| is_proxy || is_public(address.ip())).collect();
            if public.is_empty() {
                return Err(NotPublicError.into());
            }
            Ok(Box::new(public.into_iter()) as Addrs)
        })
    }
}

#[derive(Debug, thiserror::Error)]
#[error("the name has no public address")]
struct NotPublicError;

fn classify(error: reqwest::Error, origin: &str) -> FetchError {
    let mut next: Option<&(dyn std::error::Error + 'static)> = Some(&error);
    while let Some(cause) = next {
        if cause.is::<NotPublicError>() {
            return forbidden(origin, NOT_PUBLIC);
        }
        next = cause.source();
    }
    FetchError::Net(error.into())
}

fn redirected(from: &Url, response: &Response) -> Result<Url, FetchError> {
    let status = response.status().as_u16();
    let location = response.headers().get(LOCATION).and_then(|value| value.to_str().ok());
    let to = location.and_then(|location| from.join(location).ok()).ok_or(FetchError::Status(status))?;
    if from.scheme() == "https" && to.scheme() != "https" {
        return Err(forbidden(&origin(&to), "an https URL redirects to an http URL"));
    }
    Ok(to)
}

fn origin(url: &Url) -> String {
    url.origin().ascii_serialization()
}

fn forbidden(origin: &str, why: &'static str) -> FetchError {
    FetchError::Forbidden { origin: origin.to_owned(), why }
}
