//! Lookups of conversations.

use std::sync::Arc;

use serde_json::json;

use crate::api::{Api, ApiError};
use crate::objects::{Conversation, ConversationInfo, Conversations};
use crate::workspace::Workspace;

/// The page size of the channel list.
/// <https://docs.slack.dev/reference/methods/conversations.list>
const PAGE: u32 = 200;
/// The maximum number of pages searched for a name.
const PAGES_MAX: usize = 25;

/// Returns the channel with this name, in the first workspace that has one.
pub(crate) async fn channel_by_name(
    api: &Api,
    workspaces: Vec<Arc<Workspace>>,
    name: &str,
) -> Result<Option<(Arc<Workspace>, Conversation)>, ApiError> {
    for workspace in workspaces {
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
            let page: Conversations = api.call(&workspace.token, "conversations.list", &parameters).await?;
            if let Some(found) = page.channels.into_iter().find(|channel| channel.name.as_deref() == Some(name)) {
                return Ok(Some((workspace, found)));
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
pub(crate) async fn open_dm(api: &Api, workspace: &Workspace, user: &str) -> Result<Conversation, ApiError> {
    let opened: ConversationInfo = api.call(&workspace.token, "conversations.open", &[("users", json!(user))]).await?;
    Ok(opened.channel)
}
