//! The lane of one session: its guard, its running turn, its memory, its typing sign.
//!
//! A lane is a task that the dispatcher creates when a session has work and releases when it is idle. The lane owns all
//! live state of the session, so this state needs no lock.
//!
//! * At most one turn runs. A message that arrives meanwhile interrupts the turn, waits, or steers it, as the busy mode
//!   says; without room, its sender is notified.
//! * Every step that must survive is committed before the next begins: admission, end of turn, command. Between two
//!   commits a crash loses nothing.
//! * `/stop` frees the session within [`STOP_GRACE`], whatever the runtime does.
//! * A fault of the lane itself costs only the turn or the message with which it happened: [`recover`].
//!
//! Read on: [`queue`] for waiting messages, [`turn`] for a running turn, [`crate::engine::session::outcome`] for the end of a turn,
//! [`crate::engine::context`] for the input of the runtime, [`hints`] for the hints during a turn.

mod ask;
mod attachments;
mod commands;
mod compress;
mod conversation;
mod display;
mod draft;
mod hint_line;
mod hints;
mod lease;
mod memory;
mod missing_files;
mod moved;
pub mod outcome;
mod queue;
pub mod reactions;
mod recover;
pub mod reset;
mod resume;
mod settings;
mod steps;
mod summary;
mod transfer;
mod turn;
mod wakes;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use hermes_agent::{Message, TurnOutcome};
use hermes_core::access::{HostCause, Origin, Tier};
use hermes_core::guard::{Admission, Arrival, Guard, Join, Windows};
use hermes_core::ids::{DeliveryId, InboxId, SessionId, TurnId};
use hermes_core::limits::{CONTINUATION_MS_MAX, LANE_HEALS_MAX};
use hermes_core::session::is_dm;
use hermes_core::settings::BusyMode;
use hermes_protocol::{Event, Purpose};
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use crate::engine::attachments::described::Files;
use crate::engine::background::tasks;
use crate::engine::context;
use crate::engine::context::{Heard, Place, Spoken, Urge};
use crate::engine::crash_points;
use crate::engine::messages::{HostEvent, Permit, TurnNews, TurnWish};
use crate::engine::run_tokens::Rights;
use crate::engine::runtime::Host;
use crate::engine::services::OPERATOR;
use crate::engine::session::outcome::Cause;
pub use ask::Given;
use attachments::Door;
pub use commands::{Act, Later, Order};
use compress::Compressing;
pub use conversation::{UNDO_TURNS_MAX, Wish, WishKind};
use display::Manner;
use hermes_config::SessionConfig;
use hermes_store::{
    Admit, Change, CommandTx, CutOffTurn, EndTurn, Lineage, NewDelivery, NewSession, ObservedUpTo, Parent, RouteRow,
    StoreError, TurnEnd,
};
use memory::Memory;
use moved::Moving;
pub use moved::{After, Then};
use queue::after_words;
pub use transfer::Freed;
use turn::{Running, Step};

/// Time in which a stopped runtime may end by itself before its task is abandoned.
pub const STOP_GRACE: Duration = Duration::from_millis(300);

/// The longest quotation of the question in an answer from the background, in characters.
const ASIDE_CHARS_MAX: usize = 60;

/// Time for which an idle lane keeps its memory.
const IDLE: Duration = Duration::from_secs(60);

impl Waiting {
    /// Returns the last event, to which the answer belongs.
    fn heard(&self) -> Option<&Heard> {
        match self {
            Self::Heard(heard) => Some(heard),
            Self::CutOff(_, events) => events.last(),
        }
    }
}

/// A request of the dispatcher to a lane. The channel has no bound of its own: each message holds a [`Permit`] or comes
/// from the operator.
#[derive(Debug)]
pub enum LaneMessage {
    /// An event needs a turn.
    Heard(Box<Heard>, Permit),
    /// An event that waited for its files, or after such an event, needs a turn.
    Fetched(Box<Heard>),
    /// A user gave an order.
    Order(Box<Order>, Permit),
    /// A turn that a crash interrupted has to be resumed.
    Resume(CutOffTurn, Vec<Heard>),
    /// A caller asks about the turn of an event.
    Ask {
        /// The instance of the event.
        instance: Arc<str>,
        /// The event.
        inbox: InboxId,
        /// The operation.
        wish: TurnWish,
        /// Receives the state word, from the lane that has the event.
        reply: mpsc::Sender<&'static str>,
    },
    /// A person answered a question of the running turn.
    Answer(Box<Given>, Permit),
    /// A question of the running turn will not be asked.
    NotAsked {
        /// The question.
        ask: String,
        /// The reason.
        why: String,
    },
    /// The operator ends the session.
    Close {
        /// The changes of the same transaction.
        changes: Vec<Change>,
        /// Lets the next sessions of the same keys begin.
        then: Vec<Then>,
        /// Receives whether the end is written.
        reply: oneshot::Sender<bool>,
    },
    /// A sender edited a message.
    Edited(Box<Event>),
    /// The session's state in memory is outdated.
    Forget,
    /// Chats lead to another session from here on; messages on their way are handed on to its lane.
    Moved {
        /// The stored keys of the chats.
        keys: BTreeSet<String>,
        /// Receives the messages that are handed on.
        then: Then,
    },
    /// Another lane hands messages on, which come before anything newer.
    HandedOn(After),
    /// The host ends or drains: start nothing new.
    Drain,
    /// The drain has ended.
    Undrain,
}

/// A session that is not stored yet; its first commit stores it.
#[derive(Clone, Debug)]
pub struct Birth {
    /// The session.
    pub session: NewSession,
    /// The route that leads to it; none for a background session.
    pub route: Option<RouteRow>,
    /// The session that it replaces, if a rule ended that one.
    pub takeover: Option<Takeover>,
}

/// A session that a rule ends.
#[derive(Clone, Debug)]
pub struct Takeover {
    /// The session.
    pub former: SessionId,
    /// The reason of the end.
    pub reason: &'static str,
    /// The notice for the chat.
    pub notice: Option<String>,
}

/// The lane of one session.
pub struct Lane {
    host: Arc<Host>,
    session: SessionId,
    birth: Option<Birth>,
    guard: Guard,
    limits: GuardLimits,
    /// The zero point of the guard's times.
    began: Instant,
    waiting: BTreeMap<InboxId, Waiting>,
    running: Option<Running>,
    /// An interrupted turn whose adapter is not online yet.
    resuming: Option<(TurnId, Vec<Heard>)>,
    /// Messages whose files are still with their platform, and later messages of their senders.
    door: Door,
    /// The last sender of files, and the time: a message directly after them belongs to them.
    files: Option<(String, Duration)>,
    /// Messages of the dispatcher that were not processed yet.
    batch: VecDeque<LaneMessage>,
    /// The message that is being processed.
    in_hand: Option<Place>,
    /// The turn that is stored as running.
    written: Option<(TurnId, Place)>,
    /// The number of recovered faults.
    heals: u32,
    memory: Memory,
    /// A compression of the history in progress. Nothing else runs meanwhile.
    compressing: Option<Compressing>,
    /// Chats that lead to another session from here on.
    moving: Moving,
    /// The conversations of the last list, by their number.
    listed: BTreeMap<usize, SessionId>,
    /// Resolves when an earlier lane has written the state that this one builds on.
    after: Option<After>,
    draining: bool,
}

/// The limits of a lane's guard, as of the creation of the lane.
#[derive(Clone, Copy, Debug)]
pub struct GuardLimits {
    /// Events that may wait.
    pub queue_max: usize,
    /// Times within which messages may be joined.
    pub windows: Windows,
}

impl GuardLimits {
    /// Reads the limits from the configuration.
    pub fn of(session: &SessionConfig) -> Self {
        let windows = Windows {
            merge: session.merge,
            merge_max: session.merge_max,
            continuation: session.continuation,
            continuation_max: Duration::from_millis(CONTINUATION_MS_MAX),
        };
        Self { queue_max: session.queue_max, windows }
    }
}

/// An event whose turn has not started.
#[derive(Debug)]
enum Waiting {
    Heard(Box<Heard>),
    CutOff(TurnId, Vec<Heard>),
}

impl Lane {
    /// Creates the lane of a session; `birth` if the session is not stored yet.
    pub fn new(
        host: Arc<Host>,
        session: SessionId,
        limits: GuardLimits,
        birth: Option<Birth>,
        after: Option<After>,
    ) -> Self {
        Self {
            memory: Memory::new(birth.is_some()),
            began: host.clock.moment(),
            host,
            session,
            birth,
            guard: Guard::new(limits.queue_max, limits.windows),
            limits,
            waiting: BTreeMap::new(),
            running: None,
            resuming: None,
            compressing: None,
            moving: Moving::default(),
            door: Door::default(),
            listed: BTreeMap::new(),
            files: None,
            batch: VecDeque::new(),
            in_hand: None,
            written: None,
            heals: 0,
            after,
            draining: false,
        }
    }

    /// Runs until the dispatcher closes the mailbox, or until the host ends.
    pub async fn run(mut self: Box<Self>, mut mailbox: mpsc::UnboundedReceiver<LaneMessage>) {
        if let Some(after) = self.after.take() {
            Box::pin(self.take_over(after)).await;
        }
        let mut taken = 0;
        while let Err(fault) = AssertUnwindSafe(self.live(&mut mailbox, &mut taken)).catch_unwind().await {
            if self.heals >= LANE_HEALS_MAX {
                std::panic::resume_unwind(fault);
            }
            self.heals += 1;
            Box::pin(self.heal()).await;
        }
        Box::pin(self.park()).await;
    }

    /// Runs the lane's loop. The work is boxed: a waiting lane is a small task, so a host with many of them needs
    /// little memory.
    async fn live(&mut self, mailbox: &mut mpsc::UnboundedReceiver<LaneMessage>, taken: &mut u64) {
        let host = Arc::clone(&self.host);
        let mut batch = Vec::new();
        let mut told_idle = false;
        loop {
            Box::pin(self.take()).await;
            Box::pin(self.advance()).await;
            if self.draining && !self.is_busy() {
                break;
            }
            let due = self.guard.due_at().filter(|_| !self.is_collecting()).map(|at| self.began + at);
            tokio::select! {
                count = mailbox.recv_many(&mut batch, 64) => {
                    if count == 0 {
                        break;
                    }
                    *taken += count as u64;
                    told_idle = false;
                    self.batch.extend(batch.drain(..));
                }
                step = next_step(&mut self.running) => Box::pin(self.step(step)).await,
                () = adapter_back(&self.resuming) => Box::pin(self.go_on()).await,
                ready = self.door.next() => Box::pin(self.let_in(ready)).await,
                summary = compress::next(&mut self.compressing) => Box::pin(self.compressed(summary)).await,
                () = turn::at(&*host.clock, due) => {}
                () = tokio::time::sleep(IDLE), if self.has_nothing() && !told_idle => {
                    told_idle = true;
                    let unborn = self.birth.is_some();
                    let taken = *taken;
                    host.tell(HostEvent::Turn(TurnNews::Idle { session: self.session.clone(), taken, unborn })).await;
                }
                () = host.parking.cancelled() => break,
            }
        }
    }

    /// Processes received messages in order. Refusals of one batch share a notice.
    async fn take(&mut self) {
        let mut refused = Vec::new();
        while let Some(message) = self.batch.pop_front() {
            let Some(message) = self.moving.keep_back(message) else { continue };
            match message {
                LaneMessage::Heard(heard, _permit) => {
                    self.in_hand = Some(heard.place.clone());
                    refused.extend(self.come(heard).await.map(|heard| *heard));
                }
                LaneMessage::Fetched(heard) => {
                    self.in_hand = Some(heard.place.clone());
                    refused.extend(self.hear_now(heard).await.map(|heard| *heard));
                }
                LaneMessage::Order(order, _permit) => {
                    self.in_hand = Some(order.place.clone());
                    self.obey(*order).await;
                }
                LaneMessage::Resume(cut_off, events) => self.resume(cut_off, events).await,
                LaneMessage::Ask { instance, inbox, wish, reply } => self.answer(&instance, inbox, wish, reply).await,
                LaneMessage::Answer(given, _permit) => self.answered(*given).await,
                LaneMessage::NotAsked { ask, why } => self.not_answered(&ask, ask::Over::NotAsked(why)).await,
                LaneMessage::Close { changes, then, reply } => {
                    let written = self.close(changes).await;
                    drop(then);
                    // The caller may have stopped waiting.
                    let _ = reply.send(written);
                }
                LaneMessage::Edited(edit) => self.edit_what_waits(&edit),
                LaneMessage::Forget => self.memory.forget(),
                LaneMessage::Moved { keys, then } => self.moving.hand_on(&keys, then),
                LaneMessage::HandedOn(after) => self.take_over(after).await,
                LaneMessage::Drain => self.drain(),
                LaneMessage::Undrain => self.draining = false,
            }
            self.in_hand = None;
            self.advance().await;
        }
        if !refused.is_empty() {
            self.refuse(refused).await;
        }
    }

    /// Commits that a turn runs, then runs it. `groups` are its messages, each of one or more events.
    async fn admit(&mut self, mut groups: Vec<Vec<Heard>>) -> Option<Running> {
        let place = groups.last()?.last()?.place.clone();
        self.bear(&place).await?;
        self.settle_beside().await;
        let admit = Admit {
            session: self.session.clone(),
            new_session: self.birth.as_ref().map(|birth| birth.session.clone()),
            route: self.birth.as_ref().and_then(|birth| birth.route.clone()),
            inbox: groups.iter().flatten().map(|heard| heard.inbox).collect(),
            epoch: self.host.epoch,
            now_ms: self.host.now_ms(),
        };
        let task = self.birth.as_ref().and_then(|birth| tasks::aside(&self.host, groups.last()?.last()?, birth));
        let write = async || match &task {
            Some(task) => self.host.store.admit_task(admit.clone(), task.clone()).await,
            None => self.host.store.admit(admit.clone()).await,
        };
        let start = async || match write().await {
            Err(StoreError::Conflict { .. }) if self.host.handoffs.has(&self.session) => Ok(None),
            started => started.map(Some),
        };
        let Some(turn) = self.host.until_written("the start of a turn", start).await? else {
            self.turn_away_all(groups).await;
            return None;
        };
        self.written = Some((turn, place));
        self.birth = None;
        self.read_edits(&mut groups).await;
        let running = self.start(turn, groups, Vec::new()).await?;
        if tasks::runs(&running.heard) {
            tasks::begun(&self.host, &self.session).await;
        }
        Some(running)
    }

    /// Copies the settings of the conversation to its background session.
    async fn settle_beside(&mut self) {
        let Some(Birth { session, .. }) = &mut self.birth else { return };
        let Some(Parent { session: parent, lineage: Lineage::Aside }) = &session.parent else { return };
        match self.host.store.session(parent).await {
            Ok(Some(row)) => {
                session.settings = row.settings;
                self.memory.choose(session.settings.clone());
            }
            Ok(None) => {}
            Err(error) => tracing::warn!(%parent, %error, "session settings could not be read"),
        }
    }

    /// Commits that an interrupted turn runs again.
    async fn admit_again(&mut self, turn: TurnId, events: Vec<Heard>) -> Option<Running> {
        let place = events.last()?.place.clone();
        let epoch = self.host.epoch;
        self.host.until_written("the resumption of a turn", || self.host.store.resume_turn(turn, epoch)).await?;
        self.written = Some((turn, place));
        let steps = self.done_before(turn).await;
        let mut running = self.start(turn, events.into_iter().map(|event| vec![event]).collect(), steps).await?;
        match self.host.store.drafts_of(turn).await {
            Ok(drafts) => drafts.last().into_iter().for_each(|draft| running.adopt(draft)),
            // Without its draft the message ends as interrupted, with the turn.
            Err(error) => tracing::warn!(%turn, %error, "draft of an interrupted turn could not be read"),
        }
        Some(running)
    }

    /// Returns the rights that an event gives to its turn. An event of the host has those of a user; for messages to
    /// other chats, the rights of the represented person count.
    fn rights_of(&self, heard: &Heard) -> Rights {
        let (event, tier) = (heard.event.get(), heard.event.tier());
        let reach = match heard.event.origin() {
            Origin::Sender => tier,
            Origin::Host(_) if heard.owner.as_deref() == Some(OPERATOR) => Tier::Operator,
            Origin::Host(_) if crate::engine::background::wakeups::is_nobody(&event.sender) => tier,
            Origin::Host(_) => self.tier_of(&heard.place.instance, &event.chat, &event.sender).max(tier),
        };
        Rights { tier, reach, person: heard.owner.clone() }
    }

    /// Runs a committed turn, after the steps that it made in an earlier run of the host.
    async fn start(&mut self, turn: TurnId, mut groups: Vec<Vec<Heard>>, steps: Vec<Message>) -> Option<Running> {
        let remembered = self.memory.read(&self.host, &self.session).await;
        let files = Files::of(&self.host, groups.iter().flatten()).await;
        let said = groups.iter().flat_map(|group| context::messages(group, &files));
        let (said_by, mut messages): (Vec<Spoken>, Vec<Message>) = said.unzip();
        let heard = groups.last_mut()?.pop()?;
        let observed = self.observed(&heard, &said_by, &mut messages).await;
        let manner = Manner::of(&self.host.live(), &heard.place.instance, &remembered.settings);
        let mut request = context::build(&self.host, &self.session, turn, &heard, messages, remembered);
        request.steps = steps;
        let lost = self.host.losses.take(&self.session);
        request.system = context::with_note(request.system, lost.as_deref());
        // The turn has the least rights among those of its senders.
        let others = groups.iter().flatten().map(|heard| self.rights_of(heard));
        let rights = others.fold(self.rights_of(&heard), Rights::and);
        let lease = self.host.runs.issue(&*self.host.chance, rights, &mut request.context);
        crash_points::point("mid_turn");
        self.look_away(groups.iter().flatten());
        if let Some(words) = missing_files::missing(groups.iter().flatten().chain([&heard])) {
            let notice = heard.place.tell(&self.host, words).await;
            self.owe(notice).await;
        }
        if heard.aside && heard.urge != Urge::InOrder {
            let words = format!(
                "Working on it in the background as turn {turn}. The answer comes here; `/agents` shows the turn."
            );
            let notice = heard.place.tell(&self.host, words).await;
            self.owe(notice).await;
        }
        let mut running = Running::start(&self.host, turn, heard, said_by, request, manner);
        running.control = Some(lease);
        running.observed = observed;
        Some(running)
    }

    /// Puts the kept messages of a group before the first message of its turn. The end of the turn removes them.
    async fn observed(&self, heard: &Heard, said_by: &[Spoken], messages: &mut [Message]) -> Option<ObservedUpTo> {
        let (instance, chat) = (&heard.place.instance, &heard.place.chat);
        let is_said = heard.event.origin() == Origin::Sender && !heard.aside && !is_dm(&chat.kind);
        if !is_said || !self.host.live().session_of(instance).observe {
            return None;
        }
        let is_here = |spoken: &Spoken| spoken.instance == *instance && spoken.chat == *chat;
        let first = said_by.iter().position(is_here).and_then(|n| messages.get_mut(n))?;
        self.host.observing.caught_up().await;
        let lines = match self.host.store.observed(instance, chat).await {
            Ok(lines) => lines,
            Err(error) => {
                tracing::warn!(%instance, %error, "stored messages of a group could not be read");
                return None;
            }
        };
        let inbox = InboxId(lines.last()?.inbox);
        first.content = format!("{}{}", context::observed(&lines), first.content);
        Some(ObservedUpTo { instance: instance.to_string(), chat: chat.clone(), inbox, now_ms: self.host.now_ms() })
    }

    /// Stores a session that replaces another one. Any other is stored with its first turn.
    async fn bear(&mut self, place: &Place) -> Option<()> {
        let Some(Birth { session, route: Some(route), takeover: Some(takeover) }) = self.birth.clone() else {
            return Some(());
        };
        let mut reply = Vec::new();
        if let Some(notice) = takeover.notice
            && place.can_deliver_later()
            && self.said_something(&takeover.former).await
        {
            reply.push(place.tell(&self.host, notice).await);
        }
        let changes = vec![
            Change::EndSession { session: takeover.former, reason: takeover.reason.to_owned() },
            Change::NewSession(session),
            Change::BindBorn(route),
        ];
        let order = CommandTx { inbox: None, changes, reply, now_ms: self.host.now_ms() };
        if !self.write_order(order).await {
            return None;
        }
        self.birth = None;
        self.memory.begins_anew(takeover.reason);
        Some(())
    }

    /// Returns whether a session has a transcript.
    async fn said_something(&self, session: &SessionId) -> bool {
        let row = self.host.store.session(session).await;
        row.is_ok_and(|row| row.is_some_and(|row| row.messages > 0))
    }

    /// Resumes a turn that a crash interrupted, before anything newer.
    async fn resume(&mut self, cut_off: CutOffTurn, events: Vec<Heard>) {
        self.wait_for_its_turn(cut_off.turn, cut_off.attempts, events).await;
    }

    async fn wait_for_its_turn(&mut self, turn: TurnId, attempts: u32, events: Vec<Heard>) {
        let Some(last) = events.last() else {
            return self.close_cut_off(turn, "its event cannot be read", None).await;
        };
        let attempts_max = self.host.live().config.session.resume_attempts_max;
        if attempts > attempts_max {
            return self.close_cut_off(turn, "interrupted too often", Some(last)).await;
        }
        let (inbox, by) = (last.inbox, last.by());
        match self.guard.arrive(Arrival { inbox, by, wish: BusyMode::Queue, join: Join::OwnTurn }, self.now()) {
            Admission::Run => self.begin(vec![vec![Waiting::CutOff(turn, events)]]).await,
            Admission::Refused { .. } => self.close_cut_off(turn, "too many turns were interrupted", Some(last)).await,
            _ => {
                self.waiting.insert(inbox, Waiting::CutOff(turn, events));
            }
        }
    }

    /// Continues the turn that waited for its adapter, which is online again.
    async fn go_on(&mut self) {
        if let Some((turn, events)) = self.resuming.take() {
            self.begin(vec![vec![Waiting::CutOff(turn, events)]]).await;
        }
    }

    /// Ends a turn that will not be resumed, and notifies its chat.
    async fn close_cut_off(&mut self, turn: TurnId, why: &str, heard: Option<&Heard>) {
        let mut deliveries = Vec::new();
        if let Some(heard) = heard {
            let words = outcome::GIVEN_UP.to_owned();
            deliveries.push(match heard.place.deliver {
                Some(_) => heard.place.answer(&self.host, words).await,
                None => heard.place.say(&self.host, Purpose::Notice, words).await,
            });
        }
        let end = EndTurn {
            turn,
            state: TurnEnd::Failed,
            error: Some(why.to_owned()),
            session: self.session.clone(),
            messages: Vec::new(),
            deliveries,
            usage: hermes_protocol::Usage::default(),
            agent_state: None,
            observed: None,
            now_ms: self.host.now_ms(),
        };
        self.write_end(end).await;
    }

    /// Handles an event of the running turn.
    async fn step(&mut self, step: Step) {
        match step {
            Step::Said => {
                if let Some(running) = &mut self.running {
                    running.show(&self.host).await;
                }
            }
            Step::Ended(outcome) => {
                let interrupted = self.running.as_ref().is_some_and(Running::is_interrupted);
                let cause = if interrupted { Cause::Interrupted } else { Cause::Itself };
                self.end(outcome, cause).await;
            }
            Step::Asks(ask) => self.steer(ask).await,
            Step::Wants(asked) => self.ask(asked).await,
            Step::NotAnswered(id, how) => self.not_answered(&id, how).await,
            Step::Stuck => self.stop_for(Cause::Interrupted).await,
            Step::Silent => self.stop_for(Cause::Inactive).await,
            Step::StillWorking(words) => {
                if let Some(running) = self.running.as_ref().filter(|running| !tasks::runs(&running.heard)) {
                    let notice = running.heard.place.tell(&self.host, words).await;
                    self.owe(notice).await;
                }
            }
        }
    }

    async fn stop_for(&mut self, cause: Cause) {
        if let Some(running) = &mut self.running {
            let outcome = running.stop().await;
            self.end(outcome, cause).await;
        }
    }

    /// Commits the end of the running turn and its deliveries. Waiting messages are next.
    async fn end(&mut self, outcome: TurnOutcome, cause: Cause) {
        let Some(mut running) = self.running.take() else { return };
        running.control = None;
        running.show(&self.host).await;
        let asks = running.asks.take_all();
        self.note_health(&running, &outcome, cause);
        let is_cut = matches!(&outcome, TurnOutcome::Finished { finish_reason, .. } if finish_reason == "length");
        let mut conclusion = outcome::conclude(outcome, cause, &self.host.live());
        self.keep_steps(running.turn, cause, &mut conclusion).await;
        // The output of a task's turn belongs to the task, which has its own notices.
        let is_task = tasks::runs(&running.heard);
        if let Some(answer) = conclusion.says.take().filter(|_| !is_task) {
            let answer = self.with_thoughts(answer, &conclusion.messages).await;
            // A service reads the reason for which the answer ends; a person reads the mark.
            let mark = if is_cut && running.heard.place.can_deliver_later() { outcome::USED_UP } else { "" };
            conclusion.says = Some(aside(&running.heard, format!("{answer}{mark}")));
        }
        let mut deliveries: Vec<NewDelivery> = running.conclude(&self.host, &conclusion).await.into_iter().collect();
        let late = self.guard.finished();
        // A stream shows the end of a turn to its observers; a chat that can be notified later gets a message.
        let looks_on = running.is_streamed() && !running.heard.place.can_deliver_later();
        let is_shown = looks_on || !deliveries.is_empty() || is_task;
        if let Some(words) = after_words(&running, conclusion.end, cause, is_shown, &late) {
            // In a group the notice quotes the message that it is about.
            let mut notice = running.heard.place.tell(&self.host, words.to_owned()).await;
            notice.reply_to.clone_from(&running.heard.place.reply_to);
            deliveries.push(notice);
        }
        let left_out = running.line.left_out();
        let outgrown = !running.heard.aside && !is_task && self.is_outgrown(&running.heard.place, left_out);
        if outgrown {
            deliveries.push(running.heard.place.tell(&self.host, compress::OUTGROWN.to_owned()).await);
        }
        let place = running.heard.place.clone();
        let now_ms = self.host.now_ms();
        let said = running.said_by.iter().zip(&running.input);
        let said =
            said.map(|(spoken, message)| (if spoken.at_ms > 0 { spoken.at_ms } else { now_ms }, message.clone()));
        let mut transcript: Vec<_> =
            said.chain(conclusion.messages.iter().map(|message| (now_ms, message.clone()))).collect();
        if conclusion.error.is_some() && running.heard.event.origin() == Origin::Host(HostCause::Handoff) {
            // Its handoff fails with it, so the conversation stays as it was.
            transcript.clear();
            conclusion.state = None;
        }
        let end = EndTurn {
            turn: running.turn,
            state: conclusion.end,
            error: conclusion.error,
            session: self.session.clone(),
            messages: memory::rows(&transcript, &running.said_by),
            deliveries,
            usage: conclusion.usage,
            agent_state: conclusion.state.clone().map(|state| (self.host.runtime.name().to_owned(), state)),
            observed: running.observed.take(),
            now_ms,
        };
        self.write_end(end).await;
        if let Some(tools) = running.tools_shown() {
            self.tell_grown(tools).await;
        }
        self.close_asks(asks).await;
        self.written = None;
        self.memory.add(&self.host, transcript, conclusion.state);
        // Also for a stopped turn: the message names the subject.
        let title = self.title_after(&running.heard).filter(|_| !is_task);
        if running.heard.aside {
            self.host.tasks.ring();
            self.host.tell(HostEvent::Turn(TurnNews::Aside { session: self.session.clone() })).await;
        }
        let ends = running.heard.place.deliver.as_ref().is_some_and(|deliver| deliver.ends);
        running.close(conclusion.last);
        if let Some(title) = title {
            self.name_after(&title).await;
        }
        if ends && self.waiting.is_empty() && self.door.is_empty() {
            self.host.tell(HostEvent::Turn(TurnNews::Complete { session: self.session.clone() })).await;
        }
        if outgrown {
            self.compress_by_itself(place).await;
        }
    }

    /// Counts the end of the turn, and logs a failure with its ids.
    fn note_health(&self, running: &Running, outcome: &TurnOutcome, cause: Cause) {
        let now_ms = self.host.now_ms();
        let health = &self.host.health;
        match outcome {
            TurnOutcome::Finished { .. } => health.answered(now_ms),
            TurnOutcome::Interrupted { .. } if cause == Cause::Inactive => {
                health.failed("silent", "the agent was silent for too long", now_ms);
            }
            TurnOutcome::Interrupted { .. } => {}
            TurnOutcome::Failed(failure) => {
                let detail = self.host.live().masker.mask(&failure.detail).into_owned();
                let instance = &running.heard.place.instance;
                let (code, kind, turn) = (failure.code, failure.kind, running.turn);
                tracing::warn!(session = %self.session, %turn, %instance, code, kind, detail, "a turn failed");
                health.failed(kind, &detail, now_ms);
            }
        }
    }

    async fn write_end(&self, end: EndTurn) {
        let end = Arc::new(end);
        let written = self.host.until_written("the end of a turn", || self.host.store.end_turn(Arc::clone(&end))).await;
        if let Some(ids) = written {
            crash_points::point("after_owe");
            if self.host.handoffs.has(&self.session) {
                crash_points::point("handoff_owed");
            }
            let (said, grown) = ids.split_at(end.deliveries.len().min(ids.len()));
            self.host.carry(said.to_vec(), Arc::unwrap_or_clone(end).deliveries).await;
            for id in grown {
                self.tell_grown(*id).await;
            }
            self.host.handoffs.turn_over(&self.session);
        }
    }

    /// Reports to its outbox lane that the store has ended a growing message of a finished turn.
    async fn tell_grown(&self, id: DeliveryId) {
        match self.host.store.delivery(id).await {
            Ok(Some(delivery)) => self.host.tell_grown(delivery.instance, delivery.chat, id).await,
            Ok(None) => {}
            Err(error) => {
                tracing::error!(delivery = %id, %error, "owed delivery could not be read; it waits for the next start")
            }
        }
    }

    /// Commits an order and hands its reply to the outbox.
    async fn write_order(&self, order: CommandTx) -> bool {
        let written = self.host.until_written("an order", || self.host.store.command(order.clone())).await;
        match written {
            Some(ids) => self.host.carry(ids, order.reply).await,
            None => return false,
        }
        crate::engine::dispatcher::pairing::greet(&self.host, &order.changes);
        true
    }

    async fn owe(&self, delivery: NewDelivery) {
        let written = self.host.until_written("a notice", || self.host.store.owe(delivery.clone())).await;
        if let Some(id) = written {
            self.host.carry(vec![id], vec![delivery]).await;
        }
    }

    /// Answers a caller about a turn, if this lane has its event.
    async fn answer(&mut self, instance: &str, inbox: InboxId, wish: TurnWish, reply: mpsc::Sender<&'static str>) {
        let is_it = |heard: &Heard| heard.inbox == inbox && *heard.place.instance == *instance;
        let runs = self.running.as_ref().is_some_and(|running| running.answers(instance, inbox));
        let resumes = self.resuming.as_ref().is_some_and(|(_, events)| events.iter().any(is_it));
        let waits = self.waiting.get(&inbox).and_then(Waiting::heard).or(self.door.get(inbox)).is_some_and(is_it);
        let state = match (runs, resumes || waits) {
            (true, _) => "running",
            (false, true) => "queued",
            (false, false) => return,
        };
        // The caller may have stopped waiting.
        let _ = reply.try_send(state);
        match wish {
            TurnWish::Tell => {}
            TurnWish::Stop if runs || resumes => self.stop().await,
            TurnWish::Stop => self.withdraw(inbox).await,
        }
    }

    /// Removes an event from the queue because its sender withdrew it.
    async fn withdraw(&mut self, inbox: InboxId) {
        self.guard.withdraw(inbox);
        self.door.remove(inbox);
        match self.waiting.remove(&inbox) {
            Some(Waiting::CutOff(turn, events)) => self.give_up(turn, &events).await,
            Some(Waiting::Heard(_)) | None => {
                let changes = vec![Change::DropInbox { ids: vec![inbox], why: "withdrawn".to_owned() }];
                let now_ms = self.host.now_ms();
                self.write_order(CommandTx { inbox: None, changes, reply: Vec::new(), now_ms }).await;
            }
        }
    }

    /// Returns whether nothing runs and nothing waits here.
    fn has_nothing(&self) -> bool {
        self.guard.is_idle() && self.door.is_empty()
    }

    /// Returns whether the session has work that must end before its transcript may change.
    fn is_busy(&self) -> bool {
        self.running.is_some() || self.is_compressing()
    }

    /// Starts nothing new. A compression is given up; its order waits in the inbox for the next run of the host.
    fn drain(&mut self) {
        self.draining = true;
        self.compressing = None;
        // The rows wait in the inbox, with the references.
        self.door.clear();
    }

    /// Ends the running turn on request.
    async fn stop(&mut self) {
        if let Some(compressing) = self.compressing.take() {
            self.not_compressed(compressing, "it was stopped").await;
        } else if let Some((turn, events)) = self.resuming.take() {
            self.give_up(turn, &events).await;
            self.guard.finished();
        } else {
            self.stop_for(Cause::Stopped).await;
        }
    }

    /// Leaves the running turn to the next run of the host, which finds its row.
    async fn park(&mut self) {
        if let Some(running) = self.running.take() {
            tracing::info!(session = %self.session, turn = %running.turn, "parked");
            running.park(&self.host).await;
        }
    }
}

/// Waits until an interrupted turn can continue; forever if there is none.
async fn adapter_back(resuming: &Option<(TurnId, Vec<Heard>)>) {
    match resuming.as_ref().and_then(|(_, events)| events.last()?.place.adapter.as_ref()) {
        Some(adapter) => adapter.online().await,
        None => std::future::pending().await,
    }
}

/// Formats the output of a background turn for the chat of its conversation.
fn aside(heard: &Heard, markdown: String) -> String {
    if !heard.aside {
        return markdown;
    }
    let asked: String = heard.event.get().text.chars().take(ASIDE_CHARS_MAX).collect();
    let asked = asked.lines().next().unwrap_or_default().replace('`', "'");
    format!("Background answer to `{asked}`:\n\n{markdown}")
}

/// Waits for the running turn; forever if there is none.
async fn next_step(running: &mut Option<Running>) -> Step {
    match running {
        Some(running) => running.next().await,
        None => std::future::pending().await,
    }
}
