//! Events of unknown senders beyond the bound of [`crate::engine::ingress`]: the inbox holds such an event only if it changes
//! something or is answered. The order of other events stays, because an instance sends no event before the judgement
//! of the previous one.

use hermes_core::access::{Denial, Denied};
use hermes_core::file_refs;
use hermes_protocol::{Event, EventKind};

use super::{Dispatcher, trust_in};
use crate::engine::dispatcher::pairing;
use crate::engine::dispatcher::pairing::Met;
use crate::engine::messages::Stray;

impl Dispatcher {
    /// Reports whether an event has to be kept; an event that is not kept is settled with this.
    pub(super) fn judge_stray(&mut self, stray: Stray) {
        let Stray { instance, event, verdict } = stray;
        let trust = trust_in(self.host.adapter(&instance).as_ref());
        let admitted = self.host.live().access.admit(&instance, *event, &self.grants, trust);
        let kept = match admitted {
            // An earlier event admitted the sender.
            Ok(event) => Some(event.into_inner()),
            Err(denied) if self.leads_somewhere(&instance, &denied) => Some(denied.event),
            Err(denied) => self.send_away(&instance, *denied),
        };
        // After the end of its host an adapter sends the event again.
        let _ = verdict.send(kept.map(Box::new));
    }

    /// Returns true if a denied event changes something or is answered.
    fn leads_somewhere(&self, instance: &str, denied: &Denied) -> bool {
        let event = &denied.event;
        if event.kind == EventKind::Migrated && self.has_part_in(instance, &event.chat) {
            return true;
        }
        let Some((user, _)) = pairing::who(denied) else { return false };
        let now_ms = self.host.now_ms();
        let book = self.pairing.book();
        match denied.denial {
            Denial::Silent { .. } => false,
            Denial::Unlisted { .. } => book.would_redeem(instance, user, &event.text, now_ms),
            Denial::Stranger => {
                book.would_redeem(instance, user, &event.text, now_ms) || book.would_offer(instance, user, now_ms)
            }
        }
    }

    /// Handles an unknown sender without a reply. Returns the event if there is a reply after all.
    fn send_away(&mut self, instance: &str, denied: Denied) -> Option<Event> {
        match self.meet(instance, &denied) {
            Met::Silence(_) => {
                self.host.media.let_go(instance, file_refs::files(&denied.event));
                None
            }
            Met::Offer(..) | Met::Welcome(..) => Some(denied.event),
        }
    }
}
