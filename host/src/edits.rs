//! What somebody changed in what they had said. As long as no turn and no order has taken the message, it says from
//! then on what it was changed to, in the inbox (written with the edit) and in the lane in which it waits. An edit that
//! comes later changes nothing: the answer stands, and whoever means something else says it anew.

use hermes_protocol::{Event, EventKind};

use crate::fetching;

/// Whether `edit` changes the message of `event`: the same message, by whoever wrote it.
pub fn is_of(edit: &Event, event: &Event) -> bool {
    event.kind == EventKind::Message
        && edit.message_id.is_some()
        && edit.message_id == event.message_id
        && edit.chat == event.chat
        && edit.sender.id == event.sender.id
}

/// Whether an edit says something that can stand in place of what was said. A command is sent, not edited in.
pub fn says_something(edit: &Event) -> bool {
    let text = edit.text.trim_start();
    let is_empty = text.is_empty() && edit.attachments.is_empty();
    !is_empty && !text.starts_with('/')
}

/// The message as it was changed.
pub fn changed(mut event: Event, edit: &Event) -> Event {
    event.text.clone_from(&edit.text);
    // Many platforms tell only the words of an edit. What is still with the platform was named with the message, and
    // is not fetched again for its edits: everybody may edit again and again.
    if !edit.attachments.is_empty() && !fetching::has_away(edit) {
        event.attachments.clone_from(&edit.attachments);
    }
    event
}
