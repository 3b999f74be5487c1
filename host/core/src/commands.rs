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
        help: "Explain the commands, or one of them",
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
        help: "List every command that you may run here",
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
        help: "Begin a new conversation; the old one is kept",
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
        help: "Stop what the agent is doing; waiting messages stay",
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
        help: "Let a message wait for its turn, whatever /busy says",
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
        help: "Let a message reach what the agent is doing right now",
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
        help: "Choose what a message does while the agent works",
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
        help: "Let the agent work on something beside this conversation",
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
        help: "List what the agent is doing for you and your tasks, or stop one of it",
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
        help: "Approve what the agent asks to do: once, for this conversation or for always",
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
        help: "Deny what the agent asks to do",
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
        help: "Let the agent act here without asking, or ask again",
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
        help: "Show this conversation and what is running",
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
        help: "Answer your last message again; the former answer is replaced",
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
        help: "Take back the last message and its answer, or several; redo brings them back",
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
        help: "Name this conversation, or show its name",
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
        help: "Go another way from here; the conversation so far is kept",
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
        help: "Go on from a summary of this conversation; the transcript is kept",
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
        help: "List your conversations, from wherever you began them",
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
        help: "Go on with one of your conversations here",
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
        help: "Hand this conversation back to the terminal that it came from",
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
        help: "Go on here with the conversation that the terminal offered with this code",
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
        help: "Show what this conversation cost, and all of yours",
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
        help: "Show your id here and what you may do",
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
        help: "Choose the model that answers, or list what there is",
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
        help: "Choose who the agent is here, or list whom there is",
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
        help: "How much the model thinks, and whether you see it",
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
        help: "Show the profile that this host works for",
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
        help: "Show which version this is",
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
        help: "Show a report for whoever looks for a fault; no secrets",
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
        help: "List adapters, take one off or bring it back",
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
        help: "Restart the host; running turns are finished first",
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
        help: "Choose what is shown of tools on the way",
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
        help: "End answers with their model, tokens and time",
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
        help: "Let somebody in: approve their code, or list open ones",
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
        help: "Make this chat the one to which I may write unasked",
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
        help: "Show this topic, or give it another name",
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
        help: "Go on in the home channel or a chat of an instance, or in a chat by a code",
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
        help: "Choose the sign that shows that the agent works",
        tier: Tier::User,
        bypasses: true,
        scope: Scope::Terminal,
        gate: None,
    },
];
