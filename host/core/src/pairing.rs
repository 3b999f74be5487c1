//! Pairing: an unknown sender becomes a user by a code that the operator confirms.
//!
//! The host answers a direct message of an unknown sender with a code ([`PairingBook::offer`]), and the
//! operator approves it ([`PairingBook::approve`]). In the other direction, an admin creates an invitation code
//! ([`PairingBook::invite`]) and the new user sends it ([`PairingBook::redeem`]). Codes are stored only as
//! salted hashes, compared in constant time, valid for one hour and for one use. After five
//! wrong codes of one purpose ([`CodePurpose`]), their sender, and only this sender, is locked out: even a correct code
//! of that purpose is refused. Requests and invitations have separate capacities. Conversations that the terminal
//! offers are claimed with codes of the same form ([`PairingBook::claim`]).
//!
//! The dispatcher owns the book and the store owns its rows. Randomness and time are arguments.

mod code;
mod guesses;
mod offers;

use std::collections::{BTreeMap, VecDeque};

use serde::{Deserialize, Serialize};

pub use code::{Code, is_code};
pub use guesses::CodePurpose;
pub use offers::{Claim, Claimant, Offered, code_ms};

use crate::access::Grant;
use crate::limits;

#[cfg(test)]
mod tests;

/// The limits of pairing. The defaults are in [`crate::limits`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PairingLimits {
    /// Validity of a code, in milliseconds.
    pub code_ms: i64,
    /// Time until one person gets the next code, in milliseconds.
    pub interval_ms: i64,
    /// Open requests of unknown senders per instance.
    pub open_max: usize,
    /// Wrong codes that lock out their sender.
    pub wrong_max: u32,
    /// Duration of the lock, in milliseconds.
    pub lockout_ms: i64,
}

impl Default for PairingLimits {
    fn default() -> Self {
        let ms = |seconds: u64| i64::try_from(seconds.saturating_mul(1_000)).unwrap_or(i64::MAX);
        Self {
            code_ms: ms(limits::PAIRING_CODE_S),
            interval_ms: ms(limits::PAIRING_INTERVAL_S),
            open_max: limits::PAIRING_OPEN_MAX,
            wrong_max: limits::PAIRING_WRONG_MAX,
            lockout_ms: ms(limits::PAIRING_LOCKOUT_S),
        }
    }
}

/// An open code in the form that the store keeps, without the code itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PairingRequest {
    /// Instance for which the code is valid.
    pub instance: String,
    /// Person who asked; empty for an invitation, which anyone may redeem.
    #[serde(default)]
    pub user: String,
    /// Display name of the person, for lists.
    #[serde(default)]
    pub name: String,
    /// Salt of the hash, in hex.
    pub salt: String,
    /// SHA-256 of salt and code, in hex. Its first characters identify the request in lists.
    pub hash: String,
    /// Time of creation, in Unix milliseconds.
    pub made_ms: i64,
    /// Reminders sent to the person.
    #[serde(default)]
    pub reminders: u32,
}

/// The wrong codes of one sender, in the form that the store keeps.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lockout {
    /// Name of the count: instance, kind and sender ([`CodePurpose::counted_as`]).
    pub instance: String,
    /// Consecutive wrong codes.
    pub wrong: u32,
    /// End of the lock, in Unix milliseconds; 0 if there is none.
    pub until_ms: i64,
}

/// Response to a message of an unknown sender.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum Offer {
    /// A new code, shown once and not stored in clear; the caller stores the row. It replaces an older code of
    /// the same person.
    New {
        /// Code for the person.
        code: Code,
        /// Row to store.
        request: PairingRequest,
    },
    /// A reminder that the person has an open code; the row changed.
    Reminder {
        /// Row to store.
        request: PairingRequest,
    },
    /// No response.
    Quiet {
        /// Reason, stored with the event's row.
        why: &'static str,
    },
}

/// Result of an entered code.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
#[expect(clippy::large_enum_variant, reason = "one value per code that a person types")]
pub enum Approval {
    /// The code was correct. Its request is closed; the caller stores the grant.
    Granted {
        /// New grant. `granted_by` is empty and filled in by the caller.
        grant: Grant,
        /// The closed request.
        request: PairingRequest,
    },
    /// The code belongs to this host but cannot be used here now. It does not count as wrong.
    Over(Over),
    /// The text contains no code. It does not count as wrong.
    Empty,
    /// The code was wrong.
    Wrong {
        /// Wrong codes left before the sender is locked out.
        left: u32,
    },
    /// The sender is locked out; even a correct code is refused.
    Locked {
        /// End of the lock, in Unix milliseconds.
        until_ms: i64,
    },
}

/// Reason for which a code of this host is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Over {
    /// The same person got a newer code.
    Replaced,
    /// The code has expired.
    Expired,
    /// The code was used.
    Used,
    /// The code is open, but for the other direction: the new person must send it, or the operator must approve
    /// it.
    OtherWay,
}

/// The book of open codes and lockouts.
#[derive(Clone, Debug, Default)]
pub struct PairingBook {
    limits: PairingLimits,
    open: Vec<PairingRequest>,
    /// Recently closed codes, oldest first. Entering one of them is a mistake, not a guess.
    over: VecDeque<(Over, PairingRequest)>,
    lockouts: BTreeMap<String, Lockout>,
    /// Conversations offered by the terminal.
    offers: Vec<Offered>,
}

impl PairingBook {
    /// Creates a book from stored rows.
    pub fn new(
        limits: PairingLimits,
        open: impl IntoIterator<Item = PairingRequest>,
        lockouts: impl IntoIterator<Item = Lockout>,
    ) -> Self {
        Self {
            limits,
            open: open.into_iter().collect(),
            over: VecDeque::new(),
            lockouts: lockouts.into_iter().map(|lockout| (lockout.instance.clone(), lockout)).collect(),
            offers: Vec::new(),
        }
    }

    /// Decides the response to a direct message of an unknown sender.
    pub fn offer(&mut self, instance: &str, user: &str, name: &str, now_ms: i64, random: [u8; 32]) -> Offer {
        self.expire(now_ms);
        if user.is_empty() {
            return Offer::Quiet { why: "no sender id" };
        }
        if self.locked_until(&CodePurpose::Redeem.counted_as(instance, user), now_ms).is_some() {
            return Offer::Quiet { why: "locked out after wrong codes" };
        }
        let mine = self.open.iter().position(|request| request.instance == instance && request.user == user);
        if let Some(place) = mine {
            let limits = self.limits;
            let request = &mut self.open[place];
            if now_ms.saturating_sub(request.made_ms) < limits.interval_ms {
                if request.reminders >= crate::limits::PAIRING_REMINDERS_MAX {
                    return Offer::Quiet { why: "already notified" };
                }
                request.reminders += 1;
                return Offer::Reminder { request: request.clone() };
            }
            let replaced = self.open.remove(place);
            self.is_over(Over::Replaced, replaced);
        }
        if self.open_on(instance, is_request) >= self.limits.open_max {
            return Offer::Quiet { why: "too many codes are open" };
        }
        let (code, request) = self.issue(instance, user, name, now_ms, random);
        Offer::New { code, request }
    }

    /// Returns true if [`PairingBook::offer`] answers this person now.
    pub fn would_offer(&self, instance: &str, user: &str, now_ms: i64) -> bool {
        if user.is_empty() || self.locked_until(&CodePurpose::Redeem.counted_as(instance, user), now_ms).is_some() {
            return false;
        }
        let open = self.open.iter().filter(|request| request.instance == instance && self.is_open(request, now_ms));
        let (mine, others): (Vec<_>, Vec<_>) = open.partition(|request| request.user == user);
        match mine.first() {
            Some(mine) if now_ms.saturating_sub(mine.made_ms) < self.limits.interval_ms => {
                mine.reminders < limits::PAIRING_REMINDERS_MAX
            }
            _ => others.into_iter().filter(|request| is_request(request)).count() < self.limits.open_max,
        }
    }

    /// Returns true if [`PairingBook::redeem`] admits the sender of this text now.
    pub fn would_redeem(&self, instance: &str, user: &str, text: &str, now_ms: i64) -> bool {
        if user.is_empty() || !is_code(text) {
            return false;
        }
        if self.locked_until(&CodePurpose::Redeem.counted_as(instance, user), now_ms).is_some() {
            return false;
        }
        let code = Code::entered(text);
        let is_open = |request: &&PairingRequest| {
            request.instance == instance && is_invitation(request) && self.is_open(request, now_ms)
        };
        let mut invitations = self.open.iter().filter(is_open);
        invitations.any(|request| code.matches(&request.salt, &request.hash))
    }

    /// Creates an invitation code; anyone who sends it gets access. Requests and wrong codes of unknown senders do not
    /// count here. Returns `None` if too many invitations are open.
    pub fn invite(&mut self, instance: &str, now_ms: i64, random: [u8; 32]) -> Option<(Code, PairingRequest)> {
        self.expire(now_ms);
        if self.open_on(instance, is_invitation) >= limits::PAIRING_INVITATIONS_MAX {
            return None;
        }
        Some(self.issue(instance, "", "", now_ms, random))
    }

    /// Judges a code entered by the operator or an admin, whom `by` names.
    pub fn approve(&mut self, instance: &str, by: &str, code: &str, now_ms: i64) -> Approval {
        self.judge(instance, &CodePurpose::Approve.counted_as(instance, by), code, now_ms, is_request)
    }

    /// Judges a message of an unknown sender as an invitation code. Returns `None` if no invitation is open,
    /// the text does not look like a code, or the code is closed.
    pub fn redeem(&mut self, instance: &str, user: &str, name: &str, text: &str, now_ms: i64) -> Option<Approval> {
        self.expire(now_ms);
        let any_open = self.open_on(instance, is_invitation) > 0;
        if user.is_empty() || !any_open || !is_code(text) {
            return None;
        }
        let counted_as = CodePurpose::Redeem.counted_as(instance, user);
        let mut approval = self.judge(instance, &counted_as, text, now_ms, is_invitation);
        if matches!(approval, Approval::Over(_)) {
            return None;
        }
        if let Approval::Granted { grant, .. } = &mut approval {
            grant.user = user.to_owned();
            grant.name = name.to_owned();
        }
        Some(approval)
    }

    /// Removes and returns the open code of one person.
    pub fn revoke(&mut self, instance: &str, user: &str) -> Option<PairingRequest> {
        let place = self.open.iter().position(|request| request.instance == instance && request.user == user)?;
        Some(self.open.remove(place))
    }

    /// Removes the request with this hash after its code could not be sent.
    pub fn take_back(&mut self, hash: &str) {
        self.open.retain(|request| request.hash != hash);
    }

    /// Removes all open codes and lockouts of one instance or of all.
    pub fn clear(&mut self, instance: Option<&str>) {
        self.open.retain(|request| instance.is_some_and(|only| only != request.instance));
        self.over.retain(|(_, request)| instance.is_some_and(|only| only != request.instance));
        self.lockouts.retain(|name, _| instance.is_some_and(|only| !guesses::is_of(name, only)));
    }

    /// Returns the open codes, oldest first.
    pub fn list(&self, now_ms: i64) -> impl Iterator<Item = &PairingRequest> {
        self.open.iter().filter(move |request| self.is_open(request, now_ms))
    }

    /// Returns the wrong codes of a sender. The caller stores them after each judgement.
    pub fn lockout(&self, counted_as: &str) -> Option<&Lockout> {
        self.lockouts.get(counted_as)
    }

    /// Returns the end of the lock of a sender, in Unix milliseconds.
    pub fn locked_until(&self, counted_as: &str, now_ms: i64) -> Option<i64> {
        self.lockouts.get(counted_as).map(|lockout| lockout.until_ms).filter(|&until| until > now_ms)
    }

    fn issue(
        &mut self,
        instance: &str,
        user: &str,
        name: &str,
        now_ms: i64,
        random: [u8; 32],
    ) -> (Code, PairingRequest) {
        let (code, salt) = Code::draw(random);
        let request = PairingRequest {
            instance: instance.to_owned(),
            user: user.to_owned(),
            name: name.to_owned(),
            hash: code.hash(&salt),
            salt,
            made_ms: now_ms,
            reminders: 0,
        };
        self.open.push(request.clone());
        (code, request)
    }

    fn judge(
        &mut self,
        instance: &str,
        counted_as: &str,
        entered: &str,
        now_ms: i64,
        counts: impl Fn(&PairingRequest) -> bool,
    ) -> Approval {
        self.expire(now_ms);
        if let Some(until_ms) = self.locked_until(counted_as, now_ms) {
            return Approval::Locked { until_ms };
        }
        let code = Code::entered(entered);
        if code.expose().is_empty() {
            return Approval::Empty;
        }
        // Every request is hashed and compared, so that the response time reveals nothing about a near match.
        let is_of = |request: &PairingRequest| {
            let same = code.matches(&request.salt, &request.hash);
            same && request.instance == instance
        };
        let mut over = None;
        for (how, request) in &self.over {
            if is_of(request) {
                over = Some(*how);
            }
        }
        let mut found = None;
        for (place, request) in self.open.iter().enumerate() {
            match is_of(request) {
                true if counts(request) => found = Some(place),
                true => over = Some(Over::OtherWay),
                false => {}
            }
        }
        let Some(place) = found else {
            return over.map_or_else(|| self.wrong(counted_as, now_ms), Approval::Over);
        };
        let request = self.open.remove(place);
        self.is_over(Over::Used, request.clone());
        self.lockouts.remove(counted_as);
        let grant = Grant {
            instance: instance.to_owned(),
            user: request.user.clone(),
            name: request.name.clone(),
            granted_by: String::new(),
            at_ms: now_ms,
        };
        Approval::Granted { grant, request }
    }

    fn open_on(&self, instance: &str, counts: impl Fn(&PairingRequest) -> bool) -> usize {
        self.open.iter().filter(|request| request.instance == instance && counts(request)).count()
    }

    fn is_open(&self, request: &PairingRequest, now_ms: i64) -> bool {
        now_ms.saturating_sub(request.made_ms) < self.limits.code_ms
    }

    fn expire(&mut self, now_ms: i64) {
        let (open, expired) =
            std::mem::take(&mut self.open).into_iter().partition(|request| self.is_open(request, now_ms));
        self.open = open;
        let expired: Vec<PairingRequest> = expired;
        for request in expired {
            self.is_over(Over::Expired, request);
        }
    }

    fn is_over(&mut self, how: Over, request: PairingRequest) {
        if self.over.len() >= limits::PAIRING_OVER_MAX {
            self.over.pop_front();
        }
        self.over.push_back((how, request));
    }
}

/// Returns true if an unknown sender requested this code.
fn is_request(request: &PairingRequest) -> bool {
    !request.user.is_empty()
}

/// Returns true if an admin created this code as an invitation.
fn is_invitation(request: &PairingRequest) -> bool {
    request.user.is_empty()
}
