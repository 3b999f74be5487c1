//! Fetches what a stranger named, without being led astray.
//!
//! An address that comes out of a chat, a feed or a platform's answer must not
//! reach this machine or its network. So every hop, redirects included, either
//! belongs to an origin that the operator configured, or ends at an address of
//! the public network. Names are looked up by the resolver that also connects:
//! what was checked is what is reached. Headers go to the first origin only.

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

/// What may be fetched, and how much of it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct FetchOptions {
    /// Origins (scheme, host, port) that the operator configured; they may lie anywhere.
    pub origins: Vec<Url>,
    /// Certificates to trust besides the system's, as a PEM file.
    pub ca_file: Option<PathBuf>,
    /// The most bytes of a body.
    pub bytes_max: u64,
    /// Until the last byte, all redirects included.
    pub deadline: Duration,
    /// How many redirects are followed.
    pub redirects_max: usize,
    /// Hosts that may be asked besides the origins: names, domains (`.example.org`), `*`. `None`: any.
    pub hosts: Option<Vec<String>>,
    /// Proxies for connections that leave this machine. Default: none.
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
    /// The defaults, with these origins allowed wherever they lie.
    pub fn with_origins(origins: Vec<Url>) -> Self {
        Self { origins, ..Self::default() }
    }
}

/// Why something was not fetched. No message holds an address's path or query, which may be secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FetchError {
    /// It may not be fetched from here.
    #[error("{origin} may not be fetched: {why}")]
    Forbidden {
        /// Where it lies.
        origin: String,
        /// Which rule it breaks.
        why: &'static str,
    },
    /// It is longer than allowed.
    #[error("the file is longer than {bytes_max} bytes")]
    TooLarge {
        /// The bound.
        bytes_max: u64,
    },
    /// The server answered with something else than the file.
    #[error("the server answered with status {0}")]
    Status(u16),
    /// It took too long.
    #[error("the file did not arrive within {0:?}")]
    Deadline(Duration),
    /// The network failed.
    #[error(transparent)]
    Net(#[from] NetError),
}

/// Fetches files under one set of rules.
#[derive(Clone, Debug)]
pub struct Fetcher {
    configured: Client,
    public: Client,
    origins: Vec<String>,
    options: FetchOptions,
    rules: Rules,
}

impl Fetcher {
    /// A fetcher under these rules.
    ///
    /// # Errors
    ///
    /// Says when `ca_file` cannot be used.
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

    /// Asks for `url`, with `headers` for its own origin.
    ///
    /// # Errors
    ///
    /// Refuses addresses that lead inwards, and says what the server or the network did.
    pub async fn fetch(&self, url: &str, headers: HeaderMap) -> Result<Fetched, FetchError> {
        let deadline = Instant::now() + self.options.deadline;
        timeout_at(deadline, self.follow(url, headers, deadline))
            .await
            .unwrap_or(Err(FetchError::Deadline(self.options.deadline)))
    }

    async fn follow(&self, url: &str, headers: HeaderMap, deadline: Instant) -> Result<Fetched, FetchError> {
        let mut url = Url::parse(url).map_err(|_| forbidden("the address", "it is no address"))?;
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
        Err(forbidden(&origin(&url), "it redirects too often"))
    }

    /// Refuses a name that lies in this network although a proxy would look it up. A name that is unknown here is
    /// left to the proxy.
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
            return Err(forbidden(&here, "only http and https are fetched"));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(forbidden(&here, "the address holds a user name or password"));
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

/// An answer that is being read.
#[derive(Debug)]
pub struct Fetched {
    response: Response,
    left: u64,
    options: FetchOptions,
    deadline: Instant,
}

impl Fetched {
    /// Returns what the server calls the content, without parameters.
    pub fn content_type(&self) -> Option<&str> {
        let value = self.response.headers().get(CONTENT_TYPE)?.to_str().ok()?;
        value.split(';').next().map(str::trim)
    }

    /// Returns the length, where the server tells.
    pub fn content_length(&self) -> Option<u64> {
        self.response.content_length()
    }

    /// Returns the next piece, `None` at the end.
    ///
    /// # Errors
    ///
    /// Says when the bound or the deadline is passed, or the network fails.
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

    /// Reads it all.
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

/// The reason for a host that no list names.
const NOT_LISTED: &str = "its host is not on the list of hosts that files are fetched from";
const NOT_PUBLIC: &str = "it lies inside this machine or its network, and its origin is not configured";

/// A resolver of names that lie in the public network, and of the operator's proxies.
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
                return Err(NotPublic.into());
            }
            Ok(Box::new(public.into_iter()) as Addrs)
        })
    }
}

#[derive(Debug, thiserror::Error)]
#[error("the name has no address of the public network")]
struct NotPublic;

fn classify(error: reqwest::Error, origin: &str) -> FetchError {
    let mut next: Option<&(dyn std::error::Error + 'static)> = Some(&error);
    while let Some(cause) = next {
        if cause.is::<NotPublic>() {
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
        return Err(forbidden(&origin(&to), "an encrypted address redirects to an unencrypted one"));
    }
    Ok(to)
}

fn origin(url: &Url) -> String {
    url.origin().ascii_serialization()
}

fn forbidden(origin: &str, why: &'static str) -> FetchError {
    FetchError::Forbidden { origin: origin.to_owned(), why }
}
