//! Checks that every staged case can fail, with an adapter and platform that have one fault.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use hermes_protocol::{
    Attachment, AttachmentKind, Chat, ChatType, ConnectError, EVENT_RAW_BYTES_MAX, Event, EventKind, FetchCall,
    HandoffThreadCall, Outgoing, SendOutcome, Sender, WaitScope, host_method, method,
};
use serde_json::{Value, json};

use crate::stage::{Stage, StageError};
use crate::{
    Answer, Certified, HostCall, Outcome, RUN_ENDED, STAGED_CASES, Subject, Verdict, run_staged, without_stage,
};

const TOKEN: &str = "secret-token";

#[derive(Default)]
struct World {
    /// The fault of the adapter.
    fault: &'static str,
    calls: VecDeque<HostCall>,
    events: Vec<Event>,
    written: Vec<String>,
    threads: Vec<String>,
    kind: String,
}

impl World {
    fn tells(&mut self, method: &str, payload: &Value) {
        self.calls.push_back(HostCall { method: method.to_owned(), payload: payload.to_string().into_bytes() });
    }

    fn emits(&mut self, event: &Event) {
        self.tells(host_method::EMIT, &json!(event));
    }

    fn inbound(&mut self, said: &Value) -> Value {
        if let Some(id) = said["again"].as_u64() {
            let mut event = self.events[usize::try_from(id).unwrap()].clone();
            if self.fault == "ids" {
                event.event_id.push_str("-again");
            }
            self.emits(&event);
            return json!({});
        }
        let own = said["own"] == true;
        if own && self.fault != "echo" {
            return json!({});
        }
        let from = said["from"].to_string();
        let mut chat = match said["chat"].as_str() {
            Some("dm") => Chat::dm(&*from),
            Some(_) => Chat::new(ChatType::Group, "g"),
            None => serde_json::from_value(said["chat"].clone()).unwrap(),
        };
        if self.fault == "descriptor" && chat.thread.is_some() {
            chat.kind = ChatType::Group;
        }
        if self.fault == "senders" && chat.thread.is_some() {
            chat.thread = Some(from.clone());
        }
        let sender = Sender::new(&*from).bot(said["bot"] == true && self.fault != "bots");
        let text = said["text"].as_str().unwrap();
        let mut event = Event::message(format!("m:{}", self.events.len()), chat, sender, text);
        if let Some(bytes) = said["file"]["text"].as_str() {
            event.attachments = vec![Attachment::away(bytes, AttachmentKind::File, "text/plain", "x", 0)];
        }
        match self.fault {
            "nameless" => event.event_id.clear(),
            "pressed" => event.kind = EventKind::Choice,
            "edited" => event.kind = EventKind::Edited,
            "before 1970" => event.at_ms = -5,
            "placeless" => event.chat.id.clear(),
            "raw" => event.raw = Value::String("x".repeat(EVENT_RAW_BYTES_MAX)),
            _ => {}
        }
        self.events.push(event.clone());
        if self.kind == "cut" || self.kind == "malformed" {
            self.kind.clear();
            self.tells(RUN_ENDED, &json!(ConnectError::retry("cut")));
        }
        if self.fault == "twice" {
            self.emits(&Event::message("more", Chat::dm("1"), Sender::new("1"), "more"));
        }
        self.emits(&event);
        json!({ "id": self.events.len() - 1 })
    }

    fn breaks(&mut self, kind: &str) {
        self.kind = kind.to_owned();
        match kind {
            "silence" => self.tells(RUN_ENDED, &json!(ConnectError::retry("silent"))),
            "expired" => self.tells(RUN_ENDED, &self.refusal()),
            _ => {}
        }
    }

    fn refusal(&self) -> Value {
        let mend = if self.fault == "mend" { "" } else { "get another token" };
        json!(ConnectError::fatal("the token is not accepted", mend))
    }

    fn sends(&mut self, outgoing: &Outgoing) -> SendOutcome {
        match &*std::mem::take(&mut self.kind) {
            "429" if self.fault == "wait" => return SendOutcome::not_sent(None, WaitScope::Chat, ""),
            "429" => return SendOutcome::not_sent(Some(7_000), WaitScope::Chat, ""),
            "5xx" if self.fault == "broken" => return SendOutcome::delivered("1", 0),
            "5xx" => return SendOutcome::unknown(""),
            "file" if self.fault == "lost" => {
                return SendOutcome::refused(hermes_protocol::RefusalKind::Invalid, "missing_scope");
            }
            "file" if self.fault == "mute" => {
                self.written.push(outgoing.text.clone());
                return SendOutcome::delivered("1", 0);
            }
            "file" => {
                self.written.push(format!("{} (Not attached: {})", outgoing.text, outgoing.media[0].name));
                return SendOutcome::delivered("1", 0);
            }
            _ => {}
        }
        let units = outgoing.text.encode_utf16().count();
        match self.fault {
            "cuts" => self.written.push(outgoing.text.chars().take(3).collect()),
            "splits" if units > 10 => self.written.extend(["one".to_owned(), "two".to_owned()]),
            _ if units > 10 => return SendOutcome::refused(hermes_protocol::RefusalKind::TooLong, ""),
            _ => self.written.push(outgoing.text.clone()),
        }
        SendOutcome::delivered("1", 0)
    }
}

#[derive(Clone, Default)]
struct Fake(Arc<Mutex<World>>);

impl Stage for Fake {
    fn tell(&mut self, line: &Value) -> Result<Value, StageError> {
        let mut world = self.0.lock().unwrap();
        if !line["inbound"].is_null() {
            return Ok(world.inbound(&line["inbound"]));
        }
        if let Some(kind) = line["fault"]["kind"].as_str() {
            world.breaks(kind);
            return Ok(json!({}));
        }
        Ok(json!({ "journal": world.written.iter().map(|text| json!({ "text": text })).collect::<Vec<_>>() }))
    }
}

impl Subject for Fake {
    fn manifest(&self) -> Vec<u8> {
        let capabilities = json!({
            "create_handoff_thread": true, "fetch": true, "media": { "out": true }, "resolve_target": true, "liveness": { "interval_s": 1 },
            "text": { "limit": 10, "unit": "utf16", "dialect": "plain" },
        });
        let manifest = json!({
            "schema": 1, "id": "x", "label": "X", "version": "1.0.0", "sdk": "1.0.0", "abi": 1, "capabilities": capabilities,
        });
        manifest.to_string().into_bytes()
    }

    async fn call(&mut self, method: &str, payload: &[u8], _: Duration) -> Answer {
        let mut world = self.0.lock().unwrap();
        let answer = |status: i32, payload: Value| Answer::new(status, payload.to_string().into_bytes());
        match method {
            method::CONNECT if world.kind == "expired" => answer(1, world.refusal()),
            method::CONNECT if world.fault == "connect" => answer(1, json!(ConnectError::retry("never"))),
            method::CONNECT => answer(0, json!({})),
            method::SEND if world.kind == "silence" && world.fault == "cancel" => Answer::never(),
            method::SEND if world.kind == "silence" => answer(5, json!({})),
            method::FETCH => {
                let FetchCall { file, .. } = serde_json::from_slice(payload).unwrap();
                let bytes = file.fetch.clone().unwrap_or_default();
                match world.fault {
                    "gone" => answer(1, json!(hermes_protocol::CallError::new("not_found", "gone"))),
                    _ if bytes == "nobody knows this" => answer(0, json!(file.not_fetched("gone"))),
                    "bytes" => answer(0, json!(file.fetched("f", 1))),
                    _ => answer(0, json!(file.fetched("f", bytes.len() as u64))),
                }
            }
            method::RESOLVE_TARGET => {
                let asked: Value = serde_json::from_slice(payload).unwrap();
                let read = match (asked["target"].as_str().unwrap(), world.fault) {
                    (_, "unread") => None,
                    ("@1", "person") => Some(Chat::dm("D1")),
                    ("g", "kinds") => Some(Chat::new(ChatType::Channel, "g")),
                    ("g", _) => Some(Chat::new(ChatType::Group, "g")),
                    ("1" | "@1", _) => Some(Chat::dm("1")),
                    _ => None,
                };
                answer(0, json!(read))
            }
            method::SEND => answer(0, json!(world.sends(&serde_json::from_slice(payload).unwrap()))),
            _ => {
                let call: HandoffThreadCall = serde_json::from_slice(payload).unwrap();
                let key =
                    if world.fault == "threads" { format!("{}{}", call.key, world.threads.len()) } else { call.key };
                world.threads.push(key.clone());
                if world.fault == "secret" {
                    world.tells(crate::LOG, &json!({ "fields": { "message": format!("POST /bot{TOKEN}/topic") } }));
                }
                let id = if world.fault == "parent" { "elsewhere".to_owned() } else { call.chat.id };
                answer(0, json!(Chat::new(ChatType::Thread, id).in_thread(key)))
            }
        }
    }

    async fn next_host_call(&mut self, _: Duration) -> Option<HostCall> {
        self.0.lock().unwrap().calls.pop_front()
    }

    fn media_dir(&self) -> Option<std::path::PathBuf> {
        let folder = std::env::temp_dir().join(format!("conformance-{}", std::process::id()));
        std::fs::create_dir_all(&folder).ok()?;
        Some(folder)
    }

    async fn shutdown(&mut self, _: Duration) -> Answer {
        let status = if self.0.lock().unwrap().fault == "shutdown" { 4 } else { 0 };
        Answer::new(status, Vec::new())
    }
}

/// Runs the cases to their end in one poll; this subject never waits.
fn outcomes(fault: &'static str) -> Vec<Outcome> {
    let mut fake = Fake::default();
    fake.0.lock().unwrap().fault = fault;
    let (mut stage, secrets) = (fake.clone(), [TOKEN.to_owned()]);
    let mut future = pin!(run_staged(&mut fake, &mut stage, &secrets));
    match future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(outcomes) => outcomes,
        Poll::Pending => panic!("this subject never waits"),
    }
}

fn failed(outcomes: &[Outcome]) -> Vec<&'static str> {
    outcomes.iter().filter(|outcome| outcome.failed()).map(|outcome| outcome.case.id).collect()
}

#[test]
fn an_adapter_without_a_fault_is_certified() {
    let outcomes = outcomes("");
    assert_eq!(failed(&outcomes), [""; 0], "{outcomes:?}");
    assert!(outcomes.iter().all(|outcome| outcome.verdict == Verdict::Passed), "{outcomes:?}");
    assert_eq!(Certified::of(&outcomes).to_string(), "certified");
}

#[test]
fn each_fault_fails_the_case_that_is_about_it() {
    for (fault, case) in [
        ("connect", "connects"),
        ("twice", "inbound-is-one-event"),
        ("nameless", "inbound-is-one-event"),
        ("pressed", "inbound-is-one-event"),
        ("edited", "inbound-is-one-event"),
        ("before 1970", "inbound-is-one-event"),
        ("placeless", "inbound-is-one-event"),
        ("raw", "inbound-is-one-event"),
        ("ids", "repeated-inbound-is-one-event-id"),
        ("echo", "own-echo-is-no-event"),
        ("bots", "bots-are-marked"),
        ("bytes", "file-comes-when-asked-for"),
        ("gone", "file-that-is-gone-is-told"),
        ("lost", "refused-file-keeps-its-text"),
        ("mute", "refused-file-keeps-its-text"),
        ("descriptor", "handoff-thread-is-its-messages-chat"),
        ("senders", "handoff-thread-is-shared"),
        ("threads", "handoff-key-opens-one-thread"),
        ("kinds", "named-chat-is-its-messages-chat"),
        ("person", "named-chat-is-its-messages-chat"),
        ("parent", "named-chat-is-its-messages-chat"),
        ("cuts", "text-at-the-limit-arrives-whole"),
        ("splits", "text-beyond-the-limit-is-not-split"),
        ("wait", "flood-wait-is-told"),
        ("broken", "broken-server-is-not-delivered"),
        ("cancel", "call-without-answer-is-cancelled"),
        ("mend", "expired-credential-is-fatal"),
        ("secret", "nothing-tells-a-secret"),
        ("shutdown", "shutdown-while-connected"),
    ] {
        let outcomes = outcomes(fault);
        assert!(failed(&outcomes).contains(&case), "{fault}: {:?}", failed(&outcomes));
        assert_eq!(outcomes.len(), STAGED_CASES.len());
        assert_eq!(Certified::of(&outcomes), Certified::No);
    }
}

#[test]
fn what_reads_no_chat_of_the_stage_is_not_asked_how_it_names_them() {
    let outcomes = outcomes("unread");
    let named = outcomes.iter().find(|outcome| outcome.case.id == "named-chat-is-its-messages-chat").unwrap();
    assert!(matches!(named.verdict, Verdict::Skipped(_)), "{named:?}");
    assert_eq!(failed(&outcomes), [""; 0]);
}

#[test]
fn without_a_stage_the_contract_is_all_that_is_certified() {
    let outcomes = without_stage();
    assert_eq!(outcomes.len(), STAGED_CASES.len());
    assert!(outcomes[0].to_string().starts_with("skipped  connects: no stage"), "{}", outcomes[0]);
    assert_eq!(Certified::of(&outcomes).to_string(), "certified: contract only");
}
