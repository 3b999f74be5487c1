//! Health checks: heartbeats, `health`, and the reaction to silence.

use std::{sync::atomic::Ordering, time::Duration};

use futures_util::{FutureExt, future::BoxFuture};
use hermes_adapter_abi::status;
use hermes_protocol::{CallError, ConnectError, method};
use tokio::time;

use super::{Lost, Step};
use crate::handle::Shared;
use crate::life::{Life, panicked};
use crate::{AdapterChange, AdapterState, Answer, Isolation};

/// Wait before a busy instance is asked again.
const BUSY_WAIT: Duration = Duration::from_millis(500);

/// Maps the answer of `connect`, `run` or `health` to a step.
pub(super) fn connected(life: &Life, method: &str, answer: Answer) -> Step {
    match answer.status {
        status::OK => Step::Up,
        status::PANIC | status::POISONED => Step::Broken { reason: panicked(method, &answer) },
        // By then a process has reported its end.
        status::DROPPED => Step::Broken {
            reason: life.link.closed().now_or_never().unwrap_or_else(|| "the instance ended".to_owned()),
        },
        status::BUSY => Step::Again(Lost::because("the instance is busy")),
        status::UNSUPPORTED => Step::Fatal {
            reason: "the adapter cannot connect".to_owned(),
            mend: "ask its author to implement `connect`".to_owned(),
        },
        _ => match serde_json::from_slice(&answer.payload) {
            Ok(ConnectError::Fatal { reason, mend }) => Step::Fatal { reason, mend },
            Ok(ConnectError::Retry { reason, after_ms, unreachable }) => {
                Step::Again(Lost { reason, after_ms, unreachable })
            }
            _ => {
                let error = serde_json::from_slice::<CallError>(&answer.payload);
                let reason = error.map_or_else(|_| "the link was lost".to_owned(), |error| error.message);
                Step::Again(Lost::because(reason))
            }
        },
    }
}

/// Checks heartbeat and health until one of them fails.
pub(super) async fn pulse(life: &Life, shared: &Shared) -> Step {
    let settings = &shared.settings;
    let heart = async {
        loop {
            time::sleep(settings.heartbeat).await;
            let reason = || "the process sends no heartbeat".to_owned();
            match time::timeout(settings.health, heard(life.link.heartbeat(), shared)).await {
                Ok(true) => {}
                // The process ended by itself.
                Ok(false) => return Step::Broken { reason: reason() },
                Err(_) => return silent(life, reason()),
            }
        }
    };
    let promised = shared.capabilities.load().liveness.interval_s;
    let silence = if promised > 0 { Duration::from_secs(promised.into()) } else { settings.ask_after };
    let health = async {
        let mut seen = shared.proofs.load(Ordering::Relaxed);
        loop {
            let is_asked = tokio::select! {
                () = time::sleep(silence) => false,
                () = shared.alive.asked() => true,
            };
            let proofs = shared.proofs.load(Ordering::Relaxed);
            if is_asked || proofs == seen {
                match ask_health(life, settings.health).await {
                    Step::Up => shared.alive.came_back(),
                    silent => return silent,
                }
            }
            seen = proofs;
        }
    };
    tokio::select! {
        step = heart, if life.link.isolation() == Isolation::Process => step,
        step = health => step,
    }
}

/// The duty of an instance whose process is late with a heartbeat.
const LATE: &str = "the process does not answer; the host restarts it if this continues";

/// Waits for a heartbeat. While it is late, the instance is degraded.
async fn heard(mut beat: BoxFuture<'static, bool>, shared: &Shared) -> bool {
    if let Ok(is_alive) = time::timeout(shared.settings.late, &mut beat).await {
        return is_alive;
    }
    let is_up = matches!(shared.state.borrow().state, AdapterState::Online { .. });
    if is_up {
        shared.apply(AdapterChange::Degrade { duty: LATE.to_owned() });
    }
    let is_alive = beat.await;
    let is_said = matches!(&shared.state.borrow().state, AdapterState::Degraded { duty, .. } if duty == LATE);
    if is_said {
        shared.apply(AdapterChange::Recovered);
    }
    is_alive
}

/// Ends an incarnation that does not respond. The host ends it, so deliveries that this interrupts do not count as its
/// failure.
fn silent(life: &Life, reason: String) -> Step {
    life.leave();
    Step::Broken { reason }
}

async fn ask_health(life: &Life, deadline: Duration) -> Step {
    let asking = async {
        loop {
            let answer = life.call(method::HEALTH, b"{}".to_vec()).await;
            if answer.status != status::BUSY {
                return answer;
            }
            time::sleep(BUSY_WAIT).await;
        }
    };
    match time::timeout(deadline, asking).await {
        Err(_) => silent(life, format!("no answer to `health` within {} s", deadline.as_secs_f32())),
        Ok(answer) => match connected(life, method::HEALTH, answer) {
            // An adapter without the method has answered, so it is alive.
            Step::Fatal { .. } => Step::Up,
            other => other,
        },
    }
}
