//! `chat`: a conversation in the terminal, or one answer for a script.

use std::fs::{self, OpenOptions};
use std::io::{self, IsTerminal, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use super::args::ChatArgs;
use super::{Context, Failure, INTERRUPTED, ask, log, run};
use crate::surface::terminal;
use crate::surface::terminal::{ChatError, Options};
use hermes_config::Config;
use hermes_config::mask::LogMask;

/// The folder and file of the log of a host that runs for a terminal only, below the home.
const LOG_FOLDER: &str = "logs";
const LOG_FILE: &str = "chat.log";

/// A longer log is rotated before a new one is opened, in bytes.
const LOG_BYTES_MAX: u64 = 4 << 20;

/// The most of standard input that becomes part of a message, in bytes.
const INPUT_BYTES_MAX: u64 = 1 << 20;

/// The time within which piped standard input has to begin next to a message on the command line.
const INPUT_WAIT: Duration = Duration::from_secs(3);

/// Runs a conversation, or prints one answer.
pub async fn chat(context: &Context, args: ChatArgs) -> Result<(), Failure> {
    let no_colour = context.sources.env.get("NO_COLOR").is_some_and(|value| !value.is_empty());
    let options = Options {
        sources: context.sources.clone(),
        home: context.home()?,
        resume: args.resume,
        message: args.message.map(with_standard_input).transpose()?,
        colours: io::stdout().is_terminal() && !no_colour,
        start_log,
    };
    match terminal::chat(options).await.map_err(failure)? {
        Some(answer) if answer.is_empty() => Ok(()),
        Some(answer) => ask::say(&answer),
        None => Ok(()),
    }
}

/// Returns the message of `-m`, with the text of piped standard input: all of it for `-`, and below the message
/// otherwise, so that `git diff | hermes-host chat -m "review this"` sends both.
fn with_standard_input(message: String) -> Result<String, Failure> {
    let input = io::stdin();
    let is_all = message == "-";
    if input.is_terminal() {
        return match is_all {
            true => {
                Err(Failure::usage("`-m -` reads the message from standard input; pipe one in, or write it after -m"))
            }
            false => Ok(message),
        };
    }
    let bytes = match read_input((!is_all).then_some(INPUT_WAIT)) {
        Ok(bytes) => bytes,
        Err(why) if is_all => return Err(Failure::failed(why)),
        Err(why) => {
            // A closed standard error is ignored.
            let _ = writeln!(io::stderr(), "{why}; it is not included in the message");
            return Ok(message);
        }
    };
    combined(&message, bytes).map_err(Failure::usage)
}

/// Reads standard input to its end, or to one byte beyond the limit. The input has to begin within `wait`, if it is
/// set: a pipe that a service manager leaves open never ends.
fn read_input(wait: Option<Duration>) -> Result<Vec<u8>, String> {
    let (send, pieces) = mpsc::sync_channel::<io::Result<Vec<u8>>>(1);
    // A thread with an endless pipe stays until the process ends.
    thread::spawn(move || {
        let mut input = io::stdin().lock().take(INPUT_BYTES_MAX + 1);
        let mut piece = vec![0; 64 * 1024];
        loop {
            let read = input.read(&mut piece).map(|length| piece[..length].to_vec());
            let ended = read.as_ref().map_or(true, Vec::is_empty);
            if send.send(read).is_err() || ended {
                return;
            }
        }
    });
    let mut bytes = Vec::new();
    let first = match wait {
        Some(wait) => pieces.recv_timeout(wait),
        None => pieces.recv().map_err(|_| RecvTimeoutError::Disconnected),
    };
    let first = first.map_err(|_| format!("standard input provided no data within {} s", INPUT_WAIT.as_secs()))?;
    for piece in std::iter::once(first).chain(pieces) {
        bytes.extend(piece.map_err(|error| format!("standard input cannot be read ({error})"))?);
    }
    Ok(bytes)
}

/// Joins the message of the command line and the bytes of standard input.
fn combined(message: &str, input: Vec<u8>) -> Result<String, String> {
    if input.len() as u64 > INPUT_BYTES_MAX {
        return Err(format!("standard input is longer than {INPUT_BYTES_MAX} bytes; send less"));
    }
    let input =
        String::from_utf8(input).map_err(|_| "standard input is not UTF-8 text; convert it to UTF-8".to_owned())?;
    let input = input.trim_start_matches('\u{feff}').trim_end();
    match (message, input) {
        ("-", "") => Err("standard input is empty; pipe a message in, or write it after -m".to_owned()),
        ("-", input) => Ok(input.to_owned()),
        (message, "") => Ok(message.to_owned()),
        (message, input) => Ok(format!("{message}\n\n{input}")),
    }
}

pub(super) fn failure(error: ChatError) -> Failure {
    match error {
        ChatError::Client(error) => error.into(),
        ChatError::Run(error) => run::failure(error),
        ChatError::Config(problems) => problems.into(),
        ChatError::Usage(sentence) => Failure::usage(sentence),
        ChatError::HostGone(_) => Failure::no_host(error.to_string()),
        ChatError::Interrupted => Failure::silent(INTERRUPTED),
        error => Failure::failed(error.to_string()),
    }
}

/// Starts the log of a host in this process in a file of the home, because the screen is used by the conversation.
fn start_log(config: &Config) -> Result<LogMask, String> {
    let folder = config.home.join(LOG_FOLDER);
    let path = folder.join(LOG_FILE);
    let open = || {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&folder)?;
        if fs::metadata(&path).is_ok_and(|meta| meta.len() > LOG_BYTES_MAX) {
            fs::rename(&path, folder.join("chat.log.1"))?;
        }
        OpenOptions::new().create(true).append(true).mode(0o600).open(&path)
    };
    let file = open().map_err(|error| format!("{} cannot be written ({error})", path.display()))?;
    log::start_into(config, file).map_err(|failure| failure.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_and_standard_input_are_sent_together() {
        let joined = |message: &str, input: &[u8]| combined(message, input.to_vec());
        assert_eq!(joined("review this", b"a diff\n").as_deref(), Ok("review this\n\na diff"));
        assert_eq!(joined("review this", b" \n").as_deref(), Ok("review this"));
        assert_eq!(joined("-", b"\xef\xbb\xbfhello\r\n").as_deref(), Ok("hello"));
        assert!(joined("-", b"\n").is_err_and(|why| why.contains("empty")));
        assert!(joined("x", b"\xff").is_err_and(|why| why.contains("UTF-8")));
        let long = vec![b'a'; usize::try_from(INPUT_BYTES_MAX).unwrap() + 1];
        assert!(joined("x", &long).is_err_and(|why| why.contains("longer")));
    }
}
