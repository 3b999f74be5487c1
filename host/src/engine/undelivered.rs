//! Undelivered answers whose sessions were not notified yet.
//!
//! The outbox records them, and the next turn of the session takes them. They are kept in memory only, and bounded: the
//! chat was notified already, and the operator finds each with `outbox list`.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, PoisonError};

use hermes_core::ids::SessionId;

/// Sessions whose losses are kept.
const SESSIONS_MAX: usize = 1_000;

/// Losses of one session that are kept: the newest.
const LOSSES_MAX: usize = 3;

/// The longest quotation of an answer, in characters.
const QUOTE_CHARS_MAX: usize = 120;

/// The losses of every session.
#[derive(Debug, Default)]
pub struct Losses(Mutex<BTreeMap<SessionId, VecDeque<String>>>);

impl Losses {
    /// Records an answer that did not arrive.
    pub fn note(&self, session: &SessionId, markdown: &str, why: &str) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= SESSIONS_MAX && !all.contains_key(session) {
            all.pop_first();
        }
        let losses = all.entry(session.clone()).or_default();
        if losses.len() == LOSSES_MAX {
            losses.pop_front();
        }
        let one_line = |text: &str, max: usize| -> String {
            text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(max).collect()
        };
        let (quote, why) = (one_line(markdown, QUOTE_CHARS_MAX), one_line(why, QUOTE_CHARS_MAX * 2));
        losses.push_back(format!("- {why}. It began: \"{quote}\""));
    }

    /// Takes the losses of a session, in the form for the agent.
    pub fn take(&self, session: &SessionId) -> Option<String> {
        let losses = self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(session)?;
        let losses: Vec<String> = losses.into();
        Some(format!(
            "[System: these earlier messages of yours were not delivered, so the user has not seen them. The user was \
             notified. Repeat what still matters; where the platform refused the text, choose other words.]\n{}",
            losses.join("\n")
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_losses_of_a_session_are_taken_once() {
        let (losses, session) = (Losses::default(), SessionId("s".to_owned()));
        for n in 0..5 {
            losses.note(&session, &format!("answer {n}\nmore"), "refused (invalid): blocked");
        }
        let said = losses.take(&session).unwrap();
        assert_eq!(said.lines().count(), 1 + LOSSES_MAX, "{said}");
        assert!(said.ends_with("- refused (invalid): blocked. It began: \"answer 4 more\""), "{said}");
        assert_eq!(losses.take(&session), None);
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let losses = Losses::default();
        for n in 0..2 * SESSIONS_MAX {
            losses.note(&SessionId(n.to_string()), &"x".repeat(10_000), &"y".repeat(10_000));
        }
        let all = losses.0.lock().unwrap();
        assert!(all.len() == SESSIONS_MAX && all.values().flatten().all(|loss| loss.len() < 500));
    }
}
