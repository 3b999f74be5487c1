//! `hermes-host chat`: a conversation in the terminal.
//!
//! A terminal takes a slot of the running host ([`wire`]). If none runs, the process runs a host itself, without
//! adapters, and takes a slot there ([`embedded_host`]). From then on both cases are alike: typed lines ([`editor`]) are sent as
//! messages, and the host's output is shown on the [`screen`]. When the host ends, the terminal looks for the next one
//! and continues the same session ([`talk`]). One message for a script is in [`single_message`]; a host with an adapter under
//! trial is in [`mod@trial`].
//!
//! Not in this module: the interpretation of messages. The terminal has only a few commands of its own ([`orders`]);
//! the host interprets everything else as in any chat.

mod backlog;
mod editor;
mod embedded_host;
mod history;
mod markdown;
mod orders;
mod screen;
mod signals;
mod single_message;
mod talk;
mod trial;
mod unsent;
mod wire;

use std::io::{self, IsTerminal, Read};
use std::path::PathBuf;

use hermes_protocol::{Chat, ChoiceMade, Event, EventKind, Sender};

use crate::app::RunError;
use crate::surface::control::ClientError;
use embedded_host::Hosts;
use hermes_config::mask::LogMask;
use hermes_config::{Config, Problems, Sources};
use hermes_core::clock::Clock;
use hermes_system::clock::SystemClock;
use signals::Signals;
pub use single_message::Answered;
pub use trial::{Trial, trial};

/// The longest message that is read from standard input, in bytes.
const INPUT_BYTES_MAX: u64 = 256 << 10;

/// Starts the log of a host that this process runs itself: into a file, because the screen is used by the conversation.
pub type StartLog = fn(&Config) -> Result<LogMask, String>;

/// The options of a terminal.
pub struct Options {
    /// The sources of the configuration, if this process has to run a host.
    pub sources: Sources,
    /// The home folder.
    pub home: PathBuf,
    /// The session to continue.
    pub resume: Option<String>,
    /// One message. The terminal leaves after its answer.
    pub message: Option<String>,
    /// `true` if the output may have colours.
    pub colours: bool,
    /// Starts the log of a host in this process.
    pub start_log: StartLog,
}

/// The reason why a conversation could not start or ended with an error.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ChatError {
    /// The running host gave no slot, or none runs and none can be started.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// A host in this process cannot run. The operator fixes the cause.
    #[error(transparent)]
    Run(#[from] RunError),
    /// `plugins.toml` is wrong. The operator corrects it.
    #[error(transparent)]
    Config(#[from] Problems),
    /// The host did not accept the message.
    #[error("not sent: {0}")]
    NotTaken(String),
    /// The turn failed, with the host's message.
    #[error("{0}")]
    Failed(String),
    /// The host ended, and no other one was found.
    #[error("the host ended; {0}")]
    HostGone(String),
    /// The arguments are wrong. The operator corrects them.
    #[error("{0}")]
    Usage(String),
    /// The error of the system.
    #[error("{0}")]
    System(String),
    /// The user pressed Ctrl-C.
    #[error("stopped")]
    Interrupted,
}

/// Runs a conversation, or gets one answer, which is returned.
///
/// # Errors
///
/// See [`ChatError`].
pub async fn chat(options: Options) -> Result<Option<String>, ChatError> {
    let message = match options.message.clone() {
        Some(message) => Some(message),
        None if io::stdin().is_terminal() => None,
        None => Some(all_of_stdin()?),
    };
    let mut speaker = Speaker::new()?;
    let mut hosts = Hosts::new(&options);
    let done = match message {
        Some(message) => one_answer(&mut hosts, &mut speaker, options.resume, message).await.map(Some),
        None => talk::talk(&mut hosts, &mut speaker, options).await.map(|()| None),
    };
    hosts.end().await;
    done
}

async fn one_answer(
    hosts: &mut Hosts,
    speaker: &mut Speaker,
    resume: Option<String>,
    message: String,
) -> Result<String, ChatError> {
    if message.trim().is_empty() {
        return Err(ChatError::Usage(
            "the message is empty; write it after -m or pipe it into standard input".to_owned(),
        ));
    }
    let mut wire = hosts.seat(resume, true).await?;
    let answered = single_message::ask(&mut wire, speaker, message).await;
    wire.leave().await;
    match answered? {
        Answered::With { text, notices } => {
            notices.iter().for_each(|notice| eprintln!("{notice}"));
            Ok(text)
        }
        Answered::Failed(sentence) => Err(ChatError::Failed(sentence)),
    }
}

fn all_of_stdin() -> Result<String, ChatError> {
    let mut text = String::new();
    let read = io::stdin().lock().take(INPUT_BYTES_MAX + 1).read_to_string(&mut text);
    let read = read.map_err(|error| ChatError::Usage(format!("standard input cannot be read ({error})")))?;
    if read as u64 > INPUT_BYTES_MAX {
        return Err(ChatError::Usage(format!("the message is longer than {INPUT_BYTES_MAX} bytes; send it in parts")));
    }
    Ok(text)
}

/// The source of this terminal's messages. Each gets an id of its own.
pub struct Speaker {
    /// A random prefix that distinguishes this terminal from others.
    word: String,
    said: u64,
    signals: Signals,
}

impl Speaker {
    /// Starts to handle signals: from here on they do not end the process by themselves.
    ///
    /// # Errors
    ///
    /// The system refuses.
    pub fn new() -> Result<Self, ChatError> {
        let system = |error: &dyn std::fmt::Display| {
            ChatError::System(format!("the system refused random numbers or signals ({error})"))
        };
        let word = getrandom::u64().map_err(|error| system(&error))?;
        let signals = Signals::listen().map_err(|error| system(&error))?;
        Ok(Self { word: format!("{word:016x}"), said: 0, signals })
    }

    /// Creates a message in the chat of this id.
    fn says(&mut self, chat: &str, text: String) -> Event {
        self.said += 1;
        let id = format!("{}-{}", self.word, self.said);
        Event::message(id.clone(), Chat::dm(chat), Sender::default(), text).with_message_id(id).at_ms(self.now_ms())
    }

    /// Creates the answer to a question.
    fn chooses(&mut self, chat: &str, choice: ChoiceMade) -> Event {
        let mut event = self.says(chat, String::new()).of_kind(EventKind::Choice);
        event.choice = Some(choice);
        event
    }

    /// Waits until the process is asked to end or to stop its work. Cancel-safe.
    async fn interrupted(&mut self) {
        self.signals.next().await;
    }

    fn now_ms(&self) -> i64 {
        SystemClock.now_ms()
    }
}
