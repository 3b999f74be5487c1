//! Notices to terminals about their conversations in other chats.
//!
//! * A conversation that is handed over from an open terminal leaves its terminal slot without a conversation. A
//!   message there starts no other one by itself: the reply names the new chat, until the user begins or resumes a
//!   conversation there, or until the conversation is back.
//! * A user at a terminal is notified in one line, once for each chat, when a chat opens the same conversation or
//!   writes to it.

use std::collections::{BTreeMap, BTreeSet};

use hermes_core::commands::{self, CommandId, Parsed};
use hermes_core::handoff::TERMINAL;
use hermes_core::ids::SessionId;
use hermes_core::routes::Route;
use hermes_core::session::{MAIN_PROFILE, SessionKey};
use hermes_protocol::Chat;

use super::{Arrived, Dispatcher, Found};
use crate::engine::dispatcher::commands::busy::ToAgent;
use crate::engine::dispatcher::drops::Note;
use crate::engine::handoff::shown;
use hermes_loader::terminal;
use hermes_loader::terminal::SEATS_MAX;
use hermes_store::Change;

/// The terminal slots that have to be notified.
pub(super) struct AtTerminals {
    /// The stored key of each slot that keeps its conversation, and its chat.
    seats: Vec<(String, Chat)>,
    /// Slots whose conversation was handed over, by their stored key.
    away: BTreeMap<String, Away>,
    /// The chats that a slot was notified of: the slot's key, the session, the key of the chat.
    told: BTreeSet<(String, SessionId, String)>,
}

/// A conversation that was handed over.
struct Away {
    session: SessionId,
    /// The destination, for display.
    there: String,
}

/// The event by which a chat joins a conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Comes {
    /// The conversation was claimed or resumed there.
    Opened,
    /// A message was sent there.
    Spoke,
}

impl AtTerminals {
    pub(super) fn new() -> Self {
        let seats = (1..=SEATS_MAX).filter_map(|number| {
            let chat = terminal::chat(&number.to_string());
            let key = SessionKey::shared(MAIN_PROFILE, TERMINAL, &chat).ok()?;
            Some((key.stored(), chat))
        });
        Self { seats: seats.collect(), away: BTreeMap::new(), told: BTreeSet::new() }
    }

    /// Notes that the conversation of a slot was handed over.
    pub(super) fn leaves(&mut self, key: &str, session: &SessionId, there: String) {
        self.away.insert(key.to_owned(), Away { session: session.clone(), there });
    }

    /// Notes that a slot has another conversation from here on, or another user.
    pub(super) fn changes(&mut self, key: &str) {
        if self.away.remove(key).is_some() || !self.told.is_empty() {
            self.told.retain(|(seat, ..)| seat != key);
        }
    }

    /// Returns whether the conversation of a slot was handed over and no other one began there.
    pub(super) fn is_away(&self, key: &str) -> bool {
        self.away.contains_key(key)
    }
}

impl Dispatcher {
    /// Returns a message, unless it was sent at a terminal whose conversation is elsewhere.
    pub(super) fn still_here(&mut self, arrived: Arrived) -> Option<Arrived> {
        if self.terminals.away.is_empty() || *arrived.instance != *TERMINAL || arrived.input.is_some() {
            return Some(arrived);
        }
        let event = arrived.event.get();
        let Ok(key) = SessionKey::shared(MAIN_PROFILE, TERMINAL, &event.chat) else { return Some(arrived) };
        let key = key.stored();
        let Some(away) = self.terminals.away.get(&key) else { return Some(arrived) };
        match commands::parse(&event.text, "", &self.host.live().gates) {
            Parsed::Command { spec, .. } if spec.id == CommandId::New => {
                self.terminals.changes(&key);
                return Some(arrived);
            }
            Parsed::Command { spec, args } if ToAgent::read(spec.id, &args).is_none_or(|words| words.aside) => {
                return Some(arrived);
            }
            Parsed::NotCommand | Parsed::Unknown { .. } | Parsed::Command { .. } => {}
        }
        let words = self.where_it_is(away);
        let (instance, chat) = (arrived.instance.clone(), event.chat.clone());
        self.note(Note::Welcome { id: arrived.id, instance, chat, changes: Vec::new(), words, permit: arrived.permit });
        None
    }

    fn where_it_is(&self, away: &Away) -> String {
        let Away { session, there } = away;
        let begins = "`/new` starts a new one here";
        if self.is_led_to(session) {
            return format!(
                "Message not sent: this conversation continues in {there}. `/return` there moves it back to the \
                 terminal, `/resume {session}` also opens it here, and {begins}."
            );
        }
        format!(
            "Message not sent: this conversation was handed off to {there}, and no chat uses it any more. \
             `/resume {session}` continues it here, and {begins}."
        )
    }

    /// Returns a released session to the terminal slots from which it was handed over. Returns the changes to write.
    pub(super) fn seats_get_back(&mut self, session: &SessionId) -> Vec<Change> {
        let of = |(key, away): (&String, &Away)| (away.session == *session).then(|| key.clone());
        let keys: Vec<String> = self.terminals.away.iter().filter_map(of).collect();
        let seats: Vec<(String, Chat)> =
            self.terminals.seats.iter().filter(|(key, _)| keys.contains(key)).cloned().collect();
        let mut changes = Vec::new();
        for (key, chat) in seats {
            self.terminals.changes(&key);
            // A closed terminal resumes with `chat --resume`.
            if !self.is_at(&chat) {
                continue;
            }
            let row = self.row_of_seat(key, &chat, session);
            self.lead(&row);
            changes.push(Change::BindRoute(row));
            self.say_at(&chat, "The conversation that was handed off is back here.".to_owned());
        }
        changes
    }

    /// Notifies the terminals of a session of which a chat is opened or used.
    pub(super) fn tell_terminals(&mut self, session: &SessionId, by: (&str, &str, &Chat), how: Comes) {
        let (key, instance, chat) = by;
        let is_in = |(seat, _): &&(String, Chat)| {
            seat != key && self.routes.at(seat).is_some_and(|route| route.session == *session)
        };
        let seats: Vec<(String, Chat)> = self.terminals.seats.iter().filter(is_in).cloned().collect();
        for (seat, at) in seats {
            if self.terminals.told.insert((seat, session.clone(), key.to_owned())) {
                self.say_at(&at, comes(instance, chat, how));
            }
        }
    }

    /// Notes a message to the session of an event.
    pub(super) fn spoken(&mut self, arrived: &Arrived, found: &Found) {
        if found.is_written() {
            let (key, chat) = (found.key.stored(), arrived.event.get().chat.clone());
            self.tell_terminals(&found.session, (&key, &arrived.instance, &chat), Comes::Spoke);
        }
    }

    /// Notifies a terminal that opens of the other chats of its conversation.
    pub(super) fn seat_knows(&mut self, seat: &str, session: &SessionId) {
        self.terminals.changes(seat);
        if !self.terminals.seats.iter().any(|(key, _)| key == seat) {
            return;
        }
        let others = self.routes.of_session(session).filter(|route| *route.instance != *TERMINAL);
        let told = others.map(|other: &Route| (seat.to_owned(), session.clone(), other.key.clone()));
        self.terminals.told.extend(told.collect::<Vec<_>>());
    }

    fn is_at(&self, seat: &Chat) -> bool {
        self.host.adapter(TERMINAL).is_some_and(|adapter| adapter.reaches(&seat.id))
    }

    /// Sends a notice to a slot with an open terminal.
    fn say_at(&self, seat: &Chat, words: String) {
        if self.is_at(seat) {
            self.note(Note::Say { instance: TERMINAL.into(), chat: seat.clone(), words });
        }
    }
}

fn comes(instance: &str, chat: &Chat, how: Comes) -> String {
    if instance == TERMINAL {
        return "This conversation is being used from another terminal, too; messages there are part of it.".to_owned();
    }
    let place = shown(instance, chat);
    let what = match how {
        Comes::Opened => format!("This conversation was also opened in {place}"),
        Comes::Spoke => format!("This conversation is also being used in {place}"),
    };
    format!("{what}; messages there are part of it. `/return` there moves it back to the terminal.")
}
