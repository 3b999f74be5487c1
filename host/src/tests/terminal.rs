//! Terminals over their link: frames in and frames out, without a user.

use hermes_adapter_abi::status;
use hermes_core::ids::SessionId;
use hermes_protocol::{Chat, ChoiceMade, Event, EventKind, SendOutcome, Sender};
use serde_json::{Value, json};
use tokio::io::{AsyncWriteExt, DuplexStream, ReadHalf, WriteHalf, split};

use super::world::World;
use crate::engine::background::wakeups;
use crate::engine::background::wakeups::Wake;
use hermes_loader::frame;
use hermes_loader::frame::{Frame, FrameKind};
use hermes_loader::terminal::{INSTANCE, SEATS_MAX, Seat, SeatFor};
use hermes_store::{DeliveryFilter, DeliveryState, OwedDelivery};

#[test]
fn what_is_said_in_a_terminal_is_answered_there_with_its_stream() {
    let world = World::new();
    let mut terminal = Terminal::attach(&world, SeatFor::Conversation);
    let inbox = terminal.says("hello there");
    let answer = terminal.delivered(inbox);
    assert_eq!(answer["text"], "hello there");
    terminal.wait("the end of the turn", |seen| seen.event(inbox, "done").is_some());
    let events: Vec<&Value> = terminal.seen.iter().filter(|seen| seen["inbox_id"] == inbox).collect();
    let seqs: Vec<u64> = events.iter().filter_map(|event| event["seq"].as_u64()).collect();
    assert_eq!(seqs, (1..=seqs.len() as u64).collect::<Vec<_>>());
    assert_eq!(events[0]["event"]["type"], "metadata");
    let said: String = events.iter().filter_map(|event| event["event"]["text"].as_str()).collect();
    assert_eq!(said, "hello there", "the chunks are the answer");
}

#[test]
fn whoever_sits_at_a_terminal_is_the_operator_whatever_its_frames_say() {
    let world = World::new();
    let mut terminal = Terminal::attach(&world, SeatFor::Conversation);
    let stranger = Sender::new("mallory").with_role("nobody");
    let event = Event::message("m:7:1", Chat::dm("7"), stranger, "/whoami").with_message_id("a-1");
    let inbox = terminal.emits(&event);
    let answer = terminal.delivered(inbox)["text"].to_string();
    assert!(answer.contains("operator") && answer.contains("agent:main:terminal:dm:1"), "{answer}");
    let refused = terminal.asks("kv.get", json!({ "key": "x" }));
    assert_eq!(refused.0, status::ERR, "{}", refused.1);
    let refused = terminal.asks("emit", json!({ "type": "member" }));
    assert_eq!(refused.1["code"], "invalid");
    let sessions = terminal.asks("sessions.list", json!({ "sender": { "id": "mallory" } }));
    assert_eq!(sessions.0, status::OK, "asked as the operator");
}

#[test]
fn what_is_said_again_at_another_seat_is_heard_once() {
    let world = World::new();
    let (mut one, mut other) =
        (Terminal::attach(&world, SeatFor::Conversation), Terminal::attach(&world, SeatFor::Conversation));
    let event = Event::message("x", Chat::dm("x"), Sender::default(), "hello").with_message_id("a-1");
    let inbox = one.emits(&event);
    let again = other.asks("emit", serde_json::to_value(&event).unwrap());
    assert_eq!(again.1["duplicate_of"], inbox, "{}", again.1);
}

#[test]
fn an_answer_waits_until_somebody_sits_at_the_terminal_again() {
    let world = World::new();
    let mut terminal = Terminal::attach(&world, SeatFor::Conversation);
    terminal.says("/slow 20 one two");
    drop(terminal);
    let owed = world.until("the answer is owed", || owed(&world));
    assert_eq!(owed.parts[0].facts.attempts, 0, "nobody tries what nobody takes");
    let mut again = Terminal::attach(&world, SeatFor::Conversation);
    again.wait("the answer", |seen| seen.send("one two").is_some());
    world.until("it is delivered", || owed_count(&world, DeliveryState::Settled).filter(|count| *count == 1));
}

#[test]
fn what_wakes_the_conversation_of_an_empty_seat_is_answered_to_whoever_sits_down_there() {
    let world = World::new();
    let mut terminal = Terminal::attach(&world, SeatFor::Conversation);
    let inbox = terminal.says("hello");
    terminal.delivered(inbox);
    world.settled();
    let listed = terminal.asks("sessions.list", json!({ "sender": { "id": "operator" } })).1;
    let session = SessionId(listed[0]["id"].as_str().unwrap().to_owned());
    drop(terminal);
    world.until("the seat is free", || sit(&world, Some("1")).ok().map(drop));
    let wake = Wake {
        id: "p1:1".to_owned(),
        session,
        instance: INSTANCE.to_owned(),
        chat: Chat::dm("1"),
        sender: None,
        text: "p1 has ended".to_owned(),
    };
    assert!(world.block_on(wakeups::wake(world.host(), wake)).unwrap());
    let owed = world.until("its answer is owed", || owed(&world));
    assert_eq!(owed.parts[0].facts.attempts, 0, "nobody tries what nobody takes");
    let mut again = Terminal::attach(&world, SeatFor::Conversation);
    let tells = |seen: &Value| seen["text"].as_str().is_some_and(|text| text.contains("p1 has ended"));
    again.wait("the news", |seen| seen.iter().any(tells));
}

#[test]
fn a_turn_of_the_conversation_before_does_not_grow_before_whoever_sits_down_next() {
    let world = World::new();
    let mut terminal = Terminal::attach(&world, SeatFor::Conversation);
    let inbox = terminal.says("/slow 20 one two three four");
    terminal.wait("its beginning", |seen| seen.event(inbox, "metadata").is_some());
    drop(terminal);
    world.until("the seat is free", || sit(&world, Some("1")).ok().map(drop));
    world.terminals().begins_anew("1");
    let mut next = Terminal::attach(&world, SeatFor::Conversation);
    next.delivered(inbox);
    assert!(next.seen.iter().all(|seen| seen["inbox_id"] != inbox), "only the answer, which says whose it is");
}

#[test]
fn an_answer_is_not_kept_for_whoever_wanted_only_one_and_left() {
    let world = World::new();
    let mut terminal = Terminal::attach(&world, SeatFor::OneAnswer);
    terminal.says("/slow 20 one two");
    drop(terminal);
    let given_up = world.until("it is given up", || first(&world, DeliveryState::Abandoned));
    let why = format!("{:?}", given_up.parts[0].state);
    assert!(why.contains("requester gone"), "{why}");
}

#[test]
fn nothing_runs_in_the_background_for_whoever_wants_only_one_answer() {
    let world = World::new();
    let mut once = Terminal::attach(&world, SeatFor::OneAnswer);
    let inbox = once.says("/background hello");
    once.wait("the refusal", |seen| seen.iter().any(|seen| seen["in_reply_to"] == inbox));
    let refusal = once.seen.iter().find(|seen| seen["in_reply_to"] == inbox).unwrap();
    assert!(refusal["text"].to_string().contains("this chat cannot receive messages later"), "{refusal}");
    assert_eq!(refusal["purpose"], "notice", "a script sees that it is no answer");
    let mut terminal = Terminal::attach(&world, SeatFor::Conversation);
    terminal.says("/background hello");
    let is_answer = |seen: &Value| seen["text"].as_str().is_some_and(|text| text.contains("hello"));
    terminal.wait("its answer", |seen| seen.iter().any(is_answer));
}

#[test]
fn a_question_is_answered_by_a_choice_of_the_terminal() {
    let world = World::new();
    let mut terminal = Terminal::attach(&world, SeatFor::Conversation);
    let inbox = terminal.says("/ask make coffee");
    terminal.wait("the question", |seen| seen.question().is_some());
    let question = terminal.question().unwrap();
    let choice = ChoiceMade::new(question["choices"]["ask"].as_str().unwrap(), "once");
    let mut event = Event::message("x", Chat::dm("1"), Sender::default(), "").with_message_id("c-1");
    (event.kind, event.choice) = (EventKind::Choice, Some(choice));
    terminal.emits(&event);
    assert_eq!(terminal.delivered(inbox)["text"], "approved: once");
}

#[test]
fn two_terminals_are_two_chats() {
    let world = World::new();
    let (mut one, mut other) =
        (Terminal::attach(&world, SeatFor::Conversation), Terminal::attach(&world, SeatFor::Conversation));
    let (first, second) = (one.says("in the first"), other.says("in the second"));
    assert_eq!(one.delivered(first)["text"], "in the first");
    assert_eq!(other.delivered(second)["text"], "in the second");
    assert!(one.seen.iter().all(|seen| seen["inbox_id"] != second), "nothing of the other is heard");
    let sessions = world.block_on(world.host().store.sessions(Default::default())).unwrap();
    assert_eq!(sessions.len(), 2);
    assert!(sessions.iter().all(|session| session.owner.as_deref() == Some("operator")));
}

#[test]
fn seats_are_bounded_and_free_again_when_their_terminals_leave() {
    let world = World::new();
    let mut seats: Vec<Seat> = (0..SEATS_MAX).map(|_| sit(&world, None).unwrap()).collect();
    let full = sit(&world, None).err().unwrap();
    assert!(full.contains("exit one and try again"), "{full}");
    let left = seats.remove(3).chat().to_owned();
    let taken = sit(&world, Some("1")).err().unwrap();
    assert!(taken.contains("open in another terminal"), "{taken}");
    assert_eq!(sit(&world, None).unwrap().chat(), left);
}

#[test]
fn a_terminal_whose_frames_do_not_add_up_loses_its_seat_and_nothing_else() {
    let world = World::new();
    let mut good = Terminal::attach(&world, SeatFor::Conversation);
    for hostile in [&b"GET / HTTP/1.1"[..], &[0xff; 32][..], &[15, 0, 0, 0, 1][..], &[0, 0, 0, 0][..]] {
        let mut bad = Terminal::attach(&world, SeatFor::Conversation);
        world.block_on(async {
            // The link may be closed by then.
            let _ = bad.writer.write_all(hostile).await;
            let _ = bad.writer.shutdown().await;
            while frame::read_async(&mut bad.reader).await.is_ok() {}
        });
        world.until("its seat is free", || sit(&world, Some("2")).ok().map(drop));
    }
    let strange = Frame { kind: FrameKind::Other(77), ..Frame::cancel(1) };
    good.writes(&strange);
    good.writes(&Frame::reply(99, 0, b"nobody asked".to_vec()));
    let inbox = good.says("still here");
    assert_eq!(good.delivered(inbox)["text"], "still here");
}

/// An open terminal, which accepts every frame.
pub(super) struct Terminal<'w> {
    world: &'w World,
    reader: ReadHalf<DuplexStream>,
    writer: WriteHalf<DuplexStream>,
    calls: u64,
    said: u64,
    /// The payloads of the host's calls, in order.
    pub(super) seen: Vec<Value>,
    replies: Vec<(u64, i32, Value)>,
}

/// Queries on the frames that a terminal has received.
trait Seen {
    fn event(&self, inbox: i64, kind: &str) -> Option<Value>;
    fn send(&self, text: &str) -> Option<Value>;
    fn question(&self) -> Option<Value>;
}

impl Seen for [Value] {
    fn event(&self, inbox: i64, kind: &str) -> Option<Value> {
        self.iter().find(|seen| seen["inbox_id"] == inbox && seen["event"]["type"] == kind).cloned()
    }

    fn send(&self, text: &str) -> Option<Value> {
        self.iter().find(|seen| seen["text"] == text).cloned()
    }

    fn question(&self) -> Option<Value> {
        self.iter().find(|seen| seen["choices"].is_object()).cloned()
    }
}

impl<'w> Terminal<'w> {
    pub(super) fn attach(world: &'w World, seat_for: SeatFor) -> Self {
        let seat = world.block_on(async { world.terminals().sit(seat_for, None, &[]) }).unwrap();
        let (ours, theirs) = tokio::io::duplex(1 << 20);
        let (reader, writer) = split(theirs);
        world.spawn(seat.run(reader, writer));
        let (reader, writer) = split(ours);
        Self { world, reader, writer, calls: 0, said: 0, seen: Vec::new(), replies: Vec::new() }
    }

    pub(super) fn says(&mut self, text: &str) -> i64 {
        self.said += 1;
        let event = Event::message("x", Chat::dm("x"), Sender::default(), text);
        // The ids of another terminal are different.
        let id = format!("{}-{}", getrandom::u32().unwrap(), self.said);
        self.emits(&event.with_message_id(id))
    }

    fn emits(&mut self, event: &Event) -> i64 {
        let (status, answer) = self.asks("emit", serde_json::to_value(event).unwrap());
        assert_eq!(status, status::OK, "{answer}");
        answer["inbox_id"].as_i64().unwrap()
    }

    pub(super) fn asks(&mut self, method: &str, payload: Value) -> (i32, Value) {
        self.calls += 1;
        let id = self.calls;
        self.writes(&Frame::call(id, method, payload.to_string().into_bytes()));
        loop {
            if let Some(at) = self.replies.iter().position(|(of, ..)| *of == id) {
                let (_, status, answer) = self.replies.remove(at);
                return (status, answer);
            }
            self.reads();
        }
    }

    pub(super) fn delivered(&mut self, inbox: i64) -> Value {
        let is_it = move |seen: &Value| seen["in_reply_to"] == inbox && seen["purpose"] == "reply";
        self.wait("an answer", |seen| seen.iter().any(is_it));
        self.seen.iter().find(|seen| is_it(seen)).cloned().unwrap()
    }

    fn question(&self) -> Option<Value> {
        self.seen.question()
    }

    pub(super) fn wait(&mut self, what: &str, is_seen: impl Fn(&[Value]) -> bool) {
        while !is_seen(&self.seen) {
            assert!(self.reads(), "the host let it go before {what}");
        }
    }

    /// Reads one frame and answers it; `false`: the host closed the link.
    fn reads(&mut self) -> bool {
        let Ok(frame) = self.world.block_on(frame::read_async(&mut self.reader)) else { return false };
        let payload = serde_json::from_slice(&frame.payload).unwrap_or(Value::Null);
        match frame.kind {
            FrameKind::Reply => self.replies.push((frame.id, frame.status, payload)),
            FrameKind::Call => {
                let answer = match frame.method.as_str() {
                    "send" => serde_json::to_vec(&SendOutcome::delivered("t", 1)).unwrap(),
                    _ => b"{}".to_vec(),
                };
                self.seen.push(payload);
                self.writes(&Frame::reply(frame.id, status::OK, answer));
            }
            _ => {}
        }
        true
    }

    fn writes(&mut self, frame: &Frame) {
        self.world.block_on(self.writer.write_all(&frame.encode())).unwrap();
    }
}

fn sit(world: &World, wanted: Option<&str>) -> Result<Seat, String> {
    world.terminals().sit(SeatFor::Conversation, wanted, &[])
}

fn first(world: &World, state: DeliveryState) -> Option<OwedDelivery> {
    let filter =
        DeliveryFilter { instance: Some(INSTANCE.to_owned()), state: Some(state), ..DeliveryFilter::default() };
    world.block_on(world.host().store.deliveries(filter)).unwrap().into_iter().next()
}

fn owed(world: &World) -> Option<OwedDelivery> {
    first(world, DeliveryState::Owed)
}

fn owed_count(world: &World, state: DeliveryState) -> Option<usize> {
    let filter =
        DeliveryFilter { instance: Some(INSTANCE.to_owned()), state: Some(state), ..DeliveryFilter::default() };
    Some(world.block_on(world.host().store.deliveries(filter)).unwrap().len())
}
