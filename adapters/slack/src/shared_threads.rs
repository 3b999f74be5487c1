//! The threads of channels that several of our workspaces share.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

/// The maximum number of remembered threads.
const THREADS_MAX: usize = 1024;

/// The threads of shared channels, with the workspace of each, the oldest first.
#[derive(Default)]
pub(crate) struct SharedThreads(Mutex<VecDeque<(String, String)>>);

impl SharedThreads {
    /// Returns the workspace of a thread.
    pub(crate) fn team(&self, thread: &str) -> Option<String> {
        let threads = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        threads.iter().find(|(known, _)| known == thread).map(|(_, team)| team.clone())
    }

    /// Records the workspace of a thread.
    pub(crate) fn record(&self, thread: String, team: String) {
        let mut threads = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        threads.retain(|(known, _)| *known != thread);
        threads.push_back((thread, team));
        while threads.len() > THREADS_MAX {
            threads.pop_front();
        }
    }
}
