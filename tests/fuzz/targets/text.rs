//! Text of people and models.

use hermes_config::mask::Masker;
use hermes_core::{
    commands::{self, Parsed},
    secret::{Secret, mask as core_mask},
};
use hermes_markup::{LIMIT_MIN, Limit, MarkupDialect, Unit, html, measure, plain, render};

use crate::ring::{Target, texts};

const MARKDOWN: &[&str] = &[
    "**",
    "*",
    "_",
    "~~",
    "`",
    "```",
    "```rust\n",
    "\n\n",
    "\n",
    "> ",
    "- ",
    "1. ",
    "- [x] ",
    "# ",
    "[a](",
    "](b)",
    "![",
    "<u>",
    "</u>",
    "<b",
    "&amp;",
    "&#128512;",
    "|---|",
    "| a | b |\n",
    "\\",
    "---\n",
    "    ",
    "\t",
    "<!--",
    "[^1]",
    "||",
    "<tg-spoiler>",
];

/// Every dialect, unit and limit. The first four bytes choose them.
pub fn markup() -> Target {
    let seeds = texts(&[
        "\0\0\0\0# Title\n\nSome *words* and `code` and [a link](https://example.org/x?y=1).\n",
        "\u{1}\u{1}\u{40}\0- one\n  - two\n    1. three\n\n```rust\nfn main() {}\n```\n",
        "\u{2}\u{2}\u{10}\0| a | b |\n|---|:-:|\n| 1 | **2** |\n\n> quoted\n> > twice\n",
        "\u{2}\0\u{1}\u{1}👩‍👩‍👧 &amp; <b>html</b> a word that is long enough to be cut off somewhere in its middle\n",
    ]);
    Target::new("markup", seeds, MARKDOWN, |bytes| {
        let Some((head, rest)) = bytes.split_first_chunk::<4>() else { return };
        let dialects = [
            MarkupDialect::Plain,
            MarkupDialect::CommonMark,
            MarkupDialect::Telegram,
            MarkupDialect::Discord,
            MarkupDialect::Mrkdwn,
        ];
        let units = [Unit::Utf16, Unit::Scalars, Unit::Bytes, Unit::Graphemes];
        let (dialect, unit) = (dialects[usize::from(head[0]) % dialects.len()], units[usize::from(head[1]) % 4]);
        let max = LIMIT_MIN + u32::from(u16::from_le_bytes([head[2], head[3]])) % 4096;
        let text = String::from_utf8_lossy(rest);
        let parts = render(&text, dialect, Limit::new(max, unit));
        for part in &parts {
            assert!(measure(&part.text, unit) <= max as usize, "a part is beyond its limit");
            assert!(measure(&part.source, unit) <= max as usize, "a source is beyond its limit");
            assert!(!part.text.trim().is_empty(), "a part that shows nothing");
        }
        assert!(!parts.is_empty() || plain(&text).trim().is_empty(), "text is lost");
        check_page(&html(&text));
    })
}

/// Checks that a page gets no tag and no attribute of the text.
fn check_page(page: &str) {
    const ELEMENTS: &str = " p br hr h2 h3 h4 h5 h6 blockquote ul ol li input div table thead tbody tr th td figure figcaption pre strong em del u code a span ";
    let mut open = Vec::new();
    for tag in page.split('<').skip(1) {
        let (tag, text) = tag.split_once('>').expect("a tag ends");
        assert!(!text.contains(['>', '"', '\'']), "unescaped text");
        let (name, attributes) = tag.split_once(' ').unwrap_or((tag, ""));
        if let Some(name) = name.strip_prefix('/') {
            assert_eq!(open.pop(), Some(name), "a tag closes another element");
            continue;
        }
        assert!(ELEMENTS.contains(&format!(" {name} ")), "a tag of the text: {name}");
        if !["br", "hr", "input"].contains(&name) {
            open.push(name);
        }
        let href = attributes.strip_prefix("href=\"").and_then(|rest| rest.split_once('"'));
        match href {
            Some((url, rest)) => {
                let is_web =
                    ["http://", "https://", "mailto:"].iter().any(|scheme| url.to_lowercase().starts_with(scheme));
                assert!(
                    is_web && rest == " target=\"_blank\" rel=\"noopener noreferrer\"",
                    "a link of the text: {url}"
                );
            }
            None => {
                assert!(attributes.len() <= 32 && !attributes.contains("on"), "an attribute of the text: {attributes}")
            }
        }
    }
    assert!(open.is_empty(), "an element stays open");
}

/// Slash commands. The first line is the prefix besides `/`.
pub fn command() -> Target {
    let seeds = texts(&[
        "!\n/new",
        "\n/model@hermes_bot gpt —fast",
        "!\n!help me",
        "\n/usr/bin/x",
        "//\n//stop",
        "\n/hándoff x",
    ]);
    Target::new(
        "command",
        seeds,
        &["/", "@", "!", "—", "–", "new", "sto", "handoff", " ", "\u{a0}", "-", "_"],
        |bytes| {
            let text = String::from_utf8_lossy(bytes);
            let (prefix, text) = text.split_once('\n').unwrap_or(("", &text));
            let begins = text.trim().starts_with('/') || (!prefix.is_empty() && text.trim().starts_with(prefix));
            match commands::parse(text, prefix, &commands::Gates::default()) {
                Parsed::NotCommand => {}
                Parsed::Command { args, .. } => {
                    assert!(begins, "words for the agent became a command");
                    assert_eq!(args, args.trim(), "arguments are trimmed");
                }
                Parsed::Unknown { name, .. } => {
                    assert!(begins && !name.is_empty(), "words for the agent became a command");
                    assert_eq!(name, name.to_lowercase());
                }
            }
        },
    )
}

/// Secrets in texts: the first lines are secrets, the rest is the text.
pub fn mask() -> Target {
    let seeds = texts(&[
        "hunter2hunter2\n0123456789\nthe word is hunter2hunter2, 0123456789012",
        "aaaaaaaa\naaaaaaaab\naaaaaaaaaaaab",
    ]);
    Target::new("mask", seeds, &["hunter2hunter2", "0123456789", "\n", "é"], |bytes| {
        let text = String::from_utf8_lossy(bytes);
        let mut lines = text.splitn(3, '\n');
        let secrets: Vec<String> = [lines.next(), lines.next()].into_iter().flatten().map(str::to_owned).collect();
        let text = lines.next().unwrap_or_default();
        // A shorter secret is masked only as a whole word, and the mask itself may contain letters of a secret.
        let secrets: Vec<String> = secrets
            .into_iter()
            .filter(|secret| {
                secret.chars().count() >= 8 && !secret.contains(['[', ']', '*', '<', '>', 's', 'e', 'c', 'r', 't'])
            })
            .collect();
        let shown = Masker::new(secrets.clone()).mask(text).into_owned();
        let core = core_mask(text, &secrets.iter().map(Secret::new).collect::<Vec<_>>());
        for secret in &secrets {
            assert!(!shown.contains(secret.as_str()), "the host shows a secret");
            assert!(!core.contains(secret.as_str()), "the core shows a secret");
        }
        if secrets.iter().all(|secret| !text.contains(secret.as_str())) {
            assert_eq!(shown, text, "what is no secret is not touched");
            assert_eq!(core, text, "what is no secret is not touched");
        }
    })
}
