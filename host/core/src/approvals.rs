//! Questions to people while a turn waits: permitted answerers, accepted words and expiry.
//!
//! Every way of answering (a button, words, a command, a call of an adapter) ends in [`QuestionBook::answer`]. A
//! question is bound to its requester, to its chat and to its unguessable id. It accepts at most one answer.
//!
//! A button and a call name their question and count as soon as it is open. Words and bare commands name none;
//! they refer to the newest question that was visible when they were written. A question is visible once its
//! delivery has a receipt ([`QuestionBook::mark_shown`]). A message was written after that if it arrives after the
//! receipt and if its platform time, where known, is not before the receipt's time. An earlier message belongs
//! to something else.
//!
//! A short text of the addressee that is not a valid answer may be a misspelled one. The host replies with the
//! options, once per question ([`QuestionBook::near_miss`]), and does nothing else. A longer text, or a second one, is an
//! ordinary message.
//!
//! A repeated yes or no shortly after an answered approval refers to that same approval. It carries nothing new
//! for the agent and would interrupt the approved action, so it is dropped ([`QuestionBook::repeats_answer`]).
//!
//! The caller that opened a question acts on the answer and denies a question that nobody answers.

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

/// Duration of an approval.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// This action only.
    Once,
    /// All actions of the same kind in this conversation.
    Session,
    /// All actions of the same kind, permanently and in every conversation. Only an admin may choose this.
    Always,
}

impl Verdict {
    /// Returns the stable word, which is also the id of the button.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Once => "once",
            Self::Session => "session",
            Self::Always => "always",
        }
    }

    /// Parses a word.
    pub fn from_word(word: &str) -> Option<Self> {
        [Self::Once, Self::Session, Self::Always].into_iter().find(|verdict| verdict.as_str() == word)
    }
}

/// Outcome of a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The action is approved.
    Approved(Verdict),
    /// The action is denied.
    Denied {
        /// Reason, in the words of the person.
        why: Option<String>,
    },
    /// Index of the chosen option, from 0.
    Chosen(usize),
    /// Free text instead of an option.
    Text(String),
    /// Nobody answered in time. An approval counts as denied.
    Unanswered,
    /// The turn or the host ended before an answer arrived.
    Gone,
}

impl Answer {
    /// Returns true if the requested action may be done.
    pub fn approves(&self) -> bool {
        matches!(self, Self::Approved(_))
    }
}

/// Kind of question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QuestionKind {
    /// Approval of an action.
    Approval,
    /// Choice between several options.
    Choice {
        /// Accepts free text as an answer.
        free: bool,
    },
}

/// Id of the button that denies.
pub const DENY: &str = "deny";

/// A question that waits for its answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Question {
    /// Random id, at most 16 characters.
    pub id: String,
    /// Session whose turn waits.
    pub session: SessionId,
    /// Instance through which the question is asked.
    pub instance: String,
    /// Chat in which the question is shown.
    pub chat: Chat,
    /// Chat in which the turn was requested; differs from `chat` only if somebody else is asked.
    pub origin: Chat,
    /// Person on whose behalf the question is asked.
    pub requester: Sender,
    /// Id of the person who is asked instead of the requester.
    pub addressee: Option<String>,
    /// Tier needed to answer; the requester may always deny.
    pub needs: Tier,
    /// Kind of question.
    pub kind: QuestionKind,
    /// Subject in one short line; identifies the question among several.
    pub about: String,
    /// Options in order. The options of a choice have the ids `1`, `2`, …
    pub options: Vec<ChoiceOption>,
    /// Expiry, in milliseconds since the Unix epoch.
    pub expires_at_ms: i64,
    /// Key under which a longer approval is remembered.
    pub key: Option<String>,
    /// Arguments of the command that waits for the answer, if no turn waits.
    pub command: Option<String>,
}

/// Form of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AnswerChoice {
    /// The option with this id.
    Option(String),
    /// Free text.
    Words(String),
    /// Approval.
    Approve(Verdict),
    /// Denial with an optional reason.
    Deny {
        /// Reason of the denial.
        why: Option<String>,
    },
}

/// Author and context of an answer.
#[derive(Clone, Copy, Debug)]
pub struct Answerer<'a> {
    /// Instance through which the answer arrived.
    pub instance: &'a str,
    /// Chat of the answer; `None` if the instance itself vouches for the sender without a chat.
    pub chat: Option<&'a Chat>,
    /// Sender of the answer.
    pub sender: &'a Sender,
    /// Tier of the sender.
    pub tier: Tier,
    /// Time by the platform's clock, in milliseconds since the Unix epoch; 0 if unknown.
    pub at_ms: i64,
    /// Platform id of the quoted message.
    pub quotes: Option<&'a str>,
}

/// Result of an answer.
#[derive(Clone, Debug, PartialEq)]
pub enum AnswerOutcome {
    /// The answer is accepted and the question is closed.
    Accepted(Box<Question>, Answer),
    /// The question was answered before. Nothing changes.
    Already,
    /// The question was closed without an answer. Nothing changes.
    Closed,
    /// The question is unknown: it belongs to an earlier run of the host or never existed.
    Unknown,
    /// The question has expired. Nothing changes.
    Expired,
    /// The question belongs to somebody else or to another chat.
    NotYours,
    /// Only an admin may answer.
    NeedsAdmin,
    /// Only an admin may approve permanently.
    OnlyOnceOrSession,
    /// The question has no such option.
    NoSuchOption,
}

/// The book of open questions and of recently closed ones.
#[derive(Debug, Default)]
pub struct QuestionBook {
    /// Open questions by the order in which they were asked.
    open: BTreeMap<u64, OpenQuestion>,
    asked: u64,
    /// Ids of closed questions, newest last, with a flag for "answered".
    over: VecDeque<(String, bool)>,
    /// Recently answered approvals, newest last, with the time of the answer in Unix milliseconds.
    answered: VecDeque<(Question, i64)>,
    /// Pairs of closed question and person who was already notified of it, newest last.
    notified: VecDeque<(String, String)>,
    /// Ineffective button presses by instance and chat: start of the count in Unix milliseconds, and the count.
    presses: BTreeMap<(String, String), (i64, u32)>,
}

#[derive(Debug)]
struct OpenQuestion {
    question: Question,
    /// Receipt that proves that the question is visible in its chat.
    receipt: Option<Receipt>,
    /// True once the options were repeated.
    options_repeated: bool,
    /// People who were already notified that the question is not theirs.
    notified: BTreeSet<String>,
}

impl QuestionBook {
    /// Opens a question.
    pub fn open(&mut self, question: Question) {
        self.asked += 1;
        self.open.insert(
            self.asked,
            OpenQuestion { question, receipt: None, options_repeated: false, notified: BTreeSet::new() },
        );
    }

    /// Records the receipt of a question. From now on words in the chat of its arrival may answer it.
    pub fn mark_shown(&mut self, id: &str, chat: Chat, receipt: Receipt) {
        if let Some(open) = self.number(id).and_then(|number| self.open.get_mut(&number)) {
            open.question.chat = chat;
            open.receipt = Some(receipt);
        }
    }

    /// Moves questions to the new id of a chat, both those shown there and those that originate there.
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

    /// Evaluates an answer and closes the question if it is accepted. No other code answers questions.
    pub fn answer(&mut self, id: &str, pick: AnswerChoice, by: &Answerer<'_>, now_ms: i64) -> AnswerOutcome {
        let Some(number) = self.number(id) else {
            return match self.over.iter().find(|(over, _)| over == id) {
                Some((_, true)) => AnswerOutcome::Already,
                Some((_, false)) => AnswerOutcome::Closed,
                None => AnswerOutcome::Unknown,
            };
        };
        let question = &self.open[&number].question;
        let answer = match question.evaluate(pick, by, now_ms) {
            Ok(answer) => answer,
            Err(outcome) => return outcome,
        };
        let Some(open) = self.open.remove(&number) else { return AnswerOutcome::Unknown };
        self.remember(id, true);
        if open.question.kind == QuestionKind::Approval {
            self.answered.retain(|(_, at_ms)| is_recent(*at_ms, now_ms));
            if self.answered.len() >= ASKS_REMEMBERED_MAX {
                self.answered.pop_front();
            }
            self.answered.push_back((open.question.clone(), now_ms));
        }
        AnswerOutcome::Accepted(Box::new(open.question), answer)
    }

    /// Records that a person is notified that a question is closed or belongs to someone else. Returns false if
    /// the person was notified before or the limit of the question is reached.
    pub fn notify_once(&mut self, id: &str, who: &str) -> bool {
        if let Some(open) = self.number(id).and_then(|number| self.open.get_mut(&number)) {
            return open.notified.len() < ASK_TOLD_MAX && open.notified.insert(who.to_owned());
        }
        if self.notified.iter().any(|(ask, notified)| ask == id && notified == who) {
            return false;
        }
        if self.notified.len() >= ASKS_REMEMBERED_MAX {
            self.notified.pop_front();
        }
        self.notified.push_back((id.to_owned(), who.to_owned()));
        true
    }

    /// Returns true if an ineffective button press in this chat still gets a response. The number of responses
    /// per minute is limited, independent of the question.
    pub fn allows_press_notice(&mut self, instance: &str, chat: &str, now_ms: i64) -> bool {
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

    /// Returns the question that these words answer, with the parsed answer: the newest question in this chat
    /// that is addressed to the sender and was visible at that time. A question that an admin receives on
    /// behalf of somebody else needs a button or a command.
    pub fn find_by_words(&self, text: &str, by: &Answerer<'_>, now_ms: i64) -> Option<(String, AnswerChoice)> {
        let own = self.addressed_to(by, now_ms).map(|open| &open.question);
        own.filter_map(|question| Some((question.id.clone(), read(question, text)?))).next_back()
    }

    /// Returns the question to which this text may be a failed attempt at an answer: a short text of the
    /// addressee, in a direct message or with a quote of the question. Considers only the newest question, and
    /// only once.
    pub fn near_miss(&mut self, text: &str, by: &Answerer<'_>, now_ms: i64) -> Option<Question> {
        let text = text.trim();
        if text.chars().count() > ASK_NEAR_CHARS_MAX || text.lines().count() != 1 {
            return None;
        }
        let id = self.addressed_to(by, now_ms).next_back()?.question.id.clone();
        let open = self.open.get_mut(&self.number(&id)?)?;
        let is_quoted = by.quotes.is_some_and(|message| {
            open.receipt.iter().any(|receipt| receipt.message_ids.iter().any(|one| one == message))
        });
        let is_meant = is_quoted || by.chat.is_some_and(|chat| is_dm(&chat.kind));
        if !is_meant || open.options_repeated {
            return None;
        }
        open.options_repeated = true;
        Some(open.question.clone())
    }

    /// Returns true if these words would answer an approval that the sender answered here a moment ago.
    pub fn repeats_answer(&self, text: &str, by: &Answerer<'_>, now_ms: i64) -> bool {
        self.answered.iter().any(|(question, at_ms)| {
            let is_own = question.addressee.is_none() && question.is_addressed_to(by.sender);
            is_recent(*at_ms, now_ms) && is_own && question.is_shown_in(by) && read(question, text).is_some()
        })
    }

    /// Returns the questions in this chat that are addressed to the sender and were visible at that time,
    /// newest last.
    fn addressed_to(&self, by: &Answerer<'_>, now_ms: i64) -> impl DoubleEndedIterator<Item = &OpenQuestion> {
        self.open.values().filter(move |open| {
            let question = &open.question;
            let is_own = question.addressee.is_none() && question.is_addressed_to(by.sender);
            question.expires_at_ms > now_ms && question.is_shown_in(by) && is_own && open.was_shown_to(by)
        })
    }

    /// Returns the approvals to which `/approve` and `/deny` refer in this chat, the best match first: the
    /// newest one addressed to the sender, then those addressed to others. Considers only questions that were
    /// visible at that time.
    pub fn approvals_for(&self, by: &Answerer<'_>) -> Vec<String> {
        let here = || self.approvals(by).filter(|open| open.was_shown_to(by)).map(|open| &open.question).rev();
        let own = here().filter(|question| question.is_addressed_to(by.sender));
        let others = here().filter(|question| !question.is_addressed_to(by.sender));
        own.chain(others).map(|question| question.id.clone()).collect()
    }

    /// Returns true if an approval that the sender may give in this chat was not yet visible when the sender
    /// wrote.
    pub fn has_undelivered_approval(&self, by: &Answerer<'_>) -> bool {
        self.approvals(by).any(|open| open.question.may_be_answered_by(by) && !open.was_shown_to(by))
    }

    fn approvals(&self, by: &Answerer<'_>) -> impl DoubleEndedIterator<Item = &OpenQuestion> {
        self.open.values().filter(|open| open.question.kind == QuestionKind::Approval && open.question.concerns(by))
    }

    /// Returns the number of visible questions here that wait for the sender.
    pub fn waiting_for(&self, by: &Answerer<'_>, now_ms: i64) -> usize {
        let here = self.open.values().filter(|open| open.question.concerns(by) && open.was_shown_to(by));
        here.filter(|open| open.question.expires_at_ms > now_ms && open.question.may_be_answered_by(by)).count()
    }

    /// Returns an open question.
    pub fn get(&self, id: &str) -> Option<&Question> {
        Some(&self.open.get(&self.number(id)?)?.question)
    }

    /// Closes and returns the expired questions of commands. The questions of turns are closed by their turns.
    pub fn expire_commands(&mut self, now_ms: i64) -> Vec<Question> {
        let is_over = |question: &Question| question.command.is_some() && now_ms >= question.expires_at_ms;
        let over: Vec<Question> =
            self.open.values().map(|open| &open.question).filter(|question| is_over(question)).cloned().collect();
        over.iter().for_each(|question| self.close(&question.id));
        over
    }

    /// Closes and returns the question of a command for which a session waits.
    pub fn close_command(&mut self, session: &SessionId) -> Option<Question> {
        let of_commands = self.open.values().map(|open| &open.question).filter(|question| question.command.is_some());
        let question = of_commands.into_iter().find(|question| question.session == *session)?.clone();
        self.close(&question.id);
        Some(question)
    }

    /// Returns the number of open questions of commands.
    pub fn commands(&self) -> usize {
        self.open.values().filter(|open| open.question.command.is_some()).count()
    }

    /// Returns the number of open questions.
    pub fn len(&self) -> usize {
        self.open.len()
    }

    /// Returns true if no question is open.
    pub fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// Returns true if no question, open or recently answered, can be meant by words.
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

fn is_recent(at_ms: i64, now_ms: i64) -> bool {
    now_ms.saturating_sub(at_ms) <= ASK_ECHO_MS
}

impl OpenQuestion {
    /// Returns true if the question was visible when the sender wrote.
    fn was_shown_to(&self, by: &Answerer<'_>) -> bool {
        self.receipt.as_ref().is_some_and(|receipt| {
            let is_known = receipt.at_ms > 0 && by.at_ms > 0;
            !is_known || by.at_ms.saturating_add(ASK_CLOCK_SLACK_MS) >= receipt.at_ms
        })
    }
}

impl Question {
    fn evaluate(&self, pick: AnswerChoice, by: &Answerer<'_>, now_ms: i64) -> Result<Answer, AnswerOutcome> {
        let is_staff = by.tier >= Tier::Admin;
        if self.instance != by.instance || !self.concerns(by) || !self.may_be_answered_by(by) {
            return Err(AnswerOutcome::NotYours);
        }
        if now_ms >= self.expires_at_ms {
            return Err(AnswerOutcome::Expired);
        }
        let answer = self.meaning(pick).ok_or(AnswerOutcome::NoSuchOption)?;
        let denies = matches!(answer, Answer::Denied { .. });
        if by.tier < self.needs && !(denies && self.is_requester(by.sender)) {
            return Err(AnswerOutcome::NeedsAdmin);
        }
        if answer == Answer::Approved(Verdict::Always) && !is_staff {
            return Err(AnswerOutcome::OnlyOnceOrSession);
        }
        Ok(answer)
    }

    /// Returns the meaning of a pick for this question, or `None` if it has none.
    fn meaning(&self, pick: AnswerChoice) -> Option<Answer> {
        match (self.kind, pick) {
            (QuestionKind::Approval, AnswerChoice::Option(id)) if id == DENY => Some(Answer::Denied { why: None }),
            (QuestionKind::Approval, AnswerChoice::Option(id)) => Verdict::from_word(&id).map(Answer::Approved),
            (QuestionKind::Approval, AnswerChoice::Approve(verdict)) => Some(Answer::Approved(verdict)),
            (QuestionKind::Approval, AnswerChoice::Deny { why }) => Some(Answer::Denied { why }),
            (QuestionKind::Choice { .. }, AnswerChoice::Option(id)) => {
                self.options.iter().position(|option| option.id == id).map(Answer::Chosen)
            }
            (QuestionKind::Choice { free: true }, AnswerChoice::Words(words)) => Some(Answer::Text(words)),
            _ => None,
        }
    }

    /// Returns true if the question is shown in the sender's chat.
    fn is_shown_in(&self, by: &Answerer<'_>) -> bool {
        self.instance == by.instance && by.chat.is_none_or(|chat| *chat == self.chat)
    }

    /// Returns true if the question is shown in, or originates from, the sender's chat.
    fn concerns(&self, by: &Answerer<'_>) -> bool {
        self.is_shown_in(by) || (self.instance == by.instance && by.chat.is_some_and(|chat| *chat == self.origin))
    }

    /// Returns true if the sender may answer, or at least deny.
    fn may_be_answered_by(&self, by: &Answerer<'_>) -> bool {
        self.is_addressed_to(by.sender) || self.is_requester(by.sender) || by.tier >= Tier::Admin
    }

    /// Returns true if the question is addressed to the sender.
    fn is_addressed_to(&self, sender: &Sender) -> bool {
        match &self.addressee {
            Some(id) => *id == sender.id,
            None => self.is_requester(sender),
        }
    }

    fn is_requester(&self, sender: &Sender) -> bool {
        !sender.id.is_empty() && self.requester.id == sender.id
    }
}

/// Returns the key under which a longer approval is remembered. An action caught by a dangerous pattern has a
/// different key from a harmless one of the same kind.
pub fn approval_key(kind: &str, is_dangerous: bool) -> Option<String> {
    // Both variants have a prefix, so that no kind can collide with the key of another one.
    (!kind.is_empty()).then(|| format!("{}{kind}", if is_dangerous { "!" } else { "." }))
}

/// Returns true if an action needs no question: its kind was approved for longer, or the conversation disables
/// approvals. Disabling approvals is a choice of admins for themselves: an action that a user requests and a
/// dangerous pattern catches still needs an approval.
pub fn is_granted(is_approved: bool, yolo: bool, is_dangerous: bool, requester: Tier) -> bool {
    is_approved || (yolo && (!is_dangerous || requester >= Tier::Admin))
}
