//! When a conversation begins anew by itself.

use std::time::Duration;

use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan};

use crate::config::{ResetConfig, ResetMode};

/// Why a conversation was reset after a silence.
const IDLE: &str = "idle";

/// Why a conversation was reset by the hour.
const DAILY: &str = "daily";

/// Returns why a conversation that was last used at `used_ms` begins anew, if a rule says so.
pub fn due(rule: &ResetConfig, used_ms: i64, now_ms: i64, zone: &TimeZone) -> Option<&'static str> {
    let idle = || silent_for(rule.idle, used_ms, now_ms).then_some(IDLE);
    let daily = || an_hour_has_struck(rule.at_hour, used_ms, now_ms, zone).then_some(DAILY);
    match rule.mode {
        ResetMode::None => None,
        ResetMode::Idle => idle(),
        ResetMode::Daily => daily(),
        ResetMode::Both => idle().or_else(daily),
    }
}

/// What the chat is told.
pub fn notice(reason: &str) -> &'static str {
    match reason {
        DAILY => "A new day, a new conversation: the former one is kept.",
        _ => "This conversation was idle for long, so a new one begins. The former one is kept.",
    }
}

fn silent_for(limit: Duration, used_ms: i64, now_ms: i64) -> bool {
    u128::try_from(now_ms.saturating_sub(used_ms)).is_ok_and(|silent| silent >= limit.as_millis())
}

/// Whether that hour of some day lies after the last use.
fn an_hour_has_struck(hour: u8, used_ms: i64, now_ms: i64, zone: &TimeZone) -> bool {
    let struck = || {
        let now = Timestamp::from_millisecond(now_ms).ok()?.to_zoned(zone.clone());
        let today = now.date().at(i8::try_from(hour.min(23)).ok()?, 0, 0, 0).to_zoned(zone.clone()).ok()?;
        let last = if today <= now { today } else { today.checked_sub(1.day()).ok()? };
        Some(last.timestamp().as_millisecond() > used_ms)
    };
    // A time that cannot be told resets nothing.
    struck().unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR_MS: i64 = 3_600_000;

    fn rule(mode: ResetMode) -> ResetConfig {
        ResetConfig { mode, at_hour: 4, idle: Duration::from_secs(3_600), notify: true }
    }

    #[test]
    fn an_idle_conversation_begins_anew() {
        let idle = rule(ResetMode::Idle);
        assert_eq!(due(&idle, 0, HOUR_MS - 1, &TimeZone::UTC), None);
        assert_eq!(due(&idle, 0, HOUR_MS, &TimeZone::UTC), Some(IDLE));
        assert_eq!(due(&idle, HOUR_MS, 0, &TimeZone::UTC), None, "a clock that went back resets nothing");
    }

    #[test]
    fn the_hour_counts_once_a_day_in_its_zone() {
        let daily = rule(ResetMode::Daily);
        let day = 24 * HOUR_MS;
        let at = |hours: i64| 20_000 * day + hours * HOUR_MS;
        assert_eq!(due(&daily, at(3), at(5), &TimeZone::UTC), Some(DAILY));
        assert_eq!(due(&daily, at(5), at(20), &TimeZone::UTC), None);
        assert_eq!(due(&daily, at(5), at(27), &TimeZone::UTC), None);
        assert_eq!(due(&daily, at(5), at(28), &TimeZone::UTC), Some(DAILY));
        let east = TimeZone::fixed(jiff::tz::offset(2));
        assert_eq!(due(&daily, at(1), at(2), &east), Some(DAILY), "4 o'clock in the east is 2 in UTC");
    }
}
