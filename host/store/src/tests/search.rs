//! Full-text search: all messages are found, and no query is a syntax error.

use proptest::prelude::*;

use super::*;

async fn say(store: &Store, epoch: Epoch, n: u32, texts: &[&str]) {
    let turn = running(store, epoch, n, vec![]).await;
    let messages = texts.iter().map(|text| NewMessage::new(Message::user(*text), START_MS)).collect();
    let end = EndTurn { messages, deliveries: vec![], ..end_of(turn, session_id(n)) };
    store.end_turn(end).await.expect("the turn ends");
}

async fn snippets(store: &Store, query: &str) -> Vec<String> {
    store.search(query, 10).await.expect("any text is a query").into_iter().map(|hit| hit.snippet).collect()
}

#[tokio::test]
async fn words_are_found_in_any_order_and_case() {
    let home = Home::new();
    let (store, epoch) = home.store();
    say(&store, epoch, 1, &["The train to Zürich leaves at noon", "nothing here"]).await;
    say(&store, epoch, 2, &["A train, but elsewhere"]).await;
    let hits = store.search("zurich TRAIN", 10).await.unwrap();
    let [hit] = hits.as_slice() else { panic!("one hit: {hits:?}") };
    assert_eq!((&hit.session, hit.role.as_str()), (&session_id(1), "user"));
    assert_eq!(hit.snippet, "The >>>train<<< to >>>Zürich<<< leaves at noon");
    assert_eq!(store.search("train", 10).await.unwrap().len(), 2);
    assert_eq!(store.search("train", 1).await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_piece_of_a_word_is_found_where_no_word_is() {
    let home = Home::new();
    let (store, epoch) = home.store();
    say(&store, epoch, 1, &["an incomprehensible sentence", "50%_off"]).await;
    assert_eq!(snippets(&store, "prehens").await, ["an incom>>>prehens<<<ible sentence"]);
    assert_eq!(snippets(&store, "0%_o").await, ["5>>>0%_o<<<ff"]);
    assert_eq!(snippets(&store, "x%y").await, [""; 0]);
    assert_eq!(snippets(&store, "se").await, ["an incomprehensible >>>se<<<ntence"]);
}

#[tokio::test]
async fn scripts_without_spaces_are_searched_by_character() {
    let home = Home::new();
    let (store, epoch) = home.store();
    say(&store, epoch, 1, &["明日の会議は午後三時です"]).await;
    assert_eq!(snippets(&store, "会議は").await.len(), 1);
    assert_eq!(snippets(&store, "会議").await, ["明日の>>>会議<<<は午後三時です"]);
    assert!(snippets(&store, "昨日").await.is_empty());
}

#[tokio::test]
async fn a_search_sees_what_was_committed_just_before_it_however_much_that_is() {
    let home = Home::new();
    let (store, epoch) = home.store();
    let many: Vec<String> = (0..1_200).map(|n| format!("needle{n}")).collect();
    say(&store, epoch, 1, &many.iter().map(String::as_str).collect::<Vec<_>>()).await;
    assert_eq!(snippets(&store, "needle1199").await.len(), 1);
    say(&store, epoch, 2, &["afterthought"]).await;
    assert_eq!(snippets(&store, "afterthought").await.len(), 1);
}

#[tokio::test]
async fn what_a_deleted_session_said_is_never_found_in_another() {
    let home = Home::new();
    let (store, epoch) = home.store();
    say(&store, epoch, 1, &["secret words"]).await;
    assert_eq!(snippets(&store, "secret").await.len(), 1);
    store.session_delete(&session_id(1)).await.unwrap();
    say(&store, epoch, 2, &["other words"]).await;
    assert!(snippets(&store, "secret").await.is_empty());
    assert_eq!(snippets(&store, "words").await, ["other >>>words<<<"]);
    let check = "INSERT INTO messages_words (messages_words, rank) VALUES ('integrity-check', 1)";
    store.write(|db| Ok(db.execute(check, [])?)).await.expect("index and messages agree");
}

#[tokio::test]
async fn a_search_stays_with_its_owner() {
    let home = Home::new();
    let (store, epoch) = home.store();
    say(&store, epoch, 1, &["hello"]).await;
    assert_eq!(store.search_owned("hello", Some("echo:7"), 10).await.unwrap().len(), 1);
    assert!(store.search_owned("hello", Some("echo:8"), 10).await.unwrap().is_empty());
}

#[test]
fn no_text_is_a_syntax_error() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let home = Home::new();
    let (store, epoch) = home.store();
    runtime.block_on(say(&store, epoch, 1, &["a \"quoted\" AND (odd) NEAR text* ^with -signs:", "日本語 '' \\ % _"]));
    let handmade =
        ["\"", "AND", "a OR", "NEAR(", "content:x", "^a*", "(", "-", "'", "\0a\"b", "a\u{0}", "{x} : y", "%", "\\"];
    for query in handmade {
        runtime.block_on(store.search(query, 5)).expect(query);
    }
    proptest!(ProptestConfig::with_cases(400), |(query in "(\\PC|[\"'()*:^+{}\\\\%_\u{0}-\u{1f}]|AND|OR|NOT|NEAR| ){0,40}")| {
        let found = runtime.block_on(store.search(&query, 5));
        prop_assert!(found.is_ok(), "{query:?}: {found:?}");
    });
}

#[test]
fn a_text_finds_itself() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let home = Home::new();
    let (store, epoch) = home.store();
    let sessions = std::cell::Cell::new(0);
    proptest!(ProptestConfig::with_cases(60), |(text in "[a-zé会議 \"%_-]{0,6}[a-z会議]{3}[a-z \"]{0,6}")| {
        let n = sessions.get() + 1;
        sessions.set(n);
        runtime.block_on(say(&store, epoch, n, &[&text]));
        let found = runtime.block_on(store.search(&text, 100)).unwrap();
        prop_assert!(found.iter().any(|hit| hit.session == session_id(n)), "{text:?}");
        runtime.block_on(store.session_delete(&session_id(n))).unwrap();
    });
}
