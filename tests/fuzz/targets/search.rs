//! Queries of the search in transcripts.

use std::sync::Arc;

use hermes_store::Store;
use hermes_system::clock::SystemClock;
use rusqlite::{Connection, params};

use crate::ring::{Target, texts};

/// Content of the transcripts: the owner of a session and its text. No letter folds to ASCII.
const SAID: [(&str, &str); 6] = [
    ("a", "The deployment failed at noon; rollback is foo-bar ready"),
    ("a", "100% of C++ tests pass, see file_name.rs and \"quoted words\""),
    ("a", "明日の会議は三時からです 🦀 crab"),
    ("a", "NEAR AND OR NOT are words, too: col:umn ^caret *star"),
    ("b", "The deployment of somebody else is secret"),
    ("b", "crab and foo-bar of another owner, noon"),
];

const HITS_MAX: u32 = 5;

const WORDS: &[&str] = &[
    "deployment",
    "noon",
    "foo-bar",
    "crab",
    "会議",
    "\"",
    "\"\"",
    "*",
    "^",
    ":",
    "(",
    ")",
    "{",
    "}",
    "-",
    "+",
    "%",
    "_",
    "\\",
    " AND ",
    " OR ",
    " NOT ",
    " NEAR(",
    "NEAR/3",
    "content:",
    "rowid:",
    "🦀",
    "\0",
    "'",
    ";",
    "--",
];

/// Any text is a query: it finds what it names, of one owner only, and is never read as an expression.
pub fn search() -> Target {
    let seeds = texts(&[
        "deployment failed",
        "foo-bar",
        "\"quoted words\"",
        "会議",
        "C++ 100%",
        "deployment OR secret",
        "content:noon NEAR(crab noon)",
        "file_name",
    ]);
    Target::opened("search", seeds, WORDS, || {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("state.db");
        let store = Store::open(&path, Arc::new(SystemClock)).expect("the database opens").store;
        fill(&Connection::open(&path).expect("the database opens"));
        let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime starts");
        Box::new(move |bytes| {
            // The folder stays as long as the target.
            assert!(folder.path().exists());
            let query = String::from_utf8_lossy(bytes);
            let found = tokio.block_on(store.search_owned(&query, Some("a"), HITS_MAX));
            let found = found.unwrap_or_else(|error| panic!("a query fails: {error}"));
            assert!(found.len() <= HITS_MAX as usize, "more hits than were asked for");
            let owned = |number: i64| usize::try_from(number).ok().and_then(|number| SAID.get(number.checked_sub(1)?));
            let words: Vec<String> = query
                .chars()
                .take(2_048)
                .map(|c| if c.is_control() { ' ' } else { c })
                .collect::<String>()
                .split_whitespace()
                .map(str::to_ascii_lowercase)
                .collect();
            let words: Vec<&String> =
                words.iter().filter(|word| word.chars().any(char::is_alphanumeric)).take(16).collect();
            for hit in &found {
                let (owner, said) = owned(hit.message).expect("a message that was written");
                assert_eq!(*owner, "a", "a message of somebody else");
                let said = said.to_ascii_lowercase();
                let is_plain = |word: &&&String| word.bytes().all(|byte| byte.is_ascii_alphanumeric());
                assert!(
                    words.iter().filter(is_plain).all(|word| said.contains(word.as_str())),
                    "a hit without its word"
                );
            }
            // A whole word finds what it stands in.
            if let [word] = words.as_slice() {
                let has =
                    |said: &str| said.split(|c: char| !c.is_alphanumeric()).any(|one| one.eq_ignore_ascii_case(word));
                let is_said = SAID.iter().any(|(owner, said)| *owner == "a" && has(said));
                assert!(!is_said || !found.is_empty(), "a word that was said is not found");
            }
        })
    })
}

fn fill(database: &Connection) {
    for (n, owner) in ["a", "b"].into_iter().enumerate() {
        let sql = "INSERT INTO sessions (id, profile, source, owner, started_ms, active_ms) VALUES (?1, 'main', 'x', ?2, 0, 0)";
        database.execute(sql, params![format!("2025_{n}"), owner]).expect("a session is written");
    }
    for (owner, said) in SAID {
        let session = if owner == "a" { "2025_0" } else { "2025_1" };
        let sql = "INSERT INTO messages (session_id, role, content, at_ms) VALUES (?1, 'user', ?2, 0)";
        database.execute(sql, params![session, said]).expect("a message is written");
    }
}
