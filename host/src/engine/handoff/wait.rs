//! The wait of a requester for the end of a handoff.

use std::sync::Arc;
use std::time::Duration;

use hermes_core::handoff::{HandoffChange, HandoffState};
use hermes_core::limits::HANDOFF_WAIT_MS_MAX;

use super::{Asked, Refused, watcher};
use crate::engine::runtime::Host;
use hermes_store::HandoffRow;

/// Waits until a handoff is over, for at most `wait_ms` milliseconds. A handoff that is still pending then is
/// withdrawn; a running one continues, and the returned row has its state.
///
/// # Errors
///
/// Fails if the store cannot be read, the session was deleted, or another handoff of it was requested meanwhile.
pub async fn until_over(host: &Arc<Host>, asked: &Asked, wait_ms: u64) -> Result<HandoffRow, Refused> {
    let until = host.clock.moment() + Duration::from_millis(wait_ms.min(HANDOFF_WAIT_MS_MAX));
    let mut changed = host.handoffs.changed.subscribe();
    loop {
        let row = stands(host, asked).await?;
        if !row.state.is_live() && !host.handoffs.has(&asked.session) {
            return Ok(row);
        }
        tokio::select! {
            // The sender exists as long as the host.
            _ = changed.changed() => {}
            () = host.clock.until(until) => break,
            () = host.parking.cancelled() => break,
        }
    }
    // Only a pending handoff can be withdrawn.
    if let Some(row) = watcher::give_up(host, asked, HandoffChange::Withdrawn).await? {
        return Ok(row);
    }
    stands(host, asked).await
}

async fn stands(host: &Arc<Host>, asked: &Asked) -> Result<HandoffRow, Refused> {
    let session = &asked.session;
    let row = host.store.handoff(session).await?;
    let gone = || hermes_store::StoreError::Missing { what: format!("session {session}") };
    let row = row.ok_or_else(gone)?;
    if row.asked_ms != asked.asked_ms {
        return Err(Refused::overtaken(&row));
    }
    debug_assert!(row.state != HandoffState::None, "nobody waits for what was never asked for");
    Ok(row)
}
