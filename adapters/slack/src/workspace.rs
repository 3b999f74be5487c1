//! One workspace in which the app is installed, and a channel in it.

use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::api::{Api, ApiError};
use crate::objects::BotIdentity;

/// One workspace.
#[derive(Debug)]
pub(crate) struct Workspace {
    /// The bot token of the workspace.
    pub token: String,
    /// The app's identity in the workspace.
    pub me: BotIdentity,
}

/// A channel to send to.
pub(crate) struct Destination<'a> {
    pub api: &'a Api,
    pub workspace: Arc<Workspace>,
    /// The id of the channel.
    pub channel: String,
}

impl Destination<'_> {
    /// Calls a method with the token of the workspace.
    pub(crate) async fn call<T: DeserializeOwned>(
        &self,
        method: &str,
        parameters: &[(&str, Value)],
    ) -> Result<T, ApiError> {
        self.api.call(&self.workspace.token, method, parameters).await
    }
}
