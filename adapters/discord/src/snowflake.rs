//! Ids of Discord objects: decimal numbers that contain their creation time.
//!
//! <https://docs.discord.com/developers/reference#snowflakes>

/// Returns an id as a number; `None` if it is no id.
pub(crate) fn parse(id: &str) -> Option<u64> {
    id.parse().ok().filter(|_| id.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Returns the creation time of an id, in milliseconds since the Unix epoch.
/// <https://docs.discord.com/developers/reference#convert-snowflake-to-datetime>
pub(crate) fn time_ms(id: &str) -> i64 {
    const DISCORD_EPOCH_MS: u64 = 1_420_070_400_000;
    parse(id).and_then(|id| i64::try_from((id >> 22) + DISCORD_EPOCH_MS).ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_tells_when_it_was_given() {
        assert_eq!(time_ms("175928847299117063"), 1_462_015_105_796);
        assert_eq!(time_ms("no id"), 0);
    }
}
