//! Questions that wait for an answer: where they are asked, who answers them with what,
//! and the commands about them.
//!
//! A button, words, a command and a call of an adapter all come to
//! [`Dispatcher::answer`]; what it takes goes to the lane of the session that waits.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use hermes_core::access::{Tier, Trust};
use hermes_core::asks::{Answer, By, Judged, Kind, Pick, Question, Verdict};
use hermes_core::commands::{self, Parsed};
use hermes_core::ids::InboxId;
use hermes_core::limits::{APPROVED_KINDS_MAX, COMMAND_ASKS_MAX, DENIAL_CHARS_MAX, STAFF_CHATS_MAX};
use hermes_core::session::is_dm;
use hermes_core::settings::{Setting, SettingChange};
use hermes_protocol::{Chat, Event, Sender};

use super::{Asked, Deed};
use crate::asking::{self, Over, Stale};
use crate::chance;
use crate::clerk::Note;
use crate::dispatcher::{APPROVED_FLAG, Arrived, Dispatcher, Found, place};
use crate::events::{Asking, Permit};
use crate::lane::{Act, Given, LaneMessage, Order};
use crate::store::Change;

/// What is said where nothing waits.
const NOTHING_WAITS: &str = "Nothing waits for an approval here.";

/// Direct messages of admins, by instance and id: the chat, and when they wrote there last.
pub(crate) type StaffChats = BTreeMap<(Arc<str>, String), (Chat, i64)>;

/// How an answer was given.
struct How {
    /// The event of a button.
    inbox: Option<InboxId>,
    /// Whether it is answered by itself.
    in_words: bool,
    /// Its place in the queue.
    permit: Permit,
}

impl How {
    const IN_WORDS: Self = Self { inbox: None, in_words: true, permit: None };
}

impl Dispatcher {
    /// An admin wrote directly: that is where they can be asked.
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

    /// A turn asks: here, or of an admin in a direct message of theirs.
    pub(crate) fn open_ask(&mut self, asking: Asking) {
        let Asking { mut question, elsewhere, reply } = asking;
        if elsewhere {
            match self.staff_chat(&question.instance) {
                Some((id, chat)) => {
                    question.addressee = Some(id);
                    question.chat = chat;
                }
                // In a group an admin may answer where it came up.
                None if !is_dm(&question.origin.kind) => {}
                None => {
                    // Whoever asked may have gone away.
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

    /// The admin of an instance who wrote last, and where; they have to be one still.
    fn staff_chat(&self, instance: &str) -> Option<(String, Chat)> {
        let live = self.host.live();
        let is_staff = |id: &str, chat: &Chat| {
            let tier = live.access.tier_of(instance, chat, &Sender::new(id), &self.grants, Trust::None);
            tier >= Some(Tier::Admin)
        };
        let known = self.staff.iter().filter(|((of, id), (chat, _))| **of == *instance && is_staff(id, chat));
        let last =
            known.max_by_key(|(_, (_, seen_ms))| *seen_ms).map(|((_, id), (chat, _))| (id.clone(), chat.clone()));
        let conversations = || {
            let dms = self.routes().filter(|route| route.instance == instance && is_dm(&route.origin.kind));
            // On many platforms the chat with a person has the person's id.
            dms.map(|route| &route.origin).find(|chat| is_staff(&chat.id, chat))
        };
        last.or_else(|| conversations().map(|chat| (chat.id.clone(), chat.clone())))
    }

    /// A button was pressed.
    pub(crate) fn pressed(&mut self, arrived: Arrived) {
        let event = arrived.event.get();
        let Some(choice) = event.choice.clone() else {
            return self.note(Note::Drop { id: arrived.id, why: "no choice", permit: arrived.permit });
        };
        let judged = self.judge(&choice.ask, Pick::Option(choice.option), &by(&arrived));
        match judged {
            Judged::Taken(question, answer) if question.command.is_some() => {
                self.command_answered(arrived, *question, &answer);
            }
            Judged::Taken(question, answer) => {
                let name = named(&arrived, &question);
                let how = How { inbox: Some(arrived.id), in_words: false, permit: arrived.permit };
                self.answer(question, answer, name, how);
            }
            Judged::Already => {
                self.note(Note::Drop { id: arrived.id, why: "answered before", permit: arrived.permit });
            }
            Judged::Closed | Judged::Unknown | Judged::Late => self.stale(arrived, choice.ask),
            why => self.tell_why_not(arrived, &choice.ask, &why),
        }
    }

    /// A button of a question that is not open: it goes away, where it is one.
    fn stale(&mut self, arrived: Arrived, ask: String) {
        let Arrived { id, instance, event, permit, .. } = arrived;
        let Event { chat, message_id, sender, .. } = event.into_inner();
        let tells = self.asks.tells(&ask, &sender.id);
        let press = Stale { ask, instance, chat, message: message_id, by: sender.id, tells, inbox: id };
        let host = Arc::clone(&self.host);
        tokio::spawn(async move {
            asking::stale(&host, press).await;
            drop(permit);
        });
    }

    /// Closes a question beside the dispatcher, which waits for nothing.
    fn close_aside(&self, over: Over, permit: Permit) {
        let host = Arc::clone(&self.host);
        tokio::spawn(async move {
            asking::close(&host, over).await;
            drop(permit);
        });
    }

    fn tell_why_not(&mut self, arrived: Arrived, ask: &str, why: &Judged) {
        let Arrived { id, instance, event, permit, .. } = arrived;
        let Event { chat, sender, .. } = event.into_inner();
        if !self.asks.tells(ask, &sender.id) {
            return self.note(Note::Drop { id, why: "not theirs to answer", permit });
        }
        self.note(Note::Tell { id, instance, chat, words: why_not(why).to_owned(), to: sender.id, permit });
    }

    /// Judges an answer: the one way to the book, whoever answers and however.
    fn judge(&mut self, ask: &str, pick: Pick, by: &By<'_>) -> Judged {
        let now_ms = self.host.now_ms();
        self.asks.answer(ask, pick, by, now_ms)
    }

    /// Hands an answer that counts to the lane that waits for it.
    fn answer(&mut self, question: Box<Question>, answer: Answer, by: Option<String>, how: How) {
        let How { inbox, in_words, permit } = how;
        let mut over = Over::of(&question, String::new(), true);
        over.inbox = inbox;
        if answer == Answer::Approved(Verdict::Always)
            && let Some(key) = &question.key
        {
            self.approve_always(key.clone());
        }
        let session = question.session.clone();
        let given = Given { question, answer, by, in_words, over };
        if let Err(LaneMessage::Answer(given, permit)) =
            self.lanes.send(&session, LaneMessage::Answer(Box::new(given), permit))
        {
            // Its lane is gone, and its turn with it.
            let over = Over { outcome: asking::NO_LONGER_OPEN.to_owned(), ..given.over };
            self.close_aside(over, permit);
        }
    }

    fn approve_always(&mut self, key: String) {
        let mut approved: BTreeSet<String> = (**self.host.approved()).clone();
        if approved.len() < APPROVED_KINDS_MAX && approved.insert(key) {
            self.keep_approved(approved);
        }
    }

    /// Changes what is approved for always. The clerk writes it: lanes would write the sets of several answers in an
    /// order of their own, and the last one counts.
    fn keep_approved(&mut self, approved: BTreeSet<String>) {
        let value = serde_json::to_string(&approved).expect("a set of texts is always JSON");
        self.host.show_approved(approved);
        self.note(Note::Changes(vec![Change::Flag { key: APPROVED_FLAG.to_owned(), value: Some(value) }]));
    }

    /// Words that answer a question which was put to who says them.
    pub(crate) fn answered_in_words(&mut self, arrived: &Arrived, found: &Found) -> Option<Box<Order>> {
        let event = arrived.event.get();
        if self.asks.is_empty() || !event.attachments.is_empty() || self.is_command(arrived) {
            return None;
        }
        let (ask, pick) = self.asks.meant_by(&event.text, &by(arrived), self.host.now_ms())?;
        let Deed { act, changes } = self.said(&Asked { arrived, found, args: "" }, &ask, pick);
        let place =
            place(Arc::clone(&arrived.instance), arrived.adapter.clone(), event, found.session.clone(), arrived.id);
        Some(Box::new(Order { place, act, changes, bypasses: true }))
    }

    /// Whether words are a command and answer nothing, also where commands begin with a prefix of the adapter's.
    fn is_command(&self, arrived: &Arrived) -> bool {
        let text = &arrived.event.get().text;
        let prefix = arrived.adapter.as_ref().map(|adapter| adapter.capabilities().command_prefix.clone());
        let parsed = commands::parse(text, prefix.as_deref().unwrap_or_default(), &self.host.live().gates);
        text.trim_start().starts_with('/') || parsed != Parsed::NotCommand
    }

    /// Somebody answers in words: what they hear.
    fn said(&mut self, asked: &Asked<'_>, ask: &str, pick: Pick) -> Deed {
        let judged = self.judge(ask, pick, &by(asked.arrived));
        let (question, answer) = match judged {
            Judged::Taken(question, answer) => (question, answer),
            why => return Deed::say(why_not(&why)),
        };
        if question.command.is_some() {
            return self.confirmed(asked, &question, &answer);
        }
        let words = asking::outcome(&question, &answer);
        let name = named(asked.arrived, &question);
        self.answer(question, answer, name, How::IN_WORDS);
        Deed::say(words)
    }

    /// `/approve [all] [session | always | forget]`: yes to what was asked first, or to all.
    pub(super) fn approve_ask(&mut self, asked: &Asked<'_>) -> Deed {
        let mut verdict = Verdict::Once;
        let mut all = false;
        for word in asked.args.split_whitespace() {
            match (word, Verdict::from_word(word)) {
                ("all", _) => all = true,
                ("forget", _) => return self.forget_approvals(asked),
                (_, Some(named)) => verdict = named,
                _ => {
                    return Deed::say("Use `/approve`, with `session` or `always` for longer, and with `all` for all.");
                }
            }
        }
        self.settle_asks(asked, all, &Pick::Approve(verdict))
    }

    /// `/deny [all] [why]`: no to what was asked first, or to all.
    pub(super) fn deny_ask(&mut self, asked: &Asked<'_>) -> Deed {
        let (all, why) = match asked.args.split_once(char::is_whitespace) {
            _ if asked.args == "all" => (true, ""),
            Some(("all", why)) => (true, why),
            _ => (false, asked.args),
        };
        let why = Some(asking::shown(&self.host, why, DENIAL_CHARS_MAX)).filter(|why| !why.is_empty());
        self.settle_asks(asked, all, &Pick::Deny { why })
    }

    fn settle_asks(&mut self, asked: &Asked<'_>, all: bool, pick: &Pick) -> Deed {
        let asks = self.asks.approvals_for(&by(asked.arrived));
        let mut said = Vec::new();
        for ask in asks.iter().take(if all { asks.len() } else { 1 }) {
            let Deed { act, changes } = self.said(asked, ask, pick.clone());
            match act {
                Act::Say(words) => said.push(words),
                // A command that waited is obeyed now, and answers for itself.
                act => return Deed { act, changes },
            }
        }
        let left = self.asks.approvals_for(&by(asked.arrived)).len();
        said.dedup();
        match (said.is_empty(), left) {
            (true, _) => Deed::say(NOTHING_WAITS),
            (false, 0) => Deed::say(said.join("\n")),
            (false, left) => Deed::say(format!("{}\n{left} more waiting here.", said.join("\n"))),
        }
    }

    fn forget_approvals(&mut self, asked: &Asked<'_>) -> Deed {
        if asked.arrived.event.tier() >= Tier::Admin {
            self.keep_approved(BTreeSet::new());
        }
        Act::Set(SettingChange::ForgetApproved).into()
    }

    /// `/yolo [on | off | status]`: whether the agent asks here before it acts.
    pub(super) fn yolo(&mut self, asked: &Asked<'_>) -> Deed {
        match asked.args {
            "" => Act::ToggleYolo.into(),
            "on" => Act::Set(SettingChange::Yolo(Some(true))).into(),
            "off" => Act::Set(SettingChange::Yolo(None)).into(),
            "status" => Act::Show(Setting::Yolo).into(),
            _ => Deed::say("Use `/yolo`, `/yolo on`, `/yolo off` or `/yolo status`."),
        }
    }

    /// Asks before a command is obeyed.
    pub(super) fn confirm(&mut self, asked: &Asked<'_>, words: &str) -> Deed {
        let Asked { arrived, found, args } = asked;
        let event = arrived.event.get();
        if let Some(earlier) = self.asks.close_command(&found.session) {
            self.close_aside(Over::of(&earlier, asking::NO_LONGER_OPEN.to_owned(), false), None);
        }
        if self.asks.commands() >= COMMAND_ASKS_MAX {
            return Deed::say("Too many questions wait for an answer at the moment; try it again in a few minutes.");
        }
        let wait = self.host.live().session_of(&arrived.instance).approval_timeout;
        let question = Question {
            id: format!("{:016x}", chance::number(&*self.host.chance)),
            session: found.session.clone(),
            instance: arrived.instance.to_string(),
            chat: event.chat.clone(),
            origin: event.chat.clone(),
            requester: event.sender.clone(),
            addressee: None,
            needs: Tier::User,
            kind: Kind::Approval,
            options: asking::confirm_options(),
            expires_at_ms: self.host.now_ms().saturating_add(i64::try_from(wait.as_millis()).unwrap_or(i64::MAX)),
            key: None,
            command: Some((*args).to_owned()),
        };
        self.asks.open(question.clone());
        Act::Ask { question: Box::new(question), words: words.to_owned() }.into()
    }

    /// A command that waited for its button is obeyed, or not.
    fn command_answered(&mut self, arrived: Arrived, question: Question, answer: &Answer) {
        let Some((arrived, found)) = self.resolve(arrived) else { return };
        let after = self.ending_before(&found);
        let asked = Asked { arrived: &arrived, found: &found, args: "" };
        let Deed { act, changes } = self.confirmed(&asked, &question, answer);
        let (instance, adapter) = (Arc::clone(&arrived.instance), arrived.adapter.clone());
        let place = place(instance, adapter, arrived.event.get(), found.session.clone(), arrived.id);
        let order = Box::new(Order { place, act, changes, bypasses: true });
        self.obeyed(arrived, found, after, order);
    }

    /// What a command does that was asked about. It belongs to the conversation it was given in.
    fn confirmed(&mut self, asked: &Asked<'_>, question: &Question, answer: &Answer) -> Deed {
        let is_same = asked.found.session == question.session;
        let deed = match answer.approves() && is_same {
            true => self.new_session_now(&Asked { args: question.command.as_deref().unwrap_or_default(), ..*asked }),
            false if is_same => Deed::say("Nothing was changed; this conversation goes on."),
            false => Deed::say("This chat goes on in another conversation by now; nothing was changed."),
        };
        let outcome = if answer.approves() && is_same { "Yes." } else { "No." };
        self.close_aside(Over::of(question, outcome.to_owned(), false), None);
        deed
    }

    /// Closes what commands asked in vain.
    pub(crate) fn expire_asks(&mut self) {
        for question in self.asks.expire_commands(self.host.now_ms()) {
            let outcome = "Nobody answered in time, so nothing was changed.".to_owned();
            self.close_aside(Over::of(&question, outcome, true), None);
        }
    }

    /// An adapter answers for somebody whom it vouches for.
    pub(crate) fn answered_by_call(
        &mut self,
        instance: &str,
        ask: &str,
        option: String,
        sender: &Sender,
        tier: Tier,
    ) -> Result<(), (&'static str, String)> {
        if self.asks.get(ask).is_some_and(|question| question.command.is_some()) {
            return Err(("refused", "this question is answered where it was asked".to_owned()));
        }
        match self.judge(ask, Pick::Option(option), &By { instance, chat: None, sender, tier }) {
            Judged::Taken(question, answer) => {
                let how = How { in_words: false, ..How::IN_WORDS };
                self.answer(question, answer, None, how);
                Ok(())
            }
            // What was answered stays answered.
            Judged::Already => Ok(()),
            why @ (Judged::Closed | Judged::Unknown | Judged::Late) => Err(("not_found", why_not(&why).to_owned())),
            why @ Judged::NoSuchOption => Err(("invalid", why_not(&why).to_owned())),
            why => Err(("refused", why_not(&why).to_owned())),
        }
    }
}

fn by(arrived: &Arrived) -> By<'_> {
    let event = arrived.event.get();
    By { instance: &arrived.instance, chat: Some(&event.chat), sender: &event.sender, tier: arrived.event.tier() }
}

/// Who answered, where more than one person can.
fn named(arrived: &Arrived, question: &Question) -> Option<String> {
    let sender = &arrived.event.get().sender;
    let name = sender.name.as_deref().filter(|name| !name.is_empty()).unwrap_or(&sender.id);
    let plain: String = name.chars().map(|c| if c.is_control() || "`*_[".contains(c) { ' ' } else { c }).collect();
    (!is_dm(&question.chat.kind)).then_some(plain)
}

/// What somebody hears whose answer is not taken.
fn why_not(judged: &Judged) -> &'static str {
    match judged {
        Judged::Taken(..) => "It was answered.",
        Judged::Already => "This question was answered before.",
        Judged::Closed | Judged::Unknown | Judged::Late => asking::NO_LONGER_OPEN,
        Judged::NotYours => "This question is somebody else's to answer; nothing was changed.",
        Judged::NeedsAdmin => "Only an admin of this host may approve this; nothing was changed.",
        Judged::OnlyOnceOrSession => {
            "Only an admin of this host approves something for always. `/approve` and `/approve session` are yours."
        }
        Judged::NoSuchOption => "This question has no such option; nothing was changed.",
    }
}
