//! Properties of every text, dialect, unit and limit.

use hermes_markup::{Limit, MarkupDialect, Part, Unit, measure, plain, render};
use proptest::prelude::*;

const DIALECTS: [MarkupDialect; 5] = [
    MarkupDialect::Plain,
    MarkupDialect::CommonMark,
    MarkupDialect::Telegram,
    MarkupDialect::Discord,
    MarkupDialect::Mrkdwn,
];
const UNITS: [Unit; 4] = [Unit::Utf16, Unit::Scalars, Unit::Bytes, Unit::Graphemes];

/// Markdown syntax, and letters of every size.
const PIECES: &[&str] = &[
    "*",
    "**",
    "_",
    "~~",
    "`",
    "``",
    "```",
    "~~~",
    "```rust\n",
    "````\n",
    "\n",
    "\n\n",
    "    ",
    "\t",
    " ",
    "# ",
    "### ",
    "> ",
    "- ",
    "+ ",
    "1. ",
    "99999. ",
    "12) ",
    "- [x] ",
    "[",
    "](",
    "](https://a.b/c)",
    ")",
    "![",
    "<",
    ">",
    "&",
    "&amp;",
    "&#10;",
    "&#128512;",
    "<u>",
    "</u>",
    "<br>",
    "<div>",
    "<tg-spoiler>",
    "</tg-spoiler>",
    "|",
    "|---|",
    "| a | b |\n|---|:-:|\n",
    "\\",
    "---\n",
    "===\n",
    "***\n",
    "word",
    "a longer stretch of words ",
    "snake_case",
    "😀",
    "👨‍👩‍👧",
    "🏴󠁧󠁢󠁥󠁮󠁧󠁿",
    "🇩🇪",
    "e\u{301}",
    "漢字",
    "\u{200d}",
    "\r\n",
    "\0",
    "<https://x.y>",
    "https://example.org/a/rather/long/address?with=query&and=more",
    "x.",
    "(",
    "!",
    "{",
    "}",
    "=",
    "\u{a0}",
];

fn markdown() -> impl Strategy<Value = String> {
    prop::collection::vec(prop::sample::select(PIECES), 0..120).prop_map(|pieces| pieces.concat())
}

/// Texts as people and models write them.
fn sane_markdown() -> impl Strategy<Value = String> {
    let words = "[a-zA-Z0-9 .,;:!?()_&<>#+-]{1,60}";
    let inline = prop_oneof![
        words.prop_map(|w| w),
        "[a-z]{1,9}( [a-z]{1,9}){0,5}".prop_map(|w| format!("**{w}**")),
        "[a-z]{1,9}".prop_map(|w| format!("*{w}*")),
        "[a-z<>&|*]{1,9}".prop_map(|w| format!("`{w}`")),
        "[a-z]{1,9}".prop_map(|w| format!("[{w}](https://a.b/{w})")),
    ];
    let line = prop::collection::vec(inline, 1..5).prop_map(|v| v.join(" "));
    let block = prop_oneof![
        line.clone(),
        line.clone().prop_map(|l| format!("## {l}")),
        prop::collection::vec(line.clone(), 1..4).prop_map(|v| v.iter().map(|l| format!("- {l}\n")).collect()),
        line.clone().prop_map(|l| format!("> {l}")),
        "[a-z(){};= `*\n-]{0,120}".prop_map(|c| format!("~~~~rust\n{c}\n~~~~")),
    ];
    prop::collection::vec(block, 1..8).prop_map(|v| v.join("\n\n"))
}

fn check(markdown: &str, dialect: MarkupDialect, max: u32, unit: Unit) -> Result<Vec<Part>, TestCaseError> {
    let parts = render(markdown, dialect, Limit::new(max, unit));
    let joined: String = parts.iter().map(|part| part.source.as_str()).collect();
    let whole = plain(markdown);
    // Blanks alone cannot be sent: a part that is full of them is dropped.
    if joined.trim() != whole.trim() && has_stretch_of_blanks(&whole) {
        prop_assert!(joined.split_whitespace().eq(whole.split_whitespace()), "{:?} is not {:?}", joined, whole);
    } else {
        prop_assert_eq!(joined.trim(), whole.trim());
    }
    for (n, part) in parts.iter().enumerate() {
        prop_assert!(measure(&part.text, unit) <= max as usize, "text of {:?} is longer than {}", part, max);
        prop_assert!(measure(&part.source, unit) <= max as usize, "source of {:?} is longer than {}", part, max);
        prop_assert!(!part.text.trim().is_empty());
        let suffix = format!("({}/{})", n + 1, parts.len());
        let body = if parts.len() > 1 {
            part.text
                .strip_suffix(suffix.as_str())
                .ok_or_else(|| TestCaseError::fail(format!("{part:?} is not numbered")))?
        } else {
            &part.text
        };
        match dialect {
            MarkupDialect::Telegram => check_html(&part.text)?,
            MarkupDialect::Discord => check_backticks(&part.text)?,
            MarkupDialect::Mrkdwn => check_mrkdwn(&part.text)?,
            MarkupDialect::CommonMark => {
                check_fences(body)?;
                if parts.len() > 1 {
                    let numbered = part.text.lines().next_back().unwrap_or_default();
                    prop_assert!(fence(numbered).is_none(), "the number stands on a fence in {:?}", part);
                }
            }
            _ => {}
        }
    }
    Ok(parts)
}

/// Returns whether a text has as many consecutive blanks as the shortest part has room.
fn has_stretch_of_blanks(text: &str) -> bool {
    text.split(|c: char| !c.is_whitespace()).any(|blanks| blanks.chars().count() >= 8)
}

/// Checks that every tag is Telegram's and closed in order, and that every `&` begins one of its entities.
fn check_html(html: &str) -> Result<(), TestCaseError> {
    let mut open = Vec::new();
    let mut rest = html;
    while let Some(at) = rest.find(['<', '&', '>']) {
        rest = &rest[at..];
        if rest.starts_with('&') {
            prop_assert!(["&amp;", "&lt;", "&gt;", "&quot;"].iter().any(|e| rest.starts_with(e)), "entity in {html}");
            rest = &rest[1..];
            continue;
        }
        prop_assert!(rest.starts_with('<'), "a stray > in {html}");
        let end = rest.find('>').ok_or_else(|| TestCaseError::fail(format!("half a tag in {html}")))?;
        let tag = &rest[1..end];
        rest = &rest[end + 1..];
        match tag.strip_prefix('/') {
            Some(name) => prop_assert_eq!(open.pop(), Some(name), "{}", html),
            None => {
                let name = tag.split(' ').next().unwrap_or("");
                prop_assert!(
                    ["b", "i", "u", "s", "a", "code", "pre", "blockquote", "tg-spoiler"].contains(&name),
                    "{tag} in {html}"
                );
                open.push(name);
            }
        }
    }
    prop_assert!(open.is_empty(), "{open:?} open at the end of {html}");
    Ok(())
}

/// Returns the mark of a fence, the length of its run, and the text after it; `None` for any other line.
fn fence(line: &str) -> Option<(char, usize, &str)> {
    let line = line.trim_start_matches(|c: char| " >".contains(c));
    let line = line.trim_start_matches(|c: char| c.is_ascii_digit() || "-*.) []x>".contains(c));
    let mark = line.chars().next().filter(|c| "`~".contains(*c))?;
    let run = line.chars().take_while(|c| *c == mark).count();
    let info = &line[run..];
    (run >= 3 && !(mark == '`' && info.contains('`'))).then_some((mark, run, info.trim()))
}

/// Checks that every fence that opens in a part closes in it.
fn check_fences(text: &str) -> Result<(), TestCaseError> {
    let mut open: Option<(char, usize)> = None;
    for line in text.lines() {
        let Some((mark, run, info)) = fence(line) else { continue };
        match open {
            None => open = Some((mark, run)),
            Some((c, n)) if c == mark && run >= n && info.is_empty() => open = None,
            _ => {}
        }
    }
    prop_assert!(open.is_none(), "{open:?} open at the end of {text}");
    Ok(())
}

/// Checks the backticks of a part. Discord reads every run of three as a fence; a part opens as many as it closes.
fn check_backticks(text: &str) -> Result<(), TestCaseError> {
    let escaped = text.replace("\\\\", "").replace("\\`", "");
    prop_assert!(escaped.matches("```").count() % 2 == 0, "a fence is open at the end of {text:?}");
    Ok(())
}

/// Checks that every `<` of mrkdwn starts a link that ends in the part, every `&` an entity, and every fence is closed.
fn check_mrkdwn(text: &str) -> Result<(), TestCaseError> {
    prop_assert!(text.matches("```").count() % 2 == 0, "a fence is open at the end of {text:?}");
    for after in text.split('<').skip(1) {
        let link = after.split_once('>').map(|(link, _)| link);
        prop_assert!(link.is_some_and(|link| link.contains(':') && link.contains('|')), "no link in {text:?}");
    }
    for after in text.split('&').skip(1) {
        prop_assert!(["amp;", "lt;", "gt;"].iter().any(|name| after.starts_with(name)), "unescaped in {text:?}");
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_part_fits_stands_alone_and_joins(text in markdown(), max in prop_oneof![32_u32..80, 80_u32..600], d in 0..5_usize, u in 0..4_usize) {
        check(&text, DIALECTS[d], max, UNITS[u])?;
    }

    #[test]
    fn any_characters_at_all_are_survived(text in any::<String>(), max in 0_u32..200, d in 0..5_usize, u in 0..4_usize) {
        let parts = render(&text, DIALECTS[d], Limit::new(max, UNITS[u]));
        let joined: String = parts.iter().map(|part| part.source.as_str()).collect();
        let whole = plain(&text);
        prop_assert_eq!(joined.trim(), whole.trim());
    }

    #[test]
    fn a_limit_that_holds_all_gives_one_part(text in markdown(), d in 0..5_usize, u in 0..4_usize) {
        let whole = render(&text, DIALECTS[d], Limit::NONE);
        let limited = render(&text, DIALECTS[d], Limit::new(1_000_000, UNITS[u]));
        prop_assert_eq!(whole, limited);
    }

    #[test]
    fn graphemes_stay_whole(words in prop::collection::vec(prop::sample::select(&["😀", "👨‍👩‍👧", "e\u{301}", "漢", "a", " ", "🇩🇪", "&", "**b** "][..]), 1..200), max in 64_u32..200, u in 0..4_usize) {
        use unicode_segmentation::UnicodeSegmentation;
        let text = words.concat();
        let whole = plain(&text);
        let ends: std::collections::BTreeSet<usize> = whole.grapheme_indices(true).map(|(at, g)| at + g.len()).collect();
        let mut at = 0;
        for part in check(&text, MarkupDialect::Telegram, max, UNITS[u])? {
            at += part.source.len();
            prop_assert!(at >= whole.trim_end().len() || ends.contains(&at), "cut inside a grapheme at {}", at);
        }
    }

    #[test]
    fn a_block_of_code_keeps_its_language_and_its_lines_in_every_part(
        lines in prop::collection::vec(" {0,12}[a-z(){};=*_~<>&\"]{1,30}", 1..60),
        around in "([a-z][a-z ]{0,40})?",
        // If a language's marks would take most of a part, the language is left out.
        max in 160_u32..600,
        u in 0..4_usize,
    ) {
        let code = lines.join("\n");
        let text = format!("{around}\n\n````rust\n{code}\n````\n\n{around}");
        for part in check(&text, MarkupDialect::CommonMark, max, UNITS[u])? {
            let mut open = None;
            for (mark, run, info) in part.text.lines().filter_map(fence) {
                match open {
                    None => {
                        prop_assert_eq!(info, "rust", "{}", part.text);
                        open = Some((mark, run));
                    }
                    Some((c, n)) if c == mark && run >= n && info.is_empty() => open = None,
                    Some(_) => {}
                }
            }
        }
        for part in check(&text, MarkupDialect::Telegram, max, UNITS[u])? {
            for (at, _) in part.text.match_indices("<pre>") {
                prop_assert!(part.text[at..].starts_with("<pre><code class=\"language-rust\">"), "{}", part.text);
            }
        }
        // Cuts are at line ends where possible, and every line keeps its indentation.
        prop_assert!(plain(&text).contains(&code));
    }

    #[test]
    fn commonmark_means_the_same_after_writing(text in sane_markdown()) {
        let written = render(&text, MarkupDialect::CommonMark, Limit::NONE).into_iter().next().map(|p| p.text).unwrap_or_default();
        let squeeze = |s: &str| s.split_whitespace().collect::<Vec<_>>().join(" ");
        prop_assert_eq!(squeeze(&plain(&written)), squeeze(&plain(&text)), "{}", written);
    }

    #[test]
    fn telegram_html_shows_the_words_of_the_text(text in sane_markdown(), max in 200_u32..900) {
        for part in check(&text, MarkupDialect::Telegram, max, Unit::Utf16)? {
            prop_assert!(!part.text.contains("<b></b>"));
        }
    }
}

#[test]
fn items_in_items_on_one_line_stay_within_the_limit() {
    let text = format!("{}end", "* ".repeat(150));
    for dialect in DIALECTS {
        for unit in UNITS {
            for max in [32, 64, 289, 4096] {
                let parts = render(&text, dialect, Limit::new(max, unit));
                for part in &parts {
                    assert!(measure(&part.text, unit) <= max as usize, "{dialect:?} {unit:?} {max}: {part:?}");
                    assert!(measure(&part.source, unit) <= max as usize, "{dialect:?} {unit:?} {max}: {part:?}");
                }
                assert!(parts.iter().any(|part| part.text.contains("end")), "{parts:?}");
            }
        }
    }
}

#[test]
fn empty_quotes_before_a_word_do_not_fill_a_source() {
    for times in 1..60 {
        let text = format!("{}>>>👩\u{200d}", ">>\n>\n".repeat(times));
        for dialect in DIALECTS {
            for max in [32, 48, 64] {
                let parts = render(&text, dialect, Limit::new(max, Unit::Bytes));
                let fits = |part: &Part| measure(&part.source, Unit::Bytes) <= max as usize;
                assert!(parts.iter().all(fits), "{times} quotes, {dialect:?}, {max}: {parts:?}");
                assert!(parts.iter().any(|part| part.source.contains('\u{1f469}')), "{parts:?}");
            }
        }
    }
}

#[test]
fn markers_before_blanks_do_not_fill_a_source() {
    for markers in 1..20 {
        let text = format!("{}{}.", "1. ".repeat(markers), " ".repeat(72 - 3 * markers));
        for dialect in DIALECTS {
            let parts = render(&text, dialect, Limit::new(67, Unit::Scalars));
            let fits = |part: &Part| measure(&part.source, Unit::Scalars) <= 67;
            assert!(parts.iter().all(fits), "{markers} markers, {dialect:?}: {parts:?}");
            assert!(parts.iter().any(|part| part.source.contains('.')), "{parts:?}");
        }
    }
}

#[test]
fn code_without_a_character_in_it_makes_no_part() {
    for text in ["` `", "`\0\0`", "\0`\n\0`\n\0`\n\0`", "```\n   \n```", "> ` `", "**` `**"] {
        for dialect in DIALECTS {
            let parts = render(text, dialect, Limit::new(4096, Unit::Utf16));
            assert_eq!(parts, Vec::new(), "{text:?} in {dialect:?}");
        }
    }
}

#[test]
fn marks_without_room_for_a_letter_give_way_to_the_words() {
    let text =
        "99999. ```rust\n1. ~~~****    ***| a | b |\n|---|:-:|\n| a | b |\n|---|:-:|\n[</tg-spoiler>1. </u>*****---\n";
    for unit in UNITS {
        check(text, MarkupDialect::CommonMark, 32, unit).unwrap();
    }
}
