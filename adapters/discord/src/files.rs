//! The files of a message, brought to the host.

use std::time::Duration;

use futures_util::stream::{self, StreamExt};
use hermes_adapter_net::reqwest::header::HeaderMap;
use hermes_adapter_sdk::prelude::*;
use tokio::time::{Instant, timeout_at};

use crate::connection::Connection;
use crate::inbound::RemoteFile;

/// How long the files of one event may take in all.
const FILES_TIMEOUT: Duration = Duration::from_secs(60);
/// Files of one event that are fetched at a time.
const FETCHES_MAX: usize = 4;

impl Connection {
    /// Brings the files of one event to the host, in their order, within one deadline: what is behind it waits.
    pub async fn fetch_all(&self, files: Vec<RemoteFile>) -> Vec<Attachment> {
        let until = Instant::now() + FILES_TIMEOUT;
        let fetches = files.into_iter().map(|file| self.fetch(file, until));
        stream::iter(fetches).buffered(FETCHES_MAX).collect().await
    }

    /// Brings a file to the host; one that cannot be had is named with the reason.
    async fn fetch(&self, file: RemoteFile, until: Instant) -> Attachment {
        let fetched = timeout_at(until, self.try_fetch(&file)).await;
        match fetched.unwrap_or_else(|_| Err(format!("the files of a message may take {FILES_TIMEOUT:?} in all"))) {
            Ok((media, size)) => Attachment::new(media, file.kind, file.mime, file.name, size),
            Err(note) => {
                tracing::info!(size = file.size, %note, "a file was not fetched");
                Attachment::missing(file.kind, file.name, file.size, note)
            }
        }
    }

    async fn try_fetch(&self, file: &RemoteFile) -> Result<(String, u64), String> {
        if file.size > self.choice.media_bytes_max {
            return Err(format!(
                "the file has {} bytes and at most {} are fetched",
                file.size, self.choice.media_bytes_max
            ));
        }
        let said = |error: CallError| error.to_string();
        let fetched = self.fetcher.fetch(&file.url, HeaderMap::new()).await.map_err(|error| error.to_string())?;
        let bytes = fetched.bytes().await.map_err(|error| error.to_string())?;
        let size = bytes.len() as u64;
        let slot =
            self.host.media().create(MediaCreate::new(&file.name, &file.mime, Some(size))).await.map_err(said)?;
        let target = slot.path.clone();
        tokio::task::spawn_blocking(move || std::fs::write(target, bytes))
            .await
            .map_err(|error| error.to_string())?
            .map_err(|error| format!("the file could not be kept: {error}"))?;
        self.host.media().commit(&slot.id).await.map_err(said)?;
        Ok((slot.id, size))
    }
}
