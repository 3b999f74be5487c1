//! Reader for one response.
//!
//! Responses vary: some endpoints answer a streaming request with one JSON object, omit `[DONE]`, send the
//! wrong content type, or compress. The first bytes decide the form, and the model's own `finish_reason`
//! decides whether the answer is complete.

use std::time::Duration;

use hermes_adapter_net::NetError;
use hermes_adapter_net::reqwest::Response;
use hermes_adapter_net::reqwest::header::CONTENT_ENCODING;
use tokio::time::{Instant, timeout_at};

use super::error::EndpointError;
use super::wire::answer::{Answer, FinishReason};
use super::wire::decode::{Decoder, START_BYTES};
use super::wire::json;
use super::wire::stream::{EventStream, StreamEvent};
use crate::EventSink;

/// Longest line and longest event of a stream, in bytes.
pub(super) const EVENT_BYTES_MAX: usize = 1024 * 1024;

/// Longest answer that is not streamed, in bytes.
const BODY_BYTES_MAX: usize = 8 * 1024 * 1024;

/// Wait for usage and `[DONE]` after the model has stopped.
const TAIL_WAIT: Duration = Duration::from_secs(5);

/// The same wait if the last piece of content also carried the end, because some servers send "stop" with every
/// piece.
const TAIL_WAIT_WITH_CONTENT: Duration = Duration::from_secs(30);

/// Time limits of a response.
#[derive(Clone, Copy, Debug)]
pub(super) struct ResponseTimeouts {
    /// Deadline of the first piece.
    pub first: Instant,
    /// Time limit of the first piece, for the error message.
    pub first_byte: Duration,
    /// Time limit between two pieces.
    pub idle: Duration,
}

/// Reads the response into `answer` and forwards its text as it arrives.
pub(super) async fn read(
    response: Response,
    answer: &mut Answer,
    events: &EventSink,
    timeouts: ResponseTimeouts,
) -> Result<(), EndpointError> {
    let clock = ReadClock { timeouts, deadline: timeouts.first, begun: false };
    let is_stream = content_type(&response).contains("event-stream");
    let mut body = ResponseBody::new(response);
    let mut start = Vec::new();
    let form = loop {
        let next = body.next(&clock).await?;
        let at_end = next.is_none();
        start.extend(next.unwrap_or_default());
        if start.is_empty() && at_end {
            return Err(EndpointError::Empty);
        }
        if let Some(form) = ResponseForm::of(&start, at_end, is_stream) {
            break form;
        }
        if start.len() > EVENT_BYTES_MAX {
            return Err(EndpointError::NotACompletion { why: "only whitespace" });
        }
    };
    match form {
        ResponseForm::Json => read_json(body, start, answer, events, clock).await,
        ResponseForm::EventStream => read_stream(body, &start, answer, events, clock).await,
        ResponseForm::Other => {
            Err(EndpointError::NotACompletion { why: "the response is neither JSON nor an event stream" })
        }
    }
}

/// Reads the beginning of an error body as text.
pub(super) async fn read_start(response: Response, bytes_max: usize, timeouts: ResponseTimeouts) -> String {
    let clock = ReadClock { timeouts, deadline: timeouts.first, begun: false };
    let mut body = ResponseBody::new(response);
    let mut start = Vec::new();
    while let Ok(Some(bytes)) = body.next(&clock).await {
        start.extend(bytes);
        if start.len() >= bytes_max {
            start.truncate(bytes_max);
            break;
        }
    }
    String::from_utf8_lossy(&start).into_owned()
}

fn content_type(response: &Response) -> String {
    let value = response.headers().get("content-type").and_then(|value| value.to_str().ok());
    value.unwrap_or_default().to_ascii_lowercase()
}

/// The decoded bytes of a body.
struct ResponseBody {
    response: Response,
    encoding: String,
    decoder: Option<Decoder>,
    start: Vec<u8>,
    ended: bool,
}

impl ResponseBody {
    fn new(response: Response) -> Self {
        let encoding = response.headers().get(CONTENT_ENCODING).and_then(|value| value.to_str().ok());
        let encoding = encoding.unwrap_or_default().to_owned();
        Self { response, encoding, decoder: None, start: Vec::new(), ended: false }
    }

    /// Returns the next bytes, or `None` at the end of the body.
    async fn next(&mut self, clock: &ReadClock) -> Result<Option<Vec<u8>>, EndpointError> {
        let unreadable = |error: std::io::Error| match error.kind() {
            std::io::ErrorKind::FileTooLarge => EndpointError::PieceTooLong { bytes_max: BODY_BYTES_MAX },
            _ => EndpointError::NotACompletion { why: "the compressed body cannot be decoded" },
        };
        loop {
            if self.ended {
                return Ok(None);
            }
            let bytes = clock.wait(self.response.chunk()).await?;
            self.ended = bytes.is_none();
            let bytes = bytes.unwrap_or_default();
            let mut decoded = match &mut self.decoder {
                Some(decoder) => decoder.feed(&bytes).map_err(unreadable)?,
                None => {
                    self.start.extend_from_slice(&bytes);
                    if self.start.len() < START_BYTES && !self.ended {
                        continue;
                    }
                    let start = std::mem::take(&mut self.start);
                    let decoder = self.decoder.insert(Decoder::of(&self.encoding, &start, BODY_BYTES_MAX));
                    decoder.feed(&start).map_err(unreadable)?
                }
            };
            if let Some(decoder) = self.decoder.as_mut().filter(|_| self.ended) {
                decoded.extend(decoder.finish().map_err(unreadable)?);
            }
            if !decoded.is_empty() {
                return Ok(Some(decoded));
            }
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ResponseForm {
    Json,
    EventStream,
    Other,
}

impl ResponseForm {
    /// Returns the form of a body from its beginning, or `None` if more bytes are needed.
    fn of(start: &[u8], at_end: bool, is_stream: bool) -> Option<Self> {
        let begun = start.strip_prefix(b"\xef\xbb\xbf").unwrap_or(start).trim_ascii_start();
        match begun.first() {
            None => at_end.then_some(if is_stream { Self::EventStream } else { Self::Other }),
            Some(b'{') => Some(Self::Json),
            Some(b'[') if !begun.starts_with(b"[D") => Some(Self::Json),
            Some(b'<') if !is_stream => Some(Self::Other),
            Some(_) => Some(Self::EventStream),
        }
    }
}

async fn read_json(
    mut body: ResponseBody,
    mut bytes: Vec<u8>,
    answer: &mut Answer,
    events: &EventSink,
    mut clock: ReadClock,
) -> Result<(), EndpointError> {
    while let Some(more) = body.next(&clock).await? {
        clock.moved();
        if bytes.len() + more.len() > BODY_BYTES_MAX {
            return Err(EndpointError::PieceTooLong { bytes_max: BODY_BYTES_MAX });
        }
        bytes.extend(more);
    }
    let text = String::from_utf8_lossy(&bytes);
    let read = json::values(text.trim_start_matches('\u{feff}').trim());
    for value in &read.values {
        let step = answer.take(value, false)?;
        events.chunk(step.text).await;
    }
    if !answer.is_recognised() {
        let why = if read.unreadable { "the response is invalid JSON" } else { "the JSON object has no choices" };
        return Err(EndpointError::NotACompletion { why });
    }
    // A single JSON completion is complete even without a finish reason.
    answer.end.get_or_insert(FinishReason::Stop);
    events.chunk(answer.finish()).await;
    Ok(())
}

async fn read_stream(
    mut body: ResponseBody,
    start: &[u8],
    answer: &mut Answer,
    events: &EventSink,
    mut clock: ReadClock,
) -> Result<(), EndpointError> {
    let too_long = |_| EndpointError::PieceTooLong { bytes_max: EVENT_BYTES_MAX };
    let mut stream = EventStream::new(EVENT_BYTES_MAX);
    let mut batch = stream.feed(start).map_err(too_long)?;
    let mut done = false;
    loop {
        for event in batch {
            done |= take(&event, answer, events, &mut clock).await?;
            if done {
                break;
            }
        }
        if done {
            break;
        }
        match body.next(&clock).await {
            Ok(Some(bytes)) => batch = stream.feed(&bytes).map_err(too_long)?,
            Ok(None) => {
                for event in stream.finish().map_err(too_long)? {
                    done |= take(&event, answer, events, &mut clock).await?;
                }
                break;
            }
            // The model has stopped, so the rest of the stream is irrelevant.
            Err(_) if answer.is_certain() => {
                done = true;
                break;
            }
            Err(error) => return Err(error),
        }
    }
    answer.skipped += stream.skipped;
    if answer.skipped > 0 {
        tracing::debug!(skipped = answer.skipped, "ignored events that are not chunks of an answer");
    }
    events.chunk(answer.finish()).await;
    match () {
        () if !answer.is_recognised() && answer.skipped > 0 => {
            Err(EndpointError::NotACompletion { why: "the event stream has no chunks of an answer" })
        }
        () if done || answer.end.is_some() => Ok(()),
        () => Err(EndpointError::Truncated { detail: "the stream ended without a finish_reason".to_owned() }),
    }
}

/// Processes an event. Returns true if it is the last one.
async fn take(
    event: &StreamEvent,
    answer: &mut Answer,
    events: &EventSink,
    clock: &mut ReadClock,
) -> Result<bool, EndpointError> {
    let is_error = event.name.eq_ignore_ascii_case("error");
    if is_error && event.read.values.is_empty() && !event.text.trim().is_empty() && !answer.is_certain() {
        return Err(EndpointError::of_error_object(&event.text.trim().into()));
    }
    for value in &event.read.values {
        let step = answer.take(value, is_error)?;
        events.chunk(step.text).await;
        if step.moved {
            clock.moved();
        }
        if answer.is_complete() {
            clock.finished(if step.ended_with_content { TAIL_WAIT_WITH_CONTENT } else { TAIL_WAIT });
        }
    }
    answer.skipped += u64::from(event.read.unreadable);
    Ok(event.read.done || answer.is_full())
}

/// The clock that limits the wait for the next bytes.
struct ReadClock {
    timeouts: ResponseTimeouts,
    deadline: Instant,
    begun: bool,
}

impl ReadClock {
    async fn wait<T, E: Into<NetError>>(&self, next: impl Future<Output = Result<T, E>>) -> Result<T, EndpointError> {
        match timeout_at(self.deadline, next).await {
            Ok(read) => read.map_err(|error| error.into().into()),
            Err(_) if self.begun => Err(EndpointError::Stalled { after: self.timeouts.idle }),
            Err(_) => Err(EndpointError::NoResponse { after: self.timeouts.first_byte }),
        }
    }

    fn moved(&mut self) {
        self.begun = true;
        self.deadline = Instant::now() + self.timeouts.idle;
    }

    fn finished(&mut self, tail: Duration) {
        self.deadline = self.deadline.min(Instant::now() + tail);
    }
}
