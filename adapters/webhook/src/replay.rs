//! What a route remembers: which signed bytes were there before, and how many calls came of late.
//!
//! The host keeps ids for thirty days and answers a second call of one id by itself. An id that is not signed can be
//! exchanged by whoever recorded a call, so what was signed is remembered here, for `replay_s`, in the host's `kv`.

use std::collections::VecDeque;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use hermes_adapter_sdk::prelude::*;

/// What is remembered of one route; with it a value of the `kv` stays below its 64 KiB.
pub const MARKS_MAX: usize = 3_600;

/// A mark, and the second until which it is remembered.
const ENTRY_BYTES: usize = 12;

/// A minute.
const MINUTE_MS: i64 = 60_000;

/// The signed bytes that were there before, the oldest first.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Marks(VecDeque<([u8; 8], u32)>);

impl Marks {
    /// Whether these bytes are remembered.
    pub fn has(&self, mark: [u8; 8], now_ms: i64) -> bool {
        self.0.iter().any(|(known, until_s)| *known == mark && i64::from(*until_s) > now_ms.div_euclid(1_000))
    }

    /// Remembers them.
    pub fn note(&mut self, mark: [u8; 8], now_ms: i64, replay_s: u64) {
        let now_s = now_ms.div_euclid(1_000);
        self.0.retain(|(_, until_s)| i64::from(*until_s) > now_s);
        let until_s = now_s.saturating_add(i64::try_from(replay_s).unwrap_or(i64::MAX));
        self.0.push_back((mark, u32::try_from(until_s).unwrap_or(u32::MAX)));
        while self.0.len() > MARKS_MAX {
            self.0.pop_front();
        }
    }

    /// As the `kv` keeps them.
    fn write(&self) -> String {
        let bytes: Vec<u8> =
            self.0.iter().flat_map(|(mark, until_s)| mark.iter().copied().chain(until_s.to_be_bytes())).collect();
        STANDARD_NO_PAD.encode(bytes)
    }

    fn read(text: &str) -> Option<Self> {
        let bytes = STANDARD_NO_PAD.decode(text).ok().filter(|bytes| bytes.len() % ENTRY_BYTES == 0)?;
        let entry = |entry: &[u8]| {
            let mark = entry[..8].try_into().expect("an entry has eight bytes of a mark");
            (mark, u32::from_be_bytes(entry[8..].try_into().expect("and four of a time")))
        };
        Some(Self(bytes.chunks_exact(ENTRY_BYTES).map(entry).collect()))
    }

    /// Reads what a route remembers.
    ///
    /// # Errors
    ///
    /// When the host cannot read it: then nobody knows what was there before.
    pub async fn load(host: &Host, route: &str) -> Result<Self, CallError> {
        let kept = host.kv().get(&place(route)).await?;
        Ok(kept.map_or_else(Self::default, |text| {
            Self::read(&text).unwrap_or_else(|| {
                tracing::warn!(route, "what was called before cannot be read and begins anew");
                Self::default()
            })
        }))
    }

    /// Keeps what a route remembers.
    pub async fn keep(&self, host: &Host, route: &str) {
        if let Err(error) = host.kv().set(&place(route), &self.write()).await {
            tracing::warn!(route, %error, "that a call was there is remembered only until the next start");
        }
    }
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
