//! Upload and download of files.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::body::{Body, Bytes};
use axum::extract::{Path, Query, Request, State};
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use futures_util::{StreamExt, stream};
use hermes_adapter_sdk::prelude::*;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;

use crate::connection::Connection;
use crate::refusal::{Refusal, not_found};
use crate::uploads::Upload;

/// The maximum pause between two chunks of an upload.
const UPLOAD_PAUSE_MAX: Duration = Duration::from_secs(30);

#[derive(Deserialize)]
pub(crate) struct NameQuery {
    name: String,
}

/// Receives one file and streams it into the host's media folder.
pub(crate) async fn upload(
    State(connection): State<Arc<Connection>>,
    Path(id): Path<String>,
    Query(NameQuery { name }): Query<NameQuery>,
    request: Request,
) -> Result<Json<Value>, Refusal> {
    let max = connection.upload_bytes_max();
    let too_large = || CallError::new("too_large", format!("the file is larger than {} MiB", max / (1024 * 1024)));
    connection.log.conversation(&id).await.ok_or_else(not_found)?;
    let (parts, body) = request.into_parts();
    let header = |name| parts.headers.get(name).and_then(|value: &HeaderValue| value.to_str().ok());
    let size: Option<u64> = header(header::CONTENT_LENGTH).and_then(|length| length.parse().ok());
    if size.is_some_and(|size| size > max) {
        return Err(too_large().into());
    }
    let mime = header(header::CONTENT_TYPE).unwrap_or("application/octet-stream").to_owned();
    let name: String =
        name.rsplit(['/', '\\']).next().unwrap_or("").chars().filter(|c| !c.is_control()).take(200).collect();
    let name = if name.trim_matches(['.', ' ']).is_empty() { "file".to_owned() } else { name };
    let slot = connection.host.media().create(MediaCreate::new(name.as_str(), mime.as_str(), size)).await?;
    write_file(&slot.path, body, max).await?;
    let info = connection.host.media().commit(&slot.id).await?;
    let kind = kind_of(&mime);
    let attachment = Attachment::new(slot.id.as_str(), kind, mime.as_str(), name.as_str(), info.size);
    connection.uploads.add(Upload { conversation: id, attachment, path: slot.path });
    Ok(Json(json!({ "id": slot.id, "name": name, "mime": mime, "size": info.size })))
}

async fn write_file(path: &str, body: Body, max: u64) -> Result<(), CallError> {
    let failed = |error: std::io::Error| CallError::new("unavailable", format!("the file cannot be saved: {error}"));
    let mut file = tokio::fs::File::create(path).await.map_err(failed)?;
    let mut pieces = body.into_data_stream();
    let mut written = 0_u64;
    loop {
        let piece: Bytes = match tokio::time::timeout(UPLOAD_PAUSE_MAX, pieces.next()).await {
            Ok(Some(Ok(piece))) => piece,
            Ok(Some(Err(_))) => return Err(CallError::new("invalid", "the upload was cut off")),
            Ok(None) => break,
            Err(_) => return Err(CallError::new("invalid", "the upload timed out")),
        };
        written += piece.len() as u64;
        if written > max {
            return Err(CallError::new("too_large", format!("the file is larger than {} MiB", max / (1024 * 1024))));
        }
        file.write_all(&piece).await.map_err(failed)?;
    }
    file.flush().await.map_err(failed)
}

fn kind_of(mime: &str) -> AttachmentKind {
    match mime.split('/').next() {
        Some("image") => AttachmentKind::Image,
        Some("video") => AttachmentKind::Video,
        Some("audio") => AttachmentKind::Audio,
        _ => AttachmentKind::File,
    }
}

/// Returns a file of the conversation. Images of safe types are shown; other files are
/// saved, so that no uploaded file can run as a part of this page.
pub(crate) async fn download(
    State(connection): State<Arc<Connection>>,
    Path((conversation, file)): Path<(String, String)>,
) -> Result<Response, Refusal> {
    let missing = || Refusal(CallError::new("not_found", "this file is no longer stored"));
    let file = connection.log.file(&conversation, &file).await?.ok_or_else(missing)?;
    let opened = tokio::fs::File::open(&file.path).await.map_err(|_| missing())?;
    let is_image = matches!(file.mime.as_str(), "image/png" | "image/jpeg" | "image/gif" | "image/webp");
    let pieces = stream::unfold(opened, |mut file| async move {
        use tokio::io::AsyncReadExt;
        let mut piece = vec![0; 64 * 1024];
        match file.read(&mut piece).await {
            Ok(0) => None,
            Ok(read) => {
                piece.truncate(read);
                Some((Ok::<_, std::io::Error>(Bytes::from(piece)), file))
            }
            Err(error) => Some((Err(error), file)),
        }
    });
    let mut response = Body::from_stream(pieces).into_response();
    let mime = if is_image { file.mime.as_str() } else { "application/octet-stream" };
    let ascii: String =
        file.name.chars().map(|c| if c.is_ascii_alphanumeric() || " ._-".contains(c) { c } else { '_' }).collect();
    let disposition = format!("{}; filename=\"{ascii}\"", if is_image { "inline" } else { "attachment" });
    let headers = response.headers_mut();
    for (name, value) in [(header::CONTENT_TYPE, mime), (header::CONTENT_DISPOSITION, &disposition)] {
        if let Ok(value) = HeaderValue::from_str(value) {
            headers.insert(name, value);
        }
    }
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static("default-src 'none'; sandbox"));
    Ok(response)
}
