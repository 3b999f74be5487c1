//! The host's side of the control socket.
//!
//! The server admits the host's own user, reads bounded lines, checks the right of each request and passes it to the
//! pipeline. A client that stalls or floods occupies one slot for a bounded time. A terminal that got its slot releases
//! the client slot and continues with frames.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::io::BufReader;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{OwnedRwLockReadGuard, OwnedSemaphorePermit, RwLock, Semaphore, mpsc, oneshot};

use super::Asked;
use super::line::{self, LineError};
use super::peer::{Origin, Peer};
use crate::engine::operator::rights;
use crate::engine::operator::rights::{Caller, Identity};
use crate::engine::operator::{CONTROL_VERSION, ControlReply, ControlRequest, ErrorKind, Hello, SeatInfo};
use crate::engine::run_tokens::RunTokens;
use hermes_loader::terminal::Seat;

/// Deadlines of a connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waits {
    /// The client's first line.
    pub hello: Duration,
    /// The time between two requests.
    pub request: Duration,
    /// The host's answer.
    pub answer: Duration,
    /// The time for a client to read an answer.
    pub write: Duration,
}

const WAITS: Waits = Waits {
    hello: Duration::from_secs(5),
    request: Duration::from_secs(300),
    answer: Duration::from_secs(60),
    write: Duration::from_secs(10),
};

/// Wait for open answers when the host ends.
const ANSWERED: Duration = Duration::from_secs(2);

/// Pause of accepting after the system refused (too many open files).
const ACCEPT_REST: Duration = Duration::from_millis(100);

/// The source of terminal slots.
pub trait Seats: Send + Sync {
    /// Reports that a terminal left its slot.
    fn left(&self, chat: String) -> BoxFuture<'_, ()>;

    /// Takes a slot for a conversation, or for one answer. `resume` names the session to continue.
    fn sit(&self, resume: Option<String>, once: bool) -> BoxFuture<'_, Result<(Seat, SeatInfo), Box<ControlReply>>>;
}

/// The open answers. A host that ends waits for them, so that the client that requested the end gets its answer. Cheap
/// to clone.
#[derive(Clone, Debug, Default)]
pub struct Answers(Arc<RwLock<()>>);

impl Answers {
    /// Waits until every open request is answered completely, for at most [`ANSWERED`]. Later requests are not
    /// answered.
    pub async fn until_written(&self) {
        // After the deadline the client sees the connection end.
        drop(tokio::time::timeout(ANSWERED, self.0.write()).await);
    }

    /// Marks an answer as open, from the request to the last byte.
    async fn under_way(&self) -> OwnedRwLockReadGuard<()> {
        Arc::clone(&self.0).read_owned().await
    }
}

/// Serves clients until it is dropped, at most `clients_max` at the same time. Further ones are refused with a message.
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

/// The destinations of requests.
#[derive(Clone)]
pub(super) struct Way {
    /// The pipeline.
    pub requests: mpsc::Sender<Asked>,
    /// The source of terminal slots; `None`: the host gives none.
    pub seats: Option<Arc<dyn Seats>>,
    /// The tokens of the running turns.
    pub runs: Arc<RunTokens>,
    /// The process id of the host.
    pub host: u32,
    /// The open answers.
    pub answers: Answers,
    /// Count of connections that were refused because of their origin.
    pub refused: Arc<AtomicU64>,
}

/// Does the same as [`serve`] with other deadlines, for tests.
pub(super) async fn serve_within(listener: UnixListener, way: Way, clients_max: usize, waits: Waits) {
    let slots = Arc::new(Semaphore::new(clients_max));
    let mut clients = tokio::task::JoinSet::new();
    loop {
        // Finished clients are removed so that the set does not grow.
        while clients.try_join_next().is_some() {}
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!(%error, "the control socket cannot accept a connection");
                tokio::time::sleep(ACCEPT_REST).await;
                continue;
            }
        };
        if !is_ours(&stream) {
            tracing::warn!("rejected a connection of another user to the control socket");
            continue;
        }
        let Ok(slot) = Arc::clone(&slots).try_acquire_owned() else {
            refuse(stream, "the control socket has too many clients; end one and try again");
            continue;
        };
        let way = way.clone();
        clients.spawn(async move {
            match client(stream, way, waits, slot).await {
                Ok(()) | Err(LineError::Ended) => {}
                Err(error) => tracing::debug!(%error, "connection of a control client ended"),
            }
        });
    }
}

fn is_ours(stream: &UnixStream) -> bool {
    stream.peer_cred().is_ok_and(|peer| peer.uid() == rustix::process::geteuid().as_raw())
}

/// Determines the relation of the peer to the host. A peer can make `/proc` slow, so the time is limited.
async fn origin(stream: &UnixStream, way: &Way, wait: Duration) -> Origin {
    let peer = match Peer::of(stream) {
        Ok(Some(peer)) => peer,
        Ok(None) => return Origin::Unknown,
        Err(error) => {
            tracing::warn!(%error, "the peer of the control socket is unknown");
            return Origin::Unknown;
        }
    };
    let (host, runs) = (way.host, Arc::clone(&way.runs));
    let looking = tokio::task::spawn_blocking(move || peer.origin(host, runs.left()));
    tokio::time::timeout(wait, looking).await.ok().and_then(Result::ok).unwrap_or(Origin::Unknown)
}

/// Returns the identity of a client; `None`: the client is refused.
fn identity(origin: Origin, hello: &Hello, runs: &RunTokens) -> Option<Identity> {
    match origin {
        Origin::Outside => Some(Identity::Operator),
        Origin::Descendant | Origin::Left | Origin::Unknown => runs.run_of(&hello.token).map(Identity::Run),
    }
}

/// Sends the reason in one line that fits into the socket's buffer, without waiting.
fn refuse(stream: UnixStream, why: &str) {
    let line = serde_json::to_string(&ControlReply::error(ErrorKind::Busy, why)).unwrap_or_default() + "\n";
    // If the line cannot be written, the client sees the connection end.
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
        // A process that retries forever must not fill the log.
        let refused = way.refused.fetch_add(1, Ordering::Relaxed) + 1;
        if refused.is_power_of_two() {
            tracing::warn!(?origin, refused, "rejected a process started by the host at the control socket");
        }
        let reply = ControlReply::error(ErrorKind::Refused, rights::NO_TOKEN);
        return line::write(&mut writer, &reply, waits.write).await;
    };
    let ours = Hello::ours("");
    line::write(&mut writer, &ours, waits.write).await?;
    if hello.version != CONTROL_VERSION {
        let reply = ControlReply::error(
            ErrorKind::Invalid,
            format!(
                "this host uses version {CONTROL_VERSION} of the control protocol, not {}; restart the host",
                hello.version
            ),
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
                    "the answer is too long; request fewer entries with --limit",
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
        return Err(refused(ErrorKind::Refused, "this host does not accept terminals"));
    };
    match tokio::time::timeout(wait, seats.sit(resume, once)).await {
        Ok(given) => given,
        Err(_) => Err(refused(ErrorKind::Busy, "the host did not assign a terminal slot in time; try again")),
    }
}

/// Sends the description of its slot to a terminal, and continues with frames.
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
            Err(_) => ControlReply::error(ErrorKind::Failed, "the host gave no answer; see its log for the reason"),
        }
    };
    tokio::time::timeout(wait, ask).await.unwrap_or_else(|_| {
        let message = format!("the host did not answer within {} s; the request may still complete", wait.as_secs());
        ControlReply::error(ErrorKind::Busy, message)
    })
}

/// Reports an invalid line to the client, if the connection still works.
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
