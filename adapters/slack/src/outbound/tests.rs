use std::sync::Arc;

use super::*;
use crate::blocks::TEXT_BYTES_MAX;
use crate::uploads::COMPLETE_TIMEOUT;
use crate::workspace::Workspace;

fn outgoing(text: &str) -> Outgoing {
    let mut message = Outgoing::text(Chat::dm("T1/D1"), text);
    message.format = Format::Native;
    message
}

#[tokio::test]
async fn a_message_whose_time_is_up_ends_before_the_host_stops_waiting_for_it() {
    const HOST_WAITS: Duration = Duration::from_secs(60);
    assert!(SEND_TIMEOUT < HOST_WAITS && COMPLETE_TIMEOUT < SEND_TIMEOUT);
    // A server that neither answers nor refuses.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let api = Api::new(&format!("http://{}", silent.local_addr().unwrap()), None, None, &Default::default()).unwrap();
    let me = serde_json::from_value(json!({ "team_id": "T1", "user_id": "UME" })).unwrap();
    let workspace = Arc::new(Workspace { token: "xoxb-1".to_owned(), me });
    let destination = Destination { api: &api, workspace, channel: "C1".to_owned() };
    let up = Instant::now();
    let sent = send(&destination, &outgoing("hello"), 0, up).await;
    assert!(matches!(sent, SendOutcome::Unknown { .. }), "it may have arrived: {sent:?}");
    let mut message = outgoing("look");
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
    message.media = vec![OutMedia::new("m1", path, "text/plain", "a.txt", 3)];
    let sent = send(&destination, &message, 0, up).await;
    let SendOutcome::NotSent { scope, .. } = sent else { panic!("nothing is shown yet: {sent:?}") };
    assert_eq!(scope, WaitScope::Chat);
}

#[test]
fn a_long_text_goes_in_sections_wherever_it_goes() {
    let short = outgoing("*short*");
    assert_eq!(text_and_blocks(&short), ("*short*".to_owned(), None));
    let mut long = outgoing(&"word ".repeat(2000));
    long.source = long.text.clone();
    let (beginning, blocks) = text_and_blocks(&long);
    assert!(beginning.len() <= TEXT_BYTES_MAX);
    let blocks = blocks.expect("it is too long for a text");
    assert_eq!(blocks.as_array().unwrap().len(), 4);
    assert_eq!(response_body(&long)["blocks"], blocks);
    assert!(response_body(&short).get("blocks").is_none());
}

#[test]
fn nothing_of_an_answer_is_fetched_or_looked_through_by_slack() {
    let response = response_body(&outgoing("<https://a.b/?secret=1>"));
    assert_eq!((&response["unfurl_links"], &response["unfurl_media"]), (&json!(false), &json!(false)));
}
