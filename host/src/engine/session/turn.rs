//! A running turn: the runtime's task, its text so far, and the time of its last output.
//!
//! The runtime runs in a task of its own, so that a panic fails only this turn and a hanging runtime can be abandoned.
//! Later output of an abandoned task goes into a closed channel.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use hermes_agent::questions::PendingQuestion;
use hermes_agent::steer::{LineRequest, SteeringRequest, TurnLine};
use hermes_agent::{EventSink, Failure, Message, Role, TurnOutcome, TurnRequest};
use hermes_core::delivery::strip_control;
use hermes_core::ids::{DeliveryId, InboxId, TurnId};
use hermes_core::limits::INTERRUPT_MS_MAX;
use hermes_core::settings::ProgressMode;
use hermes_protocol::{StreamKind, TurnEvent};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::STOP_GRACE;
use super::ask::{Asks, Over};
use super::draft::Draft;
use super::hint_line::HintLine;
use super::hints::{NativeStream, Typing};
use crate::engine::active_turns::{Listed, Work, beginning};
use crate::engine::agent_health::Waits;
use crate::engine::background::tasks;
use crate::engine::context::{Heard, Spoken};
use crate::engine::run_tokens::TokenLease;
use crate::engine::runtime::{CountedTurn, Host};
use crate::engine::session::display::{Dress, Manner, Tools};
use crate::engine::session::outcome::Conclusion;
use crate::engine::session::reactions::Reacting;
use crate::engine::timer::Timer;
use hermes_config::StreamMode;
use hermes_config::mask::Masker;
use hermes_store::{NewDelivery, ObservedUpTo, OwedDelivery, TurnEnd};

/// A running turn.
pub struct Running {
    /// The turn.
    pub turn: TurnId,
    /// The event that the turn answers.
    pub heard: Heard,
    /// The input, in the form of the transcript.
    pub input: Vec<Message>,
    /// The kept facts about the events of each message of the input.
    pub said_by: Vec<Spoken>,
    /// Start time, in milliseconds since the Unix epoch.
    pub began_ms: i64,
    /// The channel that steers the turn.
    pub line: TurnLine,
    /// Its open questions.
    pub asks: Asks,
    /// The right of its processes to use the control socket.
    pub control: Option<TokenLease>,
    /// Group messages that it sees as context.
    pub observed: Option<ObservedUpTo>,
    /// Time at which an interrupted turn is stopped if it has not reached a safe point.
    interrupted_until: Option<Instant>,
    task: JoinHandle<TurnOutcome>,
    events: mpsc::Receiver<TurnEvent>,
    cancel: CancellationToken,
    said: String,
    said_bytes_max: usize,
    masker: Masker,
    doing: String,
    pace: Pace,
    stream: Option<NativeStream>,
    draft: Option<Draft>,
    tools: Tools,
    manner: Manner,
    home: PathBuf,
    clock: Arc<dyn Timer>,
    hints: Option<HintLine>,
    typing: Option<Typing>,
    reacting: Option<Reacting>,
    /// Listed as waiting until the agent's first output.
    waits: Option<Waits>,
    _counted: CountedTurn,
    _listed: Listed,
}

/// An event of a running turn.
#[derive(Debug)]
pub enum Step {
    /// New text, which was shown to observers.
    Said,
    /// The turn is over.
    Ended(TurnOutcome),
    /// The turn takes the steering messages.
    Asks(SteeringRequest),
    /// The turn asks a question.
    Wants(PendingQuestion),
    /// A question of the turn ends without an answer.
    NotAnswered(String, Over),
    /// The interrupted turn does not reach a safe point.
    Stuck,
    /// The turn was inactive for too long.
    Silent,
    /// The turn has been running for a while; the text is a notice for the chat.
    StillWorking(String),
}

impl Running {
    /// Starts the runtime on a committed turn.
    pub fn start(
        host: &Arc<Host>,
        turn: TurnId,
        heard: Heard,
        said_by: Vec<Spoken>,
        request: TurnRequest,
        manner: Manner,
    ) -> Self {
        let live = host.live();
        let session = live.session_of(&heard.place.instance);
        let adapter = heard.place.adapter.clone();
        let capabilities = adapter.as_ref().map(|adapter| adapter.capabilities());
        let streams = session.stream == StreamMode::Auto;
        // The turn of a task, or for a service, has no observers.
        let is_read = !tasks::runs(&heard) && heard.place.deliver.is_none();
        let stream = match (&adapter, &capabilities) {
            _ if !is_read => None,
            // Nobody has opened a stream for an event of the host.
            (Some(adapter), Some(can)) if streams && can.stream == StreamKind::Native && !heard.is_news() => {
                Some(NativeStream::start(adapter.clone(), heard.inbox))
            }
            _ => None,
        };
        if let Some(stream) = &stream {
            stream.push(TurnEvent::Metadata {
                session_id: request.session_id.0.clone(),
                turn_id: turn.0,
                model: request.model.clone().or_else(|| host.runtime.models().into_iter().next()).unwrap_or_default(),
                runtime: host.runtime.name().to_owned(),
            });
        }
        let hints = adapter.as_ref().map(|adapter| HintLine::to(host, adapter.clone()));
        let typing = is_read.then(|| typing(hints.as_ref(), &heard)).flatten();
        let reacting = Reacting::start(host, &heard);
        // The chat gets progress notices only if they can still arrive.
        let beats = heard.place.can_deliver_later();
        let pace = Pace::new(
            Arc::clone(&host.clock),
            session.inactivity,
            session.inactivity_warning,
            session.heartbeat,
            beats,
        );
        let said_bytes_max = live.config.limits.reply_bytes_max;
        let input = request.input.clone();
        let tools = Tools::new(&heard, if is_read { manner.progress } else { ProgressMode::Off });
        // The output of a background turn is shown when it is complete, with its question.
        let draft = if heard.aside || heard.place.deliver.is_some() { None } else { Draft::start(host, &heard) };
        let began_ms = host.now_ms();
        let listed = host.working.list(Work {
            turn,
            session: request.session_id.clone(),
            chat: heard.place.chat.clone(),
            instance: Arc::clone(&heard.place.instance),
            inbox: heard.inbox,
            owner: heard.owner.clone(),
            asked: beginning(&heard.event.get().text),
            since_ms: began_ms,
            aside: heard.aside,
        });
        let cancel = CancellationToken::new();
        let (sink, events, line) = EventSink::with_line();
        let task = tokio::spawn(answer(Arc::clone(host), request, sink, cancel.clone()));
        Self {
            turn,
            heard,
            input,
            said_by,
            began_ms,
            line,
            asks: Asks::default(),
            control: None,
            observed: None,
            interrupted_until: None,
            task,
            events,
            cancel,
            said: String::new(),
            said_bytes_max,
            masker: live.masker.clone(),
            doing: String::new(),
            pace,
            stream,
            draft,
            tools,
            manner,
            home: live.config.home.clone(),
            clock: Arc::clone(&host.clock),
            hints,
            typing,
            reacting,
            waits: Some(host.health.waits(turn, began_ms)),
            _counted: host.count_turn(),
            _listed: listed,
        }
    }

    /// Waits for the next event. Cancel-safe.
    pub async fn next(&mut self) -> Step {
        tokio::select! {
            biased;
            Some(event) = self.events.recv() => {
                self.hear(event);
                Step::Said
            }
            ended = &mut self.task => {
                // Earlier output may still be in the channel.
                while let Ok(event) = self.events.try_recv() {
                    self.hear(event);
                }
                match ended {
                    Ok(outcome) => Step::Ended(outcome),
                    // Only the end of the process cancels the task; the next run of the host finds the turn running.
                    Err(error) if error.is_cancelled() => std::future::pending().await,
                    Err(error) => Step::Ended(TurnOutcome::Failed(broken(&error))),
                }
            }
            () = draft_due(&self.draft) => Step::Said,
            call = self.line.next_request(!self.asks.is_full()) => match call {
                LineRequest::Steer(ask) => Step::Asks(ask),
                LineRequest::People(asked) => Step::Wants(asked),
            },
            (id, over) = self.asks.over(&*self.clock) => Step::NotAnswered(id, over),
            () = at(&*self.clock, self.interrupted_until) => Step::Stuck,
            // A turn that waits for a person is not inactive.
            beat = self.pace.next(), if self.asks.is_empty() => match beat {
                Beat::Silent => Step::Silent,
                Beat::Warn { silent_min } => Step::StillWorking(format!(
                    "The agent has been silent for {silent_min} minutes. /stop ends the turn."
                )),
                Beat::Working { minutes } => Step::StillWorking(self.still_working(minutes)),
            },
        }
    }

    fn hear(&mut self, mut event: TurnEvent) {
        self.pace.heard();
        self.waits = None;
        match &mut event {
            TurnEvent::Chunk { text } if self.said.len() + text.len() <= self.said_bytes_max => {
                // A secret that is split between two pieces is masked in the answer, which replaces the shown text.
                *text = self.masker.mask(strip_control(text)).into_owned();
                self.said.push_str(text);
                if let Some(draft) = &mut self.draft {
                    draft.heard_text(text);
                }
            }
            TurnEvent::Chunk { .. } => return,
            TurnEvent::Progress { text, stage, tool } => {
                *text = self.masker.mask(strip_control(text)).into_owned();
                self.doing.clone_from(text);
                if stage == "tool" {
                    self.tools.used(&self.home, self.clock.now_ms(), tool.as_deref().unwrap_or("tool"), text);
                    if let Some(draft) = &mut self.draft {
                        draft.heard_tool(self.said.len());
                    }
                }
            }
            // Only the lane reports the beginning and the end of a turn.
            _ => return,
        }
        if let Some(stream) = &self.stream {
            stream.push(event);
        }
    }

    /// Pauses for a question: earlier text gets a message of its own, and the typing sign ends.
    pub fn waits_for_people(&mut self, what: &str) {
        self.typing = None;
        if let Some(draft) = &mut self.draft {
            draft.heard_tool(self.said.len());
        }
        if let Some(stream) = &self.stream {
            stream.push(TurnEvent::Progress { stage: "approval".to_owned(), text: what.to_owned(), tool: None });
        }
    }

    /// Continues, unless the turn waits for another answer.
    pub fn goes_on(&mut self) {
        if self.asks.is_empty() {
            self.typing = typing(self.hints.as_ref(), &self.heard);
            self.pace.goes_on();
        }
    }

    /// Continues a message that an earlier run of the host began.
    pub fn adopt(&mut self, draft: &OwedDelivery) {
        if let Some(own) = &mut self.draft {
            own.adopt(draft);
        }
    }

    /// Shows new text in the chat when it is due.
    pub async fn show(&mut self, host: &Host) {
        if let Some(draft) = &mut self.draft {
            draft.show(host, &self.heard, self.turn, &self.said).await;
        }
        self.tools.show(host, &self.heard, self.turn).await;
    }

    /// Returns the delivery at the end of the turn.
    pub async fn conclude(&mut self, host: &Host, conclusion: &Conclusion) -> Option<NewDelivery> {
        let Conclusion { end, says, model, usage, .. } = conclusion;
        let dress = match end {
            TurnEnd::Finished if says.is_some() => Dress::of(self.manner, model, *usage, self.pace.started.elapsed()),
            _ => Dress::default(),
        };
        match &mut self.draft {
            Some(draft) => draft.conclude(host, &self.heard, &self.said, (says.clone(), *end), &dress).await,
            None => {
                let says = says.clone().or_else(|| self.cut_short(conclusion));
                Some(self.heard.place.answer(host, says.and_then(|says| dress.put_on(Some(says)))?).await)
            }
        }
    }

    /// Returns the text of an interrupted answer that no growing message has shown: a stream is only a hint, and other
    /// chats have seen nothing of it. A background turn reports only complete output.
    fn cut_short(&self, conclusion: &Conclusion) -> Option<String> {
        let is_heard = !self.heard.aside && self.heard.place.can_deliver_later();
        let last = conclusion.messages.last().filter(|_| is_heard && conclusion.end == TurnEnd::Interrupted)?;
        (last.role == Role::Assistant).then(|| last.content.clone())
    }

    /// Returns the message that showed its tools, after the end of the turn.
    pub fn tools_shown(&mut self) -> Option<DeliveryId> {
        self.tools.ended()
    }

    fn still_working(&self, minutes: u64) -> String {
        match self.doing.as_str() {
            "" => format!("Still working ({minutes} min)."),
            doing => format!("Still working ({minutes} min): {doing}"),
        }
    }

    /// Asks the turn to end at its next safe point.
    pub fn interrupt(&mut self) {
        self.cancel.cancel();
        let until = self.clock.moment() + Duration::from_millis(INTERRUPT_MS_MAX);
        self.interrupted_until.get_or_insert(until);
    }

    /// Returns whether the turn was asked to end.
    pub fn is_interrupted(&self) -> bool {
        self.interrupted_until.is_some()
    }

    /// Returns whether observers see the text as it grows.
    pub fn is_streamed(&self) -> bool {
        self.stream.is_some()
    }

    /// Returns whether the turn answers this sender.
    pub fn is_asked_by(&self, by: &str) -> bool {
        self.said_by.iter().any(|spoken| spoken.by == by)
    }

    /// Returns whether the turn answers parts of this sender's album already.
    pub fn answers_album(&self, by: &str, album: Option<&str>) -> bool {
        album.is_some() && self.said_by.iter().any(|spoken| spoken.by == by && spoken.album.as_deref() == album)
    }

    /// Returns whether the turn answers an event.
    pub fn answers(&self, instance: &str, inbox: InboxId) -> bool {
        self.said_by.iter().any(|spoken| *spoken.instance == *instance && spoken.events.contains(&inbox))
    }

    /// Abandons the runtime; its later output is ignored.
    pub fn abandon(mut self) {
        self.cancel.cancel();
        self.task.abort();
        let message = "The host lost track of this turn.".to_owned();
        let last = TurnEvent::Error { code: "runtime_failed".to_owned(), message, retryable: true };
        self.show_end(&last);
        if let Some(stream) = &self.stream {
            stream.cut(last);
        }
    }

    /// Ends the turn now: asks the runtime, waits a moment, abandons it.
    pub async fn stop(&mut self) -> TurnOutcome {
        self.cancel.cancel();
        // The channel is closed, because a runtime that waits for room must not wait forever. Earlier output is still
        // read.
        self.events.close();
        while let Ok(event) = self.events.try_recv() {
            self.hear(event);
        }
        self.line.close_questions();
        self.asks.give_up();
        if tokio::time::timeout(STOP_GRACE, &mut self.task).await.is_err() {
            self.task.abort();
            tracing::warn!(turn = %self.turn, "runtime did not stop; its task was abandoned");
        }
        // The text at the time of the stop counts, whatever the runtime reports.
        TurnOutcome::Interrupted { text: self.said.clone() }
    }

    /// Shows the end of the turn to observers.
    pub fn close(mut self, last: TurnEvent) {
        self.show_end(&last);
        let Some(stream) = &self.stream else { return };
        match last {
            TurnEvent::Done { ref finish_reason, .. } if finish_reason != "stopped" => stream.push(last),
            last => stream.cut(last),
        }
    }

    fn show_end(&mut self, last: &TurnEvent) {
        if let Some(reacting) = self.reacting.take() {
            reacting.ends(last);
        }
    }

    /// Leaves the turn to the next run of the host.
    pub async fn park(self, host: &Host) {
        self.cancel.cancel();
        self.task.abort();
        if let Some(draft) = &self.draft {
            draft.park(host, &self.said).await;
        }
        if let Some(stream) = &self.stream {
            stream.cut(TurnEvent::Error {
                code: "host_stopping".to_owned(),
                message: "The host is stopping; the answer follows when it is back.".to_owned(),
                retryable: true,
            });
        }
    }
}

/// Starts the typing sign of a turn, if its platform has one.
fn typing(hints: Option<&HintLine>, heard: &Heard) -> Option<Typing> {
    let hints = hints.filter(|hints| hints.adapter().capabilities().typing)?;
    Some(Typing::start(hints.clone(), heard.place.chat.clone()))
}

/// Waits until an answer begins to be shown; forever if it is not shown.
async fn draft_due(draft: &Option<Draft>) {
    match draft {
        Some(draft) => draft.due().await,
        None => std::future::pending().await,
    }
}

/// Runs one turn once there is a slot for it.
async fn answer(host: Arc<Host>, request: TurnRequest, sink: EventSink, cancel: CancellationToken) -> TurnOutcome {
    let _room = match cancel.run_until_cancelled(Arc::clone(&host.turns).acquire_owned()).await {
        Some(Ok(room)) => room,
        // Nobody closes the semaphore; without it there would be no bound.
        None | Some(Err(_)) => return TurnOutcome::Interrupted { text: String::new() },
    };
    host.runtime.run(request, sink, cancel).await
}

fn broken(error: &tokio::task::JoinError) -> Failure {
    Failure {
        code: "runtime_failed",
        kind: "panicked",
        sentence: "The agent failed on this message. Your conversation is intact; please try again or rephrase it."
            .to_owned(),
        detail: format!("the runtime's task ended: {error}"),
        retryable: true,
        partial: String::new(),
    }
}

/// Waits for a moment; forever if there is none.
pub(super) async fn at(clock: &dyn Timer, moment: Option<Instant>) {
    match moment {
        Some(moment) => clock.until(moment).await,
        None => std::future::pending().await,
    }
}

/// The time of a turn's last output, and the actions after its silence.
struct Pace {
    clock: Arc<dyn Timer>,
    started: Instant,
    heard: Instant,
    warned: bool,
    inactivity: Duration,
    warning: Duration,
    heartbeat: Duration,
    beats: Option<u32>,
}

/// A due action of a turn.
#[derive(Debug, PartialEq, Eq)]
enum Beat {
    Silent,
    Warn { silent_min: u64 },
    Working { minutes: u64 },
}

impl Pace {
    fn new(clock: Arc<dyn Timer>, inactivity: Duration, warning: Duration, heartbeat: Duration, beats: bool) -> Self {
        let now = clock.moment();
        // A chat that cannot be notified during the turn gets no warning either; a time of zero means never.
        let warned = !beats || warning.is_zero();
        let beats = (beats && !heartbeat.is_zero()).then_some(1);
        Self { clock, started: now, heard: now, warned, inactivity, warning, heartbeat, beats }
    }

    fn heard(&mut self) {
        self.heard = self.clock.moment();
    }

    /// Continues after a wait for a person; beats that were due meanwhile are skipped.
    fn goes_on(&mut self) {
        self.heard();
        let beat = self.heartbeat;
        if let Some(count) = self.beats.as_mut() {
            let passed = (self.heard - self.started).as_millis() / beat.as_millis().max(1);
            *count = (*count).max(u32::try_from(passed).unwrap_or(u32::MAX).saturating_add(1));
        }
    }

    /// Waits for the next beat. Cancel-safe: a beat counts only once it is returned.
    async fn next(&mut self) -> Beat {
        loop {
            let silent_at = self.heard + self.inactivity;
            let warn_at = (!self.warned).then(|| self.heard + self.warning);
            let beat_at = self.beats.map(|count| self.started + self.heartbeat * count);
            let next = [Some(silent_at), warn_at, beat_at].into_iter().flatten().min().unwrap_or(silent_at);
            self.clock.until(next).await;
            let now = self.clock.moment();
            if now >= self.heard + self.inactivity {
                return Beat::Silent;
            }
            if !self.warned && now >= self.heard + self.warning {
                self.warned = true;
                return Beat::Warn { silent_min: minutes(now - self.heard) };
            }
            if let Some(count) = self.beats
                && now >= self.started + self.heartbeat * count
            {
                self.beats = Some(count.saturating_add(1));
                return Beat::Working { minutes: minutes(now - self.started) };
            }
        }
    }
}

fn minutes(time: Duration) -> u64 {
    time.as_secs() / 60
}

#[cfg(test)]
mod tests {
    use super::*;
    use hermes_system::clock::SystemClock;

    fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[tokio::test(start_paused = true)]
    async fn a_silent_turn_beats_is_warned_about_and_ends() {
        let mut pace = Pace::new(Arc::new(SystemClock), s(1_800), s(900), s(600), true);
        assert_eq!(pace.next().await, Beat::Working { minutes: 10 });
        assert_eq!(pace.next().await, Beat::Warn { silent_min: 15 });
        assert_eq!(pace.next().await, Beat::Working { minutes: 20 });
        assert_eq!(pace.next().await, Beat::Silent);
        assert_eq!(pace.started.elapsed(), s(1_800));
    }

    #[tokio::test(start_paused = true)]
    async fn a_warning_needs_no_heartbeat_and_a_time_of_zero_means_never() {
        let mut pace = Pace::new(Arc::new(SystemClock), s(1_800), s(900), s(0), true);
        assert_eq!(pace.next().await, Beat::Warn { silent_min: 15 });
        let mut pace = Pace::new(Arc::new(SystemClock), s(1_800), s(0), s(0), true);
        assert_eq!(pace.next().await, Beat::Silent);
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_heard_puts_the_end_off() {
        let mut pace = Pace::new(Arc::new(SystemClock), s(100), s(90), s(1_000), false);
        tokio::time::advance(s(60)).await;
        pace.heard();
        assert_eq!(pace.next().await, Beat::Silent);
        assert_eq!(pace.started.elapsed(), s(160));
    }
}
