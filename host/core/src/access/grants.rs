//! Access that was granted while the host runs, by pairing.

use std::collections::BTreeMap;

use hermes_protocol::Sender;
use serde::{Deserialize, Serialize};

/// One person whom an operator or admin let in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grant {
    /// The instance it holds for.
    pub instance: String,
    /// The person's stable id there.
    pub user: String,
    /// Their display name at that time, for lists.
    #[serde(default)]
    pub name: String,
    /// Who granted it, for lists.
    #[serde(default)]
    pub granted_by: String,
    /// When, in Unix milliseconds.
    #[serde(default)]
    pub at_ms: i64,
}

/// All grants. Whoever is in here is a user, never more.
#[derive(Clone, Debug, Default)]
pub struct Grants {
    by_user: BTreeMap<(String, String), Grant>,
}

impl Grants {
    /// No grants.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a grant; returns the one it replaces. A grant for nobody is not kept.
    pub fn insert(&mut self, grant: Grant) -> Option<Grant> {
        if grant.user.is_empty() {
            return None;
        }
        self.by_user.insert((grant.instance.clone(), grant.user.clone()), grant)
    }

    /// Takes a grant away.
    pub fn remove(&mut self, instance: &str, user: &str) -> Option<Grant> {
        self.by_user.remove(&(instance.to_owned(), user.to_owned()))
    }

    /// Whether a sender was let in on this instance.
    pub fn contain(&self, instance: &str, sender: &Sender) -> bool {
        super::ids(sender).any(|id| self.by_user.contains_key(&(instance.to_owned(), id.to_owned())))
    }

    /// Returns every grant, by instance and user.
    pub fn iter(&self) -> impl Iterator<Item = &Grant> {
        self.by_user.values()
    }
}

impl FromIterator<Grant> for Grants {
    fn from_iter<I: IntoIterator<Item = Grant>>(grants: I) -> Self {
        let mut all = Self::new();
        for grant in grants {
            all.insert(grant);
        }
        all
    }
}
