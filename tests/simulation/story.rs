//! What happens, drawn from a seed.

use std::fmt;

use hermes_tests::{Chance, Isolation};
use serde_json::{Value, json};

/// People who may speak.
pub const ADMITTED: [&str; 3] = ["1", "2", "3"];

/// Somebody who may not.
pub const STRANGER: &str = "9";

/// What may become of a message that comes while a turn runs.
pub const BUSY: [&str; 2] = ["queue", "interrupt"];

/// Steps of one story.
const STEPS: u64 = 45;

/// Steps after those: writing among deaths during the same send, long outages and clocks that are set meanwhile.
const LATE_STEPS: u64 = 8;

/// Where somebody writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// In private.
    Dm,
    /// In the one group.
    Group,
    /// In a thread of the group, which everybody there shares.
    Thread,
}

/// One step.
#[derive(Clone, Debug)]
pub enum Step {
    /// Somebody writes a message; `text` ends in its token.
    Write { place: Place, who: &'static str, text: String, token: String, addressed: bool },
    /// Somebody gives an order.
    Order { place: Place, who: &'static str, order: &'static str },
    /// The platform delivers an earlier event again: the nth from the end.
    Again { back: usize },
    /// The next sends end so.
    Sends { outcome: Value, times: u64 },
    /// Something becomes of the next send; the words are those of the scripted adapter.
    Trouble { what: &'static str },
    /// The platform refuses the next connections.
    Away { times: u64 },
    /// The platform cannot be reached for so many connections.
    Outage { times: u64 },
    /// The host dies so often after a send and before its receipt.
    Deaths { times: u64 },
    /// The process of the adapter dies in the first send of so many lives.
    ChildDeaths { times: u64 },
    /// The machine's clock is set while the host runs.
    Jump { ms: i64 },
    /// kill -9.
    Kill,
    /// The host is asked to end, and starts again.
    Restart,
    /// The host starts again and dies at a point of its path, the nth time it comes there.
    DieAt { point: &'static str, nth: u64 },
    /// The host is killed; the machine's clock is set meanwhile.
    SetClock { skew_ms: i64 },
    /// Nothing, for a moment.
    Rest { ms: u64 },
}

/// One seed's story.
#[derive(Clone, Debug)]
pub struct Story {
    /// Where it comes from.
    pub seed: u64,
    /// How the adapter runs.
    pub isolation: Isolation,
    /// What becomes of a message that comes while a turn runs.
    pub busy: &'static str,
    /// What happens.
    pub steps: Vec<Step>,
}

impl Story {
    /// Draws the story of a seed.
    pub fn of(seed: u64) -> Self {
        let mut chance = Chance::new(seed);
        let isolation = chance.of(&Isolation::BOTH);
        let busy = chance.of(&BUSY);
        let mut steps: Vec<Step> = (0..STEPS).map(|number| step(&mut chance, number)).collect();
        steps.extend((STEPS..STEPS + LATE_STEPS).map(|number| late_step(&mut chance, number)));
        Self { seed, isolation, busy, steps }
    }
}

impl fmt::Display for Story {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "seed {}, {:?}, busy = {:?}", self.seed, self.isolation, self.busy)?;
        self.steps.iter().enumerate().try_for_each(|(number, step)| writeln!(f, "{number:>3} {step:?}"))
    }
}

fn step(chance: &mut Chance, number: u64) -> Step {
    match chance.below(100) {
        0..=54 => write(chance, number),
        55..=57 => Step::Write {
            place: chance.of(&[Place::Dm, Place::Group]),
            who: STRANGER,
            text: format!("let me in <{number}>"),
            token: format!("<{number}>"),
            addressed: true,
        },
        58..=61 => Step::Order {
            place: place(chance),
            who: chance.of(&ADMITTED),
            order: chance.of(&["/stop", "/new", "/status"]),
        },
        62..=65 => Step::Again { back: usize::try_from(chance.below(6)).expect("below six") },
        66..=74 => sends(chance),
        75..=80 => Step::Trouble {
            what: chance.of(&[
                "hang_in",
                "panic_in",
                "panic_in",
                "abort_in",
                "panic_in_task",
                "lose_link",
                "lose_link",
            ]),
        },
        81..=82 => Step::Away { times: 1 + chance.below(3) },
        83..=86 => Step::Kill,
        87..=88 => Step::Restart,
        89..=92 => Step::DieAt {
            point: chance.of(&[
                "after_receive",
                "after_inbox_commit",
                "mid_turn",
                "after_owe",
                "mid_send",
                "after_send_before_settle",
            ]),
            nth: 1 + chance.below(3),
        },
        93..=94 => Step::SetClock { skew_ms: chance.of(&[-7_200_000, -60_000, 60_000, 3_600_000, 90_000_000]) },
        _ => Step::Rest { ms: chance.below(150) },
    }
}

fn late_step(chance: &mut Chance, number: u64) -> Step {
    match chance.below(100) {
        0..=59 => write(chance, number),
        60..=69 => Step::Deaths { times: 2 + chance.below(2) },
        70..=79 => Step::ChildDeaths { times: 1 + chance.below(3) },
        80..=86 => Step::Outage { times: 3 + chance.below(5) },
        // Within the time that rows are kept: a host that starts twice under a later clock lets older rows go.
        _ => Step::Jump { ms: chance.of(&[-90_000_000, -60_000, 3_600_000, 90_000_000, 1_700_000_000]) },
    }
}

fn write(chance: &mut Chance, number: u64) -> Step {
    let token = format!("<{number}>");
    let text = match chance.below(20) {
        0..=2 => format!("/slow {} one two three {token}", 10 + chance.below(60)),
        3 => format!("/fail {token}"),
        4 => format!("/panic {token}"),
        5 => format!("a list:\n\n- one\n- two\n\n```rust\nfn main() {{}}\n```\n\n{token}"),
        _ => format!("message {token}"),
    };
    let place = place(chance);
    // In a thread in which the agent has spoken, everybody speaks to it.
    let addressed = place != Place::Group || !chance.once_in(5);
    Step::Write { place, who: chance.of(&ADMITTED), text, token, addressed }
}

fn place(chance: &mut Chance) -> Place {
    chance.of(&[Place::Dm, Place::Dm, Place::Group, Place::Thread])
}

fn sends(chance: &mut Chance) -> Step {
    let refused = |kind: &str| json!({ "type": "refused", "kind": kind, "detail": "no" });
    let outcome = match chance.below(8) {
        0..=1 => json!({ "type": "not_sent", "retry_after_ms": 30 + chance.below(100), "scope": "chat" }),
        2 => json!({ "type": "not_sent", "retry_after_ms": 30 + chance.below(100), "scope": "instance" }),
        3 => json!({ "type": "not_sent" , "scope": "chat" }),
        4..=5 => json!({ "type": "unknown", "detail": "cut" }),
        6 => refused("bad_format"),
        _ => refused(chance.of(&["forbidden", "thread_gone", "invalid"])),
    };
    Step::Sends { outcome, times: 1 + chance.below(2) }
}
