//! Conversion of the page's requests to events of the host.
//!
//! The page chooses the id of each message, so a request that is repeated after a lost
//! response becomes the same event. Both the host and the log recognize it.

use std::sync::Arc;
use std::time::Duration;

use hermes_adapter_sdk::prelude::*;
use hermes_adapter_sdk::protocol::host_method;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::connection::{Connection, Upload, random_word};
use crate::live::Ends;
use crate::log::{Conversation, Entry, File, From};
use crate::{outbound, sessions};

/// The maximum size of one message, in bytes; a longer text is sent as a file.
pub(crate) const MESSAGE_BYTES_MAX: usize = 256 * 1024;
/// The maximum number of files per message.
const FILES_MAX: usize = 10;
/// The time in which the host must resume a session here.
const RESUMED_WITHIN: Duration = Duration::from_secs(8);
/// The pauses before the two checks for a command that has become a waiting message.
const COMMAND_LOOKS: [Duration; 2] = [Duration::from_millis(150), Duration::from_millis(600)];
/// The sender id of the person at the page.
const OPERATOR: &str = "operator";

/// A message from the page.
#[derive(Debug, Deserialize)]
pub(crate) struct Said {
    /// The message id chosen by the page.
    id: String,
    text: String,
    #[serde(default)]
    files: Vec<String>,
}

/// A pressed button from the page.
#[derive(Debug, Deserialize)]
pub(crate) struct Pressed {
    entry: String,
    ask: String,
    option: String,
}

impl Said {
    /// Refuses a message that no event can be.
    fn check(&self) -> Result<(), CallError> {
        let refuse = |why: &str| Err(CallError::new("invalid", why));
        if !is_id(&self.id) {
            return refuse("the id of the message is invalid");
        }
        if self.text.len() > MESSAGE_BYTES_MAX {
            return refuse("the message exceeds 256 KiB; send it as a file");
        }
        if self.files.len() > FILES_MAX {
            return refuse("a message can have at most 10 files");
        }
        if self.text.trim().is_empty() && self.files.is_empty() {
            return refuse("the message is empty");
        }
        Ok(())
    }

    /// Returns its event, without its files.
    fn event(&self, conversation: &str, chat: Chat, now_ms: i64) -> Event {
        let command = self.text.trim_start().starts_with('/');
        Event::message(format!("m:{conversation}:{}", self.id), chat, operator(), self.text.as_str())
            .at_ms(now_ms)
            .with_message_id(self.id.as_str())
            .addressed(Addressed::new(false, false, command))
    }
}

impl Pressed {
    /// Returns its event.
    fn event(&self, conversation: &str, chat: Chat, now_ms: i64) -> Result<Event, CallError> {
        let Self { entry, ask, option } = self;
        if [ask, option, entry].iter().any(|word| word.is_empty() || word.len() > 64) {
            return Err(CallError::new("invalid", "the choice has no question"));
        }
        // A colon within a word is written otherwise, so that two presses never have one name.
        let named = [entry, ask, option].map(|word| word.replace('%', "%25").replace(':', "%3A")).join(":");
        let mut event = Event::message(format!("c:{conversation}:{named}"), chat, operator(), "")
            .of_kind(EventKind::Choice)
            .at_ms(now_ms)
            .with_message_id(entry.as_str());
        event.choice = Some(ChoiceMade::new(ask.as_str(), option.as_str()));
        Ok(event)
    }
}

/// Reads the body of a request in the conversation `c`: the reader as the fuzz ring reaches it.
pub(crate) fn read(is_press: bool, body: &[u8]) -> Option<Event> {
    let chat = Chat::dm("c");
    if is_press {
        return serde_json::from_slice::<Pressed>(body).ok()?.event("c", chat, 1).ok();
    }
    let said: Said = serde_json::from_slice(body).ok()?;
    said.check().ok()?;
    Some(said.event("c", chat, 1))
}

/// Returns the chat of a conversation.
pub(crate) fn chat(link: &Connection, conversation: &Conversation) -> Chat {
    Chat::dm(conversation.id.as_str()).named(outbound::title(link, conversation))
}

/// Returns the person at the page. The link belongs to the operator, so the adapter assigns the role.
pub(crate) fn operator() -> Sender {
    Sender::new(OPERATOR).named("Operator").with_role("operator")
}

/// Returns whether a word is a valid id of a conversation or message.
pub(crate) fn is_id(word: &str) -> bool {
    (1..=64).contains(&word.len()) && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte))
}

/// Emits a message and returns its entry after both the host and the log have stored it.
pub(crate) async fn say(link: &Arc<Connection>, conversation: &str, said: Said) -> Result<Entry, CallError> {
    said.check()?;
    let line = known(link, conversation).await?;
    let uploads = link
        .uploads(conversation, &said.files)
        .ok_or_else(|| CallError::new("not_found", "a file of this message is no longer available; attach it again"))?;
    let now_ms = link.host.now_ms();
    let mut event = said.event(conversation, chat(link, &line), now_ms);
    let command = event.addressed.command;
    event.attachments = uploads.iter().map(|upload| upload.attachment.clone()).collect();
    let inbox_id = emit(link, &event).await?;

    let mut entry = Entry::new(said.id, From::Me, said.text, now_ms);
    entry.inbox_id = Some(inbox_id);
    entry.files = uploads.into_iter().filter_map(file).collect();
    let entry = link.log.append(conversation, entry).await?;
    link.live.entry(conversation, Ends::Nothing, &outbound::shown(conversation, &entry));
    if command {
        link.host.spawn(look_after(Arc::clone(link), conversation.to_owned(), inbox_id));
    } else {
        link.live.expect(conversation, inbox_id);
    }
    title_from(link, conversation, &entry.text).await?;
    Ok(entry)
}

/// Checks whether a command became a waiting message for the agent (`/queue …`), which only
/// the host knows. Its turn shows by itself when it starts.
async fn look_after(link: Arc<Connection>, conversation: String, inbox_id: i64) {
    for pause in COMMAND_LOOKS {
        tokio::time::sleep(pause).await;
        match link.host.call::<Value>(host_method::TURNS_STATUS, &json!({ "inbox_id": inbox_id })).await {
            Ok(answer) if answer["state"] == "queued" => return link.live.expect(&conversation, inbox_id),
            Ok(_) => {}
            Err(_) => return,
        }
    }
}

/// Emits a pressed button.
pub(crate) async fn press(link: &Arc<Connection>, conversation: &str, pressed: Pressed) -> Result<(), CallError> {
    let line = known(link, conversation).await?;
    let event = pressed.event(conversation, chat(link, &line), link.host.now_ms())?;
    emit(link, &event).await?;
    let Pressed { entry, option, .. } = pressed;
    if let Some(entry) = link.log.edit(conversation, &entry, |entry| entry.chosen = Some(option)).await? {
        link.live.entry(conversation, Ends::Nothing, &outbound::shown(conversation, &entry));
    }
    Ok(())
}

/// The response to a stop request.
#[derive(Debug, Serialize)]
pub(crate) struct Stopped {
    stopped: bool,
}

/// Stops the running turn of a conversation.
pub(crate) async fn stop(link: &Arc<Connection>, conversation: &str) -> Result<Stopped, CallError> {
    let line = known(link, conversation).await?;
    let Some(inbox_id) = link.live.running(conversation).or_else(|| line.inbox.last().copied()) else {
        return Ok(Stopped { stopped: false });
    };
    match link.host.call::<Value>(host_method::TURNS_STOP, &json!({ "inbox_id": inbox_id })).await {
        Ok(answer) => Ok(Stopped { stopped: answer.get("stopped").and_then(Value::as_bool).unwrap_or(false) }),
        Err(error) if matches!(error.code.as_str(), "not_granted" | "unsupported") => {
            // The command does the same for every authorized person.
            emit(link, &command(link, &line, "/stop")).await?;
            Ok(Stopped { stopped: true })
        }
        Err(error) => Err(error),
    }
}

/// Renames a conversation. The title belongs to its session; the host numbers a title that is taken.
pub(crate) async fn rename(link: &Arc<Connection>, conversation: &str, title: &str) -> Result<Conversation, CallError> {
    let title = clean_title(title)?;
    known(link, conversation).await?;
    sessions::refresh(link).await;
    let named = match link.sessions.of(conversation) {
        Some(session) => sessions::rename(link, &session.id, &title).await?,
        None => None,
    };
    // Without a session, or if the host does not rename, the page stores the title.
    let kept = named.unwrap_or(title);
    let changed = link.log.change(conversation, |line| line.title = kept).await?;
    let changed = changed.ok_or_else(|| CallError::new("not_found", "this conversation does not exist"))?;
    sessions::refresh(link).await;
    outbound::tell_conversation(link, &changed);
    Ok(changed)
}

/// Returns a title with normalized white space and limited length.
pub(crate) fn clean_title(title: &str) -> Result<String, CallError> {
    let title: String = title.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut title: String = title.chars().take(crate::log::TITLE_CHARS_MAX).collect();
    title.truncate(title.trim_end().len());
    if title.is_empty() {
        return Err(CallError::new("invalid", "a title needs at least one visible character"));
    }
    Ok(title)
}

/// Deletes a conversation and its session. Running turns are stopped and waiting messages are withdrawn.
pub(crate) async fn delete(link: &Arc<Connection>, conversation: &str) -> Result<(), CallError> {
    let line = known(link, conversation).await?;
    sessions::refresh(link).await;
    for inbox_id in link.live.unanswered(conversation) {
        // A turn that does not stop blocks the deletion of the session, which reports the error.
        link.host.call::<Value>(host_method::TURNS_STOP, &json!({ "inbox_id": inbox_id })).await.ok();
    }
    if let Some(session) = link.sessions.of(conversation).map(|session| session.id).or(line.session) {
        sessions::delete(link, &session).await?;
        link.sessions.forget(&session);
    }
    link.log.delete(conversation).await?;
    link.live.forget(conversation);
    link.sessions.stir();
    Ok(())
}

/// Creates a conversation.
pub(crate) async fn begin(link: &Arc<Connection>, title: &str) -> Result<Conversation, CallError> {
    let id = format!("c_{}", &random_word()[..20]);
    let line = link.log.open(&id, title, link.host.now_ms()).await?;
    outbound::tell_conversation(link, &line);
    Ok(line)
}

/// Resumes a session in a conversation and returns the host's reply.
pub(crate) async fn resume(
    link: &Arc<Connection>,
    line: &Conversation,
    session: &str,
) -> Result<Option<String>, CallError> {
    let event = command(link, line, &format!("/resume {session}"));
    let mut news = link.live.news();
    let inbox_id = emit(link, &event).await?;
    let answer = async {
        loop {
            if let Some(answer) = link.log.answer_to(&line.id, inbox_id).await? {
                return Ok(answer);
            }
            // The channel closes only when the adapter ends.
            news.changed().await.map_err(|_| CallError::new("unavailable", "the page is shutting down"))?;
        }
    };
    match tokio::time::timeout(RESUMED_WITHIN, answer).await {
        Ok(answer) => answer.map(Some),
        Err(_) => Ok(None),
    }
}

/// Returns a command as if it was written in this conversation.
fn command(link: &Connection, line: &Conversation, text: &str) -> Event {
    let id = random_word();
    Event::message(format!("m:{}:{id}", line.id), chat(link, line), operator(), text)
        .at_ms(link.host.now_ms())
        .with_message_id(id)
        .addressed(Addressed::new(false, false, true))
}

async fn known(link: &Connection, conversation: &str) -> Result<Conversation, CallError> {
    link.log
        .conversation(conversation)
        .await
        .ok_or_else(|| CallError::new("not_found", "this conversation does not exist"))
}

async fn emit(link: &Connection, event: &Event) -> Result<i64, CallError> {
    match link.host.emit(event).await? {
        Emitted::New { inbox_id } => Ok(inbox_id),
        Emitted::Duplicate { duplicate_of } => Ok(duplicate_of),
        _ => Err(CallError::new("unavailable", "the host sent an unknown answer of a later version")),
    }
}

fn file(upload: Upload) -> Option<File> {
    let Attachment { media, mime, name, size, .. } = upload.attachment;
    Some(File { id: media?, name, mime, size, path: upload.path })
}

/// Names a conversation after its first message.
async fn title_from(link: &Arc<Connection>, conversation: &str, text: &str) -> Result<(), CallError> {
    let line = known(link, conversation).await?;
    if !outbound::title(link, &line).is_empty() {
        outbound::tell_conversation(link, &line);
        return Ok(());
    }
    let first = text.lines().map(str::trim).find(|line| !line.is_empty() && !line.starts_with('/')).unwrap_or("");
    let title: String = first.chars().take(60).collect();
    if let Some(changed) = link.log.change(conversation, |line| line.title = title).await? {
        outbound::tell_conversation(link, &changed);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_title_that_was_cut_is_the_same_when_it_is_given_again() {
        let cut = clean_title(&format!("{} b", "a".repeat(crate::log::TITLE_CHARS_MAX - 1))).unwrap();
        assert_eq!(clean_title(&cut).unwrap(), cut);
        assert!(!cut.ends_with(' '), "{cut:?}");
    }

    #[test]
    fn two_presses_never_have_one_name() {
        let press = |entry: &str, ask: &str, option: &str| {
            let body = json!({ "entry": entry, "ask": ask, "option": option }).to_string();
            read(true, body.as_bytes()).unwrap().event_id
        };
        assert_eq!(press("e1", "a1", "yes"), "c:c:e1:a1:yes");
        assert_ne!(press("e:a", "b", "c"), press("e", "a:b", "c"));
        assert_ne!(press("e%3Aa", "b", "c"), press("e:a", "b", "c"));
    }
}
