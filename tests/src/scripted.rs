//! The test's end of the scripted adapter: messages of people, answers of the platform, and its observations.

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

use crate::world::DEADLINE_S_MIN;

/// A platform controlled by the test.
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
    /// All messages of the adapter, over all its runs.
    seen: Vec<Value>,
    pings: u64,
    /// Connection to the current run of the adapter.
    line: Option<UnixStream>,
    /// Commands sent to every further run before all others.
    greetings: Vec<Value>,
    lives: u64,
}

impl Scripted {
    /// Listens at `path` for the runs of the adapter, one after the other.
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
                        // A run that has already ended is followed by the next one.
                        let _ = writeln!(stream, "{what}");
                    }
                    // The adapter may connect from here on, because it has received all instructions for the
                    // host's first calls.
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

    /// Returns the path of the socket, for the adapter's configuration.
    pub fn path(&self) -> &PathBuf {
        &self.shared.path
    }

    /// Returns the number of runs of the adapter so far.
    pub fn lives(&self) -> u64 {
        self.shared.state.lock().expect("no test holds the lock while failing").lives
    }

    /// Sends a command to every run that begins from now on, before all others.
    pub fn greet(&self, what: Value) {
        self.shared.state.lock().expect("no test holds the lock while failing").greetings.push(what);
    }

    /// Clears the commands for new runs.
    pub fn forget_greetings(&self) {
        self.shared.state.lock().expect("no test holds the lock while failing").greetings.clear();
    }

    /// Sends a command to the adapter. A command that changes its script was taken when this returns.
    pub fn tell(&self, what: Value) {
        const SCRIPT: [&str; 8] =
            ["outcome", "answer", "panic_in", "hang_in", "abort_in", "abort_on", "calm", "connect_error"];
        let is_script = SCRIPT.iter().any(|command| what["do"] == *command);
        let ping = {
            let mut state = self.shared.state.lock().expect("no test holds the lock while failing");
            state.pings += 1;
            let ping = state.pings;
            let line = state.line.as_mut().expect("the adapter is connected");
            writeln!(line, "{what}").expect("the adapter listens");
            if is_script {
                writeln!(line, "{}", json!({ "do": "ping", "n": ping })).expect("the adapter listens");
            }
            ping
        };
        if is_script {
            self.wait("the command is taken", 20, |seen| seen.iter().any(|said| said["pong"] == ping).then_some(()));
        }
    }

    /// Sends a command like [`Scripted::tell`] while the adapter may be dead. Returns true if it was sent.
    pub fn try_tell(&self, what: &Value) -> bool {
        let mut state = self.shared.state.lock().expect("no test holds the lock while failing");
        state.line.as_mut().is_some_and(|line| writeln!(line, "{what}").is_ok())
    }

    /// Returns all messages of the adapter so far.
    pub fn seen(&self) -> Vec<Value> {
        self.shared.state.lock().expect("no test holds the lock while failing").seen.clone()
    }

    /// Waits until `check` finds a result in the messages of the adapter.
    pub fn wait<T>(&self, what: &str, seconds: u64, check: impl Fn(&[Value]) -> Option<T>) -> T {
        let seconds = seconds.max(DEADLINE_S_MIN);
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

    /// Waits for the run of the adapter with this number, from 1.
    pub fn wait_life(&self, number: u64) {
        let deadline = Instant::now() + Duration::from_secs(DEADLINE_S_MIN);
        let mut state = self.shared.state.lock().expect("no test holds the lock while failing");
        while state.lives < number {
            let left = deadline.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "the adapter had {} lives, not {number}", state.lives);
            state = self.shared.changed.wait_timeout(state, left).expect("no test holds the lock while failing").0;
        }
    }

    /// Returns the direct chat with the person of this id.
    pub fn chat(&self, id: &str) -> Chat {
        Chat { scripted: self.clone(), chat: json!({ "type": "dm", "id": id }), sender: id.to_owned() }
    }

    /// Returns a group in which the person `sender` writes.
    pub fn group(&self, id: &str, sender: &str) -> Chat {
        Chat { scripted: self.clone(), chat: json!({ "type": "group", "id": id }), sender: sender.to_owned() }
    }

    /// Sets the outcome of the next sends.
    pub fn answers(&self, outcome: Value, times: u32) {
        self.tell(json!({ "do": "outcome", "for": "send", "outcome": outcome, "times": times }));
    }

    /// Returns all parts that reached the platform, in order, with their chat.
    pub fn sent(&self) -> Vec<Value> {
        self.seen().into_iter().filter(|said| said["saw"] == "send").map(|said| said["outgoing"].clone()).collect()
    }
}

/// A chat, from the point of view of one person in it.
#[derive(Clone)]
pub struct Chat {
    scripted: Scripted,
    chat: Value,
    sender: String,
}

impl Chat {
    /// Returns the same chat in a thread.
    pub fn thread(mut self, thread: &str) -> Self {
        self.chat["thread"] = json!(thread);
        self
    }

    /// Sends a message. Returns the id of its event.
    pub fn says(&self, text: &str) -> String {
        let event = self.event(text);
        let id = event["event_id"].as_str().expect("an event has an id").to_owned();
        self.scripted.tell(json!({ "do": "inbound", "event": event }));
        id
    }

    /// Returns the event of a message without sending it.
    pub fn event(&self, text: &str) -> Value {
        let number = self.scripted.shared.next.fetch_add(1, Ordering::Relaxed);
        json!({
            "type": "message", "event_id": format!("m:{}:{number}", self.chat["id"].as_str().unwrap_or_default()),
            "at_ms": now_ms(), "addressed": { "mention": self.chat["type"] != "dm" }, "chat": self.chat, "sender": { "id": self.sender }, "message_id": number.to_string(), "text": text,
        })
    }

    /// Returns the texts that the platform received for this chat, in order.
    pub fn received(&self) -> Vec<String> {
        texts(&self.scripted.seen(), &self.chat)
    }

    /// Waits until the platform has received `count` texts for this chat.
    pub fn hears(&self, count: usize) -> Vec<String> {
        let what = format!("{count} texts in {}", self.chat);
        self.scripted.wait(&what, 30, |seen| Some(texts(seen, &self.chat)).filter(|texts| texts.len() >= count))
    }
}

/// Returns the time of the machine, which also determines the times of receipts.
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
