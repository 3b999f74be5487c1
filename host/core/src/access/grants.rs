//! Access granted at run time by pairing.

use std::collections::BTreeMap;

use hermes_protocol::Sender;
use serde::{Deserialize, Serialize};

/// Access that an operator or admin granted to one person.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grant {
    /// Instance for which the grant is valid.
    pub instance: String,
    /// Stable platform id of the person.
    pub user: String,
    /// Display name at the time of the grant, for lists.
    #[serde(default)]
    pub name: String,
    /// Person who made the grant, for lists.
    #[serde(default)]
    pub granted_by: String,
    /// Time of the grant, in Unix milliseconds.
    #[serde(default)]
    pub at_ms: i64,
}

/// The set of all grants. A grant gives the user tier, never more.
#[derive(Clone, Debug, Default)]
pub struct Grants {
    by_user: BTreeMap<(String, String), Grant>,
}

impl Grants {
    /// Returns an empty set.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a grant and returns the one that it replaces. A grant without a user id is ignored.
    pub fn insert(&mut self, grant: Grant) -> Option<Grant> {
        if grant.user.is_empty() {
            return None;
        }
        self.by_user.insert((grant.instance.clone(), grant.user.clone()), grant)
    }

    /// Removes and returns a grant.
    pub fn remove(&mut self, instance: &str, user: &str) -> Option<Grant> {
        self.by_user.remove(&(instance.to_owned(), user.to_owned()))
    }

    /// Returns true if a sender has a grant on this instance.
    pub fn contain(&self, instance: &str, sender: &Sender) -> bool {
        super::ids(sender).any(|id| self.by_user.contains_key(&(instance.to_owned(), id.to_owned())))
    }

    /// Returns all grants, ordered by instance and user.
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
