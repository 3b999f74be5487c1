//! Conversion of updates to events: sender, chat, and whether the message addresses this
//! bot.
//!
//! The functions are pure: they only reference files (`files` fetches them when the host
//! asks). All decisions use structured data: a mention is an entity, never a text that
//! looks like one.

use hermes_adapter_sdk::prelude::*;

use crate::attachments::attachments;
use crate::chats::{chat, direct};
use crate::content::with_lines;
use crate::entities::{self, with_links};
use crate::objects::{CallbackQuery, Entity, Message, Origin, Update, User};

/// An event, and the action after the host has accepted it.
pub(crate) struct Incoming {
    /// The event.
    pub event: Event,
    /// The callback to answer after the host has accepted the event.
    pub callback: Option<String>,
}

/// Converts one update; `None` if it contains no event for the host.
pub(crate) fn from_update(update: &Update, me: &User) -> Option<Incoming> {
    if let Some(query) = &update.callback_query {
        return from_button(query);
    }
    if let Some(message) = update.message.as_ref().or(update.channel_post.as_ref()) {
        return match message.migrate_to_chat_id {
            Some(new) => Some(Incoming::without_callback(migration(message, new))),
            None => from_message(message, me),
        };
    }
    let message = update.edited_message.as_ref().or(update.edited_channel_post.as_ref())?;
    let mut incoming = from_message(message, me)?;
    let revision = message.edit_date.unwrap_or(message.date);
    // An edit changes text only; the files came with the original message.
    incoming.event.attachments.clear();
    incoming.event.kind = EventKind::Edited;
    incoming.event.event_id = format!("e:{}:{}:{revision}", message.chat.id, message.message_id);
    incoming.event.at_ms = revision.saturating_mul(1000);
    Some(incoming)
}

/// Returns the forum of an update, if its chat is a forum.
pub(crate) fn forum(update: &Update) -> Option<i64> {
    let button_message = || update.callback_query.as_ref().and_then(|query| query.message.as_ref());
    let message = update.message.as_ref().or(update.edited_message.as_ref()).or_else(button_message)?;
    message.chat.is_forum.then_some(message.chat.id)
}

/// Joins the messages of one album into one event with the first message's chat, all captions and all files.
pub(crate) fn from_album(messages: &[Message], me: &User) -> Option<Incoming> {
    let mut parts = messages.iter().filter_map(|message| from_message(message, me));
    let mut album = parts.next()?;
    let (first, last) = (messages.first()?, messages.last()?);
    let group = first.media_group_id.as_deref().unwrap_or_default();
    // The id names the contained messages: later parts of the album become another event, which the host joins.
    album.event.event_id = format!("a:{}:{group}:{}-{}", first.chat.id, first.message_id, last.message_id);
    for part in parts {
        if !part.event.text.is_empty() {
            album.event.text.push_str(if album.event.text.is_empty() { "" } else { "\n" });
            album.event.text.push_str(&part.event.text);
        }
        let (all, one) = (&mut album.event.addressed, part.event.addressed);
        all.mention |= one.mention;
        all.command |= one.command;
        all.reply_to_self |= one.reply_to_self;
        album.event.attachments.extend(part.event.attachments);
    }
    Some(album)
}

impl Incoming {
    fn without_callback(event: Event) -> Self {
        Self { event, callback: None }
    }
}

/// Returns the descriptor of a message's chat.
fn chat_of(message: &Message) -> Chat {
    match &message.direct_messages_topic {
        Some(topic) => direct(&message.chat, topic.topic_id),
        None => chat(&message.chat, topic(message)),
    }
}

/// Returns the topic of a message. A reply chain outside of topics has a thread id, too, but it
/// is not a target for messages; only `is_topic_message` identifies a topic.
fn topic(message: &Message) -> Option<i64> {
    message.message_thread_id.filter(|_| message.is_topic_message)
}

fn sender(message: &Message) -> Sender {
    // An anonymous admin or a channel writes as a chat, whose id is stable.
    if let Some(chat) = &message.sender_chat {
        let mut sender = Sender::new(chat.id.to_string());
        sender.name = chat.title.clone();
        return sender;
    }
    match &message.from {
        Some(user) => user_sender(user),
        None => Sender::new(message.chat.id.to_string()),
    }
}

fn user_sender(user: &User) -> Sender {
    Sender::new(user.id.to_string()).named(user.full_name()).bot(user.is_bot)
}

fn from_message(message: &Message, me: &User) -> Option<Incoming> {
    if message.from.as_ref().is_some_and(|from| from.id == me.id) {
        return None; // The bot's own message.
    }
    if message.is_automatic_forward {
        return None; // The post was received in the channel, or is the bot's own.
    }
    let (text, entities) = text_and_entities(message);
    let addressed = entities::parse(text, entities, me)?;
    let text = with_lines(addressed.text, message);
    let files = attachments(message);
    if text.is_empty() && files.is_empty() && !addressed.mention {
        return None; // A service message.
    }
    let event_id = format!("m:{}:{}", message.chat.id, message.message_id);
    let mut event = Event::message(event_id, chat_of(message), sender(message), text)
        .at_ms(message.date.saturating_mul(1000))
        .with_message_id(message.message_id.to_string());
    event.album = message.media_group_id.clone();
    event.reply_to = reply(message, me);
    event.forwarded = message.forward_origin.as_ref().map(forwarded);
    let reply_to_self = event.reply_to.as_ref().is_some_and(|reply| reply.is_self);
    event.addressed = Addressed::new(addressed.mention, reply_to_self, addressed.command);
    event.attachments = files;
    Some(Incoming::without_callback(event))
}

/// Returns the text or the caption of a message, with its entities.
fn text_and_entities(message: &Message) -> (&str, &[Entity]) {
    match (&message.text, &message.caption) {
        (Some(text), _) => (text, &message.entities),
        (None, Some(caption)) => (caption, &message.caption_entities),
        (None, None) => ("", &message.entities),
    }
}

/// Returns the origin of a forwarded message.
fn forwarded(origin: &Origin) -> Forwarded {
    let mut from = Forwarded::new().at_ms(origin.date.saturating_mul(1000));
    let user = origin.sender_user.as_ref().map(User::full_name);
    from.name = user.or_else(|| origin.sender_user_name.clone()).or_else(|| origin.author_signature.clone());
    from.chat = origin.chat.as_ref().or(origin.sender_chat.as_ref()).and_then(|chat| chat.title.clone());
    from
}

/// Returns the answered message. In a topic every message formally answers the one that
/// opened the topic; that is ignored.
fn reply(message: &Message, me: &User) -> Option<ReplyTo> {
    let quote = message.quote.as_ref().map(|quote| with_links(&quote.text, &quote.entities));
    let original = message.reply_to_message.as_deref().filter(|original| original.forum_topic_created.is_none());
    let Some(original) = original else {
        // A message of another chat: only the quote and the author are known.
        let external = message.external_reply.as_ref()?;
        let mut reply = ReplyTo::new(external.message_id.unwrap_or_default().to_string());
        reply.text = quote.unwrap_or_default();
        reply.sender = forwarded(&external.origin).name.map(|name| Sender::new("").named(name));
        return Some(reply);
    };
    let mut reply = ReplyTo::new(original.message_id.to_string()).with_attachments(attachments(original));
    let (text, entities) = text_and_entities(original);
    let full_text = || with_lines(with_links(text, entities), original);
    reply.text = quote.unwrap_or_else(full_text);
    reply.sender = Some(sender(original));
    reply.is_self = original.from.as_ref().is_some_and(|from| from.id == me.id);
    Some(reply)
}

fn from_button(query: &CallbackQuery) -> Option<Incoming> {
    let message = query.message.as_ref()?;
    let (ask, option) = query.data.as_deref()?.split_once(':')?;
    let mut event = Event::message(format!("c:{}", query.id), chat_of(message), user_sender(&query.from), "")
        .of_kind(EventKind::Choice)
        .with_message_id(message.message_id.to_string());
    event.choice = Some(ChoiceMade::new(ask, option));
    Some(Incoming { event, callback: Some(query.id.clone()) })
}

fn migration(message: &Message, new: i64) -> Event {
    let mut event =
        Event::message(format!("g:{}:{new}", message.chat.id), chat(&message.chat, None), sender(message), "")
            .of_kind(EventKind::Migrated)
            .at_ms(message.date.saturating_mul(1000));
    event.migrated_to = Some(new.to_string());
    event
}

#[cfg(test)]
mod tests;
