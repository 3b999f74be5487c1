//! Reads one answer, in whatever form it comes.
//!
//! Endpoints differ from what they were asked for: some answer a streaming
//! request with one JSON object, some forget `[DONE]`, some name the wrong
//! content type. So the first byte decides what it is, and the model's own
//! `finish_reason` decides whether it is complete.

use std::time::Duration;

use hermes_adapter_net::NetError;
use hermes_adapter_net::lenient;
use hermes_adapter_net::reqwest::Response;
use hermes_adapter_net::sse::{SseEvent, SseParser};
use serde_json::Value;
use tokio::time::{Instant, timeout_at};

use super::answer::Answer;
use super::failure::Trouble;
use crate::EventSink;

/// The longest line and the longest event of a stream.
pub(super) const EVENT_BYTES_MAX: usize = 1024 * 1024;

/// The longest answer in one piece.
const BODY_BYTES_MAX: usize = 8 * 1024 * 1024;

/// How long usage and `[DONE]` are waited for once the model has finished.
const TAIL_WAIT: Duration = Duration::from_secs(5);

/// Until when the next piece has to come.
#[derive(Clone, Copy, Debug)]
pub(super) struct Patience {
    /// Until the first piece.
    pub first: Instant,
    /// How long the first piece may take, for the sentence.
    pub first_byte: Duration,
    /// Between two pieces.
    pub idle: Duration,
}

/// Reads the answer into `answer` and says its text as it comes.
pub(super) async fn read(
    mut response: Response,
    answer: &mut Answer,
    events: &EventSink,
    patience: Patience,
) -> Result<(), Trouble> {
    let clock = Clock { patience, deadline: patience.first, begun: false };
    let mut start = Vec::new();
    let form = loop {
        match clock.wait(response.chunk()).await? {
            Some(bytes) => start.extend_from_slice(&bytes),
            None if start.is_empty() => return Err(Trouble::Empty),
            None => break Form::of(&start, true).unwrap_or(Form::Other),
        }
        if let Some(form) = Form::of(&start, false) {
            break form;
        }
    };
    match form {
        Form::Json => read_json(response, start, answer, events, clock).await,
        Form::Stream => read_stream(response, &start, answer, events, clock).await,
        Form::Other => Err(Trouble::NotACompletion { why: "neither JSON nor an event stream" }),
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Json,
    Stream,
    Other,
}

impl Form {
    /// Tells the form from how the body begins; `None` when that is not enough to tell.
    fn of(start: &[u8], at_end: bool) -> Option<Self> {
        let begun = start.strip_prefix(b"\xef\xbb\xbf").unwrap_or(start).trim_ascii_start();
        if begun.is_empty() {
            return (start.len() > 1024 || at_end).then_some(Self::Other);
        }
        if begun[0] == b'{' {
            return Some(Self::Json);
        }
        let words: [&[u8]; 5] = [b"data:", b"event:", b"id:", b"retry:", b":"];
        if words.iter().any(|word| begun.starts_with(word)) {
            return Some(Self::Stream);
        }
        let undecided = !at_end && words.iter().any(|word| word.starts_with(begun));
        (!undecided).then_some(Self::Other)
    }
}

async fn read_json(
    mut response: Response,
    mut body: Vec<u8>,
    answer: &mut Answer,
    events: &EventSink,
    mut clock: Clock,
) -> Result<(), Trouble> {
    while let Some(bytes) = clock.wait(response.chunk()).await? {
        clock.moved();
        if body.len() + bytes.len() > BODY_BYTES_MAX {
            return Err(Trouble::PieceTooLong { bytes_max: BODY_BYTES_MAX });
        }
        body.extend_from_slice(&bytes);
    }
    let completion: Value =
        lenient::from_slice(&body).map_err(|_| Trouble::NotACompletion { why: "unreadable JSON" })?;
    let step = answer.take(&completion)?;
    events.chunk(step.text).await;
    if answer.finish_reason.is_none() {
        // A whole completion is complete, also when a server does not say so.
        answer.finish_reason = Some("stop".to_owned());
        answer.flush();
    }
    Ok(())
}

async fn read_stream(
    mut response: Response,
    start: &[u8],
    answer: &mut Answer,
    events: &EventSink,
    mut clock: Clock,
) -> Result<(), Trouble> {
    let too_long = |_| Trouble::PieceTooLong { bytes_max: EVENT_BYTES_MAX };
    let mut parser = SseParser::new(EVENT_BYTES_MAX);
    let mut batch = parser.feed(start).map_err(too_long)?;
    loop {
        for event in batch {
            if take(&event, answer, events, &mut clock).await? == Flow::Done {
                return Ok(());
            }
        }
        let finished = answer.finish_reason.is_some();
        match clock.wait(response.chunk()).await {
            Ok(Some(bytes)) => batch = parser.feed(&bytes).map_err(too_long)?,
            Ok(None) => break,
            // The model has finished; whatever happens to the rest of the stream changes nothing.
            Err(_) if finished => return Ok(()),
            Err(trouble) => return Err(trouble),
        }
    }
    if let Some(event) = parser.finish().map_err(too_long)?
        && take(&event, answer, events, &mut clock).await? == Flow::Done
    {
        return Ok(());
    }
    match answer.finish_reason {
        Some(_) => Ok(()),
        None => Err(Trouble::CutOff { detail: "the stream ended without a finish_reason".to_owned() }),
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flow {
    More,
    Done,
}

async fn take(event: &SseEvent, answer: &mut Answer, events: &EventSink, clock: &mut Clock) -> Result<Flow, Trouble> {
    let data = event.data.trim();
    if data == "[DONE]" {
        return Ok(Flow::Done);
    }
    if data.is_empty() {
        return Ok(Flow::More);
    }
    let piece: Value = lenient::from_slice(data.as_bytes())
        .map_err(|_| Trouble::NotACompletion { why: "an event of the stream is no JSON" })?;
    if answer.finish_reason.is_some() && piece["error"].is_null() && !piece["usage"].is_object() {
        return Ok(Flow::More);
    }
    let step = answer.take(&piece)?;
    events.chunk(step.text).await;
    if step.moved {
        clock.moved();
    }
    if answer.finish_reason.is_some() {
        clock.finished();
    }
    Ok(Flow::More)
}

/// Waits for the next bytes as long as the answer may take for them.
struct Clock {
    patience: Patience,
    deadline: Instant,
    begun: bool,
}

impl Clock {
    async fn wait<T, E: Into<NetError>>(&self, next: impl Future<Output = Result<T, E>>) -> Result<T, Trouble> {
        match timeout_at(self.deadline, next).await {
            Ok(read) => read.map_err(|error| error.into().into()),
            Err(_) if self.begun => Err(Trouble::FellSilent { after: self.patience.idle }),
            Err(_) => Err(Trouble::NoAnswer { after: self.patience.first_byte }),
        }
    }

    fn moved(&mut self) {
        self.begun = true;
        self.deadline = Instant::now() + self.patience.idle;
    }

    fn finished(&mut self) {
        self.deadline = self.deadline.min(Instant::now() + TAIL_WAIT);
    }
}
