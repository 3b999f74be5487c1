//! Questions of the running turn: whether one is necessary, who may answer it, and what follows from its end.
//!
//! The lane holds the channel to the turn; the dispatcher holds the list of open questions and judges answers. A
//! question ends exactly once: by an answer, by its timeout, when the turn no longer waits, or with the turn.

use std::task::Poll;

use hermes_agent::questions::{ApprovalRequest, PendingQuestion, TurnQuestion};
use hermes_core::access::{Tier, Trust};
use hermes_core::approvals::{Answer, Question, QuestionKind, Verdict, approval_key, is_granted};
use hermes_core::limits::{
    APPROVAL_KIND_BYTES_MAX, ASK_OPTIONS_MAX, ASK_TEXT_CHARS_MAX, ASKS_PER_TURN_MAX, DENIAL_CHARS_MAX,
};
use hermes_core::settings::SettingChange;
use hermes_protocol::{Chat, Sender};
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::engine::approvals;
use crate::engine::approvals::Over as OverQuestion;
use crate::engine::background::tasks;
use crate::engine::messages::{Asking, Control, HostEvent, TurnNews};
use crate::engine::runtime::Host;
use crate::engine::session::turn::Running;
use crate::engine::session::{Lane, turn};
use crate::engine::timer::Timer;
use hermes_store::Change;
use hermes_system::rng;

/// The error for a turn in a chat where nobody can be asked.
const NOBODY_HERE: &str = "this interface cannot ask the user";

/// The error for a turn that the host runs by itself: only its end is reported.
const ALONE: &str = "this task runs unattended; there is no user to ask";

/// The error for an action that needs an admin when no admin is known.
const NO_ADMIN: &str = "only an admin can approve this, and no admin has written to me here yet";

/// The error for an approval without a readable action.
const NO_ACTION: &str = "an approval request needs a description of the action";

/// The error for a choice without options.
const NO_OPTIONS: &str = "a question needs at least one option";

/// The open questions of one turn.
#[derive(Debug, Default)]
pub struct Asks {
    open: Vec<Open>,
}

/// An open question.
#[derive(Debug)]
pub struct Open {
    question: Question,
    until: Instant,
    /// The channel of the answer; `None` once it was given.
    reply: Option<oneshot::Sender<Answer>>,
}

/// The end of a question without an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Over {
    /// Its turn no longer waits.
    TakenBack,
    /// Its timeout has passed.
    Unanswered,
    /// The host did not ask it, for this reason.
    NotAsked(String),
}

/// A judged answer on its way to the waiting turn.
#[derive(Debug)]
pub struct Given {
    /// The question.
    pub question: Box<Question>,
    /// The answer.
    pub answer: Answer,
    /// The name of the sender who answered, if it is shown.
    pub by: Option<String>,
    /// An additional sentence for the outcome.
    pub besides: Option<&'static str>,
    /// Receives the outcome if the answer was a command or text, which has its own reply.
    pub heard: Option<oneshot::Sender<String>>,
    /// The changes to write with the end of the question.
    pub over: OverQuestion,
}

impl Asks {
    /// Returns whether further questions of the turn have to wait.
    pub fn is_full(&self) -> bool {
        self.open.len() >= ASKS_PER_TURN_MAX
    }

    /// Returns whether the turn has no open question.
    pub fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// Waits for the next question that ends without an answer; forever if none is open. Cancel-safe.
    pub async fn over(&mut self, clock: &dyn Timer) -> (String, Over) {
        let next = self.open.iter().min_by_key(|open| open.until);
        let next = next.map(|open| (open.question.id.clone(), open.until));
        let taken_back = std::future::poll_fn(|cx| {
            let gone = self.open.iter_mut().find_map(|open| {
                let reply = open.reply.as_mut()?;
                reply.poll_closed(cx).is_ready().then(|| open.question.id.clone())
            });
            gone.map_or(Poll::Pending, Poll::Ready)
        });
        tokio::select! {
            id = taken_back => (id, Over::TakenBack),
            () = turn::at(clock, next.as_ref().map(|(_, until)| *until)) => {
                (next.map(|(id, _)| id).unwrap_or_default(), Over::Unanswered)
            }
        }
    }

    /// Reports to the turn that its questions get no answer; they remain to be closed.
    pub fn give_up(&mut self) {
        for open in &mut self.open {
            open.answer(Answer::Gone);
        }
    }

    fn take(&mut self, id: &str) -> Option<Open> {
        let at = self.open.iter().position(|open| open.question.id == id)?;
        Some(self.open.swap_remove(at))
    }

    /// Takes all open questions.
    pub fn take_all(&mut self) -> Vec<Open> {
        std::mem::take(&mut self.open)
    }
}

impl Open {
    fn answer(&mut self, answer: Answer) {
        if let Some(reply) = self.reply.take() {
            // A turn that no longer waits has ended, or will end soon.
            let _ = reply.send(answer);
        }
    }
}

impl Lane {
    /// Handles a question of the turn: grants it, refuses it, or asks it.
    pub(super) async fn ask(&mut self, asked: PendingQuestion) {
        let PendingQuestion { question: ask, reply } = asked;
        let Some(running) = &self.running else { return };
        let (place, several) = (running.heard.place.clone(), running.heard.several);
        let (is_run, (requester, tier)) = (tasks::runs(&running.heard), self.requester(running));
        let answer = match &ask {
            _ if let Some(why) = cannot_be_asked(&self.host, &ask) => Some(Answer::Denied { why: Some(why) }),
            TurnQuestion::Approval(approval) => self.without_asking(approval, tier).await,
            TurnQuestion::Choice { .. } => None,
        };
        let nobody = match (place.can_deliver_later(), is_run) {
            (false, _) => Some(NOBODY_HERE),
            (true, true) => Some(ALONE),
            (true, false) => None,
        };
        let denied = nobody.map(|why| Answer::Denied { why: Some(why.to_owned()) });
        if let Some(answer) = answer.or(denied) {
            // A turn that no longer waits needs no answer.
            let _ = reply.send(answer);
            return;
        }
        let wait = self.host.live().session_of(&place.instance).approval_timeout;
        let wait_ms = i64::try_from(wait.as_millis()).unwrap_or(i64::MAX);
        let question = Question {
            id: format!("{:016x}", rng::number(&*self.host.chance)),
            session: self.session.clone(),
            instance: place.instance.to_string(),
            chat: place.chat.clone(),
            origin: place.chat.clone(),
            requester,
            addressee: None,
            needs: needs(&ask),
            kind: kind(&ask),
            about: approvals::about(&self.host, headline(&ask)),
            options: self.options(&ask, tier),
            expires_at_ms: self.host.now_ms().saturating_add(wait_ms),
            key: key(&ask),
            command: None,
        };
        let Some(question) = self.register(question, tier).await else {
            let _ = reply.send(Answer::Denied { why: Some(NO_ADMIN.to_owned()) });
            return;
        };
        let body = self.body(&ask, &question, several);
        if let Some(running) = &mut self.running {
            running
                .waits_for_people(&approvals::shown(&self.host, headline(&ask), ASK_TEXT_CHARS_MAX).replace('\n', " "));
            let until = self.host.clock.moment() + wait;
            running.asks.open.push(Open { question: question.clone(), until, reply: Some(reply) });
            running.show(&self.host).await;
        }
        if question.addressee.is_some() {
            let words = "This needs the approval of an admin; I have asked one.".to_owned();
            let notice = place.tell(&self.host, words).await;
            self.owe(notice).await;
        }
        let posed = approvals::pose(&self.host, &question, &body).await;
        self.owe(posed).await;
    }

    /// Returns the answer of a question that needs no person.
    async fn without_asking(&mut self, approval: &ApprovalRequest, tier: Tier) -> Option<Answer> {
        let settings = self.memory.settings(&self.host, &self.session).await.unwrap_or_default();
        let is_dangerous = approval.danger.is_some();
        let key = approval_key(&approval.kind, is_dangerous);
        let always = key.as_ref().is_some_and(|key| self.host.approved().contains(key));
        let here = key.as_ref().is_some_and(|key| settings.approved.contains(key));
        let yolo = settings.yolo.unwrap_or_default();
        let granted = is_granted(always || here, yolo, is_dangerous, tier);
        granted.then_some(Answer::Approved(if always { Verdict::Always } else { Verdict::Session }))
    }

    /// Returns the person for whom a turn asks, with the tier: the sender with the least rights among those whose
    /// messages it answers, and the last of several. A later message of a sender with more rights does not raise the
    /// rights of the turn.
    fn requester(&self, running: &Running) -> (Sender, Tier) {
        let all = running.said_by.iter().rev();
        let all = all.map(|spoken| (&spoken.sender, self.tier_of(&spoken.instance, &spoken.chat, &spoken.sender)));
        let least = all.min_by_key(|(_, tier)| *tier);
        least.map_or_else(
            || {
                let (event, instance) = (running.heard.event.get(), &running.heard.place.instance);
                (event.sender.clone(), self.tier_of(instance, &event.chat, &event.sender))
            },
            |(sender, tier)| (sender.clone(), tier),
        )
    }

    /// Returns the current tier of a sender; the tier at the start of the turn does not count.
    pub(super) fn tier_of(&self, instance: &str, chat: &Chat, sender: &Sender) -> Tier {
        let adapter = self.host.adapter(instance);
        let trust =
            adapter.as_ref().map_or(Trust::None, |adapter| Trust::of(adapter.trusted(), &adapter.capabilities()));
        let tier = self.host.live().access.tier_of(instance, chat, sender, &self.host.grants(), trust);
        tier.unwrap_or(Tier::User)
    }

    fn options(&self, ask: &TurnQuestion, tier: Tier) -> Vec<hermes_protocol::ChoiceOption> {
        match ask {
            // A dangerous action is always put to an admin.
            TurnQuestion::Approval(approval) => {
                approvals::approval_options(key(ask).is_some(), tier >= Tier::Admin || approval.danger.is_some())
            }
            TurnQuestion::Choice { options, .. } => approvals::choice_options(&self.host, options),
        }
    }

    /// Asks the dispatcher to open the question, in this chat or in that of an admin. `None`: nobody can be asked.
    async fn register(&self, question: Question, requester: Tier) -> Option<Question> {
        let (reply, opened) = oneshot::channel();
        let elsewhere = requester < question.needs;
        self.host.tell(HostEvent::control(Control::Ask(Box::new(Asking { question, elsewhere, reply })))).await;
        // Without the dispatcher the host ends, and nobody is asked.
        opened.await.unwrap_or_default()
    }

    fn body(&self, ask: &TurnQuestion, question: &Question, several: bool) -> String {
        let host = &self.host;
        let approval = match ask {
            TurnQuestion::Choice { question, .. } => return approvals::shown(host, question, ASK_TEXT_CHARS_MAX),
            TurnQuestion::Approval(approval) => approval,
        };
        let name = question.requester.name.as_deref().filter(|name| !name.is_empty()).unwrap_or(&question.requester.id);
        let name = approvals::shown(host, name, 60).replace(['\n', '`', '*'], " ");
        let head = match (question.addressee.is_some(), several) {
            (true, _) => format!("**{name}** requests an action that needs your approval:"),
            (false, true) => format!("**May I do this for {name}?**"),
            (false, false) => "**May I do this?**".to_owned(),
        };
        // One line, so that nothing in it looks like a text of the host.
        let why = approvals::shown(host, &approval.why, ASK_TEXT_CHARS_MAX / 3);
        let why = why.split_whitespace().collect::<Vec<_>>().join(" ");
        let why = if why.is_empty() { why } else { format!("The agent says: {why}") };
        let danger = approval.danger.as_deref().map(|what| {
            let what = approvals::shown(host, what, ASK_TEXT_CHARS_MAX / 3).replace('\n', " ");
            let who = if several || question.addressee.is_some() { " Requires admin approval." } else { "" };
            format!("Potentially dangerous: {what}.{who}")
        });
        // The danger stands before a command that may be long enough to hide it.
        let texts = [Some(head), danger, Some(approvals::fenced(host, &approval.action)), Some(why)];
        texts.into_iter().flatten().filter(|text| !text.is_empty()).collect::<Vec<_>>().join("\n\n")
    }

    /// Gives an answer to the turn, which continues, and closes the question.
    pub(super) async fn answered(&mut self, given: Given) {
        let Given { question, answer, by, besides, heard, mut over } = given;
        // Text and commands have their own reply.
        over.says = heard.is_none();
        let open = self.running.as_mut().and_then(|running| running.asks.take(&question.id));
        let Some(mut open) = open else {
            over.outcome = approvals::NO_LONGER_OPEN.to_owned();
            tell(heard, &over.outcome);
            return approvals::close(&self.host, over).await;
        };
        let (answer, besides) = match self.keep(&question, &answer).await {
            Some(changes) => {
                over.changes.extend(changes);
                (answer, besides)
            }
            None => (Answer::Approved(Verdict::Once), Some(approvals::NOT_FOR_LONGER)),
        };
        over.outcome = approvals::outcome(&question, &answer);
        if let Some(by) = by {
            over.outcome = format!("{} ({by})", over.outcome);
        }
        if let Some(besides) = besides {
            over.outcome = format!("{} {besides}", over.outcome);
        }
        let told = question.addressee.is_some().then(|| match answer.approves() {
            true => "An admin approved your request.",
            false => "Your request was not approved.",
        });
        open.answer(answer);
        if let Some(running) = &mut self.running {
            running.goes_on();
        }
        tell(heard, &over.outcome);
        approvals::close(&self.host, over).await;
        self.tell_origin(told).await;
    }

    /// Remembers an approval for this conversation; returns the changes to write. `None`: the list is full.
    async fn keep(&mut self, question: &Question, answer: &Answer) -> Option<Vec<Change>> {
        let Some(key) = question.key.clone().filter(|_| *answer == Answer::Approved(Verdict::Session)) else {
            return Some(Vec::new());
        };
        let mut settings = self.memory.settings(&self.host, &self.session).await?;
        settings.apply(SettingChange::Approve(key.clone()));
        if !settings.approved.contains(&key) {
            return None;
        }
        self.memory.choose(settings.clone());
        Some(vec![Change::Settings { session: self.session.clone(), settings }])
    }

    /// Ends a question without an answer.
    pub(super) async fn not_answered(&mut self, id: &str, how: Over) {
        let Some(mut open) = self.running.as_mut().and_then(|running| running.asks.take(id)) else { return };
        let (given, became, told) = match &how {
            Over::TakenBack => (Answer::Unanswered, Answer::Gone, None),
            Over::Unanswered => {
                (Answer::Unanswered, Answer::Unanswered, Some("No admin answered in time, so your request was denied."))
            }
            Over::NotAsked(why) => {
                let why = format!("the question could not be sent: {why}");
                let why = Some(approvals::shown(&self.host, &why, DENIAL_CHARS_MAX));
                (Answer::Denied { why }, Answer::Gone, Some("No admin could be asked, so your request was denied."))
            }
        };
        open.answer(given);
        if let Some(running) = &mut self.running {
            running.goes_on();
        }
        let elsewhere = open.question.addressee.is_some();
        self.close_ask(&open, &became, how == Over::Unanswered).await;
        self.tell_origin(told.filter(|_| elsewhere)).await;
    }

    async fn tell_origin(&mut self, words: Option<&str>) {
        if let Some(words) = words
            && let Some(running) = &self.running
        {
            let notice = running.heard.place.tell(&self.host, words.to_owned()).await;
            self.owe(notice).await;
        }
    }

    /// Closes the open questions of a turn that has ended.
    pub(super) async fn close_asks(&self, open: Vec<Open>) {
        for mut open in open {
            open.answer(Answer::Gone);
            self.close_ask(&open, &Answer::Gone, false).await;
        }
    }

    async fn close_ask(&self, open: &Open, answer: &Answer, says: bool) {
        self.host.tell(HostEvent::Turn(TurnNews::AskOver { ask: open.question.id.clone() })).await;
        let outcome = approvals::outcome(&open.question, answer);
        approvals::close(&self.host, OverQuestion::of(&open.question, outcome, says)).await;
    }
}

/// Reports the outcome to the sender of an answer in text.
fn tell(heard: Option<oneshot::Sender<String>>, outcome: &str) {
    if let Some(heard) = heard {
        // The receiver may have stopped waiting.
        let _ = heard.send(outcome.to_owned());
    }
}

/// Returns the reason for which this cannot be asked. The turn gets the reason; the host does not ask for less than it
/// requested.
fn cannot_be_asked(host: &Host, ask: &TurnQuestion) -> Option<String> {
    let is_empty = |text: &str| approvals::shown(host, text, 1).is_empty();
    match ask {
        TurnQuestion::Approval(approval) => is_empty(&approval.action).then(|| NO_ACTION.to_owned()),
        TurnQuestion::Choice { options, .. } if options.is_empty() => Some(NO_OPTIONS.to_owned()),
        TurnQuestion::Choice { options, .. } if options.len() > ASK_OPTIONS_MAX => Some(format!(
            "a question may have at most {ASK_OPTIONS_MAX} options, but this one has {}; use fewer options",
            options.len()
        )),
        TurnQuestion::Choice { options, .. } => {
            let empty = options.iter().position(|option| is_empty(option))?;
            Some(format!("option {} of the question is empty; give every option a text", empty + 1))
        }
    }
}

/// Returns the tier that an answer needs.
fn needs(ask: &TurnQuestion) -> Tier {
    match ask {
        TurnQuestion::Approval(approval) if approval.danger.is_some() => Tier::Admin,
        _ => Tier::User,
    }
}

fn kind(ask: &TurnQuestion) -> QuestionKind {
    match ask {
        TurnQuestion::Approval(_) => QuestionKind::Approval,
        TurnQuestion::Choice { free, .. } => QuestionKind::Choice { free: *free },
    }
}

fn key(ask: &TurnQuestion) -> Option<String> {
    match ask {
        TurnQuestion::Approval(approval) if approval.kind.len() <= APPROVAL_KIND_BYTES_MAX => {
            approval_key(&approval.kind, approval.danger.is_some())
        }
        _ => None,
    }
}

/// Returns the subject of a question in one line.
fn headline(ask: &TurnQuestion) -> &str {
    match ask {
        TurnQuestion::Approval(approval) => &approval.action,
        TurnQuestion::Choice { question, .. } => question,
    }
}
