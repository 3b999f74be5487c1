//! The execution of one handoff: the destination chat, its binding to the session, and the event that opens the
//! conversation there. The turn and its delivery then proceed like any other.

use std::sync::Arc;
use std::time::Duration;

use hermes_agent::Message;
use hermes_core::ids::InboxId;
use hermes_protocol::{CallError, Chat, ChatType, Event, HandoffThreadCall, Sender, method};
use tokio::sync::oneshot;

use super::request::shown;
use crate::engine::crash_points;
use crate::engine::messages::{Control, HostEvent, Opening, Taken};
use crate::engine::runtime::Host;
use hermes_core::text::one_line;
use hermes_loader::AdapterHandle;
use hermes_store::{HandoffBind, HandoffRow, NewInbox};

/// Timeout for an adapter that opens a thread.
const THREAD_WITHIN: Duration = Duration::from_secs(60);

/// The longest name of a thread, in characters.
const NAME_CHARS_MAX: usize = 80;

/// The sender of the text that opens a conversation at its destination; no platform has such an account.
const SENDER: &str = "system:handoff";

/// Hands a claimed session over to a thread of `base`, or to `base` itself if no thread can be opened.
///
/// # Errors
///
/// The reason of the failure, as text.
pub(super) async fn serve(
    host: &Arc<Host>,
    row: &HandoffRow,
    adapter: &AdapterHandle,
    base: Chat,
) -> Result<(), String> {
    let chat = match row.chat.clone().filter(|chat| is_final(row, chat)) {
        Some(chat) => chat,
        None => {
            let chat = place(row, adapter, base).await;
            let keep = || host.store.handoff_thread(&row.session, row.claim(), host.epoch, chat.clone());
            host.until_written("the chat of a handoff", keep).await.ok_or(NOT_WRITTEN)?;
            chat
        }
    };
    let taken = take(host, row, &chat).await?;
    let event = opening(host, row, &chat);
    let input = vec![Message::user(event.text.clone())];
    let bound = bind(host, row, &event, input.clone(), &taken).await;
    let Some(inbox) = bound else {
        let (session, routes) = (row.session.clone(), Box::new(taken.routes));
        let control = Control::LeadBack { session, claim: row.claim(), routes };
        host.tell(HostEvent::control(control)).await;
        return Err(NOT_WRITTEN.to_owned());
    };
    crash_points::point("handoff_bound");
    host.handoffs.opens_with(&row.session, inbox, row.owner.clone());
    let opening = Opening {
        session: row.session.clone(),
        instance: Arc::clone(adapter.instance()),
        event,
        input,
        inbox,
        owner: row.owner.clone(),
    };
    host.tell(HostEvent::control(Control::Open(Box::new(opening)))).await;
    Ok(())
}

const NOT_WRITTEN: &str = "it could not be saved; the host's log has the error";

/// Returns whether the chat of a row needs no thread of its own: it is a thread, or an earlier claim was bound to it.
/// Asking once more for the thread of any other chat is harmless, because the key of the call is the same.
fn is_final(row: &HandoffRow, chat: &Chat) -> bool {
    chat.thread.is_some() || chat.kind == ChatType::Thread || row.inbox.is_some()
}

/// Opens a thread in `base`. Returns its descriptor, or `base` where no thread can be opened.
async fn place(row: &HandoffRow, adapter: &AdapterHandle, base: Chat) -> Chat {
    let instance = adapter.instance();
    if !adapter.capabilities().create_handoff_thread {
        tracing::info!(session = %row.session, %instance, chat = base.id, "adapter opens no threads; handoff uses the chat itself");
        return base;
    }
    let key = format!("handoff-{}-{}", row.session, row.asked_ms);
    let call = HandoffThreadCall::new(base.clone(), name(row), key);
    let payload = serde_json::to_vec(&call).expect("a call is always JSON");
    let answer = adapter.call_within(method::CREATE_HANDOFF_THREAD, payload, THREAD_WITHIN).await;
    let made = answer.and_then(|answer| {
        serde_json::from_slice::<Option<Chat>>(&answer).map_err(|error| CallError::new("invalid", error.to_string()))
    });
    let why = match made {
        Ok(Some(chat)) if !chat.id.is_empty() => return chat,
        Ok(_) => "the adapter opened no thread".to_owned(),
        // The outcome may be unknown; the chat itself exists.
        Err(error) => error.to_string(),
    };
    tracing::warn!(
        session = %row.session, %instance, chat = base.id, why = one_line(&why, 300),
        "no thread for a handoff; handoff uses the chat itself"
    );
    base
}

fn name(row: &HandoffRow) -> String {
    let called = row.title.as_deref().map(|title| one_line(title, NAME_CHARS_MAX));
    called.unwrap_or_else(|| row.session.to_string())
}

/// Asks the dispatcher to bind the chat to the session.
async fn take(host: &Arc<Host>, row: &HandoffRow, chat: &Chat) -> Result<Taken, String> {
    let (reply, taken) = oneshot::channel();
    let (session, instance, chat) = (row.session.clone(), row.instance.clone(), chat.clone());
    let control = Control::Take { session, claim: row.claim(), instance, chat, reply };
    host.tell(HostEvent::control(control)).await;
    taken.await.map_err(|_| "the host is stopping".to_owned())?
}

async fn bind(host: &Host, row: &HandoffRow, event: &Event, input: Vec<Message>, taken: &Taken) -> Option<InboxId> {
    let now_ms = host.now_ms();
    let bind = HandoffBind {
        session: row.session.clone(),
        claim: row.claim(),
        epoch: host.epoch,
        event: NewInbox {
            instance: row.instance.clone(),
            event_id: event.event_id.clone(),
            at_ms: event.at_ms,
            received_ms: now_ms,
            event: serde_json::to_string(event).expect("an event is always JSON"),
        },
        input,
        route: taken.route.clone(),
        routes: taken.routes.clone(),
        former: taken.former.clone(),
        freed: taken.freed.clone(),
        now_ms,
    };
    host.until_written("the chat of a handoff", || host.store.handoff_bind(bind.clone())).await
}

/// Builds the first event for the agent in the destination chat. No sender of a platform wrote it.
fn opening(host: &Host, row: &HandoffRow, chat: &Chat) -> Event {
    let called = row.title.as_deref().map(|title| format!(" \"{}\"", one_line(title, NAME_CHARS_MAX)));
    let text = format!(
        "[System: the conversation{} was moved to this chat, {}, from the terminal. The earlier messages are above. \
         Confirm in a few words that you are here, name the current state, and wait for the next message.]",
        called.unwrap_or_default(),
        shown(&row.instance, chat)
    );
    let id = format!("handoff:{}:{}:{}", row.session, row.asked_ms, row.attempts);
    let sender = Sender::new(SENDER).named("Handoff");
    Event::message(id, chat.clone(), sender, text).at_ms(host.now_ms())
}
