//! A lenient JSON parser for the output of real endpoints.
//!
//! Servers put `NaN` into statistics fields, raw line breaks into strings, half an emoji into a piece, and
//! several objects into one event. A strict parser refuses all of this.

use hermes_adapter_net::lenient;
use serde_json::Value;

/// Values of one text; further ones are ignored.
const VALUES_MAX: usize = 1024;

/// Start of the private characters that represent halves of a surrogate pair.
const HALVES: u32 = 0x10_0000;

/// The values of one text and other findings.
#[derive(Debug, Default, PartialEq)]
pub(in crate::openai) struct ParsedValues {
    /// JSON values, in order.
    pub values: Vec<Value>,
    /// True if the text contains the end marker `[DONE]`.
    pub done: bool,
    /// True if a part of the text is not JSON.
    pub unreadable: bool,
}

/// Parses all JSON values of a text. A repeated `data:` and the marker `[DONE]` are allowed between values.
pub(in crate::openai) fn values(text: &str) -> ParsedValues {
    let mut found = ParsedValues::default();
    if let Ok(value) = serde_json::from_str(text) {
        found.values.push(value);
        return found;
    }
    let repaired = repaired(text);
    let mut rest = repaired.trim_start();
    while !rest.is_empty() {
        if let Some(behind) = rest.strip_prefix("data:") {
            rest = behind.trim_start();
            continue;
        }
        if let Some(behind) = rest.strip_prefix("[DONE]") {
            found.done = true;
            rest = behind.trim_start();
            continue;
        }
        let mut stream = serde_json::Deserializer::from_str(rest).into_iter::<Value>();
        match stream.next() {
            Some(Ok(value)) if found.values.len() < VALUES_MAX => found.values.push(value),
            _ => {
                found.unreadable = true;
                break;
            }
        }
        rest = rest[stream.byte_offset()..].trim_start();
    }
    if found.values.is_empty()
        && let Ok(value) = lenient::from_slice::<Value>(repaired.as_bytes())
    {
        // The value is nested too deeply for the strict parser.
        return ParsedValues { values: vec![value], ..ParsedValues::default() };
    }
    found
}

/// Parses a whole text as one JSON object: the arguments of a call.
///
/// An empty text and `null` count as the empty object. A string that contains an object counts as that object,
/// and repetitions of the same object count once. The result, written as JSON, is parsed as the same result.
///
/// # Errors
///
/// Describes the actual content of the text.
pub(crate) fn object(text: &str) -> Result<Value, String> {
    if text.trim().is_empty() {
        return Ok(Value::Object(serde_json::Map::new()));
    }
    let mut value = match single(text)? {
        Value::String(inner) => single(&inner)
            .ok()
            .filter(Value::is_object)
            .ok_or_else(|| "expected a JSON object, not a string".to_owned())?,
        value => value,
    };
    match &value {
        Value::Null => Ok(Value::Object(serde_json::Map::new())),
        Value::Object(_) => {
            without_halves(&mut value);
            Ok(value)
        }
        Value::Array(_) => Err("expected a JSON object, not an array".to_owned()),
        _ => Err("expected a JSON object".to_owned()),
    }
}

/// Parses a whole text as one JSON value. Halves of surrogate pairs remain private characters.
fn single(text: &str) -> Result<Value, String> {
    let why = match serde_json::from_str(text) {
        Ok(value) => return Ok(value),
        Err(error) => format!("invalid JSON ({error})"),
    };
    let ParsedValues { mut values, done, unreadable } = values(text);
    values.dedup();
    match values.pop() {
        Some(_) if !values.is_empty() => Err("more than one JSON value".to_owned()),
        Some(value) if !unreadable && !done => Ok(value),
        _ => Err(why),
    }
}

/// Repairs common errors of a text. Outside of strings, `NaN` and `Infinity` become `null`. Inside of strings,
/// raw control characters are escaped, and half of a surrogate pair becomes a private character (see [`SurrogateJoiner`]).
fn repaired(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = String::with_capacity(text.len());
    let (mut at, mut in_string) = (0, false);
    while let Some(c) = text[at..].chars().next() {
        let taken = c.len_utf8();
        match c {
            '"' => in_string = !in_string,
            '\\' if in_string => {
                at += escape(text, at, &mut out);
                continue;
            }
            c if in_string && (c as u32) < 0x20 => {
                out.push_str(&format!("\\u{:04x}", c as u32));
                at += taken;
                continue;
            }
            'N' | 'I' | '-' if !in_string => {
                let word =
                    ["NaN", "-Infinity", "Infinity", "-NaN"].into_iter().find(|word| text[at..].starts_with(word));
                if let Some(word) = word {
                    out.push_str("null");
                    at += word.len();
                    continue;
                }
            }
            _ => {}
        }
        out.push(c);
        at += taken;
    }
    debug_assert!(at == bytes.len());
    out
}

/// Copies the escape sequence at `at` and returns its length. Half of a surrogate pair becomes its private
/// character.
fn escape(text: &str, at: usize, out: &mut String) -> usize {
    let bytes = text.as_bytes();
    let (first, second) = (unit(bytes, at), unit(bytes, at + 6));
    match (first, second) {
        (Some(0xD800..=0xDBFF), Some(0xDC00..=0xDFFF)) => {
            out.push_str(&text[at..at + 12]);
            12
        }
        (Some(half @ 0xD800..=0xDFFF), _) => {
            out.extend(char::from_u32(HALVES + u32::from(half)));
            6
        }
        _ => {
            let escaped = text[at + 1..].chars().next();
            let taken = 1 + escaped.map_or(0, char::len_utf8);
            out.push_str(&text[at..at + taken]);
            taken
        }
    }
}

/// Returns the UTF-16 unit of the sequence `\uXXXX` at this position.
fn unit(bytes: &[u8], at: usize) -> Option<u16> {
    let digits = bytes.get(at..at + 6)?.strip_prefix(b"\\u")?;
    let is_hex = digits.iter().all(u8::is_ascii_hexdigit);
    is_hex.then(|| u16::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok())?
}

fn half(c: char) -> Option<u16> {
    let unit = u16::try_from((c as u32).checked_sub(HALVES)?).ok()?;
    (0xD800..=0xDFFF).contains(&unit).then_some(unit)
}

/// Joins or replaces the halves of surrogate pairs in all texts and names of a value.
fn without_halves(value: &mut Value) {
    match value {
        Value::String(text) => *text = joined(text),
        Value::Array(items) => items.iter_mut().for_each(without_halves),
        Value::Object(fields) => {
            let whole = std::mem::take(fields).into_iter().map(|(name, mut value)| {
                without_halves(&mut value);
                (joined(&name), value)
            });
            *fields = whole.collect();
        }
        _ => {}
    }
}

/// Returns a complete text in which halves of surrogate pairs are joined or replaced.
fn joined(text: &str) -> String {
    let mut join = SurrogateJoiner::default();
    join.take(text) + &join.end()
}

/// A joiner for halves of surrogate pairs that arrive in two pieces of text.
#[derive(Debug, Default)]
pub(in crate::openai) struct SurrogateJoiner {
    /// First half, until the second one arrives.
    first: Option<u16>,
}

impl SurrogateJoiner {
    /// Returns the text of the next piece. A half without its counterpart becomes U+FFFD.
    pub(in crate::openai) fn take(&mut self, piece: &str) -> String {
        if self.first.is_none() && !piece.contains(|c| half(c).is_some()) {
            return piece.to_owned();
        }
        let mut out = String::with_capacity(piece.len());
        for c in piece.chars() {
            match (self.first.take(), half(c)) {
                (Some(first), Some(second @ 0xDC00..=0xDFFF)) => {
                    let pair = char::decode_utf16([first, second]).next();
                    out.push(pair.and_then(Result::ok).unwrap_or(char::REPLACEMENT_CHARACTER));
                }
                (held, next) => {
                    out.extend(held.map(|_| char::REPLACEMENT_CHARACTER));
                    match next {
                        Some(first @ 0xD800..=0xDBFF) => self.first = Some(first),
                        Some(_) => out.push(char::REPLACEMENT_CHARACTER),
                        None => out.push(c),
                    }
                }
            }
        }
        out
    }

    /// Returns the replacement for a first half without a second one.
    pub(in crate::openai) fn end(&mut self) -> String {
        self.first.take().map(|_| char::REPLACEMENT_CHARACTER.to_string()).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn joined_over(pieces: &[&str]) -> String {
        let mut join = SurrogateJoiner::default();
        let mut text = String::new();
        for piece in pieces {
            let read = values(piece);
            text.push_str(&join.take(read.values[0].as_str().unwrap()));
        }
        text + &join.end()
    }

    #[test]
    fn halves_of_a_pair_are_joined_over_pieces_or_replaced() {
        assert_eq!(joined_over(&[r#""a \ud83e""#, r#""\udd80 b""#]), "a 🦀 b");
        assert_eq!(joined_over(&[r#""a \ud83e""#, r#"" b""#]), "a \u{fffd} b");
        assert_eq!(joined_over(&[r#""\udd80 a""#]), "\u{fffd} a");
        assert_eq!(joined_over(&[r#""\ud83e\ud83e""#, r#""\udd80""#]), "\u{fffd}🦀");
        assert_eq!(joined_over(&[r#""\ud83e""#]), "\u{fffd}");
        assert_eq!(joined_over(&[r#""\\ud83e \ud83e\udd80""#]), "\\ud83e 🦀");
    }

    #[test]
    fn what_json_does_not_have_is_read_all_the_same() {
        let read = values("{\"a\": NaN, \"b\": [-Infinity, Infinity], \"c\": \"NaN\"}");
        assert_eq!(read.values, [json!({"a": null, "b": [null, null], "c": "NaN"})]);
        assert_eq!(values("{\"a\": \"one\ntwo\t\"}").values, [json!({"a": "one\ntwo\t"})]);
        assert!(!read.unreadable);
        let deep = format!("{{\"a\": 1, \"b\": {}{}}}", "[".repeat(300), "]".repeat(300));
        assert_eq!(values(&deep).values[0]["a"], 1);
    }

    #[test]
    fn several_values_of_one_text_are_all_read() {
        let read = values("{\"a\":1}{\"a\":2}\n data: {\"a\":3} [DONE]");
        assert_eq!((read.values.len(), read.done, read.unreadable), (3, true, false));
        let cut = values("{\"a\":1}{\"a\":");
        assert_eq!((cut.values.len(), cut.unreadable), (1, true));
        assert!(values("OPENROUTER PROCESSING").unreadable);
        assert_eq!(values(""), ParsedValues::default());
    }

    #[test]
    fn only_one_whole_object_is_the_arguments_of_a_call() {
        for (text, object_of) in [
            ("", json!({})),
            ("null", json!({})),
            ("{\"a\": 1}", json!({"a": 1})),
            ("\"{\\\"a\\\": 1}\"", json!({"a": 1})),
            ("{\"a\": 1}{\"a\": 1}", json!({"a": 1})),
            ("{\"a\": \"one\ntwo\"}", json!({"a": "one\ntwo"})),
            ("{\"a\": \"\\ud83e\"}", json!({"a": "\u{fffd}"})),
        ] {
            assert_eq!(object(text), Ok(object_of), "{text}");
        }
        for text in ["{\"a\": ", "buy milk", "[1]", "7", "\"x\"", "{\"a\": 1}{\"b\": 1}", "{} x", "[DONE]", "\\"] {
            assert!(object(text).is_err(), "{text}");
        }
    }

    #[test]
    fn arguments_in_a_string_are_read_like_plain_ones_and_a_second_reading_changes_nothing() {
        let again = |value: &Value| object(&value.to_string());
        let texts = [
            r#"{"a": "\"\\\/\b\f\n\r\t\u0041\u0000"}"#,
            r#"{"a": "\ud83e\udd80", "b": "\ud83e", "c": "\udd80", "d": "\udd80\ud83e", "e": "\ud83e\ud83e\udd80"}"#,
            r#"{"a": "\\ud83e\\\ud83e", "b": ["\ud83e", {"\ud83e": "\udd80"}]}"#,
            r#"{"\ud83e": 1, "\ud83e\udd80": {"\udd80": 2}}"#,
            "{\"a\": \"one\ntwo\t\", \"b\": NaN, \"c\": \"NaN\"}",
            r#"{"a": "\ud83e"}{"a": "\ud83e"}"#,
            r#"{"a": 1e-7, "b": 18446744073709551616, "c": -0.0}"#,
        ];
        for text in texts {
            let plain = object(text).unwrap_or_else(|why| panic!("{text}: {why}"));
            assert_eq!(again(&plain), Ok(plain.clone()), "{text}");
            let nested = Value::String(text.to_owned()).to_string();
            assert_eq!(object(&nested), Ok(plain), "{nested}");
            for end in (1..nested.len()).filter(|end| nested.is_char_boundary(*end)) {
                assert!(object(&nested[..end]).is_err(), "{}", &nested[..end]);
            }
        }
        // Halves that the outer text escapes, and control characters that it does not escape.
        for (nested, command) in [
            (r#""{\"a\": \"\ud800ls\"}""#, "\u{fffd}ls"),
            (r#""{\"a\": \"\ud83e\udd80\"}""#, "🦀"),
            (r#""{\"a\": \"\ud83e\\udd80\"}""#, "🦀"),
            (r#""{\"a\": \"\\ud83e\udd80\"}""#, "🦀"),
            (r#""{\"a\": \"\ud83e\n\"}""#, "\u{fffd}\n"),
            ("\"{\\\"a\\\": \\\"one\ntwo\t\\\"}\"", "one\ntwo\t"),
        ] {
            let read = object(nested);
            assert_eq!(read, Ok(json!({"a": command})), "{nested}");
            assert_eq!(again(&read.clone().unwrap()), read, "{nested}");
        }
        for text in
            [r#""\ud83e{}""#, r#""\"{}\"""#, r#""{} x""#, r#""[1]""#, r#""null""#, r#""""#, r#""{\"a\": \"\ud8"#]
        {
            assert!(object(text).is_err(), "{text}");
        }
    }
}
