//! Output of commands in the form for a model: bounded, plain, without secrets.

use hermes_core::delivery::strip_control;
use hermes_protocol::text::prefix;

use super::ports::Mask;

/// Bytes kept from the beginning.
const KEPT_HEAD_BYTES: usize = 64 << 10;

/// Bytes kept from the end.
const KEPT_TAIL_BYTES: usize = 64 << 10;

/// Share of the beginning in a truncated text, in percent.
const HEAD_PERCENT: usize = 40;

/// The beginning and the end of an output.
#[derive(Debug, Default)]
pub struct OutputCapture {
    head: Vec<u8>,
    tail: std::collections::VecDeque<u8>,
    left_out: u64,
}

impl OutputCapture {
    /// Appends output.
    pub fn push(&mut self, bytes: &[u8]) {
        let room = KEPT_HEAD_BYTES - self.head.len();
        let (head, tail) = bytes.split_at(room.min(bytes.len()));
        self.head.extend_from_slice(head);
        // Only the end of a large block is kept.
        let skipped = tail.len().saturating_sub(KEPT_TAIL_BYTES);
        self.left_out += skipped as u64;
        self.tail.extend(&tail[skipped..]);
        let excess = self.tail.len().saturating_sub(KEPT_TAIL_BYTES);
        self.tail.drain(..excess);
        self.left_out += excess as u64;
    }

    /// Returns the output as plain text without secrets, in at most `bytes_max` bytes.
    pub fn shown(&self, mask: &dyn Mask, bytes_max: usize) -> String {
        let mut bytes = self.head.clone();
        if self.left_out > 0 {
            bytes.extend_from_slice(format!("\n[… {} bytes omitted …]\n", self.left_out).as_bytes());
        }
        bytes.extend(&self.tail);
        bounded(&plain(&bytes, mask), bytes_max)
    }
}

/// Converts bytes to plain text without secrets.
pub fn plain(bytes: &[u8], mask: &dyn Mask) -> String {
    let text = String::from_utf8_lossy(bytes);
    // Control sequences are removed first, because they may split a secret.
    mask.mask(strip_control(&text))
}

/// Truncates a text in the middle to `bytes_max` bytes, with a note about the omitted part.
pub fn bounded(text: &str, bytes_max: usize) -> String {
    if text.len() <= bytes_max {
        return text.to_owned();
    }
    const NOTE_BYTES: usize = 48;
    let room = bytes_max.saturating_sub(NOTE_BYTES);
    let head = prefix(text, room * HEAD_PERCENT / 100);
    let tail = ceil(text, text.len() - (room - room * HEAD_PERCENT / 100));
    format!("{head}\n[… {} bytes omitted …]\n{}", tail - head.len(), &text[tail..])
}

fn ceil(text: &str, at: usize) -> usize {
    (at..=text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(text.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::ports::Ports;

    struct Hides;

    impl Mask for Hides {
        fn mask(&self, text: String) -> String {
            text.replace("hunter2", "[hidden]")
        }
    }

    #[test]
    fn short_output_is_whole_plain_and_without_secrets() {
        let mut capture = OutputCapture::default();
        capture.push(b"\x1b[31mred\x1b[0m hun");
        capture.push(b"\x1b[1mter2 \xff");
        let shown = capture.shown(&Hides, 1_000);
        assert!(shown.starts_with("red [hidden] ") && !shown.contains('\x1b'), "{shown:?}");
    }

    #[test]
    fn of_long_output_the_beginning_and_the_end_stay_and_the_rest_is_counted() {
        let mut capture = OutputCapture::default();
        for n in 0..100_000 {
            capture.push(format!("line {n}\n").as_bytes());
        }
        let shown = capture.shown(&*Ports::default().mask, 4_000);
        assert!(shown.len() <= 4_000, "{}", shown.len());
        assert!(shown.starts_with("line 0\n") && shown.ends_with("line 99999\n"), "{shown}");
        assert!(shown.contains("bytes omitted"));
        capture.push(&vec![b'x'; 10 << 20]);
        assert!(capture.tail.len() <= KEPT_TAIL_BYTES);
    }

    #[test]
    fn a_cut_never_splits_a_character() {
        for max in 48..200 {
            let cut = bounded(&"ü終".repeat(100), max);
            assert!(cut.len() <= max + 8, "{max}: {}", cut.len());
        }
    }
}
