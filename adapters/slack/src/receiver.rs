//! From a delivery to an event that the host has, and only then the acknowledgement.
//!
//! What Slack is not told about within three seconds it delivers again, and an event names the change and not the
//! delivery: so nothing is lost and nothing counts twice. Where files have to be fetched first, the delivery is kept
//! with the host and acknowledged before; what is still kept when the link opens is taken up again.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::future::{BoxFuture, FutureExt};
use hermes_adapter_net::fetch::{FetchError, Fetcher};
use hermes_adapter_net::reqwest::Url;
use hermes_adapter_net::reqwest::header::{AUTHORIZATION, HeaderMap, HeaderValue};
use hermes_adapter_sdk::prelude::*;
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};

use crate::Config;
use crate::account::{Account, Space};
use crate::api::{File, FileInfo};
use crate::inbound::{self, Incoming, Reader, Slash, Threads};
use crate::kept::{Entry, Kept};
use crate::text;

/// What is handled side by side; one chat always in the same of them, in order.
const LANES: usize = 8;
/// Deliveries that wait in one of them; then the socket is not read.
const WAITING_MAX: usize = 32;
/// Where deliveries are kept that are acknowledged and not with the host yet.
const KEPT_AS: &str = "acknowledged";
/// People in one text whose names are asked for.
const MENTIONS_MAX: usize = 20;
/// Changes that are remembered as handed over.
const RECENT_MAX: usize = 512;

/// What kind of payload was delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The Events API.
    Event,
    /// A slash command.
    Slash,
    /// A button.
    Interactive,
}

/// How a delivery is acknowledged.
#[derive(Debug)]
pub enum Ack {
    /// By its envelope, on the socket that it came from.
    Socket(mpsc::Sender<String>, String),
    /// By the answer to its request.
    Request(oneshot::Sender<()>),
    /// It was, in an earlier life of the link.
    Before,
}

impl Ack {
    async fn say(self) {
        match self {
            // A socket that is gone cannot be told; the delivery comes again and is known then.
            Self::Socket(to, envelope) => drop(to.send(envelope).await),
            // Nor can a request that has ended.
            Self::Request(to) => drop(to.send(())),
            Self::Before => {}
        }
    }
}

/// One delivery.
#[derive(Debug)]
pub struct Delivery {
    pub kind: Kind,
    pub payload: Value,
    pub ack: Ack,
}

/// The ways into the lanes.
#[derive(Clone, Debug)]
pub struct Lanes(Vec<mpsc::Sender<Delivery>>);

impl Lanes {
    /// Puts a delivery behind those of its chat; waits while there are too many. `false` when the link is closed.
    pub async fn put(&self, delivery: Delivery) -> bool {
        let lane = inbound::channel(&delivery.payload).bytes().fold(0_usize, |sum, byte| sum.wrapping_add(byte.into()));
        self.0[lane % self.0.len()].send(delivery).await.is_ok()
    }
}

/// Hands over what was delivered.
pub struct Receiver {
    pub account: Arc<Account>,
    pub host: Host,
    pub threads: Threads,
    pub slash_command: String,
    pub media_bytes_max: u64,
    /// Channels that are listened to; empty: all.
    pub allowed_channels: Vec<String>,
    pub fetcher: Fetcher,
    /// Origins of files that the operator configured.
    pub file_origins: Vec<Url>,
    kept: Kept,
    recent: Mutex<VecDeque<String>>,
}

impl Receiver {
    /// A receiver that has nothing yet.
    pub fn new(account: Arc<Account>, host: Host, config: &Config, fetcher: Fetcher, file_origins: Vec<Url>) -> Self {
        Self {
            account,
            host,
            threads: config.threads(),
            slash_command: config.slash_command.clone(),
            media_bytes_max: config.media_bytes_max,
            allowed_channels: config.allowed_channels.clone(),
            fetcher,
            file_origins,
            kept: Kept::default(),
            recent: Mutex::default(),
        }
    }

    /// Whether the channel is listened to; direct messages always are.
    fn is_allowed(&self, chat: &Chat) -> bool {
        let is_named = |name: &String| *name == chat.id || chat.parent.as_ref() == Some(name);
        self.allowed_channels.is_empty() || chat.kind == ChatType::Dm || self.allowed_channels.iter().any(is_named)
    }

    /// Opens the lanes, and puts what was kept into them again.
    pub async fn open(&self) -> Result<(Lanes, Vec<BoxFuture<'_, Result<(), ConnectError>>>), ConnectError> {
        let stored = self.host.kv().get(KEPT_AS).await.map_err(|error| ConnectError::retry(error.to_string()))?;
        let kept: Vec<Entry> = stored.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default();
        self.kept.begin(kept.clone());
        let (into, from): (Vec<_>, Vec<_>) = (0..LANES).map(|_| mpsc::channel(WAITING_MAX)).unzip();
        let lanes = Lanes(into);
        let mut work: Vec<BoxFuture<'_, _>> = from.into_iter().map(|lane| self.lane(lane).boxed()).collect();
        if !kept.is_empty() {
            tracing::info!(count = kept.len(), "taken up again: acknowledged before, and not with the host yet");
        }
        work.push(self.again(kept).boxed());
        Ok((lanes, work))
    }

    /// Hands over what an earlier life of the link acknowledged. Ends only when the host does not take it.
    async fn again(&self, kept: Vec<Entry>) -> Result<(), ConnectError> {
        for (key, payload) in kept {
            self.take(Delivery { kind: Kind::Event, payload, ack: Ack::Before }).await?;
            // Also where nothing came of it: it would be taken up for ever, and take the room of others.
            self.forget(&key).await?;
        }
        std::future::pending().await
    }

    async fn lane(&self, mut lane: mpsc::Receiver<Delivery>) -> Result<(), ConnectError> {
        while let Some(delivery) = lane.recv().await {
            self.take(delivery).await?;
        }
        // The ways into it are closed with the link.
        std::future::pending().await
    }

    /// Reads one delivery, hands it over and acknowledges it.
    async fn take(&self, delivery: Delivery) -> Result<(), ConnectError> {
        let Delivery { kind, payload, ack } = delivery;
        let Some(space) = self.account.space_of(&payload) else {
            tracing::warn!("a delivery of a workspace that has no token in `bot_token` is left out");
            ack.say().await;
            return Ok(());
        };
        let incoming = match kind {
            Kind::Event => self.read_event(&payload, &space, &BTreeMap::new()),
            Kind::Slash => self.read_slash(&payload, &space).await,
            Kind::Interactive => inbound::pressed(&payload, &space.me),
        };
        let incoming = incoming.filter(|incoming| self.is_allowed(&incoming.event.chat));
        let Some(Incoming { mut event, files }) = incoming else {
            ack.say().await;
            return Ok(());
        };
        let key = event.event_id.clone();
        let response_url = payload["response_url"].as_str().filter(|_| kind == Kind::Slash).map(str::to_owned);
        let is_again = matches!(ack, Ack::Before);
        if self.is_known(&key, is_again) {
            ack.say().await;
            return Ok(());
        }
        let users = self.mentioned(&payload, &space, kind);
        let mut ack = Some(ack);
        if !files.is_empty() && (is_again || self.keep(&key, payload.clone()).await) {
            if let Some(ack) = ack.take() {
                ack.say().await;
            }
        }
        for file in files {
            event.attachments.push(self.fetch(&space, file).await);
        }
        let names = self.add_names(&space, &mut event, &users).await;
        if !users.is_empty() {
            if let Some(named) = self.read_event(&payload, &space, &names) {
                event.text = named.event.text;
            }
        }
        match self.host.emit(&event).await {
            Ok(Emitted::New { inbox_id } | Emitted::Duplicate { duplicate_of: inbox_id }) => {
                if let Some(url) = response_url {
                    self.account.note_command(inbox_id, &url, self.host.now_ms());
                }
            }
            Ok(_) => {}
            // It will never take this one, and Slack would deliver it for ever.
            Err(error) if matches!(error.code.as_str(), "invalid" | "too_large") => {
                tracing::warn!(event_id = key, %error, "a delivery is left out");
            }
            Err(error) => return Err(ConnectError::retry(format!("the host did not take an event: {error}"))),
        }
        self.done(&key).await?;
        if let Some(ack) = ack {
            ack.say().await;
        }
        Ok(())
    }

    fn read_event(&self, payload: &Value, space: &Space, names: &BTreeMap<String, String>) -> Option<Incoming> {
        if self.account.is_own(payload) {
            return None;
        }
        inbound::event(payload, Reader { me: &space.me, threads: self.threads, names })
    }

    /// Whose names stand in the text of an event.
    fn mentioned(&self, payload: &Value, space: &Space, kind: Kind) -> Vec<String> {
        let texts = inbound::texts(payload).into_iter().filter(|_| kind == Kind::Event);
        texts.flat_map(|said| text::mentioned(said, &space.me.user_id)).take(MENTIONS_MAX).map(str::to_owned).collect()
    }

    /// A slash command of the host's own name says a command of the host, or words for the agent; any other one is
    /// itself the command.
    async fn read_slash(&self, payload: &Value, space: &Space) -> Option<Incoming> {
        let commands = self.commands().await;
        let names = BTreeMap::new();
        let reader = Reader { me: &space.me, threads: self.threads, names: &names };
        inbound::slash(payload, reader, self.host.now_ms(), |slash| {
            meant(slash, &self.slash_command, commands.as_deref())
        })
    }

    /// The names of the host's commands; `None` when it does not tell.
    async fn commands(&self) -> Option<Vec<String>> {
        let found: Vec<CommandInfo> = self.host.call("commands.list", &json!({})).await.ok()?;
        Some(found.into_iter().map(|command| command.name).collect())
    }

    /// Names the sender and the channel; returns what the others are called. All of it has one deadline.
    async fn add_names(&self, space: &Space, event: &mut Event, others: &[String]) -> BTreeMap<String, String> {
        let sender = Some(&event.sender.id).filter(|_| event.sender.name.is_none());
        let users = others.iter().chain(sender).map(String::as_str);
        let channel = inbound::place(&event.chat.id).1;
        let channel = async {
            match event.chat.kind {
                ChatType::Dm => None,
                _ => self.account.channel_name(space, channel).await,
            }
        };
        let (names, channel) = tokio::join!(self.account.user_names(space, users), channel);
        event.chat.name = channel;
        if event.sender.name.is_none() {
            event.sender.name = names.get(&event.sender.id).cloned();
        }
        names
    }

    /// Whether a change was handed over already, or is about to be.
    fn is_known(&self, key: &str, is_again: bool) -> bool {
        let recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        recent.iter().any(|known| known == key) || (!is_again && self.kept.holds(key))
    }

    /// Keeps a delivery with the host; `false` when there is no room, and then it is acknowledged later.
    async fn keep(&self, key: &str, payload: Value) -> bool {
        let store = |text: String| async move { self.host.kv().set(KEPT_AS, &text).await };
        self.kept.add(key, payload, store).await.unwrap_or_else(|error| {
            tracing::info!(%error, "a delivery is not kept, and is acknowledged once the host has it");
            false
        })
    }

    /// The host has it.
    async fn done(&self, key: &str) -> Result<(), ConnectError> {
        {
            let mut recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
            recent.push_back(key.to_owned());
            while recent.len() > RECENT_MAX {
                recent.pop_front();
            }
        }
        self.forget(key).await
    }

    /// Keeps it no longer.
    async fn forget(&self, key: &str) -> Result<(), ConnectError> {
        let store = |text: String| async move { self.host.kv().set(KEPT_AS, &text).await };
        let stored = self.kept.remove(key, store).await;
        stored.map_err(|error| ConnectError::retry(format!("what is handed over could not be noted: {error}")))
    }

    /// Brings a file to the host; one that cannot be had is named with the reason.
    async fn fetch(&self, space: &Space, file: File) -> Attachment {
        let name = file.name.clone().unwrap_or_else(|| "file".to_owned());
        let (kind, size) = (kind_of(&file), file.size.unwrap_or_default());
        match self.try_fetch(space, file, &name).await {
            Ok((media, mime, size)) => Attachment::new(media, kind, mime, name, size),
            Err(note) => {
                tracing::info!(size, %note, "a file was not fetched");
                Attachment::missing(kind, name, size, note)
            }
        }
    }

    async fn try_fetch(&self, space: &Space, mut file: File, name: &str) -> Result<(String, String, u64), String> {
        if file.file_access.as_deref() == Some("check_file_info") {
            let parameters = [("file", json!(file.id))];
            let found: Result<FileInfo, _> = self.account.api.call(&space.token, "files.info", &parameters).await;
            file = found.map_err(|error| error.to_string())?.file;
        }
        if file.is_external || file.mode.as_deref() == Some("external") {
            return Err("the file lies at another service, where only its link leads".to_owned());
        }
        if let Some(size) = file.size.filter(|size| *size > self.media_bytes_max) {
            return Err(format!("the file has {size} bytes and at most {} are fetched", self.media_bytes_max));
        }
        let address =
            file.url_private_download.or(file.url_private).ok_or("Slack does not offer the file for download")?;
        let url = Url::parse(&address).map_err(|_| "the file's address is none")?;
        if !is_slacks(&url, &self.file_origins) {
            return Err("the file's address is none of Slack's, so the token is not shown there".to_owned());
        }
        let mut headers = HeaderMap::new();
        let bearer = HeaderValue::from_str(&format!("Bearer {}", space.token)).map_err(|_| "the token is no header")?;
        headers.insert(AUTHORIZATION, bearer);
        let mime = file.mimetype.unwrap_or_else(|| "application/octet-stream".to_owned());
        let found = self.fetcher.fetch(url.as_str(), headers).await.map_err(|error| said(&error))?;
        // Who may not read a file is sent to the page where people sign in.
        if found.content_type() == Some("text/html") && mime != "text/html" {
            return Err(
                "Slack answered with a page instead of the file; does the app have the scope files:read?".to_owned()
            );
        }
        let bytes = found.bytes().await.map_err(|error| said(&error))?;
        let size = bytes.len() as u64;
        let slot = self.host.media().create(MediaCreate::new(name, &mime, Some(size))).await;
        let slot = slot.map_err(|error| error.to_string())?;
        let target = slot.path.clone();
        tokio::task::spawn_blocking(move || std::fs::write(target, bytes))
            .await
            .map_err(|error| error.to_string())?
            .map_err(|error| format!("the file could not be kept: {error}"))?;
        self.host.media().commit(&slot.id).await.map_err(|error| error.to_string())?;
        Ok((slot.id, mime, size))
    }
}

fn said(error: &FetchError) -> String {
    match error {
        FetchError::TooLarge { bytes_max } => format!("the file is longer than the {bytes_max} bytes that are fetched"),
        error => error.to_string(),
    }
}

/// Whether a file's address may see a token. <https://docs.slack.dev/reference/objects/file-object>
fn is_slacks(url: &Url, configured: &[Url]) -> bool {
    let host = url.host_str().unwrap_or_default();
    let theirs = ["slack.com", "slack-files.com", "slack-gov.com"];
    let is_theirs =
        theirs.iter().any(|name| host.strip_suffix(name).is_some_and(|left| left.is_empty() || left.ends_with('.')));
    (url.scheme() == "https" && is_theirs) || configured.iter().any(|origin| origin.origin() == url.origin())
}

fn kind_of(file: &File) -> AttachmentKind {
    let mime = file.mimetype.as_deref().unwrap_or_default();
    match (file.subtype.as_deref(), mime.split('/').next()) {
        (Some("slack_audio"), _) => AttachmentKind::Voice,
        (_, Some("image")) => AttachmentKind::Image,
        (_, Some("video")) => AttachmentKind::Video,
        (_, Some("audio")) => AttachmentKind::Audio,
        _ => AttachmentKind::File,
    }
}

/// What a slash command is to say.
fn meant(slash: &Slash, own: &str, commands: Option<&[String]>) -> String {
    if !slash.command.eq_ignore_ascii_case(own) {
        return format!("{} {}", slash.command, slash.text).trim().to_owned();
    }
    let text = slash.text.strip_prefix(['/', '!']).unwrap_or(&slash.text);
    if text.is_empty() {
        return "/help".to_owned();
    }
    let first = text.split_whitespace().next().unwrap_or_default();
    let is_marked = text.len() < slash.text.len();
    let is_known = commands.is_none_or(|commands| commands.iter().any(|name| name.eq_ignore_ascii_case(first)));
    if is_marked || is_known { format!("/{text}") } else { slash.text.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hosts_own_slash_command_says_a_command_or_words() {
        let commands = ["status".to_owned(), "new".to_owned()];
        let say = |command: &str, text: &str| {
            let slash = Slash { command: command.to_owned(), text: text.to_owned() };
            meant(&slash, "/hermes", Some(&commands))
        };
        assert_eq!(say("/hermes", ""), "/help");
        assert_eq!(say("/hermes", "status now"), "/status now");
        assert_eq!(say("/Hermes", "/n"), "/n", "an alias is in no menu");
        assert_eq!(say("/hermes", "!new"), "/new");
        assert_eq!(say("/hermes", "what is new"), "what is new");
        assert_eq!(say("/new", "about boats"), "/new about boats");
        let slash = Slash { command: "/hermes".to_owned(), text: "n".to_owned() };
        assert_eq!(meant(&slash, "/hermes", None), "/n", "a host that tells no commands judges itself");
    }

    #[test]
    fn a_token_is_shown_to_slack_only() {
        let url = |text: &str| Url::parse(text).unwrap();
        let configured = [url("http://127.0.0.1:4003")];
        for (address, expected) in [
            ("https://files.slack.com/files-pri/T1-F1/a.txt", true),
            ("https://acme.slack.com/a", true),
            ("http://files.slack.com/a", false),
            ("https://notslack.com/a", false),
            ("https://slack.com.example.org/a", false),
            ("http://127.0.0.1:4003/files-pri/F1/a", true),
            ("http://127.0.0.1:4004/files-pri/F1/a", false),
        ] {
            assert_eq!(is_slacks(&url(address), &configured), expected, "{address}");
        }
    }

    #[test]
    fn what_was_spoken_into_the_chat_is_a_voice_message() {
        let file = |mime: &str, subtype: Option<&str>| File {
            mimetype: Some(mime.to_owned()),
            subtype: subtype.map(str::to_owned),
            ..File::default()
        };
        assert_eq!(kind_of(&file("audio/mp4", Some("slack_audio"))), AttachmentKind::Voice);
        assert_eq!(kind_of(&file("audio/mp4", None)), AttachmentKind::Audio);
        assert_eq!(kind_of(&file("image/png", None)), AttachmentKind::Image);
        assert_eq!(kind_of(&file("", None)), AttachmentKind::File);
    }
}
