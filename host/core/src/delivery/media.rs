//! Files that a reply of the agent names.

/// Line that sends all files as documents instead of in the platform's native form.
const AS_DOCUMENT: &str = "[[as_document]]";

/// Line that sends audio files as voice messages.
const AS_VOICE: &str = "[[audio_as_voice]]";

/// Quotes allowed around the name of a file.
const QUOTES: [char; 3] = ['"', '\'', '`'];

/// A reply split into text and files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReplyMedia<'t> {
    /// Text without the lines that name files.
    pub said: String,
    /// Files in their order.
    pub files: Vec<FileSource<'t>>,
    /// Sends all files as documents.
    pub as_documents: bool,
    /// Sends audio files as voice messages.
    pub as_voice: bool,
}

/// Source of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileSource<'t> {
    /// Path on this machine.
    Path(&'t str),
    /// URL to fetch.
    Url(&'t str),
    /// Inline content: the text after `data:`.
    Data(&'t str),
}

impl<'t> FileSource<'t> {
    /// Parses the text after `MEDIA:`.
    pub fn of(named: &'t str) -> Self {
        let begins = |scheme: &str| named.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme));
        if begins("data:") {
            return Self::Data(&named["data:".len()..]);
        }
        if begins("http://") || begins("https://") { Self::Url(named) } else { Self::Path(named) }
    }
}

/// Extracts the lines `MEDIA:<path or URL>` from a reply. Such a line inside a code block stays text.
pub fn take_media(text: &str) -> ReplyMedia<'_> {
    let mut enclosed = ReplyMedia { said: String::with_capacity(text.len()), ..ReplyMedia::default() };
    let mut in_code = false;
    for line in text.split_inclusive('\n') {
        let bare = line.trim();
        if bare.starts_with("```") || bare.starts_with("~~~") {
            in_code = !in_code;
        }
        match bare.strip_prefix("MEDIA:").map(unquoted) {
            Some(named) if !in_code && !named.is_empty() => enclosed.files.push(FileSource::of(named)),
            _ if !in_code && bare == AS_DOCUMENT => enclosed.as_documents = true,
            _ if !in_code && bare == AS_VOICE => enclosed.as_voice = true,
            _ => enclosed.said.push_str(line),
        }
    }
    enclosed
}

/// Removes quotes around a name.
fn unquoted(named: &str) -> &str {
    let named = named.trim();
    let inside = QUOTES.iter().find_map(|quote| named.strip_prefix(*quote)?.strip_suffix(*quote));
    inside.map_or(named, str::trim)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn files_that_a_reply_names_are_taken_out_of_it_but_not_out_of_code() {
        let reply =
            "Look:\nMEDIA:/a/b c.png\n```\nMEDIA:/code\n```\n MEDIA: /d.txt \nsee MEDIA:/no\nMEDIA:\n> MEDIA:/quoted\n";
        let enclosed = take_media(reply);
        assert_eq!(enclosed.files, [FileSource::Path("/a/b c.png"), FileSource::Path("/d.txt")]);
        assert_eq!(enclosed.said, "Look:\n```\nMEDIA:/code\n```\nsee MEDIA:/no\nMEDIA:\n> MEDIA:/quoted\n");
        assert!(!enclosed.as_documents);
    }

    #[test]
    fn a_name_may_stand_in_quotes_and_be_an_address_or_the_file_itself() {
        let reply = "MEDIA:\"/a b.png\"\nMEDIA:`/c.png`\nMEDIA:HTTPS://x.y/z.png\nMEDIA:data:text/plain;base64,YQ==\n[[as_document]]\n[[audio_as_voice]]\nthere\n";
        let enclosed = take_media(reply);
        let expected = [
            FileSource::Path("/a b.png"),
            FileSource::Path("/c.png"),
            FileSource::Url("HTTPS://x.y/z.png"),
            FileSource::Data("text/plain;base64,YQ=="),
        ];
        assert_eq!(enclosed.files, expected);
        assert_eq!((enclosed.said.as_str(), enclosed.as_documents, enclosed.as_voice), ("there\n", true, true));
        assert!(!take_media("```\n[[audio_as_voice]]\n```\n").as_voice, "in code it is words");
    }

    proptest! {
        #[test]
        fn what_names_no_file_is_said_as_it_stands(text in "[a-z `~>:/\n\"\u{e4}]{0,80}") {
            let enclosed = take_media(&text);
            prop_assert_eq!(enclosed.said, text.as_str());
            prop_assert!(enclosed.files.is_empty());
        }

        #[test]
        fn any_text_at_all_is_read(text in any::<String>()) {
            let enclosed = take_media(&text);
            prop_assert!(enclosed.said.len() <= text.len());
        }
    }
}
