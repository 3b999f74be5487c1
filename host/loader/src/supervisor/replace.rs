//! The replacement of one incarnation by another.
//!
//! If the platform allows two connections, the new incarnation starts beside the old one and takes over when it is
//! online; the old one finishes its deliveries. Otherwise the old one ends first. In both cases a new one that is not
//! online by its deadline replaces nothing, and one sentence gives the reason.

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
use crate::handle::Shared;
use crate::life::Life;
use crate::logs::Mask;
use crate::{AdapterHandle, AdapterPlan, Answer, Destroyed, LoadError};

/// Old incarnations of one instance that may still be ending when the next replacement starts.
const DRAINING_MAX: usize = 4;
/// The error code of a new incarnation that did not come online.
const NOT_HEALTHY: &str = "not_healthy";

/// The effect of the wanted state on the running instance.
pub(super) enum Wish {
    /// The instance has to end.
    End,
    /// The instance is to be replaced by one of this.
    Replace(Make),
}

/// The reason why a new incarnation does not run.
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

/// A new incarnation that replaced an ended one and has not come online yet.
pub(super) struct Trial {
    /// The previous version.
    pub(super) old: Make,
    /// The deadline for coming online.
    pub(super) until: Instant,
}

/// Waits until the wanted state differs from `present`.
pub(super) async fn other_wanted(wanted: &mut watch::Receiver<Wanted>, present: &Wanted) {
    let other = wanted
        .wait_for(|wanted| wanted.end.is_some() || wanted.start != present.start || wanted.enabled != present.enabled);
    // If the sender is gone, the host is ending and nobody needs the result.
    let _ = other.await;
}

/// Waits until the running instance has to end or to be replaced. A replacement that cannot be admitted is ignored: a
/// changed or broken file does not stop the running copy.
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
                let code = error.code();
                let error = Mask::new(&next.plan.secrets).apply(&error.to_string());
                tracing::error!(target: "plugins", instance = %handle.instance(), "not replaced, the running copy \
                                                                                   keeps running: {error}");
                {
                    let mut told = handle.shared.told();
                    told.code = Some(code);
                    told.kept = Some(format!("not replaced, the running copy keeps running: {error}"));
                }
                let verdict = format!("{error}; the running copy keeps running");
                handle.shared.judged.send_replace((next.start, Some(verdict)));
                present.start = next.start;
            }
        }
    }
}

/// Returns `true` if the new incarnation may run beside the old one. A program has no manifest before it runs, so its
/// old manifest decides.
pub(super) fn side_by_side(old: &Born, new: &Make, draining: &JoinSet<()>) -> bool {
    let new = new.admitted.as_ref().map_or(&*old.manifest, |admitted| &admitted.manifest);
    draining.len() < DRAINING_MAX
        && old.manifest.capabilities.parallel_connections
        && new.capabilities.parallel_connections
}

/// Creates an instance and connects it while another one of its name runs.
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
            _ => return Err(Unhealthy::said("the instance ended")),
        }
    }
}

/// Returns the message for a connect after the deadline.
pub(super) fn late(settings: &crate::AdapterSettings) -> String {
    format!("not connected within {} s", settings.connect.as_secs_f32())
}

/// Returns the message about a new incarnation that did not replace `old`. `again`: the old version had to be started
/// again.
pub(super) fn sentence(handle: &AdapterHandle, old: &Make, new: &Make, why: &Unhealthy, again: bool) -> String {
    let bytes = |make: &Make| make.admitted.as_ref().map(|admitted| admitted.sha256.clone());
    // If the new one was not even created, its bytes are unknown.
    let (what, mend) = if new.admitted.is_some() && bytes(old) != bytes(new) {
        ("the new file", format!("retry with `hermes-host adapter reload {}`", handle.instance()))
    } else if old.plan != new.plan {
        let section = format!("correct [adapter.{}] and run `hermes-host reload`", handle.instance());
        ("the changed section", section)
    } else {
        ("the new instance", format!("retry with `hermes-host adapter reload {}`", handle.instance()))
    };
    let runs = if again { "the previous version was started again" } else { "the previous version keeps running" };
    // An adapter that ends at its start is quoted, and may have printed its configuration.
    let reason = Mask::new(&new.plan.secrets).apply(&why.reason);
    format!("{what} did not come online ({reason}), so {runs}; {mend}")
}

/// Returns the previous version with the operator's current grants: going back must not restore wider rights.
pub(super) fn as_before(old: &Make, new: &AdapterPlan) -> Make {
    let mut plan = AdapterPlan::clone(&old.plan);
    plan.granted = new.granted.clone();
    plan.trust_upstream = new.trust_upstream;
    Make { plan: Arc::new(plan), admitted: old.admitted.clone() }
}

/// Ends an incarnation. `polite`: open deliveries may finish and the platform is disconnected.
pub(super) async fn end(shared: &Shared, mut born: Born, polite: bool, deadline: std::time::Duration) -> Destroyed {
    let life = Arc::clone(&born.life);
    if polite {
        life.leave();
        let mut running = born.running.take();
        tokio::select! {
            // The incarnation ends even if its deliveries do not.
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

/// Ends a replaced incarnation in the background.
pub(super) fn drain(draining: &mut JoinSet<()>, maker: &Maker, old: Born) {
    while draining.try_join_next().is_some() {}
    let (shared, stuck) = (Arc::clone(&maker.handle.shared), Arc::clone(&maker.stuck));
    draining.spawn(async move {
        let deadline = shared.settings.end;
        if end(&shared, old, true, deadline).await == Destroyed::Stuck {
            stuck.store(true, Ordering::Relaxed);
            tracing::error!(
                target: "plugins", instance = %shared.instance,
                "the replaced instance did not stop by its deadline; the next start uses a process"
            );
        }
    });
}

/// Polls a receive loop without using its end.
async fn for_ever(running: &mut Option<futures_util::future::BoxFuture<'static, Answer>>) {
    if let Some(running) = running {
        running.await;
    }
    std::future::pending().await
}

impl Shared {
    /// Makes `life` the current incarnation for calls.
    pub(super) fn enter_life(&self, life: &Arc<Life>) {
        self.life.store(Some(Arc::clone(life)));
    }

    /// Removes `life` as the current incarnation, unless another one has replaced it.
    fn leave_life(&self, life: &Arc<Life>) {
        if self.life.load().as_ref().is_some_and(|present| Arc::ptr_eq(present, life)) {
            self.life.store(None);
        }
    }
}
