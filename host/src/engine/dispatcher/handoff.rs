//! The routes of chats during a handoff.
//!
//! A route changes in memory before it is written, so that a message that arrives meanwhile meets the lease of the
//! session and not the former session of the chat. If the write or the handoff fails, [`Dispatcher::lead_back`]
//! restores the earlier routes.

use std::sync::Arc;

use hermes_core::access::{Authorized, HostCause};
use hermes_core::handoff::TERMINAL;
use hermes_core::ids::SessionId;
use hermes_core::routes::Route;
use hermes_core::session::{MAIN_PROFILE, SessionKey, is_dm};
use hermes_protocol::{Chat, Event};

use super::{Dispatcher, place, route};
use crate::engine::context::{Heard, Urge};
use crate::engine::handoff::shown;
use crate::engine::messages::{Opening, Taken};
use crate::engine::session::LaneMessage;
use hermes_store::{HandoffClaim, HandoffRoutes, KeptRoute, RouteRow};

impl Dispatcher {
    /// Returns the chats that lead to a session.
    pub(super) fn led_to(&self, session: &SessionId) -> Vec<(String, Chat)> {
        self.routes.of_session(session).map(|route| (route.instance.clone(), route.origin.clone())).collect()
    }

    /// Binds a chat, for every sender, to a session, and releases the session from the terminal.
    pub(super) fn take(
        &mut self,
        session: &SessionId,
        claim: HandoffClaim,
        instance: &str,
        chat: &Chat,
    ) -> Result<Taken, String> {
        if self.has_taken_after(session, claim) {
            return Err("a newer handoff of the conversation replaced it".to_owned());
        }
        let key = SessionKey::shared(MAIN_PROFILE, instance, chat)
            .map_err(|error| format!("the chat that {instance} returned cannot hold a conversation ({error})"))?;
        let bound = key.stored();
        let now_ms = self.host.now_ms();
        let theirs: Vec<Route> = self.routes.of_session(session).filter(|route| route.key != bound).cloned().collect();
        if let Some(other) = theirs.iter().find(|route| route.instance != TERMINAL) {
            return Err(format!("the conversation has moved to a chat of {}", other.instance));
        }
        let old = self.routes.get(&key).filter(|route| route.session != *session).cloned();
        let former = old.as_ref().map(|old| old.session.clone());
        let before = old.iter().chain(&theirs).map(|route| self.kept(route)).collect();
        for route in &theirs {
            self.routes.unbind(&route.key);
            self.used.remove(&route.key);
            self.terminals.leaves(&route.key, session, shown(instance, chat));
        }
        let mut row = RouteRow::new(bound.clone(), MAIN_PROFILE, instance, session.clone(), chat.clone(), now_ms);
        row.shared = true;
        row.participates = chat.thread.is_some() && !is_dm(&chat.kind);
        self.lead(&row);
        self.takes.insert(session.clone(), claim);
        // A session with a chat is offered to no other chat.
        self.take_offer(session);
        let former = former.filter(|former| !self.is_led_to(former));
        let freed = theirs.into_iter().map(|route| route.key).collect();
        Ok(Taken { route: row, routes: HandoffRoutes { bound, before }, former, freed })
    }

    /// Restores the earlier routes of a handoff's chats. A chat that leads elsewhere by now is left alone, and so is
    /// one that a later claim has taken, because the end of an earlier claim may be late.
    pub(super) fn lead_back(&mut self, session: &SessionId, claim: HandoffClaim, routes: &HandoffRoutes) {
        if self.has_taken_after(session, claim) {
            tracing::debug!(%session, "late end of an earlier handoff; the newer one keeps its chat");
            return;
        }
        let is_bound = self.routes.of_session(session).any(|route| route.key == routes.bound);
        if is_bound {
            self.routes.unbind(&routes.bound);
            self.used.remove(&routes.bound);
        }
        for kept in &routes.before {
            // A message at a terminal slot meanwhile began no other conversation there.
            let is_taken = self.routes.has(&kept.key) && !self.terminals.is_away(&kept.key);
            if is_taken || (kept.key == routes.bound && !is_bound) {
                continue;
            }
            self.lead(&kept.row());
        }
    }

    fn has_taken_after(&self, session: &SessionId, claim: HandoffClaim) -> bool {
        self.takes.get(session).is_some_and(|taken| *taken > claim)
    }

    /// Removes the claims of sessions to which no chat leads any more.
    pub(super) fn sweep_takes(&mut self) {
        let routes = &self.routes;
        self.takes.retain(|session, _| routes.of_session(session).next().is_some());
    }

    /// Opens a conversation in the chat to which it was handed over. No sender of a platform wrote the event.
    pub(super) fn open(&mut self, opening: Opening) {
        let Opening { session, instance, event, input, inbox, owner } = opening;
        let Ok(key) = SessionKey::shared(MAIN_PROFILE, &instance, &event.chat) else { return };
        let adapter = self.host.adapter(&instance);
        let place = place(Arc::clone(&instance), adapter, &event, session.clone(), inbox);
        let heard = Heard {
            inbox,
            at_ms: event.at_ms,
            place,
            event: Authorized::<Event>::host(event, HostCause::Handoff),
            owner,
            key: key.stored(),
            several: key.is_shared_by_several(),
            input: Some(input),
            urge: Urge::InOrder,
            aside: false,
        };
        self.send_to(session, &instance, None, None, LaneMessage::Heard(Box::new(heard), None));
    }

    /// Builds the route of a terminal slot.
    pub(super) fn row_of_seat(&self, key: String, chat: &Chat, session: &SessionId) -> RouteRow {
        RouteRow::new(key, MAIN_PROFILE, TERMINAL, session.clone(), chat.clone(), self.host.now_ms())
    }

    pub(super) fn lead(&mut self, row: &RouteRow) {
        self.used.insert(row.key.clone(), row.updated_ms);
        self.ended.remove(&row.key);
        self.terminals.changes(&row.key);
        self.routes.bind(route(row.clone()));
    }

    fn kept(&self, route: &Route) -> KeptRoute {
        KeptRoute {
            key: route.key.clone(),
            profile: route.profile.clone(),
            instance: route.instance.clone(),
            session: route.session.clone(),
            origin: route.origin.clone(),
            used_ms: self.used.get(&route.key).copied().unwrap_or_else(|| self.host.now_ms()),
            shared: route.shared,
            participates: route.participates,
        }
    }
}
