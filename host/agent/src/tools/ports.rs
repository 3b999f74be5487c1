//! The ports through which tools access the host. This crate does not know the database or the chats; the host
//! implements these traits.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use hermes_core::context::TurnContext;
use hermes_core::ids::TurnId;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::{Message, Role};
use hermes_core::transcript::{CallRow, StartedCall, ToolCall};

/// Result of a call that a restart of the host interrupted.
pub const UNKNOWN_OUTCOME: &str =
    "interrupted, outcome unknown: the host restarted during this call. Check the current state before you repeat it.";

/// Result of a call during which a person stopped the turn.
pub const STOPPED_OUTCOME: &str = "stopped, outcome unknown: the user stopped the turn during this call. Check the current state before you repeat it.";

/// Result of a call during which the turn ended for another reason.
pub const CUT_OUTCOME: &str =
    "cut off, outcome unknown: the turn ended during this call. Check the current state before you repeat it.";

/// A ledger that records each call before it starts, and its result afterwards.
pub trait Ledger: Send + Sync {
    /// Records the start of calls, which may run only after that.
    ///
    /// # Errors
    ///
    /// The reason for which nothing was recorded.
    fn started(&self, turn: TurnId, calls: Vec<StartedCall>) -> BoxFuture<'_, Result<(), String>>;

    /// Records the result of a call.
    ///
    /// # Errors
    ///
    /// The reason for which nothing was recorded.
    fn ended(&self, turn: TurnId, n: u32, result: String) -> BoxFuture<'_, Result<(), String>>;
}

/// A filter for secrets in the output of tools.
pub trait Mask: Send + Sync {
    /// Returns the text with all secrets masked.
    fn mask(&self, text: String) -> String;
}

/// A search result in an earlier conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SearchResult {
    /// Session of the conversation.
    pub session: String,
    /// Title; empty if there is none.
    pub title: String,
    /// Author of the message.
    pub role: String,
    /// Text around the match.
    pub snippet: String,
    /// Time of the message, in milliseconds since the Unix epoch.
    pub at_ms: i64,
}

/// A search in conversations.
pub trait Search: Send + Sync {
    /// Searches the conversations that the requester may see: their own, or the current one if several people
    /// share it.
    ///
    /// # Errors
    ///
    /// The reason, in one sentence.
    fn search<'s>(
        &'s self,
        context: &'s TurnContext,
        query: &'s str,
        limit: u32,
    ) -> BoxFuture<'s, Result<Vec<SearchResult>, String>>;
}

/// A sender of messages to chats.
pub trait Messenger: Send + Sync {
    /// Queues a text for a target. Returns the destination.
    ///
    /// # Errors
    ///
    /// One sentence with suggestions or the reason for the refusal.
    fn send<'m>(
        &'m self,
        context: &'m TurnContext,
        target: &'m str,
        text: &'m str,
    ) -> BoxFuture<'m, Result<String, String>>;
}

/// A notification for the session that follows an activity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobUpdate {
    /// Id of the activity, unique within the host.
    pub id: String,
    /// Text for the agent.
    pub text: String,
    /// True for the last notification.
    pub last: bool,
    /// Progress within the activity, in its own unit. A later run continues from this value.
    pub upto: u64,
}

/// The state of the notifications about an activity.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Subscription {
    /// Reported progress, in the unit of the activity.
    pub upto: u64,
    /// Number of notifications.
    pub notified: u32,
}

/// A service that wakes sessions when an activity that outlives its turn has news.
pub trait Wakeups: Send + Sync {
    /// Returns true if sessions can be woken.
    fn is_available(&self) -> bool;

    /// Records durably that a session follows `id`.
    ///
    /// # Errors
    ///
    /// The reason for which nothing was recorded. The caller must not promise a notification then.
    fn subscribe<'w>(
        &'w self,
        context: &'w TurnContext,
        id: &'w str,
        what: &'w str,
    ) -> BoxFuture<'w, Result<(), String>>;

    /// Returns the state of the notifications about `id`, or `None` if no session follows it.
    fn subscription<'w>(&'w self, id: &'w str) -> BoxFuture<'w, Option<Subscription>>;

    /// Notifies the session that follows an activity, once. The last notification ends the subscription.
    fn notify(&self, news: JobUpdate) -> BoxFuture<'_, ()>;

    /// Ends the subscription of an activity whose end the session already knows.
    fn unsubscribe<'w>(&'w self, id: &'w str) -> BoxFuture<'w, ()>;
}

/// Action of an agent on tasks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TaskAction {
    /// Creates a task.
    Create {
        /// Title of the task.
        title: String,
        /// Description of the work.
        body: String,
        /// Lets the host run the task itself.
        run: bool,
        /// Time without progress after which an attempt times out; `None` uses the default of the host.
        timeout: Option<Duration>,
    },
    /// Claims a task.
    Claim {
        /// Id of the task, or a unique prefix of it; the same for all actions.
        task: String,
    },
    /// Reports progress.
    Update {
        /// Id of the task.
        task: String,
        /// Progress report.
        note: String,
    },
    /// Blocks a task.
    Block {
        /// Id of the task.
        task: String,
        /// Reason of the block.
        why: String,
    },
    /// Unblocks a task.
    Unblock {
        /// Id of the task.
        task: String,
        /// Note; may be empty.
        note: String,
    },
    /// Completes a task.
    Complete {
        /// Id of the task.
        task: String,
        /// Result of the task.
        result: String,
    },
    /// Gives a task up.
    GiveUp {
        /// Id of the task.
        task: String,
        /// Reason for giving up.
        why: String,
    },
    /// Archives a task.
    Archive {
        /// Id of the task.
        task: String,
    },
    /// Subscribes this chat to a task.
    Subscribe {
        /// Id of the task.
        task: String,
    },
    /// Lists tasks.
    List {
        /// Includes ended tasks.
        all: bool,
    },
    /// Shows a task.
    Show {
        /// Id of the task.
        task: String,
    },
}

/// The store of tasks.
pub trait Tasks: Send + Sync {
    /// Executes an action with the rights of the turn's requester. Returns the resulting state.
    ///
    /// # Errors
    ///
    /// One sentence for the model.
    fn act<'t>(&'t self, context: &'t TurnContext, wish: TaskAction) -> BoxFuture<'t, Result<Value, String>>;

    /// Lists background work of a helper of this turn while it runs. `stop` is cancelled when a person ends it.
    /// Returns the id of the entry, or `None` if nothing is listed.
    ///
    /// # Errors
    ///
    /// The reason for which the work may not begin, in one sentence.
    fn began<'t>(
        &'t self,
        _context: &'t TurnContext,
        _title: &'t str,
        _stop: CancellationToken,
    ) -> BoxFuture<'t, Result<Option<String>, String>> {
        Box::pin(async { Ok(None) })
    }

    /// Ends an entry of [`Tasks::began`] with its result or error. Returns false if a person ended it before
    /// and its session was notified.
    fn ended<'t>(&'t self, _task: &'t str, _end: Result<String, String>) -> BoxFuture<'t, bool> {
        Box::pin(async { true })
    }
}

/// All ports of the host.
#[derive(Clone)]
pub struct Ports {
    /// Ledger of calls.
    pub ledger: Arc<dyn Ledger>,
    /// Filter for secrets.
    pub mask: Arc<dyn Mask>,
    /// Search in conversations.
    pub search: Arc<dyn Search>,
    /// Sender of messages.
    pub messenger: Arc<dyn Messenger>,
    /// Service that wakes sessions.
    pub wakeups: Arc<dyn Wakeups>,
    /// Store of tasks.
    pub tasks: Arc<dyn Tasks>,
}

impl Default for Ports {
    /// Returns ports without a host: nothing is recorded, found, sent or notified.
    fn default() -> Self {
        let none = Arc::new(NoHost);
        Self {
            ledger: none.clone(),
            mask: none.clone(),
            search: none.clone(),
            messenger: none.clone(),
            wakeups: none.clone(),
            tasks: none,
        }
    }
}

struct NoHost;

const NO_HOST: &str = "not available: this agent runs without a host";

impl Ledger for NoHost {
    fn started(&self, _: TurnId, _: Vec<StartedCall>) -> BoxFuture<'_, Result<(), String>> {
        Box::pin(async { Ok(()) })
    }

    fn ended(&self, _: TurnId, _: u32, _: String) -> BoxFuture<'_, Result<(), String>> {
        Box::pin(async { Ok(()) })
    }
}

impl Mask for NoHost {
    fn mask(&self, text: String) -> String {
        text
    }
}

impl Search for NoHost {
    fn search<'s>(
        &'s self,
        _: &'s TurnContext,
        _: &'s str,
        _: u32,
    ) -> BoxFuture<'s, Result<Vec<SearchResult>, String>> {
        Box::pin(async { Err(NO_HOST.to_owned()) })
    }
}

impl Messenger for NoHost {
    fn send<'m>(&'m self, _: &'m TurnContext, _: &'m str, _: &'m str) -> BoxFuture<'m, Result<String, String>> {
        Box::pin(async { Err(NO_HOST.to_owned()) })
    }
}

impl Wakeups for NoHost {
    fn is_available(&self) -> bool {
        false
    }

    fn subscribe<'w>(&'w self, _: &'w TurnContext, _: &'w str, _: &'w str) -> BoxFuture<'w, Result<(), String>> {
        Box::pin(async { Err(NO_HOST.to_owned()) })
    }

    fn subscription<'w>(&'w self, _: &'w str) -> BoxFuture<'w, Option<Subscription>> {
        Box::pin(async { None })
    }

    fn notify(&self, _: JobUpdate) -> BoxFuture<'_, ()> {
        Box::pin(async {})
    }

    fn unsubscribe<'w>(&'w self, _: &'w str) -> BoxFuture<'w, ()> {
        Box::pin(async {})
    }
}

impl Tasks for NoHost {
    fn act<'t>(&'t self, _: &'t TurnContext, _: TaskAction) -> BoxFuture<'t, Result<Value, String>> {
        Box::pin(async { Err(NO_HOST.to_owned()) })
    }
}

/// Returns the steps of a turn for its transcript: each answer of the model with its calls, then their results.
/// A call without a result gets the text `open` and is never repeated.
pub fn replayed(rows: &[CallRow], open: &str) -> Vec<Message> {
    let mut messages = Vec::new();
    for step in rows.chunk_by(|a, b| a.started.step == b.started.step) {
        let mut asked = Message::assistant(step[0].started.said.clone());
        asked.tool_calls = step.iter().map(|row| row.started.call.to_json()).collect();
        messages.push(asked);
        messages.extend(step.iter().map(|row| {
            let result = row.result.clone().unwrap_or_else(|| open.to_owned());
            result_of(&row.started.call, result)
        }));
    }
    messages
}

/// Returns the result of a call as a transcript entry.
pub(crate) fn result_of(call: &ToolCall, result: String) -> Message {
    let mut message = Message::new(Role::Tool, result);
    message.tool_call_id = Some(call.id.clone());
    message
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(n: u32, step: u32, result: Option<&str>) -> CallRow {
        let call = ToolCall { id: format!("c{n}"), name: "todo".to_owned(), arguments: "{}".to_owned() };
        CallRow {
            started: StartedCall { n, step, said: format!("step {step}"), call },
            result: result.map(str::to_owned),
        }
    }

    #[test]
    fn what_a_turn_did_is_replayed_in_order_and_the_unknown_is_said() {
        let messages = replayed(&[row(0, 0, Some("a")), row(1, 0, Some("b")), row(2, 1, None)], UNKNOWN_OUTCOME);
        let shape: Vec<_> = messages.iter().map(|m| (m.role, m.content.as_str(), m.tool_calls.len())).collect();
        let expected = [
            (Role::Assistant, "step 0", 2),
            (Role::Tool, "a", 0),
            (Role::Tool, "b", 0),
            (Role::Assistant, "step 1", 1),
            (Role::Tool, UNKNOWN_OUTCOME, 0),
        ];
        assert_eq!(shape, expected);
        assert_eq!(messages[2].tool_call_id.as_deref(), Some("c1"));
        assert!(UNKNOWN_OUTCOME.starts_with("interrupted, outcome unknown"));
        assert!(replayed(&[], UNKNOWN_OUTCOME).is_empty());
    }
}
