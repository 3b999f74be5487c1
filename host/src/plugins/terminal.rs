//! Terminals behind the link: the instance that is part of the host itself.
//!
//! A terminal connects to the control socket and then speaks the frames of an
//! adapter. Each has a seat, which is a chat of its own; what the host asks of the
//! instance goes to the seat whose chat it is about, and nobody needs to be there:
//! [`super::AdapterLink::reaches`] says so, and what is owed waits.
//!
//! * Who a terminal is, and in which chat it speaks, is written by the host: the
//!   peer's user was checked, so it is the operator, whatever its frames say.
//! * A seat for one message (`chat -m`) has nobody behind it once it is given up:
//!   what is still owed to it is refused, not kept.
//! * A terminal that does not read, or whose frames do not add up, loses its seat
//!   and nothing else.

mod link;
mod seat;

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
};

use hermes_protocol::{Chat, Manifest, Sender};
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::sync::{mpsc, watch};

pub use link::TerminalLink;
pub use seat::{LEAVE, Seat};

use super::{AdapterHandle, AdapterPlan, AdapterSettings, HostServices, logs, services::InstancePort};
use crate::ffi::HostPort;
use hermes_core::access::OPERATOR_ROLE;
use seat::Wire;

/// What the instance is called, in session keys too.
pub const INSTANCE: &str = hermes_core::handoff::TERMINAL;

/// Terminals in which somebody sits, at once.
pub const SEATS_MAX: usize = 16;

/// Terminals that wait for one answer, at once.
pub const ONE_ANSWER_SEATS_MAX: usize = 16;

/// Events of which it is remembered where they were said.
const EVENTS_KNOWN_MAX: usize = 1_024;

/// What the ids of chats begin with that live for one answer.
const ONE_ANSWER: &str = "once-";

/// Frames that wait to be read by a terminal. One that reads so little loses its seat.
const OUT_MAX: usize = 256;

/// What a terminal may ask of the host.
const USES: [&str; 11] = [
    "turns.stop",
    "turns.status",
    "choices.answer",
    "commands.list",
    "models.list",
    "sessions.list",
    "sessions.get",
    "sessions.history",
    "sessions.search",
    "sessions.rename",
    "sessions.delete",
];

/// Why the host lets its terminals go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Leaving {
    /// It stops.
    Stop,
    /// It is started again.
    Restart,
    /// Another host takes over.
    HandOver,
}

/// What a terminal wants of its seat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SeatFor {
    /// A conversation: what is owed to it waits until somebody sits there again.
    Conversation,
    /// One answer, after which nobody is there.
    OneAnswer,
}

impl SeatFor {
    /// The id of the chat of a seat.
    fn chat(self, number: usize) -> String {
        match self {
            Self::Conversation => number.to_string(),
            Self::OneAnswer => format!("{ONE_ANSWER}{number}"),
        }
    }

    fn seats_max(self) -> usize {
        match self {
            Self::Conversation => SEATS_MAX,
            Self::OneAnswer => ONE_ANSWER_SEATS_MAX,
        }
    }
}

/// All terminals. Cheap to clone.
#[derive(Clone)]
pub struct Terminals {
    inner: Arc<Inner>,
}

pub(super) struct Inner {
    seats: Mutex<Seats>,
    /// Says that a seat was taken or given up, or that an event became known.
    changed: watch::Sender<()>,
    leaving: watch::Sender<Option<Leaving>>,
    /// Set once the link is over, after which no seat is taken.
    over: watch::Sender<bool>,
    port: OnceLock<Arc<dyn HostPort>>,
}

#[derive(Default)]
struct Seats {
    /// By the id of the chat; `None`: taken, and not ready yet.
    taken: BTreeMap<String, Option<Arc<Wire>>>,
    /// In which chat the latest events were said.
    said: BTreeMap<i64, String>,
    said_in_order: VecDeque<i64>,
    /// Events of which nothing became known in time: an earlier life of the host took them in.
    unknown: BTreeSet<i64>,
}

impl Inner {
    fn seats(&self) -> MutexGuard<'_, Seats> {
        self.seats.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The terminal in a chat.
    fn wire(&self, chat: &str) -> Option<Arc<Wire>> {
        self.seats().taken.get(chat).cloned().flatten()
    }

    /// Notes where an event was said.
    fn said(&self, inbox: i64, chat: &str) {
        let mut seats = self.seats();
        seats.unknown.remove(&inbox);
        if seats.said.insert(inbox, chat.to_owned()).is_none() {
            seats.said_in_order.push_back(inbox);
        }
        if seats.said_in_order.len() > EVENTS_KNOWN_MAX
            && let Some(oldest) = seats.said_in_order.pop_front()
        {
            seats.said.remove(&oldest);
        }
        drop(seats);
        self.changed.send_replace(());
    }

    /// Notes that nobody said where an event came from; nothing waits for that again.
    fn stays_unknown(&self, inbox: i64) {
        let mut seats = self.seats();
        if seats.said.contains_key(&inbox) {
            return;
        }
        seats.unknown.insert(inbox);
        if seats.unknown.len() > EVENTS_KNOWN_MAX {
            seats.unknown.pop_first();
        }
    }

    fn is_unknown(&self, inbox: i64) -> bool {
        self.seats().unknown.contains(&inbox)
    }

    fn chat_of(&self, inbox: i64) -> Option<String> {
        self.seats().said.get(&inbox).cloned()
    }
}

impl Terminals {
    /// No terminal yet. Needs a tokio runtime.
    pub fn new() -> Self {
        Self {
            inner: Arc::new(Inner {
                seats: Mutex::default(),
                changed: watch::Sender::new(()),
                leaving: watch::Sender::new(None),
                over: watch::Sender::new(false),
                port: OnceLock::new(),
            }),
        }
    }

    /// The instance that all terminals are, ready to be asked. To be called once.
    pub fn handle(&self, services: Arc<dyn HostServices>, settings: Arc<AdapterSettings>) -> AdapterHandle {
        let plan = plan();
        let link = Arc::new(TerminalLink::new(Arc::clone(&self.inner)));
        let manifest = Arc::new(manifest());
        let handle = AdapterHandle::built_in(link, &plan, settings, Arc::clone(&manifest));
        let log = Arc::new(logs::LogGate::new(INSTANCE, logs::Mask::default()));
        let port = InstancePort::new(handle.clone(), Arc::new(plan), services, log);
        port.known.learn(Some(manifest), true);
        // A second call would change nothing: there is one instance in each life of the host.
        let _ = self.inner.port.set(Arc::new(port));
        handle
    }

    /// Takes a seat: the one of `wanted`, else the first of `rather` that is free, else any.
    ///
    /// # Errors
    ///
    /// One sentence: the seat is taken, or all are.
    pub fn sit(&self, seat_for: SeatFor, wanted: Option<&str>, rather: &[String]) -> Result<Seat, String> {
        if *self.inner.over.borrow() {
            return Err("the host is stopping".to_owned());
        }
        let mut seats = self.inner.seats();
        let all: Vec<String> = (1..=seat_for.seats_max()).map(|number| seat_for.chat(number)).collect();
        let is_free = |chat: &&String| !seats.taken.contains_key(*chat);
        let chat = match wanted {
            Some(chat) if seats.taken.contains_key(chat) => {
                return Err("that conversation is open in another terminal; leave it there first".to_owned());
            }
            Some(chat) => Some(chat.to_owned()),
            None => {
                let rather = rather.iter().filter(|chat| all.contains(chat));
                rather.chain(&all).find(is_free).cloned()
            }
        };
        let Some(chat) = chat else {
            return Err(format!("{} terminals are attached already; leave one and try again", all.len()));
        };
        seats.taken.insert(chat.clone(), None);
        drop(seats);
        let (out, queue) = mpsc::channel(OUT_MAX);
        Ok(Seat::new(Arc::clone(&self.inner), chat, Arc::new(Wire::new(out)), queue))
    }

    /// Whether somebody sits in this chat.
    pub fn is_taken(&self, chat: &str) -> bool {
        self.inner.seats().taken.contains_key(chat)
    }

    /// Another conversation begins at a seat: turns of what was said there before are not shown to it as they grow.
    pub fn begins_anew(&self, chat: &str) {
        let mut seats = self.inner.seats();
        let before: Vec<i64> = seats.said.iter().filter(|(_, at)| *at == chat).map(|(inbox, _)| *inbox).collect();
        seats.said.retain(|_, at| at != chat);
        seats.said_in_order.retain(|inbox| !before.contains(inbox));
        drop(seats);
        before.into_iter().for_each(|inbox| self.inner.stays_unknown(inbox));
    }

    /// Says why the host is about to let its terminals go; each is told when it happens.
    pub fn leave(&self, why: Leaving) {
        self.inner.leaving.send_replace(Some(why));
    }
}

impl Default for Terminals {
    fn default() -> Self {
        Self::new()
    }
}

/// The chat of this id.
pub fn chat(id: &str) -> Chat {
    Chat::dm(id)
}

/// Who sits at a terminal.
pub fn operator() -> Sender {
    Sender::new("operator").with_role(OPERATOR_ROLE)
}

/// Whether a chat lives for one answer only.
pub fn is_for_one_answer(chat: &str) -> bool {
    chat.starts_with(ONE_ANSWER)
}

fn plan() -> AdapterPlan {
    AdapterPlan { trust_upstream: true, ..AdapterPlan::new(INSTANCE, INSTANCE, json!({})) }
}

fn manifest() -> Manifest {
    let manifest = json!({
        "schema": 1,
        "id": INSTANCE,
        "label": "Terminal",
        "version": env!("CARGO_PKG_VERSION"),
        "sdk": hermes_adapter_abi::SDK_VERSION,
        "abi": 1,
        "uses": USES,
        "capabilities": {
            "authorizes_upstream": true,
            "buttons": true,
            "stream": "native",
            "text": { "limit": 0, "unit": "scalars", "dialect": "commonmark" },
        },
    });
    serde_json::from_value(manifest).expect("this is a manifest, as every start shows")
}
