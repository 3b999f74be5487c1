//! The running turns of the agent, for display. No decision depends on them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use hermes_core::ids::{InboxId, SessionId, TurnId};
use hermes_protocol::Chat;

/// The longest beginning of the answered text, in characters.
const ASKED_CHARS_MAX: usize = 60;

/// A running turn.
#[derive(Clone, Debug)]
pub struct Work {
    /// The turn.
    pub turn: TurnId,
    /// Its session.
    pub session: SessionId,
    /// The chat of the request.
    pub chat: Chat,
    /// The instance of the event that it answers.
    pub instance: Arc<str>,
    /// The id of this event.
    pub inbox: InboxId,
    /// The owner of the request.
    pub owner: Option<String>,
    /// The beginning of the request, on one line.
    pub asked: String,
    /// Start time, in milliseconds since the Unix epoch.
    pub since_ms: i64,
    /// True if the turn runs in the background.
    pub aside: bool,
}

/// The list of running turns.
#[derive(Clone, Debug, Default)]
pub struct Working(Arc<Mutex<BTreeMap<TurnId, Work>>>);

/// A listed turn, until this is dropped.
#[derive(Debug)]
pub struct Listed {
    working: Working,
    turn: TurnId,
}

impl Working {
    /// Lists a turn.
    pub fn list(&self, work: Work) -> Listed {
        let turn = work.turn;
        self.locked(|turns| turns.insert(turn, work));
        Listed { working: self.clone(), turn }
    }

    /// Returns the turns of an owner, oldest first.
    pub fn of(&self, owner: Option<&str>) -> Vec<Work> {
        self.locked(|turns| turns.values().filter(|work| work.owner.as_deref() == owner).cloned().collect())
    }

    /// Returns the running turn of a session.
    pub fn in_session(&self, session: &SessionId) -> Option<Work> {
        self.locked(|turns| turns.values().find(|work| work.session == *session).cloned())
    }

    fn locked<T>(&self, work: impl FnOnce(&mut BTreeMap<TurnId, Work>) -> T) -> T {
        work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Drop for Listed {
    fn drop(&mut self) {
        self.working.locked(|turns| turns.remove(&self.turn));
    }
}

/// Returns the beginning of the text that a turn answers, on one line.
pub fn beginning(text: &str) -> String {
    let line: String = text.chars().take(ASKED_CHARS_MAX + 1).map(|c| if c.is_control() { ' ' } else { c }).collect();
    let line = line.replace('`', "'");
    match line.char_indices().nth(ASKED_CHARS_MAX) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_beginning_of_a_text_is_one_short_line_that_ends_no_code() {
        assert_eq!(beginning("do `this`\nnow"), "do 'this' now");
        let long = beginning(&"ä".repeat(500));
        assert!(long.ends_with('…') && long.chars().count() == ASKED_CHARS_MAX + 1, "{long}");
    }
}
