//! Sessions created from another one: branches and compressions.

use hermes_core::ids::SessionId;
use hermes_protocol::Usage;
use rusqlite::{Connection, params};

use super::error::Fault;
use super::sql::{change_one, count, counted, first};
use super::writer::Outcome;
use super::{
    Costs, InUse, Lineage, NewFork, NewSession, NewSummary, Parent, Result, SessionRow, Store, handoff, sessions,
    titles, transcript,
};

/// Consecutive compressions that are followed.
const HOPS_MAX: usize = 100;

impl Store {
    /// Returns the current session of a conversation: the session itself, or the last one that its compressions
    /// created.
    ///
    /// # Errors
    ///
    /// The error of the disk.
    pub async fn session_tip(&self, id: &SessionId) -> Result<Option<SessionRow>> {
        let id = id.clone();
        self.read(move |db| tip(db, id)).await
    }

    /// Returns the reason for which a session cannot be continued elsewhere at the moment.
    ///
    /// # Errors
    ///
    /// The error of the disk.
    pub async fn session_in_use(&self, id: &SessionId) -> Result<Option<InUse>> {
        let id = id.clone();
        self.read(move |db| {
            if handoff::has_turn(db, &id)? {
                return Ok(Some(InUse::Turn));
            }
            Ok(handoff::is_leased(db, &id, &[])?.then_some(InUse::Handoff))
        })
        .await
    }

    /// Returns the total usage of all sessions of a person.
    ///
    /// # Errors
    ///
    /// The error of the disk.
    pub async fn usage_of(&self, owner: &str) -> Result<Costs> {
        let owner = owner.to_owned();
        self.read(move |db| {
            let sum = db.prepare_cached(
                "SELECT count(*), sum(turns), sum(input_tokens), sum(output_tokens) FROM sessions WHERE owner = ?1",
            )?;
            let costs = first(sum, [owner], |row| {
                let sum = |column| {
                    Ok::<_, Fault>(u64::try_from(row.get::<_, Option<i64>>(column)?.unwrap_or(0)).unwrap_or(0))
                };
                Ok(Costs { sessions: count(row, 0)?, turns: sum(1)?, usage: Usage::tokens(sum(2)?, sum(3)?) })
            })?;
            Ok(costs.unwrap_or_default())
        })
        .await
    }

    /// Creates a branch of a session without a command.
    ///
    /// # Errors
    ///
    /// As for [`super::Change::Fork`].
    pub async fn session_fork(&self, new: NewFork) -> Result<()> {
        self.write(move |db| fork(db, &new)).await
    }
}

fn tip(db: &Connection, mut id: SessionId) -> Outcome<Option<SessionRow>> {
    for _ in 0..HOPS_MAX {
        let next = db.prepare_cached(
            "SELECT id FROM sessions WHERE parent = ?1 AND lineage = 'compression' ORDER BY started_ms DESC, id DESC",
        )?;
        match first(next, [&id.0], |row| Ok(SessionId(row.get(0)?)))? {
            Some(next) => id = next,
            None => break,
        }
    }
    sessions::one(db, &id.0)
}

/// Creates a session with the transcript and the settings of another one.
pub(super) fn fork(db: &Connection, new: &NewFork) -> Outcome<()> {
    let title = match &new.title {
        Some(title) => titles::clean_title(title)?,
        None => titles::title_of(db, &new.from)?,
    };
    open(db, new, title, Lineage::Branch)?;
    transcript::copy(db, &new.from, &new.id, 0)
}

/// Creates a session that continues from a summary of another one, moves the title to it, and ends the old
/// session.
pub(super) fn compress(db: &Connection, new: &NewSummary, now_ms: i64) -> Outcome<()> {
    let NewSummary { fork: of, summary, keep_turns, usage } = new;
    let title = titles::title_of(db, &of.from)?;
    titles::rename(db, &of.from, None)?;
    open(db, of, title, Lineage::Compression)?;
    transcript::copy(db, &of.from, &of.id, transcript::begin_of_last(db, &of.from, *keep_turns)?)?;
    let sql = "UPDATE sessions SET summary = ?2 WHERE id = ?1";
    change_one(db, sql, params![of.id.0, summary], || sessions::name(&of.id))?;
    charge(db, &of.from, usage)?;
    sessions::end(db, &of.from, Lineage::Compression.as_str(), now_ms)
}

fn open(db: &Connection, new: &NewFork, title: Option<String>, lineage: Lineage) -> Outcome<()> {
    let Some(from) = sessions::one(db, &new.from.0)? else { return Err(Fault::missing(sessions::name(&new.from))) };
    let owner = new.owner.clone().or(from.owner);
    let title = title.map(|title| titles::free_title(db, &from.profile, owner.as_deref(), &title)).transpose()?;
    let session = NewSession {
        id: new.id.clone(),
        profile: from.profile,
        source: new.source.clone(),
        owner,
        settings: from.settings,
        parent: Some(Parent { session: new.from.clone(), lineage }),
        title,
        started_ms: new.started_ms,
    };
    sessions::insert(db, &session)?;
    inherit(db, &new.from, &new.id)
}

/// Copies the data that a session inherits from its parent in addition to the transcript.
fn inherit(db: &Connection, from: &SessionId, to: &SessionId) -> Outcome<()> {
    let sql =
        "UPDATE sessions SET (summary, woken) = (SELECT summary, woken FROM sessions WHERE id = ?1) WHERE id = ?2";
    change_one(db, sql, params![from.0, to.0], || sessions::name(to))
}

/// Adds usage outside of a turn to a session.
fn charge(db: &Connection, session: &SessionId, usage: &Usage) -> Outcome<()> {
    change_one(
        db,
        "UPDATE sessions SET tool_calls = tool_calls + ?2, api_calls = api_calls + ?3,
             input_tokens = input_tokens + ?4, output_tokens = output_tokens + ?5
         WHERE id = ?1",
        params![
            session.0,
            counted(usage.tool_calls),
            counted(usage.api_calls),
            counted(usage.input_tokens),
            counted(usage.output_tokens),
        ],
        || sessions::name(session),
    )
}
