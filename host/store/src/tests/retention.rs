//! Removal of expired rows.

use hermes_protocol::{Event, EventKind, Sender};

use super::*;

const DAY_MS: i64 = 86_400_000;

async fn rows(store: &Store, table: &'static str) -> i64 {
    store
        .read(move |db| Ok(db.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0))?))
        .await
        .expect("the table is there")
}

#[tokio::test]
async fn old_rows_go_and_young_and_live_ones_stay() {
    let home = Home::new();
    let (store, epoch) = home.store();
    let answered = accepted(&store, "answered").await;
    let turn = running(&store, epoch, 1, vec![answered]).await;
    let owed = store.end_turn(end_of(turn, session_id(1))).await.unwrap()[0];
    store.claim(owed, 1, epoch, 1).await.unwrap();
    store.settle(Settle::new(owed, 1, delivered(), tried(1), START_MS)).await.unwrap();
    let waiting = accepted(&store, "waiting").await;
    store.owe(delivery("still owed")).await.unwrap();
    running(&store, epoch, 2, vec![]).await;
    accepted(&store, "newest").await;

    let early = store.sweep(START_MS + 29 * DAY_MS).await.unwrap();
    assert_eq!((early.inbox, early.turns, early.deliveries), (0, 0, 0));
    let swept = store.sweep(START_MS + 31 * DAY_MS).await.unwrap();
    assert_eq!((swept.inbox, swept.turns, swept.deliveries, swept.more), (1, 1, 1, false));
    assert_eq!((rows(&store, "inbox").await, rows(&store, "turns").await), (2, 1));
    assert_eq!((rows(&store, "outbox").await, rows(&store, "outbox_parts").await), (1, 1));
    assert_eq!(inbox_word(&store, waiting).await, "accepted");
    assert_eq!(store.history(&session_id(1), 10).await.unwrap().len(), 2, "a transcript is kept");
}

#[tokio::test]
async fn what_the_configuration_keeps_is_what_is_kept() {
    let home = Home::new();
    let (store, _) = home.store();
    store.set_keep(Keep { settled_ms: DAY_MS, stray_events_max: 2, ..Keep::default() });
    for event in ["a", "b", "c", "d"] {
        let stray = accepted(&store, event).await;
        store.drop_event(stray, "a stranger", None).await.unwrap();
    }
    assert_eq!(store.sweep(START_MS).await.unwrap().inbox, 2, "two of a stranger's four events are beyond the bound");
    assert_eq!(store.sweep(START_MS + 2 * DAY_MS).await.unwrap().inbox, 1, "the newest row keeps the ids growing");
}

#[tokio::test]
async fn an_id_is_never_given_twice() {
    let home = Home::new();
    let (store, _) = home.store();
    let last = accepted(&store, "a").await;
    store.drop_event(last, "not addressed", None).await.unwrap();
    store.sweep(START_MS + 99 * DAY_MS).await.unwrap();
    assert!(accepted(&store, "b").await > last);
}

#[tokio::test]
async fn one_sweep_is_bounded_and_says_that_there_is_more() {
    let home = Home::new();
    let (store, _) = home.store();
    store
        .write(|db| {
            db.execute(
                "INSERT INTO inbox (instance, event_id, at_ms, received_ms, state)
                 WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2501)
                 SELECT 'echo', 'm:' || i, ?1, ?1, 'answered' FROM n",
                [START_MS],
            )?;
            Ok(())
        })
        .await
        .unwrap();
    let mut removed = Vec::new();
    loop {
        let swept = store.sweep(START_MS + 31 * DAY_MS).await.unwrap();
        removed.push(swept.inbox);
        if !swept.more {
            break;
        }
    }
    assert_eq!(removed, [1_000, 1_000, 500]);
}

#[tokio::test]
async fn strangers_cannot_fill_the_inbox() {
    let home = Home::new();
    let (store, _) = home.store();
    let dropped_by_a_command = accepted(&store, "reset").await;
    let drop = Change::DropInbox { ids: vec![dropped_by_a_command], why: "reset".to_owned() };
    store.command(CommandTx { inbox: None, changes: vec![drop], reply: vec![], now_ms: START_MS }).await.unwrap();
    for n in 0..1_300 {
        let id = accepted(&store, &format!("m:{n}")).await;
        store.drop_event(id, "stranger", None).await.unwrap();
        assert!(n < 1_200 || n % 100 != 0 || rows(&store, "inbox").await <= 1_000 + 64 + 1);
    }
    store.sweep(START_MS).await.unwrap();
    assert_eq!(rows(&store, "inbox").await, 1_001);
    assert_eq!(store.accept(event("reset")).await, Ok(Accepted::Duplicate(dropped_by_a_command)));
    assert!(matches!(store.accept(event("m:1299")).await, Ok(Accepted::Duplicate(_))));
}

#[tokio::test]
async fn codes_that_no_longer_work_are_forgotten() {
    let home = Home::new();
    let (store, _) = home.store();
    let request = PairingRequestRow {
        instance: "echo".to_owned(),
        user: "7".to_owned(),
        name: String::new(),
        salt: String::new(),
        hash: "f00d".to_owned(),
        made_ms: START_MS,
        reminders: 0,
    };
    let changes = vec![Change::PairingRequest(request)];
    store.command(CommandTx { inbox: None, changes, reply: vec![], now_ms: START_MS }).await.unwrap();
    assert_eq!(store.sweep(START_MS + 3_599_000).await.unwrap().pairing, 0);
    assert_eq!(store.sweep(START_MS + 3_601_000).await.unwrap().pairing, 1);
}

#[tokio::test]
async fn a_sweep_makes_new_messages_searchable() {
    let home = Home::new();
    let (store, epoch) = home.store();
    let turn = running(&store, epoch, 1, vec![]).await;
    store.end_turn(end_of(turn, session_id(1))).await.unwrap();
    assert_eq!(store.sweep(START_MS).await.unwrap().indexed, 2);
    assert_eq!(store.sweep(START_MS).await.unwrap().indexed, 0);
}

fn edit_of(message: &str, text: &str, received_ms: i64) -> (NewInbox, Event) {
    let edit = Event::message(format!("e:{message}"), chat(), Sender::new("7"), text)
        .of_kind(EventKind::Edited)
        .with_message_id(message);
    let json = serde_json::to_string(&edit).unwrap();
    (NewInbox { received_ms, event: json, ..event(&edit.event_id) }, edit)
}

/// Accepts a message and returns its text.
async fn accepted_text(store: &Store, message: &str) -> String {
    let said = Event::message(message, chat(), Sender::new("7"), "as sent").with_message_id(message);
    let new = NewInbox { event: serde_json::to_string(&said).unwrap(), ..event(message) };
    let (accepted, changed) = store.accept_message(new, message.to_owned()).await.unwrap();
    assert!(matches!(accepted, Accepted::New(_)));
    changed.map_or(said.text, |event| event.text)
}

#[tokio::test]
async fn an_edit_waits_ten_minutes_for_its_message_and_at_most_256_of_an_instance_wait() {
    let home = Home::new();
    let (store, _) = home.store();
    for n in 0..300_i64 {
        let (new, edit) = edit_of(&n.to_string(), "as edited", START_MS + n);
        store.accept_edit(new, edit).await.unwrap();
    }
    assert_eq!(rows(&store, "last_edits").await, 256);
    assert_eq!(accepted_text(&store, "43").await, "as sent");
    assert_eq!(accepted_text(&store, "44").await, "as edited");
    store.sweep(START_MS + 600_100).await.unwrap();
    assert_eq!(accepted_text(&store, "99").await, "as sent");
    assert_eq!(accepted_text(&store, "100").await, "as edited");
    store.sweep(START_MS + 601_000).await.unwrap();
    assert_eq!(rows(&store, "last_edits").await, 0);
}
