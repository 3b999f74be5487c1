//! Open questions: their chats, their answers, and the commands about them. [`super::confirm`] creates the questions of
//! commands.
//!
//! A button, text, a command and a call of an adapter all lead to [`Dispatcher::answer`]; an accepted answer goes to
//! the lane of the waiting session.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use hermes_core::access::{Tier, Trust};
use hermes_core::approvals::{Answer, AnswerChoice, AnswerOutcome, Answerer, Question, Verdict};
use hermes_core::commands::{self, CommandId, Parsed};
use hermes_core::ids::InboxId;
use hermes_core::limits::{APPROVED_KINDS_MAX, DENIAL_CHARS_MAX, STAFF_CHATS_MAX};
use hermes_core::session::is_dm;
use hermes_core::settings::{Setting, SettingChange};
use hermes_protocol::{Chat, Event, Sender};
use tokio::sync::oneshot;

use super::{Asked, Deed};
use crate::engine::approvals;
use crate::engine::approvals::{Over, Stale};
use crate::engine::dispatcher::drops::Note;
use crate::engine::dispatcher::{APPROVED_FLAG, Arrived, Dispatcher, Found, place};
use crate::engine::messages::{Asking, Permit};
use crate::engine::session::{Act, Given, LaneMessage, Later, Order};
use hermes_store::Change;

/// The reply if no question is open.
const NOTHING_WAITS: &str = "No approvals are pending here.";

/// The reply to a repeated yes or no.
const ANSWERED_ALREADY: &str = "That has already been answered, and no other question is open.";

/// The reply if the open question had not arrived yet when the answer was written.
const ON_ITS_WAY: &str =
    "Your reply is older than the approval request, so it was ignored. Please answer the request when it appears.";

/// Direct messages of admins, by instance and id: the chat, and the time of their last message there.
pub(crate) type StaffChats = BTreeMap<(Arc<str>, String), (Chat, i64)>;

/// The origin of an answer.
struct How {
    /// The event of a button.
    inbox: Option<InboxId>,
    /// Receives the outcome of an answer in text, whose reply is separate.
    heard: Option<oneshot::Sender<String>>,
    /// Its slot in the queue.
    permit: Permit,
}

/// The result of an answer in text.
enum Follows {
    /// The answer is refused, with the reason.
    Not(&'static str),
    /// The answer is accepted for this question; the receiver gets the outcome.
    Taken(Box<Question>, oneshot::Receiver<String>),
    /// A command that waited for the answer is carried out or dropped.
    Obeyed(Deed),
}

impl Dispatcher {
    /// Notes the direct chat of an admin who wrote there, for later questions.
    pub(crate) fn note_staff(&mut self, arrived: &Arrived) {
        let event = arrived.event.get();
        if arrived.event.tier() < Tier::Admin || !is_dm(&event.chat.kind) || event.sender.id.is_empty() {
            return;
        }
        let key = (Arc::clone(&arrived.instance), event.sender.id.clone());
        if self.staff.len() < STAFF_CHATS_MAX || self.staff.contains_key(&key) {
            self.staff.insert(key, (event.chat.clone(), self.host.now_ms()));
        }
    }

    /// Asks the question of a turn: in its chat, or in the direct chat of an admin.
    pub(crate) fn open_ask(&mut self, asking: Asking) {
        let Asking { mut question, elsewhere, reply } = asking;
        if elsewhere {
            match self.staff_chat(&question.instance) {
                Some((id, chat)) => {
                    question.addressee = Some(id);
                    question.chat = chat;
                }
                // In a group an admin may answer in the chat of the turn.
                None if !is_dm(&question.origin.kind) => {}
                None => {
                    // The turn may have ended.
                    let _ = reply.send(None);
                    return;
                }
            }
        }
        self.asks.open(question.clone());
        if let Err(Some(question)) = reply.send(Some(question)) {
            self.asks.close(&question.id);
        }
    }

    /// Returns the admin of an instance who wrote last, with the direct chat; the sender must still be an admin and
    /// reachable.
    fn staff_chat(&self, instance: &str) -> Option<(String, Chat)> {
        let live = self.host.live();
        let is_staff = |id: &str, chat: &Chat| {
            let tier = live.access.tier_of(instance, chat, &Sender::new(id), &self.grants, Trust::None);
            tier >= Some(Tier::Admin) && !self.is_dead(instance, chat)
        };
        let known = self.staff.iter().filter(|((of, id), (chat, _))| **of == *instance && is_staff(id, chat));
        let last =
            known.max_by_key(|(_, (_, seen_ms))| *seen_ms).map(|((_, id), (chat, _))| (id.clone(), chat.clone()));
        let conversations = || {
            let dms = self.routes().filter(|route| route.instance == instance && is_dm(&route.origin.kind));
            // On many platforms the id of a private chat is the id of the person.
            dms.map(|route| &route.origin).find(|chat| is_staff(&chat.id, chat))
        };
        last.or_else(|| conversations().map(|chat| (chat.id.clone(), chat.clone())))
    }

    /// Handles the press of a button.
    pub(crate) fn pressed(&mut self, arrived: Arrived) {
        let event = arrived.event.get();
        let Some(choice) = event.choice.clone() else {
            return self.note(Note::Drop { id: arrived.id, why: "no choice", permit: arrived.permit });
        };
        let judged = self.judge(&choice.ask, AnswerChoice::Option(choice.option), &by(&arrived));
        match judged {
            AnswerOutcome::Accepted(question, answer) if question.command.is_some() => {
                self.command_answered(arrived, *question, &answer);
            }
            AnswerOutcome::Accepted(question, answer) => {
                let name = named(&arrived, &question);
                let how = How { inbox: Some(arrived.id), heard: None, permit: arrived.permit };
                self.answer(question, answer, name, how);
            }
            AnswerOutcome::Already => {
                self.note(Note::Drop { id: arrived.id, why: "answered before", permit: arrived.permit });
            }
            AnswerOutcome::Closed | AnswerOutcome::Unknown | AnswerOutcome::Expired => self.stale(arrived, choice.ask),
            why => self.tell_why_not(arrived, &choice.ask, &why),
        }
    }

    /// Handles the button of a question that is not open, and removes it if it belongs to one.
    fn stale(&mut self, arrived: Arrived, ask: String) {
        let Some(arrived) = self.heeded(arrived) else { return };
        let Arrived { id, instance, event, permit, .. } = arrived;
        let Event { chat, message_id, sender, .. } = event.into_inner();
        let tells = self.asks.notify_once(&ask, &sender.id);
        let press = Stale { ask, instance, chat, message: message_id, by: sender.id, tells, inbox: id };
        let host = Arc::clone(&self.host);
        tokio::spawn(async move {
            approvals::stale(&host, press).await;
            drop(permit);
        });
    }

    /// Drops a press without effect if its chat has had too many of them in this minute.
    fn heeded(&mut self, arrived: Arrived) -> Option<Arrived> {
        let now_ms = self.host.now_ms();
        if self.asks.allows_press_notice(&arrived.instance, &arrived.event.get().chat.id, now_ms) {
            return Some(arrived);
        }
        self.note(Note::Drop { id: arrived.id, why: "too many invalid button presses", permit: arrived.permit });
        None
    }

    /// Closes a question that was abandoned before it arrived, and notifies its waiting turn at once.
    pub(crate) fn not_asked(&mut self, ask: String, why: &str) {
        let Some(question) = self.asks.get(&ask) else { return };
        if question.command.is_some() {
            let over = Over::of(question, approvals::NO_LONGER_OPEN.to_owned(), false);
            self.asks.close(&ask);
            return self.close_aside(over, None);
        }
        let session = question.session.clone();
        let why = self.host.live().masker.mask(why).into_owned();
        if self.lanes.send(&session, LaneMessage::NotAsked { ask: ask.clone(), why }).is_err() {
            // The lane has ended, and its turn with it.
            self.asks.close(&ask);
        }
    }

    /// Closes a question in the background, because the dispatcher does not wait.
    pub(super) fn close_aside(&self, over: Over, permit: Permit) {
        let host = Arc::clone(&self.host);
        tokio::spawn(async move {
            approvals::close(&host, over).await;
            drop(permit);
        });
    }

    fn tell_why_not(&mut self, arrived: Arrived, ask: &str, why: &AnswerOutcome) {
        let Some(arrived) = self.heeded(arrived) else { return };
        let Arrived { id, instance, event, permit, .. } = arrived;
        let Event { chat, sender, .. } = event.into_inner();
        if !self.asks.notify_once(ask, &sender.id) {
            return self.note(Note::Drop { id, why: "answer from another user", permit });
        }
        self.note(Note::Tell { id, instance, chat, words: why_not(why).to_owned(), to: sender.id, permit });
    }

    /// Judges an answer. Every answer takes this path, whatever its sender and form.
    fn judge(&mut self, ask: &str, pick: AnswerChoice, by: &Answerer<'_>) -> AnswerOutcome {
        let now_ms = self.host.now_ms();
        self.asks.answer(ask, pick, by, now_ms)
    }

    /// Hands an accepted answer to the waiting lane.
    fn answer(&mut self, question: Box<Question>, answer: Answer, by: Option<String>, how: How) {
        let How { inbox, heard, permit } = how;
        let mut over = Over::of(&question, String::new(), true);
        over.inbox = inbox;
        let (answer, besides) = self.for_as_long_as_it_is_kept(&question, answer);
        let session = question.session.clone();
        let given = Given { question, answer, by, besides, heard, over };
        if let Err(LaneMessage::Answer(given, permit)) =
            self.lanes.send(&session, LaneMessage::Answer(Box::new(given), permit))
        {
            // The lane has ended, and its turn with it.
            let says = given.heard.is_none();
            let over = Over { outcome: approvals::NO_LONGER_OPEN.to_owned(), says, ..given.over };
            self.close_aside(over, permit);
        }
    }

    /// Limits an approval to the time for which it is remembered, and returns the sentence about a shorter time.
    fn for_as_long_as_it_is_kept(&mut self, question: &Question, answer: Answer) -> (Answer, Option<&'static str>) {
        match (answer, &question.key) {
            (Answer::Approved(Verdict::Always | Verdict::Session), None) => {
                (Answer::Approved(Verdict::Once), Some(approvals::NO_KIND))
            }
            (Answer::Approved(Verdict::Always), Some(key)) if !self.approve_always(key.clone()) => {
                (Answer::Approved(Verdict::Session), Some(approvals::NOT_FOR_ALWAYS))
            }
            (answer, _) => (answer, None),
        }
    }

    /// Approves a kind of action permanently; returns whether it is stored.
    fn approve_always(&mut self, key: String) -> bool {
        let mut approved: BTreeSet<String> = (**self.host.approved()).clone();
        if approved.contains(&key) {
            return true;
        }
        if approved.len() >= APPROVED_KINDS_MAX {
            return false;
        }
        approved.insert(key);
        self.keep_approved(approved);
        true
    }

    /// Changes the permanent approvals. The clerk writes them: lanes would write the sets of several answers in their
    /// own order, and the last set counts.
    fn keep_approved(&mut self, approved: BTreeSet<String>) {
        let value = serde_json::to_string(&approved).expect("a set of texts is always JSON");
        self.host.show_approved(approved);
        self.note(Note::Changes(vec![Change::Flag { key: APPROVED_FLAG.to_owned(), value: Some(value) }]));
    }

    /// Handles text that answers a question put to its sender, or that was perhaps meant to.
    pub(crate) fn answered_in_words(&mut self, arrived: &Arrived, found: &Found) -> Option<Box<Order>> {
        let event = arrived.event.get();
        if self.asks.has_nothing_for_words() || !event.attachments.is_empty() || self.is_command(arrived) {
            return None;
        }
        let (by, now_ms) = (by(arrived), self.host.now_ms());
        let deed = match self.asks.find_by_words(&event.text, &by, now_ms) {
            Some((ask, pick)) => {
                let said = self.said(&Asked { arrived, found, args: "" }, &ask, pick);
                let left = self.asks.waiting_for(&by, now_ms);
                answered(vec![said], left)
            }
            None => match self.asks.near_miss(&event.text, &by, now_ms) {
                Some(question) => Deed::say(approvals::once_more(&question)),
                None if self.asks.repeats_answer(&event.text, &by, now_ms) => Deed::say(ANSWERED_ALREADY),
                None => return None,
            },
        };
        let Deed { act, changes } = deed;
        let place =
            place(Arc::clone(&arrived.instance), arrived.adapter.clone(), event, found.session.clone(), arrived.id);
        Some(Box::new(Order { place, act, changes, bypasses: true }))
    }

    /// Returns whether text is a command and answers nothing, also with the adapter's own command prefix.
    fn is_command(&self, arrived: &Arrived) -> bool {
        let text = &arrived.event.get().text;
        let prefix = arrived.adapter.as_ref().map(|adapter| adapter.capabilities().command_prefix.clone());
        let parsed = commands::parse(text, prefix.as_deref().unwrap_or_default(), &self.host.live().gates);
        text.trim_start().starts_with('/') || parsed != Parsed::NotCommand
    }

    /// Returns whether text is a command about running work anywhere; such a command cannot wait.
    pub(crate) fn is_for_what_runs(&self, arrived: &Arrived) -> bool {
        const OF_USE_NOW: [CommandId; 4] = [CommandId::Stop, CommandId::Approve, CommandId::Deny, CommandId::Status];
        let prefix = arrived.adapter.as_ref().map(|adapter| adapter.capabilities().command_prefix.clone());
        let event = arrived.event.get();
        let parsed = commands::parse(&event.text, prefix.as_deref().unwrap_or_default(), &self.host.live().gates);
        // An event that is answered elsewhere and a forwarded text are not commands.
        event.deliver.is_none()
            && event.forwarded.is_none()
            && matches!(parsed, Parsed::Command { spec, .. } if OF_USE_NOW.contains(&spec.id))
    }

    /// Handles an answer in text.
    fn said(&mut self, asked: &Asked<'_>, ask: &str, pick: AnswerChoice) -> Follows {
        let judged = self.judge(ask, pick, &by(asked.arrived));
        let (question, answer) = match judged {
            AnswerOutcome::Accepted(question, answer) => (question, answer),
            why => return Follows::Not(why_not(&why)),
        };
        if question.command.is_some() {
            return Follows::Obeyed(self.confirmed(asked, &question, &answer));
        }
        let name = named(asked.arrived, &question);
        let (heard, becomes) = oneshot::channel();
        self.answer(question.clone(), answer, name, How { inbox: None, heard: Some(heard), permit: None });
        Follows::Taken(question, becomes)
    }

    /// `/approve [all] [session | always | forget]`: approves the last question, or all.
    pub(super) fn approve_ask(&mut self, asked: &Asked<'_>) -> Deed {
        let mut verdict = Verdict::Once;
        let mut all = false;
        for word in asked.args.split_whitespace() {
            match (word, Verdict::from_word(word)) {
                ("all", _) => all = true,
                ("forget", _) => return self.forget_approvals(asked),
                (_, Some(named)) => verdict = named,
                _ => {
                    return Deed::say(
                        "Use `/approve`; add `session` or `always` to approve for longer, and `all` for all open requests.",
                    );
                }
            }
        }
        self.settle_asks(asked, all, &AnswerChoice::Approve(verdict))
    }

    /// `/deny [all] [why]`: denies the last question, or all.
    pub(super) fn deny_ask(&mut self, asked: &Asked<'_>) -> Deed {
        let (all, why) = match asked.args.split_once(char::is_whitespace) {
            _ if asked.args == "all" => (true, ""),
            Some(("all", why)) => (true, why),
            _ => (false, asked.args),
        };
        let why = Some(approvals::shown(&self.host, why, DENIAL_CHARS_MAX)).filter(|why| !why.is_empty());
        self.settle_asks(asked, all, &AnswerChoice::Deny { why })
    }

    fn settle_asks(&mut self, asked: &Asked<'_>, all: bool, pick: &AnswerChoice) -> Deed {
        let (by, now_ms) = (by(asked.arrived), self.host.now_ms());
        let asks = self.asks.approvals_for(&by);
        let mut said = Vec::new();
        for ask in asks.iter().take(if all { asks.len() } else { 1 }) {
            match self.said(asked, ask, pick.clone()) {
                // A command that waited is carried out now, and has its own reply.
                Follows::Obeyed(deed) => return deed,
                answer => said.push(answer),
            }
        }
        match said.is_empty() {
            true if self.asks.has_undelivered_approval(&by) => Deed::say(ON_ITS_WAY),
            true => Deed::say(NOTHING_WAITS),
            false => answered(said, self.asks.waiting_for(&by, now_ms)),
        }
    }

    fn forget_approvals(&mut self, asked: &Asked<'_>) -> Deed {
        if asked.arrived.event.tier() >= Tier::Admin {
            self.keep_approved(BTreeSet::new());
        }
        Act::Set(SettingChange::ForgetApproved).into()
    }

    /// `/yolo [on | off | status]`: sets whether the agent asks here before it acts.
    pub(super) fn yolo(&mut self, asked: &Asked<'_>) -> Deed {
        match asked.args {
            "" => Act::ToggleYolo.into(),
            "on" => Act::Set(SettingChange::Yolo(Some(true))).into(),
            "off" => Act::Set(SettingChange::Yolo(None)).into(),
            "status" => Act::Show(Setting::Yolo).into(),
            _ => Deed::say("Use `/yolo`, `/yolo on`, `/yolo off` or `/yolo status`."),
        }
    }

    /// Handles the answer of a person for whom an adapter vouches.
    pub(crate) fn answered_by_call(
        &mut self,
        instance: &str,
        ask: &str,
        option: String,
        sender: &Sender,
        tier: Tier,
    ) -> Result<(), (&'static str, String)> {
        if self.asks.get(ask).is_some_and(|question| question.command.is_some()) {
            return Err(("refused", "this question can only be answered in its chat".to_owned()));
        }
        match self.judge(
            ask,
            AnswerChoice::Option(option),
            &Answerer { instance, chat: None, sender, tier, at_ms: 0, quotes: None },
        ) {
            AnswerOutcome::Accepted(question, answer) => {
                self.answer(question, answer, None, How { inbox: None, heard: None, permit: None });
                Ok(())
            }
            // An earlier answer remains.
            AnswerOutcome::Already => Ok(()),
            why @ (AnswerOutcome::Closed | AnswerOutcome::Unknown | AnswerOutcome::Expired) => {
                Err(("not_found", why_not(&why).to_owned()))
            }
            why @ AnswerOutcome::NoSuchOption => Err(("invalid", why_not(&why).to_owned())),
            why => Err(("refused", why_not(&why).to_owned())),
        }
    }
}

fn by(arrived: &Arrived) -> Answerer<'_> {
    let event = arrived.event.get();
    Answerer {
        instance: &arrived.instance,
        chat: Some(&event.chat),
        sender: &event.sender,
        tier: arrived.event.tier(),
        at_ms: event.at_ms,
        quotes: event.reply_to.as_ref().map(|quoted| quoted.message_id.as_str()),
    }
}

/// Builds the reply to an answer in text, once the outcome is known: among several questions it names the answered one
/// and the number of open ones.
fn answered(said: Vec<Follows>, left: usize) -> Deed {
    let is_one = said.len() == 1;
    let mut waiting = Vec::new();
    for one in said {
        match one {
            Follows::Obeyed(deed) => return deed,
            Follows::Not(why) if is_one => return Deed::say(why),
            Follows::Not(why) => waiting.push((None, Err(why))),
            Follows::Taken(question, becomes) => waiting.push((Some(question), Ok(becomes))),
        }
    }
    let words = async move {
        let mut lines = Vec::new();
        for (question, becomes) in waiting {
            let outcome = match becomes {
                Ok(becomes) => becomes.await.unwrap_or_else(|_| approvals::NO_LONGER_OPEN.to_owned()),
                Err(why) => why.to_owned(),
            };
            lines.push(match question {
                Some(question) if is_one && left > 0 => approvals::among(&outcome, &question, left),
                _ => outcome,
            });
        }
        lines.dedup();
        if !is_one && left > 0 {
            lines.push(approvals::left_over(left));
        }
        (lines.join("\n"), Vec::new())
    };
    Act::Later(Later::new(words)).into()
}

/// Returns the name of the sender if several people can answer.
fn named(arrived: &Arrived, question: &Question) -> Option<String> {
    let sender = &arrived.event.get().sender;
    let name = sender.name.as_deref().filter(|name| !name.is_empty()).unwrap_or(&sender.id);
    let plain: String = name.chars().map(|c| if c.is_control() || "`*_[".contains(c) { ' ' } else { c }).collect();
    (!is_dm(&question.chat.kind)).then_some(plain)
}

/// Returns the reply to an answer that is not accepted.
fn why_not(judged: &AnswerOutcome) -> &'static str {
    match judged {
        AnswerOutcome::Accepted(..) => "It was answered.",
        AnswerOutcome::Already => "This question has already been answered.",
        AnswerOutcome::Closed | AnswerOutcome::Unknown | AnswerOutcome::Expired => approvals::NO_LONGER_OPEN,
        AnswerOutcome::NotYours => "Only the person who was asked can answer this; nothing was changed.",
        AnswerOutcome::NeedsAdmin => "Only an admin of this host can approve this; nothing was changed.",
        AnswerOutcome::OnlyOnceOrSession => {
            "Only an admin of this host can approve permanently. You can use `/approve` and `/approve session`."
        }
        AnswerOutcome::NoSuchOption => "This question has no such option; nothing was changed.",
    }
}
