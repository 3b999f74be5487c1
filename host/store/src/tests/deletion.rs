//! Deletion of a conversation: removed and kept data.

use hermes_protocol::{Event, EventKind, OutMedia, Sender};
use serde_json::{Value, json};

use super::*;

fn file(id: &str) -> Value {
    json!({ "media": id, "kind": "file", "mime": "text/plain", "name": "x", "size": 1 })
}

async fn heard(store: &Store, id: &str) -> InboxId {
    let said = json!({ "type": "message", "event_id": id, "text": "a secret question", "chat": chat(), "sender": { "id": "7" } });
    match store.accept(NewInbox { event: said.to_string(), ..event(id) }).await.unwrap() {
        Accepted::New(id) => id,
        Accepted::Duplicate(id) => panic!("event {id} was there before"),
    }
}

/// Returns all texts of events, deliveries, parts and tool calls.
async fn said(store: &Store) -> String {
    let sql = "SELECT group_concat(said) FROM (
        SELECT COALESCE(event, '') || COALESCE(input, '') AS said FROM inbox
        UNION ALL SELECT event FROM last_edits
        UNION ALL SELECT markdown || COALESCE(choices, '') FROM outbox
        UNION ALL SELECT text || COALESCE(source, '') || COALESCE(media, '') FROM outbox_parts
        UNION ALL SELECT said || arguments || COALESCE(result, '') FROM tool_calls
        UNION ALL SELECT content FROM messages)";
    store.read(move |db| Ok(db.query_row(sql, [], |row| row.get(0))?)).await.unwrap()
}

/// Creates a session with one turn that was answered with a file and whose answer is pending.
async fn talked(store: &Store, epoch: Epoch, n: u32, inbox: InboxId) -> DeliveryId {
    let turn = running(store, epoch, n, vec![inbox]).await;
    let mut end = end_of(turn, session_id(n));
    end.deliveries = vec![delivery("a secret answer")];
    end.deliveries[0].parts[0].media = vec![OutMedia::new(format!("out{n}"), "/out", "text/plain", "x", 1)];
    let mut message = Message::user("a secret question");
    message.attachments = serde_json::from_value(json!([file("in")])).unwrap();
    end.messages = vec![NewMessage::new(message, START_MS)];
    store.end_turn(end).await.unwrap()[0]
}

async fn order(store: &Store, change: Change) {
    store.command(CommandTx { inbox: None, changes: vec![change], reply: vec![], now_ms: START_MS }).await.unwrap();
}

#[tokio::test]
async fn a_deleted_conversation_leaves_ids_and_no_text_and_names_its_files() {
    let home = Home::new();
    let (store, epoch) = home.store();
    let inbox = heard(&store, "m:1").await;
    let owed = talked(&store, epoch, 1, inbox).await;
    let other = heard(&store, "m:2").await;
    let fork = NewFork {
        from: session_id(1),
        id: session_id(2),
        source: "echo".to_owned(),
        owner: None,
        title: None,
        started_ms: START_MS,
    };
    order(&store, Change::Fork(fork)).await;

    let files = store.session_delete(&session_id(1)).await.unwrap();
    let named = |incoming: bool, id: &str| MediaFile { instance: "echo".to_owned(), incoming, id: id.to_owned() };
    assert_eq!(files, [named(false, "out1")], "the branch keeps what was received");
    let delivery = store.delivery(owed).await.unwrap().unwrap();
    assert_eq!((delivery.markdown.as_str(), delivery.parts[0].text.as_str()), ("", ""));
    assert!(store.owed(10).await.unwrap().is_empty(), "it is not sent any more");
    assert_eq!(store.counts().await.unwrap().dead, 0, "and nobody has to look at it");
    assert_eq!(inbox_word(&store, inbox).await, "answered");
    assert!(matches!(store.accept(event("m:1")).await.unwrap(), Accepted::Duplicate(id) if id == inbox));
    assert_eq!(store.history(&session_id(2), 10).await.unwrap().len(), 1, "the branch is as it was");
    assert_eq!(inbox_word(&store, other).await, "accepted", "what waits is not of this conversation");
    let files = store.session_delete(&session_id(2)).await.unwrap();
    assert_eq!(files, [named(true, "in")], "the last one that names it");
    let said = said(&store).await;
    assert_eq!(said.matches("secret").count(), 1, "only what waits: {said}");
}

#[tokio::test]
async fn what_a_compression_left_behind_goes_with_its_conversation_unless_something_else_needs_it() {
    for is_branched in [false, true] {
        let home = Home::new();
        let (store, epoch) = home.store();
        let inbox = heard(&store, "m:1").await;
        talked(&store, epoch, 1, inbox).await;
        let to = NewSession {
            parent: Some(Parent { session: session_id(1), lineage: Lineage::Compression }),
            ..new_session(2)
        };
        let branch =
            NewSession { parent: Some(Parent { session: session_id(1), lineage: Lineage::Branch }), ..new_session(3) };
        order(&store, Change::NewSession(to)).await;
        if is_branched {
            order(&store, Change::NewSession(branch)).await;
        }
        let files = store.session_delete(&session_id(2)).await.unwrap();
        assert_eq!(files.iter().any(|file| file.id == "in"), !is_branched);
        assert_eq!(store.session(&session_id(1)).await.unwrap().is_some(), is_branched);
        assert_eq!(said(&store).await.contains("secret"), is_branched);
    }
}

#[tokio::test]
async fn a_deleted_conversation_leaves_no_edits_of_its_chat() {
    let home = Home::new();
    let (store, epoch) = home.store();
    let inbox = heard(&store, "m:1").await;
    talked(&store, epoch, 1, inbox).await;
    let route = RouteRow::new("k", "main", "echo", session_id(1), chat(), START_MS);
    order(&store, Change::BindRoute(route)).await;
    for (n, chat) in [chat(), Chat::dm("another")].into_iter().enumerate() {
        let edit = Event::message(format!("e:{n}"), chat, Sender::new("7"), "a secret edit")
            .of_kind(EventKind::Edited)
            .with_message_id("1");
        let new = NewInbox { event: "{}".to_owned(), ..event(&edit.event_id) };
        store.accept_edit(new, edit).await.unwrap();
    }
    store.session_delete(&session_id(1)).await.unwrap();
    assert_eq!(said(&store).await.matches("secret").count(), 1, "only the edit in the other chat");
}
