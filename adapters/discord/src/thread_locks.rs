//! Locks for opening threads.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// Locks for opening threads, one per name, so that two requests open one thread, and a slow one does not delay the
/// others.
#[derive(Debug, Default)]
pub(crate) struct ThreadLocks(Mutex<BTreeMap<String, Weak<tokio::sync::Mutex<()>>>>);

impl ThreadLocks {
    /// Returns the lock for opening a thread with this name.
    pub(crate) fn lock_for(&self, name: &str) -> Arc<tokio::sync::Mutex<()>> {
        let mut locks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        locks.retain(|_, lock| lock.strong_count() > 0);
        if let Some(lock) = locks.get(name).and_then(Weak::upgrade) {
            return lock;
        }
        let lock = Arc::default();
        locks.insert(name.to_owned(), Arc::downgrade(&lock));
        lock
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn turns_of_one_name_follow_each_other_and_others_do_not_wait() {
        let locks = ThreadLocks::default();
        let one = locks.lock_for("1");
        let held = one.lock().await;
        assert!(locks.lock_for("1").try_lock().is_err() && locks.lock_for("2").try_lock().is_ok());
        drop(held);
        assert!(locks.lock_for("1").try_lock().is_ok());
        drop(one);
        locks.lock_for("3");
        assert_eq!(locks.0.lock().unwrap().len(), 1, "who is done is forgotten");
    }
}
