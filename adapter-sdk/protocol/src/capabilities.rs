//! The capabilities of an adapter. The host decides by them and never by an adapter's name.

use serde::{Deserialize, Serialize};

use crate::{Extra, word::words};

/// The capabilities of one adapter, as its manifest declares them. Constant while
/// the adapter is loaded.
///
/// In JSON an object; an absent key is `false`, except `supports_async_delivery`, which
/// defaults to `true`. Keys that correspond to a method are set by `export_adapter!` from
/// the traits that the adapter implements.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
#[non_exhaustive]
pub struct Capabilities {
    /// True if a message may be delivered while no request is open.
    pub supports_async_delivery: bool,
    /// True if the host may open a thread for a handoff (`HandoffThread`).
    pub create_handoff_thread: bool,
    /// True if the host may rename a thread (`RenameThread`).
    pub rename_thread: bool,
    /// True if a sent message can be edited (`Edit`).
    pub edit: bool,
    /// True if a sent message can be deleted (`Delete`).
    pub delete: bool,
    /// True if typing can be shown (`Typing`).
    pub typing: bool,
    /// True if this account can react (`React`).
    pub reactions: bool,
    /// True if choices can be shown as buttons.
    pub buttons: bool,
    /// True if chats have threads.
    pub threads: bool,
    /// Incoming and outgoing files.
    pub media: MediaCapability,
    /// True if voice messages exist.
    pub voice: bool,
    /// True if a draft can be shown before it is sent (`Draft`).
    pub drafts: bool,
    /// True if the platform has a command menu (`CommandsMenu`).
    pub commands_menu: bool,
    /// True if the adapter renders text itself (`Render`).
    pub render: bool,
    /// True if the adapter can resolve a target that a person writes to a chat (`ResolveTarget`).
    pub resolve_target: bool,
    /// True if the adapter can describe and list chats (`ChatInfo`).
    pub chat_info: bool,
    /// True if an event may name files that are downloaded later (`Fetch`).
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub fetch: bool,
    /// True if the adapter can look up by key whether a send arrived (`Reconcile`).
    pub lookup: bool,
    /// The limits of text.
    pub text: TextLimit,
    /// The way to show a growing answer.
    pub stream: StreamKind,
    /// The possible consequences of a send with an unknown result.
    pub delivery: DeliveryClass,
    /// True if the adapter verifies the identity of its senders (signatures, keys, links).
    pub authorizes_upstream: bool,
    /// True if a person can pick a conversation in the adapter itself.
    pub interactive_resume: bool,
    /// A prefix of commands in addition to `/`; empty: none.
    pub command_prefix: String,
    /// The interval in which a working link proves itself.
    pub liveness: Liveness,
    /// True if the old and the new instance may be connected at the same time.
    pub parallel_connections: bool,
    /// The treatment of a group message that does not address the account.
    pub group_default: GroupDefault,
    /// Capabilities of a later version, `hermes.<thing>/<revision>` among them.
    #[serde(flatten)]
    #[cfg_attr(feature = "schema", schemars(skip))]
    pub extra: Extra,
}

impl Default for Capabilities {
    fn default() -> Self {
        Self {
            supports_async_delivery: true,
            create_handoff_thread: false,
            rename_thread: false,
            edit: false,
            delete: false,
            typing: false,
            reactions: false,
            buttons: false,
            threads: false,
            media: MediaCapability::default(),
            voice: false,
            drafts: false,
            commands_menu: false,
            render: false,
            resolve_target: false,
            chat_info: false,
            fetch: false,
            lookup: false,
            text: TextLimit::default(),
            stream: StreamKind::None,
            delivery: DeliveryClass::AtLeastOnce,
            authorizes_upstream: false,
            interactive_resume: false,
            command_prefix: String::new(),
            liveness: Liveness::default(),
            parallel_connections: false,
            group_default: GroupDefault::Addressed,
            extra: Extra::new(),
        }
    }
}

/// The maximum length of one message's text, in the unit that the platform counts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
#[non_exhaustive]
pub struct TextLimit {
    /// The maximum, in `unit`; `0` means no limit.
    pub limit: u32,
    /// The unit of `limit`.
    pub unit: TextUnit,
    /// The dialect of the text.
    pub dialect: Dialect,
}

impl Default for TextLimit {
    fn default() -> Self {
        Self { limit: 0, unit: TextUnit::Scalars, dialect: Dialect::Plain }
    }
}

impl TextLimit {
    /// Creates a limit of `limit` units of `unit`, for text in `dialect`.
    pub fn new(limit: u32, unit: TextUnit, dialect: Dialect) -> Self {
        Self { limit, unit, dialect }
    }
}

words! {
    /// The unit in which a platform counts text.
    pub enum TextUnit {
        /// UTF-16 code units.
        Utf16 = "utf16",
        /// Unicode scalar values.
        Scalars = "scalars",
        /// Bytes of UTF-8.
        Bytes = "bytes",
        /// Grapheme clusters.
        Graphemes = "graphemes",
    }
}

words! {
    /// A dialect that `hermes-markup` renders. Any other word requires `Render`.
    pub enum Dialect {
        /// No markup.
        Plain = "plain",
        /// CommonMark with tables.
        CommonMark = "commonmark",
        /// The HTML subset of Telegram.
        Telegram = "telegram",
        /// The markdown of Discord.
        Discord = "discord",
        /// The mrkdwn of Slack.
        Mrkdwn = "mrkdwn",
    }
}

/// Incoming and outgoing files.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
#[non_exhaustive]
pub struct MediaCapability {
    /// True if files can be received.
    #[serde(rename = "in")]
    pub inbound: bool,
    /// True if files can be sent.
    #[serde(rename = "out")]
    pub outbound: bool,
    /// True if one call can send several files.
    pub albums: bool,
    /// The maximum size of an incoming file, in bytes; `0` means that the platform has no limit.
    pub in_bytes_max: u64,
    /// The maximum size of an outgoing file, in bytes; `0` means that the platform has no limit. If the
    /// adapter has a config key `out_bytes_max` and the operator sets it, that value applies instead.
    pub out_bytes_max: u64,
    /// The maximum length of a text sent with files, in the unit of `text`; `0` means the limit of any text.
    pub caption_limit: u32,
}

words! {
    /// The way to show a growing answer.
    pub enum StreamKind {
        /// The answer is shown when it is complete.
        None = "none",
        /// One message is edited repeatedly.
        Edit = "edit",
        /// The adapter receives the events of the turn (`NativeStream`).
        Native = "native",
    }
}

words! {
    /// The possible consequences of a send with an unknown result.
    pub enum DeliveryClass {
        /// The platform deduplicates by our key, so the send is repeated safely.
        Idempotent = "idempotent",
        /// The adapter can check whether the message arrived.
        Reconcilable = "reconcilable",
        /// The send is repeated once, with a mark that it may be a duplicate.
        AtLeastOnce = "at_least_once",
    }
}

words! {
    /// The condition under which a group message starts a turn.
    pub enum GroupDefault {
        /// Only messages that address the account.
        Addressed = "addressed",
        /// All messages.
        All = "all",
    }
}

/// The interval in which a working link proves itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
#[non_exhaustive]
pub struct Liveness {
    /// The longest silence of a working link, in seconds; `0` means that silence proves nothing.
    pub interval_s: u32,
}

impl Liveness {
    /// Creates the value for a link that proves itself at least every `interval_s` seconds.
    pub fn every_s(interval_s: u32) -> Self {
        Self { interval_s }
    }
}
