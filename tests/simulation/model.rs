//! The guarantees, in as few rules as possible.
//!
//! * A text is visible in the chat in which it was written, and in no other one.
//! * A text is visible once, or repeatedly with a mark, at most five times more.
//! * An unknown sender and a message that is not addressed to the agent get no answer.
//! * In the end each message is answered in the order of its conversation, or an operator can see the reason
//!   for the missing answer.
//! * Each message of a person is in the transcript once.

use std::{collections::BTreeMap, path::Path};

use rusqlite::{Connection, OpenFlags};
use serde_json::Value;

use crate::story::{Place, STRANGER};

/// Mark of a repeated text.
const REPEATED: &str = "(possibly repeated)";

/// Highest number of copies of one answer: the first, and five repeats after deaths of the host or the adapter.
const COPIES_MAX: usize = 6;

/// Mark of a text that was overtaken.
const DELAYED: &str = "(delayed)";

/// Highest number of answers to an unknown sender: the offer of a code, and one reminder.
const OFFERS_MAX: usize = 2;

/// A message of a person.
#[derive(Clone, Debug)]
pub struct Written {
    event_id: String,
    place: Place,
    who: String,
    text: String,
    token: String,
    /// True if the agent must answer.
    expected: bool,
}

impl Written {
    /// Creates a message as received by the platform.
    pub fn new(event: &Value, place: Place, who: &str, text: &str, token: &str, expected: bool) -> Self {
        let event_id = event["event_id"].as_str().expect("an event has an id").to_owned();
        Self { event_id, place, who: who.to_owned(), text: text.to_owned(), token: token.to_owned(), expected }
    }

    /// Returns true if the answer repeats the text, which the failing commands do not.
    fn is_echoed(&self) -> bool {
        !self.text.starts_with("/fail") && !self.text.starts_with("/panic")
    }

    /// Returns the conversation of the message, in which answers keep their order.
    fn conversation(&self) -> (Place, &str) {
        // All people share a thread; in other places each person has a separate conversation.
        (self.place, if self.place == Place::Thread { "" } else { &self.who })
    }

    fn is_here(&self, chat: &Value) -> bool {
        match self.place {
            Place::Dm => chat["type"] == "dm" && chat["id"] == self.who.as_str(),
            Place::Group => chat["id"] == "g" && chat["thread"].is_null(),
            // A missing thread is dropped, and the answer goes to the group.
            Place::Thread => chat["id"] == "g",
        }
    }
}

/// The model.
pub struct Model {
    written: Vec<Written>,
    /// Conversations in which a person ended a turn.
    stopped: Vec<(Place, String)>,
    interrupts: bool,
}

/// A text visible to a person.
struct Shown {
    chat: Value,
    text: String,
}

impl Model {
    /// Creates the model of a host that interrupts, or of one that queues.
    pub fn new(interrupts: bool) -> Self {
        Self { written: Vec::new(), stopped: Vec::new(), interrupts }
    }

    /// Records a message.
    pub fn wrote(&mut self, written: Written) {
        self.written.push(written);
    }

    /// Records a command.
    pub fn ordered(&mut self, order: &str, place: Place, who: &str) {
        if order != "/status" {
            self.stopped.push((place, who.to_owned()));
        }
    }

    /// Asserts the rules that apply at all times.
    pub fn glance(&self, seen: &[Value]) {
        let shown = shown(seen);
        for written in &self.written {
            let answers: Vec<&Shown> = shown.iter().filter(|shown| shown.text.contains(&written.token)).collect();
            if !written.expected {
                assert!(answers.is_empty(), "{written:?} was answered: {:?}", texts(&answers));
                continue;
            }
            let plain = answers.iter().filter(|shown| !shown.text.contains(REPEATED)).count();
            assert!(plain <= 1, "{written:?} is answered twice without a mark: {:?}", texts(&answers));
            let copies = answers.len();
            assert!(copies <= COPIES_MAX, "{written:?} is answered {copies} times: {:?}", texts(&answers));
            for answer in answers {
                assert!(written.is_here(&answer.chat), "{written:?} is answered in {}: {}", answer.chat, answer.text);
            }
        }
        let offers = shown.iter().filter(|shown| shown.chat["type"] == "dm" && shown.chat["id"] == STRANGER);
        assert!(offers.count() <= OFFERS_MAX, "a stranger is talked to");
    }

    /// Asserts the fate of all messages, once no delivery is pending.
    pub fn judge(&self, seen: &[Value], database: &Path) {
        self.glance(seen);
        let ledger = Ledger::open(database);
        ledger.is_whole();
        let shown = shown(seen);
        for written in self.written.iter().filter(|written| written.expected) {
            let fate = ledger.fate(&written.event_id);
            let is_shown = shown.iter().any(|shown| shown.text.contains(&written.token));
            assert!(
                is_shown || self.may_be_silent(written, &fate),
                "{written:?} is not answered, and nobody can see why: {fate:?}"
            );
            // A message taken by a turn is in the transcript, unless the turn failed as a whole.
            let kept = ledger.transcript(&written.token);
            let given_up = fate.turns.iter().any(|turn| turn == "failed") || fate.inbox == "dropped";
            assert!(kept == 1 || given_up && kept == 0, "{written:?} stands in the transcript {kept} times: {fate:?}");
        }
        self.in_order(seen, &shown);
    }

    fn may_be_silent(&self, written: &Written, fate: &Fate) -> bool {
        let stopped = || {
            self.stopped.iter().any(|(place, who)| (*place, who.as_str()) == (written.place, &*written.who))
                || written.place == Place::Thread && self.stopped.iter().any(|(place, _)| *place == Place::Thread)
        };
        fate.inbox == "dropped"
            || fate.given_up
            || fate.turns.iter().any(|turn| turn == "failed")
            || fate.turns.iter().any(|turn| turn == "interrupted") && (self.interrupts || stopped())
            || !written.is_echoed() && fate.delivered
    }

    /// Asserts that first copies keep the order in which the host accepted the messages.
    fn in_order(&self, seen: &[Value], shown: &[Shown]) {
        let mut conversations: BTreeMap<_, Vec<(i64, usize, &str)>> = BTreeMap::new();
        for written in self.written.iter().filter(|written| written.expected) {
            let Some(at) = shown.iter().position(|shown| shown.text.contains(&written.token)) else { continue };
            let Some(inbox) = inbox_of(seen, &written.event_id) else { continue };
            if !shown[at].text.contains(DELAYED) {
                conversations.entry(written.conversation()).or_default().push((inbox, at, &written.token));
            }
        }
        for (conversation, mut answers) in conversations {
            answers.sort_unstable();
            let in_order = answers.is_sorted_by_key(|(_, at, _)| *at);
            assert!(in_order, "{conversation:?} is answered out of order: {answers:?}");
        }
    }
}

/// Returns the row id of an event, as reported to the adapter.
fn inbox_of(seen: &[Value], event_id: &str) -> Option<i64> {
    let said = seen.iter().find(|said| said["emitted"].is_object() && said["event_id"] == event_id)?;
    said["emitted"]["inbox_id"].as_i64().or_else(|| said["emitted"]["duplicate_of"].as_i64())
}

fn texts<'a>(shown: &[&'a Shown]) -> Vec<&'a str> {
    shown.iter().map(|shown| shown.text.as_str()).collect()
}

/// Returns the texts that people may have seen: all sent texts, except those that the platform reported as
/// rejected, in the state of their last edit.
fn shown(seen: &[Value]) -> Vec<Shown> {
    let mut shown: Vec<(Option<String>, Shown)> = Vec::new();
    let mut open: BTreeMap<(String, u64), usize> = BTreeMap::new();
    let mut not_taken = Vec::new();
    for said in seen {
        let outgoing = &said["outgoing"];
        match said["saw"].as_str() {
            Some("send") => {
                let text = outgoing["text"].as_str().unwrap_or_default().to_owned();
                // A conversation is titled after its first words, and `/status` shows the title.
                if text.trim_start_matches(REPEATED).trim_start().starts_with("- Session: ") {
                    continue;
                }
                open.insert(part(outgoing), shown.len());
                shown.push((None, Shown { chat: outgoing["chat"].clone(), text }));
            }
            Some("sent") => {
                let Some(at) = open.remove(&part(said)) else { continue };
                match said["outcome"]["type"].as_str() {
                    Some("delivered") => {
                        let id = &said["outcome"]["receipt"]["message_ids"][0];
                        shown[at].0 = id.as_str().map(str::to_owned);
                    }
                    Some("not_sent" | "refused") => not_taken.push(at),
                    _ => {}
                }
            }
            Some("edit") => {
                let text = outgoing["text"].as_str().unwrap_or_default();
                let id = said["message"]["id"].as_str();
                if let Some((_, shown)) = shown.iter_mut().find(|(message, _)| message.as_deref() == id) {
                    text.clone_into(&mut shown.text);
                }
            }
            _ => {}
        }
    }
    let mut number = 0..;
    shown.retain(|_| number.next().is_some_and(|at| !not_taken.contains(&at)));
    shown.into_iter().map(|(_, shown)| shown).collect()
}

fn part(said: &Value) -> (String, u64) {
    (said["key"].as_str().unwrap_or_default().to_owned(), said["part"].as_u64().unwrap_or_default())
}

/// The database, as an operator can inspect it afterwards.
struct Ledger {
    database: Connection,
}

/// The fate of one event.
#[derive(Debug)]
struct Fate {
    /// State of its row.
    inbox: String,
    /// States of the turns that took the event.
    turns: Vec<String>,
    /// True if a reply to the event was abandoned, which `outbox list` shows.
    given_up: bool,
    /// True if a reply to the event was delivered.
    delivered: bool,
}

impl Ledger {
    fn open(path: &Path) -> Self {
        let database = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY);
        Self { database: database.expect("the database opens") }
    }

    fn is_whole(&self) {
        let verdict: String =
            self.database.query_row("PRAGMA integrity_check", [], |row| row.get(0)).expect("the check runs");
        assert_eq!(verdict, "ok");
        for open in [
            "turns WHERE state = 'queued' OR state = 'running'",
            "inbox WHERE state = 'accepted' OR state = 'turned'",
            "outbox WHERE state = 'drafting' OR state = 'owed'",
        ] {
            let count: i64 = self
                .database
                .query_row(&format!("SELECT count(*) FROM {open}"), [], |row| row.get(0))
                .expect("the tables are known");
            assert_eq!(count, 0, "left open: {open}");
        }
    }

    fn fate(&self, event_id: &str) -> Fate {
        let (id, inbox): (i64, String) = self
            .database
            .query_row("SELECT id, state FROM inbox WHERE event_id = ?1", [event_id], |row| {
                Ok((row.get(0)?, row.get(1)?))
            })
            .unwrap_or_else(|error| panic!("{event_id} was acknowledged and has no row: {error}"));
        let taken = self.strings("SELECT state FROM turns WHERE ',' || inbox || ',' LIKE '%,' || ?1 || ',%'", id);
        let replies = self.strings("SELECT state FROM outbox WHERE in_reply_to = ?1", id);
        let refused = self.strings("SELECT why FROM outbox WHERE in_reply_to = ?1 AND why IS NOT NULL", id);
        Fate {
            inbox,
            turns: taken,
            given_up: replies.iter().any(|state| state == "abandoned") || !refused.is_empty(),
            delivered: replies.iter().any(|state| state == "settled"),
        }
    }

    fn strings(&self, sql: &str, id: i64) -> Vec<String> {
        let mut statement = self.database.prepare(sql).expect("the tables are known");
        let rows = statement.query_map([id], |row| row.get(0)).expect("the query runs");
        rows.map(|row| row.expect("a text")).collect()
    }

    fn transcript(&self, token: &str) -> i64 {
        let sql = "SELECT count(*) FROM messages WHERE role = 'user' AND instr(content, ?1) > 0";
        self.database.query_row(sql, [token], |row| row.get(0)).expect("the tables are known")
    }
}
