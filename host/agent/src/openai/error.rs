//! Failures of an endpoint, each with one sentence for the requester.
//!
//! The sentence tells the requester what to do, or who can help. The detail is for the operator's log. Neither
//! contains the API key.

use std::time::Duration;

use hermes_adapter_net::NetError;
use hermes_adapter_net::reqwest::Url;
use serde_json::Value;

use crate::Failure;
use crate::port::CONTEXT_TOO_LONG;

/// Longest quote of the endpoint in the log, in characters.
const WORDS_CHARS_MAX: usize = 300;

/// The failure of one request.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Trouble {
    /// The API key is invalid.
    KeyRefused { status: u16 },
    /// The key is valid, but the request is not allowed.
    Forbidden { words: String },
    /// The model does not exist.
    NotFound { words: String },
    /// The address does not exist.
    NoSuchAddress { status: u16, words: String },
    /// The quota of the account is used up.
    QuotaUsedUp { words: String },
    /// The rate limit was exceeded.
    Busy { retry_after: Option<Duration>, words: String },
    /// The server failed.
    ServerFailed { status: u16, retry_after: Option<Duration>, words: String },
    /// The conversation exceeds the context window of the model.
    ContextTooLong { words: String },
    /// A content filter withheld the answer.
    Filtered { words: String },
    /// Any other refusal.
    Refused { status: u16, words: String },
    /// The endpoint reported an error within its answer.
    SaidError { words: String },
    /// The connection failed.
    Unreachable { detail: String },
    /// The first piece did not arrive in time.
    NoAnswer { after: Duration },
    /// The next piece did not arrive in time.
    FellSilent { after: Duration },
    /// The answer was cut off.
    CutOff { detail: String },
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

impl Trouble {
    /// Classifies a response with an error status. `start` is the beginning of its body.
    pub(super) fn of_status(status: u16, retry_after: Option<Duration>, start: &str) -> Self {
        let body: Value = serde_json::from_str(start).unwrap_or_default();
        let error = if body["error"].is_null() { &body } else { &body["error"] };
        let words = words(error, start);
        let hints = Hints::of(error, &words);
        let retry_after = retry_after.or_else(|| hermes_adapter_net::retry_after::from_json(&body));
        match status {
            401 => Self::KeyRefused { status },
            402 => Self::QuotaUsedUp { words },
            429 if hints.quota => Self::QuotaUsedUp { words },
            429 => Self::Busy { retry_after, words },
            _ if hints.context => Self::ContextTooLong { words },
            413 => Self::ContextTooLong { words },
            _ if hints.filter => Self::Filtered { words },
            403 => Self::Forbidden { words },
            404 if hints.model => Self::NotFound { words },
            404 | 405 => Self::NoSuchAddress { status, words },
            500.. => Self::ServerFailed { status, retry_after, words },
            _ => Self::Refused { status, words },
        }
    }

    /// Classifies an error object within a stream.
    pub(super) fn of_error_object(error: &Value) -> Self {
        let words = words(error, error.as_str().unwrap_or_default());
        let hints = Hints::of(error, &words);
        match () {
            () if hints.context => Self::ContextTooLong { words },
            () if hints.filter => Self::Filtered { words },
            () if hints.quota => Self::QuotaUsedUp { words },
            () if words.to_ascii_lowercase().contains("unexpected endpoint") => {
                Self::NoSuchAddress { status: 200, words }
            }
            () => Self::SaidError { words },
        }
    }

    /// Returns true if the same request may be repeated at once, provided that there was no output yet.
    pub(super) fn is_passing(&self) -> bool {
        matches!(
            self,
            Self::Busy { .. }
                | Self::ServerFailed { .. }
                | Self::SaidError { .. }
                | Self::Unreachable { .. }
                | Self::CutOff { .. }
        )
    }

    /// Returns true if the address of the endpoint may be wrong.
    pub(super) fn blames_address(&self) -> bool {
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
            Self::SaidError { .. } => "error_in_answer",
            Self::Unreachable { .. } => "unreachable",
            Self::NoAnswer { .. } => "no_answer",
            Self::FellSilent { .. } => "fell_silent",
            Self::CutOff { .. } => "cut_off",
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
        let (sentence, detail) = self.told(model, address.path());
        let retryable = self.is_passing()
            || matches!(self, Self::NoAnswer { .. } | Self::FellSilent { .. } | Self::Empty | Self::OnlyLength);
        let kind = self.kind();
        let code = match self {
            Self::NoAnswer { .. } | Self::FellSilent { .. } => "runtime_timeout",
            _ => "runtime_failed",
        };
        let detail = format!("model {model}, request {attempts}, POST {address}: {detail}");
        Failure { code, kind, sentence, detail, retryable, partial }
    }

    /// Returns the sentence for the requester and the detail for the log.
    fn told(&self, model: &str, path: &str) -> (String, String) {
        let (sentence, detail) = match self {
            Self::KeyRefused { status } => (
                "The model endpoint rejected the API key; ask the operator to check api_key in [agent].".to_owned(),
                format!("status {status}: API key rejected"),
            ),
            Self::Forbidden { words } => (
                "The API key does not permit this request to the model endpoint; ask the operator to check the permissions of the key.".to_owned(),
                format!("status 403: {words}"),
            ),
            Self::NotFound { words } => (
                format!("The model endpoint does not know the model \"{model}\"; ask the operator to check model in [agent]."),
                format!("status 404: {words}"),
            ),
            Self::NoSuchAddress { status, words } => (
                format!("The model endpoint does not serve {path} (status {status}); ask the operator to check base_url in [agent], which usually ends in /v1."),
                format!("status {status}: {words}; check base_url in [agent], which usually ends in /v1"),
            ),
            Self::QuotaUsedUp { words } => (
                "The model account is out of quota; ask the operator to top it up.".to_owned(),
                format!("quota: {words}"),
            ),
            Self::Busy { retry_after, words } => (
                match retry_after {
                    Some(wait) => format!("The model is busy. Please try again in {}.", spoken(*wait)),
                    None => "The model is busy. Please try again in a minute.".to_owned(),
                },
                format!("status 429: {words}"),
            ),
            Self::ServerFailed { status, words, .. } => (
                format!("The model endpoint reported an internal error (status {status}). Please try again later."),
                format!("status {status}: {words}"),
            ),
            Self::ContextTooLong { words } => (
                "This message is too long for the model. Please send a shorter one, or start a new conversation with /new.".to_owned(),
                format!("context too long: {words}"),
            ),
            Self::Filtered { words } => (
                "The content filter of the model endpoint blocked the answer.".to_owned(),
                format!("content filter: {words}"),
            ),
            Self::Refused { status, words } => (
                format!("The model endpoint rejected the request (status {status}); the operator can find the reason in the log."),
                format!("status {status}: {words}"),
            ),
            Self::SaidError { words } => (
                "The model endpoint reported an error before the answer was complete. Please try again.".to_owned(),
                format!("error in the answer: {words}"),
            ),
            Self::Unreachable { detail } => (
                "The model endpoint cannot be reached. Please try again later.".to_owned(),
                detail.clone(),
            ),
            Self::NoAnswer { after } => (
                format!("The model did not start to answer within {}. Please try again later.", spoken(*after)),
                format!("no answer within {after:?}"),
            ),
            Self::FellSilent { after } => (
                format!("The model stopped in the middle of its answer and sent nothing more for {}.", spoken(*after)),
                format!("no data for {after:?} in the middle of the answer"),
            ),
            Self::CutOff { detail } => (
                "The connection to the model was lost before the answer was complete. Please try again.".to_owned(),
                format!("cut off: {detail}"),
            ),
            Self::NotACompletion { why } => (
                format!("The response from {path} is not a chat completion; ask the operator to check base_url in [agent], which usually ends in /v1."),
                format!("not a chat completion: {why}; check base_url in [agent], which usually ends in /v1"),
            ),
            Self::PieceTooLong { bytes_max } => (
                "The answer of the model endpoint is too large.".to_owned(),
                format!("a chunk of the answer exceeds {bytes_max} bytes"),
            ),
            Self::OnlyLength => (
                "The model reached its length limit before it answered. Please ask for less at once.".to_owned(),
                "finish_reason is length, but there is no text".to_owned(),
            ),
            Self::Empty => (
                "The model answered without any text. Please try again.".to_owned(),
                "no text in the answer".to_owned(),
            ),
            Self::OnlyCalls => (
                "The model reached the limit of tool calls without an answer. Please ask for less at once.".to_owned(),
                "iterations_max reached without an answer".to_owned(),
            ),
            Self::ToolCall => (
                "The model called a tool, but no tools are available here.".to_owned(),
                "tool call without offered tools".to_owned(),
            ),
        };
        (sentence, detail)
    }
}

impl From<NetError> for Trouble {
    fn from(error: NetError) -> Self {
        match error {
            NetError::NotSent { .. } => Self::Unreachable { detail: error.to_string() },
            _ => Self::CutOff { detail: error.to_string() },
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
struct Hints {
    context: bool,
    /// The error mentions the model.
    model: bool,
    filter: bool,
    quota: bool,
}

impl Hints {
    fn of(error: &Value, words: &str) -> Self {
        let code =
            format!("{} {}", error["code"].as_str().unwrap_or_default(), error["type"].as_str().unwrap_or_default());
        let words = words.to_lowercase();
        let says = |needles: &[&str]| needles.iter().any(|needle| words.contains(needle));
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
fn words(error: &Value, otherwise: &str) -> String {
    let code = error["code"].as_str().or(error["type"].as_str()).unwrap_or_default();
    let said = ["message", "msg", "detail"].iter().find_map(|key| error[key].as_str());
    let message = said.or(error.as_str()).unwrap_or(otherwise);
    let text = format!("{code} {message}");
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(WORDS_CHARS_MAX) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

/// Formats a duration for people.
fn spoken(time: Duration) -> String {
    match time.as_secs_f64().ceil() as u64 {
        0 | 1 => "a second".to_owned(),
        seconds @ 2..=119 => format!("{seconds} seconds"),
        seconds @ 120..=7199 => format!("{} minutes", seconds.div_ceil(60)),
        seconds => format!("{} hours", seconds.div_ceil(3600)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(status: u16, body: &str) -> Trouble {
        Trouble::of_status(status, None, body)
    }

    #[test]
    fn statuses_and_codes_are_told_apart() {
        let too_long = r#"{"error":{"code":"context_length_exceeded","message":"x"}}"#;
        assert!(matches!(of(400, too_long), Trouble::ContextTooLong { .. }));
        let llama = r#"{"error":{"code":400,"type":"exceed_context_size_error","message":"request exceeds the available context size"}}"#;
        assert!(matches!(of(400, llama), Trouble::ContextTooLong { .. }));
        assert!(matches!(of(413, "<html>"), Trouble::ContextTooLong { .. }));
        for words in [
            "Range of input length should be [1, 30720]",
            "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
            "Invalid request: Your request exceeded model token limit: 8192",
            "Please reduce the length of the messages or completion.",
            "The number of tokens to keep exceeds the context length of only 4096 tokens",
        ] {
            let body = serde_json::json!({"error": {"message": words}}).to_string();
            assert!(matches!(of(400, &body), Trouble::ContextTooLong { .. }), "{words}");
        }
        assert!(matches!(of(400, r#"{"error":{"code":"content_filter"}}"#), Trouble::Filtered { .. }));
        assert!(matches!(of(429, r#"{"error":{"code":"insufficient_quota"}}"#), Trouble::QuotaUsedUp { .. }));
        assert!(matches!(of(429, "slow down"), Trouble::Busy { .. }));
        assert!(matches!(of(404, r#"{"error": "model 'x' not found"}"#), Trouble::NotFound { .. }));
        assert!(matches!(of(404, "{}"), Trouble::NoSuchAddress { .. }));
        assert!(matches!(of(405, "{\"detail\": \"Method Not Allowed\"}"), Trouble::NoSuchAddress { .. }));
        assert!(matches!(of(422, "[]"), Trouble::Refused { status: 422, .. }));
        assert!(matches!(of(302, ""), Trouble::Refused { status: 302, .. }));
        assert!(matches!(of(529, ""), Trouble::ServerFailed { status: 529, .. }));
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
    fn the_words_of_an_endpoint_are_one_short_line() {
        let Trouble::Refused { words, .. } = of(400, &"long\nwörds ".repeat(200)) else { panic!("refused") };
        assert!(words.chars().count() <= WORDS_CHARS_MAX + 1 && !words.contains('\n'), "{words}");
    }

    #[test]
    fn waits_are_said_as_people_say_them() {
        let said = [(0, "a second"), (30, "30 seconds"), (120, "2 minutes"), (121, "3 minutes"), (7200, "2 hours")];
        for (seconds, expected) in said {
            assert_eq!(spoken(Duration::from_secs(seconds)), expected);
        }
    }
}
