//! The rate limits for people and bots: an event is counted before it reaches its session, and one too many is stopped.
//! Commands are not counted, so that `/stop` works for a sender over the limit.

use std::sync::atomic::Ordering;

use hermes_core::access::{Tier, speaks_as_channel};
use hermes_core::rate::{BotDecision, RateDecision, RateLimits};
use hermes_core::session::participant;
use hermes_protocol::Event;

use super::{Arrived, Dispatcher, Found, place};
use crate::engine::dispatcher::drops::Note;
use crate::engine::reply::forward;
use crate::engine::session::{Act, LaneMessage, Order};
use hermes_core::text::counted;

/// The result of counting an event.
pub(super) enum Heard {
    /// The event continues.
    Gone(Box<Arrived>),
    /// The event is stopped, and the lane notifies its sender.
    Told(Box<LaneMessage>),
    /// The event is stopped without a notice.
    Dropped,
}

impl Dispatcher {
    /// Counts an event that needs a turn.
    pub(super) fn pace(&mut self, arrived: Arrived, found: &Found) -> Heard {
        if !is_person(arrived.event.get()) {
            return self.pace_of_bot(arrived);
        }
        // A service's call was accepted already, and its adapter has counted it.
        let is_call = forward::wanted(arrived.adapter.as_ref(), arrived.event.get()).is_some();
        if is_call || arrived.event.tier() == Tier::Operator {
            return Heard::Gone(Box::new(arrived));
        }
        let limits = {
            let live = self.host.live();
            let limits = &live.config.limits;
            RateLimits {
                user: limits.user_messages_per_minute,
                session: limits.session_messages_per_minute,
                instance: limits.instance_messages_per_minute,
            }
        };
        if limits == RateLimits::default() {
            return Heard::Gone(Box::new(arrived));
        }
        let user = participant(&arrived.event.get().sender).unwrap_or_default().to_owned();
        let now_ms = self.host.now_ms();
        match self.rates.take(limits, &arrived.instance, &user, &found.session.0, now_ms) {
            RateDecision::Free => Heard::Gone(Box::new(arrived)),
            RateDecision::Limited { per_minute, wait_ms, tell } => {
                self.host.counts.limited.fetch_add(1, Ordering::Relaxed);
                if !tell {
                    self.note(Note::Drop { id: arrived.id, why: "too many messages", permit: arrived.permit });
                    return Heard::Dropped;
                }
                let seconds = wait_ms.saturating_add(999).div_euclid(1_000).max(1);
                let words = format!(
                    "Message skipped: at most {} a minute {} answered here. \
                     Please send it again in {seconds} s; further messages until then are skipped without a notice.",
                    counted(per_minute, "message"),
                    if per_minute == 1 { "is" } else { "are" },
                );
                let event = arrived.event.get();
                let place =
                    place(arrived.instance.clone(), arrived.adapter.clone(), event, found.session.clone(), arrived.id);
                let order = Order { place, act: Act::Say(words), changes: Vec::new(), bypasses: true };
                Heard::Told(Box::new(LaneMessage::Order(Box::new(order), arrived.permit)))
            }
        }
    }

    /// Limits the answers to bots in a chat until a person writes there.
    fn pace_of_bot(&mut self, arrived: Arrived) -> Heard {
        let max = self.host.live().config.limits.bot_messages_max;
        let chat = chat_name(&arrived);
        match self.bots.bot(max, &arrived.instance, &chat, self.host.now_ms()) {
            BotDecision::Answer => Heard::Gone(Box::new(arrived)),
            BotDecision::Silence { first } => {
                self.host.counts.limited.fetch_add(1, Ordering::Relaxed);
                if first {
                    let instance = &arrived.instance;
                    tracing::warn!(%instance, chat = ?chat, max, "bot loop detected; bots stay unanswered until a person writes in the chat");
                }
                self.note(Note::Drop { id: arrived.id, why: "bot loop", permit: arrived.permit });
                Heard::Dropped
            }
        }
    }

    /// Resets the count of the bots of a chat in which an admitted person wrote.
    pub(super) fn person_spoke(&mut self, arrived: &Arrived) {
        if is_person(arrived.event.get()) {
            self.bots.person(&arrived.instance, &chat_name(arrived));
        }
    }

    pub(super) fn sweep_paces(&mut self) {
        let now_ms = self.host.now_ms();
        self.rates.sweep(now_ms);
        self.bots.sweep(now_ms);
        let silent = self.bots.silent(self.host.live().config.limits.bot_messages_max);
        self.host.counts.silent_bots.store(u64::try_from(silent).unwrap_or(u64::MAX), Ordering::Relaxed);
    }
}

/// Returns whether the sender is known to be no bot.
fn is_person(event: &Event) -> bool {
    !event.sender.is_bot && !speaks_as_channel(event)
}

/// Returns a chat and its thread as one name, for comparison only.
fn chat_name(arrived: &Arrived) -> String {
    let chat = &arrived.event.get().chat;
    format!("{}\n{}", chat.id, chat.thread.as_deref().unwrap_or_default())
}
