//! The threads that read.
//!
//! Each has a connection that cannot write and takes the next question from one
//! bounded queue. A question sees everything that was committed before it was asked.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use rusqlite::Connection;
use tokio::sync::{mpsc, oneshot};

use super::Result;
use super::error::{Fault, StoreError};
use super::writer::Outcome;

/// Threads that read.
const READERS: usize = 2;
/// Questions that wait for a reader before their callers wait for the queue.
const READ_QUEUE_MAX: usize = 256;

type Question = Box<dyn FnOnce(&Connection) + Send>;

/// The way to the reading threads.
pub(super) struct Readers {
    queue: mpsc::Sender<Question>,
    path: PathBuf,
}

impl Readers {
    /// Starts the threads, each with a connection that `open` makes.
    pub(super) fn start(path: PathBuf, open: impl Fn() -> Result<Connection>) -> Result<Self> {
        let (queue, questions) = mpsc::channel::<Question>(READ_QUEUE_MAX);
        let questions = Arc::new(Mutex::new(questions));
        for n in 1..=READERS {
            let db = open()?;
            let questions = Arc::clone(&questions);
            let spawned =
                std::thread::Builder::new().name(format!("store-reader-{n}")).spawn(move || serve(&db, &questions));
            if let Err(error) = spawned {
                return Err(StoreError::Open { path, detail: format!("no thread to read with: {error}") });
            }
        }
        Ok(Self { queue, path })
    }

    /// Answers `question` on a reading thread.
    pub(super) async fn ask<T, Q>(&self, question: Q) -> Result<T>
    where
        T: Send + 'static,
        Q: FnOnce(&Connection) -> Outcome<T> + Send + 'static,
    {
        let (caller, answer) = oneshot::channel();
        let path = self.path.clone();
        let asked: Question = Box::new(move |db| {
            if caller.is_closed() {
                return;
            }
            // One snapshot for all statements of a question; it ends when dropped.
            let seen = db.unchecked_transaction().map_err(Fault::from).and_then(|snapshot| question(&snapshot));
            // A caller who has gone does not want to know.
            let _ = caller.send(seen.map_err(|fault| fault.explain(&path)));
        });
        self.queue.send(asked).await.map_err(|_| StoreError::Closed)?;
        answer.await.map_err(|_| StoreError::Closed)?
    }
}

fn serve(db: &Connection, questions: &Mutex<mpsc::Receiver<Question>>) {
    loop {
        // Whoever holds the lock waits for the next question; the others wait for the lock.
        let Ok(mut queue) = questions.lock() else { return };
        let Some(question) = queue.blocking_recv() else { return };
        drop(queue);
        question(db);
    }
}
