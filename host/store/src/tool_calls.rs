//! Tool calls: stored before they start, completed with their results, and loaded after an interruption of
//! their turn.

use hermes_core::ids::TurnId;
use hermes_core::transcript::{CallRow, StartedCall, ToolCall};
use rusqlite::params;

use super::error::Fault;
use super::sql::{change, change_one, collect};
use super::{Result, Store};

impl Store {
    /// Stores the start of calls of a running turn.
    ///
    /// # Errors
    ///
    /// [`StoreError::Conflict`](super::StoreError::Conflict) if the turn does not run or already has such a
    /// call.
    pub async fn start_calls(&self, turn: TurnId, calls: Vec<StartedCall>) -> Result<()> {
        let now_ms = self.now_ms();
        self.write(move |db| {
            for StartedCall { n, step, said, call } in calls {
                let written = change(
                    db,
                    "INSERT OR IGNORE INTO tool_calls (turn_id, n, step, said, call_id, tool, arguments, started_ms)
                     SELECT id, ?2, ?3, ?4, ?5, ?6, ?7, ?8 FROM turns WHERE id = ?1 AND state = 'running'",
                    params![turn.0, n, step, said, call.id, call.name, call.arguments, now_ms],
                )?;
                if written != 1 {
                    return Err(Fault::conflict(format!("call {n} of turn {turn}")));
                }
            }
            Ok(())
        })
        .await
    }

    /// Stores the result of a call.
    ///
    /// # Errors
    ///
    /// [`StoreError::Conflict`](super::StoreError::Conflict) if no such call is open.
    pub async fn end_call(&self, turn: TurnId, n: u32, result: String) -> Result<()> {
        let now_ms = self.now_ms();
        self.write(move |db| {
            change_one(
                db,
                "UPDATE tool_calls SET result = ?3, ended_ms = ?4 WHERE turn_id = ?1 AND n = ?2 AND result IS NULL",
                params![turn.0, n, result, now_ms],
                || format!("call {n} of turn {turn}"),
            )
        })
        .await
    }

    /// Returns the calls of a turn, in order.
    ///
    /// # Errors
    ///
    /// The error of the disk.
    pub async fn calls_of(&self, turn: TurnId) -> Result<Vec<CallRow>> {
        self.read(move |db| {
            let calls = db.prepare_cached(
                "SELECT n, step, said, call_id, tool, arguments, result FROM tool_calls WHERE turn_id = ?1 ORDER BY n",
            )?;
            collect(calls, [turn.0], |row| {
                let call = ToolCall { id: row.get(3)?, name: row.get(4)?, arguments: row.get(5)? };
                let started = StartedCall { n: row.get(0)?, step: row.get(1)?, said: row.get(2)?, call };
                Ok(CallRow { started, result: row.get(6)? })
            })
        })
        .await
    }
}
