//! Deliveries end with a receipt, a refusal or a visible abandonment.

use hermes_core::delivery::PartChange;
use hermes_core::ids::DeliveryId;
use hermes_protocol::RefusalKind;

use super::*;

async fn part(store: &Store, id: DeliveryId, n: usize) -> OwedPart {
    store.delivery(id).await.unwrap().expect("the delivery is there").parts.swap_remove(n - 1)
}

async fn state(store: &Store, id: DeliveryId) -> (DeliveryState, Option<String>) {
    let delivery = store.delivery(id).await.unwrap().expect("the delivery is there");
    (delivery.state, delivery.why)
}

#[tokio::test]
async fn a_part_is_claimed_before_it_is_sent_and_by_one_attempt_only() {
    let home = Home::new();
    let (store, epoch) = home.store();
    let id = store.owe(delivery("hello")).await.unwrap();
    store.claim(id, 1, epoch, 1).await.unwrap();
    assert_eq!(part(&store, id, 1).await.state, PartState::InFlight { epoch, attempt: 1 });
    assert!(is_conflict(store.claim(id, 1, epoch, 2).await));
}

#[tokio::test]
async fn a_delivery_is_settled_with_its_last_part() {
    let home = Home::new();
    let (store, epoch) = home.store();
    let id = store.owe(in_parts(2)).await.unwrap();
    for n in 1..=2 {
        store.claim(id, n, epoch, 1).await.unwrap();
        let settled = store.settle(Settle::new(id, n, delivered(), tried(1), START_MS)).await.unwrap();
        assert_eq!(settled.over, n == 2);
    }
    assert_eq!(state(&store, id).await, (DeliveryState::Settled, None));
    assert!(store.owed(10).await.unwrap().is_empty());
    assert!(is_conflict(store.settle(Settle::new(id, 1, delivered(), tried(2), START_MS)).await));
}

#[tokio::test]
async fn the_store_takes_exactly_the_arrows_that_the_core_draws() {
    let home = Home::new();
    let (store, epoch) = home.store();
    let kind = RefusalKind::Invalid;
    let all = [
        PartState::Owed,
        PartState::InFlight { epoch, attempt: 1 },
        delivered(),
        PartState::Refused { kind, detail: "no".to_owned() },
        PartState::Unknown { detail: "cut".to_owned() },
        PartState::Deferred,
        PartState::Abandoned { why: "late".to_owned() },
    ];
    for from in &all {
        for to in all.iter().filter(|to| !matches!(to, PartState::InFlight { .. })) {
            let id = store.owe(delivery("hello")).await.unwrap();
            if *from != PartState::Owed {
                store.claim(id, 1, epoch, 1).await.unwrap();
            }
            if !matches!(from, PartState::Owed | PartState::InFlight { .. }) {
                store.settle(Settle::new(id, 1, from.clone(), tried(1), START_MS)).await.unwrap();
            }
            let drawn = from.clone().after(PartChange::Settle(to.clone())).is_ok();
            let taken = store.settle(Settle::new(id, 1, to.clone(), tried(1), START_MS)).await;
            assert_eq!(drawn, taken.is_ok(), "{from:?} -> {to:?}");
            let now = part(&store, id, 1).await.state;
            assert_eq!(now, if drawn { to.clone() } else { from.clone() });
        }
        let id = store.owe(delivery("hello")).await.unwrap();
        if *from != PartState::Owed {
            store.claim(id, 1, epoch, 1).await.unwrap();
        }
        if !matches!(from, PartState::Owed | PartState::InFlight { .. }) {
            store.settle(Settle::new(id, 1, from.clone(), tried(1), START_MS)).await.unwrap();
        }
        let claim = PartChange::Claim { epoch, attempt: 2 };
        assert_eq!(from.clone().after(claim).is_ok(), store.claim(id, 1, epoch, 2).await.is_ok(), "claim {from:?}");
    }
}

#[tokio::test]
async fn what_was_tried_stays_with_the_part() {
    let home = Home::new();
    let (store, epoch) = home.store();
    let id = store.owe(delivery("hello")).await.unwrap();
    store.claim(id, 1, epoch, 1).await.unwrap();
    let facts = PartFacts { attempts: 1, doubts: 1, plain: true, ..PartFacts::default() };
    let settle =
        Settle { not_before_ms: START_MS + 5_000, ..Settle::new(id, 1, PartState::Owed, facts.clone(), START_MS) };
    let settle = Settle { detail: Some("the network is down".to_owned()), ..settle };
    store.settle(settle).await.unwrap();
    drop(store);
    let (store, _) = home.store();
    let part = part(&store, id, 1).await;
    assert_eq!((part.facts, part.not_before_ms), (facts, START_MS + 5_000));
    assert_eq!(part.detail.as_deref(), Some("the network is down"));
    store.outbox_drop(id, "seen").await.unwrap();
    let dropped = PartState::Abandoned { why: "seen; last: the network is down".to_owned() };
    assert_eq!(self::part(&store, id, 1).await.state, dropped);
}

#[tokio::test]
async fn an_abandoned_part_makes_its_delivery_a_dead_letter_and_a_retry_owes_it_anew() {
    let home = Home::new();
    let (store, epoch) = home.store();
    let id = store.owe(in_parts(2)).await.unwrap();
    store.claim(id, 1, epoch, 1).await.unwrap();
    store.settle(Settle::new(id, 1, delivered(), tried(1), START_MS)).await.unwrap();
    let late = PartState::Abandoned { why: "deadline passed".to_owned() };
    store.settle(Settle::new(id, 2, late, tried(4), START_MS)).await.unwrap();
    assert_eq!(state(&store, id).await, (DeliveryState::Abandoned, Some("deadline passed".to_owned())));
    assert_eq!(store.counts().await.unwrap().dead, 1);
    let dead = DeliveryFilter { dead: true, ..DeliveryFilter::default() };
    assert_eq!(store.deliveries(dead.clone()).await.unwrap()[0].id, id);

    home.clock.0.store(START_MS + 200_000_000, Ordering::Relaxed);
    let again = store.outbox_retry(id).await.unwrap();
    assert_eq!(again.state, DeliveryState::Owed);
    assert_eq!(again.parts[0].state, delivered());
    assert_eq!((&again.parts[1].state, again.parts[1].facts.attempts), (&PartState::Owed, 0));
    assert_eq!(again.deadline_ms, START_MS + 200_000_000 + 86_400_000);
    assert!(store.deliveries(dead).await.unwrap().is_empty());
    store.claim(id, 2, epoch, 1).await.unwrap();
    assert!(store.settle(Settle::new(id, 2, delivered(), tried(1), START_MS)).await.unwrap().over);
    assert!(is_conflict(store.outbox_retry(id).await));
}

#[tokio::test]
async fn a_refused_part_is_listed_until_it_is_dismissed() {
    let home = Home::new();
    let (store, epoch) = home.store();
    let id = store.owe(delivery("hello")).await.unwrap();
    store.claim(id, 1, epoch, 1).await.unwrap();
    let refused = PartState::Refused { kind: RefusalKind::Forbidden, detail: "bot was blocked".to_owned() };
    store.settle(Settle::new(id, 1, refused.clone(), tried(1), START_MS)).await.unwrap();
    let why = "refused (forbidden): bot was blocked".to_owned();
    assert_eq!(state(&store, id).await, (DeliveryState::Settled, Some(why)));
    assert_eq!(part(&store, id, 1).await.state, refused);
    store.outbox_drop(id, "seen").await.unwrap();
    assert_eq!(store.counts().await.unwrap().dead, 0);
}

#[tokio::test]
async fn a_dropped_delivery_is_not_sent_any_more() {
    let home = Home::new();
    let (store, epoch) = home.store();
    let id = store.owe(in_parts(3)).await.unwrap();
    store.claim(id, 1, epoch, 1).await.unwrap();
    store.settle(Settle::new(id, 1, delivered(), tried(1), START_MS)).await.unwrap();
    store.outbox_drop(id, "dropped by the operator").await.unwrap();
    assert_eq!(state(&store, id).await.0, DeliveryState::Abandoned);
    assert!(is_conflict(store.claim(id, 2, epoch, 1).await));
    assert_eq!(part(&store, id, 1).await.state, delivered());
    assert!(matches!(store.outbox_drop(DeliveryId(99), "x").await, Err(StoreError::Missing { .. })));
}

#[tokio::test]
async fn what_is_left_of_a_delivery_is_split_again() {
    let home = Home::new();
    let (store, epoch) = home.store();
    let id = store.owe(in_parts(2)).await.unwrap();
    store.claim(id, 1, epoch, 1).await.unwrap();
    store.settle(Settle::new(id, 1, delivered(), tried(1), START_MS)).await.unwrap();
    store.claim(id, 2, epoch, 1).await.unwrap();
    let parts = vec![NewPart::plain(2, "smaller"), NewPart::plain(3, "pieces")];
    let split = Settle { parts: Some(parts), ..Settle::new(id, 2, PartState::Owed, tried(1), START_MS) };
    store.settle(split).await.unwrap();
    let texts: Vec<String> =
        store.delivery(id).await.unwrap().unwrap().parts.into_iter().map(|part| part.text).collect();
    assert_eq!(texts, ["part 1", "smaller", "pieces"]);
    for n in 2..=3 {
        store.claim(id, n, epoch, 2).await.unwrap();
        let settled = store.settle(Settle::new(id, n, delivered(), tried(2), START_MS)).await.unwrap();
        assert_eq!(settled.over, n == 3);
    }
    let late = Settle { parts: Some(vec![NewPart::plain(1, "x")]), ..Settle::new(id, 1, PartState::Owed, tried(1), 0) };
    assert!(is_conflict(store.settle(late).await));
}

#[tokio::test]
async fn a_chat_that_moved_takes_everything_owed_to_it_along() {
    let home = Home::new();
    let (store, epoch) = home.store();
    let (from, to) = (chat(), Chat::dm("456"));
    let here = store.owe(delivery("one")).await.unwrap();
    let behind = store.owe(NewDelivery { chat: from.clone().in_thread("9"), ..delivery("two") }).await.unwrap();
    let elsewhere = store.owe(NewDelivery { chat: Chat::dm("789"), ..delivery("three") }).await.unwrap();
    running(&store, epoch, 1, vec![]).await;
    let old = RouteRow::new("old", "main", "echo", session_id(1), from.clone(), START_MS);
    let new = RouteRow::new("new", "main", "echo", session_id(1), to.clone(), START_MS);
    let bind = CommandTx { inbox: None, changes: vec![Change::BindRoute(old)], reply: vec![], now_ms: START_MS };
    store.command(bind).await.unwrap();
    let moved = Effect::Migrated {
        instance: "echo".to_owned(),
        from,
        to: to.clone(),
        routes: vec![("old".to_owned(), new.clone())],
    };
    store.claim(here, 1, epoch, 1).await.unwrap();
    let settle = Settle { effects: vec![moved], ..Settle::new(here, 1, PartState::Owed, tried(1), START_MS) };
    store.settle(settle).await.unwrap();
    let target = async |id| store.delivery(id).await.unwrap().unwrap().chat;
    assert_eq!(target(here).await, to);
    assert_eq!(target(behind).await, to.clone().in_thread("9"));
    assert_eq!(target(elsewhere).await, Chat::dm("789"));
    drop(store);
    assert_eq!(home.open().loaded.routes, [new]);
}

#[tokio::test]
async fn a_dead_target_is_remembered_until_it_speaks_again() {
    let home = Home::new();
    let (store, epoch) = home.store();
    let id = store.owe(NewDelivery { chat: chat().in_thread("9"), ..delivery("one") }).await.unwrap();
    store.claim(id, 1, epoch, 1).await.unwrap();
    let dead =
        DeadTargetRow { instance: "echo".to_owned(), chat: chat(), why: "forbidden".to_owned(), since_ms: START_MS };
    let thread = DeadTargetRow { chat: chat().in_thread("9"), ..dead.clone() };
    let effects = vec![Effect::DeadTarget(dead.clone()), Effect::DeadTarget(thread.clone()), Effect::ThreadGone];
    let settle = Settle { effects, ..Settle::new(id, 1, PartState::Owed, tried(1), START_MS) };
    store.settle(settle).await.unwrap();
    assert_eq!(store.delivery(id).await.unwrap().unwrap().chat, chat());
    drop(store);
    let opened = home.open();
    assert_eq!(opened.loaded.dead_targets, [dead, thread]);
    // A message in one thread makes all threads of the chat reachable again.
    let revive = Change::Revive { instance: "echo".to_owned(), chat: chat() };
    let revive = CommandTx { inbox: None, changes: vec![revive], reply: vec![], now_ms: START_MS };
    opened.store.command(revive).await.unwrap();
    drop(opened);
    assert!(home.open().loaded.dead_targets.is_empty());
}

#[tokio::test]
async fn a_delivery_without_parts_is_refused() {
    let home = Home::new();
    let (store, _) = home.store();
    assert!(matches!(store.owe(in_parts(0)).await, Err(StoreError::Internal { .. })));
}
