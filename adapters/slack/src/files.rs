//! The files of a message, brought to the host.

use std::time::Duration;

use futures_util::stream::{self, StreamExt};
use hermes_adapter_net::fetch::{FetchError, Fetched, Fetcher};
use hermes_adapter_net::reqwest::Url;
use hermes_adapter_net::reqwest::header::{AUTHORIZATION, HeaderMap, HeaderValue};
use hermes_adapter_sdk::prelude::*;
use serde_json::json;
use tokio::io::AsyncWriteExt;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout_at};

use crate::account::{Account, Space};
use crate::api::{File, FileInfo};

/// How long the files of one message may take in all: what is written behind it in its channel waits.
const FILES_TIMEOUT: Duration = Duration::from_secs(60);
/// Files of one message that are fetched at a time, and of all of them.
const FETCHES_MAX: usize = 4;
const ALL_FETCHES_MAX: usize = 32;

/// Fetches files with the token of their workspace, where that may be seen.
pub struct Files {
    fetcher: Fetcher,
    /// Origins of files that the operator configured.
    origins: Vec<Url>,
    bytes_max: u64,
    places: Semaphore,
}

impl Files {
    /// Files of at most `bytes_max` bytes, from Slack or from these origins.
    pub fn new(fetcher: Fetcher, origins: Vec<Url>, bytes_max: u64) -> Self {
        Self { fetcher, origins, bytes_max, places: Semaphore::new(ALL_FETCHES_MAX) }
    }

    /// Brings the files of one message to the host, together and in their order, within one deadline.
    pub async fn fetch_all(&self, account: &Account, host: &Host, space: &Space, files: Vec<File>) -> Vec<Attachment> {
        let until = Instant::now() + FILES_TIMEOUT;
        let fetches = files.into_iter().map(|file| self.fetch(account, host, space, file, until));
        stream::iter(fetches).buffered(FETCHES_MAX).collect().await
    }

    /// Brings a file to the host; one that cannot be had is named with the reason.
    async fn fetch(&self, account: &Account, host: &Host, space: &Space, file: File, until: Instant) -> Attachment {
        let name = file.name.clone().unwrap_or_else(|| "file".to_owned());
        let (kind, size) = (kind_of(&file), file.size.unwrap_or_default());
        let fetched = async {
            let _place = self.places.acquire().await.map_err(|error| error.to_string())?;
            self.try_fetch(account, host, space, file, &name).await
        };
        let fetched = timeout_at(until, fetched).await;
        match fetched.unwrap_or_else(|_| Err(format!("the files of a message may take {FILES_TIMEOUT:?} in all"))) {
            Ok((media, mime, size)) => Attachment::new(media, kind, mime, name, size),
            Err(note) => {
                tracing::info!(size, %note, "a file was not fetched");
                Attachment::missing(kind, name, size, note)
            }
        }
    }

    async fn try_fetch(
        &self,
        account: &Account,
        host: &Host,
        space: &Space,
        mut file: File,
        name: &str,
    ) -> Result<(String, String, u64), String> {
        if file.file_access.as_deref() == Some("check_file_info") {
            let parameters = [("file", json!(file.id))];
            let found: Result<FileInfo, _> = account.api.call(&space.token, "files.info", &parameters).await;
            file = found.map_err(|error| error.to_string())?.file;
        }
        if file.is_external || file.mode.as_deref() == Some("external") {
            return Err("the file lies at another service, where only its link leads".to_owned());
        }
        if let Some(size) = file.size.filter(|size| *size > self.bytes_max) {
            return Err(format!("the file has {size} bytes and at most {} are fetched", self.bytes_max));
        }
        let address =
            file.url_private_download.or(file.url_private).ok_or("Slack does not offer the file for download")?;
        let url = Url::parse(&address).map_err(|_| "the file's address is none")?;
        if !is_slacks(&url, &self.origins) {
            return Err("the file's address is none of Slack's, so the token is not shown there".to_owned());
        }
        let mut headers = HeaderMap::new();
        let bearer = HeaderValue::from_str(&format!("Bearer {}", space.token)).map_err(|_| "the token is no header")?;
        headers.insert(AUTHORIZATION, bearer);
        let mime = file.mimetype.unwrap_or_else(|| "application/octet-stream".to_owned());
        let found = self.fetcher.fetch(url.as_str(), headers).await.map_err(|error| said(&error))?;
        // Who may not read a file is sent to the page where people sign in.
        if found.content_type() == Some("text/html") && mime != "text/html" {
            return Err(
                "Slack answered with a page instead of the file; does the app have the scope files:read?".to_owned()
            );
        }
        let slot = host.media().create(MediaCreate::new(name, &mime, found.content_length())).await;
        let slot = slot.map_err(|error| error.to_string())?;
        let size = write(found, &slot.path).await?;
        host.media().commit(&slot.id).await.map_err(|error| error.to_string())?;
        Ok((slot.id, mime, size))
    }
}

/// Writes a file as it comes; returns its size.
async fn write(mut found: Fetched, path: &str) -> Result<u64, String> {
    let not_kept = |error: std::io::Error| format!("the file could not be kept: {error}");
    let mut target = tokio::fs::File::create(path).await.map_err(not_kept)?;
    let mut size = 0;
    while let Some(piece) = found.chunk().await.map_err(|error| said(&error))? {
        size += piece.len() as u64;
        target.write_all(&piece).await.map_err(not_kept)?;
    }
    target.flush().await.map_err(not_kept)?;
    Ok(size)
}

fn said(error: &FetchError) -> String {
    match error {
        FetchError::TooLarge { bytes_max } => format!("the file is longer than the {bytes_max} bytes that are fetched"),
        error => error.to_string(),
    }
}

/// Whether a file's address may see a token. <https://docs.slack.dev/reference/objects/file-object>
fn is_slacks(url: &Url, configured: &[Url]) -> bool {
    let host = url.host_str().unwrap_or_default();
    let theirs = ["slack.com", "slack-files.com", "slack-gov.com"];
    let is_theirs =
        theirs.iter().any(|name| host.strip_suffix(name).is_some_and(|left| left.is_empty() || left.ends_with('.')));
    (url.scheme() == "https" && is_theirs) || configured.iter().any(|origin| origin.origin() == url.origin())
}

fn kind_of(file: &File) -> AttachmentKind {
    let mime = file.mimetype.as_deref().unwrap_or_default();
    match (file.subtype.as_deref(), mime.split('/').next()) {
        (Some("slack_audio"), _) => AttachmentKind::Voice,
        (_, Some("image")) => AttachmentKind::Image,
        (_, Some("video")) => AttachmentKind::Video,
        (_, Some("audio")) => AttachmentKind::Audio,
        _ => AttachmentKind::File,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_shown_to_slack_only() {
        let url = |text: &str| Url::parse(text).unwrap();
        let configured = [url("http://127.0.0.1:4003")];
        for (address, expected) in [
            ("https://files.slack.com/files-pri/T1-F1/a.txt", true),
            ("https://acme.slack.com/a", true),
            ("http://files.slack.com/a", false),
            ("https://notslack.com/a", false),
            ("https://slack.com.example.org/a", false),
            ("http://127.0.0.1:4003/files-pri/F1/a", true),
            ("http://127.0.0.1:4004/files-pri/F1/a", false),
        ] {
            assert_eq!(is_slacks(&url(address), &configured), expected, "{address}");
        }
    }

    #[test]
    fn what_was_spoken_into_the_chat_is_a_voice_message() {
        let file = |mime: &str, subtype: Option<&str>| File {
            mimetype: Some(mime.to_owned()),
            subtype: subtype.map(str::to_owned),
            ..File::default()
        };
        assert_eq!(kind_of(&file("audio/mp4", Some("slack_audio"))), AttachmentKind::Voice);
        assert_eq!(kind_of(&file("audio/mp4", None)), AttachmentKind::Audio);
        assert_eq!(kind_of(&file("image/png", None)), AttachmentKind::Image);
        assert_eq!(kind_of(&file("", None)), AttachmentKind::File);
    }
}
