//! Tasks: work that has a name, a state, a creator and people who are told.
//!
//! * [`act`]: what an agent, a command or the operator wants with one, as they may.
//! * [`tell`]: what happened is told, once, to whoever subscribed, and the session that made
//!   the task is woken.
//! * [`run`]: the host does a task by itself, in a session of its own.
//! * [`helpers`]: those who work on one beside the turn that handed it on, and what ends them.
//! * [`commands`]: commands in the background, for the operator.
//! * [`words`]: how a task is told.
//!
//! A worker is whoever claims. The agent may, in any conversation in which the task can be
//! seen; its claim lasts as long as that life of the host, and longer where its turn goes on
//! after a crash. States and arrows: [`hermes_core::task`]; rows: [`crate::store`].

pub mod act;
pub mod commands;
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

use crate::chance::{self, Chance};
use crate::events::{Control, HostEvent, TurnWish};
use crate::host::Host;
use crate::store::{Seat, TaskRow, Viewer};

pub use run::{RunTask, aside, is_run, run_again, runs};

/// How long one try of a task may go without a word, unless its maker says otherwise.
const TIMEOUT: Duration = Duration::from_secs(24 * 60 * 60);

/// Characters of a title.
const TITLE_CHARS_MAX: usize = 200;

/// Characters of an id behind its `t`.
const ID_CHARS: usize = 6;

/// What ids are made of.
const ID_ALPHABET: &[u8; 32] = b"abcdefghjkmnpqrstuvwxyz023456789";

/// Rings when something happened to a task.
#[derive(Debug, Default)]
pub struct Bell(Notify);

impl Bell {
    /// Something happened.
    pub fn ring(&self) {
        self.0.notify_one();
    }

    /// Waits until something has.
    async fn rang(&self) {
        self.0.notified().await;
    }
}

/// A new id.
fn new_id(chance: &dyn Chance) -> String {
    let mut number = chance::number(chance);
    let letters = std::iter::repeat_with(|| {
        let letter = ID_ALPHABET[(number % 32) as usize];
        number /= 32;
        char::from(letter)
    });
    std::iter::once('t').chain(letters.take(ID_CHARS)).collect()
}

/// Whose tasks the turn of this context may see.
pub fn viewer(context: &TurnContext) -> Viewer {
    match context.owner.as_str() {
        crate::services::OPERATOR => Viewer::Operator,
        "" => Viewer::Conversation(context.session_key.clone()),
        owner => Viewer::Person(owner.to_owned()),
    }
}

/// Gives a task up for somebody who is no agent.
///
/// # Errors
///
/// Why not, with what is near.
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

/// The turn of a task has begun: it is stopped where the task was taken from it meanwhile. Whoever takes it later
/// finds the turn.
pub async fn begun(host: &Host, session: &SessionId) {
    match host.store.task_works(session).await {
        Ok(true) => {}
        Ok(false) => stop_in(host, session).await,
        Err(error) => tracing::warn!(%session, %error, "whether a task is still to be done cannot be read"),
    }
}

/// Gives up the task that the host does in a session, if it is one: so its end is of whoever says it, whatever they
/// call it by. `false`: it is none.
///
/// # Errors
///
/// Why it is not given up.
pub async fn give_up_in(host: &Arc<Host>, by: &act::By, session: &SessionId, why: &str) -> Result<bool, String> {
    match host.store.task_in(session).await {
        Ok(Some(task)) => give_up(host, by, &task.id, why).await.map(|_| true),
        Ok(None) => Ok(false),
        Err(error) => Err(format!("whether it is a task cannot be read ({error})")),
    }
}

async fn stop_in(host: &Host, session: &SessionId) {
    let Some(work) = host.working.in_session(session) else { return };
    // Its lane tells the state that it was in, to nobody.
    let (reply, _) = mpsc::channel(1);
    let control = Control::Turn { instance: work.instance, inbox: work.inbox, wish: TurnWish::Stop, reply };
    host.tell(HostEvent::control(control)).await;
}

/// Where the turn of this context can be told something later.
fn seat(context: &TurnContext) -> Option<Seat> {
    let chat = context.chat.clone().filter(|_| context.async_delivery)?;
    let mut sender = hermes_protocol::Sender::new(context.user_id.as_str());
    sender.name = Some(context.user_name.clone()).filter(|name| !name.is_empty());
    Some(Seat { instance: context.source.clone(), chat, sender })
}
