use serde_json::json;

use super::*;
use crate::api::Rejection;

fn account() -> Account {
    let account = Account::new(Api::new("https://slack.com/api", None, None, &Default::default()).unwrap(), Vec::new());
    for n in 1..=2 {
        let me = json!({ "team_id": format!("T{n}"), "user_id": format!("UME{n}"), "bot_id": format!("BME{n}") });
        let me = serde_json::from_value(me).unwrap();
        account.lock().push(Arc::new(Workspace { token: format!("xoxb-{n}"), me }));
    }
    account
}

fn refused(code: &str) -> ApiError {
    ApiError::Refused(Rejection { code: code.to_owned(), ..Rejection::default() })
}

#[tokio::test]
async fn a_shared_channel_belongs_to_the_workspace_whose_bot_is_meant() {
    let account = account();
    let of = |event: Value, is_shared: bool| {
        let payload = json!({ "team_id": "T1", "is_ext_shared_channel": is_shared, "event": event });
        account.workspace_of(&payload).unwrap().me.team_id.clone()
    };
    assert_eq!(of(json!({ "text": "hello" }), true), "T1");
    assert_eq!(of(json!({ "text": "hello <@UME2>" }), true), "T2");
    assert_eq!(of(json!({ "text": "hello <@UME2|hermes>" }), true), "T2");
    assert_eq!(of(json!({ "text": "and?", "parent_user_id": "UME2" }), true), "T2");
    assert_eq!(of(json!({ "text": "hello <@UME2>" }), false), "T1");
    assert!(account.workspace_of(&json!({ "team_id": "T9", "event": { "text": "<@UME2>" } })).is_none());
}

#[tokio::test]
async fn a_thread_of_a_shared_channel_stays_with_the_workspace_that_was_called_whichever_slack_names() {
    let account = account();
    let of = |team: &str, event: Value| {
        let payload = json!({ "team_id": team, "is_ext_shared_channel": true, "event": event });
        account.workspace_of(&payload).unwrap().me.team_id.clone()
    };
    assert_eq!(of("T1", json!({ "channel": "C1", "ts": "1.1", "text": "hello <@UME2>" })), "T2");
    assert_eq!(of("T1", json!({ "channel": "C1", "ts": "1.2", "thread_ts": "1.1", "text": "and?" })), "T2");
    let edit = json!({ "channel": "C1", "ts": "1.4", "message": { "ts": "1.2", "thread_ts": "1.1", "text": "so?" } });
    assert_eq!(of("T1", edit), "T2");
    assert_eq!(of("T1", json!({ "channel": "C1", "ts": "2.1", "text": "hello" })), "T1");
    assert_eq!(of("T2", json!({ "channel": "C1", "ts": "2.1", "text": "hello" })), "T1", "the same once more");
}

#[tokio::test]
async fn what_our_bot_of_another_workspace_wrote_is_our_own() {
    let account = account();
    for event in [
        json!({ "user": "UME2", "text": "hello" }),
        json!({ "bot_id": "BME2", "text": "hello" }),
        json!({ "subtype": "message_changed", "message": { "user": "UME2" } }),
        json!({ "subtype": "message_deleted", "previous_message": { "bot_id": "BME2" } }),
    ] {
        assert!(account.is_own(&json!({ "team_id": "T1", "event": event })), "{event}");
    }
    assert!(!account.is_own(&json!({ "team_id": "T1", "event": { "user": "U1", "text": "<@UME2>" } })));
}

#[tokio::test]
async fn a_workspace_that_is_gone_is_left_out_unless_it_is_the_last() {
    let account = account();
    let workspaces = account.workspaces();
    assert!(account.remove(&workspaces[0]));
    assert!(!account.remove(&workspaces[1]));
    assert_eq!(account.workspaces().len(), 1);
    assert!(is_uninstalled(&refused("token_revoked")) && is_uninstalled(&refused("account_inactive")));
    assert!(!is_uninstalled(&refused("invalid_auth")), "a token that never was one is a mistake to fix");
}
