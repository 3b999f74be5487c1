//! The waiting messages of a lane, and their effect on the running turn: the guard's decisions, carried out.
//!
//! The notice to a sender is written from the guard's decision, never before it. Whether a sender may end a turn and
//! whether the runtime can be steered is decided here, before the guard receives the event.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use hermes_agent::Hold;
use hermes_agent::steer::SteeringRequest;
use hermes_core::access::Tier;
use hermes_core::guard::{Admission, Arrival, Due, Join};
use hermes_core::ids::InboxId;
use hermes_core::lateness::SLACK_MS;
use hermes_core::limits::CONTINUED_FROM_PERCENT;
use hermes_core::settings::BusyMode;
use hermes_markup::measure;
use hermes_protocol::{Event, Purpose, StreamKind, TextLimit, TurnEvent, Usage};

use super::hints::NativeStream;
use super::{Lane, Waiting};
use crate::engine::attachments::described::Files;
use crate::engine::context;
use crate::engine::context::{Heard, Urge};
use crate::engine::reply::render;
use crate::engine::runtime::Host;
use crate::engine::session::outcome::Cause;
use crate::engine::session::turn::Running;
use hermes_core::message_edit;
use hermes_store::{Change, CommandTx, TurnEnd};

/// The notice about a turn that was interrupted by a later message, if nothing else shows it.
const INTERRUPTED: &str = "(interrupted)";

/// The notice about messages that should have steered a turn which had ended.
const LATE: &str = "That turn had already finished. I'll answer your message next.";

/// The album of the host's own events for the session.
const NEWS: &str = "news";

/// The reason for which an event waits although its busy mode allows more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Demotion {
    /// The running turn belongs to another sender.
    NotRequester,
    /// The turn must not be interrupted at present.
    Held(Hold),
    /// The runtime cannot be steered.
    CannotSteer,
    /// The event belongs to the messages that the running turn answers; no notice is sent.
    SameBurst,
    /// The event was sent before the running turn began, so it does not refer to that turn.
    SaidBefore,
}

impl Lane {
    /// Returns the guard's time.
    pub(super) fn now(&self) -> std::time::Duration {
        self.host.clock.moment().saturating_duration_since(self.began)
    }

    /// Lets an event start its turn, wait, or act on the running turn as far as it may; returns it if there is no room.
    pub(super) async fn hear(&mut self, heard: Box<Heard>) -> Option<Box<Heard>> {
        let (wish, demotion) = self.may(&heard).await;
        let (by, join) = (heard.by(), self.join(&heard, wish));
        if !heard.event.get().attachments.is_empty() {
            self.files = Some((by.clone(), self.now()));
        }
        let by = match &heard.event.get().album {
            _ if heard.is_news() => format!("{by}\n{NEWS}"),
            Some(album) if join == Join::Album => format!("{by}\n{album}"),
            _ => by,
        };
        let arrival = Arrival { inbox: heard.inbox, by, wish, join };
        let words = match self.guard.arrive(arrival, self.now()) {
            Admission::Run if self.draining => {
                // The event stays accepted in the inbox, and the next run of the host takes it up.
                self.guard.finished();
                return None;
            }
            Admission::Run => {
                self.begin(vec![vec![Waiting::Heard(heard)]]).await;
                return None;
            }
            Admission::Refused { .. } => return Some(heard),
            Admission::Known => return None,
            Admission::Held | Admission::Joined { .. } | Admission::Interrupts { .. } => None,
            Admission::Queued { .. } if matches!(demotion, Some(Demotion::SameBurst | Demotion::SaidBefore)) => None,
            Admission::Queued { waiting } => Some(queued(waiting, demotion)),
            Admission::Steers { waiting } => Some(format!(
                "Sent to the running turn ({waiting} waiting). If the turn ends first, I'll answer it next."
            )),
        };
        let wanted = self.host.live().session_of(&heard.place.instance).receipts;
        let receipt = words
            .filter(|_| wanted && heard.urge != Urge::InOrder && heard.place.can_deliver_later() && !self.draining);
        let place = heard.place.clone();
        self.waiting.insert(heard.inbox, Waiting::Heard(heard));
        self.show_steering();
        if let Some(words) = receipt {
            let notice = place.tell(&self.host, words).await;
            self.owe(notice).await;
        }
        None
    }

    /// Applies an edit to a waiting message; a message that a turn has taken stays as it was.
    pub(super) fn edit_what_waits(&mut self, edit: &Event) {
        let waiting = self.waiting.values_mut().filter_map(|waiting| match waiting {
            Waiting::Heard(heard) => Some(heard),
            Waiting::CutOff(..) => None,
        });
        for heard in waiting.chain(self.door.heard_mut()) {
            if message_edit::is_of(edit, heard.event.get()) {
                heard.event = heard.event.clone().map(|event| message_edit::changed(event, edit));
            }
        }
    }

    /// Updates taken messages from their rows: an edit may have been written before the commit or before the message
    /// came here.
    pub(super) async fn read_edits(&self, taken: &mut [Vec<Heard>]) {
        if self.host.counts.edits.load(Ordering::Relaxed) == 0 {
            return;
        }
        let ids = taken.iter().flatten().map(|heard| heard.inbox).collect();
        let edited = match self.host.store.edited(ids).await {
            Ok(edited) => BTreeMap::from_iter(edited),
            Err(error) => return tracing::warn!(%error, "edits of the messages of a turn could not be read"),
        };
        for heard in taken.iter_mut().flatten() {
            if let Some(edited) = edited.get(&heard.inbox) {
                heard.event = heard.event.clone().map(|event| message_edit::changed(event, edited));
            }
        }
    }

    /// Returns the effect that an event may have on the running turn, and the reason if it is less than requested.
    async fn may(&mut self, heard: &Heard) -> (BusyMode, Option<Demotion>) {
        // A sender who is answered only within the request waits for that answer; so does an event of an earlier run.
        let free = self.running.is_none() && !self.is_compressing();
        if free || self.draining || heard.urge == Urge::InOrder || !heard.place.can_deliver_later() {
            return (BusyMode::Queue, None);
        }
        let mode = match heard.urge {
            Urge::As(mode) => mode,
            Urge::AsChosen | Urge::InOrder => self.busy_mode(heard).await,
        };
        let Some(running) = &self.running else {
            let why = (mode != BusyMode::Queue).then_some(Demotion::Held(Hold::Compacting));
            return (BusyMode::Queue, why);
        };
        let by = heard.by();
        let someone_elses = heard.several && heard.event.tier() < Tier::Admin && !running.is_asked_by(&by);
        let demotion = match mode {
            BusyMode::Queue => None,
            _ if someone_elses => Some(Demotion::NotRequester),
            _ if running.answers_album(&by, heard.event.get().album.as_deref()) => Some(Demotion::SameBurst),
            _ if self.is_burst_of_files(heard, &by) => Some(Demotion::SameBurst),
            // A backlog is answered in its order, and each of its turns runs to its end.
            BusyMode::Interrupt if was_said_before(&self.host, heard, running) => Some(Demotion::SaidBefore),
            BusyMode::Interrupt => running.line.hold().map(Demotion::Held),
            BusyMode::Steer => (!self.host.runtime.steers()).then_some(Demotion::CannotSteer),
        };
        (if demotion.is_some() { BusyMode::Queue } else { mode }, demotion)
    }

    /// Returns the busy mode of this conversation, or of the instance.
    async fn busy_mode(&mut self, heard: &Heard) -> BusyMode {
        let chosen = self.memory.settings(&self.host, &self.session).await.and_then(|settings| settings.busy);
        chosen.unwrap_or_else(|| self.host.live().session_of(&heard.place.instance).busy)
    }

    /// Returns whether more files arrive right after those that the running turn answers.
    fn is_burst_of_files(&self, heard: &Heard, by: &str) -> bool {
        let recent = |(who, at): &(String, std::time::Duration)| {
            who == by && self.now().saturating_sub(*at) <= self.limits.windows.merge
        };
        !heard.event.get().attachments.is_empty() && self.files.as_ref().is_some_and(recent)
    }

    fn join(&self, heard: &Heard, wish: BusyMode) -> Join {
        let event = heard.event.get();
        let limit = heard.place.adapter.as_ref().map(|adapter| adapter.capabilities().text.clone());
        match heard.urge {
            // Events of the host that occur within a moment, or while a turn runs, are joined.
            _ if heard.is_news() => Join::Album,
            _ if heard.input.is_some() || !heard.place.can_deliver_later() => Join::OwnTurn,
            Urge::InOrder | Urge::AsChosen if event.album.is_some() => Join::Album,
            Urge::InOrder | Urge::As(_) => Join::Alone,
            Urge::AsChosen if wish == BusyMode::Steer => Join::Alone,
            Urge::AsChosen
                if !self.limits.windows.continuation.is_zero()
                    && event.attachments.is_empty()
                    && limit.is_some_and(|limit| may_be_cut(&event.text, &limit)) =>
            {
                Join::Cut
            }
            Urge::AsChosen => Join::Burst,
        }
    }

    /// Carries out due actions: starts the next turn, ends the running one.
    pub(super) async fn advance(&mut self) {
        while let Some(due) = self.guard.due(self.now()) {
            match due {
                // The next run of the host finds the waiting events.
                Due::Start if self.draining || self.is_collecting() => return,
                Due::Start => {
                    let Some(groups) = self.guard.start(self.now()) else { return };
                    let groups: Vec<Vec<Waiting>> = groups
                        .into_iter()
                        .map(|group| group.iter().filter_map(|id| self.waiting.remove(id)).collect())
                        .collect();
                    self.begin(groups).await;
                }
                Due::Interrupt => self.interrupt().await,
            }
        }
    }

    /// Starts a turn on these messages; if that fails, the guard is free again.
    pub(super) async fn begin(&mut self, groups: Vec<Vec<Waiting>>) {
        let Some(groups) = self.still_awaited(groups).await else {
            self.guard.finished();
            return;
        };
        let is_news = |waiting: &Waiting| matches!(waiting, Waiting::Heard(heard) if heard.is_news());
        let news = groups.iter().flatten().any(is_news);
        let mut messages = Vec::new();
        let mut started = None;
        for waiting in groups.into_iter().map(Vec::into_iter) {
            let mut message = Vec::new();
            for waiting in waiting {
                match waiting {
                    Waiting::Heard(heard) => message.push(*heard),
                    Waiting::CutOff(turn, events) if events.last().is_some_and(|last| !last.place.is_online()) => {
                        self.resuming = Some((turn, events));
                        return;
                    }
                    // A resumed turn is alone in its list.
                    Waiting::CutOff(turn, events) => started = self.admit_again(turn, events).await,
                }
            }
            messages.extend((!message.is_empty()).then_some(message));
        }
        if !messages.is_empty() {
            started = self.admit(messages).await;
        }
        if started.is_none() {
            tracing::warn!(session = %self.session, "turn could not start");
            self.guard.finished();
            if news {
                self.put_back().await;
            }
        }
        self.running = started;
        self.show_steering();
    }

    /// Interrupts the running turn at its next safe point, unless it must not be interrupted by now.
    async fn interrupt(&mut self) {
        match self.running.as_ref().map(|running| running.line.hold()) {
            Some(None) => self.running.iter_mut().for_each(Running::interrupt),
            Some(Some(hold)) => {
                let demoted = self.guard.demote();
                let place =
                    demoted.first().and_then(|id| self.waiting.get(id)?.heard()).map(|heard| heard.place.clone());
                if let Some(place) = place {
                    let words = queued(self.guard.depth(), Some(Demotion::Held(hold)));
                    let notice = place.tell(&self.host, words).await;
                    self.owe(notice).await;
                }
            }
            // Only `/stop` ends an interrupted turn that waits for its adapter.
            None => {
                self.guard.demote();
            }
        }
    }

    /// Gives the steering messages to the running turn: written first, then handed over.
    pub(super) async fn steer(&mut self, ask: SteeringRequest) {
        let now = self.now();
        let groups = self.guard.steer(now);
        self.show_steering();
        let Some(turn) = self.running.as_ref().map(|running| running.turn) else { return };
        let mut taken: Vec<Vec<Heard>> = groups
            .iter()
            .map(|group| group.iter().filter_map(|id| self.waiting.remove(id)).filter_map(as_heard).collect())
            .filter(|group: &Vec<Heard>| !group.is_empty())
            .collect();
        let ids: Vec<InboxId> = taken.iter().flatten().map(|heard| heard.inbox).collect();
        if !ids.is_empty() {
            let bind = || self.host.store.steer_turn(turn, ids.clone());
            if self.host.until_written("a steering message", bind).await.is_none() {
                // The event stays accepted, and the next run of the host takes it up.
                return;
            }
        }
        self.read_edits(&mut taken).await;
        self.look_away(taken.iter().flatten());
        if let Some(lease) = self.running.as_ref().and_then(|running| running.control.as_ref()) {
            taken.iter().flatten().for_each(|heard| lease.lower_to(&self.rights_of(heard)));
        }
        let files = Files::of(&self.host, taken.iter().flatten()).await;
        let (said_by, messages): (Vec<_>, Vec<_>) =
            taken.iter().flat_map(|group| context::messages(group, &files)).unzip();
        if let Some(running) = &mut self.running {
            running.said_by.extend(said_by);
            running.input.extend(messages.iter().cloned());
        }
        // A runtime that was stopped meanwhile has the messages in its transcript.
        let _ = ask.send(messages);
    }

    fn show_steering(&self) {
        if let Some(running) = &self.running {
            running.line.set_waiting(self.guard.steers());
        }
    }

    /// Ends the streams of events that are answered through another one.
    pub(super) fn look_away<'h>(&self, events: impl Iterator<Item = &'h Heard>) {
        for heard in events.filter(|heard| !heard.is_news()) {
            let Some(adapter) = &heard.place.adapter else { continue };
            if adapter.capabilities().stream == StreamKind::Native {
                let last = TurnEvent::Done { finish_reason: "silent".to_owned(), usage: Usage::default() };
                NativeStream::start(adapter.clone(), heard.inbox).push(last);
            }
        }
    }

    /// Notifies the senders that there was no room for these events.
    pub(super) async fn refuse(&self, refused: Vec<Heard>) {
        let max = self.limits.queue_max;
        let words = match refused.len() {
            1 => format!("Queue full ({max} messages). Please send this again later."),
            n => format!("Queue full ({max} messages), so your last {n} were not added. Please send them again later."),
        };
        self.not_taken(refused, words, "queue full").await;
    }

    /// Notifies the last sender that these events were not taken.
    pub(super) async fn not_taken(&self, events: Vec<Heard>, words: String, why: &str) {
        let (news, events): (Vec<_>, Vec<_>) = events.into_iter().partition(Heard::is_news);
        if !news.is_empty() {
            self.put_back().await;
        }
        let Some(last) = events.last() else { return };
        let reply = last.place.say(&self.host, Purpose::Notice, words).await;
        let ids = events.iter().map(|heard| heard.inbox).collect();
        let changes = vec![Change::DropInbox { ids, why: why.to_owned() }];
        self.write_order(CommandTx { inbox: None, changes, reply: vec![reply], now_ms: self.host.now_ms() }).await;
    }
}

/// Returns whether a message was sent before the running turn began, by the platform's timestamp. The offset of the
/// platform's clock is known from earlier events of the instance.
fn was_said_before(host: &Host, heard: &Heard, running: &Running) -> bool {
    let said_ms = heard.at_ms.saturating_add(host.clocks.ahead_ms(&heard.place.instance));
    heard.at_ms > 0 && said_ms.saturating_add(SLACK_MS) <= running.began_ms
}

/// Returns the notice for the chat of a turn besides its answer; `is_shown`: the chat sees the end of the turn.
pub(super) fn after_words(
    running: &Running,
    end: TurnEnd,
    cause: Cause,
    is_shown: bool,
    late: &[InboxId],
) -> Option<&'static str> {
    match cause {
        Cause::Interrupted if end == TurnEnd::Interrupted && !is_shown => Some(INTERRUPTED),
        // The reply to `/stop` mentions the waiting messages.
        Cause::Stopped => None,
        _ => (!late.is_empty() && running.heard.place.can_deliver_later()).then_some(LATE),
    }
}

pub(super) fn as_heard(waiting: Waiting) -> Option<Heard> {
    match waiting {
        Waiting::Heard(heard) => Some(*heard),
        Waiting::CutOff(..) => None,
    }
}

/// Returns whether a text is so long that its sender's client may have split it.
fn may_be_cut(text: &str, limit: &TextLimit) -> bool {
    let least = (limit.limit as usize).saturating_mul(CONTINUED_FROM_PERCENT) / 100;
    // No text has more units than bytes.
    least > 0 && text.len() >= least && measure(text, render::unit(&limit.unit)) >= least
}

/// Returns the notice to the sender of a waiting event.
fn queued(waiting: usize, why: Option<Demotion>) -> String {
    let why = match why {
        None | Some(Demotion::SameBurst | Demotion::SaidBefore) => ". I'll answer it when the running turn ends.",
        Some(Demotion::NotRequester) => ": this turn belongs to someone else; only they or an admin can interrupt it.",
        Some(Demotion::Held(Hold::Children)) => ": sub-agents of the running turn are still working and would be lost.",
        Some(Demotion::Held(Hold::Compacting)) => {
            ": this conversation is being compressed, which must not be interrupted."
        }
        Some(Demotion::CannotSteer) => ": this agent can't be steered while it is answering.",
    };
    format!("Queued ({waiting} waiting){why}")
}

#[cfg(test)]
mod tests {
    use hermes_protocol::{Dialect, TextUnit};

    use super::*;

    #[test]
    fn only_a_text_near_its_platforms_limit_may_have_been_cut() {
        let limit = TextLimit::new(100, TextUnit::Utf16, Dialect::Plain);
        assert!(!may_be_cut(&"a".repeat(89), &limit));
        assert!(may_be_cut(&"a".repeat(90), &limit));
        assert!(!may_be_cut(&"ä".repeat(89), &limit), "units, not bytes");
        assert!(may_be_cut(&"😀".repeat(45), &limit), "two units each");
        assert!(!may_be_cut(&"a".repeat(9_000), &TextLimit::default()), "no limit cuts nothing");
    }
}
