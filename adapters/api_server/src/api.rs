//! The requests and responses of OpenAI's chat completions.

use hermes_adapter_sdk::protocol::Usage;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::api_error::ApiError;
use crate::files::{FILES_MAX, InFile};

/// The maximum number of messages per request.
const MESSAGES_MAX: usize = 1000;

/// The body of `POST /v1/chat/completions`. Fields that only tune a model are ignored,
/// because the host's configuration decides about the model.
#[derive(Debug, Deserialize)]
pub(crate) struct ChatRequest {
    /// The messages of the conversation, the oldest first.
    pub(crate) messages: Vec<InMessage>,
    /// The model's name, which is returned unchanged.
    #[serde(default)]
    pub(crate) model: Option<String>,
    /// True to stream the answer.
    #[serde(default)]
    pub(crate) stream: Option<bool>,
    /// The options of the stream.
    #[serde(default)]
    pub(crate) stream_options: Option<StreamOptions>,
    /// The conversation to continue.
    #[serde(default)]
    pub(crate) session_id: Option<String>,
    #[serde(default)]
    n: Option<u64>,
    #[serde(default)]
    response_format: Value,
    #[serde(default)]
    tool_choice: Value,
}

/// The options of a stream.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct StreamOptions {
    /// True to report the usage in the last chunk.
    #[serde(default)]
    pub(crate) include_usage: Option<bool>,
}

/// The body of `POST /api/chat/stream`.
#[derive(Debug, Deserialize)]
pub(crate) struct StreamRequest {
    /// The message; alternatively `messages`.
    #[serde(default)]
    pub(crate) message: Option<String>,
    /// The messages of a conversation, as in chat completions.
    #[serde(default)]
    pub(crate) messages: Vec<InMessage>,
    /// The conversation to continue.
    #[serde(default)]
    pub(crate) session_id: Option<String>,
}

/// A message from a client.
#[derive(Debug, Deserialize)]
pub(crate) struct InMessage {
    role: String,
    #[serde(default)]
    content: Value,
}

/// The role of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// The client's instructions.
    System,
    /// The user.
    User,
    /// The agent.
    Assistant,
    /// A tool of the client.
    Tool,
}

impl Role {
    /// Returns the role's word in a transcript.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::User => "user",
            Self::Assistant => "assistant",
            Self::Tool => "tool",
        }
    }
}

impl ChatRequest {
    /// Rejects options that the answer could not honour.
    pub(crate) fn check(&self) -> Result<(), ApiError> {
        if self.n.is_some_and(|n| n != 1) {
            return Err(ApiError::invalid("n", "only one answer is supported; omit n"));
        }
        let format = self.response_format["type"].as_str().unwrap_or("text");
        if format != "text" {
            return Err(ApiError::invalid("response_format", "only text answers are supported; omit response_format"));
        }
        let must_call = self.tool_choice.is_object() || self.tool_choice == "required";
        if must_call {
            return Err(ApiError::invalid("tool_choice", "tools of the client are not supported; omit them"));
        }
        Ok(())
    }
}

/// The messages of a request.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Conversation {
    /// Speakers and texts, oldest first. The last message is the user's.
    pub(crate) messages: Vec<(Role, String)>,
    /// Files, each with the position of its message.
    pub(crate) files: Vec<(usize, InFile)>,
}

impl From<Vec<(Role, String)>> for Conversation {
    fn from(messages: Vec<(Role, String)>) -> Self {
        Self { messages, files: Vec::new() }
    }
}

/// Parses the messages into roles, texts and files. The last message must be the user's, and only the user's have files.
pub(crate) fn parse_messages(messages: &[InMessage]) -> Result<Conversation, ApiError> {
    if messages.len() > MESSAGES_MAX {
        return Err(ApiError::invalid("messages", format!("the request has more than {MESSAGES_MAX} messages")));
    }
    let mut conversation = Conversation::default();
    for (at, message) in messages.iter().enumerate() {
        let (role, text, files) = message.parse()?;
        if role != Role::User && !files.is_empty() {
            return Err(ApiError::invalid("messages", "only user messages can have files"));
        }
        conversation.messages.push((role, text));
        conversation.files.extend(files.into_iter().map(|file| (at, file)));
    }
    if conversation.files.len() > FILES_MAX {
        return Err(ApiError::invalid("messages", format!("the messages have more than {FILES_MAX} files")));
    }
    let has_file = conversation.files.last().is_some_and(|(at, _)| at + 1 == messages.len());
    match conversation.messages.last() {
        None => Err(ApiError::invalid("messages", "the request has no message")),
        Some((Role::User, text)) if text.trim().is_empty() && !has_file => {
            Err(ApiError::invalid("messages", "the last message is empty"))
        }
        Some((Role::User, _)) => Ok(conversation),
        Some(_) => Err(ApiError::invalid("messages", "the last message must be from the user")),
    }
}

impl InMessage {
    fn parse(&self) -> Result<(Role, String, Vec<InFile>), ApiError> {
        let role = match self.role.as_str() {
            "system" | "developer" => Role::System,
            "user" => Role::User,
            "assistant" => Role::Assistant,
            "tool" | "function" => Role::Tool,
            _ => return Err(ApiError::invalid("messages", "a role must be one of system, user, assistant, tool")),
        };
        let text = match &self.content {
            Value::Null => String::new(),
            Value::String(text) => text.clone(),
            Value::Array(parts) => {
                let (mut texts, mut files) = (Vec::new(), Vec::new());
                for part in parts {
                    match InFile::parse(part) {
                        Some(file) => files.push(file?),
                        None => texts.push(text_of(part)?),
                    }
                }
                return Ok((role, texts.join("\n"), files));
            }
            _ => return Err(ApiError::invalid("messages", "content must be a string or a list of parts")),
        };
        Ok((role, text, Vec::new()))
    }
}

fn text_of(part: &Value) -> Result<&str, ApiError> {
    let text = part.as_str().or_else(|| {
        let kind = part["type"].as_str();
        part["text"].as_str().filter(|_| matches!(kind, None | Some("text" | "input_text" | "output_text")))
    });
    text.ok_or_else(|| {
        ApiError::invalid("messages", "a content part is not supported; use text, file or input_file parts")
    })
}

/// The common fields of all chunks of an answer.
#[derive(Clone, Debug)]
pub(crate) struct AnswerFields {
    /// The id, `chatcmpl-…`.
    pub(crate) id: String,
    /// The time in seconds since the Unix epoch.
    pub(crate) created: i64,
    /// The name of the model.
    pub(crate) model: String,
}

impl AnswerFields {
    /// Returns a complete answer.
    pub(crate) fn completion(&self, text: &str, finish_reason: &str, usage: Usage) -> Value {
        json!({
            "id": self.id,
            "object": "chat.completion",
            "created": self.created,
            "model": self.model,
            "choices": [{
                "index": 0,
                "message": {"role": "assistant", "content": text, "refusal": null},
                "logprobs": null,
                "finish_reason": openai_reason(finish_reason),
            }],
            "usage": tokens(usage),
        })
    }

    /// Returns a chunk of a streamed answer.
    pub(crate) fn chunk(&self, delta: Value, finish_reason: Option<&str>) -> Value {
        let choice = json!({
            "index": 0,
            "delta": delta,
            "logprobs": null,
            "finish_reason": finish_reason.map(openai_reason),
        });
        self.chunk_of(json!([choice]))
    }

    /// Returns the chunk with the usage.
    pub(crate) fn usage_chunk(&self, usage: Usage) -> Value {
        let mut chunk = self.chunk_of(json!([]));
        chunk["usage"] = tokens(usage);
        chunk
    }

    fn chunk_of(&self, choices: Value) -> Value {
        json!({
            "id": self.id,
            "object": "chat.completion.chunk",
            "created": self.created,
            "model": self.model,
            "choices": choices,
        })
    }
}

fn openai_reason(reason: &str) -> &str {
    if reason == "length" { "length" } else { "stop" }
}

fn tokens(usage: Usage) -> Value {
    json!({
        "prompt_tokens": usage.input_tokens,
        "completion_tokens": usage.output_tokens,
        "total_tokens": usage.input_tokens.saturating_add(usage.output_tokens),
    })
}

/// Returns the list of models.
pub(crate) fn models(ids: &[String]) -> Value {
    json!({"object": "list", "data": ids.iter().map(|id| model(id)).collect::<Vec<_>>()})
}

/// Returns one model.
pub(crate) fn model(id: &str) -> Value {
    json!({"id": id, "object": "model", "created": 0, "owned_by": "hermes-host"})
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(json: Value) -> Result<Conversation, ApiError> {
        let messages: Vec<InMessage> = serde_json::from_value(json).unwrap();
        parse_messages(&messages)
    }

    #[test]
    fn texts_and_parts_are_read_and_nothing_else_is_passed_over() {
        let read = messages(json!([
            {"role": "developer", "content": "be kind"},
            {"role": "assistant", "content": null, "tool_calls": []},
            {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
        ]));
        let expected = [(Role::System, "be kind"), (Role::Assistant, ""), (Role::User, "a\nb")];
        assert_eq!(read.unwrap().messages, expected.map(|(role, text)| (role, text.to_owned())));
        let file = || json!({"type": "file", "file": {"filename": "a.txt", "file_data": "YQ=="}});
        let read = messages(json!([
            {"role": "user", "content": [{"type": "text", "text": "a"}, file(), file()]},
            {"role": "user", "content": [file()]},
        ]));
        let places: Vec<usize> = read.unwrap().files.into_iter().map(|(at, _)| at).collect();
        assert_eq!(places, [0, 0, 1], "a file alone is a message");
        for wrong in [
            json!([{"role": "user", "content": vec![file(); FILES_MAX + 1]}]),
            json!([{"role": "system", "content": [file()]}, {"role": "user", "content": "x"}]),
            json!([{"role": "user", "content": [file()]}, {"role": "user", "content": " "}]),
            json!([{"role": "user", "content": [{"type": "input_audio", "input_audio": {"data": "YQ=="}}]}]),
            json!([]),
            json!([{"role": "assistant", "content": "x"}]),
            json!([{"role": "user", "content": " "}]),
            json!([{"role": "wizard", "content": "x"}]),
            json!([{"role": "user", "content": 7}]),
            json!([{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:,"}}]}]),
        ] {
            assert!(messages(wrong.clone()).is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_could_only_be_ignored_is_refused() {
        let request = |extra: Value| {
            let mut body = json!({"messages": []});
            body.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
            serde_json::from_value::<ChatRequest>(body).unwrap().check()
        };
        for fine in [json!({}), json!({"n": 1, "temperature": 0, "tools": [], "tool_choice": "auto", "stream": null})] {
            assert_eq!(request(fine), Ok(()));
        }
        for wrong in [
            json!({"n": 2}),
            json!({"response_format": {"type": "json_object"}}),
            json!({"tool_choice": "required"}),
            json!({"tool_choice": {"type": "function"}}),
        ] {
            assert!(request(wrong).is_err());
        }
    }
}
