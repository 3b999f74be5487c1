//! Decision whether a message is addressed to the agent.

use std::collections::BTreeSet;

use hermes_protocol::{ChatType, Event, EventKind, GroupDefault};

use crate::session::is_dm;

/// Rules for messages in groups, from the operator and the adapter's manifest.
#[derive(Clone, Debug)]
pub struct AddressRules {
    /// Requires a message to be addressed to the agent; `None` uses `default`.
    pub require_mention: Option<bool>,
    /// Ids of chats in which every message counts as addressed. A thread belongs to its parent chat.
    pub free_chats: BTreeSet<String>,
    /// Words that address the agent: literal, case-insensitive, matched at word boundaries.
    pub mention_patterns: Vec<String>,
    /// Default of the adapter's manifest.
    pub default: GroupDefault,
}

impl Default for AddressRules {
    fn default() -> Self {
        Self {
            require_mention: None,
            free_chats: BTreeSet::new(),
            mention_patterns: Vec::new(),
            default: GroupDefault::Addressed,
        }
    }
}

/// Returns true if an admitted event is meant for the agent.
///
/// A bot gets an answer only if it mentions this account inline, so that two agents do not talk to each other
/// endlessly. The same rule applies to a sender who writes in a channel as the channel itself, unless the
/// operator lets every message there count. Direct messages and button presses always count. `participates` is
/// the flag of the route: in a thread in which the agent takes part, no mention is needed.
pub fn addressed(event: &Event, rules: &AddressRules, participates: bool) -> bool {
    if event.sender.is_bot {
        return event.addressed.mention;
    }
    let facts = event.addressed;
    let replies_to_self = facts.reply_to_self || event.reply_to.as_ref().is_some_and(|reply| reply.is_self);
    let default = rules.default != GroupDefault::All || speaks_as_channel(event);
    let mention_required = rules.require_mention.unwrap_or(default);

    is_dm(&event.chat.kind)
        || event.kind == EventKind::Choice
        || facts.mention
        || (facts.command && event.forwarded.is_none())
        || replies_to_self
        || !mention_required
        || in_free_chat(event, rules)
        || (participates && is_in_thread(event))
        || rules.mention_patterns.iter().any(|pattern| mentions(&event.text, pattern))
}

/// Returns true if the sender writes as the channel itself. The platform does not reveal whether a person or
/// another bot with admin rights wrote the message.
pub fn speaks_as_channel(event: &Event) -> bool {
    event.chat.kind == ChatType::Channel && event.sender.id == event.chat.id
}

fn in_free_chat(event: &Event, rules: &AddressRules) -> bool {
    let chat = &event.chat;
    rules.free_chats.contains(&chat.id) || chat.parent.as_ref().is_some_and(|parent| rules.free_chats.contains(parent))
}

fn is_in_thread(event: &Event) -> bool {
    event.chat.kind == ChatType::Thread || event.chat.thread.as_ref().is_some_and(|thread| !thread.is_empty())
}

/// Returns true if `text` contains `pattern` as a separate word, ignoring case.
pub(super) fn mentions(text: &str, pattern: &str) -> bool {
    let pattern: Vec<char> = fold(pattern.trim());
    let (Some(&first), Some(&last)) = (pattern.first(), pattern.last()) else {
        return false;
    };
    let text = fold(text);
    text.windows(pattern.len()).enumerate().any(|(start, window)| {
        window == pattern
            && is_bound(start.checked_sub(1).map(|before| text[before]), first)
            && is_bound(text.get(start + pattern.len()).copied(), last)
    })
}

/// Returns true if there is a word boundary between a neighbour and the edge of a pattern.
fn is_bound(neighbour: Option<char>, edge: char) -> bool {
    neighbour.is_none_or(|c| !is_word(c) || is_unspaced(c) || is_unspaced(edge))
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Returns true for scripts without spaces between words, in which every character is a word boundary.
fn is_unspaced(c: char) -> bool {
    matches!(c,
        '\u{0e00}'..='\u{0eff}' | '\u{1000}'..='\u{109f}' | '\u{1780}'..='\u{17ff}'
        | '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{9fff}' | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{3fffd}')
}

fn fold(text: &str) -> Vec<char> {
    text.chars().flat_map(char::to_lowercase).collect()
}
