//! Raw updates: their ids, their chats, and their grouping by event and by chat.

use std::collections::BTreeMap;

use serde_json::Value;

/// The requested kinds of updates.
pub(crate) const ALLOWED_UPDATES: [&str; 5] =
    ["message", "edited_message", "channel_post", "edited_channel_post", "callback_query"];
/// Kinds of updates that hold a message.
const MESSAGES: [&str; 4] = ["message", "edited_message", "channel_post", "edited_channel_post"];
/// The upper limit of update ids. A larger id is invalid, and an offset after it would never match an update.
const UPDATE_ID_END: i64 = 1 << 40;

/// Returns the id of an update.
pub(crate) fn update_id(update: &Value) -> Option<i64> {
    update["update_id"].as_i64().filter(|id| (0..UPDATE_ID_END).contains(id))
}

/// Returns the offset of the next poll; `None` if no update has an id.
pub(crate) fn next_offset(batch: &[Value]) -> Option<i64> {
    batch.iter().filter_map(update_id).max().map(|id| id.saturating_add(1))
}

pub(crate) fn media_group(update: &Value) -> Option<&str> {
    update["message"]["media_group_id"].as_str().or_else(|| update["channel_post"]["media_group_id"].as_str())
}

/// Cuts a batch into sections, and each section into its chats. A chat that moves is a section of its own: nothing of
/// its new id is handed over before.
pub(crate) fn by_chat(batch: &[Value]) -> Vec<Vec<Vec<&[Value]>>> {
    let mut sections = vec![BTreeMap::<_, Vec<_>>::new()];
    for group in groups(batch) {
        let is_move = group.iter().any(changes_chat_id);
        if is_move {
            sections.push(BTreeMap::new());
        }
        if let Some(section) = sections.last_mut() {
            section.entry(group.first().and_then(chat_id)).or_default().push(group);
        }
        if is_move {
            sections.push(BTreeMap::new());
        }
    }
    sections.into_iter().map(|chats| chats.into_values().collect()).collect()
}

/// Returns the chat of an update.
fn chat_id(update: &Value) -> Option<i64> {
    let mut messages = MESSAGES.iter().map(|kind| &update[*kind]).chain([&update["callback_query"]["message"]]);
    messages.find_map(|message| message["chat"]["id"].as_i64())
}

/// Returns true if an update gives a chat another id.
fn changes_chat_id(update: &Value) -> bool {
    let message = &update["message"];
    !message["migrate_to_chat_id"].is_null() || !message["migrate_from_chat_id"].is_null()
}

/// Splits a batch into groups with one event each: an update, or the adjacent updates of one album.
fn groups(batch: &[Value]) -> impl Iterator<Item = &[Value]> {
    batch.chunk_by(|one, next| media_group(one).is_some() && media_group(one) == media_group(next))
}

#[cfg(test)]
mod tests;
