//! Whether the agent was meant.

use std::collections::BTreeSet;

use hermes_protocol::{ChatType, Event, EventKind, GroupDefault};

use crate::session::is_dm;

/// What the operator and the manifest say about messages in groups.
#[derive(Clone, Debug)]
pub struct AddressRules {
    /// Whether a message counts only when it is addressed; `None`: as `default` says.
    pub require_mention: Option<bool>,
    /// Ids of chats in which every message counts; a thread counts with its chat.
    pub free_chats: BTreeSet<String>,
    /// Words that count as addressing the agent: plain, case-insensitive, at word bounds.
    pub mention_patterns: Vec<String>,
    /// What the adapter's manifest says.
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

/// Whether an admitted event is meant for the agent.
///
/// A bot is answered only when it mentions this account inline, so that two
/// agents do not talk to each other for ever; so is whoever writes in a channel as
/// the channel itself, unless the operator says that every message there counts.
/// Direct messages and presses of a
/// button always count. `participates` is the route's flag: in a thread in which
/// the agent takes part nobody has to mention it.
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

/// Whether somebody writes in a channel as the channel: a person, or another bot that is its admin; nobody can tell.
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

/// Whether `pattern` stands in `text` as a word of its own, whatever its case.
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

/// Whether a word ends between a neighbour and the edge of a pattern.
fn is_bound(neighbour: Option<char>, edge: char) -> bool {
    neighbour.is_none_or(|c| !is_word(c) || is_unspaced(c) || is_unspaced(edge))
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Scripts that do not put spaces between words, so that every character is a bound.
fn is_unspaced(c: char) -> bool {
    matches!(c,
        '\u{0e00}'..='\u{0eff}' | '\u{1000}'..='\u{109f}' | '\u{1780}'..='\u{17ff}'
        | '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{9fff}' | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{3fffd}')
}

fn fold(text: &str) -> Vec<char> {
    text.chars().flat_map(char::to_lowercase).collect()
}
