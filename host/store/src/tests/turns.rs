//! Turns from their events to their deliveries.

use super::*;

#[tokio::test]
async fn the_same_platform_event_is_accepted_once() {
    let home = Home::new();
    let (store, _) = home.store();
    let id = accepted(&store, "m:1:1").await;
    assert_eq!(store.accept(event("m:1:1")).await, Ok(Accepted::Duplicate(id)));
    let other = NewInbox { instance: "other".to_owned(), ..event("m:1:1") };
    assert!(matches!(store.accept(other).await, Ok(Accepted::New(_))));
}

#[tokio::test]
async fn the_same_platform_event_is_a_duplicate_after_a_restart() {
    let home = Home::new();
    let (store, _) = home.store();
    let id = accepted(&store, "m:1:1").await;
    drop(store);
    let (store, _) = home.store();
    assert_eq!(store.accept(event("m:1:1")).await, Ok(Accepted::Duplicate(id)));
    store.close().await.unwrap();
    let (store, _) = home.store();
    assert_eq!(store.accept(event("m:1:1")).await, Ok(Accepted::Duplicate(id)));
}

#[tokio::test]
async fn a_turn_takes_its_events_and_answers_them() {
    let home = Home::new();
    let (store, epoch) = home.store();
    let events = vec![accepted(&store, "a").await, accepted(&store, "b").await];
    let turn = running(&store, epoch, 1, events.clone()).await;
    assert_eq!(turn_word(&store, turn).await, "running");
    assert_eq!(inbox_word(&store, events[1]).await, "turned");

    let owed = store.end_turn(end_of(turn, session_id(1))).await.unwrap();
    assert_eq!(turn_word(&store, turn).await, "finished");
    for event in events {
        assert_eq!(inbox_word(&store, event).await, "answered");
    }
    let reply = store.delivery(owed[0]).await.unwrap().expect("the reply is owed");
    assert_eq!((reply.turn, reply.state, reply.parts.len()), (Some(turn), DeliveryState::Owed, 1));
    assert_eq!(reply.parts[0].key, store.part_key(owed[0], 1));

    let history = store.history(&session_id(1), 10).await.unwrap();
    let said: Vec<&str> = history.iter().map(|row| row.message.content.as_str()).collect();
    assert_eq!(said, ["hello there", "you said hello"]);
    let session = store.session(&session_id(1)).await.unwrap().expect("the session is there");
    assert_eq!((session.messages, session.usage.input_tokens, session.usage.output_tokens), (2, 10, 20));
    assert_eq!(session.active_ms, START_MS + 1_000);
}

#[tokio::test]
async fn the_chats_in_which_turns_run_are_known() {
    let home = Home::new();
    let (store, epoch) = home.store();
    let said = NewInbox { event: r#"{"chat":{"id":"2"}}"#.to_owned(), ..event("a") };
    let Accepted::New(first) = store.accept(said).await.unwrap() else { panic!("it is new") };
    let turn = running(&store, epoch, 1, vec![first]).await;
    assert_eq!(store.chats_with_turns("echo").await.unwrap(), ["2"]);
    assert!(store.chats_with_turns("another").await.unwrap().is_empty());
    store.recover(Epoch(epoch.0 + 1), START_MS).await.unwrap();
    assert_eq!(store.chats_with_turns("echo").await.unwrap(), ["2"], "it waits to be resumed");
    store.resume_turn(turn, epoch).await.unwrap();
    store.end_turn(end_of(turn, session_id(1))).await.unwrap();
    assert!(store.chats_with_turns("echo").await.unwrap().is_empty());
}

#[tokio::test]
async fn a_turn_ends_once() {
    let home = Home::new();
    let (store, epoch) = home.store();
    let turn = running(&store, epoch, 1, vec![]).await;
    store.end_turn(end_of(turn, session_id(1))).await.unwrap();
    assert!(is_conflict(store.end_turn(end_of(turn, session_id(1))).await));
    assert_eq!(store.history(&session_id(1), 10).await.unwrap().len(), 2);
    assert_eq!(store.counts().await.unwrap().outbox, 1);
}

#[tokio::test]
async fn a_session_runs_one_turn_at_a_time() {
    let home = Home::new();
    let (store, epoch) = home.store();
    let first = running(&store, epoch, 1, vec![]).await;
    let waiting = accepted(&store, "a").await;
    let second =
        Admit { session: session_id(1), new_session: None, route: None, inbox: vec![waiting], epoch, now_ms: START_MS };
    assert!(is_conflict(store.admit(second.clone()).await));
    assert_eq!(inbox_word(&store, waiting).await, "accepted");
    store.end_turn(end_of(first, session_id(1))).await.unwrap();
    store.admit(second).await.unwrap();
}

#[tokio::test]
async fn what_steers_a_turn_is_answered_with_it_and_resumed_with_it() {
    let home = Home::new();
    let (store, epoch) = home.store();
    let turn = running(&store, epoch, 1, vec![accepted(&store, "a").await]).await;
    let steers = accepted(&store, "b").await;
    store.steer_turn(turn, vec![steers]).await.unwrap();
    assert_eq!(inbox_word(&store, steers).await, "turned");
    assert!(is_conflict(store.steer_turn(turn, vec![steers]).await), "once");
    let left = found(&store, Epoch(epoch.0 + 1)).await;
    let resumed: Vec<_> = left.cut_off[0].inbox.iter().map(|row| row.event_id.clone()).collect();
    assert_eq!((resumed.len(), left.pending.len()), (2, 0), "{resumed:?}");
    let late = accepted(&store, "c").await;
    assert!(is_conflict(store.steer_turn(turn, vec![late]).await), "it does not run any more");
    assert_eq!(inbox_word(&store, late).await, "accepted");
}

#[tokio::test]
async fn a_turn_without_its_session_or_with_a_taken_event_leaves_nothing_behind() {
    let home = Home::new();
    let (store, epoch) = home.store();
    let event = accepted(&store, "a").await;
    let admit =
        Admit { session: session_id(9), new_session: None, route: None, inbox: vec![event], epoch, now_ms: START_MS };
    assert!(matches!(store.admit(admit.clone()).await, Err(StoreError::Missing { .. })));
    store.drop_event(event, "not addressed", None).await.unwrap();
    let admit = Admit { new_session: Some(new_session(9)), ..admit };
    assert!(is_conflict(store.admit(admit).await));
    assert_eq!(store.session(&session_id(9)).await, Ok(None));
    assert_eq!(store.counts().await.unwrap().turns, 0);
}

#[tokio::test]
async fn a_failed_turn_says_why_and_keeps_the_session_usable() {
    let home = Home::new();
    let (store, epoch) = home.store();
    let turn = running(&store, epoch, 1, vec![]).await;
    let end = EndTurn {
        state: TurnEnd::Failed,
        error: Some("the model did not answer".to_owned()),
        messages: vec![],
        ..end_of(turn, session_id(1))
    };
    store.end_turn(end).await.unwrap();
    assert_eq!(word(&store, "SELECT error FROM turns WHERE id = ?1", turn.0).await, "the model did not answer");
    let next = Admit { session: session_id(1), new_session: None, route: None, inbox: vec![], epoch, now_ms: START_MS };
    store.admit(next).await.unwrap();
}

#[tokio::test]
async fn what_a_runtime_remembers_is_its_own() {
    let home = Home::new();
    let (store, epoch) = home.store();
    let turn = running(&store, epoch, 1, vec![]).await;
    let end = EndTurn {
        agent_state: Some(("openai".to_owned(), serde_json::json!({ "response": "r1" }))),
        ..end_of(turn, session_id(1))
    };
    store.end_turn(end).await.unwrap();
    let kept = store.agent_state(&session_id(1), "openai").await.unwrap();
    assert_eq!(kept, Some(serde_json::json!({ "response": "r1" })));
    assert_eq!(store.agent_state(&session_id(1), "echo").await, Ok(None));
}

#[tokio::test]
async fn a_dropped_event_keeps_its_key_and_loses_its_text() {
    let home = Home::new();
    let (store, _) = home.store();
    let id = accepted(&store, "a").await;
    let request = PairingRequestRow {
        instance: "echo".to_owned(),
        user: "7".to_owned(),
        name: "Ada".to_owned(),
        salt: "5a".to_owned(),
        hash: "f00d".to_owned(),
        made_ms: START_MS,
        reminders: 0,
    };
    let offer = PairingOffer { request: request.clone(), reply: Some(delivery("your code")) };
    let reply = store.drop_event(id, "stranger", Some(offer)).await.unwrap();
    assert!(store.delivery(reply.expect("the stranger is answered")).await.unwrap().is_some());
    assert_eq!(inbox_word(&store, id).await, "dropped");
    let text: Option<String> = store
        .read(move |db| Ok(db.query_row("SELECT event FROM inbox WHERE id = ?1", [id.0], |row| row.get(0))?))
        .await
        .unwrap();
    assert_eq!(text, None);
    assert_eq!(store.accept(event("a")).await, Ok(Accepted::Duplicate(id)));
    assert!(is_conflict(store.drop_event(id, "again", None).await));
    drop(store);
    assert_eq!(home.open().loaded.pairing, [request]);
}
