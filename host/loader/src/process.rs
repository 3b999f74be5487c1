//! The link to an instance in a process of its own: frames.
//!
//! One task writes, one reads. If the child dies, a call whose frame was not started is answered BUSY, because it had
//! no effect; a started call is answered DROPPED. The child's process group is killed when its socket closes, on either
//! side.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    os::{fd::OwnedFd, unix::process::ExitStatusExt},
    path::PathBuf,
    process::{Child, Command, ExitStatus, Stdio},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use futures_util::future::BoxFuture;
use hermes_adapter_abi::{CALLS_MAX, status};
use hermes_protocol::Manifest;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions};
use serde::{Deserialize, Serialize};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::{
        UnixStream,
        unix::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::{mpsc, oneshot, watch},
};

use super::{
    AdapterLink, Answer, Destroyed, Isolation, LoadError, PendingCall,
    frame::{self, Frame, FrameKind, PROTOCOL},
    runner::{CONFINED, SUBCOMMAND},
    said, spawn,
};
use crate::ffi::{HostPort, Reply};
use hermes_core::text::one_line;

/// Frames that may wait to be written. A child that reads too slowly for this is ended.
const OUT_MAX: usize = 1024;
/// The heartbeat method of a child. A child that does not know it still answers.
pub(super) const PING: &str = "ping";
/// Method that asks the instance in a child to end; `{"deadline_ms"}`.
pub(super) const SHUTDOWN: &str = "shutdown";
/// Time in which a child that closed its socket may exit by itself, so that its own exit status is reported.
const GRACE: Duration = Duration::from_millis(500);
/// Time in which a killed child has to be gone.
const REAP: Duration = Duration::from_secs(2);
/// The longest last line of a child that did not start, in characters.
const LAST_WORDS_CHARS_MAX: usize = 300;

/// The part of one line of a child's error output that is read, in bytes.
const STDERR_LINE_MAX: u64 = 8 * 1024;
/// The log level of a child's error output: info.
const STDERR_LEVEL: u8 = 3;

/// The command of a child.
pub(super) struct ChildSpec {
    /// Program and arguments.
    pub(super) command: Vec<OsString>,
    /// Its complete environment.
    pub(super) env: Vec<(OsString, OsString)>,
    /// Its working folder. `None`: the working folder of the host.
    pub(super) folder: Option<PathBuf>,
}

/// The first message of the host.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct HostHello {
    /// Version of the frames.
    pub(super) protocol: u32,
    /// The argument of `create`, unchanged.
    pub(super) envelope: serde_json::Value,
    /// Deadline of `create`, in milliseconds.
    pub(super) create_ms: u64,
    /// The most verbose level that is recorded.
    pub(super) log_level: u8,
    /// The file that refusals name.
    pub(super) origin: String,
}

/// The first message of the adapter, once its instance is created.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct AdapterHello {
    /// Version of the frames.
    pub(super) protocol: u32,
    /// Its manifest.
    pub(super) manifest: Manifest,
}

/// The link to an instance in a child.
pub(super) struct ProcessLink {
    out: mpsc::Sender<Out>,
    pending: Arc<Mutex<Pending>>,
    next: AtomicU64,
    closed: watch::Receiver<Option<String>>,
    end: watch::Sender<bool>,
    /// The sandbox restrictions that the child reported; `None` if it reported none.
    confined: Option<String>,
}

/// An item for the writer task.
enum Out {
    Frame(Frame),
    /// The frame of a call, which may have an effect once its first byte is written.
    Call(Frame),
}

#[derive(Default)]
struct Pending {
    calls: BTreeMap<u64, PendingAnswer>,
    over: bool,
}

struct PendingAnswer {
    tell: oneshot::Sender<Answer>,
    begun: bool,
}

impl Pending {
    fn answer(&mut self, id: u64, answer: Answer) {
        if let Some(waiting) = self.calls.remove(&id) {
            // If the receiver is gone, the caller has cancelled.
            let _ = waiting.tell.send(answer);
        }
    }

    fn end(&mut self) {
        self.over = true;
        for waiting in std::mem::take(&mut self.calls).into_values() {
            let status = if waiting.begun { status::DROPPED } else { status::BUSY };
            // The same as above.
            let _ = waiting.tell.send(Answer::bare(status));
        }
    }
}

fn lock(pending: &Mutex<Pending>) -> std::sync::MutexGuard<'_, Pending> {
    pending.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A child with an open socket, before either side sent `hello`.
pub(super) struct Started {
    stream: UnixStream,
    child: Child,
}

/// Starts a child with a clean environment and one socket. The child gets no process group here, because the runner
/// creates its own session and a group leader cannot.
pub(super) async fn start(spec: &ChildSpec) -> std::io::Result<Started> {
    let (program, arguments) =
        spec.command.split_first().ok_or_else(|| std::io::Error::other("the path of this program is unknown"))?;
    let (ours, theirs) = std::os::unix::net::UnixStream::pair()?;
    ours.set_nonblocking(true)?;
    let mut command = Command::new(program);
    if let Some(folder) = &spec.folder {
        command.current_dir(folder);
    }
    command
        .args(arguments)
        .env_clear()
        .envs(spec.env.iter().map(|(name, value)| (name, value)))
        .stdin(Stdio::from(OwnedFd::from(theirs)))
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let stream = UnixStream::from_std(ours)?;
    let child = spawn::spawn(command).await?;
    Ok(Started { stream, child })
}

impl Started {
    /// Sends one question, reads one answer and ends the child.
    pub(super) async fn ask(mut self, question: Option<Frame>, deadline: Duration) -> Result<Frame, String> {
        let asked = async {
            if let Some(question) = question {
                // The read below detects a child that is gone; the deadline ends a child that does not read.
                let _ = self.stream.write_all(&question.encode()).await;
            }
            frame::read_async(&mut self.stream).await
        };
        let read = tokio::time::timeout(deadline, asked).await;
        let grace = if matches!(read, Ok(Err(frame::FrameError::Closed))) { GRACE } else { Duration::ZERO };
        let said = self.child.stderr.take().map(|stderr| tell_stderr(stderr, |_| {}));
        let ended = with_last_words(reap(self.child, grace).await, said).await;
        match read {
            Ok(Ok(frame)) => Ok(frame),
            Ok(Err(frame::FrameError::Closed)) => Err(ended),
            Ok(Err(error)) => Err(error.to_string()),
            Err(_) => Err(format!("no answer within {} s", deadline.as_secs_f32())),
        }
    }

    /// Sends a file and closes the write side, reads the answer until the socket closes, and ends the child. Returns
    /// the part of the answer that arrived, and the end of the child in words.
    pub(super) async fn exchange(
        mut self,
        question: std::fs::File,
        answer_bytes_max: u64,
        deadline: Duration,
    ) -> (Vec<u8>, String) {
        let mut answer = Vec::new();
        let talk = async {
            let mut question = tokio::fs::File::from_std(question);
            // The read below detects a child that is gone; the deadline ends a child that does not read.
            let _ = tokio::io::copy(&mut question, &mut self.stream).await;
            let _ = self.stream.shutdown().await;
            (&mut self.stream).take(answer_bytes_max).read_to_end(&mut answer).await
        };
        let in_time = matches!(tokio::time::timeout(deadline, talk).await, Ok(Ok(_)));
        drop(self.child.stderr.take());
        let ended = reap(self.child, if in_time { GRACE } else { Duration::ZERO }).await;
        (answer, if in_time { ended } else { format!("{ended} at the deadline") })
    }

    /// Sends `hello`, waits for the adapter's, and creates a link.
    pub(super) async fn link(
        mut self,
        instance: &str,
        hello: &HostHello,
        port: Arc<dyn HostPort>,
        deadline: Duration,
    ) -> Result<(ProcessLink, Manifest), LoadError> {
        let told = Arc::clone(&port);
        let heard = Arc::clone(&port);
        let said = self.child.stderr.take().map(|stderr| {
            tell_stderr(stderr, move |line| {
                heard.log(STDERR_LEVEL, "stderr", &serde_json::json!({ "message": line }).to_string());
            })
        });
        let payload = serde_json::to_vec(hello).expect("a hello has string keys only");
        let shaken = tokio::time::timeout(deadline, shake_hands(&mut self.stream, payload, &*told)).await;
        let failed = |why: String| LoadError::ProcessFailed { instance: instance.to_owned(), why };
        let refused = match shaken {
            Ok(Ok((manifest, confined))) => return Ok((ProcessLink::new(self, port, confined), manifest)),
            Ok(Err(refused)) => refused,
            Err(_) => Refused::Other(format!("no `hello` within {} s", deadline.as_secs_f32())),
        };
        let grace = if matches!(refused, Refused::Gone) { GRACE } else { Duration::ZERO };
        let ended = reap(self.child, grace).await;
        Err(match refused {
            Refused::Load(error) => error,
            Refused::Gone => failed(with_last_words(ended, said).await),
            Refused::Other(why) => failed(why),
        })
    }
}

enum Refused {
    Load(LoadError),
    Gone,
    Other(String),
}

/// Waits for the adapter's `hello`. Also returns the sandbox restrictions that the runner reported. Only the first
/// report counts, because later ones may come from the library.
async fn shake_hands(
    stream: &mut UnixStream,
    payload: Vec<u8>,
    port: &dyn HostPort,
) -> Result<(Manifest, Option<String>), Refused> {
    let mut confined = None;
    // A child that ends before it reads is reported below, by its output or its exit status.
    let _ = stream.write_all(&Frame::hello(status::OK, payload).encode()).await;
    loop {
        let frame = frame::read_async(stream).await.map_err(|error| match error {
            frame::FrameError::Closed => Refused::Gone,
            other => Refused::Other(other.to_string()),
        })?;
        match frame.kind {
            FrameKind::Hello if frame.status == status::OK => {
                let hello: AdapterHello = serde_json::from_slice(&frame.payload)
                    .map_err(|error| Refused::Other(format!("the `hello` cannot be read: {error}")))?;
                if hello.protocol != PROTOCOL {
                    return Err(Refused::Other(format!(
                        "the program uses frame protocol {}, but this host uses {PROTOCOL}",
                        hello.protocol
                    )));
                }
                return Ok((hello.manifest, confined));
            }
            FrameKind::Hello => {
                let error = serde_json::from_slice(&frame.payload);
                return Err(error.map_or_else(
                    |_| Refused::Other("the program refused without a reason".to_owned()),
                    Refused::Load,
                ));
            }
            FrameKind::Log => {
                tell_record(&frame, port);
                if frame.method == SUBCOMMAND && confined.is_none() {
                    confined = confined_of(&frame.payload);
                }
            }
            // Other frames before `hello` are ignored.
            _ => {}
        }
    }
}

fn confined_of(payload: &[u8]) -> Option<String> {
    let fields: serde_json::Value = serde_json::from_slice(payload).ok()?;
    fields.get(CONFINED)?.as_str().map(said::words)
}

fn tell_record(frame: &Frame, port: &dyn HostPort) {
    let level = u8::try_from(frame.status).unwrap_or(0);
    port.log(level, &frame.method, &String::from_utf8_lossy(&frame.payload));
}

impl ProcessLink {
    fn new(started: Started, port: Arc<dyn HostPort>, confined: Option<String>) -> Self {
        let Started { stream, child } = started;
        let (reader, writer) = stream.into_split();
        let (out, queue) = mpsc::channel(OUT_MAX);
        let (say_closed, closed) = watch::channel(None);
        let (end, ended) = watch::channel(false);
        let pending = Arc::new(Mutex::new(Pending::default()));
        tokio::spawn(write_out(writer, queue, Arc::clone(&pending)));
        let reading = read_in(reader, Arc::clone(&pending), Arc::clone(&port), out.clone());
        let watched = Arc::clone(&pending);
        let mut ended = ended;
        tokio::spawn(async move {
            let (why, grace) = tokio::select! {
                why = reading => (why, GRACE),
                // Also when the link itself was dropped.
                _ = ended.wait_for(|end| *end) => (None, Duration::ZERO),
            };
            let gone = reap(child, grace).await;
            // The reason is published before the lost calls are answered, so that their callers can report it.
            say_closed.send_replace(Some(why.unwrap_or(gone)));
            lock(&watched).end();
            drop(port);
        });
        Self { out, pending, next: AtomicU64::new(1), closed, end, confined }
    }

    /// Queues a call. `bounded`: the call counts against the limit of open calls.
    fn queue(&self, method: &str, payload: Vec<u8>, bounded: bool) -> PendingCall {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let frame = Frame::call(id, method, payload);
        if !frame.fits() {
            return PendingCall::answered(Answer::bare(status::ERR));
        }
        let (tell, answer) = oneshot::channel();
        {
            let mut pending = lock(&self.pending);
            if pending.over {
                return PendingCall::answered(Answer::bare(status::BUSY));
            }
            if bounded && pending.calls.len() >= CALLS_MAX {
                return PendingCall::answered(Answer::bare(status::BUSY));
            }
            pending.calls.insert(id, PendingAnswer { tell, begun: false });
        }
        if self.out.try_send(Out::Call(frame)).is_err() {
            lock(&self.pending).answer(id, Answer::bare(status::BUSY));
        }
        let (out, pending) = (self.out.clone(), Arc::clone(&self.pending));
        PendingCall::new(id, answer, move |id| {
            let begun = lock(&pending).calls.remove(&id).is_some_and(|waiting| waiting.begun);
            if begun {
                // A full queue means that the child does not read. Its end cancels everything.
                let _ = out.try_send(Out::Frame(Frame::cancel(id)));
            }
        })
    }
}

impl AdapterLink for ProcessLink {
    fn call(&self, method: &str, payload: Vec<u8>) -> PendingCall {
        self.queue(method, payload, true)
    }

    fn shutdown(&self, deadline: Duration) -> BoxFuture<'static, Answer> {
        let millis = u64::try_from(deadline.as_millis()).unwrap_or(u64::MAX);
        let call = self.queue(SHUTDOWN, format!("{{\"deadline_ms\":{millis}}}").into_bytes(), false);
        Box::pin(
            async move { tokio::time::timeout(deadline, call).await.unwrap_or_else(|_| Answer::bare(status::DROPPED)) },
        )
    }

    fn destroy(self: Arc<Self>, deadline: Duration) -> BoxFuture<'static, Destroyed> {
        self.end.send_replace(true);
        let mut closed = self.closed.clone();
        Box::pin(async move {
            match tokio::time::timeout(deadline.saturating_add(REAP), closed.wait_for(Option::is_some)).await {
                Ok(_) => Destroyed::Joined,
                Err(_) => Destroyed::Stuck,
            }
        })
    }

    fn closed(&self) -> BoxFuture<'static, String> {
        let mut closed = self.closed.clone();
        Box::pin(async move {
            match closed.wait_for(Option::is_some).await {
                Ok(why) => why.clone().unwrap_or_default(),
                Err(_) => "the process ended".to_owned(),
            }
        })
    }

    fn heartbeat(&self) -> BoxFuture<'static, bool> {
        let ping = self.queue(PING, b"{}".to_vec(), false);
        Box::pin(async move {
            // DROPPED and BUSY are answers of the host; any other answer comes from the child.
            !matches!(ping.await.status, status::DROPPED | status::BUSY)
        })
    }

    fn isolation(&self) -> Isolation {
        Isolation::Process
    }

    fn confined(&self) -> Option<&str> {
        self.confined.as_deref()
    }
}

async fn write_out(mut writer: OwnedWriteHalf, mut queue: mpsc::Receiver<Out>, pending: Arc<Mutex<Pending>>) {
    while let Some(first) = queue.recv().await {
        let (bytes, calls) = encode(first, &mut queue, &pending);
        let mut at = 0;
        while at < bytes.len() {
            match writer.write(&bytes[at..]).await {
                Ok(written) if written > 0 => at += written,
                // The reader meets the same end and reports the reason.
                _ => return never_begun(&pending, &calls, at),
            }
        }
    }
}

/// Encodes the waiting frames together. Returns the id and the start offset of each call.
fn encode(first: Out, queue: &mut mpsc::Receiver<Out>, pending: &Mutex<Pending>) -> (Vec<u8>, Vec<(u64, usize)>) {
    let (mut bytes, mut calls) = (Vec::new(), Vec::new());
    let mut next = Some(first);
    let mut pending = lock(pending);
    while let Some(out) = next.take() {
        match out {
            Out::Frame(frame) => frame.encode_into(&mut bytes),
            // A call without a waiting caller is not started.
            Out::Call(frame) => {
                if let Some(waiting) = pending.calls.get_mut(&frame.id) {
                    waiting.begun = true;
                    calls.push((frame.id, bytes.len()));
                    frame.encode_into(&mut bytes);
                }
            }
        }
        if bytes.len() < frame::WRITE_BYTES_MAX {
            next = queue.try_recv().ok();
        }
    }
    (bytes, calls)
}

/// Marks the calls behind the written bytes as not started: the child cannot have executed them.
fn never_begun(pending: &Mutex<Pending>, calls: &[(u64, usize)], written: usize) {
    let mut pending = lock(pending);
    for (id, _) in calls.iter().filter(|(_, start)| *start >= written) {
        if let Some(waiting) = pending.calls.get_mut(id) {
            waiting.begun = false;
        }
    }
}

/// Reads until the child closes its socket. Returns a reason if its exit status would not show it.
async fn read_in(
    reader: OwnedReadHalf,
    pending: Arc<Mutex<Pending>>,
    port: Arc<dyn HostPort>,
    out: mpsc::Sender<Out>,
) -> Option<String> {
    let mut reader = BufReader::new(reader);
    loop {
        let frame = match frame::read_async(&mut reader).await {
            Ok(frame) => frame,
            Err(frame::FrameError::Closed) => return None,
            Err(error) => return Some(error.to_string()),
        };
        match frame.kind {
            FrameKind::Reply => {
                lock(&pending).answer(frame.id, Answer { status: frame.status, payload: frame.payload });
            }
            FrameKind::Call => {
                if out.capacity() == 0 {
                    return Some("the process does not read its answers".to_owned());
                }
                port.call(&frame.method, frame.payload, reply_to(frame.id, out.clone()));
            }
            FrameKind::Log => tell_record(&frame, &*port),
            FrameKind::Cancel | FrameKind::Hello | FrameKind::Other(_) => {}
        }
    }
}

fn reply_to(id: u64, out: mpsc::Sender<Out>) -> Reply {
    Reply::new(move |status, payload| {
        let frame = Frame::reply(id, status, payload);
        let frame = if frame.fits() { frame } else { Frame::reply(id, status::ERR, Vec::new()) };
        // A full queue means that the child does not read; the reader ends it at its next call.
        let _ = out.try_send(Out::Frame(frame));
    })
}

/// Logs the error output of a child line by line. Returns the last line that is not empty.
fn tell_stderr(
    stderr: std::process::ChildStderr,
    tell: impl Fn(&str) + Send + 'static,
) -> tokio::task::JoinHandle<String> {
    tokio::spawn(async move {
        let mut last = String::new();
        let Ok(stderr) = tokio::process::ChildStderr::from_std(stderr) else { return last };
        let mut reader = BufReader::new(stderr);
        let mut line = Vec::new();
        loop {
            line.clear();
            let read = (&mut reader).take(STDERR_LINE_MAX).read_until(b'\n', &mut line).await;
            if !matches!(read, Ok(bytes) if bytes > 0) {
                return last;
            }
            let text = String::from_utf8_lossy(&line);
            let text = text.trim_end();
            tell(text);
            if !text.is_empty() {
                text.clone_into(&mut last);
            }
        }
    })
}

/// Returns the end of a child with its last line of error output, which often contains the reason: a message of the
/// loader or the adapter.
async fn with_last_words(ended: String, said: Option<tokio::task::JoinHandle<String>>) -> String {
    let Some(said) = said else { return ended };
    // Another process may hold the error output open for long.
    let last = tokio::time::timeout(GRACE, said).await.ok().and_then(Result::ok).unwrap_or_default();
    let last = one_line(&last, LAST_WORDS_CHARS_MAX);
    if last.is_empty() { ended } else { format!("{ended}; last output: {last}") }
}

/// Waits up to `grace` for the child to exit, kills its whole group, and returns its end in words.
async fn reap(mut child: Child, grace: Duration) -> String {
    let Some(pid) = Pid::from_raw(child.id().cast_signed()) else { return "the process ended".to_owned() };
    if !grace.is_zero() {
        // NOWAIT keeps the process id reserved. The kill below happens in any case, and also ends this wait.
        let own_end = move || rustix::process::waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT);
        let _ = tokio::time::timeout(grace, tokio::task::spawn_blocking(own_end)).await;
    }
    // The child is not reaped yet, so its id cannot belong to another process. The error for a group that is gone is
    // expected.
    let _ = rustix::process::kill_process_group(pid, Signal::KILL);
    // The child may not have its own group yet, or may have left it.
    let _ = child.kill();
    match tokio::task::spawn_blocking(move || child.wait()).await {
        Ok(Ok(status)) => ended(status),
        _ => "the process ended".to_owned(),
    }
}

fn ended(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("the process exited with code {code}"),
        (_, Some(signal)) => format!("the process was killed by signal {signal}"),
        _ => "the process ended".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_child_that_does_not_read_its_question_is_given_up_at_the_deadline() {
        let command = ["/bin/sleep", "600"].map(OsString::from).to_vec();
        let child = start(&ChildSpec { command, env: Vec::new(), folder: None }).await.unwrap();
        // More bytes than the socket buffer holds.
        let question = Frame::call(1, "check_config", vec![b' '; 4 * 1024 * 1024]);
        let refused = child.ask(Some(question), Duration::from_millis(50)).await.unwrap_err();
        assert_eq!(refused, "no answer within 0.05 s");
    }

    #[tokio::test]
    async fn how_a_child_ended_comes_with_its_last_words() {
        let command = ["/bin/sh", "-c", "echo first >&2; echo 'symbol x is missing' >&2; echo >&2; exit 127"];
        let command = command.map(OsString::from).to_vec();
        let child = start(&ChildSpec { command, env: Vec::new(), folder: None }).await.unwrap();
        let refused = child.ask(None, Duration::from_secs(60)).await.unwrap_err();
        assert_eq!(refused, "the process exited with code 127; last output: symbol x is missing");
    }
}
