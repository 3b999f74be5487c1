//! Tasks that the host does by itself: one turn in a session of its own, with the runtime and the tools of every turn,
//! bound to the instance through which the task was created.
//!
//! The answer of the turn is the result of the task. The chat receives only the notices to the task's subscribers. The
//! turn is not resumed after a crash of the host, because its progress is unknown.

use std::sync::Arc;

use hermes_agent::Message;
use hermes_core::access::{HostCause, Origin};
use hermes_core::ids::{InboxId, SessionId};
use hermes_protocol::Event;

use crate::engine::context::Heard;
use crate::engine::messages::{Control, HostEvent};
use crate::engine::runtime::Host;
use crate::engine::session::Birth;
use hermes_core::text::one_line;
use hermes_store::{FoundTask, InboxRow, NewInbox, NewTask, Seat, StoreError, TaskKind, TaskRow, Viewer, run_event};

use super::{TITLE_CHARS_MAX, new_id};

/// A task whose turn may begin. The host itself is the sender.
#[derive(Debug)]
pub struct RunTask {
    /// The session that created the task.
    pub parent: SessionId,
    /// The session in which the task runs.
    pub session: SessionId,
    /// The instance of the task.
    pub instance: Arc<str>,
    /// The event that the turn answers.
    pub event: Event,
    /// The input of the turn.
    pub input: Vec<Message>,
    /// The inbox row of the event.
    pub inbox: InboxId,
    /// The owner of the task.
    pub owner: Option<String>,
    /// The printed key of the conversation that created the task.
    pub key: String,
}

/// Returns whether the turn that answers this event does a task for the host.
pub fn runs(heard: &Heard) -> bool {
    heard.event.origin() == Origin::Host(HostCause::Run)
}

/// Builds the event that starts the turn of a task, and the input of the turn.
pub(super) fn opening(host: &Host, task: &str, title: &str, body: &str, seat: &Seat) -> (Event, Vec<Message>) {
    let text = if body.is_empty() { title.to_owned() } else { format!("{title}\n\n{body}") };
    let event = Event::message(run_event(task), seat.chat.clone(), seat.sender.clone(), text.clone());
    let event = event.at_ms(host.now_ms());
    let said = format!(
        "[System: you are running task {task} unattended; there is no user to ask. Your answer is the result of the \
         task: make it complete and short.]\n\n{text}"
    );
    (event, vec![Message::user(said)])
}

/// Builds the inbox row of that event.
pub(super) fn row(host: &Host, seat: &Seat, event: &Event) -> NewInbox {
    NewInbox {
        instance: seat.instance.clone(),
        event_id: event.event_id.clone(),
        at_ms: event.at_ms,
        received_ms: host.now_ms(),
        event: serde_json::to_string(event).expect("an event is always JSON"),
    }
}

/// Returns whether an inbox row starts the turn of a task.
pub fn is_run(row: &InboxRow) -> bool {
    row.input.is_some() && row.event_id.starts_with(&run_event(""))
}

/// Starts a task that was stored before a restart; the host is its sender. `false`: the task is over, or another worker
/// has it.
///
/// # Errors
///
/// Fails if the store cannot be read.
pub async fn run_again(host: &Arc<Host>, row: InboxRow, event: Event) -> Result<bool, StoreError> {
    let name = row.event_id.strip_prefix(&run_event("")).unwrap_or_default();
    let FoundTask::Task(task, _) = host.store.task(Viewer::Operator, name).await? else { return Ok(false) };
    let TaskRow { id, kind: TaskKind::Run, worker: Some(worker), session, owner, key, state, .. } = *task else {
        return Ok(false);
    };
    if id != name || state.epoch() != Some(host.epoch) {
        return Ok(false);
    }
    let InboxRow { id: inbox, instance, input, .. } = row;
    let (instance, input) = (Arc::from(instance), input.unwrap_or_default());
    let run = RunTask { parent: session, session: worker, instance, event, input, inbox, owner, key };
    host.tell(HostEvent::control(Control::Run(Box::new(run)))).await;
    Ok(true)
}

/// Returns the task row of a background turn, whose answer notifies its chat.
pub fn aside(host: &Host, heard: &Heard, birth: &Birth) -> Option<NewTask> {
    if !heard.aside || runs(heard) {
        return None;
    }
    let words = super::act::plain(host, &heard.event.get().text);
    let own = &birth.session;
    Some(NewTask {
        id: new_id(&*host.chance),
        kind: TaskKind::Background,
        profile: own.profile.clone(),
        owner: heard.owner.clone(),
        session: own.parent.as_ref().map_or_else(|| own.id.clone(), |parent| parent.session.clone()),
        key: heard.key.clone(),
        title: one_line(&words, TITLE_CHARS_MAX),
        body: words,
        claim: Some((host.epoch, Some(own.id.clone()))),
        timeout_ms: None,
        subscriber: None,
        now_ms: host.now_ms(),
    })
}
