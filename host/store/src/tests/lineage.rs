//! Titles, undo, branches and compressions.

use hermes_core::settings::SessionSettings;

use super::*;

async fn order(store: &Store, changes: Vec<Change>) -> Result<Vec<DeliveryId>> {
    store.command(CommandTx { inbox: None, changes, reply: vec![], now_ms: START_MS }).await
}

async fn open(store: &Store, n: u32, owner: &str, title: Option<&str>) {
    let new = NewSession { title: title.map(str::to_owned), owner: Some(owner.to_owned()), ..new_session(n) };
    order(store, vec![Change::NewSession(new)]).await.expect("the session opens");
}

async fn row(store: &Store, n: u32) -> SessionRow {
    store.session(&session_id(n)).await.unwrap().unwrap()
}

async fn title(store: &Store, n: u32) -> String {
    row(store, n).await.title.unwrap_or_default()
}

/// Adds a message and its answer to session 1.
async fn exchange(store: &Store, epoch: Epoch, said: &str) {
    let new_session = match store.session(&session_id(1)).await.unwrap() {
        Some(_) => None,
        None => Some(NewSession { title: Some("trip".to_owned()), ..new_session(1) }),
    };
    let admit = Admit { session: session_id(1), new_session, route: None, inbox: vec![], epoch, now_ms: START_MS };
    let turn = store.admit(admit).await.unwrap();
    let messages = vec![
        NewMessage::new(Message::user(said), START_MS),
        NewMessage::new(Message::assistant(format!("re {said}")), START_MS),
    ];
    let agent_state = Some(("echo".to_owned(), serde_json::json!({ "seen": said })));
    store.end_turn(EndTurn { messages, deliveries: vec![], agent_state, ..end_of(turn, session_id(1)) }).await.unwrap();
}

async fn transcript(store: &Store, n: u32) -> Vec<String> {
    store.history(&session_id(n), 100).await.unwrap().into_iter().map(|row| row.message.content).collect()
}

async fn undo(store: &Store, turns: u32) -> Result<Vec<DeliveryId>> {
    let last = store.last_turns(&session_id(1), turns).await.unwrap();
    let from = last.last().map_or(i64::MAX, |turn| turn.first);
    order(store, vec![Change::Undo { session: session_id(1), from }]).await
}

async fn redo(store: &Store) -> Result<Vec<DeliveryId>> {
    let number = store.last_taken(&session_id(1)).await.unwrap().map_or(0, |taken| taken.number);
    order(store, vec![Change::Redo { session: session_id(1), number }]).await
}

fn fork(n: u32, title: Option<&str>) -> NewFork {
    NewFork {
        from: session_id(1),
        id: session_id(n),
        source: "echo".to_owned(),
        owner: None,
        title: title.map(str::to_owned),
        started_ms: START_MS + 1,
    }
}

#[tokio::test]
async fn a_title_is_unique_for_its_owner_and_others_may_have_the_same() {
    let home = Home::new();
    let (store, _) = home.store();
    open(&store, 1, "echo:7", Some("Trip")).await;
    open(&store, 2, "echo:8", Some("trip")).await;
    open(&store, 3, "echo:7", None).await;
    let taken = store.session_rename(&session_id(3), Some("TRIP")).await;
    assert_eq!(taken, Err(StoreError::TitleTaken { title: "TRIP".to_owned() }));
    let of = |owner: &'static str| {
        let store = store.clone();
        async move { store.resolve_session("trip", Some(owner)).await.unwrap() }
    };
    assert!(matches!(of("echo:7").await, Resolved::Found(row) if row.id == session_id(1)));
    assert!(matches!(of("echo:8").await, Resolved::Found(row) if row.id == session_id(2)));
    assert_eq!(of("echo:9").await, Resolved::Unknown);
    assert_eq!(store.resolve_session(&session_id(2).0, Some("echo:7")).await, Ok(Resolved::Unknown));
    let anybody = store.resolve_session("trip", None).await.unwrap();
    assert!(matches!(anybody, Resolved::Ambiguous(ids) if ids.len() == 2));
}

#[tokio::test]
async fn a_session_without_a_name_is_named_once_and_numbered_where_the_name_is_taken() {
    let home = Home::new();
    let (store, _) = home.store();
    for n in 1..=4 {
        open(&store, n, "echo:7", None).await;
    }
    assert_eq!(store.session_name_after(&session_id(1), "Plan  the\ntrip").await, Ok(true));
    assert_eq!(store.session_name_after(&session_id(1), "something else").await, Ok(false));
    assert_eq!(store.session_name_after(&session_id(2), "plan the trip").await, Ok(true));
    assert_eq!(store.session_name_after(&session_id(3), "Plan the trip #2").await, Ok(true));
    assert_eq!(
        store.session_name_after(&session_id(4), " \u{200b} ").await,
        Ok(false),
        "nothing to be seen is no name"
    );
    let titles = [title(&store, 1).await, title(&store, 2).await, title(&store, 3).await, title(&store, 4).await];
    assert_eq!(titles, ["Plan the trip", "plan the trip #2", "Plan the trip #3", ""]);
}

#[tokio::test]
async fn a_numbered_title_stays_within_the_bound() {
    let home = Home::new();
    let (store, _) = home.store();
    let long = "é".repeat(100);
    open(&store, 1, "echo:7", Some(&long)).await;
    open(&store, 2, "echo:7", None).await;
    store.session_name_after(&session_id(2), &long).await.unwrap();
    assert_eq!(title(&store, 2).await, format!("{} #2", "é".repeat(97)));
}

#[tokio::test]
async fn what_is_undone_is_kept_and_can_be_brought_back() {
    let home = Home::new();
    let (store, epoch) = home.store();
    for said in ["a", "b", "c"] {
        exchange(&store, epoch, said).await;
    }
    undo(&store, 2).await.unwrap();
    assert_eq!(transcript(&store, 1).await, ["a", "re a"]);
    assert_eq!((row(&store, 1).await.messages, row(&store, 1).await.turns), (2, 3));
    assert_eq!(store.agent_state(&session_id(1), "echo").await, Ok(None), "no runtime remembers what was taken back");
    assert!(store.search("re c", 10).await.unwrap().iter().all(|hit| !hit.snippet.contains(">>>c<<<")));
    drop(store);

    let (store, _) = home.store();
    let taken = store.last_taken(&session_id(1)).await.unwrap().unwrap();
    assert_eq!((taken.turns, taken.overtaken), (2, false));
    redo(&store).await.unwrap();
    assert_eq!(transcript(&store, 1).await, ["a", "re a", "b", "re b", "c", "re c"]);
    assert_eq!(row(&store, 1).await.messages, 6);
    assert!(is_conflict(redo(&store).await), "there is nothing more to bring back");
}

#[tokio::test]
async fn undo_after_undo_comes_back_one_by_one() {
    let home = Home::new();
    let (store, epoch) = home.store();
    for said in ["a", "b"] {
        exchange(&store, epoch, said).await;
    }
    undo(&store, 1).await.unwrap();
    undo(&store, 1).await.unwrap();
    assert!(is_conflict(undo(&store, 1).await), "nothing is left to undo");
    redo(&store).await.unwrap();
    assert_eq!(transcript(&store, 1).await, ["a", "re a"]);
    redo(&store).await.unwrap();
    assert_eq!(transcript(&store, 1).await, ["a", "re a", "b", "re b"]);
}

#[tokio::test]
async fn what_was_undone_does_not_come_back_behind_something_newer() {
    let home = Home::new();
    let (store, epoch) = home.store();
    for said in ["a", "b"] {
        exchange(&store, epoch, said).await;
    }
    undo(&store, 1).await.unwrap();
    exchange(&store, epoch, "c").await;
    assert!(store.last_taken(&session_id(1)).await.unwrap().unwrap().overtaken);
    assert!(is_conflict(redo(&store).await));
    assert_eq!(transcript(&store, 1).await, ["a", "re a", "c", "re c"]);
}

#[tokio::test]
async fn an_event_hears_other_words_until_it_is_answered() {
    let home = Home::new();
    let (store, epoch) = home.store();
    let event = accepted(&store, "a").await;
    let input = vec![Message::user("said before")];
    order(&store, vec![Change::Hear { inbox: event, input: input.clone() }]).await.unwrap();
    drop(store);
    let Opened { store, epoch: next, .. } = home.open();
    assert!(next > epoch);
    assert_eq!(found(&store, next).await.pending[0].input, Some(input.clone()));
    let turn = running(&store, next, 1, vec![event]).await;
    let late = order(&store, vec![Change::Hear { inbox: event, input }]).await;
    assert!(is_conflict(late), "its turn runs already");
    store.end_turn(end_of(turn, session_id(1))).await.unwrap();
}

#[tokio::test]
async fn a_branch_has_what_was_said_so_far_and_the_next_number_of_its_title() {
    let home = Home::new();
    let (store, epoch) = home.store();
    for said in ["a", "b"] {
        exchange(&store, epoch, said).await;
    }
    undo(&store, 1).await.unwrap();
    let settings = SessionSettings { model: Some("m".to_owned()), ..SessionSettings::default() };
    order(&store, vec![Change::Settings { session: session_id(1), settings }]).await.unwrap();
    order(&store, vec![Change::Fork(fork(2, None)), Change::Fork(fork(3, Some("Other way")))]).await.unwrap();
    exchange(&store, epoch, "only here").await;
    assert_eq!(transcript(&store, 2).await, ["a", "re a"]);
    let branch = row(&store, 2).await;
    assert_eq!((branch.title.as_deref(), branch.messages), (Some("trip #2"), 2));
    assert_eq!((branch.parent, branch.lineage), (Some(session_id(1)), Some(Lineage::Branch)));
    assert_eq!((branch.owner.as_deref(), branch.settings.model.as_deref()), (Some("echo:7"), Some("m")));
    assert_eq!(title(&store, 3).await, "Other way");
    assert_eq!(row(&store, 1).await.ended_ms, None, "what it came from is still there");
    assert_eq!(store.agent_state(&session_id(2), "echo").await, Ok(None), "a runtime's memory is of one session");
    let last = store.last_turns(&session_id(2), 5).await.unwrap();
    assert_eq!(last.len(), 1, "what was said in one turn is still one turn");
    assert_eq!(store.session_tip(&session_id(1)).await.unwrap().unwrap().id, session_id(1), "a branch is no successor");
}

#[tokio::test]
async fn a_compression_goes_on_under_the_same_title_from_a_summary_and_the_last_turns() {
    let home = Home::new();
    let (store, epoch) = home.store();
    for said in ["a", "b", "c"] {
        exchange(&store, epoch, said).await;
    }
    let summary = NewSummary {
        fork: fork(2, None),
        summary: "they spoke of a and b".to_owned(),
        keep_turns: 1,
        usage: Usage::tokens(100, 7),
    };
    order(&store, vec![Change::Compress(Box::new(summary))]).await.unwrap();
    let (old, new) = (row(&store, 1).await, row(&store, 2).await);
    assert_eq!((old.title, old.end_reason.as_deref()), (None, Some("compression")));
    assert_eq!((old.usage.input_tokens, old.usage.output_tokens), (130, 67), "the summary is paid by what it sums up");
    assert_eq!((new.title.as_deref(), new.lineage), (Some("trip"), Some(Lineage::Compression)));
    assert_eq!(new.summary.as_deref(), Some("they spoke of a and b"));
    assert_eq!(transcript(&store, 2).await, ["c", "re c"]);
    assert_eq!(transcript(&store, 1).await.len(), 6, "nothing of the old one is lost");
    assert_eq!(store.session_tip(&session_id(1)).await.unwrap().unwrap().id, session_id(2));
    let listed = SessionFilter { with_ended: true, resumable: true, ..SessionFilter::default() };
    let listed: Vec<SessionId> = store.sessions(listed).await.unwrap().into_iter().map(|row| row.id).collect();
    assert_eq!(listed, [session_id(2)], "what was compressed away is not offered");
}

#[tokio::test]
async fn a_listing_can_be_read_page_by_page() {
    let home = Home::new();
    let (store, _) = home.store();
    for n in 1..=5 {
        open(&store, n, "echo:7", None).await;
    }
    let mut seen = Vec::new();
    for offset in [0, 2, 4, 6] {
        let page = SessionFilter { limit: 2, offset, ..SessionFilter::default() };
        seen.extend(store.sessions(page).await.unwrap().into_iter().map(|row| row.id));
    }
    assert_eq!(seen, (1..=5).rev().map(session_id).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_transcript_is_read_in_pages_bounded_by_rows_and_bytes_that_always_go_on() {
    let home = Home::new();
    let (store, epoch) = home.store();
    for said in ["a", "bbbbbbbb", "c"] {
        exchange(&store, epoch, said).await;
    }
    let (mut after, mut pages) = (0, Vec::new());
    loop {
        let page = Page { rows_max: 3, bytes_max: 6 };
        let rows = store.messages_after(&session_id(1), after, page).await.unwrap();
        let Some(last) = rows.last() else { break };
        after = last.id;
        pages.push(rows.iter().map(|row| row.message.content.clone()).collect::<Vec<_>>());
    }
    assert_eq!(pages, [vec!["a", "re a"], vec!["bbbbbbbb"], vec!["re bbbbbbbb"], vec!["c", "re c"]]);
}

#[tokio::test]
async fn a_route_says_why_its_session_has_ended() {
    let home = Home::new();
    let (store, _) = home.store();
    open(&store, 1, "echo:7", None).await;
    let route = RouteRow::new("k", "main", "echo", session_id(1), chat(), START_MS);
    let end = Change::EndSession { session: session_id(1), reason: "idle".to_owned() };
    order(&store, vec![Change::BindRoute(route), end]).await.unwrap();
    drop(store);
    assert_eq!(home.open().loaded.routes[0].ended.as_deref(), Some("idle"));
}
