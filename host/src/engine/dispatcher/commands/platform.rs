//! `/platform`: lists and switches adapters, for an admin in a chat.

use super::{Asked, Deed};
use crate::engine::dispatcher::Dispatcher;
use hermes_core::nearest::nearest;
use hermes_store::Change;

const USE: &str = "Use `/platform list`, `/platform pause NAME` or `/platform resume NAME`.";

impl Dispatcher {
    /// `/platform [list | pause NAME | resume NAME]`.
    pub(super) fn platform(&mut self, asked: &Asked<'_>) -> Deed {
        let mut words = asked.args.split_whitespace();
        match (words.next(), words.next(), words.next()) {
            (None | Some("list"), None, None) => Deed::say(self.platforms()),
            (Some("pause"), Some(name), None) => self.switch(asked, name, false),
            (Some("resume"), Some(name), None) => self.switch(asked, name, true),
            _ => Deed::say(USE),
        }
    }

    fn platforms(&self) -> String {
        let statuses = self.host.adapters().map(hermes_loader::Adapters::statuses).unwrap_or_default();
        let lines = statuses.into_iter().map(|status| {
            let reason = status.reason.map(|reason| format!(": {reason}")).unwrap_or_default();
            format!("- `{}` ({}): {}{reason}", status.name, status.plugin, status.state)
        });
        let lines: Vec<String> = lines.collect();
        if lines.is_empty() { "No adapter is configured.".to_owned() } else { lines.join("\n") }
    }

    /// Switches an instance permanently; the section of the configuration takes precedence.
    fn switch(&mut self, asked: &Asked<'_>, name: &str, on: bool) -> Deed {
        let adapters = self.host.adapters().map(hermes_loader::Adapters::all).unwrap_or_default();
        let names: Vec<String> = adapters.iter().map(|adapter| adapter.instance().to_string()).collect();
        if !names.iter().any(|known| known == name) {
            let meant = nearest(name, names.iter().map(String::as_str));
            let meant = meant.map(|meant| format!(" Did you mean `{meant}`?")).unwrap_or_default();
            return Deed::say(format!(
                "There is no adapter with this name.{meant} `/platform list` shows all adapters."
            ));
        }
        if !on && name == &*asked.arrived.instance {
            return Deed::say(format!(
                "`{name}` carries this chat; pause it from another chat, or with `hermes-host adapter disable {name}`."
            ));
        }
        let decided = self.host.live().config.adapters.get(name).and_then(|section| section.enabled);
        if decided.is_some_and(|enabled| enabled != on) {
            return Deed::say(format!(
                "`enabled` in `[adapter.{name}]` takes precedence; ask the operator to change it."
            ));
        }
        self.host.switch_adapter(name, on);
        let words = if on {
            format!("`{name}` is starting.")
        } else {
            format!("`{name}` is stopping and stays off until you resume it.")
        };
        Deed { changes: vec![Change::AdapterEnabled { instance: name.to_owned(), on }], ..Deed::say(words) }
    }
}
