//! Handoffs of conversations from the terminal to a chat, stored in the row of the session.
//!
//! Each transition of [`HandoffState`] is stored only if the state has not changed since it was read, in one
//! transaction with its consequences:
//!
//! ```text
//! requested     no turn of the session runs; only the handoff's own turn may begin from here on
//! claimed       {epoch, attempt}
//! thread made   the chat, kept for a second claim
//! (bound)       the opening event, the route, and the end of the chat's former session
//! delivered     with the last receipt, or with the end of a turn without deliveries
//! failed        the chats lead to their former sessions; undelivered parts are abandoned
//! claimer died  at the start of the next run
//! ```
//!
//! The deliveries of a handoff are found by their opening event: all replies to it after the outbox row that
//! was the last one at the time of the binding.

use hermes_core::handoff::{HandoffChange, HandoffState};
use hermes_core::ids::{DeliveryId, Epoch, InboxId, SessionId};
use hermes_protocol::Chat;
use rusqlite::{Connection, Row, params};

use super::error::Fault;
use super::sql::{change, change_one, collect, first, json, parsed_or_none, text};
use super::writer::Outcome;
use super::{
    HandoffAsked, HandoffBind, HandoffClaim, HandoffRoutes, HandoffRow, KeptRoute, Result, RouteRow, Store,
    WhichHandoff, inbox, outbox, sessions,
};

/// Reason for the end of the former session of a chat.
const SWITCHED: &str = "session_switch";

/// Handoffs in one listing.
const LISTED_MAX: u32 = 1_000;

/// Characters of a turn's error in the failure reason of its handoff.
const ERROR_CHARS_MAX: usize = 300;

impl Store {
    /// Requests the handoff of a session to an instance.
    ///
    /// # Errors
    ///
    /// The error of the disk. A refusal is a value.
    pub async fn handoff_request(&self, session: &SessionId, instance: &str, now_ms: i64) -> Result<HandoffAsked> {
        self.handoff_request_to(session, instance, None, now_ms).await
    }

    /// Requests the handoff of a session to a chat of an instance, or to its home channel if `chat` is `None`.
    ///
    /// # Errors
    ///
    /// The error of the disk. A refusal is a value.
    pub async fn handoff_request_to(
        &self,
        session: &SessionId,
        instance: &str,
        chat: Option<Chat>,
        now_ms: i64,
    ) -> Result<HandoffAsked> {
        let (session, instance) = (session.clone(), instance.to_owned());
        self.write(move |db| request(db, &session, &instance, chat.as_ref(), now_ms)).await
    }

    /// Claims a pending handoff for this run of the host. Returns `None` if it is no longer pending.
    ///
    /// # Errors
    ///
    /// The error of the disk.
    pub async fn handoff_claim(&self, session: &SessionId, epoch: Epoch, now_ms: i64) -> Result<Option<HandoffRow>> {
        let session = session.clone();
        self.write(move |db| {
            let Some(row) = one(db, &session)? else { return Ok(None) };
            if !matches!(row.state, HandoffState::Pending { .. }) {
                return Ok(None);
            }
            step(db, &row, HandoffChange::Claimed { epoch }, now_ms)?;
            one(db, &session)
        })
        .await
    }

    /// Stores the chat in which the conversation continues.
    ///
    /// # Errors
    ///
    /// [`StoreError::Conflict`](super::StoreError::Conflict) if this claim no longer runs.
    pub async fn handoff_thread(
        &self,
        session: &SessionId,
        claim: HandoffClaim,
        epoch: Epoch,
        chat: Chat,
    ) -> Result<()> {
        let session = session.clone();
        self.write(move |db| {
            let row = still(db, &session, claim)?;
            step(db, &row, HandoffChange::ThreadMade { epoch }, row.at_ms)?;
            let sql = "UPDATE sessions SET handoff_chat = ?2 WHERE id = ?1";
            change_one(db, sql, params![session.0, json(&chat)?], || sessions::name(&session))
        })
        .await
    }

    /// Binds the chat to the session: ends its former session, releases the terminal, and stores the event that
    /// opens the conversation in the chat. Returns that event.
    ///
    /// # Errors
    ///
    /// [`StoreError::Conflict`](super::StoreError::Conflict) if this claim no longer runs; nothing is changed.
    pub async fn handoff_bind(&self, bind: HandoffBind) -> Result<InboxId> {
        self.write(move |db| bind_chat(db, &bind)).await
    }

    /// Ends a failed handoff. Returns `None` if another one replaced it, or if `change` is invalid in its
    /// state.
    ///
    /// # Errors
    ///
    /// The error of the disk.
    pub async fn handoff_fail(
        &self,
        session: &SessionId,
        which: WhichHandoff,
        change: HandoffChange,
        now_ms: i64,
    ) -> Result<Option<HandoffRow>> {
        let session = session.clone();
        self.write(move |db| {
            let found = one(db, &session)?.filter(|row| row.is(which));
            let Some(row) = found else { return Ok(None) };
            let ends = row.state.clone().after(change.clone());
            if !matches!(ends, Ok(HandoffState::Failed { .. })) {
                return Ok(None);
            }
            fail(db, &row, change, now_ms)?;
            one(db, &session)
        })
        .await
    }

    /// Returns the handoff of a session, or `None` if the session does not exist.
    ///
    /// # Errors
    ///
    /// The error of the disk.
    pub async fn handoff(&self, session: &SessionId) -> Result<Option<HandoffRow>> {
        let session = session.clone();
        self.read(move |db| one(db, &session)).await
    }

    /// Returns the pending and running handoffs, the oldest first.
    ///
    /// # Errors
    ///
    /// The error of the disk.
    pub async fn handoffs_live(&self) -> Result<Vec<HandoffRow>> {
        self.read(live).await
    }

    /// Returns handoffs, the latest first. `all` includes ended ones.
    ///
    /// # Errors
    ///
    /// The error of the disk.
    pub async fn handoffs(&self, all: bool, limit: u32) -> Result<Vec<HandoffRow>> {
        self.read(move |db| {
            let which = if all {
                "sessions WHERE handoff_state <> 'none'"
            } else {
                "sessions INDEXED BY sessions_handoff WHERE handoff_state IN ('pending', 'running')"
            };
            let sql = format!("SELECT {COLUMNS} FROM {which} ORDER BY handoff_asked_ms DESC, id DESC LIMIT ?1");
            collect(db.prepare_cached(&sql)?, [limit.min(LISTED_MAX)], read)
        })
        .await
    }

    /// Returns the sessions that were handed over to exactly this chat.
    ///
    /// # Errors
    ///
    /// The error of the disk.
    pub async fn handed_to(&self, instance: &str, chat: &Chat) -> Result<Vec<HandoffRow>> {
        let (instance, chat) = (instance.to_owned(), chat.clone());
        self.read(move |db| {
            let handed = db.prepare_cached(&format!(
                "SELECT {COLUMNS} FROM sessions INDEXED BY sessions_handed
                 WHERE handoff_state = 'completed' AND handoff_target = ?1 ORDER BY handoff_at_ms DESC LIMIT ?2"
            ))?;
            let mut handed = collect(handed, params![instance, LISTED_MAX], read)?;
            handed.retain(|row| row.chat.as_ref() == Some(&chat));
            Ok(handed)
        })
        .await
    }
}

const COLUMNS: &str = "id, title, owner, handoff_state, handoff_target, handoff_error, handoff_epoch, handoff_attempts,
    handoff_chat, handoff_prev_session, handoff_routes, handoff_inbox, handoff_outbox, handoff_asked_ms, handoff_at_ms,
    EXISTS (SELECT 1 FROM routes WHERE session_id = sessions.id AND instance = handoff_target)";

fn read(row: &Row<'_>) -> Outcome<HandoffRow> {
    let attempts: u32 = row.get(7)?;
    let state = match text(row, 3)? {
        "none" => HandoffState::None,
        "pending" => HandoffState::Pending { attempts },
        "running" => HandoffState::Running { epoch: Epoch(row.get(6)?), attempt: attempts },
        "completed" => HandoffState::Completed,
        "failed" => HandoffState::Failed { why: row.get::<_, Option<String>>(5)?.unwrap_or_default() },
        other => return Err(Fault::unreadable(format_args!("state {other:?} of a handoff"))),
    };
    Ok(HandoffRow {
        session: SessionId(row.get(0)?),
        title: row.get(1)?,
        owner: row.get(2)?,
        state,
        instance: row.get::<_, Option<String>>(4)?.unwrap_or_default(),
        attempts,
        chat: parsed_or_none(row, 8)?,
        former: row.get::<_, Option<String>>(9)?.map(SessionId),
        routes: parsed_or_none(row, 10)?,
        inbox: row.get::<_, Option<i64>>(11)?.map(InboxId),
        behind: row.get::<_, Option<i64>>(12)?.map(DeliveryId),
        asked_ms: row.get::<_, Option<i64>>(13)?.unwrap_or_default(),
        at_ms: row.get::<_, Option<i64>>(14)?.unwrap_or_default(),
        is_there: row.get(15)?,
    })
}

fn one(db: &Connection, session: &SessionId) -> Outcome<Option<HandoffRow>> {
    first(db.prepare_cached(&format!("SELECT {COLUMNS} FROM sessions WHERE id = ?1"))?, [&session.0], read)
}

fn known(db: &Connection, session: &SessionId) -> Outcome<HandoffRow> {
    one(db, session)?.ok_or_else(|| Fault::missing(sessions::name(session)))
}

/// Returns the row if this claim is still the last one.
fn still(db: &Connection, session: &SessionId, claim: HandoffClaim) -> Outcome<HandoffRow> {
    let row = known(db, session)?;
    match row.claim() == claim {
        true => Ok(row),
        false => Err(Fault::conflict(format_args!("handoff of session {session}: replaced by another handoff"))),
    }
}

fn live(db: &Connection) -> Outcome<Vec<HandoffRow>> {
    let live = db.prepare_cached(&format!(
        "SELECT {COLUMNS} FROM sessions INDEXED BY sessions_handoff
         WHERE handoff_state IN ('pending', 'running') ORDER BY handoff_at_ms, id"
    ))?;
    collect(live, [], read)
}

/// Applies one transition if the row has not changed since it was read. Returns the new state.
fn step(db: &Connection, row: &HandoffRow, by: HandoffChange, now_ms: i64) -> Outcome<HandoffState> {
    let next = row.state.clone().after(by).map_err(Fault::conflict)?;
    let (epoch, attempts, error) = match &next {
        HandoffState::Pending { attempts } => (None, *attempts, None),
        HandoffState::Running { epoch, attempt } => (Some(epoch.0), *attempt, None),
        HandoffState::Failed { why } => (None, row.attempts, Some(why.as_str())),
        HandoffState::None | HandoffState::Completed => (None, row.attempts, None),
    };
    let claimed_by = match &row.state {
        HandoffState::Running { epoch, .. } => Some(epoch.0),
        _ => None,
    };
    change_one(
        db,
        "UPDATE sessions SET handoff_state = ?2, handoff_epoch = ?3, handoff_attempts = ?4, handoff_error = ?5,
             handoff_at_ms = ?6
         WHERE id = ?1 AND handoff_state = ?7 AND handoff_attempts = ?8 AND handoff_epoch IS ?9",
        params![row.session.0, next.word(), epoch, attempts, error, now_ms, row.state.word(), row.attempts, claimed_by],
        || format!("handoff of session {}", row.session),
    )?;
    Ok(next)
}

fn request(
    db: &Connection,
    session: &SessionId,
    instance: &str,
    chat: Option<&Chat>,
    now_ms: i64,
) -> Outcome<HandoffAsked> {
    let Some(row) = one(db, session)? else { return Ok(HandoffAsked::Unknown) };
    if row.state.is_live() {
        return Ok(HandoffAsked::UnderWay(Box::new(row)));
    }
    if has_turn(db, session)? {
        return Ok(HandoffAsked::MidTurn);
    }
    step(db, &row, HandoffChange::Requested, now_ms)?;
    let sql = "UPDATE sessions SET handoff_target = ?2, handoff_chat = ?4, handoff_prev_session = NULL,
             handoff_routes = NULL, handoff_inbox = NULL, handoff_outbox = NULL, 
             handoff_asked_ms = MAX(?3, COALESCE(handoff_asked_ms, 0) + 1)
         WHERE id = ?1";
    change_one(db, sql, params![session.0, instance, now_ms, chat.map(json).transpose()?], || sessions::name(session))?;
    Ok(HandoffAsked::Made { asked_ms: known(db, session)?.asked_ms })
}

/// Returns true if a turn of the session runs or waits to be resumed.
pub(super) fn has_turn(db: &Connection, session: &SessionId) -> Outcome<bool> {
    let turns = db.prepare_cached(
        "SELECT 1 FROM turns INDEXED BY turns_running WHERE session_id = ?1 AND state = 'running'
         UNION ALL SELECT 1 FROM turns INDEXED BY turns_queued WHERE session_id = ?1 AND state = 'queued'",
    )?;
    Ok(first(turns, [&session.0], |_| Ok(()))?.is_some())
}

fn bind_chat(db: &Connection, bind: &HandoffBind) -> Outcome<InboxId> {
    let HandoffBind { session, claim, epoch, event, input, route, routes, former, freed, now_ms } = bind;
    let row = still(db, session, *claim)?;
    // This step does not change the state, but verifies that the claim of this epoch still runs.
    step(db, &row, HandoffChange::ThreadMade { epoch: *epoch }, row.at_ms)?;
    let opened = inbox::host_said(db, event, input)?;
    let behind: i64 = db.query_row("SELECT coalesce(max(id), 0) FROM outbox", [], |row| row.get(0))?;
    // The state before the first claim is the one to restore.
    change_one(
        db,
        "UPDATE sessions SET handoff_inbox = ?2, handoff_outbox = ?3,
             handoff_prev_session = COALESCE(handoff_prev_session, ?4), handoff_routes = COALESCE(handoff_routes, ?5)
         WHERE id = ?1",
        params![session.0, opened.0, behind, former.as_ref().map(|former| &former.0), json(routes)?],
        || sessions::name(session),
    )?;
    if let Some(former) = former {
        // A session without messages is not stored yet.
        change(
            db,
            "UPDATE sessions SET ended_ms = COALESCE(ended_ms, ?2), end_reason = COALESCE(end_reason, ?3)
             WHERE id = ?1",
            params![former.0, now_ms, SWITCHED],
        )?;
    }
    sessions::reopen(db, session)?;
    for key in freed {
        sessions::unbind_route(db, key)?;
    }
    sessions::bind_route(db, route)?;
    Ok(opened)
}

/// Records that a chat has claimed a session, so that it is listed like a handoff.
pub(super) fn pulled(db: &Connection, session: &SessionId, instance: &str, chat: &Chat, now_ms: i64) -> Outcome<()> {
    let sql =
        "UPDATE sessions SET handoff_state = 'completed', handoff_target = ?2, handoff_chat = ?3, handoff_error = NULL,
             handoff_epoch = NULL, handoff_attempts = 0, handoff_prev_session = NULL, handoff_routes = NULL,
             handoff_inbox = NULL, handoff_outbox = NULL, handoff_at_ms = ?4,
             handoff_asked_ms = MAX(?4, COALESCE(handoff_asked_ms, 0) + 1)
         WHERE id = ?1 AND handoff_state NOT IN ('pending', 'running')";
    change_one(db, sql, params![session.0, instance, json(chat)?, now_ms], || sessions::name(session))
}

/// Binds a chat to a session that was created for it, unless a handoff has brought another conversation there
/// in the meantime. In that case the handed-over session keeps the chat, and the new one ends.
pub(super) fn bind_born(db: &Connection, route: &RouteRow, now_ms: i64) -> Outcome<()> {
    let arrived = db.prepare_cached(
        "SELECT 1 FROM routes JOIN sessions ON sessions.id = routes.session_id
         WHERE routes.key = ?1 AND routes.session_id <> ?2 AND routes.updated_ms >= ?3
             AND sessions.handoff_state IN ('running', 'completed')",
    )?;
    match first(arrived, params![route.key, route.session.0, route.updated_ms], |_| Ok(()))? {
        Some(()) => sessions::end(db, &route.session, SWITCHED, now_ms),
        None => sessions::bind_route(db, route),
    }
}

/// Fails a handoff and restores the former state.
fn fail(db: &Connection, row: &HandoffRow, by: HandoffChange, now_ms: i64) -> Outcome<()> {
    let why = end_badly(db, row, by, now_ms)?;
    for delivery in owed_for(db, row)? {
        outbox::abandon(db, delivery, &why, now_ms)?;
    }
    Ok(())
}

/// Fails a handoff without abandoning its deliveries. Returns the reason.
fn end_badly(db: &Connection, row: &HandoffRow, by: HandoffChange, now_ms: i64) -> Outcome<String> {
    let HandoffState::Failed { why } = step(db, row, by, now_ms)? else {
        return Err(Fault::conflict(format_args!("handoff of session {}", row.session)));
    };
    if let Some(routes) = &row.routes {
        lead_back(db, row, routes)?;
    }
    if let Some(opened) = row.inbox
        && is_in(db, opened, "accepted")?
    {
        inbox::drop_one(db, opened, &why, false)?;
    }
    Ok(why)
}

/// Restores the former routes of a handoff's chats. A chat that has another conversation by now is not changed.
fn lead_back(db: &Connection, row: &HandoffRow, routes: &HandoffRoutes) -> Outcome<()> {
    let bound =
        change(db, "DELETE FROM routes WHERE key = ?1 AND session_id = ?2", params![routes.bound, row.session.0])?;
    for kept in &routes.before {
        if kept.key == routes.bound && bound == 0 {
            continue;
        }
        let taken = first(db.prepare_cached("SELECT 1 FROM routes WHERE key = ?1")?, [&kept.key], |_| Ok(()))?;
        if taken.is_none() {
            sessions::bind_route(db, &kept.row())?;
        }
    }
    if let Some(former) = row.former.as_ref().filter(|_| bound > 0) {
        change(
            db,
            "UPDATE sessions SET ended_ms = NULL, end_reason = NULL WHERE id = ?1 AND end_reason = ?2",
            params![former.0, SWITCHED],
        )?;
    }
    Ok(())
}

/// Returns the pending replies to the opening event. Growing messages are excluded, because they end with their
/// turn.
fn owed_for(db: &Connection, row: &HandoffRow) -> Outcome<Vec<DeliveryId>> {
    let (Some(opened), Some(behind)) = (row.inbox, row.behind) else { return Ok(Vec::new()) };
    let owed = db.prepare_cached(
        "SELECT id FROM outbox INDEXED BY outbox_live
         WHERE state IN ('drafting', 'owed') AND state = 'owed' AND id > ?1 AND in_reply_to = ?2",
    )?;
    collect(owed, [behind.0, opened.0], |row| Ok(DeliveryId(row.get(0)?)))
}

fn is_in(db: &Connection, event: InboxId, state: &str) -> Outcome<bool> {
    let known = db.prepare_cached("SELECT 1 FROM inbox WHERE id = ?1 AND state = ?2")?;
    Ok(first(known, params![event.0, state], |_| Ok(()))?.is_some())
}

/// Ends a running handoff if the settled part was the last one for which it waits.
pub(super) fn part_settled(db: &Connection, delivery: DeliveryId, now_ms: i64) -> Outcome<()> {
    let waits = db.prepare_cached(&format!(
        "SELECT {COLUMNS} FROM sessions INDEXED BY sessions_handoff
         WHERE handoff_state IN ('pending', 'running') AND handoff_state = 'running'
             AND handoff_inbox = (SELECT in_reply_to FROM outbox WHERE id = ?1)"
    ))?;
    match first(waits, [delivery.0], read)? {
        Some(row) => judge(db, &row, now_ms),
        None => Ok(()),
    }
}

/// Ends a handoff with the turn of its opening event if no delivery is pending. A turn with an error fails its
/// handoff. The text of a turn whose handoff has failed is not sent.
pub(super) fn turn_ended(
    db: &Connection,
    session: &SessionId,
    events: &[InboxId],
    error: Option<&str>,
    now_ms: i64,
) -> Outcome<()> {
    let opened =
        db.prepare_cached(&format!("SELECT {COLUMNS} FROM sessions WHERE id = ?1 AND handoff_inbox IS NOT NULL"))?;
    let Some(row) = first(opened, [&session.0], read)? else { return Ok(()) };
    if !row.inbox.is_some_and(|opened| events.contains(&opened)) {
        return Ok(());
    }
    match (&row.state, error) {
        (HandoffState::Running { .. }, None) => judge(db, &row, now_ms),
        (HandoffState::Running { .. }, Some(error)) => {
            let why = format!("the agent failed in the new chat ({})", excerpt(error));
            let why = end_badly(db, &row, HandoffChange::Refused { why }, now_ms)?;
            abandon_unseen(db, &row, &why, now_ms)
        }
        (HandoffState::Failed { why }, _) => abandon_unseen(db, &row, why, now_ms),
        _ => Ok(()),
    }
}

/// Abandons the pending replies to the opening event. A growing message that is already visible still gets its
/// end.
fn abandon_unseen(db: &Connection, row: &HandoffRow, why: &str, now_ms: i64) -> Outcome<()> {
    for delivery in owed_for(db, row)? {
        if !is_seen(db, delivery)? {
            outbox::abandon(db, delivery, why, now_ms)?;
        }
    }
    Ok(())
}

/// Returns the beginning of an error on one line.
fn excerpt(error: &str) -> String {
    let line = error.split_whitespace().collect::<Vec<_>>().join(" ");
    line.chars().take(ERROR_CHARS_MAX).collect()
}

fn is_seen(db: &Connection, delivery: DeliveryId) -> Outcome<bool> {
    let seen = db.prepare_cached(
        "SELECT 1 FROM outbox WHERE id = ?1 AND (draft_message IS NOT NULL
             OR EXISTS (SELECT 1 FROM outbox_parts WHERE delivery = ?1 AND n = 0))",
    )?;
    Ok(first(seen, [delivery.0], |_| Ok(()))?.is_some())
}

/// Ends a running handoff once all replies to its event are settled. A part with an uncertain outcome on a
/// platform without lookups counts as delivered.
fn judge(db: &Connection, row: &HandoffRow, now_ms: i64) -> Outcome<()> {
    let (Some(opened), Some(behind)) = (row.inbox, row.behind) else { return Ok(()) };
    if is_in(db, opened, "accepted")? || is_in(db, opened, "turned")? {
        return Ok(());
    }
    let parts = db.prepare_cached(
        "SELECT outbox_parts.state, COALESCE(facts ->> '$.doubts', 0) > 0 FROM outbox
             JOIN outbox_parts ON outbox_parts.delivery = outbox.id
         WHERE outbox.id > ?1 AND in_reply_to = ?2 AND purpose = 'reply' AND n > 0",
    )?;
    let parts = collect(parts, [behind.0, opened.0], |row| Ok((text(row, 0)?.to_owned(), row.get::<_, bool>(1)?)))?;
    let missing = |(state, doubted): &&(String, bool)| state != "delivered" && !*doubted;
    let missing: Vec<&str> = parts.iter().filter(missing).map(|(state, _)| state.as_str()).collect();
    if missing.is_empty() {
        return step(db, row, HandoffChange::Delivered, now_ms).map(drop);
    }
    match missing.iter().all(|state| matches!(*state, "refused" | "abandoned")) {
        true => fail(db, row, HandoffChange::Unconfirmed, now_ms),
        false => Ok(()),
    }
}

/// (i) Recovers the handoffs of an earlier run. A handoff whose turn had begun continues at once, because only
/// the end of its turn is missing. Any other one is pending again. Returns the handoffs that failed.
pub(super) fn recover(db: &Connection, epoch: Epoch, now_ms: i64) -> Outcome<Vec<HandoffRow>> {
    let mut failed = Vec::new();
    for row in live(db)? {
        if !matches!(row.state, HandoffState::Running { epoch: by, .. } if by != epoch) {
            continue;
        }
        let ends = row.state.clone().after(HandoffChange::ClaimerDied);
        if matches!(ends, Ok(HandoffState::Failed { .. })) {
            give_up_turn(db, &row, now_ms)?;
            fail(db, &row, HandoffChange::ClaimerDied, now_ms)?;
            failed.extend(one(db, &row.session)?);
            continue;
        }
        step(db, &row, HandoffChange::ClaimerDied, now_ms)?;
        let row = known(db, &row.session)?;
        let Some(opened) = row.inbox else { continue };
        if is_in(db, opened, "accepted")? {
            // The next claim stores another event.
            inbox::drop_one(db, opened, "the host ended before its turn", false)?;
            continue;
        }
        step(db, &row, HandoffChange::Claimed { epoch }, now_ms)?;
        let row = known(db, &row.session)?;
        judge(db, &row, now_ms)?;
    }
    Ok(failed)
}

/// Ends the turn of a handoff that is not resumed.
fn give_up_turn(db: &Connection, row: &HandoffRow, now_ms: i64) -> Outcome<()> {
    let Some(opened) = row.inbox.filter(|_| has_turn(db, &row.session).unwrap_or(false)) else { return Ok(()) };
    if !is_in(db, opened, "turned")? {
        return Ok(());
    }
    change(
        db,
        "UPDATE turns SET state = 'interrupted', ended_ms = ?2 WHERE session_id = ?1 AND state = 'queued' AND inbox = ?3",
        params![row.session.0, now_ms, opened.0.to_string()],
    )?;
    inbox::turn_answered(db, opened)
}

/// Returns true if a handoff of the session is in progress and these events are not its opening event.
pub(super) fn is_leased(db: &Connection, session: &SessionId, events: &[InboxId]) -> Outcome<bool> {
    let leased = db.prepare_cached(
        "SELECT handoff_inbox FROM sessions WHERE id = ?1 AND handoff_state IN ('pending', 'running')",
    )?;
    let leased = first(leased, [&session.0], |row| Ok(row.get::<_, Option<i64>>(0)?.map(InboxId)))?;
    Ok(leased.is_some_and(|opened| opened.is_none_or(|opened| events != [opened])))
}

impl KeptRoute {
    /// Returns the kept route as a row.
    pub fn row(&self) -> super::RouteRow {
        let mut row = super::RouteRow::new(
            &*self.key,
            &*self.profile,
            &*self.instance,
            self.session.clone(),
            self.origin.clone(),
            self.used_ms,
        );
        row.shared = self.shared;
        row.participates = self.participates;
        row
    }
}
