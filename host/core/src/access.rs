//! Who may speak, and whether the agent was meant.
//!
//! [`AccessPolicy::admit`] is the only way for an event of an adapter to become an
//! [`Authorized`] one; without that, no session opens. The order is fixed:
//!
//! 1. a trusted upstream,
//! 2. `allow_all` of the instance,
//! 3. its lists (users, groups),
//! 4. the global lists,
//! 5. trusted roles,
//! 6. pairing grants,
//! 7. the global `allow_all`, where no list of any kind exists for the instance,
//! 8. nobody.
//!
//! Only the adapter says who somebody is; only the operator says that it may.
//! Display names decide nothing. Whether an admitted group message is meant for
//! the agent is [`addressed`]; pairing itself is in [`crate::pairing`].

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

/// In a list: anybody. It never makes an operator or an admin.
const ANYBODY: &str = "*";

/// The role that a trusted upstream gives to the operator (the link of the webchat page).
pub const OPERATOR_ROLE: &str = "operator";

/// What somebody may do. Ordered: whoever is more may do what less may.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Tier {
    /// Talks to the agent.
    User,
    /// Approves, pairs, restarts.
    Admin,
    /// The person who runs the host.
    Operator,
}

impl Tier {
    /// Returns the word for people.
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

/// How far an adapter's word about its senders is believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trust {
    /// Not at all: its roles and its authorization are ignored.
    None,
    /// Its roles count.
    Roles,
    /// Its roles count, and whoever it lets through is admitted.
    Upstream,
}

impl Trust {
    /// Returns the trust in an adapter: `trusted` is the operator's word (`trust_upstream`, or a
    /// library beside the binary), the capabilities are its own. Either alone admits nobody.
    pub fn of(trusted: bool, capabilities: &Capabilities) -> Self {
        match (trusted, capabilities.authorizes_upstream) {
            (false, _) => Self::None,
            (true, false) => Self::Roles,
            (true, true) => Self::Upstream,
        }
    }
}

/// What a stranger's direct message gets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Strangers {
    /// A pairing code, unless a list says who may speak.
    #[default]
    Pair,
    /// Silence.
    Ignore,
}

/// Everything the operator wrote about access. The default admits nobody.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AccessPolicy {
    /// Whether everybody may speak where no list of any kind exists.
    pub allow_all: bool,
    /// Who may speak, as `<instance>:<id>`.
    pub allowed_users: BTreeSet<String>,
    /// Who is the operator, as `<instance>:<id>`.
    pub operators: BTreeSet<String>,
    /// Who is an admin, as `<instance>:<id>`.
    pub admins: BTreeSet<String>,
    /// What a stranger's direct message gets.
    pub strangers: Strangers,
    /// What holds for one instance.
    pub instances: BTreeMap<String, InstanceAccess>,
}

/// What the operator wrote about access to one instance; bare ids of its platform.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InstanceAccess {
    /// Whether everybody may speak.
    pub allow_all: bool,
    /// Who may speak.
    pub allowed_users: BTreeSet<String>,
    /// Chats whose members may speak there; a thread counts with its chat.
    pub allowed_groups: BTreeSet<String>,
    /// Roles that may speak; they count only under [`Trust`].
    pub allowed_roles: BTreeSet<String>,
    /// Who is the operator.
    pub operators: BTreeSet<String>,
    /// Who is an admin.
    pub admins: BTreeSet<String>,
    /// What a stranger's direct message gets; `None`: as the global policy says.
    pub strangers: Option<Strangers>,
    /// Commands that users may run in direct messages beyond their tier.
    pub user_commands: BTreeSet<String>,
    /// The same in groups.
    pub group_user_commands: BTreeSet<String>,
}

/// An event that was not admitted, given back for its row.
#[derive(Clone, Debug)]
pub struct Denied {
    /// The event.
    pub event: Event,
    /// What follows.
    pub denial: Denial,
}

/// What follows when somebody is not admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Denial {
    /// Nothing is said.
    Silent {
        /// Why, for the row.
        why: &'static str,
    },
    /// No code is offered; one that was handed out to them still lets them in.
    Unlisted {
        /// Why nothing is said otherwise, for the row.
        why: &'static str,
    },
    /// Somebody unknown wrote directly; a pairing code may be offered.
    Stranger,
}

impl AccessPolicy {
    /// Admits an event of `instance`, or gives it back.
    ///
    /// # Errors
    ///
    /// [`Denied`] when nothing grants its sender access.
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

    /// Returns what `sender` may do in `chat`; `None`: nothing, not even speak.
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

    /// Returns how many ids `allowed_users` names on `instance` where several make none of them the operator and no list
    /// of operators or admins names one; `None` where the instance is unambiguous.
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
                    "`allowed_users` has {listed} ids and `operators` has none; the person who runs the host adds their id to `operators`"
                ),
                _ if view.is_listed(sender) => "your id is in `allowed_users`".to_owned(),
                _ => "you were admitted by pairing, a role, a group or `allow_all`".to_owned(),
            },
        }
    }

    /// Whether somebody who spoke here once may do so no more. `sender` may lack the roles that they have; where these
    /// could let them in, nobody knows.
    pub fn shuts_out(&self, instance: &str, chat: &Chat, sender: &Sender, grants: &Grants, trust: Trust) -> bool {
        let own = self.view(instance).own;
        let may_have_a_role = trust != Trust::None && sender.roles.is_empty() && !own.allowed_roles.is_empty();
        !may_have_a_role && self.tier_of(instance, chat, sender, grants, trust).is_none()
    }

    /// Whether somebody of this tier may run a command here: by tier, or because the operator listed it.
    pub fn may_run(&self, instance: &str, chat: &Chat, tier: Tier, command: &Command) -> bool {
        let own = self.view(instance).own;
        // A group's list stands in for an empty one of direct messages, as operators of the Python gateway expect.
        let extra = if is_dm(&chat.kind) && !own.user_commands.is_empty() {
            &own.user_commands
        } else {
            &own.group_user_commands
        };
        tier >= command.tier || extra.contains(command.name)
    }

    /// Returns what follows for somebody who is not admitted: a group never gets an answer about it.
    fn denial(&self, instance: &str, event: &Event) -> Denial {
        let view = self.view(instance);
        let strangers = view.own.strangers.unwrap_or(self.strangers);
        if !has_id(&event.sender) {
            Denial::Silent { why: "no sender id" }
        } else if !is_dm(&event.chat.kind) {
            Denial::Silent { why: "not allowed in this chat" }
        } else if event.sender.is_bot {
            Denial::Silent { why: "a bot that is not allowed" }
        } else if view.has_allow_list() {
            Denial::Unlisted { why: "not on the list" }
        } else if strangers == Strangers::Ignore {
            Denial::Unlisted { why: "strangers are ignored" }
        } else {
            Denial::Stranger
        }
    }

    fn view<'a>(&'a self, instance: &'a str) -> View<'a> {
        View { policy: self, instance, own: self.instances.get(instance).unwrap_or(&NOTHING) }
    }
}

/// An instance without a section.
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

/// The policy as one instance sees it.
struct View<'a> {
    policy: &'a AccessPolicy,
    instance: &'a str,
    own: &'a InstanceAccess,
}

impl View<'_> {
    /// Whether the instance's own section names the sender or the chat.
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

    /// What somebody who is admitted may do.
    fn tier(&self, sender: &Sender, trust: Trust) -> Tier {
        let (own, policy) = (self.own, self.policy);
        let vouched = trust == Trust::Upstream && sender.roles.iter().any(|role| role == OPERATOR_ROLE);
        if vouched || names(&own.operators, sender) || self.names_here(&policy.operators, sender) {
            Tier::Operator
        } else if names(&own.admins, sender) || self.names_here(&policy.admins, sender) {
            Tier::Admin
        } else if !self.has_staff_list() && self.is_listed(sender) && self.listed().len() == 1 {
            // A single person on the only list is the person who wrote it.
            Tier::Operator
        } else {
            Tier::User
        }
    }

    /// Returns the ids of `allowed_users` on this instance, without the mark for everybody.
    fn listed(&self) -> BTreeSet<&str> {
        let prefix = self.qualified("");
        let global = self.policy.allowed_users.iter().filter_map(|entry| entry.strip_prefix(prefix.as_str()));
        self.own.allowed_users.iter().map(String::as_str).chain(global).filter(|id| *id != ANYBODY).collect()
    }

    fn is_listed(&self, sender: &Sender) -> bool {
        names(&self.own.allowed_users, sender) || self.names_here(&self.policy.allowed_users, sender)
    }

    /// Whether operators or admins are listed for this instance.
    fn has_staff_list(&self) -> bool {
        let (own, policy) = (self.own, self.policy);
        !own.operators.is_empty()
            || !own.admins.is_empty()
            || self.has_entry_here(&policy.operators)
            || self.has_entry_here(&policy.admins)
    }

    /// Whether a list says who may speak on this instance.
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

    /// Whether a global list names the sender for this instance.
    fn names_here(&self, list: &BTreeSet<String>, sender: &Sender) -> bool {
        ids(sender).any(|id| list.contains(&self.qualified(id)))
    }

    /// Whether a global list has any entry for this instance.
    fn has_entry_here(&self, list: &BTreeSet<String>) -> bool {
        let prefix = self.qualified("");
        list.range(prefix.clone()..).next().is_some_and(|entry| entry.starts_with(&prefix))
    }

    fn qualified(&self, id: &str) -> String {
        format!("{}:{id}", self.instance)
    }
}

/// The stable ids of a sender. A platform id that happens to be `*` is nobody.
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
