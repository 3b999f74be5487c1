//! Bodies that the chat page sends.

use hermes_adapter_webchat::{read_body, read_title};

use crate::ring::{Target, texts};

const WORDS: &[&str] = &[
    "\"id\":\"",
    "\"text\":\"",
    "\"files\":[",
    "\"entry\":\"",
    "\"ask\":\"",
    "\"option\":\"",
    "\\u0000",
    "\\n",
    "/",
    "..",
    ":",
    "null",
    "{}",
    "[]",
    "🦀",
    "\u{a0}",
    "\u{85}",
];

/// Messages, presses and titles.
pub fn page() -> Target {
    let seeds = texts(&[
        r#"{"id":"m-1","text":"hello","files":["f1"]}"#,
        r#"{"id":"m_2","text":" /status"}"#,
        r#"{"entry":"e1","ask":"a1","option":"yes"}"#,
        "a title\nof two lines",
    ]);
    Target::new("page", seeds, WORDS, |bytes| {
        if let Some(event) = read_body(false, bytes) {
            let id = event.message_id.as_deref().unwrap_or_default();
            let is_id = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
            assert!((1..=64).contains(&id.len()) && id.chars().all(is_id), "a message whose name is none");
            assert_eq!(event.event_id, format!("m:c:{id}"), "an event of another name");
            assert!(event.text.len() <= 256 * 1024, "beyond its bound");
            assert_eq!(event.addressed.command, event.text.trim_start().starts_with('/'), "a command by chance");
            assert_eq!(event.sender.id, "operator", "somebody else at the page");
        }
        if let Some(event) = read_body(true, bytes) {
            let choice = event.choice.expect("a press chooses something");
            assert!(!choice.ask.is_empty() && choice.ask.len() <= 64 && choice.option.len() <= 64, "beyond its bound");
            // Two presses are never one event.
            assert_eq!(event.event_id.split(':').count(), 5, "the name of a press can be taken apart in two ways");
        }
        if let Some(title) = read_title(&String::from_utf8_lossy(bytes)) {
            assert!(!title.is_empty() && title.lines().count() == 1, "a title of several lines");
            assert!(!title.chars().any(|c| matches!(c, '\n' | '\r' | '\t')), "a title that breaks its line");
            assert_eq!(read_title(&title).as_deref(), Some(title.as_str()), "a title changes each time");
        }
    })
}
