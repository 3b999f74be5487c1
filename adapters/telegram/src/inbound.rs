//! Conversion of updates to events: sender, chat, and whether the message addresses this
//! bot.
//!
//! The functions are pure: they only reference files (`files` fetches them when the host
//! asks). All decisions use structured data: a mention is an entity, never a text that
//! looks like one.

use hermes_adapter_sdk::prelude::*;

use crate::api::{self, Entity, Message, Update};

/// The general topic of every forum. Incoming messages carry this id or none. Outgoing messages carry none, because
/// the server rejects it as a target. Typing needs the id to be visible in this topic.
/// <https://github.com/openclaw/openclaw/pull/848>
pub const GENERAL_TOPIC: i64 = 1;

/// The prefix of a topic in a channel's direct messages, whose numbers are separate from those of forum topics.
/// <https://core.telegram.org/bots/api#directmessagestopic>
pub const DIRECT: &str = "direct:";

/// The maximum number of processed entities per message, which is also the server's maximum.
const ENTITIES_MAX: usize = 100;

/// The maximum number of shown options of a poll or tasks of a checklist.
const LINES_MAX: usize = 30;
/// The maximum length of a shown link address, in bytes.
const URL_BYTES_MAX: usize = 2048;

/// An event, and the action after the host has accepted it.
pub struct Incoming {
    /// The event.
    pub event: Event,
    /// The callback to answer after the host has accepted the event.
    pub callback: Option<String>,
}

/// Converts one update; `None` if it contains no event for the host.
pub fn incoming(update: &Update, me: &api::User) -> Option<Incoming> {
    if let Some(query) = &update.callback_query {
        return pressed(query);
    }
    if let Some(message) = update.message.as_ref().or(update.channel_post.as_ref()) {
        return match message.migrate_to_chat_id {
            Some(new) => Some(Incoming::bare(migrated(message, new))),
            None => written(message, me),
        };
    }
    let message = update.edited_message.as_ref().or(update.edited_channel_post.as_ref())?;
    let mut incoming = written(message, me)?;
    let revision = message.edit_date.unwrap_or(message.date);
    // An edit changes text only; the files came with the original message.
    incoming.event.attachments.clear();
    incoming.event.kind = EventKind::Edited;
    incoming.event.event_id = format!("e:{}:{}:{revision}", message.chat.id, message.message_id);
    incoming.event.at_ms = revision.saturating_mul(1000);
    Some(incoming)
}

/// Returns the forum of an update, if its chat is a forum.
pub fn forum(update: &Update) -> Option<i64> {
    let pressed = || update.callback_query.as_ref().and_then(|query| query.message.as_ref());
    let message = update.message.as_ref().or(update.edited_message.as_ref()).or_else(pressed)?;
    message.chat.is_forum.then_some(message.chat.id)
}

/// Joins the messages of one album into one event with the first message's chat, all captions and all files.
pub fn album(messages: &[Message], me: &api::User) -> Option<Incoming> {
    let mut parts = messages.iter().filter_map(|message| written(message, me));
    let mut whole = parts.next()?;
    let (first, last) = (messages.first()?, messages.last()?);
    let group = first.media_group_id.as_deref().unwrap_or_default();
    // The id names the contained messages: later parts of the album become another event, which the host joins.
    whole.event.event_id = format!("a:{}:{group}:{}-{}", first.chat.id, first.message_id, last.message_id);
    for part in parts {
        if !part.event.text.is_empty() {
            whole.event.text.push_str(if whole.event.text.is_empty() { "" } else { "\n" });
            whole.event.text.push_str(&part.event.text);
        }
        let (all, one) = (&mut whole.event.addressed, part.event.addressed);
        all.mention |= one.mention;
        all.command |= one.command;
        all.reply_to_self |= one.reply_to_self;
        whole.event.attachments.extend(part.event.attachments);
    }
    Some(whole)
}

impl Incoming {
    fn bare(event: Event) -> Self {
        Self { event, callback: None }
    }
}

/// Returns the descriptor of a chat; the same on every path.
pub fn chat(chat: &api::Chat, thread: Option<i64>) -> Chat {
    let kind = match chat.kind.as_str() {
        "private" => ChatType::Dm,
        "channel" => ChatType::Channel,
        _ => ChatType::Group,
    };
    let mut found = Chat::new(kind, chat.id.to_string());
    found.name = chat.title.clone().or_else(|| chat.first_name.clone());
    found.thread = thread.filter(|id| *id != GENERAL_TOPIC).map(|id| id.to_string());
    found
}

/// Returns the descriptor of a person's direct messages with a channel.
pub fn direct(described: &api::Chat, topic: i64) -> Chat {
    chat(described, None).in_thread(format!("{DIRECT}{topic}"))
}

/// Returns the descriptor of a message's chat.
fn place(message: &Message) -> Chat {
    match &message.direct_messages_topic {
        Some(topic) => direct(&message.chat, topic.topic_id),
        None => chat(&message.chat, topic(message)),
    }
}

/// Returns the descriptor of a topic that was opened in `chat`, equal to that of the topic's messages.
pub fn opened(chat: Chat, topic: &api::Topic, name: &str) -> Chat {
    let mut opened = chat.in_thread(topic.message_thread_id.to_string());
    opened.thread_name = Some(name.to_owned());
    opened
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
        Some(user) => person(user),
        None => Sender::new(message.chat.id.to_string()),
    }
}

fn person(user: &api::User) -> Sender {
    Sender::new(user.id.to_string()).named(user.full_name()).bot(user.is_bot)
}

fn written(message: &Message, me: &api::User) -> Option<Incoming> {
    if message.from.as_ref().is_some_and(|from| from.id == me.id) {
        return None; // The bot's own message.
    }
    if message.is_automatic_forward {
        return None; // The post was received in the channel, or is the bot's own.
    }
    let (text, entities) = words(message);
    let meant = read_entities(text, entities, me)?;
    let text = with_lines(meant.text, message);
    let files = files(message);
    if text.is_empty() && files.is_empty() && !meant.mention {
        return None; // A service message.
    }
    let event_id = format!("m:{}:{}", message.chat.id, message.message_id);
    let mut event = Event::message(event_id, place(message), sender(message), text)
        .at_ms(message.date.saturating_mul(1000))
        .with_message_id(message.message_id.to_string());
    event.album = message.media_group_id.clone();
    event.reply_to = reply(message, me);
    event.forwarded = message.forward_origin.as_ref().map(forwarded);
    let reply_to_self = event.reply_to.as_ref().is_some_and(|reply| reply.is_self);
    event.addressed = Addressed::new(meant.mention, reply_to_self, meant.command);
    event.attachments = files;
    Some(Incoming::bare(event))
}

/// Returns the text or the caption of a message, with its entities.
fn words(message: &Message) -> (&str, &[Entity]) {
    match (&message.text, &message.caption) {
        (Some(text), _) => (text, &message.entities),
        (None, Some(caption)) => (caption, &message.caption_entities),
        (None, None) => ("", &message.entities),
    }
}

/// Returns `text`, with the lines for the parts that are neither text nor files below it.
fn with_lines(mut text: String, message: &Message) -> String {
    for line in in_words(message) {
        text = if text.is_empty() { line } else { format!("{text}\n{line}") };
    }
    text
}

/// Returns the lines for the parts of a message that are neither text nor files.
fn in_words(message: &Message) -> impl Iterator<Item = String> {
    let at = |place: &api::Location| format!("{:.5}, {:.5}", place.latitude, place.longitude);
    // A venue includes its location, which the message repeats.
    let place = match (&message.venue, &message.location) {
        (Some(venue), _) => Some(format!("[place: {}, {}, {}]", venue.title, venue.address, at(&venue.location))),
        (None, location) => location.as_ref().map(|location| format!("[location {}]", at(location))),
    };
    let contact =
        message.contact.as_ref().map(|contact| format!("[contact {} {}]", contact.first_name, contact.phone_number));
    let poll = message.poll.as_ref().map(|poll| list("poll", &poll.question, &poll.options));
    let checklist = message.checklist.as_ref().map(|list_of| list("checklist", &list_of.title, &list_of.tasks));
    let dice = message.dice.as_ref().map(|dice| {
        let emoji = if dice.emoji.is_empty() { String::new() } else { format!(" {}", dice.emoji) };
        format!("[dice{emoji}: {}]", dice.value)
    });
    let titled = |kind: &str, shown: &Option<api::Titled>| {
        shown.as_ref().map(|shown| format!("[{kind}: {}. {}]", shown.title, shown.description))
    };
    let (game, invoice) = (titled("game", &message.game), titled("invoice", &message.invoice));
    let bare = [("[story]", &message.story), ("[paid media]", &message.paid_media)];
    let bare = bare.into_iter().filter(|(_, held)| held.is_some()).map(|(words, _)| words.to_owned());
    [place, contact, poll, checklist, dice, game, invoice].into_iter().flatten().chain(bare)
}

fn list(kind: &str, title: &str, lines: &[api::Text]) -> String {
    let lines = lines.iter().take(LINES_MAX).map(|line| format!("\n- {}", line.text));
    format!("[{kind}: {title}{}]", lines.collect::<String>())
}

/// Returns the origin of a forwarded message.
fn forwarded(origin: &api::Origin) -> Forwarded {
    let mut from = Forwarded::new().at_ms(origin.date.saturating_mul(1000));
    let user = origin.sender_user.as_ref().map(api::User::full_name);
    from.name = user.or_else(|| origin.sender_user_name.clone()).or_else(|| origin.author_signature.clone());
    from.chat = origin.chat.as_ref().or(origin.sender_chat.as_ref()).and_then(|chat| chat.title.clone());
    from
}

/// Returns the answered message. In a topic every message formally answers the one that
/// opened the topic; that is ignored.
fn reply(message: &Message, me: &api::User) -> Option<ReplyTo> {
    let quote = message.quote.as_ref().map(|quote| with_links(&quote.text, &quote.entities));
    let answered = message.reply_to_message.as_deref().filter(|answered| answered.forum_topic_created.is_none());
    let Some(answered) = answered else {
        // A message of another chat: only the quote and the author are known.
        let external = message.external_reply.as_ref()?;
        let mut reply = ReplyTo::new(external.message_id.unwrap_or_default().to_string());
        reply.text = quote.unwrap_or_default();
        reply.sender = forwarded(&external.origin).name.map(|name| Sender::new("").named(name));
        return Some(reply);
    };
    let mut reply = ReplyTo::new(answered.message_id.to_string()).with_attachments(files(answered));
    let (text, entities) = words(answered);
    let whole = || with_lines(with_links(text, entities), answered);
    reply.text = quote.unwrap_or_else(whole);
    reply.sender = Some(sender(answered));
    reply.is_self = answered.from.as_ref().is_some_and(|from| from.id == me.id);
    Some(reply)
}

/// The text without mentions, and the facts from its entities.
struct Meant {
    text: String,
    mention: bool,
    command: bool,
}

/// Removes the mentions of this bot and reports whether there were any; `None` for a command to another bot.
fn read_entities(text: &str, entities: &[Entity], me: &api::User) -> Option<Meant> {
    let mut meant = Meant { text: String::new(), mention: false, command: false };
    let handle = me.username.as_deref().map(|name| format!("@{name}")).unwrap_or_default();
    let is_handle = |piece: &str| !handle.is_empty() && piece.eq_ignore_ascii_case(&handle);
    let (mut cuts, mut links) = (Vec::new(), Vec::new());
    for entity in entities.iter().take(ENTITIES_MAX) {
        let Some((start, end)) = byte_range(text, entity) else { continue };
        let piece = &text[start..end];
        match entity.kind.as_str() {
            "mention" if is_handle(piece) => cuts.push((start, end)),
            "text_link" => links.extend(link(piece, entity).map(|link| (end, link))),
            "text_mention" if entity.user.as_ref().is_some_and(|user| user.id == me.id) => cuts.push((start, end)),
            "bot_command" => {
                let is_first = entity.offset == 0;
                match piece.split_once('@') {
                    Some((command, bot)) if is_handle(&format!("@{bot}")) => {
                        meant.command |= is_first;
                        cuts.push((start + command.len(), end));
                    }
                    Some(_) if is_first => return None,
                    Some(_) => {}
                    None => meant.command |= is_first,
                }
            }
            _ => {}
        }
    }
    meant.mention = !cuts.is_empty();
    meant.text = changed(text, cuts, links).trim().to_owned();
    Some(meant)
}

/// Returns the text with each hidden link address appended to its link text.
fn with_links(text: &str, entities: &[Entity]) -> String {
    let links = entities.iter().take(ENTITIES_MAX).filter(|entity| entity.kind == "text_link").filter_map(|entity| {
        let (start, end) = byte_range(text, entity)?;
        Some((end, link(&text[start..end], entity)?))
    });
    changed(text, Vec::new(), links.collect())
}

/// Returns the address of an entity in parentheses, unless the link text shows it.
fn link(words: &str, entity: &Entity) -> Option<String> {
    let url = entity.url.as_deref().filter(|url| url.len() <= URL_BYTES_MAX)?;
    let bare = |url: &str| url.trim_end_matches('/').to_ascii_lowercase();
    (bare(words.trim()) != bare(url)).then(|| format!(" ({url})"))
}

/// Returns the text without the byte ranges `cuts`, which may overlap, and with the insertions at their offsets.
fn changed(text: &str, cuts: Vec<(usize, usize)>, inserts: Vec<(usize, String)>) -> String {
    let cuts = cuts.into_iter().map(|(start, end)| (start, end, String::new()));
    let mut changes: Vec<_> = cuts.chain(inserts.into_iter().map(|(at, words)| (at, at, words))).collect();
    changes.sort();
    let (mut kept, mut at) = (String::with_capacity(text.len()), 0);
    for (start, end, words) in changes {
        kept.push_str(text.get(at..start).unwrap_or_default());
        kept.push_str(&words);
        at = at.max(start).max(end);
    }
    kept.push_str(text.get(at..).unwrap_or_default());
    kept
}

/// Returns the byte range of an entity, whose offsets count UTF-16 units; `None` if the range is invalid.
fn byte_range(text: &str, entity: &Entity) -> Option<(usize, usize)> {
    let wanted = (entity.offset, entity.offset.checked_add(entity.length)?);
    let (mut units, mut start) = (0, None);
    for (at, character) in text.char_indices() {
        if units == wanted.0 {
            start.get_or_insert(at);
        }
        if units == wanted.1 {
            return Some((start?, at));
        }
        units += character.len_utf16();
    }
    (units == wanted.1).then_some((start?, text.len()))
}

/// Returns the files of a message. The reference is Telegram's file id, which stays valid for the same bot.
/// <https://core.telegram.org/bots/api#file>
fn files(message: &Message) -> Vec<Attachment> {
    let mut found = Vec::new();
    let mut add = |kind: AttachmentKind, file: &api::File, mime: &str, name: &str| {
        let mime = file.mime_type.clone().unwrap_or_else(|| mime.to_owned());
        let name = file.file_name.clone().unwrap_or_else(|| name.to_owned());
        found.push(Attachment::away(&file.file_id, kind, mime, name, file.file_size.unwrap_or_default()));
    };
    // All sizes of one photo; the last is the largest.
    if let Some(largest) = message.photo.last() {
        add(AttachmentKind::Image, largest, "image/jpeg", "photo.jpg");
    }
    // An animation comes with a document that is the same file.
    match (&message.animation, &message.document) {
        (Some(animation), _) => add(AttachmentKind::Video, animation, "video/mp4", "animation.mp4"),
        (None, Some(document)) => add(AttachmentKind::File, document, "application/octet-stream", "file"),
        (None, None) => {}
    }
    if let Some(file) = &message.voice {
        add(AttachmentKind::Voice, file, "audio/ogg", "voice.ogg");
    }
    if let Some(file) = &message.audio {
        add(AttachmentKind::Audio, file, "audio/mpeg", "audio.mp3");
    }
    for file in message.video.iter().chain(&message.video_note) {
        add(AttachmentKind::Video, file, "video/mp4", "video.mp4");
    }
    if let Some(file) = &message.sticker {
        let mime = match file {
            api::File { is_animated: true, .. } => "application/x-tgsticker",
            api::File { is_video: true, .. } => "video/webm",
            _ => "image/webp",
        };
        add(AttachmentKind::Sticker, file, mime, file.emoji.as_deref().unwrap_or("sticker.webp"));
    }
    found
}

fn pressed(query: &api::CallbackQuery) -> Option<Incoming> {
    let message = query.message.as_ref()?;
    let (ask, option) = query.data.as_deref()?.split_once(':')?;
    let mut event = Event::message(format!("c:{}", query.id), place(message), person(&query.from), "")
        .of_kind(EventKind::Choice)
        .with_message_id(message.message_id.to_string());
    event.choice = Some(ChoiceMade::new(ask, option));
    Some(Incoming { event, callback: Some(query.id.clone()) })
}

fn migrated(message: &Message, new: i64) -> Event {
    let mut event =
        Event::message(format!("g:{}:{new}", message.chat.id), chat(&message.chat, None), sender(message), "")
            .of_kind(EventKind::Migrated)
            .at_ms(message.date.saturating_mul(1000));
    event.migrated_to = Some(new.to_string());
    event
}

#[cfg(test)]
mod tests;
