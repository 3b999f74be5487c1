//! House markdown to a tree, to a dialect, to parts that fit a platform's limit.
//!
//! The host writes every text once, in house markdown (CommonMark with tables,
//! strikethrough and task lists). This crate turns it into what one platform
//! accepts. Three things are kept, whatever the input:
//!
//! * a part is never longer than the limit, counted in the platform's unit on the
//!   *rendered* text, the ` (i/n)` suffix included;
//! * every part stands alone: code fences, tags and quotes that are open at a cut
//!   are closed in one part and opened again in the next, the language with them;
//! * the `source` of the parts, joined, is the plain rendering of the whole, so a
//!   part that a platform refuses can be sent again without any markup.
//!
//! Platforms with a dialect of their own implement [`Renderer`] and call
//! [`split_rendered`]; the splitting is the same for all. The words of a tree are
//! in `tree`, reading markdown in `parse`, the cut in `split`.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod commonmark;
mod discord;
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
pub use measure::{Limit, Unit, measure};
pub use mrkdwn::Mrkdwn;
pub use parse::{MARKDOWN_BYTES_MAX, parse};
pub use plain::Plain;
pub use render::{CodeKind, Indent, LinePosition, Place, Renderer};
pub use split::{LIMIT_MIN, split_rendered};
pub use telegram::Telegram;
pub use tree::{Frame, Marker, Tree};

/// A way to write text that this crate knows.
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

/// One message's worth of text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// What is sent: rendered, with ` (i/n)` when there are several parts.
    pub text: String,
    /// The same piece without markup, for one plain resend. Within the limit too.
    pub source: String,
}

/// Renders `markdown` in `dialect` and cuts it into parts within `limit`.
///
/// Text that shows nothing gives no part; text that fits gives one, without a suffix.
pub fn render(markdown: &str, dialect: MarkupDialect, limit: Limit) -> Vec<Part> {
    split_rendered(&parse(markdown), dialect.renderer(), limit)
}

/// Returns the plain rendering of `markdown`: what the sources of its parts join to.
pub fn plain(markdown: &str) -> String {
    split::plain_text(&parse(markdown))
}
