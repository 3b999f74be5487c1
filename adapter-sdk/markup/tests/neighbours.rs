//! Marks of CommonMark are read as marks next to every character.

use hermes_markup::{Limit, MarkupDialect, Unit, render};
use proptest::prelude::*;

fn whole(markdown: &str, dialect: MarkupDialect) -> String {
    render(markdown, dialect, Limit::NONE).into_iter().next().map(|part| part.text).unwrap_or_default()
}

/// Returns the text that a reader of the CommonMark rendering sees, the text that the author meant, and the rendering.
fn seen(markdown: &str) -> (String, String, String) {
    let written = whole(markdown, MarkupDialect::CommonMark);
    (whole(&written, MarkupDialect::Telegram), whole(markdown, MarkupDialect::Telegram), written)
}

#[test]
fn a_mark_between_a_letter_and_punctuation_is_still_a_mark() {
    for (markdown, expected) in [
        ("<AA:0>_+a_", "AA:&#48;*+a*"),
        ("_a+_<AA:0>", "*a+*&#65;A:0"),
        ("<AA:0>**+a**", "AA:&#48;**+a**"),
        ("**a+**&#98;c", "**a+**&#98;c"),
        ("&#120;~~+a~~", "&#120;~~+a~~"),
        ("***a***b", "*__a__*&#98;"),
        ("b***a***", "&#98;*__a__*"),
        ("***a*b**", "**_a_&#98;**"),
        ("***a**b*", "*__a__&#98;*"),
        ("e\u{301}<AA:e\u{301}>*(a)*", "e\u{301}AA:e&#769;*(a)*"),
        ("&#x6f22;**「a」**&#x6f22;", "&#28450;**「a」**&#28450;"),
        // The second mark turns the letter between the two into a reference, so the letter
        // before the first becomes one too.
        ("b**x~~+g~~**", "&#98;**&#120;~~+g~~**"),
        ("x：**“a”**，y", "x：**“a”**，y"),
        ("a**b**c *d*e", "a**b**c *d*e"),
    ] {
        let (shown, meant, written) = seen(markdown);
        assert_eq!(written, expected);
        assert_eq!(shown, meant, "{markdown:?} became {written:?}");
    }
}

#[test]
fn an_exclamation_mark_before_a_link_does_not_make_it_a_picture() {
    assert_eq!(whole("look\\![here](https://a.b)", MarkupDialect::CommonMark), "look\\![here](https://a.b)");
    assert_eq!(whole("look!", MarkupDialect::CommonMark), "look!");
}

#[test]
fn a_letter_written_by_its_number_counts_towards_the_limit() {
    let markdown = "<AA:0>_+a_ _a+_<AA:0> ".repeat(40);
    for unit in [Unit::Utf16, Unit::Scalars, Unit::Bytes, Unit::Graphemes] {
        for max in 32..64 {
            for part in render(&markdown, MarkupDialect::CommonMark, Limit::new(max, unit)) {
                assert!(hermes_markup::measure(&part.text, unit) <= max as usize, "{part:?} is longer than {max}");
            }
        }
    }
}

/// Spans and their possible direct neighbours.
const PIECES: &[&str] = &[
    "*+a*",
    "*a+*",
    "_+a_",
    "_(a)_",
    "**b**",
    "**(b)**",
    "***c***",
    "***c** d*",
    "***c* d**",
    "*e **f***",
    "**e *f***",
    "~~g~~",
    "~~+g+~~",
    "*~~h~~*",
    "<u>i</u>",
    "`j`",
    "[k](https://a.b)",
    "**[k](https://a.b)**",
    "<AA:0>",
    "<aa:é>",
    "&#120;",
    "&amp;",
    "&#x6f22;",
    "x",
    "é",
    "e\u{301}",
    "漢",
    "。",
    "“",
    "😀",
    "7",
    "+",
    "!",
    "-",
    "\\*",
    "\\_",
    " ",
    "\u{a0}",
];

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn marks_mean_the_same_after_writing(pieces in prop::collection::vec(prop::sample::select(PIECES), 1..8)) {
        let markdown = format!("w {} w", pieces.concat());
        let (shown, meant, written) = seen(&markdown);
        prop_assert_eq!(shown, meant, "{:?} became {:?}", markdown, written);
    }
}
