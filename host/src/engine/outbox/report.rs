//! The report of a delivery that will not arrive: a WARN with its ids, and a notice in its chat.
//!
//! The notice is one more delivery of the same lane, so it waits until the chat can be reached again. The transaction
//! that gives the part up also owes the notice, so a crash loses neither or both. It is bounded: a lane has one such
//! notice at a time, one delivery is reported once, and a notice is never reported itself.

use hermes_core::delivery::{
    BREAKS_THE_ADAPTER, DEADLINE_PASSED, DOUBTFUL_TWICE, INTERRUPTED_TOO_OFTEN, REQUESTER_GONE, kills_target,
};
use hermes_core::ids::DeliveryId;
use hermes_protocol::{Purpose, RefusalKind};

use super::job::Job;
use super::owed;
use crate::engine::context::compose;
use crate::engine::outbox::queue::OutboxLane;
use hermes_store::{NewDelivery, OwedDelivery, PartState};

/// The longest quotation of a platform's detail in a notice, in characters.
const DETAIL_CHARS_MAX: usize = 200;

/// The deliveries that a lane has reported.
#[derive(Debug, Default)]
pub(super) struct Reports {
    /// The delivery that was reported last.
    about: Option<DeliveryId>,
    /// The notice about that delivery.
    notice: Option<DeliveryId>,
}

impl OutboxLane {
    /// Returns the notice about a part that will not arrive; `None`: its chat is not notified.
    pub(super) async fn notice_of(&self, job: &Job, n: u32, state: &PartState) -> Option<NewDelivery> {
        reason(n, state)?;
        let delivery = &job.delivery;
        let is_said = !matches!(delivery.purpose, Purpose::Notice | Purpose::Ask) && delivery.code.is_none();
        let is_new = self.reports.about != Some(delivery.id);
        let still_waits = self.reports.notice.is_some_and(|notice| self.has(notice));
        let adapter = self.host.adapter(&self.target.instance)?;
        if !is_said || !is_new || still_waits || !adapter.delivers_later(&delivery.chat.id) {
            return None;
        }
        let (text, chat) = (sentence(delivery.id, state)?, delivery.chat.clone());
        let mut notice = compose(&self.host, &self.target.instance, chat, Purpose::Notice, text).await;
        notice.session.clone_from(&delivery.session);
        // The notice waits for the chat to become reachable, as long as the message itself did.
        let span = self.host.live().config.delivery.reply_deadline;
        let span_ms = i64::try_from(span.as_millis()).unwrap_or(i64::MAX);
        notice.deadline_ms = notice.created_ms.saturating_add(span_ms);
        Some(notice)
    }

    /// Logs a part that will not arrive, keeps it for the agent, and lines up the committed notice about it.
    pub(super) fn lost(
        &mut self,
        delivery: &OwedDelivery,
        n: u32,
        state: &PartState,
        notice: Option<(DeliveryId, NewDelivery)>,
    ) {
        let Some(why) = reason(n, state) else { return };
        tracing::warn!(
            delivery = %delivery.id,
            part = n,
            instance = %self.target.instance,
            chat = delivery.chat.id,
            thread = delivery.chat.thread,
            session = delivery.session.as_ref().map(|session| session.0.as_str()),
            turn = delivery.turn.map(|turn| turn.0),
            inbox = delivery.in_reply_to.map(|inbox| inbox.0),
            purpose = %delivery.purpose,
            why = why.as_str(),
            "not delivered"
        );
        let is_new = self.reports.about.replace(delivery.id) != Some(delivery.id);
        if let Some(session) = delivery.session.as_ref().filter(|_| is_new && delivery.purpose == Purpose::Reply) {
            self.host.losses.note(session, &delivery.markdown, &why);
        }
        if let Some((id, notice)) = notice {
            self.reports.notice = Some(id);
            let notice = owed(id, notice, |n| self.host.store.part_key(id, n));
            self.line_up(notice);
        }
    }
}

/// Returns the reason of a part that will not arrive; `None`: it is no loss.
fn reason(n: u32, state: &PartState) -> Option<String> {
    match state {
        // The final text follows in place of a first piece.
        _ if n == 0 => None,
        PartState::Refused { kind, detail } if detail.is_empty() => Some(format!("refused ({kind})")),
        PartState::Refused { kind, detail } => Some(format!("refused ({kind}): {detail}")),
        PartState::Abandoned { why } => Some(why.clone()),
        _ => None,
    }
}

/// Returns the text of a notice; `None`: nothing can be said in this chat, or it is no loss.
fn sentence(id: DeliveryId, state: &PartState) -> Option<String> {
    let words = match state {
        PartState::Refused { kind, .. } if kills_target(kind) || *kind == RefusalKind::Unauthorized => return None,
        PartState::Refused { kind, detail } => {
            let said = if detail.is_empty() { kind.to_string() } else { detail.clone() };
            let said: String = said.chars().filter(|c| !c.is_control()).take(DETAIL_CHARS_MAX).collect();
            return Some(format!(
                "A message could not be delivered here: the platform refused it ({said}). Ask me to put it \
                 differently. The operator can see it with `hermes-host outbox show {id}`."
            ));
        }
        PartState::Abandoned { why } if why.starts_with(DOUBTFUL_TWICE) => {
            "A message may be missing here: it was sent twice, and the platform confirmed neither."
        }
        PartState::Abandoned { why } if why.starts_with(INTERRUPTED_TOO_OFTEN) => {
            "A message may be missing here: each attempt to send it was interrupted."
        }
        PartState::Abandoned { why } if why.starts_with(BREAKS_THE_ADAPTER) => {
            "A message could not be delivered here: the connection to this platform broke each time it was sent."
        }
        PartState::Abandoned { why } if why.starts_with(DEADLINE_PASSED) => {
            "A message could not be delivered here in time."
        }
        PartState::Abandoned { why } if why.starts_with(REQUESTER_GONE) => return None,
        PartState::Abandoned { .. } => "A message could not be delivered here.",
        _ => return None,
    };
    Some(format!("{words} Ask me to repeat it, or ask the operator to run `hermes-host outbox retry {id}`."))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn abandoned(why: &str) -> Option<String> {
        sentence(DeliveryId(7), &PartState::Abandoned { why: why.to_owned() })
    }

    fn refused(kind: RefusalKind, detail: &str) -> Option<String> {
        sentence(DeliveryId(7), &PartState::Refused { kind, detail: detail.to_owned() })
    }

    #[test]
    fn each_loss_names_the_next_step() {
        for why in [DOUBTFUL_TWICE, INTERRUPTED_TOO_OFTEN, BREAKS_THE_ADAPTER, DEADLINE_PASSED, "another reason"] {
            let said = abandoned(&format!("{why}; last: instance died")).unwrap();
            assert!(said.ends_with("ask the operator to run `hermes-host outbox retry 7`."), "{said}");
            assert!(!said.contains("instance died"), "{said}");
        }
        let said = refused(RefusalKind::Invalid, "blocked by AutoMod\n(200000)").unwrap();
        assert!(said.contains("(blocked by AutoMod(200000))") && said.contains("outbox show 7"), "{said}");
        assert!(refused(RefusalKind::from("later"), "").unwrap().contains("(later)"));
    }

    #[test]
    fn nothing_is_said_where_nothing_can_be_said() {
        for kind in [RefusalKind::Forbidden, RefusalKind::ChatGone, RefusalKind::Unauthorized] {
            assert_eq!(refused(kind, "no"), None);
        }
        assert_eq!(abandoned(REQUESTER_GONE), None);
    }
}
