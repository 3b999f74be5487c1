//! Outgoing files: uploaded one by one, and shown in one message.

use std::time::Duration;

use hermes_adapter_sdk::prelude::*;
use serde_json::{Value, json};
use tokio::fs::File;
use tokio::time::{Instant, timeout_at};

use crate::api::{ApiError, Rejection, call_by};
use crate::errors::{is_server_fault, refusal};
use crate::objects::{CompletedUpload, UploadUrl};
use crate::workspace::Destination;

/// The part of a message's time for completing the uploads of files.
pub(crate) const COMPLETE_TIMEOUT: Duration = Duration::from_secs(20);

/// Uploads the files and shows them in one message; they are invisible before the last step.
/// <https://docs.slack.dev/messaging/working-with-files#upload>
pub(crate) async fn send_files(
    destination: &Destination<'_>,
    message: &Outgoing,
    comment: &str,
    until: Instant,
) -> Result<Vec<String>, ApiError> {
    let left = until.saturating_duration_since(Instant::now());
    let files = timeout_at(until - COMPLETE_TIMEOUT.min(left / 2), upload_all(destination, &message.media)).await;
    let files = files.map_err(|_| ApiError::NoEffect("the files were not uploaded in time".to_owned()))??;
    let mut parameters = vec![("files", Value::Array(files.clone())), ("channel_id", json!(destination.channel))];
    if let Some(thread) = &message.chat.thread {
        parameters.push(("thread_ts", json!(thread)));
    }
    if !comment.trim().is_empty() {
        parameters.push(("initial_comment", json!(comment)));
    }
    let completed: CompletedUpload =
        call_by(until, destination.call("files.completeUploadExternal", &parameters)).await?;
    // Slack may show the files later; until then only the files have ids.
    let message = completed.files.iter().find_map(|file| message_of_file(file, &destination.channel));
    let file_ids = files.iter().filter_map(|file| file["id"].as_str()).map(str::to_owned);
    Ok(message.map_or_else(|| file_ids.collect(), |ts| vec![ts]))
}

async fn upload_all(destination: &Destination<'_>, media: &[OutMedia]) -> Result<Vec<Value>, ApiError> {
    let mut files = Vec::new();
    for file in media {
        let (bytes, length) = open(file).await?;
        let parameters = [("filename", json!(file.name)), ("length", json!(length))];
        let target: UploadUrl = before_completion(destination.call("files.getUploadURLExternal", &parameters).await)?;
        before_completion(destination.api.upload(&target.upload_url, bytes, length).await)?;
        files.push(json!({ "id": target.file_id, "title": file.name }));
    }
    Ok(files)
}

/// Converts an error before the last step: nothing is visible yet, so the result is
/// certain, and the error of a file affects no other chat.
fn before_completion<T>(result: Result<T, ApiError>) -> Result<T, ApiError> {
    result.map_err(|error| match error {
        ApiError::Unknown(why) => ApiError::NoEffect(why),
        ApiError::Refused(refused) if is_server_fault(&refused.code) => ApiError::NoEffect(refused.to_string()),
        other => other,
    })
}

/// Returns the message that shows a file. <https://docs.slack.dev/reference/objects/file-object>
fn message_of_file(file: &Value, channel: &str) -> Option<String> {
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
        ApiError::Refused(Rejection { code: "file".to_owned(), detail, retry_after_ms: None })
    })
}

/// Returns whether a rejected upload is independent of the chat, the text and the token: the app has no permission
/// for uploads, uploads are disabled, the storage is full, the type is not allowed, or the code is unknown. If the
/// cause is the chat after all, the text gets the same rejection. Nothing is visible before an upload is completed.
pub(crate) fn is_about_files(refused: &Rejection) -> bool {
    match refusal(refused) {
        SendOutcome::Refused { kind, .. } => {
            matches!(kind, RefusalKind::Invalid | RefusalKind::Forbidden | RefusalKind::BadFormat)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests;
