//! The known facts of channels: kind, parent, name. The gateway reports them; missing ones are
//! requested.
//!
//! One function builds the descriptor of a chat, for messages, button presses, commands and threads
//! alike.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use hermes_adapter_sdk::prelude::*;
use serde_json::Value;

use crate::api::Channel;

/// The maximum number of remembered channels; a new one replaces the oldest.
const PLACES_MAX: usize = 20_000;
/// The maximum number of guilds with a remembered own role.
const ROLES_MAX: usize = 1_000;
/// The maximum number of channels with remembered failed lookups.
const MISSED_MAX: usize = 64;

/// Kinds of channels.
/// <https://docs.discord.com/developers/resources/channel#channel-object-channel-types>
pub mod kind {
    pub const TEXT: u8 = 0;
    pub const DM: u8 = 1;
    pub const GROUP_DM: u8 = 3;
    pub const CATEGORY: u8 = 4;
    pub const ANNOUNCEMENT: u8 = 5;
    pub const ANNOUNCEMENT_THREAD: u8 = 10;
    pub const PUBLIC_THREAD: u8 = 11;
    pub const PRIVATE_THREAD: u8 = 12;
    pub const FORUM: u8 = 15;
    pub const MEDIA: u8 = 16;
}

/// Returns whether a channel of this kind is a thread.
pub fn is_thread(kind: u8) -> bool {
    matches!(kind, kind::ANNOUNCEMENT_THREAD | kind::PUBLIC_THREAD | kind::PRIVATE_THREAD)
}

/// The facts of one channel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The kind.
    pub kind: u8,
    /// The guild of the channel.
    pub guild: Option<String>,
    /// The channel of a thread, or the category of a channel.
    pub parent: Option<String>,
    /// The name for display.
    pub name: Option<String>,
}

impl Place {
    /// Reads a channel object; `guild` applies if the object contains none.
    pub fn of(channel: &Channel, guild: Option<&str>) -> Self {
        let person = channel.recipients.first().map(|person| person.shown().to_owned());
        Self {
            kind: channel.kind,
            guild: channel.guild_id.clone().or_else(|| guild.map(str::to_owned)),
            parent: channel.parent_id.clone(),
            name: channel.name.clone().or(person).filter(|name| !name.is_empty()),
        }
    }
}

/// The channels of one account.
#[derive(Debug, Default)]
pub struct Places {
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    places: BTreeMap<u64, Place>,
    /// This bot's own role by guild; mentioning the role addresses the bot. `None`: the bot has no own role.
    own_roles: BTreeMap<String, Option<String>>,
    /// The number of consecutive failed lookups of channels.
    missed: BTreeMap<u64, u32>,
}

impl Known {
    /// Stores the bot's role in a guild; `None` removes the entry.
    fn note_role(&mut self, guild: &str, role: Option<Option<String>>) {
        self.own_roles.remove(guild);
        if let Some(role) = role.filter(|_| self.own_roles.len() < ROLES_MAX) {
            self.own_roles.insert(guild.to_owned(), role);
        }
    }
}

impl Places {
    /// Returns the facts of a channel.
    pub fn get(&self, channel: &str) -> Option<Place> {
        self.lock().places.get(&number(channel)?).cloned()
    }

    /// Stores the facts of a channel.
    pub fn put(&self, channel: &str, place: Place) {
        let Some(id) = number(channel) else { return };
        let mut known = self.lock();
        known.missed.remove(&id);
        known.places.insert(id, place);
        if known.places.len() > PLACES_MAX {
            // Ids begin with their creation time.
            known.places.pop_first();
        }
    }

    /// Counts a failed lookup of a channel; returns the number of consecutive ones.
    pub fn miss(&self, channel: &str) -> u32 {
        let Some(id) = number(channel) else { return u32::MAX };
        let mut known = self.lock();
        if known.missed.len() >= MISSED_MAX && !known.missed.contains_key(&id) {
            known.missed.clear();
        }
        let times = known.missed.entry(id).or_default();
        *times = times.saturating_add(1);
        *times
    }

    /// Returns the own role of this bot in a guild, if it is known.
    pub fn own_role(&self, guild: &str) -> Option<String> {
        self.lock().own_roles.get(guild).cloned().flatten()
    }

    /// Returns whether it is known which role in a guild is this bot's own, or that there is none.
    pub fn knows_role(&self, guild: &str) -> bool {
        self.lock().own_roles.contains_key(guild)
    }

    /// Reads the roles of a guild.
    pub fn hear_roles(&self, roles: &Value, guild: &str, bot: &str) {
        let Some(roles) = roles.as_array() else { return };
        let own = roles.iter().find_map(|role| own_role(role, bot));
        self.lock().note_role(guild, Some(own.map(str::to_owned)));
    }

    /// Returns the channels of guilds that contain messages, with their ids.
    pub fn written_in(&self) -> Vec<(String, Place)> {
        let is_written_in = |place: &Place| place.guild.is_some() && place.kind != kind::CATEGORY;
        let known = self.lock();
        let found = known.places.iter().filter(|(_, place)| is_written_in(place));
        found.map(|(id, place)| (id.to_string(), place.clone())).collect()
    }

    /// Processes a gateway event about channels.
    pub fn hear(&self, name: &str, data: &Value, bot: &str) {
        let guild = data["guild_id"].as_str();
        match name {
            "GUILD_CREATE" => {
                let guild = data["id"].as_str();
                for list in ["channels", "threads"] {
                    self.read_all(&data[list], guild);
                }
                self.hear_roles(&data["roles"], guild.unwrap_or_default(), bot);
            }
            "GUILD_ROLE_CREATE" | "GUILD_ROLE_UPDATE" => self.hear_role(&data["role"], guild, bot),
            "GUILD_ROLE_DELETE" => self.lose_role(data["role_id"].as_str(), guild),
            // Otherwise the guild is only temporarily unavailable.
            "GUILD_DELETE" if data["unavailable"] != true => self.leave(data["id"].as_str().unwrap_or_default()),
            "THREAD_LIST_SYNC" => self.read_all(&data["threads"], guild),
            "CHANNEL_CREATE" | "CHANNEL_UPDATE" | "THREAD_CREATE" | "THREAD_UPDATE" => self.read(data, guild),
            "CHANNEL_DELETE" | "THREAD_DELETE" => {
                if let Some(id) = data["id"].as_str().and_then(number) {
                    self.lock().places.remove(&id);
                }
            }
            _ => {}
        }
    }

    fn read_all(&self, channels: &Value, guild: Option<&str>) {
        for channel in channels.as_array().into_iter().flatten() {
            self.read(channel, guild);
        }
    }

    fn read(&self, channel: &Value, guild: Option<&str>) {
        // An invalid channel does not block the others: it is requested when it is needed.
        if let Ok(channel) = serde_json::from_value::<Channel>(channel.clone()) {
            self.put(&channel.id, Place::of(&channel, guild));
        }
    }

    fn hear_role(&self, role: &Value, guild: Option<&str>, bot: &str) {
        let Some(guild) = guild else { return };
        match own_role(role, bot) {
            Some(own) => self.lock().note_role(guild, Some(Some(own.to_owned()))),
            None => self.lose_role(role["id"].as_str(), Some(guild)),
        }
    }

    /// Removes a role that is deleted or not this bot's. If it was, it is requested again when it is needed.
    fn lose_role(&self, role: Option<&str>, guild: Option<&str>) {
        let (Some(role), Some(guild)) = (role, guild) else { return };
        let mut known = self.lock();
        if known.own_roles.get(guild).is_some_and(|own| own.as_deref() == Some(role)) {
            known.note_role(guild, None);
        }
    }

    /// Removes the facts of a guild that the bot has left.
    fn leave(&self, guild: &str) {
        let mut known = self.lock();
        known.places.retain(|_, place| place.guild.as_deref() != Some(guild));
        known.note_role(guild, None);
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the id of a role if it is this bot's own.
/// <https://docs.discord.com/developers/topics/permissions#role-object-role-tags-structure>
fn own_role<'r>(role: &'r Value, bot: &str) -> Option<&'r str> {
    role["id"].as_str().filter(|_| role["tags"]["bot_id"].as_str() == Some(bot))
}

/// Returns the descriptor of a chat; the same on every path. A thread has an id of its own, to which messages are sent.
pub fn chat(channel: &str, place: &Place, parent_name: Option<String>) -> Chat {
    if is_thread(place.kind) {
        let mut chat = Chat::new(ChatType::Thread, channel).in_thread(channel);
        chat.parent.clone_from(&place.parent);
        chat.thread_name.clone_from(&place.name);
        chat.space.clone_from(&place.guild);
        chat.name = parent_name.map(|name| format!("#{name}"));
        return chat;
    }
    let kind = match place.kind {
        kind::DM => ChatType::Dm,
        _ if place.guild.is_none() && place.kind != kind::GROUP_DM => ChatType::Dm,
        _ => ChatType::Group,
    };
    let mut chat = Chat::new(kind, channel);
    chat.name = match chat.kind {
        ChatType::Group => place.name.as_ref().map(|name| format!("#{name}")),
        _ => place.name.clone(),
    };
    chat.space.clone_from(&place.guild);
    chat
}

/// Returns the descriptor of the thread that a message opens. The thread has the id of the message, even before it
/// exists. <https://docs.discord.com/developers/resources/channel#start-thread-from-message>
pub fn thread_of(message: &str, channel: &str, place: &Place, name: &str) -> Chat {
    let thread = Place {
        kind: kind::PUBLIC_THREAD,
        guild: place.guild.clone(),
        parent: Some(channel.to_owned()),
        name: Some(name.to_owned()),
    };
    chat(message, &thread, place.name.clone())
}

/// Returns the channel to send to. For a thread chat without a thread this is the parent.
pub fn target(chat: &Chat) -> Option<&str> {
    let id = match (&chat.thread, &chat.parent) {
        (Some(thread), _) => thread,
        (None, Some(parent)) if chat.kind == ChatType::Thread => parent,
        _ => &chat.id,
    };
    number(id).map(|_| id.as_str())
}

/// Returns an id as a number. <https://docs.discord.com/developers/reference#snowflakes>
pub fn number(id: &str) -> Option<u64> {
    id.parse().ok().filter(|_| id.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Returns the creation time of an id, in milliseconds since the Unix epoch.
/// <https://docs.discord.com/developers/reference#convert-snowflake-to-datetime>
pub fn at_ms(id: &str) -> i64 {
    const DISCORD_EPOCH_MS: u64 = 1_420_070_400_000;
    number(id).and_then(|id| i64::try_from((id >> 22) + DISCORD_EPOCH_MS).ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_guild_tells_its_channels_threads_and_the_bots_own_role() {
        let places = Places::default();
        places.hear(
            "GUILD_CREATE",
            &json!({ "id": "1", "channels": [{ "id": "10", "type": 0, "name": "general" }, { "id": "11" , "type": "?" }],
                "threads": [{ "id": "20", "type": 11, "parent_id": "10", "name": "plans" }],
                "roles": [{ "id": "5", "tags": { "bot_id": "42" } }, { "id": "6", "tags": { "bot_id": "43" } }, { "id": "7" }] }),
            "42",
        );
        assert_eq!(places.own_role("1").as_deref(), Some("5"));
        places.hear_roles(&json!([{ "id": "6" }]), "2", "42");
        assert_eq!((places.knows_role("2"), places.own_role("2"), places.knows_role("3")), (true, None, false));
        let thread = places.get("20").unwrap();
        assert_eq!((thread.kind, thread.parent.as_deref(), thread.guild.as_deref()), (11, Some("10"), Some("1")));
        assert_eq!(places.get("10").unwrap().name.as_deref(), Some("general"));
        assert_eq!(places.written_in().len(), 2);
        places.hear("THREAD_DELETE", &json!({ "id": "20", "guild_id": "1" }), "42");
        assert_eq!((places.get("20"), places.get("11")), (None, None));
    }

    #[test]
    fn a_role_that_is_gone_or_is_another_bots_calls_nobody_and_is_asked_for_again() {
        let places = Places::default();
        let own = json!({ "id": "5", "tags": { "bot_id": "42" } });
        let hear = |name: &str, data: Value| places.hear(name, &data, "42");
        let know = || (places.knows_role("1"), places.own_role("1"));
        for (name, gone) in [
            ("GUILD_ROLE_DELETE", json!({ "guild_id": "1", "role_id": "5" })),
            ("GUILD_ROLE_UPDATE", json!({ "guild_id": "1", "role": { "id": "5" } })),
            ("GUILD_DELETE", json!({ "id": "1" })),
        ] {
            hear("GUILD_CREATE", json!({ "id": "1", "channels": [{ "id": "10", "type": 0 }], "roles": [own] }));
            hear("GUILD_ROLE_DELETE", json!({ "guild_id": "1", "role_id": "6" }));
            hear("GUILD_ROLE_UPDATE", json!({ "guild_id": "1", "role": { "id": "6" } }));
            hear("GUILD_DELETE", json!({ "id": "1", "unavailable": true }));
            assert_eq!(know(), (true, Some("5".to_owned())));
            hear(name, gone);
            assert_eq!(know(), (false, None), "{name}");
        }
        assert!(places.get("10").is_none(), "a guild that was left has no channels");
        hear("GUILD_CREATE", json!({ "id": "1", "roles": [own] }));
        hear("GUILD_CREATE", json!({ "id": "1", "roles": [{ "id": "7" }] }));
        assert_eq!(know(), (true, None), "what is told anew counts");
    }

    #[test]
    fn a_thread_that_a_message_opens_is_the_one_that_its_messages_come_from() {
        let channel = Place { kind: kind::TEXT, guild: Some("1".into()), parent: None, name: Some("general".into()) };
        let opened = thread_of("99", "10", &channel, "boats");
        let told = Place::of(
            &serde_json::from_value(json!({ "id": "99", "type": 11, "parent_id": "10", "name": "other name" }))
                .unwrap(),
            Some("1"),
        );
        let next = chat("99", &told, Some("general".into()));
        assert_eq!(opened, next);
        assert_eq!((opened.parent.as_deref(), target(&opened)), (Some("10"), Some("99")));
    }

    #[test]
    fn what_is_written_to_is_the_thread_and_without_it_its_parent() {
        let mut chat = Chat::new(ChatType::Thread, "99").in_thread("99");
        chat.parent = Some("10".into());
        assert_eq!(target(&chat), Some("99"));
        chat.thread = None;
        assert_eq!(target(&chat), Some("10"));
        assert_eq!(target(&Chat::new(ChatType::Group, "10")), Some("10"));
        for wrong in ["general", "", "-1", "+1", "1/../2", "99999999999999999999999"] {
            assert_eq!(target(&Chat::new(ChatType::Group, wrong)), None, "{wrong:?}");
        }
    }

    #[test]
    fn an_id_tells_when_it_was_given() {
        assert_eq!(at_ms("175928847299117063"), 1_462_015_105_796);
        assert_eq!(at_ms("no id"), 0);
    }

    #[test]
    fn what_is_remembered_has_a_bound() {
        let places = Places::default();
        let place = Place { kind: 0, guild: Some("1".into()), parent: None, name: None };
        for id in 0..PLACES_MAX as u64 + 10 {
            places.put(&id.to_string(), place.clone());
        }
        assert_eq!((places.get("0"), places.get("15").is_some()), (None, true));
        for id in 0..3 * MISSED_MAX {
            places.miss(&id.to_string());
        }
        assert!(places.lock().missed.len() <= MISSED_MAX);
    }

    #[test]
    fn how_often_a_channel_was_not_told_is_counted_until_it_is() {
        let places = Places::default();
        assert_eq!([places.miss("5"), places.miss("6"), places.miss("5")], [1, 1, 2]);
        places.put("5", Place { kind: 0, guild: None, parent: None, name: None });
        assert_eq!((places.miss("5"), places.miss("6"), places.miss("no id")), (1, 2, u32::MAX));
    }
}
