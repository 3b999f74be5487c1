//! The known forums.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

/// The maximum number of remembered forums.
const FORUMS_MAX: usize = 1024;

/// The groups known to be forums. In a forum, typing outside of topics is visible only with
/// the id of the general topic.
#[derive(Debug, Default)]
pub(crate) struct Forums(Mutex<BTreeSet<i64>>);

impl Forums {
    /// Records a forum. Above the limit the other forums are forgotten, and recorded again with their next message.
    pub(crate) fn record(&self, forum: Option<i64>) {
        let mut forums = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        forums.extend(forum);
        if forums.len() > FORUMS_MAX {
            forums.retain(|id| Some(*id) == forum);
        }
    }

    /// Returns whether a chat is a known forum.
    pub(crate) fn contains(&self, chat: &str) -> bool {
        let forums = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        chat.parse().is_ok_and(|id: i64| forums.contains(&id))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_forum_is_known_once_it_was_heard_from() {
        let forums = Forums::default();
        forums.record(None);
        forums.record(Some(-100));
        assert!(forums.contains("-100") && !forums.contains("-101") && !forums.contains("general"));
        (0..2_000).for_each(|id| forums.record(Some(id)));
        assert!(forums.contains("1999") && forums.0.lock().unwrap().len() <= FORUMS_MAX);
    }
}
