//! Network errors, with the distinction whether a failed request was sent.

use crate::proxy::ProxyFailed;

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
    let mut next = std::error::Error::source(error);
    while let Some(cause) = next {
        if let Some(failed) = cause.downcast_ref::<ProxyFailed>() {
            return Some(failed.to_string());
        }
        next = cause.source();
    }
    None
}

/// Returns the chain of causes in one line, without repetitions.
pub(crate) fn sentence(error: &dyn std::error::Error) -> String {
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
