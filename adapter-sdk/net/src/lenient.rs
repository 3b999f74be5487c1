//! A lenient JSON parser, for senders that split texts inside a surrogate pair.
//!
//! A strict parser rejects half a surrogate pair (`"\ud83d"`) and invalid UTF-8. A client that parses a whole batch
//! strictly would never get past the one message that contains them.
//!
//! The same applies to values that are nested too deeply: `serde_json` rejects the whole text.

use serde::de::DeserializeOwned;

/// The replacement of half a surrogate pair.
const REPLACED: &[u8] = b"\\ufffd";

/// The maximum nesting depth of values. `serde_json` accepts 128; a parsed value is later embedded in others.
pub const DEPTH_MAX: usize = 100;

/// Parses JSON. If strict parsing fails, invalid characters become U+FFFD. Values below [`DEPTH_MAX`]
/// levels become `null`.
///
/// # Errors
///
/// The error of `serde_json` for the original text.
pub fn from_slice<T: DeserializeOwned>(json: &[u8]) -> serde_json::Result<T> {
    if is_too_deep(json) {
        let cut = cut(json);
        return serde_json::from_slice(&cut).or_else(|error| serde_json::from_slice(&mended(&cut)).map_err(|_| error));
    }
    serde_json::from_slice(json).or_else(|error| serde_json::from_slice(&mended(json)).map_err(|_| error))
}

/// Returns whether values are nested below [`DEPTH_MAX`] levels.
pub fn is_too_deep(json: &[u8]) -> bool {
    let mut levels = Levels::default();
    json.iter().any(|byte| levels.after(*byte) > DEPTH_MAX)
}

/// Replaces values below [`DEPTH_MAX`] levels with `null`.
fn cut(json: &[u8]) -> Vec<u8> {
    let mut levels = Levels::default();
    let mut kept = Vec::with_capacity(json.len());
    for byte in json {
        let before = levels.depth;
        let after = levels.after(*byte);
        if before <= DEPTH_MAX && after > DEPTH_MAX {
            kept.extend_from_slice(b"null");
        } else if before <= DEPTH_MAX {
            kept.push(*byte);
        }
    }
    kept
}

/// The nesting depth at a position in JSON.
#[derive(Default)]
struct Levels {
    depth: usize,
    in_text: bool,
    escaped: bool,
}

impl Levels {
    /// Returns the depth after the next byte.
    fn after(&mut self, byte: u8) -> usize {
        match byte {
            _ if self.escaped => self.escaped = false,
            b'\\' if self.in_text => self.escaped = true,
            b'"' => self.in_text = !self.in_text,
            b'{' | b'[' if !self.in_text => self.depth += 1,
            b'}' | b']' if !self.in_text => self.depth = self.depth.saturating_sub(1),
            _ => {}
        }
        self.depth
    }
}

fn mended(json: &[u8]) -> Vec<u8> {
    let text = String::from_utf8_lossy(json);
    let (bytes, mut at) = (text.as_bytes(), 0);
    let mut mended = Vec::with_capacity(bytes.len());
    while at < bytes.len() {
        let taken = match (bytes[at], unit(bytes, at), unit(bytes, at + 6)) {
            (b'\\', Some(0xD800..=0xDBFF), Some(0xDC00..=0xDFFF)) => 12,
            (b'\\', Some(0xD800..=0xDFFF), _) => {
                mended.extend_from_slice(REPLACED);
                at += 6;
                continue;
            }
            // The second byte of an escape starts no escape.
            (b'\\', _, _) => 2,
            _ => 1,
        };
        let end = (at + taken).min(bytes.len());
        mended.extend_from_slice(&bytes[at..end]);
        at = end;
    }
    mended
}

/// Returns the UTF-16 unit of `\uXXXX` at this position.
fn unit(bytes: &[u8], at: usize) -> Option<u16> {
    let digits = bytes.get(at..at + 6)?.strip_prefix(b"\\u")?;
    let is_hex = digits.iter().all(u8::is_ascii_hexdigit);
    is_hex.then(|| u16::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok())?
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn half_a_pair_costs_its_character_and_nothing_else() {
        let cases: [(&[u8], &str); 6] = [
            (br#"["a\ud83d"]"#, "a\u{fffd}"),
            (br#"["\ud83dx\udc00"]"#, "\u{fffd}x\u{fffd}"),
            (br#"["\ud83d\ud83d\ude00"]"#, "\u{fffd}\u{1f600}"),
            (br#"["\\ud83d \ud83d"]"#, "\\ud83d \u{fffd}"),
            (b"[\"\xff\"]", "\u{fffd}"),
            (br#"["\ud83d\n"]"#, "\u{fffd}\n"),
        ];
        for (json, expected) in cases {
            assert_eq!(from_slice::<Value>(json).unwrap(), json!([expected]), "{}", String::from_utf8_lossy(json));
        }
    }

    #[test]
    fn a_value_that_is_nested_too_deeply_costs_itself_and_nothing_else() {
        for depth in [1, 99, 100, 101, 127, 128, 129, 500, 100_000] {
            let arrays = format!("{}1{}", "[".repeat(depth), "]".repeat(depth));
            let objects = format!("{}1{}", "{\"}{\\\"\":".repeat(depth), "}".repeat(depth));
            for deep in [arrays, objects] {
                let batch = format!(r#"{{"ok":true,"result":[{{"id":1,"x":{deep}}},{{"id":2,"text":"[[{{"}}]}}"#);
                let read = from_slice::<Value>(batch.as_bytes()).unwrap();
                assert_eq!((&read["result"][0]["id"], &read["result"][1]["text"]), (&json!(1), &json!("[[{")));
                // The value is parsed again as a part of another text.
                let around = json!([[[[[[[[[[read]]]]]]]]]]).to_string();
                assert!(serde_json::from_str::<Value>(&around).is_ok(), "{depth}");
            }
        }
        assert!(from_slice::<Value>("[".repeat(500).as_bytes()).is_err());
        assert!(from_slice::<Value>("]".repeat(500).as_bytes()).is_err());
    }

    #[test]
    fn what_is_no_json_stays_none() {
        for text in ["", "{", "[\"\\ud83d\"", "\\", "[\"\\u12", "nonsense"] {
            assert!(from_slice::<Value>(text.as_bytes()).is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn whatever_comes_is_read_or_refused_and_what_is_right_stays(bytes: Vec<u8>, text: String) {
            let _ = from_slice::<Value>(&bytes);
            let json = json!([text]).to_string();
            prop_assert_eq!(mended(json.as_bytes()), json.as_bytes());
        }
    }
}
