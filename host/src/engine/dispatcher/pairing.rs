//! Pairing: the replies to unknown senders, and the codes that give them access. The core's pairing book, with its rows
//! and texts.

use std::collections::BTreeSet;
use std::sync::Arc;

use hermes_core::access::{Denial, Denied, Grants};
use hermes_core::ids::SessionId;
use hermes_core::pairing::{
    Approval, Claim, Claimant, Code, CodePurpose, Offer, Offered, Over, PairingBook, PairingLimits,
};
use hermes_core::rate::TokenBucket;
use hermes_core::session::participant;
use hermes_protocol::Purpose;
use tokio::sync::oneshot;

use crate::engine::context::compose;
use crate::engine::dispatcher::Dispatcher;
use crate::engine::messages::{HostEvent, Inbound};
use crate::engine::operator::{ControlReply, ErrorKind, GrantInfo, PairingInfo};
use crate::engine::pairing_codes::STAND_IN;
use crate::engine::runtime::Host;
use hermes_config::LimitsConfig;
use hermes_core::text::one_line;
use hermes_store::{Change, LockoutRow, NewInbox, NewcomerRow, PairingRequestRow, Welcome};

/// The longest id of a sender who may ask, in bytes.
const USER_BYTES_MAX: usize = 512;
/// The longest kept display name, in characters.
const NAME_CHARS_MAX: usize = 64;
/// The longest id in the log, in characters.
const ID_CHARS_MAX: usize = 64;

/// The operator, as the author of a grant.
pub const OPERATOR: &str = "the operator";

/// An invitation, as the author of a grant.
const INVITATION: &str = "an invitation";

/// The pairing book and its limits, owned by the dispatcher.
pub struct Pairing {
    book: PairingBook,
    code_ms: i64,
    /// Unknown senders that were logged.
    told: BTreeSet<(String, String)>,
    /// The allowance of log lines about unknown senders.
    lines: TokenBucket,
}

/// Log lines about unknown senders: the burst, and the rate per second after it.
const STRANGER_LINES_BURST: u32 = 32;
const STRANGER_LINES_PER_S: u32 = 1;

/// Unknown senders that are remembered; beyond that the list is cleared.
const TOLD_MAX: usize = 1024;

/// A request of the operator.
#[derive(Debug)]
pub enum PairingCall {
    /// List open requests and grants.
    List(oneshot::Sender<ControlReply>),
    /// Change the book; the answer comes with the changes that have to be written first.
    Change(PairingChange, oneshot::Sender<(ControlReply, Vec<Change>)>),
}

/// A change of the pairing book.
#[derive(Debug)]
pub enum PairingChange {
    /// Admit the sender who was shown this code.
    Approve {
        /// The instance on which the code was shown.
        instance: String,
        /// The code.
        code: String,
        /// The person who entered it: `<instance>:<id>`, or [`OPERATOR`].
        by: String,
    },
    /// Revoke a grant.
    Revoke {
        /// The instance of the grant.
        instance: String,
        /// The id of the sender.
        user: String,
    },
    /// Remove open requests and lockouts.
    Clear {
        /// One instance; `None`: all.
        instance: Option<String>,
    },
}

/// The result of a code that was entered.
pub struct Settled {
    /// The changes to write.
    pub changes: Vec<Change>,
    /// The hash of the request if the code was valid; the code is not sent any more.
    pub worked: Option<String>,
    /// The sentence about it.
    pub said: Result<String, String>,
}

/// The result of a change of the book.
pub struct Changed {
    /// The answer, valid once the changes are written.
    pub reply: ControlReply,
    /// The changes to write.
    pub changes: Vec<Change>,
    /// The hash of the request whose code was valid.
    pub worked: Option<String>,
}

/// The reply to a sender without access.
pub enum Met {
    /// No reply; the reason for the row.
    Silence(&'static str),
    /// A text about a code; the request has to be written.
    Offer(PairingRequestRow, String),
    /// The sender sent a valid or a wrong code: the changes and the text.
    Welcome(Vec<Change>, String),
}

impl Pairing {
    /// Creates the book of these rows.
    pub fn new(
        limits: &LimitsConfig,
        open: Vec<PairingRequestRow>,
        lockouts: Vec<LockoutRow>,
        offers: Vec<Offered>,
    ) -> Self {
        let bounds = bounds(limits);
        Self {
            book: PairingBook::new(bounds, open, lockouts).with_offers(offers),
            code_ms: bounds.code_ms,
            told: BTreeSet::new(),
            lines: TokenBucket::new(STRANGER_LINES_BURST, STRANGER_LINES_PER_S, 0),
        }
    }

    /// Returns the open codes.
    pub(crate) fn book(&self) -> &PairingBook {
        &self.book
    }

    /// Applies an approval in memory. `by` is the author of the grant, `counted_as` the key of their count of wrong
    /// codes.
    fn settle(
        &mut self,
        grants: &mut Grants,
        instance: &str,
        approval: Approval,
        (by, counted_as): (&str, &str),
    ) -> Settled {
        let refused = |changes, words| Settled { changes, worked: None, said: Err(words) };
        match approval {
            Approval::Granted { mut grant, request } => {
                by.clone_into(&mut grant.granted_by);
                let who =
                    if grant.name.is_empty() { grant.user.clone() } else { format!("{} ({})", grant.name, grant.user) };
                let worked = Some(request.hash.clone());
                let done = Change::PairingDone { request, counted_as: counted_as.to_owned() };
                let changes = vec![Change::Grant(grant.clone()), done];
                grants.insert(grant);
                let said = Ok(format!("{who} can now write to the agent on {instance}."));
                Settled { changes, worked, said }
            }
            Approval::Over(how) => refused(Vec::new(), over(how, instance)),
            Approval::Empty => {
                refused(Vec::new(), "That is not a valid code; a code has eight letters and digits.".to_owned())
            }
            Approval::Wrong { left } => {
                let more = more_wrong(left);
                let words = format!(
                    "No pending request on {instance} has this code; after {more}, your codes are refused for a while."
                );
                refused(self.wrong_codes(counted_as), words)
            }
            Approval::Locked { .. } => {
                let words = "You entered too many wrong codes; try again later, or clear the lock with \
                             `hermes-host pairing clear`.";
                refused(self.wrong_codes(counted_as), words.to_owned())
            }
        }
    }

    fn wrong_codes(&self, counted_as: &str) -> Vec<Change> {
        self.book.lockout(counted_as).cloned().map(Change::Lockout).into_iter().collect()
    }

    /// Approves a code that the operator or an admin entered.
    fn approve(&mut self, grants: &mut Grants, instance: &str, code: &str, by: &str, now_ms: i64) -> Settled {
        let approval = self.book.approve(instance, by, code, now_ms);
        self.settle(grants, instance, approval, (by, &CodePurpose::Approve.counted_as(instance, by)))
    }

    /// Lists open requests and grants.
    pub fn list(&self, grants: &Grants, now_ms: i64) -> ControlReply {
        let requests = self.book.list(now_ms).map(|request| PairingInfo {
            instance: request.instance.clone(),
            user: request.user.clone(),
            name: Some(request.name.clone()).filter(|name| !name.is_empty()),
            since_ms: request.made_ms,
            expires_ms: request.made_ms.saturating_add(self.code_ms),
        });
        let grants = grants.iter().map(|grant| GrantInfo {
            instance: grant.instance.clone(),
            user: grant.user.clone(),
            name: Some(grant.name.clone()).filter(|name| !name.is_empty()),
            since_ms: grant.at_ms,
        });
        ControlReply::Pairing { requests: requests.collect(), grants: grants.collect() }
    }

    /// Changes the book and the grants.
    pub fn change(&mut self, grants: &mut Grants, change: PairingChange, now_ms: i64) -> Changed {
        match change {
            PairingChange::Approve { instance, code, by } => {
                let Settled { changes, worked, said } = self.approve(grants, &instance, &code, &by, now_ms);
                let refused = |words| ControlReply::error(ErrorKind::Refused, words);
                Changed { reply: said.map_or_else(refused, ControlReply::done), changes, worked }
            }
            PairingChange::Revoke { instance, user } => {
                if grants.remove(&instance, &user).is_none() {
                    let words =
                        format!("{user} has no grant on {instance}; `hermes-host pairing list` shows the grants");
                    let reply = ControlReply::error(ErrorKind::NotFound, words);
                    return Changed { reply, changes: Vec::new(), worked: None };
                }
                let words = format!("{user} can no longer write to the agent on {instance}.");
                let changes = vec![Change::Revoke { instance, user }];
                Changed { reply: ControlReply::done(words), changes, worked: None }
            }
            PairingChange::Clear { instance } => {
                self.book.clear(instance.as_deref());
                let reply = ControlReply::done("Pending codes and lockouts were cleared.");
                Changed { reply, changes: vec![Change::ClearPairing { instance }], worked: None }
            }
        }
    }
}

impl Dispatcher {
    /// Decides on the reply to a sender without access.
    pub(crate) fn meet(&mut self, instance: &str, denied: &Denied) -> Met {
        let met = match denied.denial {
            Denial::Silent { why } => Met::Silence(why),
            Denial::Unlisted { why } => self.redeem(instance, denied).unwrap_or(Met::Silence(why)),
            Denial::Stranger => self.redeem(instance, denied).unwrap_or_else(|| self.offer(instance, denied)),
        };
        if let Met::Silence(why) = &met {
            self.tell_of_stranger(instance, denied, why);
        }
        met
    }

    /// Writes one log line for each unknown sender without a reply, within the allowance of such lines.
    fn tell_of_stranger(&mut self, instance: &str, denied: &Denied, why: &str) {
        let user: String = participant(&denied.event.sender).unwrap_or_default().chars().take(ID_CHARS_MAX).collect();
        let stranger = (instance.to_owned(), user);
        let Pairing { told, lines, .. } = &mut self.pairing;
        if told.contains(&stranger) || !lines.take(1, self.host.now_ms()) {
            return;
        }
        if told.len() >= TOLD_MAX {
            told.clear();
        }
        tracing::info!(instance, sender = ?stranger.1, why, "message of a sender without access ignored");
        told.insert(stranger);
    }

    /// Admits a sender who sends a valid code; `None`: the text is no such code.
    fn redeem(&mut self, instance: &str, denied: &Denied) -> Option<Met> {
        let (user, name) = who(denied)?;
        let now_ms = self.host.now_ms();
        let approval = self.pairing.book.redeem(instance, user, &name, &denied.event.text, now_ms)?;
        let counted_as = CodePurpose::Redeem.counted_as(instance, user);
        let settled = self.pairing.settle(&mut self.grants, instance, approval, (INVITATION, &counted_as));
        self.worked(settled.worked.as_deref());
        Some(match (settled.changes, settled.said) {
            (mut changes, Ok(_)) => {
                // The earlier request of the sender is settled, too.
                if let Some(request) = self.pairing.book.revoke(instance, user) {
                    self.host.codes.forget(&request.hash);
                    changes.push(Change::PairingDone { request, counted_as });
                }
                Met::Welcome(changes, "Welcome! You can write to the agent here now.".to_owned())
            }
            (changes, Err(_)) => {
                self.note(crate::engine::dispatcher::drops::Note::Changes(changes));
                Met::Silence("a wrong code")
            }
        })
    }

    /// Offers a code to an unknown sender, or reminds the sender of it.
    fn offer(&mut self, instance: &str, denied: &Denied) -> Met {
        let Some((user, name)) = who(denied) else { return Met::Silence("the sender's id is too long") };
        let mut random = [0; 32];
        self.host.chance.fill(&mut random);
        match self.pairing.book.offer(instance, user, &name, self.host.now_ms(), random) {
            Offer::New { code, request } => {
                self.host.codes.keep(&request.hash, code);
                let words = format!(
                    "You are not authorized yet. Ask the operator of this host to run:\n\n\
                     `hermes-host pairing approve {instance} {STAND_IN}`\n\nThe code works once and for a limited time.",
                );
                Met::Offer(request, words)
            }
            Offer::Reminder { request } => {
                let words = "Your code is still waiting for approval by the operator of this host.".to_owned();
                Met::Offer(request, words)
            }
            Offer::Quiet { why } => Met::Silence(why),
        }
    }

    /// Offers a conversation to the sender who sends its code. `None`: too many are offered.
    pub(crate) fn put_up(&mut self, session: &SessionId) -> Option<(Code, Offered)> {
        let mut random = [0; 32];
        self.host.chance.fill(&mut random);
        self.pairing.book.put_up(session, self.host.now_ms(), random)
    }

    /// Withdraws an offer; `false`: it was gone already.
    pub(crate) fn take_offer(&mut self, session: &SessionId) -> bool {
        self.pairing.book.take_offer(session, self.host.now_ms())
    }

    /// Returns the conversation that a code claims, or the reply and the changes to write.
    pub(crate) fn claims(&mut self, by: Claimant<'_>, code: &str) -> Result<SessionId, (String, Vec<Change>)> {
        let words = match self.pairing.book.claim(by, code, self.host.now_ms()) {
            Claim::Right(session) => return Ok(session),
            Claim::Wrong { left: None } => "No conversation is offered with this code.".to_owned(),
            Claim::Wrong { left: Some(left) } => {
                let more = more_wrong(left);
                format!("No conversation is offered with this code; after {more}, your codes are refused for a while.")
            }
            Claim::Locked => "You sent too many wrong codes. Please try again later.".to_owned(),
        };
        Err((words, self.pairing.wrong_codes(&by.counted_as())))
    }

    /// Withdraws a request whose code was never delivered, so that the sender's next message gets another one.
    pub(crate) fn take_back_code(&mut self, hash: &str) {
        self.host.codes.forget(hash);
        self.pairing.book.take_back(hash);
    }

    /// Publishes the grants after a valid code, and forgets the code.
    fn worked(&self, hash: Option<&str>) {
        if let Some(hash) = hash {
            self.host.codes.forget(hash);
            self.host.show_grants(self.grants.clone());
        }
    }

    /// Approves a code that an admin entered in a chat.
    pub(crate) fn approve(&mut self, instance: &str, code: &str, by: &str) -> (Vec<Change>, Result<String, String>) {
        let settled = self.pairing.approve(&mut self.grants, instance, code, by, self.host.now_ms());
        self.worked(settled.worked.as_deref());
        (settled.changes, settled.said)
    }

    /// Creates a code with which a new sender gets access.
    pub(crate) fn invite(&mut self, instance: &str) -> (Vec<Change>, String) {
        let mut random = [0; 32];
        self.host.chance.fill(&mut random);
        match self.pairing.book.invite(instance, self.host.now_ms(), random) {
            Some((code, request)) => {
                self.host.codes.keep(&request.hash, code);
                let words = format!(
                    "Invitation created: the first person to send me `{STAND_IN}` in a direct message here gets access."
                );
                (vec![Change::PairingRequest(request)], words)
            }
            None => (Vec::new(), "Too many invitations are open here; `/pair list` shows them.".to_owned()),
        }
    }

    /// Lists the open requests of an instance.
    pub(crate) fn open_requests(&self, instance: &str) -> String {
        let now_ms = self.host.now_ms();
        let lines: Vec<String> = self
            .pairing
            .book
            .list(now_ms)
            .filter(|request| request.instance == instance)
            .map(|request| match (request.user.as_str(), request.name.as_str()) {
                ("", _) => "- an invitation".to_owned(),
                (user, "") => format!("- {user}"),
                (user, name) => format!("- {name} ({user})"),
            })
            .collect();
        if lines.is_empty() { "No pending requests here.".to_owned() } else { lines.join("\n") }
    }

    /// Handles a request of the operator.
    pub(crate) fn handle_pairing(&mut self, call: PairingCall) {
        match call {
            // The caller may have stopped waiting.
            PairingCall::List(reply) => drop(reply.send(self.pairing.list(&self.grants, self.host.now_ms()))),
            PairingCall::Change(change, reply) => {
                let Changed { reply: answer, changes, worked } =
                    self.pairing.change(&mut self.grants, change, self.host.now_ms());
                self.worked(worked.as_deref());
                self.host.show_grants(self.grants.clone());
                drop(reply.send((answer, changes)));
            }
        }
    }
}

/// Welcomes the senders whom these changes admit. Must be called after their commit.
pub(crate) fn greet(host: &Arc<Host>, changes: &[Change]) {
    if changes.iter().any(|change| matches!(change, Change::PairingDone { .. })) {
        tokio::spawn(welcome(Arc::clone(host)));
    }
}

/// Notifies every sender whose pairing code was accepted, and processes the message for which each got the code. One
/// transaction for each, so a repeat after a crash changes nothing.
pub(crate) async fn welcome(host: Arc<Host>) {
    let newcomers = match host.store.newcomers().await {
        Ok(newcomers) => newcomers,
        Err(error) => {
            tracing::error!(%error, "new users could not be read from the database; the next start of the host notifies them");
            return;
        }
    };
    for newcomer in newcomers {
        welcome_one(&host, newcomer).await;
    }
}

async fn welcome_one(host: &Arc<Host>, newcomer: NewcomerRow) {
    let NewcomerRow { instance, hash, chat, first, wrote_again, granted_by } = newcomer;
    let first = first.filter(|_| granted_by.is_some());
    let notice = match granted_by.as_deref() {
        // The answer to the invitation's code contains the notice already.
        Some(INVITATION) | None => None,
        // A reply has a longer deadline than a notice: the sender may get access while the host or the link is down.
        Some(_) => {
            let words = let_in(first.is_some(), wrote_again);
            Some(compose(host, &instance, chat, Purpose::Reply, words.to_owned()).await)
        }
    };
    let now_ms = host.now_ms();
    let row = first.as_ref().map(|(event_id, event)| NewInbox {
        instance: instance.clone(),
        event_id: event_id.clone(),
        at_ms: if event.at_ms > 0 { event.at_ms } else { now_ms },
        received_ms: now_ms,
        event: serde_json::to_string(event).expect("an event is always JSON"),
    });
    let order = Welcome { instance: instance.clone(), hash, notice: notice.clone(), first: row };
    let written = host.until_written("the welcome of a new user", || host.store.welcome(order.clone())).await;
    let Some(Some((delivery, inbox))) = written else { return };
    if let Some((delivery, notice)) = delivery.zip(notice) {
        host.carry(vec![delivery], vec![notice]).await;
    }
    if let Some((id, (_, event))) = inbox.zip(first) {
        let instance = Arc::from(instance);
        let inbound = Inbound { id, instance, event: Box::new(event), input: None, permit: None };
        host.tell(HostEvent::Inbound(inbound)).await;
    }
}

/// Returns the notice to a sender who got access.
fn let_in(first_is_kept: bool, wrote_again: bool) -> &'static str {
    match (first_is_kept, wrote_again) {
        (true, false) => "You have access now. I'll answer your first message next.",
        (true, true) => {
            "You have access now. I'll answer your first message next. Please send again what you wrote after it."
        }
        (false, _) => "You have access now. Please send your message again.",
    }
}

/// Returns the sender's stable id, and the name as one short line. The name appears in lists and sentences on which
/// decisions about access are based, so it contains nothing invisible. `None`: the id is longer than any platform's.
pub(crate) fn who(denied: &Denied) -> Option<(&str, String)> {
    let sender = &denied.event.sender;
    let user = participant(sender).unwrap_or_default();
    let name = one_line(sender.name.as_deref().unwrap_or_default(), NAME_CHARS_MAX);
    (user.len() <= USER_BYTES_MAX).then_some((user, name))
}

/// Describes why a code of this host is not valid, and the next step.
fn over(how: Over, instance: &str) -> String {
    let words = match how {
        Over::Replaced => "a newer code in the last offer to the same person replaced it",
        Over::Expired => "it has expired, and its holder gets a new one with their next message",
        Over::Used => "it has already been used",
        Over::OtherWay => {
            return format!("That code is an invitation; its holder has to send it to the agent on {instance}.");
        }
    };
    format!("That code is no longer valid on {instance}: {words}.")
}

fn bounds(limits: &LimitsConfig) -> PairingLimits {
    let ms = |time: std::time::Duration| i64::try_from(time.as_millis()).unwrap_or(i64::MAX);
    PairingLimits {
        code_ms: ms(limits.pairing_code),
        interval_ms: ms(limits.pairing_interval),
        open_max: limits.pairing_open_max,
        wrong_max: limits.pairing_wrong_max,
        lockout_ms: ms(limits.pairing_lockout),
    }
}

/// Formats the number of wrong codes that are left.
fn more_wrong(left: u32) -> String {
    let codes = if left == 1 { "code" } else { "codes" };
    format!("{left} more wrong {codes}")
}
