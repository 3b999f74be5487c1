//! Tasks as plain values.

use hermes_core::ids::{Epoch, SessionId};
use hermes_core::task::{TaskChange, TaskEvent, TaskState};
use hermes_protocol::{Chat, Sender};

use crate::{NewDelivery, NewWake};

/// Kind of a task, by its executor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskKind {
    /// Executed by the session that claims it.
    Task,
    /// Executed by the host, in a turn of a separate session.
    Run,
    /// Executed by the host for `/background`, in parallel to the conversation.
    Background,
    /// Executed by a helper of a turn.
    Delegate,
}

impl TaskKind {
    const ALL: [Self; 4] = [Self::Task, Self::Run, Self::Background, Self::Delegate];

    /// Returns the stable word.
    pub fn word(self) -> &'static str {
        match self {
            Self::Task => "task",
            Self::Run => "run",
            Self::Background => "background",
            Self::Delegate => "delegate",
        }
    }

    /// Returns true if the host executes the task with a separate turn.
    pub fn is_the_hosts(self) -> bool {
        matches!(self, Self::Run | Self::Background)
    }

    /// Parses a stable word.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.word() == word)
    }
}

/// Scope of the tasks that a requester may see and change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Viewer {
    /// All tasks.
    Operator,
    /// The tasks of one person, in all conversations.
    Person(String),
    /// The tasks of the conversation with this session key, whose answers several people read.
    Conversation(String),
}

/// The place in which a subscriber is notified.
#[derive(Clone, Debug, PartialEq)]
pub struct Seat {
    /// Instance that sends the notification.
    pub instance: String,
    /// Chat with its thread.
    pub chat: Chat,
    /// Requester of the subscription.
    pub sender: Sender,
}

/// A task to be created.
#[derive(Clone, Debug)]
pub struct NewTask {
    /// Id of the task.
    pub id: String,
    /// Kind of the task.
    pub kind: TaskKind,
    /// Profile of the task.
    pub profile: String,
    /// Owner of the task.
    pub owner: Option<String>,
    /// Session that creates it.
    pub session: SessionId,
    /// Session key of the conversation, as text.
    pub key: String,
    /// Title, on one line.
    pub title: String,
    /// Description of the work.
    pub body: String,
    /// Epoch and session of the claim, if it is claimed from the beginning. The session may be missing.
    pub claim: Option<(Epoch, Option<SessionId>)>,
    /// Time without progress after which an attempt times out, in milliseconds; `None` if the host supervises
    /// the end.
    pub timeout_ms: Option<i64>,
    /// Place in which the creating session is notified.
    pub subscriber: Option<Seat>,
    /// Current time, in Unix milliseconds.
    pub now_ms: i64,
}

/// Result of creating a task.
#[derive(Clone, Debug, PartialEq)]
pub enum Made {
    /// The created task.
    Task(Box<TaskRow>),
    /// The owner or the conversation already has this number of open tasks.
    TooMany(u32),
    /// This number of tasks is already executed by the host.
    TooManyRun(u32),
}

/// A stored task.
#[derive(Clone, Debug, PartialEq)]
pub struct TaskRow {
    /// Id of the task.
    pub id: String,
    /// Kind of the task.
    pub kind: TaskKind,
    /// Profile of the task.
    pub profile: String,
    /// Owner of the task.
    pub owner: Option<String>,
    /// Session that created it.
    pub session: SessionId,
    /// Session key of the conversation, as text.
    pub key: String,
    /// Title.
    pub title: String,
    /// Description of the work.
    pub body: String,
    /// State of the task.
    pub state: TaskState,
    /// Last progress report.
    pub note: Option<String>,
    /// Last text about its end.
    pub said: Option<String>,
    /// Session of the last claim.
    pub worker: Option<SessionId>,
    /// Time without progress after which an attempt times out, in milliseconds; 0 for none.
    pub timeout_ms: i64,
    /// Deadline of the running attempt, in Unix milliseconds.
    pub deadline_ms: Option<i64>,
    /// Time of creation, in Unix milliseconds.
    pub created_ms: i64,
    /// Time of the last change, in Unix milliseconds.
    pub changed_ms: i64,
}

/// A transition of a task.
#[derive(Clone, Debug)]
pub struct TaskStep {
    /// Id, or a unique prefix of it.
    pub task: String,
    /// Scope of the requester.
    pub viewer: Viewer,
    /// Requested change.
    pub change: TaskChange,
    /// Text of the change.
    pub body: String,
    /// Session key of the requesting conversation, as text.
    pub by_key: Option<String>,
    /// Session of the requesting turn, which owns a claim.
    pub session: Option<SessionId>,
    /// Current time, in Unix milliseconds.
    pub now_ms: i64,
}

/// Result of a transition.
#[derive(Clone, Debug, PartialEq)]
pub enum Stepped {
    /// The task in its new state.
    Done(Box<TaskRow>),
    /// No task has this id; the most similar id, if there is one.
    Unknown(Option<String>),
    /// Several ids have this prefix.
    Ambiguous(Vec<String>),
    /// The transition is invalid; the reason and the unchanged task.
    Invalid(String, Box<TaskRow>),
}

/// Result of a lookup.
#[derive(Clone, Debug, PartialEq)]
pub enum FoundTask {
    /// The task and its events, oldest first.
    Task(Box<TaskRow>, Vec<TaskEventRow>),
    /// No task has this id; the most similar id, if there is one.
    Unknown(Option<String>),
    /// Several ids have this prefix.
    Ambiguous(Vec<String>),
}

/// A stored event of a task.
#[derive(Clone, Debug, PartialEq)]
pub struct TaskEventRow {
    /// Id, ascending over all events.
    pub id: i64,
    /// Time of the event, in Unix milliseconds.
    pub at_ms: i64,
    /// Kind of the event.
    pub event: TaskEvent,
    /// Text of the event.
    pub body: String,
    /// Session key of the conversation that caused it, as text.
    pub by_key: Option<String>,
}

/// The pending notifications of a subscriber.
#[derive(Clone, Debug, PartialEq)]
pub struct Untold {
    /// The task.
    pub task: TaskRow,
    /// Subscribed session.
    pub session: SessionId,
    /// Place of the notification.
    pub seat: Seat,
    /// True if the session created the task and is woken.
    pub wakes: bool,
    /// Id of the last event of which it was notified.
    pub told_upto: i64,
    /// Later events, oldest first.
    pub events: Vec<TaskEventRow>,
}

/// The notification of the subscribers in one chat.
#[derive(Clone, Debug)]
pub struct Telling {
    /// For each task: the subscriber, its former position and its new position.
    pub told: Vec<(String, SessionId, i64, i64)>,
    /// Delivery to the chat; `None` if there is no text.
    pub delivery: Option<NewDelivery>,
    /// Events that wake the subscribed sessions.
    pub wakes: Vec<NewWake>,
}
