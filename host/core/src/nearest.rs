//! Suggestions for unknown words.

/// Lowest similarity of a suggestion, from 0 (nothing alike) to 1 (equal).
const LIKENESS_MIN: f64 = 0.75;

/// Returns the candidate most similar to `word`, if one is similar enough.
pub fn nearest<'c>(word: &str, candidates: impl IntoIterator<Item = &'c str>) -> Option<&'c str> {
    let word = word.to_lowercase();
    let likeness = |candidate: &'c str| (strsim::jaro_winkler(&word, &candidate.to_lowercase()), candidate);
    let best = candidates.into_iter().map(likeness).max_by(|a, b| a.0.total_cmp(&b.0));
    best.filter(|(likeness, _)| *likeness >= LIKENESS_MIN).map(|(_, candidate)| candidate)
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
