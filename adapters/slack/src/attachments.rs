//! The attachments of a message: link previews, cards, and shared messages.

use serde::Deserialize;
use serde_json::Value;

use crate::content;
use crate::context::ReadContext;
use crate::objects::File;
use crate::optional::{or_default, valid_items};

/// An attachment of a message: a link preview, a card, or a shared message.
/// <https://docs.slack.dev/legacy/legacy-messaging/legacy-secondary-message-attachments>
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct MessageAttachment {
    is_share: bool,
    is_msg_unfurl: bool,
    #[serde(deserialize_with = "or_default")]
    author_name: Option<String>,
    #[serde(deserialize_with = "or_default")]
    pretext: Option<String>,
    #[serde(deserialize_with = "or_default")]
    title: Option<String>,
    #[serde(deserialize_with = "or_default")]
    title_link: Option<String>,
    #[serde(deserialize_with = "or_default")]
    text: Option<String>,
    #[serde(deserialize_with = "valid_items")]
    fields: Vec<AttachmentField>,
    blocks: Value,
    message_blocks: Value,
    #[serde(deserialize_with = "or_default")]
    fallback: Option<String>,
    /// The address of the previewed page.
    #[serde(deserialize_with = "or_default")]
    from_url: Option<String>,
    #[serde(deserialize_with = "or_default")]
    original_url: Option<String>,
    #[serde(deserialize_with = "valid_items")]
    pub files: Vec<File>,
}

/// A short field of an attachment.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct AttachmentField {
    title: String,
    value: String,
}

impl MessageAttachment {
    /// Returns whether this is another person's message, shared or linked.
    fn is_quoted(&self) -> bool {
        self.is_share || self.is_msg_unfurl
    }

    /// Returns whether Slack created this from a link in the text. Such a preview is not part of the sender's message.
    /// Only an app can send other attachments.
    pub(crate) fn is_preview(&self, by_app: bool) -> bool {
        !self.is_quoted() && (!by_app || self.from_url.is_some() || self.original_url.is_some())
    }

    /// Returns the attachment's text for the agent: a quotation, or the lines of a card.
    pub(crate) fn readable_text(&self, context: ReadContext<'_>) -> String {
        if self.is_quoted() { self.quotation(context) } else { self.lines(context) }
    }

    /// Returns the lines of a card: pretext, title, text, fields and blocks; the fallback if there are none.
    fn lines(&self, context: ReadContext<'_>) -> String {
        let title = self.title.as_ref().map(|title| match self.title_link.as_deref() {
            Some(link) if link != title => format!("{title} ({link})"),
            _ => title.clone(),
        });
        let mut lines: Vec<String> = [self.pretext.clone(), title, self.text.clone()].into_iter().flatten().collect();
        lines.extend(self.fields.iter().map(|field| format!("{}: {}", field.title, field.value)));
        lines.extend(
            [&self.blocks, &self.message_blocks[0]["message"]["blocks"]].into_iter().flat_map(content::block_lines),
        );
        lines.retain(|line| !line.trim_matches([' ', ':', '\n']).is_empty());
        if lines.is_empty() {
            lines.extend(self.fallback.clone());
        }
        context.text(&lines.join("\n")).text
    }

    /// Returns another person's text, marked as a quotation. A mention in it does not address this app.
    fn quotation(&self, context: ReadContext<'_>) -> String {
        let text = self.lines(context);
        let author = self.author_name.as_deref().filter(|name| !name.is_empty()).unwrap_or("somebody");
        let author = context.text(author).text.replace('\n', " ");
        let lines = text.lines().map(|line| format!("> {line}"));
        [format!("> {author} wrote:")].into_iter().chain(lines).collect::<Vec<_>>().join("\n")
    }
}
