//! Sessions that are woken by the host itself.
//!
//! What wakes one goes to the session that asked, in the chat where that session is by now.
//! Where nobody can be reached it waits in the inbox, not here.

use std::sync::Arc;

use hermes_core::access::{Authorized, HostCause};
use hermes_core::ids::SessionId;
use hermes_core::routes::Route;
use hermes_core::session::{MAIN_PROFILE, SessionKey, is_dm};
use hermes_protocol::{Chat, Event};

use super::{Dispatcher, place};
use crate::context::{Heard, Urge};
use crate::events::{WatchNews, Woken};
use crate::lane::LaneMessage;
use crate::plugins::AdapterHandle;
use crate::wakes;

/// Where a session is.
pub(super) struct Whereabouts {
    /// The instance.
    pub instance: Arc<str>,
    /// The session key, printed.
    pub key: String,
    /// Whether several people may speak there.
    pub several: bool,
}

impl Dispatcher {
    pub(super) fn handle_watch(&mut self, news: WatchNews) {
        match news {
            WatchNews::Woken(woken) => self.wake(*woken),
            WatchNews::PutBack => self.wakes_wait = true,
        }
    }

    fn wake(&mut self, woken: Woken) {
        let Woken { inbox, session, instance, mut event, input } = woken;
        let Whereabouts { instance, key, several } = self.find(&session, instance, &mut event);
        let adapter = self.host.adapter(&instance);
        if adapter.as_ref().is_some_and(|adapter| !AdapterHandle::is_online(adapter)) {
            tracing::info!(%session, %instance, %inbox, "what wakes a session waits until its adapter is back");
            self.wakes_wait = true;
            return;
        }
        let place = place(Arc::clone(&instance), adapter, &event, session.clone(), inbox);
        let owner = if wakes::is_nobody(&event.sender) { None } else { self.owner_again(&place, &event) };
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

    /// Where a session is by now; the event is led there. One that no chat is in stays where it asked.
    pub(super) fn find(&self, session: &SessionId, asked: Arc<str>, event: &mut Event) -> Whereabouts {
        let is_same = |route: &&Route| {
            *route.instance == *asked && route.origin.id == event.chat.id && route.origin.thread == event.chat.thread
        };
        let used = |route: &&Route| self.used.get(&route.key).copied();
        let same = self.routes.of_session(session).find(is_same);
        let moved = || self.routes.of_session(session).max_by_key(used);
        let (instance, chat): (Arc<str>, Option<Chat>) = match same.map_or_else(moved, Some) {
            Some(route) => (Arc::from(route.instance.as_str()), Some(route.origin.clone())),
            None => (asked.clone(), None),
        };
        if instance != asked {
            // Who asked has another name there.
            event.sender = wakes::nobody();
        }
        if let Some(chat) = chat {
            event.chat = chat;
        }
        let policy = self.host.live().key_policy(&instance);
        let theirs = self.routes.resolve(MAIN_PROFILE, &instance, &event.chat, &event.sender, policy);
        let theirs = theirs.ok().filter(|(_, route)| route.is_none_or(|route| route.session == *session));
        let key = theirs.map(|(key, _)| key).or_else(|| SessionKey::shared(MAIN_PROFILE, &instance, &event.chat).ok());
        let several = key.as_ref().map_or(!is_dm(&event.chat.kind), SessionKey::is_shared_by_several);
        Whereabouts { instance, key: key.map(|key| key.to_string()).unwrap_or_default(), several }
    }

    /// Reads what waits to wake a session again.
    pub(super) fn wake_again(&mut self) {
        if std::mem::take(&mut self.wakes_wait) {
            tokio::spawn(wakes::again(Arc::clone(&self.host)));
        }
    }
}
