//! The app in all its workspaces: its tokens, and its identity in each workspace.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hermes_adapter_sdk::prelude::*;
use serde_json::Value;

use crate::api::{Api, ApiError};
use crate::chats;
use crate::errors::connect_error;
use crate::names::Names;
use crate::objects::BotIdentity;
use crate::payload;
use crate::response_urls::ResponseUrls;
use crate::shared_threads::SharedThreads;
use crate::workspace::{Destination, Workspace};

/// The app in all its workspaces.
pub(crate) struct Account {
    pub api: Api,
    pub names: Names,
    pub response_urls: ResponseUrls,
    tokens: Vec<String>,
    workspaces: Mutex<Vec<Arc<Workspace>>>,
    shared_threads: SharedThreads,
}

impl Account {
    /// Creates an app with these bot tokens, without any request.
    pub(crate) fn new(api: Api, tokens: Vec<String>) -> Self {
        Self {
            api,
            names: Names::default(),
            response_urls: ResponseUrls::default(),
            tokens,
            workspaces: Mutex::default(),
            shared_threads: SharedThreads::default(),
        }
    }

    /// Requests the identity of each token and locks its credential. A workspace that has
    /// uninstalled the app is left out.
    pub(crate) async fn authenticate(&self, host: &Host) -> Result<(), ConnectError> {
        let mut workspaces: Vec<Arc<Workspace>> = Vec::new();
        let mut uninstalled = None;
        for (n, token) in self.tokens.iter().enumerate() {
            let me: BotIdentity = match self.api.call(token, "auth.test", &[]).await {
                Ok(me) => me,
                Err(error) if is_uninstalled(&error) => {
                    let known = self.workspaces().into_iter().find(|workspace| workspace.token == *token);
                    let name = known.map_or_else(String::new, |workspace| format!(" ({})", workspace.me.team));
                    tracing::warn!(%error, "token {} of `bot_token`{name} is skipped: the app is no longer installed in its workspace", n + 1);
                    uninstalled = Some(error);
                    continue;
                }
                Err(error) => return Err(connect_error(&error, "bot_token")),
            };
            if me.is_enterprise_install {
                return Err(ConnectError::fatal(
                    format!("`bot_token` contains a token of the whole organization {}", me.team),
                    "install the app in each workspace, and use the tokens of the workspaces",
                ));
            }
            if let Some(twice) = workspaces.iter().find(|workspace| workspace.me.team_id == me.team_id) {
                return Err(ConnectError::fatal(
                    format!("`bot_token` contains two tokens of the workspace {}", twice.me.team),
                    "keep one token for each workspace",
                ));
            }
            host.lock_credential(&format!("slack:{}:{}", me.team_id, me.user_id)).await.map_err(|error| {
                ConnectError::not_locked(&error, "use a separate app for each instance, or stop the other one")
            })?;
            workspaces.push(Arc::new(Workspace { token: token.clone(), me }));
        }
        if let Some(error) = uninstalled.filter(|_| workspaces.is_empty()) {
            return Err(connect_error(&error, "bot_token"));
        }
        let names: Vec<String> =
            workspaces.iter().map(|workspace| format!("@{} in {}", workspace.me.user, workspace.me.team)).collect();
        host.announce(names.join(", "), "");
        *self.lock() = workspaces;
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Arc<Workspace>>> {
        self.workspaces.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns all workspaces.
    pub(crate) fn workspaces(&self) -> Vec<Arc<Workspace>> {
        self.lock().clone()
    }

    /// Returns one of our workspaces by its id.
    pub(crate) fn workspace(&self, team: &str) -> Option<Arc<Workspace>> {
        self.lock().iter().find(|workspace| workspace.me.team_id == team).cloned()
    }

    /// Returns the workspace of a delivery: the first of ours that it names. In a channel shared between several of our
    /// workspaces, a message belongs to the workspace whose bot is mentioned or was answered, and so do later messages
    /// of the same thread. Slack itself names any of the workspaces there.
    pub(crate) fn workspace_of(&self, payload: &Value) -> Option<Arc<Workspace>> {
        let (workspaces, teams) = (self.lock(), payload::teams(payload));
        let first = teams.iter().find_map(|team| workspaces.iter().find(|workspace| workspace.me.team_id == *team))?;
        let is_shared = payload["is_ext_shared_channel"] == true;
        let is_candidate = |workspace: &&Arc<Workspace>| is_shared || teams.contains(&workspace.me.team_id.as_str());
        let candidates: Vec<_> = workspaces.iter().filter(is_candidate).collect();
        let mentioned = candidates.iter().find(|workspace| payload::mentions(payload, &workspace.me.user_id));
        let answered = || {
            let parent = &payload["event"]["parent_user_id"];
            candidates.iter().find(|workspace| *parent == workspace.me.user_id.as_str())
        };
        if !is_shared {
            return Some(Arc::clone(mentioned.or_else(answered).unwrap_or(&first)));
        }
        let thread = format!("{}:{}", payload::channel(payload), payload::thread_root(payload));
        let team = self.shared_threads.team(&thread);
        let earlier = || candidates.iter().find(|workspace| Some(&workspace.me.team_id) == team.as_ref());
        let workspace = Arc::clone(mentioned.or_else(answered).or_else(earlier).unwrap_or(&first));
        self.shared_threads.record(thread, workspace.me.team_id.clone());
        Some(workspace)
    }

    /// Returns whether one of our bots, in any workspace, wrote the message.
    pub(crate) fn is_own(&self, payload: &Value) -> bool {
        self.lock().iter().any(|workspace| payload::is_from(payload, &workspace.me))
    }

    /// Returns the workspace and the channel of a chat.
    pub(crate) fn destination(&self, chat: &str) -> Result<Destination<'_>, String> {
        let (team, channel) = chats::split_id(chat);
        let workspaces = self.lock();
        let workspace = match team {
            Some(team) => workspaces.iter().find(|workspace| workspace.me.team_id == team),
            None if workspaces.len() == 1 => workspaces.first(),
            None => None,
        };
        let workspace =
            workspace.ok_or_else(|| format!("no token in `bot_token` belongs to the workspace of {chat:?}"))?;
        Ok(Destination { api: &self.api, workspace: Arc::clone(workspace), channel: channel.to_owned() })
    }

    /// Checks the link with a round trip.
    pub(crate) async fn check(&self) -> Result<(), ApiError> {
        for workspace in self.workspaces() {
            match self.api.call::<Value>(&workspace.token, "auth.test", &[]).await {
                Ok(_) => {}
                Err(error) if is_uninstalled(&error) && self.remove(&workspace) => {
                    tracing::warn!(%error, "the workspace {} is skipped: the app is no longer installed there", workspace.me.team);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Removes a workspace; returns `false` if it is the last one.
    fn remove(&self, removed: &Workspace) -> bool {
        let mut workspaces = self.lock();
        let is_last = workspaces.len() <= 1;
        workspaces.retain(|workspace| is_last || workspace.me.team_id != removed.me.team_id);
        !is_last
    }
}

/// Returns whether the workspace has uninstalled the app.
fn is_uninstalled(error: &ApiError) -> bool {
    matches!(error, ApiError::Refused(refused) if matches!(refused.code.as_str(), "account_inactive" | "token_revoked"))
}

#[cfg(test)]
mod tests;
