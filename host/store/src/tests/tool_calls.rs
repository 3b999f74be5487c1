//! Tool calls before their start and after their end.

use hermes_core::transcript::{CallRow, StartedCall, ToolCall};

use super::*;

fn call(n: u32) -> StartedCall {
    let call = ToolCall { id: format!("c{n}"), name: "todo".to_owned(), arguments: "{}".to_owned() };
    StartedCall { n, step: 0, said: "look".to_owned(), call }
}

#[tokio::test]
async fn a_call_is_there_before_it_ends_and_ends_once() {
    let home = Home::new();
    let (store, epoch) = home.store();
    let turn = running(&store, epoch, 1, vec![]).await;
    store.start_calls(turn, vec![call(0), call(1)]).await.unwrap();
    assert!(is_conflict(store.start_calls(turn, vec![call(1)]).await), "it is written already");
    store.end_call(turn, 0, "done".to_owned()).await.unwrap();
    assert!(is_conflict(store.end_call(turn, 0, "again".to_owned()).await));
    assert!(is_conflict(store.end_call(turn, 7, "never began".to_owned()).await));
    let expected =
        [CallRow { started: call(0), result: Some("done".to_owned()) }, CallRow { started: call(1), result: None }];
    assert_eq!(store.calls_of(turn).await.unwrap(), expected);
    drop(store);
    let (store, _) = home.store();
    assert_eq!(store.calls_of(turn).await.unwrap(), expected, "another life of the host knows them");
}

#[tokio::test]
async fn a_turn_that_is_over_starts_no_call() {
    let home = Home::new();
    let (store, epoch) = home.store();
    let turn = running(&store, epoch, 1, vec![]).await;
    store.end_turn(end_of(turn, session_id(1))).await.unwrap();
    assert!(is_conflict(store.start_calls(turn, vec![call(0)]).await));
}
