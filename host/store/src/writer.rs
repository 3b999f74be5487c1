//! The writer thread.
//!
//! Requests wait in a bounded queue. The thread takes one request, together with all requests that were queued
//! during the last commit, into one transaction. Each request runs in a separate savepoint, so that a failed
//! one rolls back only its own changes; a request of one statement needs no savepoint, because a failed
//! statement changes nothing. After the commit, with its single fsync, each caller gets its answer. If the
//! commit fails, each caller gets the error, and the thread continues with the next group.
//!
//! A queued request is executed even if its caller has been dropped.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rusqlite::Connection;
use tokio::sync::{mpsc, oneshot};

use super::error::{Fault, StoreError};
use super::place::Place;
use super::trouble::Trouble;
use super::{Result, WriterStats};

/// Requests that may wait for the writer before their callers block.
pub(super) const WRITE_QUEUE_MAX: usize = 1_024;
/// Requests of one commit, which limits the wait of each.
const GROUP_REQUESTS_MAX: usize = 512;

/// Result of work within a transaction.
pub(super) type Outcome<T> = std::result::Result<T, Fault>;

enum Message {
    /// Joins the next group.
    Grouped(Box<dyn Job>),
    /// Joins the next group with a single statement, which changes nothing if it fails.
    GroupedSingle(Box<dyn Job>),
    /// Runs between two groups, outside of a transaction.
    Alone(Box<dyn Job>),
    /// Runs as the last request; the connection is closed afterwards.
    Last(Box<dyn Job>),
}

/// A request and its caller.
trait Job: Send {
    /// Executes the work and keeps the outcome. Returns true if it succeeded.
    fn run(&mut self, db: &Connection) -> bool;
    /// Returns the error of SQLite, if the work failed because of one.
    fn failure(&self, at: &Path) -> Option<StoreError>;
    /// Sends the outcome or the commit error to the caller.
    fn answer(self: Box<Self>, committed: Result<(), &StoreError>, at: &Path);
}

struct Request<T, W> {
    work: Option<W>,
    outcome: Option<Outcome<T>>,
    caller: oneshot::Sender<Result<T>>,
}

impl<T, W> Job for Request<T, W>
where
    T: Send,
    W: FnOnce(&Connection) -> Outcome<T> + Send,
{
    fn run(&mut self, db: &Connection) -> bool {
        let work = self.work.take().expect("a request runs once");
        self.outcome.insert(work(db)).is_ok()
    }

    fn failure(&self, at: &Path) -> Option<StoreError> {
        match &self.outcome {
            Some(Err(Fault::Sql(error))) => Some(StoreError::of_sqlite(error, at)),
            _ => None,
        }
    }

    fn answer(self: Box<Self>, committed: Result<(), &StoreError>, at: &Path) {
        let answer = match (self.outcome, committed) {
            // A request that failed by itself reports its own error, regardless of the commit.
            (Some(Err(fault)), _) => Err(fault.explain(at)),
            (_, Err(error)) => Err(error.clone()),
            (Some(Ok(value)), Ok(())) => Ok(value),
            (None, Ok(())) => Err(StoreError::Closed),
        };
        // A caller that has been dropped needs no answer.
        let _ = self.caller.send(answer);
    }
}

#[derive(Default)]
struct Counters {
    requests: AtomicU64,
    commits: AtomicU64,
    failures: AtomicU64,
    trouble: Trouble,
}

/// The handle of the writer thread.
pub(super) struct Writer {
    queue: mpsc::Sender<Message>,
    counters: Arc<Counters>,
    place: Arc<Place>,
    /// The database file.
    pub(super) path: PathBuf,
}

impl Writer {
    /// Starts the thread, which owns `db`.
    pub(super) fn start(db: Connection, path: PathBuf) -> std::io::Result<Self> {
        let (queue, requests) = mpsc::channel(WRITE_QUEUE_MAX);
        let counters = Arc::new(Counters::default());
        let place = Arc::new(Place::of(&path));
        let desk =
            Desk { db, path: path.clone(), requests, counters: Arc::clone(&counters), place: Arc::clone(&place) };
        std::thread::Builder::new().name("store-writer".to_owned()).spawn(move || desk.serve())?;
        Ok(Self { queue, counters, place, path })
    }

    /// Runs `work` in the next group and returns after the commit.
    pub(super) async fn grouped<T, W>(&self, work: W) -> Result<T>
    where
        T: Send + 'static,
        W: FnOnce(&Connection) -> Outcome<T> + Send + 'static,
    {
        self.send(work, Message::Grouped).await
    }

    /// Runs `work` like [`grouped`](Self::grouped). The work may change data with at most one statement; it
    /// needs no savepoint, because a failed statement changes nothing.
    pub(super) async fn grouped_single<T, W>(&self, work: W) -> Result<T>
    where
        T: Send + 'static,
        W: FnOnce(&Connection) -> Outcome<T> + Send + 'static,
    {
        self.send(work, Message::GroupedSingle).await
    }

    /// Runs `work` outside of a transaction.
    pub(super) async fn alone<T, W>(&self, work: W) -> Result<T>
    where
        T: Send + 'static,
        W: FnOnce(&Connection) -> Outcome<T> + Send + 'static,
    {
        self.send(work, Message::Alone).await
    }

    /// Runs `work` as the last request and ends the thread.
    pub(super) async fn last<T, W>(&self, work: W) -> Result<T>
    where
        T: Send + 'static,
        W: FnOnce(&Connection) -> Outcome<T> + Send + 'static,
    {
        self.send(work, Message::Last).await
    }

    async fn send<T, W>(&self, work: W, message: fn(Box<dyn Job>) -> Message) -> Result<T>
    where
        T: Send + 'static,
        W: FnOnce(&Connection) -> Outcome<T> + Send + 'static,
    {
        let (caller, answer) = oneshot::channel();
        let request = Request { work: Some(work), outcome: None, caller };
        self.queue.send(message(Box::new(request))).await.map_err(|_| StoreError::Closed)?;
        answer.await.map_err(|_| StoreError::Closed)?
    }

    pub(super) fn stats(&self) -> WriterStats {
        WriterStats {
            requests: self.counters.requests.load(Ordering::Relaxed),
            commits: self.counters.commits.load(Ordering::Relaxed),
            failures: self.counters.failures.load(Ordering::Relaxed),
        }
    }

    /// Checks that the files of the database are in their place.
    pub(super) fn check_place(&self) -> Result<()> {
        self.place.check()
    }

    /// Records a failure that was found outside of a commit.
    pub(super) fn failed(&self, error: &StoreError) {
        self.counters.failures.fetch_add(1, Ordering::Relaxed);
        self.counters.trouble.failed(error);
    }

    /// Returns the last error of the disk, unless a write has succeeded since.
    pub(super) fn trouble(&self) -> Option<StoreError> {
        self.counters.trouble.now()
    }
}

/// The state of the writer thread.
struct Desk {
    db: Connection,
    path: PathBuf,
    requests: mpsc::Receiver<Message>,
    counters: Arc<Counters>,
    place: Arc<Place>,
}

impl Desk {
    fn serve(mut self) {
        let mut next = self.requests.blocking_recv();
        while let Some(message) = next.take() {
            match message {
                Message::Grouped(first) => next = self.group(first, false),
                Message::GroupedSingle(first) => next = self.group(first, true),
                Message::Alone(job) => self.alone(job),
                Message::Last(job) => {
                    // Later callers get the error that the store is closed.
                    self.requests.close();
                    self.alone(job);
                    return;
                }
            }
            if next.is_none() {
                next = self.requests.blocking_recv();
            }
        }
    }

    fn alone(&self, mut job: Box<dyn Job>) {
        job.run(&self.db);
        self.counters.requests.fetch_add(1, Ordering::Relaxed);
        job.answer(Ok(()), &self.path);
    }

    /// Runs one group that begins with `first`. Returns a message that cannot be part of it.
    fn group(&mut self, first: Box<dyn Job>, single: bool) -> Option<Message> {
        let mut done: Vec<Box<dyn Job>> = Vec::new();
        let mut left_over = None;
        let mut next = Some((first, single));
        let (before, failures) = (self.db.total_changes(), self.counters.failures.load(Ordering::Relaxed));
        let mut broken = self.statement("BEGIN IMMEDIATE").err();
        while let Some((mut job, single)) = next.take() {
            if broken.is_none() {
                broken = if single { self.alone_in_group(&mut job) } else { self.guarded(&mut job) }.err();
            }
            done.push(job);
            // A broken group takes no further requests.
            if broken.is_some() || done.len() == GROUP_REQUESTS_MAX {
                break;
            }
            match self.requests.try_recv() {
                Ok(Message::Grouped(job)) => next = Some((job, false)),
                Ok(Message::GroupedSingle(job)) => next = Some((job, true)),
                Ok(other) => left_over = Some(other),
                Err(_) => {}
            }
        }
        let committed = match broken {
            None => self.place.check().and_then(|()| self.statement("COMMIT")),
            Some(error) => Err(error),
        };
        match &committed {
            Ok(()) => {
                self.counters.commits.fetch_add(1, Ordering::Relaxed);
                let unharmed = self.counters.failures.load(Ordering::Relaxed) == failures;
                if unharmed && self.db.total_changes() > before {
                    self.counters.trouble.worked();
                }
            }
            Err(error) => self.give_up(error, done.len()),
        }
        self.counters.requests.fetch_add(done.len() as u64, Ordering::Relaxed);
        for job in done {
            job.answer(committed.as_ref().copied(), &self.path);
        }
        left_over
    }

    fn give_up(&self, error: &StoreError, requests: usize) {
        tracing::error!(%error, requests, "store: a commit failed");
        self.failed(error);
        // SQLite may have rolled back by itself.
        let rolled_back = if self.db.is_autocommit() { Ok(()) } else { self.statement("ROLLBACK") };
        if let Err(error) = rolled_back {
            tracing::error!(%error, "store: a failed transaction could not be rolled back");
        }
    }

    /// Records a failure caused by the disk.
    fn failed(&self, error: &StoreError) {
        if error.is_of_the_disk() {
            self.counters.failures.fetch_add(1, Ordering::Relaxed);
            self.counters.trouble.failed(error);
        }
    }

    /// Runs one request of a single statement. An error means that the whole group is lost.
    fn alone_in_group(&self, job: &mut Box<dyn Job>) -> Result<()> {
        if job.run(&self.db) {
            return Ok(());
        }
        if let Some(error) = job.failure(&self.path) {
            self.failed(&error);
        }
        if self.db.is_autocommit() { Err(self.given_up()) } else { Ok(()) }
    }

    /// Returns the error for a transaction that SQLite abandoned because of a full or failing disk.
    fn given_up(&self) -> StoreError {
        StoreError::Disk {
            path: self.path.clone(),
            detail: "another request of the same transaction failed".to_owned(),
        }
    }

    /// Runs one request in its savepoint. An error means that the whole group is lost.
    fn guarded(&self, job: &mut Box<dyn Job>) -> Result<()> {
        self.statement("SAVEPOINT request")?;
        if job.run(&self.db) {
            return self.statement("RELEASE request");
        }
        if let Some(error) = job.failure(&self.path) {
            self.failed(&error);
        }
        if self.db.is_autocommit() {
            return Err(self.given_up());
        }
        self.statement("ROLLBACK TO request")?;
        self.statement("RELEASE request")
    }

    fn statement(&self, sql: &str) -> Result<()> {
        let run = || self.db.prepare_cached(sql)?.execute([]).map(|_| ());
        run().map_err(|error: rusqlite::Error| Fault::from(error).explain(&self.path))
    }
}
