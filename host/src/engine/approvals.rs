//! The texts of questions: the question, the ways to answer it, and its outcome.
//!
//! A question is a delivery. On a platform with buttons it carries them, and they are removed when it is closed
//! ([`outcome`]); on others the text numbers the options, and the outcome is a message. [`hermes_core::approvals`] decides who
//! may answer; the session's lane or a command waits for the answer.

mod outcome;

use std::fmt::Write as _;
use std::time::Duration;

use hermes_core::approvals::{Answer, DENY, Question, QuestionKind, Verdict};
use hermes_core::delivery::strip_control;
use hermes_core::limits::{ASK_ABOUT_CHARS_MAX, ASK_LABEL_CHARS_MAX, ASK_TEXT_CHARS_MAX, DENIAL_CHARS_MAX};
use hermes_protocol::{ChatType, ChoiceOption, Choices, Purpose};

use crate::engine::context::compose;
use crate::engine::runtime::Host;
use hermes_store::NewDelivery;

pub use outcome::{Over, Stale, close, close_all, stale, take_buttons_away};

/// The outcome of a question whose turn or host has ended.
pub const NO_LONGER_OPEN: &str = "This question is no longer open.";

/// The addition to a permanent approval if the list of permanently approved kinds is full.
pub const NOT_FOR_ALWAYS: &str = "The list of permanent approvals is full; `/approve forget` clears it.";

/// The addition to a longer approval if the list of kinds of this conversation is full.
pub const NOT_FOR_LONGER: &str = "The list of approvals for this conversation is full; `/approve forget` clears it.";

/// The addition to a longer approval of an action without a kind that could be remembered.
pub const NO_KIND: &str = "This kind of action cannot be approved for longer.";

/// The mark at the end of a shortened text.
const CUT: &str = "…";

/// Prepares text of an agent or its user for a question: without control sequences and secrets, and bounded.
pub fn shown(host: &Host, text: &str, chars_max: usize) -> String {
    cut(&clean(host, text), chars_max)
}

fn clean(host: &Host, text: &str) -> String {
    host.live().masker.mask(strip_control(text.trim())).into_owned()
}

fn cut(text: &str, chars_max: usize) -> String {
    match text.char_indices().nth(chars_max) {
        Some((end, _)) => format!("{}{CUT}", &text[..end]),
        None => text.to_owned(),
    }
}

/// Returns the short name of a question among several: one line that contains no backtick.
pub fn about(host: &Host, text: &str) -> String {
    let line: String = clean(host, text).split_whitespace().collect::<Vec<_>>().join(" ");
    cut(&line.replace('`', "'"), ASK_ABOUT_CHARS_MAX)
}

/// Puts an action, word for word, into a fence that nothing in it can close. The length of a hidden part stands outside
/// the fence, so that nobody approves an action without knowing that a part is hidden.
pub fn fenced(host: &Host, action: &str) -> String {
    let whole = clean(host, action);
    let action = without_middle(&whole, ASK_TEXT_CHARS_MAX);
    let longest = action.split(|c| c != '`').map(str::len).max().unwrap_or_default();
    let fence = "`".repeat(longest.max(2) + 1);
    let fenced = format!("{fence}\n{action}\n{fence}");
    match whole.chars().count().saturating_sub(ASK_TEXT_CHARS_MAX) {
        0 => fenced,
        1 => format!("{fenced}\n\n**1 character in the middle is not shown.**"),
        hidden => format!("{fenced}\n\n**{hidden} characters in the middle are not shown.**"),
    }
}

/// Shortens a long text to its beginning and its end, because the harmful part is often at the end.
fn without_middle(text: &str, chars_max: usize) -> String {
    let chars = text.chars().count();
    if chars <= chars_max {
        return text.to_owned();
    }
    let (head, tail) = (chars_max - chars_max / 2, chars_max / 2);
    let at = |n: usize| text.char_indices().nth(n).map_or(text.len(), |(at, _)| at);
    format!("{}\n…\n{}", &text[..at(head)], &text[at(chars - tail)..])
}

/// Returns the buttons of an approval; permanent approval only if an admin can press it.
pub fn approval_options(is_remembered: bool, for_always: bool) -> Vec<ChoiceOption> {
    let mut options = vec![option(Verdict::Once.as_str(), "Approve once", "primary")];
    if is_remembered {
        options.push(option(Verdict::Session.as_str(), "Approve for this conversation", ""));
    }
    if is_remembered && for_always {
        options.push(option(Verdict::Always.as_str(), "Approve always", ""));
    }
    options.push(option(DENY, "Deny", "danger"));
    options
}

/// Returns the buttons of a command that asks for confirmation.
pub fn confirm_options() -> Vec<ChoiceOption> {
    vec![option(Verdict::Once.as_str(), "Yes", "primary"), option(DENY, "No", "")]
}

/// Returns the buttons of a choice, numbered from 1.
pub fn choice_options(host: &Host, labels: &[String]) -> Vec<ChoiceOption> {
    let labels = labels.iter().map(|label| shown(host, label, ASK_LABEL_CHARS_MAX).replace('\n', " "));
    (1..).zip(labels).map(|(number, label)| option(&number.to_string(), &label, "")).collect()
}

/// Creates a button.
pub fn option(id: &str, label: &str, style: &str) -> ChoiceOption {
    let mut option = ChoiceOption::new(id, label);
    style.clone_into(&mut option.style);
    option
}

/// Builds the delivery that asks a question: `body`, and the ways to answer it.
pub async fn pose(host: &Host, question: &Question, body: &str) -> NewDelivery {
    let has_buttons = host.adapter(&question.instance).is_some_and(|adapter| adapter.capabilities().buttons);
    let text = format!("{body}\n\n{}", how(question, has_buttons, host.now_ms()));
    let mut delivery = compose(host, &question.instance, question.chat.clone(), Purpose::Ask, text).await;
    // The delivery has its choices also without buttons: they make it a question, which is closed like one.
    delivery.choices = Some(Choices::new(&*question.id, question.options.clone(), question.expires_at_ms));
    if has_buttons {
        // The message of a closed question needs no text about ways to answer.
        body.clone_into(&mut delivery.markdown);
    }
    delivery.session = Some(question.session.clone());
    delivery.deadline_ms = delivery.deadline_ms.min(question.expires_at_ms);
    delivery
}

fn how(question: &Question, has_buttons: bool, now_ms: i64) -> String {
    let mut words = String::new();
    if !has_buttons && question.addressee.is_some() {
        words.push_str("Answer with `/approve`");
        for option in question.options.iter().filter(|option| option.id != DENY && option.id != Verdict::Once.as_str())
        {
            let _ = write!(words, ", `/approve {}`", option.id);
        }
        words.push_str(" or `/deny`. ");
    } else if !has_buttons {
        words.push_str(&numbered(question));
        words.push(' ');
    } else if is_asked_of_a_chat(question) {
        words.push_str("The request was sent in the name of this chat, so only admins of this host can use the buttons. Please answer in text.\n\n");
        words.push_str(&numbered(question));
        words.push(' ');
    }
    let time = in_words(Duration::from_millis(u64::try_from(question.expires_at_ms - now_ms).unwrap_or_default()));
    // Writing into a `String` cannot fail.
    let _ = match question.kind {
        QuestionKind::Approval => write!(words, "Denied automatically in {time}."),
        QuestionKind::Choice { .. } => {
            write!(words, "Without an answer within {time}, the agent continues without one.")
        }
    };
    words
}

/// Returns whether the question is put to the chat itself: some platforms report anonymous admins as the chat.
fn is_asked_of_a_chat(question: &Question) -> bool {
    question.addressee.is_none() && question.chat.kind != ChatType::Dm && question.requester.id == question.chat.id
}

/// Lists the numbered options and the ways to answer in text.
fn numbered(question: &Question) -> String {
    let mut words = String::new();
    for (number, option) in question.options.iter().enumerate() {
        // Writing into a `String` cannot fail.
        let _ = writeln!(words, "{}. {}", number + 1, option.label);
    }
    words.push('\n');
    words.push_str(match question.kind {
        QuestionKind::Approval => "Answer with the number, with `yes` or `no`, or with `/approve` or `/deny`.",
        QuestionKind::Choice { free: true } => "Answer with the number, or in your own words.",
        QuestionKind::Choice { free: false } => "Answer with the number.",
    });
    words
}

/// Returns the reply to text that was perhaps meant as an answer and is none.
pub fn once_more(question: &Question) -> String {
    format!(
        "That didn't match an option; the question is still open.\n\n{} Anything else that you write next goes to the agent.",
        numbered(question)
    )
}

fn in_words(time: Duration) -> String {
    let (number, unit) = match time.as_millis().div_ceil(1_000) {
        seconds if seconds < 120 => (seconds, "second"),
        seconds if seconds < 7_200 => (seconds.div_ceil(60), "minute"),
        seconds => (seconds.div_ceil(3_600), "hour"),
    };
    format!("{number} {unit}{}", if number == 1 { "" } else { "s" })
}

/// Describes the outcome of a question.
pub fn outcome(question: &Question, answer: &Answer) -> String {
    match answer {
        Answer::Approved(Verdict::Once) => "Approved once.".to_owned(),
        Answer::Approved(Verdict::Session) => "Approved for this conversation.".to_owned(),
        Answer::Approved(Verdict::Always) => "Approved permanently.".to_owned(),
        Answer::Denied { why: None } => "Denied.".to_owned(),
        Answer::Denied { why: Some(why) } => format!("Denied: {}", cut(why, DENIAL_CHARS_MAX)),
        Answer::Chosen(number) => {
            format!("Chosen: {}", question.options.get(*number).map(|option| option.label.as_str()).unwrap_or_default())
        }
        Answer::Text(words) => format!("Answered: {}", cut(words, DENIAL_CHARS_MAX)),
        Answer::Unanswered if question.kind == QuestionKind::Approval => {
            "Denied, because nobody answered in time.".to_owned()
        }
        Answer::Unanswered => "Nobody answered in time.".to_owned(),
        Answer::Gone => NO_LONGER_OPEN.to_owned(),
    }
}

/// Returns the reply to text that answered one question of several: the question, and the number of open ones.
pub fn among(outcome: &str, question: &Question, left: usize) -> String {
    let about = match question.about.as_str() {
        "" => String::new(),
        about => format!("\nThat was: `{about}`"),
    };
    format!("{outcome}{about}\n{}", left_over(left))
}

/// Describes the number of open questions.
pub fn left_over(left: usize) -> String {
    match left {
        1 => "One more question is open.".to_owned(),
        left => format!("{left} more questions are open."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_command_is_cut_in_its_middle() {
        let long = format!("echo {} && rm -rf /", "ä".repeat(100));
        let cut = without_middle(&long, 40);
        assert!(cut.starts_with("echo ää") && cut.ends_with("ä && rm -rf /"), "{cut}");
        assert_eq!(cut.chars().count(), 43, "and the sign that something is missing");
        assert_eq!(without_middle("rm -rf /", 40), "rm -rf /");
    }

    #[test]
    fn times_are_told_as_people_tell_them() {
        let words = |seconds| in_words(Duration::from_secs(seconds));
        assert_eq!(
            (words(1), words(60), words(300), words(7_200)),
            ("1 second".to_owned(), "60 seconds".to_owned(), "5 minutes".to_owned(), "2 hours".to_owned())
        );
    }
}
