//! The log records and messages of adapters: masked, limited and labelled with the instance.
//!
//! Text of an adapter must not contain a secret of its plan. An adapter that logs too much must not hide the records of
//! others: records beyond the rate are counted, and the count is logged when there is room again.

use std::{sync::Mutex, sync::PoisonError};

use serde_json::{Map, Value};
use tokio::time::Instant;
use tracing::{Level, level_filters::LevelFilter};

/// Records of one burst.
const BURST_RECORDS: u32 = 200;
/// Records per second after a burst.
const RECORDS_PER_S: u32 = 50;
/// The longest text of one record, in bytes.
const TEXT_BYTES_MAX: usize = 16 * 1024;
/// Shorter secrets are not masked, in characters: they occur in too many texts.
const SECRET_CHARS_MIN: usize = 4;
/// Shorter secrets are masked only as whole words, in characters: within a word a match is most likely accidental.
const INNER_CHARS_MIN: usize = 8;

/// The members of an adapter's answers that are written for people.
const WORDS: [&str; 6] = ["reason", "mend", "detail", "message", "note", "duty"];

/// The replacement for a secret.
const MASK: &str = "***";

/// Replaces secrets in text.
#[derive(Clone, Debug, Default)]
pub(super) struct Mask {
    secrets: Vec<String>,
}

impl Mask {
    pub(super) fn new(secrets: &[String]) -> Self {
        let mut secrets: Vec<String> =
            secrets.iter().filter(|secret| secret.chars().count() >= SECRET_CHARS_MIN).cloned().collect();
        // A secret that contains another one is replaced first.
        secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        Self { secrets }
    }

    /// Returns the text without its secrets.
    pub(super) fn apply(&self, text: &str) -> String {
        self.secrets.iter().fold(text.to_owned(), |text, secret| match secret.chars().count() < INNER_CHARS_MIN {
            true => without_word(&text, secret),
            false => text.replace(secret.as_str(), MASK),
        })
    }

    /// Masks the text members of a JSON payload. Unchanged payloads keep their bytes. Platform clients often quote the
    /// whole URL of a call in their errors, with a token in it. Ids are not masked, because a short secret may equal
    /// one.
    pub(super) fn apply_json(&self, payload: Vec<u8>) -> Vec<u8> {
        let Ok(text) = str::from_utf8(&payload) else { return payload };
        // Escaped characters may hide a secret.
        let suspicious = text.contains('\\') && !self.secrets.is_empty();
        if !suspicious && !self.secrets.iter().any(|secret| text.contains(secret.as_str())) {
            return payload;
        }
        let Ok(mut value) = serde_json::from_str::<Value>(text) else { return self.apply(text).into_bytes() };
        let said = value.clone();
        self.apply_words(&mut value);
        if value == said { payload } else { value.to_string().into_bytes() }
    }

    fn apply_words(&self, value: &mut Value) {
        match value {
            Value::Array(values) => values.iter_mut().for_each(|value| self.apply_words(value)),
            Value::Object(fields) => fields.iter_mut().for_each(|(name, value)| match value {
                Value::String(words) if WORDS.contains(&name.as_str()) => *words = self.apply(words),
                other => self.apply_words(other),
            }),
            _ => {}
        }
    }

    fn apply_value(&self, value: &mut Value) {
        match value {
            Value::String(text) => *text = self.apply(text),
            Value::Array(values) => values.iter_mut().for_each(|value| self.apply_value(value)),
            Value::Object(fields) => fields.values_mut().for_each(|value| self.apply_value(value)),
            _ => {}
        }
    }
}

/// Masks a secret unless it is part of a longer word.
fn without_word(text: &str, secret: &str) -> String {
    let is_word = |char: Option<char>| char.is_some_and(char::is_alphanumeric);
    let mut rest = text;
    let mut masked = String::with_capacity(text.len());
    while let Some(at) = rest.find(secret) {
        let (before, behind) = (&rest[..at], &rest[at + secret.len()..]);
        // The character before a match may be part of the text that was already copied.
        let last = before.chars().next_back().or_else(|| masked.chars().next_back());
        masked.push_str(before);
        masked.push_str(if is_word(last) || is_word(behind.chars().next()) { secret } else { MASK });
        rest = behind;
    }
    masked.push_str(rest);
    masked
}

/// One record, ready for the log: its message, and its fields as `name=value`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Line {
    message: String,
    fields: String,
}

/// Masks and limits the records of one instance on their way into the host's log.
pub(super) struct LogGate {
    instance: String,
    mask: Mask,
    bucket: Mutex<Bucket>,
}

struct Bucket {
    records: u32,
    filled: Instant,
    dropped: u64,
}

impl LogGate {
    pub(super) fn new(instance: &str, mask: Mask) -> Self {
        let bucket = Bucket { records: BURST_RECORDS, filled: Instant::now(), dropped: 0 };
        Self { instance: instance.to_owned(), mask, bucket: Mutex::new(bucket) }
    }

    /// Returns the text without its secrets.
    pub(super) fn masked(&self, text: &str) -> String {
        self.mask.apply(text)
    }

    /// Returns the JSON payload without its secrets.
    pub(super) fn masked_json(&self, payload: Vec<u8>) -> Vec<u8> {
        self.mask.apply_json(payload)
    }

    /// Logs one record: level 1 (error) to 5 (trace), its source, its fields as a JSON object.
    pub(super) fn tell(&self, level: u8, source: &str, fields: &str) {
        if level == 0 || level > max_level() {
            return;
        }
        let Some(dropped) = self.bucket.lock().unwrap_or_else(PoisonError::into_inner).take(Instant::now()) else {
            return;
        };
        let instance = self.instance.as_str();
        if dropped > 0 {
            tracing::warn!(target: "adapter", instance, dropped, "log rate of the adapter exceeded, records dropped");
        }
        let Line { message, fields } = self.line(fields);
        let message = if fields.is_empty() { message } else { format!("{message} {fields}") };
        let source = self.mask.apply(source);
        match level_of(level) {
            Level::ERROR => tracing::error!(target: "adapter", instance, source, "{message}"),
            Level::WARN => tracing::warn!(target: "adapter", instance, source, "{message}"),
            Level::INFO => tracing::info!(target: "adapter", instance, source, "{message}"),
            Level::DEBUG => tracing::debug!(target: "adapter", instance, source, "{message}"),
            Level::TRACE => tracing::trace!(target: "adapter", instance, source, "{message}"),
        }
    }

    fn line(&self, fields: &str) -> Line {
        let mut object = match serde_json::from_str(fields) {
            Ok(Value::Object(object)) => object,
            // Not valid by the contract, but it may still help the operator.
            _ => Map::from_iter([("message".to_owned(), Value::String(fields.to_owned()))]),
        };
        // Values are masked before they are quoted, because quoting changes a secret.
        object.values_mut().for_each(|value| self.mask.apply_value(value));
        let message = match object.remove("message") {
            Some(Value::String(message)) => message,
            Some(other) => other.to_string(),
            None => String::new(),
        };
        let fields: Vec<String> = object.iter().map(|(name, value)| format!("{name}={}", shown(value))).collect();
        let fields = fields.join(" ");
        // The joined text is masked again: keys and numbers may contain a secret.
        Line { message: cut(message), fields: cut(self.mask.apply(&fields)) }
    }
}

impl Bucket {
    /// Takes one record out of the bucket. Returns the count of records dropped before it. `None`: this record is
    /// dropped.
    fn take(&mut self, now: Instant) -> Option<u64> {
        let since = now.saturating_duration_since(self.filled);
        let grown = u32::try_from(since.as_millis() * u128::from(RECORDS_PER_S) / 1000).unwrap_or(u32::MAX);
        if grown > 0 {
            self.records = self.records.saturating_add(grown).min(BURST_RECORDS);
            self.filled = now;
        }
        if self.records == 0 {
            self.dropped += 1;
            return None;
        }
        self.records -= 1;
        Some(std::mem::take(&mut self.dropped))
    }
}

/// Returns the most verbose level that is enabled, as adapters count levels.
pub(super) fn max_level() -> u8 {
    match LevelFilter::current().into_level() {
        None => 0,
        Some(Level::ERROR) => 1,
        Some(Level::WARN) => 2,
        Some(Level::INFO) => 3,
        Some(Level::DEBUG) => 4,
        Some(Level::TRACE) => 5,
    }
}

fn level_of(level: u8) -> Level {
    match level {
        0 | 1 => Level::ERROR,
        2 => Level::WARN,
        3 => Level::INFO,
        4 => Level::DEBUG,
        _ => Level::TRACE,
    }
}

/// Formats a word without quotes, and any other value as JSON.
fn shown(value: &Value) -> String {
    match value {
        Value::String(word) if !word.is_empty() && !word.contains([' ', '"', '=']) => word.clone(),
        other => other.to_string(),
    }
}

fn cut(mut text: String) -> String {
    if text.len() > TEXT_BYTES_MAX {
        let end = (0..=TEXT_BYTES_MAX).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        text.truncate(end);
        text.push('…');
    }
    // A record is one line, and control characters could control a terminal.
    if text.chars().any(char::is_control) {
        text = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    }
    text
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn gate(secrets: &[&str]) -> LogGate {
        let secrets: Vec<String> = secrets.iter().map(|secret| (*secret).to_owned()).collect();
        LogGate::new("one", Mask::new(&secrets))
    }

    #[test]
    fn secrets_are_masked_in_message_fields_and_keys() {
        let gate = gate(&["s3cret", "s3cret-longer", "a\"b\\c"]);
        let fields = serde_json::json!({
            "message": "token s3cret-longer refused",
            "url": "https://x/s3cret/y",
            "deep": {"list": ["a\"b\\c", 1]},
            "s3cret": true,
        });
        let line = gate.line(&fields.to_string());
        assert_eq!(line.message, "token *** refused");
        assert_eq!(line.fields, r#"deep={"list":["***",1]} ***=true url=https://x/***/y"#);
    }

    #[derive(Clone, Default)]
    struct Written(std::sync::Arc<Mutex<Vec<u8>>>);

    impl std::io::Write for Written {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_record_is_told_under_its_instance_without_its_secret() {
        let written = Written::default();
        let writer = written.clone();
        let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer(move || writer.clone()).finish();
        tracing::subscriber::with_default(subscriber, || {
            gate(&["s3cret"]).tell(2, "lib::s3cret", r#"{"message":"token s3cret","n":1}"#);
        });
        let text = String::from_utf8(written.0.lock().unwrap().clone()).unwrap();
        assert!(text.contains("WARN adapter: token *** n=1"), "{text}");
        assert!(text.contains(r#"instance="one""#) && text.contains(r#"source="lib::***""#), "{text}");
        assert!(!text.contains("s3cret") && !text.contains("fields"), "{text}");
    }

    #[test]
    fn an_answer_quotes_no_secret_however_it_is_spelled() {
        let mask = Mask::new(&["tok\"en-4711".to_owned(), "bot12345678".to_owned()]);
        let masked = |payload: &str| String::from_utf8(mask.apply_json(payload.as_bytes().to_vec())).unwrap();
        assert_eq!(masked(r#"{"message":"GET http://x/bot12345678/me"}"#), r#"{"message":"GET http://x/***/me"}"#);
        assert_eq!(masked(r#"{"message":"\u0062ot12345678"}"#), r#"{"message":"***"}"#);
        assert_eq!(masked(r#"{"message":"tok\"en-4711"}"#), r#"{"message":"***"}"#);
        assert_eq!(masked("no JSON, and bot12345678"), "no JSON, and ***");
        let plain = r#"{"at_ms": 1, "id": "bot12345678", "text": "a line\nand another"}"#;
        assert_eq!(masked(plain), plain, "ids and texts stay as they were written");
    }

    #[test]
    fn a_short_secret_is_masked_alone_and_not_as_a_part_of_words() {
        let message = |text: &str| gate(&["short"]).line(&serde_json::json!({ "message": text }).to_string()).message;
        assert_eq!(message("shorter, a_short, key=short short!"), "shorter, a_***, key=*** ***!");
        assert_eq!(message("shortshort"), "shortshort");
        assert_eq!(gate(&["long-enough"]).line(r#"{"message":"xlong-enoughx"}"#).message, "x***x");
    }

    #[test]
    fn a_short_secret_does_not_stain_every_text() {
        assert_eq!(gate(&["a", ""]).line(r#"{"message":"all banana"}"#).message, "all banana");
    }

    #[test]
    fn what_is_no_object_is_told_as_it_is() {
        assert_eq!(gate(&[]).line("just text\u{1b}[2J").message, "just text [2J");
        assert_eq!(gate(&["hidden"]).line("\"hidden\"").message, "\"***\"");
    }

    #[test]
    fn a_flood_is_cut_off_and_counted() {
        let now = Instant::now();
        let mut bucket = Bucket { records: BURST_RECORDS, filled: now, dropped: 0 };
        let told = (0..1_000).filter(|_| bucket.take(now).is_some()).count();
        assert_eq!(told, 200);
        assert_eq!(bucket.take(now + Duration::from_millis(20)), Some(800));
        assert_eq!(bucket.take(now + Duration::from_millis(21)), None);
        let later = now + Duration::from_secs(60);
        assert_eq!((0..1_000).filter(|_| bucket.take(later).is_some()).count(), 200);
    }
}
