//! Recorded answers in `shapes/*.txt`, with their expected results.
//!
//! A file consists of a head, a line with `---`, and the body. Keys of the head: `about`; `type`, `encoding`,
//! `endings` and `bom` of the body; and for the expected answer `text`, `reasoning` and `finish` (JSON or plain
//! words), `usage` (input and output tokens), `call` (a name and its arguments, as sent back to the endpoint),
//! or `fails` (the kind of the failure).

use std::io::Write;
use std::path::Path;

use flate2::Compression;
use flate2::write::{DeflateEncoder, GzEncoder};
use hermes_agent::tools::{Ports, Toolbox};
use hermes_agent::{AgentRuntime, TurnOutcome, openai::OpenAi};
use serde_json::Value;

use crate::endpoint::{Endpoint, Reply, Step};
use crate::{config, turn};

struct Shape {
    name: String,
    head: Vec<(String, String)>,
    body: Vec<u8>,
}

impl Shape {
    fn read(path: &Path) -> Self {
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        let text = std::fs::read_to_string(path).unwrap();
        let (head, body) = text.split_once("\n---\n").unwrap();
        let head = head.lines().map(|line| line.split_once(": ").unwrap());
        let head: Vec<_> = head.map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
        let mut shape = Self { name, head, body: Vec::new() };
        let body = if shape.get("endings") == Some("crlf") { body.replace('\n', "\r\n") } else { body.to_owned() };
        let body = if shape.get("bom").is_some() { format!("\u{feff}{body}") } else { body };
        shape.body = encoded(body.as_bytes(), shape.get("encoding").unwrap_or_default());
        shape
    }

    fn get(&self, key: &str) -> Option<&str> {
        self.head.iter().find(|(name, _)| name == key).map(|(_, value)| value.as_str())
    }

    fn calls(&self) -> Vec<(String, String)> {
        let calls = self.head.iter().filter(|(name, _)| name == "call");
        let split = |(_, call): &(String, String)| {
            let (name, arguments) = call.split_once(' ').unwrap();
            (name.to_owned(), arguments.to_owned())
        };
        calls.map(split).collect()
    }

    /// Returns the reply, written in blocks of `size` bytes.
    fn reply(&self, size: usize) -> Reply {
        let mut reply = Reply::new(200, self.get("type").unwrap_or("text/event-stream"), "");
        if let Some(encoding) = self.get("encoding").filter(|encoding| *encoding != "gzip-silent") {
            reply = reply.header("content-encoding", encoding);
        }
        reply.steps = self.body.chunks(size).map(|piece| Step::Bytes(piece.to_vec())).collect();
        reply
    }
}

fn encoded(body: &[u8], encoding: &str) -> Vec<u8> {
    match encoding {
        "gzip" | "gzip-silent" => {
            let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
            encoder.write_all(body).unwrap();
            encoder.finish().unwrap()
        }
        "deflate" => {
            let mut encoder = DeflateEncoder::new(Vec::new(), Compression::best());
            encoder.write_all(body).unwrap();
            encoder.finish().unwrap()
        }
        // One uncompressed block, then the empty last block.
        "br" => {
            let header = (body.len() - 1) << 4 | 1 << 20;
            let header = [header as u8, (header >> 8) as u8, (header >> 16) as u8];
            [header.as_slice(), body, &[3]].concat()
        }
        // A frame with its size in two bytes, and one uncompressed block.
        "zstd" => {
            let size = u16::try_from(body.len() - 256).unwrap().to_le_bytes();
            let block = ((body.len() as u32) << 3 | 1).to_le_bytes();
            [b"\x28\xb5\x2f\xfd\x60".as_slice(), &size, &block[..3], body].concat()
        }
        _ => body.to_vec(),
    }
}

fn runtime(endpoint: &Endpoint) -> OpenAi {
    let mut config = config(&endpoint.base_url);
    config.tools = vec!["todo".to_owned()];
    OpenAi::new(&config, Toolbox::new(&config, Ports::default())).unwrap()
}

async fn check(shape: &Shape, size: usize) {
    let name = format!("{} in writes of {size}", shape.name);
    let reply = shape.reply(size);
    let calls = shape.calls();
    let replies = match (shape.get("fails"), calls.is_empty()) {
        // An error before any output is retried.
        (Some(_), _) => vec![reply; 4],
        (None, true) => vec![reply],
        (None, false) => vec![reply, Reply::good("done")],
    };
    let endpoint = Endpoint::new(replies).await;
    let runtime: &dyn AgentRuntime = &runtime(&endpoint);
    let (outcome, chunks) = turn(runtime).await;
    if let Some(kind) = shape.get("fails") {
        let TurnOutcome::Failed(failure) = outcome else { panic!("{name}: {outcome:?}") };
        assert_eq!(failure.kind, kind, "{name}: {failure:?}");
        return;
    }
    let TurnOutcome::Finished { text, messages, usage, finish_reason, .. } = outcome else {
        panic!("{name}: {outcome:?}")
    };
    let json = |key: &str| shape.get(key).map(|value| serde_json::from_str::<String>(value).unwrap());
    if let Some(expected) = json("text") {
        assert_eq!(text, expected, "{name}");
        assert_eq!(chunks.concat(), expected, "{name}: what was streamed");
    }
    assert_eq!(messages[0].reasoning, json("reasoning"), "{name}");
    assert_eq!(finish_reason, shape.get("finish").unwrap_or("stop"), "{name}");
    if let Some(tokens) = shape.get("usage") {
        assert_eq!(format!("{} {}", usage.input_tokens, usage.output_tokens), tokens, "{name}");
    }
    if !calls.is_empty() {
        let sent = endpoint.seen()[1].body["messages"][1]["tool_calls"].clone();
        let of = |call: &Value| {
            let text = |value: &Value| value.as_str().unwrap().to_owned();
            (text(&call["function"]["name"]), text(&call["function"]["arguments"]))
        };
        assert_eq!(sent.as_array().unwrap().iter().map(of).collect::<Vec<_>>(), calls, "{name}");
    }
}

#[tokio::test]
async fn every_recorded_shape_is_read() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/openai/shapes");
    let mut paths: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    assert!(paths.len() >= 60, "{}", paths.len());
    let shapes: Vec<Shape> = paths.iter().map(|path| Shape::read(path)).collect();
    let checks = shapes.iter().flat_map(|shape| [check(shape, usize::MAX), check(shape, 11)]);
    futures_util::future::join_all(checks).await;
}
