//! `hermes-host chat`: a conversation in the terminal.
//!
//! A terminal takes a seat at the running host ([`wire`]); where none runs, the process
//! runs one itself, without adapters, and takes its seat there ([`own`]). From then on
//! both are alike: what is typed ([`editor`]) is said, what the host says is put on the
//! [`screen`]. When the host goes away the terminal looks for the next one and goes on
//! in the same session ([`talk`]). One message for a script is [`once`]; a host with an
//! adapter under trial is [`mod@trial`].
//!
//! Not here: what a message means. The terminal knows its own few commands
//! ([`orders`]); everything else is heard by the host as in any chat.

mod editor;
mod former;
mod history;
mod markdown;
mod once;
mod orders;
mod own;
mod screen;
mod signals;
mod talk;
mod trial;
mod unheard;
mod wire;

use std::io::{self, IsTerminal, Read};
use std::path::PathBuf;

use hermes_protocol::{Chat, ChoiceMade, Event, EventKind, Sender};

use crate::app::RunError;
use crate::clock::{Clock, SystemClock};
use crate::config::{Config, Problems, Sources};
use crate::control::ClientError;
use crate::mask::LogMask;
pub use once::Answered;
use own::Hosts;
use signals::Signals;
pub use trial::{Trial, trial};

/// The longest message that is read from the standard input, in bytes.
const INPUT_BYTES_MAX: u64 = 256 << 10;

/// Starts the log of a host that this process runs itself: into a file, since the screen belongs to the conversation.
pub type StartLog = fn(&Config) -> Result<LogMask, String>;

/// What a terminal was told to do.
pub struct Options {
    /// Where the configuration comes from, should a host be needed.
    pub sources: Sources,
    /// The home.
    pub home: PathBuf,
    /// The session to go on with.
    pub resume: Option<String>,
    /// One message, after whose answer it leaves.
    pub message: Option<String>,
    /// Whether what is shown may have colours.
    pub colours: bool,
    /// Starts the log of a host of its own.
    pub start_log: StartLog,
}

/// Why a conversation did not come about, or broke off.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ChatError {
    /// The running host gave no seat, or none runs and none can.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The operator: a host of its own cannot run.
    #[error(transparent)]
    Run(#[from] RunError),
    /// The operator: `plugins.toml` is wrong.
    #[error(transparent)]
    Config(#[from] Problems),
    /// The host did not take what was said.
    #[error("not sent: {0}")]
    NotTaken(String),
    /// The turn failed, with the host's sentence.
    #[error("{0}")]
    Failed(String),
    /// The host ended, and no other one came.
    #[error("the host ended; {0}")]
    HostGone(String),
    /// The operator: the words make no sense.
    #[error("{0}")]
    Usage(String),
    /// The system refused.
    #[error("{0}")]
    System(String),
    /// Somebody pressed Ctrl-C.
    #[error("stopped")]
    Interrupted,
}

/// Holds a conversation, or gets one answer, which is returned.
///
/// # Errors
///
/// As [`ChatError`] says.
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
        return Err(ChatError::Usage("the message is empty; write it behind -m or into the standard input".to_owned()));
    }
    let mut wire = hosts.seat(resume, true).await?;
    let answered = once::ask(&mut wire, speaker, message).await;
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
    let read = read.map_err(|error| ChatError::Usage(format!("the standard input cannot be read ({error})")))?;
    if read as u64 > INPUT_BYTES_MAX {
        return Err(ChatError::Usage(format!("a message has at most {INPUT_BYTES_MAX} bytes; send it in pieces")));
    }
    Ok(text)
}

/// What somebody at this terminal says, each with an id of its own.
pub struct Speaker {
    /// Told apart from every other terminal by this.
    word: String,
    said: u64,
    signals: Signals,
}

impl Speaker {
    /// Listens to signals from here on: what ends the process by itself ends nothing any more.
    ///
    /// # Errors
    ///
    /// When the system refuses.
    pub fn new() -> Result<Self, ChatError> {
        let system = |error: &dyn std::fmt::Display| ChatError::System(format!("the system refuses ({error})"));
        let word = getrandom::u64().map_err(|error| system(&error))?;
        let signals = Signals::listen().map_err(|error| system(&error))?;
        Ok(Self { word: format!("{word:016x}"), said: 0, signals })
    }

    /// A message in the chat of this id.
    fn says(&mut self, chat: &str, text: String) -> Event {
        self.said += 1;
        let id = format!("{}-{}", self.word, self.said);
        Event::message(id.clone(), Chat::dm(chat), Sender::default(), text).with_message_id(id).at_ms(self.now_ms())
    }

    /// The answer to a question.
    fn chooses(&mut self, chat: &str, choice: ChoiceMade) -> Event {
        let mut event = self.says(chat, String::new()).of_kind(EventKind::Choice);
        event.choice = Some(choice);
        event
    }

    /// Returns once the process is asked to end, or to stop what it does. Cancel-safe.
    async fn interrupted(&mut self) {
        self.signals.next().await;
    }

    fn now_ms(&self) -> i64 {
        SystemClock.now_ms()
    }
}
