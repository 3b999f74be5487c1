//! A session that is handed over belongs to its handoff: nothing else is added to it.
//!
//! The lease in memory says so at once; what the store says decides, so that nobody is
//! turned away whose conversation has just arrived.

use hermes_core::ids::InboxId;

use super::conversation::WishKind;
use super::{Act, Lane};
use crate::context::Heard;
use crate::handoff::on_its_way;

impl Lane {
    /// Why an event must not be added to this session: it is on its way to a chat.
    pub(super) async fn leased(&self, inbox: InboxId) -> Option<String> {
        let lease = self.host.handoffs.lease(&self.session)?;
        if lease.inbox == Some(inbox) {
            return None;
        }
        match self.host.store.handoff(&self.session).await {
            Ok(Some(row)) if !row.state.is_live() || row.inbox == Some(inbox) => None,
            // What cannot be read is taken for what it was.
            Ok(_) | Err(_) => Some(on_its_way(&lease.instance)),
        }
    }

    /// Turns events away because the session is on its way.
    pub(super) async fn turn_away(&self, events: Vec<Heard>, words: String) {
        self.not_taken(events, words, "the conversation is being handed over").await;
    }

    /// Turns away what was in line when the session was handed over.
    pub(super) async fn turn_away_all(&self, groups: Vec<Vec<Heard>>) {
        let events: Vec<Heard> = groups.into_iter().flatten().collect();
        let Some(lease) = self.host.handoffs.lease(&self.session).filter(|_| !events.is_empty()) else { return };
        self.turn_away(events, on_its_way(&lease.instance)).await;
    }
}

impl Act {
    /// Whether it changes what the conversation says, or where it goes on.
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
