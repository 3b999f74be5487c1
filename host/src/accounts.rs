//! Whose names an instance uses.
//!
//! What must be unique (the names of events, the keys of kept values) is unique within
//! one account of a platform: messages of another bot are counted from 1 again. An
//! instance is known by the credentials that it locks; where none of an earlier life is
//! among them, it is another account, and its names are its own from then on. Whoever
//! comes back to an earlier account finds what it had.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::store::{Store, StoreError};

/// Accounts of one instance that are told apart; further ones count as the last.
const ACCOUNTS_MAX: usize = 256;

/// Which account each instance is, in this life of the host.
#[derive(Debug, Default)]
pub struct Accounts {
    present: Mutex<BTreeMap<String, u32>>,
    /// Credentials are noted one after the other.
    noting: tokio::sync::Mutex<()>,
}

/// The accounts of one instance, as they are kept.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Known {
    /// The number of the account of each credential, which is kept as a hash.
    numbers: BTreeMap<String, u32>,
}

impl Accounts {
    /// An instance has locked a credential; `is_first`: its present life held none before.
    ///
    /// # Errors
    ///
    /// When it cannot be kept.
    pub async fn locked(
        &self,
        store: &Store,
        instance: &str,
        identity: &str,
        is_first: bool,
    ) -> Result<(), StoreError> {
        let _one = self.noting.lock().await;
        let key = format!("accounts:{instance}");
        let kept = store.host_value(&key).await?;
        // One that cannot be read begins anew.
        let mut known: Known = kept.and_then(|kept| serde_json::from_str(&kept).ok()).unwrap_or_default();
        let before = self.number(instance);
        let hash = hash(identity);
        let number = match known.numbers.get(&hash) {
            Some(number) => *number,
            None => {
                let number = if is_first { known.next() } else { before };
                if known.numbers.len() < ACCOUNTS_MAX {
                    known.numbers.insert(hash, number);
                    let kept = serde_json::to_string(&known).expect("names and numbers are JSON");
                    store.set_host_value(&key, &kept).await?;
                }
                number
            }
        };
        // Of several credentials the oldest says which account it is: one was added to it.
        let number = if is_first { number } else { number.min(before) };
        if number != before {
            tracing::info!(instance, number, "another account: its messages and kept values are its own");
        }
        self.present.lock().unwrap_or_else(PoisonError::into_inner).insert(instance.to_owned(), number);
        Ok(())
    }

    /// The name of an event or of a scope of values within the account of an instance.
    pub fn own(&self, instance: &str, name: &str) -> String {
        match self.number(instance) {
            0 => name.to_owned(),
            number => format!("{name}@{number}"),
        }
    }

    fn number(&self, instance: &str) -> u32 {
        let present = self.present.lock().unwrap_or_else(PoisonError::into_inner);
        present.get(instance).copied().unwrap_or(0)
    }
}

impl Known {
    /// The number of a new account; the first is 0.
    fn next(&self) -> u32 {
        self.numbers.values().max().map_or(0, |last| last.saturating_add(1))
    }
}

fn hash(identity: &str) -> String {
    Sha256::digest(identity.as_bytes()).iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}
