//! Commands that the configuration enables or disables.

use std::collections::BTreeSet;

use super::{Command, REGISTRY};

/// The disabled config keys. Their commands cannot be run, are not listed or offered, and do not compete with the
/// short form of another command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Gates {
    closed: BTreeSet<&'static str>,
}

impl Gates {
    /// Reads the keys from a configuration; `is_open` answers for each key of the table.
    pub fn read(is_open: impl Fn(&str) -> bool) -> Self {
        Self { closed: gate_keys().filter(|key| !is_open(key)).collect() }
    }

    /// Returns true if the command exists in this configuration.
    pub fn is_open(&self, command: &Command) -> bool {
        command.gate.is_none_or(|key| !self.closed.contains(key))
    }
}

/// Returns every config key that enables a command.
pub fn gate_keys() -> impl Iterator<Item = &'static str> {
    REGISTRY.iter().filter_map(|command| command.gate)
}
