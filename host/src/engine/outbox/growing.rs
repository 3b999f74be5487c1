//! Growing messages: the text that their turns write, and the part of it that their lane shows.
//!
//! The first piece and the final text are ordinary parts. Between them the lane shows edits at its own pace: never
//! before an owed part, never during a wait that the platform demanded, and always with the latest text. A lost edit
//! does no harm.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hermes_core::delivery::{PreviewPace, PreviewRule, preview};
use hermes_core::ids::DeliveryId;
use hermes_protocol::{Chat, Outgoing, Purpose, RefusalKind, SendOutcome, SentMessage, WaitScope};

use crate::engine::outbox::queue::{OutboxLane, Which};
use crate::engine::reply::render::render;
use crate::engine::runtime::Host;
use hermes_loader::AdapterHandle;
use hermes_store::{NewPart, OwedDelivery, PartState};

/// The longest kept text that is only shown, in bytes; no platform shows more in one message.
const TEXT_BYTES_MAX: usize = 64 << 10;

/// Timeout of an intermediate edit; the final text waits for its end.
const EDIT: Duration = Duration::from_secs(5);

/// Timeout of the last edit before the host ends.
const PARKING_EDIT: Duration = Duration::from_millis(1_500);

/// The end of a message whose turn continues in the next run of the host.
pub const PARKED: &str = "(interrupted, continues after the restart)";

/// The wait before the next edit if the platform named none, in milliseconds.
const WAIT_MS: i64 = 1_000;

/// The longest wait that an intermediate edit puts on its chat, in milliseconds, whatever the platform demanded: the
/// final text finds out by its own request.
const WAIT_MS_MAX: i64 = 10 * 60_000;

/// The text of one growing message. Its turn writes, its lane reads.
#[derive(Debug)]
pub struct Growing {
    /// The delivery.
    pub id: DeliveryId,
    /// The chat of the message.
    pub chat: Chat,
    /// The purpose of the delivery.
    pub purpose: Purpose,
    said: Mutex<Said>,
}

#[derive(Debug, Default)]
struct Said {
    text: String,
    /// Characters ever written, including replaced ones.
    chars: usize,
    /// True if the lane was notified of unread text.
    told: bool,
}

impl Growing {
    /// Creates the growing message `id`, of which `text` was written.
    pub fn new(id: DeliveryId, chat: Chat, purpose: Purpose, text: &str) -> Arc<Self> {
        let said = Said { text: cut(text), chars: text.chars().count(), told: false };
        Arc::new(Self { id, chat, purpose, said: Mutex::new(said) })
    }

    /// Appends text. Returns whether the lane has to be notified.
    #[must_use]
    pub fn push(&self, more: &str) -> bool {
        self.write(more.chars().count(), |text| {
            if text.len() < TEXT_BYTES_MAX {
                text.push_str(&cut(more));
            }
        })
    }

    /// Replaces the text. Returns whether the lane has to be notified.
    #[must_use]
    pub fn replace(&self, with: &str) -> bool {
        self.write(with.chars().count().max(1), |text| *text = cut(with))
    }

    fn write(&self, chars: usize, change: impl FnOnce(&mut String)) -> bool {
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut said.text);
        said.chars += chars;
        !std::mem::replace(&mut said.told, true)
    }

    /// Returns the number of characters ever written.
    fn chars(&self) -> usize {
        self.said.lock().unwrap_or_else(PoisonError::into_inner).chars
    }

    fn read(&self) -> (String, usize) {
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        said.told = false;
        (said.text.clone(), said.chars)
    }
}

fn cut(text: &str) -> String {
    let end = (0..=text.len().min(TEXT_BYTES_MAX)).rev().find(|at| text.is_char_boundary(*at)).unwrap_or_default();
    text[..end].to_owned()
}

/// A growing message from the view of its lane.
pub(super) struct Grown {
    text: Arc<Growing>,
    chat: Chat,
    pace: PreviewPace,
    at: At,
    /// The text on the platform, as far as it is certain.
    shown: Option<String>,
}

/// The place of a growing message.
#[derive(Debug, PartialEq)]
enum At {
    /// An earlier lane sent it; the store knows its message.
    Unread,
    /// The first piece is being sent.
    Coming,
    /// The platform has it, as this message.
    There(String),
    /// No further edit is shown: the message cannot be edited, or its final text is owed.
    Over,
}

/// The growing messages of one lane: at most one for each turn that runs there, and one for its progress.
pub(super) type GrowingMessages = BTreeMap<DeliveryId, Grown>;

impl Grown {
    fn new(text: Arc<Growing>, at: At, rule: PreviewRule, now_ms: i64) -> Self {
        Self { chat: text.chat.clone(), text, pace: PreviewPace::new(rule, now_ms), at, shown: None }
    }

    /// Returns the time of the next edit; `None`: nothing is to be shown.
    fn due_ms(&self) -> Option<i64> {
        match self.at {
            At::Unread | At::There(_) => self.pace.due_ms(self.text.chars()),
            At::Coming | At::Over => None,
        }
    }
}

impl OutboxLane {
    /// Adds a growing message whose first piece is about to be sent.
    pub(super) fn grow_from(&mut self, text: Arc<Growing>) {
        self.grow_at(text, At::Coming);
    }

    /// Takes note of new text in a growing message.
    pub(super) fn look_at(&mut self, text: Arc<Growing>) {
        if !self.growing.contains_key(&text.id) {
            self.grow_at(text, At::Unread);
        }
    }

    fn grow_at(&mut self, text: Arc<Growing>, at: At) {
        let (rule, now_ms) = (self.host.live().pace(), self.host.now_ms());
        self.growing.insert(text.id, Grown::new(text, at, rule, now_ms));
    }

    /// Stops the edits of a growing message whose text is final.
    pub(super) fn stop_growing(&mut self, id: DeliveryId) {
        if let Some(grown) = self.growing.get_mut(&id) {
            grown.at = At::Over;
        }
    }

    /// Stops the edits of all growing messages of this lane.
    pub(super) fn stop_all_growing(&mut self) {
        for grown in self.growing.values_mut() {
            grown.at = At::Over;
        }
    }

    /// Updates a growing message after one of its parts ended: its first piece arrived or not, or its final text is
    /// settled.
    pub(super) fn note_growth(&mut self, which: Which, state: &PartState) {
        let Some(job) = self.job(which) else { return };
        let (id, n, text) = (job.id(), job.part().n, job.part().text.clone());
        if n == 0 {
            job.first_piece_settled(state);
            self.first_piece_settled(id, text, state);
        } else {
            self.growing.remove(&id);
        }
    }

    fn first_piece_settled(&mut self, id: DeliveryId, text: String, state: &PartState) {
        let now_ms = self.host.now_ms();
        let Some(grown) = self.growing.get_mut(&id) else { return };
        let message = match state {
            PartState::Delivered { receipt } => receipt.message_ids.last(),
            _ => None,
        };
        if message.is_some() {
            grown.shown = Some(text);
            grown.pace.shown(now_ms, 0);
        }
        if grown.at == At::Coming {
            grown.at = message.map_or(At::Over, |message| At::There(message.clone()));
        }
    }

    /// Returns whether the message of a delivery shows exactly this text.
    pub(super) fn says_already(&self, id: DeliveryId, text: &str) -> bool {
        self.growing.get(&id).and_then(|grown| grown.shown.as_deref()) == Some(text)
    }

    /// Follows the move of this lane's chat.
    pub(super) fn move_growing(&mut self, to: &Chat) {
        for grown in self.growing.values_mut() {
            grown.chat.id.clone_from(&to.id);
            grown.chat.kind = to.kind.clone();
            // Under the new id, the message id is unknown or may become that of another message, so the final text is
            // sent as a new message.
            grown.at = At::Over;
        }
    }

    /// Returns the growing message that is shown next, with the time.
    pub(super) fn next_piece(&self, now_ms: i64) -> Option<(i64, DeliveryId)> {
        let due = self.growing.iter().filter_map(|(id, grown)| {
            let held = self.holds.until_ms(&self.target.instance, &grown.chat.id, now_ms);
            Some((grown.due_ms()?.max(held.unwrap_or(0)), *id))
        });
        due.min()
    }

    /// Shows the current text of a growing message.
    pub(super) async fn show_piece(&mut self, id: DeliveryId) {
        let Some(adapter) = self.host.adapter(&self.target.instance) else { return };
        // An edit overtakes neither an owed part nor a part that must be alone in flight.
        let Some(_room) = adapter.try_room_to_deliver() else {
            let now_ms = self.host.now_ms();
            if let Some(grown) = self.growing.get_mut(&id) {
                grown.pace.slow_down(now_ms);
            }
            return;
        };
        self.find_message(id).await;
        let Some(grown) = self.growing.get_mut(&id) else { return };
        let At::There(message) = &grown.at else { return };
        let message = SentMessage::new(grown.chat.clone(), message.clone());
        let (text, chars) = grown.text.read();
        let purpose = grown.text.purpose.clone();
        let shown = grown.shown.clone();
        let part = piece(&adapter, &text).await.filter(|part| shown.as_ref() != Some(&part.text));
        let outcome = match &part {
            Some(part) => {
                let outgoing = outgoing(id, purpose, message.chat.clone(), part);
                let edit = tokio::time::timeout(EDIT, adapter.edit(&message, &outgoing)).await;
                edit.unwrap_or_else(|_| SendOutcome::unknown("not in time"))
            }
            None => return self.piece_shown(id, chars, None),
        };
        tracing::debug!(delivery = %id, ?outcome, "intermediate edit");
        let said = part.map(|part| part.text);
        self.after_piece(id, chars, said, &outcome);
    }

    fn piece_shown(&mut self, id: DeliveryId, chars: usize, said: Option<String>) {
        let now_ms = self.host.now_ms();
        if let Some(grown) = self.growing.get_mut(&id) {
            grown.pace.shown(now_ms, chars);
            grown.shown = said.or(grown.shown.take());
        }
    }

    /// Applies the outcome of an intermediate edit: only its receipt proves what is shown.
    fn after_piece(&mut self, id: DeliveryId, chars: usize, said: Option<String>, outcome: &SendOutcome) {
        let now_ms = self.host.now_ms();
        match outcome {
            SendOutcome::Delivered { .. } => return self.piece_shown(id, chars, said),
            SendOutcome::NotSent { retry_after_ms, scope, .. } => {
                let wait_ms =
                    retry_after_ms.map_or(WAIT_MS, |ms| i64::try_from(ms).unwrap_or(i64::MAX)).min(WAIT_MS_MAX);
                let until_ms = now_ms.saturating_add(wait_ms);
                let instance = &self.target.instance;
                match scope {
                    WaitScope::Instance => self.holds.hold_instance(instance, until_ms, now_ms),
                    _ => self.holds.hold_chat(instance, &self.target.chat, until_ms, now_ms),
                }
            }
            _ => {}
        }
        let Some(grown) = self.growing.get_mut(&id) else { return };
        grown.pace.slow_down(now_ms);
        match outcome {
            // A later text may be accepted; a refused edit must not cost the final text.
            SendOutcome::Refused { kind: RefusalKind::TooLong | RefusalKind::BadFormat, .. } => {}
            SendOutcome::Refused { .. } => grown.at = At::Over,
            SendOutcome::NotSent { .. } => {}
            _ => grown.shown = None,
        }
    }

    /// Reads the message that an earlier lane sent from the store.
    async fn find_message(&mut self, id: DeliveryId) {
        if self.growing.get(&id).is_none_or(|grown| grown.at != At::Unread) {
            return;
        }
        let at = match self.host.store.delivery(id).await {
            Ok(Some(OwedDelivery { draft_message: Some(message), .. })) => At::There(message),
            Ok(Some(delivery)) if delivery.parts.iter().any(|part| !part.state.is_settled()) => At::Coming,
            Ok(_) => At::Over,
            Err(error) => {
                tracing::warn!(delivery = %id, %error, "growing message could not be read; its final text follows");
                At::Over
            }
        };
        if let Some(grown) = self.growing.get_mut(&id) {
            grown.at = at;
        }
    }
}

/// Edits a growing message to announce that its turn continues in the next run of the host.
///
/// The edit bypasses the lane of its chat, which has ended by then. The edit is a hint, and nothing is owed for it. The
/// final text of the turn replaces it.
pub async fn show_parked(host: &Host, adapter: &AdapterHandle, grown: &Growing, said: &str) {
    let there = match host.store.delivery(grown.id).await {
        Ok(delivery) => delivery.and_then(|delivery| delivery.draft_message),
        Err(error) => {
            tracing::warn!(delivery = %grown.id, %error, "growing message could not be read; it stays as it is");
            None
        }
    };
    let Some(message) = there.filter(|_| adapter.is_online()) else { return };
    let Some(part) = parked(adapter, said).await else { return };
    let message = SentMessage::new(grown.chat.clone(), message);
    let outgoing = outgoing(grown.id, grown.purpose.clone(), grown.chat.clone(), &part);
    let edit = tokio::time::timeout(PARKING_EDIT, adapter.edit(&message, &outgoing)).await;
    let outcome = edit.unwrap_or_else(|_| SendOutcome::unknown("not in time"));
    tracing::debug!(delivery = %grown.id, ?outcome, "growing message marked as interrupted");
}

/// Renders the text so far with the announcement as one part, and shortens the text to fit.
async fn parked(adapter: &AdapterHandle, said: &str) -> Option<NewPart> {
    let text = preview(said.trim());
    let limit = usize::try_from(adapter.capabilities().text.limit).unwrap_or(usize::MAX);
    for quarters in (0..=4).rev() {
        let chars = limit / 4 * quarters;
        let shown = match text.char_indices().nth(chars) {
            Some((end, _)) => format!("{}…", preview(text[..end].trim_end())),
            None => text.clone(),
        };
        let mut parts = render(Some(adapter), &format!("{shown}\n\n{PARKED}"), None, 0).await;
        if parts.len() == 1 {
            return parts.pop();
        }
    }
    None
}

/// Renders the preview of an unfinished text for one message: as much as fits, with every fence closed.
pub async fn piece(adapter: &AdapterHandle, text: &str) -> Option<NewPart> {
    let text = preview(text);
    if text.trim().is_empty() {
        return None;
    }
    render(Some(adapter), &text, None, 0).await.into_iter().next()
}

/// Builds an intermediate edit for the adapter.
fn outgoing(id: DeliveryId, purpose: Purpose, chat: Chat, part: &NewPart) -> Outgoing {
    let mut outgoing = Outgoing::text(chat, part.text.clone());
    outgoing.delivery = id.0;
    outgoing.part = 1;
    outgoing.of = 1;
    outgoing.purpose = purpose;
    outgoing.format = part.format.clone();
    outgoing.source.clone_from(&part.source);
    outgoing
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn its_lane_is_told_once_until_it_reads_and_always_reads_the_latest() {
        let growing = Growing::new(DeliveryId(1), Chat::dm("7"), Purpose::Reply, "one");
        assert!(growing.push(" two"));
        assert!(!growing.push(" three"), "it knows already");
        assert_eq!(growing.read(), ("one two three".to_owned(), 13));
        assert!(growing.replace("four"));
        assert_eq!(growing.read(), ("four".to_owned(), 17), "what was written counts, not what is left");
    }

    #[test]
    fn what_only_has_to_be_shown_is_bounded() {
        let growing = Growing::new(DeliveryId(1), Chat::dm("7"), Purpose::Reply, &"ä".repeat(TEXT_BYTES_MAX));
        for _ in 0..10 {
            let _ = growing.push(&"ö".repeat(TEXT_BYTES_MAX));
        }
        assert!(growing.read().0.len() <= 2 * TEXT_BYTES_MAX);
    }
}
