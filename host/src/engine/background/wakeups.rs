//! Wake-ups: events by which the host itself reports news of background work to the agent of a session.
//!
//! * A wake-up is an event of the inbox, written before any other effect; its id is unique, so it is written once. It
//!   has its own constructor ([`HostCause::Task`](hermes_core::access::HostCause)), and no message can become one: the
//!   row names the session, and only the host writes such rows.
//! * It goes to the session that started the work, in the session's current chat. It waits for the end of a running
//!   turn, for the end of a handoff, and for the adapter's link. One turn answers all wake-ups that wait or arrive
//!   within a moment. A wake-up ends no turn and answers no question.
//! * If the session is over (`/new`, `/resume` of another one, a rule, deleted), its chat gets a plain notice. The same
//!   applies to a session that was woken too often in a row without a message of a user; the next message permits
//!   wake-ups again.
//! * The work of a background turn wakes the conversation of that turn.
//!
//! Read on: `dispatcher/wakes.rs` finds the chat of a session, `lane/wakes.rs` checks that the session still exists.

use std::sync::Arc;

use hermes_agent::Message;
use hermes_agent::tools::output::bounded;
use hermes_agent::tools::ports::JobUpdate;
use hermes_core::access::Trust;
use hermes_core::ids::{InboxId, SessionId};
use hermes_protocol::{Chat, Event, Sender};
use tokio::sync::oneshot;

use crate::engine::background::tasks;
use crate::engine::messages::{Control, HostEvent, WatchNews, Woken};
use crate::engine::runtime::Host;
use crate::engine::tools;
use hermes_store::{InboxRow, Lineage, NewInbox, NewWake, SessionRow, StoreError};

/// The longest text of one wake-up, in bytes.
pub const WAKE_BYTES_MAX: usize = 32 << 10;

/// Turns in a row that wake-ups may start in a session without a message of a user. Background work may start further
/// background work, so something has to end the chain; one process that prints causes fewer wake-ups.
pub const WOKEN_IN_A_ROW_MAX: u32 = 30;

/// The sender of a wake-up without a requester; no platform has such an account.
const NOBODY: &str = "system:wake";

/// The beginning of the text, so that the agent does not take it for the message of a user.
const FROM_THE_HOST: &str = "[System: a background job you started has an update. Tell the user what it means, or \
     continue the work that was waiting for it.]";

/// The content of a wake-up.
#[derive(Clone, Debug)]
pub struct Wake {
    /// The id, unique forever; the same id wakes once.
    pub id: String,
    /// The session that started the work.
    pub session: SessionId,
    /// The instance of the request.
    pub instance: String,
    /// The chat of the request, with its thread.
    pub chat: Chat,
    /// The requester, if known: the turn has the requester's approvals and ownership.
    pub sender: Option<Sender>,
    /// The event, for the agent.
    pub text: String,
}

impl Wake {
    /// Builds the inbox row, for a caller that writes it together with its cause.
    pub fn row(&self, host: &Host) -> NewWake {
        let now_ms = host.now_ms();
        let text = bounded(&host.live().masker.mask(self.text.as_str()), WAKE_BYTES_MAX);
        let said = format!("{FROM_THE_HOST}\n\n{text}");
        let sender = self.sender.clone().unwrap_or_else(nobody);
        let event = Event::message(format!("wake:{}", self.id), self.chat.clone(), sender, text).at_ms(now_ms);
        NewWake {
            session: self.session.clone(),
            event: NewInbox {
                instance: self.instance.clone(),
                event_id: event.event_id.clone(),
                at_ms: now_ms,
                received_ms: now_ms,
                event: serde_json::to_string(&event).expect("an event is always JSON"),
            },
            input: vec![Message::user(said)],
        }
    }
}

/// Wakes a session. Returns after the commit; `false`: this id woke it before.
///
/// # Errors
///
/// Fails if the commit fails; no session is woken then.
pub async fn wake(host: &Arc<Host>, wake: Wake) -> Result<bool, StoreError> {
    let new = wake.row(host);
    let inbox = host.store.wake(new.clone()).await?;
    if let Some(inbox) = inbox {
        written(host, inbox, new).await;
    }
    Ok(inbox.is_some())
}

/// Hands a committed wake-up to the dispatcher.
pub async fn written(host: &Arc<Host>, inbox: InboxId, wake: NewWake) {
    let NewWake { session, event: NewInbox { instance, event, .. }, input } = wake;
    let Ok(event) = serde_json::from_str(&event) else { return };
    let woken = Woken { inbox, session, instance: Arc::from(instance), event, input };
    host.tell(HostEvent::Watch(WatchNews::Woken(Box::new(woken)))).await;
}

/// Hands a stored wake-up to the dispatcher.
pub(crate) async fn due(host: &Arc<Host>, row: InboxRow, event: Event) {
    let InboxRow { id: inbox, instance, input: Some(input), wakes: Some(session), .. } = row else { return };
    let woken = Woken { inbox, session, instance: Arc::from(instance), event, input };
    host.tell(HostEvent::Watch(WatchNews::Woken(Box::new(woken)))).await;
}

/// Takes over the background work of an earlier run. If nothing takes a job over, its session is notified that its
/// outcome is unknown. Called once, after the recovery.
pub async fn take_up(host: &Arc<Host>) {
    let known = host.runtime.adopt_background().await;
    let lost = match host.store.take_up_watches(host.epoch, known).await {
        Ok(lost) => lost,
        Err(error) => {
            tracing::error!(%error, "background jobs of the previous run could not be read; the next start tries again");
            return;
        }
    };
    for row in lost {
        let text = tasks::helpers::left(host, &row).await;
        tools::wakes::tell(host, &JobUpdate { id: row.id, text, last: true, upto: row.upto }).await;
    }
}

/// Reads the waiting wake-ups of the inbox and hands them to the dispatcher. Those of a lane are skipped there.
pub(crate) async fn again(host: Arc<Host>) {
    let mut after = InboxId(0);
    loop {
        let rows = match host.store.waiting_wakes(after).await {
            Ok(rows) => rows,
            Err(error) => {
                tracing::warn!(%error, "waiting wake-ups could not be read");
                host.tell(HostEvent::Watch(WatchNews::PutBack)).await;
                return;
            }
        };
        let Some(last) = rows.last() else { return };
        after = last.id;
        for row in rows {
            match serde_json::from_str(&row.event) {
                Ok(event) => due(&host, row, event).await,
                // The next start drops it.
                Err(error) => tracing::error!(inbox = %row.id, %error, "inbox event could not be read"),
            }
        }
    }
}

/// Returns the conversation of a background session without a chat; `None`: the session is a conversation itself.
/// Nobody can answer a message of a background session once its turn is over.
pub(crate) async fn beside(host: &Host, session: &SessionRow) -> Option<SessionId> {
    let parent = session.parent.clone().filter(|_| session.lineage == Some(Lineage::Aside))?;
    let (reply, places) = oneshot::channel();
    host.tell(HostEvent::control(Control::Places { session: session.id.clone(), reply })).await;
    // Without the dispatcher the host ends, and no session is woken.
    places.await.is_ok_and(|places| places.is_empty()).then_some(parent)
}

/// Returns the sender of wake-ups without a requester.
pub(crate) fn nobody() -> Sender {
    Sender::new(NOBODY).named("Host")
}

/// Returns whether the subscriber has no access to the chat any more.
pub(crate) fn is_shut_out(host: &Host, instance: &str, chat: &Chat, sender: &Sender) -> bool {
    let adapter = host.adapter(instance);
    let trust = adapter.map_or(Trust::None, |adapter| Trust::of(adapter.trusted(), &adapter.capabilities()));
    !is_nobody(sender) && host.live().access.shuts_out(instance, chat, sender, &host.grants(), trust)
}

/// Returns whether the sender is that of wake-ups without a requester.
pub(crate) fn is_nobody(sender: &Sender) -> bool {
    sender.id == NOBODY
}
