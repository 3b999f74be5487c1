//! The client side of the control socket.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

use tokio::io::BufReader;
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};

use super::line::{self, LineError};
use super::socket;
use crate::engine::operator::{CONTROL_VERSION, ControlReply, ControlRequest, ErrorKind, Hello, SeatInfo};

/// The token of the run to which this process belongs; unset: it belongs to none.
static TOKEN: OnceLock<String> = OnceLock::new();

/// Uses this token for every connection of the process. A second call changes nothing.
pub fn use_token(token: Option<&String>) {
    if let Some(token) = token {
        let _ = TOKEN.set(token.clone());
    }
}

/// Deadline of the host's greeting.
const HELLO_WAIT: Duration = Duration::from_secs(5);
/// Deadline of an answer; slightly longer than the host's own.
const ANSWER_WAIT: Duration = Duration::from_secs(70);

/// The reason why the host could not be asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// No host runs. The operator starts one.
    #[error("no host is running for {}; start it with `hermes-host run`", home.display())]
    NotRunning {
        /// The home.
        home: PathBuf,
    },
    /// The host belongs to another user, or the folder may not be entered. The operator changes the user.
    #[error("the control socket in {} belongs to another user; run this command as the user of the \
             host", home.display())]
    Denied {
        /// The home.
        home: PathBuf,
    },
    /// Host and program have different versions. The operator restarts the host.
    #[error(
        "the running host {program} uses version {version} of the control protocol, this program version \
         {CONTROL_VERSION}; restart the host"
    )]
    Version {
        /// Version of the host's protocol.
        version: u32,
        /// Version of the program.
        program: String,
    },
    /// The host refused the connection, with this message.
    #[error("{0}")]
    Refused(String),
    /// The host gives no terminal slot.
    #[error("{message}")]
    NoSeat {
        /// The kind of the error.
        kind: ErrorKind,
        /// The error message.
        message: String,
    },
    /// The host ended or did not answer.
    #[error("the host did not answer ({0}); check with `hermes-host status` that it is running")]
    Line(#[from] LineError),
    /// The system refused.
    #[error("the control socket in {} cannot be used ({source})", home.display())]
    Io {
        /// The home.
        home: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
}

/// A connection to the running host.
#[derive(Debug)]
pub struct Client {
    reader: BufReader<OwnedReadHalf>,
    writer: OwnedWriteHalf,
}

/// A terminal slot, and the connection that carries its frames.
#[derive(Debug)]
pub struct Seated {
    /// The description of the slot.
    pub info: SeatInfo,
    /// The host's frames.
    pub reader: BufReader<OwnedReadHalf>,
    /// The frames to the host.
    pub writer: OwnedWriteHalf,
}

/// The host's first line: a greeting, or a refusal.
#[derive(serde::Deserialize)]
#[serde(untagged)]
enum First {
    Hello(Hello),
    Reply(Box<ControlReply>),
}

impl Client {
    /// Connects to the host of `home` and exchanges greetings.
    ///
    /// # Errors
    ///
    /// [`ClientError::NotRunning`] if there is no host, otherwise the failure.
    pub async fn connect(home: &Path) -> Result<Self, ClientError> {
        let stream = socket::connect(home).map_err(|source| match source.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => {
                ClientError::NotRunning { home: home.to_owned() }
            }
            io::ErrorKind::PermissionDenied => ClientError::Denied { home: home.to_owned() },
            _ => ClientError::Io { home: home.to_owned(), source },
        })?;
        Self::greet(stream).await
    }

    async fn greet(stream: UnixStream) -> Result<Self, ClientError> {
        let (reader, writer) = stream.into_split();
        let mut client = Self { reader: BufReader::new(reader), writer };
        let ours = Hello::ours(TOKEN.get().map_or("", String::as_str));
        // A host that refuses may have closed the connection already; its message can still be read.
        let sent = line::write(&mut client.writer, &ours, HELLO_WAIT).await;
        match line::read(&mut client.reader, HELLO_WAIT).await {
            Ok(First::Hello(hello)) if hello.version == CONTROL_VERSION => {
                sent?;
                Ok(client)
            }
            Ok(First::Hello(hello)) => Err(ClientError::Version { version: hello.version, program: hello.program }),
            Ok(First::Reply(reply)) => match *reply {
                ControlReply::Error { message, .. } => Err(ClientError::Refused(message)),
                _ => Err(LineError::Unreadable("not a hello".to_owned()).into()),
            },
            Err(error) => Err(error.into()),
        }
    }

    /// Requests a terminal slot. After the answer the connection carries frames.
    ///
    /// # Errors
    ///
    /// The same as [`Client::ask`], and [`ClientError::NoSeat`] if the host gives no slot.
    pub async fn sit(mut self, resume: Option<String>, once: bool) -> Result<Seated, ClientError> {
        match self.ask(&ControlRequest::Chat { resume, once }).await? {
            ControlReply::Chat(info) => Ok(Seated { info: *info, reader: self.reader, writer: self.writer }),
            ControlReply::Error { kind, message } => Err(ClientError::NoSeat { kind, message }),
            _ => Err(LineError::Unreadable("not a terminal slot".to_owned()).into()),
        }
    }

    /// Sends one request and waits for its answer.
    ///
    /// # Errors
    ///
    /// The connection ended or no answer came in time. The effect of the request is then unknown.
    pub async fn ask(&mut self, request: &ControlRequest) -> Result<ControlReply, ClientError> {
        line::write(&mut self.writer, request, HELLO_WAIT).await?;
        Ok(line::read(&mut self.reader, ANSWER_WAIT + request.waits()).await?)
    }
}
