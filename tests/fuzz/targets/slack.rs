//! Deliveries of Slack: events, presses of buttons, slash commands.

use hermes_adapter_slack::read_delivery;
use serde_json::Value;

use crate::ring::{Target, texts};

const WORDS: &[&str] = &[
    "\"type\":\"event_callback\"",
    "\"type\":\"message\"",
    "\"type\":\"app_mention\"",
    "\"subtype\":\"message_changed\"",
    "\"subtype\":\"message_deleted\"",
    "\"subtype\":\"bot_message\"",
    "\"user\":\"UME\"",
    "\"bot_id\":\"BME\"",
    "\"thread_ts\":\"1700000000.1\"",
    "\"ts\":\"1700000000.2\"",
    "\"channel\":\"D1\"",
    "<@UME>",
    "<@UME|hermes>",
    "<!channel>",
    "<https://a.example|b>",
    "\"blocks\":[{\"type\":\"rich_text\",\"elements\":[",
    "\"attachments\":[",
    "\"files\":[",
    "\"is_ext_shared_channel\":true",
    "null",
    "{}",
    "[]",
    "🦀",
];

/// Deliveries of the Events API, and of interactivity.
pub fn delivery() -> Target {
    let seeds = texts(&[
        r#"{"type":"event_callback","team_id":"T1","event":{"type":"message","channel":"C1","user":"U1","ts":"1700000000.100","text":"<@UME> hi &lt;b&gt;","thread_ts":"1700000000.1","parent_user_id":"UME","files":[{"id":"F1","name":"a","mimetype":"text/plain","size":6,"url_private":"https://files.slack.com/a"}]}}"#,
        r#"{"type":"event_callback","team_id":"T1","is_ext_shared_channel":true,"event":{"type":"message","subtype":"message_changed","channel":"D1","ts":"1700000001.1","message":{"user":"U1","ts":"1700000000.1","text":"new","edited":{"ts":"1700000001.0"}},"previous_message":{"user":"U1","ts":"1700000000.1","text":"old"}}}"#,
        r#"{"type":"event_callback","team_id":"T1","event":{"type":"message","subtype":"bot_message","bot_id":"B2","channel":"C1","ts":"1700000000.3","text":"","attachments":[{"title":"t","title_link":"https://a.example","fields":[{"title":"a","value":"b"}],"fallback":"f"}],"blocks":[{"type":"section","text":{"type":"mrkdwn","text":"*a*"}}]}}"#,
        r#"{"type":"event_callback","team_id":"T1","event":{"type":"message","subtype":"message_deleted","channel":"C1","ts":"1700000002.1","deleted_ts":"1700000000.1","previous_message":{"user":"U1","ts":"1700000000.1","text":"old"}}}"#,
        r#"{"type":"block_actions","team":{"id":"T1"},"user":{"id":"U1"},"channel":{"id":"C1"},"message":{"ts":"1700000000.1","thread_ts":"1700000000.0"},"actions":[{"value":"ask:yes","action_ts":"1700000003.1"}]}"#,
        r#"{"command":"/hermes","text":"status","user_id":"U1","channel_id":"C1","trigger_id":"1.2.3","team_id":"T1"}"#,
    ]);
    Target::new("delivery", seeds, WORDS, |bytes| {
        let event = read_delivery(bytes);
        assert_eq!(written(event.as_ref()), written(read_delivery(bytes).as_ref()), "it says something else each time");
        let Some(event) = event else { return };
        let is_choice = event.choice.is_some();
        assert!(event.sender.id != "UME" || is_choice || event.event_id.starts_with("s:"), "the app hears itself");
        assert!(matches!(event.event_id.split(':').next(), Some("m" | "e" | "d" | "c" | "s")), "an event of no kind");
        assert!(event.chat.id.starts_with("T1/") && event.chat.id.len() > 3, "a chat of no workspace");
        assert!(event.raw.to_string().len() <= 16 * 1024 + 64, "beyond its bound");
        // `message` and `app_mention` are two deliveries of one text, and name it alike.
        if let Ok(mut other) = serde_json::from_slice::<Value>(bytes)
            && event.event_id.starts_with("m:")
            && other["event"]["type"] == "message"
        {
            other["event"]["type"] = "app_mention".into();
            let mention = read_delivery(other.to_string().as_bytes()).expect("the mention is read, too");
            assert_eq!((event.event_id, event.text), (mention.event_id, mention.text), "one text has two names");
        }
    })
}

fn written(event: Option<&hermes_protocol::Event>) -> Option<Value> {
    event.map(|event| serde_json::to_value(event).expect("an event is JSON"))
}
