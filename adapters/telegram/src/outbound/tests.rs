use serde_json::json;

use super::*;

fn refused(code: u16, description: &str) -> SendOutcome {
    outcome(&ApiError::Refused(Refused {
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
    let error = ApiError::Refused(Refused {
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
    let error = ApiError::Refused(Refused {
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
    assert!(matches!(outcome(&ApiError::Doubtful("cut".into())), SendOutcome::Unknown { .. }));
    assert!(matches!(
        outcome(&ApiError::NotSent("refused".into())),
        SendOutcome::NotSent { scope: WaitScope::Instance, .. }
    ));
}

#[test]
fn a_target_that_is_none_of_ours_is_refused_and_not_sent_elsewhere() {
    assert!(place(&Chat::dm("general")).is_err());
    assert!(place(&Chat::dm("7").in_thread("plans")).is_err());
    let parameters = place(&Chat::dm("7").in_thread("17")).unwrap();
    assert_eq!((parameters["chat_id"].as_i64(), parameters["message_thread_id"].as_i64()), (Some(7), Some(17)));
}

#[test]
fn only_opus_in_ogg_is_a_voice_message_and_what_is_meant_as_one_is_audio_otherwise() {
    let file = |mime: &str| OutMedia::new("a", "/x", mime, "x", 9);
    let spoken = |mime: &str| file(mime).shown_as(AttachmentKind::Voice);
    assert_eq!(method_for(&spoken("audio/ogg"), true).0, "sendVoice");
    assert_eq!(method_for(&file("audio/ogg"), true).0, "sendVoice", "its type says it");
    assert_eq!(method_for(&spoken("audio/ogg"), false).0, "sendAudio");
    assert_eq!(method_for(&file("audio/ogg"), false).0, "sendDocument");
    assert_eq!(method_for(&spoken("audio/mpeg"), false).0, "sendAudio");
    assert_eq!(method_for(&spoken("audio/wav"), false).0, "sendDocument");
}

#[test]
fn photos_and_films_mix_in_an_album_recordings_stay_together_and_anything_else_is_documents() {
    let album = |mimes: &[&str]| {
        let files: Vec<_> = mimes.iter().map(|mime| OutMedia::new("a", "/x", *mime, "x", 9)).collect();
        kind_of_album(&files)
    };
    assert_eq!(album(&["image/png", "video/mp4"]), None);
    assert_eq!(album(&["audio/mpeg", "audio/mp4"]), Some("audio"));
    assert_eq!(album(&["image/png", "audio/mpeg"]), Some("document"));
    assert_eq!(album(&["image/png", "text/plain"]), Some("document"));
}

#[test]
fn a_reply_is_anchored_by_the_mode() {
    let manner = |reply_mode| Manner { reply_mode, link_previews: true };
    let mut message = Outgoing::text(Chat::dm("7"), "x");
    message.reply_to = Some("5".into());
    let anchored = |mode, part| {
        let mut message = message.clone();
        message.part = part;
        anchor(manner(mode), &message).is_some()
    };
    assert_eq!([anchored(ReplyMode::First, 1), anchored(ReplyMode::First, 2)], [true, false]);
    assert_eq!([anchored(ReplyMode::All, 1), anchored(ReplyMode::All, 2)], [true, true]);
    assert_eq!([anchored(ReplyMode::Off, 1), anchored(ReplyMode::Off, 2)], [false, false]);
}

#[test]
fn a_draft_is_for_a_private_chat_and_holds_what_a_message_holds() {
    let parameters = draft(&Chat::dm("7").in_thread("17"), &"🦀".repeat(3000)).unwrap();
    assert_eq!((&parameters["chat_id"], &parameters["message_thread_id"]), (&json!(7), &json!(17)));
    assert_eq!(parameters["text"].as_str().map(utf16_len), Some(TEXT_LIMIT_UTF16));
    assert_eq!(draft(&Chat::dm("7"), "as it is").unwrap()["text"], "as it is");
    assert!(draft(&Chat::new(ChatType::Group, "-100"), "x").is_err());
    assert!(draft(&Chat::dm("seven"), "x").is_err());
}

#[test]
fn a_message_has_the_time_that_its_host_waits_less_a_little() {
    let mut message = Outgoing::text(Chat::new(ChatType::Dm, "7"), "a film");
    message.media = vec![OutMedia::new("m1", "/nowhere", "video/mp4", "film.mp4", 20 << 20)];
    message.within_ms = Some(715_000);
    // A slow connection needs more than the adapter's own 320 s, and the host must receive the result.
    let within = Duration::from_secs(710);
    let before = Instant::now();
    let until = ends_at(&message);
    assert!((before + within..=Instant::now() + within).contains(&until));
}

#[tokio::test]
async fn what_nobody_took_on_is_tried_until_its_time_is_over_and_what_may_have_been_done_is_not() {
    use std::io::{Read as _, Write as _};

    let server = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let base = format!("http://{}", server.local_addr().expect("an address"));
    std::thread::spawn(move || {
        let json = "{\"ok\":false,\"error_code\":503,\"description\":\"later\"}";
        for (status, body) in [(503, "<html>"), (503, json), (502, "<html>")] {
            let Ok((mut asked, _)) = server.accept() else { return };
            let _ = asked.read(&mut [0; 4096]);
            let length = body.len();
            let head = format!("HTTP/1.1 {status} x\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n");
            let _ = asked.write_all([head.as_bytes(), body.as_bytes()].concat().as_slice());
        }
    });
    let api = Api::new("1:A", &base, None, None, &Default::default()).expect("a server");
    let manner = Manner { reply_mode: ReplyMode::First, link_previews: false };
    let message = Outgoing::text(Chat::new(ChatType::Dm, "7"), "hello");
    for _ in 0..2 {
        assert!(matches!(send(&api, manner, &message, 0).await, SendOutcome::NotSent { .. }));
    }
    assert!(matches!(send(&api, manner, &message, 0).await, SendOutcome::Unknown { .. }));
}
