//! The notice about files that did not reach the host.

use std::fmt::Write;

use hermes_protocol::Attachment;

use crate::engine::context::{Heard, Urge};

/// Files that one notice names.
const NAMED_MAX: usize = 5;

/// The longest name and reason in a notice, in characters.
const SHOWN_CHARS_MAX: usize = 120;

/// Returns the notice about files of these events that the agent cannot see. Events of an earlier run of the host had
/// their notice already.
pub(super) fn missing<'h>(heard: impl Iterator<Item = &'h Heard>) -> Option<String> {
    let new = heard.filter(|heard| heard.urge != Urge::InOrder && heard.place.can_deliver_later());
    let files: Vec<&Attachment> = new
        .flat_map(|heard| &heard.event.get().attachments)
        .filter(|file| file.media.is_none() && file.note.is_some())
        .collect();
    sentence(&files)
}

fn sentence(files: &[&Attachment]) -> Option<String> {
    let (named, rest) = files.split_at(files.len().min(NAMED_MAX));
    if named.is_empty() {
        return None;
    }
    let mut words = "I could not receive ".to_owned();
    for (number, file) in named.iter().enumerate() {
        let shown = |text: &str| -> String { text.chars().filter(|c| !c.is_control()).take(SHOWN_CHARS_MAX).collect() };
        let name = match file.name.as_str() {
            "" => format!("a file ({})", file.kind),
            name => format!("`{}`", shown(name).replace('`', "'")),
        };
        let comma = if number == 0 { "" } else { ", " };
        let _ = write!(words, "{comma}{name} ({})", shown(file.note.as_deref().unwrap_or_default()));
    }
    if !rest.is_empty() {
        let _ = write!(words, " and {} more", rest.len());
    }
    words.push_str(". Please send it again, smaller or as a link.");
    Some(words)
}

#[cfg(test)]
mod tests {
    use hermes_protocol::AttachmentKind;

    use super::*;

    #[test]
    fn each_missing_file_is_named_with_its_reason() {
        let file = |name: &str| Attachment::missing(AttachmentKind::File, name, 9, "larger than this host takes");
        let one = file("big`.iso");
        let said = sentence(&[&one]).unwrap();
        let expected =
            "I could not receive `big'.iso` (larger than this host takes). Please send it again, smaller or as a link.";
        assert_eq!(said, expected);
        let many: Vec<Attachment> = (0..8).map(|n| file(&n.to_string())).collect();
        let said = sentence(&many.iter().collect::<Vec<_>>()).unwrap();
        assert!(said.contains("`4` (larger than this host takes) and 3 more"), "{said}");
        assert_eq!(sentence(&[]), None);
    }
}
