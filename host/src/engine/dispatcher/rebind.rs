//! Conversations that continue in another session: branched, compressed, resumed.
//!
//! The lane of the former session decides; the route changes here, at once, so that the next event finds the other
//! session. Events on their way to the old lane are handed on by it, in order, once it has written the move
//! ([`LaneMessage::Moved`]); the lane of the other session processes them before anything newer.

use std::collections::BTreeSet;

use hermes_core::handoff::TERMINAL;
use hermes_core::ids::SessionId;
use hermes_core::routes::Route;
use tokio::sync::oneshot;

use super::terminals::Comes;
use super::{Dispatcher, route};
use crate::engine::messages::{Rebind, Rebound};
use crate::engine::session::LaneMessage;
use hermes_store::RouteRow;

impl Dispatcher {
    /// Binds one chat, or every chat, of a session to another one.
    pub(super) fn rebind(&mut self, rebind: Rebind) {
        let Rebind { from, key, to, reply } = rebind;
        let now_ms = self.host.now_ms();
        let routes: Vec<Route> = self.routes.of_session(&from).cloned().collect();
        let (moving, staying): (Vec<Route>, Vec<Route>) =
            routes.into_iter().partition(|route| key.as_ref().is_none_or(|key| *key == route.key));
        let instance = moving.first().map(|route| route.instance.clone()).unwrap_or_default();
        let rows: Vec<RouteRow> = moving.into_iter().map(|old| row(old, &to, now_ms)).collect();
        for row in &rows {
            self.used.insert(row.key.clone(), now_ms);
            self.ended.remove(&row.key);
            self.terminals.changes(&row.key);
            self.routes.bind(route(row.clone()));
        }
        if rows.iter().any(|row| *row.instance != *TERMINAL) {
            // A session with a chat is offered to no other chat.
            self.take_offer(&to);
        }
        for row in rows.iter().filter(|row| *row.instance != *TERMINAL) {
            self.tell_terminals(&to, (&row.key, &row.instance, &row.origin), Comes::Opened);
        }
        let keys: BTreeSet<String> = rows.iter().map(|row| row.key.clone()).collect();
        if !keys.is_empty() {
            self.hand_on(&from, &to, &instance, keys);
        }
        // A lane that has ended has nothing to write.
        let _ = reply.send(Rebound { routes: rows, still_led_to: !staying.is_empty() });
    }

    /// Lets the lane of `from` hand its pending messages on to that of `to`.
    fn hand_on(&mut self, from: &SessionId, to: &SessionId, instance: &str, keys: BTreeSet<String>) {
        let (then, after) = oneshot::channel();
        if self.lanes.has(to) {
            // Another chat has used the session meanwhile, so its lane waits for nothing.
            let handed = LaneMessage::HandedOn(after);
            // The lane existed a line above.
            let _ = self.lanes.send(to, handed);
        } else {
            self.open_lane(to.clone(), instance, Some(after), None);
            // A lane that is created during a drain did not receive the broadcast.
            if self.host.takes_nothing().is_some() {
                // The lane was created a line above.
                let _ = self.lanes.send(to, LaneMessage::Drain);
            }
        }
        // The caller has a lane; without one there is nothing to hand on.
        self.lanes.send(from, LaneMessage::Moved { keys, then }).ok();
    }
}

/// Returns the route as it leads to the other session.
fn row(old: Route, to: &SessionId, now_ms: i64) -> RouteRow {
    let mut row = RouteRow::new(old.key, old.profile, old.instance, to.clone(), old.origin, now_ms);
    row.shared = old.shared;
    row.participates = old.participates;
    row
}
