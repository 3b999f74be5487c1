//! Roles of users who write to the bot in private.
//!
//! A direct message belongs to no server, so the gateway sends no roles with it. The bot asks the servers of `role_guilds`
//! about the member instead, and remembers the answer for a minute. An error of the server grants nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use hermes_adapter_net::reqwest::Method;
use hermes_adapter_sdk::prelude::*;
use hermes_adapter_sdk::tokio::time::{Instant, timeout};

use crate::api::{Api, ApiError};
use crate::objects::Member;
use crate::snowflake;

/// The maximum number of users with remembered roles.
const USERS_MAX: usize = 1_000;
/// The validity of an answer.
const VALID: Duration = Duration::from_secs(60);
/// The time limit for the answers of all servers.
const FETCH_TIMEOUT: Duration = Duration::from_secs(10);

/// The roles of users, with the time of the answer.
#[derive(Debug, Default)]
pub(crate) struct Members {
    by_user: Mutex<BTreeMap<String, (Instant, BTreeSet<String>)>>,
}

impl Members {
    fn get(&self, user: &str, now: Instant) -> Option<BTreeSet<String>> {
        let users = self.by_user.lock().unwrap_or_else(PoisonError::into_inner);
        users.get(user).filter(|(at, _)| now.duration_since(*at) < VALID).map(|(_, roles)| roles.clone())
    }

    fn put(&self, user: &str, now: Instant, roles: BTreeSet<String>) {
        let mut users = self.by_user.lock().unwrap_or_else(PoisonError::into_inner);
        if users.len() >= USERS_MAX {
            users.retain(|_, (at, _)| now.duration_since(*at) < VALID);
        }
        if users.len() < USERS_MAX {
            users.insert(user.to_owned(), (now, roles));
        }
    }

    /// Adds the roles of the sender to an event of a direct message.
    pub(crate) async fn add_roles(&self, api: &Api, guilds: &BTreeSet<String>, event: &mut Event) {
        let is_person = !event.sender.is_bot && snowflake::parse(&event.sender.id).is_some();
        if event.chat.kind != ChatType::Dm || guilds.is_empty() || !is_person {
            return;
        }
        let (user, now) = (event.sender.id.clone(), Instant::now());
        let roles = match self.get(&user, now) {
            Some(roles) => roles,
            None => match timeout(FETCH_TIMEOUT, fetch_roles(api, guilds, &user)).await {
                Ok(Ok(roles)) => {
                    self.put(&user, now, roles.clone());
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
}

/// Asks every server for the member. A server that does not know the member, or not the bot, has no roles.
/// <https://docs.discord.com/developers/resources/guild#get-guild-member>
async fn fetch_roles(api: &Api, guilds: &BTreeSet<String>, user: &str) -> Result<BTreeSet<String>, ApiError> {
    let mut roles = BTreeSet::new();
    for guild in guilds {
        match api.request::<Member>(Method::GET, &format!("guilds/{guild}/members/{user}")).await {
            Ok(member) => roles.extend(member.roles.into_iter().filter(|role| snowflake::parse(role).is_some())),
            Err(ApiError::Refused(refused)) => {
                tracing::debug!(guild, %refused, "sender has no roles in the server");
            }
            Err(error) => return Err(error),
        }
    }
    Ok(roles)
}
