//! Which commands the configuration leaves open.

use std::collections::BTreeSet;

use super::{Command, REGISTRY};

/// The gates that are closed. What stands behind one does not exist: it is not run,
/// not listed, not offered and not in the way of another command's short form.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Gates {
    closed: BTreeSet<&'static str>,
}

impl Gates {
    /// The gates as a configuration has them; `is_open` answers for each key of the table.
    pub fn read(is_open: impl Fn(&str) -> bool) -> Self {
        Self { closed: gate_keys().filter(|key| !is_open(key)).collect() }
    }

    /// Whether this command exists here.
    pub fn is_open(&self, command: &Command) -> bool {
        command.gate.is_none_or(|key| !self.closed.contains(key))
    }
}

/// Every key of the configuration that opens or closes a command.
pub fn gate_keys() -> impl Iterator<Item = &'static str> {
    REGISTRY.iter().filter_map(|command| command.gate)
}
