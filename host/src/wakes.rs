//! Wakes a session: what the host itself says to an agent when something that outlives a
//! turn has news.
//!
//! * It is an event of the inbox like any other, written before anything else happens; its
//!   id is unique, so it is written once. It has its own constructor
//!   ([`HostCause::Task`](hermes_core::access::HostCause)), and nobody's words can become one:
//!   the row names the session, and only the host writes such rows.
//! * It goes to the session that asked, in the chat where that session is by now. It waits
//!   behind a turn that runs there, behind a handoff, and while the adapter is away. What
//!   waits or comes within a moment is answered by one turn. It ends no turn and answers no question.
//! * Where that session is over (`/new`, `/resume` of another one, a rule, deleted), its
//!   chat is told in a plain notice. So it is where the session was woken again and again and
//!   nobody wrote to it: a person's next message lets it be woken again.
//! * What a turn beside a conversation left behind wakes that conversation.
//!
//! Read on: `dispatcher/wakes.rs` for where a session is, `lane/wakes.rs` for whether it is
//! still there.

use std::sync::Arc;

use hermes_agent::Message;
use hermes_agent::tools::output::bounded;
use hermes_agent::tools::ports::News;
use hermes_core::access::Trust;
use hermes_core::ids::{InboxId, SessionId};
use hermes_protocol::{Chat, Event, Sender};
use tokio::sync::oneshot;

use crate::events::{Control, HostEvent, WatchNews, Woken};
use crate::host::Host;
use crate::store::{InboxRow, Lineage, NewInbox, NewWake, SessionRow, StoreError};
use crate::tasks;
use crate::tools;

/// What one wake-up says, in bytes.
pub const WAKE_BYTES_MAX: usize = 32 << 10;

/// Turns to which a session is woken in a row while nobody writes to it. What runs may make more that runs, so
/// something has to end it; one process that prints is told of less often.
pub const WOKEN_IN_A_ROW_MAX: u32 = 30;

/// Who says it where nobody asked: nobody on any platform.
const NOBODY: &str = "system:wake";

/// What stands before it, so that the agent takes it for nobody's words.
const FROM_THE_HOST: &str = "[From the host, said by nobody: something that you left running has news. Tell whoever \
     you talk to what it means for them, or go on with what waited for it.]";

/// What is to wake a session.
#[derive(Clone, Debug)]
pub struct Wake {
    /// Unique for ever; the same id wakes once.
    pub id: String,
    /// The session that asked.
    pub session: SessionId,
    /// The instance over which it asked.
    pub instance: String,
    /// The chat, with its thread, in which it asked.
    pub chat: Chat,
    /// Who asked there, where that is known: their approvals and what they own stay theirs.
    pub sender: Option<Sender>,
    /// What happened, for the agent.
    pub text: String,
}

impl Wake {
    /// The row of the inbox that it becomes; for whoever writes it together with what caused it.
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
/// When it could not be committed; nobody is woken then.
pub async fn wake(host: &Arc<Host>, wake: Wake) -> Result<bool, StoreError> {
    let new = wake.row(host);
    let inbox = host.store.wake(new.clone()).await?;
    if let Some(inbox) = inbox {
        written(host, inbox, new).await;
    }
    Ok(inbox.is_some())
}

/// What wakes a session is committed: the dispatcher hears of it.
pub async fn written(host: &Arc<Host>, inbox: InboxId, wake: NewWake) {
    let NewWake { session, event: NewInbox { instance, event, .. }, input } = wake;
    let Ok(event) = serde_json::from_str(&event) else { return };
    let woken = Woken { inbox, session, instance: Arc::from(instance), event, input };
    host.tell(HostEvent::Watch(WatchNews::Woken(Box::new(woken)))).await;
}

/// What is committed is still to wake its session.
pub(crate) async fn due(host: &Arc<Host>, row: InboxRow, event: Event) {
    let InboxRow { id: inbox, instance, input: Some(input), wakes: Some(session), .. } = row else { return };
    let woken = Woken { inbox, session, instance: Arc::from(instance), event, input };
    host.tell(HostEvent::Watch(WatchNews::Woken(Box::new(woken)))).await;
}

/// Takes up what an earlier life of the host left in the background. What nobody takes up is told to its session:
/// nobody knows what became of it. Called once, behind the recovery.
pub async fn take_up(host: &Arc<Host>) {
    let known = host.runtime.take_up().await;
    let lost = match host.store.take_up_watches(host.epoch, known).await {
        Ok(lost) => lost,
        Err(error) => {
            tracing::error!(%error, "what an earlier life of the host left in the background cannot be read; the next start tries again");
            return;
        }
    };
    for row in lost {
        let text = tasks::helpers::left(host, &row).await;
        tools::wakes::tell(host, &News { id: row.id, text, last: true, upto: row.upto }).await;
    }
}

/// Reads what waits in the inbox and hands it to the dispatcher. What has a lane already is known there.
pub(crate) async fn again(host: Arc<Host>) {
    let mut after = InboxId(0);
    loop {
        let rows = match host.store.waiting_wakes(after).await {
            Ok(rows) => rows,
            Err(error) => {
                tracing::warn!(%error, "what waits to wake a session cannot be read");
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
                Err(error) => tracing::error!(inbox = %row.id, %error, "an event in the inbox cannot be read"),
            }
        }
    }
}

/// The conversation beside which a session stands that no chat is in; `None`: it is one by itself. Nobody can answer
/// what a session beside another one says once its turn is over.
pub(crate) async fn beside(host: &Host, session: &SessionRow) -> Option<SessionId> {
    let parent = session.parent.clone().filter(|_| session.lineage == Some(Lineage::Aside))?;
    let (reply, places) = oneshot::channel();
    host.tell(HostEvent::control(Control::Places { session: session.id.clone(), reply })).await;
    // Without the dispatcher the host ends, and nobody is woken.
    places.await.is_ok_and(|places| places.is_empty()).then_some(parent)
}

/// Nobody on any platform.
pub(crate) fn nobody() -> Sender {
    Sender::new(NOBODY).named("Host")
}

/// Whether whoever asked to be told there may not even speak there any more.
pub(crate) fn is_shut_out(host: &Host, instance: &str, chat: &Chat, sender: &Sender) -> bool {
    let adapter = host.adapter(instance);
    let trust = adapter.map_or(Trust::None, |adapter| Trust::of(adapter.trusted(), &adapter.capabilities()));
    !is_nobody(sender) && host.live().access.shuts_out(instance, chat, sender, &host.grants(), trust)
}

/// Whether that is nobody.
pub(crate) fn is_nobody(sender: &Sender) -> bool {
    sender.id == NOBODY
}
