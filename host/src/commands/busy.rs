//! Commands about what runs in a conversation, and what waits for it.

use super::Deed;
use crate::dispatcher::Dispatcher;
use crate::lane::Act;

impl Dispatcher {
    /// `/stop`: the running turn ends.
    pub(super) fn stop(&mut self) -> Deed {
        Act::Stop.into()
    }
}
