//! The command menus of the instances. An instance receives its menu when it is online, and again after a change of the
//! configuration or in a new incarnation, which may be another bot or may have lost the menu. One incarnation never
//! receives the same menu twice.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hermes_core::commands::menu;
use hermes_protocol::{CommandInfo, CommandsCall, method};

use super::Dispatcher;
use crate::engine::messages::{Control, HostEvent};
use crate::engine::runtime::Host;
use hermes_loader::{AdapterHandle, LifeMark};

/// The menu that each instance received.
pub(super) type Menus = BTreeMap<Arc<str>, Given>;

/// The menu of one instance.
#[derive(Default)]
pub(super) struct Given {
    /// The menu, and the incarnation that has it; `None`: the current one did not take it.
    menu: Option<(LifeMark, Vec<CommandInfo>)>,
    counter: Arc<Counter<Laid>>,
}

/// A menu, and its adapter.
type Laid = (AdapterHandle, Vec<CommandInfo>);

/// The place of the next menu of an instance until it is sent: one is sent at a time, and a later menu replaces a
/// waiting one.
struct Counter<T>(Mutex<Next<T>>);

struct Next<T> {
    menu: Option<T>,
    /// True if a task sends menus.
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

    /// Places a menu; `true`: no task sends menus yet.
    fn lay(&self, menu: T) -> bool {
        let mut next = self.next();
        next.menu = Some(menu);
        !std::mem::replace(&mut next.served, true)
    }

    /// Takes the waiting menu; `None`: there is none, and the task ends.
    fn fetch(&self) -> Option<T> {
        let mut next = self.next();
        next.served = next.menu.is_some();
        next.menu.take()
    }
}

impl Counter<Laid> {
    /// Sends waiting menus until there is none.
    async fn serve(&self, host: &Host, instance: &Arc<str>) {
        while let Some((adapter, commands)) = self.fetch() {
            let payload = serde_json::to_vec(&CommandsCall::new(commands)).expect("a menu is always JSON");
            if let Err(error) = adapter.hint(method::SET_COMMANDS, payload).await {
                tracing::warn!(%instance, %error, "command menu could not be set");
                host.tell(HostEvent::control(Control::MenuLost { instance: Arc::clone(instance) })).await;
            }
        }
    }
}

impl Dispatcher {
    /// Sends an adapter its command menu in the background, unless it has this one.
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

    /// Sends changed menus after a change of the configuration, to the instances that have one.
    pub(super) fn show_commands_anew(&mut self) {
        for instance in self.menus.keys().cloned().collect::<Vec<_>>() {
            self.show_commands(instance);
        }
    }

    /// Notes that an instance did not take its menu: the menu is sent again when the instance is next online, or when
    /// the configuration is next read.
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
