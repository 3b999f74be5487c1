//! `adapter try`: a host with one adapter in this process. All calls are shown on the screen, and typed lines are one
//! more chat.

use std::io::{self, BufRead, Read, Write as _};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use hermes_protocol::{CallError, Chat, ChatType, EditCall, Event, EventKind, Outgoing, SendOutcome};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;

use super::wire::{News, Wire};
use super::{ChatError, INPUT_BYTES_MAX, Speaker};
use crate::app::{self, OwnHost, RunError, RunOptions, Watcher};
use crate::surface::terminal::single_message::{self, Answered};
use hermes_config::mask::LogMask;
use hermes_config::{Config, Sources};
use hermes_core::text::one_line;
use hermes_loader::{AdapterState, Seen};

/// Characters of a text that are shown.
const SHOWN_CHARS_MAX: usize = 500;

/// Typed lines that may wait; further lines are not read.
const TYPED_MAX: usize = 16;

/// The wait for an adapter that neither comes online nor fails, before typed lines are read anyway.
const UP_WAIT: Duration = Duration::from_secs(15);

/// Deadline for the host to end. An adapter that does not end in time is ended with it.
const END_WAIT: Duration = Duration::from_secs(20);

/// The inputs of a trial.
pub struct Trial {
    /// The source of messages, created before anything that has to be cleaned up.
    pub speaker: Speaker,
    /// The instance.
    pub instance: String,
    /// The sources of the configuration.
    pub sources: Sources,
    /// The configuration, with this instance only.
    pub config: Config,
    /// The home folder, which is removed later.
    pub home: PathBuf,
    /// The mask of the log.
    pub log_mask: LogMask,
}

/// The state of the instance during a trial.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Stand {
    ComingUp,
    Up,
    Failed(String),
}

/// Runs the trial until a signal or the end of the input.
///
/// # Errors
///
/// The trial cannot run, or the adapter fails for good.
pub async fn trial(trial: Trial) -> Result<(), ChatError> {
    let (stands, mut stand) = watch::channel(Stand::ComingUp);
    let home = trial.home.clone();
    let (mut speaker, host, mut task) = start(trial, stands).await?;
    let tried = tokio::select! {
        tried = hold(&home, &mut speaker, &mut stand) => tried,
        ended = &mut task => Err(ended_early(ended)),
    };
    host.end();
    if !task.is_finished() {
        // A host that takes longer ends with the process.
        let _ = tokio::time::timeout(END_WAIT, task).await;
    }
    tried
}

/// The task of a running host, with its result.
type Task = JoinHandle<Result<std::process::ExitCode, RunError>>;

async fn start(trial: Trial, stands: watch::Sender<Stand>) -> Result<(Speaker, OwnHost, Task), ChatError> {
    let Trial { speaker, instance, sources, config, log_mask, .. } = trial;
    let last = Mutex::default();
    let watching = move |name: &str, seen: Seen<'_>| {
        if name == instance {
            note(&instance, &seen, &stands, &last);
        }
    };
    let options =
        RunOptions { sources, replace: false, log_mask, watch: Watcher(Some(Arc::new(watching))), program: None };
    let (ready, is_ready) = oneshot::channel();
    let mut task = tokio::spawn(app::run_trial(config, options, ready));
    tokio::select! {
        biased;
        Ok(host) = is_ready => Ok((speaker, host, task)),
        ended = &mut task => Err(ended_early(ended)),
    }
}

fn ended_early(ended: Result<Result<std::process::ExitCode, RunError>, tokio::task::JoinError>) -> ChatError {
    match ended {
        Ok(Err(error)) => error.into(),
        Ok(Ok(_)) => ChatError::System("the host ended unexpectedly; see its log for the reason".to_owned()),
        Err(error) => ChatError::System(format!("the host failed unexpectedly ({error})")),
    }
}

/// Waits for the adapter, then sends typed lines and shows the answers.
async fn hold(
    home: &std::path::Path,
    speaker: &mut Speaker,
    stand: &mut watch::Receiver<Stand>,
) -> Result<(), ChatError> {
    tokio::select! {
        // The observer owns the sender, and exists as long as the host.
        _ = tokio::time::timeout(UP_WAIT, stand.wait_for(|stand| *stand != Stand::ComingUp)) => {}
        () = speaker.interrupted() => return Ok(()),
    }
    let mut wire = Wire::take(home, None, false).await?;
    let mut typed = typed_lines();
    let tried = loop {
        if let Stand::Failed(why) = &*stand.borrow_and_update() {
            break Err(ChatError::Failed(why.clone()));
        }
        tokio::select! {
            line = typed.recv() => match line {
                None => break Ok(()),
                Some(line) if line.trim() == "/quit" => break Ok(()),
                Some(line) => match single_message::ask(&mut wire, speaker, line).await {
                    Ok(answered) => show(answered),
                    Err(ChatError::Interrupted) => break Ok(()),
                    Err(error) => break Err(error),
                },
            },
            news = wire.next() => match news {
                News::Delivery(number, message) => {
                    tell("agent", &message.text);
                    wire.shown(number, speaker.now_ms());
                }
                News::Turn(number, _) => wire.seen(number),
                News::Over(_) => break Err(ChatError::System("the host ended unexpectedly".to_owned())),
            },
            () = speaker.interrupted() => break Ok(()),
            Ok(()) = stand.changed() => {}
        }
    };
    wire.leave().await;
    tried
}

fn show(answered: Answered) {
    match answered {
        Answered::With { text, notices } => {
            notices.iter().for_each(|notice| tell("host", notice));
            tell("agent", &text);
        }
        Answered::Failed(why) => tell("host", &why),
    }
}

/// Reads typed lines until the input ends. Empty lines are ignored.
fn typed_lines() -> mpsc::Receiver<String> {
    let (tell, lines) = mpsc::channel(TYPED_MAX);
    // A read of standard input cannot be cancelled; it ends with the process.
    thread::spawn(move || {
        let mut input = io::stdin().lock();
        loop {
            let mut line = Vec::new();
            match input.by_ref().take(INPUT_BYTES_MAX).read_until(b'\n', &mut line) {
                Ok(0) | Err(_) => return,
                Ok(_) => {}
            }
            let line = String::from_utf8_lossy(&line).trim().to_owned();
            if !line.is_empty() && tell.blocking_send(line).is_err() {
                return;
            }
        }
    });
    lines
}

/// Shows one observed call, and records the state of the instance.
fn note(instance: &str, seen: &Seen<'_>, stands: &watch::Sender<Stand>, last: &Mutex<Option<String>>) {
    match seen {
        Seen::Emitted { event, answer } => tell("heard", &heard(event, *answer)),
        Seen::Sent { method, call, outcome } => {
            let (word, words) = sent(method, call, outcome);
            tell(word, &words);
        }
        Seen::State(state) => {
            let words = stood(instance, state);
            let mut last = last.lock().unwrap_or_else(PoisonError::into_inner);
            // A repeated failure with the same words is shown once.
            if let Some(words) = words.filter(|words| last.as_ref() != Some(words)) {
                tell("state", &words);
                *last = Some(words);
            }
            match state {
                AdapterState::Online { .. } | AdapterState::Degraded { .. } => _ = stands.send_replace(Stand::Up),
                AdapterState::Failed { reason, mend } => {
                    stands.send_replace(Stand::Failed(format!("{instance} failed: {reason}; {mend}")));
                }
                _ => {}
            }
        }
    }
}

/// Prints one line. A failed write does not end the trial.
fn tell(word: &str, words: &str) {
    let mut lines = words.lines();
    let first = one_line(lines.next().unwrap_or_default(), SHOWN_CHARS_MAX);
    let mut text = format!("{word:<9} {first}\n");
    for line in lines {
        text.push_str(&format!("{:<9} {}\n", "", one_line(line, SHOWN_CHARS_MAX)));
    }
    let mut out = io::stdout().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

/// Formats an event and the host's answer.
fn heard(event: &[u8], answer: Result<&[u8], &CallError>) -> String {
    let event: Event = match serde_json::from_slice(event) {
        Ok(event) => event,
        Err(error) => return format!("an invalid event: {error}"),
    };
    let mut words = String::new();
    if event.kind != EventKind::Message {
        words.push_str(&format!("[{}] ", event.kind.as_str()));
    }
    let who = event.sender.name.as_deref().unwrap_or(&event.sender.id);
    words.push_str(&format!("{who} in {}: {}", place(&event.chat), event.text));
    if !event.attachments.is_empty() {
        words.push_str(&format!(" [{} files]", event.attachments.len()));
    }
    match answer {
        Err(error) => words.push_str(&format!(" (rejected: {})", error.message)),
        Ok(answer) if answer.windows(12).any(|bytes| bytes == b"duplicate_of") => {
            words.push_str(&format!(" (duplicate: {})", event.event_id));
        }
        Ok(_) => {}
    }
    words
}

/// Formats a delivery: its outcome and its chat.
fn sent(method: &str, call: &[u8], outcome: &SendOutcome) -> (&'static str, String) {
    let outgoing = match method {
        "edit" => serde_json::from_slice::<EditCall>(call).map(|call| call.outgoing),
        _ => serde_json::from_slice::<Outgoing>(call),
    };
    // The host encoded the call, so it can be decoded.
    let Ok(outgoing) = outgoing else { return ("sent", method.to_owned()) };
    let mut words = format!("to {}: {}", place(&outgoing.chat), outgoing.text);
    let word = match outcome {
        SendOutcome::Delivered { .. } if method == "edit" => "edited",
        SendOutcome::Delivered { .. } => "sent",
        SendOutcome::Refused { kind, detail, .. } => {
            words.push_str(&format!(" (refused, {}: {detail})", kind.as_str()));
            "refused"
        }
        SendOutcome::NotSent { detail, .. } => {
            words.push_str(&format!(" (will be retried: {detail})"));
            "not sent"
        }
        SendOutcome::Unknown { detail, .. } => {
            words.push_str(&format!(" (delivery unknown: {detail})"));
            "unknown"
        }
        _ => "unknown",
    };
    (word, words)
}

/// Formats a state. States that are obvious or end the trial return `None`.
fn stood(instance: &str, state: &AdapterState) -> Option<String> {
    let says = state.is_online() || matches!(state, AdapterState::Reconnecting { .. } | AdapterState::Stuck);
    let why = state.reason().map_or_else(String::new, |reason| format!(": {reason}"));
    says.then(|| format!("{instance} is {}{why}", state.word()))
}

fn place(chat: &Chat) -> String {
    let name = chat.name.as_deref().unwrap_or(&chat.id);
    let place = match chat.kind {
        ChatType::Dm => format!("the direct chat {name}"),
        _ => format!("the {} {name}", chat.kind.as_str()),
    };
    match chat.thread_name.as_deref().or(chat.thread.as_deref()) {
        Some(thread) => format!("{place}, thread {thread}"),
        None => place,
    }
}

#[cfg(test)]
mod tests {
    use hermes_protocol::{RefusalKind, Sender, WaitScope};

    use super::*;

    #[test]
    fn an_event_says_who_where_what_and_what_became_of_it() {
        let event = Event::message("m:1", Chat::dm("ann"), Sender::new("ann"), "hello");
        let json = serde_json::to_vec(&event).unwrap();
        assert_eq!(heard(&json, Ok(br#"{"inbox_id":1}"#)), "ann in the direct chat ann: hello");
        assert!(heard(&json, Ok(br#"{"duplicate_of":1}"#)).ends_with("(duplicate: m:1)"));
        let refused = CallError::new("invalid", "too long");
        assert!(heard(&json, Err(&refused)).ends_with("(rejected: too long)"));
        assert!(heard(b"{}", Ok(b"{}")).starts_with("an invalid event: "));
        let room = Chat::new(ChatType::Group, "g").named("#tea").in_thread("7");
        let edited = Event::message("e:1", room, Sender::new("1").named("Ann"), "x").of_kind(EventKind::Edited);
        assert_eq!(
            heard(&serde_json::to_vec(&edited).unwrap(), Ok(b"{}")),
            "[edited] Ann in the group #tea, thread 7: x"
        );
    }

    #[test]
    fn an_adapter_that_gives_up_ends_the_trial_with_what_to_do() {
        let (stands, stand) = watch::channel(Stand::ComingUp);
        let last = Mutex::default();
        note("x", &Seen::State(&AdapterState::Starting { failures: 0, reason: None }), &stands, &last);
        assert_eq!(*stand.borrow(), Stand::ComingUp);
        note("x", &Seen::State(&AdapterState::Online { failures: 0 }), &stands, &last);
        assert_eq!(*stand.borrow(), Stand::Up);
        let failed = AdapterState::Failed { reason: "the token is wrong".to_owned(), mend: "make another".to_owned() };
        note("x", &Seen::State(&failed), &stands, &last);
        assert_eq!(*stand.borrow(), Stand::Failed("x failed: the token is wrong; make another".to_owned()));
    }

    #[test]
    fn a_delivery_says_how_it_ended() {
        let call = serde_json::to_vec(&Outgoing::text(Chat::dm("ann"), "hello")).unwrap();
        let told = |outcome: &SendOutcome| sent("send", &call, outcome);
        assert_eq!(told(&SendOutcome::delivered("1", 0)), ("sent", "to the direct chat ann: hello".to_owned()));
        let (word, words) = told(&SendOutcome::not_sent(None, WaitScope::Chat, "nobody is there"));
        assert_eq!((word, words.ends_with("(will be retried: nobody is there)")), ("not sent", true), "{words}");
        let (word, words) = told(&SendOutcome::refused(RefusalKind::TooLong, "9 at most"));
        assert_eq!((word, words.ends_with("(refused, too_long: 9 at most)")), ("refused", true), "{words}");
        assert_eq!(told(&SendOutcome::unknown("cut")).0, "unknown");
    }
}
