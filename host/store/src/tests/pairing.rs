//! The message that a pairing request keeps, and the end of a pairing.

use hermes_protocol::{Event, Sender};

use super::*;

fn request(hash: &str) -> PairingRequestRow {
    PairingRequestRow {
        instance: "echo".to_owned(),
        user: "7".to_owned(),
        name: String::new(),
        salt: "5a".to_owned(),
        hash: hash.to_owned(),
        made_ms: START_MS,
        reminders: 0,
    }
}

fn said(id: &str, text: &str) -> NewInbox {
    let mut event = Event::message(id, chat(), Sender::new("7"), text);
    event.raw = serde_json::json!({ "secret": "raw" });
    NewInbox { event: serde_json::to_string(&event).unwrap(), ..super::event(id) }
}

/// Offers a code for a message.
async fn offered(store: &Store, new: NewInbox, request: PairingRequestRow) {
    let Ok(Accepted::New(id)) = store.accept(new).await else { panic!("a new event") };
    store.drop_event(id, "a stranger", Some(PairingOffer { request, reply: None })).await.unwrap();
}

/// Lets the sender of a request in.
async fn approved(store: &Store, request: PairingRequestRow) {
    let grant = GrantRow {
        instance: "echo".to_owned(),
        user: "7".to_owned(),
        name: String::new(),
        granted_by: "the operator".to_owned(),
        at_ms: START_MS,
    };
    let done = Change::PairingDone { request, counted_as: "echo/approve/the operator".to_owned() };
    let changes = vec![Change::Grant(grant), done];
    store.command(CommandTx { inbox: None, changes, reply: vec![], now_ms: START_MS }).await.unwrap();
}

fn welcome(newcomer: &NewcomerRow) -> Welcome {
    let first = newcomer.first.as_ref().map(|(event_id, event)| NewInbox {
        event_id: event_id.clone(),
        event: serde_json::to_string(event).unwrap(),
        ..super::event("")
    });
    let (instance, hash) = (newcomer.instance.clone(), newcomer.hash.clone());
    Welcome { instance, hash, notice: Some(delivery("welcome")), first }
}

#[tokio::test]
async fn the_first_message_of_a_sender_waits_once_they_are_let_in_once_and_under_its_own_key() {
    let home = Home::new();
    let (store, _) = home.store();
    offered(&store, said("m:1", "hello"), request("a")).await;
    offered(&store, said("m:2", "again"), PairingRequestRow { reminders: 1, ..request("a") }).await;
    assert!(store.newcomers().await.unwrap().is_empty(), "nobody is let in yet");
    drop(store);
    let opened = home.open();
    assert_eq!(opened.loaded.pairing.len(), 1);
    approved(&opened.store, request("a")).await;
    drop(opened);
    let opened = home.open();
    assert!(opened.loaded.pairing.is_empty(), "the code is over");
    let store = opened.store;
    store.sweep(START_MS + 86_400_000).await.unwrap();
    let newcomers = store.newcomers().await.unwrap();
    let [newcomer] = newcomers.as_slice() else { panic!("{newcomers:?}") };
    let (key, first) = newcomer.first.clone().unwrap();
    assert_eq!((key.as_str(), first.text.as_str(), newcomer.wrote_again), ("m:1", "hello", true));
    assert!(first.raw.is_null());
    let (notice, first) = store.welcome(welcome(newcomer)).await.unwrap().unwrap();
    assert!(notice.is_some());
    assert_eq!(inbox_word(&store, first.unwrap()).await, "accepted");
    assert_eq!(store.welcome(welcome(newcomer)).await.unwrap(), None, "once");
    assert_eq!(store.accept(said("m:1", "hello")).await, Ok(Accepted::Duplicate(first.unwrap())));
    assert_eq!(store.counts().await.unwrap().outbox, 1);
    assert!(store.newcomers().await.unwrap().is_empty());
}

#[tokio::test]
async fn a_message_that_the_platform_repeats_after_its_key_is_forgotten_is_answered_once() {
    let home = Home::new();
    let (store, _) = home.store();
    offered(&store, said("m:1", "hello"), request("a")).await;
    approved(&store, request("a")).await;
    let newcomer = store.newcomers().await.unwrap().remove(0);
    store.write(|db| Ok(db.execute("DELETE FROM inbox WHERE event_id = 'm:1'", [])?)).await.unwrap();
    let Ok(Accepted::New(_)) = store.accept(said("m:1", "hello")).await else { panic!("a repeat is new") };
    let (_, first) = store.welcome(welcome(&newcomer)).await.unwrap().unwrap();
    assert_eq!(first, None, "the repeat is answered");
}

#[tokio::test]
async fn a_request_keeps_no_more_than_it_may_and_nothing_of_an_earlier_schema_is_needed() {
    let home = Home::new();
    let (store, _) = home.store();
    offered(&store, said("m:1", &"x".repeat(70_000)), request("a")).await;
    approved(&store, request("a")).await;
    let newcomer = store.newcomers().await.unwrap().remove(0);
    assert!(newcomer.first.is_none() && newcomer.chat == chat(), "{newcomer:?}");
    store.welcome(welcome(&newcomer)).await.unwrap().unwrap();
    let changes = vec![Change::PairingRequest(request("b"))];
    store.command(CommandTx { inbox: None, changes, reply: vec![], now_ms: START_MS }).await.unwrap();
    approved(&store, request("b")).await;
    assert!(store.newcomers().await.unwrap().is_empty(), "nobody knows where to notify them");
    let left =
        store.read(|db| Ok(db.query_row("SELECT count(*) FROM pairing_requests", [], |row| row.get::<_, i64>(0))?));
    assert_eq!(left.await, Ok(0));
}
