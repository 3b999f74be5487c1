//! Access control: who may talk to the agent, and whether a group message is addressed to it.
//!
//! [`AccessPolicy::admit`] is the only way to turn an adapter's event into an [`Authorized`] event, and no
//! session opens without one. The checks run in a fixed order:
//!
//! 1. a trusted upstream,
//! 2. `allow_all` of the instance,
//! 3. the lists of the instance (users, groups),
//! 4. the global lists,
//! 5. trusted roles,
//! 6. pairing grants,
//! 7. the global `allow_all`, if no list of any kind exists for the instance,
//! 8. otherwise the event is denied.
//!
//! The adapter alone identifies a sender; the operator alone grants access. Display names are never evaluated.
//! [`addressed()`] decides whether an admitted group message is meant for the agent. [`crate::pairing`]
//! implements pairing.

mod addressed;
mod authorized;
mod grants;

use std::collections::{BTreeMap, BTreeSet};

use hermes_protocol::{Capabilities, Chat, Event, Sender};

pub use addressed::{AddressRules, addressed, speaks_as_channel};
pub use authorized::{Authorized, HostCause, Origin};
pub use grants::{Grant, Grants};

use crate::commands::Command;
use crate::session::is_dm;

#[cfg(test)]
mod tests;

/// List entry that matches every sender. It never makes anyone an operator or an admin.
const ANYBODY: &str = "*";

/// Role that a trusted upstream gives to the operator (for example through the link of the webchat page).
pub const OPERATOR_ROLE: &str = "operator";

/// Rights of a sender. Ordered: a higher tier includes the rights of the lower ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Tier {
    /// May talk to the agent.
    User,
    /// May also approve actions, pair users and restart the host.
    Admin,
    /// The person who runs the host.
    Operator,
}

impl Tier {
    /// Returns the tier as a word for display.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Admin => "admin",
            Self::Operator => "operator",
        }
    }
}

impl std::fmt::Display for Tier {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Degree to which an adapter's statements about its senders are believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trust {
    /// The adapter's roles and its authorization are ignored.
    None,
    /// The adapter's roles are evaluated.
    Roles,
    /// The adapter's roles are evaluated, and every sender that it lets through is admitted.
    Upstream,
}

impl Trust {
    /// Returns the trust in an adapter. `trusted` is the operator's decision (`trust_upstream`, or a library
    /// next to the binary); the capabilities come from the adapter. Neither is sufficient alone.
    pub fn of(trusted: bool, capabilities: &Capabilities) -> Self {
        match (trusted, capabilities.authorizes_upstream) {
            (false, _) => Self::None,
            (true, false) => Self::Roles,
            (true, true) => Self::Upstream,
        }
    }
}

/// Response to a direct message of an unknown sender.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UnknownSenders {
    /// Offer a pairing code, unless an allow list exists.
    #[default]
    Pair,
    /// Do not respond.
    Ignore,
}

/// The operator's access configuration. The default admits nobody.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AccessPolicy {
    /// Admits everyone on instances for which no list of any kind exists.
    pub allow_all: bool,
    /// Admitted users, as `<instance>:<id>`.
    pub allowed_users: BTreeSet<String>,
    /// Operators, as `<instance>:<id>`.
    pub operators: BTreeSet<String>,
    /// Admins, as `<instance>:<id>`.
    pub admins: BTreeSet<String>,
    /// Response to a direct message of an unknown sender.
    pub strangers: UnknownSenders,
    /// Access settings by instance name.
    pub instances: BTreeMap<String, InstanceAccess>,
}

/// The access configuration of one instance. Its lists hold bare platform ids.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InstanceAccess {
    /// Admits everyone on this instance.
    pub allow_all: bool,
    /// Admitted users.
    pub allowed_users: BTreeSet<String>,
    /// Chats whose members are admitted in that chat. A thread belongs to its parent chat.
    pub allowed_groups: BTreeSet<String>,
    /// Admitted roles. Evaluated only under [`Trust::Roles`] or [`Trust::Upstream`].
    pub allowed_roles: BTreeSet<String>,
    /// Operators.
    pub operators: BTreeSet<String>,
    /// Admins.
    pub admins: BTreeSet<String>,
    /// Response to a direct message of an unknown sender; `None` uses the global policy.
    pub strangers: Option<UnknownSenders>,
    /// Commands that users may run in direct messages in addition to those of their tier.
    pub user_commands: BTreeSet<String>,
    /// Commands that users may run in groups in addition to those of their tier.
    pub group_user_commands: BTreeSet<String>,
}

/// A denied event, returned to the caller so that its row can be updated.
#[derive(Clone, Debug)]
pub struct Denied {
    /// The event.
    pub event: Event,
    /// The consequence of the denial.
    pub denial: Denial,
}

/// Consequence of a denied event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Denial {
    /// No response.
    Silent {
        /// Reason, stored with the event's row.
        why: &'static str,
    },
    /// No pairing code is offered, but an invitation that the sender already has still works.
    Unlisted {
        /// Reason for the missing response, stored with the event's row.
        why: &'static str,
    },
    /// An unknown sender wrote a direct message; a pairing code may be offered.
    Stranger,
}

impl AccessPolicy {
    /// Admits an event of `instance`, or returns it as denied.
    ///
    /// # Errors
    ///
    /// [`Denied`] if nothing grants the sender access.
    pub fn admit(
        &self,
        instance: &str,
        event: Event,
        grants: &Grants,
        trust: Trust,
    ) -> Result<Authorized<Event>, Box<Denied>> {
        match self.tier_of(instance, &event.chat, &event.sender, grants, trust) {
            Some(tier) => Ok(Authorized::admitted(event, tier)),
            None => {
                let denial = self.denial(instance, &event);
                Err(Box::new(Denied { event, denial }))
            }
        }
    }

    /// Returns the tier of `sender` in `chat`, or `None` if the sender is not admitted.
    pub fn tier_of(&self, instance: &str, chat: &Chat, sender: &Sender, grants: &Grants, trust: Trust) -> Option<Tier> {
        let view = self.view(instance);
        let admitted = trust == Trust::Upstream
            || (view.own.allow_all && has_id(sender))
            || view.lists_in_its_section(chat, sender)
            || view.lists_globally(sender)
            || (trust != Trust::None && view.lists_a_role_of(sender))
            || grants.contain(instance, sender)
            || (self.allow_all && !view.has_any_list() && has_id(sender));
        admitted.then(|| view.tier(sender, trust))
    }

    /// Returns true if a list names a person on `instance`, or pairing let them in. Lists that admit anybody do not count.
    pub fn knows(&self, instance: &str, person: &Sender, grants: &Grants) -> bool {
        let view = self.view(instance);
        let (own, policy) = (view.own, view.policy);
        view.is_listed(person)
            || [&own.operators, &own.admins].into_iter().any(|list| names(list, person))
            || [&policy.operators, &policy.admins].into_iter().any(|list| view.names_here(list, person))
            || grants.contain(instance, person)
    }

    /// Returns the number of distinct ids in `allowed_users` of `instance` if there are several and no list of
    /// operators or admins names one, so that nobody is the operator. Returns `None` if the instance is
    /// unambiguous.
    pub fn without_operator(&self, instance: &str) -> Option<usize> {
        let view = self.view(instance);
        let listed = view.listed().len();
        (listed > 1 && !view.has_staff_list()).then_some(listed)
    }

    /// Returns the reason for the tier of an admitted sender, as part of a sentence.
    pub fn reason(&self, instance: &str, sender: &Sender, tier: Tier) -> String {
        let view = self.view(instance);
        match tier {
            Tier::Operator if names(&view.own.operators, sender) || view.names_here(&self.operators, sender) => {
                "your id is in `operators`".to_owned()
            }
            Tier::Operator if view.is_listed(sender) => "your id is the only one in `allowed_users`".to_owned(),
            Tier::Operator => "you hold the operator's key of this interface".to_owned(),
            Tier::Admin => "your id is in `admins`".to_owned(),
            Tier::User => match self.without_operator(instance) {
                Some(listed) if view.is_listed(sender) => format!(
                    "`allowed_users` has {listed} ids and `operators` has none; the operator of this host has to add their own id to `operators`"
                ),
                _ if view.is_listed(sender) => "your id is in `allowed_users`".to_owned(),
                _ => "you have access through pairing, a role, a group or `allow_all`".to_owned(),
            },
        }
    }

    /// Returns true if a sender who was admitted before has lost access. `sender` may lack roles that the
    /// person has; if such a role could grant access, the result is false.
    pub fn shuts_out(&self, instance: &str, chat: &Chat, sender: &Sender, grants: &Grants, trust: Trust) -> bool {
        let own = self.view(instance).own;
        let may_have_a_role = trust != Trust::None && sender.roles.is_empty() && !own.allowed_roles.is_empty();
        !may_have_a_role && self.tier_of(instance, chat, sender, grants, trust).is_none()
    }

    /// Returns true if a sender of this tier may run the command here, by tier or by the operator's lists.
    pub fn may_run(&self, instance: &str, chat: &Chat, tier: Tier, command: &Command) -> bool {
        let own = self.view(instance).own;
        // The group list also applies to direct messages if their own list is empty, as in the Python gateway.
        let extra = if is_dm(&chat.kind) && !own.user_commands.is_empty() {
            &own.user_commands
        } else {
            &own.group_user_commands
        };
        tier >= command.tier || extra.contains(command.name)
    }

    /// Returns the consequence for a denied sender. A group never gets a response.
    fn denial(&self, instance: &str, event: &Event) -> Denial {
        let view = self.view(instance);
        let strangers = view.own.strangers.unwrap_or(self.strangers);
        if !has_id(&event.sender) {
            Denial::Silent { why: "no sender id" }
        } else if !is_dm(&event.chat.kind) {
            Denial::Silent { why: "not allowed in this chat" }
        } else if event.sender.is_bot {
            Denial::Silent { why: "bot without permission" }
        } else if view.has_allow_list() {
            Denial::Unlisted { why: "not on the allow list" }
        } else if strangers == UnknownSenders::Ignore {
            Denial::Unlisted { why: "unknown senders are ignored" }
        } else {
            Denial::Stranger
        }
    }

    fn view<'a>(&'a self, instance: &'a str) -> View<'a> {
        View { policy: self, instance, own: self.instances.get(instance).unwrap_or(&NOTHING) }
    }
}

/// The settings of an instance without a section.
static NOTHING: InstanceAccess = InstanceAccess {
    allow_all: false,
    allowed_users: BTreeSet::new(),
    allowed_groups: BTreeSet::new(),
    allowed_roles: BTreeSet::new(),
    operators: BTreeSet::new(),
    admins: BTreeSet::new(),
    strangers: None,
    user_commands: BTreeSet::new(),
    group_user_commands: BTreeSet::new(),
};

/// The policy from the point of view of one instance.
struct View<'a> {
    policy: &'a AccessPolicy,
    instance: &'a str,
    own: &'a InstanceAccess,
}

impl View<'_> {
    /// Returns true if the instance's own section names the sender or the chat.
    fn lists_in_its_section(&self, chat: &Chat, sender: &Sender) -> bool {
        let own = self.own;
        let by_user = [&own.allowed_users, &own.operators, &own.admins].into_iter().any(|list| names(list, sender))
            || (own.allowed_users.contains(ANYBODY) && has_id(sender));
        by_user || (!is_dm(&chat.kind) && self.lists_group(chat))
    }

    fn lists_group(&self, chat: &Chat) -> bool {
        let groups = &self.own.allowed_groups;
        groups.contains(ANYBODY)
            || (!chat.id.is_empty() && groups.contains(&chat.id))
            || chat.parent.as_ref().is_some_and(|parent| !parent.is_empty() && groups.contains(parent))
    }

    fn lists_globally(&self, sender: &Sender) -> bool {
        let policy = self.policy;
        [&policy.allowed_users, &policy.operators, &policy.admins].into_iter().any(|list| self.names_here(list, sender))
            || (policy.allowed_users.contains(&self.qualified(ANYBODY)) && has_id(sender))
    }

    fn lists_a_role_of(&self, sender: &Sender) -> bool {
        sender.roles.iter().any(|role| !role.is_empty() && self.own.allowed_roles.contains(role))
    }

    /// Returns the tier of an admitted sender.
    fn tier(&self, sender: &Sender, trust: Trust) -> Tier {
        let (own, policy) = (self.own, self.policy);
        let vouched = trust == Trust::Upstream && sender.roles.iter().any(|role| role == OPERATOR_ROLE);
        if vouched || names(&own.operators, sender) || self.names_here(&policy.operators, sender) {
            Tier::Operator
        } else if names(&own.admins, sender) || self.names_here(&policy.admins, sender) {
            Tier::Admin
        } else if !self.has_staff_list() && self.is_listed(sender) && self.listed().len() == 1 {
            // A single person on the only list is the operator who wrote it.
            Tier::Operator
        } else {
            Tier::User
        }
    }

    /// Returns the distinct ids of `allowed_users` for this instance, without the wildcard.
    fn listed(&self) -> BTreeSet<&str> {
        let prefix = self.qualified("");
        let global = self.policy.allowed_users.iter().filter_map(|entry| entry.strip_prefix(prefix.as_str()));
        self.own.allowed_users.iter().map(String::as_str).chain(global).filter(|id| *id != ANYBODY).collect()
    }

    fn is_listed(&self, sender: &Sender) -> bool {
        names(&self.own.allowed_users, sender) || self.names_here(&self.policy.allowed_users, sender)
    }

    /// Returns true if operators or admins are listed for this instance.
    fn has_staff_list(&self) -> bool {
        let (own, policy) = (self.own, self.policy);
        !own.operators.is_empty()
            || !own.admins.is_empty()
            || self.has_entry_here(&policy.operators)
            || self.has_entry_here(&policy.admins)
    }

    /// Returns true if an allow list applies to this instance.
    fn has_allow_list(&self) -> bool {
        let own = self.own;
        !own.allowed_users.is_empty()
            || !own.allowed_groups.is_empty()
            || !own.allowed_roles.is_empty()
            || self.has_entry_here(&self.policy.allowed_users)
    }

    fn has_any_list(&self) -> bool {
        self.has_allow_list() || self.has_staff_list()
    }

    /// Returns true if a global list names the sender for this instance.
    fn names_here(&self, list: &BTreeSet<String>, sender: &Sender) -> bool {
        ids(sender).any(|id| list.contains(&self.qualified(id)))
    }

    /// Returns true if a global list has any entry for this instance.
    fn has_entry_here(&self, list: &BTreeSet<String>) -> bool {
        let prefix = self.qualified("");
        list.range(prefix.clone()..).next().is_some_and(|entry| entry.starts_with(&prefix))
    }

    fn qualified(&self, id: &str) -> String {
        format!("{}:{id}", self.instance)
    }
}

/// Returns the stable ids of a sender. A platform id equal to the wildcard `*` is skipped.
fn ids(sender: &Sender) -> impl Iterator<Item = &str> {
    [Some(sender.id.as_str()), sender.alt_id.as_deref()]
        .into_iter()
        .flatten()
        .filter(|id| !id.is_empty() && *id != ANYBODY)
}

fn has_id(sender: &Sender) -> bool {
    ids(sender).next().is_some()
}

fn names(list: &BTreeSet<String>, sender: &Sender) -> bool {
    ids(sender).any(|id| list.contains(id))
}
