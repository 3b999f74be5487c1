//! Recovery after the death of a host.

use super::super::recovery::BATCH_ROWS_MAX;
use super::*;

#[tokio::test]
async fn each_life_is_an_epoch_of_its_own_and_knows_how_the_last_one_ended() {
    let home = Home::new();
    let first = home.open();
    assert!(!first.unclean);
    drop(first.store);
    let second = home.open();
    assert!(second.unclean);
    second.store.close().await.unwrap();
    let third = home.open();
    assert!(!third.unclean);
    assert_eq!((first.epoch.0 + 1, second.epoch.0 + 1), (second.epoch.0, third.epoch.0));
}

#[tokio::test]
async fn an_accepted_event_is_found_again_after_a_crash() {
    let home = Home::new();
    let (store, _) = home.store();
    let ids = [accepted(&store, "a").await, accepted(&store, "b").await];
    drop(store);
    let (store, epoch) = home.store();
    let pending = found(&store, epoch).await.pending;
    assert_eq!(pending.iter().map(|row| row.id).collect::<Vec<_>>(), ids);
    assert_eq!(pending[0].event, event("a").event);
}

#[tokio::test]
async fn a_turn_that_a_crash_cut_off_waits_to_be_resumed() {
    let home = Home::new();
    let (store, epoch) = home.store();
    let event = accepted(&store, "a").await;
    let turn = running(&store, epoch, 1, vec![event]).await;
    drop(store);

    let (store, epoch) = home.store();
    let recovery = found(&store, epoch).await;
    assert!(recovery.pending.is_empty());
    let [cut_off] = recovery.cut_off.as_slice() else { panic!("one turn was cut off: {:?}", recovery.cut_off) };
    assert_eq!((cut_off.turn, &cut_off.session, cut_off.attempts), (turn, &session_id(1), 1));
    assert_eq!(cut_off.inbox[0].id, event);
    assert!(!cut_off.inbox[0].event.is_empty());
    assert_eq!(store.resume_turn(turn, epoch).await, Ok(2));
    assert!(is_conflict(store.resume_turn(turn, epoch).await));
    drop(store);

    let (store, epoch) = home.store();
    let again = found(&store, epoch).await.cut_off;
    assert_eq!((again[0].turn, again[0].attempts), (turn, 2));
    let failed = EndTurn { state: TurnEnd::Failed, messages: vec![], ..end_of(turn, session_id(1)) };
    store.end_turn(failed).await.unwrap();
    assert_eq!(inbox_word(&store, event).await, "answered");
    assert!(found(&store, epoch).await.cut_off.is_empty());
}

#[tokio::test]
async fn a_turn_that_waits_to_be_resumed_cannot_finish() {
    let home = Home::new();
    let (store, epoch) = home.store();
    let turn = running(&store, epoch, 1, vec![]).await;
    drop(store);
    let (store, epoch) = home.store();
    store.recover(epoch, START_MS).await.unwrap();
    assert!(is_conflict(store.end_turn(end_of(turn, session_id(1))).await));
    assert_eq!(turn_word(&store, turn).await, "queued");
}

#[tokio::test]
async fn a_part_in_flight_at_the_crash_is_doubtful_and_the_others_are_owed() {
    let home = Home::new();
    let (store, epoch) = home.store();
    let id = store.owe(in_parts(3)).await.unwrap();
    store.claim(id, 1, epoch, 1).await.unwrap();
    store.settle(Settle::new(id, 1, delivered(), tried(1), START_MS)).await.unwrap();
    store.claim(id, 2, epoch, 1).await.unwrap();
    drop(store);

    let (store, epoch) = home.store();
    let owed = found(&store, epoch).await.deliveries;
    let states: Vec<&str> = owed[0].parts.iter().map(|part| part.state.word()).collect();
    assert_eq!(states, ["delivered", "unknown", "owed"]);
    assert_eq!(owed[0].parts[1].facts.attempts, 1);
    store.claim(id, 2, epoch, 2).await.unwrap();
}

#[tokio::test]
async fn the_notice_about_an_abandoned_part_is_owed_after_a_crash() {
    let home = Home::new();
    let (store, epoch) = home.store();
    let id = store.owe(delivery("hello")).await.unwrap();
    store.claim(id, 1, epoch, 1).await.unwrap();
    let notice = NewDelivery { purpose: Purpose::Notice, ..delivery("a message may be missing") };
    let given_up = PartState::Abandoned { why: "doubtful twice".to_owned() };
    let effects = vec![Effect::Report(Box::new(notice))];
    let settle = Settle { effects, ..Settle::new(id, 1, given_up, tried(2), START_MS) };
    let report = store.settle(settle.clone()).await.unwrap().report.unwrap();
    assert!(is_conflict(store.settle(settle).await), "a part is given up once");
    drop(store);

    let (store, epoch) = home.store();
    let owed = found(&store, epoch).await.deliveries;
    let [owed] = owed.as_slice() else { panic!("one notice is owed: {owed:?}") };
    assert_eq!((owed.id, owed.markdown.as_str()), (report, "a message may be missing"));
}

#[tokio::test]
async fn what_this_life_has_claimed_is_not_taken_from_it() {
    let home = Home::new();
    let (store, epoch) = home.store();
    let turn = running(&store, epoch, 1, vec![]).await;
    let id = store.owe(delivery("hello")).await.unwrap();
    store.claim(id, 1, epoch, 1).await.unwrap();
    let recovery = found(&store, epoch).await;
    assert!(recovery.cut_off.is_empty());
    assert_eq!(recovery.deliveries[0].parts[0].state, PartState::InFlight { epoch, attempt: 1 });
    assert_eq!(turn_word(&store, turn).await, "running");
}

#[tokio::test]
async fn a_closed_store_says_so() {
    let home = Home::new();
    let (store, _) = home.store();
    store.close().await.unwrap();
    assert_eq!(store.accept(event("a")).await, Err(StoreError::Closed));
    assert_eq!(store.close().await, Err(StoreError::Closed));
}

#[tokio::test]
async fn a_wait_of_an_earlier_life_ends_soon_even_when_the_clock_was_set_back_meanwhile() {
    let home = Home::new();
    let (store, epoch) = home.store();
    let id = store.owe(delivery("hello")).await.unwrap();
    store.claim(id, 1, epoch, 1).await.unwrap();
    let facts = PartFacts { attempts: 1, ..PartFacts::default() };
    let put_off = Settle::new(id, 1, PartState::Owed, facts, START_MS);
    store.settle(Settle { not_before_ms: START_MS + 3_600_000, ..put_off }).await.unwrap();
    drop(store);
    let (store, epoch) = home.store();
    store.recover(epoch, START_MS).await.unwrap();
    let part = store.delivery(id).await.unwrap().unwrap().parts[0].clone();
    assert!((START_MS..=START_MS + 30_000).contains(&part.not_before_ms), "{}", part.not_before_ms);
}

#[tokio::test]
async fn however_much_was_left_it_is_read_in_bounded_batches_and_each_once() {
    let home = Home::new();
    let (store, _) = home.store();
    let many = i64::from(BATCH_ROWS_MAX) * 2 + 7;
    store
        .write(move |db| {
            for n in 0..many {
                db.execute(
                    "INSERT INTO inbox (instance, event_id, at_ms, received_ms, event, state)
                     VALUES ('echo', ?1, 0, 0, '{}', 'accepted')",
                    [n],
                )?;
            }
            Ok(())
        })
        .await
        .unwrap();
    drop(store);
    let (store, epoch) = home.store();
    let left = store.recover(epoch, START_MS).await.unwrap();
    // The event of this run is not part of the recovered work.
    let own = accepted(&store, "new").await;
    let (mut sizes, mut ids) = (Vec::new(), Vec::new());
    loop {
        let batch = store.left_events(&left, ids.last().copied().unwrap_or_default()).await.unwrap();
        let Some(last) = batch.last() else { break };
        assert!(last.id < own);
        sizes.push(batch.len());
        ids.extend(batch.iter().map(|row| row.id));
    }
    assert_eq!(sizes, [256, 256, 7]);
    assert!(ids.is_sorted() && ids.windows(2).all(|pair| pair[0] != pair[1]));
}
