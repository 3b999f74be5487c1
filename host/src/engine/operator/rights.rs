//! The rights that each request of the control socket needs.

use std::sync::{Arc, Weak};

use hermes_core::access::Tier;

use super::{ControlReply, ControlRequest, ErrorKind};
use crate::engine::run_tokens::Run;

/// The refusal of a process that the host started and that has no valid token.
pub const NO_TOKEN: &str = "this process was started by the host, and its HERMES_CONTROL_TOKEN is missing, expired or \
                            from another host; run the command in a terminal that was not started by the host";

/// The refusal of a request whose run has ended.
const EXPIRED: &str = "the run for which this HERMES_CONTROL_TOKEN was issued has ended";

/// The author of a request.
#[derive(Clone, Debug)]
pub enum Caller {
    /// A user at a terminal of the host's user.
    Operator,
    /// A process of one run.
    Run(Arc<Run>),
}

/// The identity of a connection, from which each of its requests gets its [`Caller`].
#[derive(Clone, Debug)]
pub enum Identity {
    /// A user at a terminal of the host's user.
    Operator,
    /// A process of a run, valid until the run ends.
    Run(Weak<Run>),
}

/// The right that a request needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Right {
    /// Open to any run, within the rights of its requester.
    Own,
    /// Open to runs of this tier.
    Tier(Tier),
    /// Open to a user at a terminal, and to no run.
    Terminal,
}

impl Identity {
    /// Returns the author of a request, if the request is allowed.
    ///
    /// # Errors
    ///
    /// The refusal.
    pub fn may(&self, request: &ControlRequest) -> Result<Caller, Box<ControlReply>> {
        let refused = |words: String| Box::new(ControlReply::error(ErrorKind::Refused, words));
        let run = match self {
            Self::Operator => return Ok(Caller::Operator),
            Self::Run(run) => run.upgrade().ok_or_else(|| refused(EXPIRED.to_owned()))?,
        };
        match right(request) {
            Right::Own => {}
            Right::Tier(needed) if run.tier < needed => {
                let words = format!(
                    "a run of a {tier} is not allowed to do this; it requires the rights of the {needed}",
                    tier = run.tier
                );
                return Err(refused(words));
            }
            Right::Tier(_) if !run.is_private() => {
                let words =
                    "a run in a conversation of several people is not allowed to do this; ask in a private chat";
                return Err(refused(words.to_owned()));
            }
            Right::Tier(_) => {}
            Right::Terminal => {
                let words = "only a person is allowed to do this; run the command in a terminal that was not started \
                             by the host";
                return Err(refused(words.to_owned()));
            }
        }
        // A private run of the operator has the operator's view and reach.
        let is_operator = run.tier == Tier::Operator && run.is_private();
        match request {
            // A file has to be in a folder from which replies may send files.
            ControlRequest::Send { file: Some(_), .. } => Ok(Caller::Run(run)),
            // Announced URLs may contain secrets that grant operator access.
            ControlRequest::Status {} | ControlRequest::AdapterList {} => Ok(Caller::Run(run)),
            _ if is_operator => Ok(Caller::Operator),
            _ => Ok(Caller::Run(run)),
        }
    }
}

/// Returns the right that a request needs. Every request is listed, so a new one needs a decision.
fn right(request: &ControlRequest) -> Right {
    match request {
        ControlRequest::Send { file: None, mirror: false, .. }
        | ControlRequest::SessionSearch { .. }
        | ControlRequest::TaskList { .. }
        | ControlRequest::TaskShow { .. }
        | ControlRequest::TaskCancel { .. } => Right::Own,
        // The same as for the chat commands /platform, /restart and /pair.
        ControlRequest::Status {}
        | ControlRequest::AdapterList {}
        | ControlRequest::AdapterEnable { .. }
        | ControlRequest::AdapterDisable { .. }
        | ControlRequest::Restart {}
        | ControlRequest::PairingList {}
        | ControlRequest::PairingApprove { .. } => Right::Tier(Tier::Admin),
        ControlRequest::Send { .. }
        | ControlRequest::Stop {}
        | ControlRequest::Drain { .. }
        | ControlRequest::Reload {}
        | ControlRequest::AdapterReload { .. }
        | ControlRequest::PairingRevoke { .. }
        | ControlRequest::PairingClear { .. }
        | ControlRequest::SessionList { .. }
        | ControlRequest::SessionShow { .. }
        | ControlRequest::SessionTranscript { .. }
        | ControlRequest::SessionEnd { .. }
        | ControlRequest::SessionDelete { .. }
        | ControlRequest::Handoff { .. }
        | ControlRequest::HandoffOffer { .. }
        | ControlRequest::HandoffList { .. }
        | ControlRequest::HandoffShow { .. }
        | ControlRequest::HandoffCancel { .. }
        | ControlRequest::OutboxList { .. }
        | ControlRequest::OutboxShow { .. }
        | ControlRequest::OutboxRetry { .. }
        | ControlRequest::OutboxDrop { .. } => Right::Tier(Tier::Operator),
        // A terminal slot answers approvals, and a run must not approve its own calls. A link grants operator access to
        // its reader.
        ControlRequest::Chat { .. } | ControlRequest::HandOver {} | ControlRequest::AdapterLink { .. } => {
            Right::Terminal
        }
    }
}

#[cfg(test)]
mod tests {
    use hermes_core::context::TurnContext;

    use super::*;

    fn run(tier: Tier, owner: &str) -> Arc<Run> {
        let person = Some(owner.to_owned()).filter(|owner| !owner.is_empty());
        Arc::new(Run {
            tier,
            reach: tier,
            person,
            context: TurnContext { owner: owner.to_owned(), ..TurnContext::default() },
        })
    }

    fn send(file: Option<&str>) -> ControlRequest {
        ControlRequest::Send { target: "one:1".into(), text: "x".into(), file: file.map(Into::into), mirror: false }
    }

    #[test]
    fn a_run_has_the_rights_of_its_person_and_no_more() {
        let approve = || ControlRequest::PairingApprove { instance: "one".into(), code: "ABCDEFGH".into() };
        let may = |run: &Arc<Run>, request: ControlRequest| Identity::Run(Arc::downgrade(run)).may(&request);
        let user = run(Tier::User, "one:7");
        for request in [
            approve(),
            ControlRequest::Stop {},
            ControlRequest::Restart {},
            ControlRequest::Status {},
            send(Some("/etc/passwd")),
            ControlRequest::SessionList { limit: 1, all: true },
            ControlRequest::Chat { resume: None, once: true },
            ControlRequest::HandOver {},
        ] {
            assert!(may(&user, request.clone()).is_err(), "{request:?}");
        }
        assert!(matches!(may(&user, send(None)), Ok(Caller::Run(_))));

        let admin = run(Tier::Admin, "one:7");
        assert!(may(&admin, approve()).is_ok() && may(&admin, ControlRequest::Stop {}).is_err());
        assert!(may(&run(Tier::Admin, ""), approve()).is_err(), "in a group");

        let operator = run(Tier::Operator, "operator");
        assert!(matches!(may(&operator, ControlRequest::Stop {}), Ok(Caller::Operator)));
        assert!(matches!(may(&operator, send(Some("/x"))), Ok(Caller::Run(_))), "not every file");
        assert!(may(&operator, ControlRequest::Chat { resume: None, once: false }).is_err(), "it approves nothing");
    }

    #[test]
    fn a_connection_outlives_its_run_without_rights() {
        let run = run(Tier::Operator, "operator");
        let identity = Identity::Run(Arc::downgrade(&run));
        assert!(identity.may(&ControlRequest::Status {}).is_ok());
        drop(run);
        assert!(identity.may(&ControlRequest::Status {}).is_err());
    }
}
