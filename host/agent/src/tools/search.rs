//! The tool `session_search`, which searches earlier conversations of the same person.

use futures_util::future::BoxFuture;
use hermes_core::context::TurnContext;
use serde_json::{Value, json};

use super::{CallScope, Ports, Tool, ToolResult, ToolSpec, text};

/// Highest number of results.
const HITS_MAX: u32 = 20;

/// Default number of results.
const HITS: u32 = 8;

/// The tool.
pub struct SessionSearchTool(Ports);

impl SessionSearchTool {
    /// Creates the tool with the ports of the host.
    pub fn new(ports: Ports) -> Self {
        Self(ports)
    }

    async fn find(&self, context: &TurnContext, arguments: &Value) -> Result<Value, String> {
        let query = text(arguments, "query").trim();
        if query.is_empty() {
            return Err("\"query\" is empty".to_owned());
        }
        let limit = arguments["limit"].as_u64().and_then(|limit| u32::try_from(limit).ok()).unwrap_or(HITS);
        let found = self.0.search.search(context, query, limit.min(HITS_MAX)).await?;
        let hits = found.into_iter().map(|found| {
            json!({"session": found.session, "title": found.title, "role": found.role, "text": found.snippet, "at_ms": found.at_ms})
        });
        Ok(json!({"hits": hits.collect::<Vec<_>>()}))
    }
}

impl Tool for SessionSearchTool {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "session_search",
            description:
                "Searches earlier conversations with the same user. A message matches if it contains all words of \
                `query`."
                    .to_owned(),
            schema: json!({
                "type": "object",
                "properties": {
                    "query": {"type": "string", "maxLength": 500},
                    "limit": {"type": "integer", "minimum": 1, "maximum": HITS_MAX},
                },
                "required": ["query"],
            }),
            parallel: true,
        }
    }

    fn summary(&self, arguments: &Value) -> String {
        text(arguments, "query").to_owned()
    }

    fn call<'c>(&'c self, context: &'c TurnContext, arguments: Value, _: &'c CallScope) -> BoxFuture<'c, ToolResult> {
        Box::pin(async move { self.find(context, &arguments).await.map_or_else(ToolResult::failed, ToolResult::of) })
    }
}
