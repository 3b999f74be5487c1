//! The return of a conversation to the terminal, and its move from there by a code.

use hermes_core::handoff::{HandoffState, TERMINAL};
use hermes_core::ids::SessionId;
use hermes_core::session::is_dm;
use tokio::sync::oneshot;

use super::conversation::{Said, called};
use super::resume::{elsewhere, may_not_leave};
use super::{Lane, Then, Wish};
use crate::engine::context::Place;
use crate::engine::handoff::has_chat;
use crate::engine::messages::{Control, HostEvent};
use hermes_core::text::sentence;
use hermes_store::{Change, SessionRow, StoreError};

const NOT_FROM_THERE: &str =
    "This conversation did not come from the terminal, so it cannot go back there. `/new` starts a new one.";

const TAKEN: &str = "This chat has switched to another conversation. Please run the command again.";

/// A chat that was released from its conversation.
#[derive(Debug)]
pub struct Freed {
    /// The changes to write.
    pub changes: Vec<Change>,
    /// Lets the next conversation of the chat begin.
    pub then: Then,
}

impl Lane {
    /// `/return`: releases the chat from a conversation that came from the terminal.
    pub(super) async fn hand_back(&mut self, place: &Place, wish: &Wish) -> Result<(), StoreError> {
        let (said, then) = self.handed_back(wish).await?;
        self.answer_order(place, said).await;
        drop(then);
        Ok(())
    }

    async fn handed_back(&mut self, wish: &Wish) -> Result<(Said, Option<Then>), StoreError> {
        let current = self.host.store.session(&self.session).await?;
        let Some(row) = current.as_ref() else { return Ok((Said::only(NOT_FROM_THERE), None)) };
        let handoff = self.host.store.handoff(&self.session).await?;
        let was_handed_over = handoff.is_some_and(|handoff| handoff.state == HandoffState::Completed);
        if !was_handed_over && row.source != TERMINAL {
            return Ok((Said::only(NOT_FROM_THERE), None));
        }
        if let Some(why) = may_not_leave(wish, wish.owner.as_deref().unwrap_or_default(), current.as_ref()) {
            return Ok((Said::only(why), None));
        }
        let (reply, freed) = oneshot::channel();
        let control = Control::Free { session: self.session.clone(), key: wish.key.clone(), reply };
        self.host.tell(HostEvent::control(control)).await;
        // Without the dispatcher the host ends, and nothing moves.
        let Some(Freed { changes, then }) = freed.await.unwrap_or_default() else {
            return Ok((Said::only(TAKEN), None));
        };
        let words = format!(
            "{} is back in the terminal: `hermes-host chat --resume {}` continues it. Your next message here \
             starts a new conversation.",
            called(row),
            self.session
        );
        Ok((Said { words, changes }, Some(then)))
    }

    /// `/claim CODE`: binds the chat to a conversation that the terminal offered, whoever the sender is.
    pub(super) async fn claim(&mut self, place: &Place, wish: &Wish, session: &SessionId) -> Result<Said, StoreError> {
        let current = self.host.store.session(&self.session).await?;
        if let Some(why) = may_not_leave(wish, wish.owner.as_deref().unwrap_or_default(), current.as_ref()) {
            return Ok(Said::only(why));
        }
        let Some(target) = self.host.store.session_tip(session).await? else {
            return Ok(Said::only("The conversation of this code was deleted."));
        };
        if let Some(in_use) = self.host.store.session_in_use(&target.id).await? {
            return Ok(Said::only(elsewhere(&target, in_use)));
        }
        // The session may have moved to a chat under another name since the offer.
        if let Some(why) = has_chat(&self.host, &target.id).await {
            return Ok(Said::only(sentence(format!("This code is no longer valid: {why}"))));
        }
        let (reply, taken) = oneshot::channel();
        self.host.tell(HostEvent::control(Control::TakeOffer { session: session.clone(), reply })).await;
        if !taken.await.unwrap_or_default() {
            return Ok(Said::only("Someone else has already used this code."));
        }
        let mut said = self.switch_to(wish, &target).await?;
        if !said.changes.is_empty() {
            let (instance, chat) = (place.instance.to_string(), place.chat.clone());
            said.changes.push(Change::Claimed { session: target.id, instance, chat });
        }
        said.changes.push(Change::OfferTaken { session: session.clone() });
        Ok(said)
    }

    /// Returns the conversation of this name that was handed over to this private chat.
    pub(super) async fn handed_here(&self, place: &Place, name: &str) -> Result<Option<SessionRow>, StoreError> {
        if !is_dm(&place.chat.kind) {
            return Ok(None);
        }
        let handed = self.host.store.handed_to(&place.instance, &place.chat).await?;
        let is_meant = |title: &Option<String>, id: &SessionId| {
            id.as_str() == name || title.as_ref().is_some_and(|title| title.eq_ignore_ascii_case(name))
        };
        match handed.iter().find(|row| is_meant(&row.title, &row.session)) {
            Some(row) => self.host.store.session_tip(&row.session).await,
            None => Ok(None),
        }
    }
}
