use axum::http::{HeaderName, HeaderValue};
use serde_json::json;

use super::*;
use crate::call_ids::hex;
use crate::config::RouteConfig;
use crate::validate::RouteDefaults;

const NOW_MS: i64 = 1_764_288_000_000;

fn route(secrets: &[&str], signature: &str) -> Route {
    let config = serde_json::from_value(json!({ "routes": {} })).unwrap();
    let of: RouteConfig = serde_json::from_value(json!({ "secrets": secrets, "signature": signature })).unwrap();
    RouteDefaults::of(&config).route("ci", &of).unwrap()
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

fn base64(secret: &str, message: &str) -> String {
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes());
    STANDARD.encode(hmac::sign(&key, message.as_bytes()).as_ref())
}

fn judged(route: &Route, pairs: &[(&str, &str)], body: &str) -> Result<Scheme, &'static str> {
    verify(route, &headers(pairs), body.as_bytes(), NOW_MS).map(|signed| signed.scheme)
}

#[test]
fn the_vector_of_githubs_documentation_is_accepted_and_nothing_near_it() {
    // <https://docs.github.com/en/webhooks/using-webhooks/validating-webhook-deliveries#testing-the-webhook-payload-validation>
    let route = route(&["It's a Secret to Everybody"], "auto");
    let good = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17";
    let name = "x-hub-signature-256";
    assert_eq!(judged(&route, &[(name, good)], "Hello, World!"), Ok(Scheme::GitHub));
    assert_eq!(judged(&route, &[(name, good)], "Hello, World?"), Err(NO_MATCH));
    assert_eq!(judged(&route, &[(name, &good[..good.len() - 1])], "Hello, World!"), Err(UNREADABLE));
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
        verify(&route(secrets, "auto"), &headers(&pairs), body.as_bytes(), now_s * 1_000).map(|signed| signed.id)
    };
    let sent_s = 1_614_265_330;
    for secrets in [&[secret][..], &["another-secret", secret], &[secret.strip_prefix("whsec_").unwrap()]] {
        assert_eq!(at(sent_s, sent_s + 299, "webhook", secrets), Ok(Some(id.to_owned())), "{secrets:?}");
        assert_eq!(at(sent_s, sent_s - 300, "svix", secrets), Ok(Some(id.to_owned())));
    }
    for now_s in [sent_s + 301, sent_s - 301] {
        assert!(at(sent_s, now_s, "svix", &[secret]).unwrap_err().contains("differs too much"));
    }
    assert_eq!(at(sent_s + 1, sent_s, "svix", &[secret]), Err(NO_MATCH), "the time is signed");
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
    assert!(at(now_s - 301).unwrap_err().contains("differs too much"));
    assert!(judged(&route, &[("x-webhook-signature-v2", &v1)], "{}").is_err(), "without its time");
    let stamped = [("x-webhook-signature-v2", &*v1), ("x-webhook-timestamp", "soon")];
    assert!(judged(&route, &stamped, "{}").unwrap_err().contains("cannot be parsed"));
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

#[test]
fn the_vectors_of_slack_and_of_a_stripe_library_are_accepted() {
    // <https://api.slack.com/authentication/verifying-requests-from-slack>
    let slack = route(&["8f742231b10e8888abcd99yyyzzz85a5"], "slack");
    let body = "token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V&\
channel_name=foobar&user_id=U2CERLKJA&user_name=roadrunner&command=%2Fwebhook-collect&text=&\
response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands%2FT1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN&\
trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c";
    let pairs = [
        ("x-slack-request-timestamp", "1531420618"),
        ("x-slack-signature", "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503"),
    ];
    let at = |now_s: i64| verify(&slack, &headers(&pairs), body.as_bytes(), now_s * 1_000).map(|signed| signed.scheme);
    assert_eq!(at(1_531_420_618), Ok(Scheme::Form));
    assert!(at(1_531_420_618 + 301).unwrap_err().contains("differs too much"));

    let now = (NOW_MS / 1_000).to_string();
    let stripe = route(&["whsec_test_secret"], "stripe");
    let body = r#"{"id": "evt_1", "type": "invoice.paid"}"#;
    let good = sign("whsec_test_secret", &format!("{now}.{body}"));
    let of = |said: String| judged(&stripe, &[("stripe-signature", &said)], body);
    assert_eq!(of(format!("t={now},v1={good}")), Ok(Scheme::Form));
    assert_eq!(of(format!("t={now},v1={},v1={good},v0=aa", "0".repeat(64))), Ok(Scheme::Form));
    assert_eq!(of(format!("t={now},v0={good}")), Err(UNREADABLE));
    assert_eq!(of(format!("v1={good}")), Err(UNREADABLE));
    assert!(of(format!("t=1,v1={good}")).unwrap_err().contains("differs too much"));
}

#[test]
fn each_service_is_accepted_by_its_name_and_by_its_header() {
    let (secret, body) = ("s3cr3t-of-the-hook", r#"{"a": 1}"#);
    let (hex, base64) = (sign(secret, body), base64(secret, body));
    for (name, header, value) in [
        ("linear", "linear-signature", hex.clone()),
        ("sentry", "sentry-hook-signature", hex.clone()),
        ("gitea", "x-gitea-signature", hex.clone()),
        ("forgejo", "x-gitea-signature", hex.clone()),
        ("gogs", "x-gogs-signature", hex.clone()),
        ("bitbucket", "x-hub-signature", format!("sha256={hex}")),
        ("jira", "x-hub-signature", format!("sha256={hex}")),
        ("shopify", "x-shopify-hmac-sha256", base64.clone()),
        ("woocommerce", "x-wc-webhook-signature", base64.clone()),
        ("typeform", "typeform-signature", format!("sha256={base64}")),
    ] {
        for signature in [name, "auto"] {
            let route = route(&["another-secret", secret], signature);
            assert_eq!(judged(&route, &[(header, &value)], body), Ok(Scheme::Form), "{name} {signature}");
            assert_eq!(judged(&route, &[(header, &value)], "{}"), Err(NO_MATCH), "{name} {signature}");
            assert!(judged(&route, &[(header, &value), (header, &value)], body).is_err(), "{name} {signature}");
        }
    }
    let linear = route(&[secret], "linear");
    assert!(judged(&linear, &[("x-webhook-signature", &hex)], body).is_err(), "another header does not count");
    let auto = route(&[secret], "auto");
    let recorded = format!("v0:1764288000:{body}");
    assert!(judged(&auto, &[("linear-signature", &sign(secret, &recorded))], &recorded).is_err(), "Slack's words");
}

#[test]
fn a_route_describes_the_signature_of_any_sender() {
    let (secret, body) = ("s3cr3t-of-the-hook", r#"{"a": 1}"#);
    let make = |keys: serde_json::Value| {
        let config = serde_json::from_value(json!({ "routes": {} })).unwrap();
        let mut all = json!({ "secret": secret });
        all.as_object_mut().unwrap().extend(keys.as_object().unwrap().clone());
        RouteDefaults::of(&config).route("ci", &serde_json::from_value(all).unwrap())
    };
    let now = (NOW_MS / 1_000).to_string();
    let (hex, coded) = (sign(secret, body), base64(secret, body));
    let stamped = sign(secret, &format!("{now}.{body}"));
    let own = make(json!({ "signature_header": "X-My-Signature" })).unwrap();
    for value in [&hex, &coded, &format!("sha256={hex}"), &hex.to_uppercase()] {
        assert_eq!(judged(&own, &[("x-my-signature", value)], body), Ok(Scheme::Form), "{value}");
    }
    let strict = make(json!({
        "signature_header": "x-sig", "signature_encoding": "base64", "signature_prefix": "hmac ",
    }));
    let strict = strict.unwrap();
    assert_eq!(judged(&strict, &[("x-sig", &format!("hmac {coded}"))], body), Ok(Scheme::Form));
    assert_eq!(judged(&strict, &[("x-sig", &hex)], body), Err(UNREADABLE));
    let timed = make(json!({
        "signature_header": "x-sig", "signature_scheme": "timestamp", "timestamp_header": "x-time",
    }));
    let timed = timed.unwrap();
    assert_eq!(judged(&timed, &[("x-sig", &stamped), ("x-time", &now)], body), Ok(Scheme::Form));
    assert!(judged(&timed, &[("x-sig", &stamped)], body).is_err());
    let renamed = make(json!({ "signature": "stripe", "signature_header": "calendly-webhook-signature" })).unwrap();
    let said = format!("t={now},v1={stamped}");
    assert_eq!(judged(&renamed, &[("calendly-webhook-signature", &said)], body), Ok(Scheme::Form));
    for wrong in [
        json!({ "signature_header": "no header" }),
        json!({ "signature_header": "" }),
        json!({ "signature_encoding": "hex" }),
        json!({ "signature_header": "x", "signature_encoding": "utf8" }),
        json!({ "signature_header": "x", "signature_scheme": "md5" }),
        json!({ "signature_header": "x", "timestamp_header": "y" }),
        json!({ "signature": "github", "signature_header": "x" }),
        json!({ "signature": "strpe" }),
    ] {
        let why = make(wrong.clone()).err().expect("it is refused");
        assert!(why.starts_with("route `ci` "), "{wrong}: {why}");
    }
}
