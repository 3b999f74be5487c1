//! Who has which menu of commands. An instance is given it when it is online, again when the configuration made it
//! another one, and again when it was made anew: it may be another bot by then, or have forgotten. Never the same one
//! twice in one life of an instance.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hermes_core::commands::menu;
use hermes_protocol::{CommandInfo, CommandsCall, method};

use super::Dispatcher;
use crate::events::{Control, HostEvent};
use crate::host::Host;
use crate::plugins::{AdapterHandle, LifeMark};

/// What each instance was given.
pub(super) type Menus = BTreeMap<Arc<str>, Given>;

/// The menu of one instance.
#[derive(Default)]
pub(super) struct Given {
    /// The menu, and the life that has it; `None`: that life did not take it.
    menu: Option<(LifeMark, Vec<CommandInfo>)>,
    counter: Arc<Counter<Laid>>,
}

/// A menu, and whom it is for.
type Laid = (AdapterHandle, Vec<CommandInfo>);

/// Where the next menu of an instance lies until it is fetched: one is handed over at a time, and a later one takes the
/// place of one that still lies there.
struct Counter<T>(Mutex<Next<T>>);

struct Next<T> {
    menu: Option<T>,
    /// Whether somebody hands menus over.
    served: bool,
}

impl<T> Default for Counter<T> {
    fn default() -> Self {
        Self(Mutex::new(Next { menu: None, served: false }))
    }
}

impl<T> Counter<T> {
    fn next(&self) -> MutexGuard<'_, Next<T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lays a menu down; `true`: nobody hands menus over yet.
    fn lay(&self, menu: T) -> bool {
        let mut next = self.next();
        next.menu = Some(menu);
        !std::mem::replace(&mut next.served, true)
    }

    /// Fetches what lies there; `None`: the work is over.
    fn fetch(&self) -> Option<T> {
        let mut next = self.next();
        next.served = next.menu.is_some();
        next.menu.take()
    }
}

impl Counter<Laid> {
    /// Hands over what lies there, until nothing does.
    async fn serve(&self, host: &Host, instance: &Arc<str>) {
        while let Some((adapter, commands)) = self.fetch() {
            let payload = serde_json::to_vec(&CommandsCall::new(commands)).expect("a menu is always JSON");
            if let Err(error) = adapter.hint(method::SET_COMMANDS, payload).await {
                tracing::warn!(%instance, %error, "the command menu was not taken");
                host.tell(HostEvent::control(Control::MenuLost { instance: Arc::clone(instance) })).await;
            }
        }
    }
}

impl Dispatcher {
    /// Gives an adapter its command menu, unless it has this one. Nobody waits for it.
    pub(super) fn show_commands(&mut self, instance: Arc<str>) {
        let Some(adapter) = self.host.adapter(&instance).filter(|adapter| adapter.capabilities().commands_menu) else {
            return;
        };
        let given = self.menus.entry(Arc::clone(&instance)).or_default();
        let menu = Some((adapter.life_mark(), menu(&self.host.live().gates)));
        if given.menu == menu {
            return;
        }
        let commands = menu.iter().flat_map(|(_, commands)| commands.clone()).collect();
        given.menu = menu;
        if given.counter.lay((adapter, commands)) {
            let (host, counter) = (Arc::clone(&self.host), Arc::clone(&given.counter));
            tokio::spawn(async move { counter.serve(&host, &instance).await });
        }
    }

    /// The configuration is another one, and so may the menu be: those that have one get what is new.
    pub(super) fn show_commands_anew(&mut self) {
        for instance in self.menus.keys().cloned().collect::<Vec<_>>() {
            self.show_commands(instance);
        }
    }

    /// An instance did not take its menu: it is offered when it is next ready, or the configuration is next read.
    pub(super) fn menu_lost(&mut self, instance: &Arc<str>) {
        if let Some(given) = self.menus.get_mut(instance) {
            given.menu = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Counter;

    #[test]
    fn menus_are_handed_over_one_at_a_time_and_the_latest_last() {
        let counter = Counter::default();
        assert!(counter.lay(1), "nobody hands menus over yet");
        assert_eq!(counter.fetch(), Some(1));
        assert!(!counter.lay(2) && !counter.lay(3), "the first one is still under way");
        assert_eq!((counter.fetch(), counter.fetch()), (Some(3), None));
        assert!(counter.lay(4), "the work was over");
        assert_eq!((counter.fetch(), counter.fetch()), (Some(4), None));
    }
}
