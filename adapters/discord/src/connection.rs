//! The link: who we are, the shards and their sessions, and what is done with each event.
//!
//! A session's number moves only past events that the host has committed, and is kept in the host's store: after a
//! lost link or a restart the gateway tells again what came meanwhile. One event is taken in at a time, in order;
//! meanwhile the connection is read and its heartbeat kept.

use std::collections::{BTreeSet, VecDeque};
use std::future::Future;
use std::pin::Pin;
use std::sync::OnceLock;
use std::time::Duration;

use futures_util::future::try_join_all;
use futures_util::stream::{self, StreamExt};
use hermes_adapter_net::fetch::Fetcher;
use hermes_adapter_net::reqwest::{Client, Method, Url, header::HeaderMap};
use hermes_adapter_net::ws::ws_url;
use hermes_adapter_sdk::prelude::*;
use serde_json::{Value, json};
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout, timeout_at};

use crate::api::{Api, ApiError, Application, GatewayBot, Interaction, Message, Refused, User};
use crate::gateway::{Dispatch, Entry, Lost, Said, Session, Shard};
use crate::inbound::{self, Ears, Incoming, RemoteFile};
use crate::interactions::{self, Interactions};
use crate::outbound::{Manner, ms};
use crate::places::{self, Place, Places};
use crate::threads::{self, Threads};

/// Events that wait while one is taken in. Beyond that the connection is not read.
const WAITING_MAX: usize = 512;
/// The session's number is kept after each event of the host, and after so many that were none.
const UNKEPT_MAX: u64 = 64;
/// How long the answer to an acknowledgement is waited for; the platform itself waits three seconds for it.
/// <https://docs.discord.com/developers/interactions/receiving-and-responding#interaction-callback>
const ACKNOWLEDGE_TIMEOUT: Duration = Duration::from_secs(5);
/// How long the files of one event may take in all.
const FILES_TIMEOUT: Duration = Duration::from_secs(60);
/// Files of one event that are fetched at a time.
const FETCHES_MAX: usize = 4;
/// Between two groups of new sessions.
/// <https://docs.discord.com/developers/events/gateway#rate-limiting>
const IDENTIFY_PAUSE: Duration = Duration::from_secs(5);
/// After so many failures in a row to go on with a session it is given up: something about it may be dead for ever.
const RESUMES_MAX: u32 = 8;
/// The most shards of one instance.
const SHARDS_MAX: u32 = 256;
/// The longest raw event that is kept with its event, in bytes.
const RAW_BYTES_MAX: usize = 16 * 1024;
/// The application may be told what people write.
/// <https://docs.discord.com/developers/resources/application#application-object-application-flags>
const MAY_READ: u64 = (1 << 18) | (1 << 19);
/// Messages, channels and threads, reactions and files.
/// <https://docs.discord.com/developers/topics/permissions#permissions-bitwise-permission-flags>
const PERMISSIONS: u64 = (1 << 6) | (1 << 10) | (1 << 11) | (1 << 14) | (1 << 15) | (1 << 16) | (1 << 35) | (1 << 38);

/// What the operator chose.
pub struct Choice {
    /// Whether calling the bot in a channel opens a thread.
    pub auto_thread: bool,
    /// Channels in which it opens none.
    pub no_thread_channels: BTreeSet<String>,
    /// Channels that are listened to; empty: all.
    pub allowed_channels: BTreeSet<String>,
    /// Channels that are not listened to.
    pub ignored_channels: BTreeSet<String>,
    /// Whether a message that calls somebody else only is left alone.
    pub leaves_others_alone: bool,
    /// Whether the content of messages is asked for.
    pub message_content: bool,
    /// Whether answers to commands are seen by everybody.
    pub public_answers: bool,
    /// The largest file that is fetched, in bytes.
    pub media_bytes_max: u64,
}

/// Who we are.
#[derive(Clone, Debug)]
pub struct Me {
    /// The bot's user id.
    pub id: String,
    /// The application's id.
    pub application: String,
}

/// One account's link.
pub struct Connection {
    pub api: Api,
    pub host: Host,
    pub manner: Manner,
    pub choice: Choice,
    pub token: String,
    /// Opens websockets.
    pub sockets: Client,
    /// Where the operator wants the gateway to be.
    pub gateway_url: Option<Url>,
    pub version: u32,
    pub fetcher: Fetcher,
    pub me: OnceLock<Me>,
    pub places: Places,
    pub threads: Mutex<Threads>,
    pub interactions: Mutex<Interactions>,
    /// Channels in which no thread may be opened.
    pub threadless: Mutex<BTreeSet<String>>,
    /// Whether what the host kept was read.
    pub recalled: Mutex<bool>,
    /// The shards that `connect` opened, until `run` takes them.
    pub shards: Mutex<Vec<(u32, Shard)>>,
}

impl Connection {
    /// Asks who we are, and opens every shard that the gateway wants.
    pub async fn open(&self) -> Result<(), ConnectError> {
        self.shards.lock().await.clear();
        let me = self.identify().await?;
        self.recall().await?;
        let (url, gateway) = self.gateway().await?;
        let count = gateway.shards.clamp(1, SHARDS_MAX);
        let limit = gateway.session_start_limit.as_ref();
        let at_once = limit.map_or(1, |limit| limit.max_concurrency.max(1));
        let mut begun = 0;
        for number in 0..count {
            let session = self.kept_session(number).await?;
            if session.is_none() {
                if let Some(limit) = limit.filter(|limit| limit.remaining <= begun && limit.reset_after > 0) {
                    return Err(ConnectError::retry_after_ms(
                        "Discord allows no more new sessions for now; look for what reconnects so often",
                        limit.reset_after,
                    ));
                }
                if begun > 0 && begun % at_once == 0 {
                    tokio::time::sleep(IDENTIFY_PAUSE).await;
                }
                begun += 1;
            }
            let entry = Entry {
                client: &self.sockets,
                url: &url,
                only_there: self.gateway_url.is_some(),
                version: self.version,
                token: &self.token,
                bot: &me.id,
                shard: (number, count),
                message_content: self.choice.message_content,
            };
            let shard = match Shard::open(&entry, session.clone()).await {
                Ok(shard) => shard,
                Err(lost) => return Err(self.not_opened(number, session, lost).await),
            };
            self.keep_session(number, &shard.session).await?;
            self.shards.lock().await.push((number, shard));
        }
        self.host.proved();
        Ok(())
    }

    /// Receives until a shard loses its link; the next `connect` resumes them all.
    pub async fn receive(&self) -> Result<(), ConnectError> {
        let shards = std::mem::take(&mut *self.shards.lock().await);
        if shards.is_empty() {
            return Err(ConnectError::retry("the link was never opened"));
        }
        try_join_all(shards.into_iter().map(|(number, shard)| self.follow(number, shard))).await.map(drop)
    }

    /// Who the bot is, and whether it may do what it is for.
    async fn identify(&self) -> Result<Me, ConnectError> {
        let user: User = self.api.ask(Method::GET, "users/@me").await.map_err(|error| lost(&error))?;
        self.host.lock_credential(&format!("discord:{}", user.id)).await.map_err(|error| {
            ConnectError::fatal(error.to_string(), "give each instance a bot of its own, or stop the other one")
        })?;
        let application = match self.api.ask::<Application>(Method::GET, "applications/@me").await {
            Ok(application) => Some(application),
            // A server without this page; there the bot and its application have one id.
            Err(ApiError::Refused(Refused { status: 404 | 405 | 501, .. })) => None,
            Err(error) => return Err(lost(&error)),
        };
        let may_read = application.as_ref().is_none_or(|application| application.flags & MAY_READ != 0);
        if self.choice.message_content && !may_read {
            return Err(ConnectError::fatal(
                "Discord does not tell this bot what people write",
                "switch on Message Content Intent in the Developer Portal (Bot, Privileged Gateway Intents), or set `message_content = false`: then it reads only direct messages and those that call it",
            ));
        }
        let me = Me { application: application.map_or_else(|| user.id.clone(), |found| found.id), id: user.id };
        let invite = format!(
            "https://discord.com/oauth2/authorize?client_id={}&scope=bot+applications.commands&permissions={PERMISSIONS}",
            me.application
        );
        self.host.announce(format!("@{} (invite it)", user.username), invite);
        // The first answer stays: a token never changes its bot.
        Ok(self.me.get_or_init(|| me).clone())
    }

    /// Where the gateway is, and how many shards it wants.
    async fn gateway(&self) -> Result<(Url, GatewayBot), ConnectError> {
        let told = match (self.api.ask::<GatewayBot>(Method::GET, "gateway/bot").await, &self.gateway_url) {
            (Ok(told), _) => told,
            (Err(error @ (ApiError::Limited { .. } | ApiError::NotSent(_))), _) => return Err(lost(&error)),
            (Err(error @ ApiError::Refused(Refused { status: 401, .. })), _) => return Err(lost(&error)),
            // A server without this page, where the operator has named the address.
            (Err(_), Some(url)) => GatewayBot { url: url.to_string(), shards: 1, session_start_limit: None },
            (Err(error), None) => return Err(lost(&error)),
        };
        let url = match &self.gateway_url {
            Some(url) => url.clone(),
            None => ws_url(&told.url)
                .map_err(|error| ConnectError::retry(format!("the gateway's address cannot be used: {error}")))?,
        };
        Ok((url, told))
    }

    /// Reads once what an earlier life kept.
    async fn recall(&self) -> Result<(), ConnectError> {
        let mut recalled = self.recalled.lock().await;
        if !*recalled {
            let read = |key: &'static str| async move {
                self.host.kv().get(key).await.map_err(|error| ConnectError::retry(error.to_string()))
            };
            *self.threads.lock().await = Threads::read(read(threads::KEPT_AS).await?.as_deref());
            *self.interactions.lock().await = Interactions::read(read(interactions::KEPT_AS).await?.as_deref());
            *recalled = true;
        }
        Ok(())
    }

    async fn follow(&self, number: u32, mut shard: Shard) -> Result<(), ConnectError> {
        let mut waiting: VecDeque<Dispatch> = VecDeque::new();
        let mut work: Option<Work<'_>> = None;
        let mut kept = shard.session.seq;
        loop {
            if work.is_none()
                && let Some(dispatch) = waiting.pop_front()
            {
                let session = Session { seq: dispatch.seq, ..shard.session.clone() };
                work = Some(Box::pin(self.take_in_and_keep(number, session, dispatch, kept)));
            }
            let busy = work.is_some();
            tokio::select! {
                said = shard.next(waiting.len() < WAITING_MAX) => match said {
                    Ok(Said::Event(dispatch)) => waiting.push_back(dispatch),
                    Ok(Said::Alive) => self.host.proved(),
                    Err(lost) => {
                        if let Lost::Over(_) = lost {
                            // Nobody tells these again.
                            self.take_in_the_rest(work.take(), waiting).await?;
                        }
                        return Err(self.lost(number, lost).await);
                    }
                },
                done = until_done(&mut work), if busy => {
                    work = None;
                    let (seq, is_kept) = done?;
                    shard.session.seq = seq;
                    if is_kept {
                        kept = seq;
                    }
                }
            }
        }
    }

    /// Takes in what was received of a session that is over.
    async fn take_in_the_rest(&self, work: Option<Work<'_>>, waiting: VecDeque<Dispatch>) -> Result<(), ConnectError> {
        if let Some(work) = work {
            work.await?;
        }
        for dispatch in waiting {
            self.take_in(dispatch).await?;
        }
        Ok(())
    }

    /// Takes one event in; returns its number, and whether that is kept.
    async fn take_in_and_keep(
        &self,
        number: u32,
        session: Session,
        dispatch: Dispatch,
        kept: u64,
    ) -> Result<(u64, bool), ConnectError> {
        let is_event = self.take_in(dispatch).await?;
        let keeps = is_event || session.seq.saturating_sub(kept) >= UNKEPT_MAX;
        if keeps {
            self.keep_session(number, &session).await?;
        }
        Ok((session.seq, keeps))
    }

    /// What one event of the gateway means; `true`: it became an event of the host.
    async fn take_in(&self, dispatch: Dispatch) -> Result<bool, ConnectError> {
        let Some(me) = self.me.get() else { return Ok(false) };
        match dispatch.name.as_str() {
            "MESSAGE_CREATE" | "MESSAGE_UPDATE" => {
                let Some(message) = understood::<Message>(&dispatch) else { return Ok(false) };
                self.message(message, dispatch, me).await
            }
            "INTERACTION_CREATE" => {
                let Some(interaction) = understood::<Interaction>(&dispatch) else { return Ok(false) };
                self.interaction(interaction).await
            }
            name => {
                self.places.hear(name, &dispatch.data, &me.id);
                Ok(false)
            }
        }
    }

    async fn message(&self, message: Message, dispatch: Dispatch, me: &Me) -> Result<bool, ConnectError> {
        let (mut chat, place) = self.chat_of(&message.channel_id, message.guild_id.as_deref(), None).await?;
        if !self.listens_to(&message.channel_id, &place).await? {
            return Ok(false);
        }
        let own_role = self.own_role(&message, me).await;
        let ears =
            Ears { me: &me.id, own_role: own_role.as_deref(), leaves_others_alone: self.choice.leaves_others_alone };
        if chat.kind == ChatType::Dm && chat.name.is_none() {
            chat.name = message.author.as_ref().map(|author| author.shown().to_owned());
        }
        let read = if dispatch.name == "MESSAGE_UPDATE" { inbound::changed } else { inbound::written };
        let Some(Incoming { mut event, files }) = read(&message, chat, ears) else { return Ok(false) };
        if self.opens_thread(&event, &message, &place).await {
            event.chat =
                places::thread_of(&message.id, &message.channel_id, &place, &inbound::thread_name(&event.text));
            self.promise(&message.id).await?;
        } else {
            let thread = self.places.get(&message.id);
            let is_promised = self.threads.lock().await.is_promised(&message.id);
            if inbound::is_in_its_thread(&event, thread.as_ref(), is_promised) {
                let name = thread.and_then(|thread| thread.name).unwrap_or_else(|| inbound::thread_name(&event.text));
                event.chat = places::thread_of(&message.id, &message.channel_id, &place, &name);
            }
        }
        event.attachments = self.fetch_all(files).await;
        if dispatch.data.to_string().len() <= RAW_BYTES_MAX {
            event.raw = dispatch.data;
        }
        self.emit(&event).await?;
        Ok(true)
    }

    async fn opens_thread(&self, event: &Event, message: &Message, place: &Place) -> bool {
        let here = &message.channel_id;
        self.choice.auto_thread
            && inbound::opens_thread(event, message, place)
            && !self.choice.no_thread_channels.contains(here)
            && !self.threadless.lock().await.contains(here)
    }

    /// Remembers, before the host has the event, that its first answer opens a thread.
    async fn promise(&self, message: &str) -> Result<(), ConnectError> {
        let mut threads = self.threads.lock().await;
        if threads.promise(message) {
            let kept = self.host.kv().set(threads::KEPT_AS, &threads.written()).await;
            kept.map_err(|error| ConnectError::retry(format!("a thread could not be promised: {error}")))?;
        }
        Ok(())
    }

    async fn interaction(&self, interaction: Interaction) -> Result<bool, ConnectError> {
        let channel = interaction.channel.as_ref().map(|channel| channel.id.as_str());
        let Some(channel) = channel.or(interaction.channel_id.as_deref()) else { return Ok(false) };
        if !inbound::is_sound(&interaction) {
            return Ok(false);
        }
        let guild = interaction.guild_id.as_deref();
        let told = interaction.channel.as_ref().map(|channel| Place::of(channel, guild));
        let (chat, place) = self.chat_of(channel, guild, told).await?;
        if !self.listens_to(channel, &place).await? {
            return Ok(false);
        }
        let Some(event) = inbound::acted(&interaction, chat) else { return Ok(false) };
        let is_command = interaction.kind == inbound::COMMAND;
        // Held until it is acknowledged: an answer that is faster has to wait for that.
        let mut open = self.interactions.lock().await;
        let emitted = self.emit(&event).await?;
        if let Some(Emitted::New { inbox_id } | Emitted::Duplicate { duplicate_of: inbox_id }) = emitted
            && is_command
        {
            if open.of_event(inbox_id, self.host.now_ms()).is_none() {
                open.note(inbox_id, interaction.token.clone(), self.host.now_ms());
            }
            if event.chat.kind != ChatType::Dm {
                open.asked_by(inbox_id, &event.sender.id);
            }
            if !self.acknowledge(&interaction).await {
                open.forget(inbox_id);
            }
            self.keep_interactions(&open).await;
            return Ok(true);
        }
        self.acknowledge(&interaction).await;
        Ok(true)
    }

    /// Ends the wait of whoever pressed or commanded; `false`: the interaction takes no answer any more.
    /// <https://docs.discord.com/developers/interactions/receiving-and-responding#create-interaction-response>
    async fn acknowledge(&self, interaction: &Interaction) -> bool {
        let body = match interaction.kind {
            inbound::COMMAND if self.choice.public_answers => json!({ "type": 5 }),
            inbound::COMMAND => json!({ "type": 5, "data": { "flags": 64 } }),
            _ => json!({ "type": 6 }),
        };
        let path = format!("interactions/{}/{}/callback", interaction.id, interaction.token);
        let answered = timeout(ACKNOWLEDGE_TIMEOUT, self.api.send::<Value>(Method::POST, &path, &body)).await;
        match answered.unwrap_or_else(|_| Err(ApiError::Doubtful("it took too long".to_owned()))) {
            Ok(_) => true,
            // It was acknowledged before the link was lost.
            Err(error) if error.code() == Some(40060) => true,
            Err(error) => {
                tracing::debug!(%error, "an interaction was not acknowledged");
                false
            }
        }
    }

    /// Keeps them for another life; a token that is lost costs a private answer, no more.
    pub async fn keep_interactions(&self, open: &Interactions) {
        if let Err(error) = self.host.kv().set(interactions::KEPT_AS, &open.written()).await {
            tracing::warn!(%error, "interactions that can be answered are not kept");
        }
    }

    /// Hands an event over. `None`: the host will never take this one, and what is behind it must not wait for ever.
    async fn emit(&self, event: &Event) -> Result<Option<Emitted>, ConnectError> {
        match self.host.emit(event).await {
            Ok(emitted) => {
                self.host.proved();
                Ok(Some(emitted))
            }
            Err(error) if matches!(error.code.as_str(), "invalid" | "too_large") => {
                tracing::warn!(event_id = event.event_id, %error, "an event is left out");
                Ok(None)
            }
            Err(error) => Err(ConnectError::retry(format!("the host did not take an event: {error}"))),
        }
    }

    /// The descriptor of a channel and what is known about it; asks the server where that is nothing.
    async fn chat_of(
        &self,
        channel: &str,
        guild: Option<&str>,
        told: Option<Place>,
    ) -> Result<(Chat, Place), ConnectError> {
        let known = self.places.get(channel).or(told);
        let place = match (known, guild) {
            (Some(place), _) => place,
            (None, None) => Place { kind: places::kind::DM, guild: None, parent: None, name: None },
            (None, Some(_)) => match self.look_up(channel, guild).await {
                Ok(place) => place,
                Err(ApiError::Refused(_)) => {
                    Place { kind: places::kind::TEXT, guild: guild.map(str::to_owned), parent: None, name: None }
                }
                // A wrong descriptor would lead to another conversation: rather once more.
                Err(error) => return Err(lost(&error)),
            },
        };
        Ok((self.described(channel, &place), place))
    }

    /// Asks the server about a channel.
    pub async fn look_up(&self, channel: &str, guild: Option<&str>) -> Result<Place, ApiError> {
        let found: crate::api::Channel = self.api.ask(Method::GET, &format!("channels/{channel}")).await?;
        let place = Place::of(&found, guild);
        self.places.put(channel, place.clone());
        Ok(place)
    }

    /// The descriptor of a channel.
    pub fn described(&self, channel: &str, place: &Place) -> Chat {
        let parent = place.parent.as_deref().filter(|_| places::is_thread(place.kind));
        places::chat(channel, place, parent.and_then(|parent| self.places.get(parent)?.name))
    }

    /// The role that belongs to the bot where a message calls a role. A session that was resumed does not tell it.
    async fn own_role(&self, message: &Message, me: &Me) -> Option<String> {
        let guild = message.guild_id.as_deref().filter(|_| !message.mention_roles.is_empty())?;
        if places::number(guild).is_some() && !self.places.knows_role(guild) {
            match self.api.ask::<Value>(Method::GET, &format!("guilds/{guild}/roles")).await {
                Ok(roles) => self.places.hear_roles(&roles, guild, &me.id),
                // At worst a call by the role is not heard; that must not end the link.
                Err(error) => tracing::debug!(%error, "the roles of a guild are not told"),
            }
        }
        self.places.own_role(guild)
    }

    /// Whether a channel is listened to: by its own id, that of its channel or that of its category.
    async fn listens_to(&self, channel: &str, place: &Place) -> Result<bool, ConnectError> {
        if place.guild.is_none() || (self.choice.allowed_channels.is_empty() && self.choice.ignored_channels.is_empty())
        {
            return Ok(true);
        }
        let parent = place.parent.as_deref().filter(|_| places::is_thread(place.kind));
        let above = match parent.map(|parent| (parent, self.places.get(parent))) {
            None => None,
            Some((_, Some(parent))) => parent.parent,
            Some((parent, None)) => match self.look_up(parent, place.guild.as_deref()).await {
                Ok(parent) => parent.parent,
                Err(ApiError::Refused(_)) => None,
                Err(error) => return Err(lost(&error)),
            },
        };
        let names = [Some(channel), place.parent.as_deref(), above.as_deref()];
        let stands_in = |list: &BTreeSet<String>| names.iter().flatten().any(|id| list.contains(*id));
        Ok(!stands_in(&self.choice.ignored_channels)
            && (self.choice.allowed_channels.is_empty() || stands_in(&self.choice.allowed_channels)))
    }

    /// Brings the files of one event to the host, in their order, within one deadline: what is behind it waits.
    async fn fetch_all(&self, files: Vec<RemoteFile>) -> Vec<Attachment> {
        let until = Instant::now() + FILES_TIMEOUT;
        let fetches = files.into_iter().map(|file| self.fetch(file, until));
        stream::iter(fetches).buffered(FETCHES_MAX).collect().await
    }

    /// Brings a file to the host; one that cannot be had is named with the reason.
    async fn fetch(&self, file: RemoteFile, until: Instant) -> Attachment {
        let fetched = timeout_at(until, self.try_fetch(&file)).await;
        match fetched.unwrap_or_else(|_| Err(format!("the files of a message may take {FILES_TIMEOUT:?} in all"))) {
            Ok((media, size)) => Attachment::new(media, file.kind, file.mime, file.name, size),
            Err(note) => {
                tracing::info!(size = file.size, %note, "a file was not fetched");
                Attachment::missing(file.kind, file.name, file.size, note)
            }
        }
    }

    async fn try_fetch(&self, file: &RemoteFile) -> Result<(String, u64), String> {
        if file.size > self.choice.media_bytes_max {
            return Err(format!(
                "the file has {} bytes and at most {} are fetched",
                file.size, self.choice.media_bytes_max
            ));
        }
        let said = |error: CallError| error.to_string();
        let fetched = self.fetcher.fetch(&file.url, HeaderMap::new()).await.map_err(|error| error.to_string())?;
        let bytes = fetched.bytes().await.map_err(|error| error.to_string())?;
        let size = bytes.len() as u64;
        let slot =
            self.host.media().create(MediaCreate::new(&file.name, &file.mime, Some(size))).await.map_err(said)?;
        let target = slot.path.clone();
        tokio::task::spawn_blocking(move || std::fs::write(target, bytes))
            .await
            .map_err(|error| error.to_string())?
            .map_err(|error| format!("the file could not be kept: {error}"))?;
        self.host.media().commit(&slot.id).await.map_err(said)?;
        Ok((slot.id, size))
    }

    async fn kept_session(&self, shard: u32) -> Result<Option<Session>, ConnectError> {
        let kept = self.host.kv().get(&session_key(shard)).await;
        let kept = kept.map_err(|error| ConnectError::retry(error.to_string()))?;
        Ok(kept.and_then(|text| serde_json::from_str(&text).ok()))
    }

    async fn keep_session(&self, shard: u32, session: &Session) -> Result<(), ConnectError> {
        let text = serde_json::to_string(session).expect("texts and numbers are always JSON");
        let kept = self.host.kv().set(&session_key(shard), &text).await;
        kept.map_err(|error| ConnectError::retry(format!("the session could not be kept: {error}")))
    }

    /// What it means that a shard was not opened. A session whose own address fails is next resumed at the gateway's;
    /// one that fails again and again, while the HTTP API answers, is given up.
    async fn not_opened(&self, shard: u32, session: Option<Session>, lost: Lost) -> ConnectError {
        if let (Some(mut session), Lost::Resumable(reason)) = (session, &lost) {
            session.failures = session.failures.saturating_add(1);
            if session.failures >= RESUMES_MAX {
                return self.lost(shard, Lost::Over(reason.clone())).await;
            }
            if let Err(error) = self.keep_session(shard, &session).await {
                return error;
            }
        }
        self.lost(shard, lost).await
    }

    /// What a lost connection means for the link; a session that is over is forgotten.
    async fn lost(&self, shard: u32, lost: Lost) -> ConnectError {
        match lost {
            Lost::Fatal { reason, mend } => ConnectError::fatal(reason, mend),
            Lost::Resumable(reason) => ConnectError::retry(reason),
            Lost::Over(reason) => {
                if let Err(error) = self.host.kv().delete(&session_key(shard)).await {
                    tracing::warn!(%error, "a session that is over is not forgotten; the gateway will say so again");
                }
                ConnectError::retry(reason)
            }
        }
    }
}

type Work<'w> = Pin<Box<dyn Future<Output = Result<(u64, bool), ConnectError>> + Send + 'w>>;

/// Waits for the work there is; without any for ever.
async fn until_done(work: &mut Option<Work<'_>>) -> Result<(u64, bool), ConnectError> {
    match work {
        Some(work) => work.await,
        None => std::future::pending().await,
    }
}

fn session_key(shard: u32) -> String {
    format!("session:{shard}")
}

/// One event that is not understood does not hold up the others.
fn understood<T: serde::de::DeserializeOwned>(dispatch: &Dispatch) -> Option<T> {
    serde_json::from_value(dispatch.data.clone())
        .inspect_err(|error| tracing::warn!(name = dispatch.name, %error, "an event is not understood"))
        .ok()
}

/// What an error of the HTTP API means for the link.
pub fn lost(error: &ApiError) -> ConnectError {
    match error {
        ApiError::Refused(refused) if refused.status == 401 => ConnectError::fatal(
            format!("Discord does not accept the token ({refused})"),
            "copy the bot's token from the Developer Portal (Bot, Reset Token) into `token` (or DISCORD_BOT_TOKEN)",
        ),
        ApiError::Limited { retry_after, .. } => ConnectError::retry_after_ms(error.to_string(), ms(*retry_after)),
        error => ConnectError::retry(error.to_string()),
    }
}

#[cfg(test)]
mod tests;
