//! Conversations that the terminal offers to whoever sends their code, from any chat.
//!
//! A code is good for [`limits::HANDOFF_CODE_S`] and for one use. Wrong ones are counted for each
//! instance, apart from those of pairing, and lock it for claims alike.

use serde::{Deserialize, Serialize};

use super::code::Code;
use super::{Approval, PairingBook};
use crate::ids::SessionId;
use crate::limits;

/// A conversation that is offered, as the store keeps it. The code itself is not in here.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Offered {
    /// The conversation.
    pub session: SessionId,
    /// Salt of the hash, in hex.
    pub salt: String,
    /// SHA-256 of salt and code, in hex.
    pub hash: String,
    /// When the code was made, in Unix milliseconds.
    pub made_ms: i64,
}

/// What became of a code that was to claim a conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum Claim {
    /// It is the code of this conversation, which stays offered until [`PairingBook::take_offer`].
    Right(SessionId),
    /// It was wrong.
    Wrong {
        /// How many more may be wrong before the instance is locked.
        left: u32,
    },
    /// The instance is locked, whatever the code.
    Locked,
}

/// The name under which the wrong claims of an instance are counted. No instance is called so.
pub fn claims_of(instance: &str) -> String {
    format!("{instance}/claim")
}

/// How long a code is good, in milliseconds.
pub fn code_ms() -> i64 {
    i64::try_from(limits::HANDOFF_CODE_S.saturating_mul(1_000)).unwrap_or(i64::MAX)
}

impl PairingBook {
    /// Offers these conversations.
    pub fn with_offers(mut self, offers: impl IntoIterator<Item = Offered>) -> Self {
        self.offers = offers.into_iter().collect();
        self
    }

    /// Offers a conversation; a code that it had before works no more. `None` when too many are offered.
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

    /// Judges a code that somebody sent through an instance.
    pub fn claim(&mut self, instance: &str, entered: &str, now_ms: i64) -> Claim {
        self.expire_offers(now_ms);
        let claims = claims_of(instance);
        if self.locked_until(&claims, now_ms).is_some() {
            return Claim::Locked;
        }
        let code = Code::entered(entered);
        let mut found = None;
        for offer in &self.offers {
            // Every one is hashed and compared, so that time tells nothing about which one is near.
            if code.matches(&offer.salt, &offer.hash) {
                found = Some(offer.session.clone());
            }
        }
        match found {
            Some(session) => {
                self.lockouts.remove(&claims);
                Claim::Right(session)
            }
            None => match self.wrong(&claims, now_ms) {
                Approval::Wrong { left } => Claim::Wrong { left },
                _ => Claim::Locked,
            },
        }
    }

    /// Takes an offer back; `false` when it was not there any more.
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

    fn session(id: &str) -> SessionId {
        SessionId::from(id)
    }

    #[test]
    fn a_conversation_is_claimed_by_its_code_from_any_instance_once() {
        let mut book = book();
        let (code, offer) = book.put_up(&session("s"), 1_000, [7; 32]).unwrap();
        assert!(!offer.hash.contains(code.expose()));
        let spaced = format!("{}-{}", &code.expose()[..4], code.expose()[4..].to_lowercase());
        assert_eq!(book.claim("one", &spaced, 2_000), Claim::Right(session("s")));
        assert!(book.take_offer(&session("s"), 2_000));
        assert!(!book.take_offer(&session("s"), 2_000), "it was claimed already");
        assert_eq!(book.claim("two", code.expose(), 2_000), Claim::Wrong { left: 4 });
    }

    #[test]
    fn a_code_is_good_for_ten_minutes_and_a_new_one_takes_its_place() {
        let mut book = book();
        let (first, _) = book.put_up(&session("s"), 0, [1; 32]).unwrap();
        let (second, _) = book.put_up(&session("s"), 1, [2; 32]).unwrap();
        assert_eq!(book.claim("one", first.expose(), 2), Claim::Wrong { left: 4 });
        assert_eq!(book.claim("one", second.expose(), code_ms()), Claim::Right(session("s")));
        assert_eq!(book.claim("one", second.expose(), code_ms() + 1), Claim::Wrong { left: 4 });
    }

    #[test]
    fn wrong_codes_lock_the_instance_for_claims_and_for_nothing_else() {
        let mut book = book();
        let (code, _) = book.put_up(&session("s"), 0, [1; 32]).unwrap();
        for left in (1..5).rev() {
            assert_eq!(book.claim("one", "AAAABBBB", 1), Claim::Wrong { left });
        }
        assert_eq!(book.claim("one", "AAAABBBB", 1), Claim::Locked);
        assert_eq!(book.claim("one", code.expose(), 1), Claim::Locked, "the right one too");
        assert_eq!(book.claim("two", code.expose(), 1), Claim::Right(session("s")));
        assert!(book.locked_until("one", 1).is_none(), "pairing goes on");
        assert!(book.lockout(&claims_of("one")).is_some_and(|lockout| lockout.until_ms > 1));
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
