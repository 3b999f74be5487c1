//! The objects of the Web API.
//!
//! The types contain only the fields that the adapter reads; all other fields are ignored.

use serde::Deserialize;
use serde_json::Value;

/// A response without used fields.
#[derive(Debug, Deserialize)]
pub(crate) struct Empty {}

/// <https://docs.slack.dev/reference/methods/auth.test>
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct BotIdentity {
    /// The id of the workspace.
    pub team_id: String,
    /// The name of the workspace.
    #[serde(default)]
    pub team: String,
    /// The id of the app's user in the workspace.
    pub user_id: String,
    /// The name of that user.
    #[serde(default)]
    pub user: String,
    /// The id of the app's bot in the workspace.
    #[serde(default)]
    pub bot_id: String,
    /// True if the token is valid for all workspaces of an organization.
    #[serde(default)]
    pub is_enterprise_install: bool,
}

/// <https://docs.slack.dev/reference/methods/apps.connections.open>
#[derive(Debug, Deserialize)]
pub(crate) struct SocketUrl {
    pub url: String,
}

/// <https://docs.slack.dev/reference/methods/chat.postMessage>
#[derive(Debug, Deserialize)]
pub(crate) struct PostedMessage {
    #[serde(default)]
    pub ts: String,
    /// The id in the response of `chat.postEphemeral`.
    #[serde(default)]
    pub message_ts: String,
}

/// <https://docs.slack.dev/reference/methods/files.getUploadURLExternal>
#[derive(Debug, Deserialize)]
pub(crate) struct UploadUrl {
    pub upload_url: String,
    pub file_id: String,
}

/// <https://docs.slack.dev/reference/methods/files.completeUploadExternal>
#[derive(Debug, Deserialize)]
pub(crate) struct CompletedUpload {
    #[serde(default)]
    pub files: Vec<Value>,
}

/// <https://docs.slack.dev/reference/methods/files.info>
#[derive(Debug, Deserialize)]
pub(crate) struct FileInfo {
    pub file: File,
}

/// <https://docs.slack.dev/reference/objects/file-object>
#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct File {
    #[serde(default)]
    pub id: String,
    #[serde(default)]
    pub name: Option<String>,
    #[serde(default)]
    pub mimetype: Option<String>,
    #[serde(default)]
    pub size: Option<u64>,
    #[serde(default)]
    pub url_private_download: Option<String>,
    #[serde(default)]
    pub url_private: Option<String>,
    /// `slack_audio` or `slack_video` for a recording made in the chat.
    #[serde(default)]
    pub subtype: Option<String>,
    /// `hosted`, `external`, `tombstone`, …
    #[serde(default)]
    pub mode: Option<String>,
    #[serde(default)]
    pub is_external: bool,
    /// `check_file_info` if `files.info` has more details than the event.
    #[serde(default)]
    pub file_access: Option<String>,
}

/// <https://docs.slack.dev/reference/methods/users.info>
#[derive(Debug, Deserialize)]
pub(crate) struct UserInfo {
    pub user: User,
}

/// <https://docs.slack.dev/reference/objects/user-object>
#[derive(Debug, Deserialize)]
pub(crate) struct User {
    #[serde(default)]
    pub name: String,
    #[serde(default)]
    pub real_name: Option<String>,
    #[serde(default)]
    pub profile: Profile,
}

/// The public profile of a user.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Profile {
    #[serde(default)]
    pub display_name: Option<String>,
}

/// <https://docs.slack.dev/reference/methods/conversations.info>
#[derive(Debug, Deserialize)]
pub(crate) struct ConversationInfo {
    pub channel: Conversation,
}

/// <https://docs.slack.dev/reference/methods/conversations.list>
#[derive(Debug, Deserialize)]
pub(crate) struct Conversations {
    #[serde(default)]
    pub channels: Vec<Conversation>,
    #[serde(default)]
    pub response_metadata: Cursor,
}

/// The position of the next page.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Cursor {
    #[serde(default)]
    pub next_cursor: String,
}

/// <https://docs.slack.dev/reference/objects/conversation-object>
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Conversation {
    pub id: String,
    #[serde(default)]
    pub name: Option<String>,
}
