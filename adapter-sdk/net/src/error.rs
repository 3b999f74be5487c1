//! Whether a request that failed was certainly not sent.

use crate::proxy::ProxyFailed;

/// What went wrong below HTTP. An answer with a bad status is not an error here.
///
/// The distinction that matters to a delivery: after [`NetError::NotSent`] it
/// may be tried again without a mark, after [`NetError::Doubtful`] it may have
/// arrived. Messages never hold the address, since some platforms keep their
/// token in it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NetError {
    /// Nothing reached the other side.
    #[error("not sent: {detail}")]
    NotSent {
        /// At which step it stopped.
        step: Step,
        /// What the library says.
        detail: String,
    },
    /// It was sent, wholly or in part, and there is no whole answer.
    #[error("no whole answer: {detail}")]
    Doubtful {
        /// Whether a deadline ended it rather than the other side.
        timed_out: bool,
        /// What the library says.
        detail: String,
    },
}

/// The step before sending at which it stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Step {
    /// The request itself is wrong.
    Request,
    /// The name has no address.
    Dns,
    /// No connection, or none in time, or no TLS on it.
    Connect,
}

impl NetError {
    /// Whether nothing reached the other side.
    pub fn is_not_sent(&self) -> bool {
        matches!(self, Self::NotSent { .. })
    }

    /// Whether a deadline ended it.
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

/// Adds the next step to a sentence about a certificate that is not trusted.
fn explained(detail: String) -> String {
    const STEPS: [(&str, &str); 4] = [
        ("UnknownIssuer", "write the certificate of the server, or of its authority, into `ca_file`"),
        ("CaUsedAsEndEntity", "the certificate is self-signed; write it into `ca_file`"),
        ("NotValidForName", "make a certificate whose subjectAltName has the name or address of the server"),
        ("not valid for", "make a certificate whose subjectAltName has the name or address of the server"),
    ];
    match STEPS.iter().find(|(what, _)| detail.contains("certificate") && detail.contains(what)) {
        Some((_, step)) => format!("{detail}; {step}"),
        None => detail,
    }
}

/// The sentence about a proxy, where one failed.
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

/// The chain of causes in one line, each said once.
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
