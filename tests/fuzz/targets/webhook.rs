//! Calls of services: headers, a blank line, a body.

use axum::http::{HeaderMap, HeaderName, HeaderValue};
use hermes_adapter_webhook::read_call;
use ring::hmac;
use serde_json::Value;

use crate::ring::{Target, texts};

/// No input holds it.
const SECRET: &str = "0f1e2d3c4b5a69788796a5b4c3d2e1f0";

/// The header of a signature that is made here.
const SIGNED: &str = "x-hub-signature-256";

/// The longest text of a call without a template, in characters: the payload, its event, and the words around them.
const TEXT_CHARS_MAX: usize = 4_000 + 2_000 + 5_000;

const WORDS: &[&str] = &[
    "x-hub-signature-256: sha256=",
    "x-gitlab-token: ",
    "x-webhook-signature: ",
    "x-webhook-signature-v2: ",
    "x-webhook-timestamp: 1700000000",
    "webhook-id: a\nwebhook-timestamp: 1700000000\nwebhook-signature: v1,",
    "stripe-signature: t=1700000000,v1=",
    "content-type: application/x-www-form-urlencoded",
    "x-github-event: push",
    "\n\n",
    "payload=",
    "%7B%22a%22%3A1%7D",
    "{\"text\":\"",
    "{__raw__}",
    "{text}",
    "`",
    "```",
    "````",
    "[[[[[[[[",
    "null",
    "&",
];

/// A call: nobody without the secret is taken for its sender, and no value leaves its place in the text.
pub fn call() -> Target {
    let seeds = texts(&[
        "content-type: application/json\nx-github-event: push\n\n{\"text\":\"hello ``` {event_type}\",\"n\":[1,{\"a\":null}]}",
        "content-type: application/x-www-form-urlencoded\n\npayload=%7B%22text%22%3A%22hi%22%7D&a=b",
        "x-webhook-signature-v2: 00\nx-webhook-timestamp: 1700000000\n\n{\"type\":\"a\",\"text\":\"{__raw__}\"}",
        "webhook-id: a\nwebhook-timestamp: 1700000000\nwebhook-signature: v1,AAAA v1,BBBB\n\n{}",
        "x-gitlab-token: guess\n\n{\"object_kind\":\"push\"}",
    ]);
    Target::new("call", seeds, WORDS, |bytes| {
        let (head, body) = split(bytes);
        let mut headers = headers(head);
        let call = read_call(SECRET, &headers, body).expect("the route is good");
        assert!(!call.is_signed, "a call without the secret counts");
        if let Some([plain, filled]) = &call.texts {
            checked(plain);
            let said: Option<Value> = serde_json::from_slice(body).ok();
            if let Some(text) = said.as_ref().and_then(|said| said["text"].as_str()).filter(|text| text.len() < 9_000) {
                assert_eq!(*filled, format!("{text}|{text}"), "a value is read as a template");
            }
        }
        let others = ["webhook-signature", "svix-signature", SIGNED, "x-gitlab-token"];
        let key = hmac::Key::new(hmac::HMAC_SHA256, SECRET.as_bytes());
        let tag: String = hmac::sign(&key, body).as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
        // A body that begins like the signed words of another scheme is refused on purpose.
        if body.first() == Some(&b'{') && others.iter().all(|name| !headers.contains_key(*name)) {
            let value = HeaderValue::from_str(&format!("sha256={tag}")).expect("hex is a value");
            headers.insert(SIGNED, value);
            assert!(
                read_call(SECRET, &headers, body).expect("the route is good").is_signed,
                "a signed call is refused"
            );
            let changed = [body, b" "].concat();
            assert!(
                !read_call(SECRET, &headers, &changed).expect("the route is good").is_signed,
                "another body counts"
            );
        }
    })
}

/// Checks the text of a payload: bounded, and in a fence that nothing in it closes.
fn checked(text: &str) {
    assert!(text.chars().count() <= TEXT_CHARS_MAX, "beyond its bound");
    let lines: Vec<&str> = text.lines().collect();
    let begin =
        lines.iter().position(|line| line.ends_with("json") && line.starts_with("```")).expect("a fence begins");
    let fence = lines[begin].trim_end_matches("json");
    let closes = |line: &&str| line.trim().len() >= fence.len() && line.trim().bytes().all(|byte| byte == b'`');
    let end = lines.iter().skip(begin + 1).position(closes).map(|at| begin + 1 + at);
    assert_eq!(end, Some(lines.len() - 1), "something in a payload closes its fence");
}

fn split(bytes: &[u8]) -> (&[u8], &[u8]) {
    match bytes.windows(2).position(|pair| pair == b"\n\n") {
        Some(at) => (&bytes[..at], &bytes[at + 2..]),
        None => (&[], bytes),
    }
}

fn headers(head: &[u8]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for line in head.split(|byte| *byte == b'\n').take(40) {
        let Some(colon) = line.iter().position(|byte| *byte == b':') else { continue };
        let name = HeaderName::from_bytes(&line[..colon]);
        let value = HeaderValue::from_bytes(line[colon + 1..].trim_ascii());
        if let (Ok(name), Ok(value)) = (name, value) {
            headers.append(name, value);
        }
    }
    headers
}
