//! The slash commands: one table, and how a text is read as one of them.
//!
//! Help, completion, platform menus and the reference all come from [`REGISTRY`].
//! What a command does is the shell's; whether somebody may run it is
//! [`crate::access::AccessPolicy::may_run`].

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

/// Which command, for the one `match` that runs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum CommandId {
    /// Says hello.
    Start,
    /// Explains commands.
    Help,
    /// Lists commands.
    Commands,
    /// Begins a new session.
    New,
    /// Ends the running turn.
    Stop,
    /// Chooses what happens to a message while a turn runs.
    Busy,
    /// Lets a message wait.
    Queue,
    /// Lets a message reach the running turn.
    Steer,
    /// Runs a turn beside the conversation.
    Background,
    /// Lists what runs.
    Agents,
    /// Approves what the agent asks to do.
    Approve,
    /// Denies it.
    Deny,
    /// Lets the agent do without asking what it would ask for.
    Yolo,
    /// Tells what is going on.
    Status,
    /// Tells who the sender is to this host.
    Whoami,
    /// Chooses who answers.
    Model,
    /// Answers the last message again.
    Retry,
    /// Takes back what was said last.
    Undo,
    /// Names the conversation.
    Title,
    /// Goes another way from here.
    Branch,
    /// Goes on from a summary.
    Compress,
    /// Lists conversations.
    Sessions,
    /// Goes on with another conversation.
    Resume,
    /// Hands the conversation back to the terminal.
    Return,
    /// Goes on with a conversation that the terminal offered.
    Claim,
    /// Tells what was spent.
    Usage,
    /// Chooses who the agent is.
    Personality,
    /// Chooses how much the model thinks.
    Reasoning,
    /// Tells for which profile the host works.
    Profile,
    /// Tells which version this is.
    Version,
    /// Reports for whoever looks for a fault.
    Debug,
    /// Lists, pauses and resumes adapters.
    Platform,
    /// Restarts the host.
    Restart,
    /// Chooses what is seen of tools on the way.
    Verbose,
    /// Chooses whether an answer ends with a line about itself.
    Footer,
    /// Lets strangers in.
    Pair,
    /// Says where the host may write unasked.
    Sethome,
    /// Shows or renames a topic.
    Topic,
    /// Moves the conversation from the terminal to a chat.
    Handoff,
    /// Leaves the terminal.
    Quit,
    /// Clears the terminal.
    Redraw,
    /// Chooses how the terminal shows that the agent works.
    Indicator,
}

/// One row of the table.
#[derive(Debug, PartialEq, Eq)]
pub struct Command {
    /// Which one.
    pub id: CommandId,
    /// Its name, without the slash.
    pub name: &'static str,
    /// Other names.
    pub aliases: &'static [&'static str],
    /// Arguments as a person reads them.
    pub args: &'static str,
    /// One line for help and menus.
    pub help: &'static str,
    /// Who may run it.
    pub tier: Tier,
    /// Whether it is answered while a turn runs.
    pub bypasses: bool,
    /// Where it may be run.
    pub scope: Scope,
    /// The config key that opens or closes it; `None`: it is always there.
    pub gate: Option<&'static str>,
}

/// Where a command may be run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Everywhere.
    Everywhere,
    /// In direct messages and the terminal: its answer is nobody else's business.
    Private,
    /// In the terminal only.
    Terminal,
}

/// Where somebody is when they ask for a command.
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
    /// Whether a command of this scope may be run here.
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
