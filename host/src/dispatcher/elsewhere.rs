//! Events whose consequence goes somewhere else than back to their chat.

use std::sync::Arc;

use hermes_core::ids::SessionId;

use super::{Arrived, Dispatcher, place};
use crate::deliver::{self, PassedOn};

impl Dispatcher {
    /// Passes on the text of an event that needs no agent; anything else comes back.
    pub(super) fn passed_on(&self, arrived: Arrived) -> Option<Arrived> {
        let deliver = deliver::wanted(arrived.adapter.as_ref(), arrived.event.get());
        if !deliver.is_some_and(|deliver| deliver.as_is) {
            return Some(arrived);
        }
        let Arrived { id, instance, adapter, event, permit, .. } = arrived;
        let event = event.get();
        // It belongs to no session: nobody talks there.
        let place = place(instance, adapter, event, SessionId(String::new()), id);
        let passed = PassedOn { inbox: id, place, text: event.text.clone(), permit };
        tokio::spawn(deliver::pass_on(Arc::clone(&self.host), passed));
        None
    }
}

/// Whether what an event says is words, whatever it looks like: a service wrote it, not a person.
pub(super) fn is_words(arrived: &Arrived) -> bool {
    arrived.input.is_some() || deliver::wanted(arrived.adapter.as_ref(), arrived.event.get()).is_some()
}
