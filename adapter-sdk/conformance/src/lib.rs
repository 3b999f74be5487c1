//! The cases that every adapter passes, on every platform.
//!
//! The cases depend on the protocol only and drive a [`Subject`]: the SDK's `testing`
//! provides an adapter in the test's own process, the host provides a library behind either
//! kind of isolation. The *contract* cases ([`run`]) do not call `connect`, so they need no
//! platform. The *staged* cases ([`run_staged`]) connect to a program that simulates the
//! platform ([`stage`]); an adapter without such a program is certified for its contract
//! only ([`Certified`]).
//!
//! A failed case reports the observed behaviour. A case that does not apply to the adapter
//! is skipped with a reason.

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

/// The answer to a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The status; `None` if the call was not answered.
    pub status: Option<i32>,
    /// The payload.
    pub payload: Vec<u8>,
}

impl Answer {
    /// Creates an answer with this status.
    pub fn new(status: i32, payload: Vec<u8>) -> Self {
        Self { status: Some(status), payload }
    }

    /// Creates the missing answer of a call that exceeded its deadline and a few seconds of grace.
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
/// After `connect` is answered OK the subject calls `run`, as the host does. The subject reports the
/// end of `run` as a call of [`RUN_ENDED`], and each log record as a call of [`LOG`].
pub trait Subject: Send {
    /// Returns the bytes of the manifest, as stored in the library.
    fn manifest(&self) -> Vec<u8>;

    /// Calls `method`. After `deadline` the call is cancelled, and the answer is its result
    /// after that. A zero deadline cancels immediately.
    fn call(&mut self, method: &str, payload: &[u8], deadline: Duration) -> impl Future<Output = Answer> + Send;

    /// Returns the next call of the adapter to its host, if one arrives within `deadline`.
    fn next_host_call(&mut self, deadline: Duration) -> impl Future<Output = Option<HostCall>> + Send;

    /// Returns the folder from which the instance sends files; `None`: it is not asked to send any.
    fn media_dir(&self) -> Option<std::path::PathBuf> {
        None
    }

    /// Shuts the instance down.
    fn shutdown(&mut self, deadline: Duration) -> impl Future<Output = Answer> + Send;
}

/// One requirement on an adapter, with a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Case {
    /// The stable name in kebab-case.
    pub id: &'static str,
    /// The requirement.
    pub sentence: &'static str,
}

/// The result of a case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The requirement holds.
    Passed,
    /// The requirement does not hold; contains the observed behaviour.
    Failed(String),
    /// The case does not apply to this adapter; contains the reason.
    Skipped(String),
}

/// A case and its result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The case.
    pub case: Case,
    /// The result.
    pub verdict: Verdict,
    /// For a failed case: the last lines from the stage and the adapter's log while it ran, the oldest first.
    pub aside: Vec<String>,
}

impl Outcome {
    /// Creates the outcome of a case.
    pub fn new(case: Case, verdict: Verdict) -> Self {
        Self { case, verdict, aside: Vec::new() }
    }

    /// Returns whether the case failed.
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

/// The certification that follows from all outcomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Certified {
    /// All applicable cases passed, including the staged ones.
    Whole,
    /// All applicable contract cases passed; there was no stage.
    ContractOnly,
    /// At least one case failed.
    No,
}

impl Certified {
    /// Returns the certification for these outcomes.
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

/// Runs all contract cases on `subject`, in order. The last cases end the instance.
pub async fn run<S: Subject>(subject: &mut S) -> Vec<Outcome> {
    run_watched(subject, &mut Watch::default()).await
}

/// Runs the contract cases that `watch` selects, and reports each outcome to `watch`.
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
