//! The texts of an endpoint error: one sentence for the requester, and one detail for the operator's log.
//!
//! The sentence names the next step, or the person who can help. Neither text contains the API key.

use std::time::Duration;

use super::error::EndpointError;

impl EndpointError {
    /// Returns the sentence for the requester. `path` is the path of the endpoint.
    pub(super) fn sentence(&self, model: &str, path: &str) -> String {
        let sentence = match self {
            Self::KeyRefused { .. } => {
                "The model endpoint rejected the API key; ask the operator to check api_key in [agent]."
            }
            Self::Forbidden { .. } => {
                "The API key does not permit this request to the model endpoint; ask the operator to check the \
                 permissions of the key."
            }
            Self::NotFound { .. } => {
                return format!(
                    "The model endpoint does not know the model \"{model}\"; ask the operator to check model in [agent]."
                );
            }
            Self::NoSuchAddress { status, .. } => {
                return format!(
                    "The model endpoint does not serve {path} (status {status}); ask the operator to check base_url in \
                     [agent], which usually ends in /v1."
                );
            }
            Self::QuotaUsedUp { .. } => "The model account is out of quota; ask the operator to top it up.",
            Self::Busy { retry_after: Some(wait), .. } => {
                return format!("The model is busy. Please try again in {}.", in_words(*wait));
            }
            Self::Busy { retry_after: None, .. } => "The model is busy. Please try again in a minute.",
            Self::ServerFailed { status, .. } => {
                return format!(
                    "The model endpoint reported an internal error (status {status}). Please try again later."
                );
            }
            Self::ContextTooLong { .. } => {
                "This message is too long for the model. Please send a shorter one, or start a new conversation with \
                 /new."
            }
            Self::Filtered { .. } => "The content filter of the model endpoint blocked the answer.",
            Self::Refused { status, .. } => {
                return format!(
                    "The model endpoint rejected the request (status {status}); the operator can find the reason in the \
                     log."
                );
            }
            Self::ErrorInAnswer { .. } => {
                "The model endpoint reported an error before the answer was complete. Please try again."
            }
            Self::Unreachable { .. } => "The model endpoint cannot be reached. Please try again later.",
            Self::NoResponse { after } => {
                let after = in_words(*after);
                return format!("The model did not start to answer within {after}. Please try again later.");
            }
            Self::Stalled { after } => {
                let after = in_words(*after);
                return format!("The model stopped in the middle of its answer and sent nothing more for {after}.");
            }
            Self::Truncated { .. } => {
                "The connection to the model was lost before the answer was complete. Please try again."
            }
            Self::NotACompletion { .. } => {
                return format!(
                    "The response from {path} is not a chat completion; ask the operator to check base_url in [agent], \
                     which usually ends in /v1."
                );
            }
            Self::PieceTooLong { .. } => "The answer of the model endpoint is too large.",
            Self::OnlyLength => "The model reached its length limit before it answered. Please ask for less at once.",
            Self::Empty => "The model answered without any text. Please try again.",
            Self::OnlyCalls => {
                "The model reached the limit of tool calls without an answer. Please ask for less at once."
            }
            Self::ToolCall => "The model called a tool, but no tools are available here.",
        };
        sentence.to_owned()
    }

    /// Returns the detail for the log.
    pub(super) fn detail(&self) -> String {
        match self {
            Self::KeyRefused { status } => format!("status {status}: API key rejected"),
            Self::Forbidden { message } => format!("status 403: {message}"),
            Self::NotFound { message } => format!("status 404: {message}"),
            Self::NoSuchAddress { status, message } => {
                format!("status {status}: {message}; check base_url in [agent], which usually ends in /v1")
            }
            Self::QuotaUsedUp { message } => format!("quota: {message}"),
            Self::Busy { message, .. } => format!("status 429: {message}"),
            Self::ServerFailed { status, message, .. } => format!("status {status}: {message}"),
            Self::ContextTooLong { message } => format!("context too long: {message}"),
            Self::Filtered { message } => format!("content filter: {message}"),
            Self::Refused { status, message } => format!("status {status}: {message}"),
            Self::ErrorInAnswer { message } => format!("error in the answer: {message}"),
            Self::Unreachable { detail } => detail.clone(),
            Self::NoResponse { after } => format!("no answer within {after:?}"),
            Self::Stalled { after } => format!("no data for {after:?} in the middle of the answer"),
            Self::Truncated { detail } => format!("cut off: {detail}"),
            Self::NotACompletion { why } => {
                format!("not a chat completion: {why}; check base_url in [agent], which usually ends in /v1")
            }
            Self::PieceTooLong { bytes_max } => format!("a chunk of the answer exceeds {bytes_max} bytes"),
            Self::OnlyLength => "finish_reason is length, but there is no text".to_owned(),
            Self::Empty => "no text in the answer".to_owned(),
            Self::OnlyCalls => "iterations_max reached without an answer".to_owned(),
            Self::ToolCall => "tool call without offered tools".to_owned(),
        }
    }
}

/// Formats a duration for people.
fn in_words(time: Duration) -> String {
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

    #[test]
    fn durations_are_shown_in_the_largest_whole_unit() {
        let cases = [(0, "a second"), (30, "30 seconds"), (120, "2 minutes"), (121, "3 minutes"), (7200, "2 hours")];
        for (seconds, expected) in cases {
            assert_eq!(in_words(Duration::from_secs(seconds)), expected);
        }
    }
}
