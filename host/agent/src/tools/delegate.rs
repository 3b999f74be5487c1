//! The tool `delegate_task`, which passes a task to a helper with a separate history, so that long work does
//! not fill the conversation.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::future::BoxFuture;
use hermes_core::context::TurnContext;
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use super::ports::JobUpdate;
use super::{CallScope, Ports, Tool, ToolResult, ToolSpec, group, late_delivery, text};
use crate::{EventSink, Hold};

/// Nesting levels of delegated tasks.
pub const DEPTH_MAX: u32 = 2;

/// Delegated tasks of one turn, including those of its helpers.
pub const HELPERS_MAX: u32 = 16;

/// Concurrent delegated tasks in the background, of all conversations.
pub const BACKGROUND_MAX: usize = 16;

/// Concurrent delegated tasks in the background of one person, or of one conversation without a known person.
/// Prevents one person from using up the limit for all.
pub const BACKGROUND_PER_OWNER_MAX: usize = 4;

/// Model answers of one background task.
pub const ITERATIONS_MAX: u32 = 20;

/// Error of a task whose delegating helper was ended.
const ENDED_WITH: &str = "the sub-agent that delegated the task was stopped";

/// Longest task, in characters.
const TASK_CHARS_MAX: usize = 16_000;

/// Instructions of a helper in addition to its task.
pub const HELPER: &str = "You are a sub-agent. You receive one task with all the information you need, and there is \
    no user to ask. Complete the task. Reply with the result only; be complete and concise.";

/// A delegated task.
#[derive(Clone, Debug)]
pub struct DelegatedTask {
    /// Task, with all information that the helper needs.
    pub task: String,
    /// Origin of the task.
    pub context: TurnContext,
    /// Nesting level.
    pub depth: u32,
}

/// An executor of delegated tasks.
pub trait Delegate: Send + Sync {
    /// Executes a task and returns the answer.
    ///
    /// # Errors
    ///
    /// The reason for the missing answer, in one sentence.
    fn answer(
        self: Arc<Self>,
        task: DelegatedTask,
        side: CallScope,
        cancel: CancellationToken,
    ) -> BoxFuture<'static, Result<String, String>>;
}

/// The tool.
pub struct DelegateTool {
    ports: Ports,
    /// Slots for background tasks.
    slots: Arc<Semaphore>,
    /// Slots for background tasks by owner.
    owner_slots: Mutex<BTreeMap<String, Arc<Semaphore>>>,
}

impl DelegateTool {
    /// Creates the tool with the ports of the host.
    pub fn new(ports: Ports) -> Self {
        Self { ports, slots: Arc::new(Semaphore::new(BACKGROUND_MAX)), owner_slots: Mutex::default() }
    }

    /// Returns the slots of the requester. Owners without background tasks are removed.
    fn slots_of(&self, context: &TurnContext) -> Arc<Semaphore> {
        let whose = if context.person.is_empty() { &context.session_key } else { &context.person };
        let mut slots = self.owner_slots.lock().unwrap_or_else(PoisonError::into_inner);
        slots.retain(|_, room| room.available_permits() < BACKGROUND_PER_OWNER_MAX || Arc::strong_count(room) > 1);
        let room = slots.entry(whose.clone()).or_insert_with(|| Arc::new(Semaphore::new(BACKGROUND_PER_OWNER_MAX)));
        Arc::clone(room)
    }

    async fn delegate(&self, context: &TurnContext, arguments: &Value, side: &CallScope) -> Result<Value, String> {
        let delegate = side.delegate.clone().ok_or("delegation is not available in this turn; do the task yourself")?;
        if side.depth >= DEPTH_MAX {
            return Err(format!("tasks can be delegated at most {DEPTH_MAX} levels deep; do this one yourself"));
        }
        if side.helpers.fetch_add(1, Ordering::Relaxed) >= HELPERS_MAX {
            side.helpers.fetch_sub(1, Ordering::Relaxed);
            return Err(format!("a turn can delegate at most {HELPERS_MAX} tasks; do the rest yourself"));
        }
        let goal = text(arguments, "goal");
        let known = text(arguments, "context");
        let task = if known.is_empty() { goal.to_owned() } else { format!("{goal}\n\nContext:\n{known}") };
        let delegated = DelegatedTask { task, context: context.clone(), depth: side.depth + 1 };
        let wants_later = arguments["background"] == true;
        if wants_later && late_delivery::delivers_later(context, &self.ports) {
            return self.run_in_background(context, delegate, delegated, goal, side).await;
        }
        let inner = CallScope { events: side.events.for_helper(), ..side.clone() };
        let _held = side.events.hold(Hold::Children);
        let result = delegate.answer(delegated, inner, side.stop.clone()).await?;
        let mut answer = json!({ "result": result });
        if wants_later {
            answer["note"] = json!(late_delivery::DELEGATED_AT_ONCE);
        }
        Ok(answer)
    }

    async fn run_in_background(
        &self,
        context: &TurnContext,
        delegate: Arc<dyn Delegate>,
        delegated: DelegatedTask,
        goal: &str,
        side: &CallScope,
    ) -> Result<Value, String> {
        let Ok(own) = self.slots_of(context).try_acquire_owned() else {
            return Err(format!(
                "{BACKGROUND_PER_OWNER_MAX} delegated tasks of this user are already running in the background; try again later"
            ));
        };
        let Ok(room) = Arc::clone(&self.slots).try_acquire_owned() else {
            return Err(format!(
                "{BACKGROUND_MAX} delegated tasks are already running in the background on this host; try again later"
            ));
        };
        // A task that a helper delegates ends with the helper.
        let stop = side.stop.child_token();
        // The task is listed among the tasks of the requester while it runs.
        let listed = self.ports.tasks.began(context, goal, stop.clone()).await?;
        let id = listed.clone().unwrap_or_else(|| format!("d{}", group::mark(side.turn)));
        if let Err(why) = self.ports.wakeups.subscribe(context, &id, goal).await {
            self.ports.tasks.ended(&id, Err(why.clone())).await;
            return Err(why);
        }
        // The requesting turn has ended by then, so nobody reads the events.
        let (events, _) = EventSink::channel();
        let inner = CallScope { events, stop: stop.clone(), ..side.clone() };
        let delegation = BackgroundDelegation {
            ports: self.ports.clone(),
            id: id.clone(),
            goal: goal.to_owned(),
            by: side.stop.clone(),
        };
        tokio::spawn(async move {
            let end = delegate.answer(delegated, inner, stop).await;
            delegation.ended(end).await;
            drop((own, room));
        });
        Ok(json!({
            "task": id,
            "note": "A sub-agent is working on the task; you will be notified of its result. To stop it, call \
                task(action=\"give_up\") if that tool is available.",
        }))
    }
}

/// A delegated task that runs in the background.
struct BackgroundDelegation {
    ports: Ports,
    id: String,
    goal: String,
    /// Cancelled if the helper that delegated the task is ended.
    by: CancellationToken,
}

impl BackgroundDelegation {
    /// Handles the end of the task. Wakes the session, unless it already knows of the end or gets the result of
    /// the enclosing task.
    async fn ended(self, end: Result<String, String>) {
        let Self { ports, id, goal, by } = self;
        let end = if by.is_cancelled() { Err(ENDED_WITH.to_owned()) } else { end };
        if !ports.tasks.ended(&id, end.clone()).await {
            return;
        }
        if by.is_cancelled() {
            return ports.wakeups.unsubscribe(&id).await;
        }
        let text = match end {
            Ok(result) => format!("The task you delegated ({goal}) is done. Its result:\n{result}"),
            Err(why) => format!("The task you delegated ({goal}) failed: {why}"),
        };
        ports.wakeups.notify(JobUpdate { id, text, last: true, upto: 0 }).await;
    }
}

impl Tool for DelegateTool {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "delegate_task",
            description: "Runs a task in a sub-agent with its own context and returns its result. The sub-agent does \
                not see this conversation: put all required information into `goal` and `context`. With \
                background=true the call returns at once, and you are notified of the result later."
                .to_owned(),
            schema: json!({
                "type": "object",
                "properties": {
                    "goal": {"type": "string", "maxLength": TASK_CHARS_MAX},
                    "context": {"type": "string", "maxLength": TASK_CHARS_MAX},
                    "background": {"type": "boolean"},
                },
                "required": ["goal"],
            }),
            parallel: true,
        }
    }

    fn summary(&self, arguments: &Value) -> String {
        text(arguments, "goal").to_owned()
    }

    fn call<'c>(
        &'c self,
        context: &'c TurnContext,
        arguments: Value,
        side: &'c CallScope,
    ) -> BoxFuture<'c, ToolResult> {
        Box::pin(async move {
            self.delegate(context, &arguments, side).await.map_or_else(ToolResult::failed, ToolResult::of)
        })
    }
}
