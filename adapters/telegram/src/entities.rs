//! Mentions, commands and links in texts, which Telegram marks with entities.

use crate::objects::{Entity, User};

/// The maximum number of processed entities per message, which is also the server's maximum.
const ENTITIES_MAX: usize = 100;
/// The maximum length of a shown link address, in bytes.
const URL_BYTES_MAX: usize = 2048;

/// The text without mentions, and the facts from its entities.
pub(crate) struct AddressedText {
    pub text: String,
    /// True if the text mentions this bot.
    pub mention: bool,
    /// True if the text begins with a command.
    pub command: bool,
}

/// Removes the mentions of this bot and reports whether there were any; `None` for a command to another bot.
pub(crate) fn parse(text: &str, entities: &[Entity], me: &User) -> Option<AddressedText> {
    let mut addressed = AddressedText { text: String::new(), mention: false, command: false };
    let handle = me.username.as_deref().map(|name| format!("@{name}")).unwrap_or_default();
    let is_handle = |piece: &str| !handle.is_empty() && piece.eq_ignore_ascii_case(&handle);
    let (mut removals, mut links) = (Vec::new(), Vec::new());
    for entity in entities.iter().take(ENTITIES_MAX) {
        let Some((start, end)) = byte_range(text, entity) else { continue };
        let piece = &text[start..end];
        match entity.kind.as_str() {
            "mention" if is_handle(piece) => removals.push((start, end)),
            "text_link" => links.extend(link_address(piece, entity).map(|link| (end, link))),
            "text_mention" if entity.user.as_ref().is_some_and(|user| user.id == me.id) => removals.push((start, end)),
            "bot_command" => {
                let is_first = entity.offset == 0;
                match piece.split_once('@') {
                    Some((command, bot)) if is_handle(&format!("@{bot}")) => {
                        addressed.command |= is_first;
                        removals.push((start + command.len(), end));
                    }
                    Some(_) if is_first => return None,
                    Some(_) => {}
                    None => addressed.command |= is_first,
                }
            }
            _ => {}
        }
    }
    addressed.mention = !removals.is_empty();
    addressed.text = edit_text(text, removals, links).trim().to_owned();
    Some(addressed)
}

/// Returns the text with each hidden link address appended to its link text.
pub(crate) fn with_links(text: &str, entities: &[Entity]) -> String {
    let links = entities.iter().take(ENTITIES_MAX).filter(|entity| entity.kind == "text_link").filter_map(|entity| {
        let (start, end) = byte_range(text, entity)?;
        Some((end, link_address(&text[start..end], entity)?))
    });
    edit_text(text, Vec::new(), links.collect())
}

/// Returns the address of an entity in parentheses, unless the link text shows it.
fn link_address(label: &str, entity: &Entity) -> Option<String> {
    let url = entity.url.as_deref().filter(|url| url.len() <= URL_BYTES_MAX)?;
    let bare = |url: &str| url.trim_end_matches('/').to_ascii_lowercase();
    (bare(label.trim()) != bare(url)).then(|| format!(" ({url})"))
}

/// Returns the text without the byte ranges `removals`, which may overlap, and with the insertions at their offsets.
fn edit_text(text: &str, removals: Vec<(usize, usize)>, insertions: Vec<(usize, String)>) -> String {
    let removals = removals.into_iter().map(|(start, end)| (start, end, String::new()));
    let mut changes: Vec<_> = removals.chain(insertions.into_iter().map(|(at, inserted)| (at, at, inserted))).collect();
    changes.sort();
    let (mut edited, mut at) = (String::with_capacity(text.len()), 0);
    for (start, end, inserted) in changes {
        edited.push_str(text.get(at..start).unwrap_or_default());
        edited.push_str(&inserted);
        at = at.max(start).max(end);
    }
    edited.push_str(text.get(at..).unwrap_or_default());
    edited
}

/// Returns the byte range of an entity, whose offsets count UTF-16 units; `None` if the range is invalid.
fn byte_range(text: &str, entity: &Entity) -> Option<(usize, usize)> {
    let range = (entity.offset, entity.offset.checked_add(entity.length)?);
    let (mut units, mut start) = (0, None);
    for (at, character) in text.char_indices() {
        if units == range.0 {
            start.get_or_insert(at);
        }
        if units == range.1 {
            return Some((start?, at));
        }
        units += character.len_utf16();
    }
    (units == range.1).then_some((start?, text.len()))
}
