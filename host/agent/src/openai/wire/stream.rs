//! The events of a streamed body, received in arbitrary pieces.
//!
//! The rules are those of server-sent events, with three additions. A `data` line with a complete JSON value is
//! an event at once, because some servers omit the blank line. A line that begins with `{` is data without a
//! field name. Any other line is skipped and counted.

use serde_json::Value;

use super::json::{self, ParsedValues};

/// One event.
#[derive(Debug, Default, PartialEq)]
pub(in crate::openai) struct StreamEvent {
    /// Name; empty if the stream gives none.
    pub name: String,
    /// Data as text, for errors that are not JSON.
    pub text: String,
    /// Data as JSON.
    pub read: ParsedValues,
}

/// The error for a line or event that exceeds the size limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::openai) struct EventTooLong;

/// The parser state between two reads.
#[derive(Debug)]
pub(in crate::openai) struct EventStream {
    bytes_max: usize,
    line: Vec<u8>,
    after_cr: bool,
    at_start: bool,
    name: String,
    data: Option<String>,
    /// Lines that are not part of an event.
    pub skipped: u64,
}

impl EventStream {
    /// Creates a parser that refuses lines and events longer than `bytes_max`.
    pub(in crate::openai) fn new(bytes_max: usize) -> Self {
        Self {
            bytes_max,
            line: Vec::new(),
            after_cr: false,
            at_start: true,
            name: String::new(),
            data: None,
            skipped: 0,
        }
    }

    /// Processes received bytes and returns the completed events.
    pub(in crate::openai) fn feed(&mut self, mut bytes: &[u8]) -> Result<Vec<StreamEvent>, EventTooLong> {
        let mut events = Vec::new();
        while !bytes.is_empty() {
            if std::mem::take(&mut self.after_cr) && bytes[0] == b'\n' {
                bytes = &bytes[1..];
                continue;
            }
            let end = bytes.iter().position(|byte| matches!(byte, b'\n' | b'\r'));
            let piece = &bytes[..end.unwrap_or(bytes.len())];
            if self.line.len() + piece.len() > self.bytes_max {
                return Err(EventTooLong);
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

    /// Returns the event that the end of the stream completes.
    pub(in crate::openai) fn finish(&mut self) -> Result<Vec<StreamEvent>, EventTooLong> {
        let line = std::mem::take(&mut self.line);
        let mut events = Vec::new();
        if !line.is_empty() {
            events.extend(self.line_ended(&line)?);
        }
        events.extend(self.line_ended(b"")?);
        Ok(events)
    }

    fn line_ended(&mut self, line: &[u8]) -> Result<Option<StreamEvent>, EventTooLong> {
        let line = match std::mem::take(&mut self.at_start) {
            true => line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line),
            false => line,
        };
        let line = String::from_utf8_lossy(line);
        if line.trim().is_empty() {
            let name = std::mem::take(&mut self.name);
            return Ok(self.data.take().map(|text| StreamEvent { name, read: json::values(text.trim()), text }));
        }
        if line.trim_start().starts_with('{') {
            return self.data(line.trim_start());
        }
        let Some((field, value)) = line.split_once(':') else {
            self.skipped += 1;
            return Ok(None);
        };
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field.trim() {
            "data" => return self.data(value),
            "event" if value.len() <= self.bytes_max => value.trim().clone_into(&mut self.name),
            // Comments keep the connection open; ids and retry times are for reconnects, which do not happen
            // here.
            "" | "id" | "retry" | "event" => {}
            _ => self.skipped += 1,
        }
        Ok(None)
    }

    fn data(&mut self, value: &str) -> Result<Option<StreamEvent>, EventTooLong> {
        let Some(data) = &mut self.data else {
            let whole = serde_json::from_str::<Value>(value).ok().filter(|value| value.is_object());
            if value.trim() == "[DONE]" || whole.is_some() {
                let read =
                    ParsedValues { done: whole.is_none(), values: whole.into_iter().collect(), unreadable: false };
                return Ok(Some(StreamEvent { name: self.name.clone(), text: String::new(), read }));
            }
            if value.len() > self.bytes_max {
                return Err(EventTooLong);
            }
            self.data = Some(value.to_owned());
            return Ok(None);
        };
        if data.len() + value.len() + 1 > self.bytes_max {
            return Err(EventTooLong);
        }
        data.push('\n');
        data.push_str(value);
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(bytes: &[u8], size: usize) -> (Vec<(String, Vec<Value>)>, u64) {
        let mut stream = EventStream::new(1024);
        let mut events = Vec::new();
        for piece in bytes.chunks(size) {
            events.extend(stream.feed(piece).unwrap());
        }
        events.extend(stream.finish().unwrap());
        (events.into_iter().map(|event| (event.name, event.read.values)).collect(), stream.skipped)
    }

    #[test]
    fn events_are_read_in_all_their_forms() {
        let body = "\u{feff}: hi\r\nevent: ping\r\ndata: {\"a\":1}\r\n\r\ndata:{\"a\":2}\rdata: {\"a\":3}\n{\"a\":4}\n\n\
                    data: {\"a\":\ndata: 5}\n\nPROCESSING\nid: 7\n\ndata: {\"a\":6}";
        for size in 1..body.len() {
            let (events, skipped) = read(body.as_bytes(), size);
            let values: Vec<Value> = events.iter().flat_map(|(_, values)| values.clone()).collect();
            assert_eq!(values, (1..=6).map(|n| json!({"a": n})).collect::<Vec<_>>(), "in pieces of {size}");
            assert_eq!((events[0].0.as_str(), events[1].0.as_str(), skipped), ("ping", "", 1), "in pieces of {size}");
        }
    }

    #[test]
    fn lines_and_events_are_bounded() {
        assert_eq!(EventStream::new(8).feed(b"data: 123456789"), Err(EventTooLong));
        let mut stream = EventStream::new(16);
        stream.feed(b"data: 12345678 x\n").unwrap();
        assert_eq!(stream.feed(b"data: 12345678\n"), Err(EventTooLong));
    }
}
