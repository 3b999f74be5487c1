//! References to the files of messages, which the host stores until it asks for a file.

use serde::{Deserialize, Serialize};

use crate::objects::{File, Message};

/// The maximum length of a stored address, in bytes; instead of a longer one the message is requested again.
const URL_BYTES_MAX: usize = 1024;

/// The reference to a file of a message.
///
/// The host stores it, so its fields stay as they are.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct FileRef {
    /// The channel of the message.
    pub channel: String,
    /// The id of the message.
    pub message: String,
    /// The id of the file in the message.
    pub id: String,
    /// The address at the time of the message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
}

impl FileRef {
    /// Creates the reference to a file of a message.
    pub(crate) fn new(message: &Message, file: &File) -> Self {
        Self {
            channel: message.channel_id.clone(),
            message: message.id.clone(),
            id: file.id.clone(),
            url: Some(file.url.clone()).filter(|url| url.len() <= URL_BYTES_MAX),
        }
    }

    /// Encodes the reference for the host.
    pub(crate) fn to_json(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}
