//! One attached terminal: its frames in both directions until it disconnects.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use hermes_adapter_abi::{CALLS_MAX, status};
use hermes_protocol::{CallError, Emitted, Event, EventKind, host_method};
use serde_json::Value;
use tokio::{
    io::{AsyncRead, AsyncWrite, AsyncWriteExt},
    sync::{mpsc, oneshot},
};

use super::{Inner, OUT_MAX, USES, chat, operator};
use crate::ffi::Reply;
use crate::frame::{Frame, FrameKind};
use crate::services::error_json;
use crate::{Answer, PendingCall, frame};

/// The call that announces the disconnect to a terminal: `{"why"}`.
pub const LEAVE: &str = "leave";

/// Deadline for a terminal to read the waiting frames.
const WRITE_WAIT: Duration = Duration::from_secs(30);

/// Deadline of a farewell.
const FAREWELL_WAIT: Duration = Duration::from_secs(1);

/// The longest message id of a terminal, in characters.
const MESSAGE_ID_CHARS_MAX: usize = 64;

/// The connection to one terminal.
pub(super) struct Wire {
    out: mpsc::Sender<Frame>,
    pending: Mutex<Pending>,
    next: AtomicU64,
}

#[derive(Default)]
struct Pending {
    calls: BTreeMap<u64, oneshot::Sender<Answer>>,
    over: bool,
}

impl Wire {
    pub(super) fn new(out: mpsc::Sender<Frame>) -> Self {
        Self { out, pending: Mutex::default(), next: AtomicU64::new(1) }
    }

    /// Calls a method of the terminal. Never blocks. `None`: it has disconnected or reads too slowly.
    pub(super) fn call(self: &Arc<Self>, method: &str, payload: Vec<u8>) -> Option<PendingCall> {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let frame = Frame::call(id, method, payload);
        if !frame.fits() {
            return Some(PendingCall::answered(Answer::bare(status::ERR)));
        }
        let (tell, answer) = oneshot::channel();
        {
            let mut pending = self.pending();
            if pending.over || pending.calls.len() >= CALLS_MAX || self.out.try_send(frame).is_err() {
                return None;
            }
            pending.calls.insert(id, tell);
        }
        let wire = Arc::clone(self);
        Some(PendingCall::new(id, answer, move |id| {
            if wire.pending().calls.remove(&id).is_some() {
                // A full queue means that the terminal does not read; its end cancels everything.
                let _ = wire.out.try_send(Frame::cancel(id));
            }
        }))
    }

    fn pending(&self) -> MutexGuard<'_, Pending> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn answered(&self, id: u64, answer: Answer) {
        if let Some(tell) = self.pending().calls.remove(&id) {
            // The caller may be gone.
            let _ = tell.send(answer);
        }
    }

    /// Answers open calls with DROPPED and accepts no further ones.
    fn end(&self) {
        let mut pending = self.pending();
        pending.over = true;
        pending.calls.clear();
    }
}

/// A taken terminal slot. Dropping it releases the slot.
pub struct Seat {
    inner: Arc<Inner>,
    chat: String,
    wire: Arc<Wire>,
    queue: mpsc::Receiver<Frame>,
}

impl Seat {
    pub(super) fn new(inner: Arc<Inner>, chat: String, wire: Arc<Wire>, queue: mpsc::Receiver<Frame>) -> Self {
        Self { inner, chat, wire, queue }
    }

    /// Returns the id of its chat.
    pub fn chat(&self) -> &str {
        &self.chat
    }

    /// Carries frames until the terminal or the host disconnects. The terminal is reachable from here on.
    pub async fn run(mut self, mut reader: impl AsyncRead + Unpin, mut writer: impl AsyncWrite + Unpin) {
        self.inner.seats().taken.insert(self.chat.clone(), Some(Arc::clone(&self.wire)));
        self.inner.changed.send_replace(());
        let mut over = self.inner.over.subscribe();
        let why = tokio::select! {
            why = read_in(&mut reader, &self.inner, &self.wire, &self.chat) => why,
            why = write_out(&mut writer, &mut self.queue) => why,
            _ = over.wait_for(|over| *over) => None,
        };
        if let Some(why) = why {
            tracing::debug!(target: "plugins", chat = self.chat, "terminal detached: {why}");
            return;
        }
        let leaving = *self.inner.leaving.borrow();
        let payload = serde_json::json!({ "why": leaving }).to_string().into_bytes();
        let mut last: Vec<u8> = Vec::new();
        while let Ok(frame) = self.queue.try_recv() {
            frame.encode_into(&mut last);
        }
        Frame::call(0, LEAVE, payload).encode_into(&mut last);
        // A terminal that does not read it sees the end of the connection, which has nearly the same meaning.
        let _ = tokio::time::timeout(FAREWELL_WAIT, async {
            writer.write_all(&last).await?;
            writer.shutdown().await
        })
        .await;
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.wire.end();
        self.inner.seats().taken.remove(&self.chat);
        self.inner.changed.send_replace(());
    }
}

/// Writes the waiting frames together. Returns the reason of a failure.
async fn write_out(writer: &mut (impl AsyncWrite + Unpin), queue: &mut mpsc::Receiver<Frame>) -> Option<String> {
    while let Some(first) = queue.recv().await {
        let mut bytes = first.encode();
        while bytes.len() < frame::WRITE_BYTES_MAX
            && let Ok(frame) = queue.try_recv()
        {
            frame.encode_into(&mut bytes);
        }
        match tokio::time::timeout(WRITE_WAIT, writer.write_all(&bytes)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => return Some(error.to_string()),
            Err(_) => return Some("the terminal does not read".to_owned()),
        }
    }
    Some("the queue of the terminal is closed".to_owned())
}

/// Reads frames until the terminal disconnects. Returns the reason.
async fn read_in(
    reader: &mut (impl AsyncRead + Unpin),
    inner: &Arc<Inner>,
    wire: &Arc<Wire>,
    chat: &str,
) -> Option<String> {
    loop {
        let frame = match frame::read_async(reader).await {
            Ok(frame) => frame,
            Err(error) => return Some(error.to_string()),
        };
        match frame.kind {
            FrameKind::Reply => wire.answered(frame.id, Answer { status: frame.status, payload: frame.payload }),
            FrameKind::Call => {
                if wire.out.capacity() < OUT_MAX / 4 {
                    return Some("the terminal does not read its answers".to_owned());
                }
                called(inner, wire, chat, frame);
            }
            FrameKind::Cancel | FrameKind::Hello | FrameKind::Log | FrameKind::Other(_) => {}
        }
    }
}

/// Calls the host for a terminal, as the operator and in its own chat.
fn called(inner: &Arc<Inner>, wire: &Arc<Wire>, at: &str, frame: Frame) {
    let (id, out) = (frame.id, wire.out.clone());
    let back = move |status, payload| {
        let frame = Frame::reply(id, status, payload);
        let frame = if frame.fits() { frame } else { Frame::reply(id, status::ERR, Vec::new()) };
        // A full queue means that the terminal does not read; the reader ends it at its next call.
        let _ = out.try_send(frame);
    };
    let Some(port) = inner.port.get() else { return back(status::BUSY, Vec::new()) };
    let method = frame.method.as_str();
    let read = match method {
        host_method::EMIT => event(&frame.payload, at),
        method if USES.contains(&method) => as_operator(&frame.payload),
        _ => Err(CallError::new("unsupported", "a terminal cannot make this call")),
    };
    let payload = match read {
        Ok(payload) => payload,
        Err(error) => return back(status::ERR, error_json(&error)),
    };
    if method != host_method::EMIT {
        return port.call(method, payload, Reply::new(back));
    }
    let (inner, at) = (Arc::clone(inner), at.to_owned());
    let taken = move |status, payload: Vec<u8>| {
        match serde_json::from_slice(&payload) {
            Ok(Emitted::New { inbox_id } | Emitted::Duplicate { duplicate_of: inbox_id }) if status == status::OK => {
                inner.said(inbox_id, &at);
            }
            _ => {}
        }
        back(status, payload);
    };
    port.call(method, payload, Reply::new(taken));
}

/// Converts the event of a terminal, a text or an answer to a question, into an event of its own chat.
fn event(payload: &[u8], at: &str) -> Result<Vec<u8>, CallError> {
    let invalid = |why: String| CallError::new("invalid", why);
    let said: Event =
        serde_json::from_slice(payload).map_err(|error| invalid(format!("the event cannot be read: {error}")))?;
    let id = said.message_id.unwrap_or_default();
    let is_id = (1..=MESSAGE_ID_CHARS_MAX).contains(&id.len())
        && id.chars().all(|char| char.is_ascii_alphanumeric() || char == '-');
    if !is_id {
        return Err(invalid(format!("message_id must have 1 to {MESSAGE_ID_CHARS_MAX} letters, digits and `-`")));
    }
    // The id does not contain the slot: a message that is repeated in another slot after a restart is the same event.
    let mut event = Event::message(format!("m:{id}"), chat(at), operator(), said.text);
    event.message_id = Some(id);
    // The time is trusted: terminal and host run on the same machine for the same user.
    event.at_ms = said.at_ms;
    match said.kind {
        EventKind::Message => {}
        EventKind::Choice => {
            event.kind = EventKind::Choice;
            event.choice = said.choice;
        }
        other => return Err(invalid(format!("a terminal cannot emit events of the kind {other}"))),
    }
    serde_json::to_vec(&event).map_err(|error| invalid(error.to_string()))
}

/// Sets the operator as the sender of a call.
fn as_operator(payload: &[u8]) -> Result<Vec<u8>, CallError> {
    let invalid = |why: String| CallError::new("invalid", why);
    let mut call: Value =
        serde_json::from_slice(payload).map_err(|error| invalid(format!("the call cannot be read: {error}")))?;
    let fields = call.as_object_mut().ok_or_else(|| invalid("a call must be a JSON object".to_owned()))?;
    let operator = serde_json::to_value(operator()).map_err(|error| invalid(error.to_string()))?;
    fields.insert("sender".to_owned(), operator);
    serde_json::to_vec(&call).map_err(|error| invalid(error.to_string()))
}
