//! The values of `plugins.toml`: checked, with every default filled in.
//!
//! This module reads no file and no variable; [`super::load`] creates its values. Times are [`Duration`]s, regardless
//! of the unit of their key.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use hermes_core::commands::Gates;
use hermes_core::secret::Secret;
pub use hermes_core::settings::{BusyMode, ProgressMode};
use hermes_protocol::ChatType;
use jiff::tz::TimeZone;

/// `[host]`: the process itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostConfig {
    /// The folder of accepted adapter libraries; absolute, and possibly missing.
    pub plugins_dir: PathBuf,
    /// The isolation of adapters whose section names none.
    pub isolation: Isolation,
    /// A level (`info`) or a tracing filter (`info,hermes_host=debug`).
    pub log: String,
    /// The format of log lines.
    pub log_format: LogFormat,
    /// The address of the status listener; `None`: off.
    pub status: Option<SocketAddr>,
    /// The proxies for outgoing connections.
    pub proxy: super::proxies::HostProxy,
    /// The wait of a planned stop for running turns.
    pub drain: Duration,
    /// `true` if changed bytes of a library are refused until `adapter add`.
    pub pin: bool,
    /// `true` if an adapter in a process of its own is sandboxed.
    pub confine: bool,
    /// Instances that may open Unix sockets although they are sandboxed.
    pub unix_sockets: Vec<String>,
    /// Deadline of an adapter's `connect`.
    pub adapter_connect: Duration,
    /// Deadline of `send` and `edit`.
    pub adapter_send: Duration,
    /// Deadline of any other call of an adapter.
    pub adapter_call: Duration,
    /// Deadline of an adapter's end.
    pub adapter_stop: Duration,
    /// The first backoff before an adapter is started again.
    pub adapter_backoff: Duration,
    /// The longest backoff before an adapter is started again.
    pub adapter_backoff_max: Duration,
}

/// The place where an adapter runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Isolation {
    /// Libraries beside the binary run inside the host, all others in a process of their own.
    Auto,
    /// Inside the host.
    InProcess,
    /// In a process of its own.
    Process,
}

/// The format of log lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// Text for people.
    Text,
    /// One JSON object per line.
    Json,
}

/// `[session]`, or an adapter's `session` merged with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionConfig {
    /// `true` if each user in a group has a separate conversation.
    pub group_sessions_per_user: bool,
    /// `true` if that also applies inside a thread.
    pub thread_sessions_per_user: bool,
    /// The rules for automatic resets.
    pub reset: ResetRules,
    /// The treatment of a message during a turn.
    pub busy: BusyMode,
    /// `true` if the sender of a waiting message gets a notice.
    pub receipts: bool,
    /// `true` if reactions on the answered message show the progress of a turn, where the platform supports them.
    pub reactions: bool,
    /// During a turn, a text within this time after the sender's previous one is merged with it.
    pub merge: Duration,
    /// The longest time for which one message may grow by merging.
    pub merge_max: Duration,
    /// The wait for the continuation of a text that the platform may have split.
    pub continuation: Duration,
    /// The mode of streaming answers.
    pub stream: StreamMode,
    /// Absolute folders from which files may be sent, in addition to the host's media folder.
    pub outbound_dirs: Vec<PathBuf>,
    /// Hosts from which files in an answer may be fetched.
    pub media_hosts: Vec<String>,
    /// Silence after which a turn is ended.
    pub inactivity: Duration,
    /// Silence of a turn after which the chat is warned.
    pub inactivity_warning: Duration,
    /// Interval of the progress notices of a long turn.
    pub heartbeat: Duration,
    /// Deadline for the answer to an approval or another question.
    pub approval_timeout: Duration,
    /// Deadline of a handoff from the terminal to a chat.
    pub handoff_timeout: Duration,
    /// `true` if `/new` asks for confirmation in a conversation with messages.
    pub confirm_new: bool,
    /// The mode of tool progress in the chat.
    pub progress: ProgressMode,
    /// `true` if an answer ends with a line about its turn.
    pub footer: bool,
    /// The most messages that may wait during a turn.
    pub queue_max: usize,
    /// The most resumes of a turn that a crash interrupted.
    pub resume_attempts_max: u32,
    /// `true` if only addressed messages of a group count; `None`: as in the adapter's manifest.
    pub require_mention: Option<bool>,
    /// Chats in which every message counts.
    pub free_chats: Vec<String>,
    /// Words that address the agent, case-insensitive, at word boundaries.
    pub mention_patterns: Vec<String>,
    /// `true` if unaddressed messages of groups are kept for the agent's next turn there.
    pub observe: bool,
}

/// `session.reset`: the rules for automatic resets, by chat type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResetRules {
    /// For direct messages.
    pub dm: ResetConfig,
    /// For groups.
    pub group: ResetConfig,
    /// For channels.
    pub channel: ResetConfig,
    /// For threads.
    pub thread: ResetConfig,
}

impl ResetRules {
    /// Returns the rule for chats of this type.
    pub fn of(&self, kind: &ChatType) -> &ResetConfig {
        match kind {
            ChatType::Group => &self.group,
            ChatType::Channel => &self.channel,
            ChatType::Thread => &self.thread,
            _ => &self.dm,
        }
    }

    /// Returns `true` if no conversation is ever reset automatically.
    pub fn is_never(&self) -> bool {
        [&self.dm, &self.group, &self.channel, &self.thread].iter().all(|rule| rule.mode == ResetMode::None)
    }
}

/// The rule for automatic resets of one chat type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResetConfig {
    /// The mode.
    pub mode: ResetMode,
    /// The local hour of the daily reset, 0 to 23.
    pub at_hour: u8,
    /// The silence before an idle reset.
    pub idle: Duration,
    /// `true` if the chat gets a notice.
    pub notify: bool,
    /// The time zone of that hour.
    pub zone: TimeZone,
}

/// The mode of automatic resets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResetMode {
    /// Only `/new`.
    None,
    /// After a silence.
    Idle,
    /// Once a day.
    Daily,
    /// After a silence, and once a day.
    Both,
}

/// The mode of streaming answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamMode {
    /// Shown where the adapter supports it.
    Auto,
    /// Never.
    Off,
}

/// The reply to a direct message of an unknown sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strangers {
    /// A pairing code.
    Pair,
    /// No reply.
    Ignore,
}

/// `[access]`: the global lists contain `<instance>:<id>`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessConfig {
    /// `true` if everybody is admitted as long as no list exists.
    pub allow_all: bool,
    /// Admitted users.
    pub allowed_users: Vec<QualifiedId>,
    /// Operators.
    pub operators: Vec<QualifiedId>,
    /// Admins.
    pub admins: Vec<QualifiedId>,
    /// The reply to a direct message of an unknown sender.
    pub strangers: Strangers,
}

/// An id of one instance.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct QualifiedId {
    /// The instance.
    pub instance: String,
    /// The stable id of the platform.
    pub id: String,
}

/// `access` of one adapter section: ids of that instance without a prefix.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InstanceAccessConfig {
    /// `true` if everybody is admitted.
    pub allow_all: bool,
    /// Admitted users.
    pub allowed_users: Vec<String>,
    /// Chats whose members are admitted there.
    pub allowed_groups: Vec<String>,
    /// Admitted roles of the platform, which count only if the adapter is trusted.
    pub allowed_roles: Vec<String>,
    /// Host methods of the manifest's `uses` that it may call.
    pub grants: Vec<String>,
    /// Additional commands for users, in direct messages.
    pub user_commands: Vec<String>,
    /// Additional commands for users, in groups.
    pub group_user_commands: Vec<String>,
    /// Operators.
    pub operators: Vec<String>,
    /// Admins.
    pub admins: Vec<String>,
    /// The reply to a direct message of an unknown sender; `None`: as in `[access]`.
    pub strangers: Option<Strangers>,
}

/// `[delivery]`: deadlines and retries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeliveryConfig {
    /// Deadline of a reply.
    pub reply_deadline: Duration,
    /// Deadline of a notice or a question.
    pub notice_deadline: Duration,
    /// The first backoff of a retry.
    pub backoff: Duration,
    /// The longest backoff of a retry.
    pub backoff_max: Duration,
    /// The time for which a failing part delays the parts behind it.
    pub hold: Duration,
    /// The shortest interval between two preview edits of a growing answer.
    pub preview_interval: Duration,
    /// The fewest new characters for a preview edit.
    pub preview_chars: usize,
}

/// `[limits]`: bounds that protect the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitsConfig {
    /// The largest event of an adapter, in bytes.
    pub event_bytes_max: usize,
    /// The largest file that is accepted or sent, in bytes.
    pub file_bytes_max: u64,
    /// The largest reply of an agent, in bytes.
    pub reply_bytes_max: usize,
    /// Concurrent turns.
    pub turns_max: usize,
    /// Concurrent background turns of one user.
    pub background_max: usize,
    /// Events that may wait between an adapter and the dispatcher.
    pub ingress_queue_max: usize,
    /// Concurrent host calls of one adapter.
    pub host_calls_max: usize,
    /// Stored events of unknown senders per instance.
    pub stranger_events_max: usize,
    /// Retention of settled rows.
    pub retention: Duration,
    /// Retention of media after its last unsettled row.
    pub media_retention: Duration,
    /// Validity of a pairing code.
    pub pairing_code: Duration,
    /// The shortest interval between two codes for one sender.
    pub pairing_interval: Duration,
    /// Open requests of unknown senders per instance.
    pub pairing_open_max: usize,
    /// Wrong codes after which their sender is locked out.
    pub pairing_wrong_max: u32,
    /// Duration of a lockout.
    pub pairing_lockout: Duration,
    /// Messages per minute of one user; 0: unlimited.
    pub user_messages_per_minute: u32,
    /// Messages per minute of one conversation; 0: unlimited.
    pub session_messages_per_minute: u32,
    /// Messages per minute of one instance; 0: unlimited.
    pub instance_messages_per_minute: u32,
    /// Messages of bots that are answered in a chat between two messages of people.
    pub bot_messages_max: u32,
    /// Concurrent clients of the control socket.
    pub control_clients_max: usize,
    /// Concurrent connections of the status listener.
    pub status_clients_max: usize,
}

/// `[adapter.<instance>]`: the host's keys of the section, and the adapter's own.
#[derive(Clone, Debug)]
pub struct AdapterConfig {
    /// The plugin id; the instance name by default.
    pub plugin: String,
    /// A program and its arguments that replace a library.
    pub command: Option<Vec<String>>,
    /// The switch of the section. `None`: the stored `adapter enable|disable` decides, by default on.
    pub enabled: Option<bool>,
    /// The isolation; `None`: as in `[host]`.
    pub isolation: Option<Isolation>,
    /// Its own proxy; an empty text: no proxy.
    pub proxy: Option<Secret>,
    /// The access rules of the instance.
    pub access: InstanceAccessConfig,
    /// The chat for notices without a request; overrides `/sethome`.
    pub home_channel: Option<HomeChannel>,
    /// `true` if the senders and roles that the adapter proves count.
    pub trust_upstream: bool,
    /// `[session]` with this section's overrides.
    pub session: SessionConfig,
    /// The written values with their sources.
    pub(super) section: super::section::Section,
}

/// A home channel as written by the operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HomeChannel {
    /// The chat in the adapter's id or target syntax.
    pub chat: String,
    /// The thread in the chat.
    pub thread: Option<String>,
}

/// The checked configuration of `hermes-host`.
#[derive(Clone, Debug)]
pub struct Config {
    /// The home folder; absolute. `run` creates it.
    pub home: PathBuf,
    /// The file that was read, if there is one.
    pub file: Option<PathBuf>,
    /// `[host]`.
    pub host: HostConfig,
    /// `[agent]`.
    pub agent: hermes_agent::AgentConfig,
    /// `[session]`.
    pub session: SessionConfig,
    /// `[access]`.
    pub access: AccessConfig,
    /// `[commands]`.
    pub gates: Gates,
    /// `[delivery]`.
    pub delivery: DeliveryConfig,
    /// `[limits]`.
    pub limits: LimitsConfig,
    /// `[adapter.*]` by instance; [`Config::resolve`] adds those that the environment enables.
    pub adapters: BTreeMap<String, AdapterConfig>,
    /// The warnings, with which the host still starts.
    pub warnings: Vec<super::Warning>,
    /// The written values with their sources.
    pub(super) origin: super::Origin,
}
