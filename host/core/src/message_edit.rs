//! Edits of received messages. Until a turn or an order has taken the message, an edit replaces its text, in the inbox
//! (in the same transaction) and in the lane in which it waits. A later edit changes nothing: the answer remains, and a
//! sender who means something else sends another message.
//!
//! Platforms may deliver an edit before its message, or after a later edit. The inbox keeps the last edit of each recent
//! message and applies it when the message arrives.

use hermes_protocol::{Event, EventKind};

use crate::file_refs;

/// Returns whether `edit` changes the message of `event`: the same message of the same sender.
pub fn is_of(edit: &Event, event: &Event) -> bool {
    event.kind == EventKind::Message
        && edit.message_id.is_some()
        && edit.message_id == event.message_id
        && edit.chat == event.chat
        && edit.sender.id == event.sender.id
}

/// Returns whether an edit has content that can replace the message. A command has to be sent; an edit cannot add one.
pub fn says_something(edit: &Event) -> bool {
    let text = edit.text.trim_start();
    let is_empty = text.is_empty() && edit.attachments.is_empty();
    !is_empty && !text.starts_with('/')
}

/// Returns the edited message.
pub fn changed(mut event: Event, edit: &Event) -> Event {
    event.text.clone_from(&edit.text);
    // Many platforms report only the text of an edit. Files that are still on the platform were named with the message
    // and are not fetched again for an edit, because anyone can edit repeatedly.
    if !edit.attachments.is_empty() && !file_refs::has_away(edit) {
        event.attachments.clone_from(&edit.attachments);
    }
    event
}
