//! One attempt at one part, and the step that follows from its outcome.

use std::sync::atomic::Ordering;

use hermes_core::backoff::Backoff;
use hermes_core::delivery::{self, DEADLINE_PASSED, REQUESTER_GONE, RetryPolicy, RetryScope, Step, next_step};
use hermes_core::ids::DeliveryId;
use hermes_core::limits::WAIT_TOLD_MS_MAX;
use hermes_protocol::{Chat, DeliveryClass, LookupCall, RefusalKind, SendOutcome, WaitScope};
use tokio::sync::oneshot;

use super::job::{Job, Next, is_own};
use super::split;
use crate::engine::crash_points;
use crate::engine::messages::{DeliveryNews, HostEvent, Migration};
use crate::engine::outbox::questions::not_asked;
use crate::engine::outbox::queue::{Item, OutboxLane, Which};
use crate::engine::runtime::Host;
use hermes_config::DeliveryConfig;
use hermes_loader::{AdapterHandle, Attempted, Ended};
use hermes_store::{
    DeadTargetRow, Effect, NewDelivery, NewPart, OwedPart, PartFacts, PartState, Settle, Settled, StoreError,
};
use hermes_system::rng;

/// The reason for which an offer is abandoned if its pairing code was lost with an earlier run of the host, or because
/// there are too many newer codes.
const CODE_LOST: &str = "its pairing code was lost when the host stopped";

/// The shortest wait of a chat that is logged, in milliseconds.
const LONG_WAIT_MS: i64 = 60_000;

/// The longest stored detail of a part that did not arrive, in characters.
const DETAIL_CHARS_MAX: usize = 400;

impl OutboxLane {
    /// Tries the next part of a job once and settles its outcome.
    pub(super) async fn attempt(&mut self, which: Which) {
        let host = self.host.clone();
        let Some(adapter) = host.adapter(&self.target.instance) else { return };
        let capabilities = adapter.capabilities();
        let class = capabilities.delivery.clone();
        let Some(job) = self.seen(which) else { return };
        let deadline_ms = self.deadline_ms(job, host.now_ms());
        let (id, next) = (job.id(), job.next);
        let step = match next {
            Next::Send => {
                let Some(sent) = self.send(which, &adapter).await else { return };
                let Sent::Out(outcome) = sent else { return self.carry_out(which, Step::Abandon(CODE_LOST)).await };
                self.note_detail(which, &outcome);
                if is_refusal_of_a_request(&outcome, adapter.delivers_later(&self.target.chat)) {
                    Step::Abandon(REQUESTER_GONE)
                } else {
                    let outcome = self.weighed(which, outcome, &adapter);
                    self.say_unauthorized(&adapter, &outcome);
                    self.judge(which, &outcome, &class, deadline_ms)
                }
            }
            Next::Judge => {
                let outcome = SendOutcome::unknown("the host ended during the attempt");
                self.note_detail(which, &outcome);
                let is_first = self.job(which).is_some_and(|job| job.facts().doubts == 0);
                match self.judge(which, &outcome, &class, deadline_ms) {
                    // The doubt is as old as the previous run; the adapter has connected since.
                    Step::RepeatMarked { .. } if is_first => Step::RepeatMarked { not_before_ms: host.now_ms() },
                    step => step,
                }
            }
            Next::Lookup => self.look_up(which, &adapter, deadline_ms).await,
        };
        tracing::debug!(delivery = %id, ?step, "attempted");
        self.carry_out(which, step).await;
    }

    /// Claims the part, sends it, and counts the attempt. `None`: the claim was not written.
    async fn send(&mut self, which: Which, adapter: &AdapterHandle) -> Option<Sent> {
        let host = self.host.clone();
        let job = self.job(which)?;
        let (id, n, attempt) = (job.id(), job.part().n, job.facts().attempts.saturating_add(1));
        let claim = async || match host.store.claim(id, n, host.epoch, attempt).await {
            // The turn ended before its first piece was sent and the final text replaces it; or the part was abandoned
            // meanwhile.
            Err(StoreError::Conflict { .. }) => Ok(false),
            claimed => claimed.map(|()| true),
        };
        if host.until_written("a claim", claim).await != Some(true) {
            // The row has another state (an operator dropped it) or the host ends; in both cases this lane must not
            // send it.
            self.remove(which);
            return None;
        }
        let job = self.job(which)?;
        job.part_mut().facts.attempts = attempt;
        let capabilities = adapter.capabilities();
        let mut outgoing = job.outgoing();
        // Without buttons the text lists the options.
        outgoing.choices = outgoing.choices.filter(|_| capabilities.buttons);
        if job.delivery.code.as_ref().is_some_and(|hash| !host.codes.tell(hash, &mut outgoing)) {
            return Some(Sent::CodeLost);
        }
        crash_points::point("mid_send");
        let Attempted { outcome, ended } = match job.edits() {
            Some(message) if self.says_already(id, &outgoing.text) => {
                Attempted { outcome: SendOutcome::delivered(message.id, self.host.now_ms()), ended: None }
            }
            Some(message) => adapter.try_edit(&message, &outgoing).await,
            None => adapter.try_send(&outgoing).await,
        };
        crash_points::point("after_send_before_settle");
        let facts = &mut self.job(which)?.part_mut().facts;
        facts.ours = false;
        match ended {
            Some(Ended::ByItself { alone }) => facts.cut_off(alone),
            Some(Ended::ByTheHost) => facts.cut_off(false),
            None => {}
        }
        Some(Sent::Out(outcome))
    }

    /// Stores the reason for which the part did not arrive, for `outbox show`.
    fn note_detail(&mut self, which: Which, outcome: &SendOutcome) {
        let said = match outcome {
            SendOutcome::Refused { kind, detail, .. } if detail.is_empty() => kind.to_string(),
            SendOutcome::Refused { kind, detail, .. } => format!("{kind}: {detail}"),
            SendOutcome::NotSent { detail, .. } | SendOutcome::Unknown { detail, .. } => detail.clone(),
            _ => return,
        };
        let said = self.host.live().masker.mask(said.chars().take(DETAIL_CHARS_MAX).collect::<String>()).into_owned();
        if let Some(job) = self.job(which).filter(|_| !said.is_empty()) {
            job.part_mut().detail = Some(said);
        }
    }

    /// Reports an invalid credential to `status`, so that the operator can replace it.
    fn say_unauthorized(&self, adapter: &AdapterHandle, outcome: &SendOutcome) {
        if let SendOutcome::Refused { kind: RefusalKind::Unauthorized, detail, .. } = outcome {
            adapter.unauthorized(&self.host.live().masker.mask(detail));
        }
    }

    /// Weighs an outcome against the other traffic of the adapter; notes the counters from which an unknown outcome is
    /// judged.
    fn weighed(&mut self, which: Which, outcome: SendOutcome, adapter: &AdapterHandle) -> SendOutcome {
        let trips = adapter.trips();
        let Some(job) = self.job(which) else { return outcome };
        job.unreachable =
            matches!(outcome, SendOutcome::NotSent { retry_after_ms: None, scope: WaitScope::Instance, .. });
        match &outcome {
            // The credential is accepted for other messages, so the cause is this message.
            SendOutcome::Refused { kind: RefusalKind::Unauthorized, detail, .. } => {
                let blamed = *job.blamed.get_or_insert(trips);
                match adapter.has_delivered_since(blamed) {
                    true => SendOutcome::not_sent(None, WaitScope::Chat, detail.clone()),
                    false => outcome,
                }
            }
            SendOutcome::NotSent { retry_after_ms, .. } => {
                let asked_ms = retry_after_ms.and_then(|wait_ms| i64::try_from(wait_ms).ok());
                if asked_ms.is_some_and(|wait_ms| wait_ms <= WAIT_TOLD_MS_MAX) {
                    let facts = &mut job.part_mut().facts;
                    facts.told = facts.told.saturating_add(1);
                }
                let blamed = *job.blamed.get_or_insert(trips);
                let carried = adapter.is_proven_over_the_same_link(blamed);
                if carried.is_none() {
                    job.blamed = Some(trips);
                }
                delivery::contradicted(outcome, carried == Some(true))
            }
            _ => {
                job.doubted = Some(trips);
                outcome
            }
        }
    }

    fn judge(&mut self, which: Which, outcome: &SendOutcome, class: &DeliveryClass, deadline_ms: i64) -> Step {
        let (now_ms, policy, jitter) = self.circumstances();
        match self.job(which) {
            // A repeated edit to the same text has no further effect.
            Some(job) if job.edits().is_some() => {
                next_step(outcome, job.facts(), &DeliveryClass::Idempotent, &policy, now_ms, deadline_ms, jitter)
            }
            Some(job) => next_step(outcome, job.facts(), class, &policy, now_ms, deadline_ms, jitter),
            None => Step::Abandon(DEADLINE_PASSED),
        }
    }

    async fn look_up(&mut self, which: Which, adapter: &AdapterHandle, deadline_ms: i64) -> Step {
        let Some(job) = self.job(which) else { return Step::Abandon(DEADLINE_PASSED) };
        let call = LookupCall::new(job.part().key.clone(), job.delivery.chat.clone());
        let reply = adapter.lookup(&call).await;
        let (now_ms, policy, jitter) = self.circumstances();
        match self.job(which) {
            Some(job) => delivery::after_lookup(Some(&reply), job.facts(), &policy, now_ms, deadline_ms, jitter),
            None => Step::Abandon(DEADLINE_PASSED),
        }
    }

    fn circumstances(&self) -> (i64, RetryPolicy, u64) {
        let policy = policy(&self.host.live().config.delivery);
        (self.host.now_ms(), policy, rng::number(&*self.host.chance))
    }

    /// Carries out a step: settles the part and continues, waits, or tries the part in another way.
    async fn carry_out(&mut self, which: Which, step: Step) {
        let now_ms = self.host.now_ms();
        let instance = self.target.instance.clone();
        let holds = self.holds.clone();
        let Some(job) = self.job(which) else { return };
        if job.edits().is_some() && matches!(step, Step::Settle(PartState::Refused { .. }) | Step::DropThread) {
            // The growing message can no longer be edited. A new send finds out whether the text can be sent at all.
            job.delivery.draft_message = None;
            self.settle(which, PartState::Owed, 0, vec![Effect::DraftGone], None).await;
            return;
        }
        job.part_mut().facts = step.note(job.facts(), now_ms);
        let step = job.tempered(step);
        let chat = job.delivery.chat.clone();
        match step {
            Step::Settle(state) => self.settle_part(which, state).await,
            Step::Abandon(why) => {
                let state = abandoned(why, job.part());
                self.settle_part(which, state).await;
            }
            Step::RetryAt { not_before_ms, scope } => {
                say_long_wait(&instance, &chat, scope, not_before_ms.saturating_sub(now_ms));
                match scope {
                    RetryScope::Instance if job.unreachable => holds.hold_unreachable(not_before_ms),
                    RetryScope::Instance => holds.hold_instance(&instance, not_before_ms, now_ms),
                    RetryScope::Chat => holds.hold_chat(&instance, &chat.id, not_before_ms, now_ms),
                    RetryScope::Lane | RetryScope::Part => {}
                }
                let state = if is_own(scope) { PartState::Deferred } else { PartState::Owed };
                self.again(which, Next::Send, state, not_before_ms).await;
                self.step_aside(which);
            }
            Step::Degrade { not_before_ms } => {
                tracing::warn!(%instance, "credential rejected by the platform; deliveries wait");
                holds.hold_instance(&instance, not_before_ms, now_ms);
                self.again(which, Next::Send, PartState::Owed, not_before_ms).await;
            }
            Step::Lookup { not_before_ms, .. } => {
                let detail = job.part().detail.clone().unwrap_or_else(|| "being looked up".to_owned());
                let state = PartState::Unknown { detail };
                self.again(which, Next::Lookup, state, not_before_ms).await;
                self.step_aside(which);
            }
            Step::RepeatMarked { not_before_ms } => self.again(which, Next::Send, PartState::Owed, not_before_ms).await,
            Step::ResendPlain => {
                let parts = split::plain_from(job);
                self.replace(which, parts).await;
            }
            Step::Resplit => self.resplit(which).await,
            Step::DropThread if chat.thread.is_some() => {
                job.delivery.chat.thread = None;
                self.settle(which, PartState::Owed, 0, vec![Effect::ThreadGone], None).await;
            }
            Step::DropThread => {
                let refused = PartState::Refused { kind: RefusalKind::ThreadGone, detail: String::new() };
                self.settle_part(which, refused).await;
            }
            Step::Rewrite { to } => self.rewrite(which, chat, to).await,
        }
    }

    /// Keeps the part for another attempt.
    async fn again(&mut self, which: Which, next: Next, state: PartState, not_before_ms: i64) {
        if let Some(job) = self.job(which) {
            job.next = next;
            job.due_ms = not_before_ms;
        }
        self.settle(which, state, not_before_ms, Vec::new(), None).await;
    }

    /// Moves a job that is retried alone out of the queue.
    fn step_aside(&mut self, which: Which) {
        if which == Which::Front && self.job(which).is_some_and(|job| job.is_aside()) {
            let job = self.remove(Which::Front);
            self.aside.extend(job);
        }
    }

    /// Settles the next part finally and turns to the part after it.
    async fn settle_part(&mut self, which: Which, state: PartState) {
        let host = self.host.clone();
        let mut effects = Vec::new();
        let mut dead = None;
        if matches!(state, PartState::Delivered { .. }) {
            self.host.counts.delivered.fetch_add(1, Ordering::Relaxed);
        }
        if let PartState::Refused { kind, detail } = &state
            && delivery::kills_target(kind)
            && let Some(job) = self.job(which)
        {
            let why = if detail.is_empty() { kind.to_string() } else { format!("{kind}: {detail}") };
            let chat = job.delivery.chat.clone();
            let instance = self.target.instance.to_string();
            tracing::warn!(instance, chat = chat.id, why, "chat unreachable; will retry");
            let since_ms = self.host.now_ms();
            effects.push(Effect::DeadTarget(DeadTargetRow {
                instance,
                chat: chat.clone(),
                why: why.clone(),
                since_ms,
            }));
            dead = Some((chat, why));
        }
        if let Some(job) = self.job(which)
            && !matches!(state, PartState::Delivered { .. })
        {
            let hash = untold(&host, job);
            effects.extend(self.take_back(hash).await);
        }
        let notice = match self.seen(which) {
            Some(job) => self.notice_of(job, job.part().n, &state).await,
            None => None,
        };
        effects.extend(notice.clone().map(|notice| Effect::Report(Box::new(notice))));
        self.note_arrival(which, &state).await;
        let settled = self.settle(which, state.clone(), 0, effects, None).await;
        self.note_asked(which, &state).await;
        self.note_growth(which, &state);
        let is_loss = matches!(state, PartState::Refused { .. } | PartState::Abandoned { .. });
        let lost = settled.filter(|_| is_loss).and_then(|settled| {
            let job = self.seen(which)?;
            Some((job.delivery.clone(), job.part().n, settled.report.zip(notice)))
        });
        if let Some(job) = self.job(which) {
            job.part_mut().state = state.clone();
            if !job.advance() {
                self.remove(which);
            }
        }
        if let Some((delivery, n, notice)) = lost {
            self.lost(&delivery, n, &state, notice);
        }
        if let Some((chat, why)) = dead {
            let instance = self.target.instance.to_string();
            // The dispatcher notifies every lane of the chat, also this one, which then abandons its remaining jobs.
            self.host.tell(HostEvent::Delivery(DeliveryNews::Dead { instance, chat, why })).await;
        }
    }

    /// Abandons a job whose deadline has passed.
    pub(super) async fn expire(&mut self, which: Which) {
        if let Some(job) = self.remove(which) {
            self.stop_growing(job.id());
            let open = job.open_parts().find(|part| part.n > 0).map(|part| (part.n, abandoned(DEADLINE_PASSED, part)));
            let notice = match &open {
                Some((n, state)) => self.notice_of(&job, *n, state).await,
                None => None,
            };
            let delivery = job.delivery.clone();
            let report = self.abandon(job, DEADLINE_PASSED, notice.clone()).await;
            if let Some((n, state)) = open {
                self.lost(&delivery, n, &state, report.zip(notice));
            }
        }
    }

    /// Abandons all jobs of the lane.
    pub(super) async fn give_up_all(&mut self, why: &str) {
        self.stop_all_growing();
        let mut jobs: Vec<Job> = std::mem::take(&mut self.aside);
        for item in std::mem::take(&mut self.queue) {
            match item {
                Item::Here(job) => jobs.push(*job),
                Item::Stored(id) => {
                    let host = &self.host;
                    match host.store.delivery(id).await {
                        Ok(stored) => host.tell_untold(stored.as_ref()).await,
                        // The pairing request then stays in memory until it expires.
                        Err(error) => {
                            tracing::warn!(delivery = %id, %error, "delivery could not be read; its pairing request stays in memory")
                        }
                    }
                    host.until_written("an abandoned delivery", || host.store.outbox_drop(id, why)).await;
                    self.note_given_up(id, why).await;
                }
            }
        }
        for job in jobs {
            self.abandon(job, why, None).await;
        }
    }

    /// Abandons the open parts of a job. Owes the notice about it together with the first of them; returns its id.
    async fn abandon(&self, job: Job, why: &str, mut notice: Option<NewDelivery>) -> Option<DeliveryId> {
        let effects = Vec::from_iter(self.take_back(untold(&self.host, &job)).await);
        let mut report = None;
        for part in job.open_parts() {
            let state = abandoned(why, part);
            let settle = Settle::new(job.id(), part.n, state, part.facts.clone(), self.host.now_ms());
            let mut settle = Settle { effects: effects.clone(), ..settle };
            if part.n > 0 {
                settle.effects.extend(notice.take().map(|notice| Effect::Report(Box::new(notice))));
            }
            let settled = self.host.until_written("an abandoned part", || self.host.store.settle(settle.clone())).await;
            report = report.or(settled.and_then(|settled| settled.report));
        }
        self.host.handoffs.answered(job.delivery.in_reply_to);
        not_asked(&self.host, &job.delivery, why).await;
        tracing::warn!(delivery = %job.id(), instance = %self.target.instance, why, "delivery abandoned");
        report
    }

    /// Withdraws the pairing request whose code will not be delivered from the list in memory; the effect changes its
    /// row.
    async fn take_back(&self, untold: Option<String>) -> Option<Effect> {
        let hash = untold?;
        // Before the row changes: a sender who writes meanwhile is not reminded of a code that never arrived.
        self.host.tell(HostEvent::Delivery(DeliveryNews::Untold { hash: hash.clone() })).await;
        Some(Effect::CodeUntold { hash })
    }

    /// Splits the rest of the delivery into smaller parts.
    async fn resplit(&mut self, which: Which) {
        let adapter = self.host.adapter(&self.target.instance);
        let Some(job) = self.job(which) else { return };
        let parts = split::smaller(adapter.as_ref(), job).await;
        self.replace(which, parts).await;
    }

    /// Replaces the next part and the parts after it.
    async fn replace(&mut self, which: Which, parts: Vec<NewPart>) {
        self.settle(which, PartState::Owed, 0, Vec::new(), Some(parts.clone())).await;
        let host = self.host.clone();
        let Some(job) = self.job(which) else { return };
        let id = job.id();
        let (facts, detail) = (job.facts().clone(), job.part().detail.clone());
        let new = parts.into_iter().enumerate().map(|(at, part)| OwedPart {
            key: if part.key.is_empty() { host.store.part_key(id, part.n) } else { part.key },
            n: part.n,
            text: part.text,
            format: part.format,
            source: part.source,
            media: part.media,
            state: PartState::Owed,
            facts: if at == 0 { facts.clone() } else { PartFacts::default() },
            not_before_ms: 0,
            detail: detail.clone().filter(|_| at == 0),
        });
        job.replace(new);
        job.next = Next::Send;
        job.due_ms = 0;
    }

    /// Redirects every delivery of a chat to its new id.
    async fn rewrite(&mut self, which: Which, from: Chat, to: String) {
        let mut new = from.clone();
        new.id = to;
        let instance = self.target.instance.to_string();
        let (reply, routes) = oneshot::channel();
        let migration = Migration { instance: instance.clone(), from: from.clone(), to: new.clone(), reply };
        self.host.tell(HostEvent::Delivery(DeliveryNews::Migrating(Box::new(migration)))).await;
        // Without the dispatcher the host ends; the next run learns of the move again.
        let routes = routes.await.unwrap_or_default();
        for job in self.jobs() {
            job.delivery.chat.id.clone_from(&new.id);
            job.delivery.draft_message = None;
        }
        let moved = Effect::Migrated { instance, from, to: new, routes };
        self.settle(which, PartState::Owed, 0, vec![moved], None).await;
    }

    /// Commits the outcome of the next part; `None`: the commit failed, or the part was abandoned meanwhile.
    async fn settle(
        &mut self,
        which: Which,
        state: PartState,
        not_before_ms: i64,
        effects: Vec<Effect>,
        parts: Option<Vec<NewPart>>,
    ) -> Option<Settled> {
        let now_ms = self.host.now_ms();
        let host = self.host.clone();
        let job = self.job(which)?;
        let base = Settle::new(job.id(), job.part().n, state, job.facts().clone(), now_ms);
        let settle = Settle { not_before_ms, effects, parts, detail: job.part().detail.clone(), ..base };
        let settle = async || match host.store.settle(settle.clone()).await {
            Err(StoreError::Conflict { what }) => {
                tracing::warn!(what, "delivery was abandoned while it was being sent");
                Ok(None)
            }
            settled => settled.map(Some),
        };
        let settled = host.until_written("the outcome of a part", settle).await.flatten();
        let job = self.job(which)?;
        host.handoffs.answered(job.delivery.in_reply_to);
        settled
    }
}

/// Logs a long wait of a chat or of the whole instance.
fn say_long_wait(instance: &str, chat: &Chat, scope: RetryScope, wait_ms: i64) {
    let wait_s = wait_ms / 1_000;
    match scope {
        _ if wait_ms < LONG_WAIT_MS => {}
        RetryScope::Instance => tracing::warn!(instance, wait_s, "deliveries paused for the whole instance"),
        RetryScope::Chat => tracing::warn!(instance, chat = chat.id, wait_s, "deliveries paused for this chat"),
        RetryScope::Lane | RetryScope::Part => {}
    }
}

/// The result of sending a part.
enum Sent {
    /// The adapter took the part and reported this outcome.
    Out(SendOutcome),
    /// The part contains a pairing code that is no longer known, and was not sent.
    CodeLost,
}

/// Returns the pairing request whose code is lost if this delivery is abandoned. A code that may have been delivered
/// counts as delivered as long as the code is known.
fn untold(host: &Host, job: &Job) -> Option<String> {
    let hash = job.delivery.code.as_ref()?;
    let parts = &job.delivery.parts;
    let told = parts.iter().any(|part| matches!(part.state, PartState::Delivered { .. }));
    let doubted = parts.iter().any(|part| part.facts.doubts > 0);
    let counts = told || (doubted && host.codes.knows(hash));
    (!counts).then(|| hash.clone())
}

/// Returns the abandoned state, with the reason and the last detail.
fn abandoned(why: &str, part: &OwedPart) -> PartState {
    let why = match &part.detail {
        Some(last) => format!("{why}; last: {last}"),
        None => why.to_owned(),
    };
    PartState::Abandoned { why }
}

/// Returns whether a refusal concerns only the request: an adapter that answers only requests refuses the chat once its
/// client has gone, and the chat itself is fine.
fn is_refusal_of_a_request(outcome: &SendOutcome, delivers_later: bool) -> bool {
    let gone = [RefusalKind::ChatGone, RefusalKind::Forbidden, RefusalKind::Invalid];
    !delivers_later && matches!(outcome, SendOutcome::Refused { kind, .. } if gone.contains(kind))
}

fn policy(config: &DeliveryConfig) -> RetryPolicy {
    let ms = |time: std::time::Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    let signed = |time| i64::try_from(ms(time)).unwrap_or(i64::MAX);
    RetryPolicy {
        backoff: Backoff::new(ms(config.backoff), ms(config.backoff_max)),
        lane_hold_ms: signed(config.hold),
        reply_deadline_ms: signed(config.reply_deadline),
        notice_deadline_ms: signed(config.notice_deadline),
        ..RetryPolicy::default()
    }
}
