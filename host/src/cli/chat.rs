//! `chat`: a conversation in the terminal, or one answer for a script.

use std::fs::{self, OpenOptions};
use std::io::{self, IsTerminal};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};

use super::args::ChatArgs;
use super::{Context, Failure, INTERRUPTED, ask, log, run};
use crate::chat::{self, ChatError, Options};
use crate::config::Config;
use crate::mask::LogMask;

/// Where a host that runs for a terminal only logs, below the home.
const LOG_FOLDER: &str = "logs";
const LOG_FILE: &str = "chat.log";

/// A longer log is put aside before another one is begun, in bytes.
const LOG_BYTES_MAX: u64 = 4 << 20;

/// Holds a conversation, or prints one answer.
pub async fn chat(context: &Context, args: ChatArgs) -> Result<(), Failure> {
    let no_colour = context.sources.env.get("NO_COLOR").is_some_and(|value| !value.is_empty());
    let options = Options {
        sources: context.sources.clone(),
        home: context.home()?,
        resume: args.resume,
        message: args.message,
        colours: io::stdout().is_terminal() && !no_colour,
        start_log,
    };
    match chat::chat(options).await.map_err(failure)? {
        Some(answer) if answer.is_empty() => Ok(()),
        Some(answer) => ask::say(&answer),
        None => Ok(()),
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

/// Lets a host of its own log into the home: the screen belongs to the conversation.
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
