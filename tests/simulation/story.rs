//! Stories drawn from seeds.

use std::fmt;

use hermes_tests::{Chance, Isolation};
use serde_json::{Value, json};

/// People with access.
pub const ADMITTED: [&str; 3] = ["1", "2", "3"];

/// Person without access.
pub const STRANGER: &str = "9";

/// Modes for messages that arrive during a turn.
pub const BUSY: [&str; 2] = ["queue", "interrupt"];

/// Number of steps in a story.
const STEPS: u64 = 45;

/// Number of additional steps: messages among deaths during the same send, long outages and clock changes.
const LATE_STEPS: u64 = 8;

/// Place of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// A direct message.
    Dm,
    /// The only group.
    Group,
    /// A thread of the group, shared by all members.
    Thread,
}

/// Step of a story.
#[derive(Clone, Debug)]
pub enum Step {
    /// A person writes a message; `text` ends with its token.
    Write { place: Place, who: &'static str, text: String, token: String, addressed: bool },
    /// A person sends a command.
    Order { place: Place, who: &'static str, order: &'static str },
    /// The platform delivers an earlier event again: the nth from the end.
    Again { back: usize },
    /// The next sends have this outcome.
    Sends { outcome: Value, times: u64 },
    /// A fault affects the next send; the words are those of the scripted adapter.
    Trouble { what: &'static str },
    /// The platform refuses the next connections.
    Away { times: u64 },
    /// The platform is unreachable for this number of connections.
    Outage { times: u64 },
    /// The host dies this number of times after a send and before its receipt.
    Deaths { times: u64 },
    /// The adapter process dies in the first send of this number of runs.
    ChildDeaths { times: u64 },
    /// The machine's clock is set while the host runs.
    Jump { ms: i64 },
    /// kill -9 of the host.
    Kill,
    /// The host shuts down and starts again.
    Restart,
    /// The host starts again and dies when it reaches a named point for the nth time.
    DieAt { point: &'static str, nth: u64 },
    /// The host is killed, and the machine's clock is set before the next start.
    SetClock { skew_ms: i64 },
    /// A short pause.
    Rest { ms: u64 },
}

/// The story of one seed.
#[derive(Clone, Debug)]
pub struct Story {
    /// Seed of the story.
    pub seed: u64,
    /// Isolation of the adapter.
    pub isolation: Isolation,
    /// Mode for messages that arrive during a turn.
    pub busy: &'static str,
    /// Steps in order.
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
        // Within the retention of rows: a host that starts twice with a later clock removes older rows.
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
    // In a thread in which the agent has written, every message is addressed to it.
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
