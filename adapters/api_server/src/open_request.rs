//! An open request: the host's messages about it, and its end.
//!
//! All events of a request are recorded here. [`OpenRequest::evaluate`] alone decides from them
//! whether the request has ended, and how. Readers follow at their own pace. Several
//! readers can follow the same request, if its idempotency key was sent repeatedly.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hermes_adapter_sdk::prelude::*;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::end::End;

/// The maximum size of text buffered for readers, in bytes. The host's replies are far below it.
const STREAM_BYTES_MAX: usize = 4 * 1024 * 1024;

/// The maximum number of progress lines buffered for readers.
const NOTES_MAX: usize = 1000;

/// The time that the reply waits for the end of the stream, which contains the usage.
const DONE_GRACE: Duration = Duration::from_secs(1);

/// The time that the end of the stream waits for the reply.
const REPLY_GRACE: Duration = Duration::from_secs(10);

/// The time that a failure waits for the host's message about it.
const ERROR_GRACE: Duration = Duration::from_secs(2);

/// A piece for a reader, in order.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Piece {
    /// A `metadata` or `progress` event of the host.
    Event(TurnEvent),
    /// More text.
    Text(String),
    /// The end; no piece follows.
    End(End),
}

/// The position of a reader.
#[derive(Default)]
pub(crate) struct Position {
    entry: usize,
    /// The number of bytes read of the text at `entry`.
    offset: usize,
}

/// The next action for a request.
#[derive(Debug, PartialEq)]
pub(crate) enum NextAction {
    /// Wait until this moment or the next change.
    Wait(Instant),
    /// The request has ended.
    End(End),
    /// The request has ended, and the agent should be stopped.
    Stop(End),
}

/// An open request.
pub(crate) struct OpenRequest {
    event_id: String,
    chat: Chat,
    /// True if the request has an idempotency key.
    has_key: bool,
    deadline: Instant,
    timeout: Duration,
    state: Mutex<State>,
    changed: watch::Sender<()>,
}

#[derive(Default)]
struct State {
    inbox_id: Option<i64>,
    confirmed: bool,
    repeated: bool,
    items: Vec<StreamItem>,
    /// The whole text of the stream.
    streamed: String,
    notes: usize,
    model: String,
    /// The number of the last stream event.
    seq: u64,
    /// True if a stream event is missing, so that the text of the stream is incomplete.
    gap: bool,
    parts: Vec<(u32, String)>,
    reply: Option<(String, Instant)>,
    notice: Option<String>,
    error: Option<(End, Instant)>,
    done: Option<(String, Usage, Instant)>,
    end: Option<End>,
    readers: usize,
    delivered: bool,
}

enum StreamItem {
    Event(TurnEvent),
    Text(String),
}

impl OpenRequest {
    /// Creates an open request.
    pub(crate) fn new(event_id: String, chat: Chat, has_key: bool, timeout: Duration) -> Self {
        Self {
            event_id,
            chat,
            has_key,
            deadline: Instant::now() + timeout,
            timeout,
            state: Mutex::default(),
            changed: watch::Sender::new(()),
        }
    }

    /// Creates a request whose answer is known already.
    pub(crate) fn ended(event_id: String, chat: Chat, end: End) -> Self {
        let turn = Self::new(event_id, chat, true, Duration::ZERO);
        turn.confirm(None, false);
        turn.end(end);
        turn
    }

    /// Returns the id of the event.
    pub(crate) fn event_id(&self) -> &str {
        &self.event_id
    }

    /// Returns the chat.
    pub(crate) fn chat(&self) -> &Chat {
        &self.chat
    }

    /// Returns whether the request has an idempotency key.
    pub(crate) fn has_key(&self) -> bool {
        self.has_key
    }

    /// Returns the `inbox_id` of the event, after the host has confirmed it.
    pub(crate) fn inbox_id(&self) -> Option<i64> {
        self.lock().inbox_id
    }

    /// Records the host's confirmation of the event, or its absence; `repeated` if the host had the event before.
    pub(crate) fn confirm(&self, inbox_id: Option<i64>, repeated: bool) {
        self.change(|state| {
            state.inbox_id = inbox_id;
            state.repeated = repeated;
            state.confirmed = true;
        });
    }

    /// Records an event of the stream. Returns whether a reader is connected.
    pub(crate) fn stream(&self, seq: u64, event: TurnEvent) -> bool {
        self.change(|state| {
            if state.end.is_some() || seq <= state.seq {
                return;
            }
            state.gap |= seq != state.seq + 1;
            state.seq = seq;
            match event {
                TurnEvent::Metadata { ref model, .. } => {
                    state.model.clone_from(model);
                    state.items.push(StreamItem::Event(event));
                }
                TurnEvent::Progress { .. } => state.note(event),
                TurnEvent::Chunk { text } => state.chunk(&text),
                TurnEvent::Error { code, message, retryable } => {
                    let status = if code == "runtime_timeout" { 504 } else { 502 };
                    let end = End::Failed { status, code, message, retryable, of_host: true };
                    state.error = Some((end, Instant::now()));
                }
                TurnEvent::Done { finish_reason, usage } => state.done = Some((finish_reason, usage, Instant::now())),
                _ => {}
            }
        });
        self.has_key || self.lock().readers > 0
    }

    /// Records one part of the reply.
    pub(crate) fn part(&self, part: u32, of: u32, text: &str) {
        self.change(|state| {
            if state.reply.is_some() || state.end.is_some() {
                return;
            }
            state.parts.retain(|(number, _)| *number != part);
            state.parts.push((part, text.to_owned()));
            if state.parts.len() >= of as usize {
                state.parts.sort_unstable_by_key(|(number, _)| *number);
                let parts: Vec<String> = std::mem::take(&mut state.parts).into_iter().map(|(_, text)| text).collect();
                state.reply = Some((parts.join("\n\n"), Instant::now()));
            }
        });
    }

    /// Records a message that is not the reply. Returns whether a reader is connected.
    pub(crate) fn notice(&self, text: &str, answers_event: bool) -> bool {
        self.change(|state| {
            state.note(TurnEvent::Progress { stage: "notice".to_owned(), text: text.to_owned(), tool: None });
            if answers_event {
                state.notice = Some(text.to_owned());
            }
        });
        let state = self.lock();
        state.end.is_none() && state.readers > 0
    }

    /// Returns whether a notice answered the event before any turn has started.
    pub(crate) fn answered_by_notice(&self) -> bool {
        let state = self.lock();
        state.notice.is_some() && state.seq == 0 && state.reply.is_none()
    }

    /// Returns the end of a request that the host reports as finished without a reply.
    pub(crate) fn missing_answer(&self) -> End {
        let state = self.lock();
        match &state.notice {
            Some(notice) => End::Failed {
                status: 503,
                code: "not_answered".to_owned(),
                message: notice.clone(),
                retryable: true,
                of_host: true,
            },
            None if state.repeated => End::failed(
                409,
                "already_answered",
                "this request was already answered, and the answer is no longer stored here; find it in the session",
            ),
            None => End::failed(
                403,
                "not_admitted",
                "the host ended this request without an answer; if this happens to every request, the operator must \
                 set trust_upstream = true for this adapter",
            ),
        }
    }

    /// Decides from all recorded events whether the request has ended.
    pub(crate) fn evaluate(&self, now: Instant) -> NextAction {
        let state = self.lock();
        if let Some(end) = &state.end {
            return NextAction::End(end.clone());
        }
        let answered = |text: String| {
            let (finish_reason, usage) = match &state.done {
                Some((finish_reason, usage, _)) => (finish_reason.clone(), *usage),
                None => ("stop".to_owned(), Usage::default()),
            };
            End::Answered { text, finish_reason, usage, model: state.model.clone() }
        };
        let mut wake = self.deadline;
        if let Some((error, at)) = &state.error {
            if state.reply.is_some() || now >= *at + ERROR_GRACE {
                return NextAction::End(error.clone());
            }
            wake = wake.min(*at + ERROR_GRACE);
        } else if let Some((reply, at)) = &state.reply {
            if state.done.is_some() || state.seq == 0 || now >= *at + DONE_GRACE {
                return NextAction::End(answered(reply.clone()));
            }
            wake = wake.min(*at + DONE_GRACE);
        } else if let Some((finish_reason, _, at)) = &state.done {
            match finish_reason.as_str() {
                "silent" => return NextAction::End(answered(String::new())),
                "stopped" => return NextAction::End(answered(state.streamed.clone())),
                _ if now >= *at + REPLY_GRACE => return NextAction::End(answered(state.streamed.clone())),
                _ => wake = wake.min(*at + REPLY_GRACE),
            }
        }
        if state.readers == 0 && !self.has_key {
            return NextAction::Stop(End::failed(499, "requester_gone", "the client has disconnected"));
        }
        if now >= self.deadline {
            let message = format!(
                "no answer within {} seconds; the operator can raise request_timeout_s",
                self.timeout.as_secs()
            );
            return NextAction::Stop(End::failed(504, "request_timeout", message));
        }
        NextAction::Wait(wake)
    }

    /// Ends the request. Returns whether a reader is connected.
    pub(crate) fn end(&self, end: End) -> bool {
        self.change(|state| {
            if state.end.is_some() {
                return;
            }
            if let End::Answered { text, .. } = &end {
                let tail = tail(&state.streamed, text, !state.gap && state.done.is_some());
                state.push_text(&tail);
            }
            state.end = Some(end);
        });
        self.lock().readers > 0
    }

    /// Returns a receiver that changes with every recorded event.
    pub(crate) fn watch(&self) -> watch::Receiver<()> {
        self.changed.subscribe()
    }

    /// Waits until the reply is read (`true`) or certainly will not be (`false`).
    pub(crate) async fn reply_delivered(&self) -> bool {
        let mut changed = self.watch();
        loop {
            changed.borrow_and_update();
            {
                let state = self.lock();
                if let Some(end) = &state.end {
                    if !end.delivers_reply() {
                        return false;
                    }
                    if state.delivered || state.readers == 0 {
                        return state.delivered;
                    }
                }
            }
            if changed.changed().await.is_err() {
                return false;
            }
        }
    }

    /// Adds a reader, and returns a receiver that changes with every recorded event.
    pub(crate) fn add_reader(&self) -> watch::Receiver<()> {
        self.change(|state| state.readers += 1);
        self.watch()
    }

    /// Removes a reader. After the last reader of a request that has ended, returns whether a reader has read the
    /// host's reply.
    pub(crate) fn remove_reader(&self) -> Option<bool> {
        let mut delivered = None;
        self.change(|state| {
            state.readers -= 1;
            if state.readers == 0 {
                delivered = state.end.as_ref().map(|end| state.delivered && end.delivers_reply());
            }
        });
        delivered
    }

    /// Returns whether the host has the event, or the request has ended without it.
    pub(crate) fn is_confirmed(&self) -> bool {
        let state = self.lock();
        state.confirmed || state.end.is_some()
    }

    /// Returns the end, if the request has ended.
    pub(crate) fn end_so_far(&self) -> Option<End> {
        self.lock().end.clone()
    }

    /// Returns the piece at `position`, and moves the position behind it. The end is returned repeatedly.
    pub(crate) fn piece(&self, position: &mut Position) -> Option<Piece> {
        let state = self.lock();
        while let Some(item) = state.items.get(position.entry) {
            match item {
                StreamItem::Event(event) => {
                    position.entry += 1;
                    return Some(Piece::Event(event.clone()));
                }
                StreamItem::Text(text) if position.offset < text.len() => {
                    let piece = text[position.offset..].to_owned();
                    position.offset = text.len();
                    return Some(Piece::Text(piece));
                }
                // Text grows only in the last entry.
                StreamItem::Text(_) if position.entry + 1 < state.items.len() => {
                    position.entry += 1;
                    position.offset = 0;
                }
                StreamItem::Text(_) => break,
            }
        }
        state.end.clone().map(Piece::End)
    }

    /// Records that a reader has read the host's reply.
    pub(crate) fn mark_delivered(&self) {
        self.change(|state| state.delivered = true);
    }

    fn change(&self, work: impl FnOnce(&mut State)) {
        work(&mut self.lock());
        self.changed.send_replace(());
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn note(&mut self, event: TurnEvent) {
        if self.notes < NOTES_MAX {
            self.notes += 1;
            self.items.push(StreamItem::Event(event));
        }
    }

    fn chunk(&mut self, text: &str) {
        // After a gap the text would be incomplete; the reply contains the whole text.
        if self.gap || self.streamed.len() + text.len() > STREAM_BYTES_MAX {
            self.gap = true;
            return;
        }
        self.streamed.push_str(text);
        self.push_text(text);
    }

    fn push_text(&mut self, text: &str) {
        if text.is_empty() {
            return;
        }
        match self.items.last_mut() {
            Some(StreamItem::Text(last)) => last.push_str(text),
            _ => self.items.push(StreamItem::Text(text.to_owned())),
        }
    }
}

/// Returns the part of the reply that the stream has not sent. The rendered reply may
/// differ from a complete stream in its markup only; it is not sent again then.
fn tail(streamed: &str, reply: &str, whole: bool) -> String {
    match reply.strip_prefix(streamed) {
        Some(rest) => rest.to_owned(),
        None if whole => String::new(),
        None => format!("\n\n{reply}"),
    }
}

#[cfg(test)]
mod tests;
