//! The files of a message, downloaded when the host asks for them.

use hermes_adapter_net::fetch::{FetchError, Fetched, Fetcher};
use hermes_adapter_net::reqwest::Url;
use hermes_adapter_net::reqwest::header::{AUTHORIZATION, HeaderMap, HeaderValue};
use hermes_adapter_sdk::prelude::*;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::io::AsyncWriteExt;

use crate::account::{Account, Space};
use crate::api::{File, FileInfo};

/// The maximum length of a stored address, in bytes; a longer one is requested from Slack when needed.
const URL_BYTES_MAX: usize = 1024;

/// The location of a file.
#[derive(Serialize, Deserialize)]
struct Lies {
    /// The id of the workspace.
    team: String,
    /// The id of the file.
    id: String,
    /// The address of the file, if the message contains it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    url: Option<String>,
}

/// Returns the attachment of a message's file.
pub fn named(team: &str, file: &File) -> Attachment {
    let name = file.name.clone().unwrap_or_else(|| "file".to_owned());
    let (kind, size) = (kind_of(file), file.size.unwrap_or_default());
    if let Some(why) = elsewhere(file) {
        return Attachment::missing(kind, name, size, why);
    }
    let is_whole = file.file_access.as_deref() != Some("check_file_info");
    let url = address(file).filter(|url| is_whole && url.len() <= URL_BYTES_MAX).map(str::to_owned);
    let lies = Lies { team: team.to_owned(), id: file.id.clone(), url };
    let reference = serde_json::to_string(&lies).unwrap_or_default();
    Attachment::away(reference, kind, mime(file), name, size)
}

fn address(file: &File) -> Option<&str> {
    file.url_private_download.as_deref().or(file.url_private.as_deref())
}

fn mime(file: &File) -> &str {
    file.mimetype.as_deref().unwrap_or("application/octet-stream")
}

/// Returns the reason if the file is not stored at Slack.
fn elsewhere(file: &File) -> Option<&'static str> {
    let is_external = file.is_external || file.mode.as_deref() == Some("external");
    is_external.then_some("the file is stored at another service; only its link is available")
}

/// A downloader of files. The workspace's token is sent to trusted addresses only.
pub struct Files {
    fetcher: Fetcher,
    /// The origins of files that the operator configured.
    origins: Vec<Url>,
    bytes_max: u64,
}

impl Files {
    /// Creates a downloader for files of at most `bytes_max` bytes, from Slack or from these origins.
    pub fn new(fetcher: Fetcher, origins: Vec<Url>, bytes_max: u64) -> Self {
        Self { fetcher, origins, bytes_max }
    }

    /// Downloads a file for the host. If it fails, the returned attachment contains the reason.
    pub async fn fetch(&self, account: &Account, host: &Host, file: Attachment) -> Attachment {
        match self.try_fetch(account, host, file.clone()).await {
            Ok(fetched) => fetched,
            Err(note) => file.not_fetched(note),
        }
    }

    async fn try_fetch(&self, account: &Account, host: &Host, mut file: Attachment) -> Result<Attachment, String> {
        let lies: Lies = serde_json::from_str(file.fetch.as_deref().unwrap_or_default())
            .map_err(|_| "the location of the file is no longer known")?;
        let space = account.space(&lies.team).ok_or("`bot_token` no longer contains a token of its workspace")?;
        let address = match lies.url {
            Some(url) => url,
            None => look_up(account, &space, &lies.id, &mut file).await?,
        };
        if file.size > self.bytes_max {
            return Err(format!("the file has {} bytes; the limit is {}", file.size, self.bytes_max));
        }
        let url = Url::parse(&address).map_err(|_| "the address of the file is invalid")?;
        if !is_slacks(&url, &self.origins) {
            return Err("the address of the file does not belong to Slack, so the token is not sent there".to_owned());
        }
        let mut headers = HeaderMap::new();
        let bearer = HeaderValue::from_str(&format!("Bearer {}", space.token))
            .map_err(|_| "the token is not a valid header value")?;
        headers.insert(AUTHORIZATION, bearer);
        let found = self.fetcher.fetch(url.as_str(), headers).await.map_err(|error| said(&error))?;
        // Without permission Slack redirects to the sign-in page.
        if found.content_type() == Some("text/html") && file.mime != "text/html" {
            return Err(
                "Slack sent a web page instead of the file; check that the app has the scope files:read".to_owned()
            );
        }
        let slot = host.media().create(MediaCreate::new(&file.name, &file.mime, found.content_length())).await;
        let slot = slot.map_err(|error| error.to_string())?;
        let size = write(found, &slot.path).await?;
        host.media().commit(&slot.id).await.map_err(|error| error.to_string())?;
        Ok(file.fetched(slot.id, size))
    }
}

/// Requests details of a file that an event describes incompletely; returns its address.
async fn look_up(account: &Account, space: &Space, id: &str, known: &mut Attachment) -> Result<String, String> {
    let found: Result<FileInfo, _> = account.api.call(&space.token, "files.info", &[("file", json!(id))]).await;
    let file = found.map_err(|error| error.to_string())?.file;
    if let Some(why) = elsewhere(&file) {
        return Err(why.to_owned());
    }
    known.kind = kind_of(&file);
    mime(&file).clone_into(&mut known.mime);
    known.size = file.size.unwrap_or(known.size);
    known.name = file.name.clone().unwrap_or_else(|| known.name.clone());
    address(&file).map(str::to_owned).ok_or_else(|| "Slack does not offer the file for download".to_owned())
}

/// Streams a file to disk; returns its size in bytes.
async fn write(mut found: Fetched, path: &str) -> Result<u64, String> {
    let not_kept = |error: std::io::Error| format!("the file cannot be saved: {error}");
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
        FetchError::TooLarge { bytes_max } => format!("the file exceeds the limit of {bytes_max} bytes"),
        error => error.to_string(),
    }
}

/// Returns whether a file's address may receive a token. <https://docs.slack.dev/reference/objects/file-object>
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
