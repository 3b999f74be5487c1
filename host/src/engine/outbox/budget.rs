//! The budget of hints in one chat, its threads included.

use std::collections::BTreeMap;
use std::time::Duration;

use hermes_core::limits::PENALTIES_MAX;
use tokio::time::Instant;

/// Hints of one kind that one chat may have at once after a pause.
const BURST: u32 = 3;

/// Slots that may be reserved ahead in one chat, as a multiple of the interval. Later hints are dropped.
const AHEAD_MAX: u32 = 6;

/// The kinds of hints with a budget of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum HintKind {
    /// A typing sign.
    Typing,
    /// A reaction.
    Reaction,
}

impl HintKind {
    /// Returns the average time between two hints of this kind in one chat.
    const fn interval(self) -> Duration {
        match self {
            Self::Typing => Duration::from_secs(4),
            Self::Reaction => Duration::from_secs(1),
        }
    }
}

/// The slots of the chats of one instance: for each kind and chat, the moment at which all slots given out are earned.
#[derive(Debug, Default)]
pub struct HintBudget(BTreeMap<(HintKind, String), Instant>);

impl HintBudget {
    /// Reserves the next slot of a chat; `None`: too many are reserved already.
    pub fn slot(&mut self, kind: HintKind, chat: &str, now: Instant) -> Option<Instant> {
        let interval = kind.interval();
        let key = (kind, chat.to_owned());
        let earned = self.0.get(&key).copied().unwrap_or(now).max(now);
        let slot = earned.checked_sub(interval * (BURST - 1)).unwrap_or(now).max(now);
        if slot.duration_since(now) > interval * AHEAD_MAX {
            return None;
        }
        if self.0.len() >= PENALTIES_MAX && !self.0.contains_key(&key) {
            self.0.retain(|_, earned| *earned > now);
            if self.0.len() >= PENALTIES_MAX {
                return None;
            }
        }
        self.0.insert(key, earned + interval);
        Some(slot)
    }

    /// Gives back a slot that was reserved and not used.
    pub fn give_back(&mut self, kind: HintKind, chat: &str) {
        if let Some(earned) = self.0.get_mut(&(kind, chat.to_owned())) {
            *earned = earned.checked_sub(kind.interval()).unwrap_or(*earned);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn six_topics_of_one_chat_share_one_budget() {
        let (mut budget, start) = (HintBudget::default(), Instant::now());
        let mut calls = Vec::new();
        // Each topic asks again four seconds after its last call, or after that call was dropped.
        let mut topics = [start; 6];
        while let Some(next) = topics.iter_mut().min().filter(|next| **next < start + Duration::from_secs(120)) {
            let slot = budget.slot(HintKind::Typing, "-100", *next);
            calls.extend(slot);
            *next = slot.unwrap_or(*next) + Duration::from_secs(4);
        }
        for window in 0..60 {
            let from = start + Duration::from_secs(window);
            let within = calls.iter().filter(|call| **call >= from && **call < from + Duration::from_secs(60));
            assert!(within.count() <= 15 + BURST as usize, "in the minute from second {window}");
        }
        assert!(calls.len() >= 28, "the budget is used: {}", calls.len());
    }

    #[test]
    fn a_chat_alone_is_never_held_up_and_chats_do_not_share() {
        let (mut budget, start) = (HintBudget::default(), Instant::now());
        for n in 0..50 {
            let now = start + Duration::from_secs(4) * n;
            assert_eq!(budget.slot(HintKind::Typing, "1", now), Some(now));
        }
        for chat in 0..50 {
            assert_eq!(budget.slot(HintKind::Reaction, &format!("c{chat}"), start), Some(start));
        }
    }

    #[test]
    fn what_is_given_back_delays_nobody() {
        let (mut budget, start) = (HintBudget::default(), Instant::now());
        for _ in 0..BURST {
            assert_eq!(budget.slot(HintKind::Typing, "1", start), Some(start));
        }
        // Short turns: each ends before its sign may be shown.
        for _ in 0..50 {
            assert_eq!(budget.slot(HintKind::Typing, "1", start), Some(start + Duration::from_secs(4)));
            budget.give_back(HintKind::Typing, "1");
        }
        let later = start + Duration::from_secs(5);
        assert_eq!(budget.slot(HintKind::Typing, "1", later), Some(later));
        budget.give_back(HintKind::Reaction, "1");
    }

    #[test]
    fn the_budget_is_bounded() {
        let (mut budget, start) = (HintBudget::default(), Instant::now());
        let given = (0..100).filter(|_| budget.slot(HintKind::Typing, "1", start).is_some()).count();
        assert_eq!(given, (BURST + AHEAD_MAX) as usize);
        for chat in 0..2 * PENALTIES_MAX {
            budget.slot(HintKind::Typing, &format!("c{chat}"), start);
        }
        assert!(budget.0.len() <= PENALTIES_MAX);
        assert!(budget.slot(HintKind::Typing, "later", start + Duration::from_secs(60)).is_some());
    }
}
