use super::*;

const MANNER: Manner = Manner { reply_mode: ReplyMode::First, link_previews: true };

fn kind(status: u16, code: u64, message: &str, chat: &Chat) -> RefusalKind {
    let error = ApiError::Refused(Refused { status, code, message: message.into(), is_its_own: true });
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
    let limited = |all| ApiError::Limited { retry_after: Duration::from_micros(1_500_100), all };
    for (all, expected) in [(false, WaitScope::Chat), (true, WaitScope::Instance)] {
        let SendOutcome::NotSent { retry_after_ms, scope, .. } = outcome(&limited(all), &Chat::dm("1")) else {
            panic!("a limit is no refusal")
        };
        assert_eq!((retry_after_ms, scope), (Some(1501), expected), "never shorter than it was told");
    }
}

#[test]
fn what_may_have_arrived_is_doubtful_and_what_cannot_have_is_not() {
    let chat = Chat::dm("1");
    assert!(matches!(outcome(&ApiError::Doubtful("cut".into()), &chat), SendOutcome::Unknown { .. }));
    let away = outcome(&ApiError::NotSent("away".into()), &chat);
    assert!(matches!(away, SendOutcome::NotSent { scope: WaitScope::Instance, .. }));
}

#[test]
fn a_refusal_by_what_stands_before_the_server_says_nothing_about_the_chat() {
    let by_a_page = |status| {
        let refused = Refused { status, code: 0, message: "x".into(), is_its_own: false };
        outcome(&ApiError::Refused(refused), &Chat::dm("1"))
    };
    let SendOutcome::NotSent { retry_after_ms, scope, .. } = by_a_page(403) else { panic!("the chat is not dead") };
    assert_eq!((retry_after_ms, scope), (None, WaitScope::Chat));
    assert!(matches!(by_a_page(413), SendOutcome::Refused { kind: RefusalKind::Invalid, .. }), "it stays too large");
}

#[tokio::test]
async fn a_file_that_cannot_be_sent_is_refused_and_holds_nobody() {
    for (path, mime) in [("/nowhere/at/all", "a/b"), (concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"), "no type")] {
        let file = OutMedia::new("1", path, mime, "x", 1);
        let error = with_files(json!({}), &[file]).await.expect_err("it cannot be sent");
        let outcome = outcome(&error, &Chat::dm("1"));
        assert!(matches!(outcome, SendOutcome::Refused { kind: RefusalKind::Invalid, .. }), "{outcome:?}");
    }
}

#[test]
fn a_message_carries_its_key_and_calls_nobody_but_people() {
    let mut outgoing = Outgoing::text(Chat::dm("7"), "hi @everyone <@1>");
    outgoing.key = "d1-1".into();
    let body = message(&outgoing, MANNER, "7");
    assert_eq!((body["nonce"].as_str(), body["enforce_nonce"].as_bool()), (Some("d1-1"), Some(true)));
    assert_eq!(body["allowed_mentions"]["parse"], json!(["users"]));
    assert_eq!(body["flags"], 0);
    outgoing.silent = true;
    let quiet = Manner { link_previews: false, ..MANNER };
    assert_eq!(message(&outgoing, quiet, "7")["flags"], 4 | 4096);
    assert_eq!(changed(&outgoing)["allowed_mentions"]["parse"], json!([]), "an edit calls nobody anew");
}

#[test]
fn a_reply_is_anchored_by_the_mode_and_never_to_the_message_that_opened_the_thread() {
    let mut outgoing = Outgoing::text(Chat::dm("7"), "x");
    outgoing.reply_to = Some("5".into());
    let mut anchored = |reply_mode, part, channel: &str| {
        outgoing.part = part;
        !message(&outgoing, Manner { reply_mode, ..MANNER }, channel)["message_reference"].is_null()
    };
    assert_eq!([anchored(ReplyMode::First, 1, "7"), anchored(ReplyMode::First, 2, "7")], [true, false]);
    assert_eq!([anchored(ReplyMode::All, 1, "7"), anchored(ReplyMode::All, 2, "7")], [true, true]);
    assert_eq!([anchored(ReplyMode::Off, 1, "7"), anchored(ReplyMode::First, 1, "5")], [false, false]);
}

#[test]
fn buttons_stand_in_rows_of_five_and_are_named_where_there_are_none() {
    let options = (0..7).map(|n| ChoiceOption::new(format!("o{n}"), "l".repeat(90))).collect();
    let mut outgoing = Outgoing::text(Chat::dm("7"), "x");
    assert_eq!(changed(&outgoing)["components"], json!([]));
    outgoing.choices = Some(Choices::new("ask1", options, 0));
    let rows = buttons(&outgoing);
    let sizes: Vec<usize> =
        rows.as_array().unwrap().iter().map(|row| row["components"].as_array().unwrap().len()).collect();
    assert_eq!(sizes, [5, 2]);
    let first = &rows[0]["components"][0];
    assert_eq!((first["custom_id"].as_str(), first["style"].as_u64()), (Some("ask:ask1:o0"), Some(2)));
    assert_eq!(first["label"].as_str().unwrap().len(), LABEL_CHARS_MAX);
}

#[test]
fn an_answer_to_an_interaction_is_for_who_asked_where_it_is_private() {
    let outgoing = Outgoing::text(Chat::dm("7"), "x");
    assert_eq!(answer(&outgoing, MANNER, true)["flags"], 64);
    assert_eq!(answer(&outgoing, MANNER, false)["flags"], 0);
}
