//! Targets that people write: an id, with a workspace or a thread, or the name of a channel.

use crate::chats;
use crate::timestamp::is_ts;

/// A target as a person writes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target<'t> {
    /// The id of a chat or user, and of a thread.
    Id { id: &'t str, thread: Option<&'t str> },
    /// The name of a channel.
    Name(&'t str),
}

impl<'t> Target<'t> {
    /// Parses `C0123`, `D0123`, `G0123` or `U0123`, with a workspace before (`T0123/`) or a thread behind
    /// (`:1700000000.000100`), and `#name`.
    pub(crate) fn parse(text: &'t str) -> Option<Self> {
        let text = text.trim();
        if let Some(name) = text.strip_prefix('#') {
            return Some(Self::Name(name)).filter(|_| !name.is_empty() && !name.contains(char::is_whitespace));
        }
        let (id, thread) = text.split_once(':').map_or((text, None), |(id, thread)| (id, Some(thread)));
        let (team, channel) = chats::split_id(id);
        let is_id = |id: &str, kinds: &[char]| {
            id.len() > 1 && id.starts_with(kinds) && id.bytes().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit())
        };
        let is_chat = is_id(channel, &['C', 'D', 'G', 'U', 'W']) && team.is_none_or(|team| is_id(team, &['T', 'E']));
        (is_chat && thread.is_none_or(is_ts)).then_some(Self::Id { id, thread })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_an_id_a_thread_or_a_name() {
        let id = |id, thread| Some(Target::Id { id, thread });
        assert_eq!(Target::parse("C0123"), id("C0123", None));
        assert_eq!(Target::parse(" T01/D0123:1700000000.000100 "), id("T01/D0123", Some("1700000000.000100")));
        assert_eq!(Target::parse("U0123"), id("U0123", None));
        assert_eq!(Target::parse("#ops"), Some(Target::Name("ops")));
        for other in ["", "#", "ops", "C0123:17", "X0123", "C01 23", "c0123", "C0123/C0124", "#two words", "C", "T01/"]
        {
            assert_eq!(Target::parse(other), None, "{other}");
        }
    }
}
