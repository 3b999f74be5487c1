//! Group commits, and the effect of one request on the others of its group.

use super::super::error::Fault;
use super::*;

#[tokio::test]
async fn many_callers_share_few_commits() {
    let home = Home::new();
    let (store, _) = home.store();
    let mut callers = tokio::task::JoinSet::new();
    for n in 0..400 {
        let store = store.clone();
        callers.spawn(async move { accepted(&store, &format!("m:{n}")).await });
    }
    let ids: std::collections::BTreeSet<_> = callers.join_all().await.into_iter().collect();
    assert_eq!(ids.len(), 400);
    let stats = store.stats();
    assert_eq!(stats.requests, 400);
    assert!(stats.commits <= 100, "{} commits for 400 requests", stats.commits);
}

/// Blocks the writer until the returned value is dropped, so that all requests queued in the meantime become
/// one group.
async fn hold(store: &Store) -> std::sync::mpsc::Sender<()> {
    let (release, held) = std::sync::mpsc::channel();
    let (reached, at) = tokio::sync::oneshot::channel();
    let store = store.clone();
    tokio::spawn(async move {
        store
            .write(move |_| {
                reached.send(()).expect("the test waits");
                // The call returns an error when the test drops its end, which is the signal.
                let _ = held.recv();
                Ok(())
            })
            .await
    });
    at.await.expect("the writer has begun");
    release
}

#[tokio::test]
async fn a_failing_request_takes_back_its_own_changes_and_nothing_else() {
    let home = Home::new();
    let (store, _) = home.store();
    let before = store.stats().commits;
    let held = hold(&store).await;
    let fine = async |key: &str| store.kv_set("a", key, "1").await;
    let failing = store.write(|db| {
        db.execute("INSERT INTO kv VALUES ('a', 'half', '1')", [])?;
        Err::<(), _>(Fault::conflict("this"))
    });
    let broken = store.write(|db| Ok(db.execute("INSERT INTO nowhere VALUES (1)", [])?));
    let release = async { drop(held) };
    let (first, failing, broken, last, ()) = tokio::join!(fine("one"), failing, broken, fine("two"), release);
    assert_eq!((first, last), (Ok(()), Ok(())));
    assert_eq!(failing, Err(StoreError::Conflict { what: "this".to_owned() }));
    assert!(matches!(broken, Err(StoreError::Internal { .. })));
    assert_eq!(store.stats().commits, before + 1, "it was one group");
    assert_eq!(store.kv_get("a", "half").await, Ok(None));
    assert_eq!(store.kv_get("a", "one").await.unwrap().as_deref(), Some("1"));
    assert_eq!(store.kv_get("a", "two").await.unwrap().as_deref(), Some("1"));
}

#[tokio::test]
async fn when_the_commit_fails_all_of_the_group_learn_it_and_the_writer_goes_on() {
    let home = Home::new();
    let (store, _) = home.store();
    store.inner.writer.alone(|db| Ok(db.pragma_update(None, "foreign_keys", true)?)).await.unwrap();
    // A deferred constraint is checked by COMMIT, which is also where a full disk is noticed.
    let poison = store.write(|db| {
        db.execute_batch(
            "CREATE TEMP TABLE parent (id INTEGER PRIMARY KEY);
             CREATE TEMP TABLE child (parent REFERENCES parent (id) DEFERRABLE INITIALLY DEFERRED);",
        )?;
        Ok(db.execute("INSERT INTO child VALUES (7)", [])?)
    });
    let held = hold(&store).await;
    let neighbour = store.kv_set("a", "one", "1");
    let release = async { drop(held) };
    let (neighbour, poison, ()) = tokio::join!(neighbour, poison, release);
    assert!(matches!(poison, Err(StoreError::Internal { .. })), "{poison:?}");
    assert_eq!(neighbour.err(), poison.err());
    assert_eq!(store.kv_get("a", "one").await, Ok(None));
    store.kv_set("a", "two", "2").await.unwrap();
    assert_eq!(store.kv_get("a", "two").await.unwrap().as_deref(), Some("2"));
}

#[tokio::test]
async fn a_full_disk_is_said_and_the_writer_goes_on_when_there_is_room() {
    let home = Home::new();
    let (store, _) = home.store();
    let small = accepted(&store, "before").await;
    store.bound_pages(2).await;
    let large = NewInbox { event: "x".repeat(100_000), ..event("large") };
    let full = store.accept(large.clone()).await;
    assert_eq!(full, Err(StoreError::DiskFull { path: home.path() }));
    assert!(full.unwrap_err().to_string().contains("free some space"));
    assert_eq!(store.accept(event("before")).await, Ok(Accepted::Duplicate(small)));
    store.bound_pages(1_000).await;
    assert!(matches!(store.accept(large).await, Ok(Accepted::New(_))));
}

#[tokio::test]
async fn trouble_is_told_while_the_disk_is_full_and_ends_by_itself() {
    let home = Home::new();
    let (store, _) = home.store();
    assert_eq!(store.trouble().await, None);
    store.bound_pages(2).await;
    let large = NewInbox { event: "x".repeat(100_000), ..event("large") };
    store.accept(large).await.unwrap_err();
    let failures = store.stats().failures;
    assert!(failures > 0);
    // There is room for a few bytes, which is not enough for the probe.
    assert_eq!(store.trouble().await, Some(StoreError::DiskFull { path: home.path() }));
    assert!(store.stats().failures > failures, "the disk was asked again");
    store.bound_pages(1_000).await;
    assert_eq!(store.trouble().await, None);
    // An invalid statement is not a fault of the disk.
    store.write(|db| Ok(db.execute("INSERT INTO nowhere VALUES (1)", [])?)).await.unwrap_err();
    assert_eq!(store.trouble().await, None);
}

#[tokio::test]
async fn a_full_disk_does_not_hurt_a_neighbour_that_fits() {
    let home = Home::new();
    let (store, _) = home.store();
    store.bound_pages(2).await;
    let held = hold(&store).await;
    let large = NewInbox { event: "x".repeat(100_000), ..event("large") };
    let release = async { drop(held) };
    let (full, fits, ()) = tokio::join!(store.accept(large), store.accept(event("small")), release);
    assert_eq!(full, Err(StoreError::DiskFull { path: home.path() }));
    assert!(matches!(fits, Ok(Accepted::New(_))), "{fits:?}");
}

#[tokio::test]
async fn a_request_is_carried_out_though_its_caller_has_gone() {
    let home = Home::new();
    let (store, _) = home.store();
    let held = hold(&store).await;
    {
        let write = store.kv_set("a", "one", "1");
        tokio::pin!(write);
        // One poll queues the request; then the caller is dropped.
        assert!(futures_poll(write.as_mut()).await.is_none());
    }
    drop(held);
    store.kv_set("a", "two", "2").await.unwrap();
    assert_eq!(store.kv_get("a", "one").await.unwrap().as_deref(), Some("1"));
}

/// Polls a future once.
async fn futures_poll<T>(mut future: std::pin::Pin<&mut impl Future<Output = T>>) -> Option<T> {
    std::future::poll_fn(|cx| {
        std::task::Poll::Ready(match future.as_mut().poll(cx) {
            std::task::Poll::Ready(value) => Some(value),
            std::task::Poll::Pending => None,
        })
    })
    .await
}

#[tokio::test]
async fn a_reader_cannot_write() {
    let home = Home::new();
    let (store, _) = home.store();
    let written = store.read(|db| Ok(db.execute("DELETE FROM kv", [])?)).await;
    assert!(written.is_err());
}

#[tokio::test]
async fn requests_are_carried_out_in_the_order_in_which_they_were_made() {
    let home = Home::new();
    let (store, epoch) = home.store();
    let id = store.owe(delivery("hello")).await.unwrap();
    let claim = store.claim(id, 1, epoch, 1);
    let settle = store.settle(Settle::new(id, 1, delivered(), tried(1), START_MS));
    let (claimed, settled) = tokio::join!(claim, settle);
    claimed.unwrap();
    assert!(settled.unwrap().over);
}
