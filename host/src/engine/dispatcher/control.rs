//! Requests of the operator, of adapters and of the process itself to the dispatcher.

use std::sync::Arc;

use hermes_core::access::{Authorized, HostCause, Tier, Trust};
use hermes_core::ids::SessionId;
use hermes_core::session::{MAIN_PROFILE, is_dm};
use hermes_protocol::Event;
use tokio::sync::oneshot;

use super::{Dispatcher, owner_of, place, route, with_text};
use crate::engine::context::{Heard, Place, Urge};
use crate::engine::dispatcher::commands::busy::ToAgent;
use crate::engine::messages::{Census, Control};
use crate::engine::outbox::{OutboxMessage, Target};
use crate::engine::session::{Freed, LaneMessage};
use hermes_store::{Change, CutOffTurn, InboxRow};

/// Chats that cannot be written to and that `status` lists.
const DEAD_SHOWN_MAX: usize = 20;

impl Dispatcher {
    pub(super) fn handle_control(&mut self, control: Control) {
        match control {
            Control::Resume(cut_off) => self.resume(cut_off),
            Control::Turn { instance, inbox, wish, reply } => {
                let ask = || LaneMessage::Ask { instance: Arc::clone(&instance), inbox, wish, reply: reply.clone() };
                self.lanes.broadcast(ask);
            }
            Control::Rebind(rebind) => self.rebind(rebind),
            Control::Bind { route: row } => {
                self.used.insert(row.key.clone(), row.updated_ms);
                self.ended.remove(&row.key);
                self.seat_knows(&row.key, &row.session);
                self.routes.bind(route(*row));
            }
            Control::Unbind { key, reply } => {
                self.used.remove(&key);
                self.ended.remove(&key);
                self.terminals.changes(&key);
                // The caller may have stopped waiting.
                let _ = reply.send(self.routes.unbind(&key).is_some());
            }
            Control::Forget { session, reply } => {
                self.unbind(&session);
                // A session without a lane has no state in memory.
                self.lanes.send(&session, LaneMessage::Forget).ok();
                // The caller may have stopped waiting.
                let _ = reply.send(());
            }
            Control::End { session, reply } => self.end(session, "ended by the operator", reply),
            Control::Ask(asking) => self.open_ask(*asking),
            Control::Answer { instance, ask, option, sender, tier, reply } => {
                let taken = self.answered_by_call(&instance, &ask, option, &sender, tier);
                // The caller may have stopped waiting.
                let _ = reply.send(taken);
            }
            Control::Pairing(call) => self.handle_pairing(call),
            Control::Reloaded => {
                self.host.holds.lift_all();
                self.outbox.broadcast(|| OutboxMessage::Now);
                self.show_commands_anew();
                self.reread_homes();
            }
            Control::Home { instance, home, chat } => self.has_home(&instance, &home, chat),
            Control::SessionOf { instance, chat, reply } => {
                // The caller may have stopped waiting.
                let _ = reply.send(self.session_of(&instance, &chat));
            }
            Control::LedTo { session, reply } => {
                // The caller may have stopped waiting.
                let _ = reply.send(self.led_to(&session));
            }
            Control::Take { session, claim, instance, chat, reply } => {
                if let Err(Ok(taken)) = reply.send(self.take(&session, claim, &instance, &chat)) {
                    // Without the caller nothing writes the change.
                    self.lead_back(&session, claim, &taken.routes);
                }
            }
            Control::Free { session, key, reply } => {
                let is_its = self.routes.of_session(&session).any(|route| route.key == key);
                let freed = is_its.then(|| self.free_key(key)).map(|(change, then)| {
                    let mut changes = vec![change];
                    changes.extend(self.seats_get_back(&session));
                    Freed { changes, then }
                });
                // A lane that has ended has nothing to write.
                let _ = reply.send(freed);
            }
            Control::PutUp { session, reply } => {
                // The caller may have stopped waiting; nobody knows the code then.
                let _ = reply.send(self.put_up(&session));
            }
            Control::TakeOffer { session, reply } => {
                // A lane that has ended claims nothing; the offer is over in any case.
                let _ = reply.send(self.take_offer(&session));
            }
            Control::Open(opening) => self.open(*opening),
            Control::Run(run) => self.run_task(*run),
            Control::LeadBack { session, claim, routes } => self.lead_back(&session, claim, &routes),
            Control::Reread { session } => {
                // A session without a lane has no state in memory.
                self.lanes.send(&session, LaneMessage::Forget).ok();
            }
            Control::UndrainLanes => {
                self.lanes_drained = None;
                self.lanes.broadcast(|| LaneMessage::Undrain);
            }
            Control::DrainLanes(reply) => {
                self.lanes.broadcast(|| LaneMessage::Drain);
                self.lanes_drained = Some(reply);
                self.say_drained();
            }
            Control::DrainOutbox(reply) => {
                self.outbox.broadcast(|| OutboxMessage::Drain);
                self.outbox_drained = Some(reply);
                self.say_drained();
            }
            Control::Refresh { target, owed, id } => {
                // The operator requests the attempt, whatever is known of the chat.
                if let Some(owed) = &owed {
                    self.revive(&owed.instance, &owed.chat);
                }
                self.carry_to(target.clone(), OutboxMessage::Refresh(id, owed));
                self.lift(&target, OutboxMessage::Look);
            }
            Control::Hurry { target } => self.lift(&target, OutboxMessage::Now),
            Control::Chats { instance, reply } => {
                let chats =
                    self.routes.iter().filter(|route| route.instance == instance).map(|route| route.origin.clone());
                // The caller may have stopped waiting.
                let _ = reply.send(chats.collect());
            }
            Control::Places { session, reply } => {
                let places = self.routes.of_session(&session);
                // The caller may have stopped waiting.
                let _ = reply.send(places.map(|route| (route.instance.clone(), route.origin.clone())).collect());
            }
            Control::Led { instance, reply } => {
                let here = self.routes.iter().filter(|route| *route.instance == *instance);
                // The caller may have stopped waiting.
                let _ = reply.send(here.map(|route| (route.session.clone(), route.origin.clone())).collect());
            }
            Control::MenuLost { instance } => self.menu_lost(&instance),
            Control::Census(reply) => {
                // The caller may have stopped waiting.
                let _ = reply.send(self.census());
            }
        }
    }

    /// Hands an interrupted turn to its session's lane, which resumes it before anything newer.
    fn resume(&mut self, cut_off: CutOffTurn) {
        let session = cut_off.session.clone();
        let key = self.routes.of_session(&session).next().map(|route| route.key.clone()).unwrap_or_default();
        let events: Vec<Heard> = cut_off.inbox.iter().filter_map(|row| self.heard_again(row, &session, &key)).collect();
        for heard in events.iter().filter(|heard| heard.aside) {
            let (instance, event) = (&heard.place.instance, heard.event.get());
            let policy = self.host.live().key_policy(instance);
            let asked = self.routes.resolve(MAIN_PROFILE, instance, &event.chat, &event.sender, policy);
            let key = asked.map(|(key, _)| key.stored()).unwrap_or_default();
            self.note_aside(session.clone(), heard.owner.clone(), key);
        }
        let instance = cut_off.inbox.first().map(|row| row.instance.clone()).unwrap_or_default();
        self.send_to(session, &instance, None, None, LaneMessage::Resume(cut_off, events));
    }

    /// Rebuilds an event of an interrupted turn for its lane; `None`: it cannot be read.
    fn heard_again(&self, row: &InboxRow, session: &SessionId, key: &str) -> Option<Heard> {
        let mut event: Event = serde_json::from_str(&row.event).ok()?;
        let mut instance: Arc<str> = Arc::from(row.instance.as_str());
        if row.wakes.is_some() {
            // The session may continue under another id, or have been a background session of this one.
            instance = self.find(session, instance, &mut event).instance;
        }
        let adapter = self.host.adapter(&instance);
        let several = !is_dm(&event.chat.kind);
        let prefix = adapter.as_ref().map(|adapter| adapter.capabilities().command_prefix.clone()).unwrap_or_default();
        let (event, aside) = match ToAgent::again(&event, &prefix) {
            Some(words) => (with_text(event, words.words), words.aside),
            None => (event, false),
        };
        let place = place(instance, adapter, &event, session.clone(), row.id);
        let lease = self.host.handoffs.lease(session).filter(|lease| lease.inbox == Some(row.id));
        let (owner, cause) = match lease {
            Some(lease) => (lease.owner, HostCause::Handoff),
            None => (self.owner_again(&place, &event), HostCause::Resume),
        };
        let event = Authorized::<Event>::host(event, cause);
        let (inbox, at_ms, key, urge) = (row.id, row.at_ms, key.to_owned(), Urge::InOrder);
        Some(Heard { inbox, at_ms, owner, place, event, key, several, urge, aside, input: row.input.clone() })
    }

    /// Returns the owner of a resumed turn, independent of the rights of the replayed event.
    pub(super) fn owner_again(&self, place: &Place, event: &Event) -> Option<String> {
        let trust =
            place.adapter.as_ref().map_or(Trust::None, |adapter| Trust::of(adapter.trusted(), &adapter.capabilities()));
        let access = &self.host.live().access;
        let tier = access.tier_of(&place.instance, &event.chat, &event.sender, &self.grants, trust);
        owner_of(&place.instance, event, tier.unwrap_or(Tier::User))
    }

    /// Ends a session: its lane stops the running turn and writes the end.
    pub(super) fn end(&mut self, session: SessionId, why: &str, reply: oneshot::Sender<bool>) {
        let mut changes = vec![Change::EndSession { session: session.clone(), reason: why.to_owned() }];
        let mut then = Vec::new();
        for key in self.routes.of_session(&session).map(|route| route.key.clone()).collect::<Vec<_>>() {
            let (change, freed) = self.free_key(key);
            changes.push(change);
            then.push(freed);
        }
        self.send_to(session, "", None, None, LaneMessage::Close { changes, then, reply });
    }

    /// Ends the waits of a chat and of its instance; its lanes receive `then`, and all others check again.
    fn lift(&mut self, target: &Target, then: OutboxMessage) {
        self.host.holds.of(&target.instance).lift(&target.instance, &target.chat);
        self.outbox.send_where(|other| other.instance == target.instance, || OutboxMessage::Look);
        // Without a lane nothing waits there.
        let _ = self.outbox.send(target, then);
    }

    fn census(&self) -> Census {
        let held = self.host.holds.held().into_iter().collect();
        let dead = self.dead.values().take(DEAD_SHOWN_MAX).cloned().collect();
        Census { lanes: self.lanes.alive(), outbox_lanes: self.outbox.alive(), held, dead, dead_chats: self.dead.len() }
    }
}
