//! What a route remembers: which signed bytes were there before, which of them are on their way to the host, and how
//! many calls came of late.
//!
//! The host keeps ids for thirty days and answers a second call of one id by itself. An id that is not signed can be
//! exchanged by whoever recorded a call, so what was signed is remembered here, for `replay_s`, in the host's `kv`.
//!
//! Two writes are never one: who dies between the host's commit and the mark knows afterwards only that these bytes
//! were on their way. So their first id is written down before; under any other one they are handed over as that, and
//! the host, which knows its ids, judges.

use std::collections::{BTreeSet, VecDeque};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use hermes_adapter_sdk::prelude::*;
use serde_json::json;

/// What is remembered of one route; with it a value of the `kv` stays below its 64 KiB.
pub const MARKS_MAX: usize = 3_600;

/// A mark, and the second until which it is remembered.
const ENTRY_BYTES: usize = 12;

/// Calls whose end nobody knows, of one route; each is what a death of this process left.
const UNSURE_MAX: usize = 16;

/// Where the names of the routes stand that something is remembered of.
const INDEX: &str = "remembered";

/// A minute.
const MINUTE_MS: i64 = 60_000;

/// What one route remembers.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Marks {
    /// The signed bytes that were there before, the oldest first, and until when.
    seen: VecDeque<([u8; 8], u32)>,
    /// Those that went to the host and nobody knows whether they arrived: their event, and until when.
    unsure: VecDeque<([u8; 8], String, u32)>,
    is_listed: bool,
}

impl Marks {
    /// Whether these bytes are remembered.
    pub fn has(&self, mark: [u8; 8], now_ms: i64) -> bool {
        self.seen.iter().any(|(known, until_s)| *known == mark && i64::from(*until_s) > now_ms.div_euclid(1_000))
    }

    /// Remembers them.
    pub fn note(&mut self, mark: [u8; 8], now_ms: i64, replay_s: u64) {
        self.seen.retain(|(_, until_s)| i64::from(*until_s) > now_ms.div_euclid(1_000));
        self.seen.push_back((mark, until(now_ms, replay_s)));
        while self.seen.len() > MARKS_MAX {
            self.seen.pop_front();
        }
    }

    /// The event under which these bytes go to the host: the one of their first call, where nobody knows how that
    /// ended. Kept before it is answered.
    ///
    /// # Errors
    ///
    /// When the host cannot keep it: then a death would bring the call twice.
    pub async fn begin(
        &mut self,
        mark: [u8; 8],
        event: &str,
        now_ms: i64,
        replay_s: u64,
        (host, route): (&Host, &str),
    ) -> Result<String, CallError> {
        self.unsure.retain(|(_, _, until_s)| i64::from(*until_s) > now_ms.div_euclid(1_000));
        if let Some((_, first, _)) = self.unsure.iter().find(|(known, _, _)| *known == mark) {
            return Ok(first.clone());
        }
        self.unsure.push_back((mark, event.to_owned(), until(now_ms, replay_s)));
        while self.unsure.len() > UNSURE_MAX {
            self.unsure.pop_front();
        }
        self.be_listed(host, route).await?;
        host.kv().set(&unsure_place(route), &json!(self.unsure).to_string()).await?;
        Ok(event.to_owned())
    }

    /// It is known how these bytes ended. What is kept says so with the next ones that begin.
    pub fn settle(&mut self, mark: [u8; 8]) {
        self.unsure.retain(|(known, _, _)| *known != mark);
    }

    fn is_over(&self, now_ms: i64) -> bool {
        let ends =
            self.seen.iter().map(|(_, until_s)| until_s).chain(self.unsure.iter().map(|(_, _, until_s)| until_s));
        ends.into_iter().all(|until_s| i64::from(*until_s) <= now_ms.div_euclid(1_000))
    }

    /// As the `kv` keeps them.
    fn write(&self) -> String {
        let bytes: Vec<u8> =
            self.seen.iter().flat_map(|(mark, until_s)| mark.iter().copied().chain(until_s.to_be_bytes())).collect();
        STANDARD_NO_PAD.encode(bytes)
    }

    fn read(text: &str) -> Option<Self> {
        let bytes = STANDARD_NO_PAD.decode(text).ok().filter(|bytes| bytes.len() % ENTRY_BYTES == 0)?;
        let entry = |entry: &[u8]| {
            let mark = entry[..8].try_into().expect("an entry has eight bytes of a mark");
            (mark, u32::from_be_bytes(entry[8..].try_into().expect("and four of a time")))
        };
        Some(Self { seen: bytes.chunks_exact(ENTRY_BYTES).map(entry).collect(), ..Self::default() })
    }

    /// Reads what a route remembers.
    ///
    /// # Errors
    ///
    /// When the host cannot read it: then nobody knows what was there before.
    pub async fn load(host: &Host, route: &str) -> Result<Self, CallError> {
        let kept = host.kv().get(&place(route)).await?;
        let mut marks = kept.map_or_else(Self::default, |text| {
            Self::read(&text).unwrap_or_else(|| {
                tracing::warn!(route, "what was called before cannot be read and begins anew");
                Self::default()
            })
        });
        let unsure = host.kv().get(&unsure_place(route)).await?;
        marks.unsure = unsure.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default();
        Ok(marks)
    }

    /// Keeps which bytes were there; returns whether that is kept.
    pub async fn keep(&mut self, host: &Host, route: &str) -> bool {
        let kept = async {
            self.be_listed(host, route).await?;
            host.kv().set(&place(route), &self.write()).await
        };
        let kept = kept.await;
        if let Err(error) = &kept {
            tracing::warn!(route, %error, "that a call was there is remembered only until the next start");
        }
        kept.is_ok()
    }

    /// Makes sure that what is kept of a route is found when the route is gone.
    async fn be_listed(&mut self, host: &Host, route: &str) -> Result<(), CallError> {
        if !self.is_listed {
            let _alone = LISTING.lock().await;
            let mut names = listed(host).await?;
            if names.insert(route.to_owned()) {
                host.kv().set(INDEX, &json!(names).to_string()).await?;
            }
            self.is_listed = true;
        }
        Ok(())
    }
}

/// Held while the list of names is read and written.
static LISTING: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

async fn listed(host: &Host) -> Result<BTreeSet<String>, CallError> {
    let kept = host.kv().get(INDEX).await?;
    Ok(kept.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default())
}

/// Forgets what is kept of routes that are gone, once it would count for nothing. What was signed for one that comes
/// back before is known then.
///
/// # Errors
///
/// When the host cannot read or write; the next time may do better.
pub async fn forget_gone(host: &Host, is_there: impl Fn(&str) -> bool) -> Result<(), CallError> {
    let _alone = LISTING.lock().await;
    let names = listed(host).await?;
    let mut left = names.clone();
    for gone in names.iter().filter(|name| !is_there(name)) {
        if Marks::load(host, gone).await?.is_over(host.now_ms()) {
            host.kv().delete(&place(gone)).await?;
            host.kv().delete(&unsure_place(gone)).await?;
            left.remove(gone);
        }
    }
    if left != names {
        host.kv().set(INDEX, &json!(left).to_string()).await?;
    }
    Ok(())
}

fn until(now_ms: i64, replay_s: u64) -> u32 {
    let until_s = now_ms.div_euclid(1_000).saturating_add(i64::try_from(replay_s).unwrap_or(i64::MAX));
    u32::try_from(until_s).unwrap_or(u32::MAX)
}

fn unsure_place(route: &str) -> String {
    format!("unsure:{route}")
}

fn place(route: &str) -> String {
    format!("marks:{route}")
}

/// How many calls were taken within a minute.
#[derive(Debug, Default)]
pub struct Rate(VecDeque<i64>);

impl Rate {
    /// Counts a call; or the seconds until there is room for one.
    pub fn take(&mut self, per_minute: u32, now_ms: i64) -> Result<(), u64> {
        // A clock that was put back must not shut the door.
        self.0.retain(|at| (0..MINUTE_MS).contains(&now_ms.saturating_sub(*at)));
        if self.0.len() >= per_minute as usize {
            let oldest = self.0.front().copied().unwrap_or(now_ms);
            let wait_ms = (oldest + MINUTE_MS).saturating_sub(now_ms).clamp(1, MINUTE_MS);
            return Err(u64::try_from((wait_ms + 999) / 1_000).unwrap_or(1));
        }
        self.0.push_back(now_ms);
        Ok(())
    }

    /// Gives the last place back: it was a repetition, or was not taken.
    pub fn give_back(&mut self) {
        self.0.pop_back();
    }
}

#[cfg(test)]
mod tests;
