//! The directory of known chats.

use super::super::directory::CHATS_PER_INSTANCE_MAX;
use super::*;

fn saw(chat: Chat, seen_ms: i64) -> Change {
    Change::SawChat { instance: "mail".to_owned(), chat, seen_ms }
}

async fn write(store: &Store, changes: Vec<Change>) {
    store.command(CommandTx { inbox: None, changes, reply: Vec::new(), now_ms: START_MS }).await.unwrap();
}

async fn names(store: &Store) -> Vec<String> {
    store.known_chats("mail").await.unwrap().into_iter().map(|known| known.name).collect()
}

#[tokio::test]
async fn a_chat_keeps_its_name_where_a_later_event_names_none() {
    let home = Home::new();
    let store = home.open().store;
    let in_thread = {
        let mut chat = Chat::dm("7").named("Ada").in_thread("3");
        chat.thread_name = Some("Plans".to_owned());
        chat
    };
    write(&store, vec![saw(Chat::dm("7").named("Ada"), 1), saw(in_thread, 2), saw(Chat::dm("7"), 3)]).await;
    let known = store.known_chats("mail").await.unwrap();
    let shown: Vec<_> = known.iter().map(|known| (known.name.as_str(), known.seen_ms)).collect();
    assert_eq!(shown, [("Ada", 3), ("Ada / Plans", 2)]);
    assert_eq!(known[0].chat.name.as_deref(), Some("Ada"));
    write(&store, vec![saw(Chat::dm("7").named("Ada L"), 4)]).await;
    assert_eq!(names(&store).await, ["Ada L", "Ada / Plans"]);
}

#[tokio::test]
async fn the_longest_unseen_chats_are_forgotten_beyond_the_bound() {
    let home = Home::new();
    let store = home.open().store;
    let many = 0..i64::from(CHATS_PER_INSTANCE_MAX) + 5;
    write(&store, many.map(|n| saw(Chat::dm(n.to_string()).named(format!("chat {n}")), n)).collect()).await;
    store.sweep(START_MS).await.unwrap();
    let left = names(&store).await;
    assert_eq!(left.len(), CHATS_PER_INSTANCE_MAX as usize);
    assert!(!left.contains(&"chat 4".to_owned()) && left.contains(&"chat 5".to_owned()));
}

#[tokio::test]
async fn what_is_known_of_a_chat_follows_it() {
    let home = Home::new();
    let store = home.open().store;
    let (from, to) = (Chat::dm("7"), Chat::dm("8"));
    let moved =
        Change::Migrated { instance: "mail".to_owned(), from: from.clone(), to: to.clone(), routes: Vec::new() };
    write(&store, vec![saw(from.named("Ada"), 1), moved]).await;
    let known = store.known_chats("mail").await.unwrap();
    assert_eq!(known.iter().map(|known| (&known.chat, known.name.as_str())).collect::<Vec<_>>(), [(&to, "Ada")]);
}
