//! Tasks as plain values.

use hermes_core::ids::{Epoch, SessionId};
use hermes_core::task::{TaskChange, TaskEvent, TaskState};
use hermes_protocol::{Chat, Sender};

use crate::store::{NewDelivery, NewWake};

/// What a task is, by who does it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskKind {
    /// Whoever claims it.
    Task,
    /// The host, in a turn of a session of its own.
    Run,
    /// The host, beside the conversation in which somebody said `/background`.
    Background,
    /// A helper of a turn.
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

    /// Whether the host does it with a turn of its own.
    pub fn is_the_hosts(self) -> bool {
        matches!(self, Self::Run | Self::Background)
    }

    /// Returns the kind of a stable word.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.word() == word)
    }
}

/// Whose tasks somebody may see and change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Viewer {
    /// Everybody's.
    Operator,
    /// Those of one person, wherever they were made.
    Person(String),
    /// Those that were made in the conversation of this printed key: several people read the answer.
    Conversation(String),
}

/// Where somebody hears of a task.
#[derive(Clone, Debug, PartialEq)]
pub struct Seat {
    /// The instance that tells.
    pub instance: String,
    /// The chat, with its thread.
    pub chat: Chat,
    /// Who asked there.
    pub sender: Sender,
}

/// A task that is to be made.
#[derive(Clone, Debug)]
pub struct NewTask {
    /// Its id.
    pub id: String,
    /// What it is.
    pub kind: TaskKind,
    /// The profile it belongs to.
    pub profile: String,
    /// Whose it is.
    pub owner: Option<String>,
    /// The session that makes it.
    pub session: SessionId,
    /// The printed key of the conversation that it is made in.
    pub key: String,
    /// Its name, one line.
    pub title: String,
    /// What is to be done.
    pub body: String,
    /// The life of the host and, where there is one, the session that do it from the beginning.
    pub claim: Option<(Epoch, Option<SessionId>)>,
    /// How long a try may go without a word; `None`: the host looks after its end.
    pub timeout_ms: Option<i64>,
    /// Where the session that makes it hears of it.
    pub subscriber: Option<Seat>,
    /// Now.
    pub now_ms: i64,
}

/// What became of a task that was to be made.
#[derive(Clone, Debug, PartialEq)]
pub enum Made {
    /// It is there.
    Task(Box<TaskRow>),
    /// There are this many open ones of its owner, or in its conversation, already.
    TooMany(u32),
    /// This many that the host itself does run already.
    TooManyRun(u32),
}

/// A task.
#[derive(Clone, Debug, PartialEq)]
pub struct TaskRow {
    /// Its id.
    pub id: String,
    /// What it is.
    pub kind: TaskKind,
    /// The profile it belongs to.
    pub profile: String,
    /// Whose it is.
    pub owner: Option<String>,
    /// The session that made it.
    pub session: SessionId,
    /// The printed key of the conversation that it was made in.
    pub key: String,
    /// Its name.
    pub title: String,
    /// What is to be done.
    pub body: String,
    /// Where it is.
    pub state: TaskState,
    /// How far it is, as said last.
    pub note: Option<String>,
    /// What was said last of its end.
    pub said: Option<String>,
    /// Who claimed it last.
    pub worker: Option<SessionId>,
    /// How long a try may go without a word.
    pub timeout_ms: i64,
    /// When that is over.
    pub deadline_ms: Option<i64>,
    /// When it was made.
    pub created_ms: i64,
    /// When something last happened to it.
    pub changed_ms: i64,
}

/// One arrow of a task.
#[derive(Clone, Debug)]
pub struct TaskStep {
    /// An id, or a unique beginning of one.
    pub task: String,
    /// Who wants it.
    pub viewer: Viewer,
    /// What happens.
    pub change: TaskChange,
    /// What is said with it.
    pub body: String,
    /// The printed key of the conversation whose turn wants it.
    pub by_key: Option<String>,
    /// The session of that turn; a claim is its.
    pub session: Option<SessionId>,
    /// Now.
    pub now_ms: i64,
}

/// What became of a step.
#[derive(Clone, Debug, PartialEq)]
pub enum Stepped {
    /// The task as it is from here on.
    Done(Box<TaskRow>),
    /// There is none, with what is near.
    Unknown(Option<String>),
    /// Several begin so.
    Ambiguous(Vec<String>),
    /// Not from where it is; why, and the task as it stays.
    Impossible(String, Box<TaskRow>),
}

/// A task that was looked for.
#[derive(Clone, Debug, PartialEq)]
pub enum FoundTask {
    /// It, and what happened to it, oldest first.
    Task(Box<TaskRow>, Vec<TaskEventRow>),
    /// There is none, with what is near.
    Unknown(Option<String>),
    /// Several begin so.
    Ambiguous(Vec<String>),
}

/// Something that happened to a task.
#[derive(Clone, Debug, PartialEq)]
pub struct TaskEventRow {
    /// Its place in the order of all.
    pub id: i64,
    /// When.
    pub at_ms: i64,
    /// What.
    pub event: TaskEvent,
    /// What was said with it.
    pub body: String,
    /// The printed key of the conversation whose turn did it.
    pub by_key: Option<String>,
}

/// What a subscriber has not been told.
#[derive(Clone, Debug, PartialEq)]
pub struct Untold {
    /// The task.
    pub task: TaskRow,
    /// The session that subscribed.
    pub session: SessionId,
    /// Where it hears.
    pub seat: Seat,
    /// Whether the session made the task.
    pub wakes: bool,
    /// Up to where it was told.
    pub told_upto: i64,
    /// What happened since, oldest first.
    pub events: Vec<TaskEventRow>,
}

/// What the subscribers in one chat are told, written with the proof that they were.
#[derive(Clone, Debug)]
pub struct Telling {
    /// For each task: the subscriber, up to where it was told before, and up to where it is from here on.
    pub told: Vec<(String, SessionId, i64, i64)>,
    /// What is owed to its chat; `None`: there is nothing to say.
    pub delivery: Option<NewDelivery>,
    /// What their sessions are woken with.
    pub wakes: Vec<NewWake>,
}
