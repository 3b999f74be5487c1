//! What was said at a terminal and what no host has taken yet.

use std::collections::VecDeque;

use hermes_protocol::{CallError, Event};
use tokio::sync::mpsc;

/// What is said while no host hears it; more is not taken.
const UNHEARD_MAX: usize = 32;

/// An event that a host did not take.
pub struct NotTaken {
    pub event: Event,
    /// Why.
    pub error: CallError,
    /// At which seat it was said, counted from 0.
    pub seat: u64,
}

/// What becomes of an event that was not taken.
#[derive(Debug)]
pub enum Fate {
    /// The next host hears it.
    Waits,
    /// The host that did not take it has gone, and another one is there.
    SayAgain(Box<Event>),
    /// Nobody hears it, for this reason.
    Lost(String),
}

/// What waits for the next host.
pub struct Unheard {
    events: VecDeque<Event>,
    seat: u64,
    told: mpsc::Sender<NotTaken>,
    answers: mpsc::Receiver<NotTaken>,
}

impl Unheard {
    pub fn new() -> Self {
        let (told, answers) = mpsc::channel(UNHEARD_MAX);
        Self { events: VecDeque::new(), seat: 0, told, answers }
    }

    /// Where events go that are not taken.
    pub fn told(&self) -> mpsc::Sender<NotTaken> {
        self.told.clone()
    }

    /// The seat at which something is said now.
    pub fn seat(&self) -> u64 {
        self.seat
    }

    /// Waits for the next event that was not taken. Cancel-safe.
    pub async fn next(&mut self) -> Option<NotTaken> {
        self.answers.recv().await
    }

    /// Keeps what is said while no host is there; `false`: it is too much.
    pub fn keep(&mut self, event: Event) -> bool {
        let has_room = self.events.len() < UNHEARD_MAX;
        if has_room {
            self.events.push_back(event);
        }
        has_room
    }

    /// Says what becomes of an event that was not taken. Only a host that leaves makes it wait.
    pub fn judge(&mut self, NotTaken { event, error, seat }: NotTaken) -> Fate {
        if error.code != "unavailable" {
            Fate::Lost(error.message)
        } else if seat != self.seat {
            Fate::SayAgain(Box::new(event))
        } else if self.keep(event) {
            Fate::Waits
        } else {
            Fate::Lost(error.message)
        }
    }

    /// Takes in what is known by now not to have been taken; returns why something of it is lost.
    pub fn gather(&mut self) -> Vec<String> {
        let mut lost = Vec::new();
        while let Ok(not_taken) = self.answers.try_recv() {
            if let Fate::Lost(why) = self.judge(not_taken) {
                lost.push(why);
            }
        }
        lost
    }

    /// Another host is there: returns what it is to hear first.
    pub fn seated(&mut self) -> VecDeque<Event> {
        self.seat += 1;
        std::mem::take(&mut self.events)
    }
}

#[cfg(test)]
mod tests {
    use hermes_protocol::{Chat, Sender};

    use super::*;

    fn not_taken(text: &str, seat: u64) -> NotTaken {
        let event = Event::message(text, Chat::dm("1"), Sender::default(), text);
        NotTaken { event, error: CallError::new("unavailable", "the host has gone"), seat }
    }

    fn texts(events: impl IntoIterator<Item = Event>) -> Vec<String> {
        events.into_iter().map(|event| event.text).collect()
    }

    #[test]
    fn what_is_said_as_the_host_goes_away_is_said_to_the_very_next_one() {
        let mut unheard = Unheard::new();
        assert!(unheard.told().try_send(not_taken("one", 0)).is_ok());
        assert!(unheard.gather().is_empty());
        assert!(unheard.keep(not_taken("two", 0).event));
        assert_eq!(texts(unheard.seated()), ["one", "two"]);
        assert!(unheard.seated().is_empty(), "and once");
    }

    #[test]
    fn what_comes_back_from_a_host_before_this_one_is_said_again_and_waits_for_no_third() {
        let mut unheard = Unheard::new();
        assert!(unheard.seated().is_empty());
        let late = unheard.judge(not_taken("late", 0));
        assert!(matches!(&late, Fate::SayAgain(event) if event.text == "late"), "{late:?}");
        let now = unheard.judge(not_taken("now", unheard.seat()));
        assert!(matches!(now, Fate::Waits), "{now:?}");
        assert_eq!(texts(unheard.seated()), ["now"]);
    }

    #[test]
    fn what_a_host_refuses_and_what_is_too_much_is_lost_with_its_reason() {
        let mut unheard = Unheard::new();
        let refused = NotTaken { error: CallError::new("too_large", "too long"), ..not_taken("long", 0) };
        assert!(unheard.told().try_send(refused).is_ok());
        assert_eq!(unheard.gather(), ["too long"]);
        while unheard.keep(not_taken("more", 0).event) {}
        let lost = unheard.judge(not_taken("too much", 0));
        assert!(matches!(&lost, Fate::Lost(why) if why == "the host has gone"), "{lost:?}");
        assert_eq!(unheard.seated().len(), UNHEARD_MAX);
    }
}
