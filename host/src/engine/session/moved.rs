//! Messages on their way to a session whose chat moves to another session.
//!
//! Messages still arrive here after the lane has decided and before the dispatcher has changed the route. They are kept
//! back and handed on in order. Orders are carried out here, because they were given to this session.

use std::collections::{BTreeMap, BTreeSet};

use hermes_core::ids::SessionId;
use tokio::sync::oneshot;

use super::{Lane, LaneMessage, Waiting};
use crate::engine::messages::{Control, HostEvent, Rebind, Rebound};

/// Starts a waiting lane, with the messages that the previous one hands on.
pub type Then = oneshot::Sender<Vec<LaneMessage>>;

/// Resolves when a lane may start.
pub type After = oneshot::Receiver<Vec<LaneMessage>>;

/// Chats that lead to another session, and their messages that were kept back.
#[derive(Default)]
pub struct Moving {
    to: BTreeMap<String, SessionId>,
    kept: Vec<LaneMessage>,
}

impl Moving {
    /// Assigns the messages of these chats to another session from here on.
    fn begin(&mut self, keys: impl Iterator<Item = String>, to: &SessionId) {
        self.to.extend(keys.map(|key| (key, to.clone())));
    }

    /// Returns whether this chat leads to another session.
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

    /// Hands on the messages that were kept back: no more messages of these chats come here.
    pub fn hand_on(&mut self, keys: &BTreeSet<String>, then: Then) {
        self.to.retain(|key, _| !keys.contains(key));
        let is_theirs =
            |message: &LaneMessage| matches!(message, LaneMessage::Heard(heard, _) if keys.contains(&heard.key));
        let (theirs, others) = std::mem::take(&mut self.kept).into_iter().partition(is_theirs);
        self.kept = others;
        // Without a receiver the host ends; the inbox still has the messages then.
        let _ = then.send(theirs);
    }
}

impl Lane {
    /// Binds this chat, or every chat, of this session to another one. Waiting messages move, too.
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
            // An interrupted turn belongs to this session and stays, and so do messages of a chat that stays.
            let moves = matches!(self.waiting.get(&id), Some(Waiting::Heard(heard)) if self.moving.has(&heard.key));
            if moves && let Some(Waiting::Heard(heard)) = self.waiting.remove(&id) {
                self.guard.withdraw(id);
                self.moving.keep_back(LaneMessage::Heard(heard, None));
            }
        }
        // The other session fetches their files itself.
        for heard in self.door.take_where(|heard| self.moving.has(&heard.key)) {
            self.moving.keep_back(LaneMessage::Heard(Box::new(heard), None));
        }
    }

    /// Waits for the messages of an earlier lane, and takes them before anything newer.
    pub(super) async fn take_over(&mut self, after: After) {
        // An earlier lane that has ended has nothing more to write and hands nothing on.
        let handed = after.await.unwrap_or_default();
        handed.into_iter().rev().for_each(|message| self.batch.push_front(message));
    }
}
