//! Events whose answer goes to another chat than their own.

use std::sync::Arc;

use hermes_core::ids::SessionId;

use super::{Arrived, Dispatcher, place};
use crate::engine::reply::forward;
use crate::engine::reply::forward::PassedOn;

impl Dispatcher {
    /// Forwards the text of an event that needs no agent; returns any other event.
    pub(super) fn passed_on(&self, arrived: Arrived) -> Option<Arrived> {
        let deliver = forward::wanted(arrived.adapter.as_ref(), arrived.event.get());
        if !deliver.is_some_and(|deliver| deliver.as_is) {
            return Some(arrived);
        }
        let Arrived { id, instance, adapter, event, permit, .. } = arrived;
        let event = event.get();
        // The event belongs to no session, because its chat is no conversation.
        let place = place(instance, adapter, event, SessionId(String::new()), id);
        let passed = PassedOn { inbox: id, place, text: event.text.clone(), permit };
        tokio::spawn(forward::pass_on(Arc::clone(&self.host), passed));
        None
    }
}

/// Returns whether an event is plain text even if it looks like a command, because a service wrote it.
pub(super) fn is_words(arrived: &Arrived) -> bool {
    arrived.input.is_some() || forward::wanted(arrived.adapter.as_ref(), arrived.event.get()).is_some()
}
