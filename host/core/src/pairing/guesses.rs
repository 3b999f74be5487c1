//! The counts of wrong codes, one per kind of code and sender.
//!
//! A count locks out only its sender. The number of counts per kind is bounded. A new count replaces the one of
//! the same kind whose lock ends first, so counts of different kinds never displace each other.

use super::{Approval, Lockout, PairingBook};
use crate::limits;

/// The purpose of a code that a sender entered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CodePurpose {
    /// Approves the request of an unknown sender.
    Approve,
    /// Uses an invitation.
    Redeem,
    /// Claims a conversation.
    Claim,
}

impl CodePurpose {
    const ALL: [Self; 3] = [Self::Approve, Self::Redeem, Self::Claim];

    /// Returns the part of the name of a count that states its kind, with a slash before and after it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Approve => "/approve/",
            Self::Redeem => "/redeem/",
            Self::Claim => "/claim/",
        }
    }

    /// Returns the name under which the wrong codes of a sender are counted. No instance has such a name.
    pub fn counted_as(self, instance: &str, sender: &str) -> String {
        format!("{instance}{}{sender}", self.word())
    }

    /// Returns the kind of a count by its name. The name of an instance has no slash.
    pub fn of(name: &str) -> Option<Self> {
        let rest = &name[name.find('/')?..];
        Self::ALL.into_iter().find(|guess| rest.starts_with(guess.word()))
    }
}

/// Returns true if a count belongs to an instance.
pub(super) fn is_of(name: &str, instance: &str) -> bool {
    name.strip_prefix(instance).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

impl PairingBook {
    /// Counts a wrong code.
    pub(super) fn wrong(&mut self, counted_as: &str, now_ms: i64) -> Approval {
        self.make_room(counted_as);
        let limits = self.limits;
        let lockout = self
            .lockouts
            .entry(counted_as.to_owned())
            .or_insert_with(|| Lockout { instance: counted_as.to_owned(), ..Lockout::default() });
        lockout.wrong = lockout.wrong.saturating_add(1);
        if lockout.wrong < limits.wrong_max {
            return Approval::Wrong { left: limits.wrong_max - lockout.wrong };
        }
        lockout.wrong = 0;
        lockout.until_ms = now_ms.saturating_add(limits.lockout_ms);
        Approval::Locked { until_ms: lockout.until_ms }
    }

    /// Removes the count whose lock ends first, where the bound of its kind is reached.
    fn make_room(&mut self, counted_as: &str) {
        let kind = CodePurpose::of(counted_as);
        let alike = || self.lockouts.values().filter(|lockout| CodePurpose::of(&lockout.instance) == kind);
        if self.lockouts.contains_key(counted_as) || alike().count() < limits::GUESSERS_MAX {
            return;
        }
        let first = alike().min_by_key(|lockout| lockout.until_ms).map(|lockout| lockout.instance.clone());
        if let Some(first) = first {
            self.lockouts.remove(&first);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_is_known_by_its_name_whatever_its_sender_is_called() {
        for guess in CodePurpose::ALL {
            for sender in ["", "7", "/claim/", "/redeem/7", "a/approve/b"] {
                assert_eq!(CodePurpose::of(&guess.counted_as("one", sender)), Some(guess), "{sender}");
                assert!(is_of(&guess.counted_as("one", sender), "one"));
                assert!(!is_of(&guess.counted_as("one", sender), "on"));
            }
        }
        assert_eq!(CodePurpose::of("one"), None);
        assert!(is_of("one", "one"), "the count of an earlier version");
    }

    #[test]
    fn wrong_codes_of_many_senders_are_bounded_and_push_out_no_other_kind() {
        let mut book = PairingBook::default();
        let admin = CodePurpose::Approve.counted_as("one", "one:1");
        let _ = book.wrong(&admin, 0);
        for n in 0..limits::GUESSERS_MAX + 10 {
            let _ = book.wrong(&CodePurpose::Redeem.counted_as("one", &n.to_string()), 1);
        }
        assert_eq!(book.lockouts.len(), limits::GUESSERS_MAX + 1);
        assert!(book.lockout(&admin).is_some());
    }
}
