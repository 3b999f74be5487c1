//! The files of a message, downloaded when the host asks for them.

use hermes_adapter_net::fetch::{FetchError, Fetched, Fetcher};
use hermes_adapter_net::reqwest::Url;
use hermes_adapter_net::reqwest::header::{AUTHORIZATION, HeaderMap, HeaderValue};
use hermes_adapter_sdk::prelude::*;
use serde_json::json;
use tokio::io::AsyncWriteExt;

use crate::account::Account;
use crate::file_ref::{FileRef, address, external_note, kind_of, mime};
use crate::objects::FileInfo;
use crate::workspace::Workspace;

/// A downloader of files. The workspace's token is sent to trusted addresses only.
pub(crate) struct FileDownloader {
    fetcher: Fetcher,
    /// The origins of files that the operator configured.
    origins: Vec<Url>,
    bytes_max: u64,
}

impl FileDownloader {
    /// Creates a downloader for files of at most `bytes_max` bytes, from Slack or from these origins.
    pub(crate) fn new(fetcher: Fetcher, origins: Vec<Url>, bytes_max: u64) -> Self {
        Self { fetcher, origins, bytes_max }
    }

    /// Downloads a file for the host. If it fails, the returned attachment contains the reason.
    pub(crate) async fn fetch(&self, account: &Account, host: &Host, file: Attachment) -> Attachment {
        match self.try_fetch(account, host, file.clone()).await {
            Ok(fetched) => fetched,
            Err(note) => file.not_fetched(note),
        }
    }

    async fn try_fetch(&self, account: &Account, host: &Host, mut file: Attachment) -> Result<Attachment, String> {
        let reference: FileRef = serde_json::from_str(file.fetch.as_deref().unwrap_or_default())
            .map_err(|_| "the location of the file is no longer known")?;
        let workspace =
            account.workspace(&reference.team).ok_or("`bot_token` no longer contains a token of its workspace")?;
        let address = match reference.url {
            Some(url) => url,
            None => look_up(account, &workspace, &reference.id, &mut file).await?,
        };
        if file.size > self.bytes_max {
            return Err(format!("the file has {} bytes; the limit is {}", file.size, self.bytes_max));
        }
        let url = Url::parse(&address).map_err(|_| "the address of the file is invalid")?;
        if !may_receive_token(&url, &self.origins) {
            return Err("the address of the file does not belong to Slack, so the token is not sent there".to_owned());
        }
        let mut headers = HeaderMap::new();
        let token = HeaderValue::from_str(&format!("Bearer {}", workspace.token))
            .map_err(|_| "the token is not a valid header value")?;
        headers.insert(AUTHORIZATION, token);
        let download = self.fetcher.fetch(url.as_str(), headers).await.map_err(|error| describe(&error))?;
        // Without permission Slack redirects to the sign-in page.
        if download.content_type() == Some("text/html") && file.mime != "text/html" {
            return Err(
                "Slack sent a web page instead of the file; check that the app has the scope files:read".to_owned()
            );
        }
        let slot = host.media().create(MediaCreate::new(&file.name, &file.mime, download.content_length())).await;
        let slot = slot.map_err(|error| error.to_string())?;
        let size = save(download, &slot.path).await?;
        host.media().commit(&slot.id).await.map_err(|error| error.to_string())?;
        Ok(file.fetched(slot.id, size))
    }
}

/// Requests details of a file that an event describes incompletely; returns its address.
async fn look_up(
    account: &Account,
    workspace: &Workspace,
    id: &str,
    attachment: &mut Attachment,
) -> Result<String, String> {
    let info: Result<FileInfo, _> = account.api.call(&workspace.token, "files.info", &[("file", json!(id))]).await;
    let file = info.map_err(|error| error.to_string())?.file;
    if let Some(why) = external_note(&file) {
        return Err(why.to_owned());
    }
    attachment.kind = kind_of(&file);
    mime(&file).clone_into(&mut attachment.mime);
    attachment.size = file.size.unwrap_or(attachment.size);
    attachment.name = file.name.clone().unwrap_or_else(|| attachment.name.clone());
    address(&file).map(str::to_owned).ok_or_else(|| "Slack does not offer the file for download".to_owned())
}

/// Streams a file to disk; returns its size in bytes.
async fn save(mut download: Fetched, path: &str) -> Result<u64, String> {
    let write_error = |error: std::io::Error| format!("the file cannot be saved: {error}");
    let mut target = tokio::fs::File::create(path).await.map_err(write_error)?;
    let mut size = 0;
    while let Some(chunk) = download.chunk().await.map_err(|error| describe(&error))? {
        size += chunk.len() as u64;
        target.write_all(&chunk).await.map_err(write_error)?;
    }
    target.flush().await.map_err(write_error)?;
    Ok(size)
}

fn describe(error: &FetchError) -> String {
    match error {
        FetchError::TooLarge { bytes_max } => format!("the file exceeds the limit of {bytes_max} bytes"),
        error => error.to_string(),
    }
}

/// Returns whether a file's address may receive a token. <https://docs.slack.dev/reference/objects/file-object>
fn may_receive_token(url: &Url, configured: &[Url]) -> bool {
    let host = url.host_str().unwrap_or_default();
    let hosts = ["slack.com", "slack-files.com", "slack-gov.com"];
    let is_slack =
        hosts.iter().any(|name| host.strip_suffix(name).is_some_and(|left| left.is_empty() || left.ends_with('.')));
    (url.scheme() == "https" && is_slack) || configured.iter().any(|origin| origin.origin() == url.origin())
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
            assert_eq!(may_receive_token(&url(address), &configured), expected, "{address}");
        }
    }
}
