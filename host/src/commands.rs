//! Slash commands: read, permitted, and turned into an order for the session's lane.
//! The table of all commands is [`hermes_core::commands`].

use hermes_agent::echo::TEST_WORDS;
use hermes_core::access::Tier;
use hermes_core::commands::{self, Command, CommandId, Parsed};
use hermes_core::session::is_dm;

use crate::dispatcher::{Arrived, Dispatcher, Found, place};
use crate::lane::{Act, Order};
use crate::store::Change;

const HELLO: &str = "Hello. Write to me, and the agent answers. `/help` lists what else you can do.";

impl Dispatcher {
    /// Reads an event as a command; `None` when it is words for the agent.
    pub(crate) fn command(&mut self, arrived: &Arrived, found: &Found) -> Option<Order> {
        let prefix = arrived.adapter.as_ref().map(|adapter| adapter.capabilities().command_prefix.clone());
        let text = &arrived.event.get().text;
        if !text.trim_start().starts_with('/') && prefix.as_deref().unwrap_or_default().is_empty() {
            return None;
        }
        let (act, changes, bypasses) = match commands::parse(text, prefix.as_deref().unwrap_or_default()) {
            Parsed::NotCommand => return None,
            // The echo runtime has words of its own for tests.
            Parsed::Unknown { name, .. } if self.is_test_word(&name) => return None,
            Parsed::Unknown { name, nearest } => (Act::Say(unknown(&name, nearest)), Vec::new(), true),
            Parsed::Command { spec, args } => match self.forbids(arrived, spec) {
                Some(words) => (Act::Say(words), Vec::new(), true),
                None => {
                    let (act, changes) = self.act(arrived, found, spec, &args);
                    (act, changes, spec.bypasses)
                }
            },
        };
        let place = place(
            arrived.instance.clone(),
            arrived.adapter.clone(),
            arrived.event.get(),
            found.session.clone(),
            arrived.id,
        );
        Some(Order { place, act, changes, bypasses })
    }

    fn is_test_word(&self, name: &str) -> bool {
        self.host.live().config.agent.test_words && TEST_WORDS.iter().any(|word| word.strip_prefix('/') == Some(name))
    }

    /// Says why somebody may not run a command here.
    fn forbids(&self, arrived: &Arrived, spec: &Command) -> Option<String> {
        let chat = &arrived.event.get().chat;
        if !spec.scope.includes(where_is(arrived)) {
            return Some(format!("/{} works in a direct message only.", spec.name));
        }
        let may = self.host.live().access.may_run(&arrived.instance, chat, arrived.event.tier(), spec);
        (!may).then(|| format!("/{} is for {}s of this host.", spec.name, spec.tier))
    }

    /// What a command does: what the lane has to do, and what changes with it.
    fn act(&mut self, arrived: &Arrived, found: &Found, spec: &Command, args: &str) -> (Act, Vec<Change>) {
        match spec.id {
            CommandId::Start => (Act::Say(HELLO.to_owned()), Vec::new()),
            CommandId::Help => (Act::Say(self.help(arrived, args)), Vec::new()),
            CommandId::Commands => (Act::Say(self.help(arrived, "")), Vec::new()),
            CommandId::New => {
                let (free, then) = self.free_key(found.key.stored());
                let mut changes =
                    vec![Change::EndSession { session: found.session.clone(), reason: "new".to_owned() }, free];
                if !args.is_empty() {
                    // A title needs its session at once; without one the next message begins it.
                    changes.extend(self.begin_titled(arrived, found.key.stored(), args));
                }
                (Act::End { then }, changes)
            }
            CommandId::Stop => (Act::Stop, Vec::new()),
            CommandId::Status => (Act::Describe, Vec::new()),
            CommandId::Whoami => (Act::Say(whoami(arrived, found)), Vec::new()),
            CommandId::Pair => {
                let (words, changes) = self.pair(arrived, args);
                (Act::Say(words), changes)
            }
            other => (Act::Say(format!("{other:?} is not available in this version.")), Vec::new()),
        }
    }

    fn help(&self, arrived: &Arrived, about: &str) -> String {
        let live = self.host.live();
        let (chat, tier) = (&arrived.event.get().chat, arrived.event.tier());
        match commands::parse(&format!("/{}", about.trim_start_matches('/')), "") {
            Parsed::Command { spec, .. } => commands::help_for(spec),
            Parsed::Unknown { name, nearest } => unknown(&name, nearest),
            Parsed::NotCommand => {
                commands::help(where_is(arrived), |command| live.access.may_run(&arrived.instance, chat, tier, command))
            }
        }
    }

    fn pair(&mut self, arrived: &Arrived, args: &str) -> (String, Vec<Change>) {
        let instance = &arrived.instance;
        let mut words = args.split_whitespace();
        match (words.next(), words.next()) {
            (Some("list"), None) => (self.open_requests(instance), Vec::new()),
            (Some("approve"), Some(code)) => {
                let by = format!("{instance}:{}", arrived.event.get().sender.id);
                let (changes, said) = self.approve(instance, code, &by);
                (said.unwrap_or_else(|why| why), changes)
            }
            (None, None) => {
                let (changes, said) = self.invite(instance);
                (said, changes)
            }
            _ => (
                "Use `/pair approve CODE`, `/pair list`, or `/pair` alone for a code to hand out.".to_owned(),
                Vec::new(),
            ),
        }
    }
}

fn where_is(arrived: &Arrived) -> commands::Place {
    if is_dm(&arrived.event.get().chat.kind) { commands::Place::Dm } else { commands::Place::Group }
}

fn unknown(name: &str, nearest: Option<&str>) -> String {
    match nearest {
        Some(nearest) => format!("There is no command /{name}. Did you mean `/{nearest}`?"),
        None => format!("There is no command /{name}. `/help` lists what there is."),
    }
}

fn whoami(arrived: &Arrived, found: &Found) -> String {
    let sender = &arrived.event.get().sender;
    let id = if sender.id.is_empty() { "(none)" } else { &sender.id };
    let may = match arrived.event.tier() {
        Tier::User => "user",
        Tier::Admin => "admin",
        Tier::Operator => "operator",
    };
    format!("- Instance: `{}`\n- Your id: `{id}`\n- You are: {may}\n- Conversation: `{}`", arrived.instance, found.key)
}
