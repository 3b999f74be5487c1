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
fn a_recorded_call_with_a_time_is_no_good_one_of_a_scheme_without() {
    let secret = "a-plain-secret";
    let form = [("content-type", "application/x-www-form-urlencoded")];
    for signed in ["1764288000.{\"a\":1}", "msg_1-x.1764288000.{\"a\":1}"] {
        let v1 = sign(secret, signed);
        let github = format!("sha256={v1}");
        for named in [("x-webhook-signature", &*v1), ("x-hub-signature-256", &*github)] {
            let pairs = [&form[..], &[named]].concat();
            assert!(judged(&route(&[secret], "auto"), &pairs, signed).unwrap_err().contains("another scheme"));
        }
    }
    for honest in ["{\"at\": 1764288000.5}", "1.5", "a=b.c.d", "[1764288000, 1]"] {
        let v1 = sign(secret, honest);
        assert!(judged(&route(&[secret], "auto"), &[("x-webhook-signature", &v1)], honest).is_ok(), "{honest}");
    }
}

fn named(scheme: Scheme, pairs: &[(&str, &str)], body: &str, now_ms: i64) -> Names {
    let id = (scheme == Scheme::Standard).then(|| "msg_1".to_owned());
    let mark = Some(mark(scheme, body.as_bytes()));
    names(&Signed { scheme, id, mark }, &headers(pairs), body.as_bytes(), now_ms, 3_600)
}

#[test]
fn a_call_is_shown_under_the_id_of_its_sender() {
    let github = [("x-github-delivery", "72d3162e-cc78-11e3")];
    assert_eq!(named(Scheme::GitHub, &github, "{}", NOW_MS).id, "72d3162e-cc78-11e3");
    let bare = named(Scheme::GitHub, &[], "{}", NOW_MS);
    assert_eq!(bare.id, bare.event);
    for odd in ["../../a b", &"x".repeat(101)] {
        let id = named(Scheme::V1, &[("x-request-id", odd)], "{}", NOW_MS).id;
        assert!(id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit()), "{id}");
    }
}

#[test]
fn an_id_that_is_not_signed_counts_together_with_the_words() {
    let of = |scheme, id: &str, body: &str| named(scheme, &[("x-request-id", id)], body, NOW_MS).event;
    for scheme in [Scheme::V1, Scheme::V2] {
        assert_eq!(of(scheme, "1", "{}"), of(scheme, "1", "{}"), "a repetition");
        assert_ne!(of(scheme, "1", "{}"), of(scheme, "1", "{ }"), "other words under the same id");
        assert_ne!(of(scheme, "1", "{}"), of(scheme, "2", "{}"));
    }
    let github = |id: &str, body: &str| named(Scheme::GitHub, &[("x-github-delivery", id)], body, NOW_MS).event;
    assert_eq!(github("1", "{}"), github("2", "{}"), "the same words are the same event, for good");
    assert_ne!(github("1", "{}"), github("1", "[]"));
    let gitlab = |key: &str, body: &str| named(Scheme::GitLab, &[("idempotency-key", key)], body, NOW_MS).event;
    assert_ne!(gitlab("1", "{}"), gitlab("2", "{}"));
    let standard = |body: &str| named(Scheme::Standard, &[], body, NOW_MS).event;
    assert_eq!(standard("1"), standard("2"), "its id is signed");
}

#[test]
fn the_same_words_without_an_id_are_another_call_once_their_time_is_over() {
    for scheme in [Scheme::V1, Scheme::GitLab] {
        let at = |seconds: i64| named(scheme, &[], "{\"text\":\"disk is full\"}", seconds * 1_000).event;
        assert_eq!(at(3_600), at(7_199));
        assert_ne!(at(3_600), at(7_200));
    }
}
