//! Pictures of a conversation, encoded as data URLs.
//!
//! Only the newest few are sent, and only while their files exist. All others stay a line of text in the
//! transcript.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hermes_protocol::{Attachment, AttachmentKind};

use crate::TurnRequest;

/// Pictures of one request.
const PICTURES_MAX: usize = 8;

/// Size of a picture, in bytes.
const PICTURE_BYTES_MAX: u64 = 5 << 20;

/// Media types that endpoints accept.
const TYPES: [&str; 4] = ["image/png", "image/jpeg", "image/webp", "image/gif"];

/// Data URLs by media id.
#[derive(Debug, Default)]
pub(super) struct Pictures(BTreeMap<String, String>);

impl Pictures {
    /// Reads the newest pictures of a request from their folder. Unreadable files are skipped.
    pub(super) async fn read(request: &TurnRequest) -> Self {
        let Some(folder) = request.media.clone() else { return Self::default() };
        let newest_first = request.history.iter().map(|said| &**said).chain(&request.input).rev();
        let wanted = newest_first.flat_map(|message| &message.attachments).filter(|file| is_picture(file));
        let wanted: Vec<(String, String)> =
            wanted.filter_map(|file| Some((file.media.clone()?, file.mime.clone()))).take(PICTURES_MAX).collect();
        if wanted.is_empty() {
            return Self::default();
        }
        let reading = tokio::task::spawn_blocking(move || {
            wanted.into_iter().filter_map(|(id, mime)| Some((id.clone(), data(&folder.join(id), &mime)?))).collect()
        });
        Self(reading.await.unwrap_or_default())
    }

    /// Returns the picture of an attachment.
    pub(super) fn of(&self, file: &Attachment) -> Option<&str> {
        self.0.get(file.media.as_ref()?).map(String::as_str)
    }

    /// Returns true if there are no pictures.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    #[cfg(test)]
    pub(super) fn with(id: &str, data: &str) -> Self {
        Self(BTreeMap::from([(id.to_owned(), data.to_owned())]))
    }
}

fn is_picture(file: &Attachment) -> bool {
    let id = file.media.as_deref().unwrap_or_default();
    // The id becomes a part of a path.
    let is_id = !id.is_empty() && id.bytes().all(|c| c.is_ascii_alphanumeric());
    let shows = matches!(file.kind, AttachmentKind::Image | AttachmentKind::Sticker | AttachmentKind::File);
    is_id && shows && file.size <= PICTURE_BYTES_MAX && TYPES.contains(&file.mime.as_str())
}

fn data(path: &Path, mime: &str) -> Option<String> {
    let mut bytes = Vec::new();
    let read = std::fs::File::open(path).and_then(|file| file.take(PICTURE_BYTES_MAX + 1).read_to_end(&mut bytes));
    match read {
        Ok(size) if size as u64 <= PICTURE_BYTES_MAX && size > 0 => {
            Some(format!("data:{mime};base64,{}", STANDARD.encode(bytes)))
        }
        Ok(_) => None,
        Err(error) => {
            tracing::debug!(%error, "image cannot be sent to the model");
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use hermes_core::context::TurnContext;
    use hermes_core::ids::{SessionId, TurnId};

    use super::*;
    use crate::Message;

    fn request(folder: PathBuf, files: Vec<Attachment>) -> TurnRequest {
        let messages = files.into_iter().map(|file| {
            let mut message = Message::user("look");
            message.attachments.push(file);
            message
        });
        TurnRequest {
            session_id: SessionId("s1".to_owned()),
            turn_id: TurnId(1),
            context: TurnContext::default(),
            system: String::new(),
            history: Vec::new(),
            input: messages.collect(),
            media: Some(folder),
            model: None,
            reasoning: None,
            state: None,
            steps: Vec::new(),
            tools: true,
        }
    }

    fn picture(id: &str, mime: &str, size: u64) -> Attachment {
        Attachment::new(id, AttachmentKind::Image, mime, "cat.png", size)
    }

    #[tokio::test]
    async fn only_pictures_that_are_there_and_not_too_large_are_read() {
        let folder = std::env::temp_dir().join(format!("pictures-{}", std::process::id()));
        std::fs::create_dir_all(folder.join("deep")).unwrap();
        for name in ["a1", "b2", "deep/c3"] {
            std::fs::write(folder.join(name), b"abc").unwrap();
        }
        let files = vec![
            picture("a1", "image/png", 3),
            picture("b2", "application/pdf", 3),
            picture("gone", "image/png", 3),
            picture("deep/c3", "image/png", 3),
            picture("a1", "image/png", PICTURE_BYTES_MAX + 1),
        ];
        let pictures = Pictures::read(&request(folder.clone(), files)).await;
        assert_eq!(pictures.0, BTreeMap::from([("a1".to_owned(), "data:image/png;base64,YWJj".to_owned())]));
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[tokio::test]
    async fn of_many_pictures_the_newest_are_sent() {
        let folder = std::env::temp_dir().join(format!("many-pictures-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let all: Vec<String> = (0..PICTURES_MAX + 2).map(|n| format!("p{n}")).collect();
        for id in &all {
            std::fs::write(folder.join(id), b"abc").unwrap();
        }
        let files = all.iter().map(|id| picture(id, "image/png", 3)).collect();
        let pictures = Pictures::read(&request(folder.clone(), files)).await;
        assert_eq!(pictures.0.len(), PICTURES_MAX);
        assert!(!pictures.0.contains_key("p1") && pictures.0.contains_key("p2"));
        std::fs::remove_dir_all(folder).unwrap();
    }
}
