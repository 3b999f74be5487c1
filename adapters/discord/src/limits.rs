//! Rate limits as Discord tells them: one bucket for each route and top-level resource, and one for all.
//!
//! Pure: the time comes in. Nothing is hard coded, since the platform forbids it; what its headers say is kept
//! until it is over. <https://docs.discord.com/developers/topics/rate-limits>

use std::collections::BTreeMap;
use std::time::Duration;

use hermes_adapter_net::reqwest::header::HeaderMap;
use hermes_adapter_sdk::tokio::time::Instant;

/// Buckets that are remembered. Beyond that those that are full again are forgotten first.
const BUCKETS_MAX: usize = 1024;
/// The longest wait that is believed: then it is asked again, and a server that still means it says it again.
pub const WAIT_MAX: Duration = Duration::from_secs(15 * 60);

/// What is known about the limits of one account.
#[derive(Debug, Default)]
pub struct Limits {
    /// What the server calls the bucket of a route; routes may share one.
    names: BTreeMap<String, String>,
    buckets: BTreeMap<String, Bucket>,
    /// Until when nothing may be asked at all.
    all_until: Option<Instant>,
}

#[derive(Clone, Copy, Debug)]
struct Bucket {
    left: u32,
    full_at: Instant,
}

/// What the headers of one answer say.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Told {
    /// What the bucket is called.
    pub bucket: Option<String>,
    /// How many requests are left in it.
    pub left: Option<u32>,
    /// When it is full again.
    pub full_in: Option<Duration>,
}

impl Told {
    /// Reads the headers of an answer.
    pub fn read(headers: &HeaderMap) -> Self {
        let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).map(str::trim);
        Self {
            bucket: text("x-ratelimit-bucket").map(|name| name.chars().take(64).collect()),
            left: text("x-ratelimit-remaining").and_then(|left| left.parse().ok()),
            full_in: text("x-ratelimit-reset-after").and_then(|seconds| seconds.parse().ok()).and_then(seconds),
        }
    }
}

/// A number of seconds that can be meant.
pub fn seconds(seconds: f64) -> Option<Duration> {
    (seconds >= 0.0).then(|| Duration::from_secs_f64(seconds.min(WAIT_MAX.as_secs_f64())))
}

impl Limits {
    /// Takes one request out of the bucket of `route`.
    ///
    /// # Errors
    ///
    /// How long to wait where none is left.
    pub fn take(&mut self, route: &str, now: Instant) -> Result<(), Duration> {
        if let Some(until) = self.all_until.filter(|until| *until > now) {
            return Err(until - now);
        }
        let Some(bucket) = self.names.get(route).and_then(|name| self.buckets.get_mut(&named(name, route))) else {
            return Ok(());
        };
        if bucket.full_at <= now {
            return Ok(());
        }
        match bucket.left.checked_sub(1) {
            Some(left) => bucket.left = left,
            None => return Err(bucket.full_at - now),
        }
        Ok(())
    }

    /// Keeps what an answer of `route` told.
    pub fn note(&mut self, route: &str, told: &Told, now: Instant) {
        let (Some(name), Some(left), Some(full_in)) = (&told.bucket, told.left, told.full_in) else { return };
        if self.buckets.len() >= BUCKETS_MAX || self.names.len() >= BUCKETS_MAX {
            self.buckets.retain(|_, bucket| bucket.full_at > now);
            self.names.clear();
        }
        if self.buckets.len() < BUCKETS_MAX {
            self.names.insert(route.to_owned(), name.clone());
            self.buckets.insert(named(name, route), Bucket { left, full_at: now + full_in });
        }
    }

    /// The bucket of `route` is empty for so long: the server refused a request.
    pub fn emptied(&mut self, route: &str, wait: Duration, now: Instant) {
        let name = self.names.get(route).cloned().unwrap_or_else(|| route.to_owned());
        self.note(route, &Told { bucket: Some(name), left: Some(0), full_in: Some(wait) }, now);
    }

    /// Nothing may be asked for so long.
    pub fn all_emptied(&mut self, wait: Duration, now: Instant) {
        self.all_until = Some(now + wait);
    }
}

/// A bucket counts for each top-level resource by itself.
fn named(bucket: &str, route: &str) -> String {
    let major = route.split_once(' ').map_or(route, |(_, path)| path);
    let major: Vec<&str> = major.split('/').take(2).collect();
    format!("{bucket} {}", major.join("/"))
}

/// The name of a route for its limits: ids stand for themselves only where they name a top-level resource.
pub fn route(method: &str, path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for (n, part) in path.split('/').enumerate() {
        let top = n == 1 && matches!(parts.first(), Some(&("channels" | "guilds" | "webhooks")));
        let token = n == 2 && parts.first() == Some(&"webhooks");
        let emoji = parts.last() == Some(&"reactions");
        let is_id = !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
        // The token of an interaction is in the path of its answers: never kept, and its own bucket anyway.
        parts.push(if (is_id && !top) || token || emoji { ":" } else { part });
    }
    format!("{method} {}", parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(bucket: &str, left: u32, ms: u64) -> Told {
        Told { bucket: Some(bucket.into()), left: Some(left), full_in: Some(Duration::from_millis(ms)) }
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
        let (mut limits, now) = (Limits::default(), Instant::now());
        let (here, there) = ("POST channels/1/messages", "POST channels/2/messages");
        limits.note(here, &told("B", 1, 900), now);
        limits.note(there, &told("B", 5, 900), now);
        assert_eq!(limits.take(here, now), Ok(()));
        assert_eq!(limits.take(here, now), Err(Duration::from_millis(900)));
        assert_eq!(limits.take(there, now), Ok(()));
        assert_eq!(limits.take(here, now + Duration::from_millis(900)), Ok(()), "it is full again");
    }

    #[test]
    fn routes_that_share_a_bucket_wait_together() {
        let (mut limits, now) = (Limits::default(), Instant::now());
        let (one, other) = ("PATCH channels/1/messages/:", "DELETE channels/1/messages/:");
        limits.note(one, &told("B", 3, 1000), now);
        limits.note(other, &told("B", 0, 1000), now);
        assert!(limits.take(one, now).is_err());
    }

    #[test]
    fn a_refusal_empties_a_bucket_whose_name_nobody_knows_and_the_global_one_holds_all() {
        let (mut limits, now) = (Limits::default(), Instant::now());
        limits.emptied("POST channels/1/typing", Duration::from_secs(2), now);
        assert_eq!(limits.take("POST channels/1/typing", now), Err(Duration::from_secs(2)));
        assert_eq!(limits.take("POST channels/2/typing", now), Ok(()));
        limits.all_emptied(Duration::from_secs(5), now);
        assert_eq!(limits.take("POST channels/2/typing", now), Err(Duration::from_secs(5)));
        assert_eq!(limits.take("POST channels/2/typing", now + Duration::from_secs(5)), Ok(()));
    }

    #[test]
    fn what_is_remembered_has_a_bound() {
        let (mut limits, now) = (Limits::default(), Instant::now());
        for n in 0..3 * BUCKETS_MAX {
            limits.note(&format!("POST channels/{n}/messages"), &told("B", 1, 1), now + Duration::from_secs(n as u64));
        }
        assert!(limits.buckets.len() <= BUCKETS_MAX && limits.names.len() <= BUCKETS_MAX);
    }

    #[test]
    fn seconds_that_cannot_be_meant_are_no_wait() {
        assert_eq!(seconds(0.5), Some(Duration::from_millis(500)));
        assert_eq!(seconds(f64::INFINITY), Some(WAIT_MAX));
        assert_eq!((seconds(-1.0), seconds(f64::NAN)), (None, None));
    }
}
