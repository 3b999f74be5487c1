//! The classification of the platform's errors: outcomes of deliveries, of calls and of the link.
//!
//! This module alone classifies the platform's errors.

use std::time::Duration;

use hermes_adapter_sdk::prelude::*;

use crate::api::{ApiError, Rejection};

/// Returns the outcome of a delivery to `chat` that failed with this error.
pub(crate) fn outcome(error: &ApiError, chat: &Chat) -> SendOutcome {
    match error {
        ApiError::NotSent(detail) => SendOutcome::not_sent(None, WaitScope::Instance, detail.clone()),
        ApiError::Unknown(detail) => SendOutcome::unknown(detail.clone()),
        ApiError::UnknownKeyless(detail) => SendOutcome::unknown_keyless(detail.clone()),
        ApiError::RateLimited { retry_after, is_global } => {
            let scope = if *is_global { WaitScope::Instance } else { WaitScope::Chat };
            SendOutcome::not_sent(Some(ms(*retry_after)), scope, error.to_string())
        }
        ApiError::Invalid(detail) => SendOutcome::refused(RefusalKind::Invalid, detail.clone()),
        ApiError::Refused(refused) if is_from_proxy(refused) => {
            SendOutcome::not_sent(None, WaitScope::Chat, refused.to_string())
        }
        ApiError::Refused(refused) => SendOutcome::refused(refusal(refused, chat), refused.to_string()),
    }
}

/// Returns whether a proxy before Discord rejected the request, which is independent of the
/// chat. A request that is too large stays too large.
fn is_from_proxy(refused: &Rejection) -> bool {
    !refused.is_from_discord && (400..500).contains(&refused.status) && refused.status != 413
}

/// <https://docs.discord.com/developers/topics/opcodes-and-status-codes#json>
fn refusal(refused: &Rejection, chat: &Chat) -> RefusalKind {
    match (refused.code, refused.status) {
        // Unknown channel; an archived or locked thread.
        (10003, _) if chat.thread.is_some() => RefusalKind::ThreadGone,
        (50083 | 160_005, _) => RefusalKind::ThreadGone,
        (10003 | 10004, _) => RefusalKind::ChatGone,
        // No access; the user accepts no direct messages; no permission; verification. A
        // blocked word is a fault of the text.
        (50001 | 50007 | 50009 | 50013, _) => RefusalKind::Forbidden,
        (50035, _) if refused.message.contains("content: BASE_TYPE_MAX_LENGTH") => RefusalKind::TooLong,
        (_, 401) => RefusalKind::Unauthorized,
        (0, 403) => RefusalKind::Forbidden,
        _ => RefusalKind::Invalid,
    }
}

/// Returns the outcome of a delivery to a chat or message whose id is none of Discord's.
pub(crate) fn invalid_id(what: &str, id: &str) -> SendOutcome {
    SendOutcome::refused(RefusalKind::Invalid, format!("{id:?} is not a Discord {what} id (a number)"))
}

/// Returns the error of a call that is not a delivery.
pub(crate) fn call_error(error: ApiError) -> CallError {
    let code = match &error {
        ApiError::Refused(_) | ApiError::Invalid(_) => "refused",
        ApiError::RateLimited { .. } | ApiError::NotSent(_) | ApiError::Unknown(_) | ApiError::UnknownKeyless(_) => {
            "unavailable"
        }
    };
    let wait_ms = match &error {
        ApiError::RateLimited { retry_after, .. } => u64::try_from(retry_after.as_millis()).ok(),
        _ => None,
    };
    CallError::new(code, error.to_string()).retry_after_ms(wait_ms)
}

/// Maps an error of a call to the HTTP API to what it means for the link. The reason names the call.
pub(crate) fn connect_error(call: &str, error: &ApiError) -> ConnectError {
    match error {
        ApiError::Refused(refused) if refused.status == 401 => ConnectError::fatal(
            format!("Discord rejected the token ({refused})"),
            "copy the token of the bot from the Developer Portal (Bot, Reset Token) into `token` (or DISCORD_BOT_TOKEN)",
        ),
        ApiError::RateLimited { retry_after, .. } => ConnectError::retry_after_ms(error.to_string(), ms(*retry_after)),
        ApiError::NotSent(detail) => ConnectError::unreachable(detail),
        error => ConnectError::retry(format!("{call}: {error}")),
    }
}

/// Returns a wait in milliseconds, rounded up.
pub(crate) fn ms(wait: Duration) -> u64 {
    u64::try_from(wait.as_micros().div_ceil(1000)).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
