use serde_json::{Value, json};

use super::*;

fn me() -> User {
    serde_json::from_value(json!({ "id": 42, "is_bot": true, "first_name": "Hermes", "username": "hermes_bot" }))
        .unwrap()
}

fn read(update: Value) -> Option<Incoming> {
    from_update(&serde_json::from_value(update).unwrap(), &me())
}

fn in_group(text: &str, entities: Value) -> Value {
    json!({ "update_id": 1, "message": {
        "message_id": 9, "date": 100, "text": text, "entities": entities,
        "chat": { "id": -100, "type": "supergroup", "title": "Ops" },
        "from": { "id": 7, "is_bot": false, "first_name": "Ada", "last_name": "L" },
    } })
}

#[test]
fn a_private_message_names_its_chat_sender_and_change() {
    let event = read(json!({ "update_id": 1, "message": {
        "message_id": 5, "date": 1700000000, "text": "hello", "chat": { "id": 7, "type": "private", "first_name": "Ada" },
        "from": { "id": 7, "first_name": "Ada" }, "unheard_of": { "of": ["the", "future"] },
    } }))
    .unwrap()
    .event;
    assert_eq!(event.event_id, "m:7:5");
    assert_eq!(event.chat, Chat::dm("7"));
    assert_eq!(event.sender.id, "7");
    assert_eq!((event.text.as_str(), event.at_ms), ("hello", 1_700_000_000_000));
    assert_eq!(event.message_id.as_deref(), Some("5"));
}

#[test]
fn a_topic_that_was_opened_for_a_handoff_is_the_one_its_messages_come_from() {
    for chat in [
        json!({ "id": -100, "type": "supergroup", "title": "Ops", "is_forum": true }),
        json!({ "id": 7, "type": "private" }),
    ] {
        let home = read(json!({ "update_id": 1, "message": {
            "message_id": 1, "date": 1, "text": "/sethome", "chat": chat, "from": { "id": 7, "first_name": "Ada" },
        } }));
        let topic: crate::objects::Topic =
            serde_json::from_value(json!({ "message_thread_id": 17, "name": "boats", "icon_color": 1 })).unwrap();
        let opened = crate::chats::opened_topic(home.unwrap().event.chat, &topic, "boats");
        let next = read(json!({ "update_id": 2, "message": {
            "message_id": 18, "date": 2, "text": "and now?", "chat": chat, "from": { "id": 8, "first_name": "Bob" },
            "message_thread_id": 17, "is_topic_message": true,
            "reply_to_message": { "message_id": 17, "date": 1, "chat": chat, "forum_topic_created": { "name": "boats" } },
        } }));
        assert_eq!(next.unwrap().event.chat, opened);
    }
}

#[test]
fn a_mention_is_an_entity_and_is_removed_from_the_text() {
    let event = read(in_group("🦀 @Hermes_Bot what now", json!([{ "type": "mention", "offset": 3, "length": 11 }])))
        .unwrap()
        .event;
    assert!(event.addressed.mention);
    assert_eq!(event.text, "🦀  what now");
}

#[test]
fn text_that_looks_like_a_mention_is_none() {
    let event = read(in_group(
        "mail me@hermes_bot or @hermes_bots",
        json!([{ "type": "mention", "offset": 22, "length": 12 }]),
    ))
    .unwrap()
    .event;
    assert!(!event.addressed.mention);
    assert_eq!(event.text, "mail me@hermes_bot or @hermes_bots");
}

#[test]
fn a_text_mention_counts_by_the_users_id() {
    let entity = |id: i64| json!([{ "type": "text_mention", "offset": 0, "length": 6, "user": { "id": id, "first_name": "x" } }]);
    assert!(read(in_group("Hermes hi", entity(42))).unwrap().event.addressed.mention);
    assert!(!read(in_group("Hermes hi", entity(43))).unwrap().event.addressed.mention);
}

#[test]
fn a_command_to_another_bot_is_nothing_for_us() {
    let command = |length: usize| json!([{ "type": "bot_command", "offset": 0, "length": length }]);
    assert!(read(in_group("/help@other_bot", command(15))).is_none());
    let ours = read(in_group("/help@Hermes_bot me", command(16))).unwrap().event;
    assert!(ours.addressed.command && ours.addressed.mention);
    assert_eq!(ours.text, "/help me");
    let bare = read(in_group("/help", command(5))).unwrap().event;
    assert!(bare.addressed.command && !bare.addressed.mention);
}

#[test]
fn entities_that_point_nowhere_are_ignored() {
    for (offset, length) in [(0, 500), (90, 1), (usize::MAX, 2), (1, 1)] {
        // Offset 1 is inside the surrogate pair.
        let event =
            read(in_group("🦀x", json!([{ "type": "mention", "offset": offset, "length": length }]))).unwrap().event;
        assert_eq!(event.text, "🦀x");
    }
}

#[test]
fn entities_that_overlap_or_repeat_are_removed_once() {
    let mention = |offset: usize| json!({ "type": "mention", "offset": offset, "length": 11 });
    let person = |offset: usize, length: usize| json!({ "type": "text_mention", "offset": offset, "length": length, "user": { "id": 42, "first_name": "x" } });
    let cases = [
        ("@hermes_bot", json!([mention(0), mention(0)]), ""),
        ("ä@hermes_bot/x y", json!([mention(1), person(0, 13), person(3, 9)]), "x y"),
        ("/do@hermes_bot it", json!([{ "type": "bot_command", "offset": 0, "length": 14 }, mention(3)]), "/do it"),
    ];
    for (text, entities, left) in cases {
        let event = read(in_group(text, entities)).unwrap().event;
        assert_eq!((event.text.as_str(), event.addressed.mention), (left, true), "{text:?}");
    }
}

#[test]
fn a_message_of_nothing_but_entities_costs_no_more_than_a_hundred_of_them() {
    let entity = json!({ "type": "mention", "offset": 399_990, "length": 2 });
    let update = in_group(&"e".repeat(400_000), json!(vec![entity; 100_000]));
    // A quadratic algorithm would take minutes.
    assert_eq!(read(update).unwrap().event.text.len(), 400_000);
}

#[test]
fn our_own_echo_and_service_messages_are_dropped() {
    let message = |more: Value| {
        let mut message = json!({ "message_id": 1, "date": 1, "chat": { "id": 7, "type": "private" }, "from": { "id": 7, "first_name": "A" } });
        message.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({ "update_id": 1, "message": message })
    };
    assert!(read(message(json!({ "text": "me", "from": { "id": 42, "first_name": "Hermes" } }))).is_none());
    assert!(read(message(json!({ "new_chat_title": "x" }))).is_none());
    assert!(read(json!({ "update_id": 3, "poll": {} })).is_none());
}

#[test]
fn a_topic_is_a_thread_only_when_the_message_says_so_and_general_is_none() {
    let message = |thread: i64, is_topic: bool| {
        read(json!({ "update_id": 1, "message": {
            "message_id": 1, "date": 1, "text": "x", "message_thread_id": thread, "is_topic_message": is_topic,
            "chat": { "id": -100, "type": "supergroup" }, "from": { "id": 7, "first_name": "A" },
        } }))
        .unwrap()
        .event
        .chat
    };
    assert_eq!(message(17, true).thread.as_deref(), Some("17"));
    assert_eq!(message(17, false).thread, None);
    assert_eq!(message(1, true).thread, None);
}

#[test]
fn the_message_that_opened_a_topic_is_not_answered_by_those_in_it() {
    let reply = |more: Value| {
        let mut answered = json!({ "message_id": 2, "date": 1, "chat": { "id": -100, "type": "supergroup" }, "from": { "id": 42, "first_name": "H" }, "text": "before" });
        answered.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        read(json!({ "update_id": 1, "message": {
            "message_id": 3, "date": 1, "text": "x", "chat": { "id": -100, "type": "supergroup" },
            "from": { "id": 7, "first_name": "A" }, "reply_to_message": answered, "quote": { "text": "bef" },
        } }))
        .unwrap()
        .event
    };
    let answer = reply(json!({}));
    assert!(answer.addressed.reply_to_self);
    assert_eq!(answer.reply_to.unwrap().text, "bef");
    assert!(reply(json!({ "forum_topic_created": {} })).reply_to.is_none());
}

#[test]
fn an_edit_names_its_revision_and_a_press_its_answer() {
    let edit = read(json!({ "update_id": 1, "edited_message": {
        "message_id": 5, "date": 100, "edit_date": 160, "text": "changed", "chat": { "id": 7, "type": "private" }, "from": { "id": 7, "first_name": "A" },
    } }))
    .unwrap()
    .event;
    assert_eq!((edit.kind, edit.event_id.as_str(), edit.at_ms), (EventKind::Edited, "e:7:5:160", 160_000));
    let press = read(json!({ "update_id": 1, "callback_query": {
        "id": "77", "from": { "id": 9, "first_name": "B" }, "data": "ask1:yes",
        "message": { "message_id": 5, "date": 1, "chat": { "id": 7, "type": "private" }, "message_thread_id": 4, "is_topic_message": true },
    } }))
    .unwrap();
    assert_eq!(press.callback.as_deref(), Some("77"));
    assert_eq!(press.event.choice, Some(ChoiceMade::new("ask1", "yes")));
    assert_eq!(press.event.chat, Chat::dm("7").in_thread("4"));
    assert_eq!(press.event.sender.id, "9");
}

#[test]
fn a_migration_is_an_event_of_the_old_chat() {
    let event = read(json!({ "update_id": 1, "message": { "message_id": 5, "date": 1, "chat": { "id": -5, "type": "group" }, "migrate_to_chat_id": -1005 } })).unwrap().event;
    assert_eq!(
        (event.kind, event.migrated_to.as_deref(), event.chat.id.as_str()),
        (EventKind::Migrated, Some("-1005"), "-5")
    );
}

/// Returns the references by which the host requests the files of an event.
fn references(incoming: &Incoming) -> Vec<&str> {
    incoming.event.attachments.iter().filter_map(|file| file.fetch.as_deref()).collect()
}

#[test]
fn an_album_is_one_event_with_the_captions_wherever_they_stand() {
    let part = |id: i64, caption: Option<&str>| {
        let message: Message = serde_json::from_value(json!({
            "message_id": id, "date": 1, "media_group_id": "G", "caption": caption, "chat": { "id": 7, "type": "private" },
            "from": { "id": 7, "first_name": "A" }, "photo": [{ "file_id": "small" }, { "file_id": format!("F{id}"), "file_size": 9 }],
        }))
        .unwrap();
        message
    };
    let whole = from_album(&[part(1, None), part(2, Some("look")), part(3, Some("and here"))], &me()).unwrap();
    assert_eq!(whole.event.event_id, "a:7:G:1-3", "it names what is in it");
    assert_eq!(whole.event.album.as_deref(), Some("G"), "what comes later of it is joined by the host");
    assert_eq!(whole.event.text, "look\nand here", "every caption counts");
    assert_eq!(references(&whole), ["F1", "F2", "F3"]);
}

#[test]
fn an_anonymous_admin_is_the_chat_that_writes() {
    let event = read(json!({ "update_id": 1, "message": {
        "message_id": 1, "date": 1, "text": "x", "chat": { "id": -100, "type": "supergroup" },
        "from": { "id": 1087968824, "is_bot": true, "first_name": "Group" }, "sender_chat": { "id": -100, "type": "supergroup", "title": "Ops" },
    } }))
    .unwrap()
    .event;
    assert_eq!((event.sender.id.as_str(), event.sender.is_bot), ("-100", false));
}

#[test]
fn a_post_that_shows_in_the_group_of_its_channel_is_heard_in_the_channel_alone() {
    let post = |forward: bool| {
        read(json!({ "update_id": 1, "message": {
            "message_id": 1, "date": 1, "text": "x", "chat": { "id": -100, "type": "supergroup" },
            "from": { "id": 777000, "first_name": "Telegram" }, "sender_chat": { "id": -200, "type": "channel" },
            "is_automatic_forward": forward,
        } }))
    };
    assert!(post(true).is_none() && post(false).is_some());
}

#[test]
fn an_edit_brings_words_and_no_files() {
    let edit = read(json!({ "update_id": 1, "edited_message": {
        "message_id": 5, "date": 1, "edit_date": 2, "caption": "mended", "chat": { "id": 7, "type": "private" },
        "from": { "id": 7, "first_name": "A" }, "photo": [{ "file_id": "F" }],
    } }))
    .unwrap();
    assert!(edit.event.attachments.is_empty() && edit.event.text == "mended");
}

#[test]
fn what_is_neither_words_nor_a_file_is_said_in_words() {
    let said = |more: Value| {
        let mut message = json!({ "message_id": 1, "date": 1, "chat": { "id": 7, "type": "private" }, "from": { "id": 7, "first_name": "A" } });
        message.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        read(json!({ "update_id": 1, "message": message })).map(|incoming| incoming.event.text)
    };
    assert_eq!(
        said(json!({ "contact": { "first_name": "Bo", "phone_number": "+1" } })).as_deref(),
        Some("[contact Bo +1]")
    );
    assert_eq!(said(json!({ "poll": { "question": "When?" } })).as_deref(), Some("[poll: When?]"));
    assert_eq!(said(json!({ "dice": { "value": 3 } })).as_deref(), Some("[dice: 3]"));
    assert_eq!(said(json!({ "pinned_message": {} })), None);
}

#[test]
fn what_somebody_writes_to_a_channel_is_a_conversation_of_its_own_and_is_answered_there() {
    let written = |topic: i64| {
        read(json!({ "update_id": 1, "message": {
            "message_id": 9, "date": 100, "text": "hello",
            "chat": { "id": -100, "type": "supergroup", "title": "News", "is_direct_messages": true },
            "from": { "id": topic, "first_name": "Ada" },
            "direct_messages_topic": { "topic_id": topic, "user": { "id": topic, "first_name": "Ada" } },
        } }))
        .unwrap()
        .event
    };
    let (ada, bob) = (written(7), written(8));
    assert_eq!(ada.chat.thread.as_deref(), Some("direct:7"));
    assert_ne!(ada.chat, bob.chat);
    let place = crate::chat_parameters::chat_parameters(&ada.chat).unwrap();
    assert_eq!(Value::Object(place), json!({ "chat_id": -100, "direct_messages_topic_id": 7 }));
    assert_eq!(
        Value::Object(crate::chat_parameters::chat_parameters_without_topic(&ada.chat).unwrap()),
        json!({ "chat_id": -100 })
    );
}

fn private(fields: Value) -> Event {
    let mut message = json!({
        "message_id": 9, "date": 100, "chat": { "id": 7, "type": "private" }, "from": { "id": 7, "first_name": "Ada" },
    });
    message.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    read(json!({ "update_id": 1, "message": message })).unwrap().event
}

#[test]
fn an_address_behind_words_follows_the_words() {
    let url = "https://news.example/a?x=2";
    let link = |offset: usize, length: usize, url: &str| json!([{ "type": "text_link", "offset": offset, "length": length, "url": url }]);
    let event = private(json!({ "text": "read this article please", "entities": link(5, 12, url) }));
    assert_eq!(event.text, format!("read this article ({url}) please"));
    let event = private(
        json!({ "caption": "🦀 the source", "caption_entities": link(3, 10, url), "photo": [{ "file_id": "P" }] }),
    );
    assert_eq!(event.text, format!("🦀 the source ({url})"));
    // The link text is the address already, or the range is invalid.
    assert_eq!(private(json!({ "text": "see e.x", "entities": link(4, 3, "E.X/") })).text, "see e.x");
    assert_eq!(private(json!({ "text": "see", "entities": link(2, 9, url) })).text, "see");
    let long = format!("https://e.x/{}", "a".repeat(5000));
    assert_eq!(private(json!({ "text": "see", "entities": link(0, 3, &long) })).text, "see");
    // A mention inside the words is removed, and the address stays.
    let event = read(in_group("@hermes_bot see", json!([
        { "type": "mention", "offset": 0, "length": 11 }, { "type": "text_link", "offset": 0, "length": 15, "url": url },
    ]))).unwrap().event;
    assert_eq!(event.text, format!("see ({url})"));
}

#[test]
fn a_quoted_message_brings_its_addresses_its_lines_and_its_files() {
    let quoted = json!({
        "message_id": 5, "date": 1, "chat": { "id": 7, "type": "private" }, "from": { "id": 8, "first_name": "Bob" },
        "caption": "see here", "caption_entities": [{ "type": "text_link", "offset": 4, "length": 4, "url": "https://e.x/1" }],
        "document": { "file_id": "D", "file_name": "plan.txt", "mime_type": "text/plain", "file_size": 9 },
    });
    let reply = private(json!({ "text": "well?", "reply_to_message": quoted })).reply_to.unwrap();
    assert_eq!(reply.text, "see here (https://e.x/1)");
    assert_eq!(reply.attachments.len(), 1);
    assert_eq!(reply.attachments[0].name, "plan.txt");
    let quote = json!({ "text": "here", "entities": [{ "type": "text_link", "offset": 0, "length": 4, "url": "https://e.x/1" }] });
    let reply = private(json!({ "text": "well?", "reply_to_message": quoted, "quote": quote })).reply_to.unwrap();
    assert_eq!(reply.text, "here (https://e.x/1)");
    let origin = json!({ "type": "hidden_user", "date": 1, "sender_user_name": "Cleo" });
    let external = json!({ "origin": origin, "message_id": 3 });
    let reply = private(json!({ "text": "well?", "external_reply": external, "quote": { "text": "far away" } }))
        .reply_to
        .unwrap();
    assert_eq!((reply.text.as_str(), reply.sender.unwrap().name.as_deref()), ("far away", Some("Cleo")));
}

#[test]
fn a_forwarded_message_names_its_origin() {
    let origin = |origin: Value| private(json!({ "text": "news", "forward_origin": origin })).forwarded.unwrap();
    let channel = json!({ "type": "channel", "date": 5, "chat": { "id": -100, "type": "channel", "title": "Harbour News" }, "message_id": 5, "author_signature": "Ed" });
    assert_eq!(origin(channel), Forwarded::new().by("Ed").from_chat("Harbour News").at_ms(5_000));
    let user = json!({ "type": "user", "date": 5, "sender_user": { "id": 9, "first_name": "Bob", "last_name": "B" } });
    assert_eq!(origin(user), Forwarded::new().by("Bob B").at_ms(5_000));
    let hidden = json!({ "type": "hidden_user", "date": 5, "sender_user_name": "Cleo" });
    assert_eq!(origin(hidden), Forwarded::new().by("Cleo").at_ms(5_000));
    let chat = json!({ "type": "chat", "date": 5, "sender_chat": { "id": -9, "type": "supergroup", "title": "Ops" } });
    assert_eq!(origin(chat), Forwarded::new().from_chat("Ops").at_ms(5_000));
    assert_eq!(origin(json!({ "type": "of the future" })), Forwarded::new().at_ms(0));
}

#[test]
fn content_that_is_neither_text_nor_a_file_becomes_lines() {
    let place = json!({ "latitude": 59.9, "longitude": 10.7 });
    for (fields, line) in [
        (json!({ "location": place }), "[location 59.90000, 10.70000]"),
        (
            json!({ "location": place, "venue": { "location": place, "title": "Central Station", "address": "Square 1" } }),
            "[place: Central Station, Square 1, 59.90000, 10.70000]",
        ),
        (
            json!({ "poll": { "question": "Where to?", "options": [{ "text": "Oslo" }, { "text": "Bergen" }] } }),
            "[poll: Where to?\n- Oslo\n- Bergen]",
        ),
        (
            json!({ "checklist": { "title": "Trip", "tasks": [{ "id": 1, "text": "Pack" }] } }),
            "[checklist: Trip\n- Pack]",
        ),
        (json!({ "dice": { "emoji": "🎲", "value": 4 } }), "[dice 🎲: 4]"),
        (json!({ "game": { "title": "Chess", "description": "A board game" } }), "[game: Chess. A board game]"),
    ] {
        assert_eq!(private(fields).text, line);
    }
}
