//! The task that routes each event. It never waits for a turn, a send or the disk: it hands work to lanes and returns
//! to its queue.
//!
//! The dispatcher owns the global state and is its only writer: routes, grants, dead targets, the pairing book, and the
//! list of lanes. The lane or clerk that receives the work writes the change in the same transaction.
//!
//! [`Dispatcher::handle_inbound`] is the first half of the path of an event; the second half is [`crate::engine::session`] and
//! [`crate::engine::outbox`]. [`crate::engine::dispatcher::commands`] reads commands, and [`crate::engine::dispatcher::pairing`] answers unknown senders.

pub mod commands;
mod control;
pub mod drops;
mod expiry;
mod forwarded;
mod handoff;
mod menus;
mod moves;
pub mod pairing;
mod places;
mod rate;
mod rebind;
mod state_log;
mod tasks;
mod terminals;
mod unknown_senders;
mod wakes;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use hermes_agent::Message;
use hermes_core::access::{Authorized, Denied, Grants, Tier, Trust, addressed};
use hermes_core::approvals::QuestionBook;
use hermes_core::delivery::Homes;
use hermes_core::file_refs;
use hermes_core::ids::{InboxId, SessionId};
use hermes_core::rate::{BotLoops, Rates};
use hermes_core::routes::{Route, RouteTable};
use hermes_core::session::{MAIN_PROFILE, SessionKey, is_dm, participant};
use hermes_protocol::{Chat, ChatType, Event, EventKind};
use tokio::sync::{mpsc, oneshot};

use crate::engine::actors::Lanes;
use crate::engine::context::{Heard, Place, Urge};
use crate::engine::dispatcher::commands::Said;
use crate::engine::dispatcher::commands::asks::StaffChats;
use crate::engine::dispatcher::commands::busy::{Aside, ToAgent};
use crate::engine::dispatcher::drops::Note;
use crate::engine::dispatcher::pairing::Pairing;
use crate::engine::group_context;
use crate::engine::messages::{DeliveryNews, Due, HostEvent, Inbound, Migration, Permit, TurnNews};
use crate::engine::outbox::{OutboxLane, OutboxMessage, Target};
use crate::engine::reply::forward;
use crate::engine::runtime::Host;
use crate::engine::session::reset;
use crate::engine::session::{After, Birth, GuardLimits, Lane, LaneMessage, Order, Takeover, Then};
use hermes_core::message_edit;
use hermes_loader::{AdapterEvent, AdapterHandle};
use hermes_store::{Change, DeadTargetRow, HandoffClaim, Lineage, Loaded, NewSession, Observed, Parent, RouteRow};

/// The reason for dropping a group message that is not addressed to the agent.
const NOT_ADDRESSED: &str = "not addressed";

/// Events taken from the queue at once.
const BATCH_MAX: usize = 64;

/// Number of ended lanes after which their memory is returned to the system.
const CROWD_LANES: usize = 500;

/// The flag of the store that holds the model chosen for every conversation.
pub(crate) const MODEL_FLAG: &str = "model";

/// The flag of the store that holds the permanently approved kinds of action.
pub(crate) const APPROVED_FLAG: &str = "approved";

/// The dispatcher and its state.
pub struct Dispatcher {
    pub(crate) host: Arc<Host>,
    pub(crate) grants: Grants,
    pub(crate) pairing: Pairing,
    routes: RouteTable,
    /// Time of the last use of each route, by its key; for the rules that reset a conversation.
    used: BTreeMap<String, i64>,
    /// Keys whose session was ended by a rule, with the rule; their next message begins another session.
    ended: BTreeMap<String, &'static str>,
    /// Keys whose former session is still being ended; their next session begins after that.
    ending: BTreeMap<String, After>,
    /// The last claim that took a chat for each session, as long as a chat leads to it.
    takes: BTreeMap<SessionId, HandoffClaim>,
    /// The terminal slots that have to be notified.
    terminals: terminals::AtTerminals,
    /// Chats that cannot be written to, by instance and id, with the reason.
    dead: BTreeMap<(String, String), DeadTargetRow>,
    /// The home channel of each instance.
    homes: Homes,
    /// The chats that are stored already.
    seen: places::Seen,
    pub(crate) lanes: Lanes<SessionId, LaneMessage>,
    /// Open questions.
    pub(crate) asks: QuestionBook,
    /// The direct chats of admins, for questions.
    pub(crate) staff: StaffChats,
    /// Background turns, by their own session.
    pub(crate) asides: BTreeMap<SessionId, Aside>,
    outbox: Lanes<Target, OutboxMessage>,
    /// The command menu that each instance received.
    menus: menus::Menus,
    state_log: state_log::StateLog,
    clerk: mpsc::UnboundedSender<Note>,
    /// The recent message rates of senders.
    rates: Rates,
    /// Chats in which bots talk to the agent.
    bots: BotLoops,
    /// True if the inbox holds an event that waits to wake a session.
    wakes_wait: bool,
    lanes_drained: Option<oneshot::Sender<()>>,
    outbox_drained: Option<oneshot::Sender<()>>,
}

/// An admitted event on its way to its session.
pub(crate) struct Arrived {
    pub(crate) id: InboxId,
    pub(crate) instance: Arc<str>,
    pub(crate) adapter: Option<AdapterHandle>,
    pub(crate) event: Authorized<Event>,
    /// The input of the turn if it was decided before and differs from the event's own text.
    pub(crate) input: Option<Vec<Message>>,
    pub(crate) permit: Permit,
}

/// The session of an event.
pub(crate) struct Found {
    pub(crate) key: SessionKey,
    pub(crate) session: SessionId,
    birth: Option<Birth>,
}

impl Found {
    /// Returns whether the session is stored.
    pub(crate) fn is_written(&self) -> bool {
        self.birth.is_none()
    }
}

impl Dispatcher {
    /// Creates a dispatcher with the stored state.
    pub fn new(host: Arc<Host>, loaded: Loaded) -> Self {
        let clerk = drops::start(Arc::clone(&host));
        let mut routes = RouteTable::new();
        let mut used = BTreeMap::new();
        let mut ended = BTreeMap::new();
        for row in loaded.routes {
            used.insert(row.key.clone(), row.updated_ms);
            if let Some(rule) = row.ended.as_deref().and_then(reset::rule_of) {
                ended.insert(row.key.clone(), rule);
            }
            routes.bind(route(row));
        }
        let grants: Grants = loaded.grants.into_iter().collect();
        host.show_grants(grants.clone());
        host.show_approved(approved(loaded.flags.get(APPROVED_FLAG).map(String::as_str)));
        host.choose_model(loaded.flags.get(MODEL_FLAG).cloned());
        if let Some(flag) = crate::engine::restart_notice::flag(&loaded.flags) {
            tokio::spawn(crate::engine::restart_notice::tell(Arc::clone(&host), flag.clone()));
        }
        let dead = loaded.dead_targets.into_iter().map(|row| ((row.instance.clone(), row.chat.id.clone()), row));
        let dead = dead.collect();
        let homes = Homes::stored(loaded.home_channels.into_iter().map(|row| (row.instance, row.chat)));
        host.show_homes(homes.clone());
        let pairing = Pairing::new(&host.live().config.limits, loaded.pairing, loaded.lockouts, loaded.offers);
        Self {
            host,
            grants,
            pairing,
            routes,
            used,
            ended,
            ending: BTreeMap::new(),
            takes: BTreeMap::new(),
            terminals: terminals::AtTerminals::new(),
            dead,
            homes,
            seen: places::Seen::default(),
            lanes: Lanes::default(),
            asks: QuestionBook::default(),
            staff: StaffChats::new(),
            asides: BTreeMap::new(),
            outbox: Lanes::default(),
            menus: menus::Menus::new(),
            state_log: state_log::StateLog::default(),
            clerk,
            rates: Rates::default(),
            bots: BotLoops::default(),
            wakes_wait: false,
            lanes_drained: None,
            outbox_drained: None,
        }
    }

    /// Handles events until every sender is gone.
    pub async fn run(mut self, mut events: mpsc::Receiver<HostEvent>) {
        let mut batch = Vec::with_capacity(BATCH_MAX);
        while events.recv_many(&mut batch, BATCH_MAX).await > 0 {
            for event in batch.drain(..) {
                self.handle(event);
            }
        }
    }

    fn handle(&mut self, event: HostEvent) {
        match event {
            HostEvent::Inbound(inbound) => self.handle_inbound(inbound),
            HostEvent::Stray(stray) => self.judge_stray(stray),
            HostEvent::Control(control) => self.handle_control(*control),
            HostEvent::Turn(news) => self.handle_turn(news),
            HostEvent::Delivery(news) => self.handle_delivery(news),
            HostEvent::Adapter(news) => self.handle_adapter(news),
            HostEvent::Watch(news) => self.handle_watch(news),
            HostEvent::Due(Due::Sweep) => self.sweep(),
        }
    }

    /// Handles the first half of the path of an event: authorizes it, finds its session, and hands it to the lane that
    /// guards the session's turn.
    fn handle_inbound(&mut self, inbound: Inbound) {
        let Some(arrived) = self.admit(inbound) else { return };
        if arrived.event.get().kind == EventKind::Choice {
            return self.pressed(arrived);
        }
        let Some(arrived) = self.meant_for_the_agent(arrived) else { return };
        self.host.media.admitted(&arrived.instance, file_refs::files(arrived.event.get()));
        let Some(arrived) = self.still_here(arrived) else { return };
        if self.waits_in_the_inbox(&arrived) {
            return;
        }
        let Some(arrived) = self.passed_on(arrived) else { return };
        let Some((arrived, found)) = self.resolve(arrived) else { return };
        let (session, instance) = (found.session.clone(), Arc::clone(&arrived.instance));
        // The end of this key's former session writes the state that this session builds on.
        let after = self.ending_before(&found);
        // An order that was turned into text for the agent is no longer an order.
        let said = if forwarded::is_words(&arrived) { Said::Words } else { self.read(&arrived, &found) };
        if !matches!(said, Said::Order(_)) {
            self.spoken(&arrived, &found);
        }
        let message = match said {
            Said::Order(order) => LaneMessage::Order(order, arrived.permit),
            said => match self.pace(arrived, &found) {
                rate::Heard::Gone(arrived) => match said {
                    Said::ToAgent(words) if words.aside => return self.hear_aside(*arrived, found, after, words),
                    Said::ToAgent(words) => heard(*arrived, &found, Some(words)),
                    Said::Words | Said::Order(_) => heard(*arrived, &found, None),
                },
                rate::Heard::Told(order) => *order,
                rate::Heard::Dropped => return self.drop_unborn(found, after),
            },
        };
        self.send_to(session, &instance, after, found.birth, message);
    }

    /// Returns whether the host drains and nothing runs that the event could reach. The event stays in the inbox; it is
    /// read again after the drain, or by the next run.
    fn waits_in_the_inbox(&self, arrived: &Arrived) -> bool {
        if self.host.takes_nothing().is_none() || self.is_for_what_runs(arrived) {
            return false;
        }
        let event = arrived.event.get();
        let policy = self.host.live().key_policy(&arrived.instance);
        let resolved = self.routes.resolve(MAIN_PROFILE, &arrived.instance, &event.chat, &event.sender, policy);
        // An event without an identity is dropped as usual.
        resolved.is_ok_and(|(_, route)| route.is_none_or(|route| !self.lanes.has(&route.session)))
    }

    /// Hands an order that does not come from text to the session of its event.
    pub(crate) fn obeyed(&mut self, arrived: Arrived, found: Found, after: Option<After>, order: Box<Order>) {
        self.send_to(found.session, &arrived.instance, after, found.birth, LaneMessage::Order(order, arrived.permit));
    }

    /// Returns the end for which the session of this event has to wait. Taken before a command of the same event ends
    /// the session again.
    pub(crate) fn ending_before(&mut self, found: &Found) -> Option<After> {
        if self.ending.is_empty() { None } else { self.ending.remove(&found.key.stored()) }
    }

    /// Returns all routes.
    pub(crate) fn routes(&self) -> impl Iterator<Item = &Route> {
        self.routes.iter()
    }

    /// Removes a session that was created only for an event that does not reach it.
    fn drop_unborn(&mut self, found: Found, after: Option<After>) {
        let key = found.key.stored();
        if found.birth.is_some() && !self.lanes.has(&found.session) {
            self.routes.unbind(&key);
            self.used.remove(&key);
        }
        if let Some(after) = after {
            self.ending.insert(key, after);
        }
    }

    /// Hands an event to a background session of the conversation in which it was sent.
    fn hear_aside(&mut self, arrived: Arrived, found: Found, after: Option<After>, words: ToAgent) {
        let instance = Arc::clone(&arrived.instance);
        let birth = self.begin_aside(&arrived, &found);
        let session = birth.session.id.clone();
        let Found { key, session: parent, birth: unborn } = found;
        if unborn.is_some() || after.is_some() {
            // A conversation that was created for this event is kept for the next one.
            self.send_to(parent, &instance, after, unborn, LaneMessage::Forget);
        }
        let beside = Found { key, session: session.clone(), birth: None };
        let message = heard(arrived, &beside, Some(words));
        self.send_to(session, &instance, None, Some(birth), message);
    }

    /// Admits an event, or answers its unknown sender.
    fn admit(&mut self, inbound: Inbound) -> Option<Arrived> {
        let Inbound { id, instance, event, input, permit } = inbound;
        let adapter = self.host.adapter(&instance);
        let trust = trust_in(adapter.as_ref());
        let admitted = self.host.live().access.admit(&instance, *event, &self.grants, trust);
        match admitted {
            Ok(event) => {
                self.revive(&instance, &event.get().chat);
                // A chat that receives no further messages is not stored.
                if event.get().deliver.as_ref().is_none_or(|deliver| !deliver.ends && !deliver.as_is) {
                    self.saw(&instance, &event.get().chat);
                }
                let arrived = Arrived { id, instance, adapter, event, input, permit };
                self.person_spoke(&arrived);
                self.note_staff(&arrived);
                Some(arrived)
            }
            Err(denied) => {
                self.deny(id, instance, *denied, permit);
                None
            }
        }
    }

    fn deny(&mut self, id: InboxId, instance: Arc<str>, denied: Denied, permit: Permit) {
        self.host.media.let_go(&instance, file_refs::files(&denied.event));
        if denied.event.kind == EventKind::Migrated && self.has_part_in(&instance, &denied.event.chat) {
            self.follow(&instance, &denied.event);
        }
        let met = self.meet(&instance, &denied);
        let note = match met {
            crate::engine::dispatcher::pairing::Met::Silence(why) => Note::Drop { id, why, permit },
            crate::engine::dispatcher::pairing::Met::Offer(request, words) => {
                Note::Offer { id, instance, chat: denied.event.chat, request, words, permit }
            }
            crate::engine::dispatcher::pairing::Met::Welcome(changes, words) => {
                Note::Welcome { id, instance, chat: denied.event.chat, changes, words, permit }
            }
        };
        self.note(note);
    }

    /// Passes an event that is meant for the agent; drops every other event with its reason.
    fn meant_for_the_agent(&mut self, arrived: Arrived) -> Option<Arrived> {
        let event = arrived.event.get();
        let why = match event.kind {
            EventKind::Message if event.text.trim().is_empty() && event.attachments.is_empty() => "empty message",
            EventKind::Message if is_for_another(event) => "a command for another account",
            EventKind::Message => {
                let participates = self.routes.participates(MAIN_PROFILE, &arrived.instance, &event.chat);
                if (is_dm(&event.chat.kind) && !event.sender.is_bot) || self.is_addressed(&arrived, participates) {
                    return Some(arrived);
                }
                NOT_ADDRESSED
            }
            EventKind::Edited => {
                self.edited(event.clone(), &arrived.instance);
                "an edit"
            }
            EventKind::Migrated => {
                self.follow(&arrived.instance, event);
                "the chat moved"
            }
            _ => "no message",
        };
        self.host.media.let_go(&arrived.instance, file_refs::files(arrived.event.get()));
        let line = if why == NOT_ADDRESSED { self.context_of(&arrived) } else { None };
        let Arrived { id, instance, event, permit, .. } = arrived;
        self.note(match line {
            Some(line) => {
                self.host.observing.noted();
                Note::Observe { id, instance, chat: event.get().chat.clone(), line, permit }
            }
            None => Note::Drop { id, why, permit },
        });
        None
    }

    /// Returns the kept form of a group message for the next turn there, if the operator enabled that.
    fn context_of(&self, arrived: &Arrived) -> Option<Observed> {
        let event = arrived.event.get();
        let is_wanted = !is_dm(&event.chat.kind) && self.host.live().session_of(&arrived.instance).observe;
        if is_wanted { group_context::line(arrived.id.0, event) } else { None }
    }

    /// Passes an edit to its lane; the inbox has it already.
    fn edited(&mut self, edit: Event, instance: &str) {
        if !message_edit::says_something(&edit) {
            return;
        }
        // The message that was edited may contain these files by now.
        self.host.media.admitted(instance, &edit.attachments);
        let policy = self.host.live().key_policy(instance);
        let resolved = self.routes.resolve(MAIN_PROFILE, instance, &edit.chat, &edit.sender, policy);
        if let Ok((_, Some(route))) = resolved {
            let session = route.session.clone();
            // Without a lane nothing waits there.
            let _ = self.lanes.send(&session, LaneMessage::Edited(Box::new(edit)));
        }
    }

    fn is_addressed(&self, arrived: &Arrived, participates: bool) -> bool {
        let capabilities = arrived.adapter.as_ref().map(AdapterHandle::capabilities);
        let rules = self.host.live().address_rules(&arrived.instance, capabilities.as_deref());
        addressed(arrived.event.get(), &rules, participates)
    }

    /// Finds the session of an event, or creates one.
    pub(crate) fn resolve(&mut self, arrived: Arrived) -> Option<(Arrived, Found)> {
        let now_ms = self.host.now_ms();
        let event = arrived.event.get();
        let policy = self.host.live().key_policy(&arrived.instance);
        let resolved = self.routes.resolve(MAIN_PROFILE, &arrived.instance, &event.chat, &event.sender, policy);
        let (key, route) = match resolved {
            Ok((key, route)) => (key, route.cloned()),
            Err(error) => {
                tracing::warn!(instance = %arrived.instance, inbox = %arrived.id, %error, "no session for an event");
                self.note(Note::Drop { id: arrived.id, why: "no identity", permit: arrived.permit });
                return None;
            }
        };
        let stored = key.stored();
        if route.as_ref().is_some_and(|route| route.shared) {
            self.routes.join(MAIN_PROFILE, &arrived.instance, &event.chat, &stored);
        }
        let takeover = route.as_ref().and_then(|route| self.takeover(route, now_ms));
        self.used.insert(stored.clone(), now_ms);
        let found = match route {
            Some(route) if takeover.is_none() => Found { key, session: route.session, birth: None },
            _ => {
                let birth = self.begin_session(&arrived, stored, takeover, now_ms);
                Found { key, session: birth.session.id.clone(), birth: Some(birth) }
            }
        };
        Some((arrived, found))
    }

    /// Creates a session for the sender of an event. Its lane stores it with its first turn.
    fn begin_session(&mut self, arrived: &Arrived, key: String, takeover: Option<Takeover>, now_ms: i64) -> Birth {
        let event = arrived.event.get();
        let session = self.host.new_session_id();
        let in_thread = event.chat.kind == ChatType::Thread || event.chat.thread.is_some();
        let mut row = RouteRow::new(key, MAIN_PROFILE, &*arrived.instance, session.clone(), event.chat.clone(), now_ms);
        row.participates = in_thread && !is_dm(&event.chat.kind);
        row.completes = forward::wanted(arrived.adapter.as_ref(), event).is_some_and(|deliver| deliver.ends);
        // The reset of a shared conversation creates another one that is shared in the same way.
        if let Some(former) = self.routes.at(&row.key).filter(|former| former.shared && takeover.is_some()) {
            row.shared = true;
            row.participates = former.participates;
            row.origin.clone_from(&former.origin);
        }
        self.routes.bind(route(row.clone()));
        let session = NewSession {
            id: session,
            profile: MAIN_PROFILE.to_owned(),
            source: arrived.instance.to_string(),
            owner: owner(&arrived.instance, &arrived.event),
            settings: Default::default(),
            parent: takeover
                .as_ref()
                .map(|takeover| Parent { session: takeover.former.clone(), lineage: Lineage::Reset }),
            title: None,
            started_ms: now_ms,
        };
        Birth { session, route: Some(row), takeover }
    }

    /// Creates a session with this title. Its key leads to it from now on; the caller writes the changes.
    pub(crate) fn begin_titled(&mut self, arrived: &Arrived, key: String, title: &str) -> Vec<Change> {
        let now_ms = self.host.now_ms();
        self.used.insert(key.clone(), now_ms);
        let Birth { mut session, route, .. } = self.begin_session(arrived, key, None, now_ms);
        session.title = Some(title.to_owned());
        std::iter::once(Change::NewSession(session)).chain(route.map(Change::BindBorn)).collect()
    }

    /// Hands a message to the lane of a session; creates the lane if there is none.
    fn send_to(
        &mut self,
        session: SessionId,
        instance: &str,
        after: Option<After>,
        birth: Option<Birth>,
        message: LaneMessage,
    ) {
        let Err(message) = self.lanes.send(&session, message) else { return };
        self.open_lane(session.clone(), instance, after, birth);
        // A lane that is created during a drain did not receive the broadcast. It ends once it is idle, so it receives
        // an order before the drain.
        let drain = self.host.takes_nothing().map(|_| LaneMessage::Drain);
        let messages = match message {
            LaneMessage::Order(..) => [Some(message), drain],
            message => [drain, Some(message)],
        };
        for message in messages.into_iter().flatten() {
            // The lane was created a few lines above.
            let _ = self.lanes.send(&session, message);
        }
    }

    /// Creates the lane of a session.
    fn open_lane(&mut self, session: SessionId, instance: &str, after: Option<After>, birth: Option<Birth>) {
        let limits = GuardLimits::of(self.host.live().session_of(instance));
        let lane = Box::new(Lane::new(Arc::clone(&self.host), session.clone(), limits, birth, after));
        let over = |over| HostEvent::Turn(TurnNews::Over(over));
        self.lanes.open(&self.host, session.clone(), |mailbox| lane.run(mailbox), over);
    }

    /// Returns whether any chat leads to a session.
    pub(crate) fn is_led_to(&self, session: &SessionId) -> bool {
        self.routes.of_session(session).next().is_some()
    }

    /// Removes the routes of a session; returns the stored keys that led to it.
    pub(crate) fn unbind(&mut self, session: &SessionId) -> Vec<String> {
        let keys: Vec<String> = self.routes.of_session(session).map(|route| route.key.clone()).collect();
        for key in &keys {
            self.routes.unbind(key);
            self.used.remove(key);
        }
        keys
    }

    /// Frees a key: its next event begins another session, once `then` is dropped.
    pub(crate) fn free_key(&mut self, key: String) -> (Change, Then) {
        let (then, ended) = oneshot::channel();
        self.routes.unbind(&key);
        self.used.remove(&key);
        self.ending.insert(key.clone(), ended);
        (Change::UnbindRoute { key }, then)
    }

    pub(crate) fn note(&self, note: Note) {
        // The clerk runs as long as its sender exists.
        let _ = self.clerk.send(note);
    }

    fn handle_turn(&mut self, news: TurnNews) {
        match news {
            TurnNews::Idle { session, taken, unborn } => {
                if self.lanes.release(&session, taken) && unborn {
                    self.unbind(&session);
                }
            }
            TurnNews::AskOver { ask } => self.asks.close(&ask),
            // Nothing waits for this write; a session that is left open costs only its route. If another chat took the
            // session over meanwhile, it continues there.
            TurnNews::Complete { session } if self.routes.of_session(&session).nth(1).is_some() => {}
            TurnNews::Complete { session } => self.end(session, "complete", oneshot::channel().0),
            TurnNews::Aside { session } => {
                self.forget_aside(&session);
            }
            TurnNews::Over(over) => {
                self.lanes.over(&over);
                self.forget_aside(&over.key);
                if over.broken {
                    // The events of the lane are in the inbox; only another run of the host finds them there.
                    tracing::error!(session = %over.key, "session actor failed; the host restarts to recover its work");
                    self.host.broken.cancel();
                }
                self.say_drained();
            }
        }
    }

    fn handle_delivery(&mut self, news: DeliveryNews) {
        match news {
            DeliveryNews::Owed(delivery) => {
                let (instance, chat) = (delivery.instance.clone(), delivery.chat.clone());
                self.carry(&instance, &chat, OutboxMessage::Owed(delivery));
            }
            DeliveryNews::Draft(delivery, text) => {
                let (instance, chat) = (delivery.instance.clone(), delivery.chat.clone());
                self.carry(&instance, &chat, OutboxMessage::Draft(delivery, text));
            }
            DeliveryNews::Grows(target, text) => self.carry_to(target, OutboxMessage::Grows(text)),
            DeliveryNews::Grown { instance, chat, id } => self.carry(&instance, &chat, OutboxMessage::Grown(id)),
            DeliveryNews::Dead { instance, chat, why } => {
                let is_chat = |target: &Target| *target.instance == *instance && target.chat == chat.id;
                self.outbox.send_where(is_chat, || OutboxMessage::Dead(why.clone()));
                let since_ms = self.host.now_ms();
                self.dead.insert((instance.clone(), chat.id.clone()), DeadTargetRow { instance, chat, why, since_ms });
            }
            DeliveryNews::Asked { ask, chat, receipt } => self.asks.mark_shown(&ask, chat, receipt),
            DeliveryNews::NotAsked { ask, why } => self.not_asked(ask, &why),
            DeliveryNews::Untold { hash } => self.take_back_code(&hash),
            DeliveryNews::Migrating(migration) => {
                let Migration { instance, from, to, reply } = *migration;
                let routes = self.migrate(&instance, &from, &to);
                // A lane that has ended has nothing to write.
                let _ = reply.send(routes);
            }
            DeliveryNews::Idle { target, taken } => {
                self.outbox.release(&target, taken);
            }
            DeliveryNews::Over(over) => {
                self.outbox.over(&over);
                if over.broken {
                    tracing::error!(target = ?over.key, "delivery queue failed; the host restarts to recover its work");
                    self.host.broken.cancel();
                }
                self.say_drained();
            }
        }
    }

    /// Returns whether a chat cannot be written to until it sends an event.
    pub(crate) fn is_dead(&self, instance: &str, chat: &Chat) -> bool {
        self.dead.contains_key(&(instance.to_owned(), chat.id.clone()))
    }

    /// Hands a committed delivery to the lane of its target.
    fn carry(&mut self, instance: &str, chat: &Chat, message: OutboxMessage) {
        let target = Target::of(instance, chat);
        let dead = self.dead_since_lately(instance, chat).map(OutboxMessage::Dead);
        self.carry_to(target.clone(), message);
        if let Some(dead) = dead {
            self.carry_to(target, dead);
        }
    }

    fn carry_to(&mut self, target: Target, message: OutboxMessage) {
        let Err(message) = self.outbox.send(&target, message) else { return };
        let holds = self.host.holds.of(&target.instance);
        let lane = OutboxLane::new(Arc::clone(&self.host), target.clone(), holds);
        let over = |over| HostEvent::Delivery(DeliveryNews::Over(over));
        self.outbox.open(&self.host, target.clone(), |mailbox| lane.run(mailbox), over);
        // A lane that is created while the outbox drains did not receive the broadcast.
        let drain = self.outbox_drained.is_some().then_some(OutboxMessage::Drain);
        for message in std::iter::once(message).chain(drain) {
            // The lane was created a few lines above.
            let _ = self.outbox.send(&target, message);
        }
    }

    fn handle_adapter(&mut self, news: AdapterEvent) {
        let instance = match news {
            AdapterEvent::Ready { instance } => instance,
            // The caller that forwards this event notifies the terminal.
            AdapterEvent::Announced { .. } => return,
            AdapterEvent::State { instance, state } => {
                if self.state_log.is_worth_a_line(&instance, &state, self.host.now_ms()) {
                    tracing::info!(%instance, state = state.word(), reason = state.reason(), "adapter");
                }
                return;
            }
        };
        self.host.holds.of(&instance).reached();
        self.outbox.send_where(|target| target.instance == instance, || OutboxMessage::Linked);
        self.host.handoffs.ready(&instance);
        self.wake_again();
        self.ask_for_places(&instance);
        self.show_commands(instance);
    }

    fn sweep(&mut self) {
        let now_ms = self.host.now_ms();
        self.host.holds.sweep(now_ms);
        self.sweep_paces();
        self.sweep_takes();
        self.wake_again();
        tokio::spawn(crate::engine::background::tasks::tell::minute(Arc::clone(&self.host)));
        self.expire_asks();
        self.expire();
        self.ending.retain(|_, ended| matches!(ended.try_recv(), Err(oneshot::error::TryRecvError::Empty)));
        // Both are evaluated, so that one group of ended lanes counts once.
        if self.lanes.have_ended(CROWD_LANES) | self.outbox.have_ended(CROWD_LANES) {
            tokio::task::spawn_blocking(hermes_loader::give_back_memory);
        }
    }

    fn say_drained(&mut self) {
        if self.lanes.alive() == 0
            && let Some(reply) = self.lanes_drained.take()
        {
            // The caller may have stopped waiting.
            let _ = reply.send(());
        }
        if self.outbox.alive() == 0
            && let Some(reply) = self.outbox_drained.take()
        {
            // As above.
            let _ = reply.send(());
        }
    }
}

/// Returns whether an event is a command for another account in the same chat. Only the adapter knows the name of this
/// account.
fn is_for_another(event: &Event) -> bool {
    !is_dm(&event.chat.kind) && !event.addressed.command && hermes_core::commands::names_an_account(&event.text)
}

/// Builds the lane's form of an event, whose text may follow a command.
fn heard(arrived: Arrived, found: &Found, words: Option<ToAgent>) -> LaneMessage {
    let Arrived { id, instance, adapter, event, input, permit } = arrived;
    let aside = words.as_ref().is_some_and(|words| words.aside);
    // Only an event of an earlier run has no slot in a queue.
    let urge = match (&permit, &words) {
        (None, _) => Urge::InOrder,
        (Some(_), Some(words)) => words.urge,
        (Some(_), None) => Urge::AsChosen,
    };
    let event = match words {
        Some(words) => event.map(|event| with_text(event, words.words)),
        None => event,
    };
    let place = place(instance, adapter, event.get(), found.session.clone(), id);
    let heard = Heard {
        inbox: id,
        at_ms: event.get().at_ms,
        owner: owner(&place.instance, &event),
        place,
        event,
        key: found.key.to_string(),
        several: found.key.is_shared_by_several(),
        input,
        urge,
        aside,
    };
    LaneMessage::Heard(Box::new(heard), permit)
}

/// Returns the event with another text.
fn with_text(mut event: Event, text: String) -> Event {
    event.text = text;
    event
}

/// Builds the lane's form of an event that repeats an earlier message.
pub(crate) fn heard_again(arrived: &Arrived, found: &Found) -> Heard {
    let Arrived { id, ref instance, ref adapter, ref event, .. } = *arrived;
    let place = place(instance.clone(), adapter.clone(), event.get(), found.session.clone(), id);
    Heard {
        inbox: id,
        at_ms: event.get().at_ms,
        owner: owner(instance, event),
        place,
        event: event.clone(),
        key: found.key.to_string(),
        several: found.key.is_shared_by_several(),
        urge: Urge::AsChosen,
        aside: false,
        input: None,
    }
}

/// Returns the origin of an event.
pub(crate) fn place(
    instance: Arc<str>,
    adapter: Option<AdapterHandle>,
    event: &Event,
    session: SessionId,
    inbox: InboxId,
) -> Place {
    let (chat, reply_to) = (event.chat.clone(), event.message_id.clone());
    let deliver = forward::wanted(adapter.as_ref(), event).cloned();
    Place { instance, adapter, chat, session, inbox, reply_to, asker: event.sender.id.clone(), deliver }
}

/// Returns the owner of a session: the operator is one person on every instance.
pub(crate) fn owner(instance: &str, event: &Authorized<Event>) -> Option<String> {
    owner_of(instance, event.get(), event.tier())
}

fn owner_of(instance: &str, event: &Event, tier: Tier) -> Option<String> {
    if tier == Tier::Operator {
        return Some(crate::engine::services::OPERATOR.to_owned());
    }
    participant(&event.sender).map(|id| format!("{instance}:{id}"))
}

/// Reads the permanently approved kinds of action from the store.
fn approved(kept: Option<&str>) -> BTreeSet<String> {
    let read = kept.map(serde_json::from_str).transpose().inspect_err(|error| {
        tracing::error!(%error, "permanent approvals could not be read; the actions need approval again");
    });
    read.ok().flatten().unwrap_or_default()
}

/// Returns the trust in the word of an adapter about its senders.
pub(crate) fn trust_in(adapter: Option<&AdapterHandle>) -> Trust {
    adapter.map_or(Trust::None, |adapter| Trust::of(adapter.trusted(), &adapter.capabilities()))
}

/// Converts a row of the store into a route in memory.
fn route(row: RouteRow) -> Route {
    Route {
        key: row.key,
        session: row.session,
        profile: row.profile,
        instance: row.instance,
        origin: row.origin,
        shared: row.shared,
        participates: row.participates,
    }
}
