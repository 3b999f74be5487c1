//! The files of a message, downloaded when the host asks for them.
//!
//! An address is valid for about one day; after that the message contains a new one.
//! <https://docs.discord.com/developers/reference#signed-attachment-cdn-urls>

use hermes_adapter_net::fetch::{FetchError, Fetched};
use hermes_adapter_net::reqwest::Method;
use hermes_adapter_net::reqwest::header::HeaderMap;
use hermes_adapter_sdk::prelude::*;
use serde::{Deserialize, Serialize};
use tokio::io::AsyncWriteExt;

use crate::api::{ApiError, File, Message};
use crate::channels;
use crate::connection::Connection;

/// The maximum length of a stored address, in bytes; instead of a longer one the message is requested again.
const URL_BYTES_MAX: usize = 1024;

/// The location of a file.
#[derive(Debug, Serialize, Deserialize)]
pub struct Lies {
    /// The channel of the message.
    channel: String,
    /// The id of the message.
    message: String,
    /// The id of the file in the message.
    id: String,
    /// The address at the time of the message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    url: Option<String>,
}

impl Lies {
    /// Returns the location of a file in a message.
    pub fn at(message: &Message, file: &File) -> Self {
        Self {
            channel: message.channel_id.clone(),
            message: message.id.clone(),
            id: file.id.clone(),
            url: Some(file.url.clone()).filter(|url| url.len() <= URL_BYTES_MAX),
        }
    }

    /// Encodes the location for the host.
    pub fn written(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}

impl Message {
    /// Returns the files of the message, and those of its forwarded messages.
    pub fn files(&self) -> impl Iterator<Item = &File> {
        let forwarded = self.message_snapshots.iter().flat_map(|snapshot| &snapshot.message.attachments);
        self.attachments.iter().chain(forwarded)
    }
}

impl Connection {
    /// Downloads a file for the host. If it fails, the returned attachment contains the reason.
    pub async fn fetch(&self, file: Attachment) -> Attachment {
        match self.try_fetch(&file).await {
            Ok((media, size)) => file.fetched(media, size),
            Err(note) => file.not_fetched(note),
        }
    }

    async fn try_fetch(&self, file: &Attachment) -> Result<(String, u64), String> {
        let bytes_max = self.choice.media_bytes_max;
        if file.size > bytes_max {
            return Err(format!("the file has {} bytes; the limit is {bytes_max}", file.size));
        }
        let lies: Lies = serde_json::from_str(file.fetch.as_deref().unwrap_or_default())
            .map_err(|_| "the location of the file is no longer known")?;
        let found = self.handed_out(&lies).await?;
        let wanted = MediaCreate::new(&file.name, &file.mime, Some(file.size).filter(|size| *size > 0));
        let slot = self.host.media().create(wanted).await.map_err(|error| error.to_string())?;
        let size = write(found, &slot.path).await?;
        self.host.media().commit(&slot.id).await.map_err(|error| error.to_string())?;
        Ok((slot.id, size))
    }

    /// Requests the file from its stored address, or from the current one in its message.
    async fn handed_out(&self, lies: &Lies) -> Result<Fetched, String> {
        let said = |error: FetchError| error.to_string();
        let refused = match &lies.url {
            None => None,
            Some(url) => match self.fetcher.fetch(url, HeaderMap::new()).await {
                Err(error @ FetchError::Status(_)) => Some(error),
                found => return found.map_err(said),
            },
        };
        let known = lies.url.clone();
        match self.lies_now(lies).await? {
            Some(url) if Some(&url) != known.as_ref() => self.fetcher.fetch(&url, HeaderMap::new()).await.map_err(said),
            _ => Err(refused.map_or_else(|| "the message no longer contains the file".to_owned(), said)),
        }
    }

    /// Returns the current address of a file; `None` if its message does not exist any more.
    async fn lies_now(&self, lies: &Lies) -> Result<Option<String>, String> {
        // Both become parts of an address.
        let is_place = channels::number(&lies.channel).and(channels::number(&lies.message)).is_some();
        if !is_place || lies.id.is_empty() {
            return Ok(None);
        }
        let path = format!("channels/{}/messages/{}", lies.channel, lies.message);
        match self.api.ask::<Message>(Method::GET, &path).await {
            Ok(message) => Ok(message.files().find(|file| file.id == lies.id).map(|file| file.url.clone())),
            Err(ApiError::Refused(_)) => Ok(None),
            Err(error) => Err(error.to_string()),
        }
    }
}

/// Streams a file to disk; returns its size in bytes.
async fn write(mut found: Fetched, path: &str) -> Result<u64, String> {
    let not_kept = |error: std::io::Error| format!("the file cannot be saved: {error}");
    let mut target = tokio::fs::File::create(path).await.map_err(not_kept)?;
    let mut size = 0;
    while let Some(piece) = found.chunk().await.map_err(|error| error.to_string())? {
        size += piece.len() as u64;
        target.write_all(&piece).await.map_err(not_kept)?;
    }
    target.flush().await.map_err(not_kept)?;
    Ok(size)
}
