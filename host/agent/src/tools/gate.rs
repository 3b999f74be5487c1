//! Whether something can be promised for after the turn.
//!
//! The one place that decides. It looks at the interface of this turn and never at the
//! session: the same conversation can be told later where it is held over a chat, and
//! cannot where it is held over a request that is over with its answer.

use hermes_core::context::TurnContext;

use super::Ports;

/// What the model is told where nothing can be delivered after the turn.
pub const NOTIFY_UNSUPPORTED: &str = "Nothing can be delivered on this interface once the turn is over, so nobody \
     will be told when this ends. Ask for it yourself: process(action=\"poll\"), or process(action=\"wait\").";

/// The same where the interface could, and this host wakes nobody.
pub const NOBODY_IS_WOKEN: &str = "This host wakes no conversation by itself, so nobody will be told when this ends. Ask \
     for it yourself: process(action=\"poll\"), or process(action=\"wait\").";

/// The same of a task that was to be handed on.
pub const DELEGATED_AT_ONCE: &str = "Nothing could be told once the turn is over, so this was done at once, and \
     this is its result.";

/// What the model is told of a task that is made, or subscribed to, where nothing can be delivered after the turn.
pub const TASK_TELLS_NOBODY: &str = "Nothing can be delivered on this interface once the turn is over, so nobody will be \
     told here what becomes of this task. Ask for it yourself: task(action=\"show\").";

/// Why nobody will be told, where nobody will.
pub fn why_not(context: &TurnContext) -> &'static str {
    if context.async_delivery { NOBODY_IS_WOKEN } else { NOTIFY_UNSUPPORTED }
}

/// Whether whoever asked in this turn can be told something after it.
pub fn delivers_later(context: &TurnContext, ports: &Ports) -> bool {
    context.async_delivery && ports.wakes.is_able()
}
