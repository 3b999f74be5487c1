//! Questions to people while a turn waits: who may answer them, with which words, and
//! until when.
//!
//! Every way of answering (a button, words, a command, a call of an adapter) ends in
//! [`Book::answer`]. A question is bound to who asked for it, to the chat it stands in
//! and to its id, which nobody can guess; it is answered once, or not at all.
//!
//! A button and a call name their question, and count as soon as it is open. Words and
//! bare commands name none: they mean the newest question that was there when they were
//! said. It was there once its delivery has a receipt ([`Book::is_there`]), and they were
//! said after that when they come after the receipt and their platform's time, where it
//! tells one, is not before the receipt's. What was said earlier answered something else.
//!
//! A short text of the person who is asked that is no answer may have been meant as one:
//! it is answered with the options, once for each question ([`Book::nearly`]), and does
//! nothing else. Whatever is longer, or comes after that, is a message like any other.
//!
//! Who says yes or no once more just after an approval that they answered means that
//! one still: it says nothing new to the agent, and would end what was approved
//! ([`Book::is_said_again`]).
//!
//! What follows from an answer is with whoever asked; a question that nobody answers
//! is denied by them.

mod words;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use hermes_protocol::{Chat, ChoiceOption, Receipt, Sender};

use crate::access::Tier;
use crate::ids::SessionId;
use crate::limits::{
    ASK_CLOCK_SLACK_MS, ASK_ECHO_MS, ASK_NEAR_CHARS_MAX, ASK_PRESSES_HEEDED_MAX, ASK_TOLD_MAX, ASKS_REMEMBERED_MAX,
    NOTICE_INTERVAL_MS,
};
use crate::session::is_dm;

pub use words::read;

#[cfg(test)]
mod tests;

/// For how long something is approved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// This once.
    Once,
    /// Whatever is of its kind in this conversation.
    Session,
    /// Whatever is of its kind, from here on and everywhere. An admin's to say.
    Always,
}

impl Verdict {
    /// The stable word, which is the id of its button too.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Once => "once",
            Self::Session => "session",
            Self::Always => "always",
        }
    }

    /// The value of a word.
    pub fn from_word(word: &str) -> Option<Self> {
        [Self::Once, Self::Session, Self::Always].into_iter().find(|verdict| verdict.as_str() == word)
    }
}

/// What became of a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It may be done.
    Approved(Verdict),
    /// It must not be done.
    Denied {
        /// Why, in somebody's words.
        why: Option<String>,
    },
    /// This option was chosen, counted from 0.
    Chosen(usize),
    /// None of the options; this was said instead.
    Said(String),
    /// Nobody answered in time. An approval is denied then.
    Unanswered,
    /// The turn or the host ended before anybody answered.
    Gone,
}

impl Answer {
    /// Whether something that was asked for may be done.
    pub fn approves(&self) -> bool {
        matches!(self, Self::Approved(_))
    }
}

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Whether something may be done.
    Approval,
    /// Which of several options.
    Choice {
        /// Whether other words than the options count as an answer.
        free: bool,
    },
}

/// The id of the button that denies.
pub const DENY: &str = "deny";

/// A question that waits for its answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Question {
    /// Names it: chance, at most 16 characters.
    pub id: String,
    /// The session whose turn waits.
    pub session: SessionId,
    /// The instance through which it is asked.
    pub instance: String,
    /// Where it stands.
    pub chat: Chat,
    /// Where its turn was asked for; the same, unless somebody else is asked.
    pub origin: Chat,
    /// For whom it is asked.
    pub requester: Sender,
    /// Who is asked instead of the requester, by their id.
    pub addressee: Option<String>,
    /// What somebody must be to answer it; the requester may always deny.
    pub needs: Tier,
    /// What is asked.
    pub kind: Kind,
    /// What it is about, in one short line: what it is called among several.
    pub about: String,
    /// The options, in order; of a choice with the ids `1`, `2`, …
    pub options: Vec<ChoiceOption>,
    /// Until when an answer counts, in milliseconds since the Unix epoch.
    pub expires_at_ms: i64,
    /// What an approval for longer is remembered by.
    pub key: Option<String>,
    /// What stands behind the command that waits for it, where no turn does.
    pub command: Option<String>,
}

/// What somebody picks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pick {
    /// The option of this id.
    Option(String),
    /// Words of their own.
    Words(String),
    /// Approval.
    Approve(Verdict),
    /// Denial, and why.
    Deny {
        /// Why.
        why: Option<String>,
    },
}

/// Who answers.
#[derive(Clone, Copy, Debug)]
pub struct By<'a> {
    /// Through which instance.
    pub instance: &'a str,
    /// In which chat; `None` where the instance itself vouches for the sender without one.
    pub chat: Option<&'a Chat>,
    /// Who.
    pub sender: &'a Sender,
    /// What they may do.
    pub tier: Tier,
    /// When, in milliseconds since the Unix epoch by the platform's clock; 0: nobody knows.
    pub at_ms: i64,
    /// The message that they quote, by its id on the platform.
    pub quotes: Option<&'a str>,
}

/// What follows from somebody's answer.
#[derive(Clone, Debug, PartialEq)]
pub enum Judged {
    /// It is the answer; the question is not open any more.
    Taken(Box<Question>, Answer),
    /// The question had its answer before. Nothing changes.
    Already,
    /// The question was closed without an answer. Nothing changes.
    Closed,
    /// Nothing is known of the question: it is of an earlier life of the host, or of none.
    Unknown,
    /// Its time is over. Nothing changes.
    Late,
    /// It is somebody else's, or stands elsewhere.
    NotYours,
    /// Only an admin answers it.
    NeedsAdmin,
    /// Only an admin approves something for always.
    OnlyOnceOrSession,
    /// It has no such option.
    NoSuchOption,
}

/// All questions that are open, and what is remembered of those that were.
#[derive(Debug, Default)]
pub struct Book {
    /// By the order in which they were asked.
    open: BTreeMap<u64, Open>,
    asked: u64,
    /// Ids of questions that are over, the newest last, and whether they had an answer.
    over: VecDeque<(String, bool)>,
    /// Approvals that were answered of late, the newest last, and when.
    answered: VecDeque<(Question, i64)>,
    /// Who was told of which question that is not open, the newest last.
    told: VecDeque<(String, String)>,
    /// Since when presses that count for nothing are counted in a chat, and how many there were.
    presses: BTreeMap<(String, String), (i64, u32)>,
}

#[derive(Debug)]
struct Open {
    question: Question,
    /// What proves that its chat sees it.
    there: Option<Receipt>,
    /// Whether its options were told once more.
    told_again: bool,
    /// Who was told already that it is not theirs.
    told: BTreeSet<String>,
}

impl Book {
    /// Opens a question.
    pub fn open(&mut self, question: Question) {
        self.asked += 1;
        self.open.insert(self.asked, Open { question, there: None, told_again: false, told: BTreeSet::new() });
    }

    /// A question has its receipt: from here on words may answer it, in the chat that it arrived in.
    pub fn is_there(&mut self, id: &str, chat: Chat, receipt: Receipt) {
        if let Some(open) = self.number(id).and_then(|number| self.open.get_mut(&number)) {
            open.question.chat = chat;
            open.there = Some(receipt);
        }
    }

    /// A chat continues under another id: what stands there, or came up there, follows.
    pub fn follow(&mut self, instance: &str, from: &Chat, to: &Chat) {
        for open in self.open.values_mut().filter(|open| open.question.instance == instance) {
            for chat in [&mut open.question.chat, &mut open.question.origin] {
                if chat.id == from.id && chat.kind == from.kind {
                    chat.id.clone_from(&to.id);
                    chat.kind.clone_from(&to.kind);
                }
            }
        }
    }

    /// Closes a question that nobody answered.
    pub fn close(&mut self, id: &str) {
        if let Some(number) = self.number(id) {
            self.open.remove(&number);
            self.remember(id, false);
        }
    }

    /// Judges an answer, and closes the question if that is it. The one place where a question is answered.
    pub fn answer(&mut self, id: &str, pick: Pick, by: &By<'_>, now_ms: i64) -> Judged {
        let Some(number) = self.number(id) else {
            return match self.over.iter().find(|(over, _)| over == id) {
                Some((_, true)) => Judged::Already,
                Some((_, false)) => Judged::Closed,
                None => Judged::Unknown,
            };
        };
        let question = &self.open[&number].question;
        let answer = match question.judge(pick, by, now_ms) {
            Ok(answer) => answer,
            Err(judged) => return judged,
        };
        let Some(open) = self.open.remove(&number) else { return Judged::Unknown };
        self.remember(id, true);
        if open.question.kind == Kind::Approval {
            self.answered.retain(|(_, at_ms)| is_of_late(*at_ms, now_ms));
            if self.answered.len() >= ASKS_REMEMBERED_MAX {
                self.answered.pop_front();
            }
            self.answered.push_back((open.question.clone(), now_ms));
        }
        Judged::Taken(Box::new(open.question), answer)
    }

    /// Whether somebody is to be told that a question is not theirs, or not open: once each.
    pub fn tells(&mut self, id: &str, who: &str) -> bool {
        if let Some(open) = self.number(id).and_then(|number| self.open.get_mut(&number)) {
            return open.told.len() < ASK_TOLD_MAX && open.told.insert(who.to_owned());
        }
        if self.told.iter().any(|(ask, told)| ask == id && told == who) {
            return false;
        }
        if self.told.len() >= ASKS_REMEMBERED_MAX {
            self.told.pop_front();
        }
        self.told.push_back((id.to_owned(), who.to_owned()));
        true
    }

    /// Whether anything is said about a press in this chat that counts for nothing: so often in a minute, whatever
    /// question it names.
    pub fn heeds(&mut self, instance: &str, chat: &str, now_ms: i64) -> bool {
        let key = (instance.to_owned(), chat.to_owned());
        if self.presses.len() >= ASKS_REMEMBERED_MAX && !self.presses.contains_key(&key) {
            let oldest = self.presses.iter().min_by_key(|(_, (since_ms, _))| *since_ms).map(|(key, _)| key.clone());
            if let Some(oldest) = oldest {
                self.presses.remove(&oldest);
            }
        }
        let (since_ms, count) = self.presses.entry(key).or_insert((now_ms, 0));
        if !(0..NOTICE_INTERVAL_MS).contains(&now_ms.saturating_sub(*since_ms)) {
            (*since_ms, *count) = (now_ms, 0);
        }
        *count = count.saturating_add(1);
        *count <= ASK_PRESSES_HEEDED_MAX
    }

    /// The question that these words answer: the newest one in this chat that was put to who says them and was there
    /// by then. What an admin is asked for somebody else stands among words of their own, and takes a button or a
    /// command.
    pub fn meant_by(&self, text: &str, by: &By<'_>, now_ms: i64) -> Option<(String, Pick)> {
        let own = self.put_to(by, now_ms).map(|open| &open.question);
        own.filter_map(|question| Some((question.id.clone(), read(question, text)?))).next_back()
    }

    /// The question to which this text may have been meant as an answer, although it is none: a short one of who is
    /// asked, in a direct message or quoting the question. Only the newest question, and once.
    pub fn nearly(&mut self, text: &str, by: &By<'_>, now_ms: i64) -> Option<Question> {
        let text = text.trim();
        if text.chars().count() > ASK_NEAR_CHARS_MAX || text.lines().count() != 1 {
            return None;
        }
        let id = self.put_to(by, now_ms).next_back()?.question.id.clone();
        let open = self.open.get_mut(&self.number(&id)?)?;
        let is_quoted = by
            .quotes
            .is_some_and(|message| open.there.iter().any(|there| there.message_ids.iter().any(|one| one == message)));
        let is_meant = is_quoted || by.chat.is_some_and(|chat| is_dm(&chat.kind));
        if !is_meant || open.told_again {
            return None;
        }
        open.told_again = true;
        Some(open.question.clone())
    }

    /// Whether these words would answer an approval that who says them answered here just now.
    pub fn is_said_again(&self, text: &str, by: &By<'_>, now_ms: i64) -> bool {
        self.answered.iter().any(|(question, at_ms)| {
            let is_own = question.addressee.is_none() && question.is_put_to(by.sender);
            is_of_late(*at_ms, now_ms) && is_own && question.stands_in(by) && read(question, text).is_some()
        })
    }

    /// What was put to who says something, in this chat, and was there by then; the newest last.
    fn put_to(&self, by: &By<'_>, now_ms: i64) -> impl DoubleEndedIterator<Item = &Open> {
        self.open.values().filter(move |open| {
            let question = &open.question;
            let is_own = question.addressee.is_none() && question.is_put_to(by.sender);
            question.expires_at_ms > now_ms && question.stands_in(by) && is_own && open.is_there_for(by)
        })
    }

    /// The approvals that `/approve` and `/deny` are about in this chat, the one they mean first: the newest that was
    /// put to who says it, which is the one that a bare word answers, before what others are asked. Only what was
    /// there by then.
    pub fn approvals_for(&self, by: &By<'_>) -> Vec<String> {
        let here = || self.approvals(by).filter(|open| open.is_there_for(by)).map(|open| &open.question).rev();
        let own = here().filter(|question| question.is_put_to(by.sender));
        let others = here().filter(|question| !question.is_put_to(by.sender));
        own.chain(others).map(|question| question.id.clone()).collect()
    }

    /// Whether an approval is asked for here that is theirs to give and was not there yet when they said something
    /// about it.
    pub fn is_on_its_way(&self, by: &By<'_>) -> bool {
        self.approvals(by).any(|open| open.question.is_theirs(by) && !open.is_there_for(by))
    }

    fn approvals(&self, by: &By<'_>) -> impl DoubleEndedIterator<Item = &Open> {
        self.open.values().filter(|open| open.question.kind == Kind::Approval && open.question.is_about(by))
    }

    /// How many questions wait here for who says something, and were there by then.
    pub fn waiting_for(&self, by: &By<'_>, now_ms: i64) -> usize {
        let here = self.open.values().filter(|open| open.question.is_about(by) && open.is_there_for(by));
        here.filter(|open| open.question.expires_at_ms > now_ms && open.question.is_theirs(by)).count()
    }

    /// Returns a question that is open.
    pub fn get(&self, id: &str) -> Option<&Question> {
        Some(&self.open.get(&self.number(id)?)?.question)
    }

    /// Closes the questions of commands whose time is over, and returns them; those of turns are closed by their turns.
    pub fn expire_commands(&mut self, now_ms: i64) -> Vec<Question> {
        let is_over = |question: &Question| question.command.is_some() && now_ms >= question.expires_at_ms;
        let over: Vec<Question> =
            self.open.values().map(|open| &open.question).filter(|question| is_over(question)).cloned().collect();
        over.iter().for_each(|question| self.close(&question.id));
        over
    }

    /// Closes the question of a command that a session waits for, and returns it.
    pub fn close_command(&mut self, session: &SessionId) -> Option<Question> {
        let of_commands = self.open.values().map(|open| &open.question).filter(|question| question.command.is_some());
        let question = of_commands.into_iter().find(|question| question.session == *session)?.clone();
        self.close(&question.id);
        Some(question)
    }

    /// Returns how many questions of commands are open.
    pub fn commands(&self) -> usize {
        self.open.values().filter(|open| open.question.command.is_some()).count()
    }

    /// Returns how many questions are open.
    pub fn len(&self) -> usize {
        self.open.len()
    }

    /// Whether no question is open.
    pub fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// Whether words can be about no question, open or answered just now.
    pub fn has_nothing_for_words(&self) -> bool {
        self.open.is_empty() && self.answered.is_empty()
    }

    fn number(&self, id: &str) -> Option<u64> {
        self.open.iter().find(|(_, open)| open.question.id == id).map(|(number, _)| *number)
    }

    fn remember(&mut self, id: &str, answered: bool) {
        if self.over.len() >= ASKS_REMEMBERED_MAX {
            self.over.pop_front();
        }
        self.over.push_back((id.to_owned(), answered));
    }
}

fn is_of_late(at_ms: i64, now_ms: i64) -> bool {
    now_ms.saturating_sub(at_ms) <= ASK_ECHO_MS
}

impl Open {
    /// Whether it was there when somebody said something.
    fn is_there_for(&self, by: &By<'_>) -> bool {
        self.there.as_ref().is_some_and(|there| {
            let is_known = there.at_ms > 0 && by.at_ms > 0;
            !is_known || by.at_ms.saturating_add(ASK_CLOCK_SLACK_MS) >= there.at_ms
        })
    }
}

impl Question {
    fn judge(&self, pick: Pick, by: &By<'_>, now_ms: i64) -> Result<Answer, Judged> {
        let is_staff = by.tier >= Tier::Admin;
        if self.instance != by.instance || !self.is_about(by) || !self.is_theirs(by) {
            return Err(Judged::NotYours);
        }
        if now_ms >= self.expires_at_ms {
            return Err(Judged::Late);
        }
        let answer = self.meaning(pick).ok_or(Judged::NoSuchOption)?;
        let denies = matches!(answer, Answer::Denied { .. });
        if by.tier < self.needs && !(denies && self.is_requester(by.sender)) {
            return Err(Judged::NeedsAdmin);
        }
        if answer == Answer::Approved(Verdict::Always) && !is_staff {
            return Err(Judged::OnlyOnceOrSession);
        }
        Ok(answer)
    }

    /// What a pick means here; `None`: nothing.
    fn meaning(&self, pick: Pick) -> Option<Answer> {
        match (self.kind, pick) {
            (Kind::Approval, Pick::Option(id)) if id == DENY => Some(Answer::Denied { why: None }),
            (Kind::Approval, Pick::Option(id)) => Verdict::from_word(&id).map(Answer::Approved),
            (Kind::Approval, Pick::Approve(verdict)) => Some(Answer::Approved(verdict)),
            (Kind::Approval, Pick::Deny { why }) => Some(Answer::Denied { why }),
            (Kind::Choice { .. }, Pick::Option(id)) => {
                self.options.iter().position(|option| option.id == id).map(Answer::Chosen)
            }
            (Kind::Choice { free: true }, Pick::Words(words)) => Some(Answer::Said(words)),
            _ => None,
        }
    }

    /// Whether it stands in the chat of who answers.
    fn stands_in(&self, by: &By<'_>) -> bool {
        self.instance == by.instance && by.chat.is_none_or(|chat| *chat == self.chat)
    }

    /// Whether it stands, or came up, in the chat of who answers.
    fn is_about(&self, by: &By<'_>) -> bool {
        self.stands_in(by) || (self.instance == by.instance && by.chat.is_some_and(|chat| *chat == self.origin))
    }

    /// Whether it is for somebody to answer, at least to deny.
    fn is_theirs(&self, by: &By<'_>) -> bool {
        self.is_put_to(by.sender) || self.is_requester(by.sender) || by.tier >= Tier::Admin
    }

    /// Whether somebody is the one who is asked.
    fn is_put_to(&self, sender: &Sender) -> bool {
        match &self.addressee {
            Some(id) => *id == sender.id,
            None => self.is_requester(sender),
        }
    }

    fn is_requester(&self, sender: &Sender) -> bool {
        !sender.id.is_empty() && self.requester.id == sender.id
    }
}

/// What an approval for longer is remembered by. What a dangerous pattern caught is another thing than what none
/// did, also where both are of one kind.
pub fn approval_key(kind: &str, is_dangerous: bool) -> Option<String> {
    // Both have a mark, so that no kind can look like another one's key.
    (!kind.is_empty()).then(|| format!("{}{kind}", if is_dangerous { "!" } else { "." }))
}

/// Whether an action is done without asking anybody: its kind was approved for longer, or the conversation asks for
/// nothing. The latter is an admin's choice for themselves: what a user asks for and a dangerous pattern catches is
/// asked all the same.
pub fn is_granted(is_approved: bool, yolo: bool, is_dangerous: bool, requester: Tier) -> bool {
    is_approved || (yolo && (!is_dangerous || requester >= Tier::Admin))
}
