//! The response addresses of slash commands.
//! <https://docs.slack.dev/interactivity/handling-user-interaction#message_responses>

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

/// The maximum number of remembered slash commands.
const COMMANDS_MAX: usize = 256;
/// The lifetime of a response address, in milliseconds.
const LIFETIME_MS: i64 = 30 * 60 * 1000;

/// The response address of a slash command.
struct ResponseUrl {
    /// The `inbox_id` of the command's event.
    inbox_id: i64,
    url: String,
    /// The expiry in milliseconds since the Unix epoch.
    until_ms: i64,
}

/// The response addresses of the latest slash commands, the oldest first.
#[derive(Default)]
pub(crate) struct ResponseUrls(Mutex<VecDeque<ResponseUrl>>);

impl ResponseUrls {
    /// Stores the response address of a slash command.
    pub(crate) fn insert(&self, inbox_id: i64, url: &str, now_ms: i64) {
        let mut urls = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        urls.push_back(ResponseUrl { inbox_id, url: url.to_owned(), until_ms: now_ms.saturating_add(LIFETIME_MS) });
        while urls.len() > COMMANDS_MAX {
            urls.pop_front();
        }
    }

    /// Returns the response address of the slash command that became this event, if it is still valid.
    pub(crate) fn get(&self, inbox_id: Option<i64>, now_ms: i64) -> Option<String> {
        let urls = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        urls.iter().find(|url| Some(url.inbox_id) == inbox_id && now_ms < url.until_ms).map(|url| url.url.clone())
    }
}
