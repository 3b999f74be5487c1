//! Conversations that are ended by a rule.
//!
//! The sweep ends an expired session at once, a single time and without a notice. The next message of its chat begins
//! another session and gets the notice. A session with a lane or a background turn is in use, whatever the time; the
//! last use of a session with several chats is the latest use in any of them.

use std::collections::BTreeMap;

use hermes_core::ids::SessionId;
use hermes_core::routes::Route;
use hermes_protocol::ChatType;

use super::Dispatcher;
use crate::engine::dispatcher::commands::busy::Aside;
use crate::engine::dispatcher::drops::Note;
use crate::engine::session::Takeover;
use crate::engine::session::reset;
use crate::engine::session::reset::Limits;
use hermes_config::ResetRules;
use hermes_store::Change;

/// Sessions that one sweep ends; the next one continues.
const ENDED_PER_SWEEP_MAX: usize = 500;

impl Dispatcher {
    /// Returns the rule that replaces this conversation with this message; `None`: it continues.
    pub(super) fn takeover(&mut self, route: &Route, now_ms: i64) -> Option<Takeover> {
        let ended = self.ended.remove(&route.key);
        let live = self.host.live();
        let rule = live.session_of(&route.instance).reset.of(&route.origin.kind);
        let due = || {
            let limits = Limits::at(rule, now_ms);
            limits.due(*self.used.get(&route.key)?)?;
            let used_ms = self.last_use(&route.session)?;
            limits.due(used_ms).filter(|_| !self.is_in_use(&route.session))
        };
        let reason = ended.or_else(due)?;
        let notice = rule.notify.then(|| reset::notice(reason).to_owned());
        Some(Takeover { former: route.session.clone(), reason, notice })
    }

    /// Returns whether a session is in use, whatever the time: it has a lane, a handoff or a background turn.
    fn is_in_use(&self, session: &SessionId) -> bool {
        self.lanes.has(session) || self.works_aside(session) || self.host.handoffs.has(session)
    }

    /// Notes the end of a background turn. Its conversation was in use until then.
    pub(super) fn forget_aside(&mut self, session: &SessionId) {
        let Some(Aside { key, .. }) = self.asides.remove(session) else { return };
        let now_ms = self.host.now_ms();
        if let Some(used_ms) = self.used.get_mut(&key) {
            *used_ms = now_ms;
        }
    }

    /// Returns whether a conversation has a background turn, from any of its chats.
    fn works_aside(&self, session: &SessionId) -> bool {
        let is_its = |key: &str| self.routes.of_session(session).any(|route| route.key == key);
        self.asides.values().any(|aside| is_its(&aside.key))
    }

    /// Returns the time of a session's last use in any chat.
    fn last_use(&self, session: &SessionId) -> Option<i64> {
        self.routes.of_session(session).filter_map(|route| self.used.get(&route.key)).max().copied()
    }

    /// Ends expired sessions, up to a limit.
    pub(super) fn expire(&mut self) {
        let over = self.over();
        if over.is_empty() {
            return;
        }
        let mut changes = Vec::with_capacity(over.len());
        for (session, reason) in over {
            for route in self.routes.of_session(&session) {
                self.ended.insert(route.key.clone(), reason);
            }
            tracing::debug!(%session, reason, "session ended by a reset rule");
            changes.push(Change::EndSession { session, reason: reason.to_owned() });
        }
        self.note(Note::Changes(changes));
    }

    /// Returns the sessions that are expired by the rule of every chat that leads to them, and not ended yet.
    fn over(&self) -> BTreeMap<SessionId, &'static str> {
        let now_ms = self.host.now_ms();
        let live = self.host.live();
        let rules = live.config.adapters.values().map(|adapter| &adapter.session).chain([&live.config.session]);
        if rules.map(|session| &session.reset).all(ResetRules::is_never) {
            return BTreeMap::new();
        }
        let mut limits: BTreeMap<(&str, &str), Limits> = BTreeMap::new();
        let mut judged: BTreeMap<&SessionId, Option<&'static str>> = BTreeMap::new();
        for route in self.routes.iter() {
            let kind: &ChatType = &route.origin.kind;
            let limits = limits
                .entry((&route.instance, kind.as_str()))
                .or_insert_with(|| Limits::at(live.session_of(&route.instance).reset.of(kind), now_ms));
            let due = self.used.get(&route.key).and_then(|used_ms| limits.due(*used_ms));
            let due = due.filter(|_| !self.ended.contains_key(&route.key));
            let so_far = judged.entry(&route.session).or_insert(due);
            *so_far = so_far.and(due);
        }
        judged
            .into_iter()
            .filter_map(|(session, reason)| Some((session, reason?)))
            .filter(|(session, _)| !self.is_in_use(session))
            .take(ENDED_PER_SWEEP_MAX)
            .map(|(session, reason)| (session.clone(), reason))
            .collect()
    }
}
