//! The Web API: one function for calls, with typed responses and without policy.
//!
//! The types contain only the fields that the adapter reads; all other fields are ignored.
//! <https://docs.slack.dev/apis/web-api/>

use std::path::Path;
use std::time::Duration;

use hermes_adapter_net::{
    ClientError, ClientOptions, NetError,
    body::{self, BodyError},
    client::base_url,
    http_client,
    proxy::ProxySettings,
    reqwest::{
        Body, Client, Error, Response, Url,
        header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderMap},
    },
};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::Value;

/// The maximum size of a response, in bytes.
const ANSWER_BYTES_MAX: u64 = 8 * 1024 * 1024;
/// The timeout of every call.
const CALL_TIMEOUT: Duration = Duration::from_secs(30);

/// The client of the server. The token is an argument of each call, because an app has one
/// for each workspace and one for its sockets.
pub struct Api {
    client: Client,
    base: String,
    /// The origins that the operator configured. Uploads to other origins require encryption.
    origins: Vec<String>,
    server: String,
}

/// The reason why a call has no result.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ApiError {
    /// The server rejected the call.
    #[error("{0}")]
    Refused(Refused),
    /// The request did not reach the server.
    #[error("{0}")]
    NotSent(String),
    /// The call had no effect, for a reason that concerns this message only.
    #[error("{0}")]
    Held(String),
    /// The call may have taken effect.
    #[error("{0}")]
    Doubtful(String),
}

/// A rejection by the server.
#[derive(Clone, Debug, Default, thiserror::Error)]
#[error("{code}{}{}", if detail.is_empty() { "" } else { ": " }, detail)]
pub struct Refused {
    /// The code in `error`, such as `channel_not_found`.
    pub code: String,
    /// Further details from the server.
    pub detail: String,
    /// The requested wait, in milliseconds.
    pub retry_after_ms: Option<u64>,
}

impl Api {
    /// Creates a client for the server at `base`, the address before the name of a method.
    pub fn new(
        base: &str,
        files: Option<&str>,
        ca_file: Option<&Path>,
        proxy: &ProxySettings,
    ) -> Result<Self, ClientError> {
        let url = base_url(base)?;
        let mut options = ClientOptions::for_base_url(&url);
        options.proxy = proxy.clone();
        options.ca_file = ca_file.map(Path::to_owned);
        options.total_timeout = None;
        let mut origins = vec![url.origin().ascii_serialization()];
        if let Some(files) = files {
            let files = base_url(files)?;
            options.plain_http &= files.scheme() == "http";
            origins.push(files.origin().ascii_serialization());
        }
        let port = url.port().map(|port| format!(":{port}")).unwrap_or_default();
        Ok(Self {
            client: http_client(&options)?,
            base: url.as_str().trim_end_matches('/').to_owned(),
            origins,
            server: format!("{}{port} (`base_url`)", url.host_str().unwrap_or_default()),
        })
    }

    /// Calls a method with form parameters, because some methods do not accept JSON:
    /// <https://docs.slack.dev/apis/web-api/#post-bodies>. A value that is not a string is encoded as
    /// JSON.
    pub async fn call<T: DeserializeOwned>(
        &self,
        token: &str,
        method: &str,
        parameters: &[(&str, Value)],
    ) -> Result<T, ApiError> {
        let request = self
            .client
            .post(format!("{}/{method}", self.base))
            .timeout(CALL_TIMEOUT)
            .bearer_auth(token)
            .header(CONTENT_TYPE, "application/x-www-form-urlencoded; charset=utf-8")
            .body(form(parameters));
        let response = request.send().await.map_err(|error| self.net(error))?;
        answer(response).await
    }

    /// Uploads a file of `length` bytes to an address from `files.getUploadURLExternal`. The caller limits the time.
    /// The file is invisible until it is completed.
    pub async fn upload(&self, address: &str, file: tokio::fs::File, length: u64) -> Result<(), ApiError> {
        let request = self.client.post(self.encrypted(address)?);
        let request = request.header(CONTENT_LENGTH, length).body(Body::from(file));
        let sent = request.send().await;
        // The upload server is separate, so a failure says nothing about the API server.
        let response = sent.map_err(|error| ApiError::Held(format!("the file: {}", NetError::from(error))))?;
        uploaded(response.status().as_u16())
    }

    /// Answers a slash command at its response address.
    /// <https://docs.slack.dev/interactivity/handling-user-interaction#message_responses>
    pub async fn respond(&self, address: &str, message: &Value) -> Result<(), ApiError> {
        let request = self.client.post(self.encrypted(address)?).timeout(CALL_TIMEOUT).json(message);
        let response = request.send().await.map_err(|error| self.net(error))?;
        responded(response.status().as_u16(), retry_after_ms(response.headers()))
    }

    /// Returns an address from Slack if it is encrypted, or belongs to a configured origin.
    fn encrypted(&self, address: &str) -> Result<Url, ApiError> {
        let url = Url::parse(address).map_err(|_| ApiError::Held("Slack sent an invalid address".to_owned()))?;
        if url.scheme() != "https" && !self.origins.contains(&url.origin().ascii_serialization()) {
            return Err(ApiError::Held("Slack sent an unencrypted address".to_owned()));
        }
        Ok(url)
    }

    fn net(&self, error: Error) -> ApiError {
        match NetError::from(error) {
            NetError::NotSent { detail, .. } => {
                ApiError::NotSent(format!("{} cannot be reached: {detail}", self.server))
            }
            error => ApiError::Doubtful(format!("{}: {error}", self.server)),
        }
    }
}

/// Returns the result of an upload with this HTTP status.
fn uploaded(status: u16) -> Result<(), ApiError> {
    let detail = format!("the file server responded with status {status}");
    match status {
        200..=299 => Ok(()),
        // Too slow or too many at once: a later attempt may succeed.
        408 | 429 => Err(ApiError::Held(detail)),
        400..=499 => Err(ApiError::Refused(Refused { code: "file".to_owned(), detail, retry_after_ms: None })),
        _ => Err(ApiError::Held(detail)),
    }
}

/// Returns the result of a slash command's response with this HTTP status.
fn responded(status: u16, retry_after_ms: Option<u64>) -> Result<(), ApiError> {
    let detail = format!("the response URL of the command returned status {status}");
    let code = match status {
        200..=299 => return Ok(()),
        429 => "ratelimited",
        400..=499 => "response_url",
        _ => return Err(ApiError::Doubtful(detail)),
    };
    Err(ApiError::Refused(Refused { code: code.to_owned(), detail, retry_after_ms }))
}

fn retry_after_ms(headers: &HeaderMap) -> Option<u64> {
    let wait = hermes_adapter_net::retry_after::from_headers(headers);
    wait.map(|wait| u64::try_from(wait.as_millis()).unwrap_or(u64::MAX))
}

fn form(parameters: &[(&str, Value)]) -> String {
    let mut url = Url::parse("form:").expect("this is an address");
    for (name, value) in parameters {
        let text = match value {
            Value::Null => continue,
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        url.query_pairs_mut().append_pair(name, &text);
    }
    url.query().unwrap_or_default().to_owned()
}

async fn answer<T: DeserializeOwned>(response: Response) -> Result<T, ApiError> {
    let status = response.status().as_u16();
    let retry_after_ms = retry_after_ms(response.headers());
    let limited =
        || ApiError::Refused(Refused { code: "ratelimited".to_owned(), detail: String::new(), retry_after_ms });
    let body: Value = match body::read_json(response, ANSWER_BYTES_MAX).await {
        _ if status == 429 => return Err(limited()),
        // No server processed the request: <https://www.rfc-editor.org/rfc/rfc9110#section-15.6.4>
        Err(_) if status == 503 => {
            let detail = format!("the server responded with status {status}");
            return Err(ApiError::Refused(Refused { code: "service_unavailable".to_owned(), detail, retry_after_ms }));
        }
        Ok(body) => body,
        Err(error @ BodyError::Json(_)) => {
            return Err(ApiError::Doubtful(format!("the server responded with status {status} ({error})")));
        }
        Err(error) => return Err(ApiError::Doubtful(error.to_string())),
    };
    if body["ok"] == true {
        return serde_json::from_value(body)
            .map_err(|error| ApiError::Doubtful(format!("the response of Slack has an unexpected format ({error})")));
    }
    let Some(code) = body["error"].as_str() else {
        return Err(ApiError::Doubtful(format!("the server responded with status {status} without a reason")));
    };
    let said = |value: &Value| value.as_str().map(str::to_owned);
    let messages = body["response_metadata"]["messages"].as_array().into_iter().flatten().filter_map(said);
    let scope = said(&body["needed"]).map(|scope| format!("the scope {scope} is required"));
    let detail = scope.into_iter().chain(messages).take(3).collect::<Vec<_>>().join("; ");
    Err(ApiError::Refused(Refused { code: code.to_owned(), detail, retry_after_ms }))
}

/// A response without used fields.
#[derive(Debug, Deserialize)]
pub struct Done {}

/// <https://docs.slack.dev/reference/methods/auth.test>
#[derive(Clone, Debug, Deserialize)]
pub struct Me {
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
pub struct Opened {
    pub url: String,
}

/// <https://docs.slack.dev/reference/methods/chat.postMessage>
#[derive(Debug, Deserialize)]
pub struct Posted {
    #[serde(default)]
    pub ts: String,
    /// The id in the response of `chat.postEphemeral`.
    #[serde(default)]
    pub message_ts: String,
}

/// <https://docs.slack.dev/reference/methods/files.getUploadURLExternal>
#[derive(Debug, Deserialize)]
pub struct UploadPlace {
    pub upload_url: String,
    pub file_id: String,
}

/// <https://docs.slack.dev/reference/methods/files.completeUploadExternal>
#[derive(Debug, Deserialize)]
pub struct Completed {
    #[serde(default)]
    pub files: Vec<Value>,
}

/// <https://docs.slack.dev/reference/methods/files.info>
#[derive(Debug, Deserialize)]
pub struct FileInfo {
    pub file: File,
}

/// <https://docs.slack.dev/reference/objects/file-object>
#[derive(Clone, Debug, Default, Deserialize)]
pub struct File {
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
pub struct UserInfo {
    pub user: User,
}

/// <https://docs.slack.dev/reference/objects/user-object>
#[derive(Debug, Deserialize)]
pub struct User {
    #[serde(default)]
    pub name: String,
    #[serde(default)]
    pub real_name: Option<String>,
    #[serde(default)]
    pub profile: Profile,
}

/// The public profile of a user.
#[derive(Debug, Default, Deserialize)]
pub struct Profile {
    #[serde(default)]
    pub display_name: Option<String>,
}

/// <https://docs.slack.dev/reference/methods/conversations.info>
#[derive(Debug, Deserialize)]
pub struct ConversationInfo {
    pub channel: Conversation,
}

/// <https://docs.slack.dev/reference/methods/conversations.list>
#[derive(Debug, Deserialize)]
pub struct Conversations {
    #[serde(default)]
    pub channels: Vec<Conversation>,
    #[serde(default)]
    pub response_metadata: Cursor,
}

/// The position of the next page.
#[derive(Debug, Default, Deserialize)]
pub struct Cursor {
    #[serde(default)]
    pub next_cursor: String,
}

/// <https://docs.slack.dev/reference/objects/conversation-object>
#[derive(Clone, Debug, Deserialize)]
pub struct Conversation {
    pub id: String,
    #[serde(default)]
    pub name: Option<String>,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_form_holds_texts_as_they_are_and_the_rest_as_json() {
        let written =
            form(&[("text", json!("a&b=c d\n<ä>")), ("n", json!(3)), ("none", Value::Null), ("l", json!([1]))]);
        assert_eq!(written, "text=a%26b%3Dc+d%0A%3C%C3%A4%3E&n=3&l=%5B1%5D");
    }

    #[test]
    fn an_upload_that_is_refused_is_final_and_one_that_failed_waits_alone() {
        assert!(uploaded(200).is_ok());
        for status in [400, 403, 413] {
            assert!(matches!(uploaded(status), Err(ApiError::Refused(_))), "{status}");
        }
        for status in [302, 408, 429, 500, 503] {
            assert!(matches!(uploaded(status), Err(ApiError::Held(_))), "{status}");
        }
    }

    #[test]
    fn an_answer_to_a_command_that_comes_too_fast_is_a_wait() {
        assert!(responded(200, None).is_ok());
        let Err(ApiError::Refused(refused)) = responded(429, Some(3000)) else { panic!("it is a wait") };
        assert_eq!((refused.code.as_str(), refused.retry_after_ms), ("ratelimited", Some(3000)));
        assert!(matches!(responded(404, None), Err(ApiError::Refused(refused)) if refused.code == "response_url"));
        assert!(matches!(responded(500, None), Err(ApiError::Doubtful(_))));
    }
}
