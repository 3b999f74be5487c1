//! The sealed child that extracts the text of one PDF file.

use std::cell::RefCell;
use std::fmt;
use std::io::{BufWriter, Read, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::rc::Rc;

use pdf_extract::{ConvertToFmt, Document, MediaBox, OutputDev, OutputError, PlainTextOutput, Transform};

use super::{End, FILE_BYTES_MAX, LIMITS, Report, SUBCOMMAND, TEXT_BYTES_MAX};
use hermes_loader::sealed;

/// Exit code: the arguments cannot be read, or the host is gone.
const EXIT_USAGE: u8 = 2;

/// The separator after a page.
const BREAK: &[u8] = b"\n\n";

/// Runs the `text-runner` subcommand, `--parent PID`: reads a file from the socket on its standard input and answers
/// with the text and a [`Report`].
pub fn main() -> ExitCode {
    // A panic concerns only one page.
    std::panic::set_hook(Box::new(|_| {}));
    let arguments = std::env::args_os().skip_while(|argument| argument != SUBCOMMAND).skip(1);
    let Ok((mut socket, is_sealed)) = sealed::enter(arguments, LIMITS) else { return ExitCode::from(EXIT_USAGE) };
    let mut bytes = Vec::new();
    if is_sealed.is_ok() && (&mut socket).take(FILE_BYTES_MAX).read_to_end(&mut bytes).is_err() {
        return ExitCode::FAILURE;
    }
    let sink = Sink::new(BufWriter::new(socket));
    let report = match is_sealed {
        Ok(()) => extract(&bytes, &sink),
        Err(_) => of_file(End::Unsealed),
    };
    match sink.end(report) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

/// Returns the report on a file without pages.
fn of_file(end: End) -> Report {
    Report { end, pages: 0, unread: 0, empty: 0 }
}

/// Writes the text of every page that can be read.
fn extract<W: Write>(bytes: &[u8], sink: &Sink<W>) -> Report {
    let loaded = caught(|| Document::load_mem(bytes).ok()).flatten();
    let Some(mut document) = loaded else {
        let has_password = bytes.windows(8).any(|word| word == b"/Encrypt");
        return of_file(if has_password { End::Encrypted } else { End::Damaged });
    };
    // Most encrypted files open with the empty password.
    if document.is_encrypted() && caught(|| document.decrypt("").ok()).flatten().is_none() {
        return of_file(End::Encrypted);
    }
    let Some(pages) = caught(|| document.get_pages().len()) else { return of_file(End::Damaged) };
    let pages = u32::try_from(pages).unwrap_or(u32::MAX);
    let mut device =
        Device { text: PlainTextOutput::new(sink.clone()), sink: sink.clone(), begun: 0, ended: 0, empty: 0 };
    let mut unread = 0;
    let mut whole = caught(|| pdf_extract::output_doc(&document, &mut device).is_ok()) == Some(true);
    while !whole && !sink.is_full() {
        // The page that failed is the one that was begun, or the next one if its beginning failed.
        let failed = if device.begun > device.ended { device.begun } else { device.ended + 1 };
        unread += 1;
        (device.begun, device.ended) = (failed, failed);
        if failed >= pages {
            break;
        }
        let next = failed + 1;
        whole = (next..=pages)
            .all(|page| caught(|| pdf_extract::output_doc_page(&document, &mut device, page).is_ok()) == Some(true));
    }
    let end = if sink.is_full() { End::Cut } else { End::Read };
    Report { end, pages, unread: unread.min(pages), empty: device.empty }
}

/// Runs foreign code; `None`: it panicked.
fn caught<T>(work: impl FnOnce() -> T) -> Option<T> {
    catch_unwind(AssertUnwindSafe(work)).ok()
}

/// The answer, shared by the writers of text and of pages.
struct Sink<W: Write>(Rc<RefCell<Answer<W>>>);

struct Answer<W: Write> {
    out: W,
    /// Bytes that may still be written.
    left: usize,
    is_full: bool,
    /// True if the page has text.
    has_text: bool,
}

impl<W: Write> Clone for Sink<W> {
    fn clone(&self) -> Self {
        Self(Rc::clone(&self.0))
    }
}

impl<W: Write> Sink<W> {
    fn new(out: W) -> Self {
        Self(Rc::new(RefCell::new(Answer { out, left: TEXT_BYTES_MAX, is_full: false, has_text: false })))
    }

    fn is_full(&self) -> bool {
        self.0.borrow().is_full
    }

    /// Ends a page, and returns whether it has text. The host keeps the pages before a later one that ends the child.
    fn page(&self) -> std::io::Result<bool> {
        let mut answer = self.0.borrow_mut();
        let has_text = std::mem::take(&mut answer.has_text);
        match answer.left.checked_sub(BREAK.len()) {
            Some(left) => answer.left = left,
            None => answer.is_full = true,
        }
        if answer.is_full {
            return Err(std::io::ErrorKind::FileTooLarge.into());
        }
        answer.out.write_all(BREAK)?;
        answer.out.flush()?;
        Ok(has_text)
    }

    fn end(&self, report: Report) -> std::io::Result<()> {
        let mut answer = self.0.borrow_mut();
        answer.out.write_all(&[0])?;
        serde_json::to_writer(&mut answer.out, &report)?;
        answer.out.flush()
    }
}

impl<W: Write> fmt::Write for Sink<W> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let mut answer = self.0.borrow_mut();
        for c in text.chars().filter(|c| matches!(c, '\n' | '\t') || !c.is_control()) {
            if answer.left < c.len_utf8() {
                answer.is_full = true;
                return Err(fmt::Error);
            }
            answer.left -= c.len_utf8();
            answer.has_text |= !c.is_whitespace();
            let mut bytes = [0; 4];
            answer.out.write_all(c.encode_utf8(&mut bytes).as_bytes()).map_err(|_| fmt::Error)?;
        }
        Ok(())
    }
}

impl<W: Write> ConvertToFmt for Sink<W> {
    type Writer = Self;

    fn convert(self) -> Self {
        self
    }
}

/// The output of the extraction: text, and the pages to which it belongs.
struct Device<W: Write> {
    text: PlainTextOutput<Sink<W>>,
    sink: Sink<W>,
    /// The last page that was begun.
    begun: u32,
    /// The last page that was ended.
    ended: u32,
    /// Pages without text.
    empty: u32,
}

impl<W: Write> OutputDev for Device<W> {
    fn begin_page(&mut self, page: u32, area: &MediaBox, art: Option<(f64, f64, f64, f64)>) -> Result<(), OutputError> {
        self.begun = page;
        self.text.begin_page(page, area, art)
    }

    fn end_page(&mut self) -> Result<(), OutputError> {
        self.text.end_page()?;
        self.ended = self.begun;
        if !self.sink.page().map_err(OutputError::IoError)? {
            self.empty += 1;
        }
        Ok(())
    }

    fn output_character(
        &mut self,
        place: &Transform,
        width: f64,
        spacing: f64,
        font_size: f64,
        text: &str,
    ) -> Result<(), OutputError> {
        self.text.output_character(place, width, spacing, font_size, text)
    }

    fn begin_word(&mut self) -> Result<(), OutputError> {
        self.text.begin_word()
    }

    fn end_word(&mut self) -> Result<(), OutputError> {
        self.text.end_word()
    }

    fn end_line(&mut self) -> Result<(), OutputError> {
        self.text.end_line()
    }
}
