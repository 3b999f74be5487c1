//! Titles derived from the first message.

/// Length of a derived title, in characters.
const TITLE_CHARS_MAX: usize = 48;

/// Returns the first words of a text as a title, or `None` if the text contains no words.
///
/// Words are not cut, unless the first word alone is too long.
pub fn title_from(text: &str) -> Option<String> {
    let line = text.lines().map(str::trim).find(|line| line.chars().any(char::is_alphanumeric))?;
    let mut title = String::new();
    let mut chars = 0;
    for word in line.split_whitespace() {
        let long = word.chars().count();
        if chars > 0 && chars + 1 + long > TITLE_CHARS_MAX {
            return Some(format!("{title}…"));
        }
        if chars > 0 {
            title.push(' ');
            chars += 1;
        }
        title.extend(word.chars().take(TITLE_CHARS_MAX));
        chars += long;
        if long > TITLE_CHARS_MAX {
            return Some(format!("{title}…"));
        }
    }
    Some(title)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_first_words_are_the_title() {
        assert_eq!(title_from("\n  plan   the trip \nto Rome").as_deref(), Some("plan the trip"));
        let long = "please tell me everything there is to know about the moon and the stars";
        assert_eq!(title_from(long).as_deref(), Some("please tell me everything there is to know about…"));
        assert_eq!(title_from(&"x".repeat(60)), Some(format!("{}…", "x".repeat(48))));
        assert_eq!(title_from("…\n---"), None);
    }

    proptest! {
        #[test]
        fn a_title_is_one_short_line(text in "(?s).{0,200}") {
            if let Some(title) = title_from(&text) {
                prop_assert!(title.chars().count() <= TITLE_CHARS_MAX + 1);
                prop_assert!(!title.contains('\n') && !title.trim().is_empty());
            }
        }
    }
}
