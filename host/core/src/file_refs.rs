//! The files of an event, and references to files that are still with their platform.

use hermes_protocol::{Attachment, Event};

/// Returns every file of an event: its own, then those of the message that it quotes.
pub fn files(event: &Event) -> impl Iterator<Item = &Attachment> {
    event.attachments.iter().chain(event.reply_to.iter().flat_map(|reply| &reply.attachments))
}

/// Returns whether a file of this event is still with its platform.
pub fn has_away(event: &Event) -> bool {
    files(event).any(is_away)
}

/// Replaces references by the fetched files.
pub fn put(mut event: Event, fetched: &[(String, Attachment)]) -> Event {
    let quoted = event.reply_to.iter_mut().flat_map(|reply| &mut reply.attachments);
    for file in event.attachments.iter_mut().chain(quoted).filter(|file| is_away(file)) {
        let found = fetched.iter().find(|(reference, _)| file.fetch.as_ref() == Some(reference));
        if let Some((_, found)) = found {
            file.clone_from(found);
        }
    }
    event
}

fn is_away(file: &Attachment) -> bool {
    file.media.is_none() && file.fetch.is_some()
}

/// Returns the files of an event that are still with its platform, each with its reference.
pub fn away(event: &Event) -> impl Iterator<Item = (String, Attachment)> {
    files(event).filter(|file| is_away(file)).filter_map(|file| Some((file.fetch.clone()?, file.clone())))
}
