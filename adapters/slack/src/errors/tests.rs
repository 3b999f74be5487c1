use super::*;

fn refused(code: &str) -> SendOutcome {
    outcome(&ApiError::Refused(Rejection { code: code.to_owned(), detail: String::new(), retry_after_ms: Some(7000) }))
}

#[test]
fn each_word_of_slack_has_its_kind() {
    for (code, expected) in [
        ("msg_too_long", RefusalKind::TooLong),
        ("msg_blocks_too_long", RefusalKind::TooLong),
        ("invalid_blocks", RefusalKind::BadFormat),
        ("channel_not_found", RefusalKind::ChatGone),
        ("is_archived", RefusalKind::ChatGone),
        ("thread_not_found", RefusalKind::ThreadGone),
        ("not_in_channel", RefusalKind::Forbidden),
        ("restricted_action_read_only_channel", RefusalKind::Forbidden),
        ("missing_scope", RefusalKind::Forbidden),
        ("token_revoked", RefusalKind::Unauthorized),
        ("something_new", RefusalKind::BadFormat),
        ("invalid_something_new", RefusalKind::Invalid),
        ("no_text", RefusalKind::Invalid),
    ] {
        let SendOutcome::Refused { kind, .. } = refused(code) else { panic!("{code} is a refusal") };
        assert_eq!(kind, expected, "{code}");
    }
}

#[test]
fn a_limit_holds_the_chat_and_a_sick_server_the_instance() {
    let SendOutcome::NotSent { retry_after_ms, scope, .. } = refused("ratelimited") else { panic!("it is a wait") };
    assert_eq!((retry_after_ms, scope), (Some(7000), WaitScope::Chat));
    assert!(matches!(refused("service_unavailable"), SendOutcome::NotSent { scope: WaitScope::Instance, .. }));
    assert!(matches!(refused("fatal_error"), SendOutcome::Unknown { .. }));
    assert!(matches!(outcome(&ApiError::Unknown("cut".into())), SendOutcome::Unknown { .. }));
    assert!(matches!(outcome(&ApiError::NotSent("dns".into())), SendOutcome::NotSent { .. }));
    let SendOutcome::NotSent { scope, .. } = outcome(&ApiError::NoEffect("slow".into())) else {
        panic!("it is a wait")
    };
    assert_eq!(scope, WaitScope::Chat);
}
