//! From an outcome to what is done about it.

use hermes_protocol::{LookupReply, Purpose, RefusalKind, SendOutcome, WaitScope};

use super::{BREAKS_THE_ADAPTER, Class, DEADLINE_PASSED, DOUBTFUL_TWICE, INTERRUPTED_TOO_OFTEN, PartFacts, PartState};
use crate::backoff::Backoff;
use crate::limits;

/// How long before its deadline a part is tried a last time, in milliseconds, where the platform
/// asks for a longer wait than there is.
pub const LAST_TRY_MS: i64 = 30_000;

/// The time for which an answer is tried after the host was down or asleep past its deadline, in milliseconds.
pub const AWAKE_TRY_MS: i64 = 600_000;

/// A doubt is not repeated sooner than after so many failures in a row: what answers nothing, or an error without a
/// word of the platform, mostly lasts longer than the first waits.
const DOUBT_FAILURES: u32 = 4;

#[cfg(test)]
mod tests;

/// What is done about a part after an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum Step {
    /// It ended.
    Settle(PartState),
    /// It is tried again, not before this time.
    RetryAt {
        /// When, in Unix milliseconds.
        not_before_ms: i64,
        /// What waits until then.
        scope: RetryScope,
    },
    /// The same once more at once, as plain text from its source.
    ResendPlain,
    /// What is left of the delivery is split again, smaller.
    Resplit,
    /// The adapter is asked whether it arrived, not before this time, then [`after_lookup`].
    Lookup {
        /// When, in Unix milliseconds.
        not_before_ms: i64,
        /// What waits for the answer: the lane, or the part alone.
        scope: RetryScope,
    },
    /// The same once more, marked as a repeat, not before this time, and not before the adapter has carried
    /// something since: whatever swallowed the first would swallow the repeat too.
    RepeatMarked {
        /// When, in Unix milliseconds.
        not_before_ms: i64,
    },
    /// The thread is gone: once more at once into the chat itself, which is told once.
    DropThread,
    /// The chat moved: once more at once under this id, for this and everything else owed to it.
    Rewrite {
        /// The new id.
        to: String,
    },
    /// The credential is not accepted: the adapter is degraded, the part waits until this time.
    Degrade {
        /// When, in Unix milliseconds.
        not_before_ms: i64,
    },
    /// It is given up.
    Abandon(&'static str),
}

/// What waits for a retry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetryScope {
    /// The part alone; its lane goes on without it.
    Part,
    /// The lane (instance, chat, thread) behind it.
    Lane,
    /// Everything for this chat.
    Chat,
    /// Everything of this instance.
    Instance,
}

/// How hard the host tries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
    /// Waits between tries.
    pub backoff: Backoff,
    /// How long a part that fails for its own sake holds its lane, in milliseconds.
    pub lane_hold_ms: i64,
    /// How long a reply is tried, in milliseconds.
    pub reply_deadline_ms: i64,
    /// How long a notice or a question is tried, in milliseconds.
    pub notice_deadline_ms: i64,
    /// The longest wait after nothing reached the platform, in milliseconds.
    pub unreachable_ms_max: i64,
    /// After so many deaths of the instance a part is given up.
    pub deaths_max: u32,
    /// Marked repeats of one part at most, where our own side caused the doubts.
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
    /// Returns until when a delivery made at `made_ms` is tried. A notice or a
    /// question that comes late is worse than none.
    pub fn deadline_ms(&self, purpose: &Purpose, made_ms: i64) -> i64 {
        let span = match purpose {
            Purpose::Notice | Purpose::Ask => self.notice_deadline_ms,
            _ => self.reply_deadline_ms,
        };
        made_ms.saturating_add(span)
    }

    /// Whether a part must not be sent any more. At the deadline itself it still may.
    pub fn is_expired(&self, now_ms: i64, deadline_ms: i64) -> bool {
        now_ms > deadline_ms
    }
}

/// Returns the deadline of a delivery in this run of the host, which began at `awake_since_ms`. An answer is never given
/// up without a try only because the host was down, asleep or started with another clock. A notice that late is not
/// worth one.
pub fn deadline_in_this_run(
    purpose: &Purpose,
    (created_ms, deadline_ms): (i64, i64),
    awake_since_ms: i64,
    now_ms: i64,
) -> i64 {
    let span_ms = deadline_ms.saturating_sub(created_ms).max(0);
    if created_ms > now_ms {
        // It was written by a clock that was ahead.
        return deadline_ms.min(awake_since_ms.saturating_add(span_ms));
    }
    match purpose {
        Purpose::Notice | Purpose::Ask => deadline_ms,
        _ => deadline_ms.max(awake_since_ms.saturating_add(span_ms.min(AWAKE_TRY_MS))),
    }
}

/// Returns what is done about a part after an attempt ended in `outcome`.
///
/// `facts` already count this attempt and, if our own side cut it off, say so.
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
    let judge = Judge { facts, policy, now_ms, deadline_ms, jitter };
    match outcome {
        SendOutcome::Delivered { receipt } => Step::Settle(PartState::Delivered { receipt: receipt.clone() }),
        SendOutcome::Refused { kind, detail, migrated_to } => judge.refused(kind, detail, migrated_to.as_deref()),
        _ if facts.deaths >= policy.deaths_max => Step::Abandon(BREAKS_THE_ADAPTER),
        SendOutcome::NotSent { retry_after_ms: Some(wait), scope, .. } => {
            judge.wait_as_told(*wait, RetryScope::from(scope))
        }
        SendOutcome::NotSent { retry_after_ms: None, scope: WaitScope::Instance, .. } => {
            judge.retry(RetryScope::Instance)
        }
        SendOutcome::NotSent { .. } => judge.retry(judge.own_scope()),
        SendOutcome::Unknown { keyless: true, .. } => judge.doubt(),
        // Also an answer of a later version: whatever it says, it is no receipt.
        _ => match class {
            Class::Idempotent => judge.retry(judge.own_scope()),
            Class::Reconcilable => Step::Lookup { not_before_ms: now_ms, scope: judge.own_scope() },
            _ => judge.doubt(),
        },
    }
}

/// Returns what is done about a doubtful part after the adapter was asked for it.
/// `None`: the question itself failed, and is asked again later.
pub fn after_lookup(
    reply: Option<&LookupReply>,
    facts: &PartFacts,
    policy: &RetryPolicy,
    now_ms: i64,
    deadline_ms: i64,
    jitter: u64,
) -> Step {
    let judge = Judge { facts, policy, now_ms, deadline_ms, jitter };
    match reply {
        Some(LookupReply::Found { receipt }) => Step::Settle(PartState::Delivered { receipt: receipt.clone() }),
        Some(LookupReply::Absent) => judge.retry(judge.own_scope()),
        Some(_) => judge.doubt(),
        None => match judge.retry(judge.own_scope()) {
            Step::RetryAt { not_before_ms, scope } => Step::Lookup { not_before_ms, scope },
            other => other,
        },
    }
}

/// Returns what an outcome is worth that blames the whole instance, of an adapter that `carried` something since this
/// part was blamed on it before: then it is the part that does not go, and nothing else waits for it.
pub fn contradicted(outcome: SendOutcome, carried: bool) -> SendOutcome {
    match outcome {
        SendOutcome::NotSent { retry_after_ms: None, scope: WaitScope::Instance, detail } if carried => {
            SendOutcome::not_sent(None, WaitScope::Chat, detail)
        }
        outcome => outcome,
    }
}

/// Whether a refusal means that nothing can be sent to this chat until it speaks again.
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

    /// Returns the facts to keep with the part once this step is taken.
    pub fn note(&self, facts: &PartFacts, now_ms: i64) -> PartFacts {
        let mut facts = facts.clone();
        let ours = facts.ours;
        if matches!(self, Self::Lookup { .. }) {
            // The doubt stays open until the answer.
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
            // The whole chat or instance waits; the time does not count against the part.
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
    /// A scope of a later version holds the least: the chat.
    fn from(scope: &WaitScope) -> Self {
        match scope {
            WaitScope::Instance => Self::Instance,
            _ => Self::Chat,
        }
    }
}

/// One part, seen at one moment.
struct Judge<'a> {
    facts: &'a PartFacts,
    policy: &'a RetryPolicy,
    now_ms: i64,
    deadline_ms: i64,
    jitter: u64,
}

impl Judge<'_> {
    fn refused(&self, kind: &RefusalKind, detail: &str, migrated_to: Option<&str>) -> Step {
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

    /// The platform named a wait, which is kept up to [`limits::WAIT_TOLD_MS_MAX`]: then the platform is asked again.
    /// Where it leads past the deadline there is one more try, shortly before that. A part that is told to wait again
    /// and again waits alone: the reason lies in the part, and nothing else is held for it.
    fn wait_as_told(&self, wait_ms: u64, scope: RetryScope) -> Step {
        let wait = i64::try_from(wait_ms).unwrap_or(i64::MAX).min(limits::WAIT_TOLD_MS_MAX);
        let scope = if self.facts.told > limits::TOLD_WAITS_MAX { RetryScope::Part } else { scope };
        let told = self.now_ms.saturating_add(wait);
        if told <= self.deadline_ms {
            return Step::RetryAt { not_before_ms: told, scope };
        }
        let window = self.deadline_ms.saturating_sub(LAST_TRY_MS);
        // A try within the window was the last one.
        if self.now_ms >= window {
            return Step::Abandon(DEADLINE_PASSED);
        }
        // In the first half of the window: what is due at the deadline itself may come too late.
        let jitter = i64::try_from(self.jitter % (LAST_TRY_MS.unsigned_abs() / 2)).unwrap_or_default();
        Step::RetryAt { not_before_ms: window.saturating_add(jitter), scope }
    }

    /// Nobody said how long: doubling waits, the last one ending at the deadline.
    fn retry(&self, scope: RetryScope) -> Step {
        if self.now_ms >= self.deadline_ms {
            return Step::Abandon(DEADLINE_PASSED);
        }
        let longest = match scope {
            // Nothing reached the platform, so a try costs it nothing, and the whole instance waits for it.
            RetryScope::Instance => self.policy.unreachable_ms_max,
            _ => i64::MAX,
        };
        Step::RetryAt { not_before_ms: self.within_deadline(self.backoff_ms().min(longest)), scope }
    }

    /// It may have arrived, and nobody can tell: once more, marked, and never again. A doubt that our own side caused
    /// does not use up this repeat: further ones follow, with growing waits.
    fn doubt(&self) -> Step {
        let facts = self.facts;
        if facts.ours {
            return self.interruption();
        }
        if facts.doubts > facts.interrupted || facts.doubts >= self.policy.repeats_max {
            Step::Abandon(DOUBTFUL_TWICE)
        } else if self.now_ms >= self.deadline_ms {
            Step::Abandon(DEADLINE_PASSED)
        } else {
            let failures = self.facts.attempts.saturating_add(self.facts.lookups).max(DOUBT_FAILURES);
            // What is behind it waits for it.
            let wait_ms = self.delay_ms(failures).min(self.policy.lane_hold_ms);
            Step::RepeatMarked { not_before_ms: self.within_deadline(wait_ms) }
        }
    }

    /// The host or the process of the adapter ended during the attempt. The platform had no part in that, so the first
    /// repeat follows soon.
    fn interruption(&self) -> Step {
        if self.facts.doubts >= self.policy.repeats_max {
            return Step::Abandon(INTERRUPTED_TOO_OFTEN);
        }
        if self.now_ms >= self.deadline_ms {
            return Step::Abandon(DEADLINE_PASSED);
        }
        let wait_ms = self.delay_ms(self.facts.doubts.saturating_add(1)).min(self.policy.lane_hold_ms);
        Step::RepeatMarked { not_before_ms: self.within_deadline(wait_ms) }
    }

    /// A part that fails for its own sake holds its lane for a while, then steps aside.
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

/// A bound of [`limits`] in milliseconds.
fn seconds(bound: u64) -> i64 {
    i64::try_from(bound.saturating_mul(1_000)).unwrap_or(i64::MAX)
}
