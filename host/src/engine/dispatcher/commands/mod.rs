//! Slash commands: parsed, checked, and turned into an order for the session's lane. [`hermes_core::commands`] has the
//! table of all commands.
//!
//! [`Dispatcher::act`] dispatches every command; its function is in the file of its group: [`session`] for the
//! conversation itself, [`busy`] for its running turn, [`agents`] for background work, [`settings`] for its behaviour,
//! [`delivery`] for destinations, [`host`] for the host and its users.

pub(crate) mod agents;
pub(crate) mod asks;
pub(crate) mod busy;
mod confirm;
mod delivery;
mod host;
mod platform;
mod report;
mod session;
mod settings;

use hermes_agent::echo::TEST_WORDS;
use hermes_core::commands::{self, Command, CommandId, Parsed};
use hermes_core::session::is_dm;

use busy::ToAgent;

use crate::engine::dispatcher::{Arrived, Dispatcher, Found, place};
use crate::engine::session::{Act, Order};
use hermes_loader::terminal;
use hermes_store::Change;

/// An allowed command, as its function receives it.
pub(crate) struct Asked<'a> {
    /// The event of the command.
    pub(crate) arrived: &'a Arrived,
    /// The session of the command.
    pub(crate) found: &'a Found,
    /// The text after the name, trimmed.
    pub(crate) args: &'a str,
}

/// The effect of a command: the work of the lane, and the changes in the same transaction.
pub(crate) struct Deed {
    act: Act,
    changes: Vec<Change>,
}

impl Deed {
    /// Creates a deed that only replies.
    fn say(words: impl Into<String>) -> Self {
        Act::Say(words.into()).into()
    }

    /// Creates a deed that only refuses.
    fn refuse(words: impl Into<String>) -> Self {
        Act::Refuse(words.into()).into()
    }
}

impl From<Act> for Deed {
    fn from(act: Act) -> Self {
        Self { act, changes: Vec::new() }
    }
}

/// The meaning of an event.
pub(crate) enum Said {
    /// Text for the agent.
    Words,
    /// Text for the agent, with a busy mode.
    ToAgent(ToAgent),
    /// A command.
    Order(Box<Order>),
}

impl Dispatcher {
    /// Reads the meaning of an event.
    pub(crate) fn read(&mut self, arrived: &Arrived, found: &Found) -> Said {
        // A forwarded text has another author: it neither commands nor answers a question.
        if arrived.event.get().forwarded.is_some() {
            return Said::Words;
        }
        if let Some(order) = self.answered_in_words(arrived, found) {
            return Said::Order(order);
        }
        let prefix = arrived.adapter.as_ref().map(|adapter| adapter.capabilities().command_prefix.clone());
        let text = &arrived.event.get().text;
        if !text.trim_start().starts_with('/') && prefix.as_deref().unwrap_or_default().is_empty() {
            return Said::Words;
        }
        let parsed = commands::parse(text, prefix.as_deref().unwrap_or_default(), &self.host.live().gates);
        let (Deed { act, changes }, bypasses) = match parsed {
            Parsed::NotCommand => return Said::Words,
            // The echo runtime has its own test words.
            Parsed::Unknown { name, .. } if self.is_test_word(&name) => return Said::Words,
            Parsed::Unknown { name, nearest } => (Deed::refuse(unknown(&name, nearest)), true),
            Parsed::Command { spec, args } => match self.forbids(arrived, spec) {
                Some(words) => (Deed::refuse(words), true),
                None if let Some(to_agent) = ToAgent::read(spec.id, &args) => match to_agent.aside {
                    true if let Some(why) = self.forbids_aside(arrived) => (Deed::refuse(why), true),
                    _ => return Said::ToAgent(to_agent),
                },
                None => (self.act(spec.id, &Asked { arrived, found, args: &args }), spec.bypasses),
            },
        };
        let place = place(
            arrived.instance.clone(),
            arrived.adapter.clone(),
            arrived.event.get(),
            found.session.clone(),
            arrived.id,
        );
        Said::Order(Box::new(Order { place, act, changes, bypasses }))
    }

    fn is_test_word(&self, name: &str) -> bool {
        self.host.live().config.agent.test_words && TEST_WORDS.iter().any(|word| word.strip_prefix('/') == Some(name))
    }

    /// Returns the reason for which the sender may not run a command here.
    fn forbids(&self, arrived: &Arrived, spec: &Command) -> Option<String> {
        let chat = &arrived.event.get().chat;
        if !spec.scope.includes(where_is(arrived)) {
            let name = spec.name;
            return Some(match spec.scope {
                commands::Scope::Terminal => format!("/{name} works only in the terminal (`hermes-host chat`)."),
                _ => format!("/{name} works only in a direct message."),
            });
        }
        let may = self.host.live().access.may_run(&arrived.instance, chat, arrived.event.tier(), spec);
        (!may).then(|| format!("/{} is only for {}s of this host.", spec.name, spec.tier))
    }

    /// Runs a command.
    fn act(&mut self, id: CommandId, asked: &Asked<'_>) -> Deed {
        match id {
            CommandId::Start => self.start(),
            CommandId::Help => self.help(asked),
            CommandId::Commands => self.commands(asked),
            CommandId::New => self.new_session(asked),
            CommandId::Stop => self.stop(asked),
            CommandId::Busy => self.busy(asked),
            CommandId::Agents => self.agents(asked),
            CommandId::Approve => self.approve_ask(asked),
            CommandId::Deny => self.deny_ask(asked),
            CommandId::Yolo => self.yolo(asked),
            CommandId::Queue | CommandId::Steer | CommandId::Background => self.without_words(id),
            CommandId::Status => self.status(),
            CommandId::Whoami => self.whoami(asked),
            CommandId::Model => self.model(asked),
            CommandId::Retry => self.retry(asked),
            CommandId::Undo => self.undo(asked),
            CommandId::Title => self.title(asked),
            CommandId::Branch => self.branch(asked),
            CommandId::Compress => self.compress(asked),
            CommandId::Sessions => self.sessions(asked),
            CommandId::Resume => self.resume_session(asked),
            CommandId::Return => self.hand_back(asked),
            CommandId::Claim => self.claim(asked),
            CommandId::Usage => self.usage(asked),
            CommandId::Personality => self.personality(asked),
            CommandId::Reasoning => self.reasoning(asked),
            CommandId::Profile => self.profile(),
            CommandId::Version => self.version(),
            CommandId::Debug => self.debug(),
            CommandId::Platform => self.platform(asked),
            CommandId::Restart => self.restart(asked),
            CommandId::Verbose => self.verbose(asked),
            CommandId::Footer => self.footer(asked),
            CommandId::Pair => self.pair(asked),
            CommandId::Sethome => self.sethome(asked),
            CommandId::Topic => self.topic(asked),
            CommandId::Handoff | CommandId::Quit | CommandId::Redraw | CommandId::Indicator => {
                Deed::refuse("This command works only in an interactive terminal.")
            }
            other => Deed::refuse(format!("{other:?} is not available in this version.")),
        }
    }
}

/// Returns the kind of place from which a command comes.
fn where_is(arrived: &Arrived) -> commands::Place {
    match is_dm(&arrived.event.get().chat.kind) {
        _ if *arrived.instance == *terminal::INSTANCE => commands::Place::Terminal,
        true => commands::Place::Dm,
        false => commands::Place::Group,
    }
}

/// Returns the reply to an unknown command.
fn unknown(name: &str, nearest: Option<&str>) -> String {
    match nearest {
        Some(nearest) => format!("There is no command /{name}. Did you mean `/{nearest}`?"),
        None => format!("There is no command /{name}. `/help` lists the commands."),
    }
}
