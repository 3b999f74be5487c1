//! The text of files that were received.
//!
//! The content decides whether a file is text, not its type or name. Text of up to [`INLINE_BYTES_MAX`] is read as a
//! whole; of a longer file only the beginning is read. A file with NUL bytes or other binary content has no text, unless
//! it is a PDF file ([`super::pdf`]).

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Seek, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use chardetng::{EncodingDetector, Iso2022JpDetection, Utf8Detection};
use encoding_rs::{Encoding, UTF_8, UTF_16BE, UTF_16LE};
use hermes_protocol::{Attachment, AttachmentKind};
use tokio::time::Instant;

use super::pdf::{PdfText, begins_pdf, is_pdf};
use super::{Media, is_id, open_plain};

/// The longest text of one file that the model receives as a whole, in bytes.
pub const INLINE_BYTES_MAX: u64 = 100 << 10;

/// Text of all files of one message that the model receives as a whole, in bytes.
pub const INLINE_BYTES_TOTAL_MAX: usize = 256 << 10;

/// The beginning of a longer text that the model receives, in bytes.
const EXCERPT_BYTES: u64 = 8 << 10;

/// Files of one message that are read.
const FILES_MAX: usize = 32;

/// The ending of the file that holds an extracted text, behind the id of the media.
pub const EXTRACTED: &str = ".txt";

/// The text of one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileText {
    /// All of it.
    Whole(String),
    /// Its beginning.
    Beginning(String),
    /// The text of a PDF file.
    Extracted(Extracted),
    /// A file of a format with text that cannot be read, and a sentence with the reason.
    Unreadable(String),
}

/// The extracted text of one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Extracted {
    /// The text, or its beginning.
    pub text: String,
    /// True if the text is all that was extracted.
    pub is_whole: bool,
    /// True if the whole text is saved beside the file, under its name and `.txt`.
    pub is_saved: bool,
    /// A sentence about parts of the file that are missing in the text.
    pub gaps: Option<String>,
}

/// The texts of files, by the id of their media.
pub type FileTexts = BTreeMap<String, FileText>;

/// A file as it was opened.
enum Opened {
    Text(FileText),
    Pdf { file: File, size: u64 },
}

impl Media {
    /// Reads the texts of files of an instance. A file that is no text, or cannot be read, is left out. Extraction ends
    /// at `until`.
    pub async fn texts(&self, instance: &str, files: &[Attachment], until: Instant) -> FileTexts {
        let folder = self.incoming(instance);
        let ids = files.iter().filter(|file| may_be_text(file)).filter_map(|file| file.media.clone());
        let mut left = INLINE_BYTES_TOTAL_MAX;
        let mut texts = FileTexts::new();
        for id in ids.filter(|id| is_id(id)).take(FILES_MAX) {
            let path = folder.join(&id);
            let text = match blocking(move || open(&path, left)).await {
                Some(Opened::Text(text)) => text,
                Some(Opened::Pdf { file, size }) => match self.pdf_text(file, size, until).await {
                    Ok(pdf) => extract(pdf, folder.join(&id), left).await,
                    Err(why) => FileText::Unreadable(why),
                },
                None => continue,
            };
            if let FileText::Whole(text) | FileText::Extracted(Extracted { text, .. }) = &text {
                left = left.saturating_sub(text.len());
            }
            texts.insert(id, text);
        }
        texts
    }
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Option<T> + Send + 'static) -> Option<T> {
    tokio::task::spawn_blocking(work).await.ok().flatten()
}

/// Returns the place of the extracted text of a file.
pub(super) fn extracted(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(EXTRACTED);
    name.into()
}

/// Takes the text of a PDF file, with at most `left` bytes as a whole. A longer text is saved for tools.
async fn extract(pdf: PdfText, path: PathBuf, left: usize) -> FileText {
    let PdfText { text, gaps } = pdf;
    if text.len() <= left && text.len() as u64 <= INLINE_BYTES_MAX {
        return FileText::Extracted(Extracted { text, is_whole: true, is_saved: false, gaps });
    }
    let saved = blocking(move || {
        let written = save(&path, &text);
        if let Err(error) = &written {
            tracing::warn!(path = %path.display(), %error, "text of a PDF file could not be saved");
        }
        Some((beginning(text), written.is_ok()))
    });
    let (text, is_saved) = saved.await.unwrap_or_default();
    FileText::Extracted(Extracted { text, is_whole: false, is_saved, gaps })
}

/// Saves an extracted text. A file is replaced as a whole, and no link is followed.
fn save(path: &Path, text: &str) -> std::io::Result<()> {
    let (place, part) = (extracted(path), path.with_extension("part"));
    match std::fs::remove_file(&part) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = File::options().write(true).create_new(true).mode(0o600).open(&part)?;
    file.write_all(text.as_bytes())?;
    std::fs::rename(part, place)
}

/// Returns whether a file can be text: a picture, a sound or a film is shown in another way.
fn may_be_text(file: &Attachment) -> bool {
    let is_other = ["image/", "audio/", "video/"].iter().any(|kind| file.mime.starts_with(kind));
    file.note.is_none() && (file.kind == AttachmentKind::File || file.mime.starts_with("text/")) && !is_other
        || file.mime == "image/svg+xml"
}

/// Opens a file, and reads a text with at most `left` bytes as a whole.
fn open(path: &Path, left: usize) -> Option<Opened> {
    let mut file = open_plain(path).ok()?;
    let size = file.metadata().ok().filter(std::fs::Metadata::is_file)?.len();
    let is_whole = size <= INLINE_BYTES_MAX;
    let mut bytes = Vec::new();
    (&mut file).take(if is_whole { INLINE_BYTES_MAX } else { EXCERPT_BYTES }).read_to_end(&mut bytes).ok()?;
    let text = Some(&bytes).filter(|bytes| !begins_pdf(bytes)).and_then(|bytes| decode(bytes, is_whole));
    let Some(text) = text else {
        // Some files have other bytes before the header.
        file.rewind().ok().filter(|()| is_pdf(&bytes))?;
        return Some(Opened::Pdf { file, size });
    };
    Some(Opened::Text(match is_whole && text.len() <= left {
        true => FileText::Whole(text),
        false => FileText::Beginning(beginning(text)),
    }))
}

/// Cuts a text at a character within the length of an excerpt.
fn beginning(mut text: String) -> String {
    let end = (0..=text.len().min(EXCERPT_BYTES as usize)).rev().find(|at| text.is_char_boundary(*at));
    text.truncate(end.unwrap_or(0));
    text
}

/// Decodes bytes that are text in some encoding; `None`: they are no text. Without `is_whole` the last character may
/// be cut.
pub(super) fn decode(bytes: &[u8], is_whole: bool) -> Option<String> {
    if bytes.is_empty() {
        return Some(String::new());
    }
    if let Some((encoding, mark)) = Encoding::for_bom(bytes) {
        return decode_as(encoding, &bytes[mark..], is_whole);
    }
    if let Some(encoding) = utf16_without_mark(bytes) {
        return decode_as(encoding, bytes, is_whole);
    }
    if bytes.iter().any(|byte| is_binary(*byte)) {
        return None;
    }
    if let Some(text) = decode_as(UTF_8, bytes, is_whole) {
        return Some(text);
    }
    let mut detector = EncodingDetector::new(Iso2022JpDetection::Deny);
    detector.feed(bytes, true);
    decode_as(detector.guess(None, Utf8Detection::Deny), bytes, is_whole)
}

/// Returns the byte order of UTF-16 without a mark: nearly every other byte of common text is zero.
fn utf16_without_mark(bytes: &[u8]) -> Option<&'static Encoding> {
    let pairs = bytes.len() / 2;
    let zeros = |at: usize| bytes.iter().skip(at).step_by(2).filter(|byte| **byte == 0).count();
    let (even, odd) = (zeros(0), zeros(1));
    match pairs {
        0..4 => None,
        _ if odd * 10 >= pairs * 4 && even == 0 => Some(UTF_16LE),
        _ if even * 10 >= pairs * 4 && odd == 0 => Some(UTF_16BE),
        _ => None,
    }
}

fn decode_as(encoding: &'static Encoding, bytes: &[u8], is_whole: bool) -> Option<String> {
    let mut decoder = encoding.new_decoder_without_bom_handling();
    let mut text = String::with_capacity(decoder.max_utf8_buffer_length_without_replacement(bytes.len())?);
    let (result, _) = decoder.decode_to_string_without_replacement(bytes, &mut text, is_whole);
    let is_read = matches!(result, encoding_rs::DecoderResult::InputEmpty);
    // Line ends become one, and a terminal's sequences mean nothing to a model.
    let text = text.replace("\r\n", "\n");
    let is_text =
        is_read && !text.chars().any(|c| c != '\u{1b}' && c.is_control() && !c.is_whitespace() && c != '\u{8}');
    is_text.then(|| text.chars().filter(|c| !c.is_control() || c.is_whitespace()).collect())
}

/// Returns whether a byte stands in no text of an encoding that extends ASCII. Logs hold escapes and backspaces.
fn is_binary(byte: u8) -> bool {
    byte < 0x20 && !matches!(byte, b'\t' | b'\n' | b'\r' | 0x0b | 0x0c | 0x1b | 0x08) || byte == 0x7f
}

#[cfg(test)]
mod tests {
    use super::*;

    fn utf16(text: &str, bytes: fn(u16) -> [u8; 2]) -> Vec<u8> {
        text.encode_utf16().flat_map(bytes).collect()
    }

    #[test]
    fn text_of_any_encoding_is_read_and_nothing_else() {
        let umlauts = "Größe; Öl\nzweite Zeile über Bücher";
        let latin: Vec<u8> = umlauts.chars().map(|c| c as u8).collect();
        let russian = "Привет, это обычный текст на русском языке";
        let (cyrillic, ..) = encoding_rs::WINDOWS_1251.encode(russian);
        let (japanese, ..) = encoding_rs::SHIFT_JIS.encode("これは日本語の文章です。ファイルを読みます。");
        let with_mark = |mark: &[u8], text: Vec<u8>| [mark, &text].concat();
        let cases: Vec<(Vec<u8>, &str)> = vec![
            (b"a,b\r\n1,2\r\n".to_vec(), "a,b\n1,2\n"),
            (umlauts.as_bytes().to_vec(), umlauts),
            (with_mark(b"\xEF\xBB\xBF", umlauts.as_bytes().to_vec()), umlauts),
            (latin, umlauts),
            (with_mark(b"\xFF\xFE", utf16(umlauts, u16::to_le_bytes)), umlauts),
            (with_mark(b"\xFE\xFF", utf16(umlauts, u16::to_be_bytes)), umlauts),
            (utf16("name;value\r\n", u16::to_le_bytes), "name;value\n"),
            (utf16("name;value\r\n", u16::to_be_bytes), "name;value\n"),
            (cyrillic.to_vec(), russian),
            (japanese.to_vec(), "これは日本語の文章です。ファイルを読みます。"),
            (b"\x1b[31mred\x1b[0m".to_vec(), "[31mred[0m"),
            (Vec::new(), ""),
        ];
        for (bytes, text) in cases {
            assert_eq!(decode(&bytes, true).as_deref(), Some(text), "{bytes:?}");
        }
        let binary: [&[u8]; 6] = [
            b"\x7fELF\x02\x01\x01\0\0\0",
            b"PK\x03\x04\x14\0\0\0\x08\0",
            b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR",
            b"text with one NUL\0in it",
            b"\xff\xfe\0\0a\0\0\0",
            b"\xff\xfe\x00\xd8a\x00",
        ];
        for bytes in binary {
            assert_eq!(decode(bytes, true), None, "{bytes:?}");
        }
    }

    #[test]
    fn a_character_that_the_beginning_cuts_is_left_out() {
        let text = "ä".repeat(10);
        assert_eq!(decode(&text.as_bytes()[..5], false).as_deref(), Some("ää"));
        assert_eq!(beginning("ä".repeat(8_192)).len(), 8_192);
    }
}
