//! Helpers: background workers on a task of a turn, with the right to end them and the notice to their session.
//!
//! The caller that moves a task out of `Running` notifies the session, so it is notified exactly once. A change that
//! was made in the session's own conversation does not wake it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use hermes_agent::tools::ports::{JobUpdate, UNKNOWN_OUTCOME};
use hermes_core::context::TurnContext;
use hermes_core::session::MAIN_PROFILE;
use hermes_core::task::{TaskChange, TaskState};
use tokio_util::sync::CancellationToken;

use super::act::{self, By, plain};
use super::{TITLE_CHARS_MAX, new_id, words};
use crate::engine::runtime::Host;
use crate::engine::tools;
use hermes_core::text::one_line;
use hermes_store::{FoundTask, Made, NewTask, Stepped, TaskKind, TaskRow, Viewer, WatchRow};

/// The stop handles of the helpers of this run of the host, by the id of their task. Bounded by the limit of helpers.
#[derive(Debug, Default)]
pub struct Helpers(Mutex<BTreeMap<String, Helper>>);

#[derive(Debug)]
struct Helper {
    /// The printed key of the conversation that delegated the task.
    key: String,
    /// Ends the helper and the helpers that it started.
    stop: CancellationToken,
}

impl Helpers {
    /// Returns the number of helpers that work for a conversation.
    pub fn of(&self, key: &str) -> usize {
        self.locked(|helpers| helpers.values().filter(|helper| helper.key == key).count())
    }

    /// Ends the helper of a task, and the helpers that it started.
    pub(super) fn stop(&self, task: &str) {
        if let Some(helper) = self.locked(|helpers| helpers.remove(task)) {
            helper.stop.cancel();
        }
    }

    fn locked<T>(&self, work: impl FnOnce(&mut BTreeMap<String, Helper>) -> T) -> T {
        work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Lists a helper of a turn as a task; returns its id.
///
/// # Errors
///
/// The refusal. A helper that nobody could end does not start.
pub async fn began(
    host: &Arc<Host>,
    context: &TurnContext,
    title: &str,
    stop: CancellationToken,
) -> Result<String, String> {
    let session = context.session_id.clone().ok_or("tasks are not available: this turn has no session")?;
    let new = NewTask {
        id: new_id(&*host.chance),
        kind: TaskKind::Delegate,
        profile: MAIN_PROFILE.to_owned(),
        owner: Some(context.person.clone()).filter(|person| !person.is_empty()),
        session,
        key: context.session_key.clone(),
        title: one_line(&plain(host, title), TITLE_CHARS_MAX),
        body: plain(host, title),
        claim: Some((host.epoch, None)),
        timeout_ms: None,
        subscriber: None,
        now_ms: host.now_ms(),
    };
    let (id, key) = (new.id.clone(), new.key.clone());
    // Inserted before the task is listed, so that every reader of the list can end it.
    host.helpers.locked(|helpers| helpers.insert(id.clone(), Helper { key, stop }));
    let refused = match host.store.task_make(new).await {
        Ok(Made::Task(row)) => return Ok(row.id),
        Ok(full) => words::full(&full),
        Err(error) => format!("it could not be added to the task list ({error})"),
    };
    host.helpers.locked(|helpers| helpers.remove(&id));
    Err(refused)
}

/// Ends the task that [`began`] listed. `false`: it was ended before.
pub async fn ended(host: &Arc<Host>, task: &str, end: Result<String, String>) -> bool {
    host.helpers.locked(|helpers| helpers.remove(task));
    let change = match end {
        Ok(result) => TaskChange::Completed { result: plain(host, &result) },
        Err(why) => TaskChange::GaveUp { why: plain(host, &why) },
    };
    let by = By { viewer: Viewer::Operator, key: None, session: None };
    match act::arrow(host, &by, task, change, "").await {
        Ok(Stepped::Done(_)) => true,
        Ok(_) => false,
        Err(why) => {
            tracing::warn!(task, why, "end of a sub-agent could not be saved; the next start reports it as crashed");
            true
        }
    }
}

/// Ends the helper of a task that was taken from it. Its session is notified unless the change was made in its own
/// conversation.
pub(super) async fn taken(host: &Arc<Host>, task: &TaskRow, by: &By) {
    host.helpers.stop(&task.id);
    if by.key.as_ref() == Some(&task.key) {
        host.until_written("the end of a watch", || host.store.forget_watch(&task.id)).await;
    } else if let Some(text) = over(task) {
        tools::wakes::tell(host, &JobUpdate { id: task.id.clone(), text, last: true, upto: 0 }).await;
    }
}

/// Returns the notice about a helper whose session an earlier run of the host did not notify.
pub(crate) async fn left(host: &Host, watch: &WatchRow) -> String {
    let found = host.store.task(Viewer::Operator, &watch.id).await;
    let task = match found {
        Ok(FoundTask::Task(row, _)) if row.id == watch.id => Some(row),
        Ok(_) => None,
        Err(error) => {
            tracing::warn!(id = watch.id, %error, "outcome of a task could not be read");
            None
        }
    };
    let known = task.and_then(|task| over(&task));
    known.unwrap_or_else(|| format!("The background job that you started ({}): {UNKNOWN_OUTCOME}", watch.what))
}

/// Describes the end of a delegated task; `None`: its end is not known.
fn over(task: &TaskRow) -> Option<String> {
    let title = &task.title;
    match &task.state {
        TaskState::Completed { result } => {
            Some(format!("The task you delegated ({title}) is done. Its result:\n{result}"))
        }
        TaskState::GaveUp { why } => Some(format!("The task you delegated ({title}) was not completed: {why}")),
        TaskState::Blocked { why, .. } => {
            Some(format!("The task you delegated ({title}) was taken from its sub-agent and is blocked: {why}"))
        }
        _ => None,
    }
}
