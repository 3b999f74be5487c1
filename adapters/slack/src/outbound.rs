//! Conversion of parts to calls, and of Slack's responses to outcomes.
//!
//! This module alone classifies the platform's errors.

use std::time::Duration;

use hermes_adapter_sdk::prelude::*;
use hermes_adapter_sdk::protocol::text::prefix;
use hermes_adapter_sdk::{not_attached, with_line};
use serde_json::{Value, json};
use tokio::fs::File;
use tokio::time::{Instant, timeout_at};

use crate::account::Space;
use crate::api::{Api, ApiError, Completed, Done, Posted, Refused, UploadPlace};
use crate::inbound::{at_ms, is_ts};
use crate::text::{escape, linked};

/// The maximum length of a section, in UTF-16 units. <https://docs.slack.dev/reference/block-kit/blocks/section-block>
const SECTION_UTF16_MAX: usize = 3000;
/// The length of the marks of a code block that continues in the next section, in UTF-16 units.
const FENCE_UTF16: usize = 8;
/// The maximum number of buttons in a row. <https://docs.slack.dev/reference/block-kit/blocks/actions-block>
const BUTTONS_MAX: usize = 25;
/// The maximum length of a label, in characters.
/// <https://docs.slack.dev/reference/block-kit/block-elements/button-element>
const LABEL_CHARS_MAX: usize = 75;
/// The maximum length of `text`, in bytes; a longer text is sent as blocks. `chat.update` rejects a longer one,
/// and `chat.postMessage` splits it into several messages.
/// <https://docs.slack.dev/reference/methods/chat.update#errors>
const TEXT_BYTES_MAX: usize = 4000;
/// The total time for a message if the host gives none. The time ends before a host that waits one minute, so that the
/// host receives the result.
pub const SEND_TIMEOUT: Duration = Duration::from_secs(55);
/// The part of that time for completing the uploads of files.
const SHOW_TIMEOUT: Duration = Duration::from_secs(20);

/// Sends one part; every call ends by `until`.
pub async fn send(
    api: &Api,
    space: &Space,
    channel: &str,
    message: &Outgoing,
    now_ms: i64,
    until: Instant,
) -> SendOutcome {
    let mut ids = Vec::new();
    let mut with_files = !message.media.is_empty() && message.choices.is_none();
    let mut without = None;
    if !message.media.is_empty() {
        let comment = if with_files { text(message) } else { String::new() };
        match send_files(api, space, channel, message, &comment, until).await {
            Ok(mut sent) => ids.append(&mut sent),
            // The text is sent even if its files are rejected.
            Err(ApiError::Refused(refused)) if is_about_the_files(&refused) => {
                with_files = false;
                without = Some(without_files(message, &refused));
            }
            Err(error) => return outcome(&error),
        }
    }
    let message = without.as_ref().unwrap_or(message);
    if with_files || (message.text.trim().is_empty() && !ids.is_empty()) {
        return SendOutcome::Delivered { receipt: Receipt::new(ids, now_ms) };
    }
    if message.text.trim().is_empty() {
        return SendOutcome::refused(RefusalKind::Invalid, "the text is empty; Slack does not accept empty messages");
    }
    match by(until, post(api, space, channel, message)).await {
        Ok(ts) => {
            let at_ms = ts.as_deref().map_or(now_ms, at_ms);
            SendOutcome::Delivered { receipt: Receipt::new(ids.into_iter().chain(ts).collect(), at_ms) }
        }
        // The files have arrived: a retry of the whole message would duplicate them.
        Err(error) if !ids.is_empty() => SendOutcome::unknown(error.to_string()),
        Err(error) => outcome(&error),
    }
}

/// Runs a call until `until`; a call without a response may have taken effect.
async fn by<T>(until: Instant, call: impl Future<Output = Result<T, ApiError>>) -> Result<T, ApiError> {
    let answered = timeout_at(until, call).await;
    answered.unwrap_or_else(|_| Err(ApiError::Doubtful("Slack did not answer in time".to_owned())))
}

/// Posts a message; returns its id if Slack reports one.
async fn post(api: &Api, space: &Space, channel: &str, message: &Outgoing) -> Result<Option<String>, ApiError> {
    let (text, blocks) = said(message);
    let mut parameters = vec![
        ("channel", json!(channel)),
        ("mrkdwn", json!(message.format != Format::Plain)),
        ("text", json!(text)),
        ("blocks", blocks.unwrap_or_default()),
    ];
    parameters.extend(unseen().map(|name| (name, json!(false))));
    if let Some(thread) = &message.chat.thread {
        parameters.push(("thread_ts", json!(thread)));
    }
    let method = match &message.ephemeral_to {
        Some(user) => {
            parameters.push(("user", json!(user)));
            "chat.postEphemeral"
        }
        None => "chat.postMessage",
    };
    let posted: Posted = api.call(&space.token, method, &parameters).await?;
    Ok([posted.ts, posted.message_ts].into_iter().find(|ts| is_ts(ts)))
}

/// Returns the parameters that keep Slack from fetching links in an answer. An attacker could make the agent
/// write an address that carries data, and fetching it would send the data to the attacker without a click.
/// <https://docs.slack.dev/messaging/unfurling-links-in-messages#classic_unfurl>
fn unseen() -> impl Iterator<Item = &'static str> {
    ["unfurl_links", "unfurl_media"].into_iter()
}

/// Returns the text alone, or the beginning of the text for notifications with the whole text in blocks.
fn said(message: &Outgoing) -> (String, Option<Value>) {
    let text = text(message);
    match &message.choices {
        None if text.len() <= TEXT_BYTES_MAX => (text, None),
        choices => {
            let beginning = bounded(&escape(&message.source), TEXT_BYTES_MAX).to_owned();
            (beginning, Some(blocks(message, choices.as_ref())))
        }
    }
}

/// Answers a slash command in a channel without the app as a member. Only the sender of the command sees the
/// answer, and it cannot be edited later.
pub async fn respond(api: &Api, address: &str, message: &Outgoing, now_ms: i64, until: Instant) -> SendOutcome {
    match by(until, api.respond(address, &response(message))).await {
        Ok(()) => SendOutcome::Delivered { receipt: Receipt::new(Vec::new(), now_ms) },
        Err(error) => outcome(&error),
    }
}

fn response(message: &Outgoing) -> Value {
    let (text, blocks) = said(message);
    let mut response = json!({ "response_type": "ephemeral", "text": text });
    for name in unseen() {
        response[name] = json!(false);
    }
    if let Some(blocks) = blocks {
        response["blocks"] = blocks;
    }
    response
}

/// Edits a sent message.
pub async fn edit(api: &Api, space: &Space, channel: &str, ts: &str, message: &Outgoing, now_ms: i64) -> SendOutcome {
    if !is_ts(ts) {
        return SendOutcome::refused(RefusalKind::Invalid, format!("{ts:?} is not a Slack message that can be edited"));
    }
    let (text, blocks) = said(message);
    // Without `blocks` the previous blocks would remain.
    let blocks = blocks.unwrap_or_else(|| json!([]));
    let parameters = [("channel", json!(channel)), ("ts", json!(ts)), ("text", json!(text)), ("blocks", blocks)];
    match api.call::<Done>(&space.token, "chat.update", &parameters).await {
        Ok(_) => SendOutcome::delivered(ts, now_ms),
        Err(error) => outcome(&error),
    }
}

/// Posts the first message of a thread; returns its id.
pub async fn seed(api: &Api, space: &Space, channel: &str, words: &str) -> Result<String, ApiError> {
    let mut parameters = vec![("channel", json!(channel)), ("text", json!(escape(words))), ("mrkdwn", json!(false))];
    parameters.extend(unseen().map(|name| (name, json!(false))));
    let posted: Posted = api.call(&space.token, "chat.postMessage", &parameters).await?;
    match is_ts(&posted.ts) {
        true => Ok(posted.ts),
        false => Err(ApiError::Doubtful("Slack sent no id of the new message".to_owned())),
    }
}

fn text(message: &Outgoing) -> String {
    match message.format {
        Format::Plain => escape(&message.text),
        _ => message.text.clone(),
    }
}

/// Returns the text in sections, with the buttons below.
fn blocks(message: &Outgoing, choices: Option<&Choices>) -> Value {
    let is_plain = message.format == Format::Plain;
    let section = |text: String| match is_plain {
        true => json!({ "type": "section", "text": { "type": "plain_text", "text": text } }),
        // Otherwise Slack parses names in the text, and `@channel` notifies everybody.
        false => json!({ "type": "section", "text": { "type": "mrkdwn", "text": text, "verbatim": true } }),
    };
    // Verbatim text has explicit links only.
    let text = if is_plain { message.text.clone() } else { linked(&message.text) };
    let mut blocks: Vec<Value> = sections(&text).into_iter().map(section).collect();
    let Some(choices) = choices else { return Value::Array(blocks) };
    for (row, options) in choices.options.chunks(BUTTONS_MAX).enumerate() {
        let button = |(n, option): (usize, &ChoiceOption)| {
            let label: String = option.label.chars().take(LABEL_CHARS_MAX).collect();
            let mut button = json!({
                "type": "button",
                // Unique within the row.
                "action_id": format!("choice_{n}"),
                "text": { "type": "plain_text", "text": label },
                "value": format!("{}:{}", choices.ask, option.id),
            });
            if matches!(option.style.as_str(), "primary" | "danger") {
                button["style"] = json!(option.style);
            }
            button
        };
        let elements: Vec<Value> = options.iter().enumerate().map(button).collect();
        blocks.push(json!({ "type": "actions", "block_id": format!("{}_{row}", choices.ask), "elements": elements }));
    }
    Value::Array(blocks)
}

/// Splits a text into pieces that fit a section: at the end of a line if possible, never inside a link or an
/// escaped character. A split code block is closed and opened again.
fn sections(text: &str) -> Vec<String> {
    let (mut found, mut rest, mut fenced) = (Vec::new(), text, false);
    while !rest.is_empty() {
        let open = if fenced { "```\n" } else { "" };
        let whole = rest.encode_utf16().count() + open.len() <= SECTION_UTF16_MAX;
        let at = if whole { rest.len() } else { cut(rest, SECTION_UTF16_MAX - FENCE_UTF16 - open.len()) };
        let (piece, behind) = rest.split_at(at);
        fenced ^= piece.matches("```").count() % 2 == 1;
        let close = if fenced && !whole { "\n```" } else { "" };
        let piece = format!("{open}{}{close}", piece.trim_end_matches('\n'));
        if !piece.trim().is_empty() {
            found.push(piece);
        }
        rest = behind.trim_start_matches('\n');
    }
    found
}

/// Returns the position at which to split a text longer than `max` UTF-16 units.
fn cut(text: &str, max: usize) -> usize {
    let mut units = 0;
    let end = text.char_indices().find_map(|(at, c)| {
        units += c.len_utf16();
        (units > max).then_some(at)
    });
    let end = end.unwrap_or(text.len());
    let head = &text[..end];
    let line = head.rfind('\n').filter(|at| *at > 0);
    let word = line.or_else(|| head.rfind(' ').filter(|at| *at > 0)).unwrap_or(end);
    let head = &text[..word];
    let opened = [head.rfind('<').filter(|at| !head[*at..].contains('>')), open_escape(head)];
    match opened.into_iter().flatten().min() {
        Some(at) if at > 0 => at,
        _ => word,
    }
}

/// Returns the start of an escaped character that is incomplete at the end of `head`.
fn open_escape(head: &str) -> Option<usize> {
    head.rfind('&').filter(|at| head.len() - at < "&amp;".len() && !head[*at..].contains(';'))
}

/// Returns the beginning of an escaped text, at most `max` bytes long.
fn bounded(text: &str, max: usize) -> &str {
    let head = prefix(text, max);
    if head.len() == text.len() { text } else { &head[..open_escape(head).unwrap_or(head.len())] }
}

/// Uploads the files and shows them in one message; they are invisible before the last step.
/// <https://docs.slack.dev/messaging/working-with-files#upload>
async fn send_files(
    api: &Api,
    space: &Space,
    channel: &str,
    message: &Outgoing,
    comment: &str,
    until: Instant,
) -> Result<Vec<String>, ApiError> {
    let left = until.saturating_duration_since(Instant::now());
    let files = timeout_at(until - SHOW_TIMEOUT.min(left / 2), upload_all(api, space, &message.media)).await;
    let files = files.map_err(|_| ApiError::Held("the files were not uploaded in time".to_owned()))??;
    let mut parameters = vec![("files", Value::Array(files.clone())), ("channel_id", json!(channel))];
    if let Some(thread) = &message.chat.thread {
        parameters.push(("thread_ts", json!(thread)));
    }
    if !comment.trim().is_empty() {
        parameters.push(("initial_comment", json!(comment)));
    }
    let done: Completed = by(until, api.call(&space.token, "files.completeUploadExternal", &parameters)).await?;
    // Slack may show the files later; until then only the files have ids.
    let shown = done.files.iter().find_map(|file| share(file, channel));
    let named = files.iter().filter_map(|file| file["id"].as_str()).map(str::to_owned);
    Ok(shown.map_or_else(|| named.collect(), |ts| vec![ts]))
}

async fn upload_all(api: &Api, space: &Space, media: &[OutMedia]) -> Result<Vec<Value>, ApiError> {
    let mut files = Vec::new();
    for file in media {
        let (bytes, length) = open(file).await?;
        let parameters = [("filename", json!(file.name)), ("length", json!(length))];
        let place: UploadPlace = not_yet(api.call(&space.token, "files.getUploadURLExternal", &parameters).await)?;
        not_yet(api.upload(&place.upload_url, bytes, length).await)?;
        files.push(json!({ "id": place.file_id, "title": file.name }));
    }
    Ok(files)
}

/// Converts an error before the last step: nothing is visible yet, so the result is
/// certain, and the error of a file affects no other chat.
fn not_yet<T>(result: Result<T, ApiError>) -> Result<T, ApiError> {
    result.map_err(|error| match error {
        ApiError::Doubtful(why) => ApiError::Held(why),
        ApiError::Refused(refused) if is_sick(&refused.code) => ApiError::Held(refused.to_string()),
        other => other,
    })
}

/// Returns the message that shows a file. <https://docs.slack.dev/reference/objects/file-object>
fn share(file: &Value, channel: &str) -> Option<String> {
    let shares = [&file["shares"]["public"], &file["shares"]["private"]];
    shares.into_iter().find_map(|kind| kind[channel][0]["ts"].as_str()).map(str::to_owned)
}

/// Opens a file and returns it with its length in bytes. A file that is unreadable now stays unreadable.
async fn open(file: &OutMedia) -> Result<(File, u64), ApiError> {
    let opened = async {
        let bytes = File::open(&file.path).await?;
        let about = bytes.metadata().await?;
        if !about.is_file() {
            return Err(std::io::Error::other("it is not a regular file"));
        }
        Ok((bytes, about.len()))
    };
    opened.await.map_err(|error: std::io::Error| {
        let detail = format!("{} cannot be read: {error}", file.name);
        ApiError::Refused(Refused { code: "file".to_owned(), detail, retry_after_ms: None })
    })
}

/// Returns the outcome of a delivery that failed with this error.
pub fn outcome(error: &ApiError) -> SendOutcome {
    match error {
        ApiError::NotSent(detail) => SendOutcome::not_sent(None, WaitScope::Instance, detail.clone()),
        ApiError::Held(detail) => SendOutcome::not_sent(None, WaitScope::Chat, detail.clone()),
        ApiError::Doubtful(detail) => SendOutcome::unknown(detail.clone()),
        ApiError::Refused(refused) => refusal(refused),
    }
}

/// Returns whether a rejected upload is independent of the chat, the text and the token: the app has no permission
/// for uploads, uploads are disabled, the storage is full, the type is not allowed, or the code is unknown. If the
/// cause is the chat after all, the text gets the same rejection. Nothing is visible before an upload is completed.
fn is_about_the_files(refused: &Refused) -> bool {
    match refusal(refused) {
        SendOutcome::Refused { kind, .. } => {
            matches!(kind, RefusalKind::Invalid | RefusalKind::Forbidden | RefusalKind::BadFormat)
        }
        _ => false,
    }
}

/// Returns the message without its files, with a line that names them and the reason.
fn without_files(message: &Outgoing, refused: &Refused) -> Outgoing {
    tracing::warn!(%refused, files = message.media.len(), "Slack rejected the files; sending the text without them");
    let mut without = message.clone();
    without.text = with_line(&message.text, &not_attached(&message.media, &message.format, &refused.to_string()));
    without.source = with_line(&message.source, &not_attached(&message.media, &Format::Plain, &refused.to_string()));
    without.media.clear();
    without
}

/// Returns whether Slack failed while processing the call.
fn is_sick(code: &str) -> bool {
    matches!(code, "fatal_error" | "internal_error")
}

/// Error codes for which another format of the text does not help; `file` and `response_url` are our own.
const INVALID: [&str; 14] = [
    "as_user_not_supported",
    "cant_update_message",
    "edit_window_closed",
    "file",
    "file_not_found",
    "message_not_found",
    "method_deprecated",
    "metadata_too_large",
    "missing_post_type",
    "no_text",
    "response_url",
    "unknown_method",
    "user_not_found",
    "users_not_found",
];

/// Classifies the codes of `chat.postMessage`, `chat.update` and `files.completeUploadExternal`.
/// <https://docs.slack.dev/reference/methods/chat.postMessage#errors>
fn refusal(refused: &Refused) -> SendOutcome {
    let kind = match refused.code.as_str() {
        // Slack allows one message per second and channel. <https://docs.slack.dev/apis/web-api/rate-limits>
        "ratelimited" | "rate_limited" => {
            return SendOutcome::not_sent(refused.retry_after_ms, WaitScope::Chat, refused.to_string());
        }
        "service_unavailable" | "request_timeout" | "team_added_to_org" => {
            return SendOutcome::not_sent(refused.retry_after_ms, WaitScope::Instance, refused.to_string());
        }
        // The call may have taken effect in part before the failure.
        code if is_sick(code) => return SendOutcome::unknown(refused.to_string()),
        "msg_too_long" | "msg_blocks_too_long" => RefusalKind::TooLong,
        "invalid_blocks" | "invalid_blocks_format" => RefusalKind::BadFormat,
        "channel_not_found" | "channel_is_archived" | "is_archived" => RefusalKind::ChatGone,
        "thread_not_found" | "invalid_thread_ts" | "cannot_reply_to_message" => RefusalKind::ThreadGone,
        "invalid_auth" | "not_authed" | "account_inactive" | "token_revoked" | "token_expired"
        | "org_login_required" => RefusalKind::Unauthorized,
        "not_in_channel"
        | "user_not_in_channel"
        | "messages_tab_disabled"
        | "missing_scope"
        | "no_permission"
        | "access_denied"
        | "ekm_access_denied"
        | "team_access_not_granted"
        | "two_factor_setup_required"
        | "not_allowed_token_type"
        | "cannot_dm_bot"
        | "posting_to_general_channel_denied" => RefusalKind::Forbidden,
        code if code.starts_with("restricted_action") => RefusalKind::Forbidden,
        code if INVALID.contains(&code) || code.starts_with("invalid_") => RefusalKind::Invalid,
        // An unknown code, which Slack may have added later. The cause may be the format of the text.
        _ => {
            tracing::warn!(%refused, "Slack rejected a message with an unknown error code; retrying once as plain text");
            RefusalKind::BadFormat
        }
    };
    SendOutcome::refused(kind, refused.to_string())
}

#[cfg(test)]
mod tests;
