//! How a stranger becomes a user: a code that the operator confirms.
//!
//! A stranger's direct message is answered with a code ([`PairingBook::offer`]);
//! the operator approves it ([`PairingBook::approve`]). The other way round an
//! admin hands out a code ([`PairingBook::invite`]) that the new user sends
//! ([`PairingBook::redeem`]). Codes are kept only as salted hashes, compared
//! without an early exit, good for an hour and for one use; five wrong ones lock
//! the instance, right ones included. Conversations that the terminal offers are claimed by
//! such codes too ([`PairingBook::claim`]).
//!
//! The book is the dispatcher's; its rows are the store's. Randomness and time are
//! arguments.

mod code;
mod offers;

use std::collections::{BTreeMap, VecDeque};

use serde::{Deserialize, Serialize};

pub use code::{Code, is_code};
use offers::claims_of;
pub use offers::{Claim, Claimant, Offered, code_ms};

use crate::access::Grant;
use crate::limits;

#[cfg(test)]
mod tests;

/// The bounds of pairing; the defaults are those of [`crate::limits`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PairingLimits {
    /// How long a code is good, in milliseconds.
    pub code_ms: i64,
    /// How long one person waits for the next code, in milliseconds.
    pub interval_ms: i64,
    /// How many codes are open per instance.
    pub open_max: usize,
    /// How many wrong codes lock an instance.
    pub wrong_max: u32,
    /// How long it stays locked, in milliseconds.
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

/// A code that is open, as the store keeps it. The code itself is not in here.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PairingRequest {
    /// The instance it holds for.
    pub instance: String,
    /// The person who asked; empty: whoever sends the code (an invitation).
    #[serde(default)]
    pub user: String,
    /// Their display name, for lists.
    #[serde(default)]
    pub name: String,
    /// Salt of the hash, in hex.
    pub salt: String,
    /// SHA-256 of salt and code, in hex. Its beginning names the request in lists.
    pub hash: String,
    /// When the code was made, in Unix milliseconds.
    pub made_ms: i64,
    /// How often the person was told again that it is open.
    #[serde(default)]
    pub reminders: u32,
}

/// Wrong codes of one instance, as the store keeps them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lockout {
    /// The instance.
    pub instance: String,
    /// Wrong codes in a row.
    pub wrong: u32,
    /// Until when it is locked, in Unix milliseconds; 0: it is not.
    pub until_ms: i64,
}

/// What a stranger's message gets.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum Offer {
    /// A new code, told once and kept nowhere; the row is to be stored. It replaces an older one of the same person.
    New {
        /// What the person is told.
        code: Code,
        /// The row.
        request: PairingRequest,
    },
    /// The person has an open code and is told once more to wait; the row changed.
    Reminder {
        /// The row.
        request: PairingRequest,
    },
    /// Nothing is said.
    Quiet {
        /// Why, for the row.
        why: &'static str,
    },
}

/// What became of a code that was entered.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
#[expect(clippy::large_enum_variant, reason = "one value per code that a person types")]
pub enum Approval {
    /// It was right. Its request is gone; the grant is to be stored.
    Granted {
        /// Who may speak from now on. `granted_by` is empty: the caller knows.
        grant: Grant,
        /// The request that was open.
        request: PairingRequest,
    },
    /// It is a code of this host, and not one that can be entered here now. It does not count as wrong.
    Over(Over),
    /// There is nothing in it that could be a code. It does not count as wrong.
    Empty,
    /// It was wrong.
    Wrong {
        /// How many more may be wrong before the instance is locked.
        left: u32,
    },
    /// The instance is locked, whatever the code.
    Locked {
        /// Until when, in Unix milliseconds.
        until_ms: i64,
    },
}

/// Why a code of this host lets nobody in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Over {
    /// The same person was told a newer one.
    Replaced,
    /// It is too old.
    Expired,
    /// It has let somebody in.
    Used,
    /// It is open, and for the other way: to be sent by the new person, or to be approved.
    OtherWay,
}

/// All open codes and lockouts.
#[derive(Clone, Debug, Default)]
pub struct PairingBook {
    limits: PairingLimits,
    open: Vec<PairingRequest>,
    /// The last codes that were open, oldest first: who enters one is mistaken and does not guess.
    over: VecDeque<(Over, PairingRequest)>,
    lockouts: BTreeMap<String, Lockout>,
    /// Conversations that the terminal offers.
    offers: Vec<Offered>,
}

impl PairingBook {
    /// The book of these rows.
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

    /// Decides what a stranger who wrote directly is told.
    pub fn offer(&mut self, instance: &str, user: &str, name: &str, now_ms: i64, random: [u8; 32]) -> Offer {
        self.expire(now_ms);
        if user.is_empty() {
            return Offer::Quiet { why: "no sender id" };
        }
        if self.locked_until(instance, now_ms).is_some() {
            return Offer::Quiet { why: "pairing is locked after wrong codes" };
        }
        let mine = self.open.iter().position(|request| request.instance == instance && request.user == user);
        if let Some(place) = mine {
            let limits = self.limits;
            let request = &mut self.open[place];
            if now_ms.saturating_sub(request.made_ms) < limits.interval_ms {
                if request.reminders >= crate::limits::PAIRING_REMINDERS_MAX {
                    return Offer::Quiet { why: "was told already" };
                }
                request.reminders += 1;
                return Offer::Reminder { request: request.clone() };
            }
            let replaced = self.open.remove(place);
            self.is_over(Over::Replaced, replaced);
        }
        if self.open_on(instance) >= self.limits.open_max {
            return Offer::Quiet { why: "too many codes are open" };
        }
        let (code, request) = self.issue(instance, user, name, now_ms, random);
        Offer::New { code, request }
    }

    /// Makes a code that an admin hands out; whoever sends it is let in.
    /// `None` when too many codes are open or the instance is locked.
    pub fn invite(&mut self, instance: &str, now_ms: i64, random: [u8; 32]) -> Option<(Code, PairingRequest)> {
        self.expire(now_ms);
        if self.locked_until(instance, now_ms).is_some() || self.open_on(instance) >= self.limits.open_max {
            return None;
        }
        Some(self.issue(instance, "", "", now_ms, random))
    }

    /// Judges a code that the operator or an admin entered.
    pub fn approve(&mut self, instance: &str, code: &str, now_ms: i64) -> Approval {
        self.judge(instance, code, now_ms, |request| !request.user.is_empty())
    }

    /// Judges what a stranger wrote, if it looks like a code and an invitation is open; else `None`, as for a code
    /// that is no invitation any more.
    pub fn redeem(&mut self, instance: &str, user: &str, name: &str, text: &str, now_ms: i64) -> Option<Approval> {
        self.expire(now_ms);
        let invited = |request: &PairingRequest| request.user.is_empty();
        let any_open = self.open.iter().any(|request| request.instance == instance && invited(request));
        if user.is_empty() || !any_open || !is_code(text) {
            return None;
        }
        let mut approval = self.judge(instance, text, now_ms, invited);
        if matches!(approval, Approval::Over(_)) {
            return None;
        }
        if let Approval::Granted { grant, .. } = &mut approval {
            grant.user = user.to_owned();
            grant.name = name.to_owned();
        }
        Some(approval)
    }

    /// Takes back the open code of one person.
    pub fn revoke(&mut self, instance: &str, user: &str) -> Option<PairingRequest> {
        let place = self.open.iter().position(|request| request.instance == instance && request.user == user)?;
        Some(self.open.remove(place))
    }

    /// Takes back the request with this hash, whose code nobody was told.
    pub fn take_back(&mut self, hash: &str) {
        self.open.retain(|request| request.hash != hash);
    }

    /// Takes back every open code and ends every lockout, of one instance or of all.
    pub fn clear(&mut self, instance: Option<&str>) {
        self.open.retain(|request| instance.is_some_and(|only| only != request.instance));
        self.over.retain(|(_, request)| instance.is_some_and(|only| only != request.instance));
        let is_theirs = |name: &str, only: &str| only == name || name.starts_with(&claims_of(only));
        self.lockouts.retain(|name, _| instance.is_some_and(|only| !is_theirs(name, only)));
    }

    /// Returns the codes that are open, oldest first.
    pub fn list(&self, now_ms: i64) -> impl Iterator<Item = &PairingRequest> {
        self.open.iter().filter(move |request| self.is_open(request, now_ms))
    }

    /// Returns the wrong codes of an instance, to be stored after each judgement.
    pub fn lockout(&self, instance: &str) -> Option<&Lockout> {
        self.lockouts.get(instance)
    }

    /// Returns until when an instance is locked.
    pub fn locked_until(&self, instance: &str, now_ms: i64) -> Option<i64> {
        self.lockouts.get(instance).map(|lockout| lockout.until_ms).filter(|&until| until > now_ms)
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
        entered: &str,
        now_ms: i64,
        counts: impl Fn(&PairingRequest) -> bool,
    ) -> Approval {
        self.expire(now_ms);
        if let Some(until_ms) = self.locked_until(instance, now_ms) {
            return Approval::Locked { until_ms };
        }
        let code = Code::entered(entered);
        if code.expose().is_empty() {
            return Approval::Empty;
        }
        // Every request is hashed and compared, so that time tells nothing about which one is near.
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
            return over.map_or_else(|| self.wrong(instance, now_ms), Approval::Over);
        };
        let request = self.open.remove(place);
        self.is_over(Over::Used, request.clone());
        self.lockouts.remove(instance);
        let grant = Grant {
            instance: instance.to_owned(),
            user: request.user.clone(),
            name: request.name.clone(),
            granted_by: String::new(),
            at_ms: now_ms,
        };
        Approval::Granted { grant, request }
    }

    fn wrong(&mut self, instance: &str, now_ms: i64) -> Approval {
        let limits = self.limits;
        let lockout = self
            .lockouts
            .entry(instance.to_owned())
            .or_insert_with(|| Lockout { instance: instance.to_owned(), ..Lockout::default() });
        lockout.wrong = lockout.wrong.saturating_add(1);
        if lockout.wrong < limits.wrong_max {
            return Approval::Wrong { left: limits.wrong_max - lockout.wrong };
        }
        lockout.wrong = 0;
        lockout.until_ms = now_ms.saturating_add(limits.lockout_ms);
        Approval::Locked { until_ms: lockout.until_ms }
    }

    fn open_on(&self, instance: &str) -> usize {
        self.open.iter().filter(|request| request.instance == instance).count()
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
