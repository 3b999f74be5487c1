//! Session keys, and reports of a platform.

use std::collections::BTreeMap;

use hermes_core::session::{KeyPolicy, SessionKey};
use hermes_protocol::{Chat, ChatType, Sender};

use crate::ring::{Target, texts};

/// Two places never have one name. The input is two lists of fields.
pub fn key() -> Target {
    let seeds = texts(&[
        "main\ntg\ngroup\nC1\n7\nU1\nmain\ntg\ngroup\nC1:7\n\nU1",
        "p\na:b\ndm\n!room:server\n\nx\np\na\ndm\nb:!room:server\n\nx",
        "\n\nthread\n%3A\n:\n\n\n\nthread\n:\n%3A\n",
    ]);
    Target::new("key", seeds, &["%3A", ":", "::", "%", "\n", "dm", "group", "thread", "channel"], |bytes| {
        let mut seen = BTreeMap::new();
        let text = String::from_utf8_lossy(bytes);
        let fields: Vec<&str> = text.split('\n').collect();
        for place in fields.chunks(6) {
            let field = |number: usize| place.get(number).copied().unwrap_or_default();
            let mut chat = Chat::new(ChatType::from(field(2)), field(3));
            if !field(4).is_empty() {
                chat = chat.in_thread(field(4));
            }
            let sender = Sender::new(field(5));
            let Ok(key) = SessionKey::for_chat(field(0), field(1), &chat, &sender, KeyPolicy::default()) else {
                continue;
            };
            let stored = key.stored();
            assert_eq!(stored, key.to_string());
            let before = seen.entry(stored).or_insert_with(|| key.clone());
            assert_eq!(*before, key, "two places have one name");
        }
    })
}

/// Updates of Telegram's Bot API.
pub fn telegram() -> Target {
    let seeds = texts(&[
        r#"{"update_id":1,"message":{"message_id":9,"date":100,"text":"🦀 @hermes_bot now","entities":[{"type":"mention","offset":3,"length":11}],"chat":{"id":-100,"type":"supergroup","title":"Ops"},"from":{"id":7,"is_bot":false,"first_name":"Ada"},"reply_to_message":{"message_id":8,"date":99,"text":"x","chat":{"id":-100,"type":"supergroup"},"from":{"id":42,"is_bot":true,"first_name":"H"}}}}"#,
        r#"{"update_id":2,"edited_message":{"message_id":5,"date":1,"edit_date":2,"caption":"c","photo":[{"file_id":"a","file_size":3,"width":1,"height":1}],"chat":{"id":7,"type":"private"},"from":{"id":7,"first_name":"A"}}}"#,
        r#"{"update_id":3,"callback_query":{"id":"q","from":{"id":7,"first_name":"A"},"data":"a:1:2","message":{"message_id":5,"date":1,"chat":{"id":7,"type":"private"}}}}"#,
        r#"{"update_id":4,"message":{"message_id":6,"date":1,"migrate_to_chat_id":-1001,"message_thread_id":1,"is_topic_message":true,"chat":{"id":-5,"type":"group"}}}"#,
        r#"{"update_id":5,"channel_post":{"message_id":6,"date":1,"text":"/start@hermes_bot","entities":[{"type":"bot_command","offset":0,"length":17}],"sender_chat":{"id":-7,"type":"channel"},"chat":{"id":-7,"type":"channel"}}}"#,
    ]);
    const WORDS: &[&str] = &[
        "\"offset\":",
        "\"length\":",
        "\"entities\":[",
        "\"type\":\"mention\"",
        "\"type\":\"bot_command\"",
        "\"type\":\"text_mention\"",
        "🦀",
        "-9223372036854775808",
        "\"text\":\"",
        "\"caption\":\"",
        "null",
        "\"from\":",
        "\"chat\":",
        "\"date\":",
        "{}",
        "[]",
    ];
    Target::new("telegram", seeds, WORDS, |bytes| {
        if let Some(event) = hermes_adapter_telegram::read_update(bytes) {
            assert!(!event.event_id.is_empty() && !event.chat.id.is_empty(), "an event of nowhere");
            serde_json::to_vec(&event).expect("an event is JSON");
        }
    })
}
