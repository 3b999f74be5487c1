//! Discord's rate limits: one bucket for each route and is_major-level resource, and one for all requests.
//!
//! The functions are pure: the time is an argument. No limit is hard coded, because the platform forbids it;
//! the values of its response headers apply until they expire.
//! <https://docs.discord.com/developers/topics/rate-limits>

use std::collections::BTreeMap;
use std::time::Duration;

use hermes_adapter_net::reqwest::header::HeaderMap;
use hermes_adapter_sdk::tokio::time::Instant;

/// The maximum number of remembered buckets. Above it full buckets are dropped first.
const BUCKETS_MAX: usize = 1024;
/// The longest accepted wait. After it the request is retried, and the server can repeat a longer wait.
pub(crate) const WAIT_MAX: Duration = Duration::from_secs(15 * 60);

/// The known limits of one account.
#[derive(Debug, Default)]
pub(crate) struct RateLimits {
    /// The server's bucket of each route; routes may share one.
    bucket_of_route: BTreeMap<String, String>,
    buckets: BTreeMap<String, Bucket>,
    /// The time before which no request is allowed.
    blocked_until: Option<Instant>,
}

#[derive(Clone, Copy, Debug)]
struct Bucket {
    remaining: u32,
    resets_at: Instant,
}

/// The limits in the headers of a response.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct RateLimitHeaders {
    /// The name of the bucket.
    pub bucket: Option<String>,
    /// The number of remaining requests.
    pub remaining: Option<u32>,
    /// The time until the bucket is full again.
    pub resets_in: Option<Duration>,
}

impl RateLimitHeaders {
    /// Parses the headers of a response.
    pub(crate) fn parse(headers: &HeaderMap) -> Self {
        let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).map(str::trim);
        Self {
            bucket: text("x-ratelimit-bucket").map(|name| name.chars().take(64).collect()),
            remaining: text("x-ratelimit-remaining").and_then(|remaining| remaining.parse().ok()),
            resets_in: text("x-ratelimit-reset-after").and_then(|seconds| seconds.parse().ok()).and_then(seconds),
        }
    }
}

/// Returns a plausible number of seconds as a duration.
pub(crate) fn seconds(seconds: f64) -> Option<Duration> {
    (seconds >= 0.0).then(|| Duration::from_secs_f64(seconds.min(WAIT_MAX.as_secs_f64())))
}

impl RateLimits {
    /// Takes one request from the bucket of `route`.
    ///
    /// # Errors
    ///
    /// The wait, if the bucket is empty.
    pub(crate) fn take(&mut self, route: &str, now: Instant) -> Result<(), Duration> {
        if let Some(until) = self.blocked_until.filter(|until| *until > now) {
            return Err(until - now);
        }
        let Some(bucket) =
            self.bucket_of_route.get(route).and_then(|name| self.buckets.get_mut(&bucket_key(name, route)))
        else {
            return Ok(());
        };
        if bucket.resets_at <= now {
            return Ok(());
        }
        match bucket.remaining.checked_sub(1) {
            Some(remaining) => bucket.remaining = remaining,
            None => return Err(bucket.resets_at - now),
        }
        Ok(())
    }

    /// Stores the limits in a response of `route`.
    pub(crate) fn update(&mut self, route: &str, reported: &RateLimitHeaders, now: Instant) {
        let (Some(name), Some(remaining), Some(resets_in)) = (&reported.bucket, reported.remaining, reported.resets_in)
        else {
            return;
        };
        if self.buckets.len() >= BUCKETS_MAX || self.bucket_of_route.len() >= BUCKETS_MAX {
            self.buckets.retain(|_, bucket| bucket.resets_at > now);
            self.bucket_of_route.clear();
        }
        if self.buckets.len() < BUCKETS_MAX {
            self.bucket_of_route.insert(route.to_owned(), name.clone());
            self.buckets.insert(bucket_key(name, route), Bucket { remaining, resets_at: now + resets_in });
        }
    }

    /// Records that the bucket of `route` is empty for `wait`, because the server rejected a request.
    pub(crate) fn block(&mut self, route: &str, wait: Duration, now: Instant) {
        let name = self.bucket_of_route.get(route).cloned().unwrap_or_else(|| route.to_owned());
        self.update(route, &RateLimitHeaders { bucket: Some(name), remaining: Some(0), resets_in: Some(wait) }, now);
    }

    /// Records that no request is allowed for `wait`.
    pub(crate) fn block_all(&mut self, wait: Duration, now: Instant) {
        self.blocked_until = Some(now + wait);
    }
}

/// Returns the name of a bucket for one top-level resource, because each resource counts separately.
fn bucket_key(bucket: &str, route: &str) -> String {
    let major = route.split_once(' ').map_or(route, |(_, path)| path);
    let major: Vec<&str> = major.split('/').take(2).collect();
    format!("{bucket} {}", major.join("/"))
}

/// Returns the route of a path for its limits: ids are kept only if they identify a top-level resource.
pub(crate) fn route(method: &str, path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for (n, part) in path.split('/').enumerate() {
        let is_major = n == 1 && matches!(parts.first(), Some(&("channels" | "guilds" | "webhooks")));
        let is_token = n == 2 && parts.first() == Some(&"webhooks");
        let is_emoji = parts.last() == Some(&"reactions");
        let is_id = !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
        // The path of an interaction's answers contains its token, which is never stored and has a bucket of its own.
        parts.push(if (is_id && !is_major) || is_token || is_emoji { ":" } else { part });
    }
    format!("{method} {}", parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(bucket: &str, remaining: u32, ms: u64) -> RateLimitHeaders {
        RateLimitHeaders {
            bucket: Some(bucket.into()),
            remaining: Some(remaining),
            resets_in: Some(Duration::from_millis(ms)),
        }
    }

    #[test]
    fn a_route_is_named_by_its_top_level_resource_only() {
        assert_eq!(route("POST", "channels/1/messages"), "POST channels/1/messages");
        assert_eq!(route("PATCH", "channels/1/messages/22"), "PATCH channels/1/messages/:");
        assert_eq!(
            route("PUT", "channels/1/messages/2/reactions/%F0%9F%91%80/@me"),
            "PUT channels/1/messages/:/reactions/:/@me"
        );
        assert_eq!(route("PATCH", "webhooks/1/SECRET/messages/@original"), "PATCH webhooks/1/:/messages/@original");
        assert_eq!(route("POST", "interactions/5/x"), "POST interactions/:/x");
    }

    #[test]
    fn an_empty_bucket_is_waited_for_and_another_channel_has_its_own() {
        let (mut limits, now) = (RateLimits::default(), Instant::now());
        let (here, there) = ("POST channels/1/messages", "POST channels/2/messages");
        limits.update(here, &told("B", 1, 900), now);
        limits.update(there, &told("B", 5, 900), now);
        assert_eq!(limits.take(here, now), Ok(()));
        assert_eq!(limits.take(here, now), Err(Duration::from_millis(900)));
        assert_eq!(limits.take(there, now), Ok(()));
        assert_eq!(limits.take(here, now + Duration::from_millis(900)), Ok(()), "it is full again");
    }

    #[test]
    fn routes_that_share_a_bucket_wait_together() {
        let (mut limits, now) = (RateLimits::default(), Instant::now());
        let (one, other) = ("PATCH channels/1/messages/:", "DELETE channels/1/messages/:");
        limits.update(one, &told("B", 3, 1000), now);
        limits.update(other, &told("B", 0, 1000), now);
        assert!(limits.take(one, now).is_err());
    }

    #[test]
    fn a_refusal_empties_a_bucket_whose_name_nobody_knows_and_the_global_one_holds_all() {
        let (mut limits, now) = (RateLimits::default(), Instant::now());
        limits.block("POST channels/1/typing", Duration::from_secs(2), now);
        assert_eq!(limits.take("POST channels/1/typing", now), Err(Duration::from_secs(2)));
        assert_eq!(limits.take("POST channels/2/typing", now), Ok(()));
        limits.block_all(Duration::from_secs(5), now);
        assert_eq!(limits.take("POST channels/2/typing", now), Err(Duration::from_secs(5)));
        assert_eq!(limits.take("POST channels/2/typing", now + Duration::from_secs(5)), Ok(()));
    }

    #[test]
    fn what_is_remembered_has_a_bound() {
        let (mut limits, now) = (RateLimits::default(), Instant::now());
        for n in 0..3 * BUCKETS_MAX {
            limits.update(
                &format!("POST channels/{n}/messages"),
                &told("B", 1, 1),
                now + Duration::from_secs(n as u64),
            );
        }
        assert!(limits.buckets.len() <= BUCKETS_MAX && limits.bucket_of_route.len() <= BUCKETS_MAX);
    }

    #[test]
    fn seconds_that_cannot_be_meant_are_no_wait() {
        assert_eq!(seconds(0.5), Some(Duration::from_millis(500)));
        assert_eq!(seconds(f64::INFINITY), Some(WAIT_MAX));
        assert_eq!((seconds(-1.0), seconds(f64::NAN)), (None, None));
    }
}
