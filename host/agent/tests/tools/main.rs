//! Tests of the tools with real processes.

#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod background;
mod isolation;
mod late_delivery;
mod terminal;

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::BoxFuture;
use hermes_agent::questions::{Answer, TurnQuestion, Verdict};
use hermes_agent::tools::background::Processes;
use hermes_agent::tools::delegate::{Delegate, DelegateTool, DelegatedTask};
use hermes_agent::tools::ports::{JobUpdate, Mask, Subscription, TaskAction, Tasks, Wakeups};
use hermes_agent::tools::process::ProcessTool;
use hermes_agent::tools::terminal::TerminalTool;
use hermes_agent::tools::{CallScope, Ports, Tool};
use hermes_agent::{AgentConfig, EventSink};
use hermes_core::context::TurnContext;
use hermes_core::ids::{SessionId, TurnId};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

/// Returns the context of a person's turn, on an interface with or without asynchronous delivery.
fn context(user: &str, async_delivery: bool) -> TurnContext {
    TurnContext {
        platform: "chat".to_owned(),
        user_id: user.to_owned(),
        session_id: Some(SessionId(format!("s-{user}"))),
        session_key: format!("agent:main:chat:dm:{user}"),
        async_delivery,
        ..TurnContext::default()
    }
}

fn config(home: &Path) -> AgentConfig {
    let path = std::env::split_paths("/usr/local/bin:/usr/bin:/bin").map(|path| path.display().to_string());
    AgentConfig {
        home: home.join("home"),
        cwd: Some(home.to_owned()),
        environment: [("PATH".to_owned(), path.collect::<Vec<_>>().join(":"))].into(),
        terminal_timeout: Duration::from_secs(60),
        ..AgentConfig::default()
    }
}

fn side(events: EventSink) -> CallScope {
    CallScope {
        turn: TurnId(1),
        session: SessionId("s".to_owned()),
        events,
        depth: 0,
        helpers: Arc::default(),
        stop: CancellationToken::new(),
        delegate: None,
    }
}

/// A service that records subscriptions and notifications.
#[derive(Clone, Default)]
struct Told {
    subscription: Arc<Mutex<Vec<(String, TurnContext)>>>,
    news: Arc<Mutex<Vec<JobUpdate>>>,
    forgotten: Arc<Mutex<Vec<String>>>,
    more: Arc<tokio::sync::Notify>,
}

impl Told {
    async fn last(&self) -> JobUpdate {
        self.with("").await
    }

    /// Waits for the last notification with these words and returns it.
    async fn with(&self, words: &str) -> JobUpdate {
        loop {
            let more = self.more.notified();
            if let Some(news) = self.news.lock().unwrap().last()
                && news.text.contains(words)
            {
                return news.clone();
            }
            more.await;
        }
    }
}

/// A filter that masks one secret.
struct Masks;

impl Mask for Masks {
    fn mask(&self, text: String) -> String {
        text.replace(SECRET, "***")
    }
}

/// Secret that [`Masks`] masks.
const SECRET: &str = "hunter2hunter2";

impl Told {
    /// Waits until no session follows `id`.
    async fn is_forgotten(&self, id: &str) {
        loop {
            let more = self.more.notified();
            if self.forgotten.lock().unwrap().iter().any(|one| one == id) {
                return;
            }
            more.await;
        }
    }
}

/// A helper's task and its result.
type Ended = (String, Result<String, String>);

/// A task store that lists helpers as `t0`, `t1` and so on. The entry of the first one counts as ended by a
/// person.
#[derive(Clone, Default)]
struct Listed {
    stops: Arc<Mutex<Vec<CancellationToken>>>,
    ended: Arc<Mutex<Vec<Ended>>>,
    more: Arc<tokio::sync::Notify>,
}

impl Listed {
    fn stop_of(&self, n: usize) -> CancellationToken {
        self.stops.lock().unwrap()[n].clone()
    }

    /// Waits for the end of a task.
    async fn has_ended(&self, task: &str) {
        loop {
            let more = self.more.notified();
            if self.ended.lock().unwrap().iter().any(|(one, _)| one == task) {
                return;
            }
            more.await;
        }
    }
}

impl Tasks for Listed {
    fn act<'t>(&'t self, _: &'t TurnContext, _: TaskAction) -> BoxFuture<'t, Result<Value, String>> {
        Box::pin(async { Err("not here".to_owned()) })
    }

    fn began<'t>(
        &'t self,
        _: &'t TurnContext,
        _: &'t str,
        stop: CancellationToken,
    ) -> BoxFuture<'t, Result<Option<String>, String>> {
        let mut stops = self.stops.lock().unwrap();
        stops.push(stop);
        let id = format!("t{}", stops.len() - 1);
        Box::pin(async move { Ok(Some(id)) })
    }

    fn ended<'t>(&'t self, task: &'t str, end: Result<String, String>) -> BoxFuture<'t, bool> {
        self.ended.lock().unwrap().push((task.to_owned(), end));
        self.more.notify_waiters();
        Box::pin(async move { task != "t0" })
    }
}

impl Wakeups for Told {
    fn is_available(&self) -> bool {
        true
    }

    fn subscribe<'w>(&'w self, context: &'w TurnContext, id: &'w str, _: &'w str) -> BoxFuture<'w, Result<(), String>> {
        self.subscription.lock().unwrap().push((id.to_owned(), context.clone()));
        Box::pin(async { Ok(()) })
    }

    fn subscription<'w>(&'w self, id: &'w str) -> BoxFuture<'w, Option<Subscription>> {
        let news = self.news.lock().unwrap();
        let mut theirs = news.iter().filter(|news| news.id == id);
        let notified = u32::try_from(theirs.clone().count()).unwrap();
        let is_over =
            theirs.clone().any(|news| news.last) || self.forgotten.lock().unwrap().iter().any(|one| one == id);
        let follows = self.subscription.lock().unwrap().iter().any(|(one, _)| one == id) && !is_over;
        let subscription =
            follows.then(|| Subscription { upto: theirs.next_back().map_or(0, |news| news.upto), notified });
        Box::pin(async move { subscription })
    }

    fn unsubscribe<'w>(&'w self, id: &'w str) -> BoxFuture<'w, ()> {
        self.forgotten.lock().unwrap().push(id.to_owned());
        self.more.notify_waiters();
        Box::pin(async {})
    }

    fn notify(&self, news: JobUpdate) -> BoxFuture<'_, ()> {
        self.news.lock().unwrap().push(news);
        self.more.notify_waiters();
        Box::pin(async {})
    }
}

/// A complete environment for tests of commands.
struct Bench {
    home: tempfile::TempDir,
    terminal: TerminalTool,
    process: ProcessTool,
    processes: Arc<Processes>,
    delegate: DelegateTool,
    notified: Told,
}

impl Bench {
    fn new() -> Self {
        Self::again(tempfile::tempdir().unwrap(), Told::default())
    }

    /// Starts another run of the host on the same home folder.
    fn again(home: tempfile::TempDir, notified: Told) -> Self {
        let ports = Ports { wakeups: Arc::new(notified.clone()), mask: Arc::new(Masks), ..Ports::default() };
        let config = config(home.path());
        let processes = Arc::new(Processes::new(config.home.clone(), ports.clone()));
        Self {
            terminal: TerminalTool::new(&config, Arc::clone(&processes), ports.clone()),
            process: ProcessTool::new(&config, Arc::clone(&processes)),
            processes,
            delegate: DelegateTool::new(ports),
            notified,
            home,
        }
    }

    async fn terminal(&self, context: &TurnContext, arguments: Value) -> Value {
        call(&self.terminal, context, arguments).await
    }

    async fn process(&self, context: &TurnContext, arguments: Value) -> Value {
        call(&self.process, context, arguments).await
    }
}

/// Calls a tool and approves every question.
async fn call(tool: &dyn Tool, context: &TurnContext, arguments: Value) -> Value {
    call_asked(tool, context, arguments, Answer::Approved(Verdict::Once)).await.0
}

/// Calls a tool and answers its question. Returns the result and the question.
async fn call_asked(
    tool: &dyn Tool,
    context: &TurnContext,
    arguments: Value,
    answer: Answer,
) -> (Value, Option<TurnQuestion>) {
    let (sink, _events, mut line) = EventSink::with_line();
    let side = side(sink);
    let mut asked = None;
    let called = tool.call(context, arguments, &side);
    tokio::pin!(called);
    let result = loop {
        tokio::select! {
            result = &mut called => break result,
            question = line.pending_question() => {
                asked = Some(question.question);
                question.reply.send(answer.clone()).unwrap();
            }
        }
    };
    (serde_json::from_str(&result.text).unwrap(), asked)
}

/// A helper that answers every task with the task itself.
struct Repeats;

impl Delegate for Repeats {
    fn answer(
        self: Arc<Self>,
        task: DelegatedTask,
        _: CallScope,
        _: CancellationToken,
    ) -> BoxFuture<'static, Result<String, String>> {
        Box::pin(async move { Ok(format!("{} for {}", task.task, task.context.user_id)) })
    }
}

/// A helper that never finishes.
struct NeverDone;

impl Delegate for NeverDone {
    fn answer(
        self: Arc<Self>,
        _: DelegatedTask,
        _: CallScope,
        _: CancellationToken,
    ) -> BoxFuture<'static, Result<String, String>> {
        Box::pin(std::future::pending())
    }
}

/// A helper that works until it is cancelled.
struct UntilStopped;

impl Delegate for UntilStopped {
    fn answer(
        self: Arc<Self>,
        _: DelegatedTask,
        _: CallScope,
        cancel: CancellationToken,
    ) -> BoxFuture<'static, Result<String, String>> {
        Box::pin(async move {
            cancel.cancelled().await;
            Err("it was stopped".to_owned())
        })
    }
}
