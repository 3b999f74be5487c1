//! `session export`: one conversation as a whole, for people or for programs.

use std::fmt::Write as _;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use hermes_agent::Role;
use serde_json::json;

use crate::engine::operator::{ControlReply, ControlRequest, FullMessage, SessionDetail};
use crate::surface::cli::ask;
use crate::surface::cli::ask::{print, print_json, unexpected};
use crate::surface::cli::{Context, Failure};

/// Writes one conversation to a file or the standard output.
pub async fn export(context: &Context, session: String, format: &str, output: Option<&Path>) -> Result<(), Failure> {
    let (session, messages) = whole(context, session).await?;
    let value = json!({ "session": session, "messages": messages });
    match (output, format) {
        (None, "json") => print_json(&value),
        (None, _) => print(&markdown(&session, &messages)),
        (Some(file), "json") => {
            let text = serde_json::to_string_pretty(&value).map_err(|error| Failure::failed(error.to_string()))?;
            write(file, &format!("{text}\n"))
        }
        (Some(file), _) => write(file, &markdown(&session, &messages)),
    }
}

/// Requests the transcript page by page.
async fn whole(context: &Context, session: String) -> Result<(SessionDetail, Vec<FullMessage>), Failure> {
    let (mut name, mut after, mut from_byte) = (session, 0, 0);
    let mut all: Vec<FullMessage> = Vec::new();
    loop {
        let request = ControlRequest::SessionTranscript { session: name, after, from_byte };
        let reply = ask::host_or_store(context, &request).await?;
        let ControlReply::Transcript { session, messages } = reply else { return Err(unexpected(&reply)) };
        // The name may change in the meantime; the id does not.
        name = session.info.id.clone();
        let Some(last) = messages.last() else { return Ok((*session, all)) };
        let continued = from_byte > 0;
        // The rest of a long message is requested with the id of the message before it.
        (after, from_byte) = match last.rest_from_byte {
            Some(byte) => (after, byte),
            None => (last.id, 0),
        };
        let mut messages = messages.into_iter();
        if continued && let (Some(begun), Some(rest)) = (all.last_mut(), messages.next()) {
            begun.message.content.push_str(&rest.message.content);
        }
        all.extend(messages.map(|message| FullMessage { rest_from_byte: None, ..message }));
    }
}

fn markdown(session: &SessionDetail, messages: &[FullMessage]) -> String {
    let info = &session.info;
    let mut out = format!("# {}\n\n", info.title.as_deref().unwrap_or(&info.id));
    let _ = writeln!(out, "- Session: `{}`", info.id);
    let _ = writeln!(out, "- Started: {} on {}", time(info.started_ms), info.source);
    if let (Some(lineage), Some(parent)) = (&session.lineage, &session.parent) {
        let _ = writeln!(out, "- Follows: `{parent}` ({lineage})");
    }
    if let (Some(ended_ms), Some(reason)) = (info.ended_ms, &info.end_reason) {
        let _ = writeln!(out, "- Ended: {} ({reason})", time(ended_ms));
    }
    let (turns, input, output) = (session.turns, session.input_tokens, session.output_tokens);
    let _ = writeln!(out, "- Turns: {turns}, tokens: {input} in, {output} out");
    if let Some(summary) = &session.summary {
        let _ = write!(out, "\n## Before\n\n{summary}\n");
    }
    for FullMessage { at_ms, message, .. } in messages {
        let who = match message.role {
            Role::System => "System",
            Role::User => "User",
            Role::Assistant => "Assistant",
            Role::Tool => "Tool",
        };
        let _ = write!(out, "\n## {who}, {}\n\n", time(*at_ms));
        if !message.content.is_empty() {
            let _ = writeln!(out, "{}", message.content);
        }
        for call in &message.tool_calls {
            let call = serde_json::to_string_pretty(call).unwrap_or_default();
            let _ = write!(out, "\n```json\n{call}\n```\n");
        }
    }
    out
}

fn time(ms: i64) -> String {
    jiff::Timestamp::from_millisecond(ms)
        .map_or_else(|_| "?".to_owned(), |at| at.strftime("%Y-%m-%d %H:%M:%S UTC").to_string())
}

fn write(file: &Path, text: &str) -> Result<(), Failure> {
    // An existing file keeps its mode; a new one is readable by its owner only.
    let opened = std::fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(file);
    opened
        .and_then(|mut opened| opened.write_all(text.as_bytes()))
        .map_err(|error| Failure::failed(format!("{} cannot be written ({error})", file.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_conversation_reads_as_markdown_with_what_its_tools_did() {
        let session: SessionDetail = serde_json::from_value(json!({
            "id": "20260101_000000_00000001", "title": "Rome", "source": "fake", "messages": 2, "started_ms": 0,
            "last_ms": 0, "parent": "p", "lineage": "compression", "summary": "They met.", "turns": 1,
            "input_tokens": 10, "output_tokens": 5,
        }))
        .unwrap();
        let messages: Vec<FullMessage> = serde_json::from_value(json!([
            { "id": 1, "at_ms": 0, "role": "user", "content": "hello" },
            { "id": 2, "at_ms": 1000, "role": "assistant", "content": "", "tool_calls": [{ "id": "c1" }] },
        ]))
        .unwrap();
        assert_eq!(
            markdown(&session, &messages),
            "# Rome\n\n- Session: `20260101_000000_00000001`\n- Started: 1970-01-01 00:00:00 UTC on fake\n\
             - Follows: `p` (compression)\n- Turns: 1, tokens: 10 in, 5 out\n\n## Before\n\nThey met.\n\n\
             ## User, 1970-01-01 00:00:00 UTC\n\nhello\n\n## Assistant, 1970-01-01 00:00:01 UTC\n\n\n\
             ```json\n{\n  \"id\": \"c1\"\n}\n```\n"
        );
    }
}
