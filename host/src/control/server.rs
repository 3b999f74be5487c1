//! The host's side of the control socket.
//!
//! It admits the host's own user, reads bounded lines and hands each request to
//! the pipeline; it decides nothing. A client that stalls, floods or babbles
//! costs one bounded slot for a bounded time.

use std::sync::Arc;
use std::time::Duration;

use tokio::io::BufReader;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{Semaphore, mpsc, oneshot};

use super::line::{self, LineError};
use super::{Asked, CONTROL_VERSION, ControlReply, ControlRequest, ErrorKind, Hello};

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

/// How long accepting rests after the system refused (too many open files).
const ACCEPT_REST: Duration = Duration::from_millis(100);

/// Serves clients until it is dropped. At most `clients_max` at once; further ones are told so.
pub async fn serve(listener: UnixListener, requests: mpsc::Sender<Asked>, clients_max: usize) {
    serve_within(listener, requests, clients_max, WAITS).await;
}

/// [`serve`] with other waits, for tests.
pub(super) async fn serve_within(
    listener: UnixListener,
    requests: mpsc::Sender<Asked>,
    clients_max: usize,
    waits: Waits,
) {
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
        let requests = requests.clone();
        clients.spawn(async move {
            match client(stream, requests, waits).await {
                Ok(()) | Err(LineError::Ended) => {}
                Err(error) => tracing::debug!(%error, "a client of the control socket ended"),
            }
            drop(slot);
        });
    }
}

fn is_ours(stream: &UnixStream) -> bool {
    stream.peer_cred().is_ok_and(|peer| peer.uid() == rustix::process::geteuid().as_raw())
}

/// Says why in one line that fits into the socket's buffer, without waiting.
fn refuse(stream: UnixStream, why: &str) {
    let line = serde_json::to_string(&ControlReply::error(ErrorKind::Busy, why)).unwrap_or_default() + "\n";
    // Who does not take it sees the connection end, which says the same.
    let _ = stream.try_write(line.as_bytes());
}

async fn client(stream: UnixStream, requests: mpsc::Sender<Asked>, waits: Waits) -> Result<(), LineError> {
    let (reader, mut writer) = stream.into_split();
    let mut reader = BufReader::new(reader);
    let hello: Hello = match line::read(&mut reader, waits.hello).await {
        Ok(hello) => hello,
        Err(error) => return say_and_end(&mut writer, error, "the first line must be hello", waits).await,
    };
    let ours = Hello { version: CONTROL_VERSION, program: env!("CARGO_PKG_VERSION").to_owned() };
    line::write(&mut writer, &ours, waits.write).await?;
    if hello.version != CONTROL_VERSION {
        let reply = ControlReply::error(
            ErrorKind::Invalid,
            format!("this host speaks version {CONTROL_VERSION} of the control words, not {}", hello.version),
        );
        return line::write(&mut writer, &reply, waits.write).await;
    }
    loop {
        let reply = match line::read::<ControlRequest>(&mut reader, waits.request).await {
            Ok(request) => {
                let wait = waits.answer + request.waits();
                answer(request, &requests, wait).await
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
    }
}

async fn answer(request: ControlRequest, requests: &mpsc::Sender<Asked>, wait: Duration) -> ControlReply {
    let (reply, answer) = oneshot::channel();
    let ask = async {
        if requests.send((request, reply)).await.is_err() {
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
