//! A long conversation goes on from a summary of itself.
//!
//! The runtime sums up, outside of any turn: nothing it says reaches a chat or the
//! transcript. Meanwhile the session is busy, so whatever is said waits, and an
//! interruption waits too ([`Lane::is_compressing`]). When it is done the session is
//! ended, another one begins with the summary and the last turn, and every chat leads
//! there. When it fails nothing has changed. The order stays in the inbox until then,
//! so after a crash it is obeyed again.

use std::sync::Arc;
use std::time::Duration;

use hermes_agent::{EventSink, Message, TurnOutcome, TurnRequest};
use hermes_core::context::TurnContext;
use hermes_core::delivery::strip_control;
use hermes_core::guard::{Arrival, Join};
use hermes_core::ids::{InboxId, TurnId};
use hermes_core::settings::BusyMode;
use hermes_protocol::Usage;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::Lane;
use super::conversation::Said;
use crate::context::{self, Place};
use crate::handoff::Lease;
use crate::host::Host;
use crate::status::human::counted;
use crate::store::{Change, NewFork, NewSummary};

/// Fewer messages than this are not worth a summary.
const MESSAGES_MIN: usize = 4;

/// Turns that are kept as they are, so that the conversation goes on where it was.
const KEPT_TURNS: u32 = 1;

/// How long a summary may take.
const SUMMARY: Duration = Duration::from_secs(300);

const INSTRUCTION: &str = "Write a summary of the conversation so far that takes its place from here on. Keep what was \
    decided, found out and left open, names, numbers, paths and what the person wants and likes. Write plain text, \
    without a greeting and without comments on the summary itself.";

/// A summary that is being written.
pub struct Compressing {
    place: Place,
    task: JoinHandle<TurnOutcome>,
    cancel: CancellationToken,
    until: Instant,
    /// Messages it sums up.
    messages: usize,
}

impl Drop for Compressing {
    fn drop(&mut self) {
        self.cancel.cancel();
        self.task.abort();
    }
}

/// A summary and what it cost, or why there is none.
pub type Summary = Result<(String, Usage), String>;

/// Waits for the summary; for ever when none is being written. Cancel-safe.
pub(super) async fn next(compressing: &mut Option<Compressing>) -> Summary {
    let Some(compressing) = compressing else { return std::future::pending().await };
    let outcome = tokio::select! {
        outcome = &mut compressing.task => outcome,
        () = tokio::time::sleep_until(compressing.until) => return Err("the summary took too long".to_owned()),
    };
    match outcome {
        Ok(TurnOutcome::Finished { text, usage, .. }) if !text.trim().is_empty() => Ok((text, usage)),
        Ok(TurnOutcome::Finished { .. }) => Err("the agent wrote no summary".to_owned()),
        Ok(TurnOutcome::Interrupted { .. }) => Err("it was interrupted".to_owned()),
        Ok(TurnOutcome::Failed(failure)) => Err(failure.sentence),
        Err(error) => {
            tracing::warn!(%error, "the runtime's task ended over a summary");
            Err("the agent broke down over it".to_owned())
        }
    }
}

impl Lane {
    /// Whether the history is being compressed, so that nothing may end or replace it.
    pub(super) fn is_compressing(&self) -> bool {
        self.compressing.is_some()
    }

    /// Begins to compress the session; `about` is what the summary should look out for.
    pub(super) async fn compress(&mut self, place: Place, about: &str) {
        let remembered = self.memory.read(&self.host, &self.session).await;
        let messages = remembered.history.len();
        if messages < MESSAGES_MIN {
            let said = counted(messages as u64, "message");
            let words = format!("There is too little to compress: {said}, and {MESSAGES_MIN} are the least.");
            self.answer_order(&place, Said::only(words)).await;
            return;
        }
        let instruction = match about {
            "" => INSTRUCTION.to_owned(),
            about => format!("{INSTRUCTION} Look out above all for this: {about}"),
        };
        let request = TurnRequest {
            session_id: self.session.clone(),
            turn_id: TurnId::default(),
            context: TurnContext { session_id: Some(self.session.clone()), ..TurnContext::default() },
            system: context::with_summary(String::new(), remembered.summary.as_deref()),
            history: remembered.history,
            input: vec![Message::user(instruction)],
            media: None,
            model: remembered.settings.model.or_else(|| self.host.chosen_model()),
            reasoning: None,
            state: None,
            steps: Vec::new(),
            tools: false,
        };
        let cancel = CancellationToken::new();
        let task = tokio::spawn(sum_up(Arc::clone(&self.host), request, cancel.clone()));
        // What is said meanwhile waits behind the order.
        let by = String::new();
        let arrival = Arrival { inbox: place.inbox, by, wish: BusyMode::Queue, join: Join::OwnTurn };
        let _ = self.guard.arrive(arrival, self.now());
        self.compressing = Some(Compressing { place, task, cancel, until: Instant::now() + SUMMARY, messages });
    }

    /// The summary is there, or there will be none.
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
             `/resume {}` leads here, too; the host keeps the full transcript.",
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
        self.answer_order(place, Said { words, changes }).await;
        self.memory.forget();
    }

    /// A session that is handed over meanwhile goes on as it is: what opens it in its chat waits for no summary.
    pub(super) async fn compress_no_more(&mut self, heard: InboxId) {
        let opens = |lease: &Lease| lease.inbox == Some(heard);
        if !self.is_compressing() || !self.host.handoffs.lease(&self.session).as_ref().is_some_and(opens) {
            return;
        }
        if let Some(compressing) = self.compressing.take() {
            self.not_compressed(compressing, "the conversation is just being handed over").await;
        }
    }

    /// Says why the session is as it was.
    pub(super) async fn not_compressed(&mut self, compressing: Compressing, why: &str) {
        let why = self.host.live().masker.mask(why).trim_end_matches('.').to_owned();
        let words = format!("Not compressed: {why}. The conversation is as it was.");
        self.answer_order(&compressing.place, Said::only(words)).await;
        self.free();
    }

    /// What waited goes on.
    fn free(&mut self) {
        self.guard.finished();
    }
}

async fn sum_up(host: Arc<Host>, request: TurnRequest, cancel: CancellationToken) -> TurnOutcome {
    let _room = match Arc::clone(&host.turns).acquire_owned().await {
        Ok(room) => room,
        // Nobody closes the semaphore; without it there would be no bound to keep.
        Err(_) => return TurnOutcome::Interrupted { text: String::new() },
    };
    let (sink, mut said) = EventSink::channel();
    let unheard = async { while said.recv().await.is_some() {} };
    tokio::join!(host.runtime.run(request, sink, cancel), unheard).0
}
