//! Verification of the sender: one of the route's secrets must have signed the bytes of the body.
//!
//! | scheme | headers | signed message |
//! |---|---|---|
//! | Standard Webhooks, Svix | `webhook-id`, `-timestamp`, `-signature`; or `svix-…` | id, time and body: <https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md> |
//! | GitHub | `X-Hub-Signature-256` | the body: <https://docs.github.com/en/webhooks/using-webhooks/validating-webhook-deliveries> |
//! | GitLab | `X-Gitlab-Token` | nothing: the secret itself is sent: <https://docs.gitlab.com/user/project/integrations/webhooks/> |
//! | v2 | `X-Webhook-Signature-V2`, `X-Webhook-Timestamp` | time and body, as `time.body` |
//! | v1 | `X-Webhook-Signature` | the body |
//! | a service, or the keys of a route | see [`scheme`] | the body, alone or after a time |
//!
//! Tags are compared in constant time. A header that occurs twice counts as invalid.

use axum::http::{HeaderMap, HeaderValue};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::hmac;
use sha2::{Digest, Sha256};

use crate::route::Route;
use crate::scheme::{self, Form, Message, Scheme, from_hex};

/// The maximum number of signatures in one header, as during a rotation of the secret.
const SIGNATURES_MAX: usize = 16;

/// The prefix of a secret that is written as base64.
pub(crate) const WHSEC: &str = "whsec_";

/// The result of a successful verification.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Verification {
    /// The scheme.
    pub(crate) scheme: Scheme,
    /// The id of the call, if it is signed, too.
    pub(crate) id: Option<String>,
    /// The header of the call's id, if the service has one.
    pub(crate) id_header: &'static str,
    /// A hash of the signed bytes, which identifies them; `None` if nothing is signed.
    pub(crate) mark: Option<[u8; 8]>,
}

/// Verifies a call.
///
/// # Errors
///
/// The reason for the refusal, without information about the secret.
pub(crate) fn verify(
    route: &Route,
    headers: &HeaderMap,
    body: &[u8],
    now_ms: i64,
) -> Result<Verification, &'static str> {
    let call = Verifier { route, headers, body, now_ms };
    let form = match route.scheme {
        Scheme::Form => route.form.as_ref(),
        Scheme::Auto if scheme_of_headers(headers).is_none() => scheme::form_of_headers(headers),
        _ => None,
    };
    let scheme = match route.scheme {
        _ if form.is_some() => Scheme::Form,
        Scheme::Auto => scheme_of_headers(headers).ok_or(NO_SIGNATURE)?,
        scheme => scheme,
    };
    let is_of_body =
        matches!(scheme, Scheme::GitHub | Scheme::V1) || form.is_some_and(|form| form.message == Message::Body);
    if route.scheme == Scheme::Auto && is_of_body && has_leading_time(body) {
        return Err("its body looks like signed data of another scheme, with a leading timestamp");
    }
    if let Some(form) = form {
        return call.form(form);
    }
    match scheme {
        Scheme::Standard => call.standard(),
        Scheme::GitHub => call.body_signature(scheme, "x-hub-signature-256"),
        Scheme::GitLab => call.token(),
        Scheme::V2 => call.v2(),
        Scheme::Auto | Scheme::V1 | Scheme::Form => call.body_signature(Scheme::V1, "x-webhook-signature"),
    }
}

/// Returns the scheme of the first known header, the strongest scheme first. The schemes of GitHub and GitLab come
/// before the remaining ones, because their senders send one signature only.
fn scheme_of_headers(headers: &HeaderMap) -> Option<Scheme> {
    const ORDER: [(&str, Scheme); 6] = [
        ("webhook-signature", Scheme::Standard),
        ("svix-signature", Scheme::Standard),
        ("x-hub-signature-256", Scheme::GitHub),
        ("x-gitlab-token", Scheme::GitLab),
        ("x-webhook-signature-v2", Scheme::V2),
        ("x-webhook-signature", Scheme::V1),
    ];
    ORDER.into_iter().find(|(name, _)| headers.contains_key(*name)).map(|(_, scheme)| scheme)
}

/// Returns whether a body begins like the signed message of a scheme with a time: `TIME.` or `ID.TIME.`. All
/// schemes share one key, so a recorded call of such a scheme would otherwise be a valid call of a scheme without a
/// time.
fn has_leading_time(body: &[u8]) -> bool {
    /// The minimum number of digits in a signed time, in seconds.
    const DIGITS_MIN: usize = 9;
    let is_time = |part: &[u8]| part.len() >= DIGITS_MIN && part.iter().all(u8::is_ascii_digit);
    if let Some(rest) = body.strip_prefix(b"v0:") {
        return rest.split(|byte| *byte == b':').next().is_some_and(is_time);
    }
    let mut parts = body.splitn(3, |byte| *byte == b'.');
    let (first, second, third) = (parts.next(), parts.next(), parts.next());
    first.is_some_and(|part| second.is_some() && is_time(part))
        || second.is_some_and(|part| third.is_some() && is_time(part))
}

struct Verifier<'c> {
    route: &'c Route,
    headers: &'c HeaderMap,
    body: &'c [u8],
    now_ms: i64,
}

/// The reason for refusing a call without a known signature.
pub(crate) const NO_SIGNATURE: &str = "it carries no signature of a known scheme";

const NO_MATCH: &str = "its signature does not match any of the secrets";

const UNREADABLE: &str = "its signature cannot be parsed";

impl Verifier<'_> {
    fn standard(&self) -> Result<Verification, &'static str> {
        let prefix = if self.headers.contains_key("webhook-signature") { "webhook" } else { "svix" };
        let id = self.single_header(&format!("{prefix}-id"))?;
        let time = self.single_header(&format!("{prefix}-timestamp"))?;
        let value = self.single_header(&format!("{prefix}-signature"))?;
        self.check_time(time)?;
        let message = [id.as_bytes(), b".", time.as_bytes(), b".", self.body].concat();
        let signatures: Vec<Vec<u8>> = value
            .split_whitespace()
            .filter_map(|tag| tag.strip_prefix("v1,"))
            .take(SIGNATURES_MAX)
            .filter_map(|tag| STANDARD.decode(tag).ok())
            .collect();
        for key in self.route.secrets.iter().flat_map(|secret| standard_keys(secret)) {
            let key = hmac::Key::new(hmac::HMAC_SHA256, &key);
            if signatures.iter().any(|tag| hmac::verify(&key, &message, tag).is_ok()) {
                let mark = Some(mark(Scheme::Standard, &message));
                return Ok(Verification { scheme: Scheme::Standard, id: Some(id.to_owned()), id_header: "", mark });
            }
        }
        Err(NO_MATCH)
    }

    fn v2(&self) -> Result<Verification, &'static str> {
        let time = self.single_header("x-webhook-timestamp")?;
        self.check_time(time)?;
        let message = [time.as_bytes(), b".", self.body].concat();
        self.hex_signature(Scheme::V2, "x-webhook-signature-v2", &message)
    }

    fn body_signature(&self, scheme: Scheme, header: &str) -> Result<Verification, &'static str> {
        self.hex_signature(scheme, header, self.body)
    }

    fn hex_signature(&self, scheme: Scheme, header: &str, message: &[u8]) -> Result<Verification, &'static str> {
        let value = self.single_header(header)?;
        let tag = from_hex(value.strip_prefix("sha256=").unwrap_or(value)).ok_or(UNREADABLE)?;
        for secret in &self.route.secrets {
            let key = hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes());
            if hmac::verify(&key, message, &tag).is_ok() {
                return Ok(Verification { scheme, id: None, id_header: "", mark: Some(mark(scheme, message)) });
            }
        }
        Err(NO_MATCH)
    }

    fn form(&self, form: &Form) -> Result<Verification, &'static str> {
        let value = self.single_header(&form.header)?;
        let (time, value): (&str, Vec<&str>) = match form.message {
            Message::Body => ("", vec![value]),
            Message::Slack | Message::Timestamp => (self.single_header(&form.time_header)?, vec![value]),
            Message::Stripe => {
                let parts = || value.split(',').filter_map(|part| part.trim().split_once('='));
                let time = parts().find(|(name, _)| *name == "t").ok_or(UNREADABLE)?.1;
                (time, parts().filter(|(name, _)| *name == "v1").map(|(_, tag)| tag).collect())
            }
        };
        if form.message != Message::Body {
            self.check_time(time)?;
        }
        let bare = |value: &'_ str| value.strip_prefix(&*form.prefix).map_or_else(|| value.to_owned(), str::to_owned);
        let tags = value.into_iter().take(SIGNATURES_MAX).filter_map(|value| form.encoding.decode(&bare(value)));
        let tags: Vec<Vec<u8>> = tags.collect();
        if tags.is_empty() {
            return Err(UNREADABLE);
        }
        let message = form.message.of(time, self.body);
        for secret in &self.route.secrets {
            let key = hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes());
            if tags.iter().any(|tag| hmac::verify(&key, &message, tag).is_ok()) {
                // A signature of the body alone is the same under every header.
                let tag = if form.message == Message::Body { Scheme::V1 } else { Scheme::Form };
                let mark = Some(mark(tag, &message));
                return Ok(Verification { scheme: Scheme::Form, id: None, id_header: form.id_header, mark });
            }
        }
        Err(NO_MATCH)
    }

    fn token(&self) -> Result<Verification, &'static str> {
        let value = self.single_header("x-gitlab-token")?;
        for secret in &self.route.secrets {
            let key = hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes());
            let wanted = hmac::sign(&key, secret.as_bytes());
            if hmac::verify(&key, value.as_bytes(), wanted.as_ref()).is_ok() {
                return Ok(Verification { scheme: Scheme::GitLab, id: None, id_header: "", mark: self.gitlab_mark() });
            }
        }
        Err("its token does not match any of the secrets")
    }

    /// Returns a hash of a GitLab call, which has no signature. Without an id it is
    /// identified by its body and event chain.
    fn gitlab_mark(&self) -> Option<[u8; 8]> {
        if self.headers.contains_key("idempotency-key") {
            return None;
        }
        let chain = self.headers.get("x-gitlab-event-uuid").map(HeaderValue::as_bytes).unwrap_or_default();
        Some(mark(Scheme::GitLab, &[chain, b".", self.body].concat()))
    }

    /// Returns the value of a header that occurs exactly once.
    fn single_header(&self, name: &str) -> Result<&str, &'static str> {
        let mut all = self.headers.get_all(name).iter();
        match (all.next(), all.next()) {
            (Some(value), None) => value.to_str().map(str::trim).map_err(|_| UNREADABLE),
            (Some(_), Some(_)) => Err("a header of its signature occurs twice"),
            (None, _) => Err("it lacks the signature that its route requires"),
        }
    }

    fn check_time(&self, time: &str) -> Result<(), &'static str> {
        let at_s: i64 = time.parse().map_err(|_| "its timestamp cannot be parsed")?;
        let off = self.now_ms.div_euclid(1_000).abs_diff(at_s);
        if off > self.route.age_s_max { Err("its timestamp differs too much from the current time") } else { Ok(()) }
    }
}

/// Returns the keys that a secret can mean. `whsec_…` is base64. Any other secret is used literally, and also decoded
/// if it is valid base64, as the libraries of both schemes do.
pub(crate) fn standard_keys(secret: &str) -> Vec<Vec<u8>> {
    if let Some(coded) = secret.strip_prefix(WHSEC) {
        return STANDARD.decode(coded).ok().into_iter().collect();
    }
    let coded = STANDARD.decode(secret).ok().filter(|key| key.len() >= 16);
    std::iter::once(secret.as_bytes().to_vec()).chain(coded).collect()
}

/// Returns a hash that identifies these signed bytes.
pub(crate) fn mark(scheme: Scheme, message: &[u8]) -> [u8; 8] {
    let digest = digest(&[&[scheme as u8], message]);
    std::array::from_fn(|n| digest[n])
}

pub(crate) fn digest(parts: &[&[u8]]) -> [u8; 32] {
    let mut hash = Sha256::new();
    for part in parts {
        // The length separates the parts.
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    }
    hash.finalize().into()
}

#[cfg(test)]
mod tests;
