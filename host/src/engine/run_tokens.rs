//! Tokens of the control socket: the right of one run's processes to use it.
//!
//! A run is one turn of the agent. Its tool processes get the token in their environment. The token carries the rights
//! of the requester, and ends with the run.

use std::collections::BTreeSet;
use std::hint::black_box;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use hermes_core::access::Tier;
use hermes_core::context::{ControlToken, TurnContext};
use hermes_system::children::ProcessId;

use hermes_system::rng::Chance;

/// Random bytes of a token.
const TOKEN_BYTES: usize = 32;

/// The replacement for a token in the output of tools.
const MASKED: &str = "[control token]";

/// The rights of one run.
#[derive(Clone, Debug)]
pub struct Run {
    /// The tier of the requester.
    pub tier: Tier,
    /// The tier for messages to other chats; turns of the host itself have that of the user for whom they run.
    pub reach: Tier,
    /// The requester, named like an owner; `None` if unknown or if several users speak in the run.
    pub person: Option<String>,
    /// The context of its turn.
    pub context: TurnContext,
}

impl Run {
    /// Returns `true` if only the requester reads the output of the run.
    pub fn is_private(&self) -> bool {
        !self.context.owner.is_empty()
    }
}

/// The tokens of all active runs. There is one per running turn, and the host limits those.
#[derive(Debug, Default)]
pub struct RunTokens {
    issued: Mutex<Vec<Issued>>,
    /// Leftover processes of runs of an earlier host; they have no token.
    left: OnceLock<BTreeSet<ProcessId>>,
}

/// The rights that one event gives to a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rights {
    /// The tier of its author.
    pub tier: Tier,
    /// The tier of its author for messages to other chats.
    pub reach: Tier,
    /// Its author, named as owners are.
    pub person: Option<String>,
}

impl Rights {
    /// Returns the rights of a run in which both authors speak: the lower one of each.
    pub fn and(self, other: Self) -> Self {
        Self {
            tier: self.tier.min(other.tier),
            reach: self.reach.min(other.reach),
            person: self.person.filter(|person| Some(person) == other.person.as_ref()),
        }
    }
}

#[derive(Debug)]
struct Issued {
    token: ControlToken,
    run: Arc<Run>,
}

/// The validity of one token. Dropping it ends the token.
#[derive(Debug)]
pub struct TokenLease {
    tokens: Arc<RunTokens>,
    token: ControlToken,
}

impl RunTokens {
    /// Issues the token of a run and writes it into its context.
    pub fn issue(self: &Arc<Self>, chance: &dyn Chance, rights: Rights, context: &mut TurnContext) -> TokenLease {
        let mut bytes = [0; TOKEN_BYTES];
        chance.fill(&mut bytes);
        let token = ControlToken::new(bytes.iter().map(|byte| format!("{byte:02x}")).collect());
        context.control = token.clone();
        let Rights { tier, reach, person } = rights;
        let run = Arc::new(Run { tier, reach, person, context: context.clone() });
        self.all().push(Issued { token: token.clone(), run });
        TokenLease { tokens: Arc::clone(self), token }
    }

    /// Finds the run of a token. The reference ends with the run.
    pub fn run_of(&self, token: &str) -> Option<Weak<Run>> {
        // All tokens are compared, so that the time reveals nothing about them.
        let mut found = None;
        for issued in self.all().iter() {
            if is_same(issued.token.expose().as_bytes(), token.as_bytes()) {
                found = Some(Arc::downgrade(&issued.run));
            }
        }
        found
    }

    /// Sets the leftover processes of an earlier host, once.
    pub fn set_left(&self, left: BTreeSet<ProcessId>) {
        // A run of the host starts once; a second call changes nothing.
        let _ = self.left.set(left);
    }

    /// Returns the leftover processes of an earlier host.
    pub fn left(&self) -> &BTreeSet<ProcessId> {
        static NONE: BTreeSet<ProcessId> = BTreeSet::new();
        self.left.get().unwrap_or(&NONE)
    }

    /// Masks the tokens of all runs in a text.
    pub fn mask(&self, mut text: String) -> String {
        for issued in self.all().iter() {
            if text.contains(issued.token.expose()) {
                text = text.replace(issued.token.expose(), MASKED);
            }
        }
        text
    }

    fn all(&self) -> MutexGuard<'_, Vec<Issued>> {
        self.issued.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl TokenLease {
    /// Lowers the rights of the run, because an author with these rights has spoken in it.
    pub fn lower_to(&self, rights: &Rights) {
        for issued in self.tokens.all().iter_mut().filter(|issued| issued.token == self.token) {
            let Run { tier, reach, person, .. } = &*issued.run;
            let before = Rights { tier: *tier, reach: *reach, person: person.clone() };
            let after = before.clone().and(rights.clone());
            if after != before {
                let Rights { tier, reach, person } = after;
                issued.run = Arc::new(Run { tier, reach, person, context: issued.run.context.clone() });
            }
        }
    }
}

impl Drop for TokenLease {
    fn drop(&mut self) {
        self.tokens.all().retain(|issued| issued.token != self.token);
    }
}

/// Compares two values in a time that depends only on their lengths.
fn is_same(one: &[u8], other: &[u8]) -> bool {
    let differ = one.iter().zip(other).fold(0, |differ, (one, other)| black_box(differ | (one ^ other)));
    one.len() == other.len() && differ == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use hermes_system::rng::SystemChance;

    fn rights(tier: Tier, person: &str) -> Rights {
        Rights { tier, reach: tier, person: Some(person.to_owned()) }
    }

    #[test]
    fn a_token_is_valid_for_its_run_only() {
        let tokens = Arc::new(RunTokens::default());
        let mut context = TurnContext { user_id: "7".to_owned(), ..TurnContext::default() };
        let lease = tokens.issue(&SystemChance, rights(Tier::User, "one:7"), &mut context);
        let other = tokens.issue(&SystemChance, rights(Tier::Operator, "operator"), &mut TurnContext::default());
        let token = context.control.expose().to_owned();
        assert_eq!(token.len(), 2 * TOKEN_BYTES);
        let run = tokens.run_of(&token).unwrap();
        assert_eq!(
            run.upgrade().map(|run| (run.tier, run.context.user_id.clone())),
            Some((Tier::User, "7".to_owned()))
        );
        for wrong in ["", "x", &token[1..], &token.to_uppercase(), &format!("{token}0")] {
            assert!(tokens.run_of(wrong).is_none() || wrong == token, "{wrong}");
        }
        drop(lease);
        assert!(run.upgrade().is_none() && tokens.run_of(&token).is_none(), "it ends with its run");
        drop(other);
        assert!(tokens.all().is_empty());
    }

    #[test]
    fn a_run_in_which_a_user_spoke_has_the_rights_of_a_user() {
        let tokens = Arc::new(RunTokens::default());
        let mut context = TurnContext::default();
        let lease = tokens.issue(&SystemChance, rights(Tier::Operator, "operator"), &mut context);
        let before = tokens.run_of(context.control.expose()).unwrap();
        lease.lower_to(&rights(Tier::User, "one:7"));
        lease.lower_to(&rights(Tier::Admin, "one:8"));
        let tier = |run: Weak<Run>| run.upgrade().map(|run| (run.tier, run.reach, run.person.clone()));
        let lowered = tier(tokens.run_of(context.control.expose()).unwrap());
        assert_eq!(lowered, Some((Tier::User, Tier::User, None)), "and is nobody's alone");
        assert_eq!(tier(before), None, "an open connection loses the higher rights");
    }

    #[test]
    fn a_token_is_never_printed() {
        let tokens = Arc::new(RunTokens::default());
        let mut context = TurnContext::default();
        let lease = tokens.issue(&SystemChance, rights(Tier::User, "one:7"), &mut context);
        let token = context.control.expose();
        assert!(!format!("{context:?}{tokens:?}{lease:?}").contains(token));
        assert_eq!(tokens.mask(format!("A={token}\n")), format!("A={MASKED}\n"));
    }
}
