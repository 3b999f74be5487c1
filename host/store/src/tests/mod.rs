//! Tests of the store's API: each transaction, a crash between any two, and faults of the disk.

mod deletion;
mod directory;
mod drafts;
mod handoff;
mod lineage;
mod mirror;
mod outbox;
mod pairing;
mod place;
mod recovery;
mod retention;
mod schema;
mod search;
mod sessions;
mod tasks;
mod tool_calls;
mod turns;
pub(crate) mod writer;

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use hermes_core::ids::{DeliveryId, Epoch, InboxId, SessionId, TurnId};
use hermes_core::transcript::Message;
use hermes_protocol::{Chat, Purpose, Receipt, Usage};
use tempfile::TempDir;

use super::*;

/// Start time of every test, in Unix milliseconds.
const START_MS: i64 = 1_750_000_000_000;

/// A clock controlled by the test.
struct Hands(AtomicI64);

impl Clock for Hands {
    fn now_ms(&self) -> i64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A home folder that outlives its stores.
struct Home {
    folder: TempDir,
    clock: Arc<Hands>,
}

impl Home {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder for the test");
        Self { folder, clock: Arc::new(Hands(AtomicI64::new(START_MS))) }
    }

    fn path(&self) -> std::path::PathBuf {
        self.folder.path().join("state.db")
    }

    /// Starts a run of the host. Dropping its store without `close` is a crash.
    fn open(&self) -> Opened {
        Store::open(&self.path(), self.clock.clone()).expect("the database opens")
    }

    fn store(&self) -> (Store, Epoch) {
        let opened = self.open();
        (opened.store, opened.epoch)
    }
}

fn session_id(n: u32) -> SessionId {
    SessionId(format!("20250615_151515_{n:08x}"))
}

fn new_session(n: u32) -> NewSession {
    NewSession {
        id: session_id(n),
        profile: "main".to_owned(),
        source: "echo".to_owned(),
        owner: Some("echo:7".to_owned()),
        settings: Default::default(),
        parent: None,
        title: None,
        started_ms: START_MS,
    }
}

fn event(id: &str) -> NewInbox {
    NewInbox {
        instance: "echo".to_owned(),
        event_id: id.to_owned(),
        at_ms: START_MS,
        received_ms: START_MS,
        event: format!("{{\"event_id\":\"{id}\"}}"),
    }
}

fn chat() -> Chat {
    Chat::dm("123").named("home")
}

fn delivery(text: &str) -> NewDelivery {
    NewDelivery {
        instance: "echo".to_owned(),
        chat: chat(),
        session: None,
        turn: None,
        in_reply_to: None,
        reply_to: None,
        draft: None,
        edits: None,
        purpose: Purpose::Reply,
        markdown: text.to_owned(),
        parts: vec![NewPart::plain(1, text)],
        choices: None,
        code: None,
        ephemeral_to: None,
        silent: false,
        deadline_ms: START_MS + 86_400_000,
        max_attempts: None,
        created_ms: START_MS,
    }
}

/// Returns a delivery with this number of parts.
fn in_parts(parts: u32) -> NewDelivery {
    NewDelivery { parts: (1..=parts).map(|n| NewPart::plain(n, format!("part {n}"))).collect(), ..delivery("long") }
}

fn tried(attempts: u32) -> PartFacts {
    PartFacts { attempts, ..PartFacts::default() }
}

fn delivered() -> PartState {
    PartState::Delivered { receipt: Receipt::new(vec!["m1".to_owned()], START_MS) }
}

fn end_of(turn: TurnId, session: SessionId) -> EndTurn {
    EndTurn {
        turn,
        state: TurnEnd::Finished,
        error: None,
        session,
        messages: vec![
            NewMessage::new(Message::user("hello there"), START_MS),
            NewMessage::new(Message::assistant("you said hello"), START_MS),
        ],
        deliveries: vec![delivery("you said hello")],
        usage: Usage::tokens(10, 20),
        agent_state: None,
        observed: None,
        now_ms: START_MS + 1_000,
    }
}

async fn accepted(store: &Store, id: &str) -> InboxId {
    match store.accept(event(id)).await.expect("the event is committed") {
        Accepted::New(id) => id,
        Accepted::Duplicate(id) => panic!("event {id} was there before"),
    }
}

/// Creates session `n` with a turn that answers these events.
async fn running(store: &Store, epoch: Epoch, n: u32, inbox: Vec<InboxId>) -> TurnId {
    let admit = Admit {
        session: session_id(n),
        new_session: Some(new_session(n)),
        route: None,
        inbox,
        epoch,
        now_ms: START_MS,
    };
    store.admit(admit).await.expect("the turn starts")
}

fn is_conflict<T: std::fmt::Debug>(outcome: Result<T>) -> bool {
    matches!(outcome, Err(StoreError::Conflict { .. }))
}

/// Returns the state of one row as a word.
async fn word(store: &Store, sql: &'static str, id: i64) -> String {
    store.read(move |db| Ok(db.query_row(sql, [id], |row| row.get(0))?)).await.expect("the row is there")
}

async fn inbox_word(store: &Store, id: InboxId) -> String {
    word(store, "SELECT state FROM inbox WHERE id = ?1", id.0).await
}

async fn turn_word(store: &Store, id: TurnId) -> String {
    word(store, "SELECT state FROM turns WHERE id = ?1", id.0).await
}

/// The first batch of each kind of recovered work.
struct Found {
    pending: Vec<InboxRow>,
    cut_off: Vec<CutOffTurn>,
    deliveries: Vec<OwedDelivery>,
}

async fn found(store: &Store, epoch: Epoch) -> Found {
    let left = store.recover(epoch, START_MS).await.unwrap();
    Found {
        pending: store.left_events(&left, InboxId(0)).await.unwrap(),
        cut_off: store.left_turns(&left, TurnId(0)).await.unwrap(),
        deliveries: store.left_deliveries(&left, DeliveryId(0)).await.unwrap(),
    }
}
