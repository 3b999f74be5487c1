//! Input from other programs: payloads, frames, control lines, event streams.

use std::{
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use hermes_adapter_net::sse::{SseEvent, SseParser};
use hermes_agent::{AgentConfig, EventSink, Message, RuntimeKind, Timeouts, TurnOutcome, TurnRequest};
use hermes_core::{
    context::TurnContext,
    ids::{SessionId, TurnId},
};
use hermes_host::engine::operator::{ControlReply, ControlRequest, Hello};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::ring::{Target, texts};

/// JSON of the wire, in pieces.
const JSON: &[&str] = &[
    "\"type\":",
    "\"message\"",
    "\"dm\"",
    "\"unheard_of\"",
    "null",
    "true",
    "{}",
    "[]",
    "[[[[[[[[",
    "{\"a\":",
    "\\ud800",
    "\\u0000",
    ",",
    ":",
    "\"text\":",
    "\"chat\":",
    "\"delivered\"",
];

fn golden() -> Vec<Vec<u8>> {
    let corpus = include_str!("../../../adapter-sdk/protocol/golden/1.0/corpus.json");
    let cases: Vec<Value> = serde_json::from_str(corpus).expect("the corpus is JSON");
    cases.iter().map(|case| case["json"].to_string().into_bytes()).collect()
}

/// Asserts that a value survives writing and reading.
fn again<T: DeserializeOwned + Serialize>(bytes: &[u8]) {
    let Ok(read) = serde_json::from_slice::<T>(bytes) else { return };
    // A word of a later version is read and never written.
    let Ok(written) = serde_json::to_vec(&read) else { return };
    let read: T = serde_json::from_slice(&written).expect("what was written can be read");
    let again = serde_json::to_value(&read).expect("it was written before");
    let written: Value = serde_json::from_slice(&written).expect("it was read before");
    assert!(same(&written, &again), "it changes each time: {written} became {again}");
}

/// Equal, but for the last places of a number with a fraction, which serde_json reads quickly, not exactly.
fn same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) if one.is_f64() && other.is_f64() => {
            let (one, other) = (one.as_f64().unwrap_or_default(), other.as_f64().unwrap_or_default());
            (one - other).abs() <= one.abs() * 1e-12
        }
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| same(one, other))
        }
        (Value::Object(one), Value::Object(other)) => {
            one.len() == other.len()
                && one.iter().all(|(key, one)| other.get(key).is_some_and(|other| same(one, other)))
        }
        (one, other) => one == other,
    }
}

/// Every payload of the ABI, as every type that there is.
pub fn payloads() -> Target {
    Target::new("payloads", golden(), JSON, |bytes| {
        again::<hermes_protocol::Announce>(bytes);
        again::<hermes_protocol::CallError>(bytes);
        again::<hermes_protocol::Capabilities>(bytes);
        again::<hermes_protocol::Chat>(bytes);
        again::<hermes_protocol::CommandsCall>(bytes);
        again::<hermes_protocol::ConnectError>(bytes);
        again::<hermes_protocol::DraftCall>(bytes);
        again::<hermes_protocol::EditCall>(bytes);
        again::<hermes_protocol::Emitted>(bytes);
        again::<hermes_protocol::Envelope>(bytes);
        again::<hermes_protocol::Event>(bytes);
        again::<hermes_protocol::HandoffThreadCall>(bytes);
        again::<hermes_protocol::LinkState>(bytes);
        again::<hermes_protocol::LookupCall>(bytes);
        again::<hermes_protocol::LookupReply>(bytes);
        again::<hermes_protocol::Manifest>(bytes);
        again::<hermes_protocol::MediaCreate>(bytes);
        again::<hermes_protocol::MediaSlot>(bytes);
        again::<hermes_protocol::Outgoing>(bytes);
        again::<hermes_protocol::ReactCall>(bytes);
        again::<hermes_protocol::RenderCall>(bytes);
        again::<hermes_protocol::RenderedPart>(bytes);
        again::<hermes_protocol::SendOutcome>(bytes);
        again::<hermes_protocol::SentMessage>(bytes);
        again::<hermes_protocol::TurnEventCall>(bytes);
        again::<hermes_protocol::TypingCall>(bytes);
    })
}

/// Frames between the host and an isolated adapter.
pub fn frames() -> Target {
    let frame = |kind: u8, method: &str, payload: &[u8]| {
        let rest =
            [&[kind][..], &7_u64.to_le_bytes(), &0_i32.to_le_bytes(), &(method.len() as u16).to_le_bytes()].concat();
        let rest = [&rest, method.as_bytes(), payload].concat();
        [&(rest.len() as u32).to_le_bytes()[..], &rest].concat()
    };
    let seeds = vec![frame(1, "send", b"{}"), frame(2, "", b"{\"a\":1}"), frame(5, "", b"{}"), frame(99, "later", b"")];
    Target::new("frames", seeds, &["send", "\u{0}\u{0}\u{0}\u{0}"], |bytes| {
        if let Some(frame) = hermes_loader::reread_frame(bytes) {
            assert!(bytes.starts_with(&frame), "a frame is written as it was read");
        }
    })
}

/// Lines over the control socket.
pub fn control() -> Target {
    let seeds = texts(&[
        r#"{"type":"hello","version":1,"program":"1.0.0"}"#,
        r#"{"type":"send","target":"scripted:7","text":"hello","file":"a.txt"}"#,
        r#"{"type":"status"}"#,
        r#"{"type":"adapter_enable","instance":"a"}"#,
        r#"{"type":"error","kind":"usage","message":"no"}"#,
    ]);
    Target::new("control", seeds, JSON, |bytes| {
        again::<Hello>(bytes);
        again::<ControlRequest>(bytes);
        again::<ControlReply>(bytes);
    })
}

/// The bound of the streams that are tried.
const EVENT_BYTES_MAX: usize = 512;

/// Server-sent events, in one piece and in many.
pub fn events() -> Target {
    let seeds = texts(&[
        "data: one\n\nevent: two\ndata: a\ndata: b\n\n",
        ": comment\r\nid: 3\r\nretry: 10\r\ndata: {\"a\":1}\r\n\r\n",
        "\u{feff}data:no space\rdata: cr\r\rdata: [DONE]\n\n",
    ]);
    Target::new("events", seeds, &["data:", "event: ", "\n\n", "\r\n", "\r", ":", "id", "\u{feff}"], |bytes| {
        let whole = parse(&[bytes]);
        // The first byte says where it is cut.
        let size = 1 + usize::from(bytes.first().copied().unwrap_or_default()) % 7;
        let pieces = parse(&bytes.chunks(size).collect::<Vec<_>>());
        assert_eq!(whole, pieces, "in pieces it says something else");
        for event in whole.unwrap_or_default() {
            assert!(event.data.len() <= EVENT_BYTES_MAX && event.event.len() <= EVENT_BYTES_MAX, "beyond its bound");
        }
    })
}

/// All events, or `None` when one is too long.
fn parse(pieces: &[&[u8]]) -> Option<Vec<SseEvent>> {
    let mut parser = SseParser::new(EVENT_BYTES_MAX);
    let mut events = Vec::new();
    for piece in pieces {
        events.extend(parser.feed(piece).ok()?);
    }
    events.extend(parser.finish().ok()?);
    Some(events)
}

/// The stream of a model endpoint.
pub fn completions() -> Target {
    let seeds = texts(&[
        "data: {\"choices\":[{\"delta\":{\"content\":\"hello <think>no</think> you\"}}]}\n\n\
         data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}],\"usage\":{\"total_tokens\":3}}\n\ndata: [DONE]\n\n",
        "data: {\"choices\":[{\"delta\":{\"reasoning_content\":\"hm\",\"tool_calls\":[{\"id\":\"1\"}]}}]}\n\n\
         data: {\"error\":{\"message\":\"overloaded\",\"code\":529}}\n\n",
        "data: {\"choices\":[{\"message\":{\"content\":[{\"type\":\"text\",\"text\":\"a\"}]},\"finish_reason\":\"length\"}]}\n\n",
    ]);
    const WORDS: &[&str] = &[
        "data: ",
        "\n\n",
        "[DONE]",
        "{\"choices\":[",
        "\"delta\":",
        "\"content\":",
        "<think>",
        "</think>",
        "</thi",
        "\"usage\":",
        "\"finish_reason\":\"stop\"",
        "\"error\":",
        "null",
        "\"choices\":{}",
    ];
    Target::opened("completions", seeds, WORDS, || {
        let endpoint = Endpoint::start();
        Box::new(move |bytes| match endpoint.answer(bytes) {
            TurnOutcome::Finished { text, .. } | TurnOutcome::Interrupted { text } => {
                assert!(text.len() <= 2 * 1024 * 1024, "beyond its bound");
            }
            TurnOutcome::Failed(failure) => {
                assert!(!failure.sentence.is_empty() && !failure.code.is_empty(), "a failure without words");
            }
        })
    })
}

/// An endpoint that streams what it is told, and the runtime that asks it.
struct Endpoint {
    body: Arc<Mutex<Vec<u8>>>,
    agent: Arc<dyn hermes_agent::AgentRuntime>,
    tokio: tokio::runtime::Runtime,
}

/// Something is said first, so that a failure is not tried again after a pause.
const SAID: &[u8] = b"data: {\"choices\":[{\"delta\":{\"content\":\"well\"}}]}\n\n";

impl Endpoint {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("there is a free port");
        let address = listener.local_addr().expect("it is bound");
        let body = Arc::new(Mutex::new(Vec::new()));
        let told = Arc::clone(&body);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let body = told.lock().unwrap_or_else(PoisonError::into_inner).clone();
                // A client that has heard enough closes early.
                let _ = serve(stream, &body);
            }
        });
        let config = AgentConfig {
            runtime: RuntimeKind::OpenAi,
            base_url: Some(format!("http://{address}/v1")),
            model: Some("m".to_owned()),
            timeouts: Timeouts {
                connect: Duration::from_secs(5),
                first_byte: Duration::from_secs(5),
                idle: Duration::from_secs(5),
            },
            ..AgentConfig::default()
        };
        let agent = hermes_agent::build(&config).expect("the configuration is good");
        let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime starts");
        Self { body, agent, tokio }
    }

    fn answer(&self, bytes: &[u8]) -> TurnOutcome {
        *self.body.lock().unwrap_or_else(PoisonError::into_inner) = [SAID, bytes].concat();
        let request = TurnRequest {
            session_id: SessionId("s".to_owned()),
            turn_id: TurnId(1),
            context: TurnContext::default(),
            system: String::new(),
            history: Vec::new(),
            input: vec![Message::user("hello")],
            media: None,
            model: None,
            reasoning: None,
            state: None,
            steps: Vec::new(),
            tools: true,
        };
        let (sink, mut reader) = EventSink::channel();
        self.tokio.block_on(async {
            let listen = async { while reader.recv().await.is_some() {} };
            tokio::join!(self.agent.run(request, sink, CancellationToken::new()), listen).0
        })
    }
}

fn serve(mut stream: TcpStream, body: &[u8]) -> std::io::Result<()> {
    let mut request = Vec::new();
    let mut chunk = [0; 4096];
    loop {
        let read = stream.read(&mut chunk)?;
        request.extend_from_slice(&chunk[..read]);
        // The request is JSON that ends with a brace, behind its head.
        let head = request.windows(4).any(|bytes| bytes == b"\r\n\r\n");
        if read == 0 || (head && request.ends_with(b"}")) {
            break;
        }
    }
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
    stream.write_all(head.as_bytes())?;
    stream.write_all(body)
}
