//! The hints of a running turn for its chat: its native stream, an unsent draft, and the typing sign.
//!
//! Hints go straight to the adapter, are never owed and may be lost. A hint never blocks the lane: each turn has at
//! most one task for its stream and one for the typing sign, and both end with the turn.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hermes_core::delivery::{PreviewPace, PreviewRule};
use hermes_core::ids::InboxId;
use hermes_protocol::{CallError, Chat, DraftCall, TurnEvent, TurnEventCall, TypingCall, method};
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::hint_line::HintLine;
use crate::engine::outbox::HintKind;
use crate::engine::outbox::growing::piece;
use hermes_loader::AdapterHandle;

/// Events of one turn that may wait for their reader; text chunks are joined, so they count as one.
const STREAM_EVENTS_MAX: usize = 64;

/// The longest kept text of a draft, in bytes; no platform shows more.
const DRAFT_BYTES_MAX: usize = 64 << 10;

/// The delay of the typing sign: a quicker answer needs none.
const TYPING_AFTER: Duration = Duration::from_millis(150);

/// The interval of the typing sign: platforms hide it after five seconds or more.
const TYPING_EVERY: Duration = Duration::from_secs(4);

/// The native stream of one turn, as its lane holds it.
pub struct NativeStream {
    shared: Arc<Shared>,
}

struct Shared {
    waiting: Mutex<Waiting>,
    woken: Notify,
}

#[derive(Default)]
struct Waiting {
    events: VecDeque<TurnEvent>,
    closed: bool,
}

impl NativeStream {
    /// Starts the stream that the event `inbox` requested.
    pub fn start(adapter: AdapterHandle, inbox: InboxId) -> Self {
        let shared = Arc::new(Shared { waiting: Mutex::default(), woken: Notify::new() });
        tokio::spawn(carry(adapter, inbox, Arc::clone(&shared)));
        Self { shared }
    }

    /// Adds an event; never waits.
    pub fn push(&self, event: TurnEvent) {
        self.shared.locked(|waiting| waiting.push(event));
        self.shared.woken.notify_one();
    }

    /// Ends the stream with `last`; unread text of the answer is not shown.
    pub fn cut(&self, last: TurnEvent) {
        self.shared.locked(|waiting| {
            waiting.events.retain(|event| matches!(event, TurnEvent::Metadata { .. }));
            waiting.push(last);
        });
        self.shared.woken.notify_one();
    }
}

impl Drop for NativeStream {
    fn drop(&mut self) {
        self.shared.locked(|waiting| waiting.closed = true);
        self.shared.woken.notify_one();
    }
}

impl Shared {
    fn locked<T>(&self, work: impl FnOnce(&mut Waiting) -> T) -> T {
        work(&mut self.waiting.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Waiting {
    fn push(&mut self, event: TurnEvent) {
        if let (Some(TurnEvent::Chunk { text }), TurnEvent::Chunk { text: more }) = (self.events.back_mut(), &event) {
            text.push_str(more);
            return;
        }
        if self.events.len() >= STREAM_EVENTS_MAX {
            // Text and endings are kept; old progress is dropped.
            self.events.retain(|event| !matches!(event, TurnEvent::Progress { .. }));
            self.join_chunks();
        }
        self.events.push_back(event);
    }

    fn join_chunks(&mut self) {
        let events = std::mem::take(&mut self.events);
        for event in events {
            match (self.events.back_mut(), event) {
                (Some(TurnEvent::Chunk { text }), TurnEvent::Chunk { text: more }) => text.push_str(&more),
                (_, event) => self.events.push_back(event),
            }
        }
    }
}

/// Sends the events in order, one in flight, until the last one or until the turn is gone.
async fn carry(adapter: AdapterHandle, inbox: InboxId, shared: Arc<Shared>) {
    for seq in 1.. {
        let event = loop {
            match shared.locked(|waiting| (waiting.events.pop_front(), waiting.closed)) {
                (Some(event), _) => break event,
                (None, true) => return,
                (None, false) => shared.woken.notified().await,
            }
        };
        let last = event.is_last();
        let call = TurnEventCall::new(inbox.0, seq, event);
        let payload = serde_json::to_vec(&call).expect("a turn event is always JSON");
        if let Err(error) = adapter.hint(method::TURN_EVENT, payload).await {
            tracing::debug!(instance = %adapter.instance(), inbox = inbox.0, seq, %error, "stream event rejected");
        }
        if last {
            return;
        }
    }
}

/// An answer that is shown as an unsent draft until this is dropped.
pub struct Unsent {
    shared: Arc<UnsentText>,
    _on: DropGuard,
}

#[derive(Default)]
struct UnsentText {
    text: Mutex<(String, usize)>,
    woken: Notify,
    failed: AtomicBool,
    told: Notify,
}

impl Unsent {
    /// Shows drafts in `chat` at this pace.
    pub fn start(line: HintLine, chat: Chat, rule: PreviewRule) -> Self {
        let (shared, ended) = (Arc::<UnsentText>::default(), CancellationToken::new());
        tokio::spawn(show_drafts(line, chat, rule, Arc::clone(&shared), ended.clone()));
        Self { shared, _on: ended.drop_guard() }
    }

    /// Returns whether the platform refuses drafts, so that the answer has to be shown in another way.
    pub fn has_failed(&self) -> bool {
        self.shared.failed.load(Ordering::Relaxed)
    }

    /// Waits until the platform has refused a draft. Cancel-safe, for one waiter.
    pub async fn failed(&self) {
        if !self.has_failed() {
            self.shared.told.notified().await;
        }
    }

    /// Appends text; never waits.
    pub fn push(&self, more: &str) {
        self.shared.write(more, |text| {
            if text.len() < DRAFT_BYTES_MAX {
                text.push_str(more);
            }
        });
    }

    /// Replaces the text.
    pub fn begin_anew(&self, with: &str) {
        self.shared.write(with, |text| with.clone_into(text));
    }
}

impl UnsentText {
    fn write(&self, more: &str, change: impl FnOnce(&mut String)) {
        let mut text = self.text.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut text.0);
        text.1 += more.chars().count();
        drop(text);
        self.woken.notify_one();
    }

    fn read(&self) -> (String, usize) {
        self.text.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

async fn show_drafts(line: HintLine, chat: Chat, rule: PreviewRule, shared: Arc<UnsentText>, ended: CancellationToken) {
    let began = Instant::now();
    let now_ms = || i64::try_from(began.elapsed().as_millis()).unwrap_or(i64::MAX);
    let mut pace = PreviewPace::new(rule, 0);
    let mut shown = String::new();
    loop {
        let (text, chars) = shared.read();
        let wait = pace.due_ms(chars).map(|due_ms| u64::try_from(due_ms.saturating_sub(now_ms())).unwrap_or(0));
        let next = async {
            match wait {
                Some(wait_ms) => tokio::time::sleep(Duration::from_millis(wait_ms)).await,
                None => shared.woken.notified().await,
            }
        };
        if ended.run_until_cancelled(next).await.is_none() {
            break;
        }
        if pace.due_ms(chars).is_none_or(|due_ms| due_ms > now_ms()) {
            continue;
        }
        if line.is_held(&chat.id) {
            pace.slow_down(now_ms());
            continue;
        }
        pace.shown(now_ms(), chars);
        let Some(piece) = piece(line.adapter(), &text).await.filter(|piece| piece.source != shown) else { continue };
        if let Err(error) = draft(&line, &chat, &piece.source).await {
            tracing::debug!(instance = %line.adapter().instance(), %error, "draft rejected");
            shared.failed.store(true, Ordering::Relaxed);
            shared.told.notify_one();
            break;
        }
        shown = piece.source;
    }
    if !shown.is_empty()
        && let Err(error) = draft(&line, &chat, "").await
    {
        tracing::debug!(instance = %line.adapter().instance(), %error, "draft could not be removed");
    }
}

async fn draft(line: &HintLine, chat: &Chat, text: &str) -> Result<Vec<u8>, CallError> {
    let call = serde_json::to_vec(&DraftCall::new(chat.clone(), text)).expect("a draft call is always JSON");
    line.call(&chat.id, method::DRAFT, call).await
}

/// The typing sign of a chat, shown until this is dropped.
pub struct Typing {
    _on: DropGuard,
}

impl Typing {
    /// Shows the typing sign in `chat` if the turn lasts long enough.
    pub fn start(line: HintLine, chat: Chat) -> Self {
        let ended = CancellationToken::new();
        tokio::spawn(keep_typing(line, chat, ended.clone()));
        Self { _on: ended.drop_guard() }
    }
}

async fn keep_typing(line: HintLine, chat: Chat, ended: CancellationToken) {
    let mut wait = TYPING_AFTER;
    let mut shown = false;
    while ended.run_until_cancelled(tokio::time::sleep(wait)).await.is_some() {
        wait = TYPING_EVERY;
        match ended.run_until_cancelled(line.ready(HintKind::Typing, &chat.id)).await {
            Some(true) => {
                shown = true;
                type_once(&line, &chat, true).await;
            }
            Some(false) => {}
            None => break,
        }
    }
    if shown && !line.is_held(&chat.id) {
        type_once(&line, &chat, false).await;
    }
}

async fn type_once(line: &HintLine, chat: &Chat, on: bool) {
    let payload = serde_json::to_vec(&TypingCall::new(chat.clone(), on)).expect("a typing call is always JSON");
    if let Err(error) = line.call(&chat.id, method::TYPING, payload).await {
        tracing::debug!(instance = %line.adapter().instance(), %error, "typing sign rejected");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunk(text: &str) -> TurnEvent {
        TurnEvent::Chunk { text: text.to_owned() }
    }

    fn progress(text: &str) -> TurnEvent {
        TurnEvent::Progress { stage: "tool".to_owned(), text: text.to_owned(), tool: None }
    }

    #[test]
    fn unread_chunks_are_joined_and_keep_their_place() {
        let mut waiting = Waiting::default();
        for event in [chunk("a"), chunk("b"), progress("p"), chunk("c"), chunk("d")] {
            waiting.push(event);
        }
        assert_eq!(Vec::from(waiting.events), [chunk("ab"), progress("p"), chunk("cd")]);
    }

    #[test]
    fn a_reader_that_never_reads_costs_bounded_room_and_loses_no_text() {
        let mut waiting = Waiting::default();
        for n in 0..1_000 {
            waiting.push(chunk(&format!("{n} ")));
            waiting.push(progress("p"));
        }
        assert!(waiting.events.len() <= STREAM_EVENTS_MAX);
        let text: String = waiting
            .events
            .iter()
            .filter_map(|event| match event {
                TurnEvent::Chunk { text } => Some(text.as_str()),
                _ => None,
            })
            .collect();
        assert_eq!(text, (0..1_000).map(|n| format!("{n} ")).collect::<String>());
    }
}
