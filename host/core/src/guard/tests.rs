use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

const WINDOWS: Windows =
    Windows { merge: ms(350), merge_max: ms(1_000), continuation: ms(2_000), continuation_max: ms(10_000) };

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn guard(queue_max: usize) -> Guard {
    Guard::new(queue_max, WINDOWS)
}

fn says(inbox: i64, by: &str, wish: BusyMode, join: Join) -> Arrival {
    Arrival { inbox: InboxId(inbox), by: by.to_owned(), wish, join }
}

/// Returns an arrival that waits and is joined with nothing.
fn waits(inbox: i64) -> Arrival {
    says(inbox, "ada", BusyMode::Queue, Join::Alone)
}

fn ids(numbers: &[i64]) -> Vec<InboxId> {
    numbers.iter().copied().map(InboxId).collect()
}

#[test]
fn a_second_message_waits_for_the_first_turn() {
    let mut guard = guard(2);
    assert_eq!(guard.arrive(waits(1), ms(0)), Admission::Run);
    assert_eq!(guard.arrive(waits(2), ms(0)), Admission::Queued { waiting: 1 });
    assert_eq!(guard.arrive(waits(3), ms(0)), Admission::Queued { waiting: 2 });
    assert_eq!(guard.arrive(waits(4), ms(0)), Admission::Refused { max: 2 });
    assert_eq!(guard.start(ms(9)), None, "a turn runs");
    for next in [2, 3] {
        assert!(guard.finished().is_empty());
        assert_eq!(guard.start(ms(9)), Some(vec![ids(&[next])]));
        assert_eq!(guard.running(), ids(&[next]));
    }
    assert!(guard.finished().is_empty());
    assert_eq!(guard.start(ms(9)), None);
    assert!(guard.is_idle());
}

#[test]
fn an_event_that_is_there_already_starts_nothing_and_keeps_its_place() {
    let mut guard = guard(4);
    let _ = guard.arrive(waits(1), ms(0));
    let _ = guard.arrive(waits(2), ms(0));
    assert_eq!(guard.arrive(waits(1), ms(0)), Admission::Known);
    assert_eq!(guard.arrive(waits(2), ms(0)), Admission::Known);
    assert_eq!(guard.depth(), 1);
}

#[test]
fn parts_of_an_album_wait_for_each_other_for_a_moment_and_are_one_message() {
    let mut guard = guard(9);
    let part = |inbox| says(inbox, "ada G", BusyMode::Interrupt, Join::Album);
    assert_eq!(guard.arrive(part(1), ms(0)), Admission::Held);
    assert_eq!(guard.arrive(part(2), ms(300)), Admission::Held);
    assert_eq!((guard.due(ms(500)), guard.due_at()), (None, Some(ms(650))));
    assert_eq!(guard.due(ms(650)), Some(Due::Start));
    assert_eq!(guard.start(ms(650)), Some(vec![ids(&[1, 2])]));
    assert_eq!(guard.arrive(part(3), ms(700)), Admission::Interrupts { waiting: 1 });
    assert_eq!(guard.due_at(), Some(ms(1_050)), "it, too, waits for others");
}

#[test]
fn parts_of_an_album_find_each_other_whatever_is_said_in_between_and_no_album_waits_for_ever() {
    let mut guard = guard(9);
    let _ = guard.arrive(waits(1), ms(0));
    let part = |inbox, album| says(inbox, album, BusyMode::Queue, Join::Album);
    let _ = guard.arrive(part(2, "ada G"), ms(0));
    let _ = guard.arrive(part(3, "ada H"), ms(0));
    let _ = guard.arrive(says(4, "bob", BusyMode::Queue, Join::Burst), ms(10));
    assert_eq!(guard.arrive(part(5, "ada G"), ms(9_000)), Admission::Joined { waiting: 4 });
    let _ = guard.finished();
    assert_eq!(guard.start(ms(9_000)), Some(vec![ids(&[2, 5])]), "its time was over long ago");
    let _ = guard.finished();
    assert_eq!(guard.start(ms(9_000)), Some(vec![ids(&[3])]));
}

#[test]
fn clearing_the_queue_leaves_the_running_turn() {
    let mut guard = guard(4);
    for id in 1..=4 {
        let _ = guard.arrive(waits(id), ms(0));
    }
    assert!(guard.withdraw(InboxId(3)));
    assert!(!guard.withdraw(InboxId(1)), "the running event is not withdrawn");
    assert_eq!(guard.clear(), ids(&[2, 4]));
    assert_eq!(guard.running(), ids(&[1]));
}

#[test]
fn after_an_interruption_the_next_turn_takes_all_that_waits_as_separate_messages() {
    let mut guard = guard(9);
    let _ = guard.arrive(waits(1), ms(0));
    let _ = guard.arrive(waits(2), ms(0));
    let interrupts = says(3, "ada", BusyMode::Interrupt, Join::Alone);
    assert_eq!(guard.arrive(interrupts, ms(5)), Admission::Interrupts { waiting: 2 });
    assert_eq!(guard.due_at(), Some(ms(5)));
    assert_eq!(guard.due(ms(5)), Some(Due::Interrupt));
    assert_eq!(guard.due(ms(5)), None, "said once");
    let _ = guard.arrive(waits(4), ms(6));
    guard.finished();
    assert_eq!(guard.start(ms(7)), Some(vec![ids(&[2]), ids(&[3]), ids(&[4])]));
    let _ = guard.arrive(waits(5), ms(8));
    let _ = guard.arrive(waits(6), ms(8));
    guard.finished();
    assert_eq!(guard.start(ms(9)), Some(vec![ids(&[5])]), "a turn that ends by itself gives way to one message");
}

#[test]
fn a_burst_interrupts_once_when_it_is_over_and_is_one_message() {
    let mut guard = guard(9);
    let part = |inbox| says(inbox, "ada", BusyMode::Interrupt, Join::Burst);
    let _ = guard.arrive(waits(1), ms(0));
    assert_eq!(guard.arrive(part(2), ms(100)), Admission::Interrupts { waiting: 1 });
    assert_eq!(guard.due(ms(400)), None);
    assert_eq!(guard.arrive(part(3), ms(450)), Admission::Joined { waiting: 2 });
    assert_eq!(guard.due_at(), Some(ms(800)));
    assert_eq!(guard.due(ms(800)), Some(Due::Interrupt));
    guard.finished();
    assert_eq!(guard.start(ms(800)), Some(vec![ids(&[2, 3])]));
}

#[test]
fn a_burst_without_end_interrupts_at_the_hard_cap() {
    let mut guard = guard(99);
    let _ = guard.arrive(waits(1), ms(0));
    for n in 0..10 {
        let _ = guard.arrive(says(2 + n, "ada", BusyMode::Interrupt, Join::Burst), ms(200 * n as u64));
    }
    assert_eq!(guard.due_at(), Some(ms(1_000)), "a second after its first part");
}

#[test]
fn what_two_people_say_is_never_joined() {
    let mut guard = guard(9);
    let part = |inbox, by| says(inbox, by, BusyMode::Queue, Join::Burst);
    let _ = guard.arrive(waits(1), ms(0));
    let _ = guard.arrive(part(2, "ada"), ms(1));
    assert_eq!(guard.arrive(part(3, "bob"), ms(2)), Admission::Queued { waiting: 2 });
    assert_eq!(guard.arrive(part(4, "ada"), ms(3)), Admission::Queued { waiting: 3 }, "bob spoke between");
    guard.finished();
    assert_eq!(guard.start(ms(9)), Some(vec![ids(&[2])]));
}

#[test]
fn a_short_text_never_waits_and_the_window_ends_with_the_running_turn() {
    let mut guard = guard(9);
    assert_eq!(guard.arrive(says(1, "ada", BusyMode::Queue, Join::Burst), ms(0)), Admission::Run);
    let _ = guard.arrive(says(2, "ada", BusyMode::Interrupt, Join::Burst), ms(10));
    guard.finished();
    assert_eq!(guard.due(ms(11)), Some(Due::Start));
    assert_eq!(guard.start(ms(11)), Some(vec![ids(&[2])]));
}

#[test]
fn a_long_text_waits_for_its_continuation_for_two_seconds_at_most() {
    let mut guard = guard(9);
    let cut = |inbox| says(inbox, "ada", BusyMode::Interrupt, Join::Cut);
    assert_eq!(guard.arrive(cut(1), ms(0)), Admission::Held);
    assert_eq!((guard.due_at(), guard.due(ms(1_999)), guard.start(ms(1_999))), (Some(ms(2_000)), None, None));
    assert_eq!(guard.arrive(cut(2), ms(1_500)), Admission::Held);
    assert_eq!(guard.due_at(), Some(ms(3_500)));
    assert_eq!(guard.arrive(says(3, "ada", BusyMode::Interrupt, Join::Burst), ms(3_400)), Admission::Held);
    assert_eq!(guard.due(ms(3_400)), Some(Due::Start), "a short continuation is the end");
    assert_eq!(guard.start(ms(3_400)), Some(vec![ids(&[1, 2, 3])]));
}

#[test]
fn a_continuation_is_found_although_somebody_else_spoke_between() {
    let mut guard = guard(9);
    let _ = guard.arrive(waits(1), ms(0));
    let _ = guard.arrive(says(2, "ada", BusyMode::Queue, Join::Cut), ms(0));
    let _ = guard.arrive(says(3, "bob", BusyMode::Queue, Join::Burst), ms(10));
    assert_eq!(guard.arrive(says(4, "ada", BusyMode::Queue, Join::Burst), ms(900)), Admission::Joined { waiting: 3 });
    guard.finished();
    assert_eq!(guard.start(ms(900)), Some(vec![ids(&[2, 4])]));
}

#[test]
fn what_was_said_before_a_held_text_starts_does_not_interrupt_it() {
    let mut guard = guard(9);
    assert_eq!(guard.arrive(says(1, "ada", BusyMode::Interrupt, Join::Cut), ms(0)), Admission::Held);
    assert_eq!(guard.arrive(says(2, "bob", BusyMode::Interrupt, Join::Burst), ms(5)), Admission::Held);
    assert_eq!(guard.start(ms(2_000)), Some(vec![ids(&[1])]));
    assert_eq!((guard.due_at(), guard.due(ms(9_000))), (None, None));
}

#[test]
fn steering_is_taken_by_the_running_turn_or_waits_when_it_is_late() {
    let mut guard = guard(9);
    let steers = |inbox| says(inbox, "ada", BusyMode::Steer, Join::Alone);
    let _ = guard.arrive(waits(1), ms(0));
    let _ = guard.arrive(waits(2), ms(0));
    assert_eq!(guard.arrive(steers(3), ms(1)), Admission::Steers { waiting: 2 });
    assert!(guard.steers());
    assert_eq!(guard.steer(ms(1)), [ids(&[3])]);
    assert_eq!(guard.running(), ids(&[1, 3]));
    let _ = guard.arrive(steers(4), ms(2));
    assert_eq!(guard.finished(), ids(&[4]), "it came too late");
    assert_eq!(guard.start(ms(3)), Some(vec![ids(&[2])]));
    assert!(!guard.steers());
    assert_eq!(guard.queued().collect::<Vec<_>>(), ids(&[4]));
}

#[test]
fn an_interruption_that_may_not_be_becomes_waiting() {
    let mut guard = guard(9);
    let _ = guard.arrive(waits(1), ms(0));
    let _ = guard.arrive(says(2, "ada", BusyMode::Interrupt, Join::Alone), ms(0));
    let _ = guard.arrive(waits(3), ms(0));
    assert_eq!(guard.due(ms(0)), Some(Due::Interrupt));
    assert_eq!(guard.demote(), ids(&[2]));
    assert_eq!((guard.due_at(), guard.due(ms(9_000))), (None, None));
    guard.finished();
    assert_eq!(guard.start(ms(9_000)), Some(vec![ids(&[2])]));
}

#[test]
fn what_wants_a_turn_of_its_own_gets_it_after_an_interruption_too() {
    let mut guard = guard(9);
    let _ = guard.arrive(waits(1), ms(0));
    let _ = guard.arrive(waits(2), ms(0));
    let _ = guard.arrive(says(3, "api", BusyMode::Queue, Join::OwnTurn), ms(0));
    let _ = guard.arrive(says(4, "ada", BusyMode::Interrupt, Join::Alone), ms(0));
    assert_eq!(guard.due(ms(0)), Some(Due::Interrupt));
    for expected in [2, 3, 4] {
        guard.finished();
        assert_eq!(guard.start(ms(1)), Some(vec![ids(&[expected])]));
    }
}

#[test]
fn what_steers_stays_behind_a_text_of_the_same_person_that_is_still_waited_for() {
    let mut guard = guard(9);
    let _ = guard.arrive(waits(1), ms(0));
    for (id, by, join) in [(2, "ada", Join::Cut), (3, "ada", Join::OwnTurn), (4, "bob", Join::Alone)] {
        let _ = guard.arrive(says(id, by, BusyMode::Steer, join), ms(0));
    }
    assert_eq!(guard.steer(ms(0)), vec![ids(&[4])]);
    assert_eq!(guard.steer(ms(5_000)), vec![ids(&[2]), ids(&[3])]);
}

/// A step of the property test.
#[derive(Clone, Debug)]
enum Step {
    Arrives { by: u8, wish: BusyMode, join: Join },
    Passes(u64),
    Ends,
    Takes,
    Demotes,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let wish = prop_oneof![Just(BusyMode::Interrupt), Just(BusyMode::Queue), Just(BusyMode::Steer)];
    let join = prop_oneof![
        1 => Just(Join::OwnTurn),
        2 => Just(Join::Alone),
        4 => Just(Join::Burst),
        2 => Just(Join::Cut)
    ];
    let step = prop_oneof![
        5 => (0u8..3, wish, join).prop_map(|(by, wish, join)| Step::Arrives { by, wish, join }),
        3 => (0u64..3_000).prop_map(Step::Passes),
        3 => Just(Step::Ends),
        1 => Just(Step::Takes),
        1 => Just(Step::Demotes),
    ];
    proptest::collection::vec(step, 0..200)
}

/// A record of all admitted events and their fate.
#[derive(Default)]
struct Book {
    by: BTreeMap<InboxId, u8>,
    wanted_own: BTreeMap<InboxId, bool>,
    ran: Vec<InboxId>,
    steered: Vec<InboxId>,
}

impl Book {
    fn turn(&mut self, groups: &[Group]) -> Result<(), TestCaseError> {
        for group in groups {
            prop_assert!(!group.is_empty());
            prop_assert!(group.iter().all(|id| self.by[id] == self.by[&group[0]]), "joined across people");
            prop_assert!(groups.len() == 1 && group.len() == 1 || !self.wanted_own[&group[0]]);
            self.ran.extend(group);
        }
        Ok(())
    }

    /// Checks that every admitted event ran once and that the non-steering events of each person ran in order.
    fn check(&self) -> Result<(), TestCaseError> {
        let mut all: Vec<_> = self.ran.iter().chain(&self.steered).copied().collect();
        all.sort_unstable();
        prop_assert_eq!(&all, &self.by.keys().copied().collect::<Vec<_>>());
        for person in 0..3 {
            for list in [&self.ran, &self.steered] {
                let theirs: Vec<_> = list.iter().filter(|id| self.by[id] == person).collect();
                prop_assert!(theirs.is_sorted(), "{theirs:?}");
            }
        }
        Ok(())
    }
}

proptest! {
    #[test]
    fn each_event_runs_exactly_once_and_in_order_under_all_modes(steps in steps(), max in 0usize..6) {
        let mut guard = Guard::new(max, WINDOWS);
        let (mut book, mut now, mut next) = (Book::default(), ms(0), 0);
        for step in steps {
            match step {
                Step::Arrives { by, wish, join } => {
                    next += 1;
                    let id = InboxId(next);
                    let ran = guard.runs();
                    let admission = guard.arrive(says(next, &by.to_string(), wish, join), now);
                    let refused = matches!(admission, Admission::Refused { .. });
                    prop_assert!(!refused || guard.depth() == max);
                    if !refused {
                        book.by.insert(id, by);
                        book.wanted_own.insert(id, join == Join::OwnTurn);
                    }
                    if admission == Admission::Run {
                        prop_assert!(!ran);
                        book.turn(&[vec![id]])?;
                    }
                }
                Step::Passes(passed) => now += ms(passed),
                Step::Ends => {
                    guard.finished();
                    if let Some(groups) = guard.start(now) {
                        book.turn(&groups)?;
                    }
                }
                Step::Takes => book.steered.extend(guard.steer(now).concat()),
                Step::Demotes => { guard.demote(); }
            }
            while let Some(due) = guard.due(now) {
                match due {
                    Due::Start => {
                        let groups = guard.start(now);
                        prop_assert!(groups.is_some(), "said to be due");
                        book.turn(&groups.unwrap_or_default())?;
                    }
                    Due::Interrupt => prop_assert!(guard.runs() && guard.depth() > 0),
                }
            }
            prop_assert!(guard.depth() <= max);
            prop_assert!(guard.due_at().is_none_or(|at| at > now), "nothing due is left undone");
            prop_assert!(guard.runs() || guard.depth() == 0 || guard.due_at().is_some(), "whoever waits is served");
        }
        while !guard.is_idle() {
            now += WINDOWS.continuation_max;
            guard.finished();
            if let Some(groups) = guard.start(now) {
                book.turn(&groups)?;
            }
        }
        book.check()?;
    }
}
