//! The text in blocks and attachments of a message: alerts, cards and quoted messages.

use serde_json::Value;

/// The deepest nesting of blocks that is read.
const DEPTH_MAX: usize = 8;
/// The most lines that one message may add.
const LINES_MAX: usize = 100;

/// Returns the lines that blocks show, in mrkdwn. <https://docs.slack.dev/reference/block-kit/blocks>
pub(crate) fn block_lines(blocks: &Value) -> Vec<String> {
    let mut lines = Vec::new();
    for block in blocks.as_array().into_iter().flatten().take(LINES_MAX) {
        read_block(block, &mut lines);
    }
    lines.retain(|line| !line.trim().is_empty());
    lines.truncate(LINES_MAX);
    lines
}

/// Returns whether blocks contain more than the rich text of the message itself, which its `text` repeats.
pub(crate) fn is_card(blocks: &Value) -> bool {
    blocks.as_array().is_some_and(|blocks| blocks.iter().any(|block| block["type"] != "rich_text"))
}

fn read_block(block: &Value, lines: &mut Vec<String>) {
    let string = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    match block["type"].as_str().unwrap_or_default() {
        "rich_text" => lines.push(rich_text(block, 0)),
        "image" | "video" => {
            let title = [&block["title"]["text"], &block["alt_text"]].into_iter().find_map(Value::as_str);
            lines.extend(title.map(|title| format!("[{}: {title}]", string(&block["type"]))));
        }
        "markdown" => lines.push(string(&block["text"])),
        // Buttons and menus have no meaning without their interface.
        "actions" | "input" | "divider" | "file" => {}
        _ => {
            lines.push(string(&block["text"]["text"]));
            for field in block["fields"].as_array().into_iter().flatten().take(LINES_MAX) {
                lines.push(string(&field["text"]));
            }
            let elements = block["elements"].as_array().into_iter().flatten().take(LINES_MAX);
            let shown: Vec<String> = elements.filter_map(|one| one["text"].as_str().map(str::to_owned)).collect();
            lines.push(shown.join(" "));
            for row in block["rows"].as_array().into_iter().flatten().take(LINES_MAX) {
                let cells = row.as_array().into_iter().flatten();
                lines.push(cells.map(|cell| rich_text(cell, 0)).collect::<Vec<_>>().join(" | "));
            }
        }
    }
}

/// Returns rich text as mrkdwn without styles. <https://docs.slack.dev/reference/block-kit/blocks/rich-text-block>
fn rich_text(element: &Value, depth: usize) -> String {
    if depth > DEPTH_MAX {
        return String::new();
    }
    let id = |key: &str| element[key].as_str().unwrap_or_default();
    match element["type"].as_str().unwrap_or_default() {
        "text" | "raw_text" => id("text").to_owned(),
        "link" => match id("text") {
            "" => format!("<{}>", id("url")),
            label => format!("<{}|{label}>", id("url")),
        },
        "user" => format!("<@{}>", id("user_id")),
        "channel" => format!("<#{}>", id("channel_id")),
        "emoji" => format!(":{}:", id("name")),
        kind => {
            let parts = element["elements"].as_array().into_iter().flatten().take(LINES_MAX);
            let parts: Vec<String> = parts.map(|part| rich_text(part, depth + 1)).collect();
            match kind {
                "rich_text_list" => parts.into_iter().map(|item| format!("- {item}")).collect::<Vec<_>>().join("\n"),
                "rich_text" => parts.join("\n"),
                _ => parts.concat(),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn blocks_become_lines() {
        let blocks = json!([
            { "type": "header", "text": { "type": "plain_text", "text": "DiskFull" } },
            { "type": "section", "text": { "type": "mrkdwn", "text": "*db-1*" }, "fields": [{ "type": "mrkdwn", "text": "region: north" }] },
            { "type": "context", "elements": [{ "type": "mrkdwn", "text": "since 9:00" }, { "type": "image", "alt_text": "x" }] },
            { "type": "image", "alt_text": "a graph" },
            { "type": "actions", "elements": [{ "type": "button", "text": { "type": "plain_text", "text": "Ack" } }] },
            { "type": "rich_text", "elements": [
                { "type": "rich_text_section", "elements": [{ "type": "text", "text": "see " }, { "type": "link", "url": "https://e.x" }, { "type": "user", "user_id": "U1" }] },
                { "type": "rich_text_list", "elements": [{ "type": "rich_text_section", "elements": [{ "type": "text", "text": "one" }] }] },
            ] },
            { "type": "of_the_future" }, 7,
        ]);
        assert_eq!(
            block_lines(&blocks),
            ["DiskFull", "*db-1*", "region: north", "since 9:00", "[image: a graph]", "see <https://e.x><@U1>\n- one"]
        );
        assert!(block_lines(&json!("none")).is_empty());
        let mut deep = json!({ "type": "text", "text": "x" });
        for _ in 0..100 {
            deep = json!({ "type": "rich_text_section", "elements": [deep] });
        }
        assert!(block_lines(&json!([{ "type": "rich_text", "elements": [deep] }])).is_empty());
    }
}
