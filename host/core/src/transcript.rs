//! The entries of a transcript, as runtimes read them and the store keeps them.

use hermes_protocol::Attachment;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// Author of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Instructions.
    System,
    /// A person.
    User,
    /// The model.
    Assistant,
    /// The result of a tool.
    Tool,
}

impl Role {
    /// Returns the stable word of this role.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::User => "user",
            Self::Assistant => "assistant",
            Self::Tool => "tool",
        }
    }

    /// Parses a stable word.
    pub fn from_word(word: &str) -> Option<Self> {
        [Self::System, Self::User, Self::Assistant, Self::Tool].into_iter().find(|role| role.as_str() == word)
    }
}

/// One entry of a transcript.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Message {
    /// Author.
    pub role: Role,
    /// Text. Never contains reasoning.
    #[serde(default)]
    pub content: String,
    /// Reasoning of the model before the text, if the endpoint reports it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<String>,
    /// Tool calls of the model, in the format of the endpoint.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<Value>,
    /// Id of the call that a tool result answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_call_id: Option<String>,
    /// Attached files.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attachments: Vec<Attachment>,
}

impl Message {
    /// Creates an entry with text only.
    pub fn new(role: Role, content: impl Into<String>) -> Self {
        Self {
            role,
            content: content.into(),
            reasoning: None,
            tool_calls: Vec::new(),
            tool_call_id: None,
            attachments: Vec::new(),
        }
    }

    /// Creates an instruction.
    pub fn system(content: impl Into<String>) -> Self {
        Self::new(Role::System, content)
    }

    /// Creates a message of a person.
    pub fn user(content: impl Into<String>) -> Self {
        Self::new(Role::User, content)
    }

    /// Creates a message of the model.
    pub fn assistant(content: impl Into<String>) -> Self {
        Self::new(Role::Assistant, content)
    }
}

/// A call of a model.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToolCall {
    /// Id from the model, unique within its answer.
    pub id: String,
    /// Name of the tool.
    pub name: String,
    /// Arguments as text from the model.
    pub arguments: String,
}

impl ToolCall {
    /// Returns the call in the format of endpoints and transcripts.
    pub fn to_json(&self) -> Value {
        json!({"id": self.id, "type": "function", "function": {"name": self.name, "arguments": self.arguments}})
    }
}

/// A call to be recorded in the ledger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StartedCall {
    /// Number of the call within the turn, from 0.
    pub n: u32,
    /// Index of the model's answer that contains the call, from 0.
    pub step: u32,
    /// Text of that answer.
    pub said: String,
    /// The call.
    pub call: ToolCall,
}

/// A call recorded in the ledger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallRow {
    /// The recorded start.
    pub started: StartedCall,
    /// Result; `None` if unknown.
    pub result: Option<String>,
}
