//! Wake-ups at the start of their turn: the check whether the session still exists.

use hermes_core::ids::{InboxId, SessionId};
use hermes_protocol::{Event, Purpose};

use super::{Lane, Waiting};
use crate::engine::background::tasks::tell;
use crate::engine::background::wakeups;
use crate::engine::background::wakeups::WOKEN_IN_A_ROW_MAX;
use crate::engine::context;
use crate::engine::context::Heard;
use crate::engine::messages::{HostEvent, WatchNews, Woken};
use hermes_store::{Change, CommandTx};

/// The longest quotation of news for a chat whose conversation is over, in characters.
const TOLD_CHARS_MAX: usize = 1_000;

/// The line before news for a session that is over.
const OVER: &str = "Update for a conversation that has ended:";

/// The state of a session with a wake-up.
enum Fate {
    Here,
    /// The session continues under another id.
    In(SessionId),
    Over,
    /// The session was woken too often in a row, so a user has to write first.
    Often,
    /// The session has a handoff in progress.
    OnItsWay,
    /// The state cannot be read.
    Unclear,
}

impl Lane {
    /// Removes wake-ups that have to go elsewhere, and returns the other messages; `None`: none is left.
    pub(super) async fn still_awaited(&mut self, groups: Vec<Vec<Waiting>>) -> Option<Vec<Vec<Waiting>>> {
        if !groups.iter().flatten().any(is_news) {
            return Some(groups);
        }
        let fate = self.fate().await;
        if matches!(fate, Fate::Here) {
            return Some(groups);
        }
        let (news, others): (Vec<_>, Vec<_>) = groups.into_iter().partition(|group| group.first().is_some_and(is_news));
        let news: Vec<Heard> = news.into_iter().flatten().filter_map(super::queue::as_heard).collect();
        match fate {
            Fate::In(session) => self.pass_on(news, session).await,
            Fate::Over => self.tell_plainly(news, OVER, "its conversation has ended").await,
            Fate::Often => self.tell_plainly(news, &often(), "too many wake-ups in a row").await,
            Fate::OnItsWay => self.host.tell(HostEvent::Watch(WatchNews::Leased(self.session.clone()))).await,
            Fate::Unclear | Fate::Here => self.put_back().await,
        }
        (!others.is_empty()).then_some(others)
    }

    async fn fate(&self) -> Fate {
        // The event that opens a conversation elsewhere is no wake-up, so any lease blocks one.
        if self.leased(InboxId(0)).await.is_some() {
            return Fate::OnItsWay;
        }
        let store = &self.host.store;
        let row = store.session(&self.session).await;
        if let Ok(Some(row)) = &row
            && let Some(parent) = wakeups::beside(&self.host, row).await
        {
            return Fate::In(parent);
        }
        match row {
            Ok(Some(row)) if row.ended_ms.is_none() && row.woken >= WOKEN_IN_A_ROW_MAX => Fate::Often,
            Ok(Some(row)) if row.ended_ms.is_none() => Fate::Here,
            Ok(None) => Fate::Over,
            Ok(Some(_)) => match store.session_tip(&self.session).await {
                Ok(Some(tip)) if tip.id != self.session => Fate::In(tip.id),
                Ok(_) => Fate::Over,
                Err(_) => Fate::Unclear,
            },
            Err(_) => Fate::Unclear,
        }
    }

    /// Leaves wake-ups in the inbox, from where they are read again.
    pub(super) async fn put_back(&self) {
        self.host.tell(HostEvent::Watch(WatchNews::PutBack)).await;
    }

    /// Keeps wake-ups out of the events that an ending session drops; returns whether there were any.
    pub(super) fn keep_news(&mut self, ids: &mut Vec<InboxId>) -> bool {
        let before = ids.len();
        ids.retain(|id| !self.waiting.get(id).is_some_and(is_news));
        self.waiting.retain(|_, waiting| !is_news(waiting));
        ids.len() < before
    }

    async fn pass_on(&self, news: Vec<Heard>, session: SessionId) {
        for heard in news {
            let woken = Woken {
                inbox: heard.inbox,
                session: session.clone(),
                instance: heard.place.instance.clone(),
                input: heard.input.clone().unwrap_or_default(),
                event: heard.event.into_inner(),
            };
            self.host.tell(HostEvent::Watch(WatchNews::Woken(Box::new(woken)))).await;
        }
    }

    /// Sends the news to the chat as a notice after the text `before`, instead of a wake-up.
    async fn tell_plainly(&self, news: Vec<Heard>, before: &str, why: &str) {
        let Some(last) = news.last() else { return };
        tracing::info!(session = %self.session, instance = %last.place.instance, why, "session not woken; its chat is notified instead");
        // The chat of a task has its own notice of the task's end.
        let is_told = |event: &Event| before != OVER || !tell::is_wake(&event.event_id);
        let told = news.iter().map(|heard| heard.event.get()).filter(|event| is_told(event));
        let texts: Vec<&str> = told.map(|event| event.text.as_str()).collect();
        let mut reply = Vec::new();
        if !texts.is_empty() {
            let text = hermes_agent::tools::output::bounded(&texts.join("\n\n"), TOLD_CHARS_MAX);
            let (words, place) = (format!("{before}\n\n{text}"), &last.place);
            reply.push(context::compose(&self.host, &place.instance, place.chat.clone(), Purpose::Notice, words).await);
        }
        let ids = news.iter().map(|heard| heard.inbox).collect();
        let changes = vec![Change::DropInbox { ids, why: format!("{why}; the chat was notified instead") }];
        self.write_order(CommandTx { inbox: None, changes, reply, now_ms: self.host.now_ms() }).await;
    }
}

/// Returns the text before news for a session that is not woken until a user writes.
fn often() -> String {
    format!(
        "Background jobs have woken me {WOKEN_IN_A_ROW_MAX} times in a row without a message from you in between, \
         so I no longer act on them by myself. Write to me and I'll continue. The update:"
    )
}

fn is_news(waiting: &Waiting) -> bool {
    matches!(waiting, Waiting::Heard(heard) if heard.is_news())
}
