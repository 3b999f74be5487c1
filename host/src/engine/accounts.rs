//! The accounts of instances, which scope the names that an instance uses.
//!
//! Names of events and keys of kept values are unique only within one account of a platform: the messages of another
//! bot are counted from 1 again. The host knows an account by the credentials that its instance locks. If none of them
//! was locked before, the instance has another account with names of its own. An instance that returns to an earlier
//! account finds that account's names and values.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use hermes_store::{Store, StoreError};

/// Accounts that are distinguished per instance; further ones count as the last.
const ACCOUNTS_MAX: usize = 256;

/// The account of each instance in this run of the host.
#[derive(Debug, Default)]
pub struct Accounts {
    present: Mutex<BTreeMap<String, u32>>,
    /// Serializes the recording of credentials.
    noting: tokio::sync::Mutex<()>,
}

/// The stored accounts of one instance.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Known {
    /// The number of the account of each credential, by the hash of the credential.
    numbers: BTreeMap<String, u32>,
}

impl Accounts {
    /// Records a credential that an instance has locked; `is_first`: its current incarnation held none before.
    ///
    /// # Errors
    ///
    /// Fails if the record cannot be stored.
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
        // An unreadable record is replaced by an empty one.
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
        // Among several credentials the oldest determines the account: the others were added to it.
        let number = if is_first { number } else { number.min(before) };
        if number != before {
            tracing::info!(instance, number, "different account; its messages and stored values are kept apart");
        }
        self.present.lock().unwrap_or_else(PoisonError::into_inner).insert(instance.to_owned(), number);
        Ok(())
    }

    /// Returns the name of an event or of a scope of values within the account of an instance.
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
    /// Returns the number of a new account; the first is 0.
    fn next(&self) -> u32 {
        self.numbers.values().max().map_or(0, |last| last.saturating_add(1))
    }
}

fn hash(identity: &str) -> String {
    Sha256::digest(identity.as_bytes()).iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}
