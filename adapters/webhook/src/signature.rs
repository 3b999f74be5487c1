//! Who called: a call counts when one of its route's secrets signed the bytes of its body.
//!
//! | scheme | headers | what is signed |
//! |---|---|---|
//! | Standard Webhooks, Svix | `webhook-id`, `-timestamp`, `-signature`; or `svix-…` | id, time and body: <https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md> |
//! | GitHub | `X-Hub-Signature-256` | the body: <https://docs.github.com/en/webhooks/using-webhooks/validating-webhook-deliveries> |
//! | GitLab | `X-Gitlab-Token` | nothing: the secret itself is sent: <https://docs.gitlab.com/user/project/integrations/webhooks/> |
//! | v2 | `X-Webhook-Signature-V2`, `X-Webhook-Timestamp` | time and body, as `time.body` |
//! | v1 | `X-Webhook-Signature` | the body |
//! | a service, or the keys of a route | see [`forms`] | the body, alone or behind a time |
//!
//! Every comparison is one of tags, which takes as long for a wrong one as for the right one. A header that stands
//! there twice counts as none that fits.

use axum::http::{HeaderMap, HeaderValue};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::hmac;
use sha2::{Digest, Sha256};

use crate::routes::{Route, Scheme};

pub mod forms;

use forms::{Form, Message};

/// Signatures in one header, for a secret that is being replaced.
const SIGNATURES_MAX: usize = 16;

/// What stands before a secret that is written as base64.
pub const WHSEC: &str = "whsec_";

/// A call that is signed.
#[derive(Debug, PartialEq, Eq)]
pub struct Signed {
    /// How.
    pub scheme: Scheme,
    /// Its id, where that is signed, too.
    pub id: Option<String>,
    /// The header of its id, where its service has one.
    pub id_header: &'static str,
    /// What tells what was signed from everything else that was; `None` where nothing is.
    pub mark: Option<[u8; 8]>,
}

/// Judges a call.
///
/// # Errors
///
/// Why it does not count, without a word about the secret.
pub fn judge(route: &Route, headers: &HeaderMap, body: &[u8], now_ms: i64) -> Result<Signed, &'static str> {
    let call = Judged { route, headers, body, now_ms };
    let form = match route.scheme {
        Scheme::Form => route.form.as_ref(),
        Scheme::Auto if by_headers(headers).is_none() => forms::by_headers(headers),
        _ => None,
    };
    let scheme = match route.scheme {
        _ if form.is_some() => Scheme::Form,
        Scheme::Auto => by_headers(headers).ok_or(NO_SIGNATURE)?,
        scheme => scheme,
    };
    let is_of_body =
        matches!(scheme, Scheme::GitHub | Scheme::V1) || form.is_some_and(|form| form.message == Message::Body);
    if route.scheme == Scheme::Auto && is_of_body && is_stamped(body) {
        return Err("its body is what another scheme signs, with a time in front");
    }
    if let Some(form) = form {
        return call.form(form);
    }
    match scheme {
        Scheme::Standard => call.standard(),
        Scheme::GitHub => call.body_alone(scheme, "x-hub-signature-256"),
        Scheme::GitLab => call.token(),
        Scheme::V2 => call.v2(),
        Scheme::Auto | Scheme::V1 | Scheme::Form => call.body_alone(Scheme::V1, "x-webhook-signature"),
    }
}

/// The scheme of the first header there is. The order is the strongest first, but for the two whose senders have one
/// alone.
fn by_headers(headers: &HeaderMap) -> Option<Scheme> {
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

/// Whether a body begins as the signed words of the schemes that know their time: `TIME.` or `ID.TIME.`. The key of
/// all schemes is one, so a recorded call of those would else be a good one of those that know none.
fn is_stamped(body: &[u8]) -> bool {
    /// The fewest digits of a time in seconds that anybody signs.
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

struct Judged<'c> {
    route: &'c Route,
    headers: &'c HeaderMap,
    body: &'c [u8],
    now_ms: i64,
}

/// The refusal of a call without any known signature.
pub const NO_SIGNATURE: &str = "it carries no signature that is known";
const WRONG: &str = "its signature fits none of the secrets";
const UNREAD: &str = "its signature cannot be read";

impl Judged<'_> {
    fn standard(&self) -> Result<Signed, &'static str> {
        let prefix = if self.headers.contains_key("webhook-signature") { "webhook" } else { "svix" };
        let id = self.one(&format!("{prefix}-id"))?;
        let time = self.one(&format!("{prefix}-timestamp"))?;
        let said = self.one(&format!("{prefix}-signature"))?;
        self.is_near(time)?;
        let message = [id.as_bytes(), b".", time.as_bytes(), b".", self.body].concat();
        let signatures: Vec<Vec<u8>> = said
            .split_whitespace()
            .filter_map(|one| one.strip_prefix("v1,"))
            .take(SIGNATURES_MAX)
            .filter_map(|one| STANDARD.decode(one).ok())
            .collect();
        for key in self.route.secrets.iter().flat_map(|secret| standard_keys(secret)) {
            let key = hmac::Key::new(hmac::HMAC_SHA256, &key);
            if signatures.iter().any(|tag| hmac::verify(&key, &message, tag).is_ok()) {
                let mark = Some(mark(Scheme::Standard, &message));
                return Ok(Signed { scheme: Scheme::Standard, id: Some(id.to_owned()), id_header: "", mark });
            }
        }
        Err(WRONG)
    }

    fn v2(&self) -> Result<Signed, &'static str> {
        let time = self.one("x-webhook-timestamp")?;
        self.is_near(time)?;
        let message = [time.as_bytes(), b".", self.body].concat();
        self.in_hex(Scheme::V2, "x-webhook-signature-v2", &message)
    }

    fn body_alone(&self, scheme: Scheme, header: &str) -> Result<Signed, &'static str> {
        self.in_hex(scheme, header, self.body)
    }

    fn in_hex(&self, scheme: Scheme, header: &str, message: &[u8]) -> Result<Signed, &'static str> {
        let said = self.one(header)?;
        let tag = from_hex(said.strip_prefix("sha256=").unwrap_or(said)).ok_or(UNREAD)?;
        for secret in &self.route.secrets {
            let key = hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes());
            if hmac::verify(&key, message, &tag).is_ok() {
                return Ok(Signed { scheme, id: None, id_header: "", mark: Some(mark(scheme, message)) });
            }
        }
        Err(WRONG)
    }

    fn form(&self, form: &Form) -> Result<Signed, &'static str> {
        let said = self.one(&form.header)?;
        let (time, said): (&str, Vec<&str>) = match form.message {
            Message::Body => ("", vec![said]),
            Message::Slack | Message::Timestamp => (self.one(&form.time_header)?, vec![said]),
            Message::Stripe => {
                let parts = || said.split(',').filter_map(|part| part.trim().split_once('='));
                let time = parts().find(|(name, _)| *name == "t").ok_or(UNREAD)?.1;
                (time, parts().filter(|(name, _)| *name == "v1").map(|(_, tag)| tag).collect())
            }
        };
        if form.message != Message::Body {
            self.is_near(time)?;
        }
        let bare = |said: &'_ str| said.strip_prefix(&*form.prefix).map_or_else(|| said.to_owned(), str::to_owned);
        let tags = said.into_iter().take(SIGNATURES_MAX).filter_map(|said| form.encoding.decode(&bare(said)));
        let tags: Vec<Vec<u8>> = tags.collect();
        if tags.is_empty() {
            return Err(UNREAD);
        }
        let message = form.message.of(time, self.body);
        for secret in &self.route.secrets {
            let key = hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes());
            if tags.iter().any(|tag| hmac::verify(&key, &message, tag).is_ok()) {
                // A signature of the body alone is the same under every header.
                let tag = if form.message == Message::Body { Scheme::V1 } else { Scheme::Form };
                let mark = Some(mark(tag, &message));
                return Ok(Signed { scheme: Scheme::Form, id: None, id_header: form.id_header, mark });
            }
        }
        Err(WRONG)
    }

    fn token(&self) -> Result<Signed, &'static str> {
        let said = self.one("x-gitlab-token")?;
        for secret in &self.route.secrets {
            let key = hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes());
            let wanted = hmac::sign(&key, secret.as_bytes());
            if hmac::verify(&key, said.as_bytes(), wanted.as_ref()).is_ok() {
                return Ok(Signed { scheme: Scheme::GitLab, id: None, id_header: "", mark: self.unkeyed() });
            }
        }
        Err("its token is none of the secrets")
    }

    /// GitLab signs nothing. Without an id for the call, its words and the chain of events tell it from others.
    fn unkeyed(&self) -> Option<[u8; 8]> {
        if self.headers.contains_key("idempotency-key") {
            return None;
        }
        let chain = self.headers.get("x-gitlab-event-uuid").map(HeaderValue::as_bytes).unwrap_or_default();
        Some(mark(Scheme::GitLab, &[chain, b".", self.body].concat()))
    }

    /// The value of a header that stands there once.
    fn one(&self, name: &str) -> Result<&str, &'static str> {
        let mut all = self.headers.get_all(name).iter();
        match (all.next(), all.next()) {
            (Some(value), None) => value.to_str().map(str::trim).map_err(|_| UNREAD),
            (Some(_), Some(_)) => Err("a header of its signature stands there twice"),
            (None, _) => Err("it is not signed as its route wants it"),
        }
    }

    fn is_near(&self, time: &str) -> Result<(), &'static str> {
        let at_s: i64 = time.parse().map_err(|_| "its time cannot be read")?;
        let off = self.now_ms.div_euclid(1_000).abs_diff(at_s);
        if off > self.route.age_s_max { Err("its time is too far from ours") } else { Ok(()) }
    }
}

/// The keys that a secret may stand for: what is written as `whsec_…` is base64; anything else is taken as it is, and
/// as base64 where it is that, since the libraries of both schemes read it so.
pub fn standard_keys(secret: &str) -> Vec<Vec<u8>> {
    if let Some(coded) = secret.strip_prefix(WHSEC) {
        return STANDARD.decode(coded).ok().into_iter().collect();
    }
    let coded = STANDARD.decode(secret).ok().filter(|key| key.len() >= 16);
    std::iter::once(secret.as_bytes().to_vec()).chain(coded).collect()
}

fn from_hex(text: &str) -> Option<Vec<u8>> {
    if text.len() != 64 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).ok()).collect()
}

/// What tells these signed bytes from all others.
fn mark(scheme: Scheme, message: &[u8]) -> [u8; 8] {
    let digest = digest(&[&[scheme as u8], message]);
    std::array::from_fn(|n| digest[n])
}

fn digest(parts: &[&[u8]]) -> [u8; 32] {
    let mut hash = Sha256::new();
    for part in parts {
        // The length keeps the parts apart.
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    }
    hash.finalize().into()
}

/// How a call is named.
#[derive(Debug, PartialEq, Eq)]
pub struct Names {
    /// What people see: the id that its sender gave it, else one of what it says.
    pub id: String,
    /// What the host knows it by, for as long as it keeps its events.
    pub event: String,
    /// Whether the same signed bytes are always that event.
    pub is_signed: bool,
}

/// Names a call of a route.
///
/// An id that is not signed names nothing by itself: whoever recorded a call may exchange it, and other words under
/// the same id are another call. So it counts together with the body. What has no id at all is named by its words and
/// the span of time in which they count once; at the edge between two spans its mark is still known.
pub fn names(signed: &Signed, headers: &HeaderMap, body: &[u8], now_ms: i64, replay_s: u64) -> Names {
    let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).map(|id| id.trim().to_owned());
    let given = match signed.scheme {
        Scheme::Standard => signed.id.clone(),
        Scheme::GitHub => header("x-github-delivery"),
        // The other ids that GitLab sends name the hook, or a chain of events, and not the call.
        Scheme::GitLab => header("idempotency-key"),
        Scheme::Form if !signed.id_header.is_empty() => header(signed.id_header),
        Scheme::Auto | Scheme::V1 | Scheme::V2 | Scheme::Form => header("x-request-id"),
    };
    let given = given.filter(|id| !id.is_empty());
    let span = now_ms.div_euclid(1_000).div_euclid(i64::try_from(replay_s.max(1)).unwrap_or(i64::MAX));
    let words = match (signed.scheme, &given) {
        (Scheme::Standard, Some(id)) => digest(&[b"id", id.as_bytes()]),
        // What GitHub sends says when it happened and is never said twice.
        (Scheme::GitHub, _) => digest(&[b"body", body]),
        (_, Some(id)) => digest(&[b"both", id.as_bytes(), body]),
        (_, None) => digest(&[b"span", &span.to_be_bytes(), &signed.mark.unwrap_or_default(), body]),
    };
    let event = hex(&words[..16]);
    let is_signed = matches!(signed.scheme, Scheme::Standard | Scheme::GitHub);
    Names { id: given.map_or_else(|| event.clone(), short), event, is_signed }
}

/// An id that can stand in the name of a chat.
fn short(id: String) -> String {
    /// The longest id that is kept as it is.
    const ID_BYTES_MAX: usize = 100;
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b':');
    if id.len() <= ID_BYTES_MAX && id.bytes().all(is_plain) { id } else { hex(&Sha256::digest(id)[..16]) }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests;
