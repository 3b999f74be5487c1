//! The case for chats that an operator names. The host binds a conversation to the chat to which a target resolves, so
//! the key of that chat must equal the key of its messages.

use hermes_protocol::{Chat, ChatType, Event, method};
use serde_json::json;

use super::link::PATIENCE;
use super::{CaseResult, NotPassed, Stage, StagedRun, Subject};

impl<S: Subject, T: Stage> StagedRun<'_, S, T> {
    pub(super) async fn named_chat_is_its_messages_chat(&mut self) -> CaseResult {
        if !self.manifest.capabilities.resolve_target {
            return Err(NotPassed::Skipped("the adapter does not resolve targets".to_owned()));
        }
        let mut is_read = false;
        for kind in ["dm", "group"] {
            let event = self.heard(json!({ "chat": kind, "from": 1, "text": format!("the {kind} to name") })).await?;
            is_read |= self.reads(&event).await?;
        }
        match is_read {
            true => self.thread_of_named().await,
            false => Err(NotPassed::Skipped("the adapter does not resolve the ids of the simulated chats".to_owned())),
        }
    }

    /// Returns whether the chat of an event can be named. Fails if its name resolves to another chat.
    async fn reads(&mut self, event: &Event) -> Result<bool, NotPassed> {
        let base = base(&event.chat);
        let mut others = None;
        for word in names(&base) {
            match self.read_as(&word).await {
                Some(chat) if is_same(&chat, &base) => return self.person_is_read(event, &base).await.map(|()| true),
                Some(chat) => others = others.or(Some((word, chat))),
                None => {}
            }
        }
        self.person_is_read(event, &base).await?;
        match others {
            None => Ok(false),
            Some((word, chat)) => {
                Err(format!("{word:?} resolves to {}; received: {}", json!(chat), json!(base)).into())
            }
        }
    }

    /// Checks that the id of a person resolves to the chat in which that person writes direct messages.
    async fn person_is_read(&mut self, event: &Event, base: &Chat) -> CaseResult {
        if base.kind != ChatType::Dm {
            return Ok(());
        }
        for word in [event.sender.id.clone(), format!("@{}", event.sender.id)] {
            let read = self.read_as(&word).await.filter(|chat| chat.kind == ChatType::Dm);
            if let Some(chat) = read.filter(|chat| !is_same(chat, base)) {
                return Err(format!("{word:?} resolves to {}; received: {}", json!(chat), json!(base)).into());
            }
        }
        Ok(())
    }

    async fn read_as(&mut self, word: &str) -> Option<Chat> {
        let answer = self.link.call(method::RESOLVE_TARGET, &json!({ "target": word }), PATIENCE).await;
        let read = (answer.status == Some(0)).then(|| serde_json::from_slice(&answer.payload).ok())?;
        read.flatten()
    }

    /// Checks that a thread opened in a named group equals the chat of the thread's
    /// messages, and names its parent chat.
    async fn thread_of_named(&mut self) -> CaseResult {
        if !self.manifest.capabilities.create_handoff_thread {
            return Ok(());
        }
        let event = self.heard(json!({ "chat": "group", "from": 1, "text": "the group of a named thread" })).await?;
        let base = base(&event.chat);
        let mut named = None;
        for word in names(&base) {
            named = named.or(self.read_as(&word).await.filter(|chat| is_same(chat, &base)));
        }
        let Some(named) = named else { return Ok(()) };
        let opened = self.open_in(named, "certify-named").await?;
        if opened.kind == ChatType::Thread && opened.id != base.id && opened.parent.as_ref() != Some(&base.id) {
            return Err(format!("{} has no parent; expected {}", json!(opened), json!(base)).into());
        }
        let said = json!({ "chat": opened, "from": 1, "text": "the first in the named thread" });
        let next = self.heard(said).await?.chat;
        if next == opened {
            Ok(())
        } else {
            Err(format!("opened: {}; received: {}", json!(opened), json!(next)).into())
        }
    }
}

/// Returns the chat without the thread that a message of it may open.
fn base(chat: &Chat) -> Chat {
    let mut base = chat.clone();
    base.thread = None;
    if let (ChatType::Thread, Some(parent)) = (&chat.kind, &chat.parent) {
        base.id.clone_from(parent);
        base.kind = ChatType::Group;
    }
    base
}

/// Returns the words by which a chat may be named.
fn names(chat: &Chat) -> Vec<String> {
    let mut names = vec![chat.id.clone(), format!("#{}", chat.id)];
    names.extend(chat.name.iter().flat_map(|name| [name.clone(), format!("#{name}")]));
    names
}

fn is_same(chat: &Chat, other: &Chat) -> bool {
    (&chat.kind, &chat.id, &chat.thread) == (&other.kind, &other.id, &other.thread)
}
