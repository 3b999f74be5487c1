//! The arguments of the command line.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

/// Sits between chat platforms and an AI agent: every platform an adapter, every reply delivered.
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
    /// Talk to the agent in this terminal, or get one answer for a script
    ///
    /// Attaches to the running host; without one it runs a host without adapters in this process, until `hermes-host
    /// run` takes over. `/help` lists commands, Ctrl-C stops the agent, `/quit` or Ctrl-D leaves; a backslash or
    /// Alt-Enter goes on in another line. With -m, or when the standard input is no terminal, only the answer is
    /// printed, and the exit code says whether there is one.
    Chat(ChatArgs),
    /// Show the host, its adapters and its queues
    Status {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Stop the host: running turns are finished first
    Stop,
    /// Restart the host: running turns are finished first
    ///
    /// A host that a service manager runs ends with 75 and is started again by that. Any other one starts itself again in
    /// the same process, with the arguments of its `run`. A configuration that would not start is refused, and the host
    /// goes on.
    Restart,
    /// Take no new events and finish what runs; the host stays up
    Drain {
        /// Take events again
        #[arg(long)]
        undo: bool,
    },
    /// Read the configuration again
    Reload,
    /// Deliver a text through the running host's outbox
    Send(SendArgs),
    /// Adapter libraries and instances
    #[command(subcommand)]
    Adapter(AdapterCommand),
    /// Strangers who asked for access, and who got it
    #[command(subcommand)]
    Pairing(PairingCommand),
    /// The configuration
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Conversations
    #[command(subcommand)]
    Session(SessionCommand),
    /// What is owed, and what could not be delivered
    #[command(subcommand)]
    Outbox(OutboxCommand),
    /// Work that has a name and a state: tasks of the agent, and what it does in the background
    #[command(subcommand)]
    Task(TaskCommand),
    /// Hand a conversation over to a chat: it goes on in the home channel of an instance
    Handoff(HandoffArgs),
    /// Tools of the agent
    #[command(subcommand)]
    Tool(ToolCommand),
    /// Print a completion script
    Completions {
        /// For which shell: bash, zsh or fish
        #[arg(value_parser = shell)]
        shell: clap_complete::Shell,
    },
    /// Check whether the host would start; run by a host that is to be restarted
    #[command(hide = true)]
    WouldStart,
    /// The process of one adapter; started by the host
    #[command(hide = true)]
    AdapterRunner {
        /// What the host hands over.
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
    /// The subcommand, if there is one.
    #[command(subcommand)]
    pub command: Option<HandoffCommand>,
    /// An id, a unique beginning of one, or a title
    #[arg(required = true)]
    pub session: Option<String>,
    /// The instance, or a plugin that has one, for its home channel; INSTANCE:CHAT for another chat
    #[arg(required = true)]
    pub instance: Option<String>,
    /// How many seconds to wait for the end of it
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(0..=300))]
    pub wait: u64,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Subcommand)]
pub(super) enum HandoffCommand {
    /// Offer a conversation to whoever sends its code in a chat, with /claim
    Offer(OneSession),
    /// List conversations that are on their way, the latest first
    List {
        /// Those that arrived, or stayed, too
        #[arg(long)]
        all: bool,
        #[command(flatten)]
        shown: Listed,
    },
    /// Say how one conversation stands
    Show(OneSession),
    /// Give a handoff up: the conversation stays where it was
    Cancel(OneSession),
}

// A doc comment on these two structures would be shown as help.

#[derive(Debug, Args)]
pub(super) struct Listed {
    /// How many
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
    /// Take over from a host that runs in the same home
    #[arg(long)]
    pub replace: bool,
}

#[derive(Debug, Args)]
pub(super) struct ChatArgs {
    /// Go on with this conversation
    #[arg(long, value_name = "ID|TITLE")]
    pub resume: Option<String>,
    /// Send this message, print the answer and exit; piped input goes below it, and `-` sends the input alone
    #[arg(short, long, value_name = "TEXT", allow_hyphen_values = true)]
    pub message: Option<String>,
}

#[derive(Debug, Args)]
pub(super) struct SendArgs {
    /// INSTANCE (its home channel), INSTANCE:CHAT, INSTANCE:CHAT:THREAD or INSTANCE:@NAME
    pub target: String,
    /// The text, in markdown; - reads it from the standard input
    #[arg(allow_hyphen_values = true)]
    pub text: String,
    /// A file to send with it
    #[arg(long, value_name = "PATH")]
    pub file: Option<PathBuf>,
    /// Let the agent know: the text also stands in the transcript of that chat's session
    #[arg(long)]
    pub mirror: bool,
    /// Wait for its receipt, for 60 s or SECONDS: 0 means delivered, 1 refused or given up, 3 not known yet
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, default_missing_value = "60", require_equals = true)]
    pub wait: Option<u64>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Subcommand)]
pub(super) enum AdapterCommand {
    /// List instances, and libraries that no section asks for
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Say what a library is and asks for, without opening it
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
    /// Put a library to the test: every case of the conformance lists, in this process's children, in both isolations
    Certify {
        /// The library
        file: PathBuf,
        /// Its `certify.toml`: a sample configuration, and the stage that plays its platform
        #[arg(long, value_name = "PATH")]
        sample: Option<PathBuf>,
        /// Only inside the host's process, or only in a process of its own
        #[arg(long, value_name = "ISOLATION", value_parser = ["in-process", "process"])]
        isolation: Option<String>,
        /// Only the case of this id, and what it needs; may be given several times
        #[arg(long = "case", value_name = "ID")]
        cases: Vec<String>,
        /// Run it in this very process
        #[arg(long, hide = true, requires = "isolation")]
        here: bool,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Write a crate to begin an adapter with: it builds, passes its tests and is certified as it is
    New(NewArgs),
    /// Try a library out: a home that is thrown away, an agent that only repeats, and this terminal as a chat
    ///
    /// Shows what the adapter hears and what is sent through it. Whoever can write to it is answered. Needs no account
    /// of a model, and no host that runs.
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
    /// Start an instance and keep it started
    Enable {
        /// The instance
        instance: String,
    },
    /// Stop an instance and keep it stopped
    Disable {
        /// The instance
        instance: String,
    },
    /// Show the addresses of an instance with their secrets: the link of a page, the key of an API
    ///
    /// Also written `hermes-host INSTANCE link` and `hermes-host INSTANCE key`, with `rotate` behind it.
    Link {
        /// The instance, its plugin, or a unique beginning of either
        instance: String,
        /// Replace the secret that the adapter made; the former one is no longer valid
        #[arg(long)]
        rotate: bool,
    },
    /// Stop an instance and start it from the file that lies there
    Reload {
        /// The instance
        instance: String,
    },
}

#[derive(Debug, Args)]
pub(super) struct NewArgs {
    /// What it is called, such as my-chat; the adapter's id follows from it
    pub name: String,
    /// The folder of the crate [default: its name, in the working folder]
    #[arg(long, value_name = "DIR")]
    pub path: Option<PathBuf>,
    /// Where it has the SDK from: a checkout of hermes-host, or a git address with URL#TAG [default: the checkout that
    /// this program was built in]
    #[arg(long, value_name = "PATH|URL")]
    pub sdk: Option<String>,
}

#[derive(Debug, Args)]
pub(super) struct TryArgs {
    /// The library
    pub file: PathBuf,
    /// A key of its section, such as port=4000; the value is TOML, or else a text. Several times for several keys
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
    /// Admit who was shown this code
    Approve {
        /// The instance
        instance: String,
        /// The code
        code: String,
    },
    /// Take access back
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
    /// Check everything; all problems are printed at once
    ///
    /// An adapter's own keys are checked by the schema of its library. What only the adapter itself can judge, such as
    /// whether an address can be used, it says when it is started: `adapter list` shows it.
    Check,
    /// Show every effective value and where it comes from
    Show {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Print the JSON Schema of plugins.toml
    Schema,
    /// Print a documented plugins.toml with every key and default
    Sample,
}

#[derive(Debug, Subcommand)]
pub(super) enum SessionCommand {
    /// List conversations, the latest first
    List {
        /// Ended ones too
        #[arg(long)]
        all: bool,
        #[command(flatten)]
        shown: Listed,
    },
    /// Show one conversation
    Show {
        /// An id, a unique beginning of one, or a title
        session: String,
        /// How many messages, from the end
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
        /// How many
        #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=100))]
        limit: u32,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Write out one conversation as a whole
    Export {
        /// An id, a unique beginning of one, or a title
        session: String,
        /// json or markdown
        #[arg(long, default_value = "markdown", value_parser = ["json", "markdown"])]
        format: String,
        /// Into this file instead of the standard output; only its owner can read it
        #[arg(short, long, value_name = "FILE")]
        output: Option<PathBuf>,
    },
    /// End a conversation; its chat begins anew
    End {
        /// An id, a unique beginning of one, or a title
        session: String,
    },
    /// Delete a conversation and its messages
    Delete {
        /// An id, a unique beginning of one, or a title
        session: String,
        /// Do it without asking
        #[arg(long)]
        yes: bool,
    },
}

#[derive(Debug, Subcommand)]
pub(super) enum OutboxCommand {
    /// List what is owed and what was given up, the latest first
    List {
        /// Settled ones too
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
    /// Try a delivery anew
    Retry {
        /// Its number
        delivery: i64,
    },
    /// Give a delivery up
    Drop {
        /// Its number
        delivery: i64,
        /// What to write beside it
        #[arg(long, default_value = "dropped by the operator")]
        why: String,
    },
}

#[derive(Debug, Subcommand)]
pub(super) enum ToolCommand {
    /// Judge a shell command by the policy of the `terminal` tool, without running it
    ///
    /// Prints whether the command needs approval, and the reason. The working folder is assumed to be a new folder below
    /// the home of a user. Needs no host and no home. The exit code is 0 for both verdicts.
    Check {
        /// The command; - reads commands from the standard input, one JSON string a line, and prints one verdict a line
        #[arg(allow_hyphen_values = true)]
        command: String,
        /// Print JSON: {"asks": true, "why": "…"}
        #[arg(long)]
        json: bool,
    },
}

#[derive(Debug, Subcommand)]
pub(super) enum TaskCommand {
    /// List tasks, the latest first
    List {
        /// Those that ended too
        #[arg(long)]
        all: bool,
        #[command(flatten)]
        shown: Listed,
    },
    /// Show one task and what happened to it
    Show {
        /// An id, or a unique beginning of one
        task: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Give a task up: what the host does for it is stopped, and whoever hears of it is told
    Cancel {
        /// An id, or a unique beginning of one
        task: String,
        /// What to write beside it
        #[arg(long, default_value = "cancelled by the operator")]
        why: String,
    },
}
