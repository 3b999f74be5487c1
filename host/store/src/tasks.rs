//! Tasks: each transition of [`TaskState`] is stored only if the state has not changed since it was read,
//! together with the event that it records.
//!
//! The notifications of a subscriber are a position in the sequence of events. The position moves in the same
//! transaction that queues the notification: no subscriber is notified of an event twice, and a notification
//! lost in a crash is sent at the next start.

mod rows;

use hermes_core::ids::{DeliveryId, Epoch, InboxId, SessionId};
use hermes_core::nearest::nearest;
use hermes_core::task::{TaskChange, TaskEvent, TaskState};
use rusqlite::{Connection, Row, params};

use super::error::Fault;
use super::sql::{change, change_one, collect, first, json, parsed, text};
use super::writer::Outcome;
use super::{Admit, EndTurn, Result, Store, TurnEnd, inbox, outbox, turns};
pub use rows::*;

/// Open tasks of one owner, or of one conversation.
pub const OPEN_MAX: u32 = 100;

/// Subscribers of one task.
pub const SUBSCRIBERS_MAX: u32 = 20;

/// Progress reports kept per task.
const REPORTS_KEPT: u32 = 100;

/// Events shown per task.
const EVENTS_SHOWN_MAX: u32 = 200;

/// Ids that are searched for a suggestion.
const NEAR_MAX: u32 = 200;

/// Subscribers that are loaded at once.
const UNTOLD_MAX: u32 = 100;

/// Events of one task in one notification.
const EVENTS_TOLD_MAX: u32 = 20;

/// Longest text that is stored of the end of a task, in characters.
pub const SAID_CHARS_MAX: usize = 8_000;

/// Tasks that one sweep removes.
const SWEPT_MAX: u32 = 500;

/// Reason of a task whose turn was stopped.
const STOPPED: &str = "it was stopped";

/// Reason of a task whose turn the host could not begin.
const CUT_OFF: &str = "the host ended before the task started";

impl Store {
    /// Creates a task, with its subscriber in the same transaction.
    ///
    /// # Errors
    ///
    /// The error of the disk, or [`StoreError::Conflict`](super::StoreError::Conflict) if the id is taken.
    pub async fn task_make(&self, new: NewTask) -> Result<Made> {
        self.write(move |db| make(db, &new)).await
    }

    /// Creates a task and stores the event that starts its turn. A turn in one of the sessions `working` counts
    /// as running even if its task has already ended.
    ///
    /// # Errors
    ///
    /// As for [`Store::task_make`].
    pub async fn task_run(
        &self,
        new: NewTask,
        event: super::NewInbox,
        input: Vec<hermes_core::transcript::Message>,
        running_max: u32,
        working: Vec<SessionId>,
    ) -> Result<(Made, Option<InboxId>)> {
        self.write(move |db| {
            let running = running(db, new.owner.as_deref(), &new.key, &working)?;
            if running >= running_max {
                return Ok((Made::TooManyRun(running), None));
            }
            match make(db, &new)? {
                Made::Task(row) => Ok((Made::Task(row), Some(inbox::host_said(db, &event, &input)?))),
                full => Ok((full, None)),
            }
        })
        .await
    }

    /// Starts a turn like [`Store::admit`] and creates its task.
    ///
    /// # Errors
    ///
    /// As for [`Store::admit`].
    pub async fn admit_task(&self, admit: Admit, new: NewTask) -> Result<hermes_core::ids::TurnId> {
        self.write(move |db| {
            let turn = turns::start(db, &admit)?;
            insert(db, &new)?;
            Ok(turn)
        })
        .await
    }

    /// Applies one transition to a task that is named by a person or an agent.
    ///
    /// # Errors
    ///
    /// The error of the disk. A refusal is a value.
    pub async fn task_step(&self, step: TaskStep) -> Result<Stepped> {
        self.write(move |db| {
            let row = match find(db, &step.viewer, &step.task)? {
                Named::One(row) => row,
                Named::None(near) => return Ok(Stepped::Unknown(near)),
                Named::Several(ids) => return Ok(Stepped::Ambiguous(ids)),
            };
            match row.state.clone().after(step.change.clone()) {
                Err(impossible) => Ok(Stepped::Invalid(impossible.to_string(), row)),
                Ok(next) => {
                    // The session that executes a task for the host does not act on behalf of any other
                    // conversation.
                    let is_its_own = row.kind.is_the_hosts() && row.worker.is_some() && row.worker == step.session;
                    let by_key = step.by_key.as_deref().filter(|_| !is_its_own);
                    let said = Said { body: &step.body, by_key, worker: step.session.as_ref() };
                    follow(db, &row, &step.change, &next, &said, step.now_ms)?;
                    Ok(Stepped::Done(Box::new(known(db, &row.id)?)))
                }
            }
        })
        .await
    }

    /// Subscribes a chat to a task. Returns false if the limit of subscribers is reached.
    ///
    /// # Errors
    ///
    /// The error of the disk.
    pub async fn task_subscribe(&self, task: &str, session: &SessionId, at: Seat) -> Result<bool> {
        let (task, session) = (task.to_owned(), session.clone());
        self.write(move |db| {
            let count = "SELECT count(*) FROM subscriptions WHERE task = ?1 AND session_id <> ?2";
            let others: u32 = db.prepare_cached(count)?.query_row(params![task, session.0], |row| row.get(0))?;
            if others >= SUBSCRIBERS_MAX {
                return Ok(false);
            }
            subscribe(db, &known(db, &task)?, &session, &at, false)?;
            Ok(true)
        })
        .await
    }

    /// Returns the tasks that the viewer may see, the latest first. `all` includes ended ones.
    ///
    /// # Errors
    ///
    /// The error of the disk.
    pub async fn tasks(&self, viewer: Viewer, all: bool, limit: u32) -> Result<Vec<TaskRow>> {
        self.read(move |db| {
            let open = if all { "1" } else { "state NOT IN ('completed', 'gave_up', 'archived')" };
            let (which, whose) = seen_by(&viewer);
            let sql = format!(
                "SELECT {COLUMNS} FROM tasks WHERE {which} AND {open} ORDER BY created_ms DESC, id DESC LIMIT ?2"
            );
            collect(db.prepare_cached(&sql)?, params![whose, limit.min(super::LISTING_ROWS_MAX)], read)
        })
        .await
    }

    /// Returns one task that the viewer may see, by its id or a unique prefix of it.
    ///
    /// # Errors
    ///
    /// The error of the disk.
    pub async fn task(&self, viewer: Viewer, name: &str) -> Result<FoundTask> {
        let name = name.to_owned();
        self.read(move |db| {
            Ok(match find(db, &viewer, &name)? {
                Named::None(near) => FoundTask::Unknown(near),
                Named::Several(ids) => FoundTask::Ambiguous(ids),
                Named::One(row) => {
                    let mut events = events(db, &row.id, 0, "DESC", EVENTS_SHOWN_MAX)?;
                    events.reverse();
                    FoundTask::Task(row, events)
                }
            })
        })
        .await
    }

    /// Returns true if the host executes a task in this session.
    ///
    /// # Errors
    ///
    /// The error of the disk.
    pub async fn task_works(&self, session: &SessionId) -> Result<bool> {
        let session = session.clone();
        self.read(move |db| is_worked_on(db, &session)).await
    }

    /// Returns the task that the host executes in this session.
    ///
    /// # Errors
    ///
    /// The error of the disk.
    pub async fn task_in(&self, session: &SessionId) -> Result<Option<TaskRow>> {
        let session = session.clone();
        self.read(move |db| worked_on(db, &session)).await
    }

    /// Returns a bounded number of subscribers with pending notifications.
    ///
    /// # Errors
    ///
    /// The error of the disk.
    pub async fn tasks_untold(&self) -> Result<Vec<Untold>> {
        self.read(untold).await
    }

    /// Queues the notification of the subscribers in one chat and moves their positions. Returns the delivery,
    /// and the event of each wake that was not stored before. Returns `None` if one of the subscribers was
    /// notified in the meantime.
    ///
    /// # Errors
    ///
    /// The error of the disk.
    pub async fn task_tell(&self, telling: Telling) -> Result<Option<(Option<DeliveryId>, Vec<Option<InboxId>>)>> {
        let nonce = self.nonce();
        self.write(move |db| {
            for (task, session, from, upto) in &telling.told {
                let moved = change(
                    db,
                    "UPDATE subscriptions SET told_upto = ?4 WHERE task = ?1 AND session_id = ?2 AND told_upto = ?3",
                    params![task, session.0, from, upto],
                )?;
                if moved != 1 {
                    return Err(Fault::conflict(format_args!(
                        "the notifications of session {session} about task {task}"
                    )));
                }
            }
            let delivery = telling.delivery.as_ref().map(|owed| outbox::insert(db, &nonce, owed, None)).transpose()?;
            let woken: Outcome<Vec<_>> = telling.wakes.iter().map(|wake| inbox::woken(db, wake)).collect();
            Ok((delivery, woken?))
        })
        .await
        .map(Some)
        .or_else(|error| match error {
            super::StoreError::Conflict { .. } => Ok(None),
            other => Err(other),
        })
    }

    /// Times out the tasks whose deadline has passed and returns them in their new state.
    ///
    /// # Errors
    ///
    /// The error of the disk.
    pub async fn tasks_time_out(&self, now_ms: i64) -> Result<Vec<TaskRow>> {
        self.write(move |db| {
            let late = db.prepare_cached(&format!(
                "SELECT {COLUMNS} FROM tasks INDEXED BY tasks_running WHERE state = 'running' AND deadline_ms <= ?1"
            ))?;
            let late = collect(late, [now_ms], read)?;
            late.iter().try_for_each(|row| step(db, row, &TaskChange::TimedOut, "", now_ms))?;
            late.iter().map(|row| known(db, &row.id)).collect()
        })
        .await
    }
}

/// The result of a lookup by id or prefix among the tasks that a viewer may see.
enum Named {
    One(Box<TaskRow>),
    None(Option<String>),
    Several(Vec<String>),
}

const COLUMNS: &str =
    "id, kind, profile, owner, session_id, key, title, body, state, epoch, attempts, said, note, worker,
    timeout_ms, deadline_ms, created_ms, changed_ms";

fn read(row: &Row<'_>) -> Outcome<TaskRow> {
    let (attempts, said): (u32, Option<String>) = (row.get(10)?, row.get(11)?);
    let words = || said.clone().unwrap_or_default();
    let state = match text(row, 8)? {
        "ready" => TaskState::Ready { attempts },
        "running" => TaskState::Running { epoch: Epoch(row.get(9)?), attempt: attempts },
        "blocked" => TaskState::Blocked { attempts, why: words() },
        "completed" => TaskState::Completed { result: words() },
        "gave_up" => TaskState::GaveUp { why: words() },
        "crashed" => TaskState::Crashed { attempts },
        "timed_out" => TaskState::TimedOut { attempts },
        "archived" => TaskState::Archived,
        other => return Err(Fault::unreadable(format_args!("state {other:?} of a task"))),
    };
    let kind = TaskKind::from_word(text(row, 1)?);
    Ok(TaskRow {
        id: row.get(0)?,
        kind: kind.ok_or_else(|| Fault::unreadable("kind of a task"))?,
        profile: row.get(2)?,
        owner: row.get(3)?,
        session: SessionId(row.get(4)?),
        key: row.get(5)?,
        title: row.get(6)?,
        body: row.get(7)?,
        state,
        said,
        note: row.get(12)?,
        worker: row.get::<_, Option<String>>(13)?.map(SessionId),
        timeout_ms: row.get(14)?,
        deadline_ms: row.get(15)?,
        created_ms: row.get(16)?,
        changed_ms: row.get(17)?,
    })
}

fn known(db: &Connection, id: &str) -> Outcome<TaskRow> {
    let one = db.prepare_cached(&format!("SELECT {COLUMNS} FROM tasks WHERE id = ?1"))?;
    first(one, [id], read)?.ok_or_else(|| Fault::missing(format_args!("task {id}")))
}

/// Returns the condition on ?1 for the rows that a viewer may see.
fn seen_by(viewer: &Viewer) -> (&'static str, &str) {
    match viewer {
        Viewer::Operator => ("?1 = ''", ""),
        Viewer::Person(owner) => ("owner = ?1", owner),
        Viewer::Conversation(key) => ("key = ?1", key),
    }
}

fn find(db: &Connection, viewer: &Viewer, name: &str) -> Outcome<Named> {
    let (which, whose) = seen_by(viewer);
    let one = db.prepare_cached(&format!("SELECT {COLUMNS} FROM tasks WHERE {which} AND id = ?2"))?;
    if let Some(row) = first(one, [whose, name], read)? {
        return Ok(Named::One(Box::new(row)));
    }
    let some = db.prepare_cached(&format!(
        "SELECT {COLUMNS} FROM tasks WHERE {which} AND ?2 <> '' AND substr(id, 1, length(?2)) = ?2 ORDER BY id LIMIT 5"
    ))?;
    let mut some = collect(some, [whose, name], read)?;
    if some.len() > 1 {
        return Ok(Named::Several(some.into_iter().map(|row| row.id).collect()));
    }
    if let Some(row) = some.pop() {
        return Ok(Named::One(Box::new(row)));
    }
    let ids = db.prepare_cached(&format!("SELECT id FROM tasks WHERE {which} ORDER BY created_ms DESC LIMIT ?2"))?;
    let ids: Vec<String> = collect(ids, params![whose, NEAR_MAX], |row| Ok(row.get(0)?))?;
    Ok(Named::None(nearest(name, ids.iter().map(String::as_str)).map(str::to_owned)))
}

/// Returns the number of open tasks of the owner, or else of the conversation.
fn open(db: &Connection, owner: Option<&str>, key: &str) -> Outcome<u32> {
    let count = "SELECT count(*) FROM tasks WHERE CASE WHEN ?1 IS NULL THEN key = ?2 ELSE owner = ?1 END
         AND state NOT IN ('completed', 'gave_up', 'archived')";
    Ok(db.prepare_cached(count)?.query_row(params![owner, key], |row| row.get(0))?)
}

/// Returns the number of tasks that the host executes, in the same way, plus the turns in `working` whose tasks
/// have already ended.
fn running(db: &Connection, owner: Option<&str>, key: &str, working: &[SessionId]) -> Outcome<u32> {
    let count = "SELECT count(*) FROM tasks INDEXED BY tasks_running WHERE state = 'running'
         AND kind IN ('run', 'background') AND CASE WHEN ?1 IS NULL THEN key = ?2 ELSE owner = ?1 END";
    let mut running = db.prepare_cached(count)?.query_row(params![owner, key], |row| row.get(0))?;
    for session in working {
        running += u32::from(!is_worked_on(db, session)?);
    }
    Ok(running)
}

/// Returns true if the host executes a task in this session.
fn is_worked_on(db: &Connection, session: &SessionId) -> Outcome<bool> {
    let one = "SELECT EXISTS (SELECT 1 FROM tasks INDEXED BY tasks_running WHERE state = 'running' AND worker = ?1
         AND kind IN ('run', 'background'))";
    Ok(db.prepare_cached(one)?.query_row([&session.0], |row| row.get(0))?)
}

fn worked_on(db: &Connection, session: &SessionId) -> Outcome<Option<TaskRow>> {
    let its = db.prepare_cached(&format!(
        "SELECT {COLUMNS} FROM tasks INDEXED BY tasks_running WHERE state = 'running' AND worker = ?1
             AND kind IN ('run', 'background')"
    ))?;
    first(its, [&session.0], read)
}

fn make(db: &Connection, new: &NewTask) -> Outcome<Made> {
    let open = open(db, new.owner.as_deref(), &new.key)?;
    if open >= OPEN_MAX {
        return Ok(Made::TooMany(open));
    }
    insert(db, new)?;
    Ok(Made::Task(Box::new(known(db, &new.id)?)))
}

fn insert(db: &Connection, new: &NewTask) -> Outcome<()> {
    let mut state = TaskState::NEW;
    if let Some((epoch, _)) = new.claim {
        let claimed = state.after(TaskChange::Claimed { epoch });
        state = claimed.map_err(Fault::conflict)?;
    }
    let timeout_ms = new.timeout_ms.unwrap_or(0);
    let deadline_ms = new.timeout_ms.filter(|_| new.claim.is_some()).map(|ms| new.now_ms.saturating_add(ms));
    let worker = new.claim.as_ref().and_then(|(_, worker)| worker.as_ref()).map(SessionId::as_str);
    let inserted = change(
        db,
        "INSERT INTO tasks (id, profile, kind, owner, session_id, key, title, body, state, epoch, attempts, worker,
             timeout_ms, deadline_ms, created_ms, changed_ms)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?15) ON CONFLICT DO NOTHING",
        params![
            new.id,
            new.profile,
            new.kind.word(),
            new.owner,
            new.session.0,
            new.key,
            new.title,
            new.body,
            state.word(),
            state.epoch().map(|epoch| epoch.0),
            state.attempts(),
            worker,
            timeout_ms,
            deadline_ms,
            new.now_ms,
        ],
    )?;
    if inserted != 1 {
        return Err(Fault::conflict(format_args!("task {}", new.id)));
    }
    happened(db, &new.id, TaskEvent::Created, "", Some(&new.key), new.now_ms)?;
    match &new.subscriber {
        Some(at) => subscribe(db, &known(db, &new.id)?, &new.session, at, true),
        None => Ok(()),
    }
}

fn subscribe(db: &Connection, task: &TaskRow, session: &SessionId, at: &Seat, wakes: bool) -> Outcome<()> {
    // A subscriber is notified of later events only.
    change(
        db,
        "INSERT INTO subscriptions (task, profile, instance, chat, sender, session_id, wakes, told_upto)
         SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, coalesce(max(id), 0) FROM task_events WHERE task = ?1
         ON CONFLICT DO UPDATE SET instance = excluded.instance, chat = excluded.chat, sender = excluded.sender",
        params![task.id, task.profile, at.instance, json(&at.chat)?, json(&at.sender)?, session.0, wakes],
    )?;
    Ok(())
}

fn happened(
    db: &Connection,
    task: &str,
    event: TaskEvent,
    body: &str,
    by_key: Option<&str>,
    now_ms: i64,
) -> Outcome<()> {
    change(
        db,
        "INSERT INTO task_events (task, at_ms, kind, body, by_key) VALUES (?1, ?2, ?3, ?4, ?5)",
        params![task, now_ms, event.word(), body, by_key],
    )?;
    if event == TaskEvent::Status {
        change(
            db,
            "DELETE FROM task_events WHERE task = ?1 AND kind = 'status' AND id NOT IN
                 (SELECT id FROM task_events WHERE task = ?1 AND kind = 'status' ORDER BY id DESC LIMIT ?2)",
            params![task, REPORTS_KEPT],
        )?;
    }
    Ok(())
}

/// The text and the author of a transition.
struct Said<'s> {
    body: &'s str,
    by_key: Option<&'s str>,
    worker: Option<&'s SessionId>,
}

/// Stores one transition and its event, if the state has not changed since it was read.
fn follow(
    db: &Connection,
    row: &TaskRow,
    how: &TaskChange,
    next: &TaskState,
    said: &Said<'_>,
    now_ms: i64,
) -> Outcome<()> {
    // A progress report renews the deadline.
    let renews = matches!(how, TaskChange::Claimed { .. } | TaskChange::Noted | TaskChange::Resumed { .. });
    let deadline_ms = match next {
        TaskState::Running { .. } if renews && row.timeout_ms > 0 => Some(now_ms.saturating_add(row.timeout_ms)),
        TaskState::Running { .. } => row.deadline_ms,
        _ => None,
    };
    let attempts = if next.is_open() { next.attempts() } else { row.state.attempts() };
    let kept = if *next == TaskState::Archived { row.said.as_deref() } else { next.said() };
    let note = matches!(how, TaskChange::Noted).then_some(said.body);
    // A new owner of a task that the host executed before works in its own turns, none of which is the task
    // itself.
    let claimer = said.worker.filter(|_| matches!(how, TaskChange::Claimed { .. })).map(SessionId::as_str);
    change_one(
        db,
        "UPDATE tasks SET state = ?2, epoch = ?3, attempts = ?4, said = ?5, note = coalesce(?6, note),
             kind = CASE WHEN ?7 IS NULL OR ?7 IS worker THEN kind ELSE 'task' END, worker = coalesce(?7, worker),
             deadline_ms = ?8, changed_ms = ?9
         WHERE id = ?1 AND state = ?10 AND epoch IS ?11",
        params![
            row.id,
            next.word(),
            next.epoch().map(|epoch| epoch.0),
            attempts,
            kept,
            note,
            claimer,
            deadline_ms,
            now_ms,
            row.state.word(),
            row.state.epoch().map(|epoch| epoch.0),
        ],
        || format!("task {}", row.id),
    )?;
    if matches!(how, TaskChange::Resumed { .. }) {
        return Ok(());
    }
    let body = if said.body.is_empty() { next.said().unwrap_or_default() } else { said.body };
    happened(db, &row.id, how.event(next), body, said.by_key, now_ms)
}

/// Applies a transition by the host itself.
fn step(db: &Connection, row: &TaskRow, how: &TaskChange, body: &str, now_ms: i64) -> Outcome<()> {
    let next = row.state.clone().after(how.clone()).map_err(Fault::conflict)?;
    follow(db, row, how, &next, &Said { body, by_key: None, worker: None }, now_ms)
}

fn events(db: &Connection, task: &str, after: i64, order: &str, limit: u32) -> Outcome<Vec<TaskEventRow>> {
    let events = db.prepare_cached(&format!(
        "SELECT id, at_ms, kind, body, by_key FROM task_events WHERE task = ?1 AND id > ?2 ORDER BY id {order} LIMIT ?3"
    ))?;
    collect(events, params![task, after, limit], |row| {
        let event = TaskEvent::from_word(text(row, 2)?);
        Ok(TaskEventRow {
            id: row.get(0)?,
            at_ms: row.get(1)?,
            event: event.ok_or_else(|| Fault::unreadable("kind of what happened to a task"))?,
            body: row.get(3)?,
            by_key: row.get(4)?,
        })
    })
}

fn untold(db: &Connection) -> Outcome<Vec<Untold>> {
    let subscribers = db.prepare_cached(
        "SELECT task, session_id, instance, chat, sender, wakes, told_upto FROM subscriptions WHERE EXISTS
             (SELECT 1 FROM task_events WHERE task_events.task = subscriptions.task AND task_events.id > told_upto
                  AND kind NOT IN ('created', 'claimed', 'archived')) LIMIT ?1",
    )?;
    let subscribers = collect(subscribers, [UNTOLD_MAX], |row| {
        let whose: (String, String) = (row.get(0)?, row.get(1)?);
        let seat = Seat { instance: row.get(2)?, chat: parsed(row, 3)?, sender: parsed(row, 4)? };
        Ok((whose, seat, row.get::<_, bool>(5)?, row.get::<_, i64>(6)?))
    })?;
    let all = subscribers.into_iter().map(|((task, session), seat, wakes, told_upto)| {
        let events = events(db, &task, told_upto, "ASC", EVENTS_TOLD_MAX)?;
        Ok(Untold { task: known(db, &task)?, session: SessionId(session), seat, wakes, told_upto, events })
    });
    all.collect()
}

/// Ends the task of an ended turn.
pub(super) fn turn_ended(db: &Connection, end: &EndTurn) -> Outcome<()> {
    let Some(task) = worked_on(db, &end.session)? else { return Ok(()) };
    let said = end.messages.iter().rev().find(|new| new.message.role == hermes_core::transcript::Role::Assistant);
    let said: String = said.map(|new| new.message.content.chars().take(SAID_CHARS_MAX).collect()).unwrap_or_default();
    let why = || end.error.clone().unwrap_or_else(|| STOPPED.to_owned());
    let how = match end.state {
        TurnEnd::Finished => TaskChange::Completed { result: said },
        TurnEnd::Interrupted => TaskChange::GaveUp { why: STOPPED.to_owned() },
        TurnEnd::Failed => TaskChange::GaveUp { why: why() },
    };
    step(db, &task, &how, "", end.now_ms)
}

/// Recovers the tasks that an earlier epoch had claimed: they continue with their turn or become `crashed`.
/// Called after the recovery of the turns.
pub(super) fn recover(db: &Connection, epoch: Epoch, now_ms: i64) -> Outcome<()> {
    let left = db.prepare_cached(&format!(
        "SELECT {COLUMNS} FROM tasks INDEXED BY tasks_running WHERE state = 'running' AND epoch <> ?1"
    ))?;
    for row in collect(left, [epoch.0], read)? {
        if row.kind == TaskKind::Run {
            end_run(db, &row, now_ms)?;
        } else if row.worker.as_ref().map(|worker| has_turn(db, worker)).transpose()? == Some(true) {
            step(db, &row, &TaskChange::Resumed { epoch }, "", now_ms)?;
            continue;
        }
        step(db, &row, &TaskChange::ClaimerDied, "", now_ms)?;
    }
    Ok(())
}

fn has_turn(db: &Connection, session: &SessionId) -> Outcome<bool> {
    let turn = "SELECT EXISTS (SELECT 1 FROM turns INDEXED BY turns_queued WHERE state = 'queued' AND session_id = ?1)";
    Ok(db.prepare_cached(turn)?.query_row([&session.0], |row| row.get(0))?)
}

/// Ends the turn of a task that the host executed in a separate session. The turn is not resumed, because its
/// progress is unknown; the creator of the task decides about another attempt.
fn end_run(db: &Connection, row: &TaskRow, now_ms: i64) -> Outcome<()> {
    let session = row.worker.as_ref().map_or("", SessionId::as_str);
    change(
        db,
        "UPDATE inbox SET state = 'dropped', why = ?2, event = NULL, input = NULL WHERE state = 'accepted'
             AND event_id = ?1",
        params![run_event(&row.id), CUT_OFF],
    )?;
    let turn = db.prepare_cached(
        "SELECT id, inbox FROM turns INDEXED BY turns_queued WHERE state = 'queued' AND session_id = ?1",
    )?;
    let Some((turn, heard)) = first(turn, [session], |row| Ok((row.get::<_, i64>(0)?, turns::split(text(row, 1)?)?)))?
    else {
        return Ok(());
    };
    let end = "UPDATE turns SET state = 'failed', ended_ms = ?2, error = 'the host died' WHERE id = ?1";
    change(db, end, params![turn, now_ms])?;
    heard.into_iter().try_for_each(|event| inbox::turn_answered(db, event))
}

/// Returns the id of the event that starts the turn of a task.
pub fn run_event(task: &str) -> String {
    format!("task:{task}")
}

/// Removes tasks that ended long ago and returns their number.
pub(super) fn sweep(db: &Connection, before_ms: i64) -> Outcome<usize> {
    let old = db.prepare_cached(
        "SELECT id FROM tasks WHERE state IN ('completed', 'gave_up', 'archived') AND changed_ms < ?1 LIMIT ?2",
    )?;
    let old: Vec<String> = collect(old, params![before_ms, SWEPT_MAX], |row| Ok(row.get(0)?))?;
    for id in &old {
        for sql in [
            "DELETE FROM subscriptions WHERE task = ?1",
            "DELETE FROM task_events WHERE task = ?1",
            "DELETE FROM tasks WHERE id = ?1",
        ] {
            change(db, sql, [id])?;
        }
    }
    Ok(old.len())
}
