//! The home channel of each instance, to which the host may send unsolicited messages.
//!
//! A home channel from the configuration takes precedence over one stored by `/sethome`: a chat must not
//! overrule the operator's file.

use std::collections::BTreeMap;

use hermes_protocol::Chat;

/// The home channels of all instances.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Homes {
    configured: BTreeMap<String, Chat>,
    set: BTreeMap<String, Chat>,
}

/// Source of a home channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HomeSource {
    /// The configuration.
    Configuration,
    /// `/sethome`.
    Chat,
}

impl Homes {
    /// Creates the set from the home channels that `/sethome` stored.
    pub fn stored(set: impl IntoIterator<Item = (String, Chat)>) -> Self {
        Self { configured: BTreeMap::new(), set: set.into_iter().collect() }
    }

    /// Returns the home channel of an instance.
    pub fn get(&self, instance: &str) -> Option<&Chat> {
        self.told(instance).map(|(chat, _)| chat)
    }

    /// Returns the home channel of an instance and its source.
    pub fn told(&self, instance: &str) -> Option<(&Chat, HomeSource)> {
        let configured = self.configured.get(instance).map(|chat| (chat, HomeSource::Configuration));
        configured.or_else(|| self.set.get(instance).map(|chat| (chat, HomeSource::Chat)))
    }

    /// Sets the configured home channel; `None` removes it.
    pub fn configure(&mut self, instance: &str, chat: Option<Chat>) {
        put(&mut self.configured, instance, chat);
    }

    /// Sets the home channel of `/sethome`; `None` removes it.
    pub fn set(&mut self, instance: &str, chat: Option<Chat>) {
        put(&mut self.set, instance, chat);
    }

    /// Replaces a chat by its new id. Returns true if a home channel changed.
    pub fn follow(&mut self, instance: &str, from: &Chat, to: &Chat) -> bool {
        let mut moved = false;
        for homes in [&mut self.configured, &mut self.set] {
            if let Some(home) = homes.get_mut(instance).filter(|home| home.id == from.id && home.kind == from.kind) {
                home.id.clone_from(&to.id);
                home.kind = to.kind.clone();
                moved = true;
            }
        }
        moved
    }
}

fn put(homes: &mut BTreeMap<String, Chat>, instance: &str, chat: Option<Chat>) {
    match chat {
        Some(chat) => homes.insert(instance.to_owned(), chat),
        None => homes.remove(instance),
    };
}

#[cfg(test)]
mod tests {
    use hermes_protocol::ChatType;

    use super::*;

    #[test]
    fn a_configured_home_channel_wins_over_one_that_was_set() {
        let mut homes = Homes::stored([("mail".to_owned(), Chat::dm("set"))]);
        assert_eq!(homes.told("mail"), Some((&Chat::dm("set"), HomeSource::Chat)));
        homes.configure("mail", Some(Chat::dm("configured")));
        homes.set("mail", Some(Chat::dm("set again")));
        assert_eq!(homes.told("mail"), Some((&Chat::dm("configured"), HomeSource::Configuration)));
        homes.configure("mail", None);
        assert_eq!(homes.get("mail"), Some(&Chat::dm("set again")));
        homes.set("mail", None);
        assert_eq!(homes.get("mail"), None);
    }

    #[test]
    fn a_home_channel_follows_its_chat_and_keeps_its_thread() {
        let group = |id: &str| Chat::new(ChatType::Group, id);
        let mut homes = Homes::stored([("mail".to_owned(), group("1").in_thread("7"))]);
        assert!(!homes.follow("mail", &Chat::dm("1"), &group("2")), "another chat of the same id");
        assert!(homes.follow("mail", &group("1"), &group("2")));
        assert_eq!(homes.get("mail"), Some(&group("2").in_thread("7")));
    }
}
