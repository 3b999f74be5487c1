//! Compression: a long conversation continues from a summary of itself.
//!
//! The runtime writes the summary outside of any turn (see [`super::summary`]), so nothing of its output reaches a chat
//! or the transcript. `/compress` starts a compression, and so does a turn whose history no longer fits into the
//! model's window. Meanwhile the session is busy: messages wait, and so does an interruption
//! ([`Lane::is_compressing`]). Afterwards the session is ended, another one begins with the summary and the last turn,
//! and every chat is bound to it. A failed compression changes nothing. The order stays in the inbox until then, so it
//! is carried out again after a crash.

use std::sync::Arc;
use std::time::Duration;

use hermes_core::delivery::strip_control;
use hermes_core::guard::{Arrival, Join};
use hermes_core::ids::InboxId;
use hermes_core::settings::BusyMode;
use hermes_protocol::Usage;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::Lane;
use super::conversation::Said;
use super::summary::{Original, Summary, sum_up};
use crate::engine::context::Place;
use crate::engine::handoff::Lease;
use hermes_core::text::counted;
use hermes_store::{Change, CommandTx, NewFork, NewSummary};

/// The smallest number of messages that is summarized.
const MESSAGES_MIN: usize = 4;

/// Turns that are kept unchanged, so that the conversation continues seamlessly.
const KEPT_TURNS: u32 = 1;

/// The time limit of a summary, in all its pieces.
const SUMMARY: Duration = Duration::from_secs(600);

/// The notice when a conversation no longer fits.
pub(super) const OUTGROWN: &str = "This conversation has become longer than the model can read. Its oldest messages are \
    being summarized; `/new` starts a fresh conversation.";

/// A summary in progress.
pub struct Compressing {
    place: Place,
    task: JoinHandle<Summary>,
    cancel: CancellationToken,
    until: Instant,
    /// Messages that it summarizes.
    messages: usize,
    /// True if the host started it because the conversation no longer fits: the chat was notified already and gets no
    /// further notice.
    by_itself: bool,
}

impl Drop for Compressing {
    fn drop(&mut self) {
        self.cancel.cancel();
        self.task.abort();
    }
}

/// Waits for the summary; forever if none is in progress. Cancel-safe.
pub(super) async fn next(compressing: &mut Option<Compressing>) -> Summary {
    let Some(compressing) = compressing else { return std::future::pending().await };
    let written = tokio::select! {
        written = &mut compressing.task => written,
        () = tokio::time::sleep_until(compressing.until) => return Err("the summary took too long".to_owned()),
    };
    written.unwrap_or_else(|error| {
        tracing::warn!(%error, "summary task failed");
        Err("the agent failed".to_owned())
    })
}

impl Lane {
    /// Returns whether the history is being compressed, so that nothing may end or replace it.
    pub(super) fn is_compressing(&self) -> bool {
        self.compressing.is_some()
    }

    /// Starts a compression of the session; `about` is the focus of the summary.
    pub(super) async fn compress(&mut self, place: Place, about: &str) {
        let remembered = self.memory.read(&self.host, &self.session).await;
        let messages = remembered.history.len();
        if messages < MESSAGES_MIN {
            let said = counted(messages as u64, "message");
            let words = format!("There is too little to compress: {said}, but at least {MESSAGES_MIN} are needed.");
            self.answer_order(&place, Said::only(words)).await;
            return;
        }
        self.begin_to_compress(place, about, false).await;
    }

    /// Returns whether the conversation has to be compressed because it no longer fits. After an attempt, the next one
    /// waits for some turns.
    pub(super) fn is_outgrown(&mut self, place: &Place, left_out: usize) -> bool {
        let is_possible = left_out > 0 && place.can_deliver_later() && !self.draining && self.guard.is_idle();
        let is_handed_over = || self.host.handoffs.lease(&self.session).is_some();
        is_possible && !is_handed_over() && self.memory.is_outgrown(MESSAGES_MIN)
    }

    /// Compresses a conversation that no longer fits, without an order.
    pub(super) async fn compress_by_itself(&mut self, place: Place) {
        tracing::info!(session = %self.session, "conversation exceeds the context window of the model; compressing it");
        self.begin_to_compress(place, "", true).await;
    }

    async fn begin_to_compress(&mut self, place: Place, about: &str, by_itself: bool) {
        let remembered = self.memory.read(&self.host, &self.session).await;
        let messages = remembered.history.len();
        let original = Original {
            session: self.session.clone(),
            model: remembered.settings.model.or_else(|| self.host.chosen_model()),
            earlier: remembered.summary,
            messages: remembered.history,
            about: about.to_owned(),
            outgrown: by_itself,
        };
        let cancel = CancellationToken::new();
        let task = tokio::spawn(sum_up(Arc::clone(&self.host), original, cancel.clone()));
        // Messages during the compression wait after it.
        let by = String::new();
        let arrival = Arrival { inbox: place.inbox, by, wish: BusyMode::Queue, join: Join::OwnTurn };
        let _ = self.guard.arrive(arrival, self.now());
        let until = Instant::now() + SUMMARY;
        self.compressing = Some(Compressing { place, task, cancel, until, messages, by_itself });
    }

    /// Handles the end of the summary, with or without a result.
    pub(super) async fn compressed(&mut self, summary: Summary) {
        let Some(compressing) = self.compressing.take() else { return };
        if let Some(words) = self.leased(compressing.place.inbox).await {
            return self.not_compressed(compressing, &words).await;
        }
        match summary {
            Ok((summary, usage)) => self.go_on_from(&compressing, &summary, usage).await,
            Err(why) => return self.not_compressed(compressing, &why).await,
        }
        self.free();
    }

    async fn go_on_from(&mut self, compressing: &Compressing, summary: &str, usage: Usage) {
        let summary = self.host.live().masker.mask(strip_control(summary)).trim().to_owned();
        let place = &compressing.place;
        let id = self.host.new_session_id();
        let words = format!(
            "Compressed: {} became a summary of {}, and the last exchange is kept. \
             `/resume {}` also leads here; the host keeps the full transcript.",
            counted(compressing.messages as u64, "message"),
            counted(summary.chars().count() as u64, "character"),
            self.session
        );
        let fork = NewFork {
            from: self.session.clone(),
            id: id.clone(),
            source: place.instance.to_string(),
            owner: None,
            title: None,
            started_ms: self.host.now_ms(),
        };
        let moved = self.rebind(None, &id).await;
        let mut changes = vec![Change::Compress(Box::new(NewSummary { fork, summary, keep_turns: KEPT_TURNS, usage }))];
        changes.extend(moved.routes.into_iter().map(Change::BindRoute));
        if compressing.by_itself {
            let now_ms = self.host.now_ms();
            self.write_order(CommandTx { inbox: None, changes, reply: Vec::new(), now_ms }).await;
        } else {
            self.answer_order(place, Said { words, changes }).await;
        }
        self.memory.forget();
    }

    /// Ends the compression of a session whose handoff begins meanwhile: the event that opens the conversation does not
    /// wait for a summary.
    pub(super) async fn compress_no_more(&mut self, heard: InboxId) {
        let opens = |lease: &Lease| lease.inbox == Some(heard);
        if !self.is_compressing() || !self.host.handoffs.lease(&self.session).as_ref().is_some_and(opens) {
            return;
        }
        if let Some(compressing) = self.compressing.take() {
            self.not_compressed(compressing, "a handoff of the conversation has started").await;
        }
    }

    /// Reports the reason for which the session is unchanged.
    pub(super) async fn not_compressed(&mut self, compressing: Compressing, why: &str) {
        let why = self.host.live().masker.mask(why).trim_end_matches('.').to_owned();
        if compressing.by_itself {
            tracing::warn!(session = %self.session, why, "conversation not compressed");
        } else {
            let words = format!("Not compressed: {why}. The conversation is unchanged.");
            self.answer_order(&compressing.place, Said::only(words)).await;
        }
        self.free();
    }

    /// Releases the messages that waited.
    fn free(&mut self) {
        self.guard.finished();
    }
}
