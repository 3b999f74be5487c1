//! The tool `todo`, which keeps one list of work items per session.
//!
//! The list is kept in memory only. Every change is part of the transcript, so after a restart the model can
//! read it there and write the list again.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, PoisonError};

use futures_util::future::BoxFuture;
use hermes_core::context::TurnContext;
use serde_json::{Value, json};

use super::{CallScope, Tool, ToolResult, ToolSpec};

/// Entries of one list.
const ENTRIES_MAX: usize = 50;

/// Longest entry, in characters.
const ENTRY_CHARS_MAX: usize = 300;

/// Sessions whose list is remembered.
const SESSIONS_MAX: usize = 512;

/// The tool.
#[derive(Debug, Default)]
pub struct TodoTool {
    lists: Mutex<Lists>,
}

#[derive(Debug, Default)]
struct Lists {
    of: BTreeMap<String, Value>,
    order: VecDeque<String>,
}

impl Lists {
    fn keep(&mut self, session: &str, list: Value) {
        if self.of.insert(session.to_owned(), list).is_none() {
            self.order.push_back(session.to_owned());
        }
        while self.order.len() > SESSIONS_MAX {
            if let Some(oldest) = self.order.pop_front() {
                self.of.remove(&oldest);
            }
        }
    }
}

impl Tool for TodoTool {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "todo",
            description: "Manages your to-do list for this conversation. With `todos`, replaces the whole list; \
                without it, returns the list. Use it for work of three or more steps."
                .to_owned(),
            schema: json!({
                "type": "object",
                "properties": {
                    "todos": {
                        "type": "array", "maxItems": ENTRIES_MAX,
                        "items": {
                            "type": "object",
                            "properties": {
                                "id": {"type": "string", "maxLength": 40},
                                "content": {"type": "string", "maxLength": ENTRY_CHARS_MAX},
                                "status": {"enum": ["pending", "in_progress", "completed", "cancelled"]},
                            },
                            "required": ["content", "status"],
                        },
                    },
                },
            }),
            parallel: false,
        }
    }

    fn summary(&self, arguments: &Value) -> String {
        let todos = arguments["todos"].as_array().map(Vec::as_slice).unwrap_or_default();
        let now = todos.iter().find(|todo| todo["status"] == "in_progress");
        match now.and_then(|todo| todo["content"].as_str()) {
            Some(content) => content.to_owned(),
            None if todos.is_empty() => "read".to_owned(),
            None => format!("{} entries", todos.len()),
        }
    }

    fn call<'c>(&'c self, _: &'c TurnContext, arguments: Value, side: &'c CallScope) -> BoxFuture<'c, ToolResult> {
        Box::pin(async move {
            let mut lists = self.lists.lock().unwrap_or_else(PoisonError::into_inner);
            if arguments["todos"].is_array() {
                lists.keep(side.session.as_str(), arguments["todos"].clone());
            }
            let list = lists.of.get(side.session.as_str()).cloned().unwrap_or_else(|| json!([]));
            ToolResult::of(json!({ "todos": list }))
        })
    }
}
