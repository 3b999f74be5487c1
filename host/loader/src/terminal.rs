//! Terminals behind the link: the instance that is built into the host.
//!
//! A terminal connects to the control socket and then uses the frames of an adapter. Each terminal has a slot, which is
//! a chat of its own. A host call goes to the slot whose chat it names. The slot may be empty:
//! [`super::AdapterLink::reaches`] then returns `false`, and deliveries wait.
//!
//! * The host sets the sender and the chat of a terminal. The user of the peer was checked, so the sender is the
//!   operator, regardless of the content of the frames.
//! * A slot for one message (`chat -m`) has no user after it is released: open deliveries to it are refused, not kept.
//! * A terminal that does not read, or that sends malformed frames, loses its slot. Others are not affected.

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

/// The name of the instance, also in session keys.
pub const INSTANCE: &str = hermes_core::handoff::TERMINAL;

/// Terminals with a conversation, at the same time.
pub const SEATS_MAX: usize = 16;

/// Terminals that wait for one answer, at the same time.
pub const ONE_ANSWER_SEATS_MAX: usize = 16;

/// Events whose chat is remembered.
const EVENTS_KNOWN_MAX: usize = 1_024;

/// The prefix of the ids of chats for one answer.
const ONE_ANSWER: &str = "once-";

/// Frames that may wait to be read by a terminal. A terminal that exceeds this loses its slot.
const OUT_MAX: usize = 256;

/// The host methods that a terminal may call.
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

/// The reason why the host disconnects its terminals.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Leaving {
    /// The host stops.
    Stop,
    /// The host restarts.
    Restart,
    /// Another host takes over.
    HandOver,
}

/// The kind of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SeatFor {
    /// A conversation: deliveries wait until a terminal attaches to it again.
    Conversation,
    /// One answer, after which the slot has no user.
    OneAnswer,
}

impl SeatFor {
    /// Returns the chat id of a slot.
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
    /// Notifies that a slot was taken or released, or that the chat of an event became known.
    changed: watch::Sender<()>,
    leaving: watch::Sender<Option<Leaving>>,
    /// `true` once the link is over; then no slot can be taken.
    over: watch::Sender<bool>,
    port: OnceLock<Arc<dyn HostPort>>,
}

#[derive(Default)]
struct Seats {
    /// Taken slots by chat id; `None`: not ready yet.
    taken: BTreeMap<String, Option<Arc<Wire>>>,
    /// The chat of each recent event, by inbox id.
    said: BTreeMap<i64, String>,
    said_in_order: VecDeque<i64>,
    /// Inbox ids of events whose chat did not become known in time, because an earlier run of the host accepted them.
    unknown: BTreeSet<i64>,
}

impl Inner {
    fn seats(&self) -> MutexGuard<'_, Seats> {
        self.seats.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the terminal in a chat.
    fn wire(&self, chat: &str) -> Option<Arc<Wire>> {
        self.seats().taken.get(chat).cloned().flatten()
    }

    /// Records the chat of an event.
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

    /// Records that the chat of an event stays unknown, so that no further call waits for it.
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
    /// Creates the registry without terminals. Needs a tokio runtime.
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

    /// Creates the instance of all terminals. To be called once.
    pub fn handle(&self, services: Arc<dyn HostServices>, settings: Arc<AdapterSettings>) -> AdapterHandle {
        let plan = plan();
        let link = Arc::new(TerminalLink::new(Arc::clone(&self.inner)));
        let manifest = Arc::new(manifest());
        let handle = AdapterHandle::built_in(link, &plan, settings, Arc::clone(&manifest));
        let log = Arc::new(logs::LogGate::new(INSTANCE, logs::Mask::default()));
        let port = InstancePort::new(handle.clone(), Arc::new(plan), services, log);
        port.known.learn(Some(manifest), true);
        // A second call changes nothing: each run of the host has one instance.
        let _ = self.inner.port.set(Arc::new(port));
        handle
    }

    /// Takes a slot: `wanted` if it is given, otherwise the first free one of `rather`, otherwise any.
    ///
    /// # Errors
    ///
    /// One sentence: the slot is taken, or all are.
    pub fn sit(&self, seat_for: SeatFor, wanted: Option<&str>, rather: &[String]) -> Result<Seat, String> {
        if *self.inner.over.borrow() {
            return Err("the host is stopping".to_owned());
        }
        let mut seats = self.inner.seats();
        let all: Vec<String> = (1..=seat_for.seats_max()).map(|number| seat_for.chat(number)).collect();
        let is_free = |chat: &&String| !seats.taken.contains_key(*chat);
        let chat = match wanted {
            Some(chat) if seats.taken.contains_key(chat) => {
                return Err("this conversation is open in another terminal; exit that terminal first".to_owned());
            }
            Some(chat) => Some(chat.to_owned()),
            None => {
                let rather = rather.iter().filter(|chat| all.contains(chat));
                rather.chain(&all).find(is_free).cloned()
            }
        };
        let Some(chat) = chat else {
            return Err(format!("{} terminals are already attached; exit one and try again", all.len()));
        };
        seats.taken.insert(chat.clone(), None);
        drop(seats);
        let (out, queue) = mpsc::channel(OUT_MAX);
        Ok(Seat::new(Arc::clone(&self.inner), chat, Arc::new(Wire::new(out)), queue))
    }

    /// Returns `true` if a terminal is attached to this chat.
    pub fn is_taken(&self, chat: &str) -> bool {
        self.inner.seats().taken.contains_key(chat)
    }

    /// Starts another conversation in a slot: the progress of turns for earlier messages is no longer shown there.
    pub fn begins_anew(&self, chat: &str) {
        let mut seats = self.inner.seats();
        let before: Vec<i64> = seats.said.iter().filter(|(_, at)| *at == chat).map(|(inbox, _)| *inbox).collect();
        seats.said.retain(|_, at| at != chat);
        seats.said_in_order.retain(|inbox| !before.contains(inbox));
        drop(seats);
        before.into_iter().for_each(|inbox| self.inner.stays_unknown(inbox));
    }

    /// Sets the reason why the host is about to disconnect its terminals. Each terminal gets it when that happens.
    pub fn leave(&self, why: Leaving) {
        self.inner.leaving.send_replace(Some(why));
    }
}

impl Default for Terminals {
    fn default() -> Self {
        Self::new()
    }
}

/// Returns the chat of this id.
pub fn chat(id: &str) -> Chat {
    Chat::dm(id)
}

/// Returns the sender of all terminals.
pub fn operator() -> Sender {
    Sender::new("operator").with_role(OPERATOR_ROLE)
}

/// Returns `true` if a chat is for one answer only.
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
