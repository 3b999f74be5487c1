//! Slash commands that concern a session. The dispatcher decides on their changes; the lane writes these in the
//! session's order and replies.

use std::sync::{Arc, Mutex, PoisonError};

use futures_util::future::BoxFuture;
use hermes_core::approvals::Question;
use hermes_core::handoff::TERMINAL;
use hermes_core::settings::{Setting, SettingChange};
use hermes_protocol::{Purpose, Usage};

use super::conversation::Said;
use super::{Lane, Then, Waiting, Wish, memory};
use crate::engine::approvals;
use crate::engine::attachments::described::Files;
use crate::engine::context;
use crate::engine::context::{Heard, Place, Spoken};
use crate::engine::runtime::Host;
use hermes_core::text::one_line;
use hermes_store::{Change, CommandTx, EndTurn, StoreError, TurnEnd};

/// A slash command on its way to its session.
#[derive(Debug)]
pub struct Order {
    /// The origin of the command, to which the reply is sent.
    pub place: Place,
    /// The operation.
    pub act: Act,
    /// The changes, in one transaction with the reply.
    pub changes: Vec<Change>,
    /// True if it is carried out while a turn runs.
    pub bypasses: bool,
}

/// The operation of a command.
#[derive(Debug)]
pub enum Act {
    /// Reply with this text.
    Say(String),
    /// Reply with the reason of a refusal.
    Refuse(String),
    /// Stop the running turn.
    Stop {
        /// The reply if no turn runs.
        idle: String,
    },
    /// Describe the session.
    Describe,
    /// Change a setting of the session.
    Set(SettingChange),
    /// Toggle whether the agent asks here before it acts.
    ToggleYolo,
    /// Ask before a command is carried out.
    Ask {
        /// The open question.
        question: Box<Question>,
        /// The text of the question.
        words: String,
    },
    /// Announce the restart of the host and, once that is written, start it.
    Restart,
    /// Switch to the next mode of tool progress; the last mode is followed by none.
    NextProgress,
    /// Show a setting of the session.
    Show(Setting),
    /// Release this chat from the session, which continues in other chats.
    Leave {
        /// Lets the next session of the same key begin.
        then: Then,
    },
    /// Carry out an operation on the conversation.
    Conversation(Box<Wish>),
    /// Reply with the result of a request that may take a while.
    Later(Later),
    /// End the session; its key is free once the sender is dropped.
    End {
        /// Lets the next session of the same key begin.
        then: Then,
    },
}

/// A reply that is still being determined, with its changes. Bounded by its creator. The mutex is never locked; it
/// makes the order shareable between threads.
pub struct Later(Mutex<BoxFuture<'static, (String, Vec<Change>)>>);

impl Later {
    /// Wraps the result of `finding`.
    pub fn new(finding: impl Future<Output = (String, Vec<Change>)> + Send + 'static) -> Self {
        Self(Mutex::new(Box::pin(finding)))
    }
}

impl std::fmt::Debug for Later {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Later(..)")
    }
}

const RESTART: &str = "The host restarts after the running turns have finished. I'll write here when it is back.";

const NO_RESTART: &str = "Not restarted: the host would not start again, because its configuration has problems. \
                          `hermes-host config check` lists them, and so does the host's log.";

const NEW: &str = "Started a new conversation.";

/// The addition to a reply if a turn was stopped: its output remains in the chat.
const ENDED: &str = " The running turn was stopped.";

/// Appends the title of a new conversation to the reply.
fn with_title(words: &str, changes: &[Change]) -> String {
    let title = changes.iter().find_map(|change| match change {
        Change::NewSession(new) => new.title.as_deref(),
        _ => None,
    });
    match (title, words.strip_prefix(NEW)) {
        (Some(title), Some(rest)) => format!("Started a new conversation: **{}**.{rest}", one_line(title, 200)),
        _ => words.to_owned(),
    }
}

impl Lane {
    /// Carries out a command: one transaction with its changes and its reply.
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
            "The agent is still working on your last message. Send /stop to end that turn, then try again.".to_owned()
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
                    // Without a restart there is no notice after it.
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
                // Carried out above, unless a turn runs.
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
            // A script has to recognize that this is no answer.
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

    /// Asks before a command is carried out; the question answers the event.
    async fn ask_first(&mut self, place: Place, question: &Question, words: &str) {
        let mut posed = approvals::pose(&self.host, question, words).await;
        posed.in_reply_to = Some(place.inbox);
        let now_ms = self.host.now_ms();
        self.write_order(CommandTx { inbox: Some(place.inbox), changes: Vec::new(), reply: vec![posed], now_ms }).await;
    }

    /// Ends the session for the operator. Returns whether the end is written.
    pub(super) async fn close(&mut self, mut changes: Vec<Change>) -> bool {
        self.end_session(&mut changes).await;
        self.write_order(CommandTx { inbox: None, changes, reply: Vec::new(), now_ms: self.host.now_ms() }).await
    }

    /// Writes an order that begins a session with a title. Returns the order that remains to be written: the same one,
    /// without the title if another session has it.
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
                let words = format!("{words} The title was not set: {error}.");
                order.reply = vec![place.answer_order(&self.host, words).await];
            }
            // Retried like every order, and logged.
            Err(_) => {}
        }
        Some(order)
    }

    async fn stop_and_say(&mut self, idle: String) -> String {
        let mut stopped = self.is_busy();
        self.stop().await;
        // Without a running turn, the fetches of files are the session's work.
        stopped |= !stopped && self.stop_fetching().await;
        let waiting = self.guard.depth() + self.door.len();
        match (stopped, waiting) {
            (false, _) => idle,
            (true, 0) => "Stopped.".to_owned(),
            (true, 1) => "Stopped. One waiting message is answered next.".to_owned(),
            (true, n) => format!("Stopped. {n} waiting messages are answered next."),
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
            Err(error) => tracing::warn!(session = %self.session, %error, "session details could not be read"),
        }
        let settings = self.memory.settings(&self.host, &self.session).await.unwrap_or_default();
        let model = settings.model.clone().unwrap_or_else(|| self.host.model());
        lines.push(format!("- Agent: {} {model}", self.host.runtime.name()).trim_end().to_owned());
        lines.extend(self.chosen(&settings));
        let adapters = self.host.adapters().map(hermes_loader::Adapters::all).unwrap_or_default();
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

    /// Ends the session: stops its turn, and drops and reports the waiting messages.
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
            // This session was never stored; its successor is.
            let is_kept = |change: &Change| {
                matches!(change, Change::NewSession(_) | Change::BindBorn(_) | Change::ForgetObserved(_))
            };
            changes.retain(is_kept);
        }
        if !accepted.is_empty() {
            changes.push(Change::DropInbox { ids: accepted, why: "a new conversation started".to_owned() });
        }
        self.memory.forget();
        match dropped {
            0 => format!("{NEW}{stopped}"),
            1 => format!("{NEW}{stopped} One waiting message was dropped."),
            n => format!("{NEW}{stopped} {n} waiting messages were dropped."),
        }
    }

    /// Ends an interrupted turn that will not be resumed. The question stays in the transcript.
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

/// Formats a time for users, in the time zone of the host.
fn when(at_ms: i64) -> String {
    let moment = jiff::Timestamp::from_millisecond(at_ms).unwrap_or_default();
    moment.to_zoned(jiff::tz::TimeZone::system()).strftime("%Y-%m-%d %H:%M").to_string()
}

/// Returns the hash of a request whose code the reply contains.
fn code_of(change: &Change) -> Option<String> {
    match change {
        Change::PairingRequest(request) => Some(request.hash.clone()),
        _ => None,
    }
}

/// Carries out an order with a slow reply in the background, so that the lane can still be stopped. Until the reply is
/// written, the event waits in the inbox.
async fn answer_later(host: Arc<Host>, place: Place, mut changes: Vec<Change>, later: Later) {
    let (words, more) = later.0.into_inner().unwrap_or_else(PoisonError::into_inner).await;
    changes.extend(more);
    let reply = place.answer_order(&host, words).await;
    let order = CommandTx { inbox: Some(place.inbox), changes, reply: vec![reply], now_ms: host.now_ms() };
    if let Some(ids) = host.until_written("an order", || host.store.command(order.clone())).await {
        host.carry(ids, order.reply).await;
    }
}
