//! The tool `send_message`, which sends a text to another chat.

use futures_util::future::BoxFuture;
use hermes_core::context::TurnContext;
use hermes_core::delivery::Target;
use serde_json::{Value, json};

use super::{CallScope, Ports, Tool, ToolResult, ToolSpec, text};

/// Longest text, in characters.
const TEXT_CHARS_MAX: usize = 8_000;

/// Error for a message to the current chat.
const HERE: &str = "this is the current chat; your answer is delivered here automatically";

/// The tool.
pub struct SendMessageTool(Ports);

impl SendMessageTool {
    /// Creates the tool with the ports of the host.
    pub fn new(ports: Ports) -> Self {
        Self(ports)
    }

    async fn send(&self, context: &TurnContext, arguments: &Value) -> Result<Value, String> {
        let (target, message) = (text(arguments, "target"), text(arguments, "message"));
        if message.trim().is_empty() {
            return Err("the message is empty".to_owned());
        }
        match target.parse::<Target>().map_err(|error| error.to_string())? {
            Target::Origin => return Err(HERE.to_owned()),
            Target::Local => return Err("`local` is not a chat; use the name of an instance".to_owned()),
            Target::Home { .. } | Target::Name { .. } | Target::Place { .. } => {}
        }
        let to = self.0.messenger.send(context, target, message).await?;
        Ok(json!({"owed_to": to, "note": "The message is queued for delivery."}))
    }
}

impl Tool for SendMessageTool {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "send_message",
            description:
                "Sends a message to another chat: INSTANCE (its home channel), INSTANCE:CHAT, INSTANCE:CHAT:THREAD or \
                INSTANCE:@NAME. Do not use it to answer in the current chat. If other people read the message, the \
                host adds the name of the user above it; do not add the name yourself."
                    .to_owned(),
            schema: json!({
                "type": "object",
                "properties": {
                    "target": {"type": "string", "maxLength": 300},
                    "message": {"type": "string", "maxLength": TEXT_CHARS_MAX},
                },
                "required": ["target", "message"],
            }),
            parallel: false,
        }
    }

    fn summary(&self, arguments: &Value) -> String {
        format!("{}: {}", text(arguments, "target"), text(arguments, "message"))
    }

    fn call<'c>(&'c self, context: &'c TurnContext, arguments: Value, _: &'c CallScope) -> BoxFuture<'c, ToolResult> {
        Box::pin(async move { self.send(context, &arguments).await.map_or_else(ToolResult::failed, ToolResult::of) })
    }
}
