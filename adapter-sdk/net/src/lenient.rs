//! JSON as senders write it who cut texts between the halves of a pair.
//!
//! Half a surrogate pair (`"\ud83d"`) or bytes that are no UTF-8 are no JSON to a strict reader. Whoever reads a whole
//! batch as one would never get past the one message that holds them.

use serde::de::DeserializeOwned;

/// What a half is replaced with.
const REPLACED: &[u8] = b"\\ufffd";

/// Reads JSON; characters that are none become U+FFFD where it cannot be read otherwise.
///
/// # Errors
///
/// Those of `serde_json`, of the text as it came.
pub fn from_slice<T: DeserializeOwned>(json: &[u8]) -> serde_json::Result<T> {
    serde_json::from_slice(json).or_else(|error| serde_json::from_slice(&mended(json)).map_err(|_| error))
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
            // The other half of an escape begins none.
            (b'\\', _, _) => 2,
            _ => 1,
        };
        let end = (at + taken).min(bytes.len());
        mended.extend_from_slice(&bytes[at..end]);
        at = end;
    }
    mended
}

/// The unit that `\uXXXX` at this place stands for.
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
