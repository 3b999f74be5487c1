//! The slash commands: the table of commands and the parser.
//!
//! Help, completion, platform menus and the reference are all generated from [`REGISTRY`]. The host crate
//! implements the commands; [`crate::access::AccessPolicy::may_run`] decides who may run them.

mod gates;
mod help;
mod parse;
mod values;

pub use gates::{Gates, gate_keys};
pub use help::{help_for, help_lines, menu, menu_for, pages, reference};
pub use parse::{Parsed, names_an_account, nearest, parse};
pub use values::values;

use crate::access::Tier;

#[cfg(test)]
mod tests;

/// Id of a command, for the `match` that runs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum CommandId {
    /// Greets the user.
    Start,
    /// Explains commands.
    Help,
    /// Lists commands.
    Commands,
    /// Begins a new session.
    New,
    /// Stops the running turn.
    Stop,
    /// Selects the handling of messages that arrive during a turn.
    Busy,
    /// Queues a message.
    Queue,
    /// Passes a message to the running turn.
    Steer,
    /// Runs a turn in the background.
    Background,
    /// Lists running work.
    Agents,
    /// Approves an action of the agent.
    Approve,
    /// Denies an action of the agent.
    Deny,
    /// Lets the agent act without approvals.
    Yolo,
    /// Shows the state of the conversation and the host.
    Status,
    /// Shows how the host identifies the sender.
    Whoami,
    /// Selects the model.
    Model,
    /// Answers the last message again.
    Retry,
    /// Removes the last exchange.
    Undo,
    /// Names the conversation.
    Title,
    /// Branches the conversation at this point.
    Branch,
    /// Replaces the history by a summary.
    Compress,
    /// Lists conversations.
    Sessions,
    /// Continues another conversation.
    Resume,
    /// Returns the conversation to the terminal.
    Return,
    /// Continues a conversation that the terminal offers.
    Claim,
    /// Shows usage.
    Usage,
    /// Selects the personality of the agent.
    Personality,
    /// Selects the reasoning effort of the model.
    Reasoning,
    /// Shows the profile of the host.
    Profile,
    /// Shows the version.
    Version,
    /// Creates a report for debugging.
    Debug,
    /// Lists, pauses and resumes adapters.
    Platform,
    /// Restarts the host.
    Restart,
    /// Selects the progress display of tools.
    Verbose,
    /// Switches the footer of answers on or off.
    Footer,
    /// Grants access to new users.
    Pair,
    /// Selects the chat for unsolicited messages of the host.
    Sethome,
    /// Shows or renames a topic.
    Topic,
    /// Moves the conversation from the terminal to a chat.
    Handoff,
    /// Leaves the terminal.
    Quit,
    /// Clears the terminal.
    Redraw,
    /// Selects the activity indicator of the terminal.
    Indicator,
}

/// A row of the command table.
#[derive(Debug, PartialEq, Eq)]
pub struct Command {
    /// Id of the command.
    pub id: CommandId,
    /// Name without the slash.
    pub name: &'static str,
    /// Other names.
    pub aliases: &'static [&'static str],
    /// Arguments, as shown to people.
    pub args: &'static str,
    /// One line for help and menus.
    pub help: &'static str,
    /// Lowest tier that may run the command.
    pub tier: Tier,
    /// Answers at once, also while a turn runs.
    pub bypasses: bool,
    /// Places in which the command may be run.
    pub scope: Scope,
    /// Config key that enables the command; `None` if it is always enabled.
    pub gate: Option<&'static str>,
}

/// Places in which a command may be run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Everywhere.
    Everywhere,
    /// Direct messages and the terminal, because the answer is private.
    Private,
    /// The terminal only.
    Terminal,
}

/// Place from which a sender runs a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The terminal.
    Terminal,
    /// A direct message.
    Dm,
    /// Any other chat.
    Group,
}

impl Scope {
    /// Returns true if a command of this scope may be run at `place`.
    pub fn includes(self, place: Place) -> bool {
        match self {
            Self::Everywhere => true,
            Self::Private => place != Place::Group,
            Self::Terminal => place == Place::Terminal,
        }
    }
}

impl Command {
    /// Returns the row of a command.
    pub fn of(id: CommandId) -> &'static Self {
        REGISTRY.iter().find(|command| command.id == id).expect("every id has its row, as a test shows")
    }
}

/// All commands, in the order of help and menus.
pub static REGISTRY: &[Command] = &[
    Command {
        id: CommandId::Start,
        name: "start",
        aliases: &[],
        args: "",
        help: "Say hello",
        tier: Tier::User,
        bypasses: true,
        scope: Scope::Everywhere,
        gate: None,
    },
    Command {
        id: CommandId::Help,
        name: "help",
        aliases: &[],
        args: "[command]",
        help: "Show help for all commands or for one",
        tier: Tier::User,
        bypasses: true,
        scope: Scope::Everywhere,
        gate: None,
    },
    Command {
        id: CommandId::Commands,
        name: "commands",
        aliases: &[],
        args: "[page]",
        help: "List the commands that you can use here",
        tier: Tier::User,
        bypasses: true,
        scope: Scope::Everywhere,
        gate: None,
    },
    Command {
        id: CommandId::New,
        name: "new",
        aliases: &["reset"],
        args: "[title]",
        help: "Start a new conversation; the old one is kept",
        tier: Tier::User,
        bypasses: true,
        scope: Scope::Everywhere,
        gate: None,
    },
    Command {
        id: CommandId::Stop,
        name: "stop",
        aliases: &[],
        args: "",
        help: "Stop the running turn; waiting messages stay queued",
        tier: Tier::User,
        bypasses: true,
        scope: Scope::Everywhere,
        gate: None,
    },
    Command {
        id: CommandId::Queue,
        name: "queue",
        aliases: &["q"],
        args: "TEXT",
        help: "Queue a message behind the running turn, whatever /busy says",
        tier: Tier::User,
        bypasses: true,
        scope: Scope::Everywhere,
        gate: None,
    },
    Command {
        id: CommandId::Steer,
        name: "steer",
        aliases: &[],
        args: "TEXT",
        help: "Send a message into the running turn",
        tier: Tier::User,
        bypasses: true,
        scope: Scope::Everywhere,
        gate: None,
    },
    Command {
        id: CommandId::Busy,
        name: "busy",
        aliases: &[],
        args: "[interrupt | queue | steer | reset]",
        help: "Set what a new message does during a turn",
        tier: Tier::User,
        bypasses: true,
        scope: Scope::Everywhere,
        gate: None,
    },
    Command {
        id: CommandId::Background,
        name: "background",
        aliases: &["bg"],
        args: "TEXT",
        help: "Run a turn in the background",
        tier: Tier::User,
        bypasses: true,
        scope: Scope::Everywhere,
        gate: Some("commands.background"),
    },
    Command {
        id: CommandId::Agents,
        name: "agents",
        aliases: &["tasks"],
        args: "[stop NUMBER | ID]",
        help: "List your running turns and tasks, or stop one",
        tier: Tier::User,
        bypasses: true,
        scope: Scope::Everywhere,
        gate: None,
    },
    Command {
        id: CommandId::Approve,
        name: "approve",
        aliases: &[],
        args: "[all] [session | always | forget]",
        help: "Approve the requested action: once, for this conversation or always",
        tier: Tier::User,
        bypasses: true,
        scope: Scope::Everywhere,
        gate: None,
    },
    Command {
        id: CommandId::Deny,
        name: "deny",
        aliases: &[],
        args: "[all] [why]",
        help: "Deny the requested action",
        tier: Tier::User,
        bypasses: true,
        scope: Scope::Everywhere,
        gate: None,
    },
    Command {
        id: CommandId::Yolo,
        name: "yolo",
        aliases: &[],
        args: "[on | off | status]",
        help: "Turn approvals off or on in this conversation",
        tier: Tier::Admin,
        bypasses: true,
        scope: Scope::Everywhere,
        gate: None,
    },
    Command {
        id: CommandId::Status,
        name: "status",
        aliases: &[],
        args: "",
        help: "Show the status of this conversation",
        tier: Tier::User,
        bypasses: true,
        scope: Scope::Everywhere,
        gate: None,
    },
    Command {
        id: CommandId::Retry,
        name: "retry",
        aliases: &[],
        args: "",
        help: "Answer your last message again and replace the previous answer",
        tier: Tier::User,
        bypasses: false,
        scope: Scope::Everywhere,
        gate: None,
    },
    Command {
        id: CommandId::Undo,
        name: "undo",
        aliases: &[],
        args: "[number | redo]",
        help: "Remove your last messages and their answers; redo restores them",
        tier: Tier::User,
        bypasses: false,
        scope: Scope::Everywhere,
        gate: None,
    },
    Command {
        id: CommandId::Title,
        name: "title",
        aliases: &[],
        args: "[text]",
        help: "Show or set the title of this conversation",
        tier: Tier::User,
        bypasses: true,
        scope: Scope::Everywhere,
        gate: None,
    },
    Command {
        id: CommandId::Branch,
        name: "branch",
        aliases: &["fork"],
        args: "[title]",
        help: "Continue in a new branch; the original conversation is kept",
        tier: Tier::User,
        bypasses: false,
        scope: Scope::Everywhere,
        gate: None,
    },
    Command {
        id: CommandId::Compress,
        name: "compress",
        aliases: &["compact"],
        args: "[what matters]",
        help: "Shorten this conversation to a summary; the transcript is kept",
        tier: Tier::User,
        bypasses: false,
        scope: Scope::Everywhere,
        gate: None,
    },
    Command {
        id: CommandId::Sessions,
        name: "sessions",
        aliases: &[],
        args: "[page]",
        help: "List your conversations from all chats",
        tier: Tier::User,
        bypasses: true,
        scope: Scope::Private,
        gate: None,
    },
    Command {
        id: CommandId::Resume,
        name: "resume",
        aliases: &[],
        args: "<number | title | id>",
        help: "Continue one of your conversations here",
        tier: Tier::User,
        bypasses: false,
        scope: Scope::Everywhere,
        gate: None,
    },
    Command {
        id: CommandId::Return,
        name: "return",
        aliases: &[],
        args: "",
        help: "Return this conversation to the terminal that it came from",
        tier: Tier::User,
        bypasses: false,
        scope: Scope::Everywhere,
        gate: None,
    },
    Command {
        id: CommandId::Claim,
        name: "claim",
        aliases: &[],
        args: "CODE",
        help: "Continue a conversation here with a code from the terminal",
        tier: Tier::User,
        bypasses: false,
        scope: Scope::Everywhere,
        gate: None,
    },
    Command {
        id: CommandId::Usage,
        name: "usage",
        aliases: &[],
        args: "",
        help: "Show the token usage of this conversation and of all yours",
        tier: Tier::User,
        bypasses: true,
        scope: Scope::Everywhere,
        gate: None,
    },
    Command {
        id: CommandId::Whoami,
        name: "whoami",
        aliases: &[],
        args: "",
        help: "Show your id and your permissions here",
        tier: Tier::User,
        bypasses: true,
        scope: Scope::Everywhere,
        gate: None,
    },
    Command {
        id: CommandId::Model,
        name: "model",
        aliases: &[],
        args: "[name | reset] [--global]",
        help: "Choose the model, or list the models",
        tier: Tier::User,
        bypasses: true,
        scope: Scope::Everywhere,
        gate: None,
    },
    Command {
        id: CommandId::Personality,
        name: "personality",
        aliases: &[],
        args: "[name | none]",
        help: "Choose the agent's personality here, or list them",
        tier: Tier::User,
        bypasses: true,
        scope: Scope::Everywhere,
        gate: None,
    },
    Command {
        id: CommandId::Reasoning,
        name: "reasoning",
        aliases: &[],
        args: "[none | minimal | low | medium | high | xhigh | show | hide | reset]",
        help: "Set the reasoning effort, and show or hide the reasoning",
        tier: Tier::User,
        bypasses: true,
        scope: Scope::Everywhere,
        gate: None,
    },
    Command {
        id: CommandId::Profile,
        name: "profile",
        aliases: &[],
        args: "",
        help: "Show the profile of this host",
        tier: Tier::User,
        bypasses: true,
        scope: Scope::Everywhere,
        gate: None,
    },
    Command {
        id: CommandId::Version,
        name: "version",
        aliases: &["v"],
        args: "",
        help: "Show the version",
        tier: Tier::User,
        bypasses: true,
        scope: Scope::Everywhere,
        gate: None,
    },
    Command {
        id: CommandId::Debug,
        name: "debug",
        aliases: &[],
        args: "",
        help: "Show a debug report without secrets",
        tier: Tier::Admin,
        bypasses: true,
        scope: Scope::Private,
        gate: Some("commands.debug"),
    },
    Command {
        id: CommandId::Platform,
        name: "platform",
        aliases: &[],
        args: "[list | pause NAME | resume NAME]",
        help: "List adapters, pause one or resume it",
        tier: Tier::Admin,
        bypasses: true,
        scope: Scope::Everywhere,
        gate: Some("commands.platform"),
    },
    Command {
        id: CommandId::Restart,
        name: "restart",
        aliases: &[],
        args: "",
        help: "Restart the host after the running turns have finished",
        tier: Tier::Admin,
        bypasses: true,
        scope: Scope::Everywhere,
        gate: Some("commands.restart"),
    },
    Command {
        id: CommandId::Verbose,
        name: "verbose",
        aliases: &[],
        args: "[off | new | all | verbose | log]",
        help: "Choose how tool calls are shown during a turn",
        tier: Tier::User,
        bypasses: true,
        scope: Scope::Everywhere,
        gate: Some("commands.verbose"),
    },
    Command {
        id: CommandId::Footer,
        name: "footer",
        aliases: &[],
        args: "[on | off | status]",
        help: "Show model, tokens and time below each answer",
        tier: Tier::User,
        bypasses: true,
        scope: Scope::Everywhere,
        gate: None,
    },
    Command {
        id: CommandId::Pair,
        name: "pair",
        aliases: &[],
        args: "[approve CODE | list]",
        help: "Create an invitation, approve a pairing code or list open ones",
        tier: Tier::Admin,
        bypasses: true,
        scope: Scope::Private,
        gate: None,
    },
    Command {
        id: CommandId::Sethome,
        name: "sethome",
        aliases: &["set-home"],
        args: "[off]",
        help: "Make this chat the home channel for notices",
        tier: Tier::Admin,
        bypasses: true,
        scope: Scope::Everywhere,
        gate: None,
    },
    Command {
        id: CommandId::Topic,
        name: "topic",
        aliases: &[],
        args: "[name]",
        help: "Show or rename this topic",
        tier: Tier::User,
        bypasses: true,
        scope: Scope::Everywhere,
        gate: None,
    },
    Command {
        id: CommandId::Handoff,
        name: "handoff",
        aliases: &[],
        args: "[INSTANCE[:CHAT]]",
        help: "Move this conversation to a chat, or get a code for one",
        tier: Tier::User,
        bypasses: true,
        scope: Scope::Terminal,
        gate: None,
    },
    Command {
        id: CommandId::Quit,
        name: "quit",
        aliases: &["exit"],
        args: "",
        help: "Leave the terminal; the conversation is kept",
        tier: Tier::User,
        bypasses: true,
        scope: Scope::Terminal,
        gate: None,
    },
    Command {
        id: CommandId::Redraw,
        name: "redraw",
        aliases: &["clear"],
        args: "",
        help: "Clear the screen",
        tier: Tier::User,
        bypasses: true,
        scope: Scope::Terminal,
        gate: None,
    },
    Command {
        id: CommandId::Indicator,
        name: "indicator",
        aliases: &[],
        args: "[dots | arrow | none]",
        help: "Choose the activity indicator",
        tier: Tier::User,
        bypasses: true,
        scope: Scope::Terminal,
        gate: None,
    },
];
