//! The memory of a route: the signed bytes that were seen, and those in transit to the host.
//!
//! The host stores event ids for thirty days and rejects a repeated id by itself. An unsigned id can be exchanged by
//! anyone who recorded a call, so the signed bytes are stored here, for `replay_s`, in the host's key-value store.
//!
//! The host's commit and the stored mark are two writes. After a crash between them it is only known that these bytes
//! were in transit. Therefore their first id is stored before the emit. A call with the same bytes under another id
//! is emitted with the first one, and the host recognizes that id.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use hermes_adapter_sdk::prelude::*;
use serde_json::json;
use std::collections::{BTreeSet, VecDeque};

/// The maximum number of marks per route, which keeps the stored value below 64 KiB.
pub(crate) const MARKS_MAX: usize = 3_600;

/// The size of an entry, in bytes: a mark and the second at which it expires.
const ENTRY_BYTES: usize = 12;

/// The maximum number of calls with an unknown result per route; each comes from a crash of this process.
const UNRESOLVED_MAX: usize = 16;

/// The key of the list of routes with stored marks.
const INDEX: &str = "remembered";

/// The marks of one route.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Marks {
    /// The marks of seen calls with their expiry in seconds since the Unix epoch, the oldest first.
    seen: VecDeque<([u8; 8], u32)>,
    /// The marks of emitted calls with an unknown result: the event id, and the expiry in seconds since the Unix epoch.
    unresolved: VecDeque<([u8; 8], String, u32)>,
    is_registered: bool,
}

impl Marks {
    /// Returns whether these bytes are stored and not expired.
    pub(crate) fn has(&self, mark: [u8; 8], now_ms: i64) -> bool {
        self.seen.iter().any(|(other, until_s)| *other == mark && i64::from(*until_s) > now_ms.div_euclid(1_000))
    }

    /// Adds the mark of a seen call.
    pub(crate) fn record(&mut self, mark: [u8; 8], now_ms: i64, replay_s: u64) {
        self.seen.retain(|(_, until_s)| i64::from(*until_s) > now_ms.div_euclid(1_000));
        self.seen.push_back((mark, expiry_s(now_ms, replay_s)));
        while self.seen.len() > MARKS_MAX {
            self.seen.pop_front();
        }
    }

    /// Returns the event id under which these bytes are emitted: that of their first call if its result is
    /// unknown. The id is stored before the emit.
    ///
    /// # Errors
    ///
    /// If the host cannot store the id: a crash could then duplicate the call.
    pub(crate) async fn begin(
        &mut self,
        mark: [u8; 8],
        event: &str,
        now_ms: i64,
        replay_s: u64,
        (host, route): (&Host, &str),
    ) -> Result<String, CallError> {
        self.unresolved.retain(|(_, _, until_s)| i64::from(*until_s) > now_ms.div_euclid(1_000));
        if let Some((_, first, _)) = self.unresolved.iter().find(|(other, _, _)| *other == mark) {
            return Ok(first.clone());
        }
        self.unresolved.push_back((mark, event.to_owned(), expiry_s(now_ms, replay_s)));
        while self.unresolved.len() > UNRESOLVED_MAX {
            self.unresolved.pop_front();
        }
        self.register(host, route).await?;
        host.kv().set(&unresolved_key(route), &json!(self.unresolved).to_string()).await?;
        Ok(event.to_owned())
    }

    /// Removes a mark whose result is known. The removal is stored with the next `begin`.
    pub(crate) fn settle(&mut self, mark: [u8; 8]) {
        self.unresolved.retain(|(other, _, _)| *other != mark);
    }

    fn is_expired(&self, now_ms: i64) -> bool {
        let ends =
            self.seen.iter().map(|(_, until_s)| until_s).chain(self.unresolved.iter().map(|(_, _, until_s)| until_s));
        ends.into_iter().all(|until_s| i64::from(*until_s) <= now_ms.div_euclid(1_000))
    }

    /// Encodes the marks for the key-value store.
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

    /// Loads the marks of a route.
    ///
    /// # Errors
    ///
    /// If the host cannot read them: replays could then not be recognized.
    pub(crate) async fn load(host: &Host, route: &str) -> Result<Self, CallError> {
        let stored = host.kv().get(&marks_key(route)).await?;
        let mut marks = stored.map_or_else(Self::default, |text| {
            Self::read(&text).unwrap_or_else(|| {
                tracing::warn!(route, "record of earlier calls cannot be read; starting with an empty one");
                Self::default()
            })
        });
        let unresolved = host.kv().get(&unresolved_key(route)).await?;
        marks.unresolved = unresolved.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default();
        Ok(marks)
    }

    /// Stores the marks of seen calls; returns whether the write succeeded.
    pub(crate) async fn store(&mut self, host: &Host, route: &str) -> bool {
        let stored = async {
            self.register(host, route).await?;
            host.kv().set(&marks_key(route), &self.write()).await
        };
        let stored = stored.await;
        if let Err(error) = &stored {
            tracing::warn!(route, %error, "record of a call cannot be saved; it is kept until the next start only");
        }
        stored.is_ok()
    }

    /// Adds the route to the stored list, so that its marks are found after the route is removed.
    async fn register(&mut self, host: &Host, route: &str) -> Result<(), CallError> {
        if !self.is_registered {
            let _alone = REGISTER_LOCK.lock().await;
            let mut names = registered_routes(host).await?;
            if names.insert(route.to_owned()) {
                host.kv().set(INDEX, &json!(names).to_string()).await?;
            }
            self.is_registered = true;
        }
        Ok(())
    }
}

/// The lock for reading and writing the list of names.
static REGISTER_LOCK: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

async fn registered_routes(host: &Host) -> Result<BTreeSet<String>, CallError> {
    let stored = host.kv().get(INDEX).await?;
    Ok(stored.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default())
}

/// Deletes the marks of removed routes after all of them have expired. Until then they protect a route that returns.
///
/// # Errors
///
/// If the host cannot read or write; the next attempt may succeed.
pub(crate) async fn sweep_removed(host: &Host, is_there: impl Fn(&str) -> bool) -> Result<(), CallError> {
    let _alone = REGISTER_LOCK.lock().await;
    let names = registered_routes(host).await?;
    let mut left = names.clone();
    for gone in names.iter().filter(|name| !is_there(name)) {
        if Marks::load(host, gone).await?.is_expired(host.now_ms()) {
            host.kv().delete(&marks_key(gone)).await?;
            host.kv().delete(&unresolved_key(gone)).await?;
            left.remove(gone);
        }
    }
    if left != names {
        host.kv().set(INDEX, &json!(left).to_string()).await?;
    }
    Ok(())
}

fn expiry_s(now_ms: i64, replay_s: u64) -> u32 {
    let until_s = now_ms.div_euclid(1_000).saturating_add(i64::try_from(replay_s).unwrap_or(i64::MAX));
    u32::try_from(until_s).unwrap_or(u32::MAX)
}

fn unresolved_key(route: &str) -> String {
    format!("unsure:{route}")
}

fn marks_key(route: &str) -> String {
    format!("marks:{route}")
}

#[cfg(test)]
mod tests;
