//! The classification of Telegram's errors: outcomes of deliveries, of calls and of the link.
//!
//! This module alone classifies the platform's errors.

use hermes_adapter_sdk::prelude::*;

use crate::api::{ApiError, Rejection};

/// Error texts for a chat that rejects one kind of content and accepts others.
const CONTENT_FORBIDDEN: [&str; 12] = [
    "not enough rights to send photos",
    "not enough rights to send videos",
    "not enough rights to send audios",
    "not enough rights to send music",
    "not enough rights to send documents",
    "not enough rights to send voice",
    "not enough rights to send video notes",
    "not enough rights to send stickers",
    "not enough rights to send animations",
    "not enough rights to send media",
    "not enough rights to send polls",
    "voice_messages_forbidden",
];

/// Returns the outcome of a delivery that failed with this error.
pub(crate) fn outcome(error: &ApiError) -> SendOutcome {
    match error {
        ApiError::NotSent(detail) => SendOutcome::not_sent(None, WaitScope::Instance, detail.clone()),
        ApiError::Invalid(detail) => SendOutcome::refused(RefusalKind::Invalid, detail.clone()),
        ApiError::TooLarge(_) => SendOutcome::unknown(error.to_string()),
        ApiError::Unknown(detail) => SendOutcome::unknown(detail.clone()),
        ApiError::Refused(refused) => refusal(refused),
    }
}

/// Classifies a refusal. The Bot API has no error codes besides the HTTP status, so the
/// sentences are parsed, only here.
pub(crate) fn refusal(refused: &Rejection) -> SendOutcome {
    if let Some(new) = refused.migrate_to_chat_id {
        return SendOutcome::migrated(new.to_string());
    }
    if refused.code == 429 {
        return SendOutcome::not_sent(refused.retry_after_ms, WaitScope::Chat, refused.description.clone());
    }
    let description = refused.description.to_ascii_lowercase();
    let contains_any = |words: &[&str]| words.iter().any(|word| description.contains(word));
    let kind = match refused.code {
        401 => RefusalKind::Unauthorized,
        // The server does not have the method; see `checked`.
        404 => RefusalKind::Invalid,
        403 => RefusalKind::Forbidden,
        // "Request Entity Too Large" is about bytes.
        413 => RefusalKind::Invalid,
        _ if contains_any(&["can't parse entities", "can't parse message text", "unsupported start tag", "entity"]) => {
            RefusalKind::BadFormat
        }
        _ if contains_any(&[
            "message is too long",
            "message_too_long",
            "caption is too long",
            "text is too long",
            "too many characters",
        ]) =>
        {
            RefusalKind::TooLong
        }
        _ if contains_any(&[
            "thread not found",
            "topic_deleted",
            "topic_closed",
            "topic closed",
            "topic not found",
        ]) =>
        {
            RefusalKind::ThreadGone
        }
        _ if contains_any(&[
            "chat not found",
            "peer_id_invalid",
            "group chat was deactivated",
            "user is deactivated",
        ]) =>
        {
            RefusalKind::ChatGone
        }
        // The chat accepts text, but not this kind of content.
        _ if contains_any(&CONTENT_FORBIDDEN) => RefusalKind::Invalid,
        _ if contains_any(&[
            "not enough rights",
            "have no rights",
            "need administrator rights",
            "chat_write_forbidden",
        ]) =>
        {
            RefusalKind::Forbidden
        }
        _ => RefusalKind::Invalid,
    };
    SendOutcome::refused(kind, refused.description.clone())
}

/// Returns whether a rejection is a bare "Not Found": the answer to a wrong token, and to a method that the server does
/// not have.
pub(crate) fn is_bare_not_found(refused: &Rejection) -> bool {
    refused.code == 404 && refused.description.trim().trim_end_matches('.').eq_ignore_ascii_case("not found")
}

/// Returns the error of a call that is not a delivery.
pub(crate) fn call_error(error: ApiError) -> CallError {
    let code = match &error {
        ApiError::Refused(_) => "refused",
        ApiError::Invalid(_) => "invalid",
        ApiError::NotSent(_) | ApiError::TooLarge(_) | ApiError::Unknown(_) => "unavailable",
    };
    let wait_ms = match &error {
        ApiError::Refused(refused) => refused.retry_after_ms,
        _ => None,
    };
    CallError::new(code, error.to_string()).retry_after_ms(wait_ms)
}

/// Returns the effect of a rejected token on the link.
pub(crate) fn invalid_token(refused: &Rejection) -> ConnectError {
    ConnectError::fatal(
        format!("Telegram rejected the token ({})", refused.description),
        "copy the token of the bot from @BotFather into `token` (or TELEGRAM_BOT_TOKEN)",
    )
}

/// Returns the effect of an error on the link. A 404 is about one method: the next connect
/// checks the token with `getMe`.
pub(crate) fn connect_error(error: &ApiError) -> ConnectError {
    let refused = match error {
        ApiError::Refused(refused) => refused,
        ApiError::NotSent(detail) => return ConnectError::unreachable(detail),
        _ => return ConnectError::retry(error.to_string()),
    };
    match refused.code {
        401 => invalid_token(refused),
        429 => ConnectError::retry_after_ms(refused.description.clone(), refused.retry_after_ms.unwrap_or(1000)),
        _ => ConnectError::retry(refused.description.clone()),
    }
}

#[cfg(test)]
mod tests;
