//! Commands about the conversation itself: which one this is, and how it begins and ends.

use super::{Asked, Deed};
use crate::dispatcher::Dispatcher;
use crate::lane::Act;
use crate::store::Change;

impl Dispatcher {
    /// `/new [title]`: the key of this conversation leads to another one from here on.
    pub(super) fn new_session(&mut self, asked: &Asked<'_>) -> Deed {
        let Asked { arrived, found, args } = asked;
        let (free, then) = self.free_key(found.key.stored());
        let mut changes = vec![Change::EndSession { session: found.session.clone(), reason: "new".to_owned() }, free];
        if !args.is_empty() {
            // A title needs its session at once; without one the next message begins it.
            changes.extend(self.begin_titled(arrived, found.key.stored(), args));
        }
        Deed { act: Act::End { then }, changes }
    }
}
