//! The additional demands of some endpoints on messages, learned from their refusals.

use serde_json::{Value, json};

/// First message of a conversation that begins with an answer.
pub(super) const CONTINUES: &str = "(The conversation continues.)";

/// Additional demands of an endpoint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::openai) struct MessageShape {
    /// User and assistant messages alternate, and a user message is first.
    pub alternate: bool,
    /// There is no system role; instructions are part of the first message.
    pub without_system: bool,
    /// No content is empty, not even in messages with calls.
    pub filled: bool,
    /// Calls are sent with the reasoning that led to them.
    pub reasoning: bool,
    /// Calls and results are written as text.
    pub flat: bool,
    /// The history is omitted.
    pub bare: bool,
}

impl MessageShape {
    /// Returns the shape to try after a refusal with the message `words`, or `None` if no change is left.
    pub(in crate::openai) fn after(self, words: &str) -> Option<Self> {
        let words = words.to_ascii_lowercase();
        let says = |needles: &[&str]| needles.iter().any(|needle| words.contains(needle));
        let about_system = says(&["system", "developer"]) && says(&["role", "support", "instruction", "not enabled"]);
        let about_turns =
            says(&["alternat", "roles must", "consecutive", "first message", "must start with", "role order"]);
        let about_content = says(&["content", "text"])
            && says(&["empty", "null", "none", "required", "blank", "at least one", "valid string", "whitespace"]);
        let about_calls =
            says(&["tool_call", "tool call", "tool message", "role 'tool'", "role \"tool\"", "arguments"])
                || says(&["function call", "tool_use", "tool result"]);
        let next = match () {
            () if says(&["reasoning_content"]) && !self.reasoning => Self { reasoning: true, ..self },
            () if about_system && !self.without_system => Self { without_system: true, alternate: true, ..self },
            () if about_turns && !self.alternate => Self { alternate: true, ..self },
            () if about_content && !self.filled => Self { filled: true, ..self },
            () if about_calls && !self.flat => Self { flat: true, ..self },
            () if !(self.alternate && self.filled) => Self { alternate: true, filled: true, ..self },
            () if !self.flat => Self { flat: true, ..self },
            () if !self.bare => Self { bare: true, ..self },
            () => return None,
        };
        Some(next)
    }

    /// Returns the part of the shape that applies to every conversation with the same model.
    pub(in crate::openai) fn lasting(self) -> Self {
        Self { flat: false, bare: false, ..self }
    }
}

/// Applies the demands of a shape on the order of roles.
pub(super) fn shaped(messages: Vec<Value>, shape: MessageShape) -> Vec<Value> {
    if !shape.alternate && !shape.without_system && !shape.flat {
        return messages;
    }
    let mut shaped: Vec<Value> = Vec::new();
    let mut instructions = Value::Null;
    for (n, mut message) in messages.into_iter().enumerate() {
        if message["role"] == "system" {
            if n == 0 && shape.without_system {
                instructions = message["content"].take();
                continue;
            }
            if n > 0 {
                message["role"] = json!("user");
            }
        }
        let plain = |message: &Value| message["role"] != "tool" && message["tool_calls"].is_null();
        match shaped.last_mut() {
            Some(last) if last["role"] == message["role"] && plain(last) && plain(&message) => {
                let first = last["content"].take();
                last["content"] = joined(first, message["content"].take());
            }
            Some(last) if last["role"] != "system" => shaped.push(message),
            // The first message after the instructions.
            _ => {
                if message["role"] != "user" && message["role"] != "system" {
                    shaped.push(json!({"role": "user", "content": CONTINUES}));
                }
                shaped.push(message);
            }
        }
    }
    if !instructions.is_null() {
        match shaped.first_mut() {
            Some(first) => first["content"] = joined(instructions, first["content"].take()),
            None => shaped.push(json!({"role": "user", "content": instructions})),
        }
    }
    shaped
}

/// Joins two contents.
fn joined(first: Value, second: Value) -> Value {
    match (first, second) {
        (Value::String(first), Value::String(second)) => Value::String(format!("{first}\n\n{second}")),
        (first, second) => {
            let parts = |content| match content {
                Value::Array(parts) => parts,
                Value::String(text) => vec![json!({"type": "text", "text": text})],
                _ => Vec::new(),
            };
            Value::Array(parts(first).into_iter().chain(parts(second)).collect())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shape_is_found_for_every_refusal() {
        for (words, expected) in [
            (
                "System role not supported",
                MessageShape { without_system: true, alternate: true, ..MessageShape::default() },
            ),
            (
                "Developer instruction is not enabled",
                MessageShape { without_system: true, alternate: true, ..MessageShape::default() },
            ),
            ("Conversation roles must alternate", MessageShape { alternate: true, ..MessageShape::default() }),
            ("message content must not be empty", MessageShape { filled: true, ..MessageShape::default() }),
            ("tool_calls.function.arguments must be JSON", MessageShape { flat: true, ..MessageShape::default() }),
            ("Missing reasoning_content", MessageShape { reasoning: true, ..MessageShape::default() }),
            ("bad request", MessageShape { alternate: true, filled: true, ..MessageShape::default() }),
        ] {
            assert_eq!(MessageShape::default().after(words), Some(expected), "{words}");
        }
        let (mut shape, mut steps) = (MessageShape::default(), 0);
        while let Some(next) = shape.after("bad request") {
            (shape, steps) = (next, steps + 1);
        }
        assert_eq!(steps, 3);
        assert_eq!(shape.lasting(), MessageShape { alternate: true, filled: true, ..MessageShape::default() });
    }
}
