//! Targets that people write: a channel, a thread or a user.

use crate::snowflake;

/// A parsed target.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Target<'t> {
    /// A channel or a thread.
    Channel(&'t str),
    /// The direct messages with a user.
    User(&'t str),
}

/// Parses `123`, `<#123>`, `123:456` (a thread after its channel), `@123`, `<@123>` and `user:123`.
pub(crate) fn parse(text: &str) -> Option<Target<'_>> {
    let text = text.trim();
    let marked = |mark: &str| text.strip_prefix(mark).and_then(|rest| rest.strip_suffix('>'));
    let is_id = |id: &&str| snowflake::parse(id).is_some();
    if let Some(user) = text.strip_prefix("user:").or(marked("<@!")).or(marked("<@")).or(text.strip_prefix('@')) {
        return Some(user).filter(is_id).map(Target::User);
    }
    let channel = marked("<#").unwrap_or(text);
    match channel.split_once(':') {
        Some((channel, thread)) => Some(thread).filter(is_id).filter(|_| is_id(&channel)).map(Target::Channel),
        None => Some(channel).filter(is_id).map(Target::Channel),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_people_write_for_a_chat_is_read_and_a_name_is_none() {
        for text in ["123", " 123 ", "<#123>", "9:123"] {
            assert_eq!(parse(text), Some(Target::Channel("123")), "{text:?}");
        }
        for text in ["@123", "<@123>", "<@!123>", "user:123"] {
            assert_eq!(parse(text), Some(Target::User("123")), "{text:?}");
        }
        for text in ["general", "#general", "", "@ada", "<@&123>", "1:plans", "plans:1", "user:", "-5", "1/2"] {
            assert_eq!(parse(text), None, "{text:?}");
        }
    }
}
