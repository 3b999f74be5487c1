use axum::http::{HeaderName, HeaderValue};
use serde_json::json;

use super::*;
use crate::config::{RouteConfig, Shared};

const NOW_MS: i64 = 1_764_288_000_000;

fn route(secrets: &[&str], signature: &str) -> Route {
    let config = serde_json::from_value(json!({ "routes": {} })).unwrap();
    let of: RouteConfig = serde_json::from_value(json!({ "secrets": secrets, "signature": signature })).unwrap();
    Shared::of(&config).route("ci", &of).unwrap()
}

fn headers(pairs: &[(&str, &str)]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in pairs {
        headers.append(name.parse::<HeaderName>().unwrap(), HeaderValue::from_str(value).unwrap());
    }
    headers
}

fn sign(secret: &str, message: &str) -> String {
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes());
    hex(hmac::sign(&key, message.as_bytes()).as_ref())
}

fn judged(route: &Route, pairs: &[(&str, &str)], body: &str) -> Result<Scheme, &'static str> {
    judge(route, &headers(pairs), body.as_bytes(), NOW_MS).map(|signed| signed.scheme)
}

#[test]
fn the_vector_of_githubs_documentation_is_accepted_and_nothing_near_it() {
    // <https://docs.github.com/en/webhooks/using-webhooks/validating-webhook-deliveries#testing-the-webhook-payload-validation>
    let route = route(&["It's a Secret to Everybody"], "auto");
    let good = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17";
    let name = "x-hub-signature-256";
    assert_eq!(judged(&route, &[(name, good)], "Hello, World!"), Ok(Scheme::GitHub));
    assert_eq!(judged(&route, &[(name, good)], "Hello, World?"), Err(WRONG));
    assert_eq!(judged(&route, &[(name, &good[..good.len() - 1])], "Hello, World!"), Err(UNREAD));
    assert!(judged(&route, &[(name, good), (name, good)], "Hello, World!").unwrap_err().contains("twice"));
    assert!(judged(&route, &[], "Hello, World!").unwrap_err().contains("no signature"));
    let sha1 = [("x-hub-signature", "sha1=01dc10d0c83e72ed246219cdd91669667fe2ca59")];
    assert!(judged(&route, &sha1, "Hello, World!").is_err(), "sha1 does not count");
}

#[test]
fn the_vector_of_standard_webhooks_is_accepted_within_its_age() {
    // <https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md>
    let (id, body) = ("msg_p5jXN8AQM9LWM0D4loKWxJek", r#"{"test": 2432232314}"#);
    let secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    let at = |seconds: i64, now_s: i64, prefix: &str, secrets: &[&str]| {
        let time = seconds.to_string();
        let pairs = [
            (format!("{prefix}-id"), id.to_owned()),
            (format!("{prefix}-timestamp"), time),
            (
                format!("{prefix}-signature"),
                "v2,AAAA v1,AAAA v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=".to_owned(),
            ),
        ];
        let pairs: Vec<(&str, &str)> = pairs.iter().map(|(name, value)| (&**name, &**value)).collect();
        judge(&route(secrets, "auto"), &headers(&pairs), body.as_bytes(), now_s * 1_000).map(|signed| signed.id)
    };
    let sent_s = 1_614_265_330;
    for secrets in [&[secret][..], &["another-secret", secret], &[secret.strip_prefix("whsec_").unwrap()]] {
        assert_eq!(at(sent_s, sent_s + 299, "webhook", secrets), Ok(Some(id.to_owned())), "{secrets:?}");
        assert_eq!(at(sent_s, sent_s - 300, "svix", secrets), Ok(Some(id.to_owned())));
    }
    for now_s in [sent_s + 301, sent_s - 301] {
        assert!(at(sent_s, now_s, "svix", &[secret]).unwrap_err().contains("too far"));
    }
    assert_eq!(at(sent_s + 1, sent_s, "svix", &[secret]), Err(WRONG), "the time is signed");
    assert_eq!(at(sent_s, sent_s, "webhook", &["whsec_not base64"]), Err(WRONG));
}

#[test]
fn a_token_of_gitlab_counts_as_a_whole() {
    let route = route(&["the-older-token", "the-newer-token"], "auto");
    for good in ["the-older-token", "the-newer-token"] {
        assert_eq!(judged(&route, &[("x-gitlab-token", good)], "{}"), Ok(Scheme::GitLab));
    }
    for bad in ["", "the-newer-toke", "the-newer-tokens", "THE-NEWER-TOKEN"] {
        assert!(judged(&route, &[("x-gitlab-token", bad)], "{}").is_err(), "{bad}");
    }
}

#[test]
fn the_two_plain_schemes_differ_in_that_one_knows_its_time() {
    let route = route(&["a-plain-secret"], "auto");
    let v1 = sign("a-plain-secret", "{}");
    assert_eq!(judged(&route, &[("x-webhook-signature", &v1)], "{}"), Ok(Scheme::V1));
    let at = |seconds: i64| {
        let v2 = sign("a-plain-secret", &format!("{seconds}.{{}}"));
        judged(&route, &[("x-webhook-signature-v2", &v2), ("x-webhook-timestamp", &seconds.to_string())], "{}")
    };
    let now_s = NOW_MS / 1_000;
    assert_eq!(at(now_s - 300), Ok(Scheme::V2));
    assert!(at(now_s - 301).unwrap_err().contains("too far"));
    assert!(judged(&route, &[("x-webhook-signature-v2", &v1)], "{}").is_err(), "without its time");
    let stamped = [("x-webhook-signature-v2", &*v1), ("x-webhook-timestamp", "soon")];
    assert!(judged(&route, &stamped, "{}").unwrap_err().contains("cannot be read"));
}

#[test]
fn a_route_of_one_scheme_takes_no_other() {
    let secret = "a-plain-secret";
    let v1 = sign(secret, "{}");
    for scheme in ["github", "gitlab", "standard", "v2"] {
        assert!(judged(&route(&[secret], scheme), &[("x-webhook-signature", &v1)], "{}").is_err(), "{scheme}");
    }
    assert!(judged(&route(&[secret], "v1"), &[("x-webhook-signature", &v1)], "{}").is_ok());
}

#[test]
fn a_call_has_the_id_of_its_sender_or_one_of_what_it_says() {
    let signed = |scheme, mark| Signed { scheme, id: None, mark };
    let github = headers(&[("x-github-delivery", "72d3162e-cc78-11e3")]);
    assert_eq!(id_of(&signed(Scheme::GitHub, Some([0xab; 8])), &github, b"{}"), "72d3162e-cc78-11e3");
    assert_eq!(id_of(&signed(Scheme::GitHub, Some([0xab; 8])), &HeaderMap::new(), b"{}"), "abababababababab");
    let gitlab = |pairs: &[(&str, &str)], body: &[u8]| id_of(&signed(Scheme::GitLab, None), &headers(pairs), body);
    assert_eq!(gitlab(&[("idempotency-key", "k-1"), ("x-gitlab-event-uuid", "e")], b"{}"), "k-1");
    assert_ne!(gitlab(&[("x-gitlab-event-uuid", "e")], b"1"), gitlab(&[("x-gitlab-event-uuid", "e")], b"2"));
    let odd = id_of(&signed(Scheme::V1, None), &headers(&[("x-request-id", "../../a b")]), b"{}");
    assert!(odd.len() == 32 && odd.bytes().all(|byte| byte.is_ascii_hexdigit()), "{odd}");
    assert_eq!(id_of(&signed(Scheme::V1, None), &headers(&[("x-request-id", &"x".repeat(101))]), b"").len(), 32);
}
