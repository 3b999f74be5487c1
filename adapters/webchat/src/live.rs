//! Live state: running turns, and a ring of the latest events for pages.
//!
//! Every page listens to one stream of numbered events. A page that reconnects names the
//! last number that it received and gets the missed events from the ring. A page that
//! missed more than the ring holds, or comes from an earlier run of the adapter, is asked
//! to reload everything. So no event is lost or repeated, and a slow page does not delay
//! others.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use hermes_adapter_sdk::prelude::*;
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::ring::{Backlog, Cursor, Ring};
use crate::turn::Turn;

/// The maximum number of remembered turns.
const TURNS_MAX: usize = 64;

/// The number of remembered answered events. Later events of their turns are ignored.
const ANSWERED_MAX: usize = 256;

/// The maximum number of slash commands in the menu.
const COMMANDS_MAX: usize = 200;

/// The state that an entry ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TurnEffect {
    /// No state.
    None,
    /// The turn of this event: the entry is its answer. Events of a turn are best-effort
    /// and may arrive after the answer.
    EndsTurn(i64),
    /// The wait for a turn of this event, unless the turn runs: the host replied with another message.
    EndsWait(i64),
}

/// The running turns and the ring.
pub(crate) struct Live {
    incarnation: String,
    state: Mutex<LiveState>,
    changes: watch::Sender<u64>,
}

#[derive(Default)]
struct LiveState {
    ring: Ring,
    turns: BTreeMap<i64, Turn>,
    answered: VecDeque<i64>,
    commands: Vec<CommandInfo>,
}

impl Live {
    pub(crate) fn new(incarnation: String) -> Self {
        Self { incarnation, state: Mutex::default(), changes: watch::Sender::new(0) }
    }

    fn lock(&self) -> MutexGuard<'_, LiveState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the current position of the stream.
    pub(crate) fn cursor(&self) -> Cursor {
        Cursor { incarnation: self.incarnation.clone(), seq: self.lock().ring.seq }
    }

    /// Sends an event to every page.
    pub(crate) fn publish(&self, event: &Value) {
        self.publish_in(&mut self.lock(), event);
    }

    fn publish_in(&self, state: &mut LiveState, event: &Value) {
        state.ring.push(event.to_string().into());
        self.changes.send_replace(state.ring.seq);
    }

    /// Wakes all listeners, so that each checks whether to continue.
    pub(crate) fn wake(&self) {
        self.changes.send_modify(|_| {});
    }

    /// Returns a receiver that changes with every event.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// Returns the events after `cursor`.
    pub(crate) fn after(&self, cursor: &Cursor) -> Backlog {
        let state = self.lock();
        match cursor.incarnation == self.incarnation {
            true => state.ring.after(cursor.seq),
            false => Backlog::Reset(state.ring.seq),
        }
    }

    /// Returns the running turns of a conversation, and the position of the stream at that moment.
    pub(crate) fn snapshot(&self, conversation: &str) -> (Cursor, Vec<Turn>) {
        let state = self.lock();
        let turns = state.turns.values().filter(|turn| turn.conversation == conversation).cloned().collect();
        (Cursor { incarnation: self.incarnation.clone(), seq: state.ring.seq }, turns)
    }

    /// Returns the turn that a stop request in this conversation refers to.
    pub(crate) fn running(&self, conversation: &str) -> Option<i64> {
        let state = self.lock();
        let mut turns = state.turns.values().filter(|turn| turn.conversation == conversation);
        turns.find(|turn| matches!(turn.state, "running" | "waiting")).map(|turn| turn.inbox_id)
    }

    /// Returns the unanswered events of this conversation, the latest first.
    pub(crate) fn unanswered(&self, conversation: &str) -> Vec<i64> {
        let state = self.lock();
        let open = |turn: &&Turn| turn.conversation == conversation && matches!(turn.state, "running" | "waiting");
        state.turns.values().rev().filter(open).map(|turn| turn.inbox_id).collect()
    }

    /// Returns the menu of slash commands.
    pub(crate) fn commands(&self) -> Vec<CommandInfo> {
        self.lock().commands.clone()
    }

    pub(crate) fn set_commands(&self, mut commands: Vec<CommandInfo>) {
        commands.truncate(COMMANDS_MAX);
        let mut state = self.lock();
        if state.commands == commands {
            return;
        }
        self.publish_in(&mut state, &json!({ "type": "commands", "commands": commands }));
        state.commands = commands;
    }

    /// Registers the wait for the turn of an emitted event.
    pub(crate) fn expect_turn(&self, conversation: &str, inbox_id: i64) {
        let mut state = self.lock();
        // The answer may arrive before `emit` returns.
        if !state.turns.contains_key(&inbox_id) && !state.answered.contains(&inbox_id) {
            let turn = turn_of(&mut state, conversation, inbox_id).clone();
            self.publish_in(&mut state, &json!({ "type": "turn", "turn": turn }));
        }
    }

    /// Processes one event of a turn.
    pub(crate) fn turn_event(&self, conversation: &str, inbox_id: i64, seq: u64, event: &TurnEvent) {
        let mut state = self.lock();
        if state.answered.contains(&inbox_id) {
            return;
        }
        let turn = turn_of(&mut state, conversation, inbox_id);
        let events = turn.apply(seq, event);
        // A turn that ended without text is no longer shown.
        if turn.is_silent() {
            state.turns.remove(&inbox_id);
        }
        for event in &events {
            self.publish_in(&mut state, event);
        }
    }

    /// Publishes an entry that is in the log.
    pub(crate) fn entry(&self, conversation: &str, ends: TurnEffect, entry: &Value) {
        let mut state = self.lock();
        match ends {
            TurnEffect::None => {}
            TurnEffect::EndsTurn(inbox_id) => {
                // A turn may answer several events at once; the earlier ones no longer wait.
                state.turns.retain(|id, turn| {
                    *id > inbox_id || turn.conversation != conversation || (*id < inbox_id && turn.state != "waiting")
                });
                if state.answered.len() >= ANSWERED_MAX {
                    state.answered.pop_front();
                }
                state.answered.push_back(inbox_id);
            }
            TurnEffect::EndsWait(inbox_id) => {
                state.turns.retain(|id, turn| *id != inbox_id || turn.state == "running");
            }
        }
        self.publish_in(&mut state, &json!({ "type": "entry", "conversation": conversation, "entry": entry }));
    }

    /// Removes the turns of a deleted conversation.
    pub(crate) fn remove(&self, conversation: &str) {
        let mut state = self.lock();
        state.turns.retain(|_, turn| turn.conversation != conversation);
        self.publish_in(&mut state, &json!({ "type": "deleted", "conversation": conversation }));
    }
}

fn turn_of<'s>(state: &'s mut LiveState, conversation: &str, inbox_id: i64) -> &'s mut Turn {
    while state.turns.len() >= TURNS_MAX && !state.turns.contains_key(&inbox_id) {
        state.turns.pop_first();
    }
    state.turns.entry(inbox_id).or_insert_with(|| Turn::new(conversation, inbox_id))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ring::{RING_BYTES_MAX, RING_EVENTS_MAX};

    fn texts(missed: Backlog) -> Vec<String> {
        match missed {
            Backlog::Events(events) => events.into_iter().map(|(_, text)| text.to_string()).collect(),
            Backlog::Reset(_) => vec!["reset".to_owned()],
        }
    }

    #[test]
    fn a_page_that_comes_back_gets_what_it_missed() {
        let live = Live::new("a".to_owned());
        live.publish(&json!(1));
        let cursor = live.cursor();
        assert_eq!(texts(live.after(&cursor)), Vec::<String>::new());
        live.publish(&json!(2));
        live.publish(&json!(3));
        assert_eq!(texts(live.after(&cursor)), ["2", "3"]);
    }

    #[test]
    fn a_page_that_missed_too_much_or_comes_from_another_life_reads_anew() {
        let live = Live::new("a".to_owned());
        let start = live.cursor();
        for n in 0..=RING_EVENTS_MAX {
            live.publish(&json!(n));
        }
        assert_eq!(texts(live.after(&start)), ["reset"]);
        assert_eq!(texts(live.after(&Cursor { incarnation: "b".to_owned(), seq: 1 })), ["reset"]);
        assert_eq!(texts(live.after(&Cursor { incarnation: "a".to_owned(), seq: 1_000_000 })), ["reset"]);
    }

    #[test]
    fn the_ring_is_bounded_in_bytes() {
        let live = Live::new("a".to_owned());
        let large = json!("x".repeat(RING_BYTES_MAX / 4));
        for _ in 0..20 {
            live.publish(&large);
        }
        assert!(live.lock().ring.bytes <= RING_BYTES_MAX);
    }

    #[test]
    fn what_comes_after_the_answer_brings_no_turn_back() {
        let live = Live::new("a".to_owned());
        live.expect_turn("c", 6);
        live.expect_turn("c", 7);
        live.entry("c", TurnEffect::EndsWait(7), &json!({}));
        assert_eq!(live.snapshot("c").1.len(), 1);
        live.entry("c", TurnEffect::EndsTurn(7), &json!({}));
        assert!(live.snapshot("c").1.is_empty(), "an earlier event waits for its answer still");
        live.turn_event("c", 7, 3, &TurnEvent::Chunk { text: "late".to_owned() });
        live.expect_turn("c", 7);
        assert!(live.snapshot("c").1.is_empty());
    }

    #[test]
    fn a_repeated_turn_event_is_taken_once() {
        let live = Live::new("a".to_owned());
        let chunk = |text: &str| TurnEvent::Chunk { text: text.to_owned() };
        for (seq, text) in [(1, "a"), (2, "😀"), (2, "😀"), (3, "c")] {
            live.turn_event("c", 7, seq, &chunk(text));
        }
        assert_eq!(live.snapshot("c").1[0].text, "a😀c");
        assert!(
            texts(live.after(&Cursor { incarnation: "a".to_owned(), seq: 0 }))
                .last()
                .is_some_and(|e| e.contains("\"at\":3"))
        );
    }
}
