//! A parser of server-sent events in chunks of any size, with limits.
//!
//! The rules are those of the HTML standard: lines end with LF, CR or CRLF, a blank line
//! ends an event, unknown fields and comments are skipped. Text is decoded per line, so a
//! character split between two chunks stays whole.

/// One event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SseEvent {
    /// The name; empty if the stream contains none.
    pub event: String,
    /// The data; several lines are joined with a line feed.
    pub data: String,
}

/// The reason why the stream cannot be parsed further.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SseError {
    /// One line or the data of one event is longer than allowed.
    #[error("an event of the stream exceeds {bytes_max} bytes")]
    TooLong {
        /// The limit, in bytes.
        bytes_max: usize,
    },
}

/// The parser with its state between two chunks.
#[derive(Debug)]
pub struct SseParser {
    bytes_max: usize,
    line: Vec<u8>,
    after_cr: bool,
    at_start: bool,
    event: String,
    data: String,
    has_data: bool,
}

impl SseParser {
    /// Creates a parser that rejects lines and events longer than `bytes_max`.
    pub fn new(bytes_max: usize) -> Self {
        Self {
            bytes_max,
            line: Vec::new(),
            after_cr: false,
            at_start: true,
            event: String::new(),
            data: String::new(),
            has_data: false,
        }
    }

    /// Parses a chunk and returns the events that it completes.
    ///
    /// # Errors
    ///
    /// If a line or an event exceeds the limit; the stream is unusable after that.
    pub fn feed(&mut self, mut bytes: &[u8]) -> Result<Vec<SseEvent>, SseError> {
        let mut events = Vec::new();
        while !bytes.is_empty() {
            if std::mem::take(&mut self.after_cr) && bytes[0] == b'\n' {
                bytes = &bytes[1..];
                continue;
            }
            let end = bytes.iter().position(|byte| matches!(byte, b'\n' | b'\r'));
            let piece = &bytes[..end.unwrap_or(bytes.len())];
            if self.line.len() + piece.len() > self.bytes_max {
                return Err(self.too_long());
            }
            self.line.extend_from_slice(piece);
            let Some(end) = end else { break };
            self.after_cr = bytes[end] == b'\r';
            bytes = &bytes[end + 1..];
            let line = std::mem::take(&mut self.line);
            events.extend(self.line_ended(&line)?);
        }
        Ok(events)
    }

    /// Returns the event that the end of the stream cut off before its blank line. The
    /// standard drops it, but some servers never send that line.
    ///
    /// # Errors
    ///
    /// If the event exceeds the limit.
    pub fn finish(mut self) -> Result<Option<SseEvent>, SseError> {
        let line = std::mem::take(&mut self.line);
        if !line.is_empty() {
            self.line_ended(&line)?;
        }
        self.line_ended(b"")
    }

    fn line_ended(&mut self, line: &[u8]) -> Result<Option<SseEvent>, SseError> {
        let line = match std::mem::take(&mut self.at_start) {
            true => line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line),
            false => line,
        };
        if line.is_empty() {
            let event = std::mem::take(&mut self.event);
            let data = std::mem::take(&mut self.data);
            return Ok(std::mem::take(&mut self.has_data).then_some(SseEvent { event, data }));
        }
        let text = String::from_utf8_lossy(line);
        let (field, value) = text.split_once(':').unwrap_or((&text, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            // A line within its limit can be longer as text: each invalid byte becomes three.
            "event" if value.len() > self.bytes_max => return Err(self.too_long()),
            "event" => self.event = value.to_owned(),
            "data" => {
                if self.data.len() + value.len() + 1 > self.bytes_max {
                    return Err(self.too_long());
                }
                if self.has_data {
                    self.data.push('\n');
                }
                self.data.push_str(value);
                self.has_data = true;
            }
            // Comments keep the line open; ids and retry times are for a reconnect, which this parser does not support.
            _ => {}
        }
        Ok(None)
    }

    fn too_long(&self) -> SseError {
        SseError::TooLong { bytes_max: self.bytes_max }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(pieces: &[&[u8]]) -> Vec<SseEvent> {
        let mut parser = SseParser::new(1024);
        let mut events = Vec::new();
        for piece in pieces {
            events.extend(parser.feed(piece).unwrap());
        }
        events.extend(parser.finish().unwrap());
        events
    }

    fn data(text: &str) -> SseEvent {
        SseEvent { event: String::new(), data: text.to_owned() }
    }

    #[test]
    fn all_three_line_endings_end_a_line() {
        for stream in ["data: a\n\ndata: b\n\n", "data: a\r\rdata: b\r\r", "data: a\r\n\r\ndata: b\r\n\r\n"] {
            assert_eq!(read(&[stream.as_bytes()]), [data("a"), data("b")], "{stream:?}");
        }
    }

    #[test]
    fn names_comments_and_several_lines_are_read_as_the_standard_says() {
        let stream =
            "\u{feff}: hello\nevent: chunk\ndata: one\ndata:two\nid: 7\nretry: 9\nother\n\n\ndata\n\nevent: only\n\n";
        let expected = [SseEvent { event: "chunk".into(), data: "one\ntwo".into() }, data("")];
        assert_eq!(read(&[stream.as_bytes()]), expected);
    }

    #[test]
    fn an_event_without_its_blank_line_is_read_at_the_end() {
        assert_eq!(read(&[b"data: a\n\nda", b"ta: b"]), [data("a"), data("b")]);
        assert_eq!(read(&[b"data: a\n"]), [data("a")]);
        assert_eq!(read(&[b": nothing"]), []);
    }

    #[test]
    fn a_name_that_grows_beyond_the_bound_as_text_is_refused() {
        let name = [b"event: ".as_slice(), &[0xff; 9], b"\ndata: a\n\n"].concat();
        assert!(SseParser::new(27).feed(&name).is_ok());
        assert_eq!(SseParser::new(26).feed(&name), Err(SseError::TooLong { bytes_max: 26 }));
    }

    #[test]
    fn what_is_too_long_is_refused_however_it_is_cut() {
        let mut parser = SseParser::new(16);
        assert!(parser.feed(b"data: 123").unwrap().is_empty());
        assert_eq!(parser.feed(b"456789012345"), Err(SseError::TooLong { bytes_max: 16 }));
        let mut parser = SseParser::new(16);
        assert!(parser.feed(b"data: 1234567\ndata: 123456789\n").is_err(), "lines of one event add up");
        let mut parser = SseParser::new(16);
        let empty_lines = b"data:\n".repeat(40);
        assert!(parser.feed(&empty_lines).is_err(), "empty data lines add up too");
    }

    proptest! {
        #[test]
        fn the_cuts_between_reads_change_nothing(
            texts in proptest::collection::vec("[^\r\n]{0,20}", 1..6),
            cuts in proptest::collection::vec(0_usize..200, 0..10),
            ending in prop_oneof![Just("\n"), Just("\r"), Just("\r\n")],
        ) {
            let stream: String = texts.iter().map(|text| format!("data: {text}{ending}{ending}")).collect();
            let bytes = stream.as_bytes();
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(bytes.len())).collect();
            cuts.extend([0, bytes.len()]);
            cuts.sort_unstable();
            let pieces: Vec<&[u8]> = cuts.windows(2).map(|pair| &bytes[pair[0]..pair[1]]).collect();
            let expected: Vec<SseEvent> = texts.iter().map(|text| data(text)).collect();
            prop_assert_eq!(read(&pieces), expected);
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
            let mut parser = SseParser::new(64);
            let _ = parser.feed(&bytes);
        }
    }
}
