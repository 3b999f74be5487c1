//! Slack's text: mentions, links and the three escaped characters, parsed to readable text and written.
//!
//! Slack escapes typed text, so `<…>` in a text is always structure and never typed by a person:
//! <https://docs.slack.dev/messaging/formatting-message-text#escaping>.

/// A converted text.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct ReadableText {
    /// The text, without the mentions of this account.
    pub text: String,
    /// True if this account is mentioned.
    pub mention: bool,
}

/// Converts `text` for the account `me`; `name` returns the name of a user.
pub(crate) fn parse(text: &str, me: &str, name: impl Fn(&str) -> Option<String>) -> ReadableText {
    let mut found = ReadableText::default();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('<') {
        unescape(before, &mut found.text);
        let Some((inside, behind)) = after.split_once('>') else {
            rest = after;
            continue;
        };
        rest = behind;
        let (target, label) = inside.split_once('|').map_or((inside, ""), |(target, label)| (target, label));
        match target.strip_prefix('@') {
            Some(user) if user == me => found.mention = true,
            Some(user) => {
                found.text.push('@');
                let shown = Some(label.to_owned()).filter(|label| !label.is_empty()).or_else(|| name(user));
                unescape(&shown.unwrap_or_else(|| user.to_owned()), &mut found.text);
            }
            None => write_structure(target, label, &mut found.text),
        }
    }
    unescape(rest, &mut found.text);
    found.text = found.text.trim().to_owned();
    found
}

/// Returns the users that a text mentions, without `me`.
pub(crate) fn mentioned_users<'t>(text: &'t str, me: &'t str) -> impl Iterator<Item = &'t str> {
    text.split("<@").skip(1).filter_map(move |rest| {
        let (inside, _) = rest.split_once('>')?;
        Some(inside).filter(|inside| *inside != me && !inside.contains('|'))
    })
}

/// Writes any structure except user mentions: channels, groups, `@here`, dates and links.
fn write_structure(target: &str, label: &str, out: &mut String) {
    if let Some(channel) = target.strip_prefix('#') {
        out.push('#');
        return unescape(if label.is_empty() { channel } else { label }, out);
    }
    if let Some(special) = target.strip_prefix('!') {
        if !label.is_empty() {
            return unescape(label, out);
        }
        out.push('@');
        return unescape(special.split('^').next().unwrap_or_default(), out);
    }
    let address = target.strip_prefix("mailto:").unwrap_or(target);
    if label.is_empty() || label == address || label == target {
        return unescape(address, out);
    }
    unescape(label, out);
    // For the link `http://example.org` with the label `example.org` only the label is shown.
    if address.split_once("://").is_none_or(|(_, bare)| bare.trim_end_matches('/') != label) {
        out.push_str(" (");
        unescape(address, out);
        out.push(')');
    }
}

fn unescape(text: &str, out: &mut String) {
    // `&amp;` comes last, so that a typed `&lt;` (sent as `&amp;lt;`) stays as typed.
    out.push_str(&text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&"));
}

/// Escapes plain text so that Slack shows it literally.
pub(crate) fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// Marks bare addresses in mrkdwn as links, for places in which Slack does not detect them. Existing links and
/// code stay unchanged.
pub(crate) fn link_addresses(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    let mut before = ' ';
    while let Some(next) = rest.chars().next() {
        let taken = match next {
            '<' => rest.find('>').map_or(rest.len(), |end| end + 1),
            '`' => code_len(rest),
            'h' if !before.is_alphanumeric() => {
                let length = address_len(rest);
                if length > 0 {
                    out.push('<');
                    out.push_str(&rest[..length]);
                    out.push('>');
                    before = '>';
                    rest = &rest[length..];
                    continue;
                }
                next.len_utf8()
            }
            _ => next.len_utf8(),
        };
        let (piece, behind) = rest.split_at(taken);
        out.push_str(piece);
        before = piece.chars().next_back().unwrap_or(' ');
        rest = behind;
    }
    out
}

/// Returns the length of the code at the start of a text, in bytes.
fn code_len(text: &str) -> usize {
    let mark = if text.starts_with("```") { "```" } else { "`" };
    let end = text[mark.len()..].find(mark).map(|at| at + 2 * mark.len());
    // A backtick without a closing one in its line is not a mark.
    end.filter(|end| mark.len() == 3 || !text[..*end].contains('\n')).unwrap_or(mark.len())
}

/// Returns the length of the address at the start of a text, in bytes; 0 if there is none.
/// Punctuation at the end of a sentence is excluded.
fn address_len(text: &str) -> usize {
    let Some(scheme) = ["https://", "http://"].into_iter().find(|scheme| text.starts_with(scheme)) else { return 0 };
    let is_end = |c: char| c.is_whitespace() || matches!(c, '<' | '>' | '|' | '`' | '"' | '\u{200b}');
    let mut end = text.find(is_end).unwrap_or(text.len());
    while let Some(last) = text[..end].chars().next_back() {
        let head = &text[..end - last.len_utf8()];
        let is_loose = match last {
            // A closing parenthesis belongs to the address if it has an opening one.
            ')' => head.matches('(').count() <= head.matches(')').count(),
            // A semicolon may end an escaped character.
            ';' => !["&amp", "&lt", "&gt"].iter().any(|escaped| head.ends_with(escaped)),
            '.' | ',' | ':' | '!' | '?' | '\'' | '*' | '_' | '~' | ']' | '}' => true,
            _ => false,
        };
        match is_loose {
            true => end = head.len(),
            false if head.ends_with("&gt") || head.ends_with("&lt") => end = head.len() - "&gt".len(),
            false => break,
        }
    }
    if end > scheme.len() { end } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> (String, bool) {
        let ReadableText { text, mention } = parse(text, "UME", |user| (user == "U1").then(|| "ada".to_owned()));
        (text, mention)
    }

    #[test]
    fn only_the_structured_mention_of_this_account_counts_and_is_removed() {
        assert_eq!(shown("<@UME> what <@UME|hermes> now"), ("what  now".to_owned(), true));
        assert_eq!(shown("@hermes &lt;@UME&gt; UME <@U1> <@U2>"), ("@hermes <@UME> UME @ada @U2".to_owned(), false));
        assert_eq!(mentioned_users("<@U1> <@UME> <@U2|x> <@U3", "UME").collect::<Vec<_>>(), ["U1"]);
    }

    #[test]
    fn a_bare_address_is_marked_as_a_link_and_nothing_else_is() {
        for (text, expected) in [
            ("see https://a.b/c.", "see <https://a.b/c>."),
            ("(http://a.b/c_(d)), *https://a.b*", "(<http://a.b/c_(d)>), *<https://a.b>*"),
            ("https://a.b/?x=1&amp;y=2; https://a.b/&gt;", "<https://a.b/?x=1&amp;y=2>; <https://a.b/>&gt;"),
            ("<https://a.b|c> <https://d>", "<https://a.b|c> <https://d>"),
            ("`https://a.b` ```\nhttps://c\n``` https://d", "`https://a.b` ```\nhttps://c\n``` <https://d>"),
            ("xhttps://a.b https:// http://.", "xhttps://a.b https:// http://."),
            ("a ` b\nhttps://c ` ```", "a ` b\n<https://c> ` ```"),
            ("ä https://a.b/ü🦀 <open", "ä <https://a.b/ü🦀> <open"),
        ] {
            assert_eq!(link_addresses(text), expected, "{text}");
        }
    }

    #[test]
    fn everything_else_in_brackets_reads_as_people_see_it() {
        for (text, expected) in [
            ("<#C1|ops> <#C2>", "#ops #C2"),
            ("<!here> <!channel|@channel> <!subteam^S1|@crew> <!subteam^S1>", "@here @channel @crew @subteam"),
            ("<!date^1392734382^{date}|Feb 18>", "Feb 18"),
            ("<https://a.b/?x=1&amp;y=2>", "https://a.b/?x=1&y=2"),
            ("<https://a.b/c|here> <http://a.b|a.b>", "here (https://a.b/c) a.b"),
            ("<mailto:a@b.c|a@b.c>", "a@b.c"),
            ("1 &lt; 2 &amp;&amp; 3 &gt; 2 &amp;lt;", "1 < 2 && 3 > 2 &lt;"),
            ("half <open", "half open"),
            ("<>", ""),
        ] {
            assert_eq!(shown(text).0, expected, "{text}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_survived_and_what_was_typed_is_never_structure(typed in ".*", pieces in "(<|>|@|#|!|\\||UME|&amp;|&lt;|http://a|[ -~]){0,40}") {
            proptest::prop_assert_eq!(shown(&escape(&typed)), (typed.trim().to_owned(), false));
            let (_, mention) = shown(&pieces);
            let without = |text: &str| text.replace(['<', '>'], "");
            proptest::prop_assert_eq!(without(&link_addresses(&pieces)), without(&pieces));
            proptest::prop_assert_eq!(link_addresses(&link_addresses(&pieces)).len(), link_addresses(&pieces).len());
            proptest::prop_assert!(!mention || pieces.contains("<@UME"));
        }
    }

    #[test]
    fn what_is_escaped_reads_the_same_again() {
        for text in ["a<b>&c", "&lt;@UME&gt;", "<@UME>", "<!channel>"] {
            assert_eq!(shown(&escape(text)), (text.to_owned(), false));
        }
    }
}
