use super::*;

fn refused(code: &str) -> SendOutcome {
    outcome(&ApiError::Refused(Refused { code: code.to_owned(), detail: String::new(), retry_after_ms: Some(7000) }))
}

fn outgoing(text: &str) -> Outgoing {
    let mut message = Outgoing::text(Chat::dm("T1/D1"), text);
    message.format = Format::Native;
    message
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
    assert!(matches!(outcome(&ApiError::Doubtful("cut".into())), SendOutcome::Unknown { .. }));
    assert!(matches!(outcome(&ApiError::NotSent("dns".into())), SendOutcome::NotSent { .. }));
    assert!(matches!(not_yet::<()>(Err(ApiError::Doubtful("cut".into()))), Err(ApiError::Held(_))));
    let SendOutcome::NotSent { scope, .. } = outcome(&ApiError::Held("slow".into())) else { panic!("it is a wait") };
    assert_eq!(scope, WaitScope::Chat);
    let broken = ApiError::Refused(Refused { code: "internal_error".into(), ..Refused::default() });
    assert!(matches!(not_yet::<()>(Err(broken)), Err(ApiError::Held(_))), "no file is shown yet");
}

#[test]
fn an_app_that_may_upload_nothing_can_still_speak() {
    let refused = |code: &str| Refused { code: code.into(), ..Refused::default() };
    for code in ["missing_scope", "file_uploads_disabled", "restricted_action", "a_word_of_the_future"] {
        assert!(is_about_the_files(&refused(code)), "{code}");
    }
    for code in ["token_revoked", "channel_not_found", "thread_not_found", "msg_too_long", "ratelimited", "fatal_error"]
    {
        assert!(!is_about_the_files(&refused(code)), "{code}");
    }
}

#[tokio::test]
async fn a_file_that_cannot_be_read_is_refused_and_holds_nobody() {
    let missing = OutMedia::new("m1", "/nowhere/at/all.txt", "text/plain", "all.txt", 3);
    let error = open(&missing).await.expect_err("there is none");
    let SendOutcome::Refused { kind, .. } = outcome(&error) else { panic!("{error} is a refusal") };
    assert_eq!(kind, RefusalKind::Invalid);
}

#[tokio::test]
async fn a_message_whose_time_is_up_ends_before_the_host_stops_waiting_for_it() {
    const HOST_WAITS: Duration = Duration::from_secs(60);
    assert!(SEND_TIMEOUT < HOST_WAITS && SHOW_TIMEOUT < SEND_TIMEOUT);
    // A server that neither answers nor refuses.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let api = Api::new(&format!("http://{}", silent.local_addr().unwrap()), None, None, &Default::default()).unwrap();
    let me = serde_json::from_value(json!({ "team_id": "T1", "user_id": "UME" })).unwrap();
    let space = Space { token: "xoxb-1".to_owned(), me };
    let up = Instant::now();
    let sent = send(&api, &space, "C1", &outgoing("hello"), 0, up).await;
    assert!(matches!(sent, SendOutcome::Unknown { .. }), "it may have arrived: {sent:?}");
    let mut message = outgoing("look");
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
    message.media = vec![OutMedia::new("m1", path, "text/plain", "a.txt", 3)];
    let sent = send(&api, &space, "C1", &message, 0, up).await;
    let SendOutcome::NotSent { scope, .. } = sent else { panic!("nothing is shown yet: {sent:?}") };
    assert_eq!(scope, WaitScope::Chat);
}

#[test]
fn an_address_in_a_section_is_a_link_though_the_section_is_verbatim() {
    let mut long = outgoing(&format!("see https://a.b/c?d=1&amp;e. {}", "word ".repeat(1000)));
    long.source = long.text.clone();
    let (_, blocks) = said(&long);
    let first = blocks.unwrap()[0]["text"].clone();
    assert_eq!(first["verbatim"], true);
    assert!(first["text"].as_str().unwrap().starts_with("see <https://a.b/c?d=1&amp;e>. word"), "{first}");
}

#[test]
fn a_long_text_goes_in_sections_wherever_it_goes() {
    let short = outgoing("*short*");
    assert_eq!(said(&short), ("*short*".to_owned(), None));
    let mut long = outgoing(&"word ".repeat(2000));
    long.source = long.text.clone();
    let (beginning, blocks) = said(&long);
    assert!(beginning.len() <= TEXT_BYTES_MAX);
    let blocks = blocks.expect("it is too long for a text");
    assert_eq!(blocks.as_array().unwrap().len(), 4);
    assert_eq!(response(&long)["blocks"], blocks);
    assert!(response(&short).get("blocks").is_none());
}

#[test]
fn nothing_of_an_answer_is_fetched_or_looked_through_by_slack() {
    let response = response(&outgoing("<https://a.b/?secret=1>"));
    assert_eq!((&response["unfurl_links"], &response["unfurl_media"]), (&json!(false), &json!(false)));
}

#[test]
fn every_section_fits_and_none_ends_within_a_link_or_an_escaped_character() {
    let link = "<https://example.org/a?b=1&amp;c=2|the long label of a link> and some words &lt;here&gt; 🦀 ";
    for text in
        [link.repeat(200), link.repeat(200).replace(' ', ""), "&amp;".repeat(4000), "x".repeat(9001), "🦀".repeat(4000)]
    {
        let found = sections(&text);
        assert!(found.len() > 1);
        for piece in &found {
            assert!(piece.encode_utf16().count() <= SECTION_UTF16_MAX, "{}", piece.len());
            assert_eq!(piece.matches('<').count(), piece.matches('>').count(), "{piece}");
            let ends = piece.matches(';').count();
            assert_eq!(piece.matches('&').count(), ends, "{piece}");
        }
        assert_eq!(found.concat(), text);
    }
}

#[test]
fn code_that_is_cut_is_code_in_both_sections() {
    let code: String = (0..200).map(|n| format!("line {n} of the code\n")).collect();
    let found = sections(&format!("before\n```\n{code}```\nafter *it*"));
    assert!(found.len() > 1);
    for piece in &found {
        assert!(piece.encode_utf16().count() <= SECTION_UTF16_MAX);
        assert_eq!(piece.matches("```").count() % 2, 0, "{piece}");
    }
    assert!(found[1].starts_with("```\nline ") && found.last().unwrap().ends_with("```\nafter *it*"));
    for n in 0..200 {
        assert_eq!(found.iter().filter(|piece| piece.contains(&format!("line {n} of"))).count(), 1);
    }
}

#[test]
fn short_texts_are_one_section_and_none_is_empty() {
    assert_eq!(sections("a\n\nb"), ["a\n\nb"]);
    assert_eq!(sections(""), Vec::<String>::new());
    let (x, b) = ("x".repeat(2980), "b".repeat(30));
    assert_eq!(sections(&format!("{x}\n\n\n{b}")), [x, b]);
}

#[test]
fn a_question_has_its_text_in_sections_and_its_buttons_in_rows() {
    let mut options: Vec<ChoiceOption> = (0..30).map(|n| ChoiceOption::new(format!("o{n}"), "x".repeat(90))).collect();
    options[0].style = "danger".into();
    options[1].style = "bold".into();
    let choices = Choices::new("ask1", options, 0);
    let found = blocks(&outgoing("*May I?*"), Some(&choices));
    assert_eq!(
        found[0],
        json!({ "type": "section", "text": { "type": "mrkdwn", "text": "*May I?*", "verbatim": true } })
    );
    assert_eq!(
        (found[1]["elements"].as_array().unwrap().len(), found[2]["elements"].as_array().unwrap().len()),
        (25, 5)
    );
    let button = &found[1]["elements"][0];
    assert_eq!((&button["value"], &button["style"]), (&json!("ask1:o0"), &json!("danger")));
    assert_eq!(button["text"]["text"].as_str().unwrap().len(), LABEL_CHARS_MAX);
    assert!(found[1]["elements"][1].get("style").is_none(), "Slack knows no other styles");
    assert_ne!(found[1]["block_id"], found[2]["block_id"]);
}

#[test]
fn plain_text_is_shown_as_it_is() {
    let plain = Outgoing::text(Chat::dm("T1/D1"), "<!channel> & *stars*");
    assert_eq!(text(&plain), "&lt;!channel&gt; &amp; *stars*");
    assert_eq!(blocks(&plain, None)[0]["text"], json!({ "type": "plain_text", "text": "<!channel> & *stars*" }));
    assert_eq!(text(&outgoing("<https://a.b|c>")), "<https://a.b|c>");
}

#[test]
fn a_text_that_is_cut_to_bytes_ends_at_a_character() {
    assert_eq!(bounded("abc", 3), "abc");
    assert_eq!(bounded("ab&amp;", 5), "ab");
    assert_eq!(bounded("ab&amp;c", 7), "ab&amp;");
    assert_eq!(bounded("a🦀", 4), "a");
}

#[test]
fn files_are_known_by_their_message_where_slack_names_it() {
    let file = json!({ "shares": { "private": { "D1": [{ "ts": "1.2" }] } } });
    assert_eq!(share(&file, "D1").as_deref(), Some("1.2"));
    assert_eq!(share(&file, "D2"), None);
    assert_eq!(share(&json!({ "id": "F1" }), "D1"), None);
}
