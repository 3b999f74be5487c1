//! Interpretation of free text as an answer to a question.
//!
//! A text counts only as a whole and only if it matches exactly: the number of an option, its label, or, for an
//! approval, one of a few words for yes and no. Case, whitespace, surrounding punctuation and polite phrases
//! are ignored. A text that matches one option by number and another by label matches neither.

use super::{AnswerChoice, Question, QuestionKind, Verdict};

/// Words that approve once.
const ONCE: &[&str] = &["approve", "yes", "ok", "okay", "confirm", "y", "once", "👍"];
/// Words that approve for the conversation.
const SESSION: &[&str] = &["session", "approve session", "session approve"];
/// Words that approve for always.
const ALWAYS: &[&str] = &["always", "approve always", "always approve"];
/// Words that deny.
const DENY: &[&str] = &["deny", "no", "reject", "cancel", "n", "👎"];
/// Polite phrases around an answer, ignored.
const POLITE: &[&str] = &["please", "thank you", "thanks"];
/// Words before the number of an option.
const COUNTED: &[&str] = &["option ", "number "];
/// Characters ignored before a word of an answer.
const BEFORE: &[char] = &['(', '[', '"', '\'', '`', '*', '_', '#', '“', '„', '‘'];
/// Characters ignored after a word. A question mark is not among them, because a question is not an answer.
const BEHIND: &[char] = &['.', ',', ';', ':', '!', '…', ')', ']', '"', '\'', '`', '*', '_', '”', '“', '’', '‘'];
/// Characters ignored between words if they are separate words; before a number they could be a minus sign.
const BETWEEN: &[char] = &['-', '–', '—'];

/// Returns the option or answer that a whole text selects, or `None` if the text is not an answer.
pub fn read(question: &Question, text: &str) -> Option<AnswerChoice> {
    let said = plain(text);
    let (numbered, named) = (numbered(question, &said), named(question, text, &said));
    let option = match (numbered, named) {
        (Some(one), Some(other)) if one != other => None,
        (numbered, named) => numbered.or(named),
    };
    if let Some(option) = option {
        return Some(AnswerChoice::Option(question.options[option].id.clone()));
    }
    match question.kind {
        QuestionKind::Approval => approval(&said),
        QuestionKind::Choice { free } => {
            (free && !text.trim().is_empty()).then(|| AnswerChoice::Words(text.trim().to_owned()))
        }
    }
}

/// Returns the index of the option with this number, with or without its label.
fn numbered(question: &Question, said: &str) -> Option<usize> {
    let said = COUNTED.iter().find_map(|before| said.strip_prefix(before)).unwrap_or(said);
    let (number, label) = said.split_once(' ').unwrap_or((said, ""));
    let option = number.parse::<usize>().ok()?.checked_sub(1)?;
    let is_it = label.is_empty() || label == plain(&question.options.get(option)?.label);
    (is_it && option < question.options.len()).then_some(option)
}

/// Returns the index of the only option with this label.
fn named(question: &Question, text: &str, said: &str) -> Option<usize> {
    let labels = || question.options.iter().map(|option| option.label.as_str()).enumerate();
    let exactly = labels().find(|(_, label)| label.to_lowercase() == text.trim().to_lowercase());
    if let Some((option, _)) = exactly {
        return Some(option);
    }
    let mut alike = labels().filter(|(_, label)| !said.is_empty() && plain(label) == said).map(|(option, _)| option);
    alike.next().filter(|_| alike.next().is_none())
}

fn approval(said: &str) -> Option<AnswerChoice> {
    let says = |words: &[&str]| words.contains(&said);
    match () {
        () if says(ONCE) => Some(AnswerChoice::Approve(Verdict::Once)),
        () if says(SESSION) => Some(AnswerChoice::Approve(Verdict::Session)),
        () if says(ALWAYS) => Some(AnswerChoice::Approve(Verdict::Always)),
        () if says(DENY) => Some(AnswerChoice::Deny { why: None }),
        // A repeated word counts like a single one.
        () if says_only(said, ONCE) => Some(AnswerChoice::Approve(Verdict::Once)),
        () if says_only(said, DENY) => Some(AnswerChoice::Deny { why: None }),
        () => None,
    }
}

/// Returns true if each word is one of these.
fn says_only(said: &str, words: &[&str]) -> bool {
    said.split(' ').all(|word| words.contains(&word))
}

/// Normalizes a text: removes case, decoration and polite phrases.
fn plain(text: &str) -> String {
    let text: String = text.to_lowercase().chars().filter(|c| !is_shade(*c)).collect();
    let words = text.split_whitespace().map(|word| word.trim_start_matches(BEFORE).trim_end_matches(BEHIND));
    let words = words.filter(|word| !word.chars().all(|c| BETWEEN.contains(&c))).collect::<Vec<_>>().join(" ");
    let mut said = words.as_str();
    for polite in POLITE {
        let rest = said.strip_suffix(polite).and_then(|rest| rest.strip_suffix(' '));
        said = rest.unwrap_or(said);
        let rest = said.strip_prefix(polite).and_then(|rest| rest.strip_prefix(' '));
        said = rest.unwrap_or(said);
    }
    said.to_owned()
}

/// Returns true for a character that only changes the presentation of the previous one: a skin tone or a
/// variation selector.
fn is_shade(c: char) -> bool {
    matches!(c, '\u{1f3fb}'..='\u{1f3ff}' | '\u{fe0e}' | '\u{fe0f}')
}
