use super::*;

const OPTIONS: SendOptions = SendOptions { reply_mode: ReplyMode::First, link_previews: true };

#[tokio::test]
async fn a_file_that_cannot_be_sent_is_refused_and_holds_nobody() {
    for (path, mime) in [("/nowhere/at/all", "a/b"), (concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"), "no type")] {
        let file = OutMedia::new("1", path, mime, "x", 1);
        let error = multipart(json!({}), &[file]).await.expect_err("it cannot be sent");
        let outcome = crate::errors::outcome(&error, &Chat::dm("1"));
        assert!(matches!(outcome, SendOutcome::Refused { kind: RefusalKind::Invalid, .. }), "{outcome:?}");
    }
}

#[test]
fn a_message_carries_its_key_and_calls_nobody_but_people() {
    let mut outgoing = Outgoing::text(Chat::dm("7"), "hi @everyone <@1>");
    outgoing.key = "d1-1".into();
    let body = message_body(&outgoing, OPTIONS, "7");
    assert_eq!((body["nonce"].as_str(), body["enforce_nonce"].as_bool()), (Some("d1-1"), Some(true)));
    assert_eq!(body["allowed_mentions"]["parse"], json!(["users"]));
    assert_eq!(body["flags"], 0);
    outgoing.silent = true;
    let quiet = SendOptions { link_previews: false, ..OPTIONS };
    assert_eq!(message_body(&outgoing, quiet, "7")["flags"], 4 | 4096);
    assert_eq!(edit_body(&outgoing)["allowed_mentions"]["parse"], json!([]), "an edit notifies nobody again");
}

#[test]
fn a_reply_is_anchored_by_the_mode_and_never_to_the_message_that_opened_the_thread() {
    let mut outgoing = Outgoing::text(Chat::dm("7"), "x");
    outgoing.reply_to = Some("5".into());
    let mut anchored = |reply_mode, part, channel: &str| {
        outgoing.part = part;
        !message_body(&outgoing, SendOptions { reply_mode, ..OPTIONS }, channel)["message_reference"].is_null()
    };
    assert_eq!([anchored(ReplyMode::First, 1, "7"), anchored(ReplyMode::First, 2, "7")], [true, false]);
    assert_eq!([anchored(ReplyMode::All, 1, "7"), anchored(ReplyMode::All, 2, "7")], [true, true]);
    assert_eq!([anchored(ReplyMode::Off, 1, "7"), anchored(ReplyMode::First, 1, "5")], [false, false]);
}

#[test]
fn an_answer_to_an_interaction_is_for_who_asked_where_it_is_private() {
    let outgoing = Outgoing::text(Chat::dm("7"), "x");
    assert_eq!(interaction_body(&outgoing, OPTIONS, true)["flags"], 64);
    assert_eq!(interaction_body(&outgoing, OPTIONS, false)["flags"], 0);
}
