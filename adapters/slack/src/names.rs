//! The names of users and channels, requested from Slack and cached.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::join_all;
use hermes_adapter_sdk::prelude::*;
use serde_json::json;
use tokio::time::Instant;

use crate::api::{Api, ApiError};
use crate::objects::{ConversationInfo, UserInfo};
use crate::workspace::Workspace;

/// The maximum number of cached names. Above it the cache is cleared.
const NAMES_MAX: usize = 4096;
/// The time limit for all names of one message, which are requested together. Without a name the id is shown.
const NAME_TIMEOUT: Duration = Duration::from_secs(1);
/// The maximum length of a shown name, in characters.
const NAME_CHARS_MAX: usize = 100;
/// The time before a name is requested again after a failure.
const RETRY_AFTER: Duration = Duration::from_secs(60);

/// A name, if it is known.
struct CachedName {
    name: Option<String>,
    /// The time at which the entry expires; `None` if it never does.
    until: Option<Instant>,
}

/// The cached names, by workspace and id.
#[derive(Default)]
pub(crate) struct Names(Mutex<BTreeMap<(String, String), CachedName>>);

impl Names {
    /// Returns the names of users in the workspace.
    pub(crate) async fn users<'u>(
        &self,
        api: &Api,
        workspace: &Workspace,
        users: impl Iterator<Item = &'u str>,
    ) -> BTreeMap<String, String> {
        let users = users.filter(|user| user.starts_with(['U', 'W']));
        let names = users.map(|user| async move {
            let request = async {
                let info: UserInfo = api.call(&workspace.token, "users.info", &[("user", json!(user))]).await?;
                let display = info.user.profile.display_name.filter(|name| !name.is_empty());
                Ok(display.or(info.user.real_name).unwrap_or(info.user.name))
            };
            Some((user.to_owned(), self.get_or_request(workspace, user, request).await?))
        });
        join_all(names).await.into_iter().flatten().collect()
    }

    /// Returns the name of a channel.
    pub(crate) async fn channel(&self, api: &Api, workspace: &Workspace, channel: &str) -> Option<String> {
        let request = async {
            let parameters = [("channel", json!(channel))];
            let info: ConversationInfo = api.call(&workspace.token, "conversations.info", &parameters).await?;
            Ok(info.channel.name.unwrap_or_default())
        };
        self.get_or_request(workspace, channel, request).await
    }

    async fn get_or_request(
        &self,
        workspace: &Workspace,
        id: &str,
        request: impl Future<Output = Result<String, ApiError>>,
    ) -> Option<String> {
        let key = (workspace.me.team_id.clone(), id.to_owned());
        if let Some(cached) = self.lock().get(&key) {
            if cached.until.is_none_or(|until| Instant::now() < until) {
                return cached.name.clone();
            }
        }
        let (name, retry_after) = match tokio::time::timeout(NAME_TIMEOUT, request).await {
            Ok(Ok(name)) => {
                let name: String = name.chars().take(NAME_CHARS_MAX).collect();
                (Some(name).filter(|name| !name.is_empty()), None)
            }
            Ok(Err(error)) => {
                tracing::info!(id, %error, "name cannot be resolved");
                (None, retry_after(&error))
            }
            Err(_) => (None, Some(RETRY_AFTER)),
        };
        let mut names = self.lock();
        if names.len() >= NAMES_MAX {
            names.clear();
        }
        let until = retry_after.map(|time| Instant::now() + time);
        names.insert(key, CachedName { name: name.clone(), until });
        name
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<(String, String), CachedName>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the time before a name is requested again after this error; `None`: never.
fn retry_after(error: &ApiError) -> Option<Duration> {
    let ApiError::Refused(refused) = error else { return Some(RETRY_AFTER) };
    // A missing scope stays missing, and an unknown user does not appear later.
    match refused.code.as_str() {
        "missing_scope" | "user_not_visible" => None,
        code if code.ends_with("_not_found") => None,
        _ => Some(refused.retry_after_ms.map_or(RETRY_AFTER, |wait| Duration::from_millis(wait).min(RETRY_AFTER))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::Rejection;

    fn refused(code: &str) -> ApiError {
        ApiError::Refused(Rejection { code: code.to_owned(), ..Rejection::default() })
    }

    #[test]
    fn a_name_that_cannot_be_had_now_is_asked_for_again() {
        for code in ["missing_scope", "user_not_found", "channel_not_found"] {
            assert_eq!(retry_after(&refused(code)), None, "{code}");
        }
        for error in [refused("internal_error"), refused("ratelimited"), ApiError::Unknown("cut".into())] {
            assert_eq!(retry_after(&error), Some(RETRY_AFTER), "{error}");
        }
    }

    #[tokio::test]
    async fn a_name_that_was_not_to_be_had_is_not_asked_for_with_every_message() {
        let names = Names::default();
        let me = serde_json::from_value(json!({ "team_id": "T1", "user_id": "UME1" })).unwrap();
        let workspace = Workspace { token: "xoxb-1".to_owned(), me };
        let failed = async { Err(ApiError::Unknown("cut".into())) };
        assert_eq!(names.get_or_request(&workspace, "U1", failed).await, None);
        let request = || async { Ok("bob".to_owned()) };
        assert_eq!(names.get_or_request(&workspace, "U1", request()).await, None);
        let key = ("T1".to_owned(), "U1".to_owned());
        names.lock().insert(key, CachedName { name: None, until: Some(Instant::now()) });
        assert_eq!(names.get_or_request(&workspace, "U1", request()).await.as_deref(), Some("bob"));
        let known = names.get_or_request(&workspace, "U1", async { unreachable!("it is known") }).await;
        assert_eq!(known.as_deref(), Some("bob"));
    }
}
