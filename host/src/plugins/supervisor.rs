//! One instance, kept alive.
//!
//! A supervisor is a task. It creates the instance, connects it, lets it run, and
//! begins again with a growing wait when it ends: on the same instance where only
//! the link was lost, with a new one where the instance panicked, died or gave no
//! sign of life. What an operator wants is a value it watches; a change of it ends
//! the present life politely, or replaces it ([`replace`]).

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

/// The longest wait that an adapter may ask for. A platform that still means what it said says it again; one that
/// erred, or lied, would make everybody there unheard for as long as it likes.
const WAIT_MS_MAX: u64 = 15 * 60 * 1_000;

/// What the operator wants of an instance.
#[derive(Clone)]
pub(super) struct Wanted {
    /// Its plan.
    pub(super) plan: Arc<AdapterPlan>,
    /// Whether it shall run.
    pub(super) enabled: bool,
    /// Grows when it shall begin anew.
    pub(super) start: u64,
    /// Set when it shall end for good: how long each step of it may take.
    pub(super) end: Option<Duration>,
}

/// The task of one instance.
pub(super) struct Supervisor {
    maker: Maker,
    wanted: watch::Receiver<Wanted>,
    /// What is made instead of what is wanted, since that did not come online; and the start it was wanted by.
    kept: Option<(u64, Make)>,
    /// Set while a new life has yet to show that it may stay.
    trial: Option<Trial>,
    /// Lives that were replaced and are ending.
    draining: JoinSet<()>,
}

/// How a phase of a life ended.
enum Step {
    /// It is up, or stays up.
    Up,
    /// The link is lost; the instance can connect again.
    Again(Lost),
    /// The instance is of no use any more.
    Broken { reason: String },
    /// A person has to do something first.
    Fatal { reason: String, mend: String },
    /// Something else is wanted.
    Changed,
    /// Another one is wanted, and cannot run beside it.
    Replace,
    /// Another one is online in its place.
    Replaced(Box<Born>),
    /// It did not show that it may stay: what ran before runs again.
    RollBack,
}

/// The loss of a link, as the adapter or the host describes it.
#[derive(Debug)]
struct Lost {
    reason: String,
    /// The wait that the platform asked for, in milliseconds.
    after_ms: Option<u64>,
    /// Whether the connection itself failed.
    unreachable: bool,
}

impl Lost {
    /// A loss that asks for no particular wait.
    fn because(reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), after_ms: None, unreachable: false }
    }
}

impl Supervisor {
    pub(super) fn new(maker: Maker, wanted: watch::Receiver<Wanted>) -> Self {
        Self { maker, wanted, kept: None, trial: None, draining: JoinSet::new() }
    }

    /// Keeps the instance alive until it shall end for good.
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
                // What was said of the file before does not count for this one.
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
                // Its state says already that it is lost, and until when.
                Step::Again(_) | Step::Broken { .. } => self.wait(&wanted).await,
                _ => {}
            }
        }
    }

    /// One life, from `create` to `destroy`.
    async fn live(&mut self, wanted: &mut Wanted) -> Step {
        let mut born = match self.begin(wanted).await {
            Ok(born) => born,
            Err(step) => return step,
        };
        let step = self.drive(&mut born, wanted).await;
        // It takes nothing new.
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
                    "it did not end by its deadline; its next start is in a process of its own"
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

    /// Makes the instance of a new life.
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
                    // An instance that was not made has nothing to end.
                    self.apply(AdapterChange::Drain);
                    self.apply(AdapterChange::Ended);
                    // Told apart by its file, where that may be loaded at all.
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
        // What the life before announced is where that was.
        self.shared().told().announced.clear();
        let make = match &self.kept {
            Some((_, make)) => make.clone(),
            None => self.maker.judge(&wanted.plan).await?,
        };
        // Known before it runs, so that a refusal shows what was refused.
        self.shared().trusted.store(make.trusted(), Ordering::Relaxed);
        if let Some(admitted) = &make.admitted {
            self.shared().describe(Arc::new(admitted.manifest.clone()), &make.plan.config);
        }
        self.maker.create(make).await
    }

    /// What follows from an instance that could not be made.
    fn refused(&mut self, wanted: &Wanted, error: &LoadError) -> Step {
        let shared = Arc::clone(self.shared());
        shared.told().code = Some(error.code());
        // It may quote the adapter.
        let reason = Mask::new(&wanted.plan.secrets).apply(&error.to_string());
        shared.judged.send_replace((wanted.start, Some(reason.clone())));
        if error.may_pass() {
            self.lost(&Lost::because(&reason));
            return Step::Broken { reason };
        }
        // The old copy cannot be had any more, so only what is wanted is left.
        self.kept = None;
        // Its sentence ends in what mends it.
        Step::Fatal { reason, mend: String::new() }
    }

    /// Makes an instance the one that the host asks and tells about.
    fn present(&self, born: &Born) {
        let shared = self.shared();
        shared.trusted.store(born.make.trusted(), Ordering::Relaxed);
        shared.describe(Arc::clone(&born.manifest), &born.make.plan.config);
        shared.enter_life(&born.life);
    }

    /// Connects and runs until something other than the link ends it. `born` may be another one by then.
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

    /// Waits until the link is tried again; a step: this life is over.
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
                // The instance is rebuilt: whether its thread still runs, nobody can tell.
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
        // The one that is being started beside this one.
        let mut next = None;
        loop {
            tokio::select! {
                biased;
                reason = &mut closed => return Step::Broken { reason },
                reason = life.broken() => return Step::Broken { reason },
                wish = replace::wish(&mut self.wanted, wanted, &self.maker) => match wish {
                    Wish::End => return Step::Changed,
                    Wish::Replace(make) if replace::side_by_side(born, &make, &self.draining) => {
                        // From here on it answers to this wish; another one begins anew.
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
                        // It has no receive loop of its own.
                        status::UNSUPPORTED => {}
                        _ => return match born.retry_if_in_use(connected(&life, method::RUN, answer)) {
                            Step::Up => Step::Again(Lost::because("its receive loop ended")),
                            other => other,
                        },
                    }
                },
                changed = link.changed() => match changed {
                    Ok(()) => {
                        let state = link.borrow_and_update().clone();
                        self.report(state);
                    }
                    Err(_) => return Step::Broken { reason: "its port is gone".to_owned() },
                },
                step = &mut pulse => return step,
            }
        }
    }

    /// Puts a new life that is online in the place of the one that runs, which finishes what it sends.
    fn swap(&mut self, born: &mut Born, next: Born, wanted: &Wanted) {
        let old = std::mem::replace(born, next);
        self.present(born);
        // It is online as the old one was; the failures of that one are its own.
        self.apply(AdapterChange::Connected);
        let shared = self.shared();
        shared.came_anew();
        shared.told().forget_refusal();
        shared.judged.send_replace((wanted.start, None));
        let version = &born.manifest.version;
        tracing::info!(target: "plugins", instance = %shared.instance, version, "replaced without a gap");
        replace::drain(&mut self.draining, &self.maker, old);
    }

    /// The new one beside `born` did not come online: what runs goes on.
    fn keep(&mut self, born: &Born, wanted: &Wanted, new: &Make, why: &Unhealthy) {
        let sentence = replace::sentence(&self.maker.handle, &born.make, new, why, false);
        self.say_kept(wanted, sentence, why.code);
        self.kept = Some((wanted.start, replace::as_before(&born.make, &new.plan)));
    }

    /// The new life may stay.
    fn trial_passed(&mut self, wanted: &Wanted) {
        if self.trial.take().is_some() {
            self.shared().told().forget_refusal();
            self.shared().judged.send_replace((wanted.start, None));
        }
    }

    /// The new life may not stay: what ran before is made again.
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

    /// Takes what a library that reconnects itself says about its link.
    fn report(&self, state: Option<LinkState>) {
        let Some(LinkState { state, reason, .. }) = state else { return };
        let online = self.maker.handle.is_online();
        match state {
            LinkWord::Online if online => self.apply(AdapterChange::Recovered),
            LinkWord::Online => self.apply(AdapterChange::Connected),
            LinkWord::Degraded if online => self.apply(AdapterChange::Degrade { duty: reason }),
            LinkWord::Lost if online => {
                // It tries by itself, at once.
                let next_try_ms = self.shared().settings.clock.now_ms();
                self.apply(AdapterChange::Lost { reason, next_try_ms });
            }
            _ => {}
        }
    }

    /// Notes that there is no link; returns how long to wait.
    fn lost(&self, lost: &Lost) -> Duration {
        let reason = said::words(&lost.reason);
        let shared = self.shared();
        let settings = &shared.settings;
        let failures = shared.state.borrow().state.failures().saturating_add(1);
        let millis = |duration: Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        let longest = if lost.unreachable { UNREACHABLE_BACKOFF_MS_MAX } else { u64::MAX };
        let longest = millis(settings.backoff_max).min(longest).max(1);
        let backoff = Backoff::new(millis(settings.backoff_first).max(1), longest);
        // Without randomness the waits are those without jitter.
        let jitter = getrandom::u64().unwrap_or(0);
        let wait_ms = backoff.delay_ms(failures, jitter).max(lost.after_ms.unwrap_or(0).min(WAIT_MS_MAX));
        if shared.told().is_worth_a_line(&reason, settings.clock.now_ms()) {
            tracing::warn!(target: "plugins", instance = %shared.instance, wait_ms, failures, "no link: {reason}");
        } else {
            tracing::debug!(target: "plugins", instance = %shared.instance, wait_ms, failures, "no link: {reason}");
        }
        let next_try_ms = settings.clock.now_ms().saturating_add_unsigned(wait_ms);
        self.apply(AdapterChange::Lost { reason, next_try_ms });
        Duration::from_millis(wait_ms)
    }

    /// Waits for the next try, or until something else is wanted.
    async fn wait(&mut self, wanted: &Wanted) {
        let backoff = self.shared().settings.backoff_first;
        let next_try_ms = self.shared().state.borrow().state.next_try_ms();
        let now_ms = self.shared().settings.clock.now_ms();
        // A clock that was put back makes no wait longer.
        let left_ms = |at: i64| u64::try_from(at.saturating_sub(now_ms)).unwrap_or(0).min(WAIT_MS_MAX);
        let left = next_try_ms.map(|at| Duration::from_millis(left_ms(at)));
        tokio::select! {
            // A stuck instance has no time of its own.
            () = time::sleep(left.unwrap_or(backoff)) => {}
            () = other_wanted(&mut self.wanted, wanted) => {}
        }
    }

    fn pause(&self) {
        if !self.is_stuck() {
            self.apply(AdapterChange::Pause);
        }
    }

    /// Whether it could not be ended; it stays visible as that.
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

/// What became of the one that is started beside another; never, where there is none.
async fn tried<F: Future<Output = Result<Born, Unhealthy>> + Unpin>(
    next: &mut Option<(Make, F)>,
) -> Result<Born, Unhealthy> {
    match next {
        Some((_, starting)) => starting.await,
        None => std::future::pending().await,
    }
}

/// The answer of the receive loop; never, where there is none.
async fn received(running: &mut Option<futures_util::future::BoxFuture<'static, Answer>>) -> Answer {
    match running {
        Some(running) => running.await,
        None => std::future::pending().await,
    }
}
