//! What is on its way to a session whose chat goes on in another one.
//!
//! Between the moment at which a lane decides and the one at which the dispatcher
//! leads the chat elsewhere, messages still arrive here. They are kept back and
//! handed on in order; orders are obeyed here, since they were given to this session.

use std::collections::{BTreeMap, BTreeSet};

use hermes_core::ids::SessionId;
use tokio::sync::oneshot;

use super::{Lane, LaneMessage, Waiting};
use crate::events::{Control, HostEvent, Rebind, Rebound};

/// Lets a lane begin, with what the one before hands on to it.
pub type Then = oneshot::Sender<Vec<LaneMessage>>;

/// Resolves when a lane may begin.
pub type After = oneshot::Receiver<Vec<LaneMessage>>;

/// Chats that lead elsewhere, and what was kept back of them.
#[derive(Default)]
pub struct Moving {
    to: BTreeMap<String, SessionId>,
    kept: Vec<LaneMessage>,
}

impl Moving {
    /// From here on what comes from these chats belongs to another session.
    fn begin(&mut self, keys: impl Iterator<Item = String>, to: &SessionId) {
        self.to.extend(keys.map(|key| (key, to.clone())));
    }

    /// Whether this chat leads elsewhere.
    fn has(&self, key: &str) -> bool {
        self.to.contains_key(key)
    }

    /// Keeps a message back if it belongs to another session; returns any other.
    pub fn keep_back(&mut self, message: LaneMessage) -> Option<LaneMessage> {
        let (LaneMessage::Heard(heard, _) | LaneMessage::Fetched(heard)) = &message else { return Some(message) };
        let Some(to) = self.to.get(&heard.key).cloned() else { return Some(message) };
        match message {
            LaneMessage::Heard(mut heard, permit) => {
                heard.place.session = to;
                self.kept.push(LaneMessage::Heard(heard, permit));
            }
            LaneMessage::Fetched(mut heard) => {
                heard.place.session = to;
                self.kept.push(LaneMessage::Heard(heard, None));
            }
            _ => {}
        }
        None
    }

    /// Hands on what was kept back: nothing more of these chats comes here.
    pub fn hand_on(&mut self, keys: &BTreeSet<String>, then: Then) {
        self.to.retain(|key, _| !keys.contains(key));
        let is_theirs =
            |message: &LaneMessage| matches!(message, LaneMessage::Heard(heard, _) if keys.contains(&heard.key));
        let (theirs, others) = std::mem::take(&mut self.kept).into_iter().partition(is_theirs);
        self.kept = others;
        // The host ends when nobody takes it; the inbox still has it then.
        let _ = then.send(theirs);
    }
}

impl Lane {
    /// Leads this chat, or every chat, of this session to another one. What waits here goes along.
    pub(super) async fn rebind(&mut self, key: Option<String>, to: &SessionId) -> Rebound {
        let (reply, rebound) = oneshot::channel();
        let rebind = Rebind { from: self.session.clone(), key, to: to.clone(), reply };
        self.host.tell(HostEvent::control(Control::Rebind(rebind))).await;
        // Without the dispatcher the host ends, and nothing moves.
        let rebound = rebound.await.unwrap_or_default();
        self.moving.begin(rebound.routes.iter().map(|route| route.key.clone()), to);
        self.keep_back_what_waits();
        rebound
    }

    fn keep_back_what_waits(&mut self) {
        let waiting: Vec<_> = self.guard.queued().collect();
        for id in waiting {
            // A turn that was cut off is of this session and stays, like what comes from a chat that stays.
            let moves = matches!(self.waiting.get(&id), Some(Waiting::Heard(heard)) if self.moving.has(&heard.key));
            if moves && let Some(Waiting::Heard(heard)) = self.waiting.remove(&id) {
                self.guard.withdraw(id);
                self.moving.keep_back(LaneMessage::Heard(heard, None));
            }
        }
        // What was fetched for them already is fetched there.
        for heard in self.door.take_where(|heard| self.moving.has(&heard.key)) {
            self.moving.keep_back(LaneMessage::Heard(Box::new(heard), None));
        }
    }

    /// Waits for what an earlier lane hands on, and takes it before anything newer.
    pub(super) async fn take_over(&mut self, after: After) {
        // An earlier lane that is gone has nothing more to write and hands nothing on.
        let handed = after.await.unwrap_or_default();
        handed.into_iter().rev().for_each(|message| self.batch.push_front(message));
    }
}
