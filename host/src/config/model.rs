//! What `plugins.toml` means: plain values, checked, with every default filled in.
//!
//! Nothing here reads a file or a variable; [`super::load`] makes these values.
//! Timings are [`Duration`]s whatever unit their key is written in.

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
    /// Where accepted adapter libraries lie; absolute. It need not exist.
    pub plugins_dir: PathBuf,
    /// How an adapter runs when its section does not say.
    pub isolation: Isolation,
    /// A level (`info`) or a tracing filter (`info,hermes_host=debug`).
    pub log: String,
    /// How log lines are written.
    pub log_format: LogFormat,
    /// Where the status listener binds; `None` is off.
    pub status: Option<SocketAddr>,
    /// The proxies for outgoing connections.
    pub proxy: super::proxies::HostProxy,
    /// How long a planned stop waits for running turns.
    pub drain: Duration,
    /// Whether changed bytes of a library are refused until `adapter add`.
    pub pin: bool,
    /// Whether an adapter in a process of its own gives up what it does not need.
    pub confine: bool,
    /// Instances that may open Unix sockets although they are confined.
    pub unix_sockets: Vec<String>,
    /// How long an adapter may take to connect.
    pub adapter_connect: Duration,
    /// How long `send` and `edit` may take.
    pub adapter_send: Duration,
    /// How long any other call of an adapter may take.
    pub adapter_call: Duration,
    /// How long an adapter may take to end.
    pub adapter_stop: Duration,
    /// The first wait before an adapter is started again.
    pub adapter_backoff: Duration,
    /// The longest wait before an adapter is started again.
    pub adapter_backoff_max: Duration,
}

/// Where an adapter runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Isolation {
    /// Libraries beside the binary inside the host, all others in a process of their own.
    Auto,
    /// Inside the host.
    InProcess,
    /// In a process of its own.
    Process,
}

/// How log lines are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

/// `[session]`, and the same keys of one adapter's `session`, already merged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionConfig {
    /// Whether each person in a group has a conversation of their own.
    pub group_sessions_per_user: bool,
    /// Whether that also holds inside a thread.
    pub thread_sessions_per_user: bool,
    /// When a conversation begins anew by itself.
    pub reset: ResetRules,
    /// What happens to a message while a turn runs.
    pub busy: BusyMode,
    /// Whether somebody whose message waits is told so.
    pub receipts: bool,
    /// Whether the message that a turn answers shows by a reaction how it goes, where its platform can.
    pub reactions: bool,
    /// How long after one text the next one of its sender belongs to it, while a turn runs.
    pub merge: Duration,
    /// How long one message may grow that way.
    pub merge_max: Duration,
    /// How long the continuation of a text that its platform may have cut is waited for.
    pub continuation: Duration,
    /// Whether growing answers are shown.
    pub stream: StreamMode,
    /// Folders besides the host's media folder from which files may be sent; absolute.
    pub outbound_dirs: Vec<PathBuf>,
    /// Hosts from which files that an answer names may be fetched.
    pub media_hosts: Vec<String>,
    /// How long a turn may be silent before it is ended.
    pub inactivity: Duration,
    /// How long a turn may be silent before the chat is warned.
    pub inactivity_warning: Duration,
    /// How often the chat hears what a long turn is doing.
    pub heartbeat: Duration,
    /// How long a question to a person waits for its answer.
    pub approval_timeout: Duration,
    /// How long a conversation may be on its way from the terminal to a chat.
    pub handoff_timeout: Duration,
    /// Whether `/new` asks first where something was said.
    pub confirm_new: bool,
    /// What is shown of tools on the way.
    pub progress: ProgressMode,
    /// Whether an answer ends with a line about itself.
    pub footer: bool,
    /// How many messages wait while a turn runs.
    pub queue_max: usize,
    /// How often a turn that a crash cut off is resumed.
    pub resume_attempts_max: u32,
    /// Whether a group message counts only when it is addressed; `None`: as the adapter's manifest says.
    pub require_mention: Option<bool>,
    /// Chats in which every message counts.
    pub free_chats: Vec<String>,
    /// Words that count as addressing the agent, case-insensitive, at word bounds.
    pub mention_patterns: Vec<String>,
    /// Keeps messages of groups that are not addressed to the agent for its next turn there.
    pub observe: bool,
}

/// `session.reset`: when a conversation begins anew by itself, by the type of its chat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResetRules {
    /// In direct messages.
    pub dm: ResetConfig,
    /// In groups.
    pub group: ResetConfig,
    /// In channels.
    pub channel: ResetConfig,
    /// In chats that are threads.
    pub thread: ResetConfig,
}

impl ResetRules {
    /// The rule for chats of this type.
    pub fn of(&self, kind: &ChatType) -> &ResetConfig {
        match kind {
            ChatType::Group => &self.group,
            ChatType::Channel => &self.channel,
            ChatType::Thread => &self.thread,
            _ => &self.dm,
        }
    }

    /// Whether no conversation ever begins anew by itself.
    pub fn is_never(&self) -> bool {
        [&self.dm, &self.group, &self.channel, &self.thread].iter().all(|rule| rule.mode == ResetMode::None)
    }
}

/// When a conversation of one kind begins anew by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResetConfig {
    /// Which rule.
    pub mode: ResetMode,
    /// The local hour of the daily reset.
    pub at_hour: u8,
    /// The silence after which an idle reset happens.
    pub idle: Duration,
    /// Whether the chat is told.
    pub notify: bool,
    /// Where that hour is local.
    pub zone: TimeZone,
}

/// Which rule resets a conversation.
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

/// Whether growing answers are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamMode {
    /// Where the adapter can.
    Auto,
    /// Never.
    Off,
}

/// What a stranger's direct message gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strangers {
    /// A pairing code.
    Pair,
    /// Silence.
    Ignore,
}

/// `[access]`: global lists hold `<instance>:<id>`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessConfig {
    /// Whether everybody may speak where no list of any kind exists.
    pub allow_all: bool,
    /// Who may speak.
    pub allowed_users: Vec<QualifiedId>,
    /// Who is the operator.
    pub operators: Vec<QualifiedId>,
    /// Who is an admin.
    pub admins: Vec<QualifiedId>,
    /// What a stranger's direct message gets.
    pub strangers: Strangers,
}

/// An id of one instance.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct QualifiedId {
    /// The instance.
    pub instance: String,
    /// The platform's stable id.
    pub id: String,
}

/// `access` of one adapter section: bare ids of that instance.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InstanceAccessConfig {
    /// Whether everybody may speak.
    pub allow_all: bool,
    /// Who may speak.
    pub allowed_users: Vec<String>,
    /// Chats whose members may speak there.
    pub allowed_groups: Vec<String>,
    /// Roles that the platform vouches for; they count only under trust.
    pub allowed_roles: Vec<String>,
    /// Host methods of its manifest's `uses` that it may use.
    pub grants: Vec<String>,
    /// Commands that users may run beyond their tier, in direct messages.
    pub user_commands: Vec<String>,
    /// The same in groups.
    pub group_user_commands: Vec<String>,
    /// Who is the operator.
    pub operators: Vec<String>,
    /// Who is an admin.
    pub admins: Vec<String>,
    /// What a stranger's direct message gets; `None`: as `[access]` says.
    pub strangers: Option<Strangers>,
}

/// `[delivery]`: how hard the host tries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeliveryConfig {
    /// How long a reply is tried.
    pub reply_deadline: Duration,
    /// How long a notice or a question is tried.
    pub notice_deadline: Duration,
    /// The first wait before a retry.
    pub backoff: Duration,
    /// The longest wait before a retry.
    pub backoff_max: Duration,
    /// How long a failing part holds up what follows it.
    pub hold: Duration,
    /// The shortest time between two edits that show how an answer grows.
    pub preview_interval: Duration,
    /// How many new characters are worth such an edit.
    pub preview_chars: usize,
}

/// `[limits]`: bounds that protect the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitsConfig {
    /// The largest event an adapter may hand in, in bytes.
    pub event_bytes_max: usize,
    /// The largest file that is taken in or sent, in bytes.
    pub file_bytes_max: u64,
    /// The largest reply of an agent, in bytes.
    pub reply_bytes_max: usize,
    /// How many turns run side by side.
    pub turns_max: usize,
    /// How many turns one person may have in the background.
    pub background_max: usize,
    /// How many events wait between an adapter and the dispatcher.
    pub ingress_queue_max: usize,
    /// How many host calls of one adapter run at once.
    pub host_calls_max: usize,
    /// How many events of strangers one instance may leave behind.
    pub stranger_events_max: usize,
    /// How long settled rows are kept.
    pub retention: Duration,
    /// How long media is kept after its last unsettled row.
    pub media_retention: Duration,
    /// How long a pairing code is good.
    pub pairing_code: Duration,
    /// How long one person waits for the next code.
    pub pairing_interval: Duration,
    /// How many requests of unknown senders are open per instance.
    pub pairing_open_max: usize,
    /// How many wrong codes lock out their sender.
    pub pairing_wrong_max: u32,
    /// How long a sender stays locked out.
    pub pairing_lockout: Duration,
    /// How many messages a minute one person may write; 0: any.
    pub user_messages_per_minute: u32,
    /// How many messages a minute one conversation takes; 0: any.
    pub session_messages_per_minute: u32,
    /// How many messages a minute one instance takes; 0: any.
    pub instance_messages_per_minute: u32,
    /// How many messages of bots are answered in a chat while no person speaks there.
    pub bot_messages_max: u32,
    /// How many clients the control socket serves at once.
    pub control_clients_max: usize,
    /// How many connections the status listener serves at once.
    pub status_clients_max: usize,
}

/// `[adapter.<instance>]`: the host's keys of the section, and the adapter's own.
#[derive(Clone, Debug)]
pub struct AdapterConfig {
    /// Which adapter it is; the instance name unless the section says otherwise.
    pub plugin: String,
    /// A program to run instead of a library.
    pub command: Option<Vec<String>>,
    /// `Some` when the section decides; else what `adapter enable|disable` stored, else on.
    pub enabled: Option<bool>,
    /// Where it runs; `None`: as `[host]` says.
    pub isolation: Option<Isolation>,
    /// Its own proxy; empty: none.
    pub proxy: Option<Secret>,
    /// Who may speak there.
    pub access: InstanceAccessConfig,
    /// Where the host may write unasked; wins over `/sethome`.
    pub home_channel: Option<HomeChannel>,
    /// Whether the senders and roles that the adapter vouches for count.
    pub trust_upstream: bool,
    /// `[session]` with this section's overrides.
    pub session: SessionConfig,
    /// What was written, with its sources.
    pub(super) section: super::section::Section,
}

/// A home channel as the operator wrote it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HomeChannel {
    /// The chat, as the adapter's `ResolveTarget` or id grammar understands it.
    pub chat: String,
    /// The thread in it.
    pub thread: Option<String>,
}

/// Everything `hermes-host` was told, checked.
#[derive(Clone, Debug)]
pub struct Config {
    /// The home folder; absolute. It is made by `run`.
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
    /// What the operator should hear although the host starts.
    pub warnings: Vec<super::Warning>,
    /// What was said where.
    pub(super) origin: super::Origin,
}
