//! Turns: transactions (b) and (c).

use std::sync::Arc;

use hermes_core::ids::{DeliveryId, Epoch, InboxId, SessionId, TurnId};
use hermes_protocol::Usage;
use rusqlite::{Connection, params};

use super::error::Fault;
use super::sql::{change, change_one, collect, counted, first, json, json_list, text};
use super::writer::Outcome;
use super::{
    Admit, EndTurn, NewMessage, Result, Store, TurnEnd, drafts, handoff, inbox, observed, outbox, sessions, tasks,
};

impl Store {
    /// Returns the ids of an instance's chats with turns that run or wait to be resumed.
    ///
    /// # Errors
    ///
    /// The error of the disk.
    pub async fn chats_with_turns(&self, instance: &str) -> Result<Vec<String>> {
        let instance = instance.to_owned();
        self.read(move |db| {
            // The first event of a turn determines its chat.
            let chats = db.prepare_cached(
                "SELECT DISTINCT inbox.event ->> '$.chat.id' FROM (
                     SELECT inbox FROM turns INDEXED BY turns_running WHERE state = 'running'
                     UNION ALL SELECT inbox FROM turns INDEXED BY turns_queued WHERE state = 'queued'
                 ) AS live JOIN inbox ON inbox.id = CAST(live.inbox AS INTEGER)
                 WHERE inbox.instance = ?1 AND json_valid(inbox.event)",
            )?;
            let chats = collect(chats, [instance], |row| Ok(row.get::<_, Option<String>>(0)?))?;
            Ok(chats.into_iter().flatten().collect())
        })
        .await
    }

    /// (b) Starts a turn: creates its session and route if given, and marks its events as `turned`.
    ///
    /// # Errors
    ///
    /// [`StoreError::Conflict`](super::StoreError::Conflict) if a turn of the session runs, a handoff is in
    /// progress, or an event is not `accepted`; [`StoreError::Missing`](super::StoreError::Missing) if the
    /// session does not exist.
    pub async fn admit(&self, admit: Admit) -> Result<TurnId> {
        self.write(move |db| start(db, &admit)).await
    }

    /// (c) Ends a turn: stores its messages, its deliveries and their parts, and marks its events as
    /// `answered`. A `queued` turn can only fail or be interrupted. Returns the ids of its deliveries, followed
    /// by those of messages that were still growing and end as interrupted.
    ///
    /// # Errors
    ///
    /// [`StoreError::Conflict`](super::StoreError::Conflict) if the turn does not run because it ended before;
    /// `end` is discarded.
    pub async fn end_turn(&self, end: impl Into<Arc<EndTurn>>) -> Result<Vec<DeliveryId>> {
        let (nonce, end) = (self.nonce(), end.into());
        self.write(move |db| finish(db, &nonce, &end)).await
    }

    /// Adds events to a running turn: they become `turned` now and are answered by its end.
    ///
    /// # Errors
    ///
    /// [`StoreError::Conflict`](super::StoreError::Conflict) if the turn does not run or an event is not
    /// `accepted`; nothing is changed.
    pub async fn steer_turn(&self, turn: TurnId, events: Vec<InboxId>) -> Result<()> {
        self.write(move |db| {
            change_one(
                db,
                "UPDATE turns SET inbox = CASE inbox WHEN '' THEN ?2 ELSE inbox || ',' || ?2 END
                 WHERE id = ?1 AND state = 'running'",
                params![turn.0, joined(&events)],
                || name(turn),
            )?;
            events.iter().try_for_each(|event| inbox::turned(db, *event))?;
            count_woken(db, turn, false)
        })
        .await
    }

    /// Starts a `queued` turn in this epoch. Returns the number of its starts.
    ///
    /// # Errors
    ///
    /// [`StoreError::Conflict`](super::StoreError::Conflict) if the turn is not `queued` or another turn of its
    /// session runs.
    pub async fn resume_turn(&self, turn: TurnId, epoch: Epoch) -> Result<u32> {
        self.write(move |db| {
            let resume = db.prepare_cached(
                "UPDATE turns SET state = 'running', epoch = ?2, attempts = attempts + 1
                 WHERE id = ?1 AND state = 'queued' RETURNING attempts",
            )?;
            match first(resume, params![turn.0, epoch.0], |row| Ok(row.get(0)?)) {
                Ok(Some(attempts)) => Ok(attempts),
                Ok(None) => Err(Fault::conflict(name(turn))),
                Err(fault) => Err(refused_by_the_running_one(fault, || name(turn))),
            }
        })
        .await
    }
}

fn name(turn: TurnId) -> String {
    format!("turn {turn}")
}

/// Converts the violation of the unique index on running turns to a conflict.
fn refused_by_the_running_one(fault: Fault, what: impl FnOnce() -> String) -> Fault {
    match fault {
        Fault::Sql(error) if Fault::is_unique_violation(&error) => Fault::conflict(what()),
        other => other,
    }
}

pub(super) fn start(db: &Connection, admit: &Admit) -> Outcome<TurnId> {
    let session = &admit.session;
    if let Some(new) = &admit.new_session {
        sessions::insert(db, new)?;
    }
    if let Some(route) = &admit.route {
        handoff::bind_born(db, route, admit.now_ms)?;
    }
    if handoff::is_leased(db, session, &admit.inbox)? {
        return Err(Fault::conflict(format_args!("session {session}, which is being handed off,")));
    }
    let inserted = change(
        db,
        "INSERT INTO turns (session_id, inbox, state, epoch, attempts, started_ms)
         SELECT id, ?2, 'running', ?3, 1, ?4 FROM sessions WHERE id = ?1",
        params![session.0, joined(&admit.inbox), admit.epoch.0, admit.now_ms],
    )
    .map_err(|fault| refused_by_the_running_one(fault, || format!("session {session}")))?;
    if inserted == 0 {
        return Err(Fault::missing(format_args!("session {session}")));
    }
    let turn = TurnId(db.last_insert_rowid());
    for event in &admit.inbox {
        inbox::turned(db, *event)?;
    }
    count_woken(db, turn, inbox::only_wakes(db, &admit.inbox)?)?;
    Ok(turn)
}

/// Counts a turn that the host started for a session. A message of a person resets the count.
fn count_woken(db: &Connection, turn: TurnId, is_woken: bool) -> Outcome<()> {
    let sql = "UPDATE sessions SET woken = iif(?2, woken + 1, 0)
             WHERE id = (SELECT session_id FROM turns WHERE id = ?1) AND (?2 OR woken > 0)";
    change(db, sql, params![turn.0, is_woken]).map(drop)
}

fn finish(db: &Connection, nonce: &str, end: &EndTurn) -> Outcome<Vec<DeliveryId>> {
    let EndTurn { turn, usage, now_ms, .. } = *end;
    let Usage { tool_calls, api_calls, input_tokens, output_tokens, .. } = usage;
    // RETURNING would create a temporary table for its row, which costs more than the change.
    let known = db.prepare_cached("SELECT inbox, state = 'queued' FROM turns WHERE id = ?1 AND session_id = ?2")?;
    let known = first(known, params![turn.0, end.session.0], |row| Ok((split(text(row, 0)?)?, row.get(1)?)))?;
    let (events, queued) = known.ok_or_else(|| Fault::conflict(name(turn)))?;
    let from = if queued && end.state != TurnEnd::Finished { "queued" } else { "running" };
    change_one(
        db,
        "UPDATE turns SET state = ?2, epoch = NULL, ended_ms = ?3, error = ?4, tool_calls = ?5, api_calls = ?6,
             input_tokens = ?7, output_tokens = ?8
         WHERE id = ?1 AND state = ?9",
        params![
            turn.0,
            end.state.as_str(),
            now_ms,
            end.error,
            counted(tool_calls),
            counted(api_calls),
            counted(input_tokens),
            counted(output_tokens),
            from,
        ],
        || name(turn),
    )?;
    for message in &end.messages {
        write_message(db, &end.session, Some(turn), message)?;
    }
    change_one(
        db,
        "UPDATE sessions SET active_ms = ?2, messages = messages + ?3, turns = turns + 1, tool_calls = tool_calls + ?4,
             api_calls = api_calls + ?5, input_tokens = input_tokens + ?6, output_tokens = output_tokens + ?7
         WHERE id = ?1",
        params![
            end.session.0,
            now_ms,
            end.messages.len() as i64,
            counted(tool_calls),
            counted(api_calls),
            counted(input_tokens),
            counted(output_tokens),
        ],
        || format!("session {}", end.session),
    )?;
    if let Some((runtime, state)) = &end.agent_state {
        change(
            db,
            "INSERT INTO agent_state (session_id, runtime, state, updated_ms) VALUES (?1, ?2, ?3, ?4)
             ON CONFLICT DO UPDATE SET state = excluded.state, updated_ms = excluded.updated_ms",
            params![end.session.0, runtime, json(state)?, now_ms],
        )?;
    }
    for event in &events {
        inbox::turn_answered(db, *event)?;
    }
    if let Some(upto) = &end.observed {
        observed::forget(db, upto)?;
    }
    let said = end.deliveries.iter().map(|delivery| outbox::insert(db, nonce, delivery, Some(turn)));
    let mut ids = said.collect::<Outcome<Vec<DeliveryId>>>()?;
    ids.append(&mut drafts::interrupt_those_of(db, nonce, turn, now_ms)?);
    handoff::turn_ended(db, &end.session, &events, end.error.as_deref(), now_ms)?;
    tasks::turn_ended(db, end)?;
    Ok(ids)
}

/// Adds one entry to a transcript.
pub(super) fn write_message(
    db: &Connection,
    session: &SessionId,
    turn: Option<TurnId>,
    new: &NewMessage,
) -> Outcome<()> {
    let message = &new.message;
    change(
        db,
        "INSERT INTO messages (session_id, turn_id, role, content, reasoning, tool_calls, tool_call_id, attachments,
             platform_ids, at_ms)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
        params![
            session.0,
            turn.map(|turn| turn.0),
            message.role.as_str(),
            message.content,
            message.reasoning,
            json_list(&message.tool_calls)?,
            message.tool_call_id,
            json_list(&message.attachments)?,
            json_list(&new.platform_ids)?,
            new.at_ms,
        ],
    )?;
    Ok(())
}

/// Returns the ids of a turn's events in the format of its row.
fn joined(events: &[InboxId]) -> String {
    let ids: Vec<String> = events.iter().map(ToString::to_string).collect();
    ids.join(",")
}

/// Parses the output of [`joined`].
pub(super) fn split(events: &str) -> Outcome<Vec<InboxId>> {
    let read = |id: &str| id.parse().map(InboxId).map_err(|_| Fault::unreadable(format_args!("event ids {events:?}")));
    events.split(',').filter(|id| !id.is_empty()).map(read).collect()
}
