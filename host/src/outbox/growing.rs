//! Messages that grow: what their turns write, and what their lane shows of it.
//!
//! The first piece is a part like any other, and so is the final text. What lies between
//! is shown by edits at the lane's own pace: never before what is owed, never against a
//! wait that the platform asked for, always the latest text, and lost without harm.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hermes_core::delivery::{Pace, PaceRule, preview};
use hermes_core::ids::DeliveryId;
use hermes_protocol::{Chat, Outgoing, Purpose, RefusalKind, SendOutcome, SentMessage, WaitScope};

use super::lane::{OutboxLane, Which};
use crate::host::Host;
use crate::plugins::AdapterHandle;
use crate::render::render;
use crate::store::{NewPart, OwedDelivery, PartState};

/// What is kept of a text that only has to be shown, in bytes; no platform shows more in one message.
const TEXT_BYTES_MAX: usize = 64 << 10;

/// How long an edit on the way may take; the final text waits behind it.
const EDIT: Duration = Duration::from_secs(5);

/// How long the last edit before the end of the host may take.
const PARKING_EDIT: Duration = Duration::from_millis(1_500);

/// How a message ends whose turn goes on in the next life of the host.
pub const PARKED: &str = "(interrupted, goes on after the restart)";

/// How long a platform that did not say how long waits for the next edit.
const WAIT_MS: i64 = 1_000;

/// No edit on the way makes its chat wait longer, whatever was said to it: the final text asks for itself.
const WAIT_MS_MAX: i64 = 10 * 60_000;

/// What one message says while it grows. Its turn writes, its lane reads.
#[derive(Debug)]
pub struct Growing {
    /// The delivery.
    pub id: DeliveryId,
    /// Where it is.
    pub chat: Chat,
    /// Why it is said.
    pub purpose: Purpose,
    said: Mutex<Said>,
}

#[derive(Debug, Default)]
struct Said {
    text: String,
    /// Characters ever written, also such that were replaced.
    chars: usize,
    /// Whether the lane knows that there is something to read.
    told: bool,
}

impl Growing {
    /// The growing message `id`, of which `text` was written.
    pub fn new(id: DeliveryId, chat: Chat, purpose: Purpose, text: &str) -> Arc<Self> {
        let said = Said { text: cut(text), chars: text.chars().count(), told: false };
        Arc::new(Self { id, chat, purpose, said: Mutex::new(said) })
    }

    /// Writes more. Returns whether the lane has to be told.
    #[must_use]
    pub fn push(&self, more: &str) -> bool {
        self.write(more.chars().count(), |text| {
            if text.len() < TEXT_BYTES_MAX {
                text.push_str(&cut(more));
            }
        })
    }

    /// Writes something else. Returns whether the lane has to be told.
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

    /// Characters ever written.
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

/// One growing message, as its lane knows it.
pub(super) struct Grown {
    text: Arc<Growing>,
    chat: Chat,
    pace: Pace,
    at: At,
    /// What it says on the platform, as far as that is certain.
    shown: Option<String>,
}

/// Where a growing message is.
#[derive(Debug, PartialEq)]
enum At {
    /// An earlier lane sent it; the store knows.
    Unread,
    /// Its first piece is on its way.
    Coming,
    /// There, as this message.
    There(String),
    /// It shows nothing more on the way: it cannot, or its final text is owed.
    Over,
}

/// The growing messages of one lane; one at most for each turn that runs there, and one with its progress.
pub(super) type GrowingMessages = BTreeMap<DeliveryId, Grown>;

impl Grown {
    fn new(text: Arc<Growing>, at: At, rule: PaceRule, now_ms: i64) -> Self {
        Self { chat: text.chat.clone(), text, pace: Pace::new(rule, now_ms), at, shown: None }
    }

    /// When it is to be shown next; `None` when there is nothing to show.
    fn due_ms(&self) -> Option<i64> {
        match self.at {
            At::Unread | At::There(_) => self.pace.due_ms(self.text.chars()),
            At::Coming | At::Over => None,
        }
    }
}

impl OutboxLane {
    /// Takes a growing message in whose first piece is about to be sent.
    pub(super) fn grow_from(&mut self, text: Arc<Growing>) {
        self.grow_at(text, At::Coming);
    }

    /// A growing message has something new.
    pub(super) fn look_at(&mut self, text: Arc<Growing>) {
        if !self.growing.contains_key(&text.id) {
            self.grow_at(text, At::Unread);
        }
    }

    fn grow_at(&mut self, text: Arc<Growing>, at: At) {
        let (rule, now_ms) = (self.host.live().pace(), self.host.now_ms());
        self.growing.insert(text.id, Grown::new(text, at, rule, now_ms));
    }

    /// The text of a growing message is final: nothing is shown on the way any more.
    pub(super) fn stop_growing(&mut self, id: DeliveryId) {
        if let Some(grown) = self.growing.get_mut(&id) {
            grown.at = At::Over;
        }
    }

    /// Nothing more is shown here on the way.
    pub(super) fn stop_all_growing(&mut self) {
        for grown in self.growing.values_mut() {
            grown.at = At::Over;
        }
    }

    /// What the end of a part means for a growing message: the first piece is there or not, or all is said.
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

    /// Whether the message of a delivery says exactly this.
    pub(super) fn says_already(&self, id: DeliveryId, text: &str) -> bool {
        self.growing.get(&id).and_then(|grown| grown.shown.as_deref()) == Some(text)
    }

    /// The chat of this lane moved.
    pub(super) fn move_growing(&mut self, to: &Chat) {
        for grown in self.growing.values_mut() {
            grown.chat.id.clone_from(&to.id);
            grown.chat.kind = to.kind.clone();
            // Under the new id its message is nobody's, or in time another one: the final text is sent anew.
            grown.at = At::Over;
        }
    }

    /// The growing message that is shown next, and when.
    pub(super) fn next_piece(&self, now_ms: i64) -> Option<(i64, DeliveryId)> {
        let due = self.growing.iter().filter_map(|(id, grown)| {
            let held = self.holds.until_ms(&self.target.instance, &grown.chat.id, now_ms);
            Some((grown.due_ms()?.max(held.unwrap_or(0)), *id))
        });
        due.min()
    }

    /// Shows what a growing message says by now.
    pub(super) async fn show_piece(&mut self, id: DeliveryId) {
        let Some(adapter) = self.host.adapter(&self.target.instance) else { return };
        // Nothing overtakes what is owed, or what has to be alone in flight.
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
        tracing::debug!(delivery = %id, ?outcome, "edited on the way");
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

    /// What follows from an edit on the way: only its receipt proves what is seen.
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
            // A later text may do better; nobody may lose the answer over this one.
            SendOutcome::Refused { kind: RefusalKind::TooLong | RefusalKind::BadFormat, .. } => {}
            SendOutcome::Refused { .. } => grown.at = At::Over,
            SendOutcome::NotSent { .. } => {}
            _ => grown.shown = None,
        }
    }

    /// Asks the store for the message of an earlier lane.
    async fn find_message(&mut self, id: DeliveryId) {
        if self.growing.get(&id).is_none_or(|grown| grown.at != At::Unread) {
            return;
        }
        let at = match self.host.store.delivery(id).await {
            Ok(Some(OwedDelivery { draft_message: Some(message), .. })) => At::There(message),
            Ok(Some(delivery)) if delivery.parts.iter().any(|part| !part.state.is_settled()) => At::Coming,
            Ok(_) => At::Over,
            Err(error) => {
                tracing::warn!(delivery = %id, %error, "a growing message cannot be read; its final text follows");
                At::Over
            }
        };
        if let Some(grown) = self.growing.get_mut(&id) {
            grown.at = at;
        }
    }
}

/// Lets a message that grew say that its turn goes on in the next life of the host.
///
/// It goes past the lane of its chat, which has ended by then: a hint, and nothing is owed for it. The turn's
/// final text takes its place.
pub async fn show_parked(host: &Host, adapter: &AdapterHandle, grown: &Growing, said: &str) {
    let there = match host.store.delivery(grown.id).await {
        Ok(delivery) => delivery.and_then(|delivery| delivery.draft_message),
        Err(error) => {
            tracing::warn!(delivery = %grown.id, %error, "a growing message cannot be read; it stays as it is");
            None
        }
    };
    let Some(message) = there.filter(|_| adapter.is_online()) else { return };
    let Some(part) = parked(adapter, said).await else { return };
    let message = SentMessage::new(grown.chat.clone(), message);
    let outgoing = outgoing(grown.id, grown.purpose.clone(), grown.chat.clone(), &part);
    let edit = tokio::time::timeout(PARKING_EDIT, adapter.edit(&message, &outgoing)).await;
    let outcome = edit.unwrap_or_else(|_| SendOutcome::unknown("not in time"));
    tracing::debug!(delivery = %grown.id, ?outcome, "says that it goes on after the restart");
}

/// What was said so far and that it goes on: one part, so less of the text where there is too much of it.
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

/// What one message shows of an unfinished text: as much as fits, with every fence closed.
pub async fn piece(adapter: &AdapterHandle, text: &str) -> Option<NewPart> {
    let text = preview(text);
    if text.trim().is_empty() {
        return None;
    }
    render(Some(adapter), &text, None, 0).await.into_iter().next()
}

/// An edit on the way as the adapter gets it.
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
