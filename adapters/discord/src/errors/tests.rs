use super::*;

fn kind(status: u16, code: u64, message: &str, chat: &Chat) -> RefusalKind {
    let error = ApiError::Refused(Rejection { status, code, message: message.into(), is_from_discord: true });
    match outcome(&error, chat) {
        SendOutcome::Refused { kind, .. } => kind,
        other => panic!("not refused: {other:?}"),
    }
}

#[test]
fn each_code_of_the_server_has_its_kind() {
    let channel = Chat::new(ChatType::Group, "10");
    let thread = Chat::new(ChatType::Thread, "20").in_thread("20");
    assert_eq!(kind(404, 10003, "Unknown Channel", &thread), RefusalKind::ThreadGone);
    for (status, code, expected) in [
        (404, 10003, RefusalKind::ChatGone),
        (403, 50001, RefusalKind::Forbidden),
        (403, 50013, RefusalKind::Forbidden),
        (403, 50007, RefusalKind::Forbidden),
        (400, 50083, RefusalKind::ThreadGone),
        (400, 50006, RefusalKind::Invalid),
        (400, 200_000, RefusalKind::Invalid),
        (403, 0, RefusalKind::Forbidden),
        (401, 0, RefusalKind::Unauthorized),
        (413, 40005, RefusalKind::Invalid),
    ] {
        assert_eq!(kind(status, code, "x", &channel), expected, "{code}");
    }
    let too_long = "Invalid Form Body: content: BASE_TYPE_MAX_LENGTH";
    assert_eq!(kind(400, 50035, too_long, &channel), RefusalKind::TooLong);
}

#[test]
fn a_limit_holds_the_chat_or_the_instance_for_as_long_as_the_server_says() {
    let limited = |is_global| ApiError::RateLimited { retry_after: Duration::from_micros(1_500_100), is_global };
    for (is_global, expected) in [(false, WaitScope::Chat), (true, WaitScope::Instance)] {
        let SendOutcome::NotSent { retry_after_ms, scope, .. } = outcome(&limited(is_global), &Chat::dm("1")) else {
            panic!("a limit is no refusal")
        };
        assert_eq!((retry_after_ms, scope), (Some(1501), expected), "never shorter than it was told");
    }
}

#[test]
fn what_may_have_arrived_is_doubtful_and_what_cannot_have_is_not() {
    let chat = Chat::dm("1");
    assert!(matches!(outcome(&ApiError::Unknown("cut".into()), &chat), SendOutcome::Unknown { .. }));
    let away = outcome(&ApiError::NotSent("away".into()), &chat);
    assert!(matches!(away, SendOutcome::NotSent { scope: WaitScope::Instance, .. }));
}

#[test]
fn a_refusal_by_what_stands_before_the_server_says_nothing_about_the_chat() {
    let by_a_page = |status| {
        let refused = Rejection { status, code: 0, message: "x".into(), is_from_discord: false };
        outcome(&ApiError::Refused(refused), &Chat::dm("1"))
    };
    let SendOutcome::NotSent { retry_after_ms, scope, .. } = by_a_page(403) else { panic!("the chat is not dead") };
    assert_eq!((retry_after_ms, scope), (None, WaitScope::Chat));
    assert!(matches!(by_a_page(413), SendOutcome::Refused { kind: RefusalKind::Invalid, .. }), "it stays too large");
}

#[test]
fn a_refused_token_needs_a_person_and_a_limit_only_time() {
    let refused = |status| ApiError::Refused(Rejection { status, code: 0, message: "x".into(), is_from_discord: true });
    assert!(matches!(connect_error("GET users/@me", &refused(401)), ConnectError::Fatal { .. }));
    let forbidden = connect_error("GET users/@me", &refused(403));
    assert!(matches!(&forbidden, ConnectError::Retry { after_ms: None, .. }));
    assert!(format!("{forbidden:?}").contains("GET users/@me: "), "the reason names the call: {forbidden:?}");
    let limited = ApiError::RateLimited { retry_after: Duration::from_millis(1500), is_global: true };
    assert!(matches!(connect_error("GET users/@me", &limited), ConnectError::Retry { after_ms: Some(1500), .. }));
    assert!(matches!(
        connect_error("GET users/@me", &ApiError::Unknown("cut".into())),
        ConnectError::Retry { after_ms: None, .. }
    ));
}
