//! The host's side of the control socket.
//!
//! It admits the host's own user, reads bounded lines, checks the right to each
//! request and hands it to the pipeline. A client that stalls, floods or babbles
//! costs one bounded slot for a bounded time. A terminal that got its seat gives
//! its slot back and goes on in frames.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::io::BufReader;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{OwnedRwLockReadGuard, OwnedSemaphorePermit, RwLock, Semaphore, mpsc, oneshot};

use super::line::{self, LineError};
use super::peer::{Origin, Peer};
use super::rights::{self, Caller, Identity};
use super::tokens::RunTokens;
use super::{Asked, CONTROL_VERSION, ControlReply, ControlRequest, ErrorKind, Hello, SeatInfo};
use crate::plugins::terminal::Seat;

/// How long each side may take.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waits {
    /// For the first line.
    pub hello: Duration,
    /// Between two requests.
    pub request: Duration,
    /// For the host's answer.
    pub answer: Duration,
    /// For a client to read it.
    pub write: Duration,
}

const WAITS: Waits = Waits {
    hello: Duration::from_secs(5),
    request: Duration::from_secs(300),
    answer: Duration::from_secs(60),
    write: Duration::from_secs(10),
};

/// How long a host that ends waits for the answers that are under way.
const ANSWERED: Duration = Duration::from_secs(2);

/// How long accepting rests after the system refused (too many open files).
const ACCEPT_REST: Duration = Duration::from_millis(100);

/// Who gives seats to terminals.
pub trait Seats: Send + Sync {
    /// A terminal left its seat.
    fn left(&self, chat: String) -> BoxFuture<'_, ()>;

    /// Gives a seat for a conversation, or for one answer; `resume` names the session to go on with.
    fn sit(&self, resume: Option<String>, once: bool) -> BoxFuture<'_, Result<(Seat, SeatInfo), Box<ControlReply>>>;
}

/// The answers that are under way: a host that ends waits for them, so that whoever asked for its end hears that it
/// was. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Answers(Arc<RwLock<()>>);

impl Answers {
    /// Waits until everything that was asked is answered, to its last byte, for at most [`ANSWERED`]; nothing that is
    /// asked later is.
    pub async fn until_written(&self) {
        // What takes longer is a request that outlives the host; its client sees the connection end.
        drop(tokio::time::timeout(ANSWERED, self.0.write()).await);
    }

    /// Held from the request to the last byte of its answer.
    async fn under_way(&self) -> OwnedRwLockReadGuard<()> {
        Arc::clone(&self.0).read_owned().await
    }
}

/// Serves clients until it is dropped. At most `clients_max` at once; further ones are told so.
pub async fn serve(
    listener: UnixListener,
    requests: mpsc::Sender<Asked>,
    seats: Option<Arc<dyn Seats>>,
    runs: Arc<RunTokens>,
    clients_max: usize,
    answers: Answers,
) {
    let host = std::process::id();
    serve_within(listener, Way { requests, seats, runs, host, answers, refused: Arc::default() }, clients_max, WAITS)
        .await;
}

/// Where requests go.
#[derive(Clone)]
pub(super) struct Way {
    /// To the pipeline.
    pub requests: mpsc::Sender<Asked>,
    /// To whoever gives seats; `None`: nobody does.
    pub seats: Option<Arc<dyn Seats>>,
    /// The tokens of the runs that are under way.
    pub runs: Arc<RunTokens>,
    /// The process of the host.
    pub host: u32,
    /// What is being answered.
    pub answers: Answers,
    /// Connections that were refused for their origin.
    pub refused: Arc<AtomicU64>,
}

/// [`serve`] with other waits, for tests.
pub(super) async fn serve_within(listener: UnixListener, way: Way, clients_max: usize, waits: Waits) {
    let slots = Arc::new(Semaphore::new(clients_max));
    let mut clients = tokio::task::JoinSet::new();
    loop {
        // Finished clients are taken away so that the set does not grow.
        while clients.try_join_next().is_some() {}
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!(%error, "the control socket cannot accept");
                tokio::time::sleep(ACCEPT_REST).await;
                continue;
            }
        };
        if !is_ours(&stream) {
            tracing::warn!("another user tried the control socket");
            continue;
        }
        let Ok(slot) = Arc::clone(&slots).try_acquire_owned() else {
            refuse(stream, "too many clients of the control socket; end one and try again");
            continue;
        };
        let way = way.clone();
        clients.spawn(async move {
            match client(stream, way, waits, slot).await {
                Ok(()) | Err(LineError::Ended) => {}
                Err(error) => tracing::debug!(%error, "a client of the control socket ended"),
            }
        });
    }
}

fn is_ours(stream: &UnixStream) -> bool {
    stream.peer_cred().is_ok_and(|peer| peer.uid() == rustix::process::geteuid().as_raw())
}

/// Finds the relation of the peer to the host. A peer can make `/proc` slow, so the time is bounded.
async fn origin(stream: &UnixStream, way: &Way, wait: Duration) -> Origin {
    let peer = match Peer::of(stream) {
        Ok(Some(peer)) => peer,
        Ok(None) => return Origin::Unknown,
        Err(error) => {
            tracing::warn!(%error, "the system does not name the peer of the control socket");
            return Origin::Unknown;
        }
    };
    let (host, runs) = (way.host, Arc::clone(&way.runs));
    let looking = tokio::task::spawn_blocking(move || peer.origin(host, runs.left()));
    tokio::time::timeout(wait, looking).await.ok().and_then(Result::ok).unwrap_or(Origin::Unknown)
}

/// Returns the identity of a client; `None`: it is refused.
fn identity(origin: Origin, hello: &Hello, runs: &RunTokens) -> Option<Identity> {
    match origin {
        Origin::Outside => Some(Identity::Operator),
        Origin::Descendant | Origin::Left | Origin::Unknown => runs.run_of(&hello.token).map(Identity::Run),
    }
}

/// Says why in one line that fits into the socket's buffer, without waiting.
fn refuse(stream: UnixStream, why: &str) {
    let line = serde_json::to_string(&ControlReply::error(ErrorKind::Busy, why)).unwrap_or_default() + "\n";
    // Who does not take it sees the connection end, which says the same.
    let _ = stream.try_write(line.as_bytes());
}

async fn client(stream: UnixStream, way: Way, waits: Waits, slot: OwnedSemaphorePermit) -> Result<(), LineError> {
    let origin = origin(&stream, &way, waits.hello).await;
    let (reader, mut writer) = stream.into_split();
    let mut reader = BufReader::new(reader);
    let hello: Hello = match line::read(&mut reader, waits.hello).await {
        Ok(hello) => hello,
        Err(error) => return say_and_end(&mut writer, error, "the first line must be hello", waits).await,
    };
    let Some(identity) = identity(origin, &hello, &way.runs) else {
        // A process that tries it for ever does not fill the log.
        let refused = way.refused.fetch_add(1, Ordering::Relaxed) + 1;
        if refused.is_power_of_two() {
            tracing::warn!(?origin, refused, "a process that the host started was refused at the control socket");
        }
        let reply = ControlReply::error(ErrorKind::Refused, rights::NO_TOKEN);
        return line::write(&mut writer, &reply, waits.write).await;
    };
    let ours = Hello::ours("");
    line::write(&mut writer, &ours, waits.write).await?;
    if hello.version != CONTROL_VERSION {
        let reply = ControlReply::error(
            ErrorKind::Invalid,
            format!("this host speaks version {CONTROL_VERSION} of the control words, not {}", hello.version),
        );
        return line::write(&mut writer, &reply, waits.write).await;
    }
    loop {
        let request = line::read::<ControlRequest>(&mut reader, waits.request).await;
        let under_way = way.answers.under_way().await;
        let request = request.map(|request| identity.may(&request).map(|caller| (request, caller)));
        let reply = match request {
            Ok(Err(refusal)) => *refusal,
            Ok(Ok((ControlRequest::Chat { resume, once }, _))) => match sit(&way, resume, once, waits.answer).await {
                Ok((seat, info)) => {
                    drop((slot, under_way));
                    let chat = seat.chat().to_owned();
                    let ended = attached(seat, info, reader, writer, waits).await;
                    if let Some(seats) = &way.seats {
                        seats.left(chat).await;
                    }
                    return ended;
                }
                Err(refusal) => *refusal,
            },
            Ok(Ok((request, caller))) => {
                let wait = waits.answer + request.waits();
                answer(request, caller, &way.requests, wait).await
            }
            Err(LineError::Unreadable(why)) => ControlReply::error(ErrorKind::Invalid, format!("not a request: {why}")),
            Err(error) => return say_and_end(&mut writer, error, "not a request", waits).await,
        };
        match line::write(&mut writer, &reply, waits.write).await {
            Err(LineError::TooLong) => {
                let reply = ControlReply::error(
                    ErrorKind::Failed,
                    "the answer is too long for one line; ask for fewer with --limit",
                );
                line::write(&mut writer, &reply, waits.write).await?;
            }
            written => written?,
        }
        drop(under_way);
    }
}

async fn sit(
    way: &Way,
    resume: Option<String>,
    once: bool,
    wait: Duration,
) -> Result<(Seat, SeatInfo), Box<ControlReply>> {
    let refused = |kind, words: &str| Box::new(ControlReply::error(kind, words));
    let Some(seats) = &way.seats else {
        return Err(refused(ErrorKind::Refused, "this host gives no seats to terminals"));
    };
    match tokio::time::timeout(wait, seats.sit(resume, once)).await {
        Ok(given) => given,
        Err(_) => Err(refused(ErrorKind::Busy, "the host did not give a seat in time; try again")),
    }
}

/// Tells a terminal where it sits, and lets it go on in frames.
async fn attached(
    seat: Seat,
    info: SeatInfo,
    reader: BufReader<OwnedReadHalf>,
    mut writer: OwnedWriteHalf,
    waits: Waits,
) -> Result<(), LineError> {
    line::write(&mut writer, &ControlReply::Chat(Box::new(info)), waits.write).await?;
    seat.run(reader, writer).await;
    Ok(())
}

async fn answer(
    request: ControlRequest,
    caller: Caller,
    requests: &mpsc::Sender<Asked>,
    wait: Duration,
) -> ControlReply {
    let (reply, answer) = oneshot::channel();
    let ask = async {
        if requests.send((request, caller, reply)).await.is_err() {
            return ControlReply::error(ErrorKind::Busy, "the host is stopping");
        }
        match answer.await {
            Ok(reply) => reply,
            Err(_) => ControlReply::error(ErrorKind::Failed, "the host gave no answer; its log says why"),
        }
    };
    tokio::time::timeout(wait, ask).await.unwrap_or_else(|_| {
        let message = format!("the host did not answer within {} s; it may still do it", wait.as_secs());
        ControlReply::error(ErrorKind::Busy, message)
    })
}

/// Tells a client what was wrong with its line, where it can still be told.
async fn say_and_end(
    writer: &mut (impl tokio::io::AsyncWrite + Unpin),
    error: LineError,
    what: &str,
    waits: Waits,
) -> Result<(), LineError> {
    if matches!(error, LineError::TooLong | LineError::Unreadable(_) | LineError::Late(_)) {
        let reply = ControlReply::error(ErrorKind::Invalid, format!("{what}: {error}"));
        line::write(writer, &reply, waits.write).await?;
    }
    Err(error)
}
