//! Sessions, routes and commands.

use hermes_core::settings::SessionSettings;

use super::*;

async fn open_session(store: &Store, n: u32, title: Option<&str>) {
    let new = NewSession { title: title.map(str::to_owned), ..new_session(n) };
    order(store, vec![Change::NewSession(new)]).await.expect("the session opens");
}

async fn order(store: &Store, changes: Vec<Change>) -> Result<Vec<DeliveryId>> {
    store.command(CommandTx { inbox: None, changes, reply: vec![], now_ms: START_MS }).await
}

fn found(resolved: Resolved) -> SessionId {
    match resolved {
        Resolved::Found(session) => session.id,
        other => panic!("not one session: {other:?}"),
    }
}

#[tokio::test]
async fn a_command_changes_all_or_nothing() {
    let home = Home::new();
    let (store, _) = home.store();
    open_session(&store, 1, Some("holiday")).await;
    let event = accepted(&store, "a").await;
    let changes = vec![
        Change::EndSession { session: session_id(1), reason: "new".to_owned() },
        Change::NewSession(NewSession { title: Some("Holiday".to_owned()), ..new_session(2) }),
    ];
    let command = CommandTx { inbox: Some(event), changes, reply: vec![delivery("done")], now_ms: START_MS };
    let refused = store.command(command.clone()).await;
    assert_eq!(refused, Err(StoreError::TitleTaken { title: "Holiday".to_owned() }));
    assert_eq!(inbox_word(&store, event).await, "accepted");
    assert_eq!(store.session(&session_id(1)).await.unwrap().unwrap().ended_ms, None);

    let changes = vec![command.changes[0].clone(), Change::NewSession(new_session(2))];
    let replies = store.command(CommandTx { changes, ..command }).await.unwrap();
    assert_eq!(replies.len(), 1);
    assert_eq!(inbox_word(&store, event).await, "answered");
    let session = store.session(&session_id(1)).await.unwrap().unwrap();
    assert_eq!((session.ended_ms, session.end_reason.as_deref()), (Some(START_MS), Some("new")));
}

#[tokio::test]
async fn a_command_is_answered_once() {
    let home = Home::new();
    let (store, _) = home.store();
    let event = accepted(&store, "a").await;
    let command = CommandTx { inbox: Some(event), changes: vec![], reply: vec![delivery("pong")], now_ms: START_MS };
    store.command(command.clone()).await.unwrap();
    assert!(is_conflict(store.command(command).await));
    assert_eq!(store.counts().await.unwrap().outbox, 1);
}

#[tokio::test]
async fn everything_that_the_dispatcher_keeps_is_there_again() {
    let home = Home::new();
    let (store, _) = home.store();
    open_session(&store, 1, None).await;
    let mut route = RouteRow::new("k", "main", "echo", session_id(1), chat(), START_MS);
    route.participates = true;
    route.overrides = serde_json::json!({ "busy": "queue" });
    let grant = GrantRow {
        instance: "echo".to_owned(),
        user: "7".to_owned(),
        name: "Ada".to_owned(),
        granted_by: "operator".to_owned(),
        at_ms: START_MS,
    };
    let home_channel =
        HomeChannelRow { instance: "echo".to_owned(), chat: chat(), set_by: "echo:7".to_owned(), set_ms: START_MS };
    let lockout = LockoutRow { instance: "echo".to_owned(), wrong: 5, until_ms: START_MS + 1 };
    let waiting = accepted(&store, "a").await;
    let changes = vec![
        Change::BindRoute(route.clone()),
        Change::Grant(grant.clone()),
        Change::HomeChannel(home_channel.clone()),
        Change::Lockout(lockout.clone()),
        Change::AdapterEnabled { instance: "echo".to_owned(), on: false },
        Change::AdapterEnabled { instance: "other".to_owned(), on: true },
        Change::DropInbox { ids: vec![waiting], why: "the session was reset".to_owned() },
        Change::Flag { key: "seen".to_owned(), value: Some("1".to_owned()) },
        Change::Settings {
            session: session_id(1),
            settings: SessionSettings { model: Some("m".to_owned()), ..Default::default() },
        },
    ];
    order(&store, changes).await.unwrap();
    assert_eq!(inbox_word(&store, waiting).await, "dropped");
    drop(store);

    let Opened { store, loaded, .. } = home.open();
    let kept = store.session(&session_id(1)).await.unwrap().unwrap().settings;
    assert_eq!(kept.model.as_deref(), Some("m"));
    assert_eq!(loaded.routes, [route]);
    assert_eq!(loaded.grants, [grant]);
    assert_eq!(loaded.home_channels, [home_channel]);
    assert_eq!(loaded.lockouts, [lockout]);
    assert_eq!(loaded.disabled_adapters, ["echo"]);
    assert_eq!(loaded.flags.get("seen").map(String::as_str), Some("1"));

    let undo = vec![
        Change::UnbindRoute { key: "k".to_owned() },
        Change::Revoke { instance: "echo".to_owned(), user: "7".to_owned() },
        Change::ForgetHomeChannel { instance: "echo".to_owned() },
        Change::ClearPairing { instance: Some("echo".to_owned()) },
        Change::AdapterEnabled { instance: "echo".to_owned(), on: true },
        Change::Flag { key: "seen".to_owned(), value: None },
    ];
    order(&store, undo).await.unwrap();
    drop(store);
    let loaded = home.open().loaded;
    assert!(loaded.routes.is_empty() && loaded.grants.is_empty() && loaded.home_channels.is_empty());
    assert!(loaded.lockouts.is_empty() && loaded.disabled_adapters.is_empty() && loaded.flags.is_empty());
}

#[tokio::test]
async fn a_code_that_worked_is_gone_and_so_are_the_wrong_ones_before_it() {
    let home = Home::new();
    let (store, _) = home.store();
    let request = |user: &str, hash: &str| PairingRequestRow {
        instance: "echo".to_owned(),
        user: user.to_owned(),
        name: String::new(),
        salt: "5a".to_owned(),
        hash: hash.to_owned(),
        made_ms: START_MS,
        reminders: 0,
    };
    let changes = vec![
        Change::PairingRequest(request("7", "old")),
        Change::PairingRequest(request("7", "new")),
        Change::PairingRequest(request("", "invite 1")),
        Change::PairingRequest(request("", "invite 2")),
        Change::Lockout(LockoutRow { instance: "echo/redeem/9".to_owned(), wrong: 2, until_ms: 0 }),
        Change::Lockout(LockoutRow { instance: "echo/redeem/8".to_owned(), wrong: 2, until_ms: 0 }),
        Change::PairingDone { request: request("", "invite 1"), counted_as: "echo/redeem/9".to_owned() },
    ];
    order(&store, changes).await.unwrap();
    drop(store);
    let loaded = home.open().loaded;
    let mut left: Vec<&str> = loaded.pairing.iter().map(|request| request.hash.as_str()).collect();
    left.sort_unstable();
    assert_eq!(left, ["invite 2", "new"]);
    let counted: Vec<&str> = loaded.lockouts.iter().map(|lockout| lockout.instance.as_str()).collect();
    assert_eq!(counted, ["echo/redeem/8"], "the wrong codes of somebody else stay");
}

#[tokio::test]
async fn a_session_is_found_by_id_title_or_beginning() {
    let home = Home::new();
    let (store, _) = home.store();
    open_session(&store, 0x10, Some("Trip to 100%")).await;
    open_session(&store, 0x11, Some("trip to 100% #2")).await;
    open_session(&store, 0x20, Some("Other")).await;
    assert_eq!(found(store.resolve_session(&session_id(0x10).0, None).await.unwrap()), session_id(0x10));
    assert_eq!(found(store.resolve_session(" other ", None).await.unwrap()), session_id(0x20));
    assert_eq!(found(store.resolve_session("trip to 100%", None).await.unwrap()), session_id(0x11));
    assert_eq!(found(store.resolve_session("20250615_151515_0000002", None).await.unwrap()), session_id(0x20));
    let ambiguous = store.resolve_session("20250615_151515_0000001", None).await.unwrap();
    assert_eq!(ambiguous, Resolved::Ambiguous(vec![session_id(0x11), session_id(0x10)]));
    assert_eq!(store.resolve_session("trip to 1__%", None).await, Ok(Resolved::Unknown));
    assert_eq!(store.resolve_session("", None).await, Ok(Resolved::Unknown));
}

#[tokio::test]
async fn a_title_is_clean_short_and_unique() {
    let home = Home::new();
    let (store, _) = home.store();
    open_session(&store, 1, None).await;
    open_session(&store, 2, None).await;
    store.session_rename(&session_id(1), Some("  a\u{200b} \u{202e}b\n c ")).await.unwrap();
    assert_eq!(store.session(&session_id(1)).await.unwrap().unwrap().title.as_deref(), Some("a b c"));
    let taken = store.session_rename(&session_id(2), Some("A B C")).await;
    assert_eq!(taken, Err(StoreError::TitleTaken { title: "A B C".to_owned() }));
    let long = store.session_rename(&session_id(2), Some(&"x".repeat(101))).await;
    assert_eq!(long, Err(StoreError::TitleTooLong { chars_max: 100 }));
    store.session_rename(&session_id(1), Some(" \u{200b} ")).await.unwrap();
    assert_eq!(store.session(&session_id(1)).await.unwrap().unwrap().title, None);
    assert!(matches!(store.session_rename(&session_id(9), None).await, Err(StoreError::Missing { .. })));
}

#[tokio::test]
async fn the_first_reason_for_the_end_of_a_session_stays() {
    let home = Home::new();
    let (store, _) = home.store();
    open_session(&store, 1, None).await;
    store.session_end(&session_id(1), "reset").await.unwrap();
    store.session_end(&session_id(1), "idle").await.unwrap();
    assert_eq!(store.session(&session_id(1)).await.unwrap().unwrap().end_reason.as_deref(), Some("reset"));
    let all = SessionFilter { with_ended: true, ..SessionFilter::default() };
    assert_eq!(store.sessions(all).await.unwrap().len(), 1);
    assert!(store.sessions(SessionFilter::default()).await.unwrap().is_empty());
    order(&store, vec![Change::ReopenSession { session: session_id(1) }]).await.unwrap();
    assert_eq!(store.sessions(SessionFilter::default()).await.unwrap().len(), 1);
    let other = SessionFilter { owner: Some("echo:8".to_owned()), ..SessionFilter::default() };
    assert!(store.sessions(other).await.unwrap().is_empty());
}

#[tokio::test]
async fn a_deleted_session_leaves_no_transcript_and_a_running_one_is_not_deleted() {
    let home = Home::new();
    let (store, epoch) = home.store();
    let turn = running(&store, epoch, 1, vec![]).await;
    let route = RouteRow::new("k", "main", "echo", session_id(1), chat(), START_MS);
    order(&store, vec![Change::BindRoute(route)]).await.unwrap();
    assert!(is_conflict(store.session_delete(&session_id(1)).await));
    store.end_turn(end_of(turn, session_id(1))).await.unwrap();
    assert_eq!(store.search("hello", 10).await.unwrap().len(), 2);
    store.session_delete(&session_id(1)).await.unwrap();
    assert!(store.search("hello", 10).await.unwrap().is_empty());
    assert!(store.history(&session_id(1), 10).await.unwrap().is_empty());
    assert!(matches!(store.session_delete(&session_id(1)).await, Err(StoreError::Missing { .. })));
    drop(store);
    assert!(home.open().loaded.routes.is_empty());
}

#[tokio::test]
async fn a_route_is_as_young_as_the_last_turn_of_its_session() {
    let home = Home::new();
    let (store, epoch) = home.store();
    let turn = running(&store, epoch, 1, vec![]).await;
    let route = RouteRow::new("k", "main", "echo", session_id(1), chat(), START_MS);
    order(&store, vec![Change::BindRoute(route)]).await.unwrap();
    store.end_turn(end_of(turn, session_id(1))).await.unwrap();
    drop(store);
    assert_eq!(home.open().loaded.routes[0].updated_ms, START_MS + 1_000);
}

#[tokio::test]
async fn small_values_belong_to_their_scope() {
    let home = Home::new();
    let (store, _) = home.store();
    store.kv_set("a", "offset", "1").await.unwrap();
    store.kv_set("b", "offset", "2").await.unwrap();
    store.kv_set("a", "offset", "3").await.unwrap();
    store.kv_delete("b", "offset").await.unwrap();
    store.kv_delete("b", "offset").await.unwrap();
    drop(store);
    let (store, _) = home.store();
    assert_eq!(store.kv_get("a", "offset").await.unwrap().as_deref(), Some("3"));
    assert_eq!(store.kv_get("b", "offset").await, Ok(None));
}

#[tokio::test]
async fn a_scope_has_room_for_so_many_values_and_can_still_change_them() {
    let home = Home::new();
    let (store, _) = home.store();
    let set = |scope: &'static str, n: u32| {
        let store = store.clone();
        async move { store.kv_set(scope, &n.to_string(), "v").await }
    };
    let filled = futures_util::future::join_all((0..10_000).map(|n| set("a", n))).await;
    assert!(filled.iter().all(Result::is_ok));
    assert!(matches!(set("a", 10_000).await, Err(StoreError::TooMany { .. })));
    assert_eq!(set("a", 7).await, Ok(()), "one that is there can be changed");
    assert_eq!(set("b", 1).await, Ok(()), "another scope has its own room");
    store.kv_delete("a", "7").await.unwrap();
    assert_eq!(set("a", 10_000).await, Ok(()));
}

#[tokio::test]
async fn an_instance_has_room_for_so_many_bytes_over_all_of_its_accounts() {
    let home = Home::new();
    let (store, _) = home.store();
    store.kv_set("a@1", "old", &"x".repeat(1_000)).await.unwrap();
    store.kv_set("a", "offset", "12345678").await.unwrap();
    // As if the instance kept 64 MiB less 100 bytes.
    let filled = "UPDATE kv_usage SET bytes = bytes + 67107850 WHERE scope = 'a'";
    store.write(|db| Ok(db.execute(filled, [])?)).await.unwrap();
    let usage = async || {
        let sum = "SELECT keys, bytes FROM kv_usage WHERE scope = 'a'";
        store.read(|db| Ok(db.query_row(sum, [], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?)))?)).await
    };
    assert_eq!(usage().await, Ok((1, 67_107_864)));
    store.kv_set("a", "next", "x").await.unwrap_err();
    let refused = store.kv_set("a@2", "next", &"x".repeat(100)).await.unwrap_err();
    assert!(refused.to_string().contains("values of a") && refused.to_string().contains("64 MiB"), "{refused}");
    assert_eq!(usage().await, Ok((1, 67_107_864)), "a refused write leaves nothing");
    assert_eq!(store.kv_get("a", "next").await, Ok(None));
    store.kv_set("a", "offset", "12345679").await.expect("a value of the same size is always taken");
    for other in ["b", "ab", "a-b", "aA", "host", "observed:a"] {
        store.kv_set(other, "next", &"x".repeat(1_000)).await.expect("its own room");
    }
    store.kv_delete("a@1", "old").await.unwrap();
    store.kv_delete("a@1", "old").await.unwrap();
    store.kv_set("a", "next", &"x".repeat(900)).await.expect("what was deleted leaves room");
    assert_eq!(usage().await, Ok((2, 67_108_768)));
    store.kv_set("a", "next", "x").await.unwrap();
    store.write(|db| Ok(db.execute("DELETE FROM kv WHERE key = 'offset'", [])?)).await.unwrap();
    assert_eq!(usage().await, Ok((1, 67_107_855)), "a row that goes by itself is counted, too");
}

#[tokio::test]
async fn a_history_is_the_newest_messages_in_order_with_all_they_hold() {
    let home = Home::new();
    let (store, epoch) = home.store();
    let turn = running(&store, epoch, 1, vec![]).await;
    let mut call = Message::assistant("");
    call.tool_calls = vec![serde_json::json!({ "id": "c1" })];
    call.reasoning = Some("because".to_owned());
    let mut result = Message::new(hermes_core::transcript::Role::Tool, "42");
    result.tool_call_id = Some("c1".to_owned());
    let mut messages: Vec<NewMessage> =
        [Message::user("q"), call, result].into_iter().map(|message| NewMessage::new(message, START_MS)).collect();
    messages[0].platform_ids = vec!["p1".to_owned()];
    let kept: Vec<Message> = messages.iter().map(|new| new.message.clone()).collect();
    store.end_turn(EndTurn { messages, ..end_of(turn, session_id(1)) }).await.unwrap();
    let history = store.history(&session_id(1), 10).await.unwrap();
    assert_eq!(history.iter().map(|row| row.message.clone()).collect::<Vec<_>>(), kept);
    assert_eq!((history[0].platform_ids.as_slice(), history[0].turn), (["p1".to_owned()].as_slice(), Some(turn)));
    let last = store.history(&session_id(1), 1).await.unwrap();
    assert_eq!((last.len(), last[0].message.content.as_str()), (1, "42"));
}
