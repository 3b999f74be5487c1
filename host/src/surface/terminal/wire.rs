//! The terminal's side of its slot: the host's output, and calls to the host.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hermes_adapter_abi::status;
use hermes_protocol::{CallError, Emitted, Event, Outgoing, SendOutcome, TurnEventCall, host_method, method};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::io::{AsyncWriteExt, BufReader};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;

use crate::engine::operator::SeatInfo;
use crate::surface::control::{Client, ClientError, Seated};
use hermes_loader::frame;
use hermes_loader::frame::{Frame, FrameKind};
use hermes_loader::terminal::{LEAVE, Leaving};

/// Output of the host that may wait to be shown. Further frames are not read.
const NEWS_MAX: usize = 64;

/// Frames that may wait to be written.
const OUT_MAX: usize = 256;

/// Deadline of a call to the host.
const ANSWER_WAIT: Duration = Duration::from_secs(30);

/// The wait for the last messages to be written when the terminal leaves.
const LEAVE_WAIT: Duration = Duration::from_secs(2);

/// Output of the host.
#[derive(Debug)]
pub enum News {
    /// A delivery, with its call number.
    Delivery(u64, Box<Outgoing>),
    /// An event of a turn, with its call number.
    Turn(u64, TurnEventCall),
    /// The connection ended, with the reason if the host gave one.
    Over(Option<Leaving>),
}

/// A terminal slot, held until this is dropped.
pub struct Wire {
    /// The description of the slot.
    pub info: SeatInfo,
    asking: Asking,
    news: mpsc::Receiver<News>,
    /// Dropping the set ends the tasks.
    _tasks: JoinSet<()>,
}

/// The handle for calls to the host. Cheap to clone.
#[derive(Clone)]
pub struct Asking {
    out: mpsc::Sender<Out>,
    open: Arc<Open>,
}

/// An item for the writer task.
enum Out {
    Frame(Frame),
    /// Reports when everything before it was written.
    Flush(oneshot::Sender<()>),
}

#[derive(Default)]
struct Open {
    next: AtomicU64,
    calls: Mutex<Calls>,
}

#[derive(Default)]
struct Calls {
    waiting: BTreeMap<u64, oneshot::Sender<Answer>>,
    over: bool,
}

impl Open {
    fn calls(&self) -> MutexGuard<'_, Calls> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn end(&self) {
        let mut calls = self.calls();
        calls.over = true;
        calls.waiting.clear();
    }
}

/// Status and payload of an answer.
type Answer = (i32, Vec<u8>);

/// The receiver of an answer.
type Waiting = oneshot::Receiver<Answer>;

/// The farewell of a host.
#[derive(Deserialize)]
struct Farewell {
    why: Option<Leaving>,
}

impl Wire {
    /// Takes a slot of the running host of `home`.
    ///
    /// # Errors
    ///
    /// No host runs, or it gives no slot.
    pub async fn take(home: &Path, resume: Option<String>, once: bool) -> Result<Self, ClientError> {
        Ok(Self::over(Client::connect(home).await?.sit(resume, once).await?))
    }

    fn over(seated: Seated) -> Self {
        let Seated { info, reader, writer } = seated;
        let (out, queue) = mpsc::channel(OUT_MAX);
        let (tell, news) = mpsc::channel(NEWS_MAX);
        let open = Arc::new(Open::default());
        let mut tasks = JoinSet::new();
        tasks.spawn(write_out(writer, queue));
        tasks.spawn(read_in(reader, Arc::clone(&open), tell, out.clone()));
        Self { info, asking: Asking { out, open }, news, _tasks: tasks }
    }

    /// Waits for the next output of the host. Cancel-safe.
    pub async fn next(&mut self) -> News {
        self.news.recv().await.unwrap_or(News::Over(None))
    }

    /// Confirms that a delivery was shown.
    pub fn shown(&self, number: u64, now_ms: i64) {
        let outcome = SendOutcome::delivered(format!("t{number}"), now_ms);
        self.asking.reply(number, &outcome);
    }

    /// Confirms that an event of a turn was shown, which requests the next one.
    pub fn seen(&self, number: u64) {
        self.asking.reply(number, &json!({}));
    }

    /// Leaves after the waiting messages were written.
    pub async fn leave(self) {
        let (flushed, is_flushed) = oneshot::channel();
        if self.asking.out.send(Out::Flush(flushed)).await.is_ok() {
            // A host that does not read or is gone gets nothing more.
            let _ = tokio::time::timeout(LEAVE_WAIT, is_flushed).await;
        }
    }

    /// Returns the handle for calls to the host.
    pub fn asking(&self) -> &Asking {
        &self.asking
    }
}

impl Asking {
    /// Emits an event. The host receives events in the order of the calls.
    pub fn emit(&self, event: &Event) -> impl Future<Output = Result<Emitted, CallError>> + Send + use<> {
        let asked = self.begin(host_method::EMIT, event);
        async move { read(&answer(asked?).await?) }
    }

    /// Calls a method of the host.
    pub fn ask(&self, method: &str, call: &Value) -> impl Future<Output = Result<Value, CallError>> + Send + use<> {
        let asked = self.begin(method, call);
        async move { read(&answer(asked?).await?) }
    }

    fn begin(&self, method: &str, call: &impl serde::Serialize) -> Result<Waiting, CallError> {
        let payload = serde_json::to_vec(call).map_err(|error| CallError::new("invalid", error.to_string()))?;
        let id = self.open.next.fetch_add(1, Ordering::Relaxed);
        let frame = Frame::call(id, method, payload);
        if !frame.fits() {
            return Err(CallError::new("too_large", "the message is too long for the host"));
        }
        let (tell, answer) = oneshot::channel();
        let mut calls = self.open.calls();
        if calls.over || self.out.try_send(Out::Frame(frame)).is_err() {
            return Err(gone());
        }
        calls.waiting.insert(id, tell);
        Ok(answer)
    }

    fn reply(&self, number: u64, value: &impl serde::Serialize) {
        let payload = serde_json::to_vec(value).unwrap_or_default();
        // A full queue means that the host does not read, which ends the connection.
        let _ = self.out.try_send(Out::Frame(Frame::reply(number, status::OK, payload)));
    }
}

async fn answer(asked: Waiting) -> Result<Vec<u8>, CallError> {
    match tokio::time::timeout(ANSWER_WAIT, asked).await {
        Ok(Ok((status::OK, payload))) => Ok(payload),
        Ok(Ok((status::BUSY, _))) => Err(CallError::new("busy", "the host is overloaded")),
        Ok(Ok((_, payload))) => Err(read(&payload).unwrap_or_else(|error| error)),
        Ok(Err(_)) => Err(gone()),
        Err(_) => Err(CallError::new("timeout", "the host does not answer")),
    }
}

fn gone() -> CallError {
    CallError::new("unavailable", "lost the connection to the host")
}

fn read<T: DeserializeOwned>(payload: &[u8]) -> Result<T, CallError> {
    serde_json::from_slice(payload)
        .map_err(|error| CallError::new("invalid", format!("the answer of the host cannot be read: {error}")))
}

async fn write_out(mut writer: OwnedWriteHalf, mut queue: mpsc::Receiver<Out>) {
    while let Some(out) = queue.recv().await {
        match out {
            Out::Frame(frame) => {
                if writer.write_all(&frame.encode()).await.is_err() {
                    // The reader meets the same end.
                    return;
                }
            }
            // The caller may have stopped waiting.
            Out::Flush(done) => drop(done.send(())),
        }
    }
}

async fn read_in(
    mut reader: BufReader<OwnedReadHalf>,
    open: Arc<Open>,
    news: mpsc::Sender<News>,
    out: mpsc::Sender<Out>,
) {
    let why = loop {
        // Any read error ends the connection.
        let Ok(frame) = frame::read_async(&mut reader).await else { break None };
        match frame.kind {
            FrameKind::Reply => {
                if let Some(tell) = open.calls().waiting.remove(&frame.id) {
                    // The caller may have stopped waiting.
                    let _ = tell.send((frame.status, frame.payload));
                }
            }
            FrameKind::Call if frame.method == LEAVE => {
                let farewell: Result<Farewell, _> = serde_json::from_slice(&frame.payload);
                break farewell.ok().and_then(|farewell| farewell.why);
            }
            FrameKind::Call => match said(&frame) {
                Some(said) => {
                    if news.send(said).await.is_err() {
                        return;
                    }
                }
                None => {
                    let frame = Frame::reply(frame.id, status::UNSUPPORTED, Vec::new());
                    // The same as in `reply`: a full queue ends the connection.
                    let _ = out.try_send(Out::Frame(frame));
                }
            },
            FrameKind::Cancel | FrameKind::Log | FrameKind::Hello | FrameKind::Other(_) => {}
        }
    };
    open.end();
    // The conversation may have ended.
    let _ = news.send(News::Over(why)).await;
}

fn said(frame: &Frame) -> Option<News> {
    match frame.method.as_str() {
        method::SEND => Some(News::Delivery(frame.id, serde_json::from_slice(&frame.payload).ok()?)),
        method::TURN_EVENT => Some(News::Turn(frame.id, serde_json::from_slice(&frame.payload).ok()?)),
        _ => None,
    }
}
