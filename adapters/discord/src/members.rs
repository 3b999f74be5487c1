//! Roles of people who write to the bot in private.
//!
//! A direct message belongs to no server, so the gateway sends no roles with it. The bot asks the servers of `role_guilds`
//! about the member instead, and remembers the answer for a minute. An error of the server grants nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use hermes_adapter_net::reqwest::Method;
use hermes_adapter_sdk::prelude::*;
use hermes_adapter_sdk::tokio::time::{Instant, timeout};

use crate::api::{ApiError, Member};
use crate::channels;
use crate::connection::Connection;

/// Servers whose roles can count in direct messages.
pub const ROLE_GUILDS_MAX: usize = 10;
/// People whose roles are remembered.
const PEOPLE_MAX: usize = 1_000;
/// Validity of an answer.
const VALID: Duration = Duration::from_secs(60);
/// Time for the answers of all servers.
const ASK_TIMEOUT: Duration = Duration::from_secs(10);

/// The roles of people, with the time of the answer.
#[derive(Debug, Default)]
pub struct Members {
    known: Mutex<BTreeMap<String, (Instant, BTreeSet<String>)>>,
}

impl Members {
    fn get(&self, user: &str, now: Instant) -> Option<BTreeSet<String>> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(user).filter(|(at, _)| now.duration_since(*at) < VALID).map(|(_, roles)| roles.clone())
    }

    fn put(&self, user: &str, now: Instant, roles: BTreeSet<String>) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= PEOPLE_MAX {
            known.retain(|_, (at, _)| now.duration_since(*at) < VALID);
        }
        if known.len() < PEOPLE_MAX {
            known.insert(user.to_owned(), (now, roles));
        }
    }
}

impl Connection {
    /// Adds the roles of the sender to an event of a direct message.
    pub async fn add_roles(&self, event: &mut Event) {
        let guilds = &self.choice.role_guilds;
        let is_person = !event.sender.is_bot && channels::number(&event.sender.id).is_some();
        if event.chat.kind != ChatType::Dm || guilds.is_empty() || !is_person {
            return;
        }
        let (user, now) = (event.sender.id.clone(), Instant::now());
        let roles = match self.members.get(&user, now) {
            Some(roles) => roles,
            None => match timeout(ASK_TIMEOUT, self.ask_roles(&user)).await {
                Ok(Ok(roles)) => {
                    self.members.put(&user, now, roles.clone());
                    roles
                }
                Ok(Err(error)) => {
                    tracing::warn!(%error, user, "roles of a sender cannot be read; the message is treated as one without roles");
                    BTreeSet::new()
                }
                Err(_) => {
                    tracing::warn!(
                        user,
                        "roles of a sender did not arrive in time; the message is treated as one without roles"
                    );
                    BTreeSet::new()
                }
            },
        };
        event.sender.roles.extend(roles);
    }

    /// Asks every server for the member. A server that does not know the member, or not the bot, has no roles.
    /// <https://docs.discord.com/developers/resources/guild#get-guild-member>
    async fn ask_roles(&self, user: &str) -> Result<BTreeSet<String>, ApiError> {
        let mut roles = BTreeSet::new();
        for guild in &self.choice.role_guilds {
            match self.api.ask::<Member>(Method::GET, &format!("guilds/{guild}/members/{user}")).await {
                Ok(member) => roles.extend(member.roles.into_iter().filter(|role| channels::number(role).is_some())),
                Err(ApiError::Refused(refused)) => {
                    tracing::debug!(guild, %refused, "sender has no roles in the server");
                }
                Err(error) => return Err(error),
            }
        }
        Ok(roles)
    }
}
