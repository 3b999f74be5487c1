//! Conversations that the terminal offers. Anyone may claim one from any chat with its code.
//!
//! A code is valid for [`limits::HANDOFF_CODE_S`] and for one use. Wrong codes are counted per person,
//! separately from those of pairing, and lock out only that person. The operator, who creates the codes, is
//! never locked out.

use serde::{Deserialize, Serialize};

use super::code::Code;
use super::{Approval, CodePurpose, PairingBook};
use crate::ids::SessionId;
use crate::limits;

/// An offered conversation in the form that the store keeps, without the code itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Offered {
    /// Session of the conversation.
    pub session: SessionId,
    /// Salt of the hash, in hex.
    pub salt: String,
    /// SHA-256 of salt and code, in hex.
    pub hash: String,
    /// Time of creation, in Unix milliseconds.
    pub made_ms: i64,
}

/// Result of a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum Claim {
    /// The code belongs to this conversation, which stays offered until [`PairingBook::take_offer`].
    Right(SessionId),
    /// The code was wrong.
    Wrong {
        /// Wrong codes left before the person is locked out; `None` for the operator, who is never locked out.
        left: Option<u32>,
    },
    /// The person is locked out; no code is accepted.
    Locked,
}

/// The sender of a claim.
#[derive(Clone, Copy, Debug)]
pub struct Claimant<'a> {
    /// Instance of the sender.
    pub instance: &'a str,
    /// Id of the sender on that instance; empty if unknown.
    pub user: &'a str,
    /// True for the operator.
    pub is_operator: bool,
}

impl Claimant<'_> {
    /// Returns the name under which wrong claims are counted. No instance can have this name.
    pub fn counted_as(&self) -> String {
        CodePurpose::Claim.counted_as(self.instance, self.user)
    }
}

/// Returns the validity of a code, in milliseconds.
pub fn code_ms() -> i64 {
    i64::try_from(limits::HANDOFF_CODE_S.saturating_mul(1_000)).unwrap_or(i64::MAX)
}

impl PairingBook {
    /// Sets the offered conversations.
    pub fn with_offers(mut self, offers: impl IntoIterator<Item = Offered>) -> Self {
        self.offers = offers.into_iter().collect();
        self
    }

    /// Offers a conversation; an earlier code for it becomes invalid. Returns `None` if too many are offered.
    pub fn put_up(&mut self, session: &SessionId, now_ms: i64, random: [u8; 32]) -> Option<(Code, Offered)> {
        self.expire_offers(now_ms);
        self.offers.retain(|offer| offer.session != *session);
        if self.offers.len() >= limits::HANDOFF_OFFERS_MAX {
            return None;
        }
        let (code, salt) = Code::draw(random);
        let offer = Offered { session: session.clone(), hash: code.hash(&salt), salt, made_ms: now_ms };
        self.offers.push(offer.clone());
        Some((code, offer))
    }

    /// Judges a code from a claimant.
    pub fn claim(&mut self, by: Claimant<'_>, entered: &str, now_ms: i64) -> Claim {
        self.expire_offers(now_ms);
        let counted_as = by.counted_as();
        if !by.is_operator && self.locked_until(&counted_as, now_ms).is_some() {
            return Claim::Locked;
        }
        let code = Code::entered(entered);
        let mut found = None;
        for offer in &self.offers {
            // Every offer is hashed and compared, so that the response time reveals nothing about a near match.
            if code.matches(&offer.salt, &offer.hash) {
                found = Some(offer.session.clone());
            }
        }
        match found {
            Some(session) => {
                self.lockouts.remove(&counted_as);
                Claim::Right(session)
            }
            None if by.is_operator => Claim::Wrong { left: None },
            None => match self.wrong(&counted_as, now_ms) {
                Approval::Wrong { left } => Claim::Wrong { left: Some(left) },
                _ => Claim::Locked,
            },
        }
    }

    /// Removes an offer. Returns false if it was no longer there.
    pub fn take_offer(&mut self, session: &SessionId, now_ms: i64) -> bool {
        self.expire_offers(now_ms);
        let before = self.offers.len();
        self.offers.retain(|offer| offer.session != *session);
        self.offers.len() < before
    }

    fn expire_offers(&mut self, now_ms: i64) {
        self.offers.retain(|offer| now_ms.saturating_sub(offer.made_ms) < code_ms());
    }
}

#[cfg(test)]
mod tests {
    use super::super::PairingLimits;
    use super::*;

    fn book() -> PairingBook {
        PairingBook::new(PairingLimits::default(), [], [])
    }

    fn by(user: &str) -> Claimant<'_> {
        Claimant { instance: "one", user, is_operator: false }
    }

    fn session(id: &str) -> SessionId {
        SessionId::from(id)
    }

    #[test]
    fn a_conversation_is_claimed_by_its_code_from_any_instance_once() {
        let mut book = book();
        let (code, offer) = book.put_up(&session("s"), 1_000, [7; 32]).unwrap();
        assert!(!offer.hash.contains(code.expose()));
        let spaced = format!("{}-{}", &code.expose()[..4], code.expose()[4..].to_lowercase());
        assert_eq!(book.claim(by("7"), &spaced, 2_000), Claim::Right(session("s")));
        assert!(book.take_offer(&session("s"), 2_000));
        assert!(!book.take_offer(&session("s"), 2_000), "it was claimed already");
        assert_eq!(book.claim(by("8"), code.expose(), 2_000), Claim::Wrong { left: Some(4) });
    }

    #[test]
    fn a_code_is_good_for_ten_minutes_and_a_new_one_takes_its_place() {
        let mut book = book();
        let (first, _) = book.put_up(&session("s"), 0, [1; 32]).unwrap();
        let (second, _) = book.put_up(&session("s"), 1, [2; 32]).unwrap();
        assert_eq!(book.claim(by("7"), first.expose(), 2), Claim::Wrong { left: Some(4) });
        assert_eq!(book.claim(by("7"), second.expose(), code_ms()), Claim::Right(session("s")));
        assert_eq!(book.claim(by("7"), second.expose(), code_ms() + 1), Claim::Wrong { left: Some(4) });
    }

    #[test]
    fn wrong_codes_lock_out_the_person_who_sent_them_and_nobody_else() {
        let mut book = book();
        let (code, _) = book.put_up(&session("s"), 0, [1; 32]).unwrap();
        for left in (1..5).rev() {
            assert_eq!(book.claim(by("7"), "AAAABBBB", 1), Claim::Wrong { left: Some(left) });
        }
        assert_eq!(book.claim(by("7"), "AAAABBBB", 1), Claim::Locked);
        assert_eq!(book.claim(by("7"), code.expose(), 1), Claim::Locked, "the right one too");
        assert_eq!(book.claim(by("8"), code.expose(), 1), Claim::Right(session("s")));
        assert!(book.locked_until("one", 1).is_none(), "pairing goes on");
        assert!(book.lockout(&by("7").counted_as()).is_some_and(|lockout| lockout.until_ms > 1));
    }

    #[test]
    fn the_operator_is_never_locked_out_of_what_they_offered() {
        let mut book = book();
        let (code, _) = book.put_up(&session("s"), 0, [1; 32]).unwrap();
        let operator = Claimant { is_operator: true, ..by("9") };
        for _ in 0..20 {
            assert_eq!(book.claim(operator, "AAAABBBB", 1), Claim::Wrong { left: None });
        }
        assert_eq!(book.claim(operator, code.expose(), 1), Claim::Right(session("s")));
    }

    #[test]
    fn the_locks_of_claims_are_bounded_and_cleared_with_their_instance() {
        let mut book = book();
        for n in 0..=limits::GUESSERS_MAX {
            let _ = book.claim(by(&n.to_string()), "AAAABBBB", 1);
        }
        assert_eq!(book.lockouts.len(), limits::GUESSERS_MAX);
        book.clear(Some("another"));
        assert_eq!(book.lockouts.len(), limits::GUESSERS_MAX);
        book.clear(Some("one"));
        assert!(book.lockouts.is_empty());
    }

    #[test]
    fn no_more_than_so_many_are_offered_at_once() {
        let mut book = book();
        for n in 0..limits::HANDOFF_OFFERS_MAX {
            assert!(book.put_up(&session(&n.to_string()), 0, [u8::try_from(n).unwrap(); 32]).is_some());
        }
        assert!(book.put_up(&session("more"), 0, [99; 32]).is_none());
        assert!(book.put_up(&session("more"), code_ms(), [99; 32]).is_some(), "the others are over");
    }
}
