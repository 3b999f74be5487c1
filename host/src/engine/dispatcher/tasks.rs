//! Tasks that the host does by itself.

use std::sync::Arc;

use hermes_core::access::{Authorized, HostCause};
use hermes_core::session::{MAIN_PROFILE, is_dm};
use hermes_protocol::Event;

use super::{Dispatcher, place};
use crate::engine::background::tasks::RunTask;
use crate::engine::context::{Heard, Urge};
use crate::engine::session::{Birth, LaneMessage};
use hermes_store::{Lineage, NewSession, Parent};

impl Dispatcher {
    /// Starts the turn of a task in the background of its conversation. No sender of a platform wrote the event.
    pub(super) fn run_task(&mut self, run: RunTask) {
        let RunTask { parent, session, instance, event, input, inbox, owner, key } = run;
        let beside = self.routes.of_session(&parent).next().map(|route| route.key.clone()).unwrap_or_default();
        self.note_aside(session.clone(), owner.clone(), beside);
        let birth = Birth {
            session: NewSession {
                id: session.clone(),
                profile: MAIN_PROFILE.to_owned(),
                source: instance.to_string(),
                owner: owner.clone(),
                settings: Default::default(),
                parent: Some(Parent { session: parent, lineage: Lineage::Aside }),
                title: None,
                started_ms: self.host.now_ms(),
            },
            route: None,
            takeover: None,
        };
        let adapter = self.host.adapter(&instance);
        let place = place(Arc::clone(&instance), adapter, &event, session.clone(), inbox);
        let several = !is_dm(&event.chat.kind);
        let heard = Heard {
            inbox,
            at_ms: event.at_ms,
            place,
            event: Authorized::<Event>::host(event, HostCause::Run),
            owner,
            key,
            several,
            input: Some(input),
            urge: Urge::InOrder,
            aside: true,
        };
        self.send_to(session, &instance, None, Some(birth), LaneMessage::Heard(Box::new(heard), None));
    }
}
