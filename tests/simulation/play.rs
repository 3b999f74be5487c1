//! Execution of a story with the built host.
//!
//! The platform is reliable: it delivers unacknowledged events again, in order, to every new run of its
//! adapter.

use std::{
    fs,
    path::PathBuf,
    thread,
    time::{Duration, Instant},
};

use hermes_tests::{Isolation, World, until};
use serde_json::{Value, json};

use crate::{
    model::{Model, Written},
    story::{ADMITTED, Place, Step, Story},
};

/// Time limit of the end phase until no delivery is pending, in seconds.
const CALM_S: u64 = 120;

/// Plays a story and checks the result.
pub fn play(story: &Story) {
    let mut play = Play::new(story);
    for step in &story.steps {
        play.step(step);
        play.revive();
        play.model.glance(&play.world.scripted.seen());
    }
    play.end();
}

struct Play {
    world: World,
    model: Model,
    /// All events, as received by the platform.
    events: Vec<Value>,
    /// Run of the adapter that has received the unacknowledged events.
    told_life: u64,
    skew_ms: i64,
    number: u64,
}

impl Play {
    fn new(story: &Story) -> Self {
        let world = World::with("");
        world.configure(&config(story.isolation, story.busy));
        let model = Model::new(story.busy == "interrupt");
        let mut play = Self { world, model, events: Vec::new(), told_life: 0, skew_ms: 0, number: 0 };
        play.start(None);
        play
    }

    fn step(&mut self, step: &Step) {
        match step {
            Step::Write { place, who, text, token, addressed } => {
                let event = self.event(*place, who, text, *addressed);
                let expected = *addressed && ADMITTED.contains(who);
                self.model.wrote(Written::new(&event, *place, who, text, token, expected));
                self.deliver(event);
            }
            Step::Order { place, who, order } => {
                let event = self.event(*place, who, order, true);
                self.model.ordered(order, *place, who);
                self.deliver(event);
            }
            Step::Again { back } => {
                if let Some(at) = self.events.len().checked_sub(1 + back) {
                    self.tell(&json!({ "do": "inbound", "event": self.events[at] }));
                }
            }
            Step::Sends { outcome, times } => {
                self.tell(&json!({ "do": "outcome", "for": "send", "outcome": outcome, "times": times }));
            }
            Step::Trouble { what: what @ ("panic_in_task" | "lose_link") } => self.tell(&json!({ "do": what })),
            Step::Trouble { what } => self.tell(&json!({ "do": what, "method": "send" })),
            Step::Away { times } => {
                let error = json!({ "type": "retry", "reason": "away", "after_ms": 20 });
                self.tell(&json!({ "do": "connect_error", "error": error, "times": times }));
                self.tell(&json!({ "do": "lose_link" }));
            }
            Step::Outage { times } => {
                let error = json!({ "type": "retry", "reason": "connection refused", "unreachable": true });
                self.tell(&json!({ "do": "connect_error", "error": error, "times": times }));
                self.tell(&json!({ "do": "lose_link" }));
            }
            Step::Deaths { times } => {
                for _ in 0..*times {
                    self.kill();
                    self.start(Some("after_send_before_settle:1".to_owned()));
                    self.wait_for(|play| !play.world.runs());
                }
            }
            Step::ChildDeaths { times } => {
                let lives = self.world.scripted.lives();
                let abort = json!({ "do": "abort_in", "method": "send" });
                (0..*times).for_each(|_| self.world.scripted.greet(abort.clone()));
                self.tell(&abort);
                self.wait_for(|play| !play.world.runs() || play.world.scripted.lives() >= lives + times);
                self.world.scripted.forget_greetings();
            }
            Step::Jump { ms } => fs::write(self.clock(), ms.to_string()).expect("the folder is ours"),
            Step::Kill => self.kill(),
            Step::Restart => {
                if self.world.runs() {
                    self.world.stop();
                }
            }
            Step::DieAt { point, nth } => {
                self.kill();
                self.start(Some(format!("{point}:{nth}")));
            }
            Step::SetClock { skew_ms } => {
                self.kill();
                self.skew_ms = *skew_ms;
            }
            Step::Rest { ms } => thread::sleep(Duration::from_millis(*ms)), // poll: the drawn pause
        }
    }

    /// Returns the file that sets the clock of a running host.
    fn clock(&self) -> PathBuf {
        self.world.home().with_file_name("clock")
    }

    /// Waits briefly for an event that need not happen.
    fn wait_for(&mut self, mut happens: impl FnMut(&mut Self) -> bool) {
        let until = Instant::now() + Duration::from_secs(2);
        while !happens(self) && Instant::now() < until {
            thread::sleep(Duration::from_millis(10)); // poll
        }
    }

    /// Restarts a dead host, and delivers unacknowledged events to a new run of the adapter.
    fn revive(&mut self) {
        if !self.world.runs() {
            self.start(None);
        }
        self.tell_again();
    }

    fn start(&mut self, die_at: Option<String>) {
        self.world.forget_ended();
        self.world.clear_environment();
        if let Some(point) = die_at {
            self.world.environment("HERMES_CRASH_AT", &point);
        }
        self.world.environment("HERMES_CLOCK_SKEW_MS", &self.skew_ms.to_string());
        let clock = self.clock().display().to_string();
        self.world.environment("HERMES_CLOCK_FILE", &clock);
        let lives = self.world.scripted.lives();
        self.world.launch();
        // A host that must die may do so before its adapter connects.
        until("the adapter lives or the host has died", 40, || {
            (self.world.scripted.lives() > lives || !self.world.runs()).then_some(())
        });
        self.tell_again();
    }

    fn kill(&mut self) {
        if self.world.runs() {
            self.world.kill();
        }
    }

    fn event(&mut self, place: Place, who: &str, text: &str, addressed: bool) -> Value {
        self.number += 1;
        let chat = match place {
            Place::Dm => json!({ "type": "dm", "id": who }),
            Place::Group => json!({ "type": "group", "id": "g" }),
            Place::Thread => json!({ "type": "group", "id": "g", "thread": "t" }),
        };
        json!({
            "type": "message", "event_id": format!("m:{}", self.number), "at_ms": 0, "chat": chat,
            "sender": { "id": who }, "message_id": self.number.to_string(), "text": text,
            "addressed": { "mention": addressed && place != Place::Dm },
        })
    }

    fn deliver(&mut self, event: Value) {
        self.tell_again();
        self.tell(&json!({ "do": "inbound", "event": event }));
        self.events.push(event);
    }

    fn tell(&self, what: &Value) {
        // Without a connection, the platform delivers its events later, and a fault has no effect.
        self.world.scripted.try_tell(what);
    }

    /// Delivers unacknowledged events to a run of the adapter that has not received them.
    fn tell_again(&mut self) {
        let life = self.world.scripted.lives();
        if life == self.told_life {
            return;
        }
        self.told_life = life;
        for event in self.unacknowledged() {
            self.tell(&json!({ "do": "inbound", "event": event }));
        }
    }

    fn unacknowledged(&self) -> Vec<Value> {
        let seen = self.world.scripted.seen();
        let is_acknowledged = |event: &Value| {
            seen.iter().any(|said| said["emitted"].is_object() && said["event_id"] == event["event_id"])
        };
        self.events.iter().filter(|event| !is_acknowledged(event)).cloned().collect()
    }

    /// Ends all faults, waits until all messages are settled, and checks the result.
    fn end(mut self) {
        self.kill();
        self.skew_ms = 0;
        // The file may not exist.
        let _ = fs::remove_file(self.clock());
        self.start(None);
        self.tell(&json!({ "do": "calm" }));
        let until = Instant::now() + Duration::from_secs(CALM_S);
        loop {
            self.tell_again();
            let queues = self.world.status()["queues"].clone();
            let unacknowledged = self.unacknowledged();
            if unacknowledged.is_empty() && ["inbox", "turns", "outbox"].iter().all(|queue| queues[queue] == 0) {
                break;
            }
            assert!(
                Instant::now() < until,
                "not settled in {CALM_S} s: {queues}, not acknowledged: {unacknowledged:?}, owed:\n{}",
                self.world.told(&["outbox", "list"])
            );
            thread::sleep(Duration::from_millis(100)); // poll: each look starts a process
        }
        assert_eq!(self.world.stop(), Some(0), "the host ends as asked");
        self.model.judge(&self.world.scripted.seen(), &self.world.home().join("state.db"));
    }
}

fn config(isolation: Isolation, busy: &str) -> String {
    let allowed = ADMITTED.map(|id| format!("{id:?}")).join(", ");
    let isolation = isolation.word();
    format!(
        r#"[host]
status = ""
plugins_dir = "plugins"
drain_s = 5
adapter_connect_s = 2
adapter_send_s = 1
adapter_call_s = 1
adapter_stop_s = 1
adapter_backoff_ms = 20
adapter_backoff_s_max = 1

[agent]
runtime = "echo"
test_words = true

[session]
busy = "{busy}"

[delivery]
backoff_ms = 10
backoff_s_max = 1
hold_s = 1

[adapter.scripted]
isolation = "{isolation}"
access = {{ allowed_users = [{allowed}], operators = [{allowed}] }}
socket = "SOCKET"
"#
    )
}
