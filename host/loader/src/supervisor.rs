//! The supervisor of one instance.
//!
//! A supervisor is a task that creates the instance, connects it and lets it run. When that ends, the supervisor tries
//! again with a growing backoff: on the same instance if only the link was lost, with a new one if the instance
//! panicked, died or did not respond. The state that the operator wants is a watched value; a change ends the current
//! incarnation in order, or replaces it ([`replace`]).

mod birth;
mod pulse;
mod replace;

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use hermes_adapter_abi::status;
use hermes_core::backoff::Backoff;
use hermes_core::limits::UNREACHABLE_BACKOFF_MS_MAX;
use hermes_protocol::{LinkState, LinkWord, method};
use tokio::{sync::watch, task::JoinSet, time};

pub(super) use birth::Maker;
use birth::{Born, Make};
use pulse::{connected, pulse};
use replace::{Trial, Unhealthy, Wish, other_wanted};

use super::{AdapterChange, AdapterPlan, AdapterState, Answer, Destroyed, LoadError, handle::Shared, logs::Mask, said};

/// The longest wait that an adapter may request. If a platform still demands it, it repeats the demand. Without the
/// limit, one wrong value would silence the instance for an arbitrary time.
const WAIT_MS_MAX: u64 = 15 * 60 * 1_000;

/// The state of an instance that the operator wants.
#[derive(Clone)]
pub(super) struct Wanted {
    /// Its plan.
    pub(super) plan: Arc<AdapterPlan>,
    /// `true` if it is to run.
    pub(super) enabled: bool,
    /// Grows with each requested start.
    pub(super) start: u64,
    /// `Some` if it is to end for good: the deadline of each step.
    pub(super) end: Option<Duration>,
}

/// The task that supervises one instance.
pub(super) struct Supervisor {
    maker: Maker,
    wanted: watch::Receiver<Wanted>,
    /// The previous version, used while the wanted one did not come online, with the number of the start that failed.
    kept: Option<(u64, Make)>,
    /// `Some` until a new incarnation has come online.
    trial: Option<Trial>,
    /// Replaced incarnations that are ending.
    draining: JoinSet<()>,
}

/// The result of a phase of an incarnation.
enum Step {
    /// The instance is online, or stays online.
    Up,
    /// The link is lost; the instance can connect again.
    Again(Lost),
    /// The instance is broken and has to be recreated.
    Broken { reason: String },
    /// The operator has to act first.
    Fatal { reason: String, mend: String },
    /// The wanted state changed.
    Changed,
    /// A replacement is wanted and cannot run in parallel.
    Replace,
    /// A replacement is online.
    Replaced(Box<Born>),
    /// The new incarnation did not come online: the previous version is started again.
    RollBack,
}

/// The loss of a link, as reported by the adapter or the host.
#[derive(Debug)]
struct Lost {
    reason: String,
    /// The wait that the platform requested, in milliseconds.
    after_ms: Option<u64>,
    /// `true` if the connection itself failed.
    unreachable: bool,
}

impl Lost {
    /// Creates a loss without a requested wait.
    fn because(reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), after_ms: None, unreachable: false }
    }
}

impl Supervisor {
    pub(super) fn new(maker: Maker, wanted: watch::Receiver<Wanted>) -> Self {
        Self { maker, wanted, kept: None, trial: None, draining: JoinSet::new() }
    }

    /// Keeps the instance running until it is to end for good.
    pub(super) async fn run(mut self) {
        let mut start = None;
        loop {
            let mut wanted = self.wanted.borrow_and_update().clone();
            if wanted.end.is_some() {
                while self.draining.join_next().await.is_some() {}
                if !self.is_stuck() {
                    self.apply(AdapterChange::Drain);
                    self.apply(AdapterChange::Ended);
                }
                return;
            }
            if !wanted.enabled {
                self.trial = None;
                self.pause();
                if self.wanted.changed().await.is_err() {
                    return;
                }
                continue;
            }
            self.kept.take_if(|(start, _)| *start != wanted.start);
            if start.replace(wanted.start) != Some(wanted.start) && self.kept.is_none() {
                // Earlier refusals do not apply to this start.
                self.shared().told().forget_refusal();
            }
            self.apply(AdapterChange::Start);
            match self.live(&mut wanted).await {
                Step::Fatal { reason, mend } => {
                    let (reason, mend) = (said::words(&reason), said::words(&mend));
                    let failed = said::with_mend(&reason, &mend);
                    tracing::error!(target: "plugins", instance = %self.shared().instance, "failed: {failed}");
                    self.apply(AdapterChange::Fatal { reason, mend });
                    if self.wanted.changed().await.is_err() {
                        return;
                    }
                }
                // The state already shows the loss and the time of the next attempt.
                Step::Again(_) | Step::Broken { .. } => self.wait(&wanted).await,
                _ => {}
            }
        }
    }

    /// Runs one incarnation, from `create` to `destroy`.
    async fn live(&mut self, wanted: &mut Wanted) -> Step {
        let mut born = match self.begin(wanted).await {
            Ok(born) => born,
            Err(step) => return step,
        };
        let step = self.drive(&mut born, wanted).await;
        // Dropping the receive loop stops new events.
        born.running = None;
        let polite = match &step {
            Step::Broken { reason } | Step::Again(Lost { reason, .. }) => {
                self.shared().restarts.fetch_add(1, Ordering::Relaxed);
                self.lost(&Lost::because(reason));
                false
            }
            Step::Fatal { .. } => false,
            _ => {
                self.apply(AdapterChange::Drain);
                !matches!(step, Step::RollBack)
            }
        };
        let old = born.make.clone();
        let deadline = self.wanted.borrow().end.unwrap_or(self.shared().settings.end);
        match replace::end(self.shared(), born, polite, deadline).await {
            Destroyed::Stuck => {
                self.maker.stuck.store(true, Ordering::Relaxed);
                tracing::error!(
                    target: "plugins", instance = %self.shared().instance,
                    "the instance did not stop by its deadline; the next start uses a process"
                );
                if !matches!(step, Step::Fatal { .. }) {
                    self.apply(AdapterChange::Overdue);
                }
            }
            Destroyed::Joined => match step {
                Step::Broken { .. } | Step::Again(_) | Step::Fatal { .. } => {}
                _ => self.apply(AdapterChange::Ended),
            },
        }
        if matches!(step, Step::Replace) {
            let settings = &self.shared().settings;
            let until = time::Instant::now() + settings.create + settings.connect;
            self.trial = Some(Trial { old, until });
        }
        step
    }

    /// Creates the instance of a new incarnation.
    async fn begin(&mut self, wanted: &Wanted) -> Result<Born, Step> {
        match self.make(wanted).await {
            Ok(born) => {
                self.present(&born);
                if self.trial.is_none() && self.kept.is_none() {
                    self.shared().told().forget_refusal();
                    self.shared().judged.send_replace((wanted.start, None));
                }
                Ok(born)
            }
            Err(error) => {
                if self.trial.is_some() {
                    // No instance was created, so there is none to end.
                    self.apply(AdapterChange::Drain);
                    self.apply(AdapterChange::Ended);
                    // The file, if it may be loaded at all, decides the wording of the refusal.
                    let judged = self.maker.judge(&wanted.plan).await.ok();
                    let admitted = judged.and_then(|make| make.admitted);
                    let new = Make { plan: Arc::clone(&wanted.plan), admitted };
                    self.roll_back(wanted, &new, &error.into());
                    return Err(Step::RollBack);
                }
                Err(self.refused(wanted, &error))
            }
        }
    }

    async fn make(&mut self, wanted: &Wanted) -> Result<Born, LoadError> {
        // Announcements of the previous incarnation are outdated.
        self.shared().told().announced.clear();
        let make = match &self.kept {
            Some((_, make)) => make.clone(),
            None => self.maker.judge(&wanted.plan).await?,
        };
        // The manifest is set before the instance runs, so that a refusal shows its version.
        self.shared().trusted.store(make.trusted(), Ordering::Relaxed);
        if let Some(admitted) = &make.admitted {
            self.shared().describe(Arc::new(admitted.manifest.clone()), &make.plan.config);
        }
        self.maker.create(make).await
    }

    /// Returns the step after an instance could not be created.
    fn refused(&mut self, wanted: &Wanted, error: &LoadError) -> Step {
        let shared = Arc::clone(self.shared());
        shared.told().code = Some(error.code());
        // The error may quote the adapter.
        let reason = Mask::new(&wanted.plan.secrets).apply(&error.to_string());
        shared.judged.send_replace((wanted.start, Some(reason.clone())));
        if error.may_pass() {
            self.lost(&Lost::because(&reason));
            return Step::Broken { reason };
        }
        // The old copy is no longer available, so only the wanted version remains.
        self.kept = None;
        // The sentence of the error already contains the fix.
        Step::Fatal { reason, mend: String::new() }
    }

    /// Makes an instance the current one for calls and for `status`.
    fn present(&self, born: &Born) {
        let shared = self.shared();
        shared.trusted.store(born.make.trusted(), Ordering::Relaxed);
        shared.describe(Arc::clone(&born.manifest), &born.make.plan.config);
        shared.enter_life(&born.life);
    }

    /// Connects and runs until an event other than a lost link ends it. `born` may have been replaced by then.
    async fn drive(&mut self, born: &mut Born, wanted: &mut Wanted) -> Step {
        let mut up = false;
        loop {
            if !up {
                up = match self.connect(born, wanted).await {
                    Step::Up => {
                        self.trial_passed(wanted);
                        self.apply(AdapterChange::Connected);
                        true
                    }
                    Step::Again(lost) => {
                        if let Some(step) = self.wait_for_link(born, wanted, lost).await {
                            return step;
                        }
                        false
                    }
                    Step::Broken { reason } | Step::Fatal { reason, .. } if self.trial.is_some() => {
                        return self.trial_failed(born, wanted, reason);
                    }
                    other => return other,
                };
                continue;
            }
            match self.run_link(born, wanted).await {
                Step::Replaced(next) => self.swap(born, *next, wanted),
                Step::Again(lost) => {
                    born.running = None;
                    if let Some(step) = self.wait_for_link(born, wanted, lost).await {
                        return step;
                    }
                    up = false;
                }
                other => return other,
            }
        }
    }

    /// Waits until the link is to be tried again. Returns a step if this incarnation is over.
    async fn wait_for_link(&mut self, born: &mut Born, wanted: &mut Wanted, lost: Lost) -> Option<Step> {
        let wait = self.lost(&lost);
        let reason = lost.reason;
        if self.trial.as_ref().is_some_and(|trial| time::Instant::now() + wait >= trial.until) {
            return Some(self.trial_failed(born, wanted, reason));
        }
        let closed = born.life.link.closed();
        let reason = tokio::select! {
            () = time::sleep(wait) => return None,
            reason = born.life.broken() => reason,
            reason = closed => reason,
            _ = replace::wish(&mut self.wanted, wanted, &self.maker) => return Some(Step::Changed),
        };
        Some(match self.trial.is_some() {
            true => self.trial_failed(born, wanted, reason),
            false => Step::Broken { reason },
        })
    }

    async fn connect(&mut self, born: &mut Born, wanted: &mut Wanted) -> Step {
        let deadline = self.shared().settings.connect;
        let closed = born.life.link.closed();
        tokio::select! {
            biased;
            reason = closed => Step::Broken { reason },
            _ = replace::wish(&mut self.wanted, wanted, &self.maker) => Step::Changed,
            answer = time::timeout(deadline, born.life.call(method::CONNECT, b"{}".to_vec())) => match answer {
                Ok(answer) => {
                    born.has_answered();
                    born.retry_if_in_use(connected(&born.life, method::CONNECT, answer))
                }
                // The instance is recreated, because its thread may be stuck.
                Err(_) => Step::Broken { reason: replace::late(&self.shared().settings) },
            },
        }
    }

    async fn run_link(&mut self, born: &mut Born, wanted: &mut Wanted) -> Step {
        let (shared, life) = (Arc::clone(self.shared()), Arc::clone(&born.life));
        let mut link = born.link.clone();
        let (pulse, closed) = (pulse(&life, &shared), life.link.closed());
        tokio::pin!(pulse, closed);
        let running = Arc::clone(&life);
        born.running = Some(Box::pin(async move { running.call(method::RUN, b"{}".to_vec()).await }));
        // The replacement that is starting in parallel.
        let mut next = None;
        loop {
            tokio::select! {
                biased;
                reason = &mut closed => return Step::Broken { reason },
                reason = life.broken() => return Step::Broken { reason },
                wish = replace::wish(&mut self.wanted, wanted, &self.maker) => match wish {
                    Wish::End => return Step::Changed,
                    Wish::Replace(make) if replace::side_by_side(born, &make, &self.draining) => {
                        // From here on this request counts as handled; a further one starts the replacement again.
                        *wanted = self.wanted.borrow().clone();
                        let (maker, new) = (self.maker.clone(), make.clone());
                        next = Some((make, Box::pin(replace::beside(maker, new))));
                    }
                    Wish::Replace(_) => return Step::Replace,
                },
                tried = tried(&mut next) => match tried {
                    Ok(new) => return Step::Replaced(Box::new(new)),
                    Err(why) => {
                        if let Some((make, _)) = next.take() {
                            self.keep(born, wanted, &make, &why);
                        }
                    }
                },
                answer = received(&mut born.running) => {
                    born.running = None;
                    match answer.status {
                        // The adapter has no receive loop of its own.
                        status::UNSUPPORTED => {}
                        _ => return match born.retry_if_in_use(connected(&life, method::RUN, answer)) {
                            Step::Up => Step::Again(Lost::because("the receive loop ended")),
                            other => other,
                        },
                    }
                },
                changed = link.changed() => match changed {
                    Ok(()) => {
                        let state = link.borrow_and_update().clone();
                        self.report(state);
                    }
                    Err(_) => return Step::Broken { reason: "the host port is closed".to_owned() },
                },
                step = &mut pulse => return step,
            }
        }
    }

    /// Replaces the running incarnation by a new one that is online. The old one finishes its deliveries.
    fn swap(&mut self, born: &mut Born, next: Born, wanted: &Wanted) {
        let old = std::mem::replace(born, next);
        self.present(born);
        // The new incarnation is online, so a degraded state of the old one ends.
        self.apply(AdapterChange::Connected);
        let shared = self.shared();
        shared.came_anew();
        shared.told().forget_refusal();
        shared.judged.send_replace((wanted.start, None));
        let version = &born.manifest.version;
        tracing::info!(target: "plugins", instance = %shared.instance, version, "replaced without interruption");
        replace::drain(&mut self.draining, &self.maker, old);
    }

    /// Keeps the running version after the replacement beside `born` did not come online.
    fn keep(&mut self, born: &Born, wanted: &Wanted, new: &Make, why: &Unhealthy) {
        let sentence = replace::sentence(&self.maker.handle, &born.make, new, why, false);
        self.say_kept(wanted, sentence, why.code);
        self.kept = Some((wanted.start, replace::as_before(&born.make, &new.plan)));
    }

    /// Confirms the new incarnation.
    fn trial_passed(&mut self, wanted: &Wanted) {
        if self.trial.take().is_some() {
            self.shared().told().forget_refusal();
            self.shared().judged.send_replace((wanted.start, None));
        }
    }

    /// Rejects the new incarnation and creates the previous version again.
    fn trial_failed(&mut self, born: &Born, wanted: &Wanted, reason: String) -> Step {
        self.roll_back(wanted, &born.make, &Unhealthy::said(reason));
        Step::RollBack
    }

    fn roll_back(&mut self, wanted: &Wanted, new: &Make, why: &Unhealthy) {
        let Some(trial) = self.trial.take() else { return };
        let sentence = replace::sentence(&self.maker.handle, &trial.old, new, why, true);
        self.say_kept(wanted, sentence, why.code);
        self.kept = Some((wanted.start, replace::as_before(&trial.old, &wanted.plan)));
    }

    fn say_kept(&self, wanted: &Wanted, sentence: String, code: &'static str) {
        let shared = self.shared();
        let sentence = said::words(&sentence);
        tracing::error!(target: "plugins", instance = %shared.instance, "not replaced: {sentence}");
        {
            let mut told = shared.told();
            told.code = Some(code);
            told.kept = Some(format!("not replaced: {sentence}"));
        }
        shared.judged.send_replace((wanted.start, Some(sentence)));
    }

    /// Applies the link report of an adapter that reconnects by itself.
    fn report(&self, state: Option<LinkState>) {
        let Some(LinkState { state, reason, .. }) = state else { return };
        let online = self.maker.handle.is_online();
        match state {
            LinkWord::Online if online => self.apply(AdapterChange::Recovered),
            LinkWord::Online => self.apply(AdapterChange::Connected),
            LinkWord::Degraded if online => self.apply(AdapterChange::Degrade { duty: reason }),
            LinkWord::Lost if online => {
                // The adapter reconnects by itself, at once.
                let next_try_ms = self.shared().settings.clock.now_ms();
                self.apply(AdapterChange::Lost { reason, next_try_ms });
            }
            _ => {}
        }
    }

    /// Records the loss of the link and returns the wait before the next attempt.
    fn lost(&self, lost: &Lost) -> Duration {
        let reason = said::words(&lost.reason);
        let shared = self.shared();
        let settings = &shared.settings;
        let failures = shared.state.borrow().state.failures().saturating_add(1);
        let millis = |duration: Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        let longest = if lost.unreachable { UNREACHABLE_BACKOFF_MS_MAX } else { u64::MAX };
        let longest = millis(settings.backoff_max).min(longest).max(1);
        let backoff = Backoff::new(millis(settings.backoff_first).max(1), longest);
        // Without randomness the waits have no jitter.
        let jitter = getrandom::u64().unwrap_or(0);
        let wait_ms = backoff.delay_ms(failures, jitter).max(lost.after_ms.unwrap_or(0).min(WAIT_MS_MAX));
        if shared.told().is_worth_a_line(&reason, settings.clock.now_ms()) {
            tracing::warn!(target: "plugins", instance = %shared.instance, wait_ms, failures, "not connected: {reason}");
        } else {
            tracing::debug!(target: "plugins", instance = %shared.instance, wait_ms, failures, "not connected: {reason}");
        }
        let next_try_ms = settings.clock.now_ms().saturating_add_unsigned(wait_ms);
        self.apply(AdapterChange::Lost { reason, next_try_ms });
        Duration::from_millis(wait_ms)
    }

    /// Waits for the next attempt, or until the wanted state changes.
    async fn wait(&mut self, wanted: &Wanted) {
        let backoff = self.shared().settings.backoff_first;
        let next_try_ms = self.shared().state.borrow().state.next_try_ms();
        let now_ms = self.shared().settings.clock.now_ms();
        // A clock that was set back must not extend the wait.
        let left_ms = |at: i64| u64::try_from(at.saturating_sub(now_ms)).unwrap_or(0).min(WAIT_MS_MAX);
        let left = next_try_ms.map(|at| Duration::from_millis(left_ms(at)));
        tokio::select! {
            // The state of a stuck instance has no time for the next attempt.
            () = time::sleep(left.unwrap_or(backoff)) => {}
            () = other_wanted(&mut self.wanted, wanted) => {}
        }
    }

    fn pause(&self) {
        if !self.is_stuck() {
            self.apply(AdapterChange::Pause);
        }
    }

    /// Returns `true` if the instance could not be ended. Its state then stays `stuck`.
    fn is_stuck(&self) -> bool {
        matches!(self.maker.handle.state(), AdapterState::Stuck)
    }

    fn apply(&self, change: AdapterChange) {
        self.shared().apply(change);
    }

    fn shared(&self) -> &Arc<Shared> {
        &self.maker.handle.shared
    }
}

/// Waits for the replacement that is starting; never returns without one.
async fn tried<F: Future<Output = Result<Born, Unhealthy>> + Unpin>(
    next: &mut Option<(Make, F)>,
) -> Result<Born, Unhealthy> {
    match next {
        Some((_, starting)) => starting.await,
        None => std::future::pending().await,
    }
}

/// Waits for the receive loop to end; never returns without one.
async fn received(running: &mut Option<futures_util::future::BoxFuture<'static, Answer>>) -> Answer {
    match running {
        Some(running) => running.await,
        None => std::future::pending().await,
    }
}
