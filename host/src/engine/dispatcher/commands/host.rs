//! Commands about the host and its users.

use hermes_core::access::Tier;
use hermes_core::commands::{self, Parsed};
use hermes_core::session::MAIN_PROFILE;

use super::{Asked, Deed, unknown, where_is};
use crate::engine::dispatcher::Dispatcher;
use crate::engine::reply::render;
use crate::engine::restart_notice;
use crate::engine::session::Act;
use hermes_core::text::echo;
use hermes_store::Change;

/// Returns the version and the target of the build.
pub(super) fn version() -> String {
    format!("hermes-host {} ({} {})", env!("CARGO_PKG_VERSION"), std::env::consts::OS, std::env::consts::ARCH)
}

const HELLO: &str = "Hello! Send me a message and the agent answers. `/help` lists the commands.";

impl Dispatcher {
    /// `/start`: replies with a greeting.
    pub(super) fn start(&mut self) -> Deed {
        Deed::say(HELLO)
    }

    /// `/help [command]`: explains the commands that may be run here, or one command.
    pub(super) fn help(&mut self, asked: &Asked<'_>) -> Deed {
        let live = self.host.live();
        match commands::parse(&format!("/{}", asked.args.trim_start_matches('/')), "", &live.gates) {
            Parsed::Command { spec, .. } => Deed::say(commands::help_for(spec)),
            Parsed::Unknown { name, nearest } => Deed::say(unknown(&name, nearest)),
            Parsed::NotCommand if asked.args.is_empty() => self.page_of_commands(asked, 1),
            Parsed::NotCommand => {
                Deed::say(format!("There is no command {}. `/help` lists the commands.", echo(asked.args)))
            }
        }
    }

    /// `/commands [page]`: lists the commands that may be run here.
    pub(super) fn commands(&mut self, asked: &Asked<'_>) -> Deed {
        match asked.args {
            "" => self.page_of_commands(asked, 1),
            page => match page.parse() {
                Ok(page) => self.page_of_commands(asked, page),
                Err(_) => Deed::say("Use `/commands` or `/commands PAGE`."),
            },
        }
    }

    /// Returns a page of the list that fits one message here.
    fn page_of_commands(&self, asked: &Asked<'_>, page: usize) -> Deed {
        let arrived = asked.arrived;
        let live = self.host.live();
        let (chat, tier) = (&arrived.event.get().chat, arrived.event.tier());
        let may = |command: &commands::Command| live.access.may_run(&arrived.instance, chat, tier, command);
        let lines = commands::help_lines(where_is(arrived), &live.gates, may);
        let limit = arrived.adapter.as_ref().map(|adapter| adapter.capabilities()).unwrap_or_default();
        let mut pages = commands::pages(&lines, |text| render::is_one_part(text, &limit));
        if (1..=pages.len()).contains(&page) {
            return Deed::say(pages.swap_remove(page - 1));
        }
        Deed::say(match pages.len() {
            1 => "There is only one page: `/commands`.".to_owned(),
            last => format!("There is no page {page}; the last one is `/commands {last}`."),
        })
    }

    /// `/whoami`: shows the identity and the rights of the sender.
    pub(super) fn whoami(&mut self, asked: &Asked<'_>) -> Deed {
        let Asked { arrived, found, .. } = asked;
        let sender = &arrived.event.get().sender;
        let id = if sender.id.is_empty() { "(none)" } else { &sender.id };
        let may = match arrived.event.tier() {
            Tier::User => "user",
            Tier::Admin => "admin",
            Tier::Operator => "operator",
        };
        let live = self.host.live();
        let (chat, tier) = (&arrived.event.get().chat, arrived.event.tier());
        let here = where_is(arrived);
        let names: Vec<String> = commands::REGISTRY
            .iter()
            .filter(|command| {
                command.scope.includes(here)
                    && live.gates.is_open(command)
                    && live.access.may_run(&arrived.instance, chat, tier, command)
            })
            .map(|command| format!("/{}", command.name))
            .collect();
        Deed::say(format!(
            "- Instance: `{}`\n- Your id: `{id}`\n- You are: {may} ({})\n- Conversation: `{}`\n- You can use here: {}",
            arrived.instance,
            live.access.reason(&arrived.instance, sender, tier),
            found.key,
            names.join(", ")
        ))
    }

    /// `/profile`: shows the profile of the host.
    pub(super) fn profile(&mut self) -> Deed {
        Deed::say(format!("- Profile: `{MAIN_PROFILE}`"))
    }

    /// `/version`: shows the version.
    pub(super) fn version(&mut self) -> Deed {
        Deed::say(version())
    }

    /// `/restart`: restarts the host once nothing runs any more.
    pub(super) fn restart(&mut self, asked: &Asked<'_>) -> Deed {
        if !self.host.is_restartable() {
            return Deed::say(
                "This host belongs to a terminal and ends with it. Leave the terminal with `/quit` and start it again.",
            );
        }
        let arrived = asked.arrived;
        let changes = vec![restart_notice::remember(&arrived.instance, &arrived.event.get().chat)];
        Deed { act: Act::Restart, changes }
    }

    /// `/pair`: admits a sender, issues a code, or lists open requests.
    pub(super) fn pair(&mut self, asked: &Asked<'_>) -> Deed {
        let (words, changes) = self.pairing_words(asked);
        Deed { changes, ..Deed::say(words) }
    }

    fn pairing_words(&mut self, asked: &Asked<'_>) -> (String, Vec<Change>) {
        let arrived = asked.arrived;
        let instance = &arrived.instance;
        // A code may be written in groups.
        match asked.args.split_once(char::is_whitespace).unwrap_or((asked.args, "")) {
            ("list", "") => (self.open_requests(instance), Vec::new()),
            ("approve", code) if !code.trim().is_empty() => {
                let by = format!("{instance}:{}", arrived.event.get().sender.id);
                let (changes, said) = self.approve(instance, code, &by);
                (said.unwrap_or_else(|why| why), changes)
            }
            ("", "") => {
                let (changes, said) = self.invite(instance);
                (said, changes)
            }
            _ => (
                "Use `/pair approve CODE`, `/pair list`, or `/pair` alone to create an invitation code.".to_owned(),
                Vec::new(),
            ),
        }
    }
}
