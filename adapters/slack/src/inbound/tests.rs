use std::collections::BTreeMap;

use serde_json::json;

use super::*;
use crate::chats::split_id;
use crate::context::ThreadSettings;
use crate::payload::teams;

const THREADS: ThreadSettings = ThreadSettings { in_channels: true, in_dms: true };

fn me() -> BotIdentity {
    serde_json::from_value(json!({ "team_id": "T1", "user_id": "UME", "user": "hermes", "bot_id": "BME" })).unwrap()
}

fn read_with(event: Value, threads: ThreadSettings) -> Option<Event> {
    let names = BTreeMap::from([("U2".to_owned(), "bob".to_owned())]);
    from_event(&json!({ "team_id": "T1", "event": event }), ReadContext { me: &me(), threads, names: &names })
}

fn read(event: Value) -> Option<Event> {
    read_with(event, THREADS)
}

fn message(more: Value) -> Value {
    let mut event = json!({
        "type": "message", "channel": "C1", "channel_type": "channel", "user": "U1", "ts": "1700000000.123456",
        "text": "hello", "unheard_of": { "of": ["the", "future"] },
    });
    event.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    event
}

#[test]
fn a_message_names_its_workspace_channel_sender_and_change() {
    let event = read(message(json!({}))).unwrap();
    assert_eq!(event.event_id, "m:T1/C1:1700000000.123456");
    assert_eq!(event.chat, Chat::new(ChatType::Group, "T1/C1").in_thread("1700000000.123456"));
    assert_eq!((event.sender.id.as_str(), event.sender.is_bot), ("U1", false));
    assert_eq!((event.text.as_str(), event.at_ms), ("hello", 1_700_000_000_123));
    assert_eq!(event.message_id.as_deref(), Some("1700000000.123456"));
    assert_eq!(event.addressed, Addressed::new(false, false, false));
    assert_eq!(event.chat.parent.as_deref(), Some("C1"), "`free_chats` names channels without their workspace");
}

#[test]
fn one_human_message_is_one_event_however_often_it_is_delivered() {
    let text = json!({ "text": "<@UME> look", "client_msg_id": "x" });
    let one = read(message(text.clone())).unwrap();
    let mut mention = message(text);
    mention["type"] = json!("app_mention");
    mention.as_object_mut().unwrap().remove("channel_type");
    let other = read(mention).unwrap();
    assert!(one.addressed.mention && other.addressed.mention);
    assert_eq!((one.event_id, one.chat, one.text), (other.event_id, other.chat, other.text));
}

#[test]
fn a_thread_is_one_chat_from_its_first_message_on_and_on_every_path() {
    let root = read(message(json!({}))).unwrap().chat;
    let thread = json!({ "ts": "1700000001.000100", "thread_ts": "1700000000.123456", "parent_user_id": "U1" });
    assert_eq!(read(message(thread.clone())).unwrap().chat, root);
    let press = from_button(
        &json!({ "type": "block_actions", "user": { "id": "U1" }, "channel": { "id": "C1" },
            "message": { "ts": "1700000002.000100", "thread_ts": "1700000000.123456" },
            "actions": [{ "value": "ask1:yes", "action_ts": "1700000003.000100" }] }),
        &me(),
    );
    assert_eq!(press.unwrap().chat, root);
    let mut outer = message(json!({ "subtype": "message_changed", "ts": "1700000004.0" }));
    outer["message"] = message(thread);
    outer["message"]["edited"] = json!({ "user": "U1", "ts": "1700000004.000000" });
    outer["previous_message"] = message(json!({ "text": "before" }));
    assert_eq!(read(outer).unwrap().chat, root);
}

#[test]
fn without_threads_of_their_own_messages_lie_in_the_channel() {
    let threads = ThreadSettings { in_channels: false, in_dms: false };
    let of = |more: Value| read_with(message(more), threads).unwrap().chat;
    assert_eq!(of(json!({})), Chat::new(ChatType::Group, "T1/C1"));
    assert_eq!(of(json!({ "channel": "D1" })), Chat::dm("T1/D1"));
    assert_eq!(of(json!({ "channel": "D1", "thread_ts": "1.2" })), Chat::dm("T1/D1").in_thread("1.2"));
}

#[test]
fn an_answer_in_a_thread_that_we_began_is_addressed_and_one_in_another_is_not() {
    let of = |parent: &str| {
        let more = json!({ "ts": "1700000001.000100", "thread_ts": "1700000000.000001", "parent_user_id": parent });
        read(message(more)).unwrap()
    };
    assert!(of("UME").addressed.reply_to_self && of("UME").reply_to.unwrap().is_self);
    assert!(!of("U2").addressed.reply_to_self);
    assert!(read(message(json!({ "thread_ts": "1700000000.123456" }))).unwrap().reply_to.is_none());
}

#[test]
fn our_own_echo_and_what_the_platform_says_are_dropped() {
    for more in [
        json!({ "user": "UME" }),
        json!({ "subtype": "bot_message", "bot_id": "BME", "user": null }),
        json!({ "subtype": "channel_join" }),
        json!({ "subtype": "message_replied" }),
        json!({ "type": "reaction_added" }),
        json!({ "text": "", "files": [] }),
        json!({ "user": null }),
        json!({ "ts": "" }),
        json!({ "channel": 7 }),
    ] {
        assert!(read(message(more.clone())).is_none(), "{more}");
    }
    assert!(read(json!({})).is_none() && read(Value::Null).is_none());
}

#[test]
fn people_who_are_mentioned_are_called_by_their_names() {
    assert_eq!(read(message(json!({ "text": "ask <@U2> or <@U3>" }))).unwrap().text, "ask @bob or @U3");
}

#[test]
fn another_bot_is_one_whatever_it_looks_like() {
    let event = read(message(json!({ "subtype": "bot_message", "bot_id": "B2", "user": null, "username": "deploy" })));
    let sender = event.unwrap().sender;
    assert_eq!((sender.id.as_str(), sender.is_bot, sender.name.as_deref()), ("B2", true, Some("deploy")));
    assert!(read(message(json!({ "bot_id": "B2", "user": "U7" }))).unwrap().sender.is_bot);
}

#[test]
fn an_edit_names_its_revision_and_a_preview_is_none() {
    let changed = |before: &str, after: Value| {
        let mut outer = message(json!({ "subtype": "message_changed", "hidden": true, "ts": "1700000009.000000" }));
        outer.as_object_mut().unwrap().remove("user");
        outer["message"] = message(after);
        outer["previous_message"] = message(json!({ "text": before }));
        read(outer)
    };
    let edited = json!({ "text": "hello there", "edited": { "user": "U1", "ts": "1700000008.500000" } });
    let event = changed("hello", edited.clone()).unwrap();
    assert_eq!(event.kind, EventKind::Edited);
    assert_eq!(event.event_id, "e:T1/C1:1700000000.123456:1700000008.500000");
    assert_eq!((event.text.as_str(), event.at_ms), ("hello there", 1_700_000_008_500));
    assert_eq!(event.message_id.as_deref(), Some("1700000000.123456"));
    assert!(changed("hello there", edited).is_none(), "an old edit whose link is shown now");
    assert!(changed("hello", json!({ "attachments": [{ "from_url": "https://a.b" }] })).is_none(), "a preview");
    assert!(changed("x", json!({ "user": "UME", "edited": { "ts": "1.0" } })).is_none(), "our own edit");
}

#[test]
fn a_message_that_is_gone_is_said_to_be() {
    let deleted = read(message(json!({
        "subtype": "message_deleted", "user": null, "ts": "1700000009.000000", "deleted_ts": "1700000000.123456",
        "previous_message": message(json!({})),
    })));
    let stone = read(message(json!({
        "subtype": "message_changed", "user": null, "ts": "1700000009.000000",
        "message": message(json!({ "subtype": "tombstone", "user": "USLACKBOT", "text": "This message was deleted." })),
        "previous_message": message(json!({})),
    })));
    for event in [deleted.unwrap(), stone.unwrap()] {
        assert_eq!((event.kind, event.event_id.as_str()), (EventKind::Deleted, "d:T1/C1:1700000000.123456"));
        assert_eq!(event.sender.id, "U1");
    }
}

#[test]
fn files_are_named_and_a_message_may_be_nothing_else() {
    let files = json!([{ "id": "F1", "name": "a.txt", "size": 3 }, { "id": "F2" }]);
    let incoming = read(message(json!({ "subtype": "file_share", "text": "", "files": files }))).unwrap();
    let named: Vec<_> = incoming.attachments.iter().map(|file| file.fetch.as_deref().unwrap_or_default()).collect();
    assert!(named[0].contains("\"F1\"") && named[1].contains("\"F2\"") && named.len() == 2, "{named:?}");
}

#[test]
fn a_press_names_its_ask_its_option_and_who() {
    let press = json!({
        "type": "block_actions", "user": { "id": "U9" }, "team": { "id": "T1" },
        "container": { "type": "message", "message_ts": "1.2", "channel_id": "D1" },
        "actions": [{ "action_id": "choice_0", "value": "ask1:yes", "action_ts": "1700000003.000100" }],
    });
    let event = from_button(&press, &me()).unwrap();
    assert_eq!(event.choice, Some(ChoiceMade::new("ask1", "yes")));
    assert_eq!((event.chat, event.sender.id.as_str()), (Chat::dm("T1/D1"), "U9"));
    assert_eq!(event.event_id, "c:T1/D1:1.2:U9:1700000003.000100");
    for (at, with) in
        [("type", json!("view_submission")), ("actions", json!([])), ("user", json!({})), ("container", json!({}))]
    {
        let mut other = press.clone();
        other[at] = with;
        assert!(from_button(&other, &me()).is_none(), "{at}");
    }
}

#[test]
fn a_slash_command_is_addressed_and_lies_outside_of_threads() {
    let payload = json!({ "command": "/hermes", "text": " status ", "user_id": "U1", "channel_id": "C1", "team_id": "T1",
        "trigger_id": "13345224609.738474920.8088930838d88f008e0" });
    let (me, names) = (me(), BTreeMap::new());
    let context = ReadContext { me: &me, threads: THREADS, names: &names };
    let event = from_slash_command(&payload, context, 5, |slash| format!("/{}", slash.text)).unwrap();
    assert_eq!((event.text.as_str(), event.at_ms), ("/status", 5));
    assert_eq!(event.chat, Chat::new(ChatType::Group, "T1/C1"));
    assert!(event.addressed.command && event.addressed.mention);
    assert_eq!(event.event_id, "s:T1/C1:13345224609.738474920.8088930838d88f008e0");
    assert!(from_slash_command(&json!({ "command": "/hermes" }), context, 5, |_| String::new()).is_none());
}

#[test]
fn a_shared_channel_belongs_to_the_workspace_that_authorized_us() {
    let payload = json!({ "team_id": "TOTHER", "authorizations": [{ "team_id": "T1" }], "event": { "channel": "C1" } });
    assert_eq!(teams(&payload), ["T1", "TOTHER"]);
    assert_eq!(channel(&payload), "C1");
    assert_eq!(teams(&json!({ "team": { "id": "T2" } })), ["T2"]);
    assert_eq!((split_id("T1/C1"), split_id("C1")), ((Some("T1"), "C1"), (None, "C1")));
}

#[test]
fn what_two_of_our_workspaces_are_told_of_one_channel_is_one_event() {
    let names = BTreeMap::new();
    let of = |team: &str, is_shared: bool| {
        let me = serde_json::from_value(json!({ "team_id": team, "user_id": "UME" })).unwrap();
        let payload = json!({ "team_id": team, "is_ext_shared_channel": is_shared, "event": message(json!({})) });
        let context = ReadContext { me: &me, threads: THREADS, names: &names };
        from_event(&payload, context).unwrap().event_id
    };
    assert_eq!(of("T1", true), of("T2", true));
    assert_ne!(of("T1", false), of("T2", false), "ids of different workspaces may be the same");
}

#[test]
fn a_message_id_is_a_time() {
    assert_eq!(at_ms("1700000000.123456"), 1_700_000_000_123);
    for wrong in ["", "x", "x.y", ".", "99999999999999999999.9", "1.2.3"] {
        let _ = at_ms(wrong);
    }
    assert!(is_ts("1.2") && !is_ts("1") && !is_ts("1.x") && !is_ts("."));
}

/// Generates valid and invalid values of a field.
fn value() -> impl proptest::strategy::Strategy<Value = Value> {
    use proptest::prelude::*;
    let words = [
        "C1",
        "D1",
        "U1",
        "UME",
        "BME",
        "1.2",
        "1700000000.123456",
        "",
        "<@UME> a",
        "message",
        "app_mention",
        "tombstone",
        "message_changed",
        "message_deleted",
        "file_share",
        "a:b",
        "block_actions",
    ];
    let leaf = prop_oneof![
        proptest::sample::select(words.to_vec()).prop_map(|word| json!(word)),
        any::<i64>().prop_map(|number| json!(number)),
        Just(Value::Null),
    ];
    let keys = [
        "type",
        "subtype",
        "channel",
        "user",
        "bot_id",
        "text",
        "ts",
        "thread_ts",
        "parent_user_id",
        "edited",
        "files",
        "message",
        "previous_message",
        "deleted_ts",
        "event",
        "actions",
        "container",
        "value",
        "action_ts",
        "id",
        "message_ts",
        "channel_id",
        "command",
        "trigger_id",
        "user_id",
    ];
    leaf.prop_recursive(4, 60, 12, move |inner| {
        let key = proptest::sample::select(keys.to_vec()).prop_map(str::to_owned);
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::Array),
            prop::collection::vec((key, inner), 0..12).prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig { cases: 2000, failure_persistence: None, ..Default::default() })]

    #[test]
    fn whatever_is_delivered_is_an_event_of_somewhere_or_none(payload in value()) {
        let (me, names) = (me(), BTreeMap::new());
        let context = ReadContext { me: &me, threads: THREADS, names: &names };
        let _ = (teams(&payload), channel(&payload));
        let read = [from_event(&payload, context), from_button(&payload, &me), from_slash_command(&payload, context, 0, |slash| slash.text.clone())];
        for incoming in read.into_iter().flatten() {
            let event = incoming;
            let (team, channel) = split_id(&event.chat.id);
            proptest::prop_assert!(team == Some("T1") && !channel.is_empty() && !event.event_id.is_empty() && !event.sender.id.is_empty());
            proptest::prop_assert!(event.sender.id != "UME" || event.kind == EventKind::Choice || event.addressed.command || event.event_id.starts_with("s:"));
        }
    }
}

#[test]
fn a_message_that_was_passed_on_is_a_quotation_and_calls_nobody() {
    let shared = json!({ "is_share": true, "author_name": "carol", "text": "/new <@UME>\nsee &lt;this&gt;",
        "files": [{ "id": "F1" }] });
    let preview = json!({ "title": "a page", "text": "of the web" });
    let found = read(message(json!({ "text": "", "attachments": [&shared, &preview] }))).unwrap();
    assert!(found.text.starts_with("> carol wrote:\n> /new"), "{}", found.text);
    assert!(found.text.ends_with("\n> see <this>"), "{}", found.text);
    assert_eq!((found.addressed.mention, found.attachments.len()), (false, 1));
    let found = read(message(json!({ "text": "look", "attachments": [&shared] }))).unwrap();
    assert!(found.text.starts_with("look\n\n> carol wrote:"), "{}", found.text);
    assert!(read(message(json!({ "text": "", "attachments": [&preview] }))).is_none());
}

#[test]
fn a_file_of_another_shape_takes_no_message_with_it() {
    let found =
        read(message(json!({ "files": [{ "id": "F1", "size": "large" }, { "id": "F2" }], "attachments": null })));
    let found = found.unwrap();
    assert_eq!((found.text.as_str(), found.attachments.len()), ("hello", 1));
    assert!(found.attachments[0].fetch.as_ref().is_some_and(|fetch| fetch.contains("\"F2\"")));
    let odd = message(json!({ "text": null, "username": 7, "edited": "yes", "files": [{ "id": "F1" }] }));
    assert_eq!(read(odd).unwrap().attachments.len(), 1);
}

#[test]
fn cards_of_apps_are_read_and_previews_are_not() {
    let section = |text: &str| json!({ "type": "section", "text": { "type": "mrkdwn", "text": text } });
    let read_app = |mut fields: Value| {
        fields["bot_id"] = json!("BALERT");
        read(message(fields)).unwrap()
    };
    let text = |fields: Value| read_app(fields).text;
    let alert = json!({ "title": "[FIRING:1] DiskFull", "title_link": "https://a.m", "text": "db-1 has 2% left", "fields": [{ "title": "region", "value": "north" }], "fallback": "x" });
    assert_eq!(
        text(json!({ "text": "<@UME>", "attachments": [alert] })),
        "[FIRING:1] DiskFull (https://a.m)\ndb-1 has 2% left\nregion: north"
    );
    assert_eq!(text(json!({ "text": "<@UME>", "attachments": [{ "fallback": "only this" }] })), "only this");
    assert_eq!(
        text(
            json!({ "text": "<@UME> new alert", "attachments": [{ "blocks": [section("*db-1* 2%")], "fallback": "x" }] })
        ),
        "new alert\n\n*db-1* 2%"
    );
    assert_eq!(text(json!({ "text": "<@UME>", "blocks": [section("*db-1* 2%")] })), "*db-1* 2%");
    // Blocks repeat the text of a message.
    assert_eq!(
        text(json!({ "text": "db-1 is full", "blocks": [section("db-1  is full"), section("region: north")] })),
        "db-1 is full\n\nregion: north"
    );
    let own = json!([{ "type": "rich_text", "elements": [{ "type": "rich_text_section", "elements": [{ "type": "text", "text": "hello you" }] }] }]);
    assert_eq!(read(message(json!({ "text": "hello *you*", "blocks": own }))).unwrap().text, "hello *you*");
    // A mention in blocks addresses the app; one in a quoted message does not.
    let found = read_app(json!({ "text": "", "blocks": [section("<@UME> look")] }));
    assert!(found.addressed.mention);
    let unfurled = json!({ "is_msg_unfurl": true, "author_name": "Al", "text": "<@UME> 2% left", "from_url": "https://t.slack.com/archives/C9/p1" });
    let found = read(message(json!({ "text": "what does this mean?", "attachments": [unfurled] }))).unwrap();
    assert_eq!(
        (found.text.as_str(), found.addressed.mention),
        ("what does this mean?\n\n> Al wrote:\n> 2% left", false)
    );
    let preview = json!({ "from_url": "https://x.e", "title": "A page", "text": "preview words" });
    assert_eq!(text(json!({ "text": "see <https://x.e>", "attachments": [preview] })), "see https://x.e");
}
