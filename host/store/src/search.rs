//! Full-text search in the transcripts.
//!
//! The indexes are filled outside of the hot path: storing a message does not update them. The sweep indexes
//! new messages, and a search first lets the writer index the rest, so that it sees every message committed
//! before it. `host.indexed_upto` is the last indexed message. Triggers would triple the cost of storing a
//! message.
//!
//! Any text is a valid query; its words are quoted and never interpreted. The search looks for words first. If
//! it finds none, or if the script has no spaces between words, it looks for character sequences (three
//! characters, or any number for shorter words).

use hermes_core::ids::SessionId;
use rusqlite::types::Value;
use rusqlite::{Connection, Row, params, params_from_iter};

use super::sql::{change, collect, first, text};
use super::writer::Outcome;
use super::{Result, SearchHit, Store};

/// Characters of a query that are used.
const QUERY_CHARS_MAX: usize = 2_048;
/// Words of a query that are used.
const QUERY_WORDS_MAX: usize = 16;
/// Highest number of results.
const HITS_MAX: u32 = 100;
/// Messages that one request of the writer indexes, so that other requests do not wait for long.
const INDEX_ROWS_MAX: u32 = 500;
/// Characters around a match found without an index.
const SNIPPET_CHARS: usize = 60;
/// Shortest word that the trigram index can find, in characters.
const TRIGRAM_CHARS: usize = 3;
/// Mark before a match.
const MATCH_BEGIN: &str = ">>>";
/// Mark after a match.
const MATCH_END: &str = "<<<";

/// The description of an index.
struct Index {
    table: &'static str,
    /// Tokens of the text around a match: words or characters.
    snippet_tokens: u32,
}

const WORDS: Index = Index { table: "messages_words", snippet_tokens: 24 };
const TRIGRAMS: Index = Index { table: "messages_trigrams", snippet_tokens: 64 };

impl Store {
    /// Returns messages with all words of `query`, best first. Any text is a valid query.
    ///
    /// # Errors
    ///
    /// The error of the disk.
    pub async fn search(&self, query: &str, limit: u32) -> Result<Vec<SearchHit>> {
        self.search_owned(query, None, limit).await
    }

    /// Searches like [`Store::search`] in the sessions of `owner`.
    ///
    /// # Errors
    ///
    /// The error of the disk.
    pub async fn search_owned(&self, query: &str, owner: Option<&str>, limit: u32) -> Result<Vec<SearchHit>> {
        let words = words_of(query);
        if words.is_empty() || limit == 0 {
            return Ok(Vec::new());
        }
        while self.write(|db| index(db, INDEX_ROWS_MAX)).await?.more {}
        let (owner, limit) = (owner.map(str::to_owned), limit.min(HITS_MAX));
        self.read(move |db| find(db, &words, owner.as_deref(), limit)).await
    }
}

/// The progress of the indexes.
pub(super) struct Indexed {
    /// Number of added messages.
    pub(super) rows: u64,
    /// True if there are more.
    pub(super) more: bool,
}

/// Indexes the next messages, at most `rows_max`.
pub(super) fn index(db: &Connection, rows_max: u32) -> Outcome<Indexed> {
    let upto = db.prepare_cached("SELECT indexed_upto FROM host")?;
    let upto = first(upto, [], |row| Ok(row.get::<_, i64>(0)?))?.unwrap_or(0);
    let next = db
        .prepare_cached("SELECT count(*), max(id) FROM (SELECT id FROM messages WHERE id > ?1 ORDER BY id LIMIT ?2)")?;
    let next = first(next, params![upto, rows_max], |row| Ok((row.get::<_, u32>(0)?, row.get::<_, Option<i64>>(1)?)))?;
    let Some((rows, Some(last))) = next else { return Ok(Indexed { rows: 0, more: false }) };
    for table in [WORDS.table, TRIGRAMS.table] {
        let sql =
            format!("INSERT INTO {table} (rowid, content) SELECT id, content FROM messages WHERE id > ?1 AND id <= ?2");
        change(db, &sql, [upto, last])?;
    }
    change(db, "UPDATE host SET indexed_upto = ?1", [last])?;
    Ok(Indexed { rows: u64::from(rows), more: rows == rows_max })
}

/// Removes a session's messages from the indexes before they are deleted.
pub(super) fn forget_session(db: &Connection, session: &SessionId) -> Outcome<()> {
    for table in [WORDS.table, TRIGRAMS.table] {
        let sql = format!(
            "INSERT INTO {table} ({table}, rowid, content) SELECT 'delete', id, content FROM messages
             WHERE session_id = ?1 AND id <= (SELECT indexed_upto FROM host)"
        );
        change(db, &sql, [&session.0])?;
    }
    Ok(())
}

/// Escapes a text for `LIKE … ESCAPE '\'`.
pub(super) fn escape_like(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        if matches!(c, '\\' | '%' | '_') {
            escaped.push('\\');
        }
        escaped.push(c);
    }
    escaped
}

/// Returns the words of a query that contain a letter or digit. Their number and the length of the query are bounded.
fn words_of(query: &str) -> Vec<String> {
    let bounded: String = query.chars().take(QUERY_CHARS_MAX).map(|c| if c.is_control() { ' ' } else { c }).collect();
    let words = bounded.split_whitespace().filter(|word| word.chars().any(char::is_alphanumeric));
    words.take(QUERY_WORDS_MAX).map(str::to_owned).collect()
}

/// Returns true for scripts without spaces between words.
fn is_unspaced(c: char) -> bool {
    matches!(c,
        '\u{0e00}'..='\u{0eff}' | '\u{1000}'..='\u{109f}' | '\u{1780}'..='\u{17ff}' | '\u{2e80}'..='\u{303f}'
        | '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{9fff}' | '\u{ac00}'..='\u{d7af}' | '\u{f900}'..='\u{faff}'
        | '\u{20000}'..='\u{3ffff}')
}

fn find(db: &Connection, words: &[String], owner: Option<&str>, limit: u32) -> Outcome<Vec<SearchHit>> {
    let unspaced = words.iter().any(|word| word.chars().any(is_unspaced));
    if !unspaced {
        let found = matching(db, &WORDS, words, owner, limit)?;
        if !found.is_empty() {
            return Ok(found);
        }
    }
    if words.iter().all(|word| word.chars().count() >= TRIGRAM_CHARS) {
        return matching(db, &TRIGRAMS, words, owner, limit);
    }
    containing(db, words, owner, limit)
}

/// Searches one of the indexes. Each word is a quoted string, in which only the quote is special.
fn matching(
    db: &Connection,
    index: &Index,
    words: &[String],
    owner: Option<&str>,
    limit: u32,
) -> Outcome<Vec<SearchHit>> {
    let Index { table, snippet_tokens } = index;
    let quoted: Vec<String> = words.iter().map(|word| format!("\"{}\"", word.replace('"', "\"\""))).collect();
    // The text around a match is read for the best results only, because a common word may have a hundred
    // thousand matches.
    let statement = db.prepare_cached(&format!(
        "WITH best AS MATERIALIZED (
             SELECT m.id, m.session_id, s.title, m.role, m.at_ms, {table}.rank AS rank
             FROM {table} JOIN messages m ON m.id = {table}.rowid JOIN sessions s ON s.id = m.session_id
             WHERE {table} MATCH ?1 AND (m.active = 1 OR m.compacted = 1) AND (?2 IS NULL OR s.owner = ?2)
             ORDER BY {table}.rank, m.id DESC LIMIT ?3
         )
         SELECT session_id, title, id, role, at_ms, (
             SELECT snippet({table}, 0, '{MATCH_BEGIN}', '{MATCH_END}', '…', {snippet_tokens})
             FROM {table} WHERE {table} MATCH ?1 AND rowid = best.id
         ) FROM best ORDER BY rank, id DESC"
    ))?;
    collect(statement, params![quoted.join(" "), owner, limit], |row| hit(row, text(row, 5)?.to_owned()))
}

/// Searches all messages, newest first, for words that no index can find.
fn containing(db: &Connection, words: &[String], owner: Option<&str>, limit: u32) -> Outcome<Vec<SearchHit>> {
    let conditions = " AND m.content LIKE ? ESCAPE '\\'".repeat(words.len());
    let statement = db.prepare_cached(&format!(
        "SELECT m.session_id, s.title, m.id, m.role, m.at_ms, m.content
         FROM messages m JOIN sessions s ON s.id = m.session_id
         WHERE (m.active = 1 OR m.compacted = 1) AND (?1 IS NULL OR s.owner = ?1){conditions}
         ORDER BY m.id DESC LIMIT {limit}"
    ))?;
    let mut values = vec![owner.map_or(Value::Null, |owner| Value::from(owner.to_owned()))];
    values.extend(words.iter().map(|word| Value::from(format!("%{}%", escape_like(word)))));
    collect(statement, params_from_iter(values), |row| hit(row, excerpt(text(row, 5)?, &words[0])))
}

fn hit(row: &Row<'_>, snippet: String) -> Outcome<SearchHit> {
    Ok(SearchHit {
        session: SessionId(row.get(0)?),
        title: row.get(1)?,
        message: row.get(2)?,
        role: row.get(3)?,
        at_ms: row.get(4)?,
        snippet,
    })
}

/// Returns the text around `word` in `content`.
fn excerpt(content: &str, word: &str) -> String {
    // SQLite's LIKE ignores case for ASCII only; this code must do the same to find the same match.
    let at = content.to_ascii_lowercase().find(&word.to_ascii_lowercase());
    let (before, rest) = content.split_at(at.unwrap_or(0));
    let (found, after) = rest.split_at(if at.is_some() { word.len() } else { 0 });
    let skipped = before.chars().count().saturating_sub(SNIPPET_CHARS);
    let head: String = before.chars().skip(skipped).collect();
    let tail: String = after.chars().take(SNIPPET_CHARS).collect();
    let cut = |is_cut: bool| if is_cut { "…" } else { "" };
    let (begin, end) = (cut(skipped > 0), cut(tail.len() < after.len()));
    format!("{begin}{head}{MATCH_BEGIN}{found}{MATCH_END}{tail}{end}")
}
