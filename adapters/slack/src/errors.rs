//! The classification of Slack's errors: outcomes of deliveries, of calls and of the link.
//!
//! This module alone classifies the platform's errors.

use hermes_adapter_sdk::prelude::*;

use crate::api::{ApiError, Rejection};

/// Returns the outcome of a delivery that failed with this error.
pub(crate) fn outcome(error: &ApiError) -> SendOutcome {
    match error {
        ApiError::NotSent(detail) => SendOutcome::not_sent(None, WaitScope::Instance, detail.clone()),
        ApiError::NoEffect(detail) => SendOutcome::not_sent(None, WaitScope::Chat, detail.clone()),
        ApiError::Unknown(detail) => SendOutcome::unknown(detail.clone()),
        ApiError::Refused(refused) => refusal(refused),
    }
}

/// Returns whether Slack failed while processing the call.
pub(crate) fn is_server_fault(code: &str) -> bool {
    matches!(code, "fatal_error" | "internal_error")
}

/// Error codes for which another format of the text does not help; `file` and `response_url` are our own.
const INVALID: [&str; 14] = [
    "as_user_not_supported",
    "cant_update_message",
    "edit_window_closed",
    "file",
    "file_not_found",
    "message_not_found",
    "method_deprecated",
    "metadata_too_large",
    "missing_post_type",
    "no_text",
    "response_url",
    "unknown_method",
    "user_not_found",
    "users_not_found",
];

/// Classifies the codes of `chat.postMessage`, `chat.update` and `files.completeUploadExternal`.
/// <https://docs.slack.dev/reference/methods/chat.postMessage#errors>
pub(crate) fn refusal(refused: &Rejection) -> SendOutcome {
    let kind = match refused.code.as_str() {
        // Slack allows one message per second and channel. <https://docs.slack.dev/apis/web-api/rate-limits>
        "ratelimited" | "rate_limited" => {
            return SendOutcome::not_sent(refused.retry_after_ms, WaitScope::Chat, refused.to_string());
        }
        "service_unavailable" | "request_timeout" | "team_added_to_org" => {
            return SendOutcome::not_sent(refused.retry_after_ms, WaitScope::Instance, refused.to_string());
        }
        // The call may have taken effect in part before the failure.
        code if is_server_fault(code) => return SendOutcome::unknown(refused.to_string()),
        "msg_too_long" | "msg_blocks_too_long" => RefusalKind::TooLong,
        "invalid_blocks" | "invalid_blocks_format" => RefusalKind::BadFormat,
        "channel_not_found" | "channel_is_archived" | "is_archived" => RefusalKind::ChatGone,
        "thread_not_found" | "invalid_thread_ts" | "cannot_reply_to_message" => RefusalKind::ThreadGone,
        "invalid_auth" | "not_authed" | "account_inactive" | "token_revoked" | "token_expired"
        | "org_login_required" => RefusalKind::Unauthorized,
        "not_in_channel"
        | "user_not_in_channel"
        | "messages_tab_disabled"
        | "missing_scope"
        | "no_permission"
        | "access_denied"
        | "ekm_access_denied"
        | "team_access_not_granted"
        | "two_factor_setup_required"
        | "not_allowed_token_type"
        | "cannot_dm_bot"
        | "posting_to_general_channel_denied" => RefusalKind::Forbidden,
        code if code.starts_with("restricted_action") => RefusalKind::Forbidden,
        code if INVALID.contains(&code) || code.starts_with("invalid_") => RefusalKind::Invalid,
        // An unknown code, which Slack may have added later. The cause may be the format of the text.
        _ => {
            tracing::warn!(%refused, "Slack rejected a message with an unknown error code; retrying once as plain text");
            RefusalKind::BadFormat
        }
    };
    SendOutcome::refused(kind, refused.to_string())
}

/// Returns the error of a call that is not a delivery.
pub(crate) fn call_error(error: ApiError) -> CallError {
    let code = match &error {
        ApiError::Refused(_) => "refused",
        ApiError::NotSent(_) | ApiError::NoEffect(_) | ApiError::Unknown(_) => "unavailable",
    };
    let wait_ms = match &error {
        ApiError::Refused(refused) => refused.retry_after_ms,
        _ => None,
    };
    CallError::new(code, error.to_string()).retry_after_ms(wait_ms)
}

/// Returns the effect of an error on the link; `key` is the config key of the token.
pub(crate) fn connect_error(error: &ApiError, key: &str) -> ConnectError {
    let refused = match error {
        ApiError::Refused(refused) => refused,
        ApiError::NotSent(detail) => return ConnectError::unreachable(detail),
        _ => return ConnectError::retry(error.to_string()),
    };
    match refused.code.as_str() {
        "invalid_auth"
        | "not_authed"
        | "account_inactive"
        | "token_revoked"
        | "token_expired"
        | "not_allowed_token_type"
        | "org_login_required" => ConnectError::fatal(
            format!("Slack rejected `{key}` ({refused})"),
            format!("copy `{key}` again from the pages of the app at https://api.slack.com/apps"),
        ),
        "missing_scope" | "no_permission" => ConnectError::fatal(
            format!("`{key}` lacks a scope ({refused})"),
            "add the scope to the app, reinstall it and copy the new token",
        ),
        "ratelimited" => ConnectError::retry_after_ms(refused.to_string(), refused.retry_after_ms.unwrap_or(30_000)),
        _ => ConnectError::retry(refused.to_string()),
    }
}

#[cfg(test)]
mod tests;
