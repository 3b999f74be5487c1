//! Conversion of Slack's deliveries to events: sender, chat, and whether the message addresses this app.
//!
//! The functions are pure. Names are inputs (`receiver` requests them), and files are references (`files` fetches
//! them). The descriptor of a chat is built in one place and from the channel's id alone, because only some payloads
//! contain the kind of channel.

use std::collections::BTreeMap;

use hermes_adapter_sdk::prelude::*;
use hermes_adapter_sdk::protocol::text::one_line;
use serde::{Deserialize, Deserializer, de::DeserializeOwned};
use serde_json::Value;

use crate::api::{File, Me};
use crate::content;
use crate::files;
use crate::text;

/// The subtypes of messages written by people or apps; all others come from the platform
/// itself. <https://docs.slack.dev/reference/events/message#subtypes>
const WRITTEN: [&str; 4] = ["file_share", "thread_broadcast", "me_message", "bot_message"];
/// The maximum size of a payload stored with its event, in bytes.
const RAW_BYTES_MAX: usize = 16 * 1024;

/// The settings for threads.
#[derive(Clone, Copy, Debug)]
pub struct Threads {
    /// True if a message in a channel starts a thread.
    pub in_channels: bool,
    /// True if a direct message starts a thread.
    pub in_dms: bool,
}

/// The context for reading a delivery.
#[derive(Clone, Copy)]
pub struct Reader<'a> {
    /// The app's identity in the workspace.
    pub me: &'a Me,
    /// The settings for threads.
    pub threads: Threads,
    /// The known names of users.
    pub names: &'a BTreeMap<String, String>,
}

impl Reader<'_> {
    fn text(&self, text: &str) -> text::Read {
        text::read(text, &self.me.user_id, |user| self.names.get(user).cloned())
    }
}

/// Returns the workspaces to which a delivery may belong, the likeliest first. In a channel shared with
/// another company, a message of that company carries its id at the top level, and ours in `authorizations`.
/// <https://docs.slack.dev/apis/events-api/#callback-field>
pub fn teams(payload: &Value) -> Vec<&str> {
    let authorized = payload["authorizations"].as_array().into_iter().flatten().map(|one| &one["team_id"]);
    let said = [&payload["context_team_id"]].into_iter().chain(authorized);
    said.chain([&payload["team_id"], &payload["team"]["id"], &payload["user"]["team_id"]])
        .filter_map(Value::as_str)
        .collect()
}

/// Returns the texts of an event.
pub fn texts(payload: &Value) -> Vec<&str> {
    let event = &payload["event"];
    [&event["text"], &event["message"]["text"]].into_iter().filter_map(Value::as_str).collect()
}

/// Returns whether an event's text mentions a user.
pub fn mentions(payload: &Value, user: &str) -> bool {
    let marks = [format!("<@{user}>"), format!("<@{user}|")];
    texts(payload).into_iter().any(|text| marks.iter().any(|mark| text.contains(mark)))
}

/// Returns the thread of an event, or the thread that its message would start.
pub fn root(payload: &Value) -> &str {
    let (event, inner) = (&payload["event"], &payload["event"]["message"]);
    [&inner["thread_ts"], &event["thread_ts"], &inner["ts"], &event["ts"]]
        .into_iter()
        .find_map(Value::as_str)
        .unwrap_or_default()
}

/// Returns whether this user or bot wrote the message of an event.
pub fn is_by(payload: &Value, me: &Me) -> bool {
    let event = &payload["event"];
    let is_by = |message: &Value| {
        message["user"] == me.user_id.as_str() || (!me.bot_id.is_empty() && message["bot_id"] == me.bot_id.as_str())
    };
    [event, &event["message"], &event["previous_message"]].into_iter().any(is_by)
}

/// Returns the channel of a payload. Deliveries of one channel are processed in order.
pub fn channel(payload: &Value) -> &str {
    let event = &payload["event"];
    [&event["channel"], &payload["channel_id"], &payload["channel"]["id"], &payload["container"]["channel_id"]]
        .into_iter()
        .find_map(Value::as_str)
        .unwrap_or_default()
}

/// Returns the time of a payload's event, in microseconds since the Unix epoch; a slash command has none.
pub fn event_us(payload: &Value) -> Option<i64> {
    let event = &payload["event"];
    let ts =
        [&event["event_ts"], &event["ts"], &payload["actions"][0]["action_ts"]].into_iter().find_map(Value::as_str)?;
    let (seconds, fraction) = ts.split_once('.').filter(|_| is_ts(ts))?;
    let micros: i64 = format!("{fraction:0<6}").get(..6)?.parse().ok()?;
    seconds.parse::<i64>().ok()?.checked_mul(1_000_000)?.checked_add(micros)
}

/// Returns the descriptor of a channel in a workspace; the same on every path.
pub fn chat(team: &str, channel: &str, thread: Option<&str>) -> Chat {
    let kind = if is_dm(channel) { ChatType::Dm } else { ChatType::Group };
    let mut chat = Chat::new(kind, format!("{team}/{channel}"));
    chat.thread = thread.map(str::to_owned);
    chat.space = Some(team.to_owned()).filter(|team| !team.is_empty());
    // The channel id as operators write it in `free_chats`.
    chat.parent = (!is_dm(channel)).then(|| channel.to_owned());
    chat
}

/// Returns the workspace and the channel of a chat's id; a bare id has no workspace.
pub fn place(id: &str) -> (Option<&str>, &str) {
    id.split_once('/').map_or((None, id), |(team, channel)| (Some(team), channel))
}

/// Returns whether a channel is a direct message. <https://docs.slack.dev/apis/web-api/using-the-conversations-api>
fn is_dm(channel: &str) -> bool {
    channel.starts_with('D')
}

/// Returns the time of a message's id, in milliseconds since the Unix epoch.
pub fn at_ms(ts: &str) -> i64 {
    let (seconds, fraction) = ts.split_once('.').unwrap_or((ts, ""));
    let millis: i64 = fraction.get(..3).and_then(|digits| digits.parse().ok()).unwrap_or(0);
    seconds.parse::<i64>().unwrap_or(0).saturating_mul(1000).saturating_add(millis)
}

/// Returns whether this may be the id of a message.
pub fn is_ts(text: &str) -> bool {
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    text.split_once('.').is_some_and(|(seconds, fraction)| digits(seconds) && digits(fraction))
}

/// Converts one delivery of the Events API; `None` if it contains no event for the host.
pub fn event(payload: &Value, reader: Reader<'_>) -> Option<Event> {
    if !matches!(payload["event"]["type"].as_str(), Some("message" | "app_mention")) {
        return None;
    }
    let message = Message::deserialize(&payload["event"])
        .map_err(|error| tracing::warn!(%error, "message of an unknown type skipped"))
        .ok()?;
    let mut event = match message.subtype.as_deref() {
        Some("message_changed") => changed(&message, reader)?,
        Some("message_deleted") => deleted(&message, reader)?,
        _ => written(&message, &message.channel, reader)?,
    };
    if payload["is_ext_shared_channel"] == true {
        // The delivery names any of our workspaces that share the channel, possibly another one each time, and the
        // channel has the same id in all of them. <https://docs.slack.dev/apis/events-api/#authorizations>
        let space = format!(":{}/", reader.me.team_id);
        event.event_id = event.event_id.replacen(&space, ":", 1);
    }
    if payload["event"].to_string().len() <= RAW_BYTES_MAX {
        event.raw = payload["event"].clone();
    }
    Some(event)
}

/// <https://docs.slack.dev/reference/events/message>
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Message {
    subtype: Option<String>,
    channel: String,
    user: Option<String>,
    bot_id: Option<String>,
    #[serde(deserialize_with = "if_readable")]
    username: Option<String>,
    #[serde(deserialize_with = "if_readable")]
    text: String,
    ts: String,
    thread_ts: Option<String>,
    parent_user_id: Option<String>,
    #[serde(deserialize_with = "if_readable")]
    edited: Option<Edited>,
    #[serde(deserialize_with = "readable")]
    files: Vec<File>,
    #[serde(deserialize_with = "readable")]
    attachments: Vec<Attached>,
    blocks: Value,
    message: Option<Box<Message>>,
    previous_message: Option<Box<Message>>,
    deleted_ts: Option<String>,
}

/// An attachment of a message: a link preview, a card, or a shared message.
/// <https://docs.slack.dev/legacy/legacy-messaging/legacy-secondary-message-attachments>
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Attached {
    is_share: bool,
    is_msg_unfurl: bool,
    #[serde(deserialize_with = "if_readable")]
    author_name: Option<String>,
    #[serde(deserialize_with = "if_readable")]
    pretext: Option<String>,
    #[serde(deserialize_with = "if_readable")]
    title: Option<String>,
    #[serde(deserialize_with = "if_readable")]
    title_link: Option<String>,
    #[serde(deserialize_with = "if_readable")]
    text: Option<String>,
    #[serde(deserialize_with = "readable")]
    fields: Vec<AttachedField>,
    blocks: Value,
    message_blocks: Value,
    #[serde(deserialize_with = "if_readable")]
    fallback: Option<String>,
    /// The address of the previewed page.
    #[serde(deserialize_with = "if_readable")]
    from_url: Option<String>,
    #[serde(deserialize_with = "if_readable")]
    original_url: Option<String>,
    #[serde(deserialize_with = "readable")]
    files: Vec<File>,
}

/// A short field of an attachment.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct AttachedField {
    title: String,
    value: String,
}

impl Attached {
    /// Returns whether this is another person's message, shared or linked.
    fn is_quoted(&self) -> bool {
        self.is_share || self.is_msg_unfurl
    }

    /// Returns whether Slack created this from a link in the text. Such a preview is not part of the sender's message.
    /// Only an app can send other attachments.
    fn is_preview(&self, by_app: bool) -> bool {
        !self.is_quoted() && (!by_app || self.from_url.is_some() || self.original_url.is_some())
    }

    /// Returns the attachment's text for the agent: a quotation, or the lines of a card.
    fn words(&self, reader: Reader<'_>) -> String {
        if self.is_quoted() { self.quotation(reader) } else { self.lines(reader) }
    }

    /// Returns the lines of a card: pretext, title, text, fields and blocks; the fallback if there are none.
    fn lines(&self, reader: Reader<'_>) -> String {
        let title = self.title.as_ref().map(|title| match self.title_link.as_deref() {
            Some(link) if link != title => format!("{title} ({link})"),
            _ => title.clone(),
        });
        let mut lines: Vec<String> = [self.pretext.clone(), title, self.text.clone()].into_iter().flatten().collect();
        lines.extend(self.fields.iter().map(|field| format!("{}: {}", field.title, field.value)));
        lines.extend(
            [&self.blocks, &self.message_blocks[0]["message"]["blocks"]].into_iter().flat_map(content::block_lines),
        );
        lines.retain(|line| !line.trim_matches([' ', ':', '\n']).is_empty());
        if lines.is_empty() {
            lines.extend(self.fallback.clone());
        }
        reader.text(&lines.join("\n")).text
    }

    /// Returns another person's text, marked as a quotation. A mention in it does not address this app.
    fn quotation(&self, reader: Reader<'_>) -> String {
        let said = self.lines(reader);
        let author = self.author_name.as_deref().filter(|name| !name.is_empty()).unwrap_or("somebody");
        let author = reader.text(author).text.replace('\n', " ");
        let lines = said.lines().map(|line| format!("> {line}"));
        [format!("> {author} wrote:")].into_iter().chain(lines).collect::<Vec<_>>().join("\n")
    }
}

/// Parses a list and drops invalid entries, so that they do not affect the others or the message.
fn readable<'d, T: DeserializeOwned, D: Deserializer<'d>>(list: D) -> Result<Vec<T>, D::Error> {
    let list = Option::<Vec<Value>>::deserialize(list)?.unwrap_or_default();
    let read = list.into_iter().map(serde_json::from_value);
    Ok(read
        .filter_map(|one| one.map_err(|error| tracing::warn!(%error, "attachments of a message skipped")).ok())
        .collect())
}

/// Parses an optional field; an invalid value becomes the default.
fn if_readable<'d, T: DeserializeOwned + Default, D: Deserializer<'d>>(field: D) -> Result<T, D::Error> {
    Ok(serde_json::from_value(Value::deserialize(field)?).unwrap_or_default())
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Edited {
    ts: String,
}

impl Message {
    fn is_written(&self) -> bool {
        self.subtype.as_deref().is_none_or(|subtype| WRITTEN.contains(&subtype))
    }

    fn is_ours(&self, me: &Me) -> bool {
        self.user.as_deref() == Some(&me.user_id)
            || (self.bot_id.is_some() && self.bot_id.as_deref() == Some(&me.bot_id))
    }

    /// Returns the thread of a message, or the thread that it starts.
    fn thread(&self, channel: &str, threads: Threads) -> Option<&str> {
        let begins = if is_dm(channel) { threads.in_dms } else { threads.in_channels };
        self.thread_ts.as_deref().or(begins.then_some(self.ts.as_str()))
    }

    fn sender(&self) -> Option<Sender> {
        let id = self.user.as_ref().or(self.bot_id.as_ref())?;
        let mut sender = Sender::new(id).bot(self.bot_id.is_some());
        sender.name = self.username.clone();
        Some(sender)
    }
}

fn written(message: &Message, channel: &str, reader: Reader<'_>) -> Option<Event> {
    let Reader { me, threads, .. } = reader;
    if !message.is_written() || message.is_ours(me) || !is_ts(&message.ts) || channel.is_empty() {
        return None;
    }
    let read = reader.text(&message.text);
    let card = card(message, &read.text, reader);
    let mention = read.mention || card.mention;
    let attached: Vec<&Attached> =
        message.attachments.iter().filter(|one| !one.is_preview(message.bot_id.is_some())).collect();
    let more = attached.iter().map(|one| one.words(reader));
    let said: Vec<String> =
        [read.text, card.text].into_iter().chain(more).filter(|text| !text.trim().is_empty()).collect();
    if said.is_empty() && message.files.is_empty() && !mention {
        return None;
    }
    let said = said.join("\n\n");
    let chat = chat(&me.team_id, channel, message.thread(channel, threads));
    // `message` and `app_mention` are two deliveries of one text, with the same event id.
    let event_id = format!("m:{}:{}", chat.id, message.ts);
    let mut event =
        Event::message(event_id, chat, message.sender()?, said).at_ms(at_ms(&message.ts)).with_message_id(&message.ts);
    event.reply_to = reply(message, me);
    let answers_us = event.reply_to.as_ref().is_some_and(|reply| reply.is_self);
    event.addressed = Addressed::new(mention, answers_us, false);
    let files = message.files.iter().chain(attached.into_iter().flat_map(|one| &one.files));
    event.attachments = files.map(|file| files::named(&me.team_id, file)).collect();
    Some(event)
}

/// Returns the text of a message's blocks that its `text` does not contain. A person's text is in `text`, and
/// repeated in a rich text block; an app may send its whole text in blocks.
fn card(message: &Message, text: &str, reader: Reader<'_>) -> text::Read {
    if !text.is_empty() && !content::is_card(&message.blocks) {
        return text::Read::default();
    }
    let read = reader.text(&content::block_lines(&message.blocks).join("\n"));
    let known = one_line(text);
    let lines = read.text.lines().filter(|line| known.is_empty() || !known.contains(&one_line(line)));
    text::Read { text: lines.collect::<Vec<_>>().join("\n"), mention: read.mention }
}

/// Returns the first message of the thread as the answered message.
fn reply(message: &Message, me: &Me) -> Option<ReplyTo> {
    let root = message.thread_ts.as_ref().filter(|root| **root != message.ts)?;
    let mut reply = ReplyTo::new(root);
    reply.is_self = message.parent_user_id.as_deref() == Some(&me.user_id);
    reply.sender = message.parent_user_id.as_ref().map(Sender::new);
    Some(reply)
}

/// Converts the edit of a message. Slack sends the same payload for link previews and after processing a text again,
/// without a change by the author; these are dropped.
fn changed(outer: &Message, reader: Reader<'_>) -> Option<Event> {
    let message = outer.message.as_ref()?;
    let before = outer.previous_message.as_ref();
    if message.subtype.as_deref() == Some("tombstone") {
        // The deleted first message of a thread becomes a tombstone.
        return gone(before?, &message.ts, &outer.channel, &outer.ts, reader);
    }
    let edited = message.edited.as_ref().filter(|edited| !edited.ts.is_empty())?;
    if before.is_some_and(|before| before.text == message.text) {
        return None;
    }
    let mut event = written(message, &outer.channel, reader)?;
    event.kind = EventKind::Edited;
    event.event_id = format!("e:{}:{}:{}", event.chat.id, message.ts, edited.ts);
    event.at_ms = at_ms(&edited.ts);
    // The files came with the original message.
    event.attachments.clear();
    Some(event)
}

fn deleted(outer: &Message, reader: Reader<'_>) -> Option<Event> {
    let before = outer.previous_message.as_ref()?;
    gone(before, outer.deleted_ts.as_ref()?, &outer.channel, &outer.ts, reader)
}

fn gone(before: &Message, ts: &str, channel: &str, when: &str, reader: Reader<'_>) -> Option<Event> {
    let Reader { me, threads, .. } = reader;
    if !before.is_written() || before.is_ours(me) || !is_ts(ts) || channel.is_empty() {
        return None;
    }
    let chat = chat(&me.team_id, channel, before.thread(channel, threads));
    let event = Event::message(format!("d:{}:{ts}", chat.id), chat, before.sender()?, "")
        .of_kind(EventKind::Deleted)
        .at_ms(at_ms(when))
        .with_message_id(ts);
    Some(event)
}

/// Converts the press of a button. <https://docs.slack.dev/reference/interaction-payloads/block_actions-payload>
pub fn pressed(payload: &Value, me: &Me) -> Option<Event> {
    if payload["type"] != "block_actions" {
        return None;
    }
    let action = payload["actions"].get(0)?;
    let (ask, option) = action["value"].as_str()?.split_once(':')?;
    let (message, container) = (&payload["message"], &payload["container"]);
    let either =
        |one: &'_ str, other: &'_ str| message[one].as_str().or_else(|| container[other].as_str()).map(str::to_owned);
    let ts = either("ts", "message_ts")?;
    let thread = either("thread_ts", "thread_ts");
    let user = payload["user"]["id"].as_str()?;
    let chat = chat(&me.team_id, Some(channel(payload)).filter(|id| !id.is_empty())?, thread.as_deref());
    let pressed_ts = action["action_ts"].as_str().unwrap_or_default();
    let mut event = Event::message(format!("c:{}:{ts}:{user}:{pressed_ts}", chat.id), chat, Sender::new(user), "")
        .of_kind(EventKind::Choice)
        .at_ms(at_ms(pressed_ts))
        .with_message_id(ts);
    event.choice = Some(ChoiceMade::new(ask, option));
    Some(event)
}

/// A slash command. <https://docs.slack.dev/interactivity/implementing-slash-commands#app_command_handling>
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slash {
    /// The command, such as `/hermes`.
    pub command: String,
    /// The text after the command.
    pub text: String,
}

/// Converts a slash command; `say` returns its meaning. Slack does not support slash commands inside threads.
pub fn slash(payload: &Value, reader: Reader<'_>, now_ms: i64, say: impl FnOnce(&Slash) -> String) -> Option<Event> {
    let word = |key: &str| payload[key].as_str().unwrap_or_default();
    let slash = Slash { command: word("command").to_owned(), text: word("text").trim().to_owned() };
    let (user, channel, trigger) = (word("user_id"), word("channel_id"), word("trigger_id"));
    if [slash.command.as_str(), user, channel, trigger].contains(&"") {
        return None;
    }
    let chat = chat(&reader.me.team_id, channel, None);
    let read = reader.text(&say(&slash));
    let mut event =
        Event::message(format!("s:{}:{trigger}", chat.id), chat, Sender::new(user), read.text).at_ms(now_ms);
    event.addressed = Addressed::new(true, false, event.text.starts_with('/'));
    Some(event)
}

#[cfg(test)]
mod tests;
