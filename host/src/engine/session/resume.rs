//! The list of conversations, and their continuation in another chat.
//!
//! A conversation belongs to its creator, and only the creator finds it here, from any chat; after a handoff to a
//! private chat it is also found there. A conversation with a running turn elsewhere cannot be resumed until that turn
//! is over.

use hermes_core::ids::SessionId;

use super::conversation::{Said, called};
use super::{Lane, Wish};
use crate::engine::context::Place;
use hermes_core::text::{counted, echo, span};
use hermes_store::{Change, InUse, Resolved, SessionFilter, SessionRow, StoreError};

/// Conversations on one page.
const PAGE_ROWS: u32 = 10;

/// Candidates that an ambiguous name lists.
const CANDIDATES_MAX: usize = 5;

const NOBODY: &str = "You can't be identified in this chat, so it is unknown which conversations are yours.";

impl Lane {
    /// Lists the conversations of a person, newest first.
    pub(super) async fn list(&mut self, owner: Option<&str>, page: u32) -> Result<Said, StoreError> {
        let Some(owner) = owner else { return Ok(Said::only(NOBODY)) };
        let offset = page.saturating_sub(1).saturating_mul(PAGE_ROWS);
        let rows = self.page(owner, offset, PAGE_ROWS + 1).await?;
        if rows.is_empty() {
            return Ok(Said::only(match page {
                0 | 1 => "You have no conversations yet.",
                _ => "There are no more conversations.",
            }));
        }
        let now_ms = self.host.now_ms();
        let mut lines = vec!["Your conversations, most recent first:".to_owned()];
        for (number, row) in (offset as usize + 1..).zip(rows.iter().take(PAGE_ROWS as usize)) {
            self.listed.insert(number, row.id.clone());
            let here = if row.id == self.session { " (here)" } else { "" };
            let used = span(now_ms - row.active_ms);
            lines.push(format!("{number}. {}, {}, {used} ago{here}", called(row), counted(row.messages, "message")));
        }
        lines.push(String::new());
        lines.push("`/resume NUMBER` continues one.".to_owned());
        if rows.len() > PAGE_ROWS as usize {
            lines.push(format!("`/sessions {}` shows more.", page.max(1).saturating_add(1)));
        }
        Ok(Said::only(lines.join("\n")))
    }

    /// Continues another conversation of the same person in this chat.
    pub(super) async fn resume_session(&mut self, place: &Place, wish: &Wish, name: &str) -> Result<Said, StoreError> {
        let Some(owner) = wish.owner.as_deref() else { return Ok(Said::only(NOBODY)) };
        let current = self.host.store.session(&self.session).await?;
        if let Some(why) = may_not_leave(wish, owner, current.as_ref()) {
            return Ok(Said::only(why));
        }
        let target = match self.wanted(owner, name).await? {
            Ok(target) => target,
            Err(words) => match self.handed_here(place, name).await? {
                Some(target) => target,
                None => return Ok(Said::only(words)),
            },
        };
        if target.id == self.session {
            return Ok(Said::only(format!("You are already in {}.", called(&target))));
        }
        if let Some(in_use) = self.host.store.session_in_use(&target.id).await? {
            return Ok(Said::only(elsewhere(&target, in_use)));
        }
        self.switch_to(wish, &target).await
    }

    /// Binds this chat to another conversation, and ends this one if no other chat uses it.
    pub(super) async fn switch_to(&mut self, wish: &Wish, target: &SessionRow) -> Result<Said, StoreError> {
        let moved = self.rebind(Some(wish.key.clone()), &target.id).await;
        if moved.routes.is_empty() {
            return Ok(Said::only("This chat has switched to another conversation. Please run the command again."));
        }
        let mut changes = self.takeover_changes();
        // A session that was never stored has nothing to end.
        if self.birth.is_none() && !moved.still_led_to {
            changes.push(Change::EndSession { session: self.session.clone(), reason: "switched".to_owned() });
        }
        changes.push(Change::ReopenSession { session: target.id.clone() });
        changes.extend(moved.routes.into_iter().map(Change::BindRoute));
        let used = span(self.host.now_ms() - target.active_ms);
        let messages = counted(target.messages, "message");
        let words = format!("Back in {}: {messages}, last used {used} ago.", called(target));
        Ok(Said { words, changes })
    }

    /// Returns the person's conversation for a number, a title or an id, or the reason if there is none.
    async fn wanted(&self, owner: &str, name: &str) -> Result<Result<SessionRow, String>, StoreError> {
        let unknown = || Err(format!("You have no conversation {}. `/sessions` lists yours.", echo(name)));
        let number = name.strip_prefix('#').unwrap_or(name).parse().ok().filter(|number| *number > 0);
        if let Some(number) = number {
            // A title may be a number, too; the number of the list has precedence.
            let listed = match self.listed.get(&number) {
                Some(listed) => self.host.store.session(listed).await?,
                None => self.page(owner, u32::try_from(number - 1).unwrap_or(u32::MAX), 1).await?.pop(),
            };
            if let Some(row) = listed.filter(|row| row.owner.as_deref() == Some(owner)) {
                return self.tip(row).await;
            }
        }
        Ok(match self.host.store.resolve_session(name, Some(owner)).await? {
            Resolved::Found(row) => return self.tip(*row).await,
            Resolved::Unknown => unknown(),
            Resolved::Ambiguous(ids) => {
                let ids: Vec<String> = ids.iter().take(CANDIDATES_MAX).map(|id| format!("`{id}`")).collect();
                let (name, ids) = (echo(name), ids.join(", "));
                Err(format!("Several conversations begin with {name}: {ids}. Give more of the id."))
            }
        })
    }

    /// Returns the latest successor of a conversation after compressions.
    async fn tip(&self, row: SessionRow) -> Result<Result<SessionRow, String>, StoreError> {
        let id: SessionId = row.id.clone();
        Ok(Ok(self.host.store.session_tip(&id).await?.unwrap_or(row)))
    }

    async fn page(&self, owner: &str, offset: u32, limit: u32) -> Result<Vec<SessionRow>, StoreError> {
        let filter = SessionFilter {
            owner: Some(owner.to_owned()),
            with_ended: true,
            resumable: true,
            offset,
            limit,
            ..SessionFilter::default()
        };
        self.host.store.sessions(filter).await
    }
}

/// Returns the reason for which a sender may not move a chat away from its conversation.
pub(super) fn may_not_leave(wish: &Wish, owner: &str, current: Option<&SessionRow>) -> Option<String> {
    let theirs = current.is_none_or(|row| row.owner.as_deref() == Some(owner));
    (wish.several && !theirs && !wish.is_staff).then(|| {
        "Several people share this conversation; only the person who started it can switch the chat to another one."
            .to_owned()
    })
}

/// Returns the reason for which a conversation cannot be continued here.
pub(super) fn elsewhere(target: &SessionRow, in_use: InUse) -> String {
    let called = called(target);
    match in_use {
        InUse::Turn => format!(
            "{called} is answering a message elsewhere right now. Try again when it has finished, or stop it there."
        ),
        InUse::Handoff => format!("A handoff of {called} is in progress. Please try again in a moment."),
    }
}
