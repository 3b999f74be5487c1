use std::time::Duration;

use serde_json::json;

use super::*;
use crate::Discord;

hermes_adapter_sdk::certify!(Discord);

#[test]
fn a_refused_token_needs_a_person_and_a_limit_only_time() {
    let refused = |status| ApiError::Refused(Refused { status, code: 0, message: "x".into(), is_its_own: true });
    assert!(matches!(lost("GET users/@me", &refused(401)), ConnectError::Fatal { .. }));
    let forbidden = lost("GET users/@me", &refused(403));
    assert!(matches!(&forbidden, ConnectError::Retry { after_ms: None, .. }));
    assert!(format!("{forbidden:?}").contains("GET users/@me: "), "the reason names the call: {forbidden:?}");
    let limited = ApiError::Limited { retry_after: Duration::from_millis(1500), all: true };
    assert!(matches!(lost("GET users/@me", &limited), ConnectError::Retry { after_ms: Some(1500), .. }));
    assert!(matches!(
        lost("GET users/@me", &ApiError::Doubtful("cut".into())),
        ConnectError::Retry { after_ms: None, .. }
    ));
}

#[test]
fn an_event_that_is_not_understood_is_left_out() {
    let dispatch = Dispatch { seq: 1, name: "MESSAGE_CREATE".into(), data: json!({ "id": 7 }) };
    assert!(understood::<Message>(&dispatch).is_none());
}
