//! The handshake: from the connection to an established session.

use std::time::Duration;

use hermes_adapter_net::reqwest::Url;
use hermes_adapter_net::ws::{Socket, WsClient, ws_url};
use hermes_adapter_sdk::tokio::time::timeout;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::disconnect::Disconnect;
use super::payload::{Dispatch, Payload, op, read_payload};

/// The maximum size of a message, in bytes; the largest is a guild with all its channels.
const MESSAGE_BYTES_MAX: usize = 16 * 1024 * 1024;
/// The time limit of each step until the session is established.
const STEP_TIMEOUT: Duration = Duration::from_secs(30);
/// The shortest accepted interval between two heartbeats.
const HEARTBEAT_MIN: Duration = Duration::from_millis(100);
/// The longest accepted interval; a dead link is detected after two intervals.
const HEARTBEAT_MAX: Duration = Duration::from_secs(60);

/// Guilds, their messages, direct messages. <https://docs.discord.com/developers/events/gateway#list-of-intents>
const INTENTS: u64 = (1 << 0) | (1 << 9) | (1 << 12);
/// The content of messages, a privileged intent.
const MESSAGE_CONTENT: u64 = 1 << 15;

/// The data for resuming a session of one shard.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Session {
    /// The id of the bot.
    pub bot: String,
    /// The number of shards of the session.
    #[serde(rename = "of")]
    pub shard_count: u32,
    /// The server's id of the session.
    pub id: String,
    /// The address for resuming.
    pub url: String,
    /// The sequence number of the last event that the host has.
    pub seq: u64,
    /// The number of consecutive failures to resume.
    #[serde(default)]
    pub failures: u32,
}

/// The parameters for opening a shard.
pub(crate) struct ShardOptions<'e> {
    /// The client for websockets.
    pub client: &'e WsClient,
    /// The address for a new session, and for resuming if the operator configured it.
    pub url: &'e Url,
    /// True to resume at that address, too.
    pub force_url: bool,
    /// The version of the gateway.
    pub version: u32,
    /// The bot's token.
    pub token: &'e str,
    /// The bot's id.
    pub bot: &'e str,
    /// The number of the shard, and the number of shards.
    pub shard: (u32, u32),
    /// True to request the content of messages.
    pub message_content: bool,
}

/// A connection with an established session.
pub(super) struct Established {
    pub(super) socket: Socket,
    pub(super) session: Session,
    /// The interval of the heartbeat.
    pub(super) interval: Duration,
    /// The event that established the session.
    pub(super) first_event: Dispatch,
}

/// Connects, and resumes `session` or starts a new one.
pub(super) async fn establish(options: &ShardOptions<'_>, session: Option<Session>) -> Result<Established, Disconnect> {
    let session = session.filter(|session| session.bot == options.bot && session.shard_count == options.shard.1);
    let url = address(options, session.as_ref());
    let connected = options.client.connect(url, MESSAGE_BYTES_MAX).await;
    let mut socket = connected.map_err(|error| Disconnect::unreachable(&error))?;
    let hello = with_timeout(read_payload(&mut socket)).await?;
    let interval = heartbeat_interval(&hello)?;
    let first = match &session {
        Some(session) => resume(options, session),
        None => identify(options),
    };
    socket.send(first).await.map_err(|error| Disconnect::interrupted(&error))?;
    let mut handshake = Handshake { options, socket, session, seq: None };
    let (session, first_event) = handshake.complete().await?;
    Ok(Established { socket: handshake.socket, session, interval, first_event })
}

/// A connection without an established session.
struct Handshake<'o> {
    options: &'o ShardOptions<'o>,
    socket: Socket,
    /// The session to resume.
    session: Option<Session>,
    /// The sequence number of the last received event.
    seq: Option<u64>,
}

impl Handshake<'_> {
    /// Waits until the session is established; returns it with the event that established it.
    async fn complete(&mut self) -> Result<(Session, Dispatch), Disconnect> {
        loop {
            let payload = with_timeout(read_payload(&mut self.socket)).await?;
            match payload.op {
                op::DISPATCH => {
                    let Some(dispatch) = payload.into_dispatch() else { continue };
                    self.seq = Some(dispatch.seq);
                    if dispatch.name == "READY" {
                        return Ok((self.ready(&dispatch)?, dispatch));
                    }
                    // Missed events arrive before the confirmation of the resume.
                    if let Some(mut session) = self.session.take() {
                        session.failures = 0;
                        return Ok((session, dispatch));
                    }
                }
                op::HEARTBEAT => {
                    let heartbeat = json!({ "op": op::HEARTBEAT, "d": self.seq }).to_string();
                    self.socket.send(heartbeat).await.map_err(|error| Disconnect::interrupted(&error))?;
                }
                op::RECONNECT => return Err(Disconnect::Resumable("the gateway requested a reconnect".to_owned())),
                op::INVALID_SESSION if payload.d.as_bool() == Some(true) => {
                    return Err(Disconnect::Resumable("the gateway requested a resume later".to_owned()));
                }
                op::INVALID_SESSION if self.session.is_none() => {
                    return Err(Disconnect::SessionEnded(
                        "the gateway refused a session because too many start at once".to_owned(),
                    ));
                }
                op::INVALID_SESSION => {
                    return Err(Disconnect::SessionEnded("the gateway did not resume the session".to_owned()));
                }
                _ => {}
            }
        }
    }

    fn ready(&self, dispatch: &Dispatch) -> Result<Session, Disconnect> {
        let text = |key: &str| dispatch.data[key].as_str().map(str::to_owned);
        let id =
            text("session_id").ok_or_else(|| Disconnect::SessionEnded("the gateway sent no session id".to_owned()))?;
        Ok(Session {
            bot: self.options.bot.to_owned(),
            shard_count: self.options.shard.1,
            id,
            url: text("resume_gateway_url").unwrap_or_default(),
            seq: dispatch.seq,
            failures: 0,
        })
    }
}

async fn with_timeout<T>(step: impl Future<Output = Result<T, Disconnect>>) -> Result<T, Disconnect> {
    timeout(STEP_TIMEOUT, step)
        .await
        .unwrap_or_else(|_| Err(Disconnect::Resumable(format!("the gateway sent nothing for {STEP_TIMEOUT:?}"))))
}

/// Returns the address to connect to. A session is resumed at its own address, unless the operator configured
/// one, its own is less secure than the first one, or resuming failed there already.
fn address(options: &ShardOptions<'_>, session: Option<&Session>) -> Url {
    let own = session
        .filter(|session| !options.force_url && session.failures == 0)
        .and_then(|session| ws_url(&session.url).ok());
    let own = own.filter(|own| own.scheme() == "https" || options.url.scheme() == "http");
    let mut url = own.unwrap_or_else(|| options.url.clone());
    url.query_pairs_mut().append_pair("v", &options.version.to_string()).append_pair("encoding", "json");
    url
}

/// <https://docs.discord.com/developers/events/gateway-events#identify>
fn identify(options: &ShardOptions<'_>) -> String {
    let intents = INTENTS | if options.message_content { MESSAGE_CONTENT } else { 0 };
    json!({ "op": op::IDENTIFY, "d": {
        "token": options.token,
        "intents": intents,
        "shard": [options.shard.0, options.shard.1],
        "properties": { "os": std::env::consts::OS, "browser": "hermes-host", "device": "hermes-host" },
    } })
    .to_string()
}

/// <https://docs.discord.com/developers/events/gateway-events#resume>
fn resume(options: &ShardOptions<'_>, session: &Session) -> String {
    json!({ "op": op::RESUME, "d": { "token": options.token, "session_id": session.id, "seq": session.seq } })
        .to_string()
}

/// Returns the interval of the heartbeat from the gateway's first message.
fn heartbeat_interval(hello: &Payload) -> Result<Duration, Disconnect> {
    if hello.op == op::RECONNECT {
        return Err(Disconnect::Resumable("the gateway requested a reconnect".to_owned()));
    }
    let interval = hello.d["heartbeat_interval"].as_u64().filter(|_| hello.op == op::HELLO).map(Duration::from_millis);
    let interval = interval.filter(|interval| *interval >= HEARTBEAT_MIN).map(|interval| interval.min(HEARTBEAT_MAX));
    interval.ok_or_else(|| Disconnect::Resumable("the gateway sent no hello".to_owned()))
}

#[cfg(test)]
mod tests {
    use hermes_adapter_net::ws::WsClient;
    use serde_json::Value;

    use super::*;

    #[test]
    fn a_session_goes_to_its_own_address_unless_one_is_named_or_it_would_be_less_safe() {
        let client = WsClient::new(&Default::default()).unwrap();
        let resumed = |first: &str, own: &str, force_url: bool| {
            let url = hermes_adapter_net::ws::ws_url(first).unwrap();
            let options = ShardOptions {
                client: &client,
                url: &url,
                force_url,
                version: 10,
                token: "t",
                bot: "1",
                shard: (0, 1),
                message_content: true,
            };
            let session =
                Session { bot: "1".into(), shard_count: 1, id: "s".into(), url: own.into(), seq: 3, failures: 0 };
            address(&options, Some(&session)).to_string()
        };
        assert_eq!(resumed("wss://a.b", "wss://c.d", false), "https://c.d/?v=10&encoding=json");
        assert_eq!(resumed("wss://a.b/x", "wss://c.d", true), "https://a.b/x?v=10&encoding=json");
        assert_eq!(resumed("wss://a.b", "ws://c.d", false), "https://a.b/?v=10&encoding=json");
        assert_eq!(resumed("ws://127.0.0.1:1", "ws://127.0.0.1:2", false), "http://127.0.0.1:2/?v=10&encoding=json");
        assert_eq!(resumed("wss://a.b", "", false), "https://a.b/?v=10&encoding=json");
    }

    #[test]
    fn the_stored_form_of_a_session_stays() {
        let stored = r#"{"bot":"1","of":2,"id":"s","url":"wss://a.b","seq":3,"failures":1}"#;
        let session: Session = serde_json::from_str(stored).unwrap();
        assert_eq!(session.shard_count, 2);
        assert_eq!(serde_json::to_string(&session).unwrap(), stored);
    }

    #[test]
    fn a_heartbeat_is_never_so_rare_that_a_dead_link_goes_unnoticed() {
        let interval = |op: u8, d: Value| heartbeat_interval(&Payload { op, d, s: None, t: None });
        let every = |ms: u64| interval(op::HELLO, json!({ "heartbeat_interval": ms })).ok();
        assert_eq!(every(41_250), Some(Duration::from_millis(41_250)));
        assert_eq!((every(u64::MAX), every(0)), (Some(HEARTBEAT_MAX), None));
        for (op, d) in [
            (op::HELLO, Value::Null),
            (op::HELLO, json!({ "heartbeat_interval": -1 })),
            (op::DISPATCH, json!({ "heartbeat_interval": 1000 })),
        ] {
            assert!(matches!(interval(op, d), Err(Disconnect::Resumable(_))));
        }
    }
}
