//! Decision whether results can be delivered after the turn.
//!
//! This module is the only place that decides it. The decision depends on the interface of this turn and never
//! on the session: the same conversation can get later messages through a chat, but not through a request that
//! ends with its answer.

use hermes_core::context::TurnContext;

use super::Ports;

/// Note for the model if nothing can be delivered after the turn.
pub const NOTIFY_UNSUPPORTED: &str = "This interface cannot deliver notifications after the turn, so you will not be \
     notified when the process ends. Check it with process(action=\"poll\") or process(action=\"wait\").";

/// Note for the model if the interface supports delivery, but this host wakes no sessions.
pub const NO_WAKEUPS: &str = "This host does not send notifications, so you will not be notified when the \
     process ends. Check it with process(action=\"poll\") or process(action=\"wait\").";

/// Note for the model about a background task that was executed at once.
pub const DELEGATED_AT_ONCE: &str = "The result cannot be delivered after the turn, so the task ran in the \
     foreground. This is its result.";

/// Note for the model about a new or subscribed task if nothing can be delivered after the turn.
pub const TASK_NOTIFY_UNSUPPORTED: &str = "This interface cannot deliver notifications after the turn, so you will not be \
     notified of changes of this task. Check it with task(action=\"show\").";

/// Returns the reason for which no later notification is possible.
pub fn unsupported_reason(context: &TurnContext) -> &'static str {
    if context.async_delivery { NO_WAKEUPS } else { NOTIFY_UNSUPPORTED }
}

/// Returns true if the requester of this turn can be notified after it.
pub fn delivers_later(context: &TurnContext, ports: &Ports) -> bool {
    context.async_delivery && ports.wakeups.is_available()
}
