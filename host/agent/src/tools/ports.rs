//! What the shell lends to tools. The agent's room knows neither the database nor a
//! chat; whoever runs it implements these.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use hermes_core::context::TurnContext;
use hermes_core::ids::TurnId;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::ToolCall;
use crate::{Message, Role};

/// What the model is told of a call whose result nobody knows.
pub const UNKNOWN_OUTCOME: &str =
    "interrupted, outcome unknown: the host was restarted while this ran. Look before you do it again.";

/// What the model is told of a call in the midst of which somebody stopped the turn.
pub const STOPPED_OUTCOME: &str =
    "stopped, outcome unknown: the person stopped this turn while this ran. Look before you do it again.";

/// What the model is told of a call in the midst of which the turn ended for another reason.
pub const CUT_OUTCOME: &str = "cut off, outcome unknown: this turn ended while this ran. Look before you do it again.";

/// A call on its way into the ledger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StartedCall {
    /// Its number within the turn, from 0.
    pub n: u32,
    /// Which answer of the model asked for it, from 0.
    pub step: u32,
    /// What the model said in that answer.
    pub said: String,
    /// The call.
    pub call: ToolCall,
}

/// A call as the ledger has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallRow {
    /// How it started.
    pub started: StartedCall,
    /// What came of it; `None`: nobody knows.
    pub result: Option<String>,
}

/// Where each call is written before it starts, and its result after.
pub trait Ledger: Send + Sync {
    /// Writes that these calls start; only then may they.
    ///
    /// # Errors
    ///
    /// Why it is not written.
    fn started(&self, turn: TurnId, calls: Vec<StartedCall>) -> BoxFuture<'_, Result<(), String>>;

    /// Writes what came of a call.
    ///
    /// # Errors
    ///
    /// Why it is not written.
    fn ended(&self, turn: TurnId, n: u32, result: String) -> BoxFuture<'_, Result<(), String>>;
}

/// Takes secrets out of what tools say.
pub trait Mask: Send + Sync {
    /// Returns the text without any secret.
    fn mask(&self, text: String) -> String;
}

/// A place in an earlier conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The conversation.
    pub session: String,
    /// Its title; empty where it has none.
    pub title: String,
    /// Who speaks.
    pub role: String,
    /// The words around the match.
    pub snippet: String,
    /// When, in milliseconds since the Unix epoch.
    pub at_ms: i64,
}

/// Searches conversations.
pub trait Search: Send + Sync {
    /// Finds what whoever asks may see: their own conversations, or this one where several people share it.
    ///
    /// # Errors
    ///
    /// One sentence.
    fn search<'s>(
        &'s self,
        context: &'s TurnContext,
        query: &'s str,
        limit: u32,
    ) -> BoxFuture<'s, Result<Vec<Found>, String>>;
}

/// Writes to chats.
pub trait Messenger: Send + Sync {
    /// Owes a text to a target; returns where it goes.
    ///
    /// # Errors
    ///
    /// One sentence: what is near, or why it may not be.
    fn send<'m>(
        &'m self,
        context: &'m TurnContext,
        target: &'m str,
        text: &'m str,
    ) -> BoxFuture<'m, Result<String, String>>;
}

/// Something that happened after a turn, for the session that asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct News {
    /// What is followed, unique within the host.
    pub id: String,
    /// What happened, as the agent is told.
    pub text: String,
    /// Whether nothing follows.
    pub last: bool,
    /// How far this goes in what is followed, in its own measure; whoever takes it up again begins there.
    pub upto: u64,
}

/// How much a session has heard of something that it follows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Followed {
    /// How far, in the measure of what is followed.
    pub upto: u64,
    /// How often it was woken.
    pub told: u32,
}

/// Wakes sessions when something that outlives a turn has news.
pub trait Wakes: Send + Sync {
    /// Whether sessions can be woken at all.
    fn is_able(&self) -> bool;

    /// Remembers, durably, that a session wants to hear of `id`.
    ///
    /// # Errors
    ///
    /// Why it is not remembered; nothing may be promised then.
    fn follow<'w>(&'w self, context: &'w TurnContext, id: &'w str, what: &'w str) -> BoxFuture<'w, Result<(), String>>;

    /// How much was told of `id`; `None` when nobody follows it, or not any more.
    fn followed<'w>(&'w self, id: &'w str) -> BoxFuture<'w, Option<Followed>>;

    /// Tells news to whoever follows, once; after the last one nobody does.
    fn tell(&self, news: News) -> BoxFuture<'_, ()>;

    /// Its session knows the rest: nobody follows it any more.
    fn forget<'w>(&'w self, id: &'w str) -> BoxFuture<'w, ()>;
}

/// What an agent wants with a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TaskWish {
    /// Make one.
    Create {
        /// Its name.
        title: String,
        /// What is to be done.
        body: String,
        /// Whether the host does it by itself.
        run: bool,
        /// How long a try may go without a word; `None`: as the host has it.
        timeout: Option<Duration>,
    },
    /// Take one on.
    Claim {
        /// Its id, or a unique beginning of it; so everywhere.
        task: String,
    },
    /// Say how far it is.
    Update {
        /// The task.
        task: String,
        /// The report.
        note: String,
    },
    /// It cannot go on.
    Block {
        /// The task.
        task: String,
        /// What it waits for.
        why: String,
    },
    /// It can go on.
    Unblock {
        /// The task.
        task: String,
        /// What is said with it; may be empty.
        note: String,
    },
    /// It is done.
    Complete {
        /// The task.
        task: String,
        /// What came of it.
        result: String,
    },
    /// It will not be done.
    GiveUp {
        /// The task.
        task: String,
        /// Why.
        why: String,
    },
    /// Put it away.
    Archive {
        /// The task.
        task: String,
    },
    /// Let this chat hear of it.
    Subscribe {
        /// The task.
        task: String,
    },
    /// Which there are.
    List {
        /// Those at their end too.
        all: bool,
    },
    /// How one stands.
    Show {
        /// The task.
        task: String,
    },
}

/// Keeps tasks.
pub trait Tasks: Send + Sync {
    /// Does what is wanted, as whoever asks in this turn may; returns what is true after it.
    ///
    /// # Errors
    ///
    /// One sentence that the model can use.
    fn act<'t>(&'t self, context: &'t TurnContext, wish: TaskWish) -> BoxFuture<'t, Result<Value, String>>;

    /// Lists work that a helper of this turn does behind it, as long as it lasts, for those who may end it: `stop` is
    /// cancelled then. Returns the id under which it is listed; `None` where nothing is.
    ///
    /// # Errors
    ///
    /// Why it may not begin, in one sentence.
    fn began<'t>(
        &'t self,
        _context: &'t TurnContext,
        _title: &'t str,
        _stop: CancellationToken,
    ) -> BoxFuture<'t, Result<Option<String>, String>> {
        Box::pin(async { Ok(None) })
    }

    /// What was listed by [`Tasks::began`] is over: what came of it, or why nothing did. `false`: somebody ended it
    /// before, and its session has heard that.
    fn ended<'t>(&'t self, _task: &'t str, _end: Result<String, String>) -> BoxFuture<'t, bool> {
        Box::pin(async { true })
    }
}

/// Everything that the shell lends.
#[derive(Clone)]
pub struct Ports {
    /// Where calls are written.
    pub ledger: Arc<dyn Ledger>,
    /// What takes secrets out.
    pub mask: Arc<dyn Mask>,
    /// What searches conversations.
    pub search: Arc<dyn Search>,
    /// What writes to chats.
    pub messenger: Arc<dyn Messenger>,
    /// What wakes sessions.
    pub wakes: Arc<dyn Wakes>,
    /// What keeps tasks.
    pub tasks: Arc<dyn Tasks>,
}

impl Default for Ports {
    /// Of a runtime without a shell: nothing is written, found, sent or told.
    fn default() -> Self {
        let none = Arc::new(NoShell);
        Self {
            ledger: none.clone(),
            mask: none.clone(),
            search: none.clone(),
            messenger: none.clone(),
            wakes: none.clone(),
            tasks: none,
        }
    }
}

struct NoShell;

const NO_SHELL: &str = "there is no host behind this agent";

impl Ledger for NoShell {
    fn started(&self, _: TurnId, _: Vec<StartedCall>) -> BoxFuture<'_, Result<(), String>> {
        Box::pin(async { Ok(()) })
    }

    fn ended(&self, _: TurnId, _: u32, _: String) -> BoxFuture<'_, Result<(), String>> {
        Box::pin(async { Ok(()) })
    }
}

impl Mask for NoShell {
    fn mask(&self, text: String) -> String {
        text
    }
}

impl Search for NoShell {
    fn search<'s>(&'s self, _: &'s TurnContext, _: &'s str, _: u32) -> BoxFuture<'s, Result<Vec<Found>, String>> {
        Box::pin(async { Err(NO_SHELL.to_owned()) })
    }
}

impl Messenger for NoShell {
    fn send<'m>(&'m self, _: &'m TurnContext, _: &'m str, _: &'m str) -> BoxFuture<'m, Result<String, String>> {
        Box::pin(async { Err(NO_SHELL.to_owned()) })
    }
}

impl Wakes for NoShell {
    fn is_able(&self) -> bool {
        false
    }

    fn follow<'w>(&'w self, _: &'w TurnContext, _: &'w str, _: &'w str) -> BoxFuture<'w, Result<(), String>> {
        Box::pin(async { Err(NO_SHELL.to_owned()) })
    }

    fn followed<'w>(&'w self, _: &'w str) -> BoxFuture<'w, Option<Followed>> {
        Box::pin(async { None })
    }

    fn tell(&self, _: News) -> BoxFuture<'_, ()> {
        Box::pin(async {})
    }

    fn forget<'w>(&'w self, _: &'w str) -> BoxFuture<'w, ()> {
        Box::pin(async {})
    }
}

impl Tasks for NoShell {
    fn act<'t>(&'t self, _: &'t TurnContext, _: TaskWish) -> BoxFuture<'t, Result<Value, String>> {
        Box::pin(async { Err(NO_SHELL.to_owned()) })
    }
}

/// What a turn has done, as its transcript keeps it: each answer of the model with its
/// calls, then their results. A call without one is told by the word of `open`, and never runs again.
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

/// The result of a call as the transcript keeps it.
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
