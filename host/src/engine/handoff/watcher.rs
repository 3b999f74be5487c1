//! The watcher starts requested handoffs, times out slow ones, and releases the leases of finished ones.
//!
//! Each request and each end wakes it; it also checks at the start and every [`HANDOFF_SWEEP_S`]. The store decides.
//! The state in memory (leases, routes) is changed to match it here and nowhere else.

use std::sync::Arc;
use std::time::Duration;

use hermes_core::handoff::{HandoffChange, HandoffState};
use hermes_core::ids::SessionId;
use hermes_core::limits::{HANDOFF_SWEEP_S, HANDOFFS_MAX};
use tokio::sync::mpsc;

use super::{Asked, Lease, request, serve};
use crate::engine::messages::{Control, HostEvent, TurnWish, WatchNews};
use crate::engine::runtime::Host;
use hermes_store::{HandoffRow, StoreError, WhichHandoff};

/// Leases the sessions whose handoffs an earlier run of the host left in progress, and restores the routes of failed
/// ones.
///
/// # Errors
///
/// Fails if the store cannot be read; the host must not start then.
pub async fn take_up(host: &Arc<Host>, failed: Vec<HandoffRow>) -> Result<(), StoreError> {
    for row in failed {
        lead_back(host, &row).await;
    }
    for row in host.store.handoffs_live().await? {
        host.handoffs.grant(&row.session, &Lease { is_left: true, ..lease(&row) });
    }
    Ok(())
}

/// Watches handoffs until the host takes no new events.
pub async fn watch(host: Arc<Host>) {
    host.recovered.cancelled().await;
    loop {
        let next = sweep(&host).await;
        let until = host.clock.moment() + next;
        tokio::select! {
            () = host.handoffs.wake.notified() => {}
            () = host.clock.until(until) => {}
            () = host.draining.cancelled() => return,
        }
    }
}

/// Checks every live handoff; returns the time until the next check.
async fn sweep(host: &Arc<Host>) -> Duration {
    let mut next = Duration::from_secs(HANDOFF_SWEEP_S);
    let leased = host.handoffs.sessions();
    let live = match host.store.handoffs_live().await {
        Ok(live) => live,
        Err(error) => {
            tracing::warn!(%error, "handoffs could not be read; retrying");
            return next;
        }
    };
    for session in leased.iter().filter(|session| live.iter().all(|row| row.session != **session)) {
        over(host, session).await;
    }
    let mut running = live.iter().filter(|row| matches!(row.state, HandoffState::Running { .. })).count();
    for row in live {
        host.handoffs.grant(&row.session, &lease(&row));
        match row.state {
            HandoffState::Running { .. } => match left(host, &row) {
                Some(left) => next = next.min(left),
                None => time_out(host, &row).await,
            },
            _ if running >= HANDOFFS_MAX => {}
            _ if waits_for_its_adapter(host, &row) => {
                next = next.min(left(host, &row).unwrap_or_default());
            }
            _ => {
                if claim(host, &row).await {
                    running += 1;
                    next = next.min(timeout_of(host, &row));
                }
            }
        }
    }
    next
}

/// Repeats the checks of a pending handoff, claims it and serves it in the background. `false`: it was refused, or
/// another change came first.
async fn claim(host: &Arc<Host>, row: &HandoffRow) -> bool {
    let session = &row.session;
    let instance: Arc<str> = Arc::from(row.instance.as_str());
    let (adapter, home) = match request::check(host, session, &instance, row.chat.as_ref()).await {
        Ok(found) => found,
        Err(refused) => {
            end(host, row, HandoffChange::Refused { why: refused.words }).await;
            return false;
        }
    };
    let claim = || host.store.handoff_claim(session, host.epoch, host.now_ms());
    let Some(Some(row)) = host.until_written("the claim of a handoff", claim).await else { return false };
    tracing::info!(%session, %instance, attempt = row.attempts, "handoff started");
    crate::engine::crash_points::point("handoff_claimed");
    let host = Arc::clone(host);
    // Nothing awaits this task; its timeout ends an unfinished handoff.
    tokio::spawn(async move {
        if let Err(why) = serve::serve(&host, &row, &adapter, home).await {
            end(&host, &row, HandoffChange::Refused { why }).await;
        }
    });
    true
}

/// Returns whether a handoff of an earlier run waits for its adapter, which starts with the host.
fn waits_for_its_adapter(host: &Host, row: &HandoffRow) -> bool {
    let is_left = host.handoffs.lease(&row.session).is_some_and(|lease| lease.is_left);
    let is_away = host.adapter(&row.instance).is_some_and(|adapter| !adapter.is_online());
    is_left && is_away && left(host, row).is_some()
}

/// Returns the time that a handoff may still take; `None`: its time is up.
fn left(host: &Host, row: &HandoffRow) -> Option<Duration> {
    let since = Duration::from_millis(u64::try_from(host.now_ms().saturating_sub(row.at_ms)).unwrap_or(0));
    timeout_of(host, row).checked_sub(since).filter(|left| !left.is_zero())
}

fn timeout_of(host: &Host, row: &HandoffRow) -> Duration {
    host.live().session_of(&row.instance).handoff_timeout
}

/// Ends a handoff that takes too long, and stops its turn.
async fn time_out(host: &Arc<Host>, row: &HandoffRow) {
    tracing::warn!(session = %row.session, instance = %row.instance, "handoff timed out");
    end(host, row, HandoffChange::TimedOut).await;
}

/// Ends a handoff that failed, unless another one has replaced it meanwhile.
async fn end(host: &Arc<Host>, row: &HandoffRow, change: HandoffChange) {
    let fail =
        || host.store.handoff_fail(&row.session, WhichHandoff::Claim(row.claim()), change.clone(), host.now_ms());
    if let Some(Some(row)) = host.until_written("the end of a handoff", fail).await {
        settle(host, &row).await;
    }
}

/// Ends this handoff, and no later one of its session, if `change` is possible in its state; returns its new row.
///
/// # Errors
///
/// Fails if the store cannot be written.
pub(super) async fn give_up(
    host: &Arc<Host>,
    asked: &Asked,
    change: HandoffChange,
) -> Result<Option<HandoffRow>, StoreError> {
    let which = WhichHandoff::Asked(asked.asked_ms);
    let failed = host.store.handoff_fail(&asked.session, which, change, host.now_ms()).await?;
    if let Some(row) = &failed {
        settle(host, row).await;
    }
    Ok(failed)
}

/// Releases a leased session whose handoff is over or was never stored.
async fn over(host: &Arc<Host>, session: &SessionId) {
    match host.store.handoff(session).await {
        Ok(Some(row)) if row.state.is_live() => {}
        Ok(Some(row)) => settle(host, &row).await,
        Ok(None) => let_go(host, session).await,
        Err(error) => tracing::warn!(%session, %error, "handoff could not be read; retrying"),
    }
}

/// Updates the state in memory after the store ended a handoff.
async fn settle(host: &Arc<Host>, row: &HandoffRow) {
    if !host.handoffs.has(&row.session) {
        return;
    }
    match &row.state {
        HandoffState::Failed { why } => {
            tracing::warn!(session = %row.session, instance = %row.instance, why, "handoff failed");
            lead_back(host, row).await;
            stop_turn(host, row).await;
        }
        _ => tracing::info!(session = %row.session, instance = %row.instance, "handoff completed"),
    }
    let_go(host, &row.session).await;
}

/// Releases the lease of a session; events that waited to wake it are delivered.
async fn let_go(host: &Host, session: &SessionId) {
    host.handoffs.let_go(session);
    host.tell(HostEvent::Watch(WatchNews::Arrived)).await;
}

/// Asks the dispatcher to restore the routes of a failed handoff from the store.
async fn lead_back(host: &Arc<Host>, row: &HandoffRow) {
    let Some(routes) = &row.routes else { return };
    let (session, routes) = (row.session.clone(), Box::new(routes.clone()));
    let control = Control::LeadBack { session, claim: row.claim(), routes };
    host.tell(HostEvent::control(control)).await;
}

/// Stops the turn of a failed handoff. Its output is not sent.
async fn stop_turn(host: &Arc<Host>, row: &HandoffRow) {
    let Some(inbox) = row.inbox else { return };
    let (reply, mut heard) = mpsc::channel(1);
    let instance = Arc::from(row.instance.as_str());
    host.tell(HostEvent::control(Control::Turn { instance, inbox, wish: TurnWish::Stop, reply })).await;
    // Without an answer from a lane nothing runs any more.
    let _ = heard.recv().await;
}

fn lease(row: &HandoffRow) -> Lease {
    let instance = Arc::from(row.instance.as_str());
    Lease { instance, inbox: row.inbox, owner: row.owner.clone(), is_left: false }
}
