//! One life taking the place of another.
//!
//! Where the platform allows two connections the new one is started beside the old
//! one and takes its place when it is online; the old one finishes what it sends.
//! Elsewhere the old one ends first. Either way: a new one that is not online within
//! its deadline has not replaced anything, and one sentence says why.

use std::sync::{Arc, PoisonError, atomic::Ordering};

use hermes_protocol::method;
use tokio::{
    sync::watch,
    task::JoinSet,
    time::{self, Instant},
};

use super::{
    Lost, Step, Wanted,
    birth::{Born, Make, Maker},
    pulse::connected,
};
use crate::plugins::{AdapterHandle, AdapterPlan, Answer, Destroyed, LoadError, handle::Shared, life::Life};

/// Old lives of one instance that may still be ending when another one is replaced.
const DRAINING_MAX: usize = 4;
/// The code of a new instance that did not come online.
const NOT_HEALTHY: &str = "not_healthy";

/// What an operator's wish means for the running instance.
pub(super) enum Wish {
    /// It has to end.
    End,
    /// It is to be replaced by what is made of this.
    Replace(Make),
}

/// Why a new instance does not run.
pub(super) struct Unhealthy {
    pub(super) reason: String,
    pub(super) code: &'static str,
}

impl Unhealthy {
    pub(super) fn said(reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), code: NOT_HEALTHY }
    }
}

impl From<LoadError> for Unhealthy {
    fn from(error: LoadError) -> Self {
        Self { reason: error.to_string(), code: error.code() }
    }
}

/// A new life that ended an old one and has not proved itself yet.
pub(super) struct Trial {
    /// What ran before.
    pub(super) old: Make,
    /// Until when it has to be online.
    pub(super) until: Instant,
}

/// Returns once something else is wanted than `present`.
pub(super) async fn other_wanted(wanted: &mut watch::Receiver<Wanted>, present: &Wanted) {
    let other = wanted
        .wait_for(|wanted| wanted.end.is_some() || wanted.start != present.start || wanted.enabled != present.enabled);
    // Without anybody who wants something, nobody is left to serve either.
    let _ = other.await;
}

/// Returns once the running instance has to end or to be replaced. One that would only be replaced stays if there is
/// nothing to replace it with: a file that was changed or broken does not take down what runs from the old copy.
pub(super) async fn wish(wanted: &mut watch::Receiver<Wanted>, present: &mut Wanted, maker: &Maker) -> Wish {
    loop {
        other_wanted(wanted, present).await;
        let next = wanted.borrow().clone();
        if next.end.is_some() || !next.enabled || next.start == present.start {
            return Wish::End;
        }
        let handle = &maker.handle;
        match maker.judge(&next.plan).await {
            Ok(make) => {
                handle.shared.told().forget_refusal();
                return Wish::Replace(make);
            }
            Err(error) => {
                tracing::error!(target: "plugins", instance = %handle.instance(), "not replaced, the running copy goes on: {error}");
                {
                    let mut told = handle.shared.told();
                    told.code = Some(error.code());
                    told.kept = Some(format!("not replaced, the running copy goes on: {error}"));
                }
                let verdict = format!("{error}; the running copy goes on");
                handle.shared.judged.send_replace((next.start, Some(verdict)));
                present.start = next.start;
            }
        }
    }
}

/// Whether the new one may run beside the old one. A program says so only once it runs, so its old word counts.
pub(super) fn side_by_side(old: &Born, new: &Make, draining: &JoinSet<()>) -> bool {
    let new = new.admitted.as_ref().map_or(&*old.manifest, |admitted| &admitted.manifest);
    draining.len() < DRAINING_MAX
        && old.manifest.capabilities.parallel_connections
        && new.capabilities.parallel_connections
}

/// Makes an instance and connects it, while another one of its name runs.
pub(super) async fn beside(maker: Maker, make: Make) -> Result<Born, Unhealthy> {
    let settings = Arc::clone(&maker.handle.shared.settings);
    let until = Instant::now() + settings.create + settings.connect;
    let mut born = maker.create(make).await?;
    loop {
        let answer = born.life.call(method::CONNECT, b"{}".to_vec());
        let closed = born.life.link.closed();
        let step = tokio::select! {
            biased;
            reason = closed => Step::Broken { reason },
            answer = time::timeout_at(until, answer) => match answer {
                Ok(answer) => {
                    born.has_answered();
                    connected(&born.life, method::CONNECT, answer)
                }
                Err(_) => Step::Broken { reason: late(&settings) },
            },
        };
        match step {
            Step::Up => return Ok(born),
            Step::Again(Lost { reason, after_ms, .. }) => {
                let wait = settings.backoff_first.max(std::time::Duration::from_millis(after_ms.unwrap_or(0)));
                if Instant::now() + wait >= until {
                    return Err(Unhealthy::said(reason));
                }
                time::sleep(wait).await;
            }
            Step::Broken { reason } | Step::Fatal { reason, .. } => return Err(Unhealthy::said(reason)),
            _ => return Err(Unhealthy::said("it ended")),
        }
    }
}

/// That it did not connect in time.
pub(super) fn late(settings: &crate::plugins::AdapterSettings) -> String {
    format!("it did not connect within {} s", settings.connect.as_secs_f32())
}

/// What is said of a new one that did not take the place of `old`; `again`: what runs had to be started anew.
pub(super) fn sentence(handle: &AdapterHandle, old: &Make, new: &Make, why: &Unhealthy, again: bool) -> String {
    let bytes = |make: &Make| make.admitted.as_ref().map(|admitted| admitted.sha256.clone());
    // Of one that was not even made nobody knows the bytes.
    let (what, mend) = if new.admitted.is_some() && bytes(old) != bytes(new) {
        ("the new file", format!("`hermes-host adapter reload {}` tries it again", handle.instance()))
    } else if old.plan != new.plan {
        let section = format!("correct [adapter.{}] and run `hermes-host reload`", handle.instance());
        ("the changed section", section)
    } else {
        ("the new instance", format!("`hermes-host adapter reload {}` tries again", handle.instance()))
    };
    let runs = if again { "what ran before was started again" } else { "what ran before goes on" };
    format!("{what} did not come online ({}), so {runs}; {mend}", why.reason)
}

/// What ran before, with what the operator grants by now: going back widens nothing.
pub(super) fn as_before(old: &Make, new: &AdapterPlan) -> Make {
    let mut plan = AdapterPlan::clone(&old.plan);
    plan.granted = new.granted.clone();
    plan.trust_upstream = new.trust_upstream;
    Make { plan: Arc::new(plan), admitted: old.admitted.clone() }
}

/// Ends a life. Polite: the platform is told, and what is being sent may finish.
pub(super) async fn end(shared: &Shared, mut born: Born, polite: bool, deadline: std::time::Duration) -> Destroyed {
    let life = Arc::clone(&born.life);
    if polite {
        life.leave();
        let mut running = born.running.take();
        tokio::select! {
            // Late or not, the life ends.
            _ = time::timeout(deadline, life.idle()) => {}
            () = for_ever(&mut running) => {}
        }
        drop(running);
        let _ = time::timeout(deadline, life.call(method::DISCONNECT, b"{}".to_vec())).await;
    } else {
        life.give_up();
    }
    shared.leave_life(&life);
    life.link.shutdown(deadline).await;
    life.give_up();
    let destroyed = Arc::clone(&life.link).destroy(deadline).await;
    born.end_here();
    if destroyed == Destroyed::Joined {
        born.credentials.lock().unwrap_or_else(PoisonError::into_inner).locks.clear();
    }
    destroyed
}

/// Ends a life that another one has replaced, beside that one.
pub(super) fn drain(draining: &mut JoinSet<()>, maker: &Maker, old: Born) {
    while draining.try_join_next().is_some() {}
    let (shared, stuck) = (Arc::clone(&maker.handle.shared), Arc::clone(&maker.stuck));
    draining.spawn(async move {
        let deadline = shared.settings.end;
        if end(&shared, old, true, deadline).await == Destroyed::Stuck {
            stuck.store(true, Ordering::Relaxed);
            tracing::error!(
                target: "plugins", instance = %shared.instance,
                "what was replaced did not end by its deadline; the next start is in a process of its own"
            );
        }
    });
}

/// Lets a receive loop go on; its end means nothing any more.
async fn for_ever(running: &mut Option<futures_util::future::BoxFuture<'static, Answer>>) {
    if let Some(running) = running {
        running.await;
    }
    std::future::pending().await
}

impl Shared {
    /// Makes `life` the one that is asked from here on.
    pub(super) fn enter_life(&self, life: &Arc<Life>) {
        self.life.store(Some(Arc::clone(life)));
    }

    /// Asks `life` nothing any more, unless another one has taken its place.
    fn leave_life(&self, life: &Arc<Life>) {
        if self.life.load().as_ref().is_some_and(|present| Arc::ptr_eq(present, life)) {
            self.life.store(None);
        }
    }
}
