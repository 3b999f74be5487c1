use serde_json::{Value, json};

use super::*;
use crate::chats;

const FILTER: MessageFilter<'_> = MessageFilter { bot: "42", own_role: Some("5"), ignore_other_mentions: true };

fn channel() -> ChannelInfo {
    ChannelInfo { kind: kind::TEXT, guild: Some("1".into()), parent: Some("9".into()), name: Some("general".into()) }
}

fn message(more: Value) -> Message {
    let mut message = json!({
        "id": "175928847299117063", "channel_id": "10", "guild_id": "1", "type": 0, "content": "hello",
        "author": { "id": "7", "username": "ada", "global_name": "Ada" }, "unheard_of": { "of": ["the", "future"] },
    });
    message.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    serde_json::from_value(message).unwrap()
}

fn read(more: Value) -> Option<Event> {
    from_message(&message(more), chats::chat("10", &channel(), None), FILTER)
}

fn me() -> Value {
    json!([{ "id": "42", "username": "hermes", "bot": true }])
}

#[test]
fn a_message_names_its_chat_sender_roles_and_change() {
    let event = read(json!({ "member": { "nick": "Countess", "roles": ["3", "4", "*", "admin"] } })).unwrap();
    assert_eq!(event.event_id, "m:10:175928847299117063");
    assert_eq!((event.chat.kind.clone(), event.chat.name.as_deref()), (ChatType::Group, Some("#general")));
    assert_eq!((event.sender.id.as_str(), event.sender.name.as_deref()), ("7", Some("Countess")));
    assert_eq!(event.sender.roles, ["3", "4"], "what is no id grants nothing");
    assert_eq!((event.text.as_str(), event.at_ms), ("hello", 1_462_015_105_796));
    assert_eq!(event.addressed, Addressed::default());
}

#[test]
fn a_mention_is_listed_and_written_and_is_removed_from_the_text() {
    for content in ["<@42> what now", "what <@!42>now", "<@&5> what now"] {
        let lists = if content.contains('&') { json!({ "mention_roles": ["5"] }) } else { json!({ "mentions": me() }) };
        let mut more = lists;
        more["content"] = json!(content);
        let event = read(more).unwrap();
        assert!(event.addressed.mention, "{content}");
        assert_eq!(event.text, "what now");
    }
}

#[test]
fn what_only_looks_like_a_mention_is_none_and_neither_is_the_ping_of_a_reply() {
    assert!(!read(json!({ "content": "<@42> in code" })).unwrap().addressed.mention, "it is not listed");
    assert!(!read(json!({ "content": "<@&6>", "mention_roles": ["6"] })).unwrap().addressed.mention);
    assert!(!read(json!({ "content": "@hermes hello" })).unwrap().addressed.mention);
    let reply = read(json!({ "type": 19, "content": "and you?", "mentions": me(),
        "author": { "id": "8", "username": "other", "bot": true },
        "referenced_message": { "id": "2", "channel_id": "10", "content": "me", "author": { "id": "42", "username": "h" } } }))
    .unwrap()
    ;
    assert_eq!(reply.addressed, Addressed::new(false, true, false));
    assert!(reply.sender.is_bot && reply.reply_to.is_some_and(|reply| reply.is_self && reply.text == "me"));
}

#[test]
fn our_own_echo_and_the_platforms_own_messages_are_dropped() {
    assert!(read(json!({ "author": { "id": "42", "username": "h" } })).is_none());
    for kind in [6, 7, 18, 21] {
        assert!(read(json!({ "type": kind })).is_none(), "{kind}");
    }
    assert!(read(json!({ "content": "" })).is_none());
    assert!(read(json!({ "id": "" })).is_none() && read(json!({ "channel_id": "../x" })).is_none());
    let bare: Message = serde_json::from_value(json!({ "id": "1", "channel_id": "2" })).unwrap();
    assert!(from_message(&bare, Chat::dm("2"), FILTER).is_none(), "a message without an author");
}

#[test]
fn a_message_that_calls_somebody_else_is_left_alone_unless_it_means_us_too() {
    let other = json!({ "id": "8", "username": "bob" });
    assert!(read(json!({ "content": "<@8> look", "mentions": [other] })).is_none());
    let both = json!([other, { "id": "42", "username": "h" }]);
    assert!(read(json!({ "content": "<@8> and <@42>", "mentions": both })).is_some());
    let in_dm = json!({ "content": "<@8> look", "mentions": [other], "guild_id": null });
    assert!(read(in_dm).is_some(), "in direct messages there is nobody else");
    let listens = MessageFilter { ignore_other_mentions: false, ..FILTER };
    let listed = message(json!({ "content": "<@8> look", "mentions": [other] }));
    assert!(from_message(&listed, Chat::dm("10"), listens).is_some());
}

#[test]
fn an_edit_has_its_revision_and_a_link_that_was_looked_at_is_none() {
    let chat = || chats::chat("10", &channel(), None);
    assert!(from_edit(&message(json!({})), chat(), FILTER).is_none());
    let edit = from_edit(&message(json!({ "edited_timestamp": "2026-01-01T00:00:00+00:00" })), chat(), FILTER).unwrap();
    assert_eq!(edit.kind, EventKind::Edited);
    assert_eq!(edit.event_id, "e:10:175928847299117063:2026-01-01T00:00:00+00:00");
}

#[test]
fn a_message_that_opened_a_thread_is_changed_in_that_thread() {
    let chat = || chats::chat("10", &channel(), None);
    let revision = json!({ "edited_timestamp": "2026-01-01T00:00:00+00:00" });
    let edit = from_edit(&message(revision), chat(), FILTER).unwrap();
    let thread = ChannelInfo { kind: kind::PUBLIC_THREAD, ..channel() };
    assert!(is_edit_in_thread(&edit, Some(&thread), false) && is_edit_in_thread(&edit, None, true));
    assert!(!is_edit_in_thread(&edit, None, false) && !is_edit_in_thread(&edit, Some(&channel()), false));
    let new = read(json!({})).unwrap();
    assert!(!is_edit_in_thread(&new, Some(&thread), true));
}

#[test]
fn files_stickers_and_what_was_forwarded_come_along() {
    let file = |name: &str, mime: Value| json!({ "id": "1", "filename": name, "content_type": mime, "size": 3, "url": "https://cdn/x" });
    let incoming = read(json!({ "content": "",
        "attachments": [file("a.png", json!("image/png")), file("", json!(null))],
        "sticker_items": [{ "id": "1", "name": "Wave", "format_type": 1 }],
        "message_snapshots": [{ "message": { "content": "old words", "attachments": [file("b.ogg", json!("audio/ogg; codecs=opus"))] } }],
    }))
    .unwrap();
    assert_eq!(incoming.text, "[sticker: Wave]\nold words");
    assert!(incoming.forwarded.is_some());
    let kinds: Vec<_> =
        incoming.attachments.iter().map(|file| (file.kind.clone(), file.mime.as_str(), file.name.as_str())).collect();
    assert_eq!(
        kinds,
        [
            (AttachmentKind::Image, "image/png", "a.png"),
            (AttachmentKind::File, "application/octet-stream", "file"),
            (AttachmentKind::Audio, "audio/ogg", "b.ogg"),
        ]
    );
    let spoken = read(json!({ "flags": 8192, "attachments": [file("v.ogg", json!("audio/ogg"))] })).unwrap();
    assert_eq!(spoken.attachments[0].kind, AttachmentKind::Voice);
}

#[test]
fn what_hangs_on_a_message_and_cannot_be_read_takes_no_message_with_it() {
    let good = json!({ "id": "5", "filename": "a.txt", "url": "https://a.b/a.txt", "size": 3 });
    let odd = json!({
        "attachments": [{ "id": "4" }, good, "x"], "sticker_items": null, "message_snapshots": [{}, 7],
        "mentions": [{}, me()[0]], "mention_roles": [7], "member": { "roles": "all" },
        "referenced_message": { "id": 7 }, "content": "look <@42>",
    });
    let incoming = read(odd).unwrap();
    assert_eq!((incoming.text.as_str(), incoming.addressed.mention), ("look", true));
    assert_eq!(incoming.attachments.len(), 1);
    assert!(incoming.reply_to.is_none() && incoming.sender.roles.is_empty());
}

#[test]
fn a_person_who_calls_the_bot_in_a_channel_opens_a_thread_and_nobody_else_does() {
    let called = |more: Value, channel: &ChannelInfo| {
        let mut more = more;
        more["mentions"] = me();
        let message = message(more);
        let event = from_message(&message, chats::chat("10", channel, None), FILTER).unwrap();
        starts_thread(&event, &message, channel)
    };
    let of_kind = |kind| ChannelInfo { kind, ..channel() };
    assert!(called(json!({ "content": "<@42> hi" }), &channel()));
    assert!(called(json!({ "content": "<@42> hi" }), &of_kind(kind::ANNOUNCEMENT)));
    assert!(!called(json!({ "content": "hi" }), &channel()), "nobody was called");
    assert!(!called(json!({ "content": "<@42> hi" }), &of_kind(kind::PUBLIC_THREAD)), "it is one already");
    assert!(!called(json!({ "content": "<@42> hi" }), &of_kind(2)), "voice channels have none");
    assert!(!called(json!({ "content": "<@42> /new" }), &channel()), "a command is about the channel");
    assert!(!called(json!({ "content": "<@42> hi", "author": { "id": "8", "bot": true } }), &channel()));
}

#[test]
fn a_thread_is_named_by_the_first_line_within_the_platforms_limit() {
    assert_eq!(thread_name("\n  plan the trip\nwith details"), "plan the trip");
    assert_eq!(thread_name(""), "Conversation");
    let long = thread_name(&"é".repeat(150));
    assert_eq!((long.chars().count(), long.ends_with('…')), (THREAD_NAME_CHARS_MAX, true));
}

fn interaction(more: Value) -> Interaction {
    let mut interaction = json!({
        "id": "175928847299117063", "token": "T", "guild_id": "1", "channel_id": "10",
        "channel": { "id": "10", "type": 0, "name": "general" },
        "member": { "user": { "id": "7", "username": "ada" }, "roles": ["3"] },
    });
    interaction.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    serde_json::from_value(interaction).unwrap()
}

#[test]
fn a_command_is_what_would_have_been_typed_from_the_same_chat_and_sender() {
    let chat = chats::chat("10", &channel(), None);
    let command = interaction(
        json!({ "type": 2, "data": { "name": "title", "options": [{ "name": "input", "value": "boats and sails" }] } }),
    );
    let event = from_interaction(&command, chat.clone()).unwrap();
    assert_eq!((event.text.as_str(), event.event_id.as_str()), ("/title boats and sails", "i:175928847299117063"));
    assert_eq!(event.addressed, Addressed::new(false, false, true));
    let told = read(json!({ "member": { "roles": ["3"] } })).unwrap();
    assert_eq!((&event.chat, &event.sender.id, &event.sender.roles), (&told.chat, &told.sender.id, &told.sender.roles));
    let bare = interaction(json!({ "type": 2, "data": { "name": "help" } }));
    assert_eq!(from_interaction(&bare, chat).unwrap().text, "/help");
}

#[test]
fn what_cannot_be_part_of_an_address_is_no_interaction() {
    assert!(is_addressable(&interaction(json!({ "type": 2, "token": "aW50ZXJhY3Rpb24-x_9" }))));
    for (key, value) in [("token", ""), ("token", "a/../b"), ("token", "a?b"), ("id", "1/x")] {
        assert!(!is_addressable(&interaction(json!({ "type": 2, key: value }))), "{key} {value:?}");
    }
    assert!(is_ours(&interaction(json!({ "type": 2 }))));
    for channel in [json!(null), json!({ "id": "../users/@me", "type": 0 })] {
        assert!(!is_ours(&interaction(json!({ "type": 2, "channel_id": null, "channel": channel }))), "{channel}");
    }
}

#[test]
fn a_press_names_its_question_and_a_strangers_button_is_none() {
    let press = |custom_id: &str| {
        let data =
            json!({ "type": 3, "data": { "custom_id": custom_id, "component_type": 2 }, "message": { "id": "99" } });
        from_interaction(&interaction(data), Chat::new(ChatType::Group, "10"))
    };
    let event = press("ask:a1:yes").unwrap();
    assert_eq!((event.kind.clone(), event.choice), (EventKind::Choice, Some(ChoiceMade::new("a1", "yes"))));
    assert_eq!((event.message_id.as_deref(), event.event_id.as_str()), (Some("99"), "c:175928847299117063"));
    assert!(press("vote:1").is_none() && press("ask:").is_none());
    assert!(from_interaction(&interaction(json!({ "type": 4 })), Chat::dm("1")).is_none(), "an autocompletion");
}

#[test]
fn cards_and_polls_become_lines() {
    let card = json!({ "type": "rich", "title": "Build 512 failed", "url": "https://ci/512", "description": "step `test`",
        "fields": [{ "name": "branch", "value": "main" }], "author": { "name": "CI" }, "footer": { "text": "now" } });
    let lines = "CI\nBuild 512 failed (https://ci/512)\nstep `test`\nbranch: main\nnow";
    let poll = json!({ "question": { "text": "Where to?" }, "answers": [{ "answer_id": 1, "poll_media": { "text": "Oslo" } }] });
    let bot = json!({ "id": "66", "username": "ci", "bot": true });
    assert_eq!(read(json!({ "content": "", "author": bot, "embeds": [card] })).unwrap().text, lines);
    assert_eq!(read(json!({ "content": "", "poll": poll })).unwrap().text, "[poll: Where to?\n- Oslo]");
    // Below a person's text an embed is the preview of a link.
    assert_eq!(read(json!({ "content": "see https://ci/512", "embeds": [card] })).unwrap().text, "see https://ci/512");
    let snapshot = json!([{ "message": { "content": "", "embeds": [card] } }]);
    assert_eq!(read(json!({ "content": "", "message_snapshots": snapshot })).unwrap().text, lines);
    let file = json!({ "id": "5", "filename": "contract.pdf", "size": 10, "url": "https://cdn/x" });
    let answered =
        json!({ "id": "9", "channel_id": "10", "author": bot, "content": "", "embeds": [card], "attachments": [file] });
    let reply =
        read(json!({ "content": "why?", "type": 19, "referenced_message": answered })).unwrap().reply_to.unwrap();
    assert_eq!((reply.text.as_str(), reply.attachments[0].name.as_str()), (lines, "contract.pdf"));
    let answered =
        json!({ "id": "9", "channel_id": "10", "author": bot, "content": "", "message_snapshots": snapshot });
    let reply =
        read(json!({ "content": "why?", "type": 19, "referenced_message": answered })).unwrap().reply_to.unwrap();
    assert_eq!(reply.text, lines);
    // One invalid field affects neither the embed nor the message.
    let odd = json!([{ "type": "rich", "title": "t", "fields": [7, { "name": "a", "value": "b" }] }, 7]);
    assert_eq!(read(json!({ "content": "", "author": bot, "embeds": odd })).unwrap().text, "t\na: b");
}
