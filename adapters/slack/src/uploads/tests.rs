use super::*;
use crate::errors::outcome;

#[test]
fn an_app_that_may_upload_nothing_can_still_speak() {
    let refused = |code: &str| Rejection { code: code.into(), ..Rejection::default() };
    for code in ["missing_scope", "file_uploads_disabled", "restricted_action", "a_word_of_the_future"] {
        assert!(is_about_files(&refused(code)), "{code}");
    }
    for code in ["token_revoked", "channel_not_found", "thread_not_found", "msg_too_long", "ratelimited", "fatal_error"]
    {
        assert!(!is_about_files(&refused(code)), "{code}");
    }
}

#[tokio::test]
async fn a_file_that_cannot_be_read_is_refused_and_holds_nobody() {
    let missing = OutMedia::new("m1", "/nowhere/at/all.txt", "text/plain", "all.txt", 3);
    let error = open(&missing).await.expect_err("there is none");
    let SendOutcome::Refused { kind, .. } = outcome(&error) else { panic!("{error} is a refusal") };
    assert_eq!(kind, RefusalKind::Invalid);
}

#[test]
fn files_are_known_by_their_message_where_slack_names_it() {
    let file = json!({ "shares": { "private": { "D1": [{ "ts": "1.2" }] } } });
    assert_eq!(message_of_file(&file, "D1").as_deref(), Some("1.2"));
    assert_eq!(message_of_file(&file, "D2"), None);
    assert_eq!(message_of_file(&json!({ "id": "F1" }), "D1"), None);
}

#[test]
fn no_file_is_shown_before_the_upload_is_completed() {
    let broken = ApiError::Refused(Rejection { code: "internal_error".into(), ..Rejection::default() });
    for error in [ApiError::Unknown("cut".into()), broken] {
        assert!(matches!(before_completion::<()>(Err(error)), Err(ApiError::NoEffect(_))));
    }
}
