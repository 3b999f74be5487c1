//! Ids of messages, which are their times.

/// Returns the time of a message's id, in milliseconds since the Unix epoch.
pub(crate) fn at_ms(ts: &str) -> i64 {
    let (seconds, fraction) = ts.split_once('.').unwrap_or((ts, ""));
    let millis: i64 = fraction.get(..3).and_then(|digits| digits.parse().ok()).unwrap_or(0);
    seconds.parse::<i64>().unwrap_or(0).saturating_mul(1000).saturating_add(millis)
}

/// Returns whether this may be the id of a message.
pub(crate) fn is_ts(text: &str) -> bool {
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    text.split_once('.').is_some_and(|(seconds, fraction)| digits(seconds) && digits(fraction))
}
