//! The conversion of house markdown into parts that one adapter can send unchanged.
//!
//! The host renders the dialects that it knows; any other dialect is rendered by the adapter's own `render` before the
//! parts are written. If that fails, the text is sent as plain text within the same limit.

use hermes_markup::{Limit, MarkupDialect, Unit, measure};
use hermes_protocol::{Capabilities, Dialect, Format, RenderCall, RenderedPart, TextLimit, TextUnit, method};

use hermes_loader::AdapterHandle;
use hermes_store::NewPart;

/// Room for the marks of a part ([`PartFacts::marks`](hermes_core::delivery::PartFacts::marks)) and their spaces, in
/// any unit: they are ASCII.
const MARKS_ROOM: u32 = 64;

/// The smallest limit from which room for marks is reserved.
const MARKED_LIMIT_MIN: u32 = 512;

/// The largest number of parts of one text.
const PARTS_MAX: usize = 256;

/// Renders `markdown` for an adapter; the first part has the number `first`.
pub async fn render(adapter: Option<&AdapterHandle>, markdown: &str, limit: Option<u32>, first: u32) -> Vec<NewPart> {
    let capabilities = adapter.map(AdapterHandle::capabilities);
    let mut text = capabilities.as_ref().map_or_else(TextLimit::default, |can| can.text.clone());
    if let Some(limit) = limit {
        text.limit = limit;
    }
    let own = match (adapter, &capabilities) {
        (Some(adapter), Some(can)) if renders_itself(can) => render_there(adapter, markdown, text.limit).await,
        _ => None,
    };
    let parts = own.unwrap_or_else(|| render_here(markdown, &text));
    number(parts, first)
}

/// Returns whether a text becomes one part for an adapter with these capabilities. If only the adapter knows the
/// dialect, its markup may need more room, so half the limit applies.
pub fn is_one_part(markdown: &str, can: &Capabilities) -> bool {
    let mut text = can.text.clone();
    if renders_itself(can) {
        text.limit /= 2;
    }
    render_here(markdown, &text).len() <= 1
}

/// Returns whether only the adapter knows the dialect of its text.
fn renders_itself(can: &Capabilities) -> bool {
    can.render && known(&can.text.dialect).is_none()
}

/// Returns the host's form of a dialect. `None`: only the adapter knows it.
fn known(dialect: &Dialect) -> Option<(MarkupDialect, Format)> {
    match dialect {
        Dialect::Plain => Some((MarkupDialect::Plain, Format::Plain)),
        Dialect::CommonMark => Some((MarkupDialect::CommonMark, Format::Markdown)),
        Dialect::Telegram => Some((MarkupDialect::Telegram, Format::TelegramHtml)),
        Dialect::Discord => Some((MarkupDialect::Discord, Format::Markdown)),
        Dialect::Mrkdwn => Some((MarkupDialect::Mrkdwn, Format::Mrkdwn)),
        _ => None,
    }
}

async fn render_there(adapter: &AdapterHandle, markdown: &str, limit: u32) -> Option<Vec<NewPart>> {
    let call = serde_json::to_vec(&RenderCall::new(markdown, limit)).expect("a render call is always JSON");
    let answer = match adapter.hint(method::RENDER, call).await {
        Ok(answer) => answer,
        Err(error) => {
            tracing::warn!(instance = %adapter.instance(), %error, "adapter could not render the text; using plain text");
            return None;
        }
    };
    match serde_json::from_slice::<Vec<RenderedPart>>(&answer) {
        Ok(parts) if !parts.is_empty() && parts.len() <= PARTS_MAX => {
            Some(parts.into_iter().map(|part| new_part(part.text, Format::Native, part.source)).collect())
        }
        Ok(parts) => {
            tracing::warn!(instance = %adapter.instance(), parts = parts.len(), "adapter could not render the text; using plain text");
            None
        }
        Err(error) => {
            tracing::warn!(instance = %adapter.instance(), %error, "adapter could not render the text; using plain text");
            None
        }
    }
}

/// Returns the text of a part as a platform of this dialect counts it: without HTML.
pub fn counted<'p>(part: &'p NewPart, dialect: &Dialect) -> &'p str {
    match dialect {
        Dialect::Telegram => &part.source,
        _ => &part.text,
    }
}

fn render_here(markdown: &str, text: &TextLimit) -> Vec<NewPart> {
    let (dialect, format) = known(&text.dialect).unwrap_or((MarkupDialect::Plain, Format::Plain));
    let limit = Limit { max: text.limit, unit: unit(&text.unit) };
    let mut parts = hermes_markup::render(markdown, dialect, limit);
    if parts.len() > 1 && text.limit > MARKED_LIMIT_MIN {
        // A text of several parts leaves room in each for the marks before it.
        parts = hermes_markup::render(markdown, dialect, Limit { max: text.limit - MARKS_ROOM, ..limit });
    }
    parts.truncate(PARTS_MAX);
    if let ([part], MarkupDialect::CommonMark) = (&mut parts[..], dialect) {
        // House markdown is sent as it was written if it fits, without additional markup.
        let written = markdown.trim_end().trim_start_matches(['\r', '\n']);
        if limit.max == 0 || measure(written, limit.unit) <= limit.max as usize {
            written.clone_into(&mut part.text);
        }
    }
    parts.into_iter().map(|part| new_part(part.text, format.clone(), part.source)).collect()
}

/// Returns the unit in which a platform counts.
pub fn unit(unit: &TextUnit) -> Unit {
    match unit {
        TextUnit::Utf16 => Unit::Utf16,
        TextUnit::Bytes => Unit::Bytes,
        TextUnit::Graphemes => Unit::Graphemes,
        // The strictest reading of a unit this version does not know.
        TextUnit::Unknown(_) => Unit::Bytes,
        _ => Unit::Scalars,
    }
}

fn new_part(text: String, format: Format, source: String) -> NewPart {
    NewPart { n: 0, text, format, source, media: Vec::new(), key: String::new() }
}

fn number(mut parts: Vec<NewPart>, first: u32) -> Vec<NewPart> {
    if parts.is_empty() {
        // Markup without visible text still becomes a part: an empty delivery would never settle.
        parts.push(new_part("(empty)".to_owned(), Format::Plain, "(empty)".to_owned()));
    }
    for (part, n) in parts.iter_mut().zip(first..) {
        part.n = n;
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn commonmark(limit: u32) -> TextLimit {
        let mut text = TextLimit::default();
        (text.limit, text.dialect) = (limit, Dialect::CommonMark);
        text
    }

    #[test]
    fn in_the_language_of_the_house_a_text_that_fits_is_said_as_it_was_written() {
        for written in ["{\"a\":[\"x\\n\"]}", "see [x] and C:\\new <tag> * _", "    code\n\n1. one\n1) two", "# a"] {
            let parts = render_here(&format!("\n{written}\n\n"), &commonmark(0));
            assert_eq!((parts.len(), parts[0].text.as_str()), (1, written));
        }
        assert!(render_here(" \n", &commonmark(0)).is_empty());
    }

    #[test]
    fn what_stands_in_place_of_a_secret_is_text_in_every_chat() {
        let mask = hermes_core::secret::MASK;
        let text = format!("READY {mask}: token = \"{mask}\"");
        assert_eq!(render_here(&text, &TextLimit::default())[0].text, text);
    }

    #[test]
    fn each_of_several_parts_leaves_room_for_its_marks_and_a_text_that_fits_alone_uses_all() {
        let marks = format!("{} {} ", hermes_core::delivery::REPEATED_MARK, hermes_core::delivery::DELAYED_MARK);
        let parts = render_here(&"word ".repeat(2_000), &commonmark(1_000));
        assert!(parts.len() > 1);
        for part in &parts {
            assert!(marks.chars().count() + part.text.chars().count() <= 1_000, "{}", part.text.len());
        }
        assert_eq!(render_here(&"x".repeat(1_000), &commonmark(1_000)).len(), 1);
    }

    #[test]
    fn what_does_not_fit_is_written_anew_part_by_part() {
        let parts = render_here(&"*word* ".repeat(40), &commonmark(64));
        assert!(parts.len() > 1 && parts.iter().all(|part| part.text.chars().count() <= 64));
    }
}
