//! The text of a message whose files the platform refused.

use hermes_protocol::{Format, OutMedia};

/// Returns a line for the reader that names the files and the reason, written for `format`.
///
/// The platform's refusal of a file must not lose the text of the message. The adapter sends the text again without
/// the files and with this line below it. `why` is the reason in the platform's words.
pub fn not_attached(files: &[OutMedia], format: &Format, why: &str) -> String {
    let names: Vec<String> = files.iter().map(|file| format!("\"{}\"", file.name)).collect();
    let line = format!("(Not attached: {}. {})", names.join(", "), why.trim_end_matches('.'));
    match format {
        Format::TelegramHtml | Format::Mrkdwn => line.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;"),
        Format::Markdown => escaped(&line),
        _ => line,
    }
}

/// Returns `text` with a line below it, after an empty line.
pub fn with_line(text: &str, line: &str) -> String {
    if text.trim().is_empty() { line.to_owned() } else { format!("{text}\n\n{line}") }
}

fn escaped(line: &str) -> String {
    let mut out = String::with_capacity(line.len());
    for c in line.chars() {
        if matches!(c, '\\' | '`' | '*' | '_' | '~' | '|' | '<' | '>' | '[' | ']') {
            out.push('\\');
        }
        out.push(c);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_shows_names_as_they_are_in_every_format() {
        let files = [OutMedia::new("1", "/x", "a/b", "a_b*.txt", 1), OutMedia::new("2", "/y", "a/b", "<c>&.png", 1)];
        let line = |format: Format| not_attached(&files, &format, "missing_scope.");
        assert_eq!(line(Format::Plain), "(Not attached: \"a_b*.txt\", \"<c>&.png\". missing_scope)");
        assert_eq!(line(Format::Mrkdwn), "(Not attached: \"a_b*.txt\", \"&lt;c&gt;&amp;.png\". missing_scope)");
        assert_eq!(line(Format::Markdown), "(Not attached: \"a\\_b\\*.txt\", \"\\<c\\>&.png\". missing\\_scope)");
        assert_eq!(with_line("words", "(line)"), "words\n\n(line)");
        assert_eq!(with_line(" ", "(line)"), "(line)");
    }
}
