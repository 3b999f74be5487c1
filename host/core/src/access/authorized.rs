//! The proof that something may open a session.

use hermes_protocol::Event;

use super::Tier;

/// Proof that the access policy admitted a sender, or that the host itself is the cause.
///
/// It has two constructors: [`super::AccessPolicy::admit`] and
/// [`Authorized::<Event>::host`]. Its field is private, so nothing else makes one:
///
/// ```compile_fail
/// let forged = hermes_core::access::Authorized { value: 1 };
/// ```
#[derive(Clone, Debug)]
pub struct Authorized<T> {
    value: T,
    tier: Tier,
    origin: Origin,
}

/// Who is behind something authorized.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A sender whom the policy admitted.
    Sender,
    /// The host itself.
    Host(HostCause),
}

/// Why the host itself says something to the agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HostCause {
    /// A session moved here.
    Handoff,
    /// A job is due.
    Cron,
    /// Background work ended.
    Task,
    /// The host does a task by itself.
    Run,
    /// A turn that a crash cut off goes on.
    Resume,
    /// The operator asked over the control socket.
    Control,
}

impl<T> Authorized<T> {
    /// What [`super::AccessPolicy::admit`] returns.
    pub(super) fn admitted(value: T, tier: Tier) -> Self {
        Self { value, tier, origin: Origin::Sender }
    }

    /// Returns what was authorized.
    pub fn get(&self) -> &T {
        &self.value
    }

    /// Returns what was authorized, without the proof.
    pub fn into_inner(self) -> T {
        self.value
    }

    /// Returns what its sender may do.
    pub fn tier(&self) -> Tier {
        self.tier
    }

    /// Returns who is behind it.
    pub fn origin(&self) -> Origin {
        self.origin
    }

    /// Carries the proof over to a value made from this one.
    pub fn map<U>(self, make: impl FnOnce(T) -> U) -> Authorized<U> {
        Authorized { value: make(self.value), tier: self.tier, origin: self.origin }
    }
}

impl Authorized<Event> {
    /// An event that the host itself originates.
    ///
    /// It holds the lowest tier: what the host replays must not gain rights that
    /// its first sender may have lost. Only the control socket, whose peer is the
    /// operator, holds the operator's.
    pub fn host(event: Event, cause: HostCause) -> Self {
        let tier = match cause {
            HostCause::Control => Tier::Operator,
            HostCause::Handoff | HostCause::Cron | HostCause::Task | HostCause::Run | HostCause::Resume => Tier::User,
        };
        Self { value: event, tier, origin: Origin::Host(cause) }
    }
}
