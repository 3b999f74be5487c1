//! Properties of models, learned from their refusals and answers at run time.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::wire::answer::Answer;
use super::wire::shape::MessageShape;

/// Models that are remembered.
const MODELS_MAX: usize = 256;

/// Time for which a model gets no tools after refusing them.
const WITHOUT_TOOLS_FOR: Duration = Duration::from_secs(600);

/// Largest reserve for the answer, in tokens.
const ANSWER_TOKENS: usize = 4_096;

/// Smallest room that is accepted, in tokens.
const ROOM_MIN: usize = 256;

/// Names of models that start to reason without an opening tag.
const REASONERS: [&str; 5] = ["deepseek-r1", "qwq", "-thinking", "magistral", "-r1-distill"];

/// The learned properties of one model.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ModelTraits {
    /// Accepted shape of messages.
    pub shape: MessageShape,
    /// Largest request in tokens, by the local estimate.
    pub room: Option<usize>,
    /// True if the model starts to reason without an opening tag.
    bare_reasoning: Option<bool>,
    without_tools_until: Option<Instant>,
}

/// The learned properties of all models.
#[derive(Debug, Default)]
pub(super) struct LearnedTraits(Mutex<BTreeMap<String, ModelTraits>>);

impl LearnedTraits {
    /// Returns the learned properties of a model.
    pub(super) fn of(&self, model: &str) -> ModelTraits {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.get(model).copied().unwrap_or_default()
    }

    fn learn(&self, model: &str, change: impl FnOnce(&mut ModelTraits)) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() < MODELS_MAX || all.contains_key(model) {
            change(all.entry(model.to_owned()).or_default());
        }
    }

    /// Returns true if the model has not refused tools recently.
    pub(super) fn accepts_tools(&self, model: &str) -> bool {
        self.of(model).without_tools_until.is_none_or(|until| until <= Instant::now())
    }

    /// Records that the model refuses tools.
    pub(super) fn record_tools_refused(&self, model: &str) {
        self.learn(model, |traits| traits.without_tools_until = Some(Instant::now() + WITHOUT_TOOLS_FOR));
    }

    /// Returns true if the text of a model must be held back until it is known not to be reasoning.
    pub(super) fn holds_back(&self, model: &str) -> bool {
        let name = model.to_ascii_lowercase();
        let by_name = || REASONERS.iter().any(|reasoner| name.contains(reasoner));
        self.of(model).bare_reasoning.unwrap_or_else(by_name)
    }

    /// Records the properties that an answer reveals, and the shape that the model accepted.
    pub(super) fn record_answer(&self, model: &str, answer: &Answer, shape: MessageShape, tokens: usize) {
        self.learn(model, |traits| {
            traits.shape = shape.lasting();
            if let Some(room) = traits.room.as_mut().filter(|room| **room < tokens) {
                *room = tokens;
            }
            if answer.had_bare_close() {
                traits.bare_reasoning = Some(true);
            } else if !answer.text.is_empty() {
                traits.bare_reasoning.get_or_insert(false);
            }
        });
    }

    /// Records that a request of `tokens` was too long, with the message of the endpoint. Returns the new room
    /// in tokens.
    pub(super) fn record_too_long(&self, model: &str, tokens: usize, words: &str) -> usize {
        let room = room_after(tokens, words);
        self.learn(model, |traits| traits.room = Some(traits.room.map_or(room, |known| known.min(room))));
        room
    }
}

/// Returns the room for messages in a context window of `window` tokens.
pub(super) fn room_of_window(window: usize) -> usize {
    let for_the_answer = (window / 4).min(ANSWER_TOKENS);
    (window * 9 / 10).saturating_sub(for_the_answer).max(ROOM_MIN)
}

/// Returns the room, by the local estimate, after a request of `tokens` (by the same estimate) was refused.
/// Endpoints report their limit and often their own count of the request.
fn room_after(tokens: usize, words: &str) -> usize {
    let words = words.to_ascii_lowercase().replace([',', '_'], "");
    let numbers = |text: &str| -> Vec<usize> {
        let digits = text.split(|c: char| !c.is_ascii_digit());
        digits.filter_map(|digits| digits.parse().ok()).filter(|&number| number >= ROOM_MIN).collect()
    };
    let all = numbers(&words);
    let largest = all.iter().copied().max();
    let markers =
        ["context length is", "context length of", "context window of", "context size (", "maximum of", "limit of"];
    let named = markers.iter().find_map(|marker| numbers(words.split_once(marker)?.1).first().copied());
    let limit = named.or_else(|| all.iter().copied().filter(|&number| Some(number) < largest).max());
    let room = match (limit, largest) {
        (Some(limit), Some(count)) if limit < count => tokens.saturating_mul(limit) / count * 9 / 10,
        (Some(limit), _) => limit.min(tokens) * 3 / 4,
        _ => tokens * 6 / 10,
    };
    room.min(tokens * 95 / 100).max(ROOM_MIN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_room_is_read_from_the_words_of_a_refusal() {
        let openai =
            "This model's maximum context length is 6000 tokens. However, your messages resulted in 6400 tokens.";
        assert_eq!(room_after(6_400, openai), 5_400);
        assert_eq!(room_after(3_200, openai), 2_700);
        let both = "maximum context length is 4,097 tokens. However, you requested 5000 tokens (4000 in the messages)";
        assert_eq!(room_after(5_000, both), 3_687);
        assert_eq!(room_after(210_000, "prompt is too long: 210000 tokens > 200000 maximum"), 180_000);
        let llama = "request (5000 tokens) exceeds the available context size (4096 tokens)";
        assert_eq!(room_after(5_000, llama), 3_686);
        assert_eq!(room_after(10_000, "too long"), 6_000);
        assert_eq!(room_after(10_000, "the context window of 8192 is used up"), 6_144);
        assert_eq!(room_after(300, "too long"), ROOM_MIN);
    }

    #[test]
    fn every_refusal_makes_the_room_smaller() {
        let traits = LearnedTraits::default();
        let mut tokens = 100_000;
        for _ in 0..8 {
            let room = traits.record_too_long("m", tokens, "the limit of 500000 tokens is exceeded");
            assert!(room < tokens, "{room} < {tokens}");
            tokens = room;
        }
        assert_eq!(traits.of("m").room, Some(tokens));
    }

    #[test]
    fn a_model_that_reasons_without_a_mark_is_known_from_its_name_or_its_answers() {
        let traits = LearnedTraits::default();
        assert!(traits.holds_back("deepseek-r1:8b") && !traits.holds_back("m"));
        let mut answer = Answer::default();
        let piece = serde_json::json!({"choices": [{"delta": {"content": "hm</think>yes"}}]});
        assert!(answer.take(&piece, false).is_ok());
        traits.record_answer("m", &answer, MessageShape::default(), 10);
        assert!(traits.holds_back("m"));
        let mut plain = Answer::default();
        plain.text.push_str("yes");
        traits.record_answer("deepseek-r1:8b", &plain, MessageShape::default(), 10);
        assert!(!traits.holds_back("deepseek-r1:8b"));
    }
}
