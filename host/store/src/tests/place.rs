//! Deleted, replaced, empty or damaged files of the database.

use std::fs;

use super::*;

fn gone<T: std::fmt::Debug>(outcome: Result<T>) -> bool {
    matches!(outcome, Err(StoreError::Gone { .. }))
}

#[tokio::test]
async fn nothing_is_stored_while_a_file_is_gone_and_it_works_again_when_it_is_back() {
    for name in ["state.db", "state.db-wal"] {
        let home = Home::new();
        let (store, _) = home.store();
        accepted(&store, "before").await;
        let (file, aside) = (home.folder.path().join(name), home.folder.path().join("aside"));
        fs::rename(&file, &aside).unwrap();
        store.look_after().await;
        assert!(matches!(store.trouble().await, Some(StoreError::Gone { path }) if path == file), "without a request");
        assert!(gone(store.accept(event("lost")).await), "{name}");
        // Another file in the same place is not the open one.
        fs::write(&file, "x").unwrap();
        assert!(gone(store.accept(event("lost")).await), "{name}");
        fs::rename(&aside, &file).unwrap();
        store.look_after().await;
        assert_eq!(store.trouble().await, None, "{name} is back");
        accepted(&store, "lost").await;
        store.close().await.unwrap();
        let (store, _) = home.store();
        assert!(matches!(store.accept(event("before")).await, Ok(Accepted::Duplicate(_))), "nothing is lost");
    }
}

#[tokio::test]
async fn a_home_that_is_deleted_or_moved_away_is_noticed() {
    let home = Home::new();
    let inner = home.folder.path().join("inner");
    fs::create_dir(&inner).unwrap();
    let store = Store::open(&inner.join("state.db"), home.clock.clone()).unwrap().store;
    accepted(&store, "before").await;
    fs::rename(&inner, home.folder.path().join("elsewhere")).unwrap();
    assert!(gone(store.accept(event("lost")).await));
    fs::remove_dir_all(home.folder.path().join("elsewhere")).unwrap();
    let error = store.accept(event("lost")).await.unwrap_err();
    assert!(error.to_string().contains("restart the host"), "{error}");
}

#[test]
fn a_file_without_bytes_is_refused_and_stays_as_it_is() {
    let home = Home::new();
    fs::write(home.path(), "").unwrap();
    fs::write(home.folder.path().join("state.db.v1"), "a copy").unwrap();
    let Err(error) = Store::open(&home.path(), home.clock.clone()) else { panic!("it is not a new database") };
    let said = error.to_string();
    assert!(said.contains("is empty") && said.contains("state.db.v1"), "{said}");
    assert_eq!(fs::metadata(home.path()).unwrap().len(), 0);
}

#[tokio::test]
async fn a_damaged_row_is_left_out_and_the_others_are_read() {
    const DAMAGE: [&str; 3] = [
        "UPDATE messages SET tool_calls = '{' WHERE id = ?1",
        "UPDATE messages SET attachments = '[{}]' WHERE id = ?1",
        "UPDATE messages SET content = CAST(x'ff' AS TEXT) WHERE id = ?1",
    ];
    for damage in DAMAGE {
        let home = Home::new();
        let (store, epoch) = home.store();
        let inbox = accepted(&store, "a").await;
        let turn = running(&store, epoch, 1, vec![inbox]).await;
        let said = |n| NewMessage::new(Message::user(format!("said {n}")), START_MS);
        let end = EndTurn { messages: (0..3).map(said).collect(), ..end_of(turn, session_id(1)) };
        store.end_turn(end).await.unwrap();
        let id = store.history(&session_id(1), 9).await.unwrap()[1].id;
        store.write(move |db| Ok(db.execute(damage, [id])?)).await.unwrap();
        let left = ["said 0", "said 2"];
        let words = |rows: Vec<MessageRow>| rows.into_iter().map(|row| row.message.content).collect::<Vec<_>>();
        assert_eq!(words(store.history(&session_id(1), 9).await.unwrap()), left, "{damage}");
        let page = Page { rows_max: 9, bytes_max: 1_000 };
        assert_eq!(words(store.messages_after(&session_id(1), 0, page).await.unwrap()), left, "{damage}");
        let turns = store.last_turns(&session_id(1), 1).await.unwrap();
        assert_eq!(turns[0].heard.len(), 2, "{damage}");
    }
}
