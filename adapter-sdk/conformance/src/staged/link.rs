//! The link between the adapter and its stage, maintained as a host does it.

use std::time::{Duration, Instant};

use hermes_protocol::{CallError, ConnectError, Event, LinkState, LinkWord, host_method, method};
use serde_json::Value;

use crate::stage::Stage;
use crate::{Answer, Subject, words};

/// The method name under which a subject reports a log record: `{level, target, fields}`. The report arrives like any
/// other call of the adapter to its host.
pub const LOG: &str = "log";

/// The method name under which a subject reports the end of `run`, with its [`ConnectError`]. A subject calls
/// `run` after `connect` is answered OK, as the host does.
pub const RUN_ENDED: &str = "run.ended";

/// The maximum duration of an operation without a promised limit.
pub(super) const PATIENCE: Duration = Duration::from_secs(30);

/// The time after which an unanswered call is cancelled.
pub(super) const CANCEL_AFTER: Duration = Duration::from_millis(500);

/// The wait before the next connection attempt.
const TRY_AGAIN: Duration = Duration::from_millis(200);

/// The time between a change and its repeated delivery. Long enough to change an id derived from the time.
pub(super) const AGAIN_AFTER: Duration = Duration::from_millis(1_100);

/// The tolerance on a promised duration.
const SLACK: Duration = Duration::from_secs(10);

/// The maximum number of log records shown for a failed case.
const LOGGED_MAX: usize = 8;

/// The maximum number of recorded calls of the adapter.
const RECORDS_MAX: usize = 100_000;

/// The last message from the adapter.
enum AdapterCall {
    Event(Box<Event>),
    /// An event that every host rejects; contains the reason.
    Refused(String),
    Lost(ConnectError),
    Other,
}

pub(super) struct Link<'l, S, T> {
    subject: &'l mut S,
    pub(super) stage: &'l mut T,
    /// All calls of the adapter and answers to its calls: the kind and the text.
    pub(super) records: Vec<(String, String)>,
    /// The adapter's panic message, after a panic.
    pub(super) panicked: Option<String>,
    /// True while the link is connected.
    is_up: bool,
}

impl<'l, S: Subject, T: Stage> Link<'l, S, T> {
    pub(super) fn new(subject: &'l mut S, stage: &'l mut T) -> Self {
        Self { subject, stage, records: Vec::new(), panicked: None, is_up: false }
    }

    pub(super) async fn call(&mut self, method: &str, payload: &Value, deadline: Duration) -> Answer {
        let answer = self.subject.call(method, payload.to_string().as_bytes(), deadline).await;
        self.note(method, &answer.payload);
        if self.panicked.is_none() {
            self.panicked = words::panic(&answer);
        }
        answer
    }

    /// The folder from which the adapter sends files.
    pub(super) fn media_dir(&self) -> Option<std::path::PathBuf> {
        self.subject.media_dir()
    }

    /// Calls `connect`.
    pub(super) async fn connect(&mut self) -> Result<(), ConnectError> {
        let answer = self.call(method::CONNECT, &Value::Object(serde_json::Map::new()), PATIENCE).await;
        self.is_up = answer.status == Some(0);
        if self.is_up {
            return Ok(());
        }
        let other = |_| ConnectError::retry(words::message(&answer.payload));
        Err(serde_json::from_slice(&answer.payload).unwrap_or_else(other))
    }

    /// Connects repeatedly until it succeeds.
    pub(super) async fn again(&mut self) -> Result<(), String> {
        let until = now() + PATIENCE;
        let mut last = None;
        while !self.is_up {
            if let Some(why) = &self.panicked {
                return Err(why.clone());
            }
            if now() > until {
                return Err(last.map_or_else(
                    || "not connected".to_owned(),
                    |error| format!("not connected: {}", words::link(&error)),
                ));
            }
            last = self.connect().await.err();
            if !self.is_up {
                self.pause().await;
            }
        }
        Ok(())
    }

    /// Returns the event with this text, and the events before it. Reconnects if the link is lost meanwhile.
    pub(super) async fn event_of(&mut self, text: &str) -> Result<(Event, Vec<Event>), String> {
        let until = now() + PATIENCE;
        let mut before = Vec::new();
        loop {
            self.again().await?;
            let left = until.saturating_duration_since(now());
            match self.next(left).await {
                Some(AdapterCall::Event(event)) if event.text == text => return Ok((*event, before)),
                Some(AdapterCall::Event(event)) => before.push(*event),
                Some(AdapterCall::Refused(why)) => return Err(format!("an invalid event: {why}")),
                Some(AdapterCall::Lost(_) | AdapterCall::Other) => {}
                None if left.is_zero() => return Err(format!("no event with the text \"{text}\"")),
                None => {}
            }
        }
    }

    /// Returns whether the link is lost, or reported as lost, within the promised time.
    pub(super) async fn lost_within(&mut self, promised: Duration) -> bool {
        let until = now() + promised + SLACK;
        loop {
            let left = until.saturating_duration_since(now());
            match self.next(left).await {
                Some(AdapterCall::Lost(_)) => return true,
                _ if self.panicked.is_some() => return false,
                None if left.is_zero() => return false,
                _ => {}
            }
        }
    }

    /// Returns the fatal error that ends the connection attempts.
    pub(super) async fn fatal(&mut self) -> Result<ConnectError, String> {
        let until = now() + PATIENCE + PATIENCE;
        while now() < until && self.panicked.is_none() {
            if !self.is_up {
                match self.connect().await {
                    Err(error @ ConnectError::Fatal { .. }) => return Ok(error),
                    Err(_) => self.pause().await,
                    Ok(()) => {}
                }
                continue;
            }
            if let Some(AdapterCall::Lost(error @ ConnectError::Fatal { .. })) = self.next(TRY_AGAIN).await {
                return Ok(error);
            }
        }
        Err("the adapter keeps retrying".to_owned())
    }

    pub(super) async fn shut_down(&mut self) -> Result<(), String> {
        let answer = self.subject.shutdown(Duration::from_secs(5)).await;
        match answer.status {
            Some(0) => Ok(()),
            _ => Err(words::answer(&answer)),
        }
    }

    /// Returns the events that arrive within `time`, without reconnecting.
    pub(super) async fn events_for(&mut self, time: Duration) -> Vec<Event> {
        let until = now() + time;
        let mut events = Vec::new();
        // `None`: the time is over.
        while let Some(said) = self.next(until.saturating_duration_since(now())).await {
            if let AdapterCall::Event(event) = said {
                events.push(*event);
            }
        }
        events
    }

    /// Receives messages until the next connection attempt is due.
    async fn pause(&mut self) {
        let until = now() + TRY_AGAIN;
        while now() < until {
            self.next(until.saturating_duration_since(now())).await;
        }
    }

    async fn next(&mut self, deadline: Duration) -> Option<AdapterCall> {
        let call = self.subject.next_host_call(deadline).await?;
        self.note(&call.method, &call.payload);
        Some(match call.method.as_str() {
            host_method::EMIT => match serde_json::from_slice::<Event>(&call.payload) {
                Ok(event) => match event.judge_by_every_rule() {
                    Ok(()) => AdapterCall::Event(Box::new(event)),
                    Err(error) => AdapterCall::Refused(error.message),
                },
                Err(error) => AdapterCall::Refused(error.to_string()),
            },
            RUN_ENDED => {
                self.is_up = false;
                let failed = serde_json::from_slice::<CallError>(&call.payload).ok();
                let panic = failed.filter(|error| error.code == "panic").map(|error| error.message);
                self.panicked = self.panicked.take().or(panic);
                AdapterCall::Lost(serde_json::from_slice(&call.payload).unwrap_or(ConnectError::Unrecognised))
            }
            host_method::LINK => match serde_json::from_slice::<LinkState>(&call.payload) {
                Ok(LinkState { state: LinkWord::Lost, reason, .. }) => AdapterCall::Lost(ConnectError::retry(reason)),
                _ => AdapterCall::Other,
            },
            _ => AdapterCall::Other,
        })
    }

    /// Returns the last log records of the adapter since the position `from`.
    pub(super) fn logged_since(&self, from: usize) -> Vec<String> {
        let records = self.records.get(from..).unwrap_or_default();
        let logged = records.iter().rev().filter(|(what, _)| what == LOG).take(LOGGED_MAX).map(|(_, record)| {
            let record: Value = serde_json::from_str(record).unwrap_or_default();
            let fields = &record["fields"];
            fields["message"].as_str().map_or_else(|| format!("log: {fields}"), |message| format!("log: {message}"))
        });
        let mut logged: Vec<String> = logged.collect();
        logged.reverse();
        logged
    }

    fn note(&mut self, what: &str, payload: &[u8]) {
        if self.records.len() < RECORDS_MAX {
            self.records.push((what.to_owned(), String::from_utf8_lossy(payload).into_owned()));
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "an adapter's promises are measured against the time that people have")]
fn now() -> Instant {
    Instant::now()
}
