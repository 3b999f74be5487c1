use super::*;

fn refused(code: u16, description: &str) -> SendOutcome {
    outcome(&ApiError::Refused(Rejection {
        code,
        description: description.to_owned(),
        retry_after_ms: None,
        migrate_to_chat_id: None,
    }))
}

fn kind(outcome: SendOutcome) -> RefusalKind {
    match outcome {
        SendOutcome::Refused { kind, .. } => kind,
        other => panic!("not refused: {other:?}"),
    }
}

#[test]
fn each_sentence_of_the_server_has_its_kind() {
    let cases = [
        (
            400,
            "Bad Request: can't parse entities: Unsupported start tag \"x\" at byte offset 0",
            RefusalKind::BadFormat,
        ),
        (400, "Bad Request: message is too long", RefusalKind::TooLong),
        (400, "Bad Request: message thread not found", RefusalKind::ThreadGone),
        (400, "Bad Request: TOPIC_DELETED", RefusalKind::ThreadGone),
        (400, "Bad Request: chat not found", RefusalKind::ChatGone),
        (400, "Bad Request: not enough rights to send text messages to the chat", RefusalKind::Forbidden),
        (400, "Bad Request: not enough rights to send photos to the chat", RefusalKind::Invalid),
        (400, "Bad Request: reply markup is too long", RefusalKind::Invalid),
        (413, "Request Entity Too Large", RefusalKind::Invalid),
        (400, "Bad Request: something new", RefusalKind::Invalid),
        (401, "Unauthorized", RefusalKind::Unauthorized),
        (403, "Forbidden: bot was blocked by the user", RefusalKind::Forbidden),
        (404, "Not Found", RefusalKind::Invalid),
        (404, "Not Found: method not found", RefusalKind::Invalid),
    ];
    for (code, description, expected) in cases {
        assert_eq!(kind(refused(code, description)), expected, "{description}");
    }
}

#[test]
fn a_flood_wait_holds_the_chat_for_as_long_as_the_server_says() {
    let error = ApiError::Refused(Rejection {
        code: 429,
        description: "Too Many Requests: retry after 7".into(),
        retry_after_ms: Some(7000),
        migrate_to_chat_id: None,
    });
    let SendOutcome::NotSent { retry_after_ms, scope, .. } = outcome(&error) else { panic!("a 429 is no refusal") };
    assert_eq!((retry_after_ms, scope), (Some(7000), WaitScope::Chat));
}

#[test]
fn a_migrated_chat_names_its_successor() {
    let error = ApiError::Refused(Rejection {
        code: 400,
        description: "Bad Request: group chat was upgraded to a supergroup chat".into(),
        retry_after_ms: None,
        migrate_to_chat_id: Some(-1005),
    });
    let SendOutcome::Refused { kind, migrated_to, .. } = outcome(&error) else { panic!("not refused") };
    assert_eq!((kind, migrated_to.as_deref()), (RefusalKind::Migrated, Some("-1005")));
}

#[test]
fn what_may_have_arrived_is_doubtful_and_what_cannot_have_is_not() {
    assert!(matches!(outcome(&ApiError::Unknown("cut".into())), SendOutcome::Unknown { .. }));
    assert!(matches!(
        outcome(&ApiError::NotSent("refused".into())),
        SendOutcome::NotSent { scope: WaitScope::Instance, .. }
    ));
}

#[test]
fn a_refused_token_needs_a_person_and_too_many_calls_only_time() {
    let refused = |code| {
        ApiError::Refused(Rejection { code, description: "x".into(), retry_after_ms: None, migrate_to_chat_id: None })
    };
    assert!(matches!(connect_error(&refused(401)), ConnectError::Fatal { .. }));
    // A method that the server does not have is not about the token.
    assert!(matches!(connect_error(&refused(404)), ConnectError::Retry { .. }));
    assert!(matches!(connect_error(&refused(429)), ConnectError::Retry { after_ms: Some(1_000), .. }));
    assert!(matches!(connect_error(&ApiError::Unknown("cut".into())), ConnectError::Retry { after_ms: None, .. }));
}
