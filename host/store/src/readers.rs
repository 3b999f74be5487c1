//! The reader threads.
//!
//! Each thread has a read-only connection and takes the next question from one bounded queue. A question sees
//! all changes that were committed before it was asked.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use rusqlite::Connection;
use tokio::sync::{mpsc, oneshot};

use super::Result;
use super::error::{Fault, StoreError};
use super::writer::Outcome;

/// Number of reader threads.
const READERS: usize = 2;
/// Questions that may wait in the queue before their callers block.
const READ_QUEUE_MAX: usize = 256;

type Question = Box<dyn FnOnce(&Connection) + Send>;

/// The handle of the reader threads.
pub(super) struct Readers {
    queue: mpsc::Sender<Question>,
    path: PathBuf,
}

impl Readers {
    /// Starts the threads, each with a connection from `open`.
    pub(super) fn start(path: PathBuf, open: impl Fn() -> Result<Connection>) -> Result<Self> {
        let (queue, questions) = mpsc::channel::<Question>(READ_QUEUE_MAX);
        let questions = Arc::new(Mutex::new(questions));
        for n in 1..=READERS {
            let db = open()?;
            let questions = Arc::clone(&questions);
            let spawned =
                std::thread::Builder::new().name(format!("store-reader-{n}")).spawn(move || serve(&db, &questions));
            if let Err(error) = spawned {
                return Err(StoreError::Open { path, detail: format!("a reader thread cannot be started: {error}") });
            }
        }
        Ok(Self { queue, path })
    }

    /// Runs `question` on a reader thread.
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
            // All statements of a question use one snapshot, which ends on drop.
            let seen = db.unchecked_transaction().map_err(Fault::from).and_then(|snapshot| question(&snapshot));
            // A caller that has been dropped needs no answer.
            let _ = caller.send(seen.map_err(|fault| fault.explain(&path)));
        });
        self.queue.send(asked).await.map_err(|_| StoreError::Closed)?;
        answer.await.map_err(|_| StoreError::Closed)?
    }
}

fn serve(db: &Connection, questions: &Mutex<mpsc::Receiver<Question>>) {
    loop {
        // The thread with the lock waits for the next question; the others wait for the lock.
        let Ok(mut queue) = questions.lock() else { return };
        let Some(question) = queue.blocking_recv() else { return };
        drop(queue);
        question(db);
    }
}
