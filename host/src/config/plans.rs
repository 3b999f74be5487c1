//! Turns sections into what `plugins` runs and what `access` decides by.

use super::model::{AdapterConfig, Config, SessionConfig};

impl Config {
    /// The rules for conversations on `instance`: its section's, else those of `[session]`.
    pub fn session_for(&self, instance: &str) -> &SessionConfig {
        self.adapters.get(instance).map_or(&self.session, |adapter: &AdapterConfig| &adapter.session)
    }
}
