//! What was probably meant by a word that nobody knows.

/// How alike two words must be, from 0 (nothing) to 1.
const LIKENESS_MIN: f64 = 0.75;

/// Returns the candidate that is most like `word`, if any is like it at all.
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
