//! The instructions that conversations have received from clients.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use sha2::{Digest, Sha256};

/// The maximum number of conversations with remembered instructions.
const CONVERSATIONS_MAX: usize = 1000;

/// The instructions that each conversation has received. A client that sends them with
/// every request does not repeat them to the agent.
#[derive(Default)]
pub(crate) struct InstructionLog {
    latest: Mutex<VecDeque<(String, [u8; 32])>>,
}

impl InstructionLog {
    pub(crate) fn is_new(&self, chat: &str, instructions: &str) -> bool {
        let digest: [u8; 32] = Sha256::digest(instructions.as_bytes()).into();
        let mut latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        let known = latest.iter().position(|(known, _)| known == chat).and_then(|at| latest.remove(at));
        latest.push_back((chat.to_owned(), digest));
        if latest.len() > CONVERSATIONS_MAX {
            latest.pop_front();
        }
        known.is_none_or(|(_, known)| known != digest)
    }
}
