//! The errors of clients and connections, with the distinction whether a failed request was sent.

use std::error::Error;
use std::io::ErrorKind;

/// An error below HTTP. A response with an error status is not an error here.
///
/// The distinction decides the retry of a delivery: after [`NetError::NotSent`] it may be
/// retried without a mark; after [`NetError::Doubtful`] it may have arrived. Messages never
/// contain the address, because some platforms put their token into it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NetError {
    /// The request did not reach the other side.
    #[error("not sent: {detail}")]
    NotSent {
        /// The step at which it failed.
        step: Step,
        /// The message of the library.
        detail: String,
    },
    /// The request was sent, at least in part, and the response is incomplete.
    #[error("incomplete response: {detail}")]
    Doubtful {
        /// True if a deadline ended the request instead of the other side.
        timed_out: bool,
        /// The message of the library.
        detail: String,
    },
}

/// The step before sending at which a request failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Step {
    /// The request itself is invalid.
    Request,
    /// The host name has no address.
    Dns,
    /// The connection failed, timed out, or did not establish TLS.
    Connect,
}

impl NetError {
    /// Returns whether the request did not reach the other side.
    pub fn is_not_sent(&self) -> bool {
        matches!(self, Self::NotSent { .. })
    }

    /// Returns whether a deadline ended the request.
    pub fn is_timeout(&self) -> bool {
        matches!(self, Self::Doubtful { timed_out: true, .. })
    }
}

impl From<reqwest::Error> for NetError {
    fn from(error: reqwest::Error) -> Self {
        let step = if error.is_builder() {
            Some(Step::Request)
        } else if error.is_dns() {
            Some(Step::Dns)
        } else if error.is_connect() {
            Some(Step::Connect)
        } else {
            None
        };
        let timed_out = error.is_timeout();
        let error = error.without_url();
        let detail = proxy_failed(&error).unwrap_or_else(|| explained(sentence(&error)));
        match step {
            Some(step) => Self::NotSent { step, detail },
            None => Self::Doubtful { timed_out, detail },
        }
    }
}

/// The reason why a client could not be built. The operator fixes it in the adapter's section.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// The file cannot be read.
    #[error("ca_file {path} cannot be read")]
    CaFile {
        /// The path of the file.
        path: String,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
    /// The file contains no certificate.
    #[error("ca_file {path} contains no valid certificate; it must be a PEM file")]
    CaContent {
        /// The path of the file.
        path: String,
    },
    /// The client library rejected the settings.
    #[error("the HTTP client cannot be created ({0})")]
    Build(String),
    /// The address is invalid.
    #[error("{0}")]
    Url(String),
    /// The proxy is invalid. The message does not contain its value.
    #[error("{0}")]
    Proxy(String),
}

/// Appends the next step to an error about an untrusted certificate.
fn explained(detail: String) -> String {
    const STEPS: [(&str, &str); 4] = [
        ("UnknownIssuer", "set `ca_file` to the certificate of the server or of its authority"),
        ("CaUsedAsEndEntity", "the certificate is self-signed; set `ca_file` to it"),
        ("NotValidForName", "create a certificate whose subjectAltName contains the name or address of the server"),
        ("not valid for", "create a certificate whose subjectAltName contains the name or address of the server"),
    ];
    match STEPS.iter().find(|(what, _)| detail.contains("certificate") && detail.contains(what)) {
        Some((_, step)) => format!("{detail}; {step}"),
        None => detail,
    }
}

/// Returns the error of the proxy, if one failed.
fn proxy_failed(error: &reqwest::Error) -> Option<String> {
    let mut next = Error::source(error);
    while let Some(cause) = next {
        if let Some(failed) = cause.downcast_ref::<ProxyError>() {
            return Some(failed.to_string());
        }
        next = cause.source();
    }
    None
}

pub(crate) type BoxError = Box<dyn Error + Send + Sync>;

/// The failure of a connection through a proxy.
#[derive(Debug, thiserror::Error)]
#[error("{sentence}")]
pub(crate) struct ProxyError {
    sentence: String,
    #[source]
    source: BoxError,
}

impl ProxyError {
    pub(crate) fn new(proxy: &str, source: BoxError) -> Self {
        let sentence = match why(&*source) {
            Some(why) => format!("proxy {proxy} {why}"),
            None => format!("proxy {proxy}: {}", sentence(&*source)),
        };
        Self { sentence, source }
    }
}

/// Returns the reason why the connection to the proxy failed, if it is a known one.
fn why(error: &(dyn Error + 'static)) -> Option<&'static str> {
    let mut next = Some(error);
    while let Some(cause) = next {
        if let Some(io) = cause.downcast_ref::<std::io::Error>() {
            match io.kind() {
                ErrorKind::ConnectionRefused => return Some("refused the connection"),
                ErrorKind::TimedOut => return Some("did not answer in time"),
                ErrorKind::ConnectionReset | ErrorKind::UnexpectedEof => return Some("closed the connection"),
                _ => {}
            }
        }
        next = cause.source();
    }
    // These errors are private to the client library and do not pass on their cause.
    let text = sentence(error);
    if text.contains("error resolving for socks proxy") {
        return Some(
            "was not used: the name of the server has no address here; use socks5h:// to resolve names at the proxy",
        );
    }
    if text.contains("dns error") {
        return Some("cannot be found: its name has no address");
    }
    if text.contains("authorization required") || text.contains("auth failed") || text.contains("No acceptable") {
        return Some("rejected the credentials; set them as scheme://user:password@host:port");
    }
    if text.contains("tunnel error: unsuccessful") {
        return Some("refused to connect to the server");
    }
    if text.contains("SOCKS error: failed to create underlying connection") {
        let refused = format!("{error:?}").contains("ConnectionRefused");
        return Some(if refused { "refused the connection" } else { "cannot be reached" });
    }
    None
}

/// Returns the chain of causes in one line, without repetitions.
pub(crate) fn sentence(error: &dyn Error) -> String {
    let mut said = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let cause_said = cause.to_string();
        if !said.contains(&cause_said) {
            said.push_str(": ");
            said.push_str(&cause_said);
        }
        next = cause.source();
    }
    said
}
