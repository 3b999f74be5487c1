//! Rate limits for messages, and detection of loops between bots.
//!
//! [`Rates`] holds a token bucket per user, session and instance: a slow sender is never delayed, and a burst
//! may use the accumulated tokens. [`BotLoops`] counts messages of bots in a chat while no person writes. Both
//! evict the oldest entry when they are full, so that unknown senders cannot make them grow.

use std::collections::BTreeMap;

use crate::limits::{BOT_SILENCE_MS, NOTICE_INTERVAL_MS, RATES_MAX};

/// Limits in messages per minute; 0 means unlimited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RateLimits {
    /// Limit for one person on one instance.
    pub user: u32,
    /// Limit for one session.
    pub session: u32,
    /// Limit for all senders on one instance.
    pub instance: u32,
}

/// Owner of a bucket. Ordered, for a stable order of the table.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum BucketOwner {
    User(String, String),
    Session(String),
    Instance(String),
}

/// The remaining messages of an owner.
#[derive(Clone, Copy, Debug)]
struct Bucket {
    /// Remaining messages, in thousandths.
    left_milli: i64,
    at_ms: i64,
    told_ms: Option<i64>,
}

/// Decision about a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RateDecision {
    /// The message is within the limits.
    Free,
    /// The message exceeds a limit.
    Limited {
        /// Exceeded limit, in messages per minute.
        per_minute: u32,
        /// Time until the next message is allowed, in milliseconds.
        wait_ms: i64,
        /// True if the sender should get a notice, because there was none within the last minute.
        tell: bool,
    },
}

/// The buckets of all owners.
#[derive(Clone, Debug, Default)]
pub struct Rates {
    buckets: BTreeMap<BucketOwner, Bucket>,
}

impl Rates {
    /// Counts a message, or reports the exceeded limit without counting it.
    pub fn take(&mut self, limits: RateLimits, instance: &str, user: &str, session: &str, now_ms: i64) -> RateDecision {
        let person = BucketOwner::User(instance.to_owned(), user.to_owned());
        let asked = [
            (person.clone(), limits.user),
            (BucketOwner::Session(session.to_owned()), limits.session),
            (BucketOwner::Instance(instance.to_owned()), limits.instance),
        ];
        for (owner, per_minute) in &asked {
            let left_milli = self.refill(owner, *per_minute, now_ms);
            if *per_minute > 0 && left_milli < ONE {
                let missing = ONE - left_milli;
                let per_minute = *per_minute;
                let wait_ms = missing.saturating_mul(MINUTE_MS / ONE).div_euclid(i64::from(per_minute)) + 1;
                return RateDecision::Limited { per_minute, wait_ms, tell: self.tell(person, now_ms) };
            }
        }
        for (owner, per_minute) in asked {
            if let Some(bucket) = self.buckets.get_mut(&owner).filter(|_| per_minute > 0) {
                bucket.left_milli -= ONE;
            }
        }
        RateDecision::Free
    }

    /// Refills a bucket for the elapsed time and returns its content in thousandths.
    fn refill(&mut self, owner: &BucketOwner, per_minute: u32, now_ms: i64) -> i64 {
        if per_minute == 0 {
            return ONE;
        }
        let full = i64::from(per_minute) * ONE;
        let bucket = self.bucket(owner.clone(), Bucket { left_milli: full, at_ms: now_ms, told_ms: None });
        // A clock that was set back neither adds nor removes tokens.
        let passed_ms = now_ms.saturating_sub(bucket.at_ms).clamp(0, MINUTE_MS);
        bucket.left_milli = (bucket.left_milli + passed_ms * i64::from(per_minute) * ONE / MINUTE_MS).min(full);
        bucket.at_ms = now_ms;
        bucket.left_milli
    }

    fn tell(&mut self, person: BucketOwner, now_ms: i64) -> bool {
        let bucket = self.bucket(person, Bucket { left_milli: 0, at_ms: now_ms, told_ms: None });
        let told = bucket.told_ms.is_some_and(|told| (0..NOTICE_INTERVAL_MS).contains(&now_ms.saturating_sub(told)));
        if !told {
            bucket.told_ms = Some(now_ms);
        }
        !told
    }

    /// Returns the bucket of an owner. A new bucket replaces the least recently used one if the table is full.
    fn bucket(&mut self, owner: BucketOwner, new: Bucket) -> &mut Bucket {
        if self.buckets.len() >= RATES_MAX && !self.buckets.contains_key(&owner) {
            let oldest = self.buckets.iter().min_by_key(|(_, bucket)| bucket.at_ms).map(|(owner, _)| owner.clone());
            if let Some(oldest) = oldest {
                self.buckets.remove(&oldest);
            }
        }
        self.buckets.entry(owner).or_insert(new)
    }

    /// Removes buckets that were unused for a minute, because they are full again.
    pub fn sweep(&mut self, now_ms: i64) {
        self.buckets.retain(|_, bucket| now_ms.saturating_sub(bucket.at_ms) < MINUTE_MS);
    }
}

const MINUTE_MS: i64 = 60_000;
/// One message, in the thousandths that buckets count.
const ONE: i64 = 1_000;

/// Amount that is used up in any rhythm and refills evenly.
#[derive(Clone, Copy, Debug)]
pub struct TokenBucket {
    full: i64,
    per_s: i64,
    /// Thousandths of the unit. A negative value is an amount that was borrowed.
    left_milli: i64,
    at_ms: i64,
}

impl TokenBucket {
    /// Creates a full allowance of `full` units that regains `per_s` units per second.
    pub fn new(full: u32, per_s: u32, now_ms: i64) -> Self {
        let full = i64::from(full);
        Self { full, per_s: i64::from(per_s).max(1), left_milli: full * ONE, at_ms: now_ms }
    }

    /// Takes an amount if it is left. A full allowance gives any amount.
    pub fn take(&mut self, amount: u32, now_ms: i64) -> bool {
        self.refill(now_ms);
        let wanted = i64::from(amount).min(self.full) * ONE;
        let is_left = self.left_milli >= wanted;
        if is_left {
            self.left_milli -= wanted;
        }
        is_left
    }

    /// Takes an amount and returns the time until it is refilled, in milliseconds.
    pub fn borrow(&mut self, amount: u32, now_ms: i64) -> u64 {
        self.refill(now_ms);
        self.left_milli -= i64::from(amount) * ONE;
        let missing = u64::try_from(self.left_milli.saturating_neg()).unwrap_or(0);
        missing.div_ceil(self.per_s.unsigned_abs())
    }

    fn refill(&mut self, now_ms: i64) {
        // A clock that was set back changes nothing.
        let passed_ms = now_ms.saturating_sub(self.at_ms).max(0);
        let gained = passed_ms.saturating_mul(self.per_s);
        self.left_milli = self.left_milli.saturating_add(gained).min(self.full * ONE);
        self.at_ms = now_ms;
    }
}

/// Decision about a message of a bot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BotDecision {
    /// The agent answers.
    Answer,
    /// The agent does not answer, because too many messages have passed without a person.
    Silence {
        /// True for the first unanswered message.
        first: bool,
    },
}

/// The chats in which bots write while no person does.
#[derive(Clone, Debug, Default)]
pub struct BotLoops {
    /// By instance and chat: messages of bots since the last message of a person, and the time of the last one
    /// in Unix milliseconds.
    chats: BTreeMap<(String, String), (u32, i64)>,
}

impl BotLoops {
    /// Records a message of a bot and decides whether the agent answers it.
    pub fn bot(&mut self, max: u32, instance: &str, chat: &str, now_ms: i64) -> BotDecision {
        let key = (instance.to_owned(), chat.to_owned());
        if self.chats.len() >= RATES_MAX && !self.chats.contains_key(&key) {
            let oldest = self.chats.iter().min_by_key(|(_, (_, at_ms))| *at_ms).map(|(key, _)| key.clone());
            if let Some(oldest) = oldest {
                self.chats.remove(&oldest);
            }
        }
        let (count, at_ms) = self.chats.entry(key).or_insert((0, now_ms));
        if now_ms.saturating_sub(*at_ms) >= BOT_SILENCE_MS {
            *count = 0;
        }
        *at_ms = now_ms;
        *count = count.saturating_add(1);
        if *count <= max {
            BotDecision::Answer
        } else {
            BotDecision::Silence { first: *count == max.saturating_add(1) }
        }
    }

    /// Resets the count of a chat after a message of a person.
    pub fn person(&mut self, instance: &str, chat: &str) {
        // The table is empty nearly always; this check avoids the allocation of a key.
        if !self.chats.is_empty() {
            self.chats.remove(&(instance.to_owned(), chat.to_owned()));
        }
    }

    /// Returns the number of chats in which bots are not answered.
    pub fn silent(&self, max: u32) -> usize {
        self.chats.values().filter(|(count, _)| *count > max).count()
    }

    /// Removes chats whose last bot message is so old that bots would be answered again.
    pub fn sweep(&mut self, now_ms: i64) {
        self.chats.retain(|_, (_, at_ms)| now_ms.saturating_sub(*at_ms) < BOT_SILENCE_MS);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LIMITS: RateLimits = RateLimits { user: 3, session: 0, instance: 0 };

    fn free(rates: &mut Rates, limits: RateLimits, user: &str, session: &str, now_ms: i64) -> bool {
        rates.take(limits, "a", user, session, now_ms) == RateDecision::Free
    }

    #[test]
    fn an_allowance_gives_a_burst_and_then_its_rate() {
        let mut rows = TokenBucket::new(2, 4, 0);
        assert_eq!([rows.take(1, 0), rows.take(1, 0), rows.take(1, 0)], [true, true, false]);
        assert!(!rows.take(1, 249) && rows.take(1, 250), "a quarter of a second for one of four");
        assert!(!rows.take(1, 0), "a clock that was set back gives nothing");
        assert!(rows.take(9, 60_000) && !rows.take(1, 60_000), "a full one gives an amount that never fits");
    }

    #[test]
    fn a_borrowed_amount_is_waited_for_in_proportion() {
        let mut bytes = TokenBucket::new(100, 50, 0);
        assert_eq!([bytes.borrow(100, 0), bytes.borrow(50, 0), bytes.borrow(25, 0)], [0, 1_000, 1_500]);
        assert_eq!(bytes.borrow(0, 1_000), 500);
        assert_eq!(bytes.borrow(100, 60_000), 0, "it is full again and not fuller");
        assert_eq!(bytes.borrow(1, 60_000), 20);
    }

    #[test]
    fn whoever_writes_too_much_is_told_once_a_minute_and_when_to_come_back() {
        let mut rates = Rates::default();
        for _ in 0..3 {
            assert_eq!(rates.take(LIMITS, "a", "7", "s", 0), RateDecision::Free);
        }
        let RateDecision::Limited { per_minute: 3, wait_ms, tell: true } = rates.take(LIMITS, "a", "7", "s", 0) else {
            panic!("the fourth is too much")
        };
        assert!((20_000..20_010).contains(&wait_ms), "{wait_ms}");
        assert!(matches!(rates.take(LIMITS, "a", "7", "s", 1), RateDecision::Limited { tell: false, .. }));
        assert_eq!(rates.take(LIMITS, "a", "7", "s", wait_ms), RateDecision::Free);
        assert!(matches!(rates.take(LIMITS, "a", "7", "s", wait_ms), RateDecision::Limited { tell: false, .. }));
        assert_eq!(rates.take(LIMITS, "a", "8", "s", 2), RateDecision::Free, "somebody else has a rate of their own");
    }

    #[test]
    fn a_session_and_an_instance_have_rates_of_their_own() {
        let mut rates = Rates::default();
        let limits = RateLimits { user: 0, session: 2, instance: 3 };
        assert!(free(&mut rates, limits, "7", "s", 0) && free(&mut rates, limits, "8", "s", 0));
        assert!(!free(&mut rates, limits, "9", "s", 0), "the session has had two");
        assert!(free(&mut rates, limits, "9", "t", 0));
        assert!(!free(&mut rates, limits, "9", "u", 0), "the instance has had three");
        assert!(free(&mut rates, RateLimits::default(), "9", "u", 0), "no limit is no limit");
    }

    #[test]
    fn a_message_that_is_held_back_does_not_count() {
        let mut rates = Rates::default();
        let limits = RateLimits { user: 1, session: 10, instance: 0 };
        assert!(free(&mut rates, limits, "7", "s", 0));
        for _ in 0..50 {
            assert!(!free(&mut rates, limits, "7", "s", 0));
        }
        assert!(free(&mut rates, limits, "8", "s", 0), "the session has room");
    }

    #[test]
    fn the_tables_stay_bounded_whoever_writes() {
        let (mut rates, mut loops) = (Rates::default(), BotLoops::default());
        for n in 0..i64::try_from(RATES_MAX).unwrap() + 100 {
            rates.take(LIMITS, "a", &n.to_string(), "s", n);
            loops.bot(1, "a", &n.to_string(), n);
        }
        assert!(rates.buckets.len() <= RATES_MAX && loops.chats.len() <= RATES_MAX);
        rates.sweep(10 * MINUTE_MS);
        loops.sweep(10 * BOT_SILENCE_MS);
        assert!(rates.buckets.is_empty() && loops.chats.is_empty());
    }

    #[test]
    fn two_bots_exchange_so_many_messages_and_then_there_is_silence() {
        let mut loops = BotLoops::default();
        for _ in 0..4 {
            assert_eq!(loops.bot(4, "a", "c", 0), BotDecision::Answer);
        }
        assert_eq!(loops.bot(4, "a", "c", 0), BotDecision::Silence { first: true });
        assert_eq!(loops.bot(4, "a", "c", 1), BotDecision::Silence { first: false });
        assert_eq!((loops.bot(4, "a", "d", 1), loops.silent(4)), (BotDecision::Answer, 1), "another chat");
        loops.person("a", "c");
        assert_eq!(loops.bot(4, "a", "c", 2), BotDecision::Answer, "a person spoke");
    }

    #[test]
    fn bots_that_were_silent_for_an_hour_are_answered_again() {
        let mut loops = BotLoops::default();
        assert_eq!(loops.bot(0, "a", "c", 0), BotDecision::Silence { first: true }, "none at all");
        loops.bot(1, "a", "c", 1);
        assert_eq!(loops.bot(1, "a", "c", 1 + BOT_SILENCE_MS), BotDecision::Answer);
    }

    proptest! {
        #[test]
        fn nobody_gets_more_than_a_burst_and_the_time_that_passed(
            per_minute in 1u32..20, steps in proptest::collection::vec(0i64..20_000, 1..80),
        ) {
            let limits = RateLimits { user: per_minute, ..RateLimits::default() };
            let (mut rates, mut now_ms, mut taken) = (Rates::default(), 0, 0i64);
            for step in steps {
                now_ms += step;
                if free(&mut rates, limits, "7", "s", now_ms) {
                    taken += 1;
                }
                prop_assert!(taken <= i64::from(per_minute) + now_ms * i64::from(per_minute) / MINUTE_MS);
            }
        }
    }
}
