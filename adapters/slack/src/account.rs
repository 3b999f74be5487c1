//! The workspaces that the app is installed in: their tokens, who we are in each, and what people are called there.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hermes_adapter_sdk::prelude::*;
use serde_json::{Value, json};

use crate::api::{Api, ApiError, Conversation, ConversationInfo, Conversations, Me, UserInfo};
use crate::inbound;

/// Names that are remembered; when they are more, all are asked for anew.
const NAMES_MAX: usize = 4096;
/// How long a name may take. Without one the id is shown.
const NAME_TIMEOUT: Duration = Duration::from_millis(1500);
/// Slash commands whose address is remembered, and for how long it is good.
/// <https://docs.slack.dev/interactivity/handling-user-interaction#message_responses>
const COMMANDS_MAX: usize = 256;
const RESPONSE_MS: i64 = 30 * 60 * 1000;
/// How many channels a page of the list has, and how many pages are read to find a name.
/// <https://docs.slack.dev/reference/methods/conversations.list>
const PAGE: u32 = 200;
const PAGES_MAX: usize = 25;

/// One workspace.
#[derive(Debug)]
pub struct Space {
    /// The bot token of this workspace.
    pub token: String,
    /// Who we are in it.
    pub me: Me,
}

/// The app in all its workspaces.
pub struct Account {
    /// The server.
    pub api: Api,
    tokens: Vec<String>,
    spaces: Mutex<Vec<Arc<Space>>>,
    names: Mutex<BTreeMap<(String, String), Option<String>>>,
    /// Slash commands by the event that they became, and where they may be answered until when.
    commands: Mutex<VecDeque<(i64, String, i64)>>,
}

impl Account {
    /// An app with these bot tokens, of which none is asked about yet.
    pub fn new(api: Api, tokens: Vec<String>) -> Self {
        Self { api, tokens, spaces: Mutex::default(), names: Mutex::default(), commands: Mutex::default() }
    }

    /// Asks each token who it is, and claims its place.
    pub async fn introduce(&self, host: &Host) -> Result<(), ConnectError> {
        let mut spaces: Vec<Arc<Space>> = Vec::new();
        for token in &self.tokens {
            let me: Me = self.api.call(token, "auth.test", &[]).await.map_err(|error| lost(&error, "bot_token"))?;
            if me.is_enterprise_install {
                return Err(ConnectError::fatal(
                    format!("`bot_token` holds a token of the whole organization {}", me.team),
                    "install the app in each workspace, and write the tokens of these",
                ));
            }
            if let Some(twice) = spaces.iter().find(|space| space.me.team_id == me.team_id) {
                return Err(ConnectError::fatal(
                    format!("`bot_token` holds two tokens of the workspace {}", twice.me.team),
                    "keep one token for each workspace",
                ));
            }
            host.lock_credential(&format!("slack:{}:{}", me.team_id, me.user_id)).await.map_err(|error| {
                ConnectError::fatal(error.to_string(), "give each instance an app of its own, or stop the other one")
            })?;
            spaces.push(Arc::new(Space { token: token.clone(), me }));
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

    /// Every workspace.
    pub fn all(&self) -> Vec<Arc<Space>> {
        self.spaces().clone()
    }

    /// The first of these workspaces that is one of ours.
    pub fn first_of(&self, teams: &[&str]) -> Option<Arc<Space>> {
        let spaces = self.spaces();
        teams.iter().find_map(|team| spaces.iter().find(|space| space.me.team_id == *team)).cloned()
    }

    /// The workspace and the channel of a chat.
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

    /// What people are called in the workspace.
    pub async fn user_names<'u>(
        &self,
        space: &Space,
        users: impl Iterator<Item = &'u str>,
    ) -> BTreeMap<String, String> {
        let mut names = BTreeMap::new();
        for user in users.filter(|user| user.starts_with(['U', 'W'])) {
            let asked = async {
                let found: UserInfo = self.api.call(&space.token, "users.info", &[("user", json!(user))]).await?;
                let display = found.user.profile.display_name.filter(|name| !name.is_empty());
                Ok(display.or(found.user.real_name).unwrap_or(found.user.name))
            };
            if let Some(name) = self.named(space, user, asked).await {
                names.insert(user.to_owned(), name);
            }
        }
        names
    }

    /// What a channel is called.
    pub async fn channel_name(&self, space: &Space, channel: &str) -> Option<String> {
        let asked = async {
            let parameters = [("channel", json!(channel))];
            let found: ConversationInfo = self.api.call(&space.token, "conversations.info", &parameters).await?;
            Ok(found.channel.name.unwrap_or_default())
        };
        self.named(space, channel, asked).await
    }

    /// A name that was asked for before, or what `asked` says.
    async fn named(
        &self,
        space: &Space,
        id: &str,
        asked: impl Future<Output = Result<String, ApiError>>,
    ) -> Option<String> {
        let key = (space.me.team_id.clone(), id.to_owned());
        let known = || self.names.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(name) = known().get(&key) {
            return name.clone();
        }
        let found = match tokio::time::timeout(NAME_TIMEOUT, asked).await {
            Ok(Ok(name)) => Some(name).filter(|name| !name.is_empty()),
            // A missing scope stays missing; it is said once and not asked for again.
            Ok(Err(ApiError::Refused(refused))) if refused.code != "ratelimited" => {
                tracing::info!(id, %refused, "a name is not known");
                None
            }
            _ => return None,
        };
        let mut names = known();
        if names.len() >= NAMES_MAX {
            names.clear();
        }
        names.insert(key, found.clone());
        found
    }

    /// The channel of this name, in any workspace.
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

    /// The direct messages with somebody.
    pub async fn dm_with(&self, space: &Space, user: &str) -> Result<Conversation, ApiError> {
        let found: ConversationInfo =
            self.api.call(&space.token, "conversations.open", &[("users", json!(user))]).await?;
        Ok(found.channel)
    }

    /// Remembers where a slash command may be answered.
    pub fn note_command(&self, inbox_id: i64, response_url: &str, now_ms: i64) {
        let mut commands = self.commands.lock().unwrap_or_else(PoisonError::into_inner);
        commands.push_back((inbox_id, response_url.to_owned(), now_ms.saturating_add(RESPONSE_MS)));
        while commands.len() > COMMANDS_MAX {
            commands.pop_front();
        }
    }

    /// Where the slash command that became this event may still be answered.
    pub fn response_url(&self, inbox_id: Option<i64>, now_ms: i64) -> Option<String> {
        let commands = self.commands.lock().unwrap_or_else(PoisonError::into_inner);
        let found = commands.iter().find(|(id, _, until_ms)| Some(*id) == inbox_id && now_ms < *until_ms);
        found.map(|(_, url, _)| url.clone())
    }

    /// Proves a round trip.
    pub async fn prove(&self) -> Result<(), ApiError> {
        for space in self.all() {
            self.api.call::<Value>(&space.token, "auth.test", &[]).await?;
        }
        Ok(())
    }
}

/// What an error means for the link; `key` holds the token that was used.
pub fn lost(error: &ApiError, key: &str) -> ConnectError {
    let ApiError::Refused(refused) = error else { return ConnectError::retry(error.to_string()) };
    match refused.code.as_str() {
        "invalid_auth"
        | "not_authed"
        | "account_inactive"
        | "token_revoked"
        | "token_expired"
        | "not_allowed_token_type"
        | "org_login_required" => ConnectError::fatal(
            format!("Slack does not accept `{key}` ({refused})"),
            format!("copy `{key}` again from the app's pages at https://api.slack.com/apps"),
        ),
        "missing_scope" | "no_permission" => ConnectError::fatal(
            format!("`{key}` may do too little ({refused})"),
            "add the scope to the app, install it anew and copy the new token",
        ),
        "ratelimited" => ConnectError::retry_after_ms(refused.to_string(), refused.retry_after_ms.unwrap_or(30_000)),
        _ => ConnectError::retry(refused.to_string()),
    }
}
