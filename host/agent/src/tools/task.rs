//! The tool `task`, which manages tasks with a state and subscribers.
//!
//! The tool parses and checks the request of the model; the host keeps the tasks and decides who may see them
//! (the port [`Tasks`]). A task is claimed by an agent in any conversation, or by the host itself, which
//! executes a task with `run` in a separate session.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use hermes_core::context::TurnContext;
use hermes_core::nearest::nearest;
use serde_json::{Value, json};

use super::ports::{TaskAction, Tasks};
use super::{CallScope, Ports, Tool, ToolResult, ToolSpec, late_delivery, text};

/// Longest title, in characters.
pub const TITLE_CHARS_MAX: usize = 200;

/// Longest description, report, result or reason, in characters.
pub const TEXT_CHARS_MAX: usize = 8_000;

/// Longest id or prefix of one, in characters.
const ID_CHARS_MAX: usize = 40;

/// Longest time without progress in an attempt, in minutes.
const TIMEOUT_MINUTES_MAX: u64 = 7 * 24 * 60;

const ACTIONS: [&str; 11] =
    ["create", "claim", "update", "block", "unblock", "complete", "give_up", "archive", "subscribe", "list", "show"];

/// The tool.
pub struct TaskTool {
    tasks: Arc<dyn Tasks>,
}

impl TaskTool {
    /// Creates the tool with the ports of the host.
    pub fn new(ports: &Ports) -> Self {
        Self { tasks: Arc::clone(&ports.tasks) }
    }

    async fn act(&self, context: &TurnContext, arguments: &Value) -> Result<Value, String> {
        let wish = wish(arguments)?;
        let is_new = matches!(wish, TaskAction::Create { .. } | TaskAction::Subscribe { .. });
        let mut answer = self.tasks.act(context, wish).await?;
        if is_new && !context.async_delivery {
            answer["note"] = json!(late_delivery::TASK_NOTIFY_UNSUPPORTED);
        }
        Ok(answer)
    }
}

/// Parses the action of a model and checks its required arguments.
fn wish(arguments: &Value) -> Result<TaskAction, String> {
    let action = text(arguments, "action");
    let given = |name: &str| arguments.get(name).is_some_and(|value| value != "");
    let said = |name: &str| text(arguments, name).trim().to_owned();
    let need = |name: &str, what: &str| match said(name) {
        empty if empty.is_empty() => Err(format!("{name:?} is missing: {action} needs {what}")),
        said => Ok(said),
    };
    let only = |name: &str, goes_with: &str| match given(name) {
        true if action != goes_with => Err(format!("{name:?} is valid for {goes_with} only, not for {action}")),
        _ => Ok(()),
    };
    only("title", "create")?;
    only("run", "create")?;
    only("timeout_minutes", "create")?;
    only("all", "list")?;
    let task = || need("task", "the id of a task (see list)");
    Ok(match action {
        "create" => TaskAction::Create {
            title: need("title", "a short name")?,
            body: said("text"),
            run: arguments["run"] == true,
            timeout: arguments["timeout_minutes"].as_u64().map(|minutes| Duration::from_secs(minutes * 60)),
        },
        "claim" => TaskAction::Claim { task: task()? },
        "update" => TaskAction::Update { task: task()?, note: need("text", "a progress report")? },
        "block" => TaskAction::Block { task: task()?, why: need("text", "the reason for the wait")? },
        "unblock" => TaskAction::Unblock { task: task()?, note: said("text") },
        "complete" => TaskAction::Complete { task: task()?, result: need("text", "a short result")? },
        "give_up" => TaskAction::GiveUp { task: task()?, why: need("text", "the reason")? },
        "archive" => TaskAction::Archive { task: task()? },
        "subscribe" => TaskAction::Subscribe { task: task()? },
        "list" => TaskAction::List { all: arguments["all"] == true },
        "show" => TaskAction::Show { task: task()? },
        other => {
            let near = nearest(other, ACTIONS).map(|near| format!("; did you mean {near:?}?")).unwrap_or_default();
            return Err(format!("unknown action {other:?}{near}"));
        }
    })
}

impl Tool for TaskTool {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "task",
            description:
                "Manages tasks that outlive this turn. A task has an id, a title, a state and subscribed chats. Actions: \
                create (this chat and you are notified when the task ends; with run=true the host starts it at once in \
                a separate session that sees only `title` and `text`); claim (before you work on a task); update \
                (reports progress); block (with the reason for the wait); unblock (resumes the task); complete (with \
                the result); give_up (with the reason); archive (hides a task); subscribe (notifies this chat of \
                changes); list; show. All actions except create and list require `task`, the id. Reports, results and \
                reasons go into `text`."
                    .to_owned(),
            schema: json!({
                "type": "object",
                "properties": {
                    "action": {"type": "string", "enum": ACTIONS},
                    "task": {"type": "string", "maxLength": ID_CHARS_MAX},
                    "title": {"type": "string", "maxLength": TITLE_CHARS_MAX},
                    "text": {"type": "string", "maxLength": TEXT_CHARS_MAX},
                    "run": {"type": "boolean"},
                    "timeout_minutes": {"type": "integer", "minimum": 1, "maximum": TIMEOUT_MINUTES_MAX},
                    "all": {"type": "boolean"},
                },
                "required": ["action"],
            }),
            parallel: false,
        }
    }

    fn summary(&self, arguments: &Value) -> String {
        let what = [text(arguments, "action"), text(arguments, "task"), text(arguments, "title")];
        what.into_iter().filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ")
    }

    fn call<'c>(&'c self, context: &'c TurnContext, arguments: Value, _: &'c CallScope) -> BoxFuture<'c, ToolResult> {
        Box::pin(async move { self.act(context, &arguments).await.map_or_else(ToolResult::failed, ToolResult::of) })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Mutex, PoisonError};

    use hermes_core::ids::{SessionId, TurnId};

    use super::super::schema;
    use super::*;
    use crate::EventSink;

    /// A task store that records the actions.
    #[derive(Default)]
    struct Wanted(Mutex<Vec<TaskAction>>);

    impl Tasks for Wanted {
        fn act<'t>(&'t self, _: &'t TurnContext, wish: TaskAction) -> BoxFuture<'t, Result<Value, String>> {
            self.0.lock().unwrap_or_else(PoisonError::into_inner).push(wish);
            Box::pin(async { Ok(json!({"task": "tabc123"})) })
        }
    }

    struct Desk {
        wanted: Arc<Wanted>,
        tool: TaskTool,
    }

    impl Desk {
        fn new() -> Self {
            let wanted = Arc::new(Wanted::default());
            let ports = Ports { tasks: wanted.clone(), ..Ports::default() };
            Self { tool: TaskTool::new(&ports), wanted }
        }

        async fn call(&self, arguments: Value, async_delivery: bool) -> ToolResult {
            let arguments = schema::read(&arguments.to_string(), &self.tool.spec().schema).expect("it fits the schema");
            let context = TurnContext { async_delivery, ..TurnContext::default() };
            let (events, _) = EventSink::channel();
            let side = CallScope {
                turn: TurnId(1),
                session: SessionId("s".to_owned()),
                events,
                depth: 0,
                helpers: Arc::default(),
                stop: tokio_util::sync::CancellationToken::new(),
                delegate: None,
            };
            self.tool.call(&context, arguments, &side).await
        }

        fn wanted(&self) -> Vec<TaskAction> {
            std::mem::take(&mut self.wanted.0.lock().unwrap_or_else(PoisonError::into_inner))
        }
    }

    #[tokio::test]
    async fn each_action_becomes_what_the_host_is_asked_for() {
        let desk = Desk::new();
        let (task, say) = ("tabc123".to_owned(), "so".to_owned());
        let timeout = Some(Duration::from_secs(300));
        let calls = [
            (
                json!({"action": "create", "title": " Roof ", "text": "mend it", "run": true, "timeout_minutes": 5}),
                TaskAction::Create { title: "Roof".to_owned(), body: "mend it".to_owned(), run: true, timeout },
            ),
            (json!({"action": "claim", "task": task}), TaskAction::Claim { task: task.clone() }),
            (
                json!({"action": "update", "task": task, "text": say}),
                TaskAction::Update { task: task.clone(), note: say.clone() },
            ),
            (
                json!({"action": "block", "task": task, "text": say}),
                TaskAction::Block { task: task.clone(), why: say.clone() },
            ),
            (
                json!({"action": "unblock", "task": task}),
                TaskAction::Unblock { task: task.clone(), note: String::new() },
            ),
            (
                json!({"action": "complete", "task": task, "text": say}),
                TaskAction::Complete { task: task.clone(), result: say.clone() },
            ),
            (
                json!({"action": "give_up", "task": task, "text": say}),
                TaskAction::GiveUp { task: task.clone(), why: say.clone() },
            ),
            (json!({"action": "archive", "task": task}), TaskAction::Archive { task: task.clone() }),
            (json!({"action": "subscribe", "task": task}), TaskAction::Subscribe { task: task.clone() }),
            (json!({"action": "list", "all": true}), TaskAction::List { all: true }),
            (json!({"action": "show", "task": task}), TaskAction::Show { task }),
        ];
        for (arguments, wish) in calls {
            let answer = desk.call(arguments.clone(), true).await;
            assert!(!answer.failed && !answer.text.contains("note"), "{arguments}: {}", answer.text);
            assert_eq!(desk.wanted(), [wish], "{arguments}");
        }
    }

    #[tokio::test]
    async fn what_an_action_needs_and_does_not_get_is_named() {
        let desk = Desk::new();
        let cases = [
            (json!({"action": "create"}), r#""title" is missing: create needs a short name"#),
            (json!({"action": "create", "title": "  "}), r#""title" is missing"#),
            (json!({"action": "complete", "text": "done"}), r#""task" is missing: complete needs the id of a task"#),
            (json!({"action": "complete", "task": "t1"}), r#""text" is missing: complete needs a short result"#),
            (json!({"action": "block", "task": "t1"}), "needs the reason for the wait"),
            (json!({"action": "claim", "task": "t1", "run": true}), r#""run" is valid for create only, not for claim"#),
            (json!({"action": "show", "task": "t1", "all": true}), r#""all" is valid for list only"#),
        ];
        for (arguments, why) in cases {
            let answer = desk.call(arguments.clone(), true).await;
            let notified: Value = serde_json::from_str(&answer.text).expect("an answer is JSON");
            let notified = notified["error"].as_str().unwrap_or_default();
            assert!(answer.failed && notified.contains(why), "{arguments}: {notified}");
        }
        assert!(desk.wanted().is_empty(), "the host was asked for something that was not said");
        let schema = desk.tool.spec().schema;
        let wrong = schema::read(r#"{"action": "finish"}"#, &schema).expect_err("no such action");
        assert!(wrong.contains(r#""action" must be one of"#) && wrong.contains("complete"), "{wrong}");
        let long = json!({"action": "create", "title": "x".repeat(TITLE_CHARS_MAX + 1)}).to_string();
        assert!(schema::read(&long, &schema).is_err());
    }

    #[tokio::test]
    async fn where_nothing_is_delivered_later_a_new_task_says_that_nobody_is_told() {
        let desk = Desk::new();
        for (action, extra, is_said) in
            [("create", "title", true), ("subscribe", "task", true), ("show", "task", false)]
        {
            let answer = desk.call(json!({"action": action, extra: "t1"}), false).await;
            assert!(!answer.failed, "{}", answer.text);
            let notified: Value = serde_json::from_str(&answer.text).expect("an answer is JSON");
            assert_eq!(notified["note"] == late_delivery::TASK_NOTIFY_UNSUPPORTED, is_said, "{action}: {notified}");
        }
    }
}
