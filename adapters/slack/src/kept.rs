//! Deliveries that are acknowledged and not with the host yet, as one list in the host's store.

use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::{Value, json};

/// How much is kept; a value of the host's store has at most 64 KiB.
const BYTES_MAX: usize = 60 * 1024;

/// A delivery, and the change that it names.
pub type Entry = (String, Value);

/// The list, and who writes it.
#[derive(Debug, Default)]
pub struct Kept {
    list: Mutex<Vec<Entry>>,
    /// Held from making a text until it is stored: of two texts the older one would else be stored last, and what
    /// only the newer one names would be lost although it is acknowledged.
    writing: tokio::sync::Mutex<()>,
}

impl Kept {
    fn list(&self) -> MutexGuard<'_, Vec<Entry>> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins with what the store holds.
    pub fn begin(&self, entries: Vec<Entry>) {
        *self.list() = entries;
    }

    /// Whether this change is kept.
    pub fn holds(&self, key: &str) -> bool {
        self.list().iter().any(|(known, _)| known == key)
    }

    /// Keeps a delivery; `false` when there is no room. What cannot be stored is not kept.
    pub async fn add<E, F: Future<Output = Result<(), E>>>(
        &self,
        key: &str,
        payload: Value,
        store: impl FnOnce(String) -> F,
    ) -> Result<bool, E> {
        let _writing = self.writing.lock().await;
        let text = {
            let mut list = self.list();
            list.push((key.to_owned(), payload));
            let text = json!(*list).to_string();
            if text.len() > BYTES_MAX {
                list.pop();
                return Ok(false);
            }
            text
        };
        let stored = store(text).await;
        if stored.is_err() {
            self.list().retain(|(known, _)| known != key);
        }
        stored.map(|()| true)
    }

    /// Keeps it no longer.
    pub async fn remove<E, F: Future<Output = Result<(), E>>>(
        &self,
        key: &str,
        store: impl FnOnce(String) -> F,
    ) -> Result<(), E> {
        let _writing = self.writing.lock().await;
        let text = {
            let mut list = self.list();
            let before = list.len();
            list.retain(|(known, _)| known != key);
            (list.len() < before).then(|| json!(*list).to_string())
        };
        match text {
            Some(text) => store(text).await,
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use futures_util::FutureExt;
    use tokio::sync::oneshot;

    use super::*;

    #[tokio::test]
    async fn what_is_stored_last_names_everything_that_is_kept() {
        let (kept, stored) = (Kept::default(), Mutex::new(Vec::new()));
        let write = |text: String| stored.lock().unwrap().push(text);
        let (go, wait) = oneshot::channel::<()>();
        let slow = |text: String| async move {
            wait.await.unwrap();
            write(text);
            Ok::<_, ()>(())
        };
        let quick = |text: String| async move {
            write(text);
            Ok::<_, ()>(())
        };
        let mut one = pin!(kept.add("a", json!(1), slow));
        let mut two = pin!(kept.add("b", json!(2), quick));
        assert!((&mut one).now_or_never().is_none());
        assert!((&mut two).now_or_never().is_none(), "it waits for the one before");
        go.send(()).unwrap();
        assert_eq!((one.await, two.await), (Ok(true), Ok(true)));
        assert_eq!(*stored.lock().unwrap(), [r#"[["a",1]]"#, r#"[["a",1],["b",2]]"#]);
        kept.remove("a", quick).await.unwrap();
        assert_eq!(stored.lock().unwrap().last().unwrap(), r#"[["b",2]]"#);
    }

    #[tokio::test]
    async fn what_has_no_room_or_cannot_be_stored_is_not_kept() {
        let kept = Kept::default();
        let good = |_| async { Ok::<_, ()>(()) };
        assert_eq!(kept.add("a", json!("x".repeat(BYTES_MAX)), good).await, Ok(false));
        assert_eq!(kept.add("b", json!(1), |_| async { Err(()) }).await, Err(()));
        assert!(!kept.holds("a") && !kept.holds("b"));
    }
}
