//! Messages of a terminal that no host has accepted yet.

use std::collections::VecDeque;

use hermes_protocol::{CallError, Event};
use tokio::sync::mpsc;

/// Messages that are kept while no host accepts them. Further ones are refused.
const UNHEARD_MAX: usize = 32;

/// An event that a host did not accept.
pub struct NotTaken {
    pub event: Event,
    /// The error.
    pub error: CallError,
    /// The slot at which it was sent, counted from 0.
    pub seat: u64,
}

/// The treatment of an event that was not accepted.
#[derive(Debug)]
pub enum Fate {
    /// The event is kept for the next host.
    Waits,
    /// The event is sent again: the host that did not accept it was replaced by another one.
    SayAgain(Box<Event>),
    /// The event is lost, for this reason.
    Lost(String),
}

/// The events that wait for the next host.
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

    /// Returns the channel for events that were not accepted.
    pub fn told(&self) -> mpsc::Sender<NotTaken> {
        self.told.clone()
    }

    /// Returns the number of the current slot.
    pub fn seat(&self) -> u64 {
        self.seat
    }

    /// Waits for the next event that was not accepted. Cancel-safe.
    pub async fn next(&mut self) -> Option<NotTaken> {
        self.answers.recv().await
    }

    /// Keeps an event while no host is there. Returns `false` if the limit is reached.
    pub fn keep(&mut self, event: Event) -> bool {
        let has_room = self.events.len() < UNHEARD_MAX;
        if has_room {
            self.events.push_back(event);
        }
        has_room
    }

    /// Decides the treatment of an event that was not accepted. Only an event that a leaving host refuses waits.
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

    /// Collects the events that are known not to have been accepted. Returns the reasons of lost ones.
    pub fn gather(&mut self) -> Vec<String> {
        let mut lost = Vec::new();
        while let Ok(not_taken) = self.answers.try_recv() {
            if let Fate::Lost(why) = self.judge(not_taken) {
                lost.push(why);
            }
        }
        lost
    }

    /// Records the slot of another host. Returns the events that are to be sent first.
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
        NotTaken { event, error: CallError::new("unavailable", "lost the connection to the host"), seat }
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
        assert!(matches!(&lost, Fate::Lost(why) if why == "lost the connection to the host"), "{lost:?}");
        assert_eq!(unheard.seated().len(), UNHEARD_MAX);
    }
}
