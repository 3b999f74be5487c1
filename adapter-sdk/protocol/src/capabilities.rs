//! What an adapter can do. The host never asks who an adapter is.

use serde::{Deserialize, Serialize};

use crate::{Extra, word::words};

/// What one adapter can do, as its manifest declares it. Constant while loaded.
///
/// In JSON an object; what is missing is `false`, except
/// `supports_async_delivery`, which is `true`. Names that stand for a method are
/// written by `export_adapter!` from the traits that the adapter implements.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
#[non_exhaustive]
pub struct Capabilities {
    /// Whether something may be delivered when no request is open.
    pub supports_async_delivery: bool,
    /// Whether the host may open a thread for a handoff (`HandoffThread`).
    pub create_handoff_thread: bool,
    /// Whether the host may give a thread another name (`RenameThread`).
    pub rename_thread: bool,
    /// Whether a sent message can be changed (`Edit`).
    pub edit: bool,
    /// Whether a sent message can be taken back (`Delete`).
    pub delete: bool,
    /// Whether typing can be shown (`Typing`).
    pub typing: bool,
    /// Whether this account can react (`React`).
    pub reactions: bool,
    /// Whether choices can be buttons.
    pub buttons: bool,
    /// Whether chats have threads.
    pub threads: bool,
    /// Files in and out.
    pub media: MediaCapability,
    /// Whether voice messages exist.
    pub voice: bool,
    /// Whether an unsent draft can be shown (`Draft`).
    pub drafts: bool,
    /// Whether the platform has a command menu (`CommandsMenu`).
    pub commands_menu: bool,
    /// Whether the adapter renders text itself (`Render`).
    pub render: bool,
    /// Whether it can turn what a person writes into a chat (`ResolveTarget`).
    pub resolve_target: bool,
    /// Whether it can describe and list chats (`ChatInfo`).
    pub chat_info: bool,
    /// Whether an event may name files that are brought later (`Fetch`).
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub fetch: bool,
    /// Whether it can look up by key whether a send arrived (`Reconcile`).
    pub lookup: bool,
    /// Text limits.
    pub text: TextLimit,
    /// How a growing answer is shown.
    pub stream: StreamKind,
    /// What a doubtful send can lead to.
    pub delivery: DeliveryClass,
    /// Whether the adapter proves who its senders are (signatures, keys, links).
    pub authorizes_upstream: bool,
    /// Whether a person can pick a conversation in the adapter itself.
    pub interactive_resume: bool,
    /// What stands before a command besides `/`; empty: nothing.
    pub command_prefix: String,
    /// How often a living link proves itself.
    pub liveness: Liveness,
    /// Whether old and new may hold a connection side by side.
    pub parallel_connections: bool,
    /// Whether a group message counts without being addressed.
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

/// The longest text one message holds, in the unit the platform counts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
#[non_exhaustive]
pub struct TextLimit {
    /// How many units; `0` means no limit.
    pub limit: u32,
    /// What is counted.
    pub unit: TextUnit,
    /// The dialect that text is written in.
    pub dialect: Dialect,
}

impl Default for TextLimit {
    fn default() -> Self {
        Self { limit: 0, unit: TextUnit::Scalars, dialect: Dialect::Plain }
    }
}

impl TextLimit {
    /// `limit` units of `unit`, written in `dialect`.
    pub fn new(limit: u32, unit: TextUnit, dialect: Dialect) -> Self {
        Self { limit, unit, dialect }
    }
}

words! {
    /// What a platform counts.
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
    /// A way to write text that `hermes-markup` knows; any other word needs `Render`.
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

/// Files in and out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
#[non_exhaustive]
pub struct MediaCapability {
    /// Whether files come in.
    #[serde(rename = "in")]
    pub inbound: bool,
    /// Whether files go out.
    #[serde(rename = "out")]
    pub outbound: bool,
    /// Whether several files go out in one call.
    pub albums: bool,
    /// The largest file in, in bytes; `0` means no limit of the platform.
    pub in_bytes_max: u64,
    /// The largest file out, in bytes; `0` means no limit of the platform. Where the adapter has a config key
    /// `out_bytes_max` and the operator sets it, that counts instead.
    pub out_bytes_max: u64,
    /// The longest text that goes with files, in the unit of `text`; `0` means as long as any text.
    pub caption_limit: u32,
}

words! {
    /// How a growing answer is shown.
    pub enum StreamKind {
        /// Not at all.
        None = "none",
        /// By edits of one message.
        Edit = "edit",
        /// By the events of the turn themselves (`NativeStream`).
        Native = "native",
    }
}

words! {
    /// What a doubtful send can lead to.
    pub enum DeliveryClass {
        /// The platform deduplicates our key.
        Idempotent = "idempotent",
        /// The adapter can look whether it arrived.
        Reconcilable = "reconcilable",
        /// A doubtful send is repeated once, marked.
        AtLeastOnce = "at_least_once",
    }
}

words! {
    /// Whether a group message starts a turn without being addressed.
    pub enum GroupDefault {
        /// Only when it is addressed.
        Addressed = "addressed",
        /// Always.
        All = "all",
    }
}

/// How often a living link proves itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
#[non_exhaustive]
pub struct Liveness {
    /// The longest silence of a living link, in seconds; `0` means that silence proves nothing.
    pub interval_s: u32,
}

impl Liveness {
    /// Proved at least every `interval_s` seconds.
    pub fn every_s(interval_s: u32) -> Self {
        Self { interval_s }
    }
}
