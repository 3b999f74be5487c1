//! Messages of the host in a transcript.

use super::*;

#[tokio::test]
async fn what_is_mirrored_stands_in_the_transcript_and_only_of_an_open_session() {
    let home = Home::new();
    let store = home.open().store;
    let write = |changes| store.command(CommandTx { inbox: None, changes, reply: Vec::new(), now_ms: START_MS });
    let session = session_id(1);
    write(vec![Change::NewSession(new_session(1))]).await.unwrap();
    let mirror = || Change::Mirror {
        session: session.clone(),
        said: NewMessage::new(Message::assistant("the backup is done"), START_MS),
    };
    write(vec![mirror()]).await.unwrap();
    let history = store.history(&session, 10).await.unwrap();
    assert_eq!(history.iter().map(|row| row.message.content.as_str()).collect::<Vec<_>>(), ["the backup is done"]);
    assert_eq!(store.session(&session).await.unwrap().unwrap().messages, 1);
    write(vec![Change::EndSession { session: session.clone(), reason: "new".to_owned() }]).await.unwrap();
    assert!(matches!(write(vec![mirror()]).await, Err(StoreError::Conflict { .. })));
}
