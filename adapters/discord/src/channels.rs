//! The known facts of channels: kind, parent, name. The gateway reports them; missing ones are requested (`lookup`).

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::Value;

use crate::objects::Channel;
use crate::snowflake;

/// The maximum number of remembered channels; a new one replaces the oldest.
const CHANNELS_MAX: usize = 20_000;
/// The maximum number of guilds with a remembered own role.
const ROLES_MAX: usize = 1_000;
/// The maximum number of channels with remembered failed lookups.
const FAILED_LOOKUPS_MAX: usize = 64;

/// Kinds of channels.
/// <https://docs.discord.com/developers/resources/channel#channel-object-channel-types>
pub(crate) mod kind {
    pub(crate) const TEXT: u8 = 0;
    pub(crate) const DM: u8 = 1;
    pub(crate) const GROUP_DM: u8 = 3;
    pub(crate) const CATEGORY: u8 = 4;
    pub(crate) const ANNOUNCEMENT: u8 = 5;
    pub(crate) const ANNOUNCEMENT_THREAD: u8 = 10;
    pub(crate) const PUBLIC_THREAD: u8 = 11;
    pub(crate) const PRIVATE_THREAD: u8 = 12;
    pub(crate) const FORUM: u8 = 15;
    pub(crate) const MEDIA: u8 = 16;
}

/// Returns whether a channel of this kind is a thread.
pub(crate) fn is_thread(kind: u8) -> bool {
    matches!(kind, kind::ANNOUNCEMENT_THREAD | kind::PUBLIC_THREAD | kind::PRIVATE_THREAD)
}

/// The facts of one channel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ChannelInfo {
    /// The kind.
    pub kind: u8,
    /// The guild of the channel.
    pub guild: Option<String>,
    /// The channel of a thread, or the category of a channel.
    pub parent: Option<String>,
    /// The name for display.
    pub name: Option<String>,
}

impl ChannelInfo {
    /// Reads a channel object; `guild` applies if the object contains none.
    pub(crate) fn new(channel: &Channel, guild: Option<&str>) -> Self {
        let recipient = channel.recipients.first().map(|recipient| recipient.display_name().to_owned());
        Self {
            kind: channel.kind,
            guild: channel.guild_id.clone().or_else(|| guild.map(str::to_owned)),
            parent: channel.parent_id.clone(),
            name: channel.name.clone().or(recipient).filter(|name| !name.is_empty()),
        }
    }
}

/// The channels of one account.
#[derive(Debug, Default)]
pub(crate) struct Channels {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    channels: BTreeMap<u64, ChannelInfo>,
    /// This bot's own role by guild; mentioning the role addresses the bot. `None`: the bot has no own role.
    own_roles: BTreeMap<String, Option<String>>,
    /// The number of consecutive failed lookups of channels.
    failed_lookups: BTreeMap<u64, u32>,
}

impl State {
    /// Stores the bot's role in a guild; `None` removes the entry.
    fn set_own_role(&mut self, guild: &str, role: Option<Option<String>>) {
        self.own_roles.remove(guild);
        if let Some(role) = role.filter(|_| self.own_roles.len() < ROLES_MAX) {
            self.own_roles.insert(guild.to_owned(), role);
        }
    }
}

impl Channels {
    /// Returns the facts of a channel.
    pub(crate) fn get(&self, channel: &str) -> Option<ChannelInfo> {
        self.lock().channels.get(&snowflake::parse(channel)?).cloned()
    }

    /// Stores the facts of a channel.
    pub(crate) fn insert(&self, channel: &str, info: ChannelInfo) {
        let Some(id) = snowflake::parse(channel) else { return };
        let mut state = self.lock();
        state.failed_lookups.remove(&id);
        state.channels.insert(id, info);
        if state.channels.len() > CHANNELS_MAX {
            // Ids begin with their creation time.
            state.channels.pop_first();
        }
    }

    /// Counts a failed lookup of a channel; returns the number of consecutive ones.
    pub(crate) fn record_failed_lookup(&self, channel: &str) -> u32 {
        let Some(id) = snowflake::parse(channel) else { return u32::MAX };
        let mut state = self.lock();
        if state.failed_lookups.len() >= FAILED_LOOKUPS_MAX && !state.failed_lookups.contains_key(&id) {
            state.failed_lookups.clear();
        }
        let times = state.failed_lookups.entry(id).or_default();
        *times = times.saturating_add(1);
        *times
    }

    /// Returns the own role of this bot in a guild, if it is known.
    pub(crate) fn own_role(&self, guild: &str) -> Option<String> {
        self.lock().own_roles.get(guild).cloned().flatten()
    }

    /// Returns whether it is known which role in a guild is this bot's own, or that there is none.
    pub(crate) fn knows_role(&self, guild: &str) -> bool {
        self.lock().own_roles.contains_key(guild)
    }

    /// Reads the roles of a guild.
    pub(crate) fn set_roles(&self, roles: &Value, guild: &str, bot: &str) {
        let Some(roles) = roles.as_array() else { return };
        let own = roles.iter().find_map(|role| own_role(role, bot));
        self.lock().set_own_role(guild, Some(own.map(str::to_owned)));
    }

    /// Returns the channels of guilds that contain messages, with their ids.
    pub(crate) fn message_channels(&self) -> Vec<(String, ChannelInfo)> {
        let has_messages = |info: &ChannelInfo| info.guild.is_some() && info.kind != kind::CATEGORY;
        let state = self.lock();
        let found = state.channels.iter().filter(|(_, channel)| has_messages(channel));
        found.map(|(id, info)| (id.to_string(), info.clone())).collect()
    }

    /// Processes a gateway event about channels.
    pub(crate) fn handle(&self, name: &str, data: &Value, bot: &str) {
        let guild = data["guild_id"].as_str();
        match name {
            "GUILD_CREATE" => {
                let guild = data["id"].as_str();
                for list in ["channels", "threads"] {
                    self.insert_all(&data[list], guild);
                }
                self.set_roles(&data["roles"], guild.unwrap_or_default(), bot);
            }
            "GUILD_ROLE_CREATE" | "GUILD_ROLE_UPDATE" => self.handle_role(&data["role"], guild, bot),
            "GUILD_ROLE_DELETE" => self.remove_role(data["role_id"].as_str(), guild),
            // Otherwise the guild is only temporarily unavailable.
            "GUILD_DELETE" if data["unavailable"] != true => self.remove_guild(data["id"].as_str().unwrap_or_default()),
            "THREAD_LIST_SYNC" => self.insert_all(&data["threads"], guild),
            "CHANNEL_CREATE" | "CHANNEL_UPDATE" | "THREAD_CREATE" | "THREAD_UPDATE" => self.insert_value(data, guild),
            "CHANNEL_DELETE" | "THREAD_DELETE" => {
                if let Some(id) = data["id"].as_str().and_then(snowflake::parse) {
                    self.lock().channels.remove(&id);
                }
            }
            _ => {}
        }
    }

    fn insert_all(&self, channels: &Value, guild: Option<&str>) {
        for channel in channels.as_array().into_iter().flatten() {
            self.insert_value(channel, guild);
        }
    }

    fn insert_value(&self, channel: &Value, guild: Option<&str>) {
        // An invalid channel does not block the others: it is requested when it is needed.
        if let Ok(channel) = serde_json::from_value::<Channel>(channel.clone()) {
            self.insert(&channel.id, ChannelInfo::new(&channel, guild));
        }
    }

    fn handle_role(&self, role: &Value, guild: Option<&str>, bot: &str) {
        let Some(guild) = guild else { return };
        match own_role(role, bot) {
            Some(own) => self.lock().set_own_role(guild, Some(Some(own.to_owned()))),
            None => self.remove_role(role["id"].as_str(), Some(guild)),
        }
    }

    /// Removes a role that is deleted or not this bot's. If it was, it is requested again when it is needed.
    fn remove_role(&self, role: Option<&str>, guild: Option<&str>) {
        let (Some(role), Some(guild)) = (role, guild) else { return };
        let mut state = self.lock();
        if state.own_roles.get(guild).is_some_and(|own| own.as_deref() == Some(role)) {
            state.set_own_role(guild, None);
        }
    }

    /// Removes the facts of a guild that the bot has left.
    fn remove_guild(&self, guild: &str) {
        let mut state = self.lock();
        state.channels.retain(|_, info| info.guild.as_deref() != Some(guild));
        state.set_own_role(guild, None);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the id of a role if it is this bot's own.
/// <https://docs.discord.com/developers/topics/permissions#role-object-role-tags-structure>
fn own_role<'r>(role: &'r Value, bot: &str) -> Option<&'r str> {
    role["id"].as_str().filter(|_| role["tags"]["bot_id"].as_str() == Some(bot))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_guild_tells_its_channels_threads_and_the_bots_own_role() {
        let channels = Channels::default();
        channels.handle(
            "GUILD_CREATE",
            &json!({ "id": "1", "channels": [{ "id": "10", "type": 0, "name": "general" }, { "id": "11" , "type": "?" }],
                "threads": [{ "id": "20", "type": 11, "parent_id": "10", "name": "plans" }],
                "roles": [{ "id": "5", "tags": { "bot_id": "42" } }, { "id": "6", "tags": { "bot_id": "43" } }, { "id": "7" }] }),
            "42",
        );
        assert_eq!(channels.own_role("1").as_deref(), Some("5"));
        channels.set_roles(&json!([{ "id": "6" }]), "2", "42");
        assert_eq!((channels.knows_role("2"), channels.own_role("2"), channels.knows_role("3")), (true, None, false));
        let thread = channels.get("20").unwrap();
        assert_eq!((thread.kind, thread.parent.as_deref(), thread.guild.as_deref()), (11, Some("10"), Some("1")));
        assert_eq!(channels.get("10").unwrap().name.as_deref(), Some("general"));
        assert_eq!(channels.message_channels().len(), 2);
        channels.handle("THREAD_DELETE", &json!({ "id": "20", "guild_id": "1" }), "42");
        assert_eq!((channels.get("20"), channels.get("11")), (None, None));
    }

    #[test]
    fn a_role_that_is_gone_or_is_another_bots_calls_nobody_and_is_asked_for_again() {
        let channels = Channels::default();
        let own = json!({ "id": "5", "tags": { "bot_id": "42" } });
        let hear = |name: &str, data: Value| channels.handle(name, &data, "42");
        let know = || (channels.knows_role("1"), channels.own_role("1"));
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
        assert!(channels.get("10").is_none(), "a guild that was left has no channels");
        hear("GUILD_CREATE", json!({ "id": "1", "roles": [own] }));
        hear("GUILD_CREATE", json!({ "id": "1", "roles": [{ "id": "7" }] }));
        assert_eq!(know(), (true, None), "the later description counts");
    }

    #[test]
    fn what_is_remembered_has_a_bound() {
        let channels = Channels::default();
        let info = ChannelInfo { kind: 0, guild: Some("1".into()), parent: None, name: None };
        for id in 0..CHANNELS_MAX as u64 + 10 {
            channels.insert(&id.to_string(), info.clone());
        }
        assert_eq!((channels.get("0"), channels.get("15").is_some()), (None, true));
        for id in 0..3 * FAILED_LOOKUPS_MAX {
            channels.record_failed_lookup(&id.to_string());
        }
        assert!(channels.lock().failed_lookups.len() <= FAILED_LOOKUPS_MAX);
    }

    #[test]
    fn how_often_a_channel_was_not_told_is_counted_until_it_is() {
        let channels = Channels::default();
        assert_eq!(
            [
                channels.record_failed_lookup("5"),
                channels.record_failed_lookup("6"),
                channels.record_failed_lookup("5")
            ],
            [1, 1, 2]
        );
        channels.insert("5", ChannelInfo { kind: 0, guild: None, parent: None, name: None });
        assert_eq!(
            (
                channels.record_failed_lookup("5"),
                channels.record_failed_lookup("6"),
                channels.record_failed_lookup("no id")
            ),
            (1, 2, u32::MAX)
        );
    }
}
