//! The identifiers of a call: the id for display, and the event id for the host.

use axum::http::HeaderMap;
use sha2::{Digest, Sha256};

use crate::scheme::Scheme;
use crate::signature::{Verification, digest};

/// The identifiers of a call.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct CallIds {
    /// The id for display: that of the sender, or else a hash of the content.
    pub(crate) id: String,
    /// The event id for the host.
    pub(crate) event: String,
    /// True if the same signed bytes always produce the same event id.
    pub(crate) is_signed: bool,
}

/// Returns the identifiers of a call.
///
/// An unsigned id is not trusted: anyone who recorded a call can exchange it, and other content under the same id is
/// another call. Therefore it is combined with the body. A call without an id is identified by its content and the
/// time span in which it counts once; at the boundary between two spans its mark is still stored.
pub(crate) fn of_call(signed: &Verification, headers: &HeaderMap, body: &[u8], now_ms: i64, replay_s: u64) -> CallIds {
    let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).map(|id| id.trim().to_owned());
    let sender_id = match signed.scheme {
        Scheme::Standard => signed.id.clone(),
        Scheme::GitHub => header("x-github-delivery"),
        // The other ids of GitLab identify the hook or a chain of events instead of the call.
        Scheme::GitLab => header("idempotency-key"),
        Scheme::Form if !signed.id_header.is_empty() => header(signed.id_header),
        Scheme::Auto | Scheme::V1 | Scheme::V2 | Scheme::Form => header("x-request-id"),
    };
    let sender_id = sender_id.filter(|id| !id.is_empty());
    let span = now_ms.div_euclid(1_000).div_euclid(i64::try_from(replay_s.max(1)).unwrap_or(i64::MAX));
    let words = match (signed.scheme, &sender_id) {
        (Scheme::Standard, Some(id)) => digest(&[b"id", id.as_bytes()]),
        // GitHub's payloads contain the time of the event, so two events never have the same body.
        (Scheme::GitHub, _) => digest(&[b"body", body]),
        (_, Some(id)) => digest(&[b"both", id.as_bytes(), body]),
        (_, None) => digest(&[b"span", &span.to_be_bytes(), &signed.mark.unwrap_or_default(), body]),
    };
    let event = hex(&words[..16]);
    let is_signed = matches!(signed.scheme, Scheme::Standard | Scheme::GitHub);
    CallIds { id: sender_id.map_or_else(|| event.clone(), display_id), event, is_signed }
}

/// Returns an id that is valid in the id of a chat.
fn display_id(id: String) -> String {
    /// The maximum length of an unchanged id, in bytes.
    const ID_BYTES_MAX: usize = 100;
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b':');
    if id.len() <= ID_BYTES_MAX && id.bytes().all(is_plain) { id } else { hex(&Sha256::digest(id)[..16]) }
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests;
