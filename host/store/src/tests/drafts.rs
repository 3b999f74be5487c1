//! Growing messages and their ends.

use super::*;

/// Returns a growing message of a turn with its first piece.
fn growing(turn: TurnId) -> NewDelivery {
    NewDelivery { turn: Some(turn), parts: vec![NewPart::plain(0, "half")], ..delivery("half") }
}

/// Creates a running turn and sends the first piece of its answer.
async fn shown(store: &Store, epoch: Epoch) -> (TurnId, DeliveryId) {
    let turn = begun(store, epoch).await;
    let id = store.draft(growing(turn)).await.unwrap();
    store.claim(id, 0, epoch, 1).await.unwrap();
    store.settle(Settle::new(id, 0, delivered(), tried(1), START_MS)).await.unwrap();
    (turn, id)
}

async fn begun(store: &Store, epoch: Epoch) -> TurnId {
    let event = accepted(store, "a").await;
    running(store, epoch, 1, vec![event]).await
}

#[tokio::test]
async fn a_growing_message_becomes_what_the_turn_says_at_last() {
    let home = Home::new();
    let (store, epoch) = home.store();
    let (turn, id) = shown(&store, epoch).await;
    let row = store.delivery(id).await.unwrap().unwrap();
    assert_eq!((row.state, row.draft_message.as_deref()), (DeliveryState::Drafting, Some("m1")));
    let last = NewDelivery { draft: Some(id), ..in_parts(2) };
    let ids = store.end_turn(EndTurn { deliveries: vec![last], ..end_of(turn, session_id(1)) }).await.unwrap();
    assert_eq!(ids, [id], "the same row");
    let row = store.delivery(id).await.unwrap().unwrap();
    assert_eq!((row.state, row.markdown.as_str(), row.parts.len()), (DeliveryState::Owed, "long", 3));
    for n in [1, 2] {
        store.claim(id, n, epoch, 1).await.unwrap();
        let settled = store.settle(Settle::new(id, n, delivered(), tried(1), START_MS)).await.unwrap();
        assert_eq!(settled.over, n == 2, "the first piece does not count");
    }
}

#[tokio::test]
async fn a_turn_that_ends_without_a_word_for_its_message_leaves_it_interrupted() {
    let home = Home::new();
    let (store, epoch) = home.store();
    let (turn, id) = shown(&store, epoch).await;
    let ids = store.end_turn(EndTurn { deliveries: vec![], ..end_of(turn, session_id(1)) }).await.unwrap();
    assert_eq!(ids, [id]);
    let row = store.delivery(id).await.unwrap().unwrap();
    assert_eq!((row.state, row.parts[1].text.as_str()), (DeliveryState::Owed, "half\n\n(interrupted)"));
}

#[tokio::test]
async fn a_first_piece_that_was_never_tried_goes_with_its_message() {
    let home = Home::new();
    let (store, epoch) = home.store();
    let turn = begun(&store, epoch).await;
    let id = store.draft(growing(turn)).await.unwrap();
    let ids = store.end_turn(EndTurn { deliveries: vec![], ..end_of(turn, session_id(1)) }).await.unwrap();
    assert!(ids.is_empty(), "nobody saw anything");
    assert_eq!(store.delivery(id).await.unwrap().unwrap().state, DeliveryState::Settled);
}

#[tokio::test]
async fn a_message_that_was_given_up_takes_no_final_text_which_is_sent_instead() {
    let home = Home::new();
    let (store, epoch) = home.store();
    let (turn, id) = shown(&store, epoch).await;
    store.outbox_drop(id, "a test").await.unwrap();
    let last = NewDelivery { draft: Some(id), ..delivery("all") };
    let ids = store.end_turn(EndTurn { deliveries: vec![last], ..end_of(turn, session_id(1)) }).await.unwrap();
    assert_ne!(ids, [id]);
    assert_eq!(store.delivery(ids[0]).await.unwrap().unwrap().draft_message, None);
}

#[tokio::test]
async fn after_a_crash_a_message_waits_for_its_turn_and_any_other_ends() {
    let home = Home::new();
    let (store, epoch) = home.store();
    let (turn, id) = shown(&store, epoch).await;
    let notice = NewDelivery { purpose: Purpose::Notice, ..growing(turn) };
    let progress = store.draft(notice).await.unwrap();
    let orphan = store.draft(NewDelivery { turn: None, ..growing(turn) }).await.unwrap();
    store.claim(orphan, 0, epoch, 1).await.unwrap();
    let left = store.recover(Epoch(epoch.0 + 1), START_MS).await.unwrap();
    let owed = store.left_deliveries(&left, DeliveryId(0)).await.unwrap();
    assert_eq!(left.drafts, [id]);
    assert_eq!(owed.iter().map(|owed| owed.id).collect::<Vec<_>>(), [orphan]);
    assert_eq!(owed[0].markdown, "half\n\n(interrupted)");
    assert_eq!(store.delivery(progress).await.unwrap().unwrap().state, DeliveryState::Settled);
    assert_eq!(store.drafts_of(turn).await.unwrap()[0].id, id);
}
