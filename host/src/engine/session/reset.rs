//! The rules that start a new conversation by themselves.
//!
//! A rule is converted into two points in time; a conversation that was last used before one of them ends. So a sweep
//! checks many conversations with two comparisons each.

use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;

use hermes_config::{ResetConfig, ResetMode};

/// The reason of a reset after inactivity.
const IDLE: &str = "idle";

/// The reason of a reset at a fixed hour.
const DAILY: &str = "daily";

/// A rule, evaluated at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// A conversation that was last used at or before this time was inactive for too long, in milliseconds since the
    /// Unix epoch.
    idle_ms: Option<i64>,
    /// A conversation that was last used before this time has passed the daily hour since, in milliseconds since the
    /// Unix epoch.
    struck_ms: Option<i64>,
}

impl Limits {
    /// Evaluates `rule` at `now_ms`.
    pub fn at(rule: &ResetConfig, now_ms: i64) -> Self {
        let (idle, daily) = match rule.mode {
            ResetMode::None => (false, false),
            ResetMode::Idle => (true, false),
            ResetMode::Daily => (false, true),
            ResetMode::Both => (true, true),
        };
        let silence_ms = i64::try_from(rule.idle.as_millis()).unwrap_or(i64::MAX);
        Self {
            idle_ms: idle.then(|| now_ms.saturating_sub(silence_ms)),
            struck_ms: daily.then(|| last_strike(rule.at_hour, now_ms, &rule.zone)).flatten(),
        }
    }

    /// Returns the reason for which a conversation that was last used at `used_ms` is reset; `None`: it continues.
    pub fn due(self, used_ms: i64) -> Option<&'static str> {
        if self.idle_ms.is_some_and(|limit_ms| used_ms <= limit_ms) {
            return Some(IDLE);
        }
        self.struck_ms.is_some_and(|struck_ms| used_ms < struck_ms).then_some(DAILY)
    }
}

/// Returns the rule that ended a session, by its stored word; `None`: no rule ended it.
pub fn rule_of(end_reason: &str) -> Option<&'static str> {
    [IDLE, DAILY].into_iter().find(|reason| *reason == end_reason)
}

/// Returns the notice for the chat.
pub fn notice(reason: &str) -> &'static str {
    match reason {
        DAILY => "New day, new conversation. The previous one is kept; `/sessions` lists it.",
        _ => {
            "This conversation was idle for a long time, so a new one starts. The previous one is kept; `/sessions` lists it."
        }
    }
}

/// Returns the note for the model in the first turn of the next conversation.
pub fn note(reason: &str) -> &'static str {
    match reason {
        DAILY => {
            "[Note: this chat starts a new conversation every day, and this is the first message of today. \
             The previous conversation is kept, but you cannot see it.]"
        }
        _ => {
            "[Note: the previous conversation of this chat ended after a long time without messages, and this is the \
             first message of a new one. The previous conversation is kept, but you cannot see it.]"
        }
    }
}

/// Returns the last time at which this hour began; `None`: the time cannot be determined, which resets nothing.
///
/// An hour that a day skips begins at the end of the gap; an hour that occurs twice begins the first time.
fn last_strike(hour: u8, now_ms: i64, zone: &TimeZone) -> Option<i64> {
    let now = Timestamp::from_millisecond(now_ms).ok()?;
    let strike = |day: Date| {
        let struck = day.at(i8::try_from(hour.min(23)).ok()?, 0, 0, 0).to_zoned(zone.clone()).ok()?;
        Some(struck.timestamp().as_millisecond())
    };
    let today = now.to_zoned(zone.clone()).date();
    let struck_ms = strike(today)?;
    if struck_ms <= now_ms { Some(struck_ms) } else { strike(today.yesterday().ok()?) }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const HOUR_MS: i64 = 3_600_000;

    fn rule(mode: ResetMode, at_hour: u8, zone: TimeZone) -> ResetConfig {
        ResetConfig { mode, at_hour, idle: Duration::from_secs(3_600), notify: true, zone }
    }

    fn due(rule: &ResetConfig, used_ms: i64, now_ms: i64) -> Option<&'static str> {
        Limits::at(rule, now_ms).due(used_ms)
    }

    /// Returns the zone of Central Europe: the clock skips 2:00 to 3:00 in March and repeats it in October.
    fn europe() -> TimeZone {
        TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").unwrap()
    }

    fn utc(text: &str) -> i64 {
        text.parse::<Timestamp>().unwrap().as_millisecond()
    }

    #[test]
    fn an_idle_conversation_begins_anew() {
        let idle = rule(ResetMode::Idle, 4, TimeZone::UTC);
        assert_eq!(due(&idle, 0, HOUR_MS - 1), None);
        assert_eq!(due(&idle, 0, HOUR_MS), Some(IDLE));
        assert_eq!(due(&idle, HOUR_MS, 0), None, "a clock that went back resets nothing");
    }

    #[test]
    fn the_hour_counts_once_a_day_in_its_zone() {
        let daily = rule(ResetMode::Daily, 4, TimeZone::UTC);
        let day = 24 * HOUR_MS;
        let at = |hours: i64| 20_000 * day + hours * HOUR_MS;
        assert_eq!(due(&daily, at(3), at(5)), Some(DAILY));
        assert_eq!(due(&daily, at(5), at(20)), None);
        assert_eq!(due(&daily, at(5), at(27)), None);
        assert_eq!(due(&daily, at(5), at(28)), Some(DAILY));
        let east = rule(ResetMode::Daily, 4, TimeZone::fixed(jiff::tz::offset(2)));
        assert_eq!(due(&east, at(1), at(2)), Some(DAILY), "4 o'clock in the east is 2 in UTC");
    }

    #[test]
    fn without_a_rule_nothing_is_ever_due() {
        let none = rule(ResetMode::None, 4, TimeZone::UTC);
        assert_eq!(due(&none, i64::MIN, i64::MAX), None);
    }

    #[test]
    fn with_both_rules_a_silence_is_named_before_the_hour() {
        let both = rule(ResetMode::Both, 4, TimeZone::UTC);
        let (three, half_past_four) = (utc("2026-05-05T03:45:00Z"), utc("2026-05-05T04:30:00Z"));
        assert_eq!(due(&both, three, half_past_four), Some(DAILY), "silent for less than an hour");
        assert_eq!(due(&both, three - HOUR_MS, half_past_four), Some(IDLE));
    }

    #[test]
    fn an_hour_that_the_spring_skips_strikes_once_when_the_gap_ends() {
        let daily = rule(ResetMode::Daily, 2, europe());
        // 2:00 does not exist on 29 March 2026: the clock goes from 1:59 (00:59 UTC) to 3:00 (01:00 UTC).
        let evening = utc("2026-03-28T20:00:00Z");
        assert_eq!(due(&daily, evening, utc("2026-03-29T00:59:00Z")), None);
        assert_eq!(due(&daily, evening, utc("2026-03-29T01:00:00Z")), Some(DAILY));
        assert_eq!(due(&daily, utc("2026-03-29T01:00:00Z"), utc("2026-03-29T23:59:00Z")), None);
        assert_eq!(due(&daily, utc("2026-03-29T23:59:00Z"), utc("2026-03-30T00:00:00Z")), Some(DAILY));
    }

    #[test]
    fn the_day_after_a_gap_the_hour_before_it_is_still_the_right_one() {
        let daily = rule(ResetMode::Daily, 2, europe());
        // At 1:00 on 30 March the last strike was at the end of the gap, not an hour later or earlier.
        let now = utc("2026-03-29T23:00:00Z");
        assert_eq!(due(&daily, utc("2026-03-29T00:59:59Z"), now), Some(DAILY));
        assert_eq!(due(&daily, utc("2026-03-29T01:00:00Z"), now), None);
    }

    #[test]
    fn an_hour_that_the_autumn_repeats_strikes_the_first_time_only() {
        let daily = rule(ResetMode::Daily, 2, europe());
        // 2:00 comes twice on 25 October 2026: at 00:00 UTC and at 01:00 UTC.
        let evening = utc("2026-10-24T20:00:00Z");
        assert_eq!(due(&daily, evening, utc("2026-10-24T23:59:00Z")), None);
        assert_eq!(due(&daily, evening, utc("2026-10-25T00:00:00Z")), Some(DAILY));
        assert_eq!(due(&daily, utc("2026-10-25T00:30:00Z"), utc("2026-10-25T01:30:00Z")), None);
        assert_eq!(due(&daily, utc("2026-10-25T01:30:00Z"), utc("2026-10-26T00:59:00Z")), None);
        assert_eq!(due(&daily, utc("2026-10-25T01:30:00Z"), utc("2026-10-26T01:00:00Z")), Some(DAILY));
    }

    #[test]
    fn only_a_rules_own_words_mean_that_a_rule_ended_a_session() {
        assert_eq!(rule_of("idle"), Some(IDLE));
        assert_eq!(rule_of("daily"), Some(DAILY));
        assert_eq!(rule_of("new"), None);
    }
}
