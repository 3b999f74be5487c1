//! Conversion of gateway events to events of the host: sender, chat, and whether the message addresses this
//! bot.
//!
//! The functions are pure: channels are looked up before, and files are only referenced (`files` fetches
//! them). A mention must be in the platform's list *and* in the text: a reply lists its author, too, and two
//! bots that answer each other must not treat that as a mention.

use hermes_adapter_sdk::prelude::*;

use crate::buttons;
use crate::channels::{self, ChannelInfo, kind};
use crate::content;
use crate::file_ref::FileRef;
use crate::objects::{Interaction, Member, Message, User};
use crate::snowflake;

/// The types of messages from people. All other types (joins, pins, names of threads) come
/// from the platform itself.
/// <https://docs.discord.com/developers/resources/message#message-object-message-types>
const USER_MESSAGE_TYPES: [u8; 2] = [0, 19];
/// <https://docs.discord.com/developers/resources/message#message-object-message-flags>
const IS_VOICE_MESSAGE: u64 = 1 << 13;
/// <https://docs.discord.com/developers/interactions/receiving-and-responding#interaction-object-interaction-type>
pub(crate) const COMMAND: u8 = 2;
const COMPONENT: u8 = 3;
/// The maximum length of a thread's name, in characters.
/// <https://docs.discord.com/developers/resources/channel#start-thread-from-message>
pub(crate) const THREAD_NAME_CHARS_MAX: usize = 100;
/// The maximum number of arguments of a command.
const OPTIONS_MAX: usize = 25;

/// The identity of the bot and its listening settings.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MessageFilter<'f> {
    /// The id of the bot.
    pub bot: &'f str,
    /// The bot's own role in the guild of the message.
    pub own_role: Option<&'f str>,
    /// True to ignore a message that mentions only other users.
    pub ignore_other_mentions: bool,
}

/// Converts a new message; `None` if it contains no event for the host.
pub(crate) fn from_message(message: &Message, chat: Chat, filter: MessageFilter<'_>) -> Option<Event> {
    let author = message.author.as_ref().filter(|author| author.id != filter.bot)?;
    if !USER_MESSAGE_TYPES.contains(&message.kind) {
        return None;
    }
    // Both become parts of addresses.
    snowflake::parse(&message.id).and(snowflake::parse(&message.channel_id))?;
    let addressed = without_mentions(message, filter);
    let reply = reply(message, filter);
    let is_reply_to_bot = reply.as_ref().is_some_and(|reply| reply.is_self);
    let mentions_others =
        message.mentions.iter().any(|user| user.id != filter.bot && mentions_user(&message.content, &user.id));
    if filter.ignore_other_mentions
        && message.guild_id.is_some()
        && mentions_others
        && !addressed.mention
        && !is_reply_to_bot
    {
        return None;
    }
    let files = files(message);
    let own = Some(addressed.text).filter(|text| !text.is_empty());
    let text = own.into_iter().chain(content::lines(message)).collect::<Vec<_>>().join("\n").trim_end().to_owned();
    if text.is_empty() && files.is_empty() && !addressed.mention {
        return None;
    }
    let mut sender = Sender::new(&author.id)
        .named(display_name(author, message.member.as_ref()))
        .bot(author.bot || message.webhook_id.is_some());
    for role in roles(message.member.as_ref()) {
        sender = sender.with_role(role);
    }
    let is_command = text.starts_with('/');
    let mut event = Event::message(format!("m:{}:{}", message.channel_id, message.id), chat, sender, text)
        .at_ms(snowflake::time_ms(&message.id))
        .with_message_id(&message.id)
        .addressed(Addressed::new(addressed.mention, is_reply_to_bot, is_command && addressed.mention));
    event.reply_to = reply;
    event.forwarded = (!message.message_snapshots.is_empty()).then(Forwarded::new);
    event.attachments = files;
    Some(event)
}

/// Converts an edited message. The platform also sends this event after resolving a link, which is no edit.
pub(crate) fn from_edit(message: &Message, chat: Chat, filter: MessageFilter<'_>) -> Option<Event> {
    let revision = message.edited_timestamp.as_deref()?;
    let mut event = from_message(message, chat, filter)?;
    event.kind = EventKind::Edited;
    event.event_id = format!("e:{}:{}:{revision}", message.channel_id, message.id);
    // The files came with the original message.
    event.attachments.clear();
    Some(event)
}

/// Converts a command or a button press.
pub(crate) fn from_interaction(interaction: &Interaction, chat: Chat) -> Option<Event> {
    let member = interaction.member.as_ref();
    let user = member.and_then(|member| member.user.as_ref()).or(interaction.user.as_ref())?;
    let mut sender = Sender::new(&user.id).named(display_name(user, member)).bot(user.bot);
    for role in roles(member) {
        sender = sender.with_role(role);
    }
    let event = |id: String, text: String| {
        Event::message(id, chat.clone(), sender.clone(), text).at_ms(snowflake::time_ms(&interaction.id))
    };
    match interaction.kind {
        COMMAND => {
            let typed = interaction.data.options.iter().take(OPTIONS_MAX).map(|option| match &option.value {
                serde_json::Value::String(text) => text.clone(),
                serde_json::Value::Null => String::new(),
                other => other.to_string(),
            });
            let words: Vec<String> = std::iter::once(format!("/{}", interaction.data.name))
                .chain(typed)
                .filter(|word| !word.is_empty())
                .collect();
            Some(event(format!("i:{}", interaction.id), words.join(" ")).addressed(Addressed::new(false, false, true)))
        }
        COMPONENT => {
            let choice = buttons::choice(&interaction.data.custom_id)?;
            let mut event = event(format!("c:{}", interaction.id), String::new()).of_kind(EventKind::Choice);
            event.message_id = interaction.message.as_ref().map(|message| message.id.clone());
            event.choice = Some(choice);
            Some(event)
        }
        _ => None,
    }
}

/// Returns whether an interaction is a command or a press of one of our buttons, and can be original.
pub(crate) fn is_ours(interaction: &Interaction) -> bool {
    let is_supported = match interaction.kind {
        COMMAND => true,
        COMPONENT => buttons::is_ours(&interaction.data.custom_id),
        _ => false,
    };
    is_supported && interaction.channel().and_then(snowflake::parse).is_some() && is_addressable(interaction)
}

/// Returns whether the id and the token of an interaction can be parts of addresses.
fn is_addressable(interaction: &Interaction) -> bool {
    let token = interaction.token.as_bytes();
    snowflake::parse(&interaction.id).is_some()
        && !token.is_empty()
        && token.iter().all(|byte| byte.is_ascii_alphanumeric() || b"-_.=".contains(byte))
}

/// Returns whether a message opens a thread: a person mentions the bot in a text channel.
pub(crate) fn starts_thread(event: &Event, message: &Message, channel: &ChannelInfo) -> bool {
    message.guild_id.is_some()
        && matches!(channel.kind, kind::TEXT | kind::ANNOUNCEMENT)
        && event.kind == EventKind::Message
        && event.addressed.mention
        && !event.addressed.command
        && !event.sender.is_bot
}

/// Returns whether an edited message belongs to the thread that it opened or will open, where the conversation is.
pub(crate) fn is_edit_in_thread(event: &Event, thread: Option<&ChannelInfo>, is_thread_pending: bool) -> bool {
    event.kind == EventKind::Edited
        && (is_thread_pending || thread.is_some_and(|channel| channels::is_thread(channel.kind)))
}

/// Returns the name of the thread that a message opens: its first line.
pub(crate) fn thread_name(text: &str) -> String {
    let line = text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or("Conversation");
    let mut name: String = line.chars().filter(|c| !c.is_control()).take(THREAD_NAME_CHARS_MAX).collect();
    if line.chars().count() > THREAD_NAME_CHARS_MAX {
        name.pop();
        name.push('…');
    }
    name
}

fn display_name(user: &User, member: Option<&Member>) -> String {
    let nick = member.and_then(|member| member.nick.as_deref()).filter(|nick| !nick.is_empty());
    nick.unwrap_or_else(|| user.display_name()).to_owned()
}

/// Returns the roles of a member. Invalid ids are dropped, because roles grant access.
fn roles(member: Option<&Member>) -> impl Iterator<Item = &String> {
    member.into_iter().flat_map(|member| &member.roles).filter(|role| snowflake::parse(role).is_some())
}

/// The text without mentions, and whether there were any.
struct AddressedText {
    text: String,
    mention: bool,
}

/// Removes the mentions of this bot and reports whether there were any.
fn without_mentions(message: &Message, filter: MessageFilter<'_>) -> AddressedText {
    let listed = message.mentions.iter().any(|user| user.id == filter.bot);
    let role = filter.own_role.filter(|role| message.mention_roles.iter().any(|listed| listed == role));
    let mut tokens = Vec::new();
    if listed {
        tokens.extend([format!("<@{}>", filter.bot), format!("<@!{}>", filter.bot)]);
    }
    tokens.extend(role.map(|role| format!("<@&{role}>")));
    let mut text = message.content.clone();
    let mut mention = false;
    for token in tokens.iter().filter(|token| message.content.contains(token.as_str())) {
        mention = true;
        text = text.replace(token.as_str(), "");
    }
    AddressedText { text: text.trim().to_owned(), mention }
}

/// Returns whether the text itself mentions a user.
fn mentions_user(text: &str, user: &str) -> bool {
    text.contains(&format!("<@{user}>")) || text.contains(&format!("<@!{user}>"))
}

fn reply(message: &Message, filter: MessageFilter<'_>) -> Option<ReplyTo> {
    let original = message.referenced_message.as_deref()?;
    let mut reply = ReplyTo::new(&original.id);
    reply.text = content::full_text(original);
    reply.attachments = files(original);
    reply.sender = original.author.as_ref().map(|author| {
        Sender::new(&author.id).named(author.display_name()).bot(author.bot || original.webhook_id.is_some())
    });
    reply.is_self = original.author.as_ref().is_some_and(|author| author.id == filter.bot);
    Some(reply)
}

fn files(message: &Message) -> Vec<Attachment> {
    let is_voice = message.flags & IS_VOICE_MESSAGE != 0;
    message
        .files()
        .map(|file| {
            let mime = file.content_type.as_deref().and_then(|mime| mime.split(';').next()).unwrap_or_default().trim();
            let kind = match mime.split('/').next() {
                _ if is_voice => AttachmentKind::Voice,
                Some("image") => AttachmentKind::Image,
                Some("video") => AttachmentKind::Video,
                Some("audio") => AttachmentKind::Audio,
                _ => AttachmentKind::File,
            };
            let mime = if mime.is_empty() { "application/octet-stream" } else { mime };
            let name = if file.filename.is_empty() { "file" } else { &file.filename };
            Attachment::away(FileRef::new(message, file).to_json(), kind, mime, name, file.size)
        })
        .collect()
}

#[cfg(test)]
mod tests;
