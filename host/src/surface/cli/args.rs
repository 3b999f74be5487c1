//! The arguments of the command line.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

/// Connects chat platforms with an AI agent: one adapter per platform, every reply delivered.
#[derive(Debug, Parser)]
#[command(
    name = "hermes-host",
    version,
    max_term_width = 100,
    subcommand_required = true,
    arg_required_else_help = true
)]
pub struct Cli {
    /// The configuration file [default: that of the running host, then plugins.toml in the home folder; `run` uses
    /// ./plugins.toml first]
    #[arg(long, global = true, value_name = "PATH")]
    pub config: Option<PathBuf>,
    /// The home folder [default: $HERMES_HOST_HOME, then ~/.hermes-host]
    #[arg(long, global = true, value_name = "PATH")]
    pub home: Option<PathBuf>,
    /// The command to run.
    #[command(subcommand)]
    pub(super) command: Command,
}

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Run the host in the foreground
    Run(RunArgs),
    /// Talk to the agent in this terminal, or print one answer for a script
    ///
    /// Attaches to the running host. Without one, a host without adapters runs in this process until `hermes-host run`
    /// takes over. `/help` lists the commands, Ctrl-C stops the agent, `/quit` or Ctrl-D leaves, and a backslash or
    /// Alt-Enter continues the message in the next line. With -m, or if the standard input is no terminal, only the
    /// answer is printed, and the exit code is 0 if there is one.
    Chat(ChatArgs),
    /// Show the state of the host, its adapters and its queues
    Status {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Finish the running turns, then stop the host
    Stop,
    /// Finish the running turns, then restart the host
    ///
    /// Under a service manager the host exits with 75, and the manager starts it again. Otherwise the host restarts in
    /// the
    /// same process, with the arguments of its `run`. If the configuration is invalid, the host keeps running and
    /// reports
    /// the problem.
    Restart,
    /// Accept no new events and finish the running turns; the host keeps running
    Drain {
        /// Accept events again
        #[arg(long)]
        undo: bool,
    },
    /// Apply the changed configuration
    Reload,
    /// Send a text through the outbox of the running host
    Send(SendArgs),
    /// Adapter libraries and instances
    #[command(subcommand)]
    Adapter(AdapterCommand),
    /// Access requests of unknown senders, and granted access
    #[command(subcommand)]
    Pairing(PairingCommand),
    /// The configuration
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Conversations
    #[command(subcommand)]
    Session(SessionCommand),
    /// Pending and failed deliveries
    #[command(subcommand)]
    Outbox(OutboxCommand),
    /// Tasks and background jobs of the agent
    #[command(subcommand)]
    Task(TaskCommand),
    /// Move a conversation to a chat, such as the home channel of an instance
    Handoff(HandoffArgs),
    /// Tools of the agent
    #[command(subcommand)]
    Tool(ToolCommand),
    /// Print a completion script
    Completions {
        /// The shell: bash, zsh or fish
        #[arg(value_parser = shell)]
        shell: clap_complete::Shell,
    },
    /// Check that the host would start; the host runs this before a restart
    #[command(hide = true)]
    WouldStart,
    /// The process of one adapter; started by the host
    #[command(hide = true)]
    AdapterRunner {
        /// The arguments from the host.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
        rest: Vec<std::ffi::OsString>,
    },
    /// The process that extracts the text of one file; started by the host
    #[command(hide = true)]
    TextRunner {
        /// The arguments from the host.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
        rest: Vec<std::ffi::OsString>,
    },
}

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(super) struct HandoffArgs {
    /// The subcommand.
    #[command(subcommand)]
    pub command: Option<HandoffCommand>,
    /// An id, a unique beginning of one, or a title
    #[arg(required = true)]
    pub session: Option<String>,
    /// The instance (or its plugin) for its home channel, or INSTANCE:CHAT for another chat
    #[arg(required = true)]
    pub instance: Option<String>,
    /// Seconds to wait for the end of the handoff
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(0..=300))]
    pub wait: u64,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Subcommand)]
pub(super) enum HandoffCommand {
    /// Print a code that moves the conversation to the chat in which a user sends `/claim CODE`
    Offer(OneSession),
    /// List running handoffs, newest first
    List {
        /// Include ended handoffs
        #[arg(long)]
        all: bool,
        #[command(flatten)]
        shown: Listed,
    },
    /// Show one handoff
    Show(OneSession),
    /// Cancel a handoff; the conversation stays in its chat
    Cancel(OneSession),
}

// A doc comment on these two structures would be shown as help.

#[derive(Debug, Args)]
pub(super) struct Listed {
    /// Number of rows
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub limit: u32,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub(super) struct OneSession {
    /// An id, a unique beginning of one, or a title
    pub session: String,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

fn shell(word: &str) -> Result<clap_complete::Shell, String> {
    match word {
        "bash" => Ok(clap_complete::Shell::Bash),
        "zsh" => Ok(clap_complete::Shell::Zsh),
        "fish" => Ok(clap_complete::Shell::Fish),
        _ => Err("write bash, zsh or fish".to_owned()),
    }
}

#[derive(Debug, Args)]
pub(super) struct RunArgs {
    /// Replace a host that runs in the same home
    #[arg(long)]
    pub replace: bool,
}

#[derive(Debug, Args)]
pub(super) struct ChatArgs {
    /// Continue this conversation
    #[arg(long, value_name = "ID|TITLE")]
    pub resume: Option<String>,
    /// Send this message, print the answer and exit; piped input is appended, and `-` sends the input alone
    #[arg(short, long, value_name = "TEXT", allow_hyphen_values = true)]
    pub message: Option<String>,
}

#[derive(Debug, Args)]
pub(super) struct SendArgs {
    /// INSTANCE (its home channel), INSTANCE:CHAT, INSTANCE:CHAT:THREAD or INSTANCE:@NAME
    pub target: String,
    /// The text in markdown; `-` reads the standard input
    #[arg(allow_hyphen_values = true)]
    pub text: String,
    /// A file to send with the text
    #[arg(long, value_name = "PATH")]
    pub file: Option<PathBuf>,
    /// Also add the text to the transcript of the chat's session
    #[arg(long)]
    pub mirror: bool,
    /// Wait 60 s or SECONDS for the receipt; exit code 0: delivered, 1: refused or abandoned, 3: not known yet
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, default_missing_value = "60", require_equals = true)]
    pub wait: Option<u64>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Subcommand)]
pub(super) enum AdapterCommand {
    /// List instances, and libraries without a section
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Show the manifest of a library without opening it
    Inspect {
        /// The library
        file: PathBuf,
        /// Print the manifest as JSON
        #[arg(long)]
        json: bool,
    },
    /// Check a library; its code runs in a child process only
    Check {
        /// The library
        file: PathBuf,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Run every conformance case against a library, in child processes, in both isolation levels
    Certify {
        /// The library
        file: PathBuf,
        /// Its `certify.toml`: a sample configuration, and the command of the platform simulator
        #[arg(long, value_name = "PATH")]
        sample: Option<PathBuf>,
        /// Only in-process, or only in a process of its own
        #[arg(long, value_name = "ISOLATION", value_parser = ["in-process", "process"])]
        isolation: Option<String>,
        /// Only the case with this id, and the cases it needs; repeatable
        #[arg(long = "case", value_name = "ID")]
        cases: Vec<String>,
        /// Run the cases in this process
        #[arg(long, hide = true, requires = "isolation")]
        here: bool,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Write the crate of a new adapter; it builds, passes its tests and is certified
    New(NewArgs),
    /// Try a library with a temporary home, an echo agent, and this terminal as a chat
    ///
    /// Prints the events of the adapter and the deliveries through it. Every sender is answered. Needs no model account
    /// and
    /// no running host.
    Try(TryArgs),
    /// Copy a library into the plugins folder and accept its bytes
    Add {
        /// The library
        file: PathBuf,
    },
    /// Remove a library from the plugins folder and forget its bytes
    Remove {
        /// Its id
        id: String,
    },
    /// Start an instance, also after restarts
    Enable {
        /// The instance
        instance: String,
    },
    /// Stop an instance, also after restarts
    Disable {
        /// The instance
        instance: String,
    },
    /// Show the addresses of an instance with their secrets: the link of a page, or the key of an API
    ///
    /// Short forms: `hermes-host INSTANCE link` and `hermes-host INSTANCE key`, optionally followed by `rotate`.
    Link {
        /// The instance, its plugin, or a unique beginning of either
        instance: String,
        /// Replace the generated secret; the old one becomes invalid
        #[arg(long)]
        rotate: bool,
    },
    /// Restart an instance from its current file
    Reload {
        /// The instance
        instance: String,
    },
}

#[derive(Debug, Args)]
pub(super) struct NewArgs {
    /// The name, such as my-chat; it determines the id of the adapter
    pub name: String,
    /// The folder of the crate [default: its name, in the working folder]
    #[arg(long, value_name = "DIR")]
    pub path: Option<PathBuf>,
    /// The source of the SDK: a checkout of hermes-host, or a git address with URL#TAG [default: the checkout in which
    /// this
    /// program was built]
    #[arg(long, value_name = "PATH|URL")]
    pub sdk: Option<String>,
}

#[derive(Debug, Args)]
pub(super) struct TryArgs {
    /// The library
    pub file: PathBuf,
    /// A key of its section, such as port=4000; the value is TOML, otherwise text; repeatable
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// Its `certify.toml`, for the keys under [config]; `--set` wins over it
    #[arg(long, value_name = "PATH")]
    pub sample: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub(super) enum PairingCommand {
    /// List open requests and grants
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Admit the sender who got this code
    Approve {
        /// The instance
        instance: String,
        /// The code
        code: String,
    },
    /// Revoke access
    Revoke {
        /// The instance
        instance: String,
        /// The user's id
        user: String,
    },
    /// Forget open requests and lockouts
    Clear {
        /// Only of this instance
        instance: Option<String>,
    },
}

#[derive(Debug, Subcommand)]
pub(super) enum ConfigCommand {
    /// Check the configuration and print every problem
    ///
    /// The schema of its library checks an adapter's own keys. Problems that appear only at start, such as an address
    /// in
    /// use, are shown by `adapter list`.
    Check,
    /// Show every effective value and its source
    Show {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Print the JSON Schema of plugins.toml
    Schema,
    /// Print a documented plugins.toml with every key and its default
    Sample,
}

#[derive(Debug, Subcommand)]
pub(super) enum SessionCommand {
    /// List conversations, newest first
    List {
        /// Include ended conversations
        #[arg(long)]
        all: bool,
        #[command(flatten)]
        shown: Listed,
    },
    /// Show one conversation
    Show {
        /// An id, a unique beginning of one, or a title
        session: String,
        /// Number of messages, counted from the end
        #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1000))]
        limit: u32,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Find messages
    Search {
        /// Words
        #[arg(required = true)]
        words: Vec<String>,
        /// Number of rows
        #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=100))]
        limit: u32,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Export one conversation
    Export {
        /// An id, a unique beginning of one, or a title
        session: String,
        /// json or markdown
        #[arg(long, default_value = "markdown", value_parser = ["json", "markdown"])]
        format: String,
        /// The file to write instead of the standard output; only its owner can read it
        #[arg(short, long, value_name = "FILE")]
        output: Option<PathBuf>,
    },
    /// End a conversation; the next message in its chat starts a new one
    End {
        /// An id, a unique beginning of one, or a title
        session: String,
    },
    /// Delete a conversation and its messages
    Delete {
        /// An id, a unique beginning of one, or a title
        session: String,
        /// Do not ask for confirmation
        #[arg(long)]
        yes: bool,
    },
}

#[derive(Debug, Subcommand)]
pub(super) enum OutboxCommand {
    /// List pending and failed deliveries, newest first
    List {
        /// Include settled deliveries
        #[arg(long)]
        all: bool,
        #[command(flatten)]
        shown: Listed,
    },
    /// Show one delivery with its parts
    Show {
        /// Its number
        delivery: i64,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Retry a delivery
    Retry {
        /// Its number
        delivery: i64,
    },
    /// Abandon a delivery
    Drop {
        /// Its number
        delivery: i64,
        /// A note for the record
        #[arg(long, default_value = "dropped by the operator")]
        why: String,
    },
}

#[derive(Debug, Subcommand)]
pub(super) enum ToolCommand {
    /// Judge a shell command by the policy of the `terminal` tool, without running it
    ///
    /// Prints the verdict and its reason. The working folder is assumed to be a new folder below the home of a user.
    /// Needs no host and no home. The exit code is 0 for both verdicts.
    Check {
        /// The command; `-` reads one JSON string per line from the standard input and prints one verdict per line
        #[arg(allow_hyphen_values = true)]
        command: String,
        /// Print JSON: {"asks": true, "why": "…"}
        #[arg(long)]
        json: bool,
    },
}

#[derive(Debug, Subcommand)]
pub(super) enum TaskCommand {
    /// List tasks, newest first
    List {
        /// Include ended tasks
        #[arg(long)]
        all: bool,
        #[command(flatten)]
        shown: Listed,
    },
    /// Show one task and its history
    Show {
        /// An id, or a unique beginning of one
        task: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Abandon a task: stop its work and notify its subscribers
    Cancel {
        /// An id, or a unique beginning of one
        task: String,
        /// A note for the record
        #[arg(long, default_value = "cancelled by the operator")]
        why: String,
    },
}
