//! The engine: the path of an event, and the work that follows from it.
//!
//! event → authorized → session → guard → turn → outbox → delivery → adapter
//!
//! | step | module |
//! |---|---|
//! | event | [`ingress`] commits it before it is acknowledged |
//! | authorized, session | [`dispatcher`] finds the session; its commands and pairing are below it |
//! | guard, turn | [`session`]: one actor per session; [`context`] is the input of a turn |
//! | outbox, delivery | [`outbox`]: one queue per chat; [`reply`] makes its parts |
//! | adapter | [`hermes_loader`] runs it, [`services`] answers its requests |
//!
//! [`handoff`] moves a conversation from the terminal to a chat. [`background`] holds tasks, wake-ups and processes.
//! [`approvals`] holds questions of a turn, [`attachments`] files, [`tools`] the host's side of the tools.
//! [`recovery`] resumes the work that a crash interrupted. [`messages`] are the messages between these modules, and
//! [`runtime`] is their shared context.
//!
//! Invariants: an event is acknowledged after its commit; one turn per session; a message leaves only through the
//! outbox. Nothing here knows the command line, the control socket or the status page.

pub(crate) mod accounts;
mod active_turns;
pub mod actors;
pub mod agent_health;
mod approvals;
pub mod attachments;
pub mod background;
pub mod config_snapshot;
pub mod context;
pub mod crash_points;
pub mod dispatcher;
mod group_context;
pub mod handoff;
pub mod ingress;
pub mod messages;
pub mod operator;
pub mod outbox;
mod pairing_codes;
pub mod recovery;
pub mod reply;
pub mod restart_notice;
pub mod run_tokens;
pub mod runtime;
pub mod services;
pub mod session;
pub mod targets;
pub mod timer;
pub mod tools;
mod undelivered;
