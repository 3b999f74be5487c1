//! Pictures in requests.

use hermes_agent::{AgentConfig, EventSink, Message, TurnOutcome, TurnRequest};
use hermes_protocol::{Attachment, AttachmentKind};
use serde_json::{Value, json};

use crate::endpoint::{Endpoint, Reply};
use crate::{build, config, request};

/// A folder with one picture, removed on drop.
struct Folder(std::path::PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("m1"), b"abc").unwrap();
        Self(folder)
    }

    fn request(&self) -> TurnRequest {
        let mut look = Message::user("look\n[attached image \"cat.png\"]");
        look.attachments.push(Attachment::new("m1", AttachmentKind::Image, "image/png", "cat.png", 3));
        TurnRequest { input: vec![look], media: Some(self.0.clone()), ..request("") }
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // The system removes a leftover from its temporary folder.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

async fn answer(config: &AgentConfig, request: TurnRequest) -> String {
    let runtime = build(config).unwrap();
    let (sink, _reader) = EventSink::channel();
    match runtime.run(request, sink, Default::default()).await {
        TurnOutcome::Finished { text, .. } => text,
        other => panic!("{other:?}"),
    }
}

/// Returns, for each request, whether it contained a picture.
fn shown(endpoint: &Endpoint) -> Vec<bool> {
    let content = |body: &Value| body["messages"][0]["content"].is_array();
    endpoint.seen().iter().map(|seen| content(&seen.body)).collect()
}

#[tokio::test]
async fn a_picture_that_came_in_is_shown_to_the_model() {
    let folder = Folder::new("shown");
    let endpoint = Endpoint::new([Reply::good("a cat")]).await;
    assert_eq!(answer(&config(&endpoint.base_url), folder.request()).await, "a cat");
    let expected = json!([
        {"type": "text", "text": "look\n[attached image \"cat.png\"]"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,YWJj"}},
    ]);
    assert_eq!(endpoint.seen()[0].body["messages"][0]["content"], expected);
}

#[tokio::test]
async fn where_the_operator_wants_none_shown_a_picture_is_named_only() {
    let folder = Folder::new("named");
    let endpoint = Endpoint::new([Reply::good("which cat")]).await;
    let config = AgentConfig { pictures: false, ..config(&endpoint.base_url) };
    answer(&config, folder.request()).await;
    let content = &endpoint.seen()[0].body["messages"][0]["content"];
    assert_eq!(*content, json!("look\n[attached image \"cat.png\"]\n[1 image of this message is omitted]"));
}

#[tokio::test]
async fn an_endpoint_that_refuses_pictures_is_asked_without_them() {
    let folder = Folder::new("refused");
    let refusal = json!({"error": {"message": "this model does not support image input"}});
    let endpoint = Endpoint::new([Reply::json(400, refusal), Reply::good("which cat")]).await;
    assert_eq!(answer(&config(&endpoint.base_url), folder.request()).await, "which cat");
    assert_eq!(shown(&endpoint), [true, false]);
}

#[tokio::test]
async fn a_refusal_that_has_nothing_to_do_with_pictures_is_told() {
    let folder = Folder::new("told");
    let refusal = || Reply::json(400, json!({"error": {"message": "unknown model"}}));
    let endpoint = Endpoint::new([refusal(), refusal()]).await;
    let runtime = build(&config(&endpoint.base_url)).unwrap();
    let (sink, _reader) = EventSink::channel();
    let outcome = runtime.run(folder.request(), sink, Default::default()).await;
    assert!(matches!(outcome, TurnOutcome::Failed(_)), "{outcome:?}");
    assert_eq!(shown(&endpoint), [true, false], "asked once more without, then told");
}
