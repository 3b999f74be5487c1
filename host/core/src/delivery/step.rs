//! Decision about the next step after the outcome of an attempt.

use hermes_protocol::{LookupReply, Purpose, RefusalKind, SendOutcome, WaitScope};

use super::{BREAKS_THE_ADAPTER, Class, DEADLINE_PASSED, DOUBTFUL_TWICE, INTERRUPTED_TOO_OFTEN, PartFacts, PartState};
use crate::backoff::Backoff;
use crate::limits;

/// Time before the deadline at which a part is tried a last time, in milliseconds, if the platform demands a
/// wait beyond the deadline.
pub const LAST_TRY_MS: i64 = 30_000;

/// Time for which an answer is still tried after the host was down or asleep past its deadline, in
/// milliseconds.
pub const AWAKE_TRY_MS: i64 = 600_000;

/// Lowest number of consecutive failures from which the wait before a repeat is computed. An unresponsive
/// connection, or an error without a message of the platform, usually lasts longer than the first waits.
const DOUBT_FAILURES: u32 = 4;

#[cfg(test)]
mod tests;

/// The next step for a part after an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum Step {
    /// Store this final state.
    Settle(PartState),
    /// Try again, not before this time.
    RetryAt {
        /// Earliest time, in Unix milliseconds.
        not_before_ms: i64,
        /// Scope that waits until then.
        scope: RetryScope,
    },
    /// Send the source again at once, as plain text.
    ResendPlain,
    /// Split the rest of the delivery again into smaller parts.
    Resplit,
    /// Ask the adapter whether the part arrived, then continue with [`after_lookup`].
    Lookup {
        /// Earliest time, in Unix milliseconds.
        not_before_ms: i64,
        /// Scope that waits for the answer: the queue or only this part.
        scope: RetryScope,
    },
    /// Send again with a mark that says so. The repeat waits until this time and until the adapter has
    /// delivered something since, because the cause of the first loss would also affect the repeat.
    RepeatMarked {
        /// Earliest time, in Unix milliseconds.
        not_before_ms: i64,
    },
    /// Send again at once without the thread, which no longer exists. The chat gets one notice.
    DropThread,
    /// Send again at once to the new id of the chat. All other pending deliveries to the chat follow.
    Rewrite {
        /// New id of the chat.
        to: String,
    },
    /// Degrade the adapter, because the platform rejected the credential. The part waits.
    Degrade {
        /// Earliest time, in Unix milliseconds.
        not_before_ms: i64,
    },
    /// Abandon the part for this reason.
    Abandon(&'static str),
}

/// Scope of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetryScope {
    /// Only the part; later parts of its queue continue.
    Part,
    /// The delivery queue (instance, chat, thread) behind the part.
    Lane,
    /// All requests for this chat.
    Chat,
    /// All requests of this instance.
    Instance,
}

/// Limits of retries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
    /// Waits between attempts.
    pub backoff: Backoff,
    /// Longest time for which a failing part blocks its queue, in milliseconds.
    pub lane_hold_ms: i64,
    /// Time for which a reply is tried, in milliseconds.
    pub reply_deadline_ms: i64,
    /// Time for which a notice or a question is tried, in milliseconds.
    pub notice_deadline_ms: i64,
    /// Longest wait while the platform is unreachable, in milliseconds.
    pub unreachable_ms_max: i64,
    /// Crashes of the instance after which a part is abandoned.
    pub deaths_max: u32,
    /// Highest number of marked repeats of one part if the host or the adapter process caused the uncertainty.
    pub repeats_max: u32,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            backoff: Backoff::default(),
            lane_hold_ms: seconds(limits::LANE_HOLD_S),
            reply_deadline_ms: seconds(limits::REPLY_DEADLINE_S),
            notice_deadline_ms: seconds(limits::NOTICE_DEADLINE_S),
            unreachable_ms_max: i64::try_from(limits::UNREACHABLE_BACKOFF_MS_MAX).unwrap_or(i64::MAX),
            deaths_max: limits::DEATHS_PER_PART_MAX,
            repeats_max: limits::MARKED_REPEATS_MAX,
        }
    }
}

impl RetryPolicy {
    /// Returns the deadline of a delivery created at `made_ms`, in Unix milliseconds. Notices and questions
    /// have a shorter one, because they are useless when late.
    pub fn deadline_ms(&self, purpose: &Purpose, made_ms: i64) -> i64 {
        let span = match purpose {
            Purpose::Notice | Purpose::Ask => self.notice_deadline_ms,
            _ => self.reply_deadline_ms,
        };
        made_ms.saturating_add(span)
    }

    /// Returns true if a part must not be sent any more. At the deadline itself it may still be sent.
    pub fn is_expired(&self, now_ms: i64, deadline_ms: i64) -> bool {
        now_ms > deadline_ms
    }
}

/// Returns the deadline of a delivery in this run of the host, which began at `awake_since_ms`. An answer
/// always gets an attempt, even if the host was down, asleep or started with another clock at its deadline. A
/// late notice does not.
pub fn deadline_in_this_run(
    purpose: &Purpose,
    (created_ms, deadline_ms): (i64, i64),
    awake_since_ms: i64,
    now_ms: i64,
) -> i64 {
    let span_ms = deadline_ms.saturating_sub(created_ms).max(0);
    if created_ms > now_ms {
        // The delivery was created while the clock was ahead.
        return deadline_ms.min(awake_since_ms.saturating_add(span_ms));
    }
    match purpose {
        Purpose::Notice | Purpose::Ask => deadline_ms,
        _ => deadline_ms.max(awake_since_ms.saturating_add(span_ms.min(AWAKE_TRY_MS))),
    }
}

/// Returns the next step after an attempt ended with `outcome`.
///
/// `facts` already include this attempt and its interruption by the host or the adapter process, if any.
/// `jitter` is a random number.
pub fn next_step(
    outcome: &SendOutcome,
    facts: &PartFacts,
    class: &Class,
    policy: &RetryPolicy,
    now_ms: i64,
    deadline_ms: i64,
    jitter: u64,
) -> Step {
    let context = StepContext { facts, policy, now_ms, deadline_ms, jitter };
    match outcome {
        SendOutcome::Delivered { receipt } => Step::Settle(PartState::Delivered { receipt: receipt.clone() }),
        SendOutcome::Refused { kind, detail, migrated_to } => {
            context.after_refusal(kind, detail, migrated_to.as_deref())
        }
        _ if facts.deaths >= policy.deaths_max => Step::Abandon(BREAKS_THE_ADAPTER),
        SendOutcome::NotSent { retry_after_ms: Some(wait), scope, .. } => {
            context.platform_wait(*wait, RetryScope::from(scope))
        }
        SendOutcome::NotSent { retry_after_ms: None, scope: WaitScope::Instance, .. } => {
            context.with_backoff(RetryScope::Instance)
        }
        SendOutcome::NotSent { .. } => context.with_backoff(context.own_scope()),
        SendOutcome::Unknown { keyless: true, .. } => context.after_uncertainty(),
        // Includes outcomes of later protocol versions, none of which can be a receipt.
        _ => match class {
            Class::Idempotent => context.with_backoff(context.own_scope()),
            Class::Reconcilable => Step::Lookup { not_before_ms: now_ms, scope: context.own_scope() },
            _ => context.after_uncertainty(),
        },
    }
}

/// Returns the next step for an uncertain part after a lookup at the adapter. `None` means that the lookup
/// itself failed and is repeated later.
pub fn after_lookup(
    reply: Option<&LookupReply>,
    facts: &PartFacts,
    policy: &RetryPolicy,
    now_ms: i64,
    deadline_ms: i64,
    jitter: u64,
) -> Step {
    let context = StepContext { facts, policy, now_ms, deadline_ms, jitter };
    match reply {
        Some(LookupReply::Found { receipt }) => Step::Settle(PartState::Delivered { receipt: receipt.clone() }),
        Some(LookupReply::Absent) => context.with_backoff(context.own_scope()),
        Some(_) => context.after_uncertainty(),
        None => match context.with_backoff(context.own_scope()) {
            Step::RetryAt { not_before_ms, scope } => Step::Lookup { not_before_ms, scope },
            other => other,
        },
    }
}

/// Narrows an outcome that blames the whole instance to the chat if the adapter `carried` something since the
/// part last failed for this reason. In that case only the part waits.
pub fn contradicted(outcome: SendOutcome, carried: bool) -> SendOutcome {
    match outcome {
        SendOutcome::NotSent { retry_after_ms: None, scope: WaitScope::Instance, detail } if carried => {
            SendOutcome::not_sent(None, WaitScope::Chat, detail)
        }
        outcome => outcome,
    }
}

/// Returns true if the refusal means that nothing can be sent to this chat until a message arrives from it.
pub fn kills_target(kind: &RefusalKind) -> bool {
    matches!(kind, RefusalKind::Forbidden | RefusalKind::ChatGone)
}

impl Step {
    /// Returns the state of the part while the step is carried out.
    pub fn state(&self) -> PartState {
        match self {
            Self::Settle(state) => state.clone(),
            Self::RetryAt { scope: RetryScope::Part, .. } => PartState::Deferred,
            Self::Lookup { .. } => PartState::Unknown { detail: "being looked up".to_owned() },
            Self::Abandon(why) => PartState::Abandoned { why: (*why).to_owned() },
            Self::RetryAt { .. }
            | Self::ResendPlain
            | Self::Resplit
            | Self::RepeatMarked { .. }
            | Self::DropThread
            | Self::Rewrite { .. }
            | Self::Degrade { .. } => PartState::Owed,
        }
    }

    /// Returns the facts to store with the part once this step is taken.
    pub fn note(&self, facts: &PartFacts, now_ms: i64) -> PartFacts {
        let mut facts = facts.clone();
        let ours = facts.ours;
        if matches!(self, Self::Lookup { .. }) {
            // The uncertainty stays open until the answer.
            facts.lookups = facts.lookups.saturating_add(1);
        } else {
            facts.ours = false;
        }
        match self {
            Self::RetryAt { scope: RetryScope::Part, .. } | Self::Lookup { scope: RetryScope::Part, .. } => {
                facts.deferred = true;
                facts.failing_since_ms.get_or_insert(now_ms);
            }
            Self::RetryAt { scope: RetryScope::Lane, .. } | Self::Lookup { .. } => {
                facts.failing_since_ms.get_or_insert(now_ms);
            }
            // The whole chat or instance waits, so the time does not count against the part.
            Self::RetryAt { .. } | Self::Degrade { .. } => facts.failing_since_ms = None,
            Self::RepeatMarked { .. } => {
                facts.doubts = facts.doubts.saturating_add(1);
                facts.interrupted = facts.interrupted.saturating_add(u32::from(ours));
                facts.failing_since_ms.get_or_insert(now_ms);
            }
            Self::ResendPlain => facts.plain = true,
            Self::Resplit => facts.resplit = true,
            Self::DropThread => facts.thread_dropped = true,
            Self::Rewrite { .. } => facts.rewritten = true,
            Self::Settle(_) | Self::Abandon(_) => {}
        }
        facts
    }
}

impl From<&WaitScope> for RetryScope {
    /// Converts the scope. An unknown scope of a later version becomes the smallest one, the chat.
    fn from(scope: &WaitScope) -> Self {
        match scope {
            WaitScope::Instance => Self::Instance,
            _ => Self::Chat,
        }
    }
}

/// One part at one point in time.
struct StepContext<'a> {
    facts: &'a PartFacts,
    policy: &'a RetryPolicy,
    now_ms: i64,
    deadline_ms: i64,
    jitter: u64,
}

impl StepContext<'_> {
    fn after_refusal(&self, kind: &RefusalKind, detail: &str, migrated_to: Option<&str>) -> Step {
        let facts = self.facts;
        match kind {
            RefusalKind::TooLong if !facts.resplit => Step::Resplit,
            RefusalKind::BadFormat if !facts.plain => Step::ResendPlain,
            RefusalKind::ThreadGone if !facts.thread_dropped => Step::DropThread,
            RefusalKind::Migrated if !facts.rewritten && migrated_to.is_some_and(|to| !to.is_empty()) => {
                Step::Rewrite { to: migrated_to.unwrap_or_default().to_owned() }
            }
            RefusalKind::Unauthorized if self.now_ms < self.deadline_ms => {
                Step::Degrade { not_before_ms: self.within_deadline(self.backoff_ms()) }
            }
            _ => Step::Settle(PartState::Refused { kind: kind.clone(), detail: detail.to_owned() }),
        }
    }

    /// Keeps a wait that the platform demands, up to [`limits::WAIT_TOLD_MS_MAX`]; then the platform is asked
    /// again. A wait beyond the deadline leaves one more attempt shortly before it. A part that the platform
    /// repeatedly delays waits alone, because it is itself the cause.
    fn platform_wait(&self, wait_ms: u64, scope: RetryScope) -> Step {
        let wait = i64::try_from(wait_ms).unwrap_or(i64::MAX).min(limits::WAIT_TOLD_MS_MAX);
        let scope = if self.facts.told > limits::TOLD_WAITS_MAX { RetryScope::Part } else { scope };
        let told = self.now_ms.saturating_add(wait);
        if told <= self.deadline_ms {
            return Step::RetryAt { not_before_ms: told, scope };
        }
        let window = self.deadline_ms.saturating_sub(LAST_TRY_MS);
        // An attempt within the window was the last one.
        if self.now_ms >= window {
            return Step::Abandon(DEADLINE_PASSED);
        }
        // The attempt falls into the first half of the window, because an attempt at the deadline itself may be
        // too late.
        let jitter = i64::try_from(self.jitter % (LAST_TRY_MS.unsigned_abs() / 2)).unwrap_or_default();
        Step::RetryAt { not_before_ms: window.saturating_add(jitter), scope }
    }

    /// Waits with exponential backoff; the last wait ends at the deadline.
    fn with_backoff(&self, scope: RetryScope) -> Step {
        if self.now_ms >= self.deadline_ms {
            return Step::Abandon(DEADLINE_PASSED);
        }
        let longest = match scope {
            // No request reached the platform, so a retry costs nothing there, while the whole instance waits
            // for it.
            RetryScope::Instance => self.policy.unreachable_ms_max,
            _ => i64::MAX,
        };
        Step::RetryAt { not_before_ms: self.within_deadline(self.backoff_ms().min(longest)), scope }
    }

    /// Repeats an uncertain part once, with a mark. Uncertain outcomes caused by the host or the adapter
    /// process do not use up this repeat; they have further repeats with growing waits.
    fn after_uncertainty(&self) -> Step {
        let facts = self.facts;
        if facts.ours {
            return self.after_interruption();
        }
        if facts.doubts > facts.interrupted || facts.doubts >= self.policy.repeats_max {
            Step::Abandon(DOUBTFUL_TWICE)
        } else if self.now_ms >= self.deadline_ms {
            Step::Abandon(DEADLINE_PASSED)
        } else {
            let failures = self.facts.attempts.saturating_add(self.facts.lookups).max(DOUBT_FAILURES);
            // Later parts of the queue wait for this one.
            let wait_ms = self.delay_ms(failures).min(self.policy.lane_hold_ms);
            Step::RepeatMarked { not_before_ms: self.within_deadline(wait_ms) }
        }
    }

    /// Repeats a part after the host or the adapter process ended during the attempt. The platform did not
    /// cause this, so the first repeat follows soon.
    fn after_interruption(&self) -> Step {
        if self.facts.doubts >= self.policy.repeats_max {
            return Step::Abandon(INTERRUPTED_TOO_OFTEN);
        }
        if self.now_ms >= self.deadline_ms {
            return Step::Abandon(DEADLINE_PASSED);
        }
        let wait_ms = self.delay_ms(self.facts.doubts.saturating_add(1)).min(self.policy.lane_hold_ms);
        Step::RepeatMarked { not_before_ms: self.within_deadline(wait_ms) }
    }

    /// Returns the scope of a wait that the part itself causes: the queue for a limited time, then only the
    /// part.
    fn own_scope(&self) -> RetryScope {
        let since = self.facts.failing_since_ms.unwrap_or(self.now_ms);
        let held = self.now_ms.saturating_add(self.backoff_ms()).saturating_sub(since);
        if self.facts.deferred || held > self.policy.lane_hold_ms { RetryScope::Part } else { RetryScope::Lane }
    }

    fn backoff_ms(&self) -> i64 {
        self.delay_ms(self.facts.attempts.saturating_add(self.facts.lookups))
    }

    fn delay_ms(&self, failures: u32) -> i64 {
        i64::try_from(self.policy.backoff.delay_ms(failures, self.jitter)).unwrap_or(i64::MAX)
    }

    fn within_deadline(&self, wait_ms: i64) -> i64 {
        self.now_ms.saturating_add(wait_ms).min(self.deadline_ms)
    }
}

/// Converts a limit of [`limits`] from seconds to milliseconds.
fn seconds(bound: u64) -> i64 {
    i64::try_from(bound.saturating_mul(1_000)).unwrap_or(i64::MAX)
}
