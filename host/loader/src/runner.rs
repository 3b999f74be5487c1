//! The child side of the frames: one library and one instance in a child of the host.
//!
//! `adapter-runner FILE` creates the instance that the host's `hello` describes and forwards calls, cancels, logs and
//! the end. `adapter-runner --exec … PROGRAM` is for another language: it applies the same restrictions and then
//! executes that program. A library is loaded by the same code as in the host, so both kinds of isolation refuse the
//! same files. The runner uses plain threads: this one reads, and a writer thread keeps the adapter from blocking on
//! the socket. The process ends when the socket closes.

use std::{
    collections::{BTreeMap, VecDeque},
    ffi::OsString,
    io::{BufReader, Read, Write},
    os::{
        fd::{AsFd, OwnedFd},
        unix::{net::UnixStream, process::CommandExt},
    },
    path::{Path, PathBuf},
    process::{Command, ExitCode, Stdio},
    sync::{
        Arc, Condvar, Mutex, PoisonError,
        atomic::{AtomicU8, AtomicU64, Ordering},
    },
    time::Duration,
};

use hermes_adapter_abi::{CALLS_MAX, status};
use serde::{Deserialize, Serialize};

use super::{
    LoadError, elf,
    footprint::Footprint,
    frame::{self, Frame, FrameKind, PROTOCOL},
    in_process,
    process::{AdapterHello, HostHello, PING, SHUTDOWN},
    sandbox::{self, Allowed},
};
use crate::ffi::{ForeignInstance, HostPort, Library, Reply};

/// The name of the subcommand.
pub(super) const SUBCOMMAND: &str = "adapter-runner";
/// Field of the runner's log record that names the restrictions in force.
pub(super) const CONFINED: &str = "confined";
/// Exit code: the arguments or the first frame cannot be read.
const EXIT_USAGE: u8 = 2;
/// Exit code: the host ended before the child began.
pub(super) const EXIT_NO_HOST: u8 = 69;
/// Log level of the record about the restrictions in force, which `status` shows: debug. Restrictions that the kernel
/// refused are warnings.
const GIVEN_UP: u8 = 4;
const NOT_GIVEN_UP: u8 = 2;
/// Log records that may wait to be written. Further records are dropped.
const LOGS_MAX: usize = 256;
/// Time in which an instance has to end after the host is gone.
const ORPHAN: Duration = Duration::from_millis(500);

/// The task of the child.
enum Task {
    Run,
    Check,
    Schema,
    Values,
    Exec,
}

/// The findings of a short-lived child.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Report {
    /// The refusal, or `None` if the library can be used.
    pub(super) refused: Option<LoadError>,
    /// The schema of its own config keys, as the library returned it.
    pub(super) schema: String,
    /// `true` if the library can check the values of a section.
    #[serde(default)]
    pub(super) judges: bool,
    /// The adapter's error message about the values that it was asked to check; empty if there is none.
    #[serde(default)]
    pub(super) wrong: String,
}

/// The parsed arguments.
struct Asked {
    task: Task,
    framed: bool,
    parent: Option<u32>,
    origin: Option<PathBuf>,
    instance: String,
    /// The access that the host allows; `None` without a host.
    allowed: Option<Allowed>,
    /// The file, or the program and its arguments.
    words: Vec<OsString>,
}

impl Asked {
    fn read(mut arguments: impl Iterator<Item = OsString>) -> Self {
        let mut asked = Self {
            task: Task::Run,
            framed: false,
            parent: None,
            origin: None,
            instance: String::new(),
            allowed: None,
            words: Vec::new(),
        };
        while let Some(argument) = arguments.next() {
            match argument.to_str() {
                Some("--check") => asked.task = Task::Check,
                Some("--schema") => asked.task = Task::Schema,
                Some("--values") => asked.task = Task::Values,
                Some("--framed") => asked.framed = true,
                Some("--parent") => asked.parent = arguments.next().and_then(number),
                Some("--origin") => asked.origin = arguments.next().map(PathBuf::from),
                Some("--instance") => {
                    asked.instance = arguments.next().unwrap_or_default().to_string_lossy().into_owned();
                }
                Some("--exec") => {
                    asked.task = Task::Exec;
                    asked.words.extend(arguments);
                    return asked;
                }
                Some("--confined") => asked.allowed = Some(Allowed::default()),
                // `--confined` comes first; the access arguments follow.
                Some(flag) if asked.allowed.as_mut().is_some_and(|limits| limits.take(flag, &mut arguments)) => {}
                _ => asked.words.push(argument),
            }
        }
        asked
    }
}

/// The `adapter-runner` subcommand: `[--check | --schema | --values] [--framed] [--parent PID] [--origin PATH] FILE`, or
/// `--parent PID --instance NAME --exec PROGRAM [ARGUMENT]…`.
///
/// Without a host (`--check FILE`, `--schema FILE`) it prints JSON. With `--values` the host sends the values first.
pub fn runner_main() -> ExitCode {
    let asked = Asked::read(std::env::args_os().skip_while(|argument| argument != SUBCOMMAND).skip(1));
    let Some(file) = asked.words.first().map(PathBuf::from) else {
        eprintln!("usage: hermes-host adapter-runner [--check | --schema] FILE");
        return ExitCode::from(EXIT_USAGE);
    };
    let program = matches!(asked.task, Task::Exec);
    let mut records: Vec<Frame> = Vec::new();
    for refused in asked.parent.map(|parent| sandbox::enter(parent, program)).unwrap_or_default() {
        records.push(record(NOT_GIVEN_UP, &serde_json::json!({ "message": format!("not narrowed: {refused}") })));
    }
    if let Some(allowed) = asked.allowed.as_ref().filter(|_| asked.parent.is_some()) {
        let confined = sandbox::confine(allowed);
        let fields = serde_json::json!({ "message": format!("confined: {confined}"), CONFINED: confined });
        records.push(record(GIVEN_UP, &fields));
    }
    let origin = asked.origin.unwrap_or_else(|| file.clone());
    match asked.task {
        Task::Run => run(&file, records),
        Task::Check | Task::Schema => report(&file, &origin, asked.framed, None),
        Task::Values => match socket().map(|mut socket| frame::read(&mut socket)) {
            Ok(Ok(values)) => report(&file, &origin, asked.framed, Some(&values.payload)),
            _ => ExitCode::from(EXIT_NO_HOST),
        },
        Task::Exec => exec(&asked.words, &asked.instance, &records),
    }
}

fn record(level: u8, fields: &serde_json::Value) -> Frame {
    Frame::log(level, SUBCOMMAND, &fields.to_string())
}

/// Executes a program of another language. Returns only if that fails.
fn exec(words: &[OsString], instance: &str, records: &[Frame]) -> ExitCode {
    let Ok(mut socket) = socket() else { return ExitCode::from(EXIT_USAGE) };
    let Ok(stdout) = socket.try_clone() else { return ExitCode::from(EXIT_USAGE) };
    if records.iter().any(|record| frame::write(&mut socket, record).is_err()) {
        return ExitCode::from(EXIT_NO_HOST);
    }
    let Some((program, arguments)) = words.split_first() else { return ExitCode::from(EXIT_USAGE) };
    let error = Command::new(program).args(arguments).stdout(Stdio::from(OwnedFd::from(stdout))).exec();
    let refused = LoadError::ProcessFailed {
        instance: instance.to_owned(),
        why: format!(
            "`{}` cannot be started ({error}); correct `command` in [adapter.{instance}]",
            program.to_string_lossy()
        ),
    };
    let payload = serde_json::to_vec(&refused).expect("a refusal has string keys only");
    // If the host is gone, nobody reads the reason.
    let _ = frame::write(&mut socket, &Frame::hello(status::ERR, payload));
    ExitCode::FAILURE
}

fn number(argument: OsString) -> Option<u32> {
    argument.to_str()?.parse().ok()
}

/// Returns the socket, which the host passed as stdin.
pub(super) fn socket() -> std::io::Result<UnixStream> {
    let stdin = std::io::stdin();
    Ok(UnixStream::from(stdin.as_fd().try_clone_to_owned()?))
}

fn open(origin: &Path, file: &Path) -> Result<(Library, elf::ElfLibrary), LoadError> {
    let described = elf::read(file)?;
    let library = in_process::open(origin, file, &described.manifest.sdk, &described.manifest_json)?;
    Ok((library, described))
}

fn report(file: &Path, origin: &Path, framed: bool, values: Option<&[u8]>) -> ExitCode {
    let footprint = Footprint::before_load();
    let opened = open(origin, file).and_then(|(library, _)| match footprint.left() {
        None => Ok(library),
        Some(why) => Err(LoadError::ProbeFailed { path: origin.to_owned(), why }),
    });
    let report = match opened {
        Ok(library) => Report {
            refused: None,
            schema: library.config_schema(),
            judges: library.judges_values(),
            wrong: values.and_then(|values| library.check_config(values)).unwrap_or_default(),
        },
        Err(error) => Report { refused: Some(error), ..Report::default() },
    };
    let failed = report.refused.is_some();
    let json = serde_json::to_vec(&report).expect("a report has string keys only");
    let written = if framed {
        socket().and_then(|mut socket| frame::write(&mut socket, &Frame::reply(0, status::OK, json)))
    } else {
        let mut out = std::io::stdout();
        out.write_all(&json).and_then(|()| out.write_all(b"\n"))
    };
    match written {
        Ok(()) if !failed => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    }
}

fn run(file: &Path, records: Vec<Frame>) -> ExitCode {
    let Ok(reader) = socket() else { return ExitCode::from(EXIT_USAGE) };
    let Ok(writer) = reader.try_clone() else { return ExitCode::from(EXIT_USAGE) };
    let mut reader = BufReader::new(reader);
    let hello = match frame::read(&mut reader) {
        Ok(Frame { kind: FrameKind::Hello, payload, .. }) => serde_json::from_slice::<HostHello>(&payload).ok(),
        _ => None,
    };
    let Some(hello) = hello.filter(|hello| hello.protocol == PROTOCOL) else {
        eprintln!("{SUBCOMMAND} must be started by hermes-host, which communicates over its standard input");
        return ExitCode::from(EXIT_USAGE);
    };
    let out = Arc::new(Outbox::default());
    let host = Arc::new(Host {
        out: Arc::clone(&out),
        calls: Mutex::new(BTreeMap::new()),
        next: AtomicU64::new(1),
        log_level: AtomicU8::new(hello.log_level),
    });
    for record in records {
        host.out.push_log(record);
    }
    let writing = Arc::clone(&out);
    let writes = std::thread::Builder::new().name("frames".to_owned()).spawn(move || writing.write(writer));
    if writes.is_err() {
        return ExitCode::FAILURE;
    }
    let instance = match start(file, &hello, &host) {
        Ok((instance, manifest)) => {
            let hello = AdapterHello { protocol: PROTOCOL, manifest };
            let payload = serde_json::to_vec(&hello).expect("a manifest has string keys only");
            out.greet(Frame::hello(status::OK, payload));
            Arc::new(instance)
        }
        Err(error) => {
            let payload = serde_json::to_vec(&error).expect("a refusal has string keys only");
            out.push(Frame::hello(status::ERR, payload));
            out.drain();
            return ExitCode::FAILURE;
        }
    };
    serve(&mut reader, &instance, &host);
    // The host is gone or has closed the socket. The adapter may disconnect from its platform within this time.
    instance.destroy(ORPHAN);
    ExitCode::SUCCESS
}

fn start(
    file: &Path,
    hello: &HostHello,
    host: &Arc<Host>,
) -> Result<(ForeignInstance, hermes_protocol::Manifest), LoadError> {
    let described = elf::read(file)?;
    let name = hello.envelope.get("instance").and_then(serde_json::Value::as_str).unwrap_or_default();
    let envelope = hello.envelope.to_string().into_bytes();
    let port = Arc::clone(host) as Arc<dyn HostPort>;
    let (origin, copy) = (PathBuf::from(&hello.origin), file.to_owned());
    let (sdk, manifest_json) = (described.manifest.sdk.clone(), described.manifest_json);
    let library_sdk = sdk.clone();
    let load = move || in_process::open(&origin, &copy, &sdk, &manifest_json);
    let instance =
        in_process::create(&library_sdk, load, name, port, envelope, Duration::from_millis(hello.create_ms))?;
    Ok((instance, described.manifest))
}

/// Reads frames until the socket closes.
fn serve(reader: &mut impl Read, instance: &Arc<ForeignInstance>, host: &Arc<Host>) {
    loop {
        let Ok(frame) = frame::read(reader) else { return };
        match frame.kind {
            FrameKind::Call if frame.method == PING => {
                host.out.push(Frame::reply(frame.id, status::OK, b"{}".to_vec()));
            }
            FrameKind::Call if frame.method == SHUTDOWN => {
                instance.shutdown(deadline_of(&frame.payload), host.reply_to(frame.id));
            }
            FrameKind::Call => {
                instance.call(frame.id, &frame.method, &frame.payload, host.reply_to(frame.id));
            }
            FrameKind::Cancel => instance.cancel(frame.id),
            FrameKind::Reply => host.answer(frame),
            FrameKind::Log => host.log_level.store(u8::try_from(frame.status).unwrap_or(0), Ordering::Relaxed),
            FrameKind::Hello | FrameKind::Other(_) => {}
        }
    }
}

fn deadline_of(payload: &[u8]) -> Duration {
    #[derive(Deserialize)]
    struct Shutdown {
        deadline_ms: u64,
    }
    serde_json::from_slice(payload).map_or(ORPHAN, |Shutdown { deadline_ms }| Duration::from_millis(deadline_ms))
}

/// The host port of the library in this child.
struct Host {
    out: Arc<Outbox>,
    calls: Mutex<BTreeMap<u64, Reply>>,
    next: AtomicU64,
    log_level: AtomicU8,
}

impl Host {
    fn reply_to(&self, id: u64) -> Reply {
        let out = Arc::clone(&self.out);
        Reply::new(move |status, payload| {
            let frame = Frame::reply(id, status, payload);
            out.push(if frame.fits() { frame } else { Frame::reply(id, status::ERR, Vec::new()) });
        })
    }

    fn answer(&self, frame: Frame) {
        let reply = self.calls.lock().unwrap_or_else(PoisonError::into_inner).remove(&frame.id);
        if let Some(reply) = reply {
            reply.send(frame.status, frame.payload);
        }
    }
}

impl HostPort for Host {
    fn call(&self, method: &str, payload: Vec<u8>, reply: Reply) {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let frame = Frame::call(id, method, payload);
        if !frame.fits() {
            return reply.send(status::ERR, Vec::new());
        }
        {
            let mut calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
            if calls.len() >= 2 * CALLS_MAX {
                // Answered after the lock is released, because the receiver may call again.
                drop(calls);
                return reply.send(status::BUSY, Vec::new());
            }
            calls.insert(id, reply);
        }
        self.out.push(frame);
    }

    fn log(&self, level: u8, target: &str, fields: &str) {
        if level <= self.max_level() {
            self.out.push_log(Frame::log(level, target, fields));
        }
    }

    fn max_level(&self) -> u8 {
        self.log_level.load(Ordering::Relaxed)
    }
}

/// Frames that wait to be written. Its size is limited by the open calls and by `LOGS_MAX`.
#[derive(Default)]
struct Outbox {
    queue: Mutex<Queue>,
    changed: Condvar,
}

#[derive(Default)]
struct Queue {
    frames: VecDeque<Frame>,
    /// Calls that the adapter makes while it is being created. The host gets them after `hello`.
    early: Vec<Frame>,
    greeted: bool,
    logs: usize,
    writing: bool,
    over: bool,
}

impl Outbox {
    fn push(&self, frame: Frame) {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        if queue.over {
            return;
        }
        if frame.kind == FrameKind::Call && !queue.greeted {
            queue.early.push(frame);
            return;
        }
        queue.frames.push_back(frame);
        self.changed.notify_all();
    }

    /// Sends `hello`, and then the calls that waited for it.
    fn greet(&self, hello: Frame) {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        queue.greeted = true;
        let early = std::mem::take(&mut queue.early);
        queue.frames.push_back(hello);
        queue.frames.extend(early);
        self.changed.notify_all();
    }

    fn push_log(&self, frame: Frame) {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        if !queue.over && queue.logs < LOGS_MAX && frame.fits() {
            queue.logs += 1;
            queue.frames.push_back(frame);
            self.changed.notify_all();
        }
    }

    /// Writes frames until the socket closes.
    fn write(&self, mut to: UnixStream) {
        loop {
            let mut bytes = Vec::new();
            {
                let queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
                let waited = self.changed.wait_while(queue, |queue| queue.frames.is_empty());
                let mut queue = waited.unwrap_or_else(PoisonError::into_inner);
                while bytes.len() < frame::WRITE_BYTES_MAX {
                    let Some(frame) = queue.frames.pop_front() else { break };
                    queue.logs -= usize::from(frame.kind == FrameKind::Log);
                    frame.encode_into(&mut bytes);
                }
                queue.writing = true;
            }
            let written = to.write_all(&bytes);
            let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
            queue.writing = false;
            if written.is_err() {
                // Without a socket nothing can be sent; the reader meets the same end.
                queue.over = true;
                queue.frames.clear();
            }
            self.changed.notify_all();
            if queue.over {
                return;
            }
        }
    }

    /// Waits until all frames are written, at most `ORPHAN`.
    fn drain(&self) {
        let queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self
            .changed
            .wait_timeout_while(queue, ORPHAN, |queue| !queue.over && (queue.writing || !queue.frames.is_empty()));
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }
}
