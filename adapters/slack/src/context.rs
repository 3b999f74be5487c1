//! The context of a delivery: the app, its settings and the known names.

use std::collections::BTreeMap;

use crate::objects::BotIdentity;
use crate::text;

/// The settings for threads.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ThreadSettings {
    /// True if a message in a channel starts a thread.
    pub in_channels: bool,
    /// True if a direct message starts a thread.
    pub in_dms: bool,
}

/// The context for reading a delivery.
#[derive(Clone, Copy)]
pub(crate) struct ReadContext<'a> {
    /// The app's identity in the workspace.
    pub me: &'a BotIdentity,
    /// The settings for threads.
    pub threads: ThreadSettings,
    /// The known names of users.
    pub names: &'a BTreeMap<String, String>,
}

impl ReadContext<'_> {
    /// Converts Slack's text to readable text.
    pub(crate) fn text(&self, text: &str) -> text::ReadableText {
        text::parse(text, &self.me.user_id, |user| self.names.get(user).cloned())
    }
}
