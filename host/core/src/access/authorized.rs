//! The proof of authorization that is needed to open a session.

use hermes_protocol::Event;

use super::Tier;

/// Proof that the access policy admitted a sender, or that the host itself is the cause.
///
/// Only two constructors exist: [`super::AccessPolicy::admit`] and [`Authorized::<Event>::host`]. The field is
/// private, so no other code can create one:
///
/// ```compile_fail
/// let forged = crate::access::Authorized { value: 1 };
/// ```
#[derive(Clone, Debug)]
pub struct Authorized<T> {
    value: T,
    tier: Tier,
    origin: Origin,
}

/// Origin of an authorized value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A sender admitted by the policy.
    Sender,
    /// The host itself.
    Host(HostCause),
}

/// Reason for an event that the host itself creates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HostCause {
    /// A session moved to this chat.
    Handoff,
    /// A scheduled job is due.
    Cron,
    /// A background task ended.
    Task,
    /// The host runs a task on its own initiative.
    Run,
    /// A turn that a crash interrupted is resumed.
    Resume,
    /// The operator sent a request over the control socket.
    Control,
}

impl<T> Authorized<T> {
    /// Wraps a value that [`super::AccessPolicy::admit`] admitted.
    pub(super) fn admitted(value: T, tier: Tier) -> Self {
        Self { value, tier, origin: Origin::Sender }
    }

    /// Returns the authorized value.
    pub fn get(&self) -> &T {
        &self.value
    }

    /// Returns the authorized value and drops the proof.
    pub fn into_inner(self) -> T {
        self.value
    }

    /// Returns the tier of the sender.
    pub fn tier(&self) -> Tier {
        self.tier
    }

    /// Returns the origin.
    pub fn origin(&self) -> Origin {
        self.origin
    }

    /// Applies `make` to the value and keeps the proof.
    pub fn map<U>(self, make: impl FnOnce(T) -> U) -> Authorized<U> {
        Authorized { value: make(self.value), tier: self.tier, origin: self.origin }
    }
}

impl Authorized<Event> {
    /// Authorizes an event that the host itself creates.
    ///
    /// The event gets the lowest tier, because a replayed event must not have rights that its original sender
    /// may have lost. Only events of the control socket, whose peer is the operator, get the operator's tier.
    pub fn host(event: Event, cause: HostCause) -> Self {
        let tier = match cause {
            HostCause::Control => Tier::Operator,
            HostCause::Handoff | HostCause::Cron | HostCause::Task | HostCause::Run | HostCause::Resume => Tier::User,
        };
        Self { value: event, tier, origin: Origin::Host(cause) }
    }
}
