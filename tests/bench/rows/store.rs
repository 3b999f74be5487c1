//! The store alone, and the disk below it.

use std::{
    fs,
    io::Write,
    os::unix::fs::FileExt,
    sync::Arc,
    time::{Duration, Instant},
};

use hermes_agent::{Message, Role};
use hermes_core::clock::Clock;
use hermes_core::ids::SessionId;
use hermes_store::{Admit, EndTurn, NewMessage, NewSession, Store, TurnEnd};
use hermes_system::clock::SystemClock;

use super::{median, mib, ms, percentile, progress};
use crate::Measured;

/// Measures the disk below the database.
pub fn disk() -> Vec<Measured> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = fs::File::create(folder.path().join("fsync")).expect("the folder is ours");
    let started = Instant::now();
    let mut count = 0_u64;
    while started.elapsed() < Duration::from_secs(1) {
        file.write_all_at(&[1; 4096], count % 256 * 4096).expect("the disk has room");
        file.sync_data().expect("the disk syncs");
        count += 1;
    }
    let mut plain = fs::File::create(folder.path().join("write")).expect("the folder is ours");
    let started = Instant::now();
    let block = vec![1; 1 << 20];
    for _ in 0..64 {
        plain.write_all(&block).expect("the disk has room");
    }
    plain.sync_all().expect("the disk syncs");
    let rate = 64.0 / started.elapsed().as_secs_f64();
    vec![
        Measured::new("4 KiB write and fdatasync", format!("{count}/s"), None),
        Measured::new("sequential write with one sync", format!("{rate:.0} MiB/s"), None),
    ]
}

/// Measures a large database: a million messages in ten thousand sessions.
pub fn million() -> Vec<Measured> {
    const SESSIONS: u64 = 10_000;
    const MESSAGES_EACH: u64 = 100;
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("state.db");
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let opened = Store::open(&path, Arc::clone(&clock)).expect("a new store");
    let (store, epoch) = (opened.store, opened.epoch);
    let words =
        ["river", "mountain", "compiler", "deploy", "garden", "invoice", "orbit", "violin", "harbour", "lantern"];
    runtime.block_on(async {
        for session in 0..SESSIONS {
            let id = SessionId(format!("20260101_000000_{session:08x}"));
            let turn = store
                .admit(Admit {
                    session: id.clone(),
                    new_session: Some(new_session(&id)),
                    route: None,
                    inbox: Vec::new(),
                    epoch,
                    now_ms: 1,
                })
                .await
                .expect("the turn is admitted");
            let messages = (0..MESSAGES_EACH).map(|n| {
                let text = format!(
                    "message {n} of session {session} about the {} and the {}",
                    words[(n % 10) as usize],
                    words[(session % 10) as usize]
                );
                NewMessage::new(Message::new(if n % 2 == 0 { Role::User } else { Role::Assistant }, text), 1)
            });
            store
                .end_turn(EndTurn {
                    turn,
                    state: TurnEnd::Finished,
                    error: None,
                    session: id,
                    messages: messages.collect(),
                    deliveries: Vec::new(),
                    usage: Default::default(),
                    agent_state: None,
                    observed: None,
                    now_ms: 1,
                })
                .await
                .expect("the turn ends");
            if session % 1_000 == 999 {
                progress(format_args!("{} of {SESSIONS} sessions written", session + 1));
            }
        }
        progress("the first search brings the index up to date");
        store.search("river", 1).await.expect("the search runs");
        progress("searching");
    });
    let mut opens = Vec::new();
    let mut searches = Vec::new();
    runtime.block_on(async {
        for n in 0..200_u64 {
            let id = SessionId(format!("20260101_000000_{:08x}", n * 49));
            let started = Instant::now();
            let history = store.history(&id, 100).await.expect("the history loads");
            opens.push(ms(started.elapsed()));
            assert_eq!(history.len(), 100);
            let started = Instant::now();
            let hits = store
                .search(&format!("session {} {}", n * 49, words[(n % 10) as usize]), 20)
                .await
                .expect("the search runs");
            searches.push(ms(started.elapsed()));
            assert!(!hits.is_empty());
        }
        store.close().await.expect("the store closes");
    });
    drop(store);
    let mut starts = Vec::new();
    for _ in 0..5 {
        let started = Instant::now();
        let opened = Store::open(&path, Arc::clone(&clock)).expect("the store opens");
        starts.push(ms(started.elapsed()));
        runtime.block_on(opened.store.close()).expect("the store closes");
    }
    let (open, search, start) = (percentile(&mut opens, 99), percentile(&mut searches, 99), median(starts));
    let size = mib(fs::metadata(&path).map_or(0, |file| file.len()) / 1024);
    vec![
        Measured::new(format!("open a session, p99 ({size:.0} MB database)"), format!("{open:.2} ms"), open <= 5.0),
        Measured::new("search, p99", format!("{search:.1} ms"), search <= 50.0),
        Measured::new("open the store", format!("{start:.1} ms"), start <= 100.0),
    ]
}

fn new_session(id: &SessionId) -> NewSession {
    NewSession {
        id: id.clone(),
        profile: "main".into(),
        source: "bench".into(),
        owner: None,
        settings: Default::default(),
        parent: None,
        title: None,
        started_ms: 1,
    }
}
