//! The signatures of Slack's requests.
//!
//! A request is accepted only with a valid signature of its body and a recent time, so a recorded request cannot be
//! replayed later. <https://docs.slack.dev/authentication/verifying-requests-from-slack>

use axum::http::HeaderMap;
use ring::hmac;

/// The maximum difference between a request's time and the local time, in seconds, as recommended by Slack.
const AGE_S_MAX: u64 = 300;

/// The signature and the time in a request's headers, not verified yet.
pub(crate) struct RequestSignature<'h> {
    time: &'h str,
    tag: Vec<u8>,
}

impl<'h> RequestSignature<'h> {
    /// Reads the signature of a request whose time is recent.
    pub(crate) fn from_headers(headers: &'h HeaderMap, now_s: u64) -> Result<Self, &'static str> {
        let header = |name| headers.get(name).and_then(|value| value.to_str().ok());
        let time = header("x-slack-request-timestamp").ok_or("the request has no timestamp")?;
        let signature = header("x-slack-signature").ok_or("the request has no signature")?;
        let at_s: u64 = time.parse().map_err(|_| "the timestamp of the request is invalid")?;
        if at_s.abs_diff(now_s) > AGE_S_MAX {
            return Err("the request is too old, or the clock of this machine is wrong");
        }
        let tag = signature.strip_prefix("v0=").and_then(decode_hex).ok_or("the signature has an invalid format")?;
        Ok(Self { time, tag })
    }

    /// Verifies that Slack signed this body.
    pub(crate) fn verify(&self, key: &hmac::Key, body: &[u8]) -> Result<(), &'static str> {
        let signed = [b"v0:", self.time.as_bytes(), b":", body].concat();
        hmac::verify(key, &signed, &self.tag).map_err(|_| "the signature does not match `signing_secret`")
    }
}

fn decode_hex(text: &str) -> Option<Vec<u8>> {
    let pairs = text.as_bytes().chunks(2);
    pairs
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok().filter(|pair| pair.len() == 2)?, 16).ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    /// The example of <https://docs.slack.dev/authentication/verifying-requests-from-slack>.
    const SECRET: &str = "8f742231b10e8888abcd99yyyzzz85a5";
    const TIME: &str = "1531420618";
    const SIGNATURE: &str = "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503";
    const BODY: &str = "token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V&channel_name=foobar&user_id=U2CERLKJA&user_name=roadrunner&command=%2Fwebhook-collect&text=&response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands%2FT1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN&trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c";

    fn headers(time: &'static str, signature: &'static str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert("x-slack-request-timestamp", HeaderValue::from_static(time));
        headers.insert("x-slack-signature", HeaderValue::from_static(signature));
        headers
    }

    fn is_signed(key: &hmac::Key, headers: &HeaderMap, body: &[u8], now_s: u64) -> Result<(), &'static str> {
        RequestSignature::from_headers(headers, now_s)?.verify(key, body)
    }

    fn key() -> hmac::Key {
        hmac::Key::new(hmac::HMAC_SHA256, SECRET.as_bytes())
    }

    #[test]
    fn slacks_own_example_is_signed() {
        let headers = headers(TIME, SIGNATURE);
        assert_eq!(is_signed(&key(), &headers, BODY.as_bytes(), 1_531_420_618 + AGE_S_MAX), Ok(()));
    }

    #[test]
    fn another_body_an_old_time_and_no_signature_are_refused() {
        let now_s = 1_531_420_618;
        let (good, body) = (headers(TIME, SIGNATURE), BODY.as_bytes());
        assert!(is_signed(&key(), &good, b"token=else", now_s).is_err());
        assert!(is_signed(&key(), &good, body, now_s + AGE_S_MAX + 1).is_err());
        assert!(is_signed(&key(), &good, body, now_s - AGE_S_MAX - 1).is_err());
        assert!(is_signed(&hmac::Key::new(hmac::HMAC_SHA256, b"other"), &good, body, now_s).is_err());
        for (time, signature) in [
            ("1531420619", SIGNATURE),
            ("soon", SIGNATURE),
            (TIME, "v0=a2"),
            (TIME, "v1=a2"),
            (TIME, "v0=zz"),
            (TIME, "v0=é"),
        ] {
            assert!(is_signed(&key(), &headers(time, "v0=00"), body, now_s).is_err());
            let mut bad = headers(time, "v0=00");
            bad.insert("x-slack-signature", HeaderValue::from_bytes(signature.as_bytes()).unwrap());
            assert!(is_signed(&key(), &bad, body, now_s).is_err(), "{time} {signature}");
        }
        assert!(is_signed(&key(), &HeaderMap::new(), body, now_s).is_err());
    }
}
