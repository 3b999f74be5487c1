//! References to the files of messages, which the host stores until it asks for a file.

use hermes_adapter_sdk::prelude::*;
use serde::{Deserialize, Serialize};

use crate::objects::File;

/// The maximum length of a stored address, in bytes; a longer one is requested from Slack when needed.
const URL_BYTES_MAX: usize = 1024;

/// The reference to a file of a message.
///
/// The host stores it, so its fields stay as they are.
#[derive(Serialize, Deserialize)]
pub(crate) struct FileRef {
    /// The id of the workspace.
    pub team: String,
    /// The id of the file.
    pub id: String,
    /// The address of the file, if the message contains it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
}

/// Returns the attachment of a message's file.
pub(crate) fn attachment(team: &str, file: &File) -> Attachment {
    let name = file.name.clone().unwrap_or_else(|| "file".to_owned());
    let (kind, size) = (kind_of(file), file.size.unwrap_or_default());
    if let Some(why) = external_note(file) {
        return Attachment::missing(kind, name, size, why);
    }
    let is_complete = file.file_access.as_deref() != Some("check_file_info");
    let url = address(file).filter(|url| is_complete && url.len() <= URL_BYTES_MAX).map(str::to_owned);
    let reference = FileRef { team: team.to_owned(), id: file.id.clone(), url };
    let fetch = serde_json::to_string(&reference).unwrap_or_default();
    Attachment::away(fetch, kind, mime(file), name, size)
}

/// Returns the address from which a file is downloaded.
pub(crate) fn address(file: &File) -> Option<&str> {
    file.url_private_download.as_deref().or(file.url_private.as_deref())
}

/// Returns the MIME type of a file.
pub(crate) fn mime(file: &File) -> &str {
    file.mimetype.as_deref().unwrap_or("application/octet-stream")
}

/// Returns the reason if the file is not stored at Slack.
pub(crate) fn external_note(file: &File) -> Option<&'static str> {
    let is_external = file.is_external || file.mode.as_deref() == Some("external");
    is_external.then_some("the file is stored at another service; only its link is available")
}

/// Returns the kind of a file.
pub(crate) fn kind_of(file: &File) -> AttachmentKind {
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
