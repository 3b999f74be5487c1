//! Files in a request: content parts that carry their data, as attachments of the event.
//!
//! Chat Completions has `{"type": "file", "file": {"filename", "file_data"}}`, Responses has
//! `{"type": "input_file", "filename", "file_data"}`. The data is base64, or a data URL with a type. This server keeps no
//! files and fetches none, so `file_id` and `file_url` are refused.

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use hermes_adapter_sdk::prelude::*;
use serde_json::Value;

use crate::api_error::ApiError;
use crate::end::End;

/// Files of one request.
pub(crate) const FILES_MAX: usize = 32;

/// Characters of a name and of a type.
const NAME_CHARS_MAX: usize = 200;
const MIME_CHARS_MAX: usize = 100;

/// The name of a file without a name.
const DEFAULT_NAME: &str = "file";

/// The type of a file without a type.
const DEFAULT_MIME: &str = "application/octet-stream";

const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// A file of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct InFile {
    /// The name, without folders.
    pub(crate) name: String,
    /// The type.
    pub(crate) mime: String,
    /// The content.
    pub(crate) bytes: Vec<u8>,
}

impl InFile {
    /// Reads a content part; `None`: the part is no file.
    pub(crate) fn parse(part: &Value) -> Option<Result<Self, ApiError>> {
        match part["type"].as_str() {
            Some("file") => Some(Self::of(&part["file"])),
            Some("input_file") => Some(Self::of(part)),
            _ => None,
        }
    }

    fn of(file: &Value) -> Result<Self, ApiError> {
        let refused = |message: &str| ApiError::invalid("messages", message);
        if let Some(key) = ["file_id", "file_url"].into_iter().find(|key| !file[*key].is_null()) {
            return Err(refused(&format!(
                "{key} is not supported, because this server does not store or fetch files; send the content as file_data"
            )));
        }
        let data = file["file_data"].as_str().ok_or_else(|| refused("a file has no file_data; send it as base64"))?;
        let (mime, data) = match data.strip_prefix("data:") {
            None => ("", data),
            Some(url) => {
                let (head, data) = url.split_once(',').unwrap_or_default();
                let head = head.strip_suffix(";base64");
                let head = head.ok_or_else(|| refused("file_data is a data URL without base64; send base64"))?;
                (head.split(';').next().unwrap_or_default(), data)
            }
        };
        let data: String = data.chars().filter(|c| !c.is_ascii_whitespace()).collect();
        let bytes = BASE64.decode(data).map_err(|_| refused("file_data is not base64"))?;
        if bytes.is_empty() {
            return Err(refused("file_data is empty"));
        }
        let name = plain(file["filename"].as_str().unwrap_or_default(), NAME_CHARS_MAX);
        let name = name.rsplit(['/', '\\']).next().unwrap_or_default();
        let name = if name.trim_matches(['.', ' ']).is_empty() { DEFAULT_NAME } else { name };
        let mime = plain(mime, MIME_CHARS_MAX).to_ascii_lowercase();
        let mime = if mime.contains('/') { mime } else { DEFAULT_MIME.to_owned() };
        Ok(Self { name: name.to_owned(), mime, bytes })
    }

    fn kind(&self) -> AttachmentKind {
        match self.mime.split('/').next() {
            Some("image") => AttachmentKind::Image,
            Some("video") => AttachmentKind::Video,
            Some("audio") => AttachmentKind::Audio,
            _ => AttachmentKind::File,
        }
    }
}

fn plain(text: &str, chars_max: usize) -> String {
    text.chars().filter(|c| !c.is_control()).take(chars_max).collect()
}

/// Writes files into the media folder of the host.
///
/// # Errors
///
/// The end of the request: the host refuses a file, or a file cannot be written.
pub(crate) async fn upload(host: &Host, files: Vec<InFile>) -> Result<Vec<Attachment>, End> {
    let mut attachments = Vec::new();
    for file in files {
        let written = write(host, &file).await.map_err(|error| match error.code.as_str() {
            "too_large" => End::failed(413, "body_too_large", error.message),
            _ => End::failed(503, "not_accepted", format!("the host rejected a file: {}", error.message)),
        });
        let (id, size) = written?;
        attachments.push(Attachment::new(id, file.kind(), file.mime, file.name, size));
    }
    Ok(attachments)
}

async fn write(host: &Host, file: &InFile) -> Result<(String, u64), CallError> {
    let wanted = MediaCreate::new(file.name.as_str(), file.mime.as_str(), u64::try_from(file.bytes.len()).ok());
    let slot = host.media().create(wanted).await?;
    let written = tokio::fs::write(&slot.path, &file.bytes).await;
    written.map_err(|error| CallError::new("unavailable", format!("the file cannot be written ({error})")))?;
    let info = host.media().commit(&slot.id).await?;
    Ok((slot.id, info.size))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(part: Value) -> Result<(String, String, Vec<u8>), String> {
        let file = InFile::parse(&part).unwrap().map_err(|error| error.body()["error"]["message"].to_string());
        file.map(|file| (file.name, file.mime, file.bytes))
    }

    #[test]
    fn both_shapes_of_a_file_are_read_with_plain_base64_and_data_urls() {
        let csv = || Ok(("a.csv".to_owned(), "text/csv".to_owned(), b"a,b".to_vec()));
        let url = "data:text/csv;charset=utf-8;base64,YSxi";
        let file = json!({"type": "file", "file": {"filename": "a.csv", "file_data": url}});
        assert_eq!(read(file), csv());
        let file = json!({"type": "input_file", "filename": "../x\\a.csv", "file_data": url, "file_id": null});
        assert_eq!(read(file), csv());
        for data in ["YWI=", "YWI", "Y\r\nW I=\n"] {
            let file = json!({"type": "file", "file": {"filename": " .. ", "file_data": data}});
            assert_eq!(read(file), Ok(("file".to_owned(), DEFAULT_MIME.to_owned(), b"ab".to_vec())));
        }
        assert!(InFile::parse(&json!({"type": "text", "text": "x"})).is_none());
    }

    #[test]
    fn a_file_without_usable_data_is_refused_with_the_reason() {
        for (file, why) in [
            (json!({"file_id": "file-1"}), "file_id is not supported"),
            (json!({"file_id": "file-1", "file_data": "YQ=="}), "file_id is not supported"),
            (json!({"file_url": "https://example.org/a.pdf"}), "file_url is not supported"),
            (json!({}), "no file_data"),
            (json!(null), "no file_data"),
            (json!({"file_data": 7}), "no file_data"),
            (json!({"file_data": ""}), "empty"),
            (json!({"file_data": "data:text/plain;base64,"}), "empty"),
            (json!({"file_data": "%%%"}), "not base64"),
            (json!({"file_data": "data:text/plain,hello"}), "without base64"),
            (json!({"file_data": "data:"}), "without base64"),
        ] {
            let chat = read(json!({"type": "file", "file": file})).unwrap_err();
            assert!(chat.contains(why), "{file}: {chat}");
            let mut part = json!({"type": "input_file"});
            if let Some(keys) = file.as_object() {
                part.as_object_mut().unwrap().extend(keys.clone());
            }
            assert_eq!(read(part).unwrap_err(), chat, "{file}");
        }
    }
}
