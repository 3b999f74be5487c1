//! The lease of a handoff: nothing else is added to a session while its handoff is in progress.
//!
//! The lease in memory answers at once; the store decides, so that no message is rejected after its conversation has
//! just arrived.

use hermes_core::ids::InboxId;

use super::conversation::WishKind;
use super::{Act, Lane};
use crate::engine::context::Heard;
use crate::engine::handoff::on_its_way;

impl Lane {
    /// Returns the reason for which an event must not be added to this session: its handoff is in progress.
    pub(super) async fn leased(&self, inbox: InboxId) -> Option<String> {
        let lease = self.host.handoffs.lease(&self.session)?;
        if lease.inbox == Some(inbox) {
            return None;
        }
        match self.host.store.handoff(&self.session).await {
            Ok(Some(row)) if !row.state.is_live() || row.inbox == Some(inbox) => None,
            // If the store cannot be read, the lease in memory holds.
            Ok(_) | Err(_) => Some(on_its_way(&lease.instance)),
        }
    }

    /// Rejects events because the session has a handoff.
    pub(super) async fn turn_away(&self, events: Vec<Heard>, words: String) {
        self.not_taken(events, words, "the conversation is being handed off").await;
    }

    /// Rejects the events that were queued when the handoff began.
    pub(super) async fn turn_away_all(&self, groups: Vec<Vec<Heard>>) {
        let events: Vec<Heard> = groups.into_iter().flatten().collect();
        let Some(lease) = self.host.handoffs.lease(&self.session).filter(|_| !events.is_empty()) else { return };
        self.turn_away(events, on_its_way(&lease.instance)).await;
    }
}

impl Act {
    /// Returns whether an act changes the content of the conversation or its chat.
    pub(super) fn changes_the_conversation(&self) -> bool {
        match self {
            Self::Conversation(wish) => match wish.kind {
                WishKind::Retry(_)
                | WishKind::Undo(_)
                | WishKind::Redo
                | WishKind::Branch(_)
                | WishKind::Compress(_)
                | WishKind::Resume(_)
                | WishKind::Return
                | WishKind::Claim(_) => true,
                WishKind::Title(_) | WishKind::List(_) | WishKind::Usage => false,
            },
            _ => false,
        }
    }
}
