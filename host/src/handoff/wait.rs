//! Whoever asked for a handoff waits for its end.

use std::sync::Arc;
use std::time::Duration;

use hermes_core::handoff::{HandoffChange, HandoffState};
use hermes_core::ids::SessionId;
use hermes_core::limits::HANDOFF_WAIT_MS_MAX;

use super::{Refused, watcher};
use crate::host::Host;
use crate::store::HandoffRow;

/// Waits until a handoff is over, for so long at most. What nobody has taken up by then is withdrawn; what runs goes
/// on, and the row says so.
///
/// # Errors
///
/// When the store cannot be read, or the session was deleted.
pub async fn until_over(host: &Arc<Host>, session: &SessionId, wait_ms: u64) -> Result<HandoffRow, Refused> {
    let until = host.clock.moment() + Duration::from_millis(wait_ms.min(HANDOFF_WAIT_MS_MAX));
    let mut changed = host.handoffs.changed.subscribe();
    loop {
        let row = stands(host, session).await?;
        if !row.state.is_live() && !host.handoffs.has(session) {
            return Ok(row);
        }
        tokio::select! {
            // The sender lives as long as the host.
            _ = changed.changed() => {}
            () = host.clock.until(until) => break,
            () = host.parking.cancelled() => break,
        }
    }
    // Only what is pending can be withdrawn.
    if let Some(row) = watcher::give_up(host, session, HandoffChange::Withdrawn).await? {
        return Ok(row);
    }
    stands(host, session).await
}

async fn stands(host: &Arc<Host>, session: &SessionId) -> Result<HandoffRow, Refused> {
    let row = host.store.handoff(session).await?;
    let gone = || crate::store::StoreError::Missing { what: format!("session {session}") };
    let row = row.ok_or_else(gone)?;
    debug_assert!(row.state != HandoffState::None, "nobody waits for what was never asked for");
    Ok(row)
}
