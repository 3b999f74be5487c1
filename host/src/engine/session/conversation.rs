//! Operations on a conversation as a whole: title, undo, retry, branch, usage.
//!
//! Each is one transaction with its reply. None deletes anything.

use hermes_agent::Message;
use hermes_core::ids::SessionId;
use hermes_core::session::title_from;
use hermes_protocol::{Purpose, Usage};

use super::Lane;
use crate::engine::context::{Heard, Place};
use hermes_core::text::{counted, echo, one_line};
use hermes_store::{Change, CommandTx, NewFork, SessionFilter, SessionRow, Store, StoreError};

/// The largest number of turns that one `/undo` takes back.
pub const UNDO_TURNS_MAX: u32 = 100;

/// Conversations that `/usage` lists individually.
const USAGE_ROWS: u32 = 5;

const NOTHING_SAID: &str = "This conversation has no messages yet.";

/// A requested operation on a conversation.
#[derive(Debug)]
pub struct Wish {
    /// The requester, as sessions name their owner.
    pub owner: Option<String>,
    /// The stored key of the chat of the request.
    pub key: String,
    /// True if the requester may change a shared conversation of another owner.
    pub is_staff: bool,
    /// True if several people share the conversation.
    pub several: bool,
    /// The operation.
    pub kind: WishKind,
}

/// The kinds of operations.
#[derive(Debug)]
pub enum WishKind {
    /// Answer the last message again; the event requests that.
    Retry(Box<Heard>),
    /// Take the last turns back.
    Undo(u32),
    /// Restore the last turns that were taken back.
    Redo,
    /// Set or show the title.
    Title(Option<String>),
    /// Start a branch with this title.
    Branch(Option<String>),
    /// Continue from a summary with this focus.
    Compress(String),
    /// List conversations, page by page from 1.
    List(u32),
    /// Continue with another conversation.
    Resume(String),
    /// Release a conversation that came from the terminal.
    Return,
    /// Continue with a conversation that the terminal offered.
    Claim(SessionId),
    /// Show the usage.
    Usage,
}

/// A reply, and the changes of the same transaction.
pub(super) struct Said {
    pub(super) words: String,
    pub(super) changes: Vec<Change>,
}

impl Said {
    /// Creates a reply without changes.
    pub(super) fn only(words: impl Into<String>) -> Self {
        Self { words: words.into(), changes: Vec::new() }
    }
}

impl Lane {
    /// Carries out an operation and replies.
    pub(super) async fn converse(&mut self, place: Place, wish: Wish) {
        let Wish { ref owner, ref key, .. } = wish;
        let said = match wish.kind {
            WishKind::Retry(heard) => return self.retry(place, *heard).await,
            WishKind::Compress(about) => return self.compress(place, &about).await,
            WishKind::Undo(turns) => self.undo(turns).await,
            WishKind::Redo => self.redo().await,
            WishKind::Title(None) => self.tell_title().await,
            WishKind::Title(Some(title)) => return self.give_title(place, title).await,
            WishKind::Branch(title) => self.branch(&place, key, title).await,
            WishKind::List(page) => self.list(owner.as_deref(), page).await,
            WishKind::Resume(ref name) => self.resume_session(&place, &wish, name).await,
            WishKind::Return => match self.hand_back(&place, &wish).await {
                Ok(()) => return,
                Err(error) => Err(error),
            },
            WishKind::Claim(ref session) => self.claim(&place, &wish, session).await,
            WishKind::Usage => self.tell_usage(owner.as_deref()).await,
        };
        self.answer_order(&place, said.unwrap_or_else(|error| Said::only(unreadable(&error)))).await;
    }

    /// Writes a reply with its changes. Returns whether they are written.
    pub(super) async fn answer_order(&self, place: &Place, said: Said) -> bool {
        let Said { words, changes } = said;
        let reply = place.say(&self.host, Purpose::Reply, words).await;
        let order = CommandTx { inbox: Some(place.inbox), changes, reply: vec![reply], now_ms: self.host.now_ms() };
        self.write_order(order).await
    }

    async fn undo(&mut self, turns: u32) -> Result<Said, StoreError> {
        let taken = self.host.store.last_turns(&self.session, turns.min(UNDO_TURNS_MAX)).await?;
        let Some(first) = taken.last() else { return Ok(Said::only("There is nothing to undo.")) };
        let quote = first.heard.first().map(quote).unwrap_or_default();
        let words = match taken.len() {
            1 => format!("Removed: {quote}. `/undo redo` restores it."),
            n => format!("Removed: your last {n} messages, from {quote} on. `/undo redo` restores them."),
        };
        self.memory.forget();
        Ok(Said { words, changes: vec![Change::Undo { session: self.session.clone(), from: first.first }] })
    }

    async fn redo(&mut self) -> Result<Said, StoreError> {
        let Some(taken) = self.host.store.last_taken(&self.session).await? else {
            return Ok(Said::only("There is nothing to restore."));
        };
        if taken.overtaken {
            return Ok(Said::only("Newer messages have been sent since, so the removed ones cannot be restored."));
        }
        self.memory.forget();
        let words = match taken.turns {
            1 => "Your message and its answer are restored.".to_owned(),
            n => format!("Your {n} messages and their answers are restored."),
        };
        Ok(Said { words, changes: vec![Change::Redo { session: self.session.clone(), number: taken.number }] })
    }

    /// Answers the last message again. One transaction takes the former answer back and assigns the message to this
    /// event, so a crash in between loses neither.
    async fn retry(&mut self, place: Place, mut heard: Heard) {
        let last = match self.host.store.last_turns(&self.session, 1).await {
            Ok(last) => last.into_iter().next().filter(|turn| !turn.heard.is_empty()),
            Err(error) => {
                self.answer_order(&place, Said::only(unreadable(&error))).await;
                return;
            }
        };
        let Some(last) = last else {
            self.answer_order(&place, Said::only("There is no message to answer again.")).await;
            return;
        };
        let changes = vec![
            Change::Undo { session: self.session.clone(), from: last.first },
            Change::Hear { inbox: place.inbox, input: last.heard.clone() },
        ];
        let order = CommandTx { inbox: None, changes, reply: Vec::new(), now_ms: self.host.now_ms() };
        if self.write_order(order).await {
            self.memory.forget();
            heard.input = Some(last.heard);
            if let Some(refused) = self.hear(Box::new(heard)).await {
                self.refuse(vec![*refused]).await;
            }
        }
    }

    async fn tell_title(&self) -> Result<Said, StoreError> {
        let row = self.host.store.session(&self.session).await?;
        Ok(Said::only(match row.and_then(|row| row.title) {
            Some(title) => format!("This conversation is called **{title}**. `/title TEXT` renames it."),
            None => "This conversation has no title yet. `/title TEXT` sets one.".to_owned(),
        }))
    }

    async fn give_title(&mut self, place: Place, title: String) {
        let mut changes = Vec::new();
        self.be_born(&place, &mut changes).await;
        changes.push(Change::SetTitle { session: self.session.clone(), title: Some(title.clone()) });
        let words = format!("This conversation is now called **{}**.", one_line(&title, 200));
        let reply = place.say(&self.host, Purpose::Reply, words).await;
        let order = CommandTx { inbox: Some(place.inbox), changes, reply: vec![reply], now_ms: self.host.now_ms() };
        let written = match self.host.store.command(order.clone()).await {
            Err(error @ (StoreError::TitleTaken { .. } | StoreError::TitleTooLong { .. })) => {
                self.answer_order(&place, Said::only(format!("Not renamed: {error}."))).await;
                return;
            }
            Ok(ids) => {
                self.host.carry(ids, order.reply).await;
                true
            }
            // Retried like every order, and logged.
            Err(_) => self.write_order(order).await,
        };
        if written {
            self.birth = None;
            self.memory.name();
        }
    }

    /// Returns the changes that end the session which this unwritten one replaces.
    pub(super) fn takeover_changes(&self) -> Vec<Change> {
        let takeover = self.birth.as_ref().and_then(|birth| birth.takeover.as_ref());
        let end = takeover.map(|takeover| Change::EndSession {
            session: takeover.former.clone(),
            reason: takeover.reason.to_owned(),
        });
        end.into_iter().collect()
    }

    async fn branch(&mut self, place: &Place, key: &str, title: Option<String>) -> Result<Said, StoreError> {
        if let Some(title) = &title
            && let Err(error) = Store::check_title(title)
        {
            return Ok(Said::only(format!("Not branched: {error}.")));
        }
        match self.host.store.session(&self.session).await? {
            Some(row) if row.messages > 0 => {}
            _ => return Ok(Said::only(NOTHING_SAID)),
        }
        let id = self.host.new_session_id();
        let moved = self.rebind(Some(key.to_owned()), &id).await;
        if moved.routes.is_empty() {
            return Ok(Said::only("This chat has switched to another conversation. Please run the command again."));
        }
        let fork = NewFork {
            from: self.session.clone(),
            id,
            source: place.instance.to_string(),
            owner: None,
            title,
            started_ms: self.host.now_ms(),
        };
        let mut changes = vec![Change::Fork(fork)];
        changes.extend(moved.routes.into_iter().map(Change::BindRoute));
        if !moved.still_led_to {
            changes.push(Change::EndSession { session: self.session.clone(), reason: "branched".to_owned() });
        }
        let words = format!(
            "Switched to a new branch of this conversation. `/resume {}` returns to the original.",
            self.session
        );
        Ok(Said { words, changes })
    }

    async fn tell_usage(&self, owner: Option<&str>) -> Result<Said, StoreError> {
        let mut lines = match self.host.store.session(&self.session).await? {
            Some(row) => vec![format!("- This conversation: {}", costs(row.turns, &row.usage))],
            None => vec![format!("- This conversation: {}", costs(0, &Usage::default()))],
        };
        // Without an owner the requester has no other conversations.
        if let Some(owner) = owner {
            let all = self.host.store.usage_of(owner).await?;
            lines.push(format!(
                "- All of yours ({}): {}",
                counted(all.sessions, "conversation"),
                costs(all.turns, &all.usage)
            ));
            let filter = SessionFilter {
                owner: Some(owner.to_owned()),
                with_ended: true,
                limit: USAGE_ROWS,
                ..SessionFilter::default()
            };
            let recent = self.host.store.sessions(filter).await?;
            let recent = recent.iter().filter(|row| row.turns > 0);
            lines.extend(recent.map(|row| format!("  - {}: {}", called(row), costs(row.turns, &row.usage))));
        }
        Ok(Said::only(lines.join("\n")))
    }

    /// Returns the title for a session without one after the first message.
    pub(super) fn title_after(&self, heard: &Heard) -> Option<String> {
        if self.memory.is_named() {
            return None;
        }
        let said = heard.input.as_ref().and_then(|input| input.first()).map(|message| message.content.as_str());
        title_from(said.unwrap_or(heard.event.get().text.as_str()))
    }

    /// Sets the title of the session unless it has one.
    pub(super) async fn name_after(&mut self, title: &str) {
        match self.host.store.session_name_after(&self.session, title).await {
            Ok(_) => self.memory.name(),
            // A title can wait for the next turn.
            Err(error) => tracing::warn!(session = %self.session, %error, "session title could not be saved"),
        }
    }
}

/// Returns the display name of a conversation.
pub(super) fn called(row: &SessionRow) -> String {
    match &row.title {
        Some(title) => format!("**{}**", one_line(title, 100)),
        None => format!("`{}`", row.id),
    }
}

fn costs(turns: u64, usage: &Usage) -> String {
    let (input, output) = (usage.input_tokens, usage.output_tokens);
    let tokens = counted(input.saturating_add(output), "token");
    format!("{}, {tokens} ({input} in, {output} out)", counted(turns, "turn"))
}

fn quote(message: &Message) -> String {
    echo(&message.content)
}

pub(super) fn unreadable(error: &StoreError) -> String {
    tracing::error!(%error, "conversation could not be read");
    "The conversation could not be read. Please try again later; the host's log has the error.".to_owned()
}
