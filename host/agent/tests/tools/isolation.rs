//! A thousand concurrent turns of different people, none of which sees data of another one.

use std::sync::Arc;

use serde_json::json;
use tokio::sync::Semaphore;

use crate::{Bench, context};

/// Number of turns.
const TURNS: usize = 1_000;

/// One of this many turns starts descendants of every kind.
const WITH_DESCENDANTS: usize = 5;

/// Commands that run in parallel.
const AT_ONCE: usize = 16;

#[tokio::test(flavor = "multi_thread", worker_threads = 8)]
async fn a_thousand_interleaved_turns_see_no_foreign_value() {
    let bench = Arc::new(Bench::new());
    let room = Arc::new(Semaphore::new(AT_ONCE));
    let turns = (0..TURNS).map(|n| {
        let (bench, room) = (Arc::clone(&bench), Arc::clone(&room));
        tokio::spawn(async move {
            let user = format!("user-{n}");
            let context = context(&user, n % 2 == 0);
            let _room = room.acquire_owned().await.unwrap();
            tokio::task::yield_now().await;
            // A child, a grandchild, an orphan, and a process in a separate session.
            let descendants = "echo $HERMES_SESSION_USER_ID; sh -c 'echo $HERMES_SESSION_USER_ID; (echo $HERMES_SESSION_KEY &)'; \
                           setsid -w sh -c 'echo $HERMES_SESSION_ID'; echo ${HERMES_CRON_AUTO_DELIVER_CHAT_ID-none}";
            let alone = "echo $HERMES_SESSION_USER_ID; echo $HERMES_SESSION_USER_ID; echo $HERMES_SESSION_KEY; \
                         echo $HERMES_SESSION_ID; echo ${HERMES_CRON_AUTO_DELIVER_CHAT_ID-none}";
            let command = if n % WITH_DESCENDANTS == 0 { descendants } else { alone };
            let inner = Arc::clone(&bench);
            let (spawned, handed) = (context.clone(), context);
            // A task that the turn spawns gets its context explicitly and inherits none.
            let beside = tokio::spawn(async move {
                inner.terminal(&spawned, json!({"command": "echo $HERMES_SESSION_USER_ID"})).await
            });
            let ran = bench.terminal(&handed, json!({"command": command})).await;
            (user, ran, beside.await.unwrap())
        })
    });
    for turn in turns.collect::<Vec<_>>() {
        let (user, ran, beside) = turn.await.unwrap();
        let mut lines: Vec<&str> = ran["output"].as_str().unwrap().lines().collect();
        lines.sort_unstable();
        let key = format!("agent:main:chat:dm:{user}");
        let mut expected = vec![user.as_str(), user.as_str(), key.as_str(), "none"];
        let session = format!("s-{user}");
        expected.push(&session);
        expected.sort_unstable();
        assert_eq!(lines, expected, "{ran}");
        assert_eq!(beside["output"], format!("{user}\n"));
    }
}
