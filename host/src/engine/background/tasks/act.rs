//! Operations on tasks, with the rights of the caller.

use std::sync::Arc;
use std::time::Duration;

use hermes_agent::tools::ports::TaskAction;
use hermes_core::context::TurnContext;
use hermes_core::delivery::strip_control;
use hermes_core::ids::SessionId;
use hermes_core::session::MAIN_PROFILE;
use hermes_core::task::TaskChange;
use serde_json::{Value, json};

use super::{RunTask, TIMEOUT, TITLE_CHARS_MAX, helpers, new_id, run, seat, tell, viewer, words};
use crate::engine::background::wakeups;
use crate::engine::messages::{Control, HostEvent};
use crate::engine::runtime::Host;
use hermes_core::text::{echo, one_line};
use hermes_store::{
    FoundTask, Made, NewTask, SAID_CHARS_MAX, Seat, Stepped, StoreError, TaskKind, TaskRow, TaskStep, Viewer,
};

/// Tasks of one listing for an agent.
const LISTED_MAX: u32 = 50;

/// Carries out an operation that an agent requests in the turn of this context.
///
/// # Errors
///
/// One sentence for the model.
pub async fn act(host: &Arc<Host>, context: &TurnContext, wish: TaskAction) -> Result<Value, String> {
    let by =
        By { viewer: viewer(context), key: Some(context.session_key.clone()), session: context.session_id.clone() };
    let (task, change, said) = match wish {
        TaskAction::Create { title, body, run, timeout } => {
            return create(host, context, title, body, run, timeout).await;
        }
        TaskAction::List { all } => return list(host, by.viewer, all).await,
        TaskAction::Show { task } => return show(host, by.viewer, &task).await,
        TaskAction::Subscribe { task } => return subscribe(host, context, by.viewer, &task).await,
        TaskAction::Claim { task } => (task, TaskChange::Claimed { epoch: host.epoch }, String::new()),
        TaskAction::Update { task, note } => (task, TaskChange::Noted, note),
        TaskAction::Block { task, why } => (task, TaskChange::Blocked { why: plain(host, &why) }, why),
        TaskAction::Unblock { task, note } => (task, TaskChange::Unblocked, note),
        TaskAction::Complete { task, result } => (task, TaskChange::Completed { result: plain(host, &result) }, result),
        TaskAction::GiveUp { task, why } => (task, TaskChange::GaveUp { why: plain(host, &why) }, why),
        TaskAction::Archive { task } => (task, TaskChange::Archived, String::new()),
    };
    let row = change_one(host, &by, &task, change, &said).await?;
    Ok(words::short(&row))
}

/// The caller of an operation.
pub struct By {
    /// The tasks that the caller may see.
    pub viewer: Viewer,
    /// The printed key of the conversation in which the turn runs.
    pub key: Option<String>,
    /// The session of that conversation.
    pub session: Option<SessionId>,
}

/// Changes the state of a task. The host's own turn for the task ends with it, unless that turn is the caller.
///
/// # Errors
///
/// The refusal, with similar ids.
pub async fn change_one(
    host: &Arc<Host>,
    by: &By,
    task: &str,
    change: TaskChange,
    said: &str,
) -> Result<TaskRow, String> {
    let takes = matches!(
        change,
        TaskChange::Blocked { .. } | TaskChange::Completed { .. } | TaskChange::GaveUp { .. } | TaskChange::Archived
    );
    match arrow(host, by, task, change, said).await? {
        Stepped::Done(row) => {
            match row.kind {
                TaskKind::Delegate if takes => helpers::taken(host, &row, by).await,
                _ if takes && by.session != row.worker => {
                    tell::taken(host, &row, by).await;
                    super::stop(host, &row).await;
                }
                _ => {}
            }
            Ok(*row)
        }
        Stepped::Unknown(near) => Err(no_such(task, near.as_deref())),
        Stepped::Ambiguous(ids) => Err(several(task, &ids)),
        Stepped::Invalid(why, row) => Err(format!("{} stays {}: {why}", row.id, row.state.spelled())),
    }
}

/// Writes one state change and nothing else.
///
/// # Errors
///
/// Fails if the change could not be written.
pub(super) async fn arrow(host: &Host, by: &By, task: &str, change: TaskChange, said: &str) -> Result<Stepped, String> {
    let step = TaskStep {
        task: task.to_owned(),
        viewer: by.viewer.clone(),
        change,
        body: plain(host, said),
        by_key: by.key.clone(),
        session: by.session.clone(),
        now_ms: host.now_ms(),
    };
    let stepped = host.store.task_step(step).await.map_err(not_written)?;
    if matches!(stepped, Stepped::Done(_)) {
        host.tasks.ring();
    }
    Ok(stepped)
}

/// Returns the error for a task that does not exist or that the caller may not see.
pub fn no_such(task: &str, near: Option<&str>) -> String {
    let near = near.map(|near| format!("; did you mean {near}?")).unwrap_or_default();
    format!("there is no task {}{near}", echo(task))
}

/// Returns the error for the beginning of an id that several tasks share.
pub fn several(task: &str, ids: &[String]) -> String {
    format!("several task ids begin with {} ({}); give more of the id", echo(task), ids.join(", "))
}

/// Prepares text for storage: without control characters and secrets, and cut at the limit.
pub(super) fn plain(host: &Host, text: &str) -> String {
    let bare = strip_control(text);
    let masked = host.live().masker.mask(bare.trim());
    masked.chars().take(SAID_CHARS_MAX).collect()
}

fn not_written(error: StoreError) -> String {
    format!("it could not be saved ({error})")
}

async fn create(
    host: &Arc<Host>,
    context: &TurnContext,
    title: String,
    body: String,
    run: bool,
    timeout: Option<Duration>,
) -> Result<Value, String> {
    let title = one_line(&plain(host, &title), TITLE_CHARS_MAX);
    if title.is_empty() {
        return Err("a task needs a title with visible characters".to_owned());
    }
    let Some(session) = context.session_id.clone() else {
        return Err("a task can only be created in a conversation".to_owned());
    };
    let timeout = timeout.unwrap_or(TIMEOUT);
    let new = NewTask {
        id: new_id(&*host.chance),
        kind: if run { TaskKind::Run } else { TaskKind::Task },
        profile: MAIN_PROFILE.to_owned(),
        owner: Some(context.person.clone()).filter(|person| !person.is_empty()),
        session,
        key: context.session_key.clone(),
        title,
        body: plain(host, &body),
        claim: None,
        timeout_ms: Some(i64::try_from(timeout.as_millis()).unwrap_or(i64::MAX)),
        subscriber: seat(context),
        now_ms: host.now_ms(),
    };
    let made = match run {
        false => host.store.task_make(new).await.map_err(not_written)?,
        true => begin(host, context, new).await?,
    };
    match made {
        Made::Task(row) => Ok(words::short(&row)),
        full => Err(words::full(&full)),
    }
}

/// The refusal of a task that would run by itself and is created in the background: such tasks could create each other
/// without end.
const BESIDE: &str = "a background turn cannot create a task that runs by itself; do it yourself, or create the task without \
     \"run\"";

/// Lets the host do a task: its turn begins as soon as one may.
async fn begin(host: &Arc<Host>, context: &TurnContext, mut new: NewTask) -> Result<Made, String> {
    if let Some(why) = host.takes_nothing() {
        return Err(why.to_owned());
    }
    let chat = context
        .chat
        .clone()
        .ok_or("this conversation has no chat in which the host could run the task; do it yourself")?;
    if let Some(row) = host.store.session(&new.session).await.map_err(not_written)?
        && wakeups::beside(host, &row).await.is_some()
    {
        return Err(BESIDE.to_owned());
    }
    let mut sender = hermes_protocol::Sender::new(context.user_id.as_str());
    sender.name = Some(context.user_name.clone()).filter(|name| !name.is_empty());
    let at = Seat { instance: context.source.clone(), chat, sender };
    let session = host.new_session_id();
    new.claim = Some((host.epoch, Some(session.clone())));
    let (event, input) = run::opening(host, &new.id, &new.title, &new.body, &at);
    let (parent, owner, key) = (new.session.clone(), new.owner.clone(), new.key.clone());
    let max = u32::try_from(host.live().config.limits.background_max).unwrap_or(u32::MAX);
    let row = run::row(host, &at, &event);
    let working = host.working.of(owner.as_deref()).into_iter().filter(|work| work.aside).map(|work| work.session);
    let working = working.collect();
    let (made, inbox) = host.store.task_run(new, row, input.clone(), max, working).await.map_err(not_written)?;
    if let Some(inbox) = inbox {
        let instance = Arc::from(at.instance);
        let run = RunTask { parent, session, instance, event, input, inbox, owner, key };
        host.tell(HostEvent::control(Control::Run(Box::new(run)))).await;
    }
    Ok(made)
}

async fn list(host: &Host, viewer: Viewer, all: bool) -> Result<Value, String> {
    let rows = host.store.tasks(viewer, all, LISTED_MAX).await.map_err(|error| error.to_string())?;
    Ok(json!({ "tasks": rows.iter().map(words::short).collect::<Vec<_>>() }))
}

async fn show(host: &Host, viewer: Viewer, task: &str) -> Result<Value, String> {
    let (row, events) = found(host, viewer, task).await?;
    Ok(words::whole(&row, &events))
}

async fn found(
    host: &Host,
    viewer: Viewer,
    task: &str,
) -> Result<(Box<TaskRow>, Vec<hermes_store::TaskEventRow>), String> {
    match host.store.task(viewer, task).await.map_err(|error| error.to_string())? {
        FoundTask::Task(row, events) => Ok((row, events)),
        FoundTask::Unknown(near) => Err(no_such(task, near.as_deref())),
        FoundTask::Ambiguous(ids) => Err(several(task, &ids)),
    }
}

async fn subscribe(host: &Host, context: &TurnContext, viewer: Viewer, task: &str) -> Result<Value, String> {
    let (row, _) = found(host, viewer, task).await?;
    // Without a chat that can be notified, the tool reports that.
    if let (Some(at), Some(session)) = (seat(context), &context.session_id)
        && !host.store.task_subscribe(&row.id, session, at).await.map_err(not_written)?
    {
        return Err(format!("task {} already has the maximum number of subscribers", row.id));
    }
    Ok(words::short(&row))
}
