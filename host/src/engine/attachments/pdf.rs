//! The text of PDF files.
//!
//! A sealed child extracts it (see [`hermes_loader::sealed`]), so a hostile file costs bounded memory and time and
//! reaches nothing. The child writes the text page by page, then NUL and a [`Report`]; an answer without a report comes
//! from a child that ended at its limits. At most [`AT_ONCE_MAX`] files are read at once.

mod child;

use std::ffi::OsString;
use std::fs::File;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::time::{Instant, timeout_at};

pub use child::main as runner_main;

use super::Media;
use hermes_loader::sealed;
use hermes_loader::sealed::SealLimits;

/// The subcommand of the child.
const SUBCOMMAND: &str = "text-runner";

/// The longest file that is read, in bytes.
const FILE_BYTES_MAX: u64 = 32 << 20;

/// The longest text of one file, in bytes.
const TEXT_BYTES_MAX: usize = 4 << 20;

/// The longest answer of the child, in bytes: the text and its report.
const ANSWER_BYTES_MAX: u64 = TEXT_BYTES_MAX as u64 + 1024;

/// Files that are read at once.
pub(super) const AT_ONCE_MAX: usize = 2;

/// Limits of one child.
const LIMITS: SealLimits = SealLimits { address_bytes_max: 512 << 20, cpu_s_max: 10 };

/// Time limit for all PDF files of one turn.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// The bytes at the beginning of a file in which readers look for the header.
const HEADER_BYTES: usize = 1024;

/// The end of the child's work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum End {
    /// Every page was tried.
    Read,
    /// The text is longer than the limit.
    Cut,
    /// The file needs a password.
    Encrypted,
    /// The file has no readable structure.
    Damaged,
    /// The child could not be sealed.
    Unsealed,
}

/// The child's report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Report {
    end: End,
    /// Pages of the file.
    pages: u32,
    /// Pages that could not be read.
    unread: u32,
    /// Pages that were read and have no text.
    empty: u32,
}

/// The text of a PDF file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PdfText {
    /// The text.
    pub text: String,
    /// A sentence about missing parts.
    pub gaps: Option<String>,
}

/// The header of a PDF file.
const HEADER: &[u8] = b"%PDF-";

/// Returns whether bytes begin with the header of a PDF file, after a byte order mark or blanks.
pub(super) fn begins_pdf(bytes: &[u8]) -> bool {
    bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes).trim_ascii_start().starts_with(HEADER)
}

/// Returns whether the beginning of a binary file holds the header of a PDF file.
pub(super) fn is_pdf(beginning: &[u8]) -> bool {
    beginning[..beginning.len().min(HEADER_BYTES)].windows(HEADER.len()).any(|bytes| bytes == HEADER)
}

impl Media {
    /// Extracts the text of a PDF file.
    ///
    /// # Errors
    ///
    /// A sentence that names the reason for which the file has no text.
    pub(super) async fn pdf_text(&self, file: File, size: u64, until: Instant) -> Result<PdfText, String> {
        if size > FILE_BYTES_MAX {
            return Err(format!(
                "The PDF file is larger than {} MB, the limit of text extraction.",
                FILE_BYTES_MAX >> 20
            ));
        }
        let room = timeout_at(until, Arc::clone(&self.extractions).acquire_owned()).await;
        let Ok(Ok(room)) = room else { return Err(beyond_limits()) };
        let deadline = until.saturating_duration_since(Instant::now());
        // The child keeps its room and is awaited, even if the turn is given up.
        let exchange = tokio::spawn(async move {
            let exchanged = sealed::exchange(command(), file, ANSWER_BYTES_MAX, deadline).await;
            drop(room);
            exchanged
        });
        match exchange.await {
            Ok(Ok(exchanged)) => {
                tracing::debug!(bytes = exchanged.answer.len(), ended = exchanged.ended, "a PDF file was read");
                judge(&exchanged.answer)
            }
            Ok(Err(error)) => {
                tracing::warn!(%error, "the process that extracts the text of PDF files cannot be started");
                Err(unavailable())
            }
            Err(_) => Err(unavailable()),
        }
    }
}

/// Returns the text of an answer.
fn judge(answer: &[u8]) -> Result<PdfText, String> {
    let at = answer.iter().position(|byte| *byte == 0);
    let (text, report) = match at {
        Some(at) => (&answer[..at], serde_json::from_slice::<Report>(&answer[at + 1..]).ok()),
        None => (answer, None),
    };
    let text = tidy(&String::from_utf8_lossy(text));
    let gaps = match report.map(|report| (report.end, report)) {
        Some((End::Encrypted, _)) => return Err("The PDF file is encrypted, so its text is not available.".to_owned()),
        Some((End::Damaged, _)) => return Err("The PDF file is damaged, so its text is not available.".to_owned()),
        Some((End::Unsealed, _)) => {
            tracing::warn!(
                "the text of PDF files is not extracted: this kernel or container refuses the system call filter \
                 (seccomp); allow seccomp for the host"
            );
            return Err(unavailable());
        }
        Some((End::Read, report)) if text.is_empty() => return Err(without_text(report)),
        Some((End::Read, report)) => gaps(report),
        Some((End::Cut, _)) | None if !text.is_empty() => {
            Some("The text is incomplete, because extraction reached its limit of length, time or memory.".to_owned())
        }
        _ => return Err(beyond_limits()),
    };
    Ok(PdfText { text, gaps })
}

fn beyond_limits() -> String {
    "The text of the PDF file could not be extracted within the limits of time and memory.".to_owned()
}

fn unavailable() -> String {
    "This host cannot extract the text of PDF files.".to_owned()
}

fn without_text(report: Report) -> String {
    match report {
        Report { pages: 0, .. } => "The PDF file has no pages.".to_owned(),
        Report { unread, pages, .. } if unread == pages => {
            "No page of the PDF file could be read, so its text is not available.".to_owned()
        }
        Report { unread: 0, .. } => "The PDF file contains no text; its pages may be scanned images.".to_owned(),
        Report { unread, pages, .. } => {
            format!("The PDF file contains no text that can be read; {unread} of its {pages} pages are damaged.")
        }
    }
}

fn gaps(report: Report) -> Option<String> {
    let Report { pages, unread, empty, .. } = report;
    let count = |count: u32| if count == 1 { "1 page".to_owned() } else { format!("{count} pages") };
    match (unread, empty) {
        (0, 0) => None,
        (0, _) => Some(format!("{} of {pages} without text may be scanned images.", count(empty))),
        (_, 0) => Some(format!("{} of {pages} could not be read.", count(unread))),
        _ => Some(format!("{} of {pages} could not be read and {} without text.", count(unread), count(empty))),
    }
}

/// Removes spaces at the ends of lines and empty lines beyond one.
fn tidy(text: &str) -> String {
    let mut tidy = String::with_capacity(text.len());
    let mut gap = false;
    for line in text.lines().map(str::trim_end) {
        if line.is_empty() {
            gap = !tidy.is_empty();
            continue;
        }
        if !tidy.is_empty() {
            tidy.push('\n');
        }
        if std::mem::take(&mut gap) {
            tidy.push('\n');
        }
        tidy.push_str(line);
    }
    tidy
}

/// Returns the command of the child. The path of the running program stays valid if its file is replaced.
#[cfg(not(test))]
fn command() -> Vec<OsString> {
    vec!["/proc/self/exe".into(), SUBCOMMAND.into()]
}

#[cfg(test)]
fn command() -> Vec<OsString> {
    tests::command()
}

#[cfg(test)]
pub(crate) mod tests;
