//! The other end of the scripted adapter: what people write, what the platform answers, what it saw.

use std::{
    io::{BufRead, BufReader, Write},
    os::unix::net::{UnixListener, UnixStream},
    path::PathBuf,
    sync::{
        Arc, Condvar, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use serde_json::{Value, json};

/// A platform that does what the test says.
#[derive(Clone)]
pub struct Scripted {
    shared: Arc<Shared>,
}

struct Shared {
    path: PathBuf,
    state: Mutex<State>,
    changed: Condvar,
    next: AtomicU64,
}

#[derive(Default)]
struct State {
    /// Everything the adapter said, over all of its lives.
    seen: Vec<Value>,
    /// The line to the adapter that lives now.
    line: Option<UnixStream>,
    /// What every further life is told before anything else.
    greetings: Vec<Value>,
    lives: u64,
}

impl Scripted {
    /// Listens at `path` for the adapter's lives, one after the other.
    pub fn listen(path: PathBuf) -> Self {
        let listener = UnixListener::bind(&path).expect("the socket is free");
        let scripted = Self {
            shared: Arc::new(Shared {
                path,
                state: Mutex::default(),
                changed: Condvar::new(),
                next: AtomicU64::new(1),
            }),
        };
        let shared = scripted.shared.clone();
        thread::spawn(move || {
            for stream in listener.incoming() {
                let Ok(mut stream) = stream else { return };
                let reader = stream.try_clone().expect("a socket can be shared");
                {
                    let mut state = shared.state.lock().expect("no test holds the lock while failing");
                    for what in &state.greetings {
                        // One that is gone already is followed by the next.
                        let _ = writeln!(stream, "{what}");
                    }
                    // From here on it may connect: whatever the host asks first, it has been told what to answer.
                    let _ = writeln!(stream, "{}", json!({ "do": "go" }));
                    state.line = Some(stream);
                    state.lives += 1;
                }
                shared.changed.notify_all();
                let shared = shared.clone();
                thread::spawn(move || {
                    for line in BufReader::new(reader).lines() {
                        let Ok(line) = line else { return };
                        let said = serde_json::from_str(&line).expect("the adapter speaks JSON");
                        shared.state.lock().expect("no test holds the lock while failing").seen.push(said);
                        shared.changed.notify_all();
                    }
                });
            }
        });
        scripted
    }

    /// The socket, for the adapter's configuration.
    pub fn path(&self) -> &PathBuf {
        &self.shared.path
    }

    /// How many lives the adapter has had.
    pub fn lives(&self) -> u64 {
        self.shared.state.lock().expect("no test holds the lock while failing").lives
    }

    /// Tells something to every life that begins from now on, before anything else.
    pub fn greet(&self, what: Value) {
        self.shared.state.lock().expect("no test holds the lock while failing").greetings.push(what);
    }

    /// Tells nothing to the lives that begin from now on.
    pub fn forget_greetings(&self) {
        self.shared.state.lock().expect("no test holds the lock while failing").greetings.clear();
    }

    /// Tells the adapter something.
    pub fn tell(&self, what: Value) {
        let mut state = self.shared.state.lock().expect("no test holds the lock while failing");
        let line = state.line.as_mut().expect("the adapter is connected");
        writeln!(line, "{what}").expect("the adapter listens");
    }

    /// As [`Scripted::tell`], for a moment at which the adapter may be dead; says whether it was told.
    pub fn try_tell(&self, what: &Value) -> bool {
        let mut state = self.shared.state.lock().expect("no test holds the lock while failing");
        state.line.as_mut().is_some_and(|line| writeln!(line, "{what}").is_ok())
    }

    /// Everything the adapter said so far.
    pub fn seen(&self) -> Vec<Value> {
        self.shared.state.lock().expect("no test holds the lock while failing").seen.clone()
    }

    /// Waits until `check` finds what it looks for in what the adapter said.
    pub fn wait<T>(&self, what: &str, seconds: u64, check: impl Fn(&[Value]) -> Option<T>) -> T {
        let deadline = Instant::now() + Duration::from_secs(seconds);
        let mut state = self.shared.state.lock().expect("no test holds the lock while failing");
        loop {
            if let Some(found) = check(&state.seen) {
                return found;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                let tail: Vec<String> = state.seen.iter().rev().take(12).rev().map(Value::to_string).collect();
                let seen = tail.join("\n");
                drop(state);
                panic!("not within {seconds} s: {what}; the last that was seen:\n{seen}");
            }
            state = self.shared.changed.wait_timeout(state, left).expect("no test holds the lock while failing").0;
        }
    }

    /// Waits for the adapter's first, second, … life.
    pub fn wait_life(&self, number: u64) {
        let deadline = Instant::now() + Duration::from_secs(30);
        let mut state = self.shared.state.lock().expect("no test holds the lock while failing");
        while state.lives < number {
            let left = deadline.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "the adapter had {} lives, not {number}", state.lives);
            state = self.shared.changed.wait_timeout(state, left).expect("no test holds the lock while failing").0;
        }
    }

    /// A direct message chat with the person of this id.
    pub fn chat(&self, id: &str) -> Chat {
        Chat { scripted: self.clone(), chat: json!({ "type": "dm", "id": id }), sender: id.to_owned() }
    }

    /// A group in which the person `sender` writes.
    pub fn group(&self, id: &str, sender: &str) -> Chat {
        Chat { scripted: self.clone(), chat: json!({ "type": "group", "id": id }), sender: sender.to_owned() }
    }

    /// What the next sends are answered.
    pub fn answers(&self, outcome: Value, times: u32) {
        self.tell(json!({ "do": "outcome", "for": "send", "outcome": outcome, "times": times }));
    }

    /// Every part that reached the platform, in order, with its chat.
    pub fn sent(&self) -> Vec<Value> {
        self.seen().into_iter().filter(|said| said["saw"] == "send").map(|said| said["outgoing"].clone()).collect()
    }
}

/// One chat, from the side of the person in it.
#[derive(Clone)]
pub struct Chat {
    scripted: Scripted,
    chat: Value,
    sender: String,
}

impl Chat {
    /// The same chat, in a thread.
    pub fn thread(mut self, thread: &str) -> Self {
        self.chat["thread"] = json!(thread);
        self
    }

    /// Says something; returns the event's id.
    pub fn says(&self, text: &str) -> String {
        let event = self.event(text);
        let id = event["event_id"].as_str().expect("an event has an id").to_owned();
        self.scripted.tell(json!({ "do": "inbound", "event": event }));
        id
    }

    /// The event of saying something, not yet said.
    pub fn event(&self, text: &str) -> Value {
        let number = self.scripted.shared.next.fetch_add(1, Ordering::Relaxed);
        json!({
            "type": "message", "event_id": format!("m:{}:{number}", self.chat["id"].as_str().unwrap_or_default()),
            "at_ms": now_ms(), "addressed": { "mention": self.chat["type"] != "dm" }, "chat": self.chat, "sender": { "id": self.sender }, "message_id": number.to_string(), "text": text,
        })
    }

    /// What the platform got for this chat, in order.
    pub fn received(&self) -> Vec<String> {
        texts(&self.scripted.seen(), &self.chat)
    }

    /// Waits until the platform got `count` texts for this chat.
    pub fn hears(&self, count: usize) -> Vec<String> {
        let what = format!("{count} texts in {}", self.chat);
        self.scripted.wait(&what, 30, |seen| Some(texts(seen, &self.chat)).filter(|texts| texts.len() >= count))
    }
}

/// The time of the machine, which receipts have theirs from.
fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

fn texts(seen: &[Value], chat: &Value) -> Vec<String> {
    seen.iter()
        .filter(|said| said["saw"] == "send")
        .map(|said| &said["outgoing"])
        .filter(|outgoing| ["type", "id", "thread"].iter().all(|key| outgoing["chat"][key] == chat[key]))
        .map(|outgoing| outgoing["text"].as_str().unwrap_or_default().to_owned())
        .collect()
}
