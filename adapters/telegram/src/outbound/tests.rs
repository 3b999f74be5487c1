use std::time::Duration;

use serde_json::json;

use super::*;

#[test]
fn a_reply_is_anchored_by_the_mode() {
    let options = |reply_mode| SendOptions { reply_mode, link_previews: true };
    let mut message = Outgoing::text(Chat::dm("7"), "x");
    message.reply_to = Some("5".into());
    let anchored = |mode, part| {
        let mut message = message.clone();
        message.part = part;
        reply_parameters(options(mode), &message).is_some()
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
    let until = deadline(&message);
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
    let options = SendOptions { reply_mode: ReplyMode::First, link_previews: false };
    let message = Outgoing::text(Chat::new(ChatType::Dm, "7"), "hello");
    for _ in 0..2 {
        assert!(matches!(send(&api, options, &message, 0).await, SendOutcome::NotSent { .. }));
    }
    assert!(matches!(send(&api, options, &message, 0).await, SendOutcome::Unknown { .. }));
}
