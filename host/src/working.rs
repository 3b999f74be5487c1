//! What the agent is doing at this moment, for whoever asks. Nothing is decided by it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use hermes_core::ids::{InboxId, SessionId, TurnId};
use hermes_protocol::Chat;

/// What is shown of the words that a turn answers, in characters.
const ASKED_CHARS_MAX: usize = 60;

/// A turn that runs.
#[derive(Clone, Debug)]
pub struct Work {
    /// The turn.
    pub turn: TurnId,
    /// Its session.
    pub session: SessionId,
    /// The chat in which it was asked.
    pub chat: Chat,
    /// The instance of the event that it answers.
    pub instance: Arc<str>,
    /// That event.
    pub inbox: InboxId,
    /// Who asked.
    pub owner: Option<String>,
    /// The beginning of what was asked, on one line.
    pub asked: String,
    /// When it started.
    pub since_ms: i64,
    /// Whether it runs beside a conversation.
    pub aside: bool,
}

/// Every turn that runs.
#[derive(Clone, Debug, Default)]
pub struct Working(Arc<Mutex<BTreeMap<TurnId, Work>>>);

/// A turn that is listed until this is dropped.
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

    /// Returns the turns that somebody asked for, oldest first.
    pub fn of(&self, owner: Option<&str>) -> Vec<Work> {
        self.locked(|turns| turns.values().filter(|work| work.owner.as_deref() == owner).cloned().collect())
    }

    /// Returns the turn that runs in a session.
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

/// The beginning of what a turn answers, on one line.
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
