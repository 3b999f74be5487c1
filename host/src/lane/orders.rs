//! Slash commands, as far as a session has to do with them. What they change is
//! decided by the dispatcher; here it is written in the session's order and answered.

use std::sync::{Arc, Mutex, PoisonError};

use futures_util::future::BoxFuture;
use hermes_core::asks::Question;
use hermes_core::handoff::TERMINAL;
use hermes_core::settings::{Setting, SettingChange};
use hermes_protocol::{Purpose, Usage};

use super::conversation::Said;
use super::{Lane, Then, Waiting, Wish, memory};
use crate::asking;
use crate::context::{self, Heard, Place, Spoken};
use crate::files::Files;
use crate::host::Host;
use crate::status::human::one_line;
use crate::store::{Change, CommandTx, EndTurn, StoreError, TurnEnd};

/// A slash command on its way to its session.
#[derive(Debug)]
pub struct Order {
    /// Where it was given, and where it is answered.
    pub place: Place,
    /// What is to be done.
    pub act: Act,
    /// What changes with it, in one transaction with its answer.
    pub changes: Vec<Change>,
    /// Whether it is obeyed while a turn runs.
    pub bypasses: bool,
}

/// What a lane does about a command.
#[derive(Debug)]
pub enum Act {
    /// Answer with these words.
    Say(String),
    /// Say why it is not done.
    Refuse(String),
    /// Stop the running turn.
    Stop {
        /// What to say where none runs.
        idle: String,
    },
    /// Say how the session stands.
    Describe,
    /// Choose how the session behaves.
    Set(SettingChange),
    /// Choose the other way whether the agent asks here before it acts.
    ToggleYolo,
    /// Ask before a command is obeyed.
    Ask {
        /// The question, which is open.
        question: Box<Question>,
        /// What is asked.
        words: String,
    },
    /// Say that the host restarts, and when that is written, let it.
    Restart,
    /// Show more of tools on the way, after the last mode nothing again.
    NextProgress,
    /// Say how a setting of the session stands.
    Show(Setting),
    /// Let this chat begin anew; other chats go on in the session.
    Leave {
        /// Lets the next session of the same key begin.
        then: Then,
    },
    /// Do something with the conversation as such.
    Conversation(Box<Wish>),
    /// Answer with what comes out of asking somebody who may take a while.
    Later(Later),
    /// End the session; its key is free once the sender is dropped.
    End {
        /// Lets the next session of the same key begin.
        then: Then,
    },
}

/// Words that are still being found, and what changes with them. Bounded by whoever finds them.
/// In a mutex that is never locked, since an order is looked at from more than one thread.
pub struct Later(Mutex<BoxFuture<'static, (String, Vec<Change>)>>);

impl Later {
    /// What `finding` comes to.
    pub fn new(finding: impl Future<Output = (String, Vec<Change>)> + Send + 'static) -> Self {
        Self(Mutex::new(Box::pin(finding)))
    }
}

impl std::fmt::Debug for Later {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Later(..)")
    }
}

const RESTART: &str = "The host restarts. Running turns are finished first; I write here when it is back.";

const NO_RESTART: &str = "The host goes on: it would not start again, since its configuration has problems. \
                          `hermes-host config check` names them, and so does its log.";

const NEW: &str = "A new conversation begins.";

/// What follows on it where a turn ran: what that had said stands in the chat.
const ENDED: &str = " The turn that ran was stopped.";

/// The words about a conversation that begins, with the title that it gets.
fn with_title(words: &str, changes: &[Change]) -> String {
    let title = changes.iter().find_map(|change| match change {
        Change::NewSession(new) => new.title.as_deref(),
        _ => None,
    });
    match (title, words.strip_prefix(NEW)) {
        (Some(title), Some(rest)) => format!("A new conversation begins: **{}**.{rest}", one_line(title, 200)),
        _ => words.to_owned(),
    }
}

impl Lane {
    /// Obeys a command: one transaction with its changes and its answer.
    pub(super) async fn obey(&mut self, order: Order) {
        let Order { place, act, mut changes, bypasses } = order;
        let (mut then, mut restarts, mut refused) = (None, false, matches!(act, Act::Refuse(_)));
        if act.changes_the_conversation()
            && let Some(words) = self.leased(place.inbox).await
        {
            self.answer_order(&place, Said::only(words)).await;
            return;
        }
        let act = match act {
            Act::Conversation(wish) if !self.is_busy() || bypasses => return self.converse(place, *wish).await,
            act => act,
        };
        let words = if self.is_busy() && !bypasses {
            changes.clear();
            refused = true;
            "The agent is working on your last message. /stop ends it, then try again.".to_owned()
        } else {
            match act {
                Act::Say(words) | Act::Refuse(words) => words,
                Act::Stop { idle } => self.stop_and_say(idle).await,
                Act::Describe => self.describe().await,
                Act::Restart if self.host.would_start().await => {
                    restarts = true;
                    RESTART.to_owned()
                }
                Act::Restart => {
                    // Nobody is told that it is back.
                    changes.clear();
                    NO_RESTART.to_owned()
                }
                Act::Set(change) => self.set(&place, change, &mut changes).await,
                Act::ToggleYolo => self.toggle_yolo(&place, &mut changes).await,
                Act::Ask { question, words } => return self.ask_first(place, &question, &words).await,
                Act::NextProgress => self.next_progress(&place, &mut changes).await,
                Act::Show(setting) => self.show(&place, setting).await,
                Act::Later(later) => {
                    tokio::spawn(answer_later(Arc::clone(&self.host), place, changes, later));
                    return;
                }
                // Obeyed above, unless something runs.
                Act::Conversation(_) => String::new(),
                Act::Leave { then: tell } => {
                    then = Some(tell);
                    NEW.to_owned()
                }
                Act::End { then: tell } => {
                    then = Some(tell);
                    self.end_session(&mut changes).await
                }
            }
        };
        let mut reply = place.answer_order(&self.host, with_title(&words, &changes)).await;
        if refused && *place.instance == *TERMINAL {
            // A script has to know that this is no answer.
            reply.purpose = Purpose::Notice;
        }
        reply.code = changes.iter().find_map(code_of);
        let order = CommandTx { inbox: Some(place.inbox), changes, reply: vec![reply], now_ms: self.host.now_ms() };
        let bears =
            order.changes.iter().any(|change| matches!(change, Change::NewSession(new) if new.id == self.session));
        let written = match self.write_titled(order, &place, &words).await {
            Some(order) => self.write_order(order).await,
            None => true,
        };
        if written && bears {
            self.birth = None;
        }
        if restarts && written {
            self.host.restarting.cancel();
        }
        drop(then);
    }

    /// Asks before a command is obeyed; that answers the event.
    async fn ask_first(&mut self, place: Place, question: &Question, words: &str) {
        let mut posed = asking::pose(&self.host, question, words).await;
        posed.in_reply_to = Some(place.inbox);
        let now_ms = self.host.now_ms();
        self.write_order(CommandTx { inbox: Some(place.inbox), changes: Vec::new(), reply: vec![posed], now_ms }).await;
    }

    /// Ends the session because the operator says so. Returns whether it is written.
    pub(super) async fn close(&mut self, mut changes: Vec<Change>) -> bool {
        self.end_session(&mut changes).await;
        self.write_order(CommandTx { inbox: None, changes, reply: Vec::new(), now_ms: self.host.now_ms() }).await
    }

    /// Writes an order that begins a session with a title. Returns what is still to be written: the same order,
    /// without the title where another session has it.
    async fn write_titled(&self, mut order: CommandTx, place: &Place, words: &str) -> Option<CommandTx> {
        let titled = |change: &Change| matches!(change, Change::NewSession(new) if new.title.is_some());
        if !order.changes.iter().any(titled) {
            return Some(order);
        }
        match self.host.store.command(order.clone()).await {
            Ok(ids) => {
                self.host.carry(ids, order.reply).await;
                return None;
            }
            Err(error @ (StoreError::TitleTaken { .. } | StoreError::TitleTooLong { .. })) => {
                for change in &mut order.changes {
                    if let Change::NewSession(new) = change {
                        new.title = None;
                    }
                }
                let words = format!("{words} It has no title: {error}.");
                order.reply = vec![place.answer_order(&self.host, words).await];
            }
            // Tried again like every order, and told in the log.
            Err(_) => {}
        }
        Some(order)
    }

    async fn stop_and_say(&mut self, idle: String) -> String {
        let mut stopped = self.is_busy();
        self.stop().await;
        // What is not there yet is what the session works on, where no turn runs.
        stopped |= !stopped && self.stop_fetching().await;
        let waiting = self.guard.depth() + self.door.len();
        match (stopped, waiting) {
            (false, _) => idle,
            (true, 0) => "Stopped.".to_owned(),
            (true, 1) => "Stopped. One message still waits and is answered next.".to_owned(),
            (true, n) => format!("Stopped. {n} messages still wait and are answered next."),
        }
    }

    async fn describe(&mut self) -> String {
        let mut lines = vec![format!("- Session: `{}`", self.session)];
        match self.host.store.session(&self.session).await {
            Ok(Some(row)) => {
                lines.extend(row.title.map(|title| format!("- Title: {title}")));
                lines.push(format!("- Began: {}", when(row.started_ms)));
                lines.push(format!("- Last turn: {}", when(row.active_ms)));
                lines.push(format!("- Messages: {}", row.messages));
                lines.push(format!("- Tokens: {} in, {} out", row.usage.input_tokens, row.usage.output_tokens));
            }
            Ok(None) => lines.push("- Messages: 0".to_owned()),
            Err(error) => tracing::warn!(session = %self.session, %error, "a session cannot be described in full"),
        }
        let settings = self.memory.settings(&self.host, &self.session).await.unwrap_or_default();
        let model = settings.model.clone().unwrap_or_else(|| self.host.model());
        lines.push(format!("- Agent: {} {model}", self.host.runtime.name()).trim_end().to_owned());
        lines.extend(self.chosen(&settings));
        let adapters = self.host.adapters().map(crate::plugins::Adapters::all).unwrap_or_default();
        let states: Vec<String> =
            adapters.iter().map(|adapter| format!("{} {}", adapter.instance(), adapter.state().word())).collect();
        if !states.is_empty() {
            lines.push(format!("- Platforms: {}", states.join(", ")));
        }
        lines.push(match (self.is_busy() || !self.door.is_empty(), self.guard.depth()) {
            (false, _) => "- Now: idle".to_owned(),
            (true, 0) => "- Now: working".to_owned(),
            (true, n) => format!("- Now: working, {n} waiting"),
        });
        lines.join("\n")
    }

    /// Ends the session: its turn is stopped and what waited for it is dropped, and said to be.
    async fn end_session(&mut self, changes: &mut Vec<Change>) -> String {
        let mut ids = self.guard.clear();
        ids.extend(self.door.clear());
        if self.keep_news(&mut ids) {
            self.put_back().await;
        }
        let dropped = ids.len();
        let mut accepted = Vec::new();
        for id in ids {
            match self.waiting.remove(&id) {
                Some(Waiting::CutOff(turn, events)) => self.give_up(turn, &events).await,
                Some(Waiting::Heard(_)) | None => accepted.push(id),
            }
        }
        let stopped = if self.running.is_some() || self.resuming.is_some() { ENDED } else { "" };
        self.stop().await;
        if self.birth.is_some() {
            // Nothing of this session was ever written; what begins after it is.
            let is_kept = |change: &Change| {
                matches!(change, Change::NewSession(_) | Change::BindBorn(_) | Change::ForgetObserved(_))
            };
            changes.retain(is_kept);
        }
        if !accepted.is_empty() {
            changes.push(Change::DropInbox { ids: accepted, why: "a new conversation began".to_owned() });
        }
        self.memory.forget();
        match dropped {
            0 => format!("{NEW}{stopped}"),
            1 => format!("{NEW}{stopped} One waiting message was dropped."),
            n => format!("{NEW}{stopped} {n} waiting messages were dropped."),
        }
    }

    /// Ends a turn that was to be resumed and will not be. What was asked stays in the transcript.
    pub(super) async fn give_up(&mut self, turn: hermes_core::ids::TurnId, events: &[Heard]) {
        let host = &self.host;
        let files = Files::of(host, events.iter()).await;
        let (said, messages): (Vec<Spoken>, Vec<_>) =
            events.chunks(1).flat_map(|event| context::messages(event, &files)).unzip();
        let asked: Vec<_> = said.iter().map(|spoken| spoken.at_ms).zip(messages).collect();
        let end = EndTurn {
            turn,
            state: TurnEnd::Interrupted,
            error: None,
            session: self.session.clone(),
            messages: memory::rows(&asked, &said),
            deliveries: Vec::new(),
            usage: Usage::default(),
            agent_state: None,
            observed: None,
            now_ms: self.host.now_ms(),
        };
        self.write_end(end).await;
        self.memory.add(&self.host, asked, None);
    }
}

/// A moment for people, in the time of the host.
fn when(at_ms: i64) -> String {
    let moment = jiff::Timestamp::from_millisecond(at_ms).unwrap_or_default();
    moment.to_zoned(jiff::tz::TimeZone::system()).strftime("%Y-%m-%d %H:%M").to_string()
}

/// The hash of a request whose code the answer tells.
fn code_of(change: &Change) -> Option<String> {
    match change {
        Change::PairingRequest(request) => Some(request.hash.clone()),
        _ => None,
    }
}

/// Obeys an order whose words take a while, beside the lane: it must stay free to be stopped. Until it is
/// written the event waits in the inbox.
async fn answer_later(host: Arc<Host>, place: Place, mut changes: Vec<Change>, later: Later) {
    let (words, more) = later.0.into_inner().unwrap_or_else(PoisonError::into_inner).await;
    changes.extend(more);
    let reply = place.answer_order(&host, words).await;
    let order = CommandTx { inbox: Some(place.inbox), changes, reply: vec![reply], now_ms: host.now_ms() };
    if let Some(ids) = host.until_written("an order", || host.store.command(order.clone())).await {
        host.carry(ids, order.reply).await;
    }
}
