//! One session's owner: its guard, its running turn, its memory, its typing sign.
//!
//! A lane is a task that the dispatcher makes when a session has something to do
//! and lets go when it has nothing. All live state of the session is here and
//! nowhere else, so nothing about a session needs a lock.
//!
//! * At most one turn runs; whoever writes meanwhile waits in order, or is told
//!   truthfully that there is no room.
//! * Every step that must survive is committed before the next begins: admit,
//!   end of turn, command. Between two commits a crash loses nothing.
//! * `/stop` frees the session within [`STOP_GRACE`], whatever the runtime does.
//!
//! Read on: [`running`] for the turn while it runs, [`crate::turn`] for what its
//! end means, [`crate::context`] for what the runtime gets, [`hints`] for what a
//! chat sees meanwhile.

mod compress;
mod conversation;
mod draft;
mod hints;
mod manner;
mod memory;
mod moved;
mod orders;
mod resume;
mod running;
mod settings;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use hermes_core::guard::{Admission, Guard};
use hermes_core::ids::{DeliveryId, InboxId, SessionId, TurnId};
use hermes_protocol::Purpose;
use tokio::sync::{mpsc, oneshot};

use crate::context::{self, Heard, Place};
use crate::crash;
use crate::events::{HostEvent, Permit, TurnNews, TurnWish};
use crate::host::Host;
use crate::store::{Admit, Change, CommandTx, CutOffTurn, EndTurn, NewDelivery, NewSession, RouteRow, TurnEnd};
use crate::turn::{self, Cause};
use compress::Compressing;
pub use conversation::{UNDO_TURNS_MAX, Wish, WishKind};
use manner::Manner;
use memory::Memory;
use moved::Moving;
pub use moved::{After, Then};
pub use orders::{Act, Order};
use running::{Running, Step};

/// How long a stopped runtime may take to end by itself before its task is abandoned.
pub const STOP_GRACE: Duration = Duration::from_millis(300);

/// A lane without anything to do keeps its memory for this long.
const IDLE: Duration = Duration::from_secs(60);

impl Waiting {
    fn heard(&self) -> &Heard {
        match self {
            Self::Heard(heard) | Self::CutOff(_, heard) => heard,
        }
    }
}

/// What the dispatcher asks of a lane. The channel has no bound of its own: each
/// message holds a [`Permit`] or comes from the operator.
#[derive(Debug)]
pub enum LaneMessage {
    /// An event wants a turn.
    Heard(Heard, Permit),
    /// Somebody gave an order.
    Order(Order, Permit),
    /// A turn that a crash cut off is to go on.
    Resume(CutOffTurn, Option<Heard>),
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
    /// The operator ends the session.
    Close {
        /// What is written with it.
        changes: Vec<Change>,
        /// Lets the next sessions of the same keys begin.
        then: Vec<Then>,
        /// Hears whether it is written.
        reply: oneshot::Sender<bool>,
    },
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
    /// The host ends: start nothing new.
    Drain,
}

/// A session that is not written yet; its first commit writes it.
#[derive(Clone, Debug)]
pub struct Birth {
    /// The session.
    pub session: NewSession,
    /// The route that leads to it.
    pub route: RouteRow,
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
    queue_max: usize,
    waiting: BTreeMap<InboxId, Waiting>,
    running: Option<Running>,
    /// A turn that a crash cut off, while its adapter is not back.
    resuming: Option<(TurnId, Heard)>,
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

/// An event whose turn has not started.
#[derive(Debug)]
enum Waiting {
    Heard(Heard),
    CutOff(TurnId, Heard),
}

impl Lane {
    /// Makes the lane of a session; `birth` when it is not written yet.
    pub fn new(
        host: Arc<Host>,
        session: SessionId,
        queue_max: usize,
        birth: Option<Birth>,
        after: Option<After>,
    ) -> Self {
        Self {
            memory: Memory::new(birth.is_some()),
            host,
            session,
            birth,
            guard: Guard::new(queue_max),
            queue_max,
            waiting: BTreeMap::new(),
            running: None,
            resuming: None,
            compressing: None,
            moving: Moving::default(),
            listed: BTreeMap::new(),
            after,
            draining: false,
        }
    }

    /// Lives until the dispatcher closes the mailbox, or until the host ends.
    pub async fn run(mut self, mut mailbox: mpsc::UnboundedReceiver<LaneMessage>) {
        if let Some(after) = self.after.take() {
            self.take_over(after).await;
        }
        let host = Arc::clone(&self.host);
        let mut taken = 0;
        let mut batch = Vec::new();
        let mut told_idle = false;
        loop {
            if self.draining && !self.is_busy() {
                break;
            }
            tokio::select! {
                count = mailbox.recv_many(&mut batch, 64) => {
                    if count == 0 {
                        break;
                    }
                    taken += count as u64;
                    told_idle = false;
                    self.take(&mut batch).await;
                }
                step = next_step(&mut self.running) => self.step(step).await,
                () = adapter_back(&self.resuming) => self.go_on().await,
                summary = compress::next(&mut self.compressing) => self.compressed(summary).await,
                () = tokio::time::sleep(IDLE), if self.guard.is_idle() && !told_idle => {
                    told_idle = true;
                    let unborn = self.birth.is_some();
                    host.tell(HostEvent::Turn(TurnNews::Idle { session: self.session.clone(), taken, unborn })).await;
                }
                () = host.parking.cancelled() => break,
            }
        }
        self.park();
    }

    /// Takes what came in, in order. Refusals of one batch are told together.
    async fn take(&mut self, batch: &mut Vec<LaneMessage>) {
        let mut refused = Vec::new();
        for message in batch.drain(..) {
            let Some(message) = self.moving.keep_back(message) else { continue };
            match message {
                LaneMessage::Heard(heard, _permit) => {
                    if let Some(heard) = self.hear(heard).await {
                        refused.push(heard);
                    }
                }
                LaneMessage::Order(order, _permit) => self.obey(order).await,
                LaneMessage::Resume(cut_off, heard) => self.resume(cut_off, heard).await,
                LaneMessage::Ask { instance, inbox, wish, reply } => self.answer(&instance, inbox, wish, reply).await,
                LaneMessage::Close { changes, then, reply } => {
                    let written = self.close(changes).await;
                    drop(then);
                    // Whoever asked may have gone away.
                    let _ = reply.send(written);
                }
                LaneMessage::Forget => self.memory.forget(),
                LaneMessage::Moved { keys, then } => self.moving.hand_on(&keys, then),
                LaneMessage::HandedOn(after) => Box::pin(self.take_over(after)).await,
                LaneMessage::Drain => self.drain(),
            }
        }
        if !refused.is_empty() {
            self.refuse(refused).await;
        }
    }

    /// Lets an event start its turn or wait; returns one for which there is no room.
    async fn hear(&mut self, heard: Heard) -> Option<Heard> {
        match self.guard.admit(heard.inbox) {
            Admission::Run if self.draining => {
                // The event stays accepted in the inbox and is taken up by the next life of the host.
                self.guard.finished();
            }
            Admission::Run => self.begin(Waiting::Heard(heard)).await,
            Admission::Queued { .. } => {
                self.waiting.entry(heard.inbox).or_insert(Waiting::Heard(heard));
            }
            Admission::Refused { .. } => return Some(heard),
        }
        None
    }

    /// Starts the turn of an event, and if that cannot be, the next one's.
    async fn begin(&mut self, first: Waiting) {
        let mut next = Some(first);
        while let Some(waiting) = next.take() {
            let (inbox, started) = match waiting {
                Waiting::Heard(heard) => (heard.inbox, self.admit(heard).await),
                Waiting::CutOff(turn, heard) if !heard.place.is_online() => {
                    self.resuming = Some((turn, heard));
                    return;
                }
                Waiting::CutOff(turn, heard) => (heard.inbox, self.admit_again(turn, heard).await),
            };
            match started {
                Some(running) => self.running = Some(running),
                None => {
                    tracing::warn!(session = %self.session, %inbox, "a turn could not start");
                    next = self.next_waiting();
                }
            }
        }
    }

    /// Commits that a turn runs, then runs it.
    async fn admit(&mut self, heard: Heard) -> Option<Running> {
        self.bear(&heard.place).await?;
        let admit = Admit {
            session: self.session.clone(),
            new_session: self.birth.as_ref().map(|birth| birth.session.clone()),
            route: self.birth.as_ref().map(|birth| birth.route.clone()),
            inbox: vec![heard.inbox],
            epoch: self.host.epoch,
            now_ms: self.host.now_ms(),
        };
        let turn = self.host.until_written("the start of a turn", || self.host.store.admit(admit.clone())).await?;
        self.birth = None;
        self.start(turn, heard).await
    }

    /// Commits that a turn which a crash cut off runs again.
    async fn admit_again(&mut self, turn: TurnId, heard: Heard) -> Option<Running> {
        let epoch = self.host.epoch;
        self.host.until_written("the resumption of a turn", || self.host.store.resume_turn(turn, epoch)).await?;
        let mut running = self.start(turn, heard).await?;
        match self.host.store.drafts_of(turn).await {
            Ok(drafts) => drafts.last().into_iter().for_each(|draft| running.adopt(draft)),
            // Left alone it ends as interrupted, with the turn.
            Err(error) => tracing::warn!(%turn, %error, "what a turn had begun to say cannot be read"),
        }
        Some(running)
    }

    async fn start(&mut self, turn: TurnId, heard: Heard) -> Option<Running> {
        let remembered = self.memory.read(&self.host, &self.session).await;
        let manner = Manner::of(&self.host.live(), &heard.place.instance, &remembered.settings);
        let request = context::build(&self.host, &self.session, turn, &heard, remembered);
        crash::point("mid_turn");
        Some(Running::start(&self.host, turn, heard, request, manner))
    }

    /// Writes a session that takes over from another one. Any other is written with its first turn.
    async fn bear(&mut self, place: &Place) -> Option<()> {
        let Some(Birth { session, route, takeover: Some(takeover) }) = self.birth.clone() else { return Some(()) };
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
            Change::BindRoute(route),
        ];
        let order = CommandTx { inbox: None, changes, reply, now_ms: self.host.now_ms() };
        if !self.write_order(order).await {
            return None;
        }
        self.birth = None;
        Some(())
    }

    /// Whether a session has a transcript that somebody could miss.
    async fn said_something(&self, session: &SessionId) -> bool {
        let row = self.host.store.session(session).await;
        row.is_ok_and(|row| row.is_some_and(|row| row.messages > 0))
    }

    /// Takes up a turn that a crash cut off, before anything newer.
    async fn resume(&mut self, cut_off: CutOffTurn, heard: Option<Heard>) {
        let Some(heard) = heard else {
            return self.close_cut_off(cut_off.turn, "its event cannot be read", None).await;
        };
        let attempts_max = self.host.live().config.session.resume_attempts_max;
        if cut_off.attempts > attempts_max {
            return self.close_cut_off(cut_off.turn, "interrupted too often", Some(heard)).await;
        }
        match self.guard.admit(heard.inbox) {
            Admission::Run => self.begin(Waiting::CutOff(cut_off.turn, heard)).await,
            Admission::Queued { .. } => {
                self.waiting.insert(heard.inbox, Waiting::CutOff(cut_off.turn, heard));
            }
            Admission::Refused { .. } => {
                self.close_cut_off(cut_off.turn, "too many turns were cut off", Some(heard)).await
            }
        }
    }

    /// Its adapter is back: the turn that waited for it goes on.
    async fn go_on(&mut self) {
        if let Some((turn, heard)) = self.resuming.take() {
            self.begin(Waiting::CutOff(turn, heard)).await;
        }
    }

    /// Ends a turn that will not be resumed, and says so where it was asked.
    async fn close_cut_off(&mut self, turn: TurnId, why: &str, heard: Option<Heard>) {
        let mut deliveries = Vec::new();
        if let Some(heard) = &heard {
            deliveries.push(heard.place.say(&self.host, Purpose::Notice, turn::GIVEN_UP.to_owned()).await);
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
            Step::Ended(outcome) => self.end(outcome, Cause::Itself).await,
            Step::Silent => {
                if let Some(running) = &mut self.running {
                    let outcome = running.stop().await;
                    self.end(outcome, Cause::Inactive).await;
                }
            }
            Step::StillWorking(words) => {
                if let Some(running) = &self.running {
                    let notice = running.heard.place.tell(&self.host, words).await;
                    self.owe(notice).await;
                }
            }
        }
    }

    /// Commits how the running turn ended and what is owed for it, then starts the next.
    async fn end(&mut self, outcome: hermes_agent::TurnOutcome, cause: Cause) {
        let Some(mut running) = self.running.take() else { return };
        running.show(&self.host).await;
        let mut conclusion = turn::conclude(outcome, cause, &self.host.live());
        if let Some(answer) = conclusion.says.take() {
            conclusion.says = Some(self.with_thoughts(answer, &conclusion.messages).await);
        }
        let deliveries = running.conclude(&self.host, &conclusion).await.into_iter().collect();
        let now_ms = self.host.now_ms();
        let heard_ms = running.heard.at_ms;
        let said = running.input.iter().map(|message| (heard_ms, message.clone()));
        let transcript: Vec<_> =
            said.chain(conclusion.messages.iter().map(|message| (now_ms, message.clone()))).collect();
        let end = EndTurn {
            turn: running.turn,
            state: conclusion.end,
            error: conclusion.error,
            session: self.session.clone(),
            messages: memory::rows(&transcript, &running.heard),
            deliveries,
            usage: conclusion.usage,
            agent_state: conclusion.state.clone().map(|state| (self.host.runtime.name().to_owned(), state)),
            now_ms,
        };
        self.write_end(end).await;
        if let Some(tools) = running.tools_shown() {
            self.tell_grown(tools).await;
        }
        self.memory.add(&self.host, transcript, conclusion.state);
        let title = (conclusion.end == TurnEnd::Finished).then(|| self.title_after(&running.heard)).flatten();
        running.close(conclusion.last);
        if let Some(title) = title {
            self.name_after(&title).await;
        }
        if let Some(next) = self.next_waiting() {
            self.begin(next).await;
        }
    }

    async fn write_end(&self, end: EndTurn) {
        let written = self.host.until_written("the end of a turn", || self.host.store.end_turn(end.clone())).await;
        if let Some(ids) = written {
            crash::point("after_owe");
            let (said, grown) = ids.split_at(end.deliveries.len().min(ids.len()));
            self.host.carry(said.to_vec(), end.deliveries).await;
            for id in grown {
                self.tell_grown(*id).await;
            }
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

    /// The event whose turn comes next, unless the host ends.
    fn next_waiting(&mut self) -> Option<Waiting> {
        while let Some(next) = self.guard.finished() {
            if self.draining {
                continue;
            }
            if let Some(waiting) = self.waiting.remove(&next) {
                return Some(waiting);
            }
        }
        None
    }

    /// Says truthfully that there was no room for these events.
    async fn refuse(&self, refused: Vec<Heard>) {
        let max = self.queue_max;
        let words = match refused.len() {
            1 => format!("Not queued: {max} messages already wait here. Send it again when they are answered."),
            n => format!(
                "Not queued: {max} messages already wait here, so your last {n} were not taken. Send them again later."
            ),
        };
        let reply = refused[0].place.say(&self.host, Purpose::Notice, words).await;
        let ids = refused.iter().map(|heard| heard.inbox).collect();
        let changes = vec![Change::DropInbox { ids, why: "no room in the queue".to_owned() }];
        self.write_order(CommandTx { inbox: None, changes, reply: vec![reply], now_ms: self.host.now_ms() }).await;
    }

    /// Commits an order and hands its reply to the outbox.
    async fn write_order(&self, order: CommandTx) -> bool {
        let written = self.host.until_written("an order", || self.host.store.command(order.clone())).await;
        match written {
            Some(ids) => self.host.carry(ids, order.reply).await,
            None => return false,
        }
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
        let runs = self.running.as_ref().is_some_and(|running| is_it(&running.heard));
        let resumes = self.resuming.as_ref().is_some_and(|(_, heard)| is_it(heard));
        let waits = self.waiting.get(&inbox).is_some_and(|waiting| is_it(waiting.heard()));
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
        match self.waiting.remove(&inbox) {
            Some(Waiting::CutOff(turn, heard)) => self.give_up(turn, &heard).await,
            Some(Waiting::Heard(_)) | None => {
                let changes = vec![Change::DropInbox { ids: vec![inbox], why: "withdrawn".to_owned() }];
                let now_ms = self.host.now_ms();
                self.write_order(CommandTx { inbox: None, changes, reply: Vec::new(), now_ms }).await;
            }
        }
    }

    /// Whether the session does something that must end before its transcript may change.
    fn is_busy(&self) -> bool {
        self.running.is_some() || self.is_compressing()
    }

    /// Starts nothing new. A compression is given up; its order waits in the inbox for the next life of the host.
    fn drain(&mut self) {
        self.draining = true;
        self.compressing = None;
    }

    /// Ends the running turn because somebody said so; the next one starts.
    async fn stop(&mut self) {
        if let Some(compressing) = self.compressing.take() {
            self.not_compressed(compressing, "it was stopped").await;
        } else if let Some((turn, heard)) = self.resuming.take() {
            self.give_up(turn, &heard).await;
            if let Some(next) = self.next_waiting() {
                self.begin(next).await;
            }
        } else if let Some(running) = &mut self.running {
            let outcome = running.stop().await;
            self.end(outcome, Cause::Stopped).await;
        }
    }

    /// Leaves the running turn to the next life of the host, which finds its row.
    fn park(&mut self) {
        if let Some(running) = self.running.take() {
            tracing::info!(session = %self.session, turn = %running.turn, "parked");
            running.park();
        }
    }
}

/// Waits until a turn that was cut off can go on; for ever when there is none.
async fn adapter_back(resuming: &Option<(TurnId, Heard)>) {
    match resuming.as_ref().and_then(|(_, heard)| heard.place.adapter.as_ref()) {
        Some(adapter) => adapter.online().await,
        None => std::future::pending().await,
    }
}

/// Waits for the running turn; for ever when there is none.
async fn next_step(running: &mut Option<Running>) -> Step {
    match running {
        Some(running) => running.next().await,
        None => std::future::pending().await,
    }
}
