//! The tasks in answers of the control socket and of the offline commands.

use serde::{Deserialize, Serialize};

use super::records::store_failed;
use super::{ControlReply, ErrorKind};
use crate::engine::background::tasks::act;
use hermes_store::{FoundTask, Store, StoreError, TaskEventRow, TaskRow, Viewer};

/// One task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskInfo {
    /// Id.
    pub id: String,
    /// `task`, `run` (by the host), `background`, `delegate`, or `command` (runs in the background).
    pub kind: String,
    /// The title.
    pub title: String,
    /// The work to do.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub text: String,
    /// `ready`, `running`, `blocked`, `completed`, `gave_up`, `crashed`, `timed_out` or `archived`.
    pub state: String,
    /// Count of attempts, including the running one.
    pub attempts: u32,
    /// The result, the reason for waiting, or the reason for giving up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub said: Option<String>,
    /// The last progress report.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// The owner.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// The conversation of a command in the background.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chat: Option<String>,
    /// The session that created it.
    pub session: String,
    /// The session that claimed it last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker: Option<String>,
    /// Deadline of the running attempt, Unix ms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline_ms: Option<i64>,
    /// Time of creation, Unix ms.
    pub created_ms: i64,
    /// Time of the last change, Unix ms.
    pub changed_ms: i64,
}

/// An event of a task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskEventInfo {
    /// Time, Unix ms.
    pub at_ms: i64,
    /// `created`, `claimed`, `status`, `blocked`, `unblocked`, `completed`, `gave_up`, `crashed`, `timed_out`, `archived`.
    pub event: String,
    /// The text of the event.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub said: String,
}

impl From<TaskRow> for TaskInfo {
    fn from(row: TaskRow) -> Self {
        Self {
            kind: row.kind.word().to_owned(),
            state: row.state.word().to_owned(),
            attempts: row.state.attempts(),
            id: row.id,
            title: row.title,
            text: row.body,
            said: row.said,
            note: row.note,
            owner: row.owner,
            chat: None,
            session: row.session.0,
            worker: row.worker.map(|worker| worker.0),
            deadline_ms: row.deadline_ms,
            created_ms: row.created_ms,
            changed_ms: row.changed_ms,
        }
    }
}

impl From<TaskEventRow> for TaskEventInfo {
    fn from(row: TaskEventRow) -> Self {
        Self { at_ms: row.at_ms, event: row.event.word().to_owned(), said: row.body }
    }
}

/// Answers `task_list`.
///
/// # Errors
///
/// The store fails.
pub async fn list(store: &Store, viewer: Viewer, limit: u32, all: bool) -> Result<ControlReply, StoreError> {
    let tasks = store.tasks(viewer, all, limit).await?.into_iter().map(TaskInfo::from).collect();
    Ok(ControlReply::Tasks { tasks })
}

/// Answers `task_show`.
///
/// # Errors
///
/// The store fails.
pub async fn show(store: &Store, viewer: Viewer, task: &str) -> Result<ControlReply, StoreError> {
    Ok(match find(store, viewer, task).await {
        Err(reply) => reply,
        Ok((row, events)) => ControlReply::Task {
            task: Box::new((*row).into()),
            events: events.into_iter().map(TaskEventInfo::from).collect(),
        },
    })
}

/// Finds a task by its id, or a unique prefix of it.
///
/// # Errors
///
/// The answer to return instead.
pub async fn find(
    store: &Store,
    viewer: Viewer,
    task: &str,
) -> Result<(Box<TaskRow>, Vec<TaskEventRow>), ControlReply> {
    match store.task(viewer, task).await.map_err(|error| store_failed(&error))? {
        FoundTask::Task(row, events) => Ok((row, events)),
        FoundTask::Unknown(near) => {
            let words =
                format!("{}; `hermes-host task list --all` shows the tasks", act::no_such(task, near.as_deref()));
            Err(ControlReply::error(ErrorKind::NotFound, words))
        }
        FoundTask::Ambiguous(ids) => Err(ControlReply::error(ErrorKind::Invalid, act::several(task, &ids))),
    }
}
