//! The gateway: one connection of one shard, from its start to its end.
//!
//! The connection receives hello, resumes or identifies, sends the heartbeat and returns the received events in
//! order. This module has no knowledge of messages. The meaning of close codes is decided here only.
//! <https://docs.discord.com/developers/events/gateway>

use std::collections::VecDeque;
use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use hermes_adapter_net::lenient;
use hermes_adapter_net::reqwest::Url;
use hermes_adapter_net::ws::{Closed, Received, Socket, WsClient, WsError, ws_url};
use hermes_adapter_sdk::prelude::*;
use hermes_adapter_sdk::tokio::time::{Instant, timeout};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// The maximum size of a message, in bytes; the largest is a guild with all its channels.
const MESSAGE_BYTES_MAX: usize = 16 * 1024 * 1024;
/// The time limit of each step until the session is established.
const STEP_TIMEOUT: Duration = Duration::from_secs(30);
/// The shortest accepted interval between two heartbeats.
const BEAT_MIN: Duration = Duration::from_millis(100);
/// The longest accepted interval; a dead link is detected after two intervals.
const BEAT_MAX: Duration = Duration::from_secs(60);
/// A close code other than 1000 and 1001, which would end the session.
/// <https://docs.discord.com/developers/events/gateway#initiating-a-disconnect>
const CLOSE_TO_RESUME: u16 = 4900;

/// Guilds, their messages, direct messages. <https://docs.discord.com/developers/events/gateway#list-of-intents>
const INTENTS: u64 = (1 << 0) | (1 << 9) | (1 << 12);
/// The content of messages, a privileged intent.
const MESSAGE_CONTENT: u64 = 1 << 15;

/// The data for resuming a session of one shard.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Session {
    /// The id of the bot.
    pub bot: String,
    /// The number of shards of the session.
    pub of: u32,
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
pub struct Entry<'e> {
    /// The client for websockets.
    pub client: &'e WsClient,
    /// The address for a new session, and for resuming if the operator configured it.
    pub url: &'e Url,
    /// True to resume at that address, too.
    pub only_there: bool,
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

/// The reason for a lost connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lost {
    /// The next connection may resume the session.
    Resumable(String),
    /// The same after a normal close of the gateway, which restarts that way; some servers use it to end the session.
    Goodbye(String),
    /// The next connection needs a new session.
    Over(String),
    /// All shards need new sessions, because their number changes.
    AllOver(String),
    /// A person has to do something first.
    Fatal {
        /// The cause.
        reason: &'static str,
        /// The action that fixes it.
        mend: &'static str,
    },
}

/// One event of the gateway.
#[derive(Clone, Debug)]
pub struct Dispatch {
    /// The sequence number in the session.
    pub seq: u64,
    /// The name, such as `MESSAGE_CREATE`.
    pub name: String,
    /// The payload.
    pub data: Value,
}

/// <https://docs.discord.com/developers/events/gateway-events#payload-structure>
#[derive(Debug, Deserialize)]
struct Payload {
    op: u8,
    #[serde(default)]
    d: Value,
    #[serde(default)]
    s: Option<u64>,
    #[serde(default)]
    t: Option<String>,
}

/// Opcodes. <https://docs.discord.com/developers/topics/opcodes-and-status-codes#gateway-gateway-opcodes>
mod op {
    pub const DISPATCH: u8 = 0;
    pub const HEARTBEAT: u8 = 1;
    pub const IDENTIFY: u8 = 2;
    pub const RESUME: u8 = 6;
    pub const RECONNECT: u8 = 7;
    pub const INVALID_SESSION: u8 = 9;
    pub const HELLO: u8 = 10;
    pub const HEARTBEAT_ACK: u8 = 11;
}

/// An open connection.
pub struct Shard {
    socket: Socket,
    /// The session, once it is established; the caller moves its `seq` after emitting events.
    pub session: Session,
    /// The sequence number of the last received event.
    received: u64,
    beat: Duration,
    next_beat: Instant,
    acknowledged: bool,
    /// The events received before the session was established.
    early: VecDeque<Dispatch>,
}

/// The next message of a shard.
pub enum Said {
    /// An event.
    Event(Dispatch),
    /// The other side is alive.
    Alive,
}

impl Shard {
    /// Connects and resumes `session`, or starts a new one.
    pub async fn open(entry: &Entry<'_>, session: Option<Session>) -> Result<Self, Lost> {
        let session = session.filter(|session| session.bot == entry.bot && session.of == entry.shard.1);
        let url = address(entry, session.as_ref());
        let mut socket = entry.client.connect(url, MESSAGE_BYTES_MAX).await.map_err(|error| unreachable(&error))?;
        let hello = within(read(&mut socket)).await?;
        let beat = beat_of(&hello)?;
        let first = match &session {
            Some(session) => resume(entry, session),
            None => identify(entry),
        };
        socket.send(first).await.map_err(|error| broken(&error))?;
        let mut opening = Opening { entry, socket, session, seq: None };
        let (session, early) = opening.settle().await?;
        let now = Instant::now();
        Ok(Self {
            socket: opening.socket,
            received: opening.seq.unwrap_or(session.seq),
            session,
            beat,
            // <https://docs.discord.com/developers/events/gateway#heartbeat-interval>
            next_beat: now + beat.mul_f64(fraction()),
            acknowledged: true,
            early,
        })
    }

    /// Waits for the next message and sends the heartbeat; if `listens` is false only the latter. Cancel safe.
    pub async fn next(&mut self, listens: bool) -> Result<Said, Lost> {
        if !listens {
            return self.beat_on().await;
        }
        if let Some(dispatch) = self.early.pop_front() {
            return Ok(Said::Event(dispatch));
        }
        loop {
            let payload = tokio::select! {
                payload = read(&mut self.socket) => payload?,
                () = tokio::time::sleep_until(self.next_beat) => {
                    self.beat().await?;
                    continue;
                }
            };
            match payload.op {
                op::DISPATCH => {
                    let Some(dispatch) = dispatch(payload) else { continue };
                    self.received = dispatch.seq;
                    return Ok(Said::Event(dispatch));
                }
                op::HEARTBEAT => self.say_beat().await?,
                op::HEARTBEAT_ACK => {
                    self.acknowledged = true;
                    return Ok(Said::Alive);
                }
                op::RECONNECT => {
                    return self.leave("the gateway requested a reconnect").await;
                }
                op::INVALID_SESSION if payload.d.as_bool() == Some(true) => {
                    return self.leave("the gateway requested a resume").await;
                }
                op::INVALID_SESSION => return Err(Lost::Over("the gateway ended the session".to_owned())),
                _ => {}
            }
        }
    }

    /// Sends the heartbeat without reading: the acknowledgements are behind unread messages.
    async fn beat_on<T>(&mut self) -> Result<T, Lost> {
        loop {
            tokio::time::sleep_until(self.next_beat).await;
            self.acknowledged = true;
            self.beat().await?;
        }
    }

    async fn beat(&mut self) -> Result<(), Lost> {
        if !std::mem::replace(&mut self.acknowledged, false) {
            // <https://docs.discord.com/developers/events/gateway#heartbeat-interval-example-heartbeat-ack>
            return self.leave("the gateway did not answer the heartbeat").await;
        }
        self.next_beat = Instant::now() + self.beat;
        self.say_beat().await
    }

    async fn say_beat(&mut self) -> Result<(), Lost> {
        let beat = json!({ "op": op::HEARTBEAT, "d": self.received }).to_string();
        self.socket.send(beat).await.map_err(|error| broken(&error))
    }

    /// Closes the connection so that the session can be resumed.
    async fn leave<T>(&mut self, why: &'static str) -> Result<T, Lost> {
        // The connection is abandoned in any case.
        let _ = self.socket.close(CLOSE_TO_RESUME, "resuming").await;
        Err(Lost::Resumable(why.to_owned()))
    }
}

/// A connection without an established session.
struct Opening<'o> {
    entry: &'o Entry<'o>,
    socket: Socket,
    /// The session to resume.
    session: Option<Session>,
    seq: Option<u64>,
}

impl Opening<'_> {
    /// Waits until the session is established; returns it with the events received before.
    async fn settle(&mut self) -> Result<(Session, VecDeque<Dispatch>), Lost> {
        loop {
            let payload = within(read(&mut self.socket)).await?;
            match payload.op {
                op::DISPATCH => {
                    let Some(dispatch) = dispatch(payload) else { continue };
                    self.seq = Some(dispatch.seq);
                    if dispatch.name == "READY" {
                        return Ok((self.ready(&dispatch)?, VecDeque::from([dispatch])));
                    }
                    // Missed events arrive before the confirmation of the resume.
                    if let Some(mut session) = self.session.take() {
                        session.failures = 0;
                        return Ok((session, VecDeque::from([dispatch])));
                    }
                }
                op::HEARTBEAT => {
                    let beat = json!({ "op": op::HEARTBEAT, "d": self.seq }).to_string();
                    self.socket.send(beat).await.map_err(|error| broken(&error))?;
                }
                op::RECONNECT => return Err(Lost::Resumable("the gateway requested a reconnect".to_owned())),
                op::INVALID_SESSION if payload.d.as_bool() == Some(true) => {
                    return Err(Lost::Resumable("the gateway requested a resume later".to_owned()));
                }
                op::INVALID_SESSION if self.session.is_none() => {
                    return Err(Lost::Over("the gateway refused a session because too many start at once".to_owned()));
                }
                op::INVALID_SESSION => {
                    return Err(Lost::Over("the gateway did not resume the session".to_owned()));
                }
                _ => {}
            }
        }
    }

    fn ready(&self, dispatch: &Dispatch) -> Result<Session, Lost> {
        let text = |key: &str| dispatch.data[key].as_str().map(str::to_owned);
        let id = text("session_id").ok_or_else(|| Lost::Over("the gateway sent no session id".to_owned()))?;
        Ok(Session {
            bot: self.entry.bot.to_owned(),
            of: self.entry.shard.1,
            id,
            url: text("resume_gateway_url").unwrap_or_default(),
            seq: dispatch.seq,
            failures: 0,
        })
    }
}

/// Returns the address to connect to. A session is resumed at its own address, unless the operator configured
/// one, its own is less secure than the first one, or resuming failed there already.
fn address(entry: &Entry<'_>, session: Option<&Session>) -> Url {
    let own = session
        .filter(|session| !entry.only_there && session.failures == 0)
        .and_then(|session| ws_url(&session.url).ok());
    let own = own.filter(|own| own.scheme() == "https" || entry.url.scheme() == "http");
    let mut url = own.unwrap_or_else(|| entry.url.clone());
    url.query_pairs_mut().append_pair("v", &entry.version.to_string()).append_pair("encoding", "json");
    url
}

/// <https://docs.discord.com/developers/events/gateway-events#identify>
fn identify(entry: &Entry<'_>) -> String {
    let intents = INTENTS | if entry.message_content { MESSAGE_CONTENT } else { 0 };
    json!({ "op": op::IDENTIFY, "d": {
        "token": entry.token,
        "intents": intents,
        "shard": [entry.shard.0, entry.shard.1],
        "properties": { "os": std::env::consts::OS, "browser": "hermes-host", "device": "hermes-host" },
    } })
    .to_string()
}

/// <https://docs.discord.com/developers/events/gateway-events#resume>
fn resume(entry: &Entry<'_>, session: &Session) -> String {
    json!({ "op": op::RESUME, "d": { "token": entry.token, "session_id": session.id, "seq": session.seq } }).to_string()
}

/// Returns the interval of the heartbeat from the gateway's first message.
fn beat_of(hello: &Payload) -> Result<Duration, Lost> {
    if hello.op == op::RECONNECT {
        return Err(Lost::Resumable("the gateway requested a reconnect".to_owned()));
    }
    let told = hello.d["heartbeat_interval"].as_u64().filter(|_| hello.op == op::HELLO).map(Duration::from_millis);
    let beat = told.filter(|beat| *beat >= BEAT_MIN).map(|beat| beat.min(BEAT_MAX));
    beat.ok_or_else(|| Lost::Resumable("the gateway sent no hello".to_owned()))
}

fn dispatch(payload: Payload) -> Option<Dispatch> {
    Some(Dispatch { seq: payload.s?, name: payload.t?, data: payload.d })
}

async fn within<T>(step: impl Future<Output = Result<T, Lost>>) -> Result<T, Lost> {
    timeout(STEP_TIMEOUT, step)
        .await
        .unwrap_or_else(|_| Err(Lost::Resumable(format!("the gateway sent nothing for {STEP_TIMEOUT:?}"))))
}

/// Reads one event of the gateway from its text.
pub fn dispatch_of(text: &[u8]) -> Option<Dispatch> {
    dispatch(lenient::from_slice(text).ok()?)
}

async fn read(socket: &mut Socket) -> Result<Payload, Lost> {
    loop {
        match socket.next().await {
            Ok(Received::Text(text)) => match lenient::from_slice(text.as_bytes()) {
                Ok(payload) => return Ok(payload),
                Err(error) => return Err(Lost::Resumable(format!("the gateway sent an invalid payload ({error})"))),
            },
            Ok(Received::Binary(_)) => {}
            Ok(Received::Closed(closed)) => return Err(after(&closed)),
            Err(error) => return Err(broken(&error)),
        }
    }
}

fn broken(error: &WsError) -> Lost {
    Lost::Resumable(format!("the gateway: {error}"))
}

fn unreachable(error: &WsError) -> Lost {
    Lost::Resumable(format!("the gateway (`gateway_url`) cannot be reached: {error}"))
}

/// Returns the consequence of a close code.
/// <https://docs.discord.com/developers/topics/opcodes-and-status-codes#gateway-gateway-close-event-codes>
pub fn after(closed: &Closed) -> Lost {
    let said = |what: &str| match closed.code {
        Some(code) => format!("{what} ({code})"),
        None => what.to_owned(),
    };
    match closed.code {
        Some(4004) => Lost::Fatal {
            reason: "Discord rejected the token (4004)",
            mend: "copy the token of the bot from the Developer Portal (Bot, Reset Token) into `token` (or DISCORD_BOT_TOKEN)",
        },
        Some(4012) => Lost::Fatal {
            reason: "Discord no longer supports this gateway version (4012)",
            mend: "update the adapter, or put a supported version at the end of `base_url`",
        },
        Some(4013) => Lost::Fatal {
            reason: "Discord does not know one of the intents (4013)",
            mend: "update the adapter, or check that `base_url` and `gateway_url` belong to the same server",
        },
        Some(4014) => Lost::Fatal {
            reason: "Discord does not allow the requested intents for this bot (4014)",
            mend: "enable Message Content Intent in the Developer Portal (Bot, Privileged Gateway Intents), or set `message_content = false`",
        },
        Some(4010) => Lost::AllOver(said("the gateway requires a different number of shards")),
        Some(4011) => Lost::AllOver(said("the gateway requires more shards")),
        // These codes end a session only if the client sends them; the server sends them when it restarts.
        Some(1000 | 1001) => Lost::Goodbye(said("the gateway closed the session")),
        Some(4003 | 4005 | 4007 | 4009) => Lost::Over(said("the gateway ended the session")),
        Some(_) => Lost::Resumable(said("the gateway closed the connection")),
        None => Lost::Resumable("the connection to the gateway ended".to_owned()),
    }
}

/// Returns a random number from 0 to 1, to spread the waits of many clients.
fn fraction() -> f64 {
    f64::from(u32::try_from(RandomState::new().hash_one(0_u8) >> 32).unwrap_or_default()) / f64::from(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(code: u16) -> Lost {
        after(&Closed { code: Some(code), reason: String::new() })
    }

    #[test]
    fn each_close_code_leads_where_the_documentation_says() {
        for fatal in [4004, 4012, 4013, 4014] {
            assert!(matches!(code(fatal), Lost::Fatal { .. }), "{fatal}");
        }
        for over in [4003, 4005, 4007, 4009] {
            assert!(matches!(code(over), Lost::Over(_)), "{over}");
        }
        for over in [4010, 4011] {
            assert!(matches!(code(over), Lost::AllOver(_)), "{over}");
        }
        for goodbye in [1000, 1001] {
            assert!(matches!(code(goodbye), Lost::Goodbye(_)), "{goodbye}");
        }
        for resumable in [1006, 4000, 4001, 4002, 4008, 4999] {
            assert!(matches!(code(resumable), Lost::Resumable(_)), "{resumable}");
        }
        assert!(matches!(after(&Closed { code: None, reason: String::new() }), Lost::Resumable(_)));
        let Lost::Fatal { mend, .. } = code(4014) else { panic!("4014 needs a person") };
        assert!(mend.contains("Message Content Intent") && mend.contains("message_content = false"));
    }

    #[test]
    fn a_session_goes_to_its_own_address_unless_one_is_named_or_it_would_be_less_safe() {
        let client = WsClient::new(&Default::default()).unwrap();
        let resumed = |first: &str, own: &str, only_there: bool| {
            let url = hermes_adapter_net::ws::ws_url(first).unwrap();
            let entry = Entry {
                client: &client,
                url: &url,
                only_there,
                version: 10,
                token: "t",
                bot: "1",
                shard: (0, 1),
                message_content: true,
            };
            let session = Session { bot: "1".into(), of: 1, id: "s".into(), url: own.into(), seq: 3, failures: 0 };
            address(&entry, Some(&session)).to_string()
        };
        assert_eq!(resumed("wss://a.b", "wss://c.d", false), "https://c.d/?v=10&encoding=json");
        assert_eq!(resumed("wss://a.b/x", "wss://c.d", true), "https://a.b/x?v=10&encoding=json");
        assert_eq!(resumed("wss://a.b", "ws://c.d", false), "https://a.b/?v=10&encoding=json");
        assert_eq!(resumed("ws://127.0.0.1:1", "ws://127.0.0.1:2", false), "http://127.0.0.1:2/?v=10&encoding=json");
        assert_eq!(resumed("wss://a.b", "", false), "https://a.b/?v=10&encoding=json");
    }

    #[test]
    fn a_heartbeat_is_never_so_rare_that_a_dead_link_goes_unnoticed() {
        let beat = |op: u8, d: Value| beat_of(&Payload { op, d, s: None, t: None });
        let every = |ms: u64| beat(op::HELLO, json!({ "heartbeat_interval": ms })).ok();
        assert_eq!(every(41_250), Some(Duration::from_millis(41_250)));
        assert_eq!((every(u64::MAX), every(0)), (Some(BEAT_MAX), None));
        for (op, d) in [
            (op::HELLO, Value::Null),
            (op::HELLO, json!({ "heartbeat_interval": -1 })),
            (op::DISPATCH, json!({ "heartbeat_interval": 1000 })),
        ] {
            assert!(matches!(beat(op, d), Err(Lost::Resumable(_))));
        }
    }

    #[test]
    fn a_fraction_lies_between_nothing_and_one() {
        assert!((0..1000).map(|_| fraction()).all(|share| (0.0..=1.0).contains(&share)));
    }
}
