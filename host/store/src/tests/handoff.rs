//! Handoffs in the store: transitions and recovery.

use hermes_core::handoff::{HandoffChange, HandoffState, INTERRUPTED_TWICE, NOT_TAKEN_UP};
use hermes_protocol::ChatType;

use super::*;

const NOW: i64 = START_MS;

async fn asked(store: &Store) -> SessionId {
    let new = new_session(1);
    let id = new.id.clone();
    let order = CommandTx { inbox: None, changes: vec![Change::NewSession(new)], reply: Vec::new(), now_ms: NOW };
    store.command(order).await.unwrap();
    assert!(matches!(store.handoff_request(&id, "echo", NOW).await.unwrap(), HandoffAsked::Made { .. }));
    id
}

async fn bound(store: &Store, id: &SessionId, epoch: Epoch) -> InboxId {
    let claim = store.handoff_claim(id, epoch, NOW).await.unwrap().unwrap().claim();
    let chat = Chat::new(ChatType::Group, "g").in_thread("1");
    store.handoff_thread(id, claim, epoch, chat.clone()).await.unwrap();
    let bind = HandoffBind {
        session: id.clone(),
        claim,
        epoch,
        event: NewInbox {
            instance: "echo".to_owned(),
            event_id: format!("handoff:{epoch}"),
            at_ms: NOW,
            received_ms: NOW,
            event: "{}".to_owned(),
        },
        input: vec![Message::user("opening")],
        route: RouteRow::new("bound", "main", "echo", id.clone(), chat, NOW),
        routes: HandoffRoutes { bound: "bound".to_owned(), before: Vec::new() },
        former: None,
        freed: Vec::new(),
        now_ms: NOW,
    };
    store.handoff_bind(bind).await.unwrap()
}

fn admit(session: &SessionId, epoch: Epoch, inbox: Vec<InboxId>) -> Admit {
    Admit { session: session.clone(), new_session: None, route: None, inbox, epoch, now_ms: NOW }
}

async fn state(store: &Store, id: &SessionId) -> HandoffState {
    store.handoff(id).await.unwrap().unwrap().state
}

#[tokio::test]
async fn a_session_that_is_on_its_way_begins_no_turn_but_the_one_that_opens_it() {
    let home = Home::new();
    let (store, epoch) = home.store();
    let id = asked(&store).await;
    let refused = store.admit(admit(&id, epoch, Vec::new())).await;
    assert!(matches!(refused, Err(StoreError::Conflict { .. })), "{refused:?}");
    assert!(matches!(store.handoff_request(&id, "echo", NOW).await.unwrap(), HandoffAsked::UnderWay(_)));
    let opened = bound(&store, &id, epoch).await;
    let refused = store.admit(admit(&id, epoch, Vec::new())).await;
    assert!(matches!(refused, Err(StoreError::Conflict { .. })), "{refused:?}");
    store.admit(admit(&id, epoch, vec![opened])).await.unwrap();
}

#[tokio::test]
async fn a_session_in_the_middle_of_a_turn_is_not_handed_over() {
    let home = Home::new();
    let (store, epoch) = home.store();
    let new = new_session(1);
    let id = new.id.clone();
    store.admit(Admit { new_session: Some(new), ..admit(&id, epoch, Vec::new()) }).await.unwrap();
    assert_eq!(store.handoff_request(&id, "echo", NOW).await.unwrap(), HandoffAsked::MidTurn);
    assert_eq!(store.handoff_request(&session_id(9), "echo", NOW).await.unwrap(), HandoffAsked::Unknown);
}

#[tokio::test]
async fn a_second_claim_and_a_late_withdrawal_find_nothing_to_do() {
    let home = Home::new();
    let (store, epoch) = home.store();
    let id = asked(&store).await;
    let claim = store.handoff_claim(&id, epoch, NOW).await.unwrap().unwrap().claim();
    assert!(store.handoff_claim(&id, epoch, NOW).await.unwrap().is_none());
    assert!(store.handoff_fail(&id, WhichHandoff::Asked(NOW), HandoffChange::Withdrawn, NOW).await.unwrap().is_none());
    assert_eq!(state(&store, &id).await, HandoffState::Running { epoch, attempt: 1 });
    let thread = store.handoff_thread(&id, claim, Epoch(epoch.0 + 1), Chat::dm("1")).await;
    assert!(matches!(thread, Err(StoreError::Conflict { .. })), "another life says nothing about it: {thread:?}");
}

#[tokio::test]
async fn a_claim_of_a_handoff_that_was_given_up_says_nothing_about_the_next_one() {
    let home = Home::new();
    let (store, epoch) = home.store();
    let id = asked(&store).await;
    let stale = store.handoff_claim(&id, epoch, NOW).await.unwrap().unwrap().claim();
    store.handoff_fail(&id, WhichHandoff::Asked(NOW), HandoffChange::TimedOut, NOW).await.unwrap().unwrap();
    // The request is in the same run and the same millisecond, and the claim is also the first one of its
    // request.
    assert!(matches!(store.handoff_request(&id, "echo", NOW).await.unwrap(), HandoffAsked::Made { .. }));
    let claim = store.handoff_claim(&id, epoch, NOW).await.unwrap().unwrap().claim();
    let thread = store.handoff_thread(&id, stale, epoch, Chat::dm("1")).await;
    assert!(matches!(thread, Err(StoreError::Conflict { .. })), "{thread:?}");
    let late = store.handoff_fail(&id, WhichHandoff::Claim(stale), HandoffChange::TimedOut, NOW).await.unwrap();
    assert_eq!((late, state(&store, &id).await), (None, HandoffState::Running { epoch, attempt: 1 }));
    store.handoff_thread(&id, claim, epoch, Chat::dm("2")).await.unwrap();
    let row = store.handoff(&id).await.unwrap().unwrap();
    assert_eq!(row.chat, Some(Chat::dm("2")));
}

#[tokio::test]
async fn what_waiting_gives_up_stays_given_up() {
    let home = Home::new();
    let (store, epoch) = home.store();
    let id = asked(&store).await;
    let row = store.handoff_fail(&id, WhichHandoff::Asked(NOW), HandoffChange::Withdrawn, NOW).await.unwrap().unwrap();
    assert_eq!(row.state, HandoffState::Failed { why: NOT_TAKEN_UP.to_owned() });
    assert!(store.handoff_claim(&id, epoch, NOW).await.unwrap().is_none());
    assert!(store.handoffs_live().await.unwrap().is_empty());
    assert_eq!(store.handoffs(true, 10).await.unwrap().len(), 1);
}

#[tokio::test]
async fn each_life_that_dies_takes_one_claim_with_it() {
    let home = Home::new();
    let (store, epoch) = home.store();
    let id = asked(&store).await;
    let opened = bound(&store, &id, epoch).await;
    drop(store);
    let (store, epoch) = home.store();
    let left = store.recover(epoch, NOW).await.unwrap();
    assert!(left.failed_handoffs.is_empty());
    assert_eq!(state(&store, &id).await, HandoffState::Pending { attempts: 1 }, "its turn had not begun");
    let pending = store.left_events(&left, InboxId(0)).await.unwrap();
    assert!(pending.is_empty(), "and what was to begin it is gone: {opened} {pending:?}");
    let opened = bound(&store, &id, epoch).await;
    store.admit(admit(&id, epoch, vec![opened])).await.unwrap();
    drop(store);
    let (store, epoch) = home.store();
    let left = store.recover(epoch, NOW).await.unwrap();
    assert_eq!(left.failed_handoffs.len(), 1);
    assert_eq!(state(&store, &id).await, HandoffState::Failed { why: INTERRUPTED_TWICE.to_owned() });
    assert!(store.left_turns(&left, TurnId(0)).await.unwrap().is_empty(), "its turn is over, too");
    let opened = home.open();
    assert!(opened.loaded.routes.is_empty(), "and the chat is free");
}

#[tokio::test]
async fn a_handoff_whose_turn_had_begun_goes_on_in_the_next_life() {
    let home = Home::new();
    let (store, epoch) = home.store();
    let id = asked(&store).await;
    let opened = bound(&store, &id, epoch).await;
    store.admit(admit(&id, epoch, vec![opened])).await.unwrap();
    drop(store);
    let (store, epoch) = home.store();
    let left = store.recover(epoch, NOW).await.unwrap();
    assert_eq!(state(&store, &id).await, HandoffState::Running { epoch, attempt: 2 });
    assert_eq!(store.left_turns(&left, TurnId(0)).await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_session_that_was_begun_in_its_chat_meanwhile_takes_no_chat_from_what_arrived() {
    let home = Home::new();
    let (store, epoch) = home.store();
    let id = asked(&store).await;
    bound(&store, &id, epoch).await;
    let born = |n, at_ms| {
        let new = new_session(n);
        let route = RouteRow::new("bound", "main", "echo", new.id.clone(), Chat::new(ChatType::Group, "g"), at_ms);
        Admit { route: Some(route), new_session: Some(new.clone()), ..admit(&new.id, epoch, Vec::new()) }
    };
    let leads_to = async || {
        let routes = store.read(crate::sessions::routes).await.unwrap();
        routes.into_iter().find(|route| route.key == "bound").unwrap().session
    };
    store.admit(born(2, NOW)).await.unwrap();
    assert_eq!(leads_to().await, id, "what was begun before it arrived");
    let ended = store.session(&session_id(2)).await.unwrap().unwrap();
    assert_eq!(ended.end_reason.as_deref(), Some("session_switch"));
    store.admit(born(3, NOW + 1)).await.unwrap();
    assert_eq!(leads_to().await, session_id(3), "what is begun after that takes its place, as everywhere");
}
