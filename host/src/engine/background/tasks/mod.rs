//! Tasks: work with a name, a state, a creator and subscribers.
//!
//! * [`act`]: operations of agents, commands and the operator, with the rights of the caller.
//! * [`tell`]: notifies subscribers of each event once, and wakes the session that created the task.
//! * [`run`]: lets the host do a task in a session of its own.
//! * [`helpers`]: background workers of a turn, and their stop handles.
//! * [`crate::engine::background::processes`]: background commands, for the operator.
//! * [`words`]: texts about tasks.
//!
//! A worker is the caller that claims a task. The agent may claim one in any conversation in which it can see the task;
//! its claim lasts as long as that run of the host, or longer if its turn is resumed after a crash. States and
//! transitions: [`hermes_core::task`]; rows: [`hermes_store`].

pub mod act;
pub mod helpers;
mod run;
pub mod tell;
pub mod words;

use std::sync::Arc;
use std::time::Duration;

use hermes_core::context::TurnContext;
use hermes_core::ids::SessionId;
use hermes_core::task::TaskChange;
use tokio::sync::{Notify, mpsc};

use crate::engine::messages::{Control, HostEvent, TurnWish};
use crate::engine::runtime::Host;
use hermes_store::{Seat, TaskRow, Viewer};
use hermes_system::rng;
use hermes_system::rng::Chance;

pub use run::{RunTask, aside, is_run, run_again, runs};

/// Longest time of one attempt at a task without a report, unless its creator sets another.
const TIMEOUT: Duration = Duration::from_secs(24 * 60 * 60);

/// The longest title, in characters.
const TITLE_CHARS_MAX: usize = 200;

/// Characters of an id after its `t`.
const ID_CHARS: usize = 6;

/// The characters of ids.
const ID_ALPHABET: &[u8; 32] = b"abcdefghjkmnpqrstuvwxyz023456789";

/// The signal that a task has changed.
#[derive(Debug, Default)]
pub struct Bell(Notify);

impl Bell {
    /// Signals a change.
    pub fn ring(&self) {
        self.0.notify_one();
    }

    /// Waits for the next signal.
    async fn rang(&self) {
        self.0.notified().await;
    }
}

/// Returns a new id.
fn new_id(chance: &dyn Chance) -> String {
    let mut number = rng::number(chance);
    let letters = std::iter::repeat_with(|| {
        let letter = ID_ALPHABET[(number % 32) as usize];
        number /= 32;
        char::from(letter)
    });
    std::iter::once('t').chain(letters.take(ID_CHARS)).collect()
}

/// Returns the viewer that decides which tasks the turn of this context may see.
pub fn viewer(context: &TurnContext) -> Viewer {
    match context.owner.as_str() {
        crate::engine::services::OPERATOR => Viewer::Operator,
        "" => Viewer::Conversation(context.session_key.clone()),
        owner => Viewer::Person(owner.to_owned()),
    }
}

/// Ends a task as given up for a caller other than an agent.
///
/// # Errors
///
/// The refusal, with similar ids.
pub async fn give_up(host: &Arc<Host>, by: &act::By, task: &str, why: &str) -> Result<TaskRow, String> {
    let why = act::plain(host, why);
    act::change_one(host, by, task, TaskChange::GaveUp { why: why.clone() }, &why).await
}

/// Stops the turn by which the host does a task that is taken from it.
pub async fn stop(host: &Host, task: &TaskRow) {
    if let Some(session) = task.worker.as_ref().filter(|_| task.kind.is_the_hosts()) {
        stop_in(host, session).await;
    }
}

/// Stops a turn that has just begun if its task was taken from the host meanwhile. A later change of the task finds the
/// turn.
pub async fn begun(host: &Host, session: &SessionId) {
    match host.store.task_works(session).await {
        Ok(true) => {}
        Ok(false) => stop_in(host, session).await,
        Err(error) => tracing::warn!(%session, %error, "state of a task could not be read"),
    }
}

/// Ends the task that the host does in a session, so that the end is recorded for the caller under every name of the
/// task. `false`: the session does no task.
///
/// # Errors
///
/// The refusal.
pub async fn give_up_in(host: &Arc<Host>, by: &act::By, session: &SessionId, why: &str) -> Result<bool, String> {
    match host.store.task_in(session).await {
        Ok(Some(task)) => give_up(host, by, &task.id, why).await.map(|_| true),
        Ok(None) => Ok(false),
        Err(error) => Err(format!("its task could not be read ({error})")),
    }
}

async fn stop_in(host: &Host, session: &SessionId) {
    let Some(work) = host.working.in_session(session) else { return };
    // Nothing listens to the state that the lane reports.
    let (reply, _) = mpsc::channel(1);
    let control = Control::Turn { instance: work.instance, inbox: work.inbox, wish: TurnWish::Stop, reply };
    host.tell(HostEvent::control(control)).await;
}

/// Returns the chat in which the turn of this context can be notified later.
fn seat(context: &TurnContext) -> Option<Seat> {
    let chat = context.chat.clone().filter(|_| context.async_delivery)?;
    let mut sender = hermes_protocol::Sender::new(context.user_id.as_str());
    sender.name = Some(context.user_name.clone()).filter(|name| !name.is_empty());
    Some(Seat { instance: context.source.clone(), chat, sender })
}
