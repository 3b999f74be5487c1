//! The errors of an endpoint, classified from statuses, codes and messages.

use std::time::Duration;

use hermes_adapter_net::NetError;
use hermes_adapter_net::reqwest::Url;
use hermes_protocol::text::{one_line, truncate};
use serde_json::Value;

use crate::Failure;
use crate::port::CONTEXT_TOO_LONG;

/// Longest quote of the endpoint in the log, in characters.
const WORDS_CHARS_MAX: usize = 300;

/// The failure of one request.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum EndpointError {
    /// The API key is invalid.
    KeyRefused { status: u16 },
    /// The key is valid, but the request is not allowed.
    Forbidden { message: String },
    /// The model does not exist.
    NotFound { message: String },
    /// The address does not exist.
    NoSuchAddress { status: u16, message: String },
    /// The quota of the account is used up.
    QuotaUsedUp { message: String },
    /// The rate limit was exceeded.
    Busy { retry_after: Option<Duration>, message: String },
    /// The server failed.
    ServerFailed { status: u16, retry_after: Option<Duration>, message: String },
    /// The conversation exceeds the context window of the model.
    ContextTooLong { message: String },
    /// A content filter withheld the answer.
    Filtered { message: String },
    /// Any other refusal.
    Refused { status: u16, message: String },
    /// The endpoint reported an error within its answer.
    ErrorInAnswer { message: String },
    /// The connection failed.
    Unreachable { detail: String },
    /// The first piece did not arrive in time.
    NoResponse { after: Duration },
    /// The next piece did not arrive in time.
    Stalled { after: Duration },
    /// The answer was cut off.
    Truncated { detail: String },
    /// The response is not a chat completion.
    NotACompletion { why: &'static str },
    /// One piece of the answer exceeds the limit.
    PieceTooLong { bytes_max: usize },
    /// The model reached its length limit before any text.
    OnlyLength,
    /// The answer contains no text.
    Empty,
    /// The model called a tool although none was offered.
    ToolCall,
    /// The model used up its tool rounds and still gives no answer.
    OnlyCalls,
}

impl EndpointError {
    /// Classifies a response with an error status. `start` is the beginning of its body.
    pub(super) fn of_status(status: u16, retry_after: Option<Duration>, start: &str) -> Self {
        let body: Value = serde_json::from_str(start).unwrap_or_default();
        let error = if body["error"].is_null() { &body } else { &body["error"] };
        let message = message_of(error, start);
        let hints = ErrorHints::of(error, &message);
        let retry_after = retry_after.or_else(|| hermes_adapter_net::retry_after::from_json(&body));
        match status {
            401 => Self::KeyRefused { status },
            402 => Self::QuotaUsedUp { message },
            429 if hints.quota => Self::QuotaUsedUp { message },
            429 => Self::Busy { retry_after, message },
            _ if hints.context => Self::ContextTooLong { message },
            413 => Self::ContextTooLong { message },
            _ if hints.filter => Self::Filtered { message },
            403 => Self::Forbidden { message },
            404 if hints.model => Self::NotFound { message },
            404 | 405 => Self::NoSuchAddress { status, message },
            500.. => Self::ServerFailed { status, retry_after, message },
            _ => Self::Refused { status, message },
        }
    }

    /// Classifies an error object within a stream.
    pub(super) fn of_error_object(error: &Value) -> Self {
        let message = message_of(error, error.as_str().unwrap_or_default());
        let hints = ErrorHints::of(error, &message);
        match () {
            () if hints.context => Self::ContextTooLong { message },
            () if hints.filter => Self::Filtered { message },
            () if hints.quota => Self::QuotaUsedUp { message },
            () if message.to_ascii_lowercase().contains("unexpected endpoint") => {
                Self::NoSuchAddress { status: 200, message }
            }
            () => Self::ErrorInAnswer { message },
        }
    }

    /// Returns true if the same request may be repeated at once, provided that there was no output yet.
    pub(super) fn is_transient(&self) -> bool {
        matches!(
            self,
            Self::Busy { .. }
                | Self::ServerFailed { .. }
                | Self::ErrorInAnswer { .. }
                | Self::Unreachable { .. }
                | Self::Truncated { .. }
        )
    }

    /// Returns true if the address of the endpoint may be wrong.
    pub(super) fn suggests_wrong_address(&self) -> bool {
        matches!(self, Self::NoSuchAddress { .. } | Self::NotACompletion { .. })
    }

    /// Returns the stable word of the failure, for status and metrics.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Self::KeyRefused { .. } => "key_refused",
            Self::Forbidden { .. } => "forbidden",
            Self::NotFound { .. } => "model_not_found",
            Self::NoSuchAddress { .. } => "address_not_found",
            Self::QuotaUsedUp { .. } => "quota_used_up",
            Self::Busy { .. } => "rate_limited",
            Self::ServerFailed { .. } => "server_failed",
            Self::ContextTooLong { .. } => CONTEXT_TOO_LONG,
            Self::Filtered { .. } => "filtered",
            Self::Refused { .. } => "refused",
            Self::ErrorInAnswer { .. } => "error_in_answer",
            Self::Unreachable { .. } => "unreachable",
            Self::NoResponse { .. } => "no_answer",
            Self::Stalled { .. } => "fell_silent",
            Self::Truncated { .. } => "cut_off",
            Self::NotACompletion { .. } => "not_a_completion",
            Self::PieceTooLong { .. } => "too_large",
            Self::OnlyLength => "length_used_up",
            Self::Empty => "empty",
            Self::ToolCall | Self::OnlyCalls => "only_tool_calls",
        }
    }

    /// Returns the wait that the endpoint demands.
    pub(super) fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Busy { retry_after, .. } | Self::ServerFailed { retry_after, .. } => *retry_after,
            _ => None,
        }
    }

    /// Converts the failure into that of the turn, after `attempts` requests.
    pub(super) fn into_failure(self, model: &str, address: &Url, attempts: u32, partial: String) -> Failure {
        let (sentence, detail) = (self.sentence(model, address.path()), self.detail());
        let retryable = self.is_transient()
            || matches!(self, Self::NoResponse { .. } | Self::Stalled { .. } | Self::Empty | Self::OnlyLength);
        let kind = self.kind();
        let code = match self {
            Self::NoResponse { .. } | Self::Stalled { .. } => "runtime_timeout",
            _ => "runtime_failed",
        };
        let detail = format!("model {model}, request {attempts}, POST {address}: {detail}");
        Failure { code, kind, sentence, detail, retryable, partial }
    }
}

impl From<NetError> for EndpointError {
    fn from(error: NetError) -> Self {
        match error {
            NetError::NotSent { .. } => Self::Unreachable { detail: error.to_string() },
            _ => Self::Truncated { detail: error.to_string() },
        }
    }
}

/// Phrases in errors about conversations that exceed the context window.
const TOO_LONG: [&str; 9] = [
    "prompt is too long",
    "input is too long",
    "input length",
    "input token count",
    "input tokens exceed",
    "model token limit",
    "maximum number of tokens",
    "reduce the length",
    "too many tokens",
];

/// Hints in the code, type and message of an error. The codes are those of OpenAI; other servers only send
/// messages.
struct ErrorHints {
    context: bool,
    /// The error mentions the model.
    model: bool,
    filter: bool,
    quota: bool,
}

impl ErrorHints {
    fn of(error: &Value, message: &str) -> Self {
        let code =
            format!("{} {}", error["code"].as_str().unwrap_or_default(), error["type"].as_str().unwrap_or_default());
        let message = message.to_lowercase();
        let says = |needles: &[&str]| needles.iter().any(|needle| message.contains(needle));
        Self {
            context: code.contains("context_length_exceeded")
                || code.contains("exceed_context_size")
                || says(&["context length", "context window", "maximum context", "context size", "context limit"])
                || says(&TOO_LONG),
            model: code.contains("model") || says(&["model"]),
            filter: code.contains("content_filter")
                || code.contains("content_policy")
                || says(&["content management policy"]),
            quota: code.contains("insufficient_quota") || code.contains("billing"),
        }
    }
}

/// Returns the message of the endpoint on one line, truncated.
fn message_of(error: &Value, otherwise: &str) -> String {
    let code = error["code"].as_str().or(error["type"].as_str()).unwrap_or_default();
    let said = ["message", "msg", "detail"].iter().find_map(|key| error[key].as_str());
    let message = said.or(error.as_str()).unwrap_or(otherwise);
    truncate(&one_line(&format!("{code} {message}")), WORDS_CHARS_MAX).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(status: u16, body: &str) -> EndpointError {
        EndpointError::of_status(status, None, body)
    }

    #[test]
    fn statuses_and_codes_are_told_apart() {
        let too_long = r#"{"error":{"code":"context_length_exceeded","message":"x"}}"#;
        assert!(matches!(of(400, too_long), EndpointError::ContextTooLong { .. }));
        let llama = r#"{"error":{"code":400,"type":"exceed_context_size_error","message":"request exceeds the available context size"}}"#;
        assert!(matches!(of(400, llama), EndpointError::ContextTooLong { .. }));
        assert!(matches!(of(413, "<html>"), EndpointError::ContextTooLong { .. }));
        for message in [
            "Range of input length should be [1, 30720]",
            "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
            "Invalid request: Your request exceeded model token limit: 8192",
            "Please reduce the length of the messages or completion.",
            "The number of tokens to keep exceeds the context length of only 4096 tokens",
        ] {
            let body = serde_json::json!({"error": {"message": message}}).to_string();
            assert!(matches!(of(400, &body), EndpointError::ContextTooLong { .. }), "{message}");
        }
        assert!(matches!(of(400, r#"{"error":{"code":"content_filter"}}"#), EndpointError::Filtered { .. }));
        assert!(matches!(of(429, r#"{"error":{"code":"insufficient_quota"}}"#), EndpointError::QuotaUsedUp { .. }));
        assert!(matches!(of(429, "slow down"), EndpointError::Busy { .. }));
        assert!(matches!(of(404, r#"{"error": "model 'x' not found"}"#), EndpointError::NotFound { .. }));
        assert!(matches!(of(404, "{}"), EndpointError::NoSuchAddress { .. }));
        assert!(matches!(of(405, "{\"detail\": \"Method Not Allowed\"}"), EndpointError::NoSuchAddress { .. }));
        assert!(matches!(of(422, "[]"), EndpointError::Refused { status: 422, .. }));
        assert!(matches!(of(302, ""), EndpointError::Refused { status: 302, .. }));
        assert!(matches!(of(529, ""), EndpointError::ServerFailed { status: 529, .. }));
        let wait = r#"{"error":{"message":"busy","retry_after":2}}"#;
        assert_eq!(of(429, wait).retry_after(), Some(Duration::from_secs(2)));
    }

    #[test]
    fn a_refused_key_is_not_quoted_even_where_the_endpoint_quotes_it() {
        let body = r#"{"error":{"message":"Incorrect API key provided: sk-hunter2","code":"invalid_api_key"}}"#;
        let address = Url::parse("http://localhost/v1/chat/completions").unwrap();
        let failure = of(401, body).into_failure("m", &address, 1, String::new());
        assert!(!format!("{failure:?}").contains("hunter2"), "{failure:?}");
        assert!(!failure.retryable);
    }

    #[test]
    fn the_message_of_an_endpoint_are_one_short_line() {
        let EndpointError::Refused { message, .. } = of(400, &"long\nwörds ".repeat(200)) else { panic!("refused") };
        assert!(message.chars().count() <= WORDS_CHARS_MAX && !message.contains('\n'), "{message}");
    }
}
