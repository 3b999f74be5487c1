//! Helpers that work on a task beside the turn that handed it on: who may end one, and what
//! its session hears then.
//!
//! Whoever follows the arrow out of running tells the session, so it is told once. It is not
//! woken for what was said in its own conversation.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use hermes_agent::tools::ports::{News, UNKNOWN_OUTCOME};
use hermes_core::context::TurnContext;
use hermes_core::session::MAIN_PROFILE;
use hermes_core::task::{TaskChange, TaskState};
use tokio_util::sync::CancellationToken;

use super::act::{self, By, plain};
use super::{TITLE_CHARS_MAX, new_id, words};
use crate::host::Host;
use crate::status::human::one_line;
use crate::store::{FoundTask, Made, NewTask, Stepped, TaskKind, TaskRow, Viewer, WatchRow};
use crate::tools;

/// What ends each helper of this life of the host, by the id of its task. Bounded by the helpers there may be.
#[derive(Debug, Default)]
pub struct Helpers(Mutex<BTreeMap<String, Helper>>);

#[derive(Debug)]
struct Helper {
    /// The printed key of the conversation that handed it on.
    key: String,
    /// Ends it, and what it has handed on itself.
    stop: CancellationToken,
}

impl Helpers {
    /// How many work for a conversation.
    pub fn of(&self, key: &str) -> usize {
        self.locked(|helpers| helpers.values().filter(|helper| helper.key == key).count())
    }

    /// Ends the helper of a task, and those that it has.
    pub(super) fn stop(&self, task: &str) {
        if let Some(helper) = self.locked(|helpers| helpers.remove(task)) {
            helper.stop.cancel();
        }
    }

    fn locked<T>(&self, work: impl FnOnce(&mut BTreeMap<String, Helper>) -> T) -> T {
        work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Lists what a helper of a turn does behind it; returns its id.
///
/// # Errors
///
/// Why it may not begin: what nobody could end does not.
pub async fn began(
    host: &Arc<Host>,
    context: &TurnContext,
    title: &str,
    stop: CancellationToken,
) -> Result<String, String> {
    let session = context.session_id.clone().ok_or("this turn has no session")?;
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
    // Known before it is listed, so that whoever reads the list can end it.
    host.helpers.locked(|helpers| helpers.insert(id.clone(), Helper { key, stop }));
    let refused = match host.store.task_make(new).await {
        Ok(Made::Task(row)) => return Ok(row.id),
        Ok(full) => words::full(&full),
        Err(error) => format!("it cannot be listed ({error})"),
    };
    host.helpers.locked(|helpers| helpers.remove(&id));
    Err(refused)
}

/// What was listed by [`began`] is over. `false`: somebody ended it before.
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
            tracing::warn!(task, why, "the end of what a helper did is not listed; the next start says it crashed");
            true
        }
    }
}

/// A task was taken from its helper: it ends, and its session hears of it unless that was said in its own
/// conversation.
pub(super) async fn taken(host: &Arc<Host>, task: &TaskRow, by: &By) {
    host.helpers.stop(&task.id);
    if by.key.as_ref() == Some(&task.key) {
        host.until_written("that nobody follows it", || host.store.forget_watch(&task.id)).await;
    } else if let Some(text) = over(task) {
        tools::wakes::tell(host, &News { id: task.id.clone(), text, last: true, upto: 0 }).await;
    }
}

/// What a session hears of what it left in the background and an earlier life of the host did not tell it.
pub(crate) async fn left(host: &Host, watch: &WatchRow) -> String {
    let found = host.store.task(Viewer::Operator, &watch.id).await;
    let task = match found {
        Ok(FoundTask::Task(row, _)) if row.id == watch.id => Some(row),
        Ok(_) => None,
        Err(error) => {
            tracing::warn!(id = watch.id, %error, "how a task ended cannot be read");
            None
        }
    };
    let known = task.and_then(|task| over(&task));
    known.unwrap_or_else(|| format!("What you left in the background ({}): {UNKNOWN_OUTCOME}", watch.what))
}

/// How a task that was handed on ended; `None`: nobody said.
fn over(task: &TaskRow) -> Option<String> {
    let title = &task.title;
    match &task.state {
        TaskState::Completed { result } => {
            Some(format!("The task you handed on ({title}) is done. Its result:\n{result}"))
        }
        TaskState::GaveUp { why } => Some(format!("The task you handed on ({title}) was not done to its end: {why}")),
        TaskState::Blocked { why, .. } => {
            Some(format!("The task you handed on ({title}) was taken from its helper and waits: {why}"))
        }
        _ => None,
    }
}
