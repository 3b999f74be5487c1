//! Commands about how a conversation behaves, and how it stands.

use super::Deed;
use crate::dispatcher::Dispatcher;
use crate::lane::Act;

impl Dispatcher {
    /// `/status`: how this conversation stands.
    pub(super) fn status(&mut self) -> Deed {
        Act::Describe.into()
    }
}
