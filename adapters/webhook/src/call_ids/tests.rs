use axum::http::{HeaderName, HeaderValue};

use super::*;
use crate::signature::mark;

const NOW_MS: i64 = 1_764_288_000_000;

fn headers(pairs: &[(&str, &str)]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in pairs {
        headers.append(name.parse::<HeaderName>().unwrap(), HeaderValue::from_str(value).unwrap());
    }
    headers
}

fn named(scheme: Scheme, pairs: &[(&str, &str)], body: &str, now_ms: i64) -> CallIds {
    let id = (scheme == Scheme::Standard).then(|| "msg_1".to_owned());
    let mark = Some(mark(scheme, body.as_bytes()));
    of_call(&Verification { scheme, id, id_header: "", mark }, &headers(pairs), body.as_bytes(), now_ms, 3_600)
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
