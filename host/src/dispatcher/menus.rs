//! Who has which menu of commands. An instance is given it when it is online, and again
//! when the configuration made it another one; never the same twice in one life of the host.

use std::collections::BTreeMap;
use std::sync::Arc;

use hermes_core::commands::menu;
use hermes_protocol::{CommandInfo, CommandsCall, method};

use super::Dispatcher;
use crate::events::{Control, HostEvent};

/// The menu that each instance was given.
pub(super) type Menus = BTreeMap<Arc<str>, Vec<CommandInfo>>;

impl Dispatcher {
    /// Gives an adapter its command menu, unless it has this one. Nobody waits for it.
    pub(super) fn show_commands(&mut self, instance: Arc<str>) {
        let Some(adapter) = self.host.adapter(&instance).filter(|adapter| adapter.capabilities().commands_menu) else {
            return;
        };
        let commands = menu(&self.host.live().gates);
        if self.menus.get(&instance) == Some(&commands) {
            return;
        }
        self.menus.insert(Arc::clone(&instance), commands.clone());
        let host = Arc::clone(&self.host);
        tokio::spawn(async move {
            let payload = serde_json::to_vec(&CommandsCall::new(commands)).expect("a menu is always JSON");
            if let Err(error) = adapter.hint(method::SET_COMMANDS, payload).await {
                tracing::warn!(%instance, %error, "the command menu was not taken");
                host.tell(HostEvent::control(Control::MenuLost { instance })).await;
            }
        });
    }

    /// The configuration is another one, and so may the menu be: those that have one get what is new.
    pub(super) fn show_commands_anew(&mut self) {
        for instance in self.menus.keys().cloned().collect::<Vec<_>>() {
            self.show_commands(instance);
        }
    }
}
