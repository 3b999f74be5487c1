//! Parsing of house markdown, rendering in a dialect, and splitting into parts within a
//! platform's limit.
//!
//! The host writes every text once, in house markdown (CommonMark with tables,
//! strikethrough and task lists). This crate converts the text to what one platform
//! accepts. Three guarantees hold for every input:
//!
//! * A part is never longer than the limit, measured in the platform's unit on the
//!   *rendered* text, including the ` (i/n)` suffix.
//! * Every part is valid by itself: code fences, tags and quotes that are open at a cut are
//!   closed in one part and opened again in the next, with the same language.
//! * The `source` texts of all parts, joined, equal the plain rendering of the whole text,
//!   so a part that a platform rejects can be sent again without markup.
//!
//! Platforms with a dialect of their own implement [`Renderer`] and call
//! [`split_rendered`]; the splitting is the same for every dialect. A web page without a limit
//! inserts [`html`]. The module `tree` defines the parsed text, `parse` reads markdown, `split`
//! finds the cuts.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod commonmark;
mod discord;
mod html;
mod measure;
mod mrkdwn;
mod parse;
mod plain;
mod render;
mod split;
mod table;
mod telegram;
mod tree;
mod wide;

pub use commonmark::CommonMark;
pub use discord::Discord;
pub use html::html;
pub use measure::{Limit, Unit, measure};
pub use mrkdwn::Mrkdwn;
pub use parse::{MARKDOWN_BYTES_MAX, parse};
pub use plain::Plain;
pub use render::{CodeKind, Indent, LinePosition, Place, Renderer};
pub use split::{LIMIT_MIN, split_rendered};
pub use telegram::Telegram;
pub use tree::{Frame, Marker, Tree};

/// A dialect that this crate can render.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum MarkupDialect {
    /// No markup.
    Plain,
    /// CommonMark with tables, strikethrough and task lists.
    CommonMark,
    /// The HTML subset of the Telegram Bot API.
    Telegram,
    /// The markdown of Discord.
    Discord,
    /// The mrkdwn of Slack.
    Mrkdwn,
}

impl MarkupDialect {
    /// Returns the renderer of this dialect.
    pub fn renderer(self) -> &'static dyn Renderer {
        match self {
            Self::Plain => &Plain,
            Self::CommonMark => &CommonMark,
            Self::Telegram => &Telegram,
            Self::Discord => &Discord,
            Self::Mrkdwn => &Mrkdwn,
        }
    }
}

/// The text of one message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// The rendered text to send, with a ` (i/n)` suffix if there is more than one part.
    pub text: String,
    /// The same text without markup, for one plain resend. Its length is within the limit, too.
    pub source: String,
}

/// Renders `markdown` in `dialect` and splits it into parts within `limit`.
///
/// A text without visible characters gives no part. A text that fits gives one part without
/// a suffix.
pub fn render(markdown: &str, dialect: MarkupDialect, limit: Limit) -> Vec<Part> {
    split_rendered(&parse(markdown), dialect.renderer(), limit)
}

/// Returns the plain rendering of `markdown`, which equals the joined `source` texts of its parts.
pub fn plain(markdown: &str) -> String {
    split::plain_text(&parse(markdown))
}
