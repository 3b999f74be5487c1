//! Log records about refused calls, limited in number, and about the signatures of senders.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use axum::http::HeaderMap;

/// The number of logged characters of an unknown route's name.
pub(crate) const LOGGED_NAME_CHARS: usize = 64;

/// The minimum interval between two logged refusals of one route, in milliseconds; each
/// record counts the refusals since the previous one.
const REFUSAL_LOG_INTERVAL_MS: i64 = 60_000;

#[derive(Default)]
pub(crate) struct RefusalLog {
    logged_ms: i64,
    unlogged: u64,
}

pub(crate) fn log_refusal(log: &Mutex<RefusalLog>, route: &str, why: &str, now_ms: i64) {
    let mut log = log.lock().unwrap_or_else(PoisonError::into_inner);
    log.unlogged += 1;
    if now_ms.saturating_sub(log.logged_ms) >= REFUSAL_LOG_INTERVAL_MS {
        let calls = std::mem::take(&mut log.unlogged);
        log.logged_ms = now_ms;
        tracing::warn!(route, calls, "call rejected: {why}");
    }
}

/// Logs the signature headers of a sender once per route, so that the operator can set a fixed scheme.
pub(crate) fn log_signature_headers(logged: &Mutex<BTreeSet<String>>, route: &str, headers: &HeaderMap) {
    /// The maximum number of remembered headers per route.
    const KNOWN_MAX: usize = 16;
    let names = headers.keys().map(axum::http::HeaderName::as_str);
    let names: Vec<&str> =
        names.filter(|name| ["sign", "hmac", "token"].iter().any(|part| name.contains(part))).collect();
    let names: String = names.join(", ").chars().take(LOGGED_NAME_CHARS).collect();
    let mut logged = logged.lock().unwrap_or_else(PoisonError::into_inner);
    if logged.len() < KNOWN_MAX && logged.insert(names.clone()) {
        tracing::info!(route, headers = names, "signature of a sender recognised");
    }
}

/// Returns the names of a call's unusual headers, which may hold a signature, for the log. Values are not included.
pub(crate) fn custom_headers(headers: &HeaderMap) -> String {
    /// Headers that every client sends.
    const USUAL: [&str; 12] = [
        "host",
        "accept",
        "accept-encoding",
        "connection",
        "content-length",
        "content-type",
        "user-agent",
        "transfer-encoding",
        "expect",
        "cookie",
        "authorization",
        "cache-control",
    ];
    const NAMES_MAX: usize = 20;
    let names = headers.keys().map(axum::http::HeaderName::as_str).filter(|name| !USUAL.contains(name));
    let names: Vec<String> = names.take(NAMES_MAX).map(|name| name.chars().take(LOGGED_NAME_CHARS).collect()).collect();
    match names.is_empty() {
        true => "it has no custom header".to_owned(),
        false => format!(
            "its headers are {}; set `signature_header` of the route to the one with the signature",
            names.join(", ")
        ),
    }
}
