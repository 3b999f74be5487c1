//! Suggestions for unknown words.

/// Returns the candidate most similar to `word`, if one is similar enough: a few typing errors, or a word with the same
/// beginning.
pub fn nearest<'c>(word: &str, candidates: impl IntoIterator<Item = &'c str>) -> Option<&'c str> {
    let word = word.to_lowercase();
    let errors_max = (word.chars().count() / 3).max(1);
    candidates
        .into_iter()
        .map(|candidate| (candidate.to_lowercase(), candidate))
        .map(|(lower, candidate)| (strsim::damerau_levenshtein(&word, &lower), lower, candidate))
        .filter(|(errors, lower, _)| *errors <= errors_max || strsim::jaro_winkler(&word, lower) > 0.85)
        .min_by_key(|(errors, ..)| *errors)
        .map(|(.., candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_is_recognised_and_a_stranger_is_not() {
        let words = ["terminal", "process", "todo"];
        assert_eq!(nearest("terminl", words), Some("terminal"));
        assert_eq!(nearest("ToDo", words), Some("todo"));
        assert_eq!(nearest("weather", words), None);
        assert_eq!(nearest("x", []), None);
    }
}
