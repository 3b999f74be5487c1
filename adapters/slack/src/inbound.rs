//! Conversion of Slack's deliveries to events: sender, chat, and whether the message addresses this app.
//!
//! The functions are pure. Names are inputs (`receiver` requests them), and files are references (`files` fetches
//! them).

use hermes_adapter_sdk::prelude::*;
use hermes_adapter_sdk::protocol::text::one_line;
use serde::Deserialize;
use serde_json::Value;

use crate::attachments::MessageAttachment;
use crate::chats::chat;
use crate::content;
use crate::context::ReadContext;
use crate::file_ref;
use crate::messages::Message;
use crate::objects::BotIdentity;
use crate::payload::channel;
use crate::slash_command::SlashCommand;
use crate::text::ReadableText;
use crate::timestamp::{at_ms, is_ts};

/// The maximum size of a payload stored with its event, in bytes.
const RAW_BYTES_MAX: usize = 16 * 1024;

/// Converts one delivery of the Events API; `None` if it contains no event for the host.
pub(crate) fn from_event(payload: &Value, context: ReadContext<'_>) -> Option<Event> {
    if !matches!(payload["event"]["type"].as_str(), Some("message" | "app_mention")) {
        return None;
    }
    let message = Message::deserialize(&payload["event"])
        .map_err(|error| tracing::warn!(%error, "message of an unknown type skipped"))
        .ok()?;
    let mut event = match message.subtype.as_deref() {
        Some("message_changed") => edited(&message, context)?,
        Some("message_deleted") => deleted(&message, context)?,
        _ => new_message(&message, &message.channel, context)?,
    };
    if payload["is_ext_shared_channel"] == true {
        // The delivery names any of our workspaces that share the channel, possibly another one each time, and the
        // channel has the same id in all of them. <https://docs.slack.dev/apis/events-api/#authorizations>
        let workspace = format!(":{}/", context.me.team_id);
        event.event_id = event.event_id.replacen(&workspace, ":", 1);
    }
    if payload["event"].to_string().len() <= RAW_BYTES_MAX {
        event.raw = payload["event"].clone();
    }
    Some(event)
}

fn new_message(message: &Message, channel: &str, context: ReadContext<'_>) -> Option<Event> {
    let ReadContext { me, threads, .. } = context;
    if !message.has_author() || message.is_ours(me) || !is_ts(&message.ts) || channel.is_empty() {
        return None;
    }
    let read = context.text(&message.text);
    let blocks = block_text(message, &read.text, context);
    let mention = read.mention || blocks.mention;
    let attached: Vec<&MessageAttachment> =
        message.attachments.iter().filter(|one| !one.is_preview(message.bot_id.is_some())).collect();
    let more = attached.iter().map(|one| one.readable_text(context));
    let texts: Vec<String> =
        [read.text, blocks.text].into_iter().chain(more).filter(|text| !text.trim().is_empty()).collect();
    if texts.is_empty() && message.files.is_empty() && !mention {
        return None;
    }
    let texts = texts.join("\n\n");
    let chat = chat(&me.team_id, channel, message.thread(channel, threads));
    // `message` and `app_mention` are two deliveries of one text, with the same event id.
    let event_id = format!("m:{}:{}", chat.id, message.ts);
    let mut event =
        Event::message(event_id, chat, message.sender()?, texts).at_ms(at_ms(&message.ts)).with_message_id(&message.ts);
    event.reply_to = reply(message, me);
    let is_reply_to_bot = event.reply_to.as_ref().is_some_and(|reply| reply.is_self);
    event.addressed = Addressed::new(mention, is_reply_to_bot, false);
    let files = message.files.iter().chain(attached.into_iter().flat_map(|one| &one.files));
    event.attachments = files.map(|file| file_ref::attachment(&me.team_id, file)).collect();
    Some(event)
}

/// Returns the text of a message's blocks that its `text` does not contain. A person's text is in `text`, and
/// repeated in a rich text block; an app may send its whole text in blocks.
fn block_text(message: &Message, text: &str, context: ReadContext<'_>) -> ReadableText {
    if !text.is_empty() && !content::is_card(&message.blocks) {
        return ReadableText::default();
    }
    let read = context.text(&content::block_lines(&message.blocks).join("\n"));
    let known = one_line(text);
    let lines = read.text.lines().filter(|line| known.is_empty() || !known.contains(&one_line(line)));
    ReadableText { text: lines.collect::<Vec<_>>().join("\n"), mention: read.mention }
}

/// Returns the first message of the thread as the answered message.
fn reply(message: &Message, me: &BotIdentity) -> Option<ReplyTo> {
    let root = message.thread_ts.as_ref().filter(|root| **root != message.ts)?;
    let mut reply = ReplyTo::new(root);
    reply.is_self = message.parent_user_id.as_deref() == Some(&me.user_id);
    reply.sender = message.parent_user_id.as_ref().map(Sender::new);
    Some(reply)
}

/// Converts the edit of a message. Slack sends the same payload for link previews and after processing a text again,
/// without a change by the author; these are dropped.
fn edited(outer: &Message, context: ReadContext<'_>) -> Option<Event> {
    let message = outer.message.as_ref()?;
    let before = outer.previous_message.as_ref();
    if message.subtype.as_deref() == Some("tombstone") {
        // The deleted first message of a thread becomes a tombstone.
        return deletion(before?, &message.ts, &outer.channel, &outer.ts, context);
    }
    let edit = message.edited.as_ref().filter(|edit| !edit.ts.is_empty())?;
    if before.is_some_and(|before| before.text == message.text) {
        return None;
    }
    let mut event = new_message(message, &outer.channel, context)?;
    event.kind = EventKind::Edited;
    event.event_id = format!("e:{}:{}:{}", event.chat.id, message.ts, edit.ts);
    event.at_ms = at_ms(&edit.ts);
    // The files came with the original message.
    event.attachments.clear();
    Some(event)
}

fn deleted(outer: &Message, context: ReadContext<'_>) -> Option<Event> {
    let before = outer.previous_message.as_ref()?;
    deletion(before, outer.deleted_ts.as_ref()?, &outer.channel, &outer.ts, context)
}

fn deletion(before: &Message, ts: &str, channel: &str, when: &str, context: ReadContext<'_>) -> Option<Event> {
    let ReadContext { me, threads, .. } = context;
    if !before.has_author() || before.is_ours(me) || !is_ts(ts) || channel.is_empty() {
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
pub(crate) fn from_button(payload: &Value, me: &BotIdentity) -> Option<Event> {
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

/// Converts a slash command; `meaning` returns its text. Slack does not support slash commands inside threads.
pub(crate) fn from_slash_command(
    payload: &Value,
    context: ReadContext<'_>,
    now_ms: i64,
    meaning: impl FnOnce(&SlashCommand) -> String,
) -> Option<Event> {
    let field = |key: &str| payload[key].as_str().unwrap_or_default();
    let command = SlashCommand { command: field("command").to_owned(), text: field("text").trim().to_owned() };
    let (user, channel, trigger) = (field("user_id"), field("channel_id"), field("trigger_id"));
    if [command.command.as_str(), user, channel, trigger].contains(&"") {
        return None;
    }
    let chat = chat(&context.me.team_id, channel, None);
    let read = context.text(&meaning(&command));
    let mut event =
        Event::message(format!("s:{}:{trigger}", chat.id), chat, Sender::new(user), read.text).at_ms(now_ms);
    event.addressed = Addressed::new(true, false, event.text.starts_with('/'));
    Some(event)
}

#[cfg(test)]
mod tests;
