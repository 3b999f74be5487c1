//! The cases every adapter passes, whatever its platform.
//!
//! The list knows the protocol only. It drives a [`Subject`]: the SDK's `testing`
//! gives it an adapter in the test's own process, the host a library behind either
//! kind of isolation. The *contract* cases ([`run`]) call no `connect`, so they need
//! no platform. The cases *with a stage* ([`run_staged`]) connect to a program that
//! plays the platform ([`stage`]); an adapter that ships none is certified for its
//! contract only ([`Certified`]).
//!
//! A case says what it saw, not only that it failed; a case that cannot be asked of
//! this adapter is skipped with a reason.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod cases;
mod memory;
mod sample;
pub mod stage;
mod staged;
mod watch;
mod words;

use std::future::Future;
use std::time::Duration;

pub use cases::CASES;
pub use memory::Memory;
pub use sample::{Sample, secrets};
pub use staged::{LOG, NO_STAGE, RUN_ENDED, STAGED_CASES, run_staged, run_staged_watched, without_stage};
pub use watch::Watch;
pub use words::not_asked;

/// How a call ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The status; `None` when the call was never answered.
    pub status: Option<i32>,
    /// The payload.
    pub payload: Vec<u8>,
}

impl Answer {
    /// Answered with this status.
    pub fn new(status: i32, payload: Vec<u8>) -> Self {
        Self { status: Some(status), payload }
    }

    /// Not answered within the deadline and some seconds of grace.
    pub fn never() -> Self {
        Self { status: None, payload: Vec::new() }
    }
}

/// A call of the adapter to its host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostCall {
    /// The method.
    pub method: String,
    /// The payload.
    pub payload: Vec<u8>,
}

/// One created instance of the adapter under test.
///
/// Once `connect` was answered OK the subject calls `run`, as the host does; its end is
/// told as a call of [`RUN_ENDED`], each log record as a call of [`LOG`].
pub trait Subject: Send {
    /// The manifest's bytes, as they lie in the file.
    fn manifest(&self) -> Vec<u8>;

    /// Calls `method`. When `deadline` is over the call is cancelled, and how it then
    /// ends is the answer; a zero deadline cancels at once.
    fn call(&mut self, method: &str, payload: &[u8], deadline: Duration) -> impl Future<Output = Answer> + Send;

    /// The next call of the adapter to its host, if one comes within `deadline`.
    fn next_host_call(&mut self, deadline: Duration) -> impl Future<Output = Option<HostCall>> + Send;

    /// Asks the instance to end.
    fn shutdown(&mut self, deadline: Duration) -> impl Future<Output = Answer> + Send;
}

/// One thing that is asked of an adapter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Case {
    /// Stable name in kebab-case.
    pub id: &'static str,
    /// What holds when it passes.
    pub sentence: &'static str,
}

/// How a case ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It holds.
    Passed,
    /// It does not; what was seen instead.
    Failed(String),
    /// It cannot be asked of this adapter; why.
    Skipped(String),
}

/// A case and how it ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The case.
    pub case: Case,
    /// How it ended.
    pub verdict: Verdict,
    /// Of a case that failed: what the stage and the adapter's log said last while it ran, the oldest first.
    pub aside: Vec<String>,
}

impl Outcome {
    /// A case that ended so.
    pub fn new(case: Case, verdict: Verdict) -> Self {
        Self { case, verdict, aside: Vec::new() }
    }

    /// Whether it failed.
    pub fn failed(&self) -> bool {
        matches!(self.verdict, Verdict::Failed(_))
    }
}

impl std::fmt::Display for Outcome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Case { id, sentence } = self.case;
        match &self.verdict {
            Verdict::Passed => write!(f, "passed   {id}: {sentence}"),
            Verdict::Failed(seen) => {
                write!(f, "FAILED   {id}: {sentence}; seen: {seen}")?;
                self.aside.iter().try_for_each(|line| write!(f, "\n         {line}"))
            }
            Verdict::Skipped(why) => write!(f, "skipped  {id}: {why}"),
        }
    }
}

/// What all outcomes together say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Certified {
    /// Every case passed that can be asked of it, those with a stage among them.
    Whole,
    /// The same without a stage.
    ContractOnly,
    /// Some case failed.
    No,
}

impl Certified {
    /// What these outcomes say.
    pub fn of(outcomes: &[Outcome]) -> Self {
        let has_no_stage = |outcome: &Outcome| matches!(&outcome.verdict, Verdict::Skipped(why) if why == NO_STAGE);
        if outcomes.iter().any(Outcome::failed) {
            Self::No
        } else if outcomes.iter().any(has_no_stage) {
            Self::ContractOnly
        } else {
            Self::Whole
        }
    }
}

impl std::fmt::Display for Certified {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Whole => "certified",
            Self::ContractOnly => "certified: contract only",
            Self::No => "not certified",
        })
    }
}

/// Runs every contract case on `subject`, in order. The last cases end the instance.
pub async fn run<S: Subject>(subject: &mut S) -> Vec<Outcome> {
    run_watched(subject, &mut Watch::default()).await
}

/// The same for the cases that `watch` asks for, which hears of each as it ends.
pub async fn run_watched<S: Subject>(subject: &mut S, watch: &mut Watch<'_>) -> Vec<Outcome> {
    let asked: Vec<Case> = CASES.iter().filter(|case| watch.asks(case.id)).copied().collect();
    let mut outcomes = Vec::with_capacity(asked.len());
    for case in asked {
        let outcome = Outcome::new(case, cases::run(case, subject).await);
        watch.tell(&outcome);
        outcomes.push(outcome);
    }
    outcomes
}

#[cfg(test)]
mod tests;
