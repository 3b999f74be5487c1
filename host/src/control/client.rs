//! The command line's side of the control socket.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

use tokio::io::BufReader;
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};

use super::line::{self, LineError};
use super::{CONTROL_VERSION, ControlReply, ControlRequest, ErrorKind, Hello, SeatInfo, socket};

/// The token of the run in which this process works; unset: it works in none.
static TOKEN: OnceLock<String> = OnceLock::new();

/// Uses this token for every connection of the process. A second call changes nothing.
pub fn use_token(token: Option<&String>) {
    if let Some(token) = token {
        let _ = TOKEN.set(token.clone());
    }
}

/// How long the host may take to greet.
const HELLO_WAIT: Duration = Duration::from_secs(5);
/// How long an answer may take; a little more than the host gives itself.
const ANSWER_WAIT: Duration = Duration::from_secs(70);

/// Why the host could not be asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// The operator: there is no host.
    #[error("no host runs for {}; start it with `hermes-host run`", home.display())]
    NotRunning {
        /// The home.
        home: PathBuf,
    },
    /// The operator: another user's host, or a folder that may not be entered.
    #[error("the control socket in {} belongs to another user; run this as the user of the host", home.display())]
    Denied {
        /// The home.
        home: PathBuf,
    },
    /// The operator: two releases meet.
    #[error(
        "the running host is {program} and speaks version {version} of the control words, this program {CONTROL_VERSION}; restart the host"
    )]
    Version {
        /// Version of its words.
        version: u32,
        /// Version of the program.
        program: String,
    },
    /// The host refused the connection with a sentence.
    #[error("{0}")]
    Refused(String),
    /// The host gives a terminal no seat.
    #[error("{message}")]
    NoSeat {
        /// Whose turn it is.
        kind: ErrorKind,
        /// The sentence.
        message: String,
    },
    /// The host went away or stalled.
    #[error("the host did not answer ({0}); `hermes-host status` says whether it still runs")]
    Line(#[from] LineError),
    /// The system refused.
    #[error("the control socket in {} cannot be used ({source})", home.display())]
    Io {
        /// The home.
        home: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// A connection to the running host.
#[derive(Debug)]
pub struct Client {
    reader: BufReader<OwnedReadHalf>,
    writer: OwnedWriteHalf,
}

/// A seat, and the connection that carries its frames.
#[derive(Debug)]
pub struct Seated {
    /// Where it is.
    pub info: SeatInfo,
    /// What the host sends.
    pub reader: BufReader<OwnedReadHalf>,
    /// What is sent to the host.
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
    /// Connects to the host of `home` and greets it.
    ///
    /// # Errors
    ///
    /// [`ClientError::NotRunning`] when there is none, else what went wrong.
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
        // A host that refuses may have hung up already; what it said is still there to be read.
        let sent = line::write(&mut client.writer, &ours, HELLO_WAIT).await;
        match line::read(&mut client.reader, HELLO_WAIT).await {
            Ok(First::Hello(hello)) if hello.version == CONTROL_VERSION => {
                sent?;
                Ok(client)
            }
            Ok(First::Hello(hello)) => Err(ClientError::Version { version: hello.version, program: hello.program }),
            Ok(First::Reply(reply)) => match *reply {
                ControlReply::Error { message, .. } => Err(ClientError::Refused(message)),
                _ => Err(LineError::Unreadable("not a greeting".to_owned()).into()),
            },
            Err(error) => Err(error.into()),
        }
    }

    /// Asks for a seat; from its answer on the connection carries frames.
    ///
    /// # Errors
    ///
    /// As [`Client::ask`], and [`ClientError::NoSeat`] where the host gives none.
    pub async fn sit(mut self, resume: Option<String>, once: bool) -> Result<Seated, ClientError> {
        match self.ask(&ControlRequest::Chat { resume, once }).await? {
            ControlReply::Chat(info) => Ok(Seated { info: *info, reader: self.reader, writer: self.writer }),
            ControlReply::Error { kind, message } => Err(ClientError::NoSeat { kind, message }),
            _ => Err(LineError::Unreadable("not a seat".to_owned()).into()),
        }
    }

    /// Asks once and waits for the answer.
    ///
    /// # Errors
    ///
    /// When the connection ends or no answer comes in time; whether the host did it is then unknown.
    pub async fn ask(&mut self, request: &ControlRequest) -> Result<ControlReply, ClientError> {
        line::write(&mut self.writer, request, HELLO_WAIT).await?;
        Ok(line::read(&mut self.reader, ANSWER_WAIT + request.waits()).await?)
    }
}
