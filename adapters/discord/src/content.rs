//! The text of a message in addition to its content: embeds, polls, stickers and the forwarded message.

use crate::objects::{Embed, Message, Poll, Sticker};

/// The maximum number of shown lines per embed or poll.
const LINES_MAX: usize = 30;

/// Returns the lines for the parts of a message that are not its content.
///
/// An embed counts if the author is a bot, because only bots can write one. Below a person's message an embed is the
/// preview of a link. <https://docs.discord.com/developers/resources/message#embed-object-embed-types>
pub(crate) fn lines(message: &Message) -> Vec<String> {
    let by_bot = message.webhook_id.is_some() || message.author.as_ref().is_some_and(|author| author.bot);
    let own = part_lines(&message.embeds, message.poll.as_ref(), &message.sticker_items, by_bot);
    let forwarded = message.message_snapshots.iter().flat_map(|snapshot| {
        let original = &snapshot.message;
        let content = Some(original.content.clone()).filter(|content| !content.trim().is_empty());
        content.into_iter().chain(part_lines(&original.embeds, original.poll.as_ref(), &original.sticker_items, true))
    });
    own.into_iter().chain(forwarded).collect()
}

/// Returns the content of a message with the lines of its other parts, as a reader sees it.
pub(crate) fn full_text(message: &Message) -> String {
    let content = Some(message.content.clone()).filter(|content| !content.trim().is_empty());
    content.into_iter().chain(lines(message)).collect::<Vec<_>>().join("\n")
}

fn part_lines(embeds: &[Embed], poll: Option<&Poll>, stickers: &[Sticker], by_bot: bool) -> Vec<String> {
    let cards = embeds.iter().filter(|embed| by_bot && embed.kind.as_deref().is_none_or(|kind| kind == "rich"));
    let cards = cards.map(card).filter(|card| !card.is_empty());
    let polls = poll.map(|poll| {
        let answers = poll.answers.iter().take(LINES_MAX).filter_map(|answer| answer.poll_media.text.as_deref());
        let answers: String = answers.map(|answer| format!("\n- {answer}")).collect();
        format!("[poll: {}{answers}]", poll.question.text.as_deref().unwrap_or_default())
    });
    let stickers = stickers.iter().map(|sticker| format!("[sticker: {}]", sticker.name));
    cards.chain(polls).chain(stickers).collect()
}

/// Returns the text of an embed, line by line.
fn card(embed: &Embed) -> String {
    let author = embed.author.as_ref().and_then(|author| author.name.clone());
    let title = embed.title.as_ref().map(|title| match &embed.url {
        Some(url) => format!("{title} ({url})"),
        None => title.clone(),
    });
    let mut lines: Vec<String> = [author, title, embed.description.clone()].into_iter().flatten().collect();
    lines.extend(embed.fields.iter().take(LINES_MAX).map(|field| format!("{}: {}", field.name, field.value)));
    lines.extend(embed.footer.as_ref().and_then(|footer| footer.text.clone()));
    lines.retain(|line| !line.trim().is_empty());
    lines.join("\n")
}
