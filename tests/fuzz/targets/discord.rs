//! Payloads of Discord's gateway.

use hermes_adapter_discord::read_payload;
use serde_json::Value;

use crate::ring::{Target, texts};

const WORDS: &[&str] = &[
    "\"t\":\"MESSAGE_CREATE\"",
    "\"t\":\"MESSAGE_UPDATE\"",
    "\"t\":\"INTERACTION_CREATE\"",
    "\"edited_timestamp\":\"2025-01-01T00:00:00Z\"",
    "\"mentions\":[{\"id\":\"42\"}]",
    "<@42>",
    "<@!42>",
    "<@&9>",
    "\"mention_roles\":[\"9\"]",
    "\"id\":7",
    "\"id\":\"\"",
    "\"id\":\"42\"",
    "\"attachments\":[",
    "\"message_snapshots\":[",
    "\"referenced_message\":",
    "\"embeds\":[",
    "\"poll\":",
    "\"custom_id\":\"ask:a:b\"",
    "null",
    "{}",
    "[]",
    "🦀",
];

/// Payloads of the gateway.
pub fn gateway() -> Target {
    let seeds = texts(&[
        r#"{"op":0,"s":2,"t":"MESSAGE_CREATE","d":{"id":"1001","channel_id":"10","guild_id":"1","type":0,"content":"<@42> hello","author":{"id":"7","username":"ada"},"mentions":[{"id":"42","username":"hermes"}],"attachments":[{"id":"5","filename":"a.png","url":"https://cdn.discordapp.com/a","size":8,"content_type":"image/png"}]}}"#,
        r#"{"op":0,"s":3,"t":"MESSAGE_UPDATE","d":{"id":"1001","channel_id":"10","type":19,"content":"again","edited_timestamp":"2025-01-01T00:00:00Z","author":{"id":"7","username":"ada"},"member":{"nick":"A","roles":["9"]},"referenced_message":{"id":"900","channel_id":"10","type":0,"content":"before","author":{"id":"42","username":"h"}}}}"#,
        r#"{"op":0,"s":4,"t":"MESSAGE_CREATE","d":{"id":"1002","channel_id":"10","type":0,"content":"","author":{"id":"8","username":"b","bot":true},"embeds":[{"title":"t","url":"https://a.example","fields":[{"name":"n","value":"v"}]}],"message_snapshots":[{"message":{"content":"fwd","attachments":[]}}],"poll":{"question":{"text":"q"},"answers":[{"answer_id":1,"poll_media":{"text":"a"}}]}}}"#,
        r#"{"op":0,"s":5,"t":"INTERACTION_CREATE","d":{"id":"900","type":2,"token":"T","guild_id":"1","data":{"name":"help","options":[{"name":"x","value":7}]},"channel":{"id":"10","type":0},"member":{"user":{"id":"7","username":"ada"},"roles":["9"]}}}"#,
        r#"{"op":0,"s":6,"t":"INTERACTION_CREATE","d":{"id":"901","type":3,"token":"T","data":{"custom_id":"ask:a1:yes"},"channel_id":"10","message":{"id":"1003"},"user":{"id":"7","username":"ada"}}}"#,
    ]);
    Target::new("gateway", seeds, WORDS, |bytes| {
        let event = read_payload(bytes);
        assert_eq!(written(event.as_ref()), written(read_payload(bytes).as_ref()), "it says something else each time");
        if let Some(event) = &event {
            assert!(event.sender.id != "42", "the bot hears itself");
            assert!(matches!(event.event_id.split(':').next(), Some("m" | "e" | "i" | "c")), "an event of no kind");
            assert!(event.chat.id.bytes().all(|byte| byte.is_ascii_digit()), "a chat that is no channel");
            assert!(
                event.sender.roles.iter().all(|role| role.bytes().all(|byte| byte.is_ascii_digit())),
                "a forged role"
            );
        }
        // A field of a later version, however deep, changes nothing.
        if let Ok(Value::Object(mut payload)) = serde_json::from_slice(bytes)
            && let Some(Value::Object(data)) = payload.get_mut("d")
        {
            // Read again from what is left of a field that stood there twice.
            let known = read_payload(serde_json::to_string(&payload_of(bytes)).expect("it is JSON").as_bytes());
            let deep = (0..100).fold(Value::Null, |inner, _| Value::Array(vec![inner]));
            data.insert("field_of_a_later_version".to_owned(), deep);
            let later = read_payload(Value::Object(payload).to_string().as_bytes());
            assert_eq!(written(known.as_ref()), written(later.as_ref()), "an unknown field changes the event");
        }
    })
}

fn payload_of(bytes: &[u8]) -> Value {
    serde_json::from_slice(bytes).expect("it was read before")
}

fn written(event: Option<&hermes_protocol::Event>) -> Option<Value> {
    event.map(|event| serde_json::to_value(event).expect("an event is JSON"))
}
