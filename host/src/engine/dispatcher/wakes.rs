//! The delivery of wake-ups to their sessions.
//!
//! A wake-up goes to the session that started the work, in the session's current chat. If no chat can be reached, it
//! waits in the inbox, not here.

use std::sync::Arc;

use hermes_core::access::{Authorized, HostCause};
use hermes_core::ids::SessionId;
use hermes_core::routes::Route;
use hermes_core::session::{MAIN_PROFILE, SessionKey, is_dm};
use hermes_protocol::Event;

use super::{Dispatcher, place};
use crate::engine::background::wakeups;
use crate::engine::context::{Heard, Urge};
use crate::engine::dispatcher::drops::Note;
use crate::engine::messages::{WatchNews, Woken};
use crate::engine::session::LaneMessage;
use hermes_loader::AdapterHandle;

/// The reason for which a removed sender's session is not woken.
const SHUT_OUT: &str = "the subscriber no longer has access";

/// The current place of a session.
pub(super) struct Whereabouts {
    /// The instance.
    pub instance: Arc<str>,
    /// The session key, printed.
    pub key: String,
    /// True if several people may write there.
    pub several: bool,
}

impl Dispatcher {
    pub(super) fn handle_watch(&mut self, news: WatchNews) {
        match news {
            WatchNews::Woken(woken) => self.wake(*woken),
            WatchNews::PutBack => self.wakes_wait = true,
            WatchNews::Leased(session) => {
                self.wakes_wait = true;
                if !self.host.handoffs.has(&session) {
                    // The handoff ended before this event was processed.
                    self.wake_again();
                }
            }
            WatchNews::Arrived => self.wake_again(),
        }
    }

    fn wake(&mut self, woken: Woken) {
        let Woken { inbox, session, instance, mut event, input } = woken;
        let Whereabouts { instance, key, several } = self.find(&session, instance, &mut event);
        let adapter = self.host.adapter(&instance);
        if adapter.as_ref().is_some_and(|adapter| !AdapterHandle::is_online(adapter)) {
            // The inbox is read again every minute.
            tracing::debug!(%session, %instance, %inbox, "wake-up waits until its adapter is online");
            self.wakes_wait = true;
            return;
        }
        if wakeups::is_shut_out(&self.host, &instance, &event.chat, &event.sender) {
            tracing::info!(%session, %instance, %inbox, "the subscriber no longer has access; session not woken");
            return self.note(Note::Drop { id: inbox, why: SHUT_OUT, permit: None });
        }
        let place = place(Arc::clone(&instance), adapter, &event, session.clone(), inbox);
        let owner = if wakeups::is_nobody(&event.sender) { None } else { self.owner_again(&place, &event) };
        let heard = Heard {
            inbox,
            at_ms: event.at_ms,
            place,
            event: Authorized::<Event>::host(event, HostCause::Task),
            owner,
            key,
            several,
            input: Some(input),
            urge: Urge::InOrder,
            aside: false,
        };
        self.send_to(session, &instance, None, None, LaneMessage::Heard(Box::new(heard), None));
    }

    /// Returns the current place of a session and changes the event to it. A session without a chat stays in the chat
    /// of the request.
    pub(super) fn find(&self, session: &SessionId, asked: Arc<str>, event: &mut Event) -> Whereabouts {
        let is_same = |route: &&Route| {
            *route.instance == *asked && route.origin.id == event.chat.id && route.origin.thread == event.chat.thread
        };
        let used = |route: &&Route| self.used.get(&route.key).copied();
        let same = self.routes.of_session(session).find(is_same);
        let moved = || self.routes.of_session(session).max_by_key(used);
        let found = same.map_or_else(moved, Some);
        let instance: Arc<str> = found.map_or_else(|| asked.clone(), |route| Arc::from(route.instance.as_str()));
        if let Some(Route { origin, .. }) = found {
            if instance != asked || origin.id != event.chat.id {
                // The requester has another name there, or does not read there, so the event loses the requester's
                // ownership.
                event.sender = wakeups::nobody();
            }
            event.chat = origin.clone();
        }
        let policy = self.host.live().key_policy(&instance);
        let theirs = self.routes.resolve(MAIN_PROFILE, &instance, &event.chat, &event.sender, policy).ok();
        let shared = SessionKey::shared(MAIN_PROFILE, &instance, &event.chat).ok().map(|key| key.stored());
        let key = match (theirs, found) {
            (Some((key, Some(route))), _) if route.session == *session => Some(key.stored()),
            (_, Some(route)) => Some(route.key.clone()),
            (Some((key, None)), None) => Some(key.stored()),
            (_, None) => shared.clone(),
        };
        let several = !is_dm(&event.chat.kind) && key == shared;
        Whereabouts { instance, key: key.unwrap_or_default(), several }
    }

    /// Reads the waiting wake-ups again.
    pub(super) fn wake_again(&mut self) {
        if std::mem::take(&mut self.wakes_wait) {
            tokio::spawn(wakeups::again(Arc::clone(&self.host)));
        }
    }
}
