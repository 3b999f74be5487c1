//! What words say about a question.

use super::{Kind, Pick, Question, Verdict};

/// Words that approve once.
const ONCE: &[&str] = &["approve", "yes", "ok", "okay", "confirm", "y", "once", "👍"];
/// Words that approve for the conversation.
const SESSION: &[&str] = &["session", "approve session", "session approve"];
/// Words that approve for always.
const ALWAYS: &[&str] = &["always", "approve always", "always approve"];
/// Words that deny.
const DENY: &[&str] = &["deny", "no", "reject", "cancel", "n", "👎"];

/// What a whole text picks of a question's options; `None` where it says something else.
pub fn read(question: &Question, text: &str) -> Option<Pick> {
    let text = text.trim();
    if let Some(option) = text.parse::<usize>().ok().and_then(|number| question.options.get(number.checked_sub(1)?)) {
        return Some(Pick::Option(option.id.clone()));
    }
    match question.kind {
        Kind::Approval => approval(text),
        Kind::Choice { free } => {
            let named = question.options.iter().find(|option| option.label.to_lowercase() == text.to_lowercase());
            match named {
                Some(option) => Some(Pick::Option(option.id.clone())),
                None => (free && !text.is_empty()).then(|| Pick::Words(text.to_owned())),
            }
        }
    }
}

/// Whether a text says nothing but yes or no.
pub fn is_approval_word(text: &str) -> bool {
    approval(text).is_some()
}

fn approval(text: &str) -> Option<Pick> {
    let word = text.trim().trim_end_matches(['.', '!']).to_lowercase();
    let says = |words: &[&str]| words.contains(&word.as_str());
    match () {
        () if says(ONCE) => Some(Pick::Approve(Verdict::Once)),
        () if says(SESSION) => Some(Pick::Approve(Verdict::Session)),
        () if says(ALWAYS) => Some(Pick::Approve(Verdict::Always)),
        () if says(DENY) => Some(Pick::Deny { why: None }),
        () => None,
    }
}
