//! The workspaces of the app: their tokens, the app's identity in each, and the names of their users.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::join_all;
use hermes_adapter_sdk::prelude::*;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::api::{Api, ApiError, Conversation, ConversationInfo, Conversations, Me, UserInfo};
use crate::inbound;

/// The maximum number of cached names. Above it the cache is cleared.
const NAMES_MAX: usize = 4096;
/// The time limit for all names of one message, which are requested together. Without a name the id is shown.
const NAME_TIMEOUT: Duration = Duration::from_secs(1);
/// The maximum length of a shown name, in characters.
const NAME_CHARS_MAX: usize = 100;
/// The time before a name is requested again after a failure.
const NAMELESS: Duration = Duration::from_secs(60);
/// The maximum number of remembered slash commands, and the lifetime of their response
/// addresses, in milliseconds.
/// <https://docs.slack.dev/interactivity/handling-user-interaction#message_responses>
const COMMANDS_MAX: usize = 256;
const RESPONSE_MS: i64 = 30 * 60 * 1000;
/// The page size of the channel list, and the maximum number of pages searched for a name.
/// <https://docs.slack.dev/reference/methods/conversations.list>
const PAGE: u32 = 200;
const PAGES_MAX: usize = 25;

/// The maximum number of remembered threads in channels that our workspaces share.
const SHARED_MAX: usize = 1024;

/// One workspace.
#[derive(Debug)]
pub struct Space {
    /// The bot token of the workspace.
    pub token: String,
    /// The app's identity in the workspace.
    pub me: Me,
}

/// A name, if it is known, and the time at which the entry expires; `None` if it never does.
struct Named(Option<String>, Option<Instant>);

/// The app in all its workspaces.
pub struct Account {
    pub api: Api,
    tokens: Vec<String>,
    spaces: Mutex<Vec<Arc<Space>>>,
    names: Mutex<BTreeMap<(String, String), Named>>,
    /// The threads of channels that our workspaces share, with the workspace of each.
    shared: Mutex<VecDeque<(String, String)>>,
    /// The slash commands: the `inbox_id` of the event, the response address, and its
    /// expiry in milliseconds since the Unix epoch.
    commands: Mutex<VecDeque<(i64, String, i64)>>,
}

impl Account {
    /// Creates an app with these bot tokens, without any request.
    pub fn new(api: Api, tokens: Vec<String>) -> Self {
        Self {
            api,
            tokens,
            spaces: Mutex::default(),
            names: Mutex::default(),
            shared: Mutex::default(),
            commands: Mutex::default(),
        }
    }

    /// Requests the identity of each token and locks its credential. A workspace that has
    /// uninstalled the app is left out.
    pub async fn introduce(&self, host: &Host) -> Result<(), ConnectError> {
        let mut spaces: Vec<Arc<Space>> = Vec::new();
        let mut out = None;
        for (n, token) in self.tokens.iter().enumerate() {
            let me: Me = match self.api.call(token, "auth.test", &[]).await {
                Ok(me) => me,
                Err(error) if is_taken_out(&error) => {
                    let known = self.all().into_iter().find(|space| space.token == *token);
                    let name = known.map_or_else(String::new, |space| format!(" ({})", space.me.team));
                    tracing::warn!(%error, "token {} of `bot_token`{name} is skipped: the app is no longer installed in its workspace", n + 1);
                    out = Some(error);
                    continue;
                }
                Err(error) => return Err(lost(&error, "bot_token")),
            };
            if me.is_enterprise_install {
                return Err(ConnectError::fatal(
                    format!("`bot_token` contains a token of the whole organization {}", me.team),
                    "install the app in each workspace, and use the tokens of the workspaces",
                ));
            }
            if let Some(twice) = spaces.iter().find(|space| space.me.team_id == me.team_id) {
                return Err(ConnectError::fatal(
                    format!("`bot_token` contains two tokens of the workspace {}", twice.me.team),
                    "keep one token for each workspace",
                ));
            }
            host.lock_credential(&format!("slack:{}:{}", me.team_id, me.user_id)).await.map_err(|error| {
                ConnectError::not_locked(&error, "use a separate app for each instance, or stop the other one")
            })?;
            spaces.push(Arc::new(Space { token: token.clone(), me }));
        }
        if let Some(error) = out.filter(|_| spaces.is_empty()) {
            return Err(lost(&error, "bot_token"));
        }
        let names: Vec<String> =
            spaces.iter().map(|space| format!("@{} in {}", space.me.user, space.me.team)).collect();
        host.announce(names.join(", "), "");
        *self.spaces() = spaces;
        Ok(())
    }

    fn spaces(&self) -> std::sync::MutexGuard<'_, Vec<Arc<Space>>> {
        self.spaces.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns all workspaces.
    pub fn all(&self) -> Vec<Arc<Space>> {
        self.spaces().clone()
    }

    /// Returns the workspace of a delivery: the first of ours that it names. In a channel shared between several of our
    /// workspaces, a message belongs to the workspace whose bot is mentioned or was answered, and so do later messages
    /// of the same thread. Slack itself names any of the workspaces there.
    pub fn space_of(&self, payload: &Value) -> Option<Arc<Space>> {
        let (spaces, teams) = (self.spaces(), inbound::teams(payload));
        let first = teams.iter().find_map(|team| spaces.iter().find(|space| space.me.team_id == *team))?;
        let is_shared = payload["is_ext_shared_channel"] == true;
        let meant = spaces.iter().filter(|space| is_shared || teams.contains(&space.me.team_id.as_str()));
        let meant: Vec<_> = meant.collect();
        let mentioned = meant.iter().find(|space| inbound::mentions(payload, &space.me.user_id));
        let asked = || meant.iter().find(|space| payload["event"]["parent_user_id"] == space.me.user_id.as_str());
        if !is_shared {
            return Some(Arc::clone(mentioned.or_else(asked).unwrap_or(&first)));
        }
        let thread = format!("{}:{}", inbound::channel(payload), inbound::root(payload));
        let mut shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        let known = shared.iter().find(|(of, _)| *of == thread).map(|(_, team)| team.as_str());
        let known = || meant.iter().find(|space| Some(space.me.team_id.as_str()) == known);
        let space = Arc::clone(mentioned.or_else(asked).or_else(known).unwrap_or(&first));
        shared.retain(|(of, _)| *of != thread);
        shared.push_back((thread, space.me.team_id.clone()));
        while shared.len() > SHARED_MAX {
            shared.pop_front();
        }
        Some(space)
    }

    /// Returns one of our workspaces by its id.
    pub fn space(&self, team: &str) -> Option<Arc<Space>> {
        self.spaces().iter().find(|space| space.me.team_id == team).cloned()
    }

    /// Returns whether one of our bots, in any workspace, wrote the message.
    pub fn is_own(&self, payload: &Value) -> bool {
        self.spaces().iter().any(|space| inbound::is_by(payload, &space.me))
    }

    /// Returns the workspace and the channel of a chat.
    pub fn place(&self, id: &str) -> Result<(Arc<Space>, String), String> {
        let (team, channel) = inbound::place(id);
        let spaces = self.spaces();
        let space = match team {
            Some(team) => spaces.iter().find(|space| space.me.team_id == team),
            None if spaces.len() == 1 => spaces.first(),
            None => None,
        };
        let space = space.ok_or_else(|| format!("no token in `bot_token` belongs to the workspace of {id:?}"))?;
        Ok((Arc::clone(space), channel.to_owned()))
    }

    /// Returns the names of users in the workspace.
    pub async fn user_names<'u>(
        &self,
        space: &Space,
        users: impl Iterator<Item = &'u str>,
    ) -> BTreeMap<String, String> {
        let users = users.filter(|user| user.starts_with(['U', 'W']));
        let names = users.map(|user| async move {
            let asked = async {
                let found: UserInfo = self.api.call(&space.token, "users.info", &[("user", json!(user))]).await?;
                let display = found.user.profile.display_name.filter(|name| !name.is_empty());
                Ok(display.or(found.user.real_name).unwrap_or(found.user.name))
            };
            Some((user.to_owned(), self.named(space, user, asked).await?))
        });
        join_all(names).await.into_iter().flatten().collect()
    }

    /// Returns the name of a channel.
    pub async fn channel_name(&self, space: &Space, channel: &str) -> Option<String> {
        let asked = async {
            let parameters = [("channel", json!(channel))];
            let found: ConversationInfo = self.api.call(&space.token, "conversations.info", &parameters).await?;
            Ok(found.channel.name.unwrap_or_default())
        };
        self.named(space, channel, asked).await
    }

    /// Returns a cached name, or requests it with `asked`.
    async fn named(
        &self,
        space: &Space,
        id: &str,
        asked: impl Future<Output = Result<String, ApiError>>,
    ) -> Option<String> {
        let key = (space.me.team_id.clone(), id.to_owned());
        let known = || self.names.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(Named(name, until)) = known().get(&key) {
            if until.is_none_or(|until| Instant::now() < until) {
                return name.clone();
            }
        }
        let (found, believed) = match tokio::time::timeout(NAME_TIMEOUT, asked).await {
            Ok(Ok(name)) => {
                let name: String = name.chars().take(NAME_CHARS_MAX).collect();
                (Some(name).filter(|name| !name.is_empty()), None)
            }
            Ok(Err(error)) => {
                tracing::info!(id, %error, "name cannot be resolved");
                (None, believed(&error))
            }
            Err(_) => (None, Some(NAMELESS)),
        };
        let mut names = known();
        if names.len() >= NAMES_MAX {
            names.clear();
        }
        names.insert(key, Named(found.clone(), believed.map(|time| Instant::now() + time)));
        found
    }

    /// Returns the channel with this name, in any workspace.
    pub async fn channel_named(&self, name: &str) -> Result<Option<(Arc<Space>, Conversation)>, ApiError> {
        for space in self.all() {
            let mut cursor = String::new();
            for _ in 0..PAGES_MAX {
                let mut parameters = vec![
                    ("limit", json!(PAGE)),
                    ("exclude_archived", json!("true")),
                    ("types", json!("public_channel,private_channel")),
                ];
                if !cursor.is_empty() {
                    parameters.push(("cursor", json!(cursor)));
                }
                let page: Conversations = self.api.call(&space.token, "conversations.list", &parameters).await?;
                if let Some(found) = page.channels.into_iter().find(|channel| channel.name.as_deref() == Some(name)) {
                    return Ok(Some((space, found)));
                }
                cursor = page.response_metadata.next_cursor;
                if cursor.is_empty() {
                    break;
                }
            }
        }
        Ok(None)
    }

    /// Returns the direct messages with a user.
    pub async fn dm_with(&self, space: &Space, user: &str) -> Result<Conversation, ApiError> {
        let found: ConversationInfo =
            self.api.call(&space.token, "conversations.open", &[("users", json!(user))]).await?;
        Ok(found.channel)
    }

    /// Stores the response address of a slash command.
    pub fn note_command(&self, inbox_id: i64, response_url: &str, now_ms: i64) {
        let mut commands = self.commands.lock().unwrap_or_else(PoisonError::into_inner);
        commands.push_back((inbox_id, response_url.to_owned(), now_ms.saturating_add(RESPONSE_MS)));
        while commands.len() > COMMANDS_MAX {
            commands.pop_front();
        }
    }

    /// Returns the response address of the slash command that became this event, if it is still valid.
    pub fn response_url(&self, inbox_id: Option<i64>, now_ms: i64) -> Option<String> {
        let commands = self.commands.lock().unwrap_or_else(PoisonError::into_inner);
        let found = commands.iter().find(|(id, _, until_ms)| Some(*id) == inbox_id && now_ms < *until_ms);
        found.map(|(_, url, _)| url.clone())
    }

    /// Checks the link with a round trip.
    pub async fn prove(&self) -> Result<(), ApiError> {
        for space in self.all() {
            match self.api.call::<Value>(&space.token, "auth.test", &[]).await {
                Ok(_) => {}
                Err(error) if is_taken_out(&error) && self.leave_out(&space) => {
                    tracing::warn!(%error, "the workspace {} is skipped: the app is no longer installed there", space.me.team);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Removes a workspace; returns `false` if it is the last one.
    fn leave_out(&self, gone: &Space) -> bool {
        let mut spaces = self.spaces();
        let is_last = spaces.len() <= 1;
        spaces.retain(|space| is_last || space.me.team_id != gone.me.team_id);
        !is_last
    }
}

/// Returns whether the workspace has uninstalled the app.
fn is_taken_out(error: &ApiError) -> bool {
    matches!(error, ApiError::Refused(refused) if matches!(refused.code.as_str(), "account_inactive" | "token_revoked"))
}

/// Returns the time before a name is requested again after this error; `None`: never.
fn believed(error: &ApiError) -> Option<Duration> {
    let ApiError::Refused(refused) = error else { return Some(NAMELESS) };
    // A missing scope stays missing, and an unknown user does not appear later.
    match refused.code.as_str() {
        "missing_scope" | "user_not_visible" => None,
        code if code.ends_with("_not_found") => None,
        _ => Some(refused.retry_after_ms.map_or(NAMELESS, |wait| Duration::from_millis(wait).min(NAMELESS))),
    }
}

/// Returns the effect of an error on the link; `key` is the config key of the token.
pub fn lost(error: &ApiError, key: &str) -> ConnectError {
    let refused = match error {
        ApiError::Refused(refused) => refused,
        ApiError::NotSent(detail) => return ConnectError::unreachable(detail),
        _ => return ConnectError::retry(error.to_string()),
    };
    match refused.code.as_str() {
        "invalid_auth"
        | "not_authed"
        | "account_inactive"
        | "token_revoked"
        | "token_expired"
        | "not_allowed_token_type"
        | "org_login_required" => ConnectError::fatal(
            format!("Slack rejected `{key}` ({refused})"),
            format!("copy `{key}` again from the pages of the app at https://api.slack.com/apps"),
        ),
        "missing_scope" | "no_permission" => ConnectError::fatal(
            format!("`{key}` lacks a scope ({refused})"),
            "add the scope to the app, reinstall it and copy the new token",
        ),
        "ratelimited" => ConnectError::retry_after_ms(refused.to_string(), refused.retry_after_ms.unwrap_or(30_000)),
        _ => ConnectError::retry(refused.to_string()),
    }
}

#[cfg(test)]
mod tests;
