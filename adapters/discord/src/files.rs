//! The files of a message, downloaded when the host asks for them.
//!
//! An address is valid for about one day; after that the message contains a new one.
//! <https://docs.discord.com/developers/reference#signed-attachment-cdn-urls>

use hermes_adapter_net::fetch::{FetchError, Fetched};
use hermes_adapter_net::reqwest::Method;
use hermes_adapter_net::reqwest::header::HeaderMap;
use hermes_adapter_sdk::prelude::*;
use tokio::io::AsyncWriteExt;

use crate::api::ApiError;
use crate::connection::Connection;
use crate::file_ref::FileRef;
use crate::objects::Message;
use crate::snowflake;

impl Connection {
    /// Downloads a file for the host. If it fails, the returned attachment contains the reason.
    pub(crate) async fn fetch(&self, file: Attachment) -> Attachment {
        match self.try_fetch(&file).await {
            Ok((media, size)) => file.fetched(media, size),
            Err(note) => file.not_fetched(note),
        }
    }

    async fn try_fetch(&self, file: &Attachment) -> Result<(String, u64), String> {
        let bytes_max = self.settings.media_bytes_max;
        if file.size > bytes_max {
            return Err(format!("the file has {} bytes; the limit is {bytes_max}", file.size));
        }
        let reference: FileRef = serde_json::from_str(file.fetch.as_deref().unwrap_or_default())
            .map_err(|_| "the location of the file is no longer known")?;
        let download = self.download(&reference).await?;
        let request = MediaCreate::new(&file.name, &file.mime, Some(file.size).filter(|size| *size > 0));
        let slot = self.host.media().create(request).await.map_err(|error| error.to_string())?;
        let size = save(download, &slot.path).await?;
        self.host.media().commit(&slot.id).await.map_err(|error| error.to_string())?;
        Ok((slot.id, size))
    }

    /// Requests the file from its stored address, or from the current one in its message.
    async fn download(&self, reference: &FileRef) -> Result<Fetched, String> {
        let to_text = |error: FetchError| error.to_string();
        let refused = match &reference.url {
            None => None,
            Some(url) => match self.fetcher.fetch(url, HeaderMap::new()).await {
                Err(error @ FetchError::Status(_)) => Some(error),
                download => return download.map_err(to_text),
            },
        };
        let stored_url = reference.url.clone();
        match self.current_url(reference).await? {
            Some(url) if Some(&url) != stored_url.as_ref() => {
                self.fetcher.fetch(&url, HeaderMap::new()).await.map_err(to_text)
            }
            _ => Err(refused.map_or_else(|| "the message no longer contains the file".to_owned(), to_text)),
        }
    }

    /// Returns the current address of a file; `None` if its message does not exist any more.
    async fn current_url(&self, reference: &FileRef) -> Result<Option<String>, String> {
        // Both become parts of an address.
        let is_valid = snowflake::parse(&reference.channel).and(snowflake::parse(&reference.message)).is_some();
        if !is_valid || reference.id.is_empty() {
            return Ok(None);
        }
        let path = format!("channels/{}/messages/{}", reference.channel, reference.message);
        match self.api.request::<Message>(Method::GET, &path).await {
            Ok(message) => Ok(message.files().find(|file| file.id == reference.id).map(|file| file.url.clone())),
            Err(ApiError::Refused(_)) => Ok(None),
            Err(error) => Err(error.to_string()),
        }
    }
}

/// Streams a file to disk; returns its size in bytes.
async fn save(mut download: Fetched, path: &str) -> Result<u64, String> {
    let write_error = |error: std::io::Error| format!("the file cannot be saved: {error}");
    let mut target = tokio::fs::File::create(path).await.map_err(write_error)?;
    let mut size = 0;
    while let Some(chunk) = download.chunk().await.map_err(|error| error.to_string())? {
        size += chunk.len() as u64;
        target.write_all(&chunk).await.map_err(write_error)?;
    }
    target.flush().await.map_err(write_error)?;
    Ok(size)
}
