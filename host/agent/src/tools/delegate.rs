//! `delegate_task`: hands a task on to a helper with a history of its own, so that long
//! work does not fill this conversation.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::future::BoxFuture;
use hermes_core::context::TurnContext;
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use super::ports::News;
use super::{Ports, Tool, ToolResult, ToolSide, ToolSpec, gate, group, text};
use crate::{EventSink, Hold};

/// How deep tasks may be handed on.
pub const DEPTH_MAX: u32 = 2;

/// Tasks that one turn may hand on, those of its helpers among them.
pub const HELPERS_MAX: u32 = 16;

/// Tasks of all conversations that are worked on beside the turns that asked for them.
pub const LATER_MAX: usize = 16;

/// The same of one person, or of one conversation where nobody is known: nobody takes all the room from others.
pub const LATER_PER_PERSON_MAX: usize = 4;

/// Answers of the model that one such task may take.
pub const ITERATIONS_MAX: u32 = 20;

/// Why a task ended that a helper handed on.
const ENDED_WITH: &str = "the helper that handed it on was ended";

/// The longest task, in characters.
const TASK_CHARS_MAX: usize = 16_000;

/// What a helper is told besides its task.
pub const HELPER: &str = "You are a helper. You get one task and whatever you need to know; nobody can be asked. Do it \
    and answer with the result alone, complete and short.";

/// A task that is handed on.
#[derive(Clone, Debug)]
pub struct Delegated {
    /// What is to be done, with everything that has to be known.
    pub task: String,
    /// Where it was asked for.
    pub context: TurnContext,
    /// How deep it stands.
    pub depth: u32,
}

/// Who answers such tasks.
pub trait Delegate: Send + Sync {
    /// Answers one.
    ///
    /// # Errors
    ///
    /// Why there is no answer, in one sentence.
    fn answer(
        self: Arc<Self>,
        task: Delegated,
        side: ToolSide,
        cancel: CancellationToken,
    ) -> BoxFuture<'static, Result<String, String>>;
}

/// The tool.
pub struct DelegateTask {
    ports: Ports,
    /// Tasks beside the turns that asked for them.
    later: Arc<Semaphore>,
    /// The same, by whose they are.
    theirs: Mutex<BTreeMap<String, Arc<Semaphore>>>,
}

impl DelegateTask {
    /// With what the shell lends.
    pub fn new(ports: Ports) -> Self {
        Self { ports, later: Arc::new(Semaphore::new(LATER_MAX)), theirs: Mutex::default() }
    }

    /// The room that whoever asks has. Who has nothing under way is forgotten.
    fn room_of(&self, context: &TurnContext) -> Arc<Semaphore> {
        let whose = if context.person.is_empty() { &context.session_key } else { &context.person };
        let mut theirs = self.theirs.lock().unwrap_or_else(PoisonError::into_inner);
        theirs.retain(|_, room| room.available_permits() < LATER_PER_PERSON_MAX || Arc::strong_count(room) > 1);
        let room = theirs.entry(whose.clone()).or_insert_with(|| Arc::new(Semaphore::new(LATER_PER_PERSON_MAX)));
        Arc::clone(room)
    }

    async fn hand_on(&self, context: &TurnContext, arguments: &Value, side: &ToolSide) -> Result<Value, String> {
        let delegate = side.delegate.clone().ok_or("nobody is there to hand a task on to")?;
        if side.depth >= DEPTH_MAX {
            return Err(format!("tasks are handed on {DEPTH_MAX} times at most; do it yourself"));
        }
        if side.helpers.fetch_add(1, Ordering::Relaxed) >= HELPERS_MAX {
            side.helpers.fetch_sub(1, Ordering::Relaxed);
            return Err(format!("one turn hands on {HELPERS_MAX} tasks at most; do the rest yourself"));
        }
        let goal = text(arguments, "goal");
        let known = text(arguments, "context");
        let task =
            if known.is_empty() { goal.to_owned() } else { format!("{goal}\n\nWhat you need to know:\n{known}") };
        let delegated = Delegated { task, context: context.clone(), depth: side.depth + 1 };
        let wants_later = arguments["background"] == true;
        if wants_later && gate::delivers_later(context, &self.ports) {
            return self.later(context, delegate, delegated, goal, side).await;
        }
        let inner = ToolSide { events: side.events.quiet(), ..side.clone() };
        let _held = side.events.hold(Hold::Children);
        let result = delegate.answer(delegated, inner, side.stop.clone()).await?;
        let mut answer = json!({ "result": result });
        if wants_later {
            answer["note"] = json!(gate::DELEGATED_AT_ONCE);
        }
        Ok(answer)
    }

    async fn later(
        &self,
        context: &TurnContext,
        delegate: Arc<dyn Delegate>,
        delegated: Delegated,
        goal: &str,
        side: &ToolSide,
    ) -> Result<Value, String> {
        let Ok(own) = self.room_of(context).try_acquire_owned() else {
            return Err(format!(
                "{LATER_PER_PERSON_MAX} tasks of this person are worked on in the background already; try it later"
            ));
        };
        let Ok(room) = Arc::clone(&self.later).try_acquire_owned() else {
            return Err(format!("{LATER_MAX} tasks are worked on in the background already; try it later"));
        };
        // What a helper hands on ends with it.
        let stop = side.stop.child_token();
        // Listed among the tasks of whoever asked, as long as it lasts.
        let listed = self.ports.tasks.began(context, goal, stop.clone()).await?;
        let id = listed.clone().unwrap_or_else(|| format!("d{}", group::mark(side.turn)));
        if let Err(why) = self.ports.wakes.follow(context, &id, goal).await {
            self.ports.tasks.ended(&id, Err(why.clone())).await;
            return Err(why);
        }
        // Nobody listens: the turn that asked is over by then.
        let (events, _) = EventSink::channel();
        let inner = ToolSide { events, stop: stop.clone(), ..side.clone() };
        let later = Later { ports: self.ports.clone(), id: id.clone(), goal: goal.to_owned(), by: side.stop.clone() };
        tokio::spawn(async move {
            let end = delegate.answer(delegated, inner, stop).await;
            later.ended(end).await;
            drop((own, room));
        });
        Ok(json!({
            "task": id,
            "note": "a helper works on it; you are woken with its result. Where the tool task is there, its action \
                give_up ends the helper.",
        }))
    }
}

/// A task that a helper works on beside the turn that handed it on.
struct Later {
    ports: Ports,
    id: String,
    goal: String,
    /// Cancelled where a helper handed it on that was to end.
    by: CancellationToken,
}

impl Later {
    /// It is over: its session is woken, unless it knows, or hears of what it was a part of.
    async fn ended(self, end: Result<String, String>) {
        let Self { ports, id, goal, by } = self;
        let end = if by.is_cancelled() { Err(ENDED_WITH.to_owned()) } else { end };
        if !ports.tasks.ended(&id, end.clone()).await {
            return;
        }
        if by.is_cancelled() {
            return ports.wakes.forget(&id).await;
        }
        let text = match end {
            Ok(result) => format!("The task you handed on ({goal}) is done. Its result:\n{result}"),
            Err(why) => format!("The task you handed on ({goal}) failed: {why}"),
        };
        ports.wakes.tell(News { id, text, last: true, upto: 0 }).await;
    }
}

impl Tool for DelegateTask {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "delegate_task",
            description: "Hands a task on to a helper with a history of its own and returns its result. The helper knows \
                nothing of this conversation: tell it everything in `goal` and `context`. With background=true you go on \
                at once and are woken with the result."
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

    fn call<'c>(&'c self, context: &'c TurnContext, arguments: Value, side: &'c ToolSide) -> BoxFuture<'c, ToolResult> {
        Box::pin(async move {
            self.hand_on(context, &arguments, side).await.map_or_else(ToolResult::failed, ToolResult::of)
        })
    }
}
