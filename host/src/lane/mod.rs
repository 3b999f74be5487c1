//! One session's owner: its guard, its running turn, its memory, its typing sign.
//!
//! A lane is a task that the dispatcher makes when a session has something to do
//! and lets go when it has nothing. All live state of the session is here and
//! nowhere else, so nothing about a session needs a lock.
//!
//! * At most one turn runs; whoever writes meanwhile ends it, waits in order or
//!   reaches it, as was chosen, or is told truthfully that there is no room.
//! * Every step that must survive is committed before the next begins: admit,
//!   end of turn, command. Between two commits a crash loses nothing.
//! * `/stop` frees the session within [`STOP_GRACE`], whatever the runtime does.
//!
//! * A fault of the lane itself costs the turn or the message it happened with, and
//!   nothing else: [`heal`].
//!
//! Read on: [`queue`] for what waits, [`running`] for the turn while it runs, [`crate::turn`] for what its
//! end means, [`crate::context`] for what the runtime gets, [`hints`] for what a
//! chat sees meanwhile.

mod ask;
mod compress;
mod conversation;
mod door;
mod draft;
mod files;
mod heal;
mod hint_line;
mod hints;
mod lease;
mod manner;
mod memory;
mod moved;
mod moves;
mod orders;
mod queue;
pub mod reacting;
mod resume;
mod running;
mod settings;
mod steps;
mod summary;
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

use crate::config::SessionConfig;
use crate::context::{self, Heard, Place, Spoken, Urge};
use crate::control::Rights;
use crate::crash;
use crate::events::{HostEvent, Permit, TurnNews, TurnWish};
use crate::files::Files;
use crate::host::Host;
use crate::services::OPERATOR;
use crate::store::{
    Admit, Change, CommandTx, CutOffTurn, EndTurn, Lineage, NewDelivery, NewSession, ObservedUpTo, Parent, RouteRow,
    StoreError, TurnEnd,
};
use crate::tasks;
use crate::turn::{self, Cause};
pub use ask::Given;
use compress::Compressing;
pub use conversation::{UNDO_TURNS_MAX, Wish, WishKind};
use door::Door;
use manner::Manner;
use memory::Memory;
use moved::Moving;
pub use moved::{After, Then};
pub use moves::Freed;
pub use orders::{Act, Later, Order};
use queue::after_words;
use running::{Running, Step};

/// How long a stopped runtime may take to end by itself before its task is abandoned.
pub const STOP_GRACE: Duration = Duration::from_millis(300);

/// What is repeated of the question when its answer comes from the background.
const ASIDE_CHARS_MAX: usize = 60;

/// A lane without anything to do keeps its memory for this long.
const IDLE: Duration = Duration::from_secs(60);

impl Waiting {
    /// Its last event, which is where it is answered.
    fn heard(&self) -> Option<&Heard> {
        match self {
            Self::Heard(heard) => Some(heard),
            Self::CutOff(_, events) => events.last(),
        }
    }
}

/// What the dispatcher asks of a lane. The channel has no bound of its own: each
/// message holds a [`Permit`] or comes from the operator.
#[derive(Debug)]
pub enum LaneMessage {
    /// An event wants a turn.
    Heard(Box<Heard>, Permit),
    /// An event that waited for its files, or behind such a one, wants a turn.
    Fetched(Box<Heard>),
    /// Somebody gave an order.
    Order(Box<Order>, Permit),
    /// A turn that a crash cut off is to go on.
    Resume(CutOffTurn, Vec<Heard>),
    /// Somebody asks about the turn of an event.
    Ask {
        /// The instance that the event came through.
        instance: Arc<str>,
        /// The event.
        inbox: InboxId,
        /// What is wanted.
        wish: TurnWish,
        /// Hears the state word, from the lane that has the event.
        reply: mpsc::Sender<&'static str>,
    },
    /// Somebody answered what the running turn asks.
    Answer(Box<Given>, Permit),
    /// What the running turn asks will not be asked.
    NotAsked {
        /// The question.
        ask: String,
        /// Why.
        why: String,
    },
    /// The operator ends the session.
    Close {
        /// What is written with it.
        changes: Vec<Change>,
        /// Lets the next sessions of the same keys begin.
        then: Vec<Then>,
        /// Hears whether it is written.
        reply: oneshot::Sender<bool>,
    },
    /// Somebody changed what they had said.
    Edited(Box<Event>),
    /// What is in memory about the session is outdated.
    Forget,
    /// Chats lead to another session from here on; what was on its way is handed on to its lane.
    Moved {
        /// Their stored keys.
        keys: BTreeSet<String>,
        /// Takes what is handed on.
        then: Then,
    },
    /// Comes with what another lane hands on, before anything newer.
    HandedOn(After),
    /// The host ends, or rests: start nothing new.
    Drain,
    /// It goes on after all.
    Undrain,
}

/// A session that is not written yet; its first commit writes it.
#[derive(Clone, Debug)]
pub struct Birth {
    /// The session.
    pub session: NewSession,
    /// The route that leads to it; none where it stands beside another.
    pub route: Option<RouteRow>,
    /// The session it takes over from, where a rule ended that one.
    pub takeover: Option<Takeover>,
}

/// A session that ends because a rule says so.
#[derive(Clone, Debug)]
pub struct Takeover {
    /// The session.
    pub former: SessionId,
    /// Why it ends.
    pub reason: &'static str,
    /// What the chat is told about it.
    pub notice: Option<String>,
}

/// What a lane is made of.
pub struct Lane {
    host: Arc<Host>,
    session: SessionId,
    birth: Option<Birth>,
    guard: Guard,
    limits: GuardLimits,
    /// What the times of the guard are counted from.
    began: Instant,
    waiting: BTreeMap<InboxId, Waiting>,
    running: Option<Running>,
    /// A turn that a crash cut off, while its adapter is not back.
    resuming: Option<(TurnId, Vec<Heard>)>,
    /// Messages whose files are still with their platform, and what their senders said behind them.
    door: Door,
    /// Who sent files last, and when: what follows at once belongs to it.
    files: Option<(String, Duration)>,
    /// What came in and was not looked at yet.
    batch: VecDeque<LaneMessage>,
    /// What is being looked at.
    in_hand: Option<Place>,
    /// The turn that is written as running.
    written: Option<(TurnId, Place)>,
    /// How often the lane broke.
    heals: u32,
    memory: Memory,
    /// A compression of the history, while it runs. Nothing else does meanwhile.
    compressing: Option<Compressing>,
    /// Chats that lead elsewhere from here on.
    moving: Moving,
    /// The conversations that were listed last, by their number.
    listed: BTreeMap<usize, SessionId>,
    /// Resolves when an earlier lane has written what this one builds upon.
    after: Option<After>,
    draining: bool,
}

/// The bounds of a lane's guard, as they were when the lane was made.
#[derive(Clone, Copy, Debug)]
pub struct GuardLimits {
    /// How many events wait.
    pub queue_max: usize,
    /// How long what is said may be joined.
    pub windows: Windows,
}

impl GuardLimits {
    /// As the configuration says.
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
    /// Makes the lane of a session; `birth` when it is not written yet.
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

    /// Lives until the dispatcher closes the mailbox, or until the host ends.
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

    /// What it does is boxed: a lane that only waits is a small task, and a crowd of them little memory.
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
                () = running::at(&*host.clock, due) => {}
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

    /// Takes what came in, in order. Refusals of one batch are told together.
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
                    // Whoever asked may have gone away.
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

    /// A session beside another one begins with what was chosen there.
    async fn settle_beside(&mut self) {
        let Some(Birth { session, .. }) = &mut self.birth else { return };
        let Some(Parent { session: parent, lineage: Lineage::Aside }) = &session.parent else { return };
        match self.host.store.session(parent).await {
            Ok(Some(row)) => {
                session.settings = row.settings;
                self.memory.choose(session.settings.clone());
            }
            Ok(None) => {}
            Err(error) => tracing::warn!(%parent, %error, "what was chosen for a session cannot be read"),
        }
    }

    /// Commits that a turn which a crash cut off runs again.
    async fn admit_again(&mut self, turn: TurnId, events: Vec<Heard>) -> Option<Running> {
        let place = events.last()?.place.clone();
        let epoch = self.host.epoch;
        self.host.until_written("the resumption of a turn", || self.host.store.resume_turn(turn, epoch)).await?;
        self.written = Some((turn, place));
        let steps = self.done_before(turn).await;
        let mut running = self.start(turn, events.into_iter().map(|event| vec![event]).collect(), steps).await?;
        match self.host.store.drafts_of(turn).await {
            Ok(drafts) => drafts.last().into_iter().for_each(|draft| running.adopt(draft)),
            // Left alone it ends as interrupted, with the turn.
            Err(error) => tracing::warn!(%turn, %error, "what a turn had begun to say cannot be read"),
        }
        Some(running)
    }

    /// Returns the rights that an event gives to its turn. The host's own events have those of a user; for messages to
    /// other chats the person counts for whom the host speaks.
    fn rights_of(&self, heard: &Heard) -> Rights {
        let (event, tier) = (heard.event.get(), heard.event.tier());
        let reach = match heard.event.origin() {
            Origin::Sender => tier,
            Origin::Host(_) if heard.owner.as_deref() == Some(OPERATOR) => Tier::Operator,
            Origin::Host(_) if crate::wakes::is_nobody(&event.sender) => tier,
            Origin::Host(_) => self.tier_of(&heard.place.instance, &event.chat, &event.sender).max(tier),
        };
        Rights { tier, reach, person: heard.owner.clone() }
    }

    /// Runs a turn that is committed, behind the steps that it made in an earlier life of the host.
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
        // The turn has the rights of the least of those who speak in it.
        let others = groups.iter().flatten().map(|heard| self.rights_of(heard));
        let rights = others.fold(self.rights_of(&heard), Rights::and);
        let lease = self.host.runs.issue(&*self.host.chance, rights, &mut request.context);
        crash::point("mid_turn");
        self.look_away(groups.iter().flatten());
        if let Some(words) = files::missing(groups.iter().flatten().chain([&heard])) {
            let notice = heard.place.tell(&self.host, words).await;
            self.owe(notice).await;
        }
        if heard.aside && heard.urge != Urge::InOrder {
            let words = format!(
                "Working on it beside this conversation, as turn {turn}. The answer comes here; `/agents` shows it."
            );
            let notice = heard.place.tell(&self.host, words).await;
            self.owe(notice).await;
        }
        let mut running = Running::start(&self.host, turn, heard, said_by, request, manner);
        running.control = Some(lease);
        running.observed = observed;
        Some(running)
    }

    /// Puts the messages that are kept of a group before the first message of its turn. The end of the turn removes them.
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
                tracing::warn!(%instance, %error, "the messages kept of a group cannot be read");
                return None;
            }
        };
        let inbox = InboxId(lines.last()?.inbox);
        first.content = format!("{}{}", context::observed(&lines), first.content);
        Some(ObservedUpTo { instance: instance.to_string(), chat: chat.clone(), inbox, now_ms: self.host.now_ms() })
    }

    /// Writes a session that takes over from another one. Any other is written with its first turn.
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

    /// Whether a session has a transcript that somebody could miss.
    async fn said_something(&self, session: &SessionId) -> bool {
        let row = self.host.store.session(session).await;
        row.is_ok_and(|row| row.is_some_and(|row| row.messages > 0))
    }

    /// Takes up a turn that a crash cut off, before anything newer.
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
            Admission::Refused { .. } => self.close_cut_off(turn, "too many turns were cut off", Some(last)).await,
            _ => {
                self.waiting.insert(inbox, Waiting::CutOff(turn, events));
            }
        }
    }

    /// Its adapter is back: the turn that waited for it goes on.
    async fn go_on(&mut self) {
        if let Some((turn, events)) = self.resuming.take() {
            self.begin(vec![vec![Waiting::CutOff(turn, events)]]).await;
        }
    }

    /// Ends a turn that will not be resumed, and says so where it was asked.
    async fn close_cut_off(&mut self, turn: TurnId, why: &str, heard: Option<&Heard>) {
        let mut deliveries = Vec::new();
        if let Some(heard) = heard {
            let words = turn::GIVEN_UP.to_owned();
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

    /// What happened to the running turn.
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

    /// Commits how the running turn ended and what is owed for it. What waits is next.
    async fn end(&mut self, outcome: TurnOutcome, cause: Cause) {
        let Some(mut running) = self.running.take() else { return };
        running.control = None;
        running.show(&self.host).await;
        let asks = running.asks.take_all();
        self.note_health(&running, &outcome, cause);
        let is_cut = matches!(&outcome, TurnOutcome::Finished { finish_reason, .. } if finish_reason == "length");
        let mut conclusion = turn::conclude(outcome, cause, &self.host.live());
        self.keep_steps(running.turn, cause, &mut conclusion).await;
        // What the turn of a task says is the task's, and told as such.
        let is_task = tasks::runs(&running.heard);
        if let Some(answer) = conclusion.says.take().filter(|_| !is_task) {
            let answer = self.with_thoughts(answer, &conclusion.messages).await;
            // A service reads the reason why the answer ends; a person reads the mark.
            let mark = if is_cut && running.heard.place.can_deliver_later() { turn::USED_UP } else { "" };
            conclusion.says = Some(aside(&running.heard, format!("{answer}{mark}")));
        }
        let mut deliveries: Vec<NewDelivery> = running.conclude(&self.host, &conclusion).await.into_iter().collect();
        let late = self.guard.finished();
        // A stream shows how a turn ended to those who look on; who can be told later is told to stay.
        let looks_on = running.is_streamed() && !running.heard.place.can_deliver_later();
        let is_shown = looks_on || !deliveries.is_empty() || is_task;
        if let Some(words) = after_words(&running, conclusion.end, cause, is_shown, &late) {
            // In a group it says by that whose question it is about.
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
        // Also of one that was stopped: what was asked says what it is about.
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

    /// Counts how the turn ended, and logs a failure with the ids that lead to it.
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
            crash::point("after_owe");
            if self.host.handoffs.has(&self.session) {
                crash::point("handoff_owed");
            }
            let (said, grown) = ids.split_at(end.deliveries.len().min(ids.len()));
            self.host.carry(said.to_vec(), Arc::unwrap_or_clone(end).deliveries).await;
            for id in grown {
                self.tell_grown(*id).await;
            }
            self.host.handoffs.turn_over(&self.session);
        }
    }

    /// A message that grew for a turn which is over was ended by the store: its lane goes on with that.
    async fn tell_grown(&self, id: DeliveryId) {
        match self.host.store.delivery(id).await {
            Ok(Some(delivery)) => self.host.tell_grown(delivery.instance, delivery.chat, id).await,
            Ok(None) => {}
            Err(error) => {
                tracing::error!(delivery = %id, %error, "what is owed cannot be read; it waits for the next start")
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
        crate::pairing::greet(&self.host, &order.changes);
        true
    }

    async fn owe(&self, delivery: NewDelivery) {
        let written = self.host.until_written("a notice", || self.host.store.owe(delivery.clone())).await;
        if let Some(id) = written {
            self.host.carry(vec![id], vec![delivery]).await;
        }
    }

    /// Answers about a turn, if this lane has its event.
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
        // Whoever asked may have gone away.
        let _ = reply.try_send(state);
        match wish {
            TurnWish::Tell => {}
            TurnWish::Stop if runs || resumes => self.stop().await,
            TurnWish::Stop => self.withdraw(inbox).await,
        }
    }

    /// Takes an event out of the queue because its sender said so.
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

    /// Whether nothing runs and nothing waits here.
    fn has_nothing(&self) -> bool {
        self.guard.is_idle() && self.door.is_empty()
    }

    /// Whether the session does something that must end before its transcript may change.
    fn is_busy(&self) -> bool {
        self.running.is_some() || self.is_compressing()
    }

    /// Starts nothing new. A compression is given up; its order waits in the inbox for the next life of the host.
    fn drain(&mut self) {
        self.draining = true;
        self.compressing = None;
        // Their rows wait in the inbox, with the references.
        self.door.clear();
    }

    /// Ends the running turn because somebody said so.
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

    /// Leaves the running turn to the next life of the host, which finds its row.
    async fn park(&mut self) {
        if let Some(running) = self.running.take() {
            tracing::info!(session = %self.session, turn = %running.turn, "parked");
            running.park(&self.host).await;
        }
    }
}

/// Waits until a turn that was cut off can go on; for ever when there is none.
async fn adapter_back(resuming: &Option<(TurnId, Vec<Heard>)>) {
    match resuming.as_ref().and_then(|(_, events)| events.last()?.place.adapter.as_ref()) {
        Some(adapter) => adapter.online().await,
        None => std::future::pending().await,
    }
}

/// What a turn beside a conversation says, as the conversation's chat sees it.
fn aside(heard: &Heard, markdown: String) -> String {
    if !heard.aside {
        return markdown;
    }
    let asked: String = heard.event.get().text.chars().take(ASIDE_CHARS_MAX).collect();
    let asked = asked.lines().next().unwrap_or_default().replace('`', "'");
    format!("In the background, on `{asked}`:\n\n{markdown}")
}

/// Waits for the running turn; for ever when there is none.
async fn next_step(running: &mut Option<Running>) -> Step {
    match running {
        Some(running) => running.next().await,
        None => std::future::pending().await,
    }
}
